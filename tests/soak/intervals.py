# SPDX-License-Identifier: MIT
"""The intervals that stats, merge and compare print, against the truth, of files made in many ways.

Files are made, merged into one layer or joined, intersected, shrunk, subtracted, exported and
imported, grown, and rotated, at loads from 1 to 10,000 % of the capacity. A case is a set of keys,
those of its number: --seed N --cases 1 intervals repeats one.

Of each figure (kind, way, load) an interval may be false in 7 % of the cases, and beyond that by
chance: with intervals that are false in 7 %, one of 100,000 runs of all figures fails. A pair that
compare refuses as too full has no interval, so it has no false one. (Of the pairs that are just full
enough to be refused mostly, those that are not have fewer bits by chance, and most of their intervals are false. No
limit on what was found can change that.) Intervals with two ends, of 100 keys or
more, must hold in 93 to 98 % of all, with 4.5 standard deviations of the mean of the cases beyond.
Bounds may hold more often.

So must the FPR that stats prints agree with what query finds, and the number of new keys that dedup
says it took for known with the truth: within 5 standard deviations of the events, and 2 %.
"""

import collections
import json
import math
import os
import re
import subprocess

from common import PATIENCE, SEEN, Scratch, in_parallel

NAME = "intervals"
TITLE = "intervals, rates and lost keys that are printed are true, however a file was made"

