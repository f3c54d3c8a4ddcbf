#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws bits per key over the false-positive rate: for filters of seen as `seen plan --json` tells
them, and for two others by their formulas.

usage: sizes.py BUILD >sizes.svg     (make plot)
       sizes.py BUILD --table        a table in Markdown of some rates
"""
import json
import math
import subprocess
import sys

import curves

N = 10_000_000
EXPONENTS = (0.302, 9)  # p from 10^-0.302 to 10^-9
MOST_BITS = 56
# Without a style: only in the table.
LINES = [("bound", "least possible", "bound"), ("compact", "seen --compact", "ours"),
         ("bloom", "seen", "ours"), ("fixed", "seen --fixed", None), ("classic", "classic Bloom", "rival"),
         ("fuse", "binary fuse", "other")]


def classic(p):
    """Bits a key of a textbook Bloom filter, whose probes can hit any bit; the best k probes."""
    return min(k / -math.log1p(-p ** (1 / k)) for k in range(1, 65))


def fuse(p):
    """Bits a key of a binary fuse filter of three segments, whose fingerprints have 8, 16 or 32 bits
    (T. M. Graf, D. Lemire, "Binary fuse filters: fast and smaller than xor filters", 2022)."""
    bits = -math.log2(p)
    width = 8 if bits <= 8 else 16 if bits <= 16 else 32
    return width * max(1.125, 0.875 + 0.25 * math.log(1e6) / math.log(N))


def plan(seen, p):
    def ask(*options):
        out = subprocess.run([seen, "plan", "--json", "-n", str(N), "-p", "%.6g" % p, *options],
                             check=True, capture_output=True).stdout
        answer = json.loads(out)
        return answer, {row["kind"]: row["bits_per_key"] for row in answer["kinds"]}

    answer, bits = ask()
    bits["bound"] = answer["bound_bits_per_key"]
    bits["fixed"] = ask("--fixed")[1]["bloom"]
    bits |= {"classic": classic(p), "fuse": fuse(p)}
    return bits


def draw(seen):
    steps = 60
    exponents = [EXPONENTS[0] + (EXPONENTS[1] - EXPONENTS[0]) * i / steps
                 for i in range(steps + 1)]
    points = [(e, plan(seen, max(10 ** -e, 1e-9))) for e in exponents]
    lines = [curves.Line(label, style, [(e, bits[kind]) for e, bits in points if kind in bits])
             for kind, label, style in LINES if style]
    return curves.draw(lines, title="Bits a key over the false-positive rate",
                       x=curves.Axis(EXPONENTS, [(e, "1e-%d" % e)
                                                 for e in range(1, EXPONENTS[1] + 1)],
                                     "false-positive rate"),
                       y=curves.Axis((0, MOST_BITS), [(bits, str(bits))
                                                      for bits in range(0, MOST_BITS + 1, 8)],
                                     "bits a key, %s keys" % format(N, ",")))


def table(seen):
    rates = ("0.1", "0.01", "1e-3", "1e-4", "1e-6", "1e-9")
    rows = ["| bits a key at p = | " + " | ".join(rates) + " |", "|---" * (len(rates) + 1) + "|"]
    plans = [plan(seen, float(p)) for p in rates]
    for kind, label, _ in LINES:
        rows.append("| %s | " % label + " | ".join("%.2f" % bits[kind] for bits in plans) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv[1] + "/seen"
    sys.stdout.write(table(program) if sys.argv[2:] == ["--table"] else draw(program))
