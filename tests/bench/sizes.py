#!/usr/bin/env python3
"""Draws bits per key over the false-positive rate for several kinds of filters, as `seen plan --json`
tells them.

usage: sizes.py BUILD >sizes.svg     (make plot)
       sizes.py BUILD --table        a table in Markdown of some rates
"""
import json
import math
import subprocess
import sys

N = 10_000_000
WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 176, 20, 50
EXPONENTS = (0.302, 9)  # p from 10^-0.302 to 10^-9
MOST_BITS = 56
LINES = [("bound", "least possible", "bound"), ("ribbon", "seen --compact", "ours"),
         ("bloom", "seen", "ours"), ("classic", "classic Bloom", "rival"),
         ("fuse", "binary fuse", "other")]


def plan(seen, p):
    out = subprocess.run([seen, "plan", "--json", "-n", str(N), "-p", "%.6g" % p],
                         check=True, capture_output=True).stdout
    answer = json.loads(out)
    bits = {row["kind"]: row["bits_per_key"] for row in answer["kinds"]}
    bits["bound"] = answer["bound_bits_per_key"]
    return bits


def x(exponent):
    return LEFT + (exponent - EXPONENTS[0]) / (EXPONENTS[1] - EXPONENTS[0]) * (WIDTH - LEFT - RIGHT)


def y(bits):
    return HEIGHT - BOTTOM - bits / MOST_BITS * (HEIGHT - TOP - BOTTOM)


def draw(seen):
    steps = 60
    exponents = [EXPONENTS[0] + (EXPONENTS[1] - EXPONENTS[0]) * i / steps
                 for i in range(steps + 1)]
    points = [(e, plan(seen, max(10 ** -e, 1e-9))) for e in exponents]
    body = []
    for bits in range(0, MOST_BITS + 1, 8):
        body.append('<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>'
                    % (LEFT, y(bits), WIDTH - RIGHT, y(bits)))
        body.append('<text class="tick" x="%d" y="%.1f" text-anchor="end">%d</text>'
                    % (LEFT - 8, y(bits) + 4, bits))
    for e in range(1, EXPONENTS[1] + 1):
        body.append('<text class="tick" x="%.1f" y="%d" text-anchor="middle">1e-%d</text>'
                    % (x(e), HEIGHT - BOTTOM + 18, e))
    body.append('<text class="tick" x="%.1f" y="%d" text-anchor="middle">false-positive rate</text>'
                % ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10))
    body.append('<text class="tick" x="8" y="12">bits a key, %s keys</text>' % format(N, ","))
    labels = []
    for kind, label, style in LINES:
        curve = [(x(e), y(bits[kind])) for e, bits in points if kind in bits]
        body.append('<polyline class="%s" points="%s"/>'
                    % (style, " ".join("%.1f,%.1f" % point for point in curve)))
        labels.append((curve[-1][1], label, style))
    last = math.inf
    for at, label, style in sorted(labels, reverse=True):  # from the lowest up, not one on another
        at = min(at, last - 15)
        last = at
        body.append('<text class="%s-label" x="%d" y="%.1f">%s</text>'
                    % (style, WIDTH - RIGHT + 8, at + 4, label))
    return '''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" \
role="img" aria-label="Bits a key over the false-positive rate">
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a; }
.tick { font-size: 11px; fill: #848d97; }
.grid { stroke: #848d97; stroke-opacity: .25; }
polyline { fill: none; stroke-width: 2; }
.ours { stroke: #1a8f6a; } .ours-label { fill: #1a8f6a; font-weight: 600; }
.bound { stroke: #848d97; stroke-dasharray: 4 4; } .rival { stroke: #c28b3c; }
.other { stroke: #7b6cc2; }
@media (prefers-color-scheme: dark) {
  text { fill: #adb5bd; } .tick { fill: #848d97; }
}
</style>
%s
</svg>
''' % (WIDTH, HEIGHT, WIDTH, HEIGHT, "\n".join(body))


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
