#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keys whose hashes are chosen: crafted.py CROWD N prints N of them, 16 hex digits each.

XXH3 of 8 bytes is a chain of steps that can each be undone (XXH3_rrmxmx in xxhash.h)."""
import sys

MASK = (1 << 64) - 1
MULTIPLIER = 0x9FB21C651E98DF25
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
# Bytes 8 to 24 of the default secret, two words xored.
FLIP = 0x1CAD21F72C81017C ^ 0xDB979083E96DD4DE


def key_of(h):
    h ^= h >> 28 ^ h >> 56
    top = h * INVERSE & MASK
    h = top ^ (top >> 35) + 8
    h = top ^ (h >> 35) + 8
    h = h * INVERSE & MASK
    # x ^ rotl(x, 49) ^ rotl(x, 24), done 64 times, is x.
    for _ in range(63):
        h ^= (h << 49 | h >> 15) & MASK ^ (h << 24 | h >> 40) & MASK
    h ^= FLIP
    return (h >> 32 | h << 32 & MASK).to_bytes(8, "little")


def spread(i, bits):
    """Number i, spread over that many bits; no two are equal."""
    return i * 0x9E3779B97F4A7C15 % (1 << bits)


CROWDS = {
    "partition": lambda i: 1 << 63 | spread(i, 63),
    "page": lambda i: 0xABCDEF << 40 | spread(i, 40),
    "run": lambda i: MASK - i,
    "clusters": lambda i: (0xFFFFFFFF << 32 if i & 1 else 0x7FFFFF << 40) + i,
}

if __name__ == "__main__":
    crowd = CROWDS[sys.argv[1]]
    for i in range(int(sys.argv[2])):
        print(key_of(crowd(i)).hex())
