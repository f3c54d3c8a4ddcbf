# SPDX-License-Identifier: MIT
"""The FPR that stats prints, against 10^6 absent keys, of files made in many ways.

Case i of seed S takes a kind or layout, 1 to 10^6 keys, a rate from 0.1 to 10^-7, one to four parts, and
a way: made at once, grown, merged, or exported and imported, all drawn from S + i: --seed N --cases 1
rates repeats one. What query reports must be what stats says, within 6 standard deviations of the
count, and one more for what is rare, and the factor that stats prints beside an estimate; else within
1 %.
"""

import json
import math
import os
import random
import subprocess

from common import PATIENCE, SEEN, Scratch, in_parallel

NAME = "rates"
TITLE = "the rate that stats prints is what absent keys find, however a file was made"
ABSENT = 10 ** 6
EXACT = 1.01

# How files are made, and in which ways.
KINDS = {
    "bloom": ("", ("made", "grown", "merged")),
    "fixed": ("--fixed", ("made", "merged")),
    "compact": ("--compact", ("made",)),
    "counted": ("--counted", ("made", "merged")),
    "guava": ("--layout guava", ("made", "merged", "imported")),
    "guava 32": ("--layout guava:strategy=32", ("made", "merged", "imported")),
    "redisson": ("--layout redisson", ("made", "merged", "imported")),
    "redisbloom": ("--layout redisbloom", ("made", "merged", "imported")),
    "dcso": ("--layout dcso", ("made", "merged", "imported")),
    "gozero": ("--layout gozero", ("made", "merged", "imported")),
}


class Case:
    def __init__(self, seed, most):
        r = random.Random(seed)
        self.kind = r.choice(list(KINDS))
        self.options, ways = KINDS[self.kind]
        self.way = r.choice(ways)
        self.n = round(most ** r.random())
        self.p = 10 ** r.uniform(-7, -1)
        self.parts = min(r.randint(1, 4), self.n)
        self.first = r.randrange(most)  # of the keys

    def __str__(self):
        return "%s, %s, n=%d p=%.2g, %d parts" % (self.kind, self.way, self.n, self.p, self.parts)

    def script(self):
        """Commands for a shell that make f.seen of the keys that KEYS prints."""
        def create(n):
            capacity = "" if self.kind == "compact" else "-n %d" % n
            return '"$SEEN" create -j1 %s %s -p %.3g' % (self.options, capacity, self.p)

        keys = "keys %d %d"
        bounds = [self.first + self.n * i // self.parts for i in range(self.parts + 1)]
        each = max(1, self.n // self.parts)
        if self.way == "made":
            return keys % (self.first, self.n) + " | " + create(self.n) + " f.seen"
        if self.way == "imported":
            return "\n".join((
                keys % (self.first, self.n) + " | " + create(self.n) + " a.seen",
                '"$SEEN" export --force -o foreign a.seen',
                '"$SEEN" import -j1 --layout "$("$SEEN" stats --json a.seen | jq -r .layout)" foreign -o f.seen'))
        if self.way == "grown":
            return "\n".join([create(each) + " --empty f.seen"] + [
                keys % (a, b - a) + ' | "$SEEN" add -j1 f.seen' for a, b in zip(bounds, bounds[1:])])
        files = ["%d.seen" % i for i in range(self.parts)]
        lines = [keys % (a, b - a) + " | " + create(max(1, b - a)) + " --force " + file
                 for file, a, b in zip(files, bounds, bounds[1:])]
        return "\n".join(lines + ['"$SEEN" merge -j1 --force -o f.seen ' + " ".join(files)])


def keys_of(r, n):
    digits = r.randbytes(8 * n).hex()
    return "".join(digits[at:at + 16] + "\n" for at in range(0, len(digits), 16))


def attack(tap, options):
    cases = options.cases or (24 if options.short else 400)
    most = 10 ** 4 if options.short else 10 ** 6
    r = random.Random(options.seed)

    def one(number, seed):
        case, directory = Case(seed, most), os.path.join(path, "case.%d" % number)
        os.mkdir(directory)
        line = 'set -e; keys() { tail -n +"$(($1 + 1))" ../keys | head -n "$2"; }\n' + case.script() + (
            '\n"$SEEN" stats -j1 --json f.seen; "$SEEN" query -j1 -c f.seen ../absent || [ $? = 1 ]')
        done = subprocess.run(["bash", "-c", line], cwd=directory, timeout=PATIENCE, text=True,
                              env=dict(os.environ, SEEN=SEEN), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        if done.returncode != 0:
            return "%s: %s" % (case, done.stderr)
        stats, found = done.stdout.strip().split("\n")[-2:]
        stats, found = json.loads(stats), int(found)
        said = ABSENT * stats["fpr_current"]
        factor = stats.get("fpr_factor") or EXACT
        chance = 6 * math.sqrt(said * factor) + 2
        if said / factor - chance <= found <= said * factor + chance:
            return ""
        return "%s: %d found, %.2f said, factor %.3g" % (case, found, said, factor)

    with Scratch() as path:
        for name, n in ("keys", 2 * most), ("absent", ABSENT):
            with open(os.path.join(path, name), "w", encoding="ascii") as f:
                f.write(keys_of(r, n))
        done = list(in_parallel(range(options.seed, options.seed + cases), options, one))
    false = [text for text in done if text]
    for text in false:
        tap.say(text)
    tap.say("%d files, %d absent keys each" % (len(done), ABSENT))
    tap.result(not false, TITLE)
