# SPDX-License-Identifier: MIT
"""A filter that lives for years: a hundred rounds of each command, and plans of a hundred random steps.

A case is a seed of tests/lib/years.py, which says what is held after each step.
"""

import os
import subprocess
import sys
import tempfile

from common import SEEN, Scratch, in_parallel

NAME = "lives"
TITLE = "after a hundred steps on one file its keys are there, and its FPR is as promised"
YEARS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib", "years.py")
ROUNDS, PLANS, STEPS = 100, 3, 100
CASES = 10


def life(scratch, seed):
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        return subprocess.run([sys.executable, YEARS, *map(str, (seed, ROUNDS, PLANS, STEPS))], cwd=place,
                              env={**os.environ, "SEEN": SEEN}, text=True, check=False, capture_output=True)


def attack(tap, options):
    first = options.seed * (PLANS + 1)
    seeds = range(first, first + (options.cases or CASES) * (PLANS + 1), PLANS + 1)
    good = True
    with Scratch() as scratch:
        for done in in_parallel(seeds, options, lambda _, seed: life(scratch, seed)):
            tap.say(done.stdout.strip() + done.stderr.strip())
            good = good and done.returncode == 0
    tap.result(good, TITLE)
