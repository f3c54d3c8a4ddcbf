# SPDX-License-Identifier: MIT
"""The delay of single lines, and a filter that grows from nothing to 10^8 keys (--keys)."""

import json
import os
import statistics
import subprocess
import tempfile
import time

from common import SEEN, fatal, seen

NAME = "growth"


def url(i):
    return "https://host%d.example.org/path/%d?id=%d\n" % (i % 997, i % 31, i)


def _delay(tap, directory):
    """Single lines through a pipe in which nothing else happens."""
    seen("create", "--empty", "-n", "1M", "d.seen", cwd=directory)
    worker = subprocess.Popen([SEEN, "dedup", "d.seen"], cwd=directory, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, bufsize=0)
    times = []
    for i in range(200):
        time.sleep(0.005)
        line = url(i).encode()
        begin = time.perf_counter()
        worker.stdin.write(line)
        got = worker.stdout.read(len(line))
        times.append((time.perf_counter() - begin) * 1e3)
        if got != line:
            fatal("a line came out changed")
    worker.stdin.close()
    worker.wait()
    tap.say("delay of a line: median %.3f ms, at most %.3f ms" % (statistics.median(times), max(times)))
    tap.result(statistics.median(times) < 5, "dedup: a line alone passes through within 5 ms")


def _grow(tap, directory, n):
    """12-byte records into a filter that begins empty; then as many others are asked for."""
    p, asked = 1e-3, 10 ** 7
    first = 10 ** 10
    seen("create", "--grow", "--empty", "-p", str(p), "g.seen", cwd=directory)
    source = subprocess.Popen(["seq", str(first), str(first + n - 1)], stdout=subprocess.PIPE)
    begin = time.perf_counter()
    add = subprocess.Popen([SEEN, "add", "g.seen"], cwd=directory, stdin=source.stdout)
    _, status, usage = os.wait4(add.pid, 0)
    wall = time.perf_counter() - begin
    source.wait()
    if status != 0:
        fatal("add failed")
    stats = json.loads(seen("stats", "--json", "g.seen", cwd=directory, stdout=subprocess.PIPE).stdout)
    others = subprocess.Popen(["seq", str(first + n), str(first + n + asked - 1)],
                              stdout=subprocess.PIPE)
    hits = int(seen("query", "-c", "g.seen", cwd=directory, check=False, stdin=others.stdout,
                    stdout=subprocess.PIPE).stdout)
    measured, exact = hits / asked, stats["fpr_current"]
    size = os.path.getsize(os.path.join(directory, "g.seen"))
    tap.say("%d keys: %.1f s, %.0f ns of CPU time a key, %.0f MiB at most; %d layers, %.2f bits a key; "
            "FPR promised %g, by its bits %.3g, measured %.3g"
            % (n, wall, (usage.ru_utime + usage.ru_stime) / n * 1e9, usage.ru_maxrss / 1024,
               len(stats["layers"]), size * 8 / n, p, exact, measured))
    tap.result(exact <= p and abs(measured - exact) * asked <= 6 * (exact * asked) ** 0.5 + 1,
               "growth: the rate that was promised is kept, and the printed one is true")


def attack(tap, options):
    # On disk: a filter of 10^8 keys does not belong into memory twice.
    with tempfile.TemporaryDirectory() as directory:
        _grow(tap, directory, options.keys)
        _delay(tap, directory)
