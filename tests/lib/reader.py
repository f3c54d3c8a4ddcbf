#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads filter files as man/seen.5 describes them, and by nothing else.

    reader.py query FILTER [SECRET] <KEYS    print the records whose key is present; exit like
                                             `seen query`. SECRET is the file of a secret.
    reader.py counts FILTER [SECRET] <KEYS   the same, with the count and a tab before each, where
                                             keys have counts
    reader.py verify FILTER                  check the header and every checksum; exit 2 if one is
                                             wrong

It shares no code with the program and needs no module that Python does not bring along. Where the
two disagree, the page, the program or this reader is wrong. It is simple, and slow.
"""

import hashlib
import math
import mmap
import struct
import sys
import time

M32 = (1 << 32) - 1
M64 = (1 << 64) - 1


# ---- XXH3, 64 bits, default secret (xxHash 0.8)

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def u32(b, at):
    return int.from_bytes(b[at:at + 4], "little")


def u64(b, at):
    return int.from_bytes(b[at:at + 8], "little")


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def rotl(v, n):
    return (v << n | v >> (64 - n)) & M64


def swap64(v):
    return int.from_bytes(v.to_bytes(8, "little"), "big")


def swap32(v):
    return int.from_bytes(v.to_bytes(4, "little"), "big")


def xxh64_avalanche(h):
    h = (h ^ h >> 33) * P64_2 & M64
    h = (h ^ h >> 29) * P64_3 & M64
    return h ^ h >> 32


def avalanche(h):
    h = (h ^ h >> 37) * MX1 & M64
    return h ^ h >> 32


def mix16(b, at, secret, secret_at, seed):
    low = u64(b, at) ^ (u64(secret, secret_at) + seed & M64)
    high = u64(b, at + 8) ^ (u64(secret, secret_at + 8) - seed & M64)
    return fold(low, high)


def xxh3_short(b, seed):
    n = len(b)
    if n > 8:
        low = u64(b, 0) ^ ((u64(SECRET, 24) ^ u64(SECRET, 32)) + seed & M64)
        high = u64(b, n - 8) ^ ((u64(SECRET, 40) ^ u64(SECRET, 48)) - seed & M64)
        return avalanche((n + swap64(low) + high + fold(low, high)) & M64)
    if n >= 4:
        seed ^= swap32(seed & M32) << 32
        both = u32(b, n - 4) + (u32(b, 0) << 32)
        h = both ^ ((u64(SECRET, 8) ^ u64(SECRET, 16)) - seed & M64)
        h ^= rotl(h, 49) ^ rotl(h, 24)
        h = h * MX2 & M64
        h ^= (h >> 35) + n
        h = h * MX2 & M64
        return h ^ h >> 28
    if n > 0:
        both = b[0] << 16 | b[n >> 1] << 24 | b[n - 1] | n << 8
        return xxh64_avalanche(both ^ ((u32(SECRET, 0) ^ u32(SECRET, 4)) + seed & M64))
    return xxh64_avalanche(seed ^ u64(SECRET, 56) ^ u64(SECRET, 64))


def xxh3_middle(b, seed):
    n = len(b)
    acc = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            acc += mix16(b, 16 * i, SECRET, 32 * i, seed)
            acc += mix16(b, n - 16 * (i + 1), SECRET, 32 * i + 16, seed)
        return avalanche(acc & M64)
    for i in range(8):
        acc += mix16(b, 16 * i, SECRET, 16 * i, seed)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix16(b, 16 * i, SECRET, 16 * (i - 8) + 3, seed)
    acc += mix16(b, n - 16, SECRET, 136 - 17, seed)
    return avalanche(acc & M64)


def xxh3_long(b, seed):
    n = len(b)
    secret = b"".join(
        struct.pack("<QQ", u64(SECRET, i) + seed & M64, u64(SECRET, i + 8) - seed & M64)
        for i in range(0, 192, 16))
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    words = struct.unpack("<%dQ" % (n // 8), b[:n // 8 * 8])
    keys = [struct.unpack_from("<8Q", secret, at) for at in range(0, 129, 8)]

    def accumulate(stripe, key):
        for i in range(8):
            keyed = stripe[i] ^ key[i]
            acc[i ^ 1] += stripe[i]
            acc[i] = acc[i] + (keyed & M32) * (keyed >> 32) & M64

    # A block is 16 stripes of 64 bytes, as many as the secret has 8-byte steps for.
    stripes = (n - 1) // 64
    for s in range(stripes):
        accumulate(words[8 * s:8 * s + 8], keys[s % 16])
        if s % 16 == 15:
            for i in range(8):
                acc[i] &= M64
                acc[i] = (acc[i] ^ acc[i] >> 47 ^ keys[16][i]) * P32_1 & M64
    accumulate(struct.unpack("<8Q", b[n - 64:]), struct.unpack_from("<8Q", secret, 192 - 64 - 7))

    h = n * P64_1
    for i in range(0, 8, 2):
        h += fold(acc[i] & M64 ^ u64(secret, 11 + 8 * i),
                  acc[i + 1] & M64 ^ u64(secret, 19 + 8 * i))
    return avalanche(h & M64)


def xxh3(b, seed):
    if len(b) <= 16:
        return xxh3_short(b, seed)
    if len(b) <= 240:
        return xxh3_middle(b, seed)
    return xxh3_long(b, seed)


# ---- MurmurHash3 x64 128

def murmur3_lanes(b, seed):
    """Both halves of the hash, as little-endian numbers."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F

    def first(x):
        return rotl(x * c1 & M64, 31) * c2 & M64

    def second(x):
        return rotl(x * c2 & M64, 33) * c1 & M64

    def last(x):
        x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & M64
        x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & M64
        return x ^ x >> 33

    h1 = h2 = seed
    whole = len(b) // 16 * 16
    for at in range(0, whole, 16):
        h1 = ((rotl(h1 ^ first(u64(b, at)), 27) + h2) * 5 + 0x52DCE729) & M64
        h2 = ((rotl(h2 ^ second(u64(b, at + 8)), 31) + h1) * 5 + 0x38495AB5) & M64
    rest = b[whole:].ljust(16, b"\0")
    h1 ^= first(u64(rest, 0)) ^ len(b)
    h2 ^= second(u64(rest, 8)) ^ len(b)
    h1 = h1 + h2 & M64
    h2 = h1 + h2 & M64
    h1, h2 = last(h1), last(h2)
    h1 = h1 + h2 & M64
    return h1, h1 + h2 & M64


