# SPDX-License-Identifier: MIT
"""The layouts a second time, in Python: written from their description, without the program's code.

Slow, and plain. It stands in for programs that Debian has no package of (run_second in `interop`), and
says where the bits go for those that keep a plain bitmap in Redis.
"""

import math
import struct

M64 = 2**64 - 1
M32 = 2**32 - 1


def rotl(x, n):
    return (x << n | x >> 64 - n) & M64


# ---- Hash functions


def murmur3_128(key):
    """murmur3 x64 128 with seed 0: two numbers of 64 bits."""
    c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
    h1 = h2 = 0
    whole = len(key) & ~15
    for k1, k2 in struct.iter_unpack("<QQ", key[:whole]):
        h1 ^= rotl(k1 * c1 & M64, 31) * c2 & M64
        h1 = ((rotl(h1, 27) + h2) * 5 + 0x52dce729) & M64
        h2 ^= rotl(k2 * c2 & M64, 33) * c1 & M64
        h2 = ((rotl(h2, 31) + h1) * 5 + 0x38495ab5) & M64
    tail = key[whole:]
    if len(tail) > 8:
        h2 ^= rotl(int.from_bytes(tail[8:], "little") * c2 & M64, 33) * c1 & M64
    if tail:
        h1 ^= rotl(int.from_bytes(tail[:8], "little") * c1 & M64, 31) * c2 & M64
    h1 ^= len(key)
    h2 ^= len(key)
    h1 = h1 + h2 & M64
    h2 = h2 + h1 & M64
    h1, h2 = final3(h1), final3(h2)
    h1 = h1 + h2 & M64
    return h1, h2 + h1 & M64


def final3(x):
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd & M64
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53 & M64
    return x ^ x >> 33


def murmur64a(key, seed):
    m = 0xc6a4a7935bd1e995
    h = seed ^ len(key) * m & M64
    whole = len(key) & ~7
    for (x,) in struct.iter_unpack("<Q", key[:whole]):
        x = x * m & M64
        h = (h ^ (x ^ x >> 47) * m & M64) * m & M64
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & M64
    h = (h ^ h >> 47) * m & M64
    return h ^ h >> 47


def murmur2(key, seed):
    m = 0x5bd1e995
    h = seed ^ len(key) & M32
    whole = len(key) & ~3
    for (x,) in struct.iter_unpack("<I", key[:whole]):
        x = x * m & M32
        h = h * m & M32 ^ (x ^ x >> 24) * m & M32
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & M32
    h = (h ^ h >> 13) * m & M32
    return h ^ h >> 15


class Highway:
    """HighwayHash-128 with Redisson's key."""

    KEY = (0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95)
    MUL0 = (0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3)
    MUL1 = (0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377)

    def __init__(self):
        self.mul0, self.mul1 = list(self.MUL0), list(self.MUL1)
        self.v0 = [m ^ k for m, k in zip(self.MUL0, self.KEY)]
        self.v1 = [m ^ swap(k) for m, k in zip(self.MUL1, self.KEY)]

    def update(self, a):
        v0, v1, mul0, mul1 = self.v0, self.v1, self.mul0, self.mul1
        for i in range(4):
            v1[i] = x = v1[i] + mul0[i] + a[i] & M64
            mul0[i] ^= (x & M32) * (v0[i] >> 32)
            v0[i] = y = v0[i] + mul1[i] & M64
            mul1[i] ^= (y & M32) * (x >> 32)
        mix(v1, v0)
        mix(v0, v1)

    def rest(self, tail):
        """The last 1 to 31 bytes."""
        r = len(tail)
        for i in range(4):
            self.v0[i] = self.v0[i] + (r << 32) + r & M64
            low, high = self.v1[i] & M32, self.v1[i] >> 32
            low = (low << r | low >> 32 - r) & M32
            high = (high << r | high >> 32 - r) & M32
            self.v1[i] = high << 32 | low
        packet = bytearray(32)
        whole, odd = r & ~3, r & 3
        packet[:whole] = tail[:whole]
        if r >= 16:
            packet[28:] = tail[-4:]
        elif odd:
            packet[16] = tail[whole]
            packet[17] = tail[whole + (odd >> 1)]
            packet[18] = tail[whole + odd - 1]
        self.update(struct.unpack("<4Q", packet))


def swap(x):
    return (x << 32 | x >> 32) & M64


def mix(source, target):
    for e in (0, 2):
        low, high = source[e].to_bytes(8, "little"), source[e + 1].to_bytes(8, "little")
        target[e] = target[e] + int.from_bytes(bytes(
            (low[3], high[4], low[2], low[5], high[6], low[1], high[7], low[0])), "little") & M64
        target[e + 1] = target[e + 1] + int.from_bytes(bytes(
            (high[3], low[4], high[2], high[5], high[1], low[6], high[0], low[7])), "little") & M64


def highway128(key):
    state = Highway()
    whole = len(key) & ~31
    for words in struct.iter_unpack("<4Q", key[:whole]):
        state.update(words)
    if key[whole:]:
        state.rest(key[whole:])
    for _ in range(6):
        v0 = state.v0
        state.update((swap(v0[2]), swap(v0[3]), swap(v0[0]), swap(v0[1])))
    return tuple(state.v0[i] + state.mul0[i] + state.v1[i + 2] + state.mul1[i + 2] & M64
                 for i in (0, 1))


