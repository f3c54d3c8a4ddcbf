#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What README.md, seen-performance(7) and speed.svg say of speed, made from one run of bench.py.

    page.py RESULTS     keeps what they need of a results.json in figures.json, and writes them anew
    page.py             writes them anew from figures.json
    page.py --check     prints how they differ from figures.json; the exit status is 1 then

The figures stand between two comments: <!-- dedup --> and <!-- bench --> in README.md, bench and least
in the manual page. `make figures` measures, and calls this; what changes is printed.
"""

import difflib
import json
import math
import os
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(HERE + "/../..")
RECORD = HERE + "/figures.json"
PICTURE = HERE + "/speed.svg"
README = TOP + "/README.md"
PAGE = TOP + "/man/seen-performance.7"
FIELDS = ("job", "ns_per_record", "ratio", "least_cpu_ratio", "peak_bytes")
AWK, SORT = "awk '!seen[$0]++'", "sort -u"
INSERT, CHECK = "bloom create+insert, p = 0.001", "bloom check, p = 0.001"


class Run:
    """A run, as bench.py records it. A job that was not run has no figures."""

    def __init__(self, results):
        self.n = results["n"]
        self.machine = results["machine"]
        self.cpus = self.machine["cpus"]
        self.most = "-j%d" % self.cpus
        self.kinds = {kind: {r["job"]: r for r in jobs} for kind, jobs in results["kinds"].items()}

    def has(self, job, kind="urls"):
        return job in self.kinds[kind]

    def ns(self, job, kind="urls"):
        return self.kinds[kind][job]["ns_per_record"]


def kept(results):
    """What figures.json keeps of a run."""
    jobs = {kind: [{f: r.get(f) for f in FIELDS} for r in results["kinds"][kind]
                   if not r["job"].startswith("bare ")]
            for kind in ("urls", "sha1", "phones")}
    return {f: results[f] for f in ("date", "commit", "machine", "n")} | {"kinds": jobs}


def human(n):
    if n is None:
        return ""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return "%.3g %s" % (n, unit) if n < 1000 else "%d %s" % (n, unit)
        n /= 1024
    return ""


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def whole(value):
    return format(round(value), ",")


def groups_of(run):
    """The groups of the picture: a title and rows of a label, a job and a style. The fastest is first."""
    threads = "%d threads" % run.cpus
    groups = [
        ("Print each of %s URLs once" % format(run.n, ","), [
            ("wc -l (reads, nothing more)", "wc -l", "yard"),
            ("seen dedup, " + threads, "dedup, in memory " + run.most, "ours"),
            (SORT, SORT, "rival"),
            (AWK, AWK, "rival")]),
        ("Make a filter of them", [
            ("wc -l (reads, nothing more)", "wc -l", "yard"),
            ("seen create, " + threads, "create " + run.most, "ours"),
            ("seen create, 1 thread", "create -j1", "ours"),
            ("bloom create + insert", INSERT, "rival")]),
        ("Look up as many, half of them present", [
            ("wc -l (reads, nothing more)", "wc -l, queries", "yard"),
            ("seen query, " + threads, "query " + run.most, "ours"),
            ("seen query, 1 thread", "query -j1", "ours"),
            ("bloom check", CHECK, "rival")]),
    ]
    return [(title, sorted((row for row in rows if run.has(row[1])), key=lambda row: run.ns(row[1])))
            for title, rows in groups]


def svg(run):
    """Time a URL as bars, on a logarithmic axis. Colours suit a light and a dark page."""
    groups = groups_of(run)
    left, right, row_height, width = 232, 76, 26, 760
    top_value = max(run.ns(job) for _, rows in groups for _, job, _ in rows)
    decades = max(1, math.ceil(math.log10(top_value)))
    scale = (width - left - right) / decades

    def x(value):
        return left + scale * max(0.02, math.log10(value))

    body, y = [], 12
    for title, rows in groups:
        y += 22
        body.append('<text class="title" x="16" y="%d">%s</text>' % (y, title))
        y += 14
        bottom = y + row_height * len(rows)
        for d in range(decades + 1):
            at = left + scale * d
            body.append('<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>'
                        % (at, y, at, bottom))
            body.append('<text class="tick" x="%.1f" y="%d">%s</text>'
                        % (at, bottom + 15, format(10 ** d, ",")))
        for label, job, style in rows:
            value = run.ns(job)
            label = label.replace("&", "&amp;").replace("<", "&lt;")
            body.append('<text class="label" x="%d" y="%d">%s</text>' % (left - 10, y + 17, label))
            body.append('<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="3"/>'
                        % (style, left, y + 4, x(value) - left, row_height - 8))
            body.append('<text class="value" x="%.1f" y="%d">%s</text>'
                        % (x(value) + 7, y + 17, "%.1f" % value if value < 100 else whole(value)))
            y += row_height
        y += 26
    body.append('<text class="tick" x="%.1f" y="%d">nanoseconds a URL, logarithmic axis; shorter is '
                'faster</text>' % (left + scale * decades / 2, y + 12))
    height = y + 28
    return '''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" \
role="img" aria-label="Time a record of seen and of other tools">
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, sans-serif; fill: #57606a; }
.title { font-weight: 600; font-size: 14px; }
.label { text-anchor: end; }
.tick { font-size: 11px; text-anchor: middle; fill: #848d97; }
.value { font-variant-numeric: tabular-nums; }
.grid { stroke: #848d97; stroke-opacity: .25; }
.ours { fill: #1a8f6a; }
.yard { fill: #848d97; }
.rival { fill: #c28b3c; }
@media (prefers-color-scheme: dark) {
  text { fill: #adb5bd; } .tick { fill: #848d97; }
  .ours { fill: #2fb98c; } .rival { fill: #c9974f; }
}
</style>
%s
</svg>
''' % (width, height, width, height, "\n".join(body))


def roff(run):
    """The table of seen-performance(7): nanoseconds a record, and in brackets the ratio to wc -l."""
    wanted = [("wc -l FILE", "wc -l"),
              ("seen create F FILE", "create " + run.most),
              ("  the same with -j1", "create -j1"),
              ("cat FILE | seen create F", "create, pipe " + run.most),
              ("seen query F FILE", "query " + run.most),
              ("  the same with -j1", "query -j1"),
              ("cat FILE | seen query F", "query, pipe " + run.most),
              ("seen dedup <FILE", "dedup, in memory " + run.most),
              (SORT, SORT),
              (AWK, AWK),
              ("bloom create + insert", INSERT),
              ("bloom check", CHECK)]
    rows = ["%-24s  %-10s  %-10s  %-10s   memory" % ("", "URLs", "SHA-1", "phone")]
    for title, job in wanted:
        found = [jobs[job] for jobs in run.kinds.values() if job in jobs]
        cells = ""
        for r in found:
            ratio = r["ratio"]
            cells += " %4.*f" % (1 if r["ns_per_record"] < 100 else 0, r["ns_per_record"])
            cells += " %-6s" % ("(%.*f)" % (2 if ratio < 10 else 0, ratio) if ratio else "")
        if found:
            rows.append("%-24s%-36s%9s" % (title, cells, human(max(r["peak_bytes"] for r in found))))
    return "".join(escape(row) + "\n" for row in rows)


def least(run):
    """The table of CPU times as multiples of the least; in the last row, of that with one layer."""
    wanted = [("seen create F FILE", "create"), ("cat FILE | seen create F", "create, pipe"),
              ("seen query F FILE", "query"), ("cat FILE | seen query F", "query, pipe"),
              ("seen add F FILE", "add"), ("seen dedup F FILE >NEW", "dedup"),
              ("seen create --compact F", "create --compact")]
    wanted = [(title, "%s %s" % (job, run.most)) for title, job in wanted]
    wanted += [("seen merge -o F A B", "merge"), ("query of four layers", "query of four layers -j1")]
    rows = ["%-24s %8s %8s %8s" % ("", "URLs", "SHA-1", "phone")]
    for title, job in wanted:
        values = [jobs.get(job, {}).get("least_cpu_ratio") for jobs in run.kinds.values()]
        cells = " ".join("%8.2f" % v if v else " " * 8 for v in values)
        rows += ["%-24s %s" % (title, cells.rstrip())] if any(values) else []
    return "".join(escape(row) + "\n" for row in rows)


def first(run):
    """The README's first table."""
    rows = ["| %d million URLs, 660 MB | time | memory |" % (run.n // 1000000), "|---|---:|---:|"]
    for command, job in (("seen dedup <urls", "dedup, in memory " + run.most),
                         ("LC_ALL=C sort -u urls", SORT), ("awk '!seen[$0]++' urls", AWK)):
        seconds = run.ns(job) * run.n / 1e9
        rows.append("| `%s` | %s s | %s |" % (command, "%.2g" % seconds if seconds < 100 else whole(seconds),
                                              human(run.kinds["urls"][job]["peak_bytes"])))
    return "\n".join(rows) + "\n"


def speed(run):
    """The README's paragraph about speed."""
    def ns(job, kind="urls"):
        return whole(run.ns(job, kind))

    create = run.kinds["urls"]["create " + run.most]
    text = """On a machine with %d CPUs (%s), for %d million URLs of 66 bytes in a cached file and with
`-p 0.001`, `seen create` takes %s ns a URL (%s ns with `-j1`), %.2f times the time of `wc -l`, and %s of memory. `seen query` takes %s ns
(%s ns). Debian's filter tool, `bloom`, takes %s ns to make a filter and %s ns to query it. Short keys take
less: %s and %s ns for phone numbers.""" % (
        run.cpus, run.machine["cpu"], run.n // 1000000, ns("create " + run.most), ns("create -j1"),
        create["ratio"], human(create["peak_bytes"]), ns("query " + run.most), ns("query -j1"),
        ns(INSERT), ns(CHECK), ns("create " + run.most, "phones"), ns("query " + run.most, "phones"))
    return textwrap.fill(" ".join(text.split()), 115, break_on_hyphens=False,
                         break_long_words=False) + "\n"


def replaced(text, begin, end, figures):
    """The text with these figures between two of its lines."""
    before, begin, rest = text.partition(begin + "\n")
    _, end, after = rest.partition(end + "\n")
    if not end:
        sys.exit("page.py: there is no place for the figures")
    return before + begin + figures + end + after


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def pages(run):
    """Each file, and the text that it should have."""
    readme = replaced(read(README), "<!-- dedup -->", "<!-- dedup ends -->", first(run))
    readme = replaced(readme, "<!-- bench -->", "<!-- bench ends -->", speed(run))
    page = replaced(read(PAGE), '.\\" bench', '.\\" bench ends', roff(run))
    page = replaced(page, '.\\" least', '.\\" least ends', least(run))
    return {README: readme, PAGE: page, PICTURE: svg(run)}


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def update(results):
    """After a run of all jobs."""
    write(RECORD, json.dumps(kept(results), indent=0) + "\n")
    check()
    write_pages()


def write_pages():
    for path, text in pages(Run(json.loads(read(RECORD)))).items():
        write(path, text)


def check():
    status = 0
    for path, text in pages(Run(json.loads(read(RECORD)))).items():
        name, before = os.path.relpath(path, TOP), read(path)
        lines = difflib.unified_diff(before.splitlines(), text.splitlines(), name, "figures.json",
                                     lineterm="")
        if before != text:
            print(name + " is another picture" if path == PICTURE else "\n".join(lines))
            status = 1
    return status


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    if len(sys.argv) == 1:
        write_pages()
    elif len(sys.argv) == 2 and os.path.exists(sys.argv[1]):
        update(json.loads(read(sys.argv[1])))
    else:
        sys.exit(__doc__)
