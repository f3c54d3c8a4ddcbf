#!/usr/bin/env python3
"""Runs the examples of a manual page, and compares what they print.

    examples.py PAGE

An example is a block from .EX to .EE whose first line begins with "$ ". Such lines are commands;
the lines below are what they print, on standard output and standard error. All run in the current
directory, in order. Prints what differs; the exit status is 1 then.
"""

import difflib
import subprocess
import sys


def plain(line):
    """A line of roff as it is shown."""
    for code, char in (("\\(aq", "'"), ("\\(ha", "^"), ("\\(ti", "~"), ("\\-", "-"), ("\\e", "\\")):
        line = line.replace(code, char)
    return line


def blocks(page):
    block = None
    for line in page.splitlines():
        if line == ".EX":
            block = []
        elif line == ".EE":
            if block and block[0].startswith("$ "):
                yield block
            block = None
        elif block is not None:
            block.append(plain(line))


def run(block):
    """The block as it should be."""
    out = []
    for line in block:
        if line.startswith("$ "):
            done = subprocess.run(["bash", "-c", line[2:]], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            out += [line] + done.stdout.decode().splitlines()
    return out


def main(path):
    with open(path, encoding="utf-8") as f:
        page = f.read()
    count, status = 0, 0
    for block in blocks(page):
        count += sum(line.startswith("$ ") for line in block)
        for line in difflib.unified_diff(block, run(block), path, "run", lineterm="", n=100):
            print(line)
            status = 1
    print("%d commands" % count)
    return status


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
