#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Speeds by version: a line of JSON for each run of bench.py that is to be kept, and a table of them:
CPU nanoseconds a URL, and in parentheses the ratio of elapsed time to that of `wc -l`, or for
"growing" to that of `cat` into a file. `make bench BENCH_PAGE=1` adds to history.jsonl.

    history.py HISTORY              prints the table
    history.py HISTORY RESULTS      adds the run of a results.json before; it replaces the one of
                                    the same version, commit and processor
"""

import json
import os
import sys

HISTORY = os.path.dirname(os.path.abspath(__file__)) + "/history.jsonl"

# Jobs of URLs: the column's title, and the name in results.json.
JOBS = [("create", "create -j2"), ("query", "query -j2"), ("dedup", "dedup -j2"),
        ("growing", "dedup, growing -j2"), ("compact", "create --compact -j2")]


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def run_of(results):
    machine = results["machine"]
    by_name = {r["job"]: r for r in results["kinds"].get("urls", [])}
    return {"date": results["date"], "version": machine["seen"], "commit": results["commit"],
            "cpu": machine["cpu"], "cpus": machine["cpus"],
            "jobs": {job: {"cpu_ns": round(by_name[job]["cpu_ns_per_record"], 1),
                           "ratio": round(by_name[job]["ratio"], 2)}
                     for _, job in JOBS if job in by_name}}


def add(path, results):
    def key(run):
        return run["version"], run["commit"], run["cpu"]

    new = run_of(results)
    runs = [run for run in read(path) if key(run) != key(new)] + [new]
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(run) + "\n" for run in runs)


def cell(figures):
    """CPU nanoseconds, which the first runs lack, and the ratio."""
    cpu, ratio = figures.get("cpu_ns"), figures.get("ratio")
    return "%5s %-7s" % ("%.1f" % cpu if cpu else "", "(%.2f)" % ratio if ratio else "")


def table(runs):
    rows = ["   " + "".join("%-13s" % title for title, _ in JOBS)]
    for run in runs:
        commit = " (%s)" % run["commit"] if run["commit"] else ""
        rows.append("%s, %s%s, %d CPUs, %s:" % (run["date"], run["version"], commit, run["cpus"],
                                                run["cpu"]))
        rows.append("  " + "".join(cell(run["jobs"].get(job, {})) for _, job in JOBS))
    return "".join(row.rstrip() + "\n" for row in rows)


def main():
    history = sys.argv[1]
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as f:
            add(history, json.load(f))
    sys.stdout.write(table(read(history)))


if __name__ == "__main__":
    main()
