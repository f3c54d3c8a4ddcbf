#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""promises.py TABLE: says what is wrong with the table of promises and their tests, tests/promises.txt.

    = PAGE: SECTION              the lines below are about this section
    WORDS | FILE: TEST           the paragraph that holds these words promises something: its test
    WORDS | -: WHY               it promises nothing, or what no test can tell

PAGE is README.md or a file of man. Each paragraph of each section of SECTIONS is in the table. FILE is
a file of tests or of a folder there; TEST is the whole title of a test, a part that only one title of the
file has, a C function, or a scenario of a Python program, in quotes there.
"""
import glob
import os
import re
import sys

SECTIONS = re.compile("Security|EXIT STATUS|WHAT AN ATTACKER CAN DO|WRITING|FILE SYSTEMS")
STARTS = (".PP", ".TP", ".SS", ".sp", ".IP")
ESCAPES = {r"\-": "-", r"\(aq": "'", r"\(lq": '"', r"\(rq": '"', r"\(ha": "^", r"\e": "\\"}


def plain(line):
    """A line of a manual page as words."""
    if match := re.match(r"\.([BIR]{1,2}) (.*)", line):
        words = re.findall(r'"([^"]*)"|(\S+)', match[2])
        line = ("" if len(match[1]) == 2 else " ").join(quoted or bare for quoted, bare in words)
    line = re.sub(r"\\f(?:\(..|.)", "", line)
    return re.sub(r"\\(?:\(..|.)", lambda escape: ESCAPES.get(escape[0], escape[0]), line)


def of_manual(text):
    """(section, paragraph) of each paragraph; examples are left out."""
    section = ""
    for line in re.sub(r"(?ms)^\.EX$.*?^\.EE$", "", text).splitlines():
        if line.startswith(".SH "):
            section = line[4:]
        elif line.startswith(STARTS):
            yield section, ""
        elif line[:1] != "." or re.match(r"\.[BIR]{1,2} ", line):
            if section == "EXIT STATUS" and re.match(r"\.B [0-9]", line):
                yield section, ""
            yield section, plain(line)


def of_markdown(text):
    section = ""
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif not line or line.startswith("- "):
            yield section, ""
        if line and not line.startswith("#"):
            yield section, line


def paragraphs():
    """What the table must name: "PAGE: SECTION", and its paragraphs."""
    found = {}
    for path in ["README.md"] + sorted(glob.glob("man/*.[157]")):
        with open(path, encoding="utf-8") as file:
            lines = (of_markdown if path.endswith(".md") else of_manual)(file.read())
        for section, line in lines:
            if SECTIONS.fullmatch(section):
                here = found.setdefault(f"{os.path.basename(path)}: {section}", [[]])
                if line:
                    here[-1].append(line.strip())
                elif here[-1]:
                    here.append([])
    return {section: [" ".join(p) for p in here if p] for section, here in found.items()}


def is_test(name, title):
    paths = glob.glob(f"tests/{name}") + glob.glob(f"tests/*/{name}")
    if not paths:
        return False
    with open(paths[0], encoding="utf-8") as file:
        text = file.read()
    if name.endswith(".bats"):
        titles = [a or b for a, b in re.findall(r"""(?m)^@test (?:"(.*)"|'(.*)') \{""", text)]
        return title in titles or sum(title in t for t in titles) == 1
    if name.endswith(".c"):
        return f"TEST({title})" in text or f"int {title}(" in text
    return f'"{title}"' in text


def main(table):
    wanted, section, covered = paragraphs(), None, set()
    with open(table, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, 1):
        at = f"{table}:{number}"
        if line.startswith("= "):
            section = line[2:]
            if section not in wanted:
                print(f"{at}: no page has this section")
        elif line and line[0] != "#":
            words, _, test = line.partition(" | ")
            name, _, title = test.partition(": ")
            holders = [(section, p) for p in wanted.get(section, ()) if words in p]
            covered.update(holders)
            if len(holders) != 1:
                print(f"{at}: {len(holders)} paragraphs hold these words")
            if not title or name != "-" and not is_test(name, title):
                print(f"{at}: there is no test '{test}'")
    for section, here in wanted.items():
        for paragraph in here:
            if (section, paragraph) not in covered:
                print(f"{table}: no line for {section}: {paragraph[:100]}")


main(sys.argv[1])
