# SPDX-License-Identifier: MIT
"""Draws curves as SVG: what sizes.py and growth.py share."""
import math
from collections import namedtuple

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 176, 20, 50

# Points are pairs of numbers; styles are "ours", "rival", "other" and "bound".
Line = namedtuple("Line", "label style points")
# The range that is shown; pairs of a number and its label; what is measured.
Axis = namedtuple("Axis", "range ticks caption")


def draw(lines, title, x, y):
    def across(value):
        return LEFT + (value - x.range[0]) / (x.range[1] - x.range[0]) * (WIDTH - LEFT - RIGHT)

    def down(value):
        return HEIGHT - BOTTOM - ((value - y.range[0]) / (y.range[1] - y.range[0])
                                  * (HEIGHT - TOP - BOTTOM))

    body = []
    for value, label in y.ticks:
        body.append('<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>'
                    % (LEFT, down(value), WIDTH - RIGHT, down(value)))
        body.append('<text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>'
                    % (LEFT - 8, down(value) + 4, label))
    for value, label in x.ticks:
        body.append('<text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>'
                    % (across(value), HEIGHT - BOTTOM + 18, label))
    body.append('<text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>'
                % ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x.caption))
    body.append('<text class="tick" x="8" y="12">%s</text>' % y.caption)
    labels = []
    for line in lines:
        points = [(across(a), down(b)) for a, b in line.points]
        body.append('<polyline class="%s" points="%s"/>'
                    % (line.style, " ".join("%.1f,%.1f" % point for point in points)))
        labels.append((points[-1][1], line.label, line.style))
    last = math.inf
    for at, label, style in sorted(labels, reverse=True):  # from the lowest up, not one on another
        at = min(at, last - 15)
        last = at
        body.append('<text class="%s-label" x="%d" y="%.1f">%s</text>'
                    % (style, WIDTH - RIGHT + 8, at + 4, label))
    return '''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" \
role="img" aria-label="%s">
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
''' % (WIDTH, HEIGHT, WIDTH, HEIGHT, title, "\n".join(body))
