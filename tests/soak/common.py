# SPDX-License-Identifier: MIT
"""What all attacks share: the program, a directory, options, and TAP."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time

SEEN = os.environ.get("SEEN") or os.path.abspath(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/seen"))

# For what runs under strace, where leaks cannot be looked for; and a status that seen never has.
TRACED = dict(os.environ, LC_ALL="C.UTF-8", ASAN_OPTIONS="detect_leaks=0:exitcode=99",
              UBSAN_OPTIONS="exitcode=99")

# Seconds, for what would hang for ever else: far more than anything takes.
PATIENCE = 300


class Options:
    """seed: of all that is random, but not of the instants at which signals arrive.
    short: the fixed slice that runs with the tests. seconds, cases: how much of each attack, None for
    what the attack does by itself. jobs: cases at once. only: a pattern of commands (calls) or cases (pairs).
    keys: that the growing filter ends with (growth)."""

    def __init__(self, given):
        self.seed, self.short, self.seconds, self.cases = (given.seed, given.short, given.seconds,
                                                           given.cases)
        self.jobs, self.only, self.keys = given.jobs, given.only, int(given.keys)


class Tap:
    """Prints results. An attack calls result() at least once."""

    def __init__(self):
        self.count = self.failed = 0

    @staticmethod
    def say(text):
        for line in text.split("\n"):
            print("# " + line, flush=True)

    def result(self, ok, name):
        self.count += 1
        self.failed += not ok
        print("%s %d - %s" % ("ok" if ok else "not ok", self.count, name), flush=True)

    def skip(self, name, why):
        self.count += 1
        print("ok %d - %s # skip %s" % (self.count, name, why), flush=True)

    def plan(self):
        print("1..%d" % self.count, flush=True)


def seen(*args, check=True, **more):
    """Runs the program; it must succeed unless `check` is false."""
    return subprocess.run([SEEN, *args], check=check, timeout=PATIENCE, **more)


class Scratch:
    """A directory for one attack. In memory if there is room: what is attacked is the program, not
    the disk, and a sync in memory takes no time."""

    def __init__(self):
        base = None
        shm = "/dev/shm"
        if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > 2 << 30:
            base = shm
        self.path = tempfile.mkdtemp(prefix="seen-soak.", dir=base)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def in_parallel(cases, options, run):
    """Calls run(number, case) for each case, as many at once as options.jobs says, until the seconds are
    over. Yields what it returns, in order."""
    end = time.monotonic() + options.seconds if options.seconds else None

    def one(numbered):
        return None if end and time.monotonic() > end else run(*numbered)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from (done for done in pool.map(one, enumerate(cases)) if done is not None)


def whole_lines(name):
    """A kill may cut the last record off in the middle: that one was not printed."""
    try:
        with open(name, encoding="ascii") as f:
            text = f.read()
    except FileNotFoundError:
        return []
    return text[:text.rfind("\n") + 1].splitlines(keepends=True)


def write_lines(path, lines):
    with open(path, "w", encoding="ascii") as f:
        f.writelines(line + "\n" for line in lines)


def six_sigma(mean):
    """What a count with this mean exceeds once in a thousand million times."""
    return mean + 6 * mean ** 0.5 + 1


def fatal(text):
    sys.exit("soak: " + text)
