# SPDX-License-Identifier: MIT
"""Workers that dedup into one growing filter, and rotations, killed at random instants (--cases of each)."""

import os
import random
import signal
import subprocess
import tempfile
import time

from common import SEEN, fatal, seen, six_sigma, whole_lines
from growth import url

NAME = "workers"
WORKERS = 8
BATCH = 2 << 20  # bytes of records that a killed process may leave unprinted, as its manual says


class Worker:
    """Feeds its list to dedup. Whoever is killed begins again."""

    def __init__(self, directory, number):
        self.directory, self.number, self.runs = directory, number, 0
        self.list = os.path.join(directory, "list.%d" % number)
        self.outputs = []
        self.start()

    def start(self):
        self.runs += 1
        self.outputs.append(os.path.join(self.directory, "out.%d.%d" % (self.number, self.runs)))
        with open(self.outputs[-1], "wb") as out:
            self.process = subprocess.Popen(
                [SEEN, "dedup", "-j2", "--create", "-p", "1e-6", "f.seen", self.list],
                cwd=self.directory, stdout=out, stderr=subprocess.DEVNULL)

    def kill(self):
        """True if it was at work, and so died of it."""
        self.process.kill()
        if self.process.wait() != -signal.SIGKILL:
            return False
        self.start()
        return True


def _killed_workers(tap, directory, chance, wanted):
    """In rounds, until there were kills enough: eight workers on overlapping lists of new keys, random
    ones of which are killed at random instants. One filter, which grows."""
    each, step = 200000, 100000
    kills = rounds = twice = foreign = lost = n_lost = total = 0
    while kills < wanted:
        first = rounds * (WORKERS * step + each)
        rounds += 1
        want = set()
        for w in range(WORKERS):
            lines = list(map(url, range(first + w * step, first + w * step + each)))
            with open(os.path.join(directory, "list.%d" % w), "w", encoding="ascii") as f:
                f.writelines(lines)
            want |= set(lines)
        workers = [Worker(directory, w) for w in range(WORKERS)]
        at_work = list(workers)
        while at_work:
            time.sleep(chance.uniform(0, 0.03))
            victim = chance.choice(at_work)
            if kills < wanted and victim.kill():
                kills += 1
            at_work = [w for w in at_work if w.process.poll() is None]
        if any(w.process.returncode != 0 for w in workers):
            fatal("a worker failed")
        # No repair is needed after a kill: the last one that lived has made the file clean.
        verified = seen("verify", "f.seen", cwd=directory, stdout=subprocess.PIPE, text=True)
        if verified.stdout != "f.seen: ok\n":
            fatal("the file is not in order: " + verified.stdout)
        got = [line for w in workers for name in w.outputs for line in whole_lines(name)]
        missing = want - set(got)
        twice += len(got) - len(set(got))
        foreign += len(set(got) - want)
        lost += sum(map(len, missing))
        n_lost += len(missing)
        total += len(want)
        for w in workers:
            for name in w.outputs:
                os.unlink(name)
        found = seen("query", "-c", "f.seen", cwd=directory, input="".join(want), text=True,
                     stdout=subprocess.PIPE)
        if int(found.stdout) != len(want):
            fatal("keys are missing in the filter")
    tap.say("%d kills in %d rounds, %d distinct records: %d printed twice, %d foreign; %d not printed, "
            "%d bytes a kill" % (kills, rounds, total, twice, foreign, n_lost, lost / kills))
    # A record that is taken for known by mistake is not printed either: at 1e-6.
    mistakes = six_sigma(total * 1e-6) * 64
    tap.result(twice == 0 and foreign == 0 and lost <= kills * BATCH + mistakes,
               "dedup: %d killed workers, nothing twice, at most a batch each not printed" % kills)


def _killed_rotations(tap, directory, chance, turns):
    """After each rotation, complete or cut off, what was acknowledged in the last three turns is there;
    with three generations it must be."""
    seen("create", "--generations", "3", "-n", "3M", "-p", "1e-6", "--empty", "r.seen", cwd=directory)
    cut_off = wrong = 0
    for turn in range(turns):
        keys = [" ".join(("turn", str(t), str(i))) + "\n" for t in range(turn, max(-1, turn - 3), -1)
                for i in range(1000)]
        seen("add", "r.seen", cwd=directory, input="".join(keys[:1000]), text=True,
             stderr=subprocess.DEVNULL)
        rotation = subprocess.Popen([SEEN, "rotate", "r.seen"], cwd=directory)
        time.sleep(chance.uniform(0, 0.006))
        rotation.kill()
        cut_off += rotation.wait() != 0
        found = seen("query", "-c", "r.seen", cwd=directory, input="".join(keys), text=True,
                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        wrong += int(found.stdout) != len(keys)
    seen("add", "r.seen", "-k", "last", cwd=directory, stderr=subprocess.DEVNULL)
    verify = seen("verify", "r.seen", cwd=directory, check=False, stdout=subprocess.DEVNULL)
    tap.say("%d of %d rotations were killed before they ended" % (cut_off, turns))
    tap.result(wrong == 0 and verify.returncode == 0,
               "rotate: whenever it is killed, no key of a live generation is lost")


def attack(tap, options):
    chance = random.Random(options.seed)
    kills = options.cases or 100
    with tempfile.TemporaryDirectory() as directory:
        _killed_workers(tap, directory, chance, kills)
        _killed_rotations(tap, directory, chance, kills)
