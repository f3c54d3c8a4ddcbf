#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The files in tests/vectors, which other programs wrote, against seen.

    vectors.py answers LAYOUT    import each file, ask, and export it: the program's answers, and the same bytes
    vectors.py create LAYOUT     make the same filter from its keys: the same bytes
    vectors.py malformed LAYOUT  broken files: refused, or accepted, as by the program
    vectors.py sizing LAYOUT     plan for a capacity and an FPR: the numbers of the program
    vectors.py extend LAYOUT     import a filter, add the other keys: the bytes of the full one
    vectors.py tails LAYOUT      keys of 0 to 64 bytes of any value, against their hash values

Runs in the current directory and leaves files there. Prints what differs; the exit status is 1 then.
"""

import csv
import gzip
import json
import math
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(os.path.dirname(HERE), "vectors")
SEEN = os.environ.get("SEEN", os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "seen"))
TWO_FILES = ("header", "data")  # of a RedisBloom dump
MASK64 = 2**64 - 1
# Where seen is stricter than the program on purpose: without k or m there is no bit to ask for, and
# a rate that is no number is a sign of damage; what follows the bits is not of the filter.
STRICTER = {("dcso", "k = 0"), ("dcso", "m = 0"), ("dcso", "p = NaN"),
            ("guava", "trailing bytes after the array")}
wrong = 0


def differ(*words):
    global wrong
    wrong += 1
    if wrong <= 20:
        print(*words)


def seen(*words, stdin=b""):
    return subprocess.run([SEEN, *words], input=stdin, capture_output=True)


def must(*words, stdin=b""):
    """Runs seen; ends the test if it fails."""
    run = seen(*words, stdin=stdin)
    if run.returncode != 0:
        sys.exit("seen %s: status %d: %s%s"
                 % (" ".join(words), run.returncode, run.stdout.decode(errors="replace")[:200],
                    run.stderr.decode(errors="replace")))
    return run


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def vector(*path):
    """The bytes of a golden file; one of more than 100 KB is kept compressed."""
    path = os.path.join(VECTORS, *path)
    return read(path) if os.path.exists(path) else gzip.decompress(read(path + ".gz"))


def table(layout, name):
    text = vector(layout, name).decode()
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def records(name, folder="keys"):
    return vector(folder, name).splitlines(keepends=True)


def trimmed(data):
    return data.rstrip(b"\0")


# ---- What differs from layout to layout


class Layout:
    """A layout with one foreign file, whose bytes are compared as they are."""

    name = None
    folder = "keys"

    def records(self, name):
        return records(name, self.folder)

    def rows(self):
        return table(self.name, "manifest.tsv")

    def file(self, row):
        return row["file"]

    def keys(self, row):
        """The records of the keys that were inserted, in order; None: all, but in another way."""
        return self.records(row["keys_file"])[:int(row["keys_inserted"].removeprefix("first "))]

    def spec(self, row):
        """What import needs."""
        return self.name

    def create(self, row):
        """The arguments of create; None: this is not a filter that create makes."""
        return [self.spec(row)]

    def golden(self, row):
        """The bytes of each foreign file."""
        return [vector(self.name, row["file"])]

    def place(self, row, path):
        """Puts the foreign files where import is to find them; returns their name."""
        write(path, self.golden(row)[0])
        return path

    def foreign(self, path):
        """The name under which export is to write."""
        return path

    def exported(self, path):
        """The bytes that export has written."""
        return [read(path)]

    def same(self, row, got):
        return got == self.golden(row)

    def malformed(self, case, path):
        write(path, bytes.fromhex(case["file_hex"] or ""))
        return path

    def extended(self):
        """Pairs of a filter and of one that has got more keys since, by name."""
        return []

    def sizing(self):
        """Pairs of arguments and of what plan is to say: a dict, or None for a refusal."""
        return []


class Guava(Layout):
    name = "guava"

    def spec(self, row):
        return "guava:funnel=%s,strategy=%s" % (row["funnel"].removesuffix("le"),
                                                row["strategy"][-2:])

    def create(self, row):
        rule = ",k=new" if row["k_rule"] == "p" else ""
        # The program takes a capacity of 0 for 1.
        return [self.spec(row) + rule, "-n", row["n"] if row["n"] != "0" else "1",
                "-p", row["fpp"]]

    def sizing(self):
        for row in table("guava", "sizing.tsv"):
            if row["n"] == "0":
                continue
            for rule, column in (("classic", "k_from_n_m"), ("new", "k_from_p")):
                args = ["guava:k=" + rule, "-n", row["n"], "-p", row["fpp"]]
                # Refused are k above 255, no bit at all, and words beyond 2^31 - 1.
                if row["num_longs"] == "refused":
                    yield args, None
                elif row[column].isdigit() and int(row[column]) <= 255:
                    yield args, {"m": 64 * int(row["num_longs"]), "k": int(row[column])}

    def tails(self, rows):
        for strategy, k in (("64", 7), ("64", 200), ("32", 7)):
            n, p, words = 1000, 0.01, 150
            if k == 200:
                n, p, words = 300, 6.223015277861142e-61, 1353
            m, bits = 64 * words, set()
            for row in rows:
                h1, h2 = int(row["hash1_u64"], 16), int(row["hash2_u64"], 16)
                for i in range(k):
                    if strategy == "64":
                        x = (h1 + i * h2 & MASK64) & 2**63 - 1
                    else:
                        x = (h1 + (i + 1) * (h1 >> 32)) & 2**32 - 1
                        x = x ^ 2**32 - 1 if x >> 31 else x
                    bits.add(x % m)
            number = sum(1 << x for x in bits)
            data = [number >> 64 * w & MASK64 for w in range(words)]
            yield (["guava:funnel=bytes,strategy=" + strategy, "-n", str(n), "-p", repr(p)],
                   struct.pack(">BBi%dQ" % words, strategy == "64", k, words, *data))


class Guavaser(Layout):
    """Guava's filters in Java's serialized form."""

    name = "guavaser"
    folder = "keys2"

    def spec(self, row):
        return "guava:funnel=%s,serialized=yes" % row["funnel"]

    def create(self, row):
        return [self.spec(row), "-n", row["n"], "-p", row["fpp"]]


class Bitmap(Layout):
    """A Redis string: trailing zero bytes mean nothing."""

    def same(self, row, got):
        return trimmed(got[0]) == trimmed(self.golden(row)[0])


class Gozero(Bitmap):
    name = "gozero"

    def spec(self, row):
        return "gozero:bits=" + row["bits"]


class Redisson(Bitmap):
    name = "redisson"

    def spec(self, row):
        return "redisson:codec=%s,bits=%s,k=%s" % (row["codec"], row["size"],
                                                   row["hashIterations"])

    def create(self, row):
        return ["redisson:codec=" + row["codec"], "-n", row["expectedInsertions"],
                "-p", row["falseProbability"]]

    def sizing(self):
        for row in table("redisson", "sizing.tsv"):
            if float(row["p"]) > 0:
                yield (["redisson", "-n", row["n"], "-p", row["p"]],
                       None if row["size"] == "refused" else
                       {"m": int(row["size"]), "k": int(row["hashIterations"])})

    def tails(self, rows):
        m, k, bits = 9585, 7, set()
        for row in rows:
            h1, h2 = int(row["hash1_u64"], 16), int(row["hash2_u64"], 16)
            for i in range(k):
                # h1, h1 + h2, 2 h1 + h2, 2 h1 + 2 h2, ...
                bits.add(((i // 2 + 1) * h1 + (i + 1) // 2 * h2 & 2**63 - 1) % m)
        yield ["redisson:codec=bytes", "-n", "1000", "-p", "0.01"], msb_first(bits)


class Redisbloom(Layout):
    name = "redisbloom"

    def file(self, row):
        return row["file_prefix"]

    def create(self, row):
        words = row["command"].split()
        one_link = row["header_len"] == "73"  # a file gets no more
        if words[0] != "BF.RESERVE" or not one_link or "old" in row["file_prefix"]:
            return None
        spec = "redisbloom"
        if "NONSCALING" in words:
            spec += ":scaling=no"
        elif "EXPANSION" in words:
            spec += ":expansion=" + words[words.index("EXPANSION") + 1]
        return [spec, "-n", words[3], "-p", words[2]]

    def golden(self, row):
        return [vector("redisbloom", "%s.%s" % (row["file_prefix"], part)) for part in TWO_FILES]

    def place(self, row, path):
        for part, data in zip(TWO_FILES, self.golden(row)):
            write("%s.%s" % (path, part), data)
        return path

    def exported(self, path):
        return [read("%s.%s" % (path, part)) for part in TWO_FILES]

    def malformed(self, case, path):
        write(path + ".header", bytes.fromhex(case["header_hex"]))
        # 48 and 112 bytes in the two links; one byte more where the case has it so.
        size = 49 if case["case"].startswith("bytes/bits not") else 48
        write(path + ".data", bytes(size + 112))
        return path

    def sizing(self):
        for row in table("redisbloom", "sizing.tsv"):
            scaling = {"5": "yes", "13": "no"}.get(row["options"])
            if scaling:
                yield (["redisbloom:scaling=" + scaling, "-n", row["capacity"],
                        "-p", row["error_rate"]],
                       {"m": int(row["bits"]), "k": int(row["hashes"])})

    def tails(self, rows):
        # scaling=no, n 1000, p 0.01: 9600 bits, k 7 (vectors/redisbloom/rb_ns_e01_n1000).
        header = bytearray(vector("redisbloom", "rb_ns_e01_n1000.header"))
        m, k, bits, added = 9600, 7, set(), 0
        for row in rows:
            a, b = int(row["murmur64a_a"], 16), int(row["murmur64a_b"], 16)
            positions = {(a + i * b & MASK64) % m for i in range(k)}
            added += not positions <= bits
            bits |= positions
        struct.pack_into("<Q", header, 0, added)
        struct.pack_into("<Q", header, 36, added)
        yield (["redisbloom:scaling=no", "-n", "1000", "-p", "0.01"],
               [bytes(header), low_first(bits, 1200)])


class Php(Layout):
    name = "php"

    def rows(self):
        """The one with all functions, or all with FULL=1: each filter has 2^32 bits."""
        rows = super().rows()
        return rows if os.environ.get("FULL") else [r for r in rows if r["file"] == "ph_8.bits"]

    def spec(self, row):
        return "php:functions=" + row["functions"].replace(",", "+")

    def place(self, row, path):
        return super().place(row, path + ".bits")

    def foreign(self, path):
        return path + ".bits"

    def tails(self, rows):
        functions = [name for name in rows[0] if name not in ("len", "input_hex")]
        # Each alone only with FULL=1: each filter has 2^32 bits, and test_php knows the functions apart.
        alone = [[name] for name in functions] if os.environ.get("FULL") else []
        for chosen in alone + [functions]:
            bits = {int(row[name]) for row in rows for name in chosen}
            yield (["php:functions=" + "+".join(chosen)],
                   "".join("%d\n" % x for x in sorted(bits)).encode())


class Dcso(Layout):
    name = "dcso"

    def keys(self, row):
        if row["keys_inserted"].startswith("1-600"):
            return None
        return super().keys(row)

    def spec(self, row):
        return "dcso:gzip=yes" if row["gzip"] == "true" else "dcso"

    def create(self, row):
        if self.keys(row) is None:
            return None
        return [self.spec(row), "-n", row["n"], "-p", row["p"]]

    def golden(self, row):
        return [plain(vector("dcso", row["file"]))]

    def place(self, row, path):
        # The compressed rows are read as the program wrote them.
        if row["gzip"] == "true":
            write(path, read(os.path.join(VECTORS, "dcso", row["file"])))
            return path
        return super().place(row, path)

    def same(self, row, got):
        if (got[0][:2] == b"\x1f\x8b") != (row["gzip"] == "true"):
            return False
        return plain(got[0]) == self.golden(row)[0]

    def extended(self):
        return [("dc_n1000_p01_first500.bloom", "dc_n1000_p01.bloom")]

    def sizing(self):
        for row in table("dcso", "sizing.tsv"):
            m, k = int(row["m"]), int(row["k"])
            yield ["dcso", "-n", row["n"], "-p", row["p"]], {"m": m, "k": k} if m else None

    def tails(self, rows):
        m, k, bits, added = 9585, 7, set(), 0
        for row in rows:
            # The program takes keys as lines: a CR at the end of one is dropped.
            h, positions = int(row["fnv1_64"], 16), set()
            assert not row["input_hex"].endswith("0d")
            for _ in range(k):
                h = (h % (2**64 - 59) * 18446744073709550147 & MASK64) % (2**64 - 59)
                positions.add(h % m)
            added += not positions <= bits
            bits |= positions
        head = struct.pack("<QQdQQQ", 1, 1000, 0.01, k, m, added)
        yield ["dcso", "-n", "1000", "-p", "0.01"], head + low_first(bits, 1200)


class Bitsandblooms(Layout):
    name = "bitsandblooms"
    folder = "keys2"

    def spec(self, row):
        return "bitsandblooms:bits=%s,k=%s,json=%s" % (row["m"], row["k"],
                                                       "yes" if row["form"] == "json" else "no")

    def create(self, row):
        if row["n"] == "-":
            return None
        form = ":json=yes" if row["form"] == "json" else ""
        return ["bitsandblooms" + form, "-n", row["n"], "-p", row["fpp"]]

    def sizing(self):
        for row in table("bitsandblooms", "sizing.tsv"):
            yield (["bitsandblooms", "-n", row["n"], "-p", row["fpp"]],
                   {"m": int(row["m"]), "k": int(row["k"])})

    def tails(self, rows):
        for m, k in ((9586, 7), (64, 8), (12345, 3)):
            bits = {int(row["loc%d" % i], 16) % m for row in rows for i in range(k)}
            yield (["bitsandblooms:bits=%d,k=%d" % (m, k)],
                   struct.pack(">3Q", m, k, m) + big_words(bits, (m + 63) // 64))


class Spark(Layout):
    name = "spark"
    folder = "keys2"

    def spec(self, row):
        return "spark:type=%s,version=%s" % (row["type"], row["version"])

    def create(self, row):
        return [self.spec(row), "-n", row["n"], "-p", row["fpp"]]

    def sizing(self):
        for row in table("spark", "sizing.tsv"):
            yield (["spark", "-n", row["n"], "-p", row["fpp"]],
                   {"m": 64 * int(row["words"]), "k": int(row["k"])})

    def tails(self, rows):
        m, k = 64 * 150, 7
        for version in (1, 2):
            bits = set()
            for row in rows:
                h1, h2 = (int(row[name], 16) for name in ("h1", "h2"))
                h1, h2 = h1 - (h1 >> 31 << 32), h2 - (h2 >> 31 << 32)
                x = h1 * (2**31 - 1)
                for i in range(1, k + 1):
                    if version == 1:
                        x = h1 + i * h2 & 2**32 - 1
                        bits.add((x ^ 2**32 - 1 if x >> 31 else x) % m)
                    else:
                        x += h2
                        x = ~x if x < 0 else x
                        bits.add(x % m)
            head = struct.pack(">4i", version, k, 0, m // 64)
            yield (["spark:version=%d" % version, "-n", "1000", "-p", "0.01"],
                   (head if version == 2 else head[:8] + head[12:]) + big_words(bits, m // 64))


def big_words(bits, words):
    """Bit x in place x mod 64 of word x / 64, which is big-endian."""
    number = sum(1 << x for x in bits)
    return b"".join(struct.pack(">Q", number >> 64 * w & MASK64) for w in range(words))


def low_first(bits, size):
    """Bit x in byte x / 8, counted from the low end."""
    return sum(1 << x for x in bits).to_bytes(size, "little")


def msb_first(bits):
    """Bit x in byte x / 8, counted from the high end: the order of SETBIT."""
    data = bytearray(max(bits) // 8 + 1)
    for x in bits:
        data[x // 8] |= 0x80 >> x % 8
    return bytes(data)


def plain(data):
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


# ---- The tests


def answers(layout):
    for row in layout.rows():
        name = layout.file(row)
        must("import", "--layout", layout.spec(row), layout.place(row, "foreign"), "-o", "f.seen",
             "--force")
        inserted = layout.keys(row)
        if inserted is None:
            inserted = layout.records(row["keys_file"])
        if seen("query", "f.seen", stdin=b"".join(inserted)).stdout != b"".join(inserted):
            differ(name, "not all of its keys are present")
        absent = layout.records(row["absent_file"])
        wanted = [b"+" if yes == "1" else b"-"
                  for yes in vector(layout.name, row["answers_file"]).decode().split()]
        run = seen("query", "--annotate", "f.seen", stdin=b"".join(absent))
        got = [line[:1] for line in run.stdout.splitlines()]
        if got != wanted:
            differ(name, "answers to keys that are absent: %d of %d differ"
                   % (sum(g != w for g, w in zip(got, wanted)) + abs(len(got) - len(wanted)),
                      len(wanted)), run.stderr.decode())
        must("verify", "f.seen")
        must("export", "f.seen", "-o", layout.foreign("out"), "--force")
        if not layout.same(row, layout.exported(layout.foreign("out"))):
            differ(name, "export writes other bytes")


def create(layout):
    tried = 0
    for row in layout.rows():
        args = layout.create(row)
        if args is None:
            continue
        tried += 1
        inserted = layout.keys(row)
        # Made empty, because some hold more keys than they are made for.
        must("create", "--force", "--empty", "--layout", *args, "f.seen")
        capacity = int(args[args.index("-n") + 1]) if "-n" in args else len(inserted)
        if inserted:
            must("add", *allowing(len(inserted) > capacity), "f.seen", stdin=b"".join(inserted))
        compare_created(layout, row, "create --empty, then add,")
        if inserted and len(inserted) <= capacity:
            must("create", "--force", "--layout", *args, "f.seen", stdin=b"".join(inserted))
            compare_created(layout, row, "create")
    if not tried:
        differ("no filter was made")


def allowing(overfull):
    """The option with which a filter takes more keys than it is made for."""
    return ["--max-fpr", "0.9999999"] if overfull else []


def compare_created(layout, row, how):
    must("export", "f.seen", "-o", layout.foreign("out"), "--force")
    got = layout.exported(layout.foreign("out"))
    if row.get("data_trailer_len", "0") != "0":
        # What follows the bits is the user's, and not made by create.
        got[0] += layout.golden(row)[0][len(got[0]):]
    if not layout.same(row, got):
        differ(layout.file(row), how, "makes other bytes")


def extend(layout):
    rows = {layout.file(row): row for row in layout.rows()}
    for first, full in layout.extended():
        before, after = rows[first], rows[full]
        must("import", "--layout", layout.spec(before), layout.place(before, "foreign"), "-o",
             "f.seen", "--force")
        more = layout.keys(after)[len(layout.keys(before)):]
        must("add", *allowing(True), "f.seen", stdin=b"".join(more))
        must("export", "f.seen", "-o", layout.foreign("out"), "--force")
        if not layout.same(after, layout.exported(layout.foreign("out"))):
            differ(first, "with the other keys: not the bytes of", full)


def malformed(layout):
    for case in table(layout.name, "malformed.tsv"):
        name, path = case["case"], layout.malformed(case, "foreign")
        wanted = case["reaction"]
        if (layout.name, name) in STRICTER:
            wanted = "refused"
        if os.path.exists("f.seen"):
            os.remove("f.seen")
        run = seen("import", "--layout", layout.name, path, "-o", "f.seen")
        lines = run.stderr.decode(errors="replace").splitlines()
        if run.returncode == 0 and not lines:
            got = "accepted"
            must("verify", "f.seen")
        elif run.returncode == 2 and len(lines) == 1 and not run.stdout and \
                not os.path.exists("f.seen"):
            got = "refused"
        else:
            got = "neither refused nor accepted"
        if got != wanted:
            differ("%s: %s, to be %s: %s" % (name, got, wanted, lines))


def sizing(layout):
    tried = 0
    for i, (args, wanted) in enumerate(layout.sizing()):
        # One in three is tried, or one in twelve under a sanitizer, or all with FULL=1: a process each.
        if i % (12 if os.environ.get("SANITIZER") else 3) and not os.environ.get("FULL"):
            continue
        tried += 1
        run = seen("plan", "--json", "--layout", *args)
        if wanted is None:
            if run.returncode != 2 or run.stdout:
                differ("plan", *args, "is to be refused")
            continue
        if run.returncode != 0:
            differ("plan", *args, run.stderr.decode())
            continue
        got = json.loads(run.stdout)["layouts"][0]
        if any(got[name] != wanted[name] for name in wanted):
            differ("plan", *args, "says", {name: got[name] for name in wanted}, "not", wanted)
    if not tried:
        differ("no size was tried")


def tails(layout):
    rows = table(layout.name, "hash_tails.tsv")
    for row in rows:
        row["input_hex"] = row.get("input_hex", row.get("bytes_hex")).replace("-", "")
    lines = "".join(row["input_hex"] + "\n" for row in rows).encode()
    for args, wanted in layout.tails(rows):
        must("create", "--force", "--hex", "--layout", *args, "f.seen", stdin=lines)
        must("export", "f.seen", "-o", layout.foreign("out"), "--force")
        got = layout.exported(layout.foreign("out"))
        wanted = wanted if isinstance(wanted, list) else [wanted]
        if isinstance(layout, Bitmap):
            got, wanted = [trimmed(got[0])], [trimmed(wanted[0])]
        if got != wanted:
            differ(*args, "makes other bytes")


TESTS = {f.__name__: f for f in (answers, create, extend, malformed, sizing, tails)}
LAYOUTS = {c.name: c() for c in (Guava, Guavaser, Gozero, Redisson, Redisbloom, Php, Dcso, Bitsandblooms,
                                 Spark)}

if __name__ == "__main__":
    TESTS[sys.argv[1]](LAYOUTS[sys.argv[2]])
    sys.exit(wrong != 0)
