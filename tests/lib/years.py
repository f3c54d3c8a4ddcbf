#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/lib/years.py [SEED [ROUNDS [PLANS [STEPS]]]], in an empty directory: filters that live long.

What a filter can have only so many times (layers, generations, batches) shows after many rounds: so
each command is run ROUNDS times on one file, and PLANS files have STEPS random steps each. All keys
are there, and no rate is above the promise, after every step of a plan, and after every tenth round
(promised.py says how).
"""
import json
import os
import sys

from promised import Plan, run

MOST_LAYERS = 31  # of a merged file


class Life(Plan):
    largest = 3

    def layers(self, name):
        return len(json.loads(run("stats", "--json", name)[1])["layers"])

    def repair(self, name):
        self.do("verify", "--repair", name)

    def merge(self, name):
        """Unless the result would have too many layers, or no rate to speak of."""
        if self.promise[name] > 0.2 or self.layers(name) > MOST_LAYERS - 5:
            self.give(name)
        else:
            super().merge(name)

    def replace(self, name):
        """As a cron job does, from all keys."""
        self.do("create", "--force", "-p", str(self.promise[name]), name,
                keys=[key for keys in self.keys[name] for key in keys])

    def plan(self, steps):
        self.make("f")
        for _ in range(steps):
            does = self.rng.choices([self.give, self.shrink, self.repair, self.merge, self.replace],
                                    [8, 6, 2, 3, 0.3])[0]
            does("f")
            self.check("f")
        self.end("f")
        os.unlink("f")

    def end(self, name):
        assert run("verify", name)[0] == 0, "verify finds fault"
        self.check(name)
        left = json.loads(run("stats", "--json", name)[1]).get("keys_left")
        assert left is None or left > 0, "it is full"

    # ---- Many rounds of one command.

    def daily(self, rounds, command, then, sized):
        """Keys come every day, and something is done every night."""
        name = command + "-" + then.__name__
        self.do("create", "--empty", *sized, "-p", "1e-4", name)
        self.keys[name], self.promise[name] = [], 1e-4
        for round in range(rounds):
            keys = self.fresh(500)
            self.do(command, name, keys=keys)
            self.keys[name].append(keys)
            then(name)
            if round % 10 == 0:
                self.check(name)
        self.end(name)

    def totals(self, rounds):
        """The filter of a day is merged into that of all days."""
        self.do("create", "--empty", "-n", str(50 * rounds), "-p", "1e-4", "total")
        self.keys["total"], self.promise["total"] = [], 1e-4
        for round in range(rounds):
            keys = self.fresh(50)
            self.do("create", "--like", "total", "day", keys=keys)
            self.do("merge", "--force", "-o", "total", "total", "day")
            os.unlink("day")
            self.keys["total"].append(keys)
            if round % 10 == 0:
                self.check("total")
        self.end("total")

    def ring_of(self, rounds):
        self.do("create", "--empty", "--generations", "3", "-n", "900", "-p", "1e-4", "r")
        self.keys["r"], self.promise["r"] = [], 1e-4
        for round in range(rounds):
            keys = self.fresh(300)
            self.do("add", "r", keys=keys)
            self.keys["r"] = [*self.keys["r"][-2:], keys]
            if round % 10 == 0:
                self.check("r")
            self.do("rotate", "r")
        assert run("verify", "r")[0] == 0, "verify finds fault"

    def counted(self, rounds):
        """Half of what comes goes."""
        self.do("create", "--empty", "--counted", "-p", "0", "c")
        there = []
        for round in range(rounds):
            keys = self.fresh(40)
            self.do("add", "--batch-id", "a%d" % round, "c", keys=keys)
            self.do("remove", "--batch-id", "r%d" % round, "c", keys=keys[::2])
            there += keys[1::2]
            found = run("query", "--show-counts", "c", keys=range(self.next))[1]
            assert found == "".join("1\t%d\n" % key for key in there), "counts are wrong"
        assert run("verify", "c")[0] == 0, "verify finds fault"

    def there_and_back(self, rounds):
        """To another program's file, and back."""
        self.do("create", "--empty", "--layout", "guava", "-n", "4000", "-p", "1e-4", "g")
        there = []
        for round in range(rounds):
            keys = self.fresh(40)
            there += keys
            self.do("add", "g", keys=keys)
            self.do("export", "--force", "g", "-o", "bytes")
            self.do("import", "--force", "--layout", "guava", "bytes", "-o", "g")
            assert int(run("query", "-v", "-c", "g", keys=there)[1]) == 0, "keys are missing"
        assert run("verify", "g")[0] == 0, "verify finds fault"

    def rounds(self, rounds):
        self.daily(rounds, "add", self.shrink, [])
        self.daily(rounds, "dedup", self.repair, ["-n", "100"])
        self.totals(rounds)
        self.ring_of(rounds)
        self.counted(rounds)
        self.there_and_back(rounds)


def main():
    seed, rounds, plans, steps = (int(given) for given in
                                  (sys.argv[1:] + [1, 100, 1, 60][len(sys.argv) - 1:]))
    for n in range(seed, seed + plans + 1):
        life = Life(n)
        try:
            life.rounds(rounds) if n == seed else life.plan(steps)
        except AssertionError as err:
            print("seed %d: %s" % (n, err), *life.steps[-200:], sep="\n    ")
            return 1
    print("%d rounds, and %d plans of %d steps, from seed %d" % (rounds, plans, steps, seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
