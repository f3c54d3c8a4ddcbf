# SPDX-License-Identifier: MIT
"""Counted sets beside a model of them, over long random sequences of commands.

A case has four files and a crowd of keys whose hashes are known (tests/lib/reader.py, crafted.py):
random ones, some with equal fingerprints, many of one block, and such that differ in the last bit. A
random command makes or changes a file; some of them are killed, or given an error, at a random
system call, and then repeated. After each, of every key of the crowd, the file must have the count
that the model has, which is that of its fingerprint; stats must have its sums, and verify must find
no fault.

A case is a number: --seed N --cases 1 counted runs it alone. Cases of 300 to 3000 keys take turns
with larger ones, which --short leaves out.
"""

import collections
import json
import math
import os
import random
import subprocess
import sys

import calls
from common import PATIENCE, SEEN, TRACED, Scratch, in_parallel

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from crafted import key_of  # noqa: E402
from reader import xxh3  # noqa: E402

NAME = "counted"
TITLE = "counted sets are what a model of them is, wherever commands are cut off"
FILES = ["a.seen", "b.seen", "c.seen", "d.seen"]
RATES = [0, 0, 0, 1e-12, 1e-6, 1e-3, 0.05, 0.4]
REMEMBERED = 128  # batches
LIMIT = 1 << 64   # sums of counts are below it
# At which calls a command is cut off.
CUT = ["openat", "fcntl", "mmap", "pwrite64", "pwritev", "write", "ftruncate", "fallocate", "fsync",
       "fdatasync", "linkat", "renameat", "unlinkat", "close", "munmap"]


class Wrong(Exception):
    """The program does not do what the model does."""


class Set:
    """What a file holds: the count of each fingerprint, and the batches that it remembers. Of what an
    intersection of narrow fingerprints went into, the number of keys is not known."""

    def __init__(self, bits, counts=None, batches=(), intersected=False, subtracted=False):
        self.bits = bits
        self.counts = {v: n for v, n in (counts or {}).items() if n > 0}
        self.batches = list(batches)
        self.intersected, self.subtracted = intersected, subtracted

    def fingerprint(self, h):
        return h >> (64 - self.bits)

    def of(self, hashes, once):
        """A batch. Under --once each distinct hash counts once."""
        return collections.Counter(self.fingerprint(h) for h in (set(hashes) if once else hashes))

    def narrowed(self, bits):
        out = collections.Counter()
        for v, n in self.counts.items():
            out[v >> (self.bits - bits)] += n
        return out


class Crowd:
    """Keys, in hexadecimal digits, and their hashes."""

    def __init__(self, chance, n):
        where = chance.getrandbits(24) << 40
        makers = [
            lambda i: None,
            lambda i: None,
            lambda i: chance.getrandbits(64),
            lambda i: where + chance.getrandbits(40),
            lambda i: self.hashes[-1] ^ 1 if self.hashes else 0,
            lambda i: chance.choice([i, LIMIT - 1 - i]),
        ]
        self.keys, self.hashes = [], []
        weights = [chance.random() ** 3 for _ in makers]
        for i in range(n):
            h = chance.choices(makers, weights)[0](i)
            key = b"k%07d" % i if h is None else key_of(h)
            self.keys.append(key.hex())
            self.hashes.append(xxh3(key, 0) if h is None else h)
        self.text = "".join(k + "\n" for k in self.keys)