def murmur3_suffix(b, seed):
    return tuple(murmur3_lanes(b + bytes([i]), seed)[0] for i in range(14))


# ---- HighwayHash, 128 bits

HIGHWAY_KEY = (0x9E3779B97F4A7C15, 0xF39CC0605CEDC834, 0x1082276BF3A27251, 0xF86C6A11D0C18E95)
HIGHWAY_MUL = (
    (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3),
    (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377),
)


def swap_halves(v):
    return v >> 32 | v << 32 & M64


def rotl32(v, n):
    return (v << n | v >> 32 - n) & M32


class Highway:
    def __init__(self):
        self.mul0, self.mul1 = map(list, HIGHWAY_MUL)
        self.v0 = [m ^ k for m, k in zip(self.mul0, HIGHWAY_KEY)]
        self.v1 = [m ^ swap_halves(k) for m, k in zip(self.mul1, HIGHWAY_KEY)]

    def update(self, lanes):
        for i, a in enumerate(lanes):
            self.v1[i] = self.v1[i] + self.mul0[i] + a & M64
            self.mul0[i] ^= (self.v1[i] & M32) * (self.v0[i] >> 32)
            self.v0[i] = self.v0[i] + self.mul1[i] & M64
            self.mul1[i] ^= (self.v0[i] & M32) * (self.v1[i] >> 32)
        self.zipper(self.v1, self.v0)
        self.zipper(self.v0, self.v1)

    @staticmethod
    def zipper(of, to):
        for i in (0, 2):
            b = struct.pack("<2Q", of[i], of[i + 1])
            even, odd = (3, 12, 2, 5, 14, 1, 15, 0), (11, 4, 10, 13, 9, 6, 8, 7)
            to[i] = to[i] + u64(bytes(b[at] for at in even), 0) & M64
            to[i + 1] = to[i + 1] + u64(bytes(b[at] for at in odd), 0) & M64

    def rest(self, b):
        """The last bytes, fewer than 32."""
        n = len(b)
        self.v0 = [v + (n << 32) + n & M64 for v in self.v0]
        self.v1 = [rotl32(v & M32, n) | rotl32(v >> 32, n) << 32 for v in self.v1]
        packet, left = bytearray(32), b[n & ~3:]
        packet[:n & ~3] = b[:n & ~3]
        if n >= 16:
            packet[28:] = b[-4:]
        elif left:
            packet[16:19] = left[0], left[len(left) >> 1], left[-1]
        self.update(struct.unpack("<4Q", packet))

    def lanes(self):
        for _ in range(6):
            self.update([swap_halves(self.v0[i]) for i in (2, 3, 0, 1)])
        v = zip(self.v0[:2], self.mul0[:2], self.v1[2:], self.mul1[2:])
        return tuple(sum(four) & M64 for four in v)


def highway(b, _seed):
    state, whole = Highway(), len(b) & ~31
    for at in range(0, whole, 32):
        state.update(struct.unpack_from("<4Q", b, at))
    if b[whole:]:
        state.rest(b[whole:])
    return state.lanes()


# ---- MurmurHash64A, MurmurHash2, FNV-1

def murmur64a(b, seed):
    m, whole = 0xC6A4A7935BD1E995, len(b) & ~7
    h = seed ^ len(b) * m & M64
    for at in range(0, whole, 8):
        x = u64(b, at) * m & M64
        h = (h ^ (x ^ x >> 47) * m & M64) * m & M64
    if b[whole:]:
        h = (h ^ u64(b, whole)) * m & M64
    h = (h ^ h >> 47) * m & M64
    return h ^ h >> 47


def murmur64a_pair(b, seed):
    first = murmur64a(b, seed)
    return first, murmur64a(b, first if seed > M32 else first & M32)


def murmur2(b, seed):
    m, whole = 0x5BD1E995, len(b) & ~3
    h = seed ^ len(b)
    for at in range(0, whole, 4):
        x = u32(b, at) * m & M32
        h = h * m & M32 ^ (x ^ x >> 24) * m & M32
    if b[whole:]:
        h = (h ^ u32(b, whole)) * m & M32
    h = (h ^ h >> 13) * m & M32
    return h ^ h >> 15


def murmur2_pair(b, seed):
    first = murmur2(b, seed & M32)
    return first, murmur2(b, first)


def fnv1(b, _seed):
    h = 0xCBF29CE484222325
    for byte in b:
        h = h * 0x100000001B3 & M64 ^ byte
    return h


def murmur3_twice(b, seed):
    return murmur3_lanes(b, seed) + murmur3_lanes(b + b"\1", seed)


def murmur3_spark(b, seed):
    whole, h = len(b) & ~3, seed & M32
    words = [u32(b, at) for at in range(0, whole, 4)]
    for k in words + [byte - (byte >> 7 << 8) & M32 for byte in b[whole:]]:
        k = k * 0xCC9E2D51 & M32
        h ^= (k << 15 | k >> 17) * 0x1B873593 & M32
        h = (h << 13 | h >> 19) & M32
        h = h * 5 + 0xE6546B64 & M32
    h ^= len(b)
    h = (h ^ h >> 16) * 0x85EBCA6B & M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & M32
    return h ^ h >> 16