# The options of two equal files, those of one of another size, the capacity, the rate to which shrink
# goes, and the layout if it is another program's.
KINDS = {
    "bloom": ("--fixed -n 3000 -p 0.01 --foldable", "--fixed -n 5000 -p 0.01", 3000, 0.9, None),
    "bloom2": ("--fixed -n 1000 -p 1e-6 --foldable", "--fixed -n 5000 -p 1e-6", 1000, 0.9, None),
    "guava": ("--layout guava -n 300 -p 1e-4", "--layout guava -n 500 -p 0.01", 300, None, "guava"),
    "gozero": ("--layout gozero -n 100 -p 0.01", "--layout gozero -n 500 -p 0.01", 100, None, None),
    "counted": ("--counted -n 300 -p 0.1", "--counted -n 300 -p 0.01", 300, 0.2, None),
}
LOADS = [0.01, 0.1, 0.5, 1, 3, 8, 30, 100]
SHORT = {"bloom": [0.01, 2], "bloom2": [0.5], "guava": [0.1, 20], "gozero": [3, 100], "counted": [0.5, 8]}
GROWN = [10, 300, 3000, 20000]
ABSENT = 1000        # keys asked for to measure an FPR
FIRST = 10 ** 12     # keys are numbers
EACH = 10 ** 8       # those of a case
A, BOTH, B, OTHER = (i * EACH // 10 for i in range(1, 5))
FEW = 100            # with fewer keys numbers are whole, and more intervals hold
# The standard deviation of the share that holds of a case, at least: by chance few may be false in all.
DEVIATION = 0.044
# What has bounds, not estimates, or an interval that is too wide by design.
BOUNDS = {"joined", "intersected", "grown, shrunk"}


def numbers(base, *parts):
    return "{ %s :; }" % " ".join("seq %d %d;" % (base + at, base + to - 1) for at, to in parts if to > at)


class Script:
    """Commands for a shell. say() marks what follows on the output with Python values."""

    def __init__(self):
        self.lines, self.marks = [], []

    def say(self, *mark):
        self.lines.append("echo '@%d'" % len(self.marks))
        self.marks.append(mark)

    def seen(self, command, before=""):
        self.lines.append('%s"$SEEN" %s' % (before + " | " if before else "", command))

    def ask(self, base, file, fpr):
        """How many absent keys does query report?"""
        self.say("asked", fpr)
        self.seen("query -j1 -c " + file, numbers(base, (OTHER, OTHER + ABSENT)))


def pair(s, base, kind, loads):
    options, other, capacity, shrunk, layout = KINDS[kind]
    s.lines.append("rm -f *")
    for name, made in ("a", options), ("b", options), ("c", other):
        s.seen("create --empty %s %s" % (made, name))
    # However full they are.
    add = "add -j1 " if kind == "counted" else "add -j1 --max-fpr 0.999999999999 "
    had = 0
    for load in loads:
        n = max(1, math.ceil(load * capacity / 2))
        in_a = numbers(base, (A + had, A + n), (BOTH + had, BOTH + n))
        in_b = numbers(base, (B + had, B + n), (BOTH + had, BOTH + n))
        s.seen(add + "a", in_a)
        s.seen(add + "b", in_b)
        s.seen(add + "c", in_b)
        files = {"a": ("made", 2 * n)}
        for name, way, truth, command in (
                ("u", "merged", 3 * n, "merge -j1 --force -o u a b"),
                ("i", "intersected", n, "merge -j1 --force --intersect -o i a b"),
                ("j", "joined", 3 * n, "merge -j1 --force -o j a c")):
            s.seen(command)
            files[name] = way, truth
        if kind == "counted":  # sets of unequal fingerprints are not joined
            files["j"] = "merged, narrower", 3 * n
        if shrunk:
            s.lines.append("rm -f s")
            s.seen("shrink -j1 -p %s -o s a" % shrunk)
            files["s"] = "shrunk", 2 * n
        if layout:
            s.seen("export --force -o foreign a")
            s.seen("import -j1 --force --layout %s foreign -o e" % layout)
            files["e"] = "imported", 2 * n
        s.say("stats", kind, load, files)
        for name in files:
            s.seen("stats -j1 --json " + name)
        if layout is None:
            s.ask(base, "a", "a")
        s.say("compare", kind, load, n)
        s.seen("compare -j1 --json a b")
        if kind == "counted":
            s.seen("merge -j1 --force --except -o d a b")
            s.say("kept", kind, load)
            s.seen("query -j1 -c d", numbers(base, (A, A + n)))
            s.seen("stats -j1 --json d")
        had = n


def grown(s, base):
    s.seen("create --empty -n 100 -p 0.3 g")
    had = 0
    for n in GROWN:
        s.say("lost", n)
        s.seen("dedup -j1 --verbose g 2>&1 >/dev/null", numbers(base, (A + had, A + n)))
        s.say("stats", "bloom", n, {"g": ("grown", n), "s": ("grown, shrunk", n)})
        s.seen("stats -j1 --json g")
        s.ask(base, "g", "g")
        s.say("stats", "bloom", n, {"s": ("grown, shrunk", n)})
        s.seen("shrink -j1 --force -p 0.95 -o s g")
        s.seen("stats -j1 --json s")
        had = n


def rotated(s, base, turns):
    """A third of a generation's keys are those of the one before. Three are live."""
    s.seen("create --empty --generations 3 -n 600 -p 0.01 r")
    for turn in range(turns):
        s.seen("add -j1 r", numbers(base, (A + 200 * turn, A + 200 * turn + 300)))
        s.say("stats", "bloom", turn, {"r": ("rotated", 200 * min(turn, 3) + 300)})
        s.seen("stats -j1 --json r")
        s.seen("rotate -j1 r")


def script(number, short):
    s, base = Script(), FIRST + number * EACH
    for kind in KINDS:
        pair(s, base, kind, SHORT[kind] if short else LOADS)
    grown(s, base)
    rotated(s, base, 2 if short else 6)
    return s


class Case:
    """What came of a case. held: of each figure, whether its interval did. fpr, lost: found and said."""

    def __init__(self):
        self.held, self.many = {}, set()
        self.fpr, self.lost, self.new = [0, 0], [0, 0], 0

    def note(self, figure, low, high, truth, keys):
        if low is None:
            return
        high = math.inf if high is None else high
        self.held[figure] = low <= truth * (1 + 1e-12) and truth * (1 - 1e-12) <= high
        if keys >= FEW and not math.isinf(high) and figure[1] not in BOUNDS:
            self.many.add(figure)

    def compared(self, kind, load, n, o):
        for name, truth in (("a", 2 * n), ("b", 2 * n), ("union", 3 * n), ("intersection", n)):
            self.note((kind, "compare " + name, load), o[name + "_low"], o[name + "_high"], truth, n)

    def read(self, marks, text):
        mark, rate, kept = None, {}, None
        for line in text.split("\n"):
            if line.startswith("@"):
                mark = marks[int(line[1:])]
            elif line.startswith("{"):
                o = json.loads(line)
                if mark[0] == "compare":
                    self.compared(*mark[1:], o)
                elif mark[0] == "kept":
                    self.note((mark[1], "subtracted", mark[2]), o["n_low"], o["n_high"], kept, kept)
                else:
                    way, truth = mark[3][o["file"]]
                    rate[o["file"]] = o["fpr_current"]
                    self.note((mark[1], way, mark[2]), o["n_low"], o["n_high"], truth, truth)
            elif mark and mark[0] == "kept" and line:
                kept = int(line)
            elif mark and mark[0] == "asked" and line:
                self.fpr[0] += int(line)
                self.fpr[1] += ABSENT * rate[mark[1]]
            elif mark and mark[0] == "lost" and "probably mistaken for known" in line:
                new, said = re.search(r"records, (\d+) new; .*?known: ([\d.e+-]+)", line).groups()
                self.new = int(new) + (self.new if mark[1] != GROWN[0] else 0)
                if mark[1] == GROWN[-1]:  # what is said is since the file was made
                    self.lost[0] += mark[1] - self.new
                    self.lost[1] += float(said)


def most_false(cases, figures):
    """More false intervals than this, of 7 % false ones, come once in 10^5 / figures runs."""
    tail, term, k = 1.0, 0.93 ** cases, 0
    while k < cases and tail - term > 1e-5 / figures:
        tail -= term
        term *= (cases - k) / (k + 1) * 0.07 / 0.93
        k += 1
    return k


def agree(tap, what, pairs):
    found, said = (sum(p[i] for p in pairs) for i in (0, 1))
    tap.say("%s: %d, said %.1f" % (what, found, said))
    return abs(found - said) <= 5 * math.sqrt(said + 1) + 0.02 * said


def attack(tap, options):
    cases = options.cases or (30 if options.short else 200)

    def one(number, seed):
        directory = os.path.join(path, "case.%d" % number)
        os.mkdir(directory)
        s = script(seed, options.short)
        out = subprocess.run(["bash", "-c", "\n".join(s.lines)], cwd=directory, timeout=PATIENCE, text=True,
                             env=dict(os.environ, SEEN=SEEN), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        case = Case()
        case.read(s.marks, out.stdout)
        return case

    with Scratch() as path:
        done = list(in_parallel(range(options.seed, options.seed + cases), options, one))
    cases = len(done)
    of, held = collections.Counter(), collections.Counter()
    for case in done:
        of.update(case.held.keys())
        held.update(f for f in case.held if case.held[f])
    ok, limit = True, most_false(cases, len(of))
    for figure in sorted(of, key=str):
        if of[figure] - held[figure] > limit:
            ok = False
            tap.say("%s, %s at %s: %d of %d hold" % (*figure, held[figure], of[figure]))
    shares = [sum(c.held[f] for f in c.many) / len(c.many) for c in done]
    mean = sum(shares) / cases
    variance = sum((x - mean) ** 2 for x in shares) / max(1, cases - 1)
    error = math.sqrt(max(variance, DEVIATION ** 2) / cases)
    tap.say("%d figures of %d cases, at most %d false; of those with two ends %.2f %% (%.2f) hold" % (
        len(of), cases, limit, 100 * mean, 100 * error))
    ok &= 0.93 - 4.5 * error <= mean <= 0.98 + 4.5 * error
    ok &= agree(tap, "absent keys reported", [c.fpr for c in done])
    ok &= agree(tap, "new keys taken for known", [c.lost for c in done])
    tap.result(ok, TITLE)
