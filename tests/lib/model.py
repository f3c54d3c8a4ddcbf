#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/lib/model.py [SEED [CASES]], in an empty directory: random records and options, against a model
of what is documented.

Each case makes a filter, asks and changes it by create, add, query and dedup, and compares output
and exit status with what a set in Python gives. Keys are few and of a small alphabet, in which all
bytes that mean something to a command occur. Filters have room for 20,000 keys at a false-positive
rate of 1e-9; with the few hundred that come it is below 1e-30. Others, for 100 keys at 0.4, are
only asked with a list of the keys, --confirm, which makes that no difference.
"""
import gzip
import hashlib
import os
import random
import re
import subprocess
import sys

from reader import md4

SEEN = os.environ.get("SEEN", "seen")
ABSENT = "absent"
# A program without libmd can take none.
VERSION = subprocess.run([SEEN, "--version"], stdout=subprocess.PIPE, check=True).stdout
DIGESTS = ["sha1", "sha256", "md5", "ntlm"] if b"digests: libmd" in VERSION else [None]


class Bad(Exception):
    """A record has no key."""


class Rule:
    """How keys come from records: options that every command takes."""

    def __init__(self, rng):
        self.null = rng.random() < 0.25
        self.end = b"\0" if self.null else b"\n"
        self.hex = rng.random() < 0.25
        self.fold = rng.random() < 0.3
        self.trim = rng.random() < 0.3
        self.crlf = rng.random() < 0.3
        self.fields = rng.choice([[], [], [], rng.sample([1, 2, 3, -1, -2], 1),
                                  rng.sample([1, 2, 3, -1, -2], rng.choice([2, 3]))])
        self.whitespace = rng.random() < 0.3
        # From its last field on, all that follow; no other field may be one of these.
        self.rest = (bool(self.fields) and self.fields[-1] == max(self.fields) > 0
                     and rng.random() < 0.3)
        self.comments = rng.random() < 0.1
        self.delimiter = b" " if self.whitespace else rng.choice([b"\t", b",", b" ", b"a"])
        self.skip_bad = rng.random() < 0.6
        self.digest = rng.choice(DIGESTS) if not self.hex and rng.random() < 0.2 else None
        self.in_digits = self.hex or self.digest
        self.length = 0  # of all keys of a --hex filter, if it is known

    def prep(self):
        digest = ["--digest", self.digest] if self.digest else []
        return digest + [o for o, on in (("-x", self.hex), ("-i", self.fold),
                                         ("--trim", self.trim)) if on]

    def options(self, given):
        """`given`: keys come from -k, to which fields do not apply."""
        out = [o for o, on in (("-0", self.null), ("--crlf", self.crlf),
                               ("--skip-bad", self.skip_bad)) if on]
        if self.fields and not given:
            out += ["-f", ",".join(map(str, self.fields)) + ("-" if self.rest else "")]
            out += ["-w"] if self.whitespace else ["-d", self.delimiter]
        return out + (["--comments"] if self.comments and not given else [])

    def prepare(self, key):
        if self.trim:
            key = key.strip(b" \t")
        if self.hex:
            digits = set(b"0123456789abcdefABCDEF")
            if len(key) % 2 or not set(key) <= digits:
                raise Bad
            key = bytes.fromhex(key.decode())
            if self.length not in (0, len(key)):
                raise Bad
            return key
        if self.fold:
            key = bytes(c | 32 if 65 <= c <= 90 else c for c in key)
        if self.digest == "ntlm":
            try:
                return md4(key.decode("utf-8").encode("utf-16-le"))
            except UnicodeDecodeError:
                raise Bad
        return hashlib.new(self.digest, key).digest() if self.digest else key

    def is_comment(self, record):
        return self.comments and record.startswith(b"#")

    def key(self, record):
        """Of a record with its terminator, which the last of a file may lack."""
        whole = record.endswith(self.end)
        key = record[:-1] if whole else record
        if self.is_comment(record):
            raise Bad
        if self.crlf and whole and key.endswith(b"\r"):
            key = key[:-1]
        if self.fields:
            there = re.findall(b"[^ \t]+", key) if self.whitespace else key.split(self.delimiter)
            if not all(-len(there) <= n <= len(there) for n in self.fields):
                raise Bad
            parts = [there[n - 1 if n > 0 else n] for n in self.fields]
            parts += there[self.fields[-1]:] if self.rest else []
            if not any(parts):
                raise Bad
            key = self.delimiter.join(parts)
            if self.trim and not key.strip(b" \t"):
                raise Bad
        return self.prepare(key)


def records(data, end):
    pieces = data.split(end)
    return [p + end for p in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


class Input:
    """Records of key files, of standard input or of -k: pairs of record and key, None for bad."""

    def __init__(self, rng, rule, pool):
        self.args, self.stdin, self.plain, self.files = [], b"", b"", []
        self.header = rng.choice([0, 0, 0, 1, 2, 30])
        self.given = rng.random() < 0.3
        if self.header and not self.given:
            self.args.append("--header=%d" % self.header)
        if self.given:
            keys = [k.replace(b"\0", b"").replace(rule.end, b"") for k in pick(rng, rule, pool, 12)] or [b"k"]
            for key in keys:
                self.args += [b"--key=" + key]
            self.header = 0  # of files alone
            self.files = [[(k + rule.end, self.attempt(rule.prepare, k)) for k in keys]]
            return
        all_data = [self.list(rng, rule, pool) for _ in range(rng.choice([1, 1, 2]))]
        # So many NULs are taken for binary data.
        raw = not rule.null and any(d.count(b"\0", 0, 4096) * 4 >= min(len(d), 4096) > 0
                                    for d in all_data)
        if raw:
            self.args.append("--no-gzip")
        for i, data in enumerate(all_data):
            self.files.append([(r, self.attempt(rule.key, r)) for r in records(data, rule.end)])
            packed = gzip.compress(data) if rng.random() < 0.2 and not raw else data
            if i == 0 and rng.random() < 0.4:
                self.stdin, self.plain = packed, data
                self.args.append("-")
            else:
                name = "in%d" % i
                with open(name, "wb") as f:
                    f.write(packed)
                self.args.append(name)

    @staticmethod
    def list(rng, rule, pool):
        data = rule.end.join(line(rng, rule, k) for k in pick(rng, rule, pool, 40))
        if data and rng.random() < 0.7:
            data += rule.end
        return data * rng.choice([100, 400]) if rng.random() < 0.03 else data

    @staticmethod
    def attempt(function, data):
        try:
            return function(data)
        except Bad:
            return None

    def name(self, f):
        """What query -n puts before the number."""
        if len(self.files) == 1:
            return b""
        names = [a for a in self.args if not a.startswith("--")]
        return b"(standard input):" if names[f] == "-" else b"in%d:" % f

    def printed_header(self, rule, mark=b""):
        """As it is printed: that of the first file that has a record."""
        for file in self.files:
            if file and self.header:
                text = b"".join(mark + record for record, _ in file[:self.header])
                return [text if text.endswith(rule.end) else text + rule.end]
        return []

    def usable(self, rule):
        """(file, number, record, key) up to the first bad record, and whether there is one."""
        out = []
        for f, file in enumerate(self.files):
            for n, (record, key) in list(enumerate(file))[self.header:]:
                is_bad = key is None and (self.given or not rule.is_comment(record))
                if is_bad and not rule.skip_bad:
                    return out, True
                out.append((f, n + 1, record, key))
        return out, False


def word(rng, rule):
    if rule.hex and rng.random() < 0.9:
        length = rng.choice([0, 1, 1, 2, 2, 3, 20])
        if rng.random() < 0.02:
            length = 5000
        text = bytes(rng.choice([0, 0xab, 0xff]) for _ in range(length)).hex()
        return (text.upper() if rng.random() < 0.5 else text).encode()
    letters = [b"a", b"A", b"b", b"B", b"a", b"b", b" ", b"\t", b",", b"\r", b"\x80", b"0", b"#"]
    letters.append(b"\n" if rule.null or rng.random() < 0.1 else b"z")
    letters.append(b"\0" if not rule.null else b"z")
    text = b"".join(rng.choice(letters) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])))
    return text * rng.choice([30, 3000]) if rng.random() < 0.02 else text


def pick(rng, rule, pool, most):
    return [rng.choice(pool) if rng.random() < 0.7 else word(rng, rule)
            for _ in range(rng.randrange(most + 1))]


def line(rng, rule, key):
    """A record that has a key somewhere."""
    text = key.replace(rule.end, b"")
    if rule.fields and rng.random() < 0.8:
        fields = [b"f", b"", text][:rng.randrange(1, 4)] + [text]
        text = rule.delimiter.join(fields)
    if rng.random() < 0.3:
        text = rng.choice([b" ", b"\t", b""]) + text + rng.choice([b" ", b"\t", b""])
    return text + (b"\r" if rng.random() < 0.3 else b"")


class Case:
    def __init__(self, rng):
        self.rng = rng
        self.rule = Rule(rng)
        self.pool = [word(rng, self.rule) for _ in range(12)]
        self.listed = rng.random() < 0.4
        # With --crlf the line "k\r" lists the key "k\r" too, which at 0.4 may be reported present.
        often = self.listed and not self.rule.crlf and rng.random() < 0.5
        self.p = "0.4" if often else "1e-9"
        self.log, self.said = [], b""

    def run(self, args, stdin=b""):
        command = [SEEN] + args
        self.log.append((command, stdin))
        done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=300, check=False)
        self.said = done.stderr
        assert done.returncode in (0, 1, 2), (done.returncode, done.stderr)
        return done.returncode, done.stdout, done.stderr

    def same(self, got, want, what):
        if got != want:
            raise AssertionError("%s: got %r, wanted %r" % (what, got, want))

    def common(self, source):
        return self.rule.options(source.given) + ["-j%d" % self.rng.choice([1, 1, 2, 3])]

    def fill(self, name, how):
        """Makes a filter by create or add; the set of its keys, and the length that all have if it is
        stored with them."""
        source = Input(self.rng, self.rule, self.pool)
        used, bad = source.usable(self.rule)
        keys = {key for _, _, _, key in used if key is not None}
        args = ["-n", "20000" if self.p == "1e-9" else "100", "-p", self.p] + self.rule.prep()
        if how == "add":
            self.same(self.run(["create", "--empty"] + args + [name])[0], 0, "status of create")
            status, _, _ = self.run(["add", "--no-sync"] + self.common(source) + [name] + source.args,
                                    source.stdin)
            self.same(status, 2 if bad else 0, "status of add")
            return keys, 0
        status, _, _ = self.run(["create"] + args + self.common(source) + [name] + source.args,
                                source.stdin)
        self.same(status, 2 if bad or not keys else 0, "status of create")
        if status != 0:
            self.same(self.run(["create", "--empty"] + args + [name])[0], 0, "status of create")
            return set(), 0
        lengths = {len(key) for key in keys}
        length = max(lengths)
        return keys, length if self.rule.hex and len(lengths) == 1 and length < 256 else 0

    def list_of(self, keys):
        """Writes a list of keys; those of them that can stand there, and options."""
        rule, rng = self.rule, self.rng
        spell = (lambda k: k)
        if rule.in_digits:
            upper = rng.random() < 0.5
            spell = (lambda k: (k.hex().upper() if upper else k.hex()).encode())
        lines = {spell(k) for k in keys if rule.in_digits or rule.end not in k}
        if rule.crlf:
            lines = {text + (b"\r" if rng.random() < 0.5 else b"") for text in sorted(lines)}
        data = rule.end.join(sorted(lines))
        # An empty list has no key, and a last line that is empty needs a terminator.
        if lines and (not data or data.endswith(rule.end) or rng.random() < 0.7):
            data += rule.end
        with open("list", "wb") as f:
            f.write(data)
        return {k for k in keys
                if spell(k) in lines or (rule.crlf and spell(k) + b"\r" in lines)}

    def query(self, one, other):
        length = self.rule.length
        self.ask(one, other)
        self.rule.length = length

    def ask(self, one, other):
        rng, rule = self.rng, self.rule
        on = {o for o in ("-v", "-c", "-q", "-n", "--annotate", "--which", "--verbose", "--also")
              if rng.random() < 0.25}
        if "--also" in on and not self.agree:
            rule.length = 0
        source = Input(rng, rule, self.pool)
        if "--which" in on:
            on -= {"-v", "--annotate"}
        if on & {"--which", "--annotate"}:
            on -= {"-c", "-q"}
        args = sorted(on - {"--also"}) + (["--also", "g.seen"] if "--also" in on else [])
        present = {key: "f.seen" for key in one}
        if "--also" in on:
            present = {**{key: "g.seen" for key in other}, **present}
        if self.listed:
            known = self.list_of(one | other)
            args += ["--confirm", "list"]
            present = {key: f for key, f in present.items() if key in known}
        # Questions that come by a pipe are never taken for compressed data.
        status, out, err = self.run(["query"] + self.common(source) + args + ["f.seen"] + source.args,
                                    source.plain if "--annotate" in on else source.stdin)
        used, bad = source.usable(rule)
        want = [] if on & {"-c", "-q"} else source.printed_header(rule, b"#\t" if "--annotate" in on else b"")
        selected = n_present = 0
        for f, number, record, key in used:
            sign = b"?" if key is None else b"+" if key in present else b"-"
            n_present += sign == b"+"
            is_selected = key is not None and (key in present) != ("-v" in on)
            selected += is_selected
            if on & {"-c", "-q"} or not (is_selected or "--annotate" in on):
                continue
            text = record if record.endswith(rule.end) else record + rule.end
            if "--annotate" in on:
                text = sign + b"\t" + text
            if "-n" in on:
                text = source.name(f) + b"%d:" % number + text
            if "--which" in on and self.p == "1e-9":
                text = present[key].encode() + b":" + text
            want.append(text)
        if "--which" in on and self.p != "1e-9":
            return  # f.seen may say by mistake what g.seen holds
        if "-c" in on and "-q" not in on and not bad:
            want = [b"%d\n" % selected]
        wins = "-q" in on and selected
        self.same(out, b"".join(want), "query")
        self.same(status, 0 if wins else 2 if bad else 0 if selected else 1, "status of query")
        if "--verbose" in on and not bad and not wins:
            asked = sum(key is not None for _, _, _, key in used)
            said = b"seen: note: %d of %d keys present;" % (n_present, asked)
            assert said in err, (said, err)

    def dedup(self, one, other):
        rng, rule = self.rng, self.rule
        source = Input(rng, rule, self.pool)
        on = {o for o in ("-v", "-c", "--verbose", "--also") if rng.random() < 0.25}
        args = sorted(on - {"--also"}) + (["--also", "g.seen"] if "--also" in on else [])
        known = set(one) | (other if "--also" in on else set())
        status, out, err = self.run(["dedup", "--no-sync"] + self.common(source) + args + ["f.seen"] +
                                    source.args, source.stdin)
        used, bad = source.usable(rule)
        want, new, n = source.printed_header(rule), set(), 0
        for _, _, record, key in used:
            if key is None:
                continue
            is_new = key not in known and key not in new
            if is_new:
                new.add(key)
            if is_new == ("-v" not in on):
                n += 1
                want.append(record if record.endswith(rule.end) else record + rule.end)
        self.same(out, b"%d\n" % n if "-c" in on else b"".join(want), "dedup")
        self.same(status, 2 if bad else 0, "status of dedup")
        if "--verbose" in on and not bad:
            asked = sum(key is not None for _, _, _, key in used)
            said = b"seen: note: %d records, %d new;" % (asked, len(new))
            assert said in err, (said, err)
        one |= new

    def all_there(self, name, keys):
        """Asks for each key of the model by -k, and for one that was never added."""
        for key in sorted(keys):
            text = key.hex().encode() if self.rule.in_digits else key
            if b"\0" in text:
                continue
            digested = ["--input-digests"] if self.rule.digest else []
            self.same(self.run(["query", "-q", "-0", name] + digested + [b"--key=" + text])[0], 0,
                      "%r" % text)
        if self.p == "1e-9":
            key = ABSENT.encode().hex() if self.rule.hex else ABSENT
            want = 2 if self.rule.length not in (0, len(ABSENT)) else 1
            self.same(self.run(["query", "-q", name, "-k", key])[0], want, "a key that is absent")

    def play(self):
        rng = self.rng
        one, length = self.fill("f.seen", rng.choice(["create", "add"]))
        other, other_length = self.fill("g.seen", rng.choice(["create", "add"]))
        self.rule.length, self.agree = length, length == other_length
        for _ in range(2):
            self.query(one, other)
            if not self.listed:
                self.dedup(one, other)
        self.query(one, other)
        self.all_there("f.seen", one)
        self.same(self.run(["verify", "f.seen"])[0], 0, "verify")


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.SystemRandom().randrange(1 << 32)
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    for i in range(seed, seed + cases):
        case = Case(random.Random(i))
        if os.listdir("."):
            sys.exit("tests/lib/model.py: run it in an empty directory")
        try:
            case.play()
        except AssertionError as e:
            print("tests/lib/model.py %d 1: %s" % (i, e))
            print(case.said)
            for command, stdin in case.log:
                print("    ", command, "" if not stdin else "<%r" % stdin[:200])
            sys.exit(1)
        for name in os.listdir("."):
            os.remove(name)
    print("seed %d, %d cases" % (seed, cases))


if __name__ == "__main__":
    main()