# ---- What becomes of a key before it is hashed. Keys are the bytes of a record: text is UTF-8,
# ---- numbers are decimal.


def varint(x):
    out = bytearray()
    while x > 0x7f:
        out.append(x & 0x7f | 0x80)
        x >>= 7
    out.append(x)
    return bytes(out)


def zigzag(x, bits):
    return (x << 1 ^ x >> bits - 1) & 2**bits - 1


def json_string(key):
    out = bytearray(b'"')
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"',
             "\\": "\\\\"}
    for c in key.decode():
        if c in short:
            out += short[c].encode()
        elif c < " ":
            out += b"\\u%04X" % ord(c)
        elif c > "\uffff":
            x = ord(c) - 0x10000
            out += b"\\u%04X\\u%04X" % (0xd800 | x >> 10, 0xdc00 | x & 0x3ff)
        else:
            out += c.encode()
    return bytes(out + b'"')


def kryo_string(key):
    units = [u for (u,) in struct.iter_unpack("<H", key.decode().encode("utf-16-le"))]
    if not units:
        return b"\x03\x81"
    if 2 <= len(units) <= 32 and max(units) < 0x80:
        units[-1] |= 0x80
        return b"\x03" + bytes(units)
    v = len(units) + 1
    out = b"\x03" + (bytes((0x80 | v,)) if v < 64 else bytes((0xc0 | v & 63,)) + varint(v >> 6))
    return out + b"".join(chr(u).encode("utf-8", "surrogatepass") for u in units)


def kryo_long(key):
    x, out = zigzag(int(key), 64), bytearray(b"\x09")
    while x > 0x7f and len(out) < 9:
        out.append(x & 0x7f | 0x80)
        x >>= 7
    out.append(x)
    return bytes(out)


CODECS = {
    "string": bytes,
    "bytes": bytes,
    "long": bytes,
    "int": bytes,
    "json": json_string,
    "kryo5": kryo_string,
    "kryo5long": kryo_long,
    "kryo5int": lambda key: b"\x02" + varint(zigzag(int(key), 32)),
}


# ---- Positions and sizes


def gozero_positions(key, m):
    return [murmur3_128(key + bytes((i,)))[0] % m for i in range(14)]


def redisson_positions(key, codec, m, k):
    h1, h2 = highway128(CODECS[codec](key))
    out, h = [], h1
    for i in range(k):
        out.append((h & 2**63 - 1) % m)
        h = h + (h1 if i % 2 else h2) & M64
    return out


def redisson_size(n, p):
    m = int(-n * math.log(p) / (math.log(2) * math.log(2)))
    return m, max(1, math.floor(m / n * math.log(2) + 0.5))


# ---- RedisBloom: a chain of links

NOROUND, ENTS_IS_BITS, FORCE64, NO_SCALING = 1, 2, 4, 8


class Link:
    def __init__(self, n, error, options):
        self.error, self.size = error, 0
        self.bpe = abs(math.log(error) / 0.480453013918201)
        self.k = math.ceil(0.693147180559945 * self.bpe)
        if options & NOROUND:
            self.n2, self.entries = 0, n
            bits = max(int(n * self.bpe), 1)
        elif options & ENTS_IS_BITS:
            self.n2 = n
            bits = 1 << n
            self.entries = int(bits / self.bpe)
        else:
            self.n2 = int(math.log2(n * self.bpe)) + 1
            bits = 1 << self.n2
            self.entries = n + int(int(bits - n * self.bpe) / self.bpe)
        self.bytes = 8 * ((bits + 63) // 64)
        self.bits = 8 * self.bytes
        self.mod = 1 << self.n2 if self.n2 else self.bits
        self.data = bytearray(self.bytes)

    def positions(self, a, b):
        return [(a + i * b & M64) % self.mod for i in range(self.k)]

    def has(self, a, b):
        return all(self.data[x >> 3] >> (x & 7) & 1 for x in self.positions(a, b))

    def add(self, a, b):
        self.size += 1
        for x in self.positions(a, b):
            self.data[x >> 3] |= 1 << (x & 7)

    def header(self):
        return struct.pack("<QQQddIQB", self.bytes, self.bits, self.size, self.error, self.bpe,
                           self.k, self.entries, self.n2)


class Chain:
    def __init__(self, n, error, options=FORCE64 | NOROUND, growth=2):
        self.options, self.growth = options, growth
        error = error if options & NO_SCALING else error * 0.5
        self.links = [Link(n, error, options)]

    def pair(self, key):
        if self.options & FORCE64:
            a = murmur64a(key, 0xc6a4a7935bd1e995)
            return a, murmur64a(key, a)
        a = murmur2(key, 0x9747b28c)
        return a, murmur2(key, a)

    def has(self, key):
        pair = self.pair(key)
        return any(link.has(*pair) for link in self.links)

    def add(self, key):
        pair = self.pair(key)
        if any(link.has(*pair) for link in self.links):
            return
        last = self.links[-1]
        if last.size >= last.entries:
            assert not self.options & NO_SCALING
            last = Link(last.entries * self.growth, last.error * 0.5, self.options)
            self.links.append(last)
        last.add(*pair)

    def header(self):
        size = sum(link.size for link in self.links)
        return struct.pack("<QIII", size, len(self.links), self.options, self.growth) + \
            b"".join(link.header() for link in self.links)

    def data(self):
        return b"".join(link.data for link in self.links)
