#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times jobs with 1, 2, 4, ... threads, up to the CPUs of this machine.

    threads.py BUILD        (make threads)

    THREADS_N=100000000     phone numbers a file
    THREADS_RUNS=3          runs of each, alternating
    THREADS_JOBS=REGEX      only jobs whose name matches
    THREADS_DIR=TMPDIR      where the keys are, and where filters are written

For each number of threads: the least nanoseconds a key, the CPU time of that run, and the
efficiency: the time with one thread, divided by the time and by the number of threads. The last row
says what the machine allows: each process has one thread and its own part of the keys.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

N = int(float(os.environ.get("THREADS_N", 1e8)))
RUNS = int(os.environ.get("THREADS_RUNS", 3))
FIRST = 10**10  # 11 digits

JOBS = {
    "create": "{seen} create --force -j{j} -p 0.01 x.seen keys",
    "create --memory 8G": "{seen} create --force -j{j} -p 0.01 --memory 8G x.seen keys",
    "create --compact": "{seen} create --force -j{j} -p 0.01 --compact --memory 8G x.seen keys",
    "query": "{seen} query -j{j} a.seen asked",
    "query, compact": "{seen} query -j{j} c.seen asked",
    "dedup, all new": "rm -f x.seen; {seen} dedup -j{j} -p 0.01 --create -n {n} x.seen keys",
    "dedup, growing": "rm -f x.seen; {seen} dedup -j{j} -p 0.01 --create x.seen keys",
    "merge": "{seen} merge --force -j{j} -o x.seen a.seen b.seen",
    "verify": "{seen} verify -j{j} a.seen",
    "processes": None,
}


def processes(j):
    """Runs of create on one thread and one part of the keys each."""
    return " & ".join("{seen} create --force -j1 -p 0.01 x%d.seen part.%d.*" % (i, i)
                      for i in range(j)) + "; wait"


def run(command):
    """Returns the seconds of time and of CPU time."""
    start = time.perf_counter()
    child = subprocess.Popen(["bash", "-c", command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit("threads.py: failed: " + command)
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime


def make_data(seen, counts):
    half = FIRST + N // 2
    for command in ("seq %d %d >keys" % (FIRST, FIRST + N - 1),
                    "seq %d %d >asked" % (half, half + N - 1),
                    "%s create -p 0.01 a.seen keys" % seen,
                    "%s create -p 0.01 b.seen asked" % seen,
                    "%s create -p 0.01 --compact c.seen keys" % seen,
                    "split -n l/%d -d keys piece." % counts[-1]):
        subprocess.run(command, shell=True, check=True, stderr=subprocess.DEVNULL)


def deal_parts(j):
    """Names the pieces of the keys so that part.I.* is a j-th of them."""
    for name in os.listdir("."):
        if name.startswith("part."):
            os.unlink(name)
    for piece in sorted(name for name in os.listdir(".") if name.startswith("piece.")):
        number = int(piece[6:])
        os.link(piece, "part.%d.%d" % (number % j, number))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seen = os.path.abspath(sys.argv[1]) + "/seen"
    cpus = len(os.sched_getaffinity(0))
    counts = [2**i for i in range(cpus.bit_length())]
    wanted = re.compile(os.environ.get("THREADS_JOBS", ""))
    base = os.environ.get("THREADS_DIR", os.environ.get("TMPDIR"))
    with tempfile.TemporaryDirectory(dir=base) as directory:
        os.chdir(directory)
        make_data(seen, counts)
        print("%-20s" % "ns a key, CPU s, eff." + "".join("%21d" % j for j in counts))
        for name, command in JOBS.items():
            if not wanted.search(name):
                continue
            times = {j: [] for j in counts}
            for _ in range(RUNS):
                for j in counts:
                    if command is None:
                        deal_parts(j)
                    times[j].append(run((command or processes(j)).format(seen=seen, j=j, n=N)))
            best = {j: min(times[j]) for j in counts}
            print("%-20s" % name + "".join(
                "%9.2f %6.2f %4.2f" % (best[j][0] / N * 1e9, best[j][1], best[1][0] / best[j][0] / j)
                for j in counts), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
