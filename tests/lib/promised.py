#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/lib/promised.py [SEED [PLANS]], in an empty directory: no filter is worse than it promises.

Each plan makes a filter and does some of create, add, dedup, merge, shrink and rotate to it, with
random numbers of keys. After each step all keys are there, the rate by the bits is at most the one
that the filter promises, and so is the rate at which keys are found that were never added, but for
chance: 6 standard deviations of a binomial distribution, which one step in 10^8 would pass. A merge
promises at most the sum of what its inputs promised, and a ninth for further growth.
"""
import json
import math
import os
import random
import subprocess
import sys

SEEN = os.environ.get("SEEN", "seen")
ASKED = 100000
# The random spread of bits, and of the rate at which a full layer was closed.
SLACK = 1.01


def lines(keys):
    return "\n".join(map(str, keys)) + "\n" if keys else ""


ABSENT = lines(range(10**9, 10**9 + ASKED))


def run(*args, keys=None):
    text = keys if keys is None or isinstance(keys, str) else lines(keys)
    done = subprocess.run([SEEN, *args], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Plan:
    largest = 4.7  # numbers of keys are up to 10 to this

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed, self.next, self.steps = seed, 0, []
        self.keys = {}  # of each file, a list of ranges
        self.promise = {}

    def number(self):
        return int(10 ** self.rng.uniform(0, self.largest))

    def fresh(self, n):
        self.next += n
        return range(self.next - n, self.next)

    def do(self, *args, keys=None):
        self.steps.append(" ".join(args) + (" <%d keys" % len(keys) if keys else ""))
        status, out, said = run(*args, keys=keys)
        assert status == 0 and "warning" not in said, "exit status %d, %s" % (status, said)
        return out

    def make(self, name):
        """By any command that makes one; with a capacity that has nothing to do with the keys."""
        p = self.rng.choice(["0.1", "0.01", "0.001", "1e-4"])
        keys = self.fresh(self.number())
        sized = self.rng.choice([[], ["-n", str(self.number())]])
        how = self.rng.choice(["create", "add", "dedup"])
        words = [how] if how == "create" else [how, "--create"]
        self.do(*words, "-p", p, *sized, name, keys=keys)
        self.keys[name], self.promise[name] = [keys], float(p)

    def give(self, name):
        keys = self.fresh(self.number())
        again = self.rng.choice(self.keys[name])
        self.do(self.rng.choice(["add", "dedup"]), name, keys=[*keys, *again[:1000]])
        self.keys[name].append(keys)

    def merge(self, name):
        if self.rng.random() < 0.5:
            self.make("other")
        else:
            layers = json.loads(run("stats", "--json", name)[1])["layers"]
            if len(layers) > 1:
                return
            keys = self.fresh(self.rng.randint(1, layers[0]["n_design"]))
            self.do("create", "--like", name, "other", keys=keys)
            self.keys["other"], self.promise["other"] = [keys], self.promise[name]
        self.do("merge", "--force", "-o", name, name, "other")
        self.keys[name] += self.keys.pop("other")
        self.promise[name] = (self.promise[name] + self.promise.pop("other")) / 0.9
        os.unlink("other")

    def shrink(self, name):
        self.do("shrink", name)

    def check(self, name):
        figures = json.loads(run("stats", "--json", name)[1])
        design, current = figures["fpr_design"], figures["fpr_current"]
        there = [key for keys in self.keys[name] for key in keys]
        missing = int(run("query", "-v", "-c", name, keys=there)[1])
        hits = int(run("query", "-c", name, keys=ABSENT)[1])
        most = ASKED * design * SLACK + 6 * math.sqrt(ASKED * design) + 6
        assert missing == 0, "%d keys are missing" % missing
        assert design <= self.promise[name] * (1 + 1e-9), "it promises %g, not %g" % (
            design, self.promise[name])
        assert current <= SLACK * design, "its rate is %g, above %g" % (current, design)
        assert hits <= most, "%d of %d absent keys are found, at a rate of %g" % (hits, ASKED, design)

    def ring(self):
        """No generation gets more keys than its share."""
        generations, room = self.rng.randint(1, 4), self.number() + 10
        self.do("create", "--empty", "--generations", str(generations), "-n",
                str(generations * room), "-p", "0.001", "ring")
        self.keys["ring"], self.promise["ring"] = [], 0.001
        for _ in range(self.rng.randint(1, 6)):
            keys = self.fresh(self.rng.randint(1, room))
            self.do(self.rng.choice(["add", "dedup"]), "ring", keys=keys)
            self.keys["ring"].append(keys)
            self.check("ring")
            self.do("rotate", "ring")
            self.keys["ring"] = self.keys["ring"][-generations:]
            self.check("ring")
        os.unlink("ring")

    def chain(self):
        self.make("f")
        self.check("f")
        for _ in range(self.rng.randint(1, 5)):
            self.rng.choice([self.give, self.give, self.merge, self.shrink])("f")
            self.check("f")
        assert run("verify", "f")[0] == 0, "verify finds fault"
        os.unlink("f")


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    plans = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    for n in range(seed, seed + plans):
        plan = Plan(n)
        try:
            (plan.ring if plan.rng.random() < 0.15 else plan.chain)()
        except AssertionError as err:
            print("seed %d: %s" % (n, err), *plan.steps, sep="\n    ")
            return 1
    print("%d plans from seed %d" % (plans, seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
