#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Keys that an attacker makes who knows the hash function, for filters made with -x (--hex).

    attacks.py twins KEYFILE           for each key, another with the same hash
    attacks.py fill FILTER LINES SEED  keys that fill so many lines of a Bloom layer, chosen so that
                                       each sets as many new bits as a few tries find
    attacks.py spread FILTER N SEED    N keys, each of which sets only new bits

FILTER is read as seen(5) says. No key is longer than 8 bytes; XXH3 of 8 bytes can be inverted.
"""
import random
import sys

from crafted import key_of
from reader import M64, Bloom, Filter, xxh3

TRIES = 60  # for a key that fills a line; more find somewhat more new bits


class Target:
    """The first layer of a filter, and which of its bits are set."""

    def __init__(self, path):
        seen = Filter(path)
        layer = seen.header.layers[0]
        assert isinstance(layer.kind, Bloom)
        self.where = layer.kind.where
        self.pages = layer.pages
        self.bits = bytearray(seen.bytes[layer.data:layer.data + layer.length])

    def new_bits(self, h):
        page, bits = self.where(h)
        places = {4096 * 8 * page + 512 * line + bit for line, bit in bits}
        return {at for at in places if not self.bits[at >> 3] >> (at & 7) & 1}

    def set(self, places):
        for at in places:
            self.bits[at >> 3] |= 1 << (at & 7)


def twins(path):
    with open(path) as f:
        for line in f:
            yield key_of(xxh3(bytes.fromhex(line.strip()), 0))


def fill(path, lines, seed):
    """The first line of `lines` pages: one key after the other, the best of some tries."""
    target, draw = Target(path), random.Random(seed)
    for page in draw.sample(range(target.pages), lines):
        low, high = -(-(page << 64) // target.pages), ((page + 1) << 64) // target.pages - 1
        first = draw.randrange(64)
        while True:
            tries = (draw.randint(low, high) & ~63 & M64 | first for _ in range(TRIES))
            new, h = max(((target.new_bits(h), h) for h in tries if h >= low),
                         key=lambda found: len(found[0]))
            if not new:
                break
            target.set(new)
            yield key_of(h)


def spread(path, n, seed):
    target, draw = Target(path), random.Random(seed)
    while n > 0:
        h = draw.getrandbits(64)
        page, bits = target.where(h)
        new = target.new_bits(h)
        if len(new) == len(bits):
            target.set(new)
            n -= 1
            yield key_of(h)


if __name__ == "__main__":
    how, path, *numbers = sys.argv[1:]
    attack = {"twins": twins, "fill": fill, "spread": spread}[how]
    for key in attack(path, *map(int, numbers)):
        print(key.hex())