def murmur3_spark_pair(b, seed):
    first = murmur3_spark(b, seed)
    return first, murmur3_spark(b, first)


def siphash(b, key):
    """SipHash-2-4 with a key of 16 bytes."""
    k0, k1 = u64(key, 0), u64(key, 8)
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    full = len(b) // 8 * 8
    words = [u64(b, at) for at in range(0, full, 8)]
    words.append(int.from_bytes(b[full:], "little") | (len(b) & 0xFF) << 56)
    for word, rounds in [(w, 2) for w in words] + [(None, 4)]:
        if word is None:
            v2 ^= 0xFF
        else:
            v3 ^= word
        for _ in range(rounds):
            v0, v2 = v0 + v1 & M64, v2 + v3 & M64
            v1, v3 = rotl(v1, 13) ^ v0, rotl(v3, 16) ^ v2
            v0, v2 = rotl(v0, 32) + v3 & M64, v2 + v1 & M64
            v1, v3 = rotl(v1, 17) ^ v2, rotl(v3, 21) ^ v0
            v2 = rotl(v2, 32)
        if word is not None:
            v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3


def derive(secret, purpose, data):
    return hashlib.blake2b(data, digest_size=16, key=secret, person=purpose).digest()


# ---- the functions of the PHP class: int stands for PHP's integers, float for its doubles

def as_int(x):
    return (int(x) + (1 << 63)) % (1 << 64) - (1 << 63)


def is_int(x):
    return isinstance(x, int) and -1 << 63 <= x < 1 << 63


def plus(a, b):
    return a + b if is_int(a + b) else float(a) + float(b)


def times(a, b):
    return a * b if is_int(a * b) else float(a) * float(b)


def left(a, n):
    return as_int(a << n)


def bkdr(b):
    h = 0
    for c in b:
        h = as_int(plus(times(h, 131), c))
    return h


def sdbm(b):
    h = 0
    for c in b:
        h = as_int(plus(plus(plus(c, left(h, 6)), left(h, 16)), -h))
    return h


def js(b):
    h = 1315423911
    for c in b:
        h ^= as_int(plus(plus(left(h, 5), c), h >> 2))
    return h


def djb(b):
    h = 5381
    for c in b:
        h = plus(as_int(plus(left(as_int(h), 5), h)), c)
    return as_int(h)


def dek(b):
    h = len(b)
    for c in b:
        h = left(h, 5) ^ h >> 27 ^ c
    return h


def fnv_php(b):
    h = 2166136261
    for c in b:
        h = as_int(times(h, 16777619)) % 4294967295 ^ c
    return h


def elf(b):
    h = 0
    for c in b:
        h = as_int(plus(left(h, 4), c))
        x = h & 0xF0000000
        h = (h ^ x >> 24) & ~x
    return h


def pjw(b):
    h = 0
    for c in b:
        h = as_int(plus(left(h, 4), c))
    x = h & 0xFFFFFFFF0000000
    return (h ^ x >> 24) & ~0xFFFFFFFF0000000 if x else h


PHP = {1: bkdr, 2: sdbm, 3: js, 4: djb, 5: dek, 6: fnv_php, 7: elf, 8: pjw}


def php(b, seed):
    numbers = [seed >> shift & 15 for shift in range(0, 64, 4)]
    n = numbers.index(0) if 0 in numbers else 16
    if n > 8 or any(numbers[n:]) or any(number not in PHP for number in numbers[:n]):
        return (0,) * 8
    values = [PHP[number](b) for number in numbers[:n]]
    # % of PHP has the sign of the dividend.
    values = [(abs(v) % 4294967295 * (-1 if v < 0 else 1)) & M32 for v in values]
    return tuple(values + [0] * (8 - n))


def single(function):
    return lambda b, seed: (function(b, seed),)


# Number: lanes, function.
HASHES = {
    1: (1, single(xxh3)),
    2: (2, murmur3_lanes),
    3: (14, murmur3_suffix),
    4: (2, highway),
    5: (2, murmur64a_pair),
    6: (2, murmur2_pair),
    8: (1, single(fnv1)),
    9: (8, php),
    10: (1, single(siphash)),  # its seed is a key
    11: (4, murmur3_twice),
    12: (2, murmur3_spark_pair),
}
KEYED = 10


# ---- encodings of keys

def text(key):
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        raise Unreadable("a key that is not UTF-8")


def integer(bits):
    def parse(key):
        digits = key[1:] if key[:1] in (b"+", b"-") else key
        require(digits and not set(digits) - set(b"0123456789"), "a key that is no integer")
        n = int(digits) * (-1 if key[:1] == b"-" else 1)
        require(-1 << bits - 1 <= n < 1 << bits - 1, "a key out of range")
        return n
    return parse