class Case:
    def __init__(self, directory, seed, options, traces):
        self.chance = random.Random(seed)
        self.directory, self.traces = directory, traces
        size = self.chance.choice([300, 1000, 3000])
        large = not options.short and seed % 5 == 0
        self.crowd = Crowd(self.chance, 60000 if large else size)
        self.steps = 30 if large or options.short else 100
        self.files, self.log, self.said = {}, [], ""
        self.ids = 0
        self.cut = self.done = 0

    # ---- Commands

    def seen(self, *args, keys=None, cut=None):
        """Runs the program on the keys of these numbers. `cut`: what strace injects."""
        command = [SEEN, *args]
        if cut:
            command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=" + cut[0],
                       "-e", "inject=%s:%s:when=%d" % cut, *command]
        text = None if keys is None else "".join(self.crowd.keys[i] + "\n" for i in keys)
        self.log.append(" ".join(command[-len(args) - 1:]) +
                        (" <%d keys" % len(keys) if keys is not None else "") +
                        ("   cut off at %s:%s:%d" % cut if cut else ""))
        done = subprocess.run(command, cwd=self.directory, input=text, capture_output=True,
                              text=True, env=TRACED, timeout=PATIENCE, check=False)
        self.said = done.stderr
        return done

    def expect(self, done, status, said=""):
        if done.returncode != status or said not in done.stderr:
            raise Wrong("status %d, not %d with '%s': %s"
                        % (done.returncode, status, said, done.stderr))

    def some(self):
        """Numbers of keys: a few or many, in no order, with repeats."""
        chance, n = self.chance, len(self.crowd.keys)
        if chance.random() < 0.2:
            return chance.choices(range(n), k=chance.choice([1, 2, 10]))
        begin, size = chance.randrange(n), chance.randrange(1, n)
        out = [i % n for i in range(begin, begin + size, chance.choice([1, 1, 2, 7]))]
        out += chance.choices(out, k=len(out) // 10)
        chance.shuffle(out)
        return out

    def hashes(self, keys):
        return [self.crowd.hashes[i] for i in keys]

    def threads(self):
        return ["-j%d" % self.chance.choice([1, 1, 2, 3])]

    # ---- What a file must be

    def differs(self, name, model):
        """How the file differs from the model; None if it does not."""
        done = subprocess.run([SEEN, "query", "--show-counts", name], cwd=self.directory,
                              input=self.crowd.text, capture_output=True, text=True, check=False)
        want = []
        for key, h in zip(self.crowd.keys, self.crowd.hashes):
            n = model.counts.get(model.fingerprint(h), 0)
            if n:
                want.append("%d\t%s\n" % (n, key))
        if done.returncode != (0 if want else 1) or done.stdout != "".join(want):
            return "query --show-counts: status %d, %d lines, not %d; %s" % (
                done.returncode, done.stdout.count("\n"), len(want), done.stderr)
        done = self.seen("stats", "--json", name)
        stats = json.loads(done.stdout)
        got = tuple(stats[m] for m in ("fingerprints", "counts_total", "fingerprint_bits"))
        sums = (len(model.counts), sum(model.counts.values()), model.bits)
        if got != sums:
            return "stats has %r, the model %r" % (got, sums)
        if not math.isclose(stats["fpr_current"], sums[0] / 2.0 ** model.bits, rel_tol=1e-9):
            return "FPR %r" % stats["fpr_current"]
        done = self.seen("verify", name)
        return done.stderr if done.returncode != 0 else None

    def check(self, name, model):
        differs = self.differs(name, model)
        if differs:
            raise Wrong("%s: %s" % (name, differs))
        self.files[name] = model

    def make(self, name, new, args, keys=None, old=None, status=0, said=""):
        """Runs a command that replaces a file: `new` is the model of what it makes, None if it has
        to fail. It may be cut off before, and is then repeated."""
        if self.traces and self.chance.random() < 0.25:
            # What is cut off leaves the old file or the new one. A batch of an ID is applied once.
            self.cut += 1
            call = self.chance.choice(CUT)
            how = self.chance.choice(["signal=KILL", "signal=KILL", "error=ENOSPC", "error=EIO"])
            if os.environ.get("SANITIZER") and call in calls.MEMORY:
                how = "signal=KILL"  # a sanitizer's own calls may not fail
            cut = (call, how, self.chance.choice([1, 2, 3, 4, 5, 8, 13, 20]))
            done = self.seen(*args, keys=keys, cut=cut)
            there = os.path.exists(os.path.join(self.directory, name))
            is_new = new is not None and there and not self.differs(name, new)
            is_old = not self.differs(name, old) if old else not there
            if not (is_new or (is_old and done.returncode != 0)):
                raise Wrong("%s is neither the old nor the new one (status %d: %s)"
                            % (name, done.returncode, done.stderr))
            # Without an ID, whether it was done knows only who looks. To do it twice makes another
            # file, also where an input is replaced.
            if is_new and "--batch-id" not in args:
                self.files[name] = new
                return
        done = self.seen(*args, keys=keys)
        self.expect(done, status, said)
        if new:
            self.check(name, new)
        elif old:
            self.check(name, old)

    # ---- Random commands

    def create(self, name):
        chance = self.chance
        p, keys = chance.choice(RATES), self.some()
        hashes, once = self.hashes(keys), self.once()
        args = ["create", "--counted", *once, "-x", "--force", "-p", repr(p), *self.threads()]
        n = len(set(hashes))
        if chance.random() < 0.5:
            n = max(n, chance.choice([100, 5000, 100000]))
            args += ["-n", str(n)]
        bits = 64 if p == 0 else next(b for b in range(1, 65) if n / 2 ** b <= p)
        new = Set(bits)
        new.counts = dict(new.of(hashes, once))
        self.make(name, new, [*args, name], keys, self.files.get(name))

    def once(self):
        return self.chance.choice([[], ["--once"]])

    def batch_id(self, op, old, new):
        """Options of a batch; whether the file remembers it already."""
        if self.chance.random() < 0.3:
            return [], False
        if self.chance.random() < 0.1 and old.batches:
            before = [b for o, b in old.batches if o == op]
            if before:
                return ["--batch-id", self.chance.choice(before)], True
        self.ids += 1
        if new is not None:
            new.batches = [*old.batches, (op, str(self.ids))][-REMEMBERED:]
        return ["--batch-id", str(self.ids)], False

    def add(self, name):
        old, keys, once = self.files[name], self.some(), self.once()
        sums = collections.Counter(old.counts) + old.of(self.hashes(keys), once)
        new = Set(old.bits, sums, old.batches, old.intersected, old.subtracted)
        if len(new.counts) > 0.9 * 2 ** old.bits:
            return  # its rate would pass --max-fpr
        said, status = "", 0
        if sum(new.counts.values()) >= LIMIT:
            new, status, said = None, 2, "the sum of the counts would be 2^64 or more"
        batch, is_known = self.batch_id("add", old, new)
        if is_known:
            new, status, said = old, 0, ""
        args = ["add", "--max-fpr", "0.99", *once, *batch, *self.threads(), name]
        self.make(name, new, args, keys, old, status, said)

    def remove(self, name):
        old, keys, once = self.files[name], self.some(), self.once()
        skips = self.chance.random() < 0.4
        if not skips and self.chance.random() < 0.8:
            keys = [i for i in keys if old.fingerprint(self.crowd.hashes[i]) in old.counts] or keys
        taken = old.of(self.hashes(keys), once)
        # Counter's difference leaves out what would not be above 0.
        new = Set(old.bits, collections.Counter(old.counts) - taken, old.batches, old.intersected, True)
        status, said = 0, ""
        absent = [at for at, i in enumerate(keys, 1)
                  if old.fingerprint(self.crowd.hashes[i]) not in old.counts]
        if not skips and absent:
            new, status, said = None, 2, "(standard input):%d: the key is not in" % absent[0]
        elif not skips and any(old.counts[v] < n for v, n in taken.items()):
            new, status, said = None, 2, "nothing was removed: the batch removes"
        batch, is_known = self.batch_id("remove", old, new)
        if is_known:
            new, status, said = old, 0, ""
        args = ["remove", *once, *(["--skip-absent"] if skips else []), *batch, *self.threads(), name]
        self.make(name, new, args, keys, old, status, said)

    def combine(self, name):
        chance = self.chance
        inputs = chance.choices(sorted(self.files), k=chance.choice([2, 2, 3, 5]))
        bits = min(self.files[i].bits for i in inputs)
        parts = [self.files[i].narrowed(bits) for i in inputs]
        op = chance.choice(["add", "add", "--max", "--distinct", "--intersect", "--subtract",
                            "--except"])
        if op in ("--subtract", "--except"):
            counts = parts[0]
            for part in parts[1:]:
                counts = (counts - part if op == "--subtract" else
                          {v: n for v, n in counts.items() if v not in part})
            args = ["merge", op]
        else:
            counts = parts[0]
            for part in parts[1:]:
                counts = (counts & part if op == "--intersect" else
                          counts | part if op == "--max" else counts + part)
            if op == "--distinct":
                counts = {v: 1 for v in counts}
            args = ["merge"] + [op] * (op != "add")
        intersected = (op == "--intersect" and bits < 64) or any(self.files[i].intersected for i in inputs)
        subtracted = op in ("--subtract", "--except") or any(self.files[i].subtracted for i in inputs)
        new, status, said = Set(bits, counts, (), intersected, subtracted), 0, ""
        # Of what is merged pairwise, a sum in between may be too large, too.
        if sum(new.counts.values()) >= LIMIT:
            new, status, said = None, 2, "the sum of the counts would be 2^64 or more"
        elif op in ("--max",) and sum(sum(p.values()) for p in parts) >= LIMIT:
            return
        args += ["--force", *self.threads(), "-o", name, *inputs]
        self.make(name, new, args, None, self.files.get(name), status, said)

    def shrink(self, name):
        old = self.files[name]
        p = self.chance.choice([1e-9, 1e-4, 0.02, 0.3])
        done = self.seen("shrink", "-p", repr(p), "-o", "s.seen", "--force", name)
        if done.returncode != 0:
            if len(old.counts) / 2.0 ** old.bits <= p:
                raise Wrong("shrink fails: " + done.stderr)
            return
        bits = json.loads(self.seen("stats", "--json", "s.seen").stdout)["fingerprint_bits"]
        new = Set(bits, old.narrowed(bits), old.batches, old.intersected, old.subtracted)
        if bits < old.bits and not (len(new.counts) / 2.0 ** bits <= p < 2.02 * max(
                len(old.counts), 1) / 2.0 ** bits):
            raise Wrong("shrink to %g makes %d bits for %d entries" % (p, bits, len(new.counts)))
        self.make(name, new, ["shrink", "-p", repr(p), name], None, old)

    def derive(self, name):
        """Other kinds, of whole hashes: the same file as that of the keys."""
        model = self.files[name]
        if model.bits != 64 or not model.counts:
            return
        records = json.loads(self.seen("stats", "--json", name).stdout)["records"]
        by_hash = dict(zip(self.crowd.hashes, range(len(self.crowd.hashes))))
        keys = [by_hash[h] for h in model.counts]
        self.chance.shuffle(keys)
        p = repr(self.chance.choice([1e-6, 0.01, 0.3]))
        kind = self.chance.choice([[], ["--compact"], ["--grow"], ["--foldable"]])
        same = ["--reproducible", "--force", *kind, "-p", p]
        self.expect(self.seen("create", *same, "-x", "e.seen", keys=keys), 0)
        args = ["create", *same, "--from", name, "f.seen"]
        self.expect(self.seen(*args, *self.threads()), 0)
        done = self.seen("query", "-c", "f.seen", keys=keys)
        if done.stdout != "%d\n" % len(keys):
            raise Wrong("%s lost keys: %s of %d" % (args, done.stdout, len(keys)))
        with open(os.path.join(self.directory, "e.seen"), "rb") as e, \
                open(os.path.join(self.directory, "f.seen"), "rb") as f:
            # The number of records is in it, too.
            if records == len(keys) and e.read() != f.read():
                raise Wrong("%s differs from the file of the keys" % args)
        self.expect(self.seen("verify", "f.seen"), 0)

    def compare(self, name):
        other = self.chance.choice(sorted(self.files))
        a, b = self.files[name], self.files[other]
        bits = min(a.bits, b.bits)
        one, two = a.narrowed(bits), b.narrowed(bits)
        done = self.seen("compare", "--json", *self.threads(), name, other)
        if a.intersected or b.intersected:
            self.expect(done, 2, "compare the ")
            return
        if done.returncode != 0:
            # Only a difference of sets that are nearly full is refused.
            is_difference = "is a difference" in done.stderr and (a.subtracted or b.subtracted)
            if "too full" not in done.stderr and not is_difference:
                raise Wrong("compare: " + done.stderr)
            return
        got = json.loads(done.stdout)
        want = {"fingerprint_bits": bits, "counts_a": sum(one.values()),
                "counts_b": sum(two.values()), "counts_smaller": sum((one & two).values())}
        if bits == 64:
            want.update({"a": len(one), "b": len(two), "intersection": len(one & two),
                         "union": len(one | two)})
        for member, value in want.items():
            if got[member] != value:
                raise Wrong("compare: %s is %r, not %r" % (member, got[member], value))

    def play(self):
        for name in FILES:
            self.create(name)
        for _ in range(self.steps):
            self.done += 1
            command = self.chance.choices(
                [self.create, self.add, self.remove, self.combine, self.shrink, self.derive,
                 self.compare], [1, 8, 8, 6, 1, 2, 2])[0]
            command(self.chance.choice(FILES))


def attack(tap, options):
    traces = calls.usable() is None
    cases = options.cases or (4 if options.short else 10 ** 6 if options.seconds else 60)
    cut = done = failed = 0
    with Scratch() as path:
        def one(number, seed):
            directory = os.path.join(path, "case.%d" % number)
            os.mkdir(directory)
            case = Case(directory, seed, options, traces)
            wrong = None
            try:
                case.play()
            except (Wrong, subprocess.TimeoutExpired) as e:
                wrong = str(e)
            for name in os.listdir(directory):
                os.unlink(os.path.join(directory, name))
            return case, seed, wrong

        seeds = range(options.seed, options.seed + cases)
        for case, seed, wrong in in_parallel(seeds, options, one):
            cut, done = cut + case.cut, done + case.done
            if wrong:
                failed += 1
                tap.say("case %d: %s" % (seed, wrong))
                for line in case.log[-12:]:
                    tap.say("    " + line)
    tap.say("%d commands, %d times one was cut off" % (done, cut))
    tap.result(not failed, TITLE)
