# SPDX-License-Identifier: MIT
"""Keys to be added and keys to be asked for, the same for seen and for the other program.

A list of keys has those without a NUL first, and then those with one. seen takes the first as
records that end with NUL, and the others as lines.
"""

import random

LONG = (255, 256, 1000, 4095, 4096, 10000, 65535, 65536, 100000)  # lengths


def split(keys, crlf=False):
    """The two parts, with the options under which seen reads them, as pairs (options, input). With
    crlf, all are lines, and a CR at the end of one is no part of the key."""
    if crlf:
        return [(["--crlf"], b"".join(key + b"\n" for key in keys))]
    lines = [key for key in keys if b"\0" in key]
    parts = [(["-0"], b"".join(key + b"\0" for key in keys if b"\0" not in key)),
             ([], b"".join(key + b"\n" for key in lines))]
    return [part for part in parts if part[1]]


def ordered(keys):
    return [key for key in keys if b"\0" not in key] + [key for key in keys if b"\0" in key]


def two_sets(make, special, n, absent):
    """Two lists of distinct keys: `special` in the first, and as many of make() as are wanted."""
    every = dict.fromkeys(special)
    while len(every) < n:
        every[make()] = None
    inserted = list(every)[:n]
    others = {}
    while len(others) < absent:
        key = make()
        if key not in every:
            others[key] = None
    return ordered(inserted), ordered(others)


def bytes_keys(seed, n, absent):
    """Every byte value, and every length from 0 to 64. No key has both a NUL and a newline."""
    rng = random.Random(seed)

    def clean(key):
        return key.replace(b"\n", b"\r") if b"\0" in key else key

    def make():
        kind = rng.random()
        if kind < 0.3:
            return b"http://www.example%d.com/%x" % (rng.randrange(1000), rng.getrandbits(48))
        return clean(rng.randbytes(rng.randrange(3, 65)))

    special = [b""] + [bytes((c,)) for c in range(256)]
    special += [clean(rng.randbytes(size)) for size in range(2, 65)]
    special += [clean(rng.randbytes(size)) for size in LONG]
    special += [b"\xff" * size for size in range(2, 33)] + [b"\0" * size for size in range(2, 33)]
    return two_sets(make, special, n, absent)


def line_keys(seed, n, absent):
    """Lines: no newline in them, and no more than 60 KB. Some end with a CR."""
    inserted, others = bytes_keys(seed, n, absent)

    def lines(keys, taken):
        out = {}
        for i, key in enumerate(keys):
            key = key.replace(b"\n", b"\\n")[:60000]
            if i % 50 == 7:
                key += b"\r"
            if key.removesuffix(b"\r") not in taken:
                taken[key.removesuffix(b"\r")] = None
                out[key] = None
        return list(out)

    taken = {}
    return ordered(lines(inserted, taken)), ordered(lines(others, taken))


def text_keys(seed, n, absent):
    """Valid UTF-8, of all planes; the lengths at which Kryo writes another form."""
    rng = random.Random(seed)
    ranges = ((0x20, 0x7e), (0, 0x7f), (0x80, 0x7ff), (0x800, 0xd7ff), (0xe000, 0xffff),
              (0x10000, 0x10ffff), (0x1f300, 0x1faff))

    def text(size, which):
        out = "".join(chr(rng.randint(*rng.choice(which))) for _ in range(size))
        return (out.replace("\n", "\r") if "\0" in out else out).encode()

    def make():
        if rng.random() < 0.3:
            return b"http://www.example%d.com/%x" % (rng.randrange(1000), rng.getrandbits(48))
        which = rng.choice((ranges[:1], ranges[1:3], ranges, ranges[3:5], ranges[5:]))
        return text(rng.randrange(4, 40), which)

    special = [b""] + [chr(c).encode() for c in range(0x100)]
    special += [chr(c).encode() for c in (0x7ff, 0x800, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xfffe,
                                          0xffff, 0x10000, 0x1f600, 0x10ffff)]
    for size in (2, 31, 32, 33, 61, 62, 63, 64, 127, 128, 8189, 8190, 8191, 8192, 20000):
        special += [text(size, ranges[:1]), text(size, ranges), text(size, ranges[5:])]
    return two_sets(make, special, n, absent)


def number_keys(bits):
    def keys(seed, n, absent):
        """Decimal numbers of all sizes, the extremes and those beside powers of two included."""
        rng = random.Random(seed)
        low, high = -2**(bits - 1), 2**(bits - 1) - 1

        def make():
            x = rng.getrandbits(rng.randrange(24, bits))
            return b"%d" % (-x if rng.random() < 0.5 else x)

        near = [sign * 2**e + d for e in range(bits) for d in (-1, 0, 1) for sign in (1, -1)]
        special = [b"%d" % x for x in (0, low, high, *near) if low <= x <= high]
        return two_sets(make, special, n, absent)
    return keys


KEYS = {
    "bytes": bytes_keys,
    "lines": line_keys,
    "text": text_keys,
    "int": number_keys(32),
    "long": number_keys(64),
}
