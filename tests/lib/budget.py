#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""budget.py [--lower]: says what of src is over the budget in tests/budget; with --lower, writes figures there that fell.

A line of the budget is a name and a figure: a folder of src and its lines of code ("seen": seen.c), or "names" and the static
names that two or more files define. Blank lines and comments are free, so that no figure is reached by leaving them out. A name does not count in a file where it fills a member of a table of functions.
Figures may fall. The commit that raises some says why, in a line of its body with their sum:

    Budget: +40, because the reader of tar files needs them

"names" is not raised.
"""
import collections
import glob
import os
import re
import subprocess
import sys

FILE = "tests/budget"
DEFINED = re.compile(r"^static (?!_Static_assert)[^;={(]*?\b(\w+)(?:\[[^\]\n]*\])* *(?:\(|=|;)", re.M)
FILLED = re.compile(r"\.\w+ = &?(\w+)\b(?!\()")
COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|/\*.*?\*/|//[^\n]*""", re.S)
REASON = re.compile(r"^Budget: \+(\d+), because \S", re.M)


def figures(text):
    return {name: int(figure) for name, figure in re.findall(r"^([a-z]+) +(\d+)$", text, re.M)}


def code_lines(text):
    """Lines that hold more than blanks and comments; a string may hold what looks like a comment."""
    bare = COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    return sum(not line.isspace() and line != "" for line in bare.split("\n"))


def counted():
    """The figures of today."""
    today = collections.Counter()
    files = collections.defaultdict(set)
    for path in glob.glob("src/**/*.[ch]", recursive=True):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        today[os.path.dirname(path).split("/")[1] if path.count("/") > 1 else "seen"] += code_lines(text)
        for name in set(DEFINED.findall(text)) - set(FILLED.findall(text)) - {"__attribute__"}:
            files[name].add(path)
    today["names"] = sum(len(paths) > 1 for paths in files.values())
    return dict(today)


def git(*words):
    """What git prints, or nothing: a tarball has no history."""
    try:
        done = subprocess.run(["git", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def last_raise():
    """What is wrong with the last commit that raised a figure. The first commit, and that of a shallow clone, raise none."""
    for commit in git("log", "--no-merges", "--format=%H", "--", FILE).split():
        before, after = figures(git("show", f"{commit}^:{FILE}")), figures(git("show", f"{commit}:{FILE}"))
        risen = {name: figure - before.get(name, 0) for name, figure in after.items() if figure > before.get(name, 0)}
        if not before or not risen:
            continue
        if "names" in risen:
            yield f"{commit[:9]}: the number of names in {FILE} may only fall"
        rise = sum(risen.values()) - risen.get("names", 0)
        said = REASON.search(git("show", "-s", "--format=%b", commit))
        if rise and (not said or int(said[1]) != rise):
            yield f"{commit[:9]} raises {FILE}: its body needs a line 'Budget: +{rise}, because ...'"
        return


def main():
    with open(FILE, encoding="utf-8") as file:
        text = file.read()
    budget, today = figures(text), counted()
    if sys.argv[1:] == ["--lower"]:
        for name, figure in budget.items():
            lower = min(figure, today.get(name, 0))
            text = re.sub(rf"(?m)^{name} .*\n", f"{name} {lower}\n" if lower else "", text)
        with open(FILE, "w", encoding="utf-8") as file:
            file.write(text)
        return
    wrong = list(last_raise())
    for name, figure in sorted(today.items()):
        if figure > budget.get(name, 0):
            what = "names are static in two or more files" if name == "names" else f"lines of code in src/{name}"
            wrong.append(f"{FILE}: {figure} {what}, {budget.get(name, 0)} may be")
    if wrong:
        sys.exit("\n".join(wrong))


main()
