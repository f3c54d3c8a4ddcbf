# SPDX-License-Identifier: MIT
"""Each pair of commands at once: one is stopped at a system call, the other runs, the first goes on.

The first is stopped (SIGSTOP, by strace) at each call that others could see, in turn; the other runs
until it ends or, where it waits for a lock, for a moment; then the first goes on, and both have to end
well. What must hold then: the keys that were there and those of both are there, unless one of the two
made the file anew; readers find what was there before; the file is in order.

A case is KIND:FIRST:SECOND:CALL:N, as in growing:add:shrink:fdatasync:1.
"""

import collections
import fnmatch
import os
import random
import re
import shutil
import signal
import subprocess
import time

from calls import usable
from commands import Maker, make_keys
from common import PATIENCE, SEEN, TRACED, Scratch, fatal, in_parallel, seen, whole_lines

NAME = "pairs"

# So long may the second command take while the first is stopped. It may be waiting for it, so it is not
# a failure if it takes longer.
MOMENT = 0.15
STOPPED_AT = {"close", "fallocate", "fcntl", "fdatasync", "fsync", "ftruncate", "linkat", "mmap",
              "munmap", "newfstatat", "openat", "pread64", "pwritev", "renameat", "renameat2",
              "unlinkat", "write"}

# args; the key set that is in f.seen afterwards; why it may be refused; and whether it only reads.
Act = collections.namedtuple("Act", "args keys refused reads")
_MEANWHILE = ("replaced meanwhile",)
# What nobody may say of a file that is in order.
_ALARMS = ("damaged", "is dirty", "its bits hold")
ACTS = {
    "add": Act(["add", "-j1", "f.seen", "@b"], "b", (), False),
    "dedup": Act(["dedup", "-j1", "f.seen", "@c"], "c", (), False),
    "anew": Act(["create", "-j1", "--force", "--fixed", "-n", "5000", "f.seen", "@d"], "d", (), False),
    "anew-ring": Act(["create", "-j1", "--force", "--generations", "4", "-n", "5000", "f.seen", "@d"],
                     "d", (), False),
    "merge": Act(["merge", "-j1", "--force", "-o", "f.seen", "f.seen", "g.seen"], "more", _MEANWHILE,
                 False),
    "shrink": Act(["shrink", "-j1", "f.seen"], None, _MEANWHILE + ("false-positive rate of",), False),
    "rotate": Act(["rotate", "f.seen"], None, (), False),
    "repair": Act(["verify", "--repair", "f.seen"], None, (), False),
    "query": Act(["query", "-c", "-j1", "f.seen", "@a"], None, (), True),
    "stats": Act(["stats", "f.seen"], None, (), True),
    "verify": Act(["verify", "f.seen"], None, (), True),
    "shrink-other": Act(["shrink", "-j1", "--force", "-o", "o.seen", "f.seen"], None,
                        ("false-positive rate of",), True),
    "merge-other": Act(["merge", "-j1", "--force", "-o", "o.seen", "f.seen", "g.seen"], None, (), True),
}


def _with_other(m):
    m.seen("create", "-n", "1000", "-p", "1e-6", "g.seen", "@more")


def _fixed(m):
    m.seen("create", "--fixed", "--foldable", "-n", "50k", "-p", "1e-6", "f.seen", "@a")
    _with_other(m)


def _growing(m):
    m.seen("create", "--grow", "-n", "200", "-p", "1e-6", "--empty", "f.seen")
    m.seen("add", "f.seen", "@a")
    _with_other(m)


def _ring(m):
    m.seen("create", "--generations", "4", "-n", "5000", "-p", "1e-6", "f.seen", "@a")


_ALL = [name for name in ACTS if name not in ("rotate", "anew-ring")]
KINDS = {
    "fixed": (_fixed, _ALL),
    "growing": (_growing, _ALL),
    "ring": (_ring, ["add", "dedup", "anew-ring", "rotate", "repair", "query", "stats", "verify"]),
}

Case = collections.namedtuple("Case", "kind first second call number")


class Place:
    def __init__(self, path):
        self.path, self.keys = path, os.path.join(path, "keys")
        make_keys(self.keys, False)
        for kind, (prepare, _) in KINDS.items():
            os.mkdir(self.template(kind))
            prepare(Maker(self.template(kind), self.keys))

    def template(self, kind):
        return os.path.join(self.path, "template." + kind)

    def argv(self, act):
        return [SEEN, *(Maker(None, self.keys).resolve(a) for a in ACTS[act].args)]

    def points(self, kind, act):
        """The calls of a command at which it is stopped: (call, number)."""
        directory = os.path.join(self.path, "count")
        shutil.copytree(self.template(kind), directory)
        trace = directory + ".trace"
        done = subprocess.run(["strace", "-qq", "-o", trace, *self.argv(act)], cwd=directory,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
                              env=TRACED)
        if done.returncode != 0:
            fatal("%s fails alone: %s" % (act, done.stderr))
        with open(trace, encoding="utf-8", errors="replace") as f:
            lines = f.read().splitlines()
        shutil.rmtree(directory)
        # What comes before is the dynamic loader's.
        first = next(i for i, line in enumerate(lines) if '.seen"' in line and i > 0)
        count, points = collections.Counter(), []
        for i, line in enumerate(lines):
            call = line.split("(", 1)[0]
            count[call] += 1
            if i >= first and call in STOPPED_AT:
                points.append((call, count[call]))
        return points


def _start(argv, directory, name):
    with open(os.path.join(directory, name), "wb") as out:
        return subprocess.Popen(argv, cwd=directory, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=subprocess.PIPE, text=True, env=TRACED, start_new_session=True)