def units(s):
    return struct.unpack("<%dH" % (len(s.encode("utf-16-le")) // 2), s.encode("utf-16-le"))


def json_string(s):
    out = ""
    for c in s:
        if c in '"\\':
            out += "\\" + c
        elif c in "\b\t\n\f\r":
            out += "\\" + "btnfr"["\b\t\n\f\r".index(c)]
        elif c < " " or c > "\uffff":
            out += "".join("\\u%04X" % unit for unit in units(c))
        else:
            out += c
    return b'"' + out.encode() + b'"'


def groups(n):
    return bytes([n]) if n < 128 else bytes([128 | n & 127]) + groups(n >> 7)


def kryo_string(s):
    u = len(units(s))
    if 2 <= u <= 32 and s.isascii():
        return s[:-1].encode() + bytes([ord(s[-1]) | 128])
    v = u + 1
    length = bytes([128 | v]) if v < 64 else bytes([192 | v % 64]) + groups(v // 64)
    return length + b"".join(chr(unit).encode("utf-8", "surrogatepass") for unit in units(s))


def kryo_integer(n):
    n = 2 * n if n >= 0 else -2 * n - 1
    if n < 1 << 63:  # 63 bits are nine groups
        return groups(n)
    return bytes(128 | n >> 7 * i & 127 for i in range(8)) + bytes([n >> 56])


# What a key is, and how that is encoded.
ENCODINGS = {
    0: (bytes, bytes),
    1: (text, str.encode),
    2: (text, lambda s: s.encode("utf-16-le")),
    3: (integer(32), lambda n: struct.pack("<i", n)),
    4: (integer(64), lambda n: struct.pack("<q", n)),
    5: (integer(64), lambda n: b"%d" % n),
    6: (integer(32), lambda n: b"%d" % n),
    7: (text, json_string),
    8: (text, lambda s: b"\3" + kryo_string(s)),
    9: (integer(64), lambda n: b"\11" + kryo_integer(n)),
    10: (integer(32), lambda n: b"\2" + kryo_integer(n)),
    11: (text, lambda s: b"\3\1" + kryo_string(s)),
}


def md4(b):
    """RFC 1320; hashlib no longer has it everywhere."""
    b, bits = b + b"\x80", 8 * len(b)
    b += bytes(-(len(b) + 8) % 64) + struct.pack("<Q", bits)
    state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476]
    rounds = (
        (lambda x, y, z: x & y | ~x & z, 0, (3, 7, 11, 19), range(16)),
        (lambda x, y, z: x & y | x & z | y & z, 0x5a827999, (3, 5, 9, 13),
         [i % 4 * 4 + i // 4 for i in range(16)]),
        (lambda x, y, z: x ^ y ^ z, 0x6ed9eba1, (3, 9, 11, 15),
         [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]),
    )
    for at in range(0, len(b), 64):
        words, (a, x, y, z) = struct.unpack_from("<16I", b, at), state
        for mix, constant, shifts, order in rounds:
            for i, word in enumerate(order):
                sum_, by = a + mix(x, y, z) + words[word] + constant & M32, shifts[i % 4]
                a, x, y, z = z, (sum_ << by | sum_ >> 32 - by) & M32, x, y
        state = [s + t & M32 for s, t in zip(state, (a, x, y, z))]
    return struct.pack("<4I", *state)


DIGESTS = {
    1: lambda key: hashlib.sha1(key).digest(),
    2: lambda key: hashlib.sha256(key).digest(),
    3: lambda key: hashlib.md5(key).digest(),
    4: lambda key: md4(text(key).encode("utf-16-le")),
}


# ---- the file

MAGIC = bytes.fromhex("89 73 65 65 6e 0d 0a 1a")
PAGE = 4096
IMMUTABLE, BATCHES, WITH_SECRET = 1, 2, 4
TRIM, FOLD, HEX, UPPER = 1, 2, 4, 8
FIXED, GROWS, RING = 0, 1, 2


class Unreadable(Exception):
    """What is wrong with a file."""


class Damaged(Unreadable):
    """The bytes are not those that were written."""


def require(condition, what):
    if not condition:
        raise Unreadable(what)


def zero(b):
    return not any(b)


def parity(v):
    return v.bit_count() & 1


class Bloom:
    """Kind 1. Below, read(at, length) gives bytes of the layer's data."""

    MULTIPLIERS = (0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1)

    def __init__(self, layer, immutable):
        self.pages, self.k, self.lines, rest = layer.geometry
        require(not immutable and self.pages * PAGE == layer.length and 1 <= self.k <= 22
                and 1 <= self.lines <= 2 and self.k % self.lines == 0 and rest == 0,
                "geometry out of range")

    def where(self, h):
        """The page that decides about a key of hash h, its lines there, and the bits in them."""
        a = h % 64
        b = a ^ 1 + (h // 64 % 65536) * 63 // 65536
        words = [fold(h, c) for c in self.MULTIPLIERS]
        probes = [words[i // 7] >> 9 * (i % 7) & 511 for i in range(self.k)]
        of_line = [a if self.lines == 1 or i < self.k // 2 else b for i in range(self.k)]
        return h * self.pages >> 64, list(zip(of_line, probes))

    lanes = 1

    def has(self, lanes, read):
        number, bits = self.where(lanes[0])
        return all(read(PAGE * number + 64 * line + bit // 8, 1)[0] >> bit % 8 & 1
                   for line, bit in bits)


class Ribbon:
    """Kind 2."""

    ENTRY = 32
    BUMPED_BELOW = (0, 15, 34, 128)

    def __init__(self, layer, _immutable):
        self.s, entries, self.r, self.w = layer.geometry
        self.directory = layer.length - self.ENTRY * entries
        require(self.s <= 40 and entries == 1 << self.s and 1 <= self.r <= 32
                and self.w < 1 << 32 and (self.w == 0 or self.r < 32)
                and layer.length % 8 == 0 and self.directory >= 0, "geometry out of range")

    @staticmethod
    def mix(x):
        for _ in range(2):
            x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & M64
        return x ^ x >> 32

    lanes = 1

    def has(self, lanes, read):
        h = lanes[0]
        entry = read(self.directory + self.ENTRY * (h >> 64 - self.s), self.ENTRY)
        require(zero(entry[29:]), "a directory entry is wrong")
        thresholds, listed = u64(entry, 0), u32(entry, 20)
        segments = struct.unpack_from("<3I", entry, 8)
        require(max(segments) <= 65536 and thresholds % 8 == 0, "a directory entry is wrong")
        require(all(a or not b for a, b in zip(segments, segments[1:])),
                "a table behind one without segments")
        head = sum((count + 7) // 8 for count in segments)
        the_list = thresholds + (head + 7) // 8 * 8
        columns = the_list + 8 * listed
        for t, count in enumerate(segments):
            if count == 0:
                break
            table = Table(self.r, self.w, count, columns)
            number = t + 8 * entry[28]
            x = rotl(h, self.s)
            if number:
                x = self.mix(x + number * 0x9E3779B97F4A7C15 & M64)
            start = x * (table.slots - 63) >> 64
            bucket = start // 128
            threshold = read(thresholds + bucket // 4, 1)[0] >> 2 * (bucket % 4) & 3
            if start % 128 >= self.BUMPED_BELOW[threshold]:
                return table.has(x, start, read)
            thresholds += (count + 7) // 8
            columns = table.end
        return any(u64(read(the_list + 8 * i, 8), 0) == h for i in range(listed))


class Table:
    """One table of a ribbon filter's block; its columns are at `at` in the data."""

    def __init__(self, r, w, segments, at):
        self.r, self.at = r, at
        self.slots = 64 * segments
        self.narrow = ((1 << 32) - w) * (self.slots - 63) >> 38 if w else segments
        self.end = self.place(segments)

    def place(self, segment):
        return self.at + 8 * (segment * self.r + max(0, segment - self.narrow))

    def has(self, x, start, read):
        c = Ribbon.mix(x ^ 0x5BD1E9955BD1E995) | 1
        y = x * 0xC28F82822B650BED & M64
        fingerprint = (y >> 32 ^ y >> 7) & M32
        segment, offset = divmod(start, 64)
        width = self.r + (segment >= self.narrow)
        for j in range(width):
            at = self.place(segment) + 8 * j
            bit = parity(u64(read(at, 8), 0) & c << offset & M64)
            if offset:
                bit ^= parity(u64(read(at + 8 * width, 8), 0) & c >> 64 - offset)
            if bit != fingerprint >> j & 1:
                return False
        return True


class Bits:
    """Numbers of any width, low bit first, from `at` on in some bytes."""

    def __init__(self, b):
        self.all, self.at, self.end = int.from_bytes(b, "little"), 0, 8 * len(b)

    def take(self, width):
        require(self.at + width <= self.end, "a block ends too early")
        self.at += width
        return self.all >> self.at - width & (1 << width) - 1


def read_count(bits, k):
    """A count in the exponential Golomb code of order k."""
    c = 0
    while not bits.take(1):
        c += 1
    require(c + k <= 64, "a count is too large")
    count = bits.take(c + k) + ((1 << c) - 1 << k) + 1
    require(count <= M64, "a count is too large")
    return count


class Counted:
    """Kind 3."""

    lanes = 1
    SLACK = 16

    def __init__(self, layer, immutable):
        self.width, self.low, self.entries, self.total = layer.geometry
        self.length = layer.length
        require(immutable and 1 <= self.width <= 64, "geometry out of range")
        require(self.entries <= min(1 << 48, 1 << self.width, 8 * self.length, self.total)
                and (self.entries > 0 or self.total == 0), "geometry out of range")
        most = max(self.entries, 1) * 7 // 4
        require(self.low == min(low for low in range(64) if low == 63 or self.buckets(low) <= most),
                "other buckets than those for its keys")
        self.blocks = (self.buckets(self.low) + 127) // 128
        self.directory = 8 * self.blocks
        require(self.directory + self.SLACK <= self.length <= 1 << 48, "geometry out of range")

    def buckets(self, low):
        return ((1 << self.width) - 1 >> low) + 1

    def place(self, number, read):
        """Where a block begins and ends in the data, and the number of its entries."""
        begin = u64(read(8 * number - 8, 8), 0) % (1 << 48) if number > 0 else 0
        line = u64(read(8 * number, 8), 0)
        end, n = line % (1 << 48), line >> 48
        require(begin <= end <= self.length - self.SLACK - self.directory, "a block out of the data")
        require((n == 0) == (begin == end) and n <= 128 << self.low, "a block of no such length")
        return self.directory + begin, self.directory + end, n

    def block(self, number, read):
        """The fingerprints and counts of a block."""
        begin, end, n = self.place(number, read)
        if n == 0:
            return {}
        bits, first, of, bucket = Bits(read(begin, end - begin)), number * 128 << self.low, [], 0
        while bucket < 128:
            if bits.take(1):
                bucket += 1
            else:
                of.append(bucket)
        require(len(of) == n, "another number of entries")
        values = [first + (bucket << self.low) + bits.take(self.low) for bucket in of]
        require(values == sorted(set(values)) and values[-1] < 1 << self.width,
                "fingerprints out of order")
        counts = [1] * n
        if bits.end - bits.at >= 8:
            k = bits.take(8)
            require(k < 64, "a count is too large")
            counts = [read_count(bits, k) for _ in of]
            require(set(counts) != {1}, "counts that are all 1")
        rest = bits.end - bits.at
        require(rest < 8 and bits.take(rest) == 0, "bits behind a block")
        return dict(zip(values, counts))

    def count(self, lanes, read):
        v = lanes[0] >> 64 - self.width
        return self.block(v >> self.low + 7, read).get(v, 0)

    def has(self, lanes, read):
        return self.count(lanes, read) > 0

    def verify(self, read):
        entries, total = 0, 0
        for number in range(self.blocks):
            got = self.block(number, read)
            entries, total = entries + len(got), total + sum(got.values())
        end = self.place(self.blocks - 1, read)[1]
        require((end, entries, total) == (self.length - self.SLACK, self.entries, self.total)
                and zero(read(end, self.SLACK)),
                "a counted set has more or fewer entries than it says")


class Classic:
    """What the kinds 16 to 23 share: k positions in an array of m bits."""

    def __init__(self, layer, immutable):
        self.m, packed, self.extra, self.detail = layer.geometry
        self.k, self.v = packed & 0xffff, packed >> 16
        self.length = layer.length - self.extra
        require(not immutable and 1 <= self.m <= 1 << 45 and 1 <= self.k <= 4096
                and self.length == (self.m + 63) // 64 * 8 and self.fits(layer),
                "geometry out of range")

    def fits(self, _layer):
        return self.v == self.extra == self.detail == 0

    def has(self, lanes, read):
        return all(read(at // 8, 1)[0] >> at % 8 & 1 for at in self.positions(lanes))


class Guava(Classic):
    """Kind 16."""

    lanes = 2

    def fits(self, _layer):
        return (self.m % 64 == 0 and self.m // 64 < 1 << 31 and self.k <= 255 and self.v <= 1
                and (self.extra == self.detail == 0 or self.detail == 1))

    def positions(self, lanes):
        if self.v == 1:
            return [(lanes[0] + i * lanes[1] & M64 >> 1) % self.m for i in range(self.k)]
        low, high = lanes[0] & M32, lanes[0] >> 32
        sums = [low + i * high & M32 for i in range(1, self.k + 1)]
        return [(x if x < 1 << 31 else M32 - x) % self.m for x in sums]


class GoZero(Classic):
    """Kind 17."""

    lanes = 14

    def fits(self, layer):
        return super().fits(layer) and self.m <= 1 << 32 and self.k == 14

    def positions(self, lanes):
        return [h % self.m for h in lanes]


class Redisson(Classic):
    """Kind 18."""

    lanes = 2

    def fits(self, layer):
        return super().fits(layer) and self.m <= (1 << 32) - 2

    def positions(self, lanes):
        return [((1 + i // 2) * lanes[0] + (i + 1) // 2 * lanes[1] & M64 >> 1) % self.m
                for i in range(self.k)]


class Php(Classic):
    """Kind 19."""

    lanes = 8

    def fits(self, layer):
        return super().fits(layer) and self.m == 1 << 32 and self.k <= 8

    def positions(self, lanes):
        return lanes[:self.k]


class RedisBloom(Classic):
    """Kind 20."""

    lanes = 2

    def fits(self, layer):
        power, form, no_bits, missing = (self.v & 63, self.v >> 10 & 3, self.v >> 12 & 1,
                                         self.v >> 13 & 7)
        bits = 8 * (layer.length - missing)
        per_key, = struct.unpack("<d", struct.pack("<Q", self.detail))
        newest = form == 2
        return (layer.length % 8 == 0 and self.m <= bits and 0 < per_key < 1e5 and form <= 2
                and math.ceil(0.693147180559945 * per_key) == self.k
                and (self.m == 1 << power if power else not newest or self.m == bits)
                and not (no_bits and (newest or not power))
                and not (form == 0 and self.v >> 16))

    def positions(self, lanes):
        return [(lanes[0] + i * lanes[1] & M64) % self.m for i in range(self.k)]


class Dcso(Classic):
    """Kind 21."""

    lanes = 1

    def fits(self, _layer):
        return self.v == 0 and self.detail <= 1

    def positions(self, lanes):
        p, g = (1 << 64) - 59, (1 << 64) - 1469
        x, found = lanes[0] % p, []
        for _ in range(self.k):
            x = (x * g & M64) % p
            found.append(x % self.m)
        return found


class BitsAndBlooms(Classic):
    """Kind 22."""

    lanes = 4

    def fits(self, _layer):
        length = self.m + (self.detail >> 2)
        return (self.v == 0 and length <= 1 << 45 and self.detail & 3 != 2
                and self.extra == (length + 63) // 64 * 8 - (self.m + 63) // 64 * 8)

    def positions(self, lanes):
        a, b, c, d = lanes
        parts = ((a, c), (b, d), (a, d), (b, c))
        return [(parts[i % 4][0] + i * parts[i % 4][1] & M64) % self.m for i in range(self.k)]


class Spark(Classic):
    """Kind 23."""

    lanes = 2

    def fits(self, _layer):
        return (self.m % 64 == 0 and self.m // 64 < 1 << 31 and self.v in (1, 2)
                and self.extra == self.detail == 0)

    def positions(self, lanes):
        h1, h2 = (h - (h >> 31 << 32) for h in lanes)
        if self.v == 1:
            sums = [h1 + i * h2 & M32 for i in range(1, self.k + 1)]
            return [(x if x < 1 << 31 else M32 - x) % self.m for x in sums]
        x, found = h1 * ((1 << 31) - 1), []
        for _ in range(self.k):
            x += h2
            x = ~x if x < 0 else x
            found.append(x % self.m)
        return found


KINDS = {1: Bloom, 2: Ribbon, 3: Counted, 16: Guava, 17: GoZero, 18: Redisson, 19: Php, 20: RedisBloom,
         21: Dcso, 22: BitsAndBlooms, 23: Spark}


class Layer:
    def __init__(self, b, policy, immutable):
        require(u32(b, 0) in KINDS, "unknown kind of layer")
        self.generation, self.length = u32(b, 4), u64(b, 24)
        self.geometry = struct.unpack_from("<4Q", b, 32)
        require(policy != FIXED or zero(b[4:8]) and zero(b[64:72]),
                "a layer's zeroes are not zero")
        require(policy == FIXED or u32(b, 0) < 16 or u32(b, 0) == 20, "a kind that does not grow")
        self.void = policy == RING and self.generation == 0
        self.since = u64(b, 64)
        rate, = struct.unpack_from("<d", b, 80)
        require(0 <= rate <= 1, "a layer's history is out of range")
        require(0 < struct.unpack_from("<d", b, 16)[0] < 1,
                "a layer's false positive rate is out of range")
        require(self.length > 0, "a layer has no data")
        self.pages = (self.length + PAGE - 1) // PAGE
        self.kind = KINDS[u32(b, 0)](self, immutable)


class Header:
    """One header slot: the bytes of the file from there on."""

    def __init__(self, b):
        if b[:8] != MAGIC:
            raise Damaged("no filter file")
        length = u32(b, 12) if len(b) >= 16 else 0
        if not 16 <= length <= min(PAGE, len(b)) or xxh3(b[:length - 8], 0) != u64(b, length - 8):
            raise Damaged("header damaged")
        require(u32(b, 8) == 1, "format version unknown")
        self.incompat = u32(b, 24)
        require(self.incompat & ~(IMMUTABLE | BATCHES | WITH_SECRET) == 0,
                "needs a feature that is unknown")
        n_layers = u32(b, 28)
        require(1 <= n_layers <= 42, "number of layers out of range")
        self.immutable = bool(self.incompat & IMMUTABLE)
        features = {0: 0, 1: 64}.get(u32(b, 16) >> 16, 136)
        end = 256 + 88 * n_layers
        if self.incompat & BATCHES:
            batches = length - 8 - features - end
            require(0 < batches <= 128 * 16 and batches % 16 == 0,
                    "number of batches out of range")
            end += batches
        require(length == (end + features + 8 if self.immutable else PAGE),
                "length of the header wrong")
        self.epoch, self.state, function = u64(b, 32), u32(b, 40), u32(b, 44)
        require(1 <= self.epoch < 1 << 63 and self.state <= 2, "epoch or state out of range")
        require(function in HASHES, "hash function unknown")
        lanes, self.hash = HASHES[function]
        self.keyed = bool(self.incompat & WITH_SECRET)
        require(self.keyed == (function == KEYED), "a secret without a hash function for it")
        self.secret_id, self.proof = b[160:176], b[176:192]
        self.proven = b[44:48] + b[72:76] + b[48:56]
        self.seed, self.id, self.preparation = u64(b, 48), b[56:72], u32(b, 72)
        require(self.preparation >> 24 == 0 and self.preparation & 0xff < 2 * UPPER,
                "key preparation unknown")
        encoding, digest = self.preparation >> 8 & 0xff, self.preparation >> 16
        require(encoding in ENCODINGS, "key encoding unknown")
        require(digest == 0 or digest in DIGESTS, "key digest unknown")
        require(~self.preparation & (FOLD | UPPER) != 0, "keys folded to both cases")
        require(digest == 0 or encoding == 0 and not self.preparation & HEX,
                "a digest of keys with another preparation")
        self.encoding = ENCODINGS[encoding]
        self.digest = DIGESTS.get(digest)
        require(u32(b, 76) == 0, "bytes set that must be zero")
        require(0 < struct.unpack_from("<d", b, 88)[0] < 1, "false positive rate out of range")
        self.file_length = u64(b, 96)
        self.policy = u32(b, 152)
        require(self.policy <= RING and not (self.immutable and self.policy), "policy unknown")
        self.check_reading(u32(b, 192), struct.unpack_from("<15i", b, 196))
        require(self.policy == RING or zero(b[144:152]), "a period without a ring")
        require(zero(b[156:160]) and (self.keyed or zero(b[160:192])) and
                zero(b[end:length - 8 - features]), "zeroes that are not zero")
        self.length = length
        if u32(b, 16) >> 16 & 1:
            self.check_profile(b[length - 72:length - 8])
        self.layers = [Layer(b[at:at + 88], self.policy, self.immutable)
                       for at in range(256, 256 + 88 * n_layers, 88)]
        require(all(layer.kind.lanes <= lanes for layer in self.layers), "hash of too few lanes")
        require(n_layers == 1 or not any(isinstance(layer.kind, Counted) for layer in self.layers),
                "a counted set that is not alone")
        if self.policy in (GROWS, RING):
            require(len({layer.generation for layer in self.layers}) == n_layers,
                    "two layers of one generation")
        if self.policy == RING:
            require(n_layers >= 2, "a ring of one layer")
        self.period = u64(b, 144)
        self.place_layers()

    def counts(self, layer):
        """Do the keys of this layer count, or are they too old?"""
        newest = max(self.layers, key=lambda layer: layer.generation)
        now = max(int(time.time()), newest.since)
        if newest.since == 0 or newest.since - time.time() > self.period or \
                now - newest.since - self.period > 365 * 86400:
            now = newest.since
        return not layer.void and (
            self.period == 0 or now < layer.since + len(self.layers) * self.period)

    @staticmethod
    def check_profile(p):
        n, shortest, longest = struct.unpack_from("<3H", p, 2)
        pairs = [int.from_bytes(p[at:at + 3], "little") for at in range(8, 62, 3)]
        counts = [count for pair in pairs for count in (pair & 0xfff, pair >> 12)]
        require(p[0] == (n > 0) and zero(p[1:2] + p[62:]), "bytes of the profile that are not zero")
        require(n <= 4095 and max(counts) <= n and shortest <= longest and (n > 0 or zero(p)),
                "numbers of the profile out of range")

    @staticmethod
    def check_reading(how, fields):
        """How keys were cut from records: of advice to a reader, not of use."""
        n = len([f for f in fields if f != 0])
        parted = how >> 2 & 1, how >> 8 & 255
        if how & 0x60:
            text = struct.pack("<15i", *fields)
            require(how & ~0xff61 == 0 and how & 0x61 in (0x21, 0x41) and (how & 0x20 or how >> 8 == 0), "reading unknown")
            require(text.rstrip(b"\0").count(b"\0") == 0 and text[-1] == 0, "reading has no text")
            return
        require(how & ~0xff1f == 0 and (how & 1 or how == n == 0), "reading unknown")
        require(n > 0 or not how & 8, "the rest of no field")
        require(all(abs(f) <= 10**6 for f in fields) and all(fields[:n]), "fields out of range")
        require(not all(parted) and (n > 0 or not any(parted)), "two ways to part fields, or none")

    def place_layers(self):
        """Parts in order, each at the next place that is aligned; the last one ends the file."""
        step = 8 if self.immutable else PAGE
        end = self.length if self.immutable else 3 * PAGE
        self.gaps = []
        for number, layer in enumerate(self.layers):
            layer.number, layer.touched = number, 0
            data, sums = ("data", layer.length), ("sums", 4 * layer.pages)
            touched = "touched", (layer.pages + 7) // 8
            for part, length in (data, sums) if self.immutable else (sums, touched, data):
                at = (end + step - 1) // step * step
                setattr(layer, part, at)
                self.gaps.append((end, at))
                end = at + length
        require(end == self.file_length, "the last layer does not end the file")


class Filter:
    def __init__(self, path, secret=None):
        # Mapped: a bitmap of the PHP class has 512 MiB, most of them holes.
        with open(path, "rb") as f:
            empty = f.seek(0, 2) == 0
            self.bytes = b"" if empty else mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self.header = self.choose_header()
        longer = len(self.bytes) - self.header.file_length
        require(longer == 0 or longer > 0 and self.header.policy == GROWS,
                "the file has another length")
        self.good_pages = set()
        self.start = self.header.seed
        if self.header.keyed and secret is not None:
            self.start = self.key_of(secret)

    def key_of(self, secret):
        """The key of the hash function, from the right secret."""
        require(len(secret) == 32, "a secret of another length")
        require(derive(secret, b"seen secret id", b"") == self.header.secret_id, "another secret")
        require(derive(secret, b"seen header", self.header.proven) == self.header.proof,
                "the header was made without the secret")
        return derive(secret, b"seen siphash-2-4", struct.pack("<Q", self.header.seed))

    def choose_header(self):
        slots = []
        for at in (0, PAGE):
            try:
                slots.append(Header(self.bytes[at:at + PAGE]))
            except Damaged as damage:
                reason = damage
            if slots and slots[0].immutable:
                break
        if not slots:
            raise reason
        return max(slots, key=lambda slot: slot.epoch)

    def check_page(self, layer, number):
        """A page of a layer's data must match its checksum, unless a writer has marked it."""
        if (layer.number, number) in self.good_pages:
            return
        session = 2 * PAGE
        changing = u32(self.bytes, session + 8) % 2 or u32(self.bytes, session + 12)
        if self.header.state != 0 and layer.touched and changing and (
                self.bytes[layer.touched + number // 8] >> number % 8 & 1):
            return
        at = layer.data + number * PAGE
        page = self.bytes[at:min(at + PAGE, layer.data + layer.length)]
        base = xxh3(self.header.id + struct.pack("<Q", layer.number), 0)
        if xxh3(page, base + number & M64) & M32 != u32(self.bytes, layer.sums + 4 * number):
            raise Damaged("page %d at offset %d does not match its checksum" % (number, at))
        self.good_pages.add((layer.number, number))

    def reader(self, layer):
        """A function that gives bytes of a layer's data, from pages that were checked."""
        def read(at, length):
            require(at + length <= layer.length, "a layer points outside its data")
            for number in range(at // PAGE, (at + length - 1) // PAGE + 1):
                self.check_page(layer, number)
            return self.bytes[layer.data + at:layer.data + at + length]
        return read

    def prepare(self, key):
        if self.header.preparation & TRIM:
            key = key.strip(b" \t")
        if self.header.preparation & FOLD:
            key = key.lower()  # of bytes: only A to Z
        if self.header.preparation & UPPER:
            key = key.upper()
        if self.header.preparation & HEX:
            require(not set(key) - set(b"0123456789abcdefABCDEF") and len(key) % 2 == 0,
                    "a key that is not hexadecimal")
            key = bytes.fromhex(key.decode("ascii"))
        if self.header.digest is not None:
            key = self.header.digest(key)
        value_of, encode = self.header.encoding
        return encode(value_of(key))

    def hash(self, key):
        require(not self.header.keyed or isinstance(self.start, bytes), "needs a secret")
        return self.header.hash(self.prepare(key), self.start)

    def __contains__(self, key):
        lanes = self.hash(key)
        return any(layer.kind.has(lanes, self.reader(layer))
                   for layer in self.header.layers if self.header.counts(layer))

    def count(self, key):
        lanes, layer = self.hash(key), self.header.layers[0]
        return layer.kind.count(lanes, self.reader(layer))

    def verify(self):
        for start, end in self.header.gaps:
            require(zero(self.bytes[start:end]), "bytes between the parts are not zero")
        live = [layer for layer in self.header.layers if not layer.void]
        for layer in live:
            for number in range(layer.pages):
                self.check_page(layer, number)
            if hasattr(layer.kind, "verify"):
                layer.kind.verify(self.reader(layer))
        if self.header.state == 0 and not self.header.immutable:
            page = self.bytes[2 * PAGE:3 * PAGE]
            require(zero(page), "clean, but the session page is not zero")
            for layer in live:
                touched = self.bytes[layer.touched:layer.touched + (layer.pages + 7) // 8]
                require(zero(touched), "clean, but pages are marked as touched")


def main(command, path, secret_path=None):
    try:
        secret = None
        if secret_path is not None:
            with open(secret_path, "rb") as f:
                secret = f.read()
        seen = Filter(path, secret)
        if command == "verify":
            seen.verify()
            return 0
        selected = 1
        for record in sys.stdin.buffer:
            if command == "counts":
                count = seen.count(record.removesuffix(b"\n"))
                if count:
                    sys.stdout.buffer.write(b"%d\t" % count + record)
                    selected = 0
            elif record.removesuffix(b"\n") in seen:
                sys.stdout.buffer.write(record)
                selected = 0
        return selected
    except (Unreadable, OSError) as reason:
        print("reader.py: %s: %s" % (path, reason), file=sys.stderr)
        return 2


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("query", "counts", "verify"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
