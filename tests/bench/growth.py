#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what growth costs, and draws it: filters that grow, made by one run of `seen dedup
--create` from a file or from a pipe, beside those that are made for the number of keys.

usage: growth.py BUILD >growth.svg     (make growth)

    GROWTH_FROM=100000      the fewest keys
    GROWTH_TO=3200000       the most
    GROWTH_POINTS=16        sizes between two doublings

Ratios of bits, and of CPU time (the least of 5 runs each), go to stderr as a table, the worst last.
"""
import math
import os
import resource
import subprocess
import sys
import tempfile

import curves

RUNS = 5
WAYS = ("file", "pipe")


def run(seen, directory, n, way, *options):
    """Returns the bytes of the filter and the seconds of CPU time."""
    out = directory + "/out.seen"
    if os.path.exists(out):
        os.unlink(out)
    keys = "head -n %d %s/keys" % (n, directory)
    if way == "file":
        subprocess.run("%s >%s/part" % (keys, directory), shell=True, check=True)
    command = [seen, "dedup", "--create", *options, out]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if way == "file":
        with open(directory + "/part", "rb") as part:
            subprocess.run(command, check=True, stdin=part, stdout=subprocess.DEVNULL)
    else:
        with subprocess.Popen(keys, shell=True, stdout=subprocess.PIPE) as feeder:
            subprocess.run(command, check=True, stdin=feeder.stdout, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return os.path.getsize(out), (after.ru_utime + after.ru_stime - before.ru_utime
                                  - before.ru_stime)


def best(*args):
    results = [run(*args) for _ in range(RUNS)]
    return results[0][0], min(seconds for _, seconds in results)


def measure(seen, sizes):
    """Returns for each size and way the ratios of bits and of time."""
    rows = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        with open(directory + "/keys", "w", encoding="ascii") as keys:
            keys.writelines("https://www.example.org/%d/%d.html\n" % (i * 2654435761 % 2**32, i)
                            for i in range(sizes[-1]))
        for n in sizes:
            row = {}
            for way in WAYS:
                bytes_made, seconds_made = best(seen, directory, n, way, "--fixed", "-n", str(n))
                bytes_grown, seconds_grown = best(seen, directory, n, way)
                row[way] = (bytes_grown / bytes_made, seconds_grown / seconds_made)
            rows.append((n, row))
            print("%10d  " % n + "  ".join("%s: bits %.2f time %.2f" % (way, *row[way])
                                           for way in WAYS), file=sys.stderr)
    for way in WAYS:
        print("worst, %s: bits %.2f, time %.2f" % (way, max(r[way][0] for _, r in rows),
                                                  max(r[way][1] for _, r in rows)), file=sys.stderr)
    return rows


def draw(rows):
    styles = {"file": "ours", "pipe": "rival"}
    lines = [curves.Line("%s, from a %s" % (what, way), style,
                         [(math.log2(n), row[way][which]) for n, row in rows])
             for which, what in ((0, "bits"), (1, "CPU time"))
             for way, style in (styles.items() if which == 0 else [("pipe", "other")])]
    sizes = [n for n, _ in rows]
    ticks = [(math.log2(n), format(n, ",")) for n in sizes
             if math.log2(n / sizes[0]) % 1 < 1e-9 or n == sizes[-1]]
    return curves.draw(lines, title="What growth costs, over the number of keys",
                       x=curves.Axis((math.log2(sizes[0]), math.log2(sizes[-1])), ticks, "keys"),
                       y=curves.Axis((0, 2), [(i / 4, "%.2f" % (i / 4)) for i in range(9)],
                                     "relative to a filter made for the number of keys"))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    low, high, points = (int(float(os.environ.get("GROWTH_" + name, default))) for name, default in
                         (("FROM", 1e5), ("TO", 3.2e6), ("POINTS", 16)))
    steps = round(points * math.log2(high / low))
    sizes = [round(low * 2 ** (i / points)) for i in range(steps + 1)]
    sys.stdout.write(draw(measure(sys.argv[1] + "/seen", sizes)))


if __name__ == "__main__":
    main()