def _until_stopped(process, trace):
    """The process that strace stopped, or None if it ended instead."""
    while True:
        ended = process.poll() is not None
        if os.path.exists(trace):
            with open(trace, encoding="utf-8", errors="replace") as f:
                found = re.search(r"^(\d+) +--- stopped by SIGSTOP", f.read(), re.MULTILINE)
            if found:
                return int(found.group(1))
        if ended:
            return None
        time.sleep(0.001)


def _end(process):
    """Its status, None if it did not end, and what it said."""
    try:
        _, said = process.communicate(timeout=PATIENCE)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, "did not end"


def _run(place, case, directory):
    """Returns whether the first was stopped, and what is wrong."""
    trace = directory + ".trace"
    inject = "inject=%s:signal=STOP:when=%d" % (case.call, case.number)
    first = _start(["strace", "-f", "-qq", "-o", trace, "-e", "trace=" + case.call, "-e", inject,
                    *place.argv(case.first)], directory, "printed.1")
    stopped = _until_stopped(first, trace)
    second = _start(place.argv(case.second), directory, "printed.2")
    try:
        if stopped:
            second.wait(MOMENT)
    except subprocess.TimeoutExpired:
        pass
    if stopped:
        os.kill(stopped, signal.SIGCONT)
    ends = [(case.first, *_end(first)), (case.second, *_end(second))]
    return stopped is not None, _judge(place, case, directory, ends)


def _judge(place, case, directory, ends):
    wrong, keys = [], ["a"]
    both = {case.first, case.second}
    anew = bool(both & {"anew", "anew-ring"})

    def has(name, *key_sets):
        done = seen("query", "-vc", name, *(os.path.join(place.keys, k) for k in key_sets), check=False,
                    cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.stdout == "0\n"

    for name, status, said in ends:
        act = ACTS[name]
        refused = (status == 2 and any(reason in said for reason in act.refused) or
                   anew and status == 1 and name == "query" or
                   anew and status == 2 and "was replaced while keys were added" in said)
        if any(w in said for w in _ALARMS) or (status != 0 and not refused):
            wrong.append("%s exits %s: %s" % (name, status, said.strip()))
        if act.keys and status == 0:
            keys.append(act.keys)
    if anew:
        keys = ["d"]
    if not has("f.seen", *keys):
        wrong.append("keys are missing")
    done = seen("verify", "f.seen", check=False, cwd=directory, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        wrong.append("not in order: " + done.stderr.strip())
    if os.path.exists(os.path.join(directory, "o.seen")):
        if seen("verify", "o.seen", check=False, cwd=directory, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL).returncode != 0:
            wrong.append("what was made of it is not in order")
        elif not anew and not has("o.seen", "a"):
            wrong.append("what was made of it lacks keys")
    printed = [line for n in (1, 2) for line in whole_lines(os.path.join(directory, "printed.%d" % n))]
    if case.first == case.second == "dedup" and not anew and len(printed) != len(set(printed)):
        wrong.append("lines were printed twice")
    for n, act in enumerate((case.first, case.second), 1):
        if act == "query" and not anew:
            found = whole_lines(os.path.join(directory, "printed.%d" % n))
            if found != ["300\n"]:
                wrong.append("query found %s of 300" % "".join(found).strip())
    left = [n for n in os.listdir(directory) if n.startswith(".")]
    if left:
        wrong.append("left behind: " + ", ".join(left))
    return wrong


def parse_case(text):
    kind, first, second, call, number = text.split(":")
    return Case(kind, first, second, call, int(number))


def case_name(case):
    return ":".join(map(str, case))


def _cases(place, options, chance):
    cases = []
    for kind, (_, acts) in KINDS.items():
        for first in acts:
            points = place.points(kind, first)
            for second in acts:
                if not (ACTS[first].reads and ACTS[second].reads):
                    cases += [Case(kind, first, second, *point) for point in points]
    cases = [case for case in cases if fnmatch.fnmatchcase(case_name(case), options.only)]
    chance.shuffle(cases)
    return cases[:options.cases or (100 if options.short else None)]


def attack(tap, options):
    title = "pairs of commands, one stopped at a system call while the other runs"
    why = usable()
    if why:
        tap.skip(title, why)
        return
    chance = random.Random(options.seed)
    with Scratch() as path:
        place = Place(path)
        cases = _cases(place, options, chance)
        ran = stopped = failed = 0

        def one(number, case):
            directory = os.path.join(path, "case.%d" % number)
            shutil.copytree(place.template(case.kind), directory)
            was_stopped, wrong = _run(place, case, directory)
            shutil.rmtree(directory)
            os.unlink(directory + ".trace")
            return case, was_stopped, wrong

        for case, was_stopped, wrong in in_parallel(cases, options, one):
            ran += 1
            stopped += was_stopped
            failed += bool(wrong)
            if wrong:
                tap.say("%s: %s" % (case_name(case), "; ".join(wrong)))
        tap.say("%d of %d cases, %d of them stopped; repeat one with --repeat CASE"
                % (ran, len(cases), stopped))
        tap.result(not failed, title)


def repeat(tap, _options, text):
    case = parse_case(text)
    with Scratch() as path:
        place = Place(path)
        directory = os.path.join(path, "case")
        shutil.copytree(place.template(case.kind), directory)
        stopped, wrong = _run(place, case, directory)
        with open(directory + ".trace", encoding="utf-8", errors="replace") as f:
            tap.say(f.read().rstrip())
        tap.say("it was stopped" if stopped else "it was not stopped")
        for problem in wrong:
            tap.say("wrong: " + problem)
        tap.result(not wrong, text)
