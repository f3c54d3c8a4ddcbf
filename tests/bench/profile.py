#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where the time of seen goes: CPU nanoseconds a record by stage, of plain commands with one
thread. Run it with `make profile`; needs perf (Debian: linux-perf).

    profile.py BUILD        (BUILD/seen is looked at; data and recordings go to BUILD/bench)

Samples are sorted into stages by the functions on the stack, innermost first. Fresh memory is what the
kernel spends on pages that are touched for the first time. Behind the table stands what memory
allows on this machine (limits.c). For a filter far larger than the caches, take
PROFILE_N=1e8 PROFILE_KINDS=phones.

    PROFILE_N=10000000      records a file
    PROFILE_KINDS="urls phones"
    PROFILE_RUNS=3          recordings of a job, taken together
"""

import os
import re
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
HERE = os.path.dirname(os.path.abspath(__file__))
DIR = BUILD + "/bench"
SEEN = BUILD + "/seen"
N = int(float(os.environ.get("PROFILE_N", "1e7")))
KINDS = os.environ.get("PROFILE_KINDS", "urls phones").split()
RUNS = int(os.environ.get("PROFILE_RUNS", "3"))
HZ = 5000

PROBE = "probe (ribbon)"
STAGES = [
    ("find records", r"^split|^cut$|memchr|batch_next"),
    ("hash", r"^hash_|XXH3"),
    ("collect by prefix", r"keyset_put|next_block|close_block"),
    ("sort", r"^sort_|^insertion$"),
    ("look for repeats", r"remove_repeats|^distinct|^group|^by_(marks|table|sorting)$"),
    ("set bits (Bloom)", r"^(test_)?insert_"),
    ("solve equations (ribbon)", r"^(ribbon_)?(add|derive|solve)_|do_table|build_by|build_part|build_block"
                                 r"|try_loads"),
    ("probe (Bloom)", r"^query_"),
    (PROBE, r"^answer_|^aim_|^ribbon_(query|aim)|^(begin|end)_group$|^find$|^look_"),
    ("checksums, bit counts", r"page_sum|sum_piece|census|count_"),
    ("copy records to print", r"^output_"),
    ("fresh memory", r"exc_page_fault"),
    ("write, sync", r"sys_(p?writev?(64|2)?|fsync|fdatasync|sync_file_range|fallocate|ftruncate"
                    r"|linkat|rename.*)$"),
    ("map or read input", r"sys_(p?read(64)?|mmap|munmap|madvise|exit_group|fadvise64)$"),
    ("move hashes", r"memmove|memcpy|gather|visit_|take_"),
]
STAGES = [(name, re.compile(pattern)) for name, pattern in STAGES]
OTHER = "other"


def stage_of(stack):
    for symbol in stack:
        for name, pattern in STAGES:
            if pattern.search(symbol):
                return name
    return OTHER


def samples(recording):
    """The stack of every sample, innermost function first."""
    text = subprocess.run(["perf", "script", "-i", recording, "-F", "ip,sym"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for block in text.split("\n\n"):
        stack = [line.split(None, 1)[1] for line in block.splitlines() if len(line.split()) > 1]
        if stack:
            yield stack


def profile(command):
    """CPU nanoseconds a record by stage."""
    count = {}
    recording = DIR + "/profile.data"
    for _ in range(RUNS):
        subprocess.run(["perf", "record", "-q", "-g", "-F", str(HZ), "-e", "cpu-clock", "-o",
                        recording, *command], check=True, cwd=DIR, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for stack in samples(recording):
            stage = stage_of(stack)
            count[stage] = count.get(stage, 0) + 1
    os.unlink(recording)
    return {stage: c / RUNS / HZ / N * 1e9 for stage, c in count.items()}


def make_data():
    os.makedirs(DIR, exist_ok=True)
    for tool in ("gen", "limits"):
        subprocess.check_call(["cc", "-O2", "-o", DIR + "/" + tool, HERE + "/" + tool + ".c"])
    for kind in KINDS:
        for name, args in ((kind, (0, N)), (kind + ".ask", (0, N, N))):
            with open("%s/profile.%s" % (DIR, name), "wb") as out:
                subprocess.check_call([DIR + "/gen", kind, *map(str, args)], stdout=out)


def main():
    make_data()
    columns = []
    for kind in KINDS:
        data = "profile." + kind
        for title, command in (
                ("create, " + kind, ["create", "-j1", "--force", "profile.seen", data]),
                ("query, " + kind, ["query", "-j1", "profile.seen", data + ".ask"]),
                ("create --compact, " + kind,
                 ["create", "--compact", "-j1", "--force", "profile.seen", data]),
                ("query compact, " + kind, ["query", "-j1", "profile.seen", data + ".ask"])):
            columns.append((title, profile([SEEN, *command])))
            print("measured: " + title, file=sys.stderr)
    names = [name for name, _ in STAGES] + [OTHER]
    print("| CPU ns a record | %s |" % " | ".join(title for title, _ in columns))
    print("|---|" + "--:|" * len(columns))
    for name in names:
        cells = ["%.1f" % c[name] if c.get(name, 0) >= 0.05 else "" for _, c in columns]
        if any(cells):
            print("| %s | %s |" % (name, " | ".join(cells)))
    print("| all | %s |" % " | ".join("%.1f" % sum(c.values()) for _, c in columns), flush=True)
    # The filter made last is compact.
    bits = int(8 * os.path.getsize(DIR + "/profile.seen") / N)
    print("probing a compact filter of %s: %.1f" % (KINDS[-1], columns[-1][1].get(PROBE, 0)),
          flush=True)
    subprocess.check_call([DIR + "/limits", "%s/profile.%s" % (DIR, KINDS[0]),
                           DIR + "/profile.seen", str(bits)])


main()
