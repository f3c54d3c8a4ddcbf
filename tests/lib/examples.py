#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples of a manual page or of a Markdown page, and compares what they print.

    examples.py PAGE

An example is a block from .EX to .EE, or from ```console to ```, whose first line begins with "$ ".
Such lines are commands, which "> " continues; the lines below are what they print, on standard
output and standard error. Each block is run by one shell, in the current directory. Prints what
differs; the exit status is 1 then.
"""

import difflib
import subprocess
import sys

END = "\x01\n"


def plain(line):
    """A line of roff as it is shown."""
    for code, char in (("\\(aq", "'"), ("\\(ha", "^"), ("\\(ti", "~"), ("\\-", "-"), ("\\e", "\\")):
        line = line.replace(code, char)
    return line


def blocks(path, page):
    markdown = path.endswith(".md")
    begin, end = ("```console", "```") if markdown else (".EX", ".EE")
    block = None
    for line in page.splitlines():
        if line == begin:
            block = []
        elif line == end:
            if block and block[0].startswith("$ "):
                yield block
            block = None
        elif block is not None:
            block.append(line if markdown else plain(line))


def run(block):
    """The block as it should be."""
    commands = []
    for line in block:
        if line.startswith("$ "):
            commands.append([line])
        elif line.startswith("> "):
            commands[-1].append(line)
    # After each command a mark, which leaves $? as it is.
    script = "".join("%s\nstatus=$?; printf '\\1\\n'; (exit $status)\n"
                     % "\n".join(line[2:] for line in c) for c in commands)
    done = subprocess.run(["bash", "-c", script], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = []
    for command, said in zip(commands, done.stdout.decode().split(END)):
        out += command + said.splitlines()
    return out


def main(path):
    with open(path, encoding="utf-8") as f:
        page = f.read()
    count, status = 0, 0
    for block in blocks(path, page):
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
