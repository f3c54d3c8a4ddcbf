#!/usr/bin/env python3
"""Reads filter files as man/seen.5 describes them, and by nothing else.

    reader.py query FILTER <KEYS      print the records whose key is present; exit like `seen query`
    reader.py verify FILTER           check the header and every checksum; exit 2 if one is wrong

It shares no code with the program and needs no module that Python does not bring along. Where the
two disagree, the page, the program or this reader is wrong. It is simple, and slow.
"""

import struct
import sys

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


def murmur3(b, seed):
    return murmur3_lanes(b, seed)[0]


HASHES = {1: xxh3, 2: murmur3}


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


# ---- the file

MAGIC = bytes.fromhex("89 73 65 65 6e 0d 0a 1a")
PAGE = 4096
IMMUTABLE = 1
TRIM, FOLD, HEX = 1, 2, 4
FIXED, GROWS, RING = 0, 1, 2
VOID = 1


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

    def has(self, h, read):
        number, bits = self.where(h)
        return all(read(PAGE * number + 64 * line + bit // 8, 1)[0] >> bit % 8 & 1
                   for line, bit in bits)


class Ribbon:
    """Kind 2."""

    ENTRY = 32
    BUMPED_BELOW = (0, 15, 34, 128)

    def __init__(self, layer, _immutable):
        self.s, self.entries, self.r, self.w = layer.geometry
        self.directory = layer.length - self.ENTRY * self.entries
        require(self.s <= 40 and self.entries >= 1 << self.s and 1 <= self.r <= 32
                and self.w < 1 << 32 and (self.w == 0 or self.r < 32)
                and layer.length % 8 == 0 and self.directory >= 0, "geometry out of range")

    @staticmethod
    def mix(x):
        for _ in range(2):
            x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 & M64
        return x ^ x >> 32

    def find_entry(self, h, read):
        """The entry that is in charge of hash h, and how many bits of h have led there."""
        number, depth = h >> 64 - self.s, self.s
        while True:
            entry = read(self.directory + self.ENTRY * number, self.ENTRY)
            require(entry[29] <= 1 and zero(entry[30:]), "a directory entry is wrong")
            if not entry[29]:
                return entry, depth
            child = u64(entry, 0)
            require(depth < 64 and child >= 1 << self.s and child > number
                    and child + 1 < self.entries, "a split entry is wrong")
            number, depth = child + (h >> 63 - depth & 1), depth + 1

    def has(self, h, read):
        entry, depth = self.find_entry(h, read)
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
            x = rotl(h, depth)
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


KINDS = {1: Bloom, 2: Ribbon}


class Layer:
    def __init__(self, b, policy, immutable):
        require(u32(b, 0) in KINDS, "unknown kind of layer")
        flags = u32(b, 4)
        self.id = u64(b, 8)
        self.data, self.length, self.sums, self.touched = (u64(b, at) for at in (32, 40, 48, 56))
        self.geometry = struct.unpack_from("<4Q", b, 64)
        self.generation = u64(b, 96)
        require(flags <= VOID and (flags == 0 or policy == RING), "unknown flags of a layer")
        require(policy != FIXED or zero(b[96:128]), "a layer's zeroes are not zero")
        self.void = flags == VOID
        keys, rate = struct.unpack_from("<2d", b, 112)
        require(self.generation < 1 << 63 and 0 <= keys < float("inf") and 0 <= rate <= 1,
                "a layer's history is out of range")
        require(0 < struct.unpack_from("<d", b, 24)[0] < 1,
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
        require(self.incompat & ~IMMUTABLE == 0, "needs a feature that is unknown")
        n_layers = u32(b, 28)
        require(1 <= n_layers <= 29, "number of layers out of range")
        self.immutable = bool(self.incompat & IMMUTABLE)
        require(length == (256 + 128 * n_layers + 8 if self.immutable else PAGE),
                "length of the header wrong")
        self.epoch, self.state, function = u64(b, 32), u32(b, 40), u32(b, 44)
        require(1 <= self.epoch < 1 << 63 and self.state <= 2, "epoch or state out of range")
        require(function in HASHES, "hash function unknown")
        self.hash = HASHES[function]
        self.seed, self.id, self.preparation = u64(b, 48), b[56:72], u32(b, 72)
        require(self.preparation >> 16 == 0 and self.preparation & 0xff <= TRIM | FOLD | HEX,
                "key preparation unknown")
        require(self.preparation >> 8 in ENCODINGS, "key encoding unknown")
        self.encoding = ENCODINGS[self.preparation >> 8]
        require(u32(b, 76) <= 1, "counter flags unknown")
        require(0 < struct.unpack_from("<d", b, 88)[0] < 1, "false positive rate out of range")
        self.file_length = u64(b, 96)
        self.policy = u32(b, 152)
        require(self.policy <= RING and not (self.immutable and self.policy), "policy unknown")
        require(zero(b[156:256]) and zero(b[256 + 128 * n_layers:length - 8]),
                "zeroes that are not zero")
        self.length = length
        self.layers = [Layer(b[at:at + 128], self.policy, self.immutable)
                       for at in range(256, 256 + 128 * n_layers, 128)]
        require(len({layer.id for layer in self.layers}) == n_layers, "two layers of one id")
        if self.policy != FIXED:
            require(len({layer.generation for layer in self.layers}) == n_layers,
                    "two layers of one generation")
        if self.policy == RING:
            require(n_layers >= 2 and sum(layer.void for layer in self.layers) <= 1,
                    "a ring of one layer, or with two that are void")
        self.check_places()

    def check_places(self):
        """Parts in order, aligned, and not overlapping; the last one ends the file."""
        step = 8 if self.immutable else PAGE
        end = self.length if self.immutable else 3 * PAGE
        self.gaps = []
        for layer in self.layers:
            data, sums = (layer.data, layer.length), (layer.sums, 4 * layer.pages)
            touched = layer.touched, (layer.pages + 7) // 8
            if self.immutable:
                require(layer.touched == 0, "an immutable file with a touched bitmap")
            for at, length in (data, sums) if self.immutable else (sums, touched, data):
                require(at % step == 0 and at >= end, "parts that overlap or are not aligned")
                self.gaps.append((end, at))
                end = at + length
        require(end == self.file_length, "the last layer does not end the file")


class Filter:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.header = self.choose_header()
        longer = len(self.bytes) - self.header.file_length
        require(longer == 0 or longer > 0 and self.header.policy == GROWS,
                "the file has another length")
        self.good_pages = set()

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
        """A page of a layer's data must match its checksum if the file is clean."""
        if self.header.state != 0 or (layer.id, number) in self.good_pages:
            return
        at = layer.data + number * PAGE
        page = self.bytes[at:min(at + PAGE, layer.data + layer.length)]
        base = xxh3(self.header.id + struct.pack("<Q", layer.id), 0)
        if xxh3(page, base + number & M64) & M32 != u32(self.bytes, layer.sums + 4 * number):
            raise Damaged("page %d at offset %d does not match its checksum" % (number, at))
        self.good_pages.add((layer.id, number))

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
        if self.header.preparation & HEX:
            require(not set(key) - set(b"0123456789abcdefABCDEF") and len(key) % 2 == 0,
                    "a key that is not hexadecimal")
            key = bytes.fromhex(key.decode("ascii"))
        value_of, encode = self.header.encoding
        return encode(value_of(key))

    def __contains__(self, key):
        h = self.header.hash(self.prepare(key), self.header.seed)
        return any(layer.kind.has(h, self.reader(layer))
                   for layer in self.header.layers if not layer.void)

    def verify(self):
        for start, end in self.header.gaps:
            require(zero(self.bytes[start:end]), "bytes between the parts are not zero")
        live = [layer for layer in self.header.layers if not layer.void]
        for layer in live:
            for number in range(layer.pages):
                self.check_page(layer, number)
        if self.header.state == 0 and not self.header.immutable:
            require(zero(self.bytes[2 * PAGE:3 * PAGE]), "clean, but the session page is not zero")
            for layer in live:
                touched = self.bytes[layer.touched:layer.touched + (layer.pages + 7) // 8]
                require(zero(touched), "clean, but pages are marked as touched")


def main(command, path):
    try:
        seen = Filter(path)
        if command == "verify":
            seen.verify()
            return 0
        selected = 1
        for record in sys.stdin.buffer:
            if record.removesuffix(b"\n") in seen:
                sys.stdout.buffer.write(record)
                selected = 0
        return selected
    except (Unreadable, OSError) as reason:
        print("reader.py: %s: %s" % (path, reason), file=sys.stderr)
        return 2


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("query", "verify"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
