#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""named.py FILE...: says which names of files in their comments, such as "kind/table.h", belong to no file of the project."""
import os
import re
import sys

NAME = re.compile(r"(?<![\w/.*<$}{-])\w[\w/-]*(?:\.[\w-]+)*\.(?:c|h|py|bats|bash|awk)\b(?![\w*(/])")
# Strings are looked at for their ends only: what is a comment in one is none.
C = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.S)
SCRIPT = re.compile(r"(?:^|(?<=\s))#.*", re.M)


def main():
    files = {os.path.join(folder, name)[1:] for top in ("src", "tests") for folder, _, names in os.walk("./" + top)
             for name in names}
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for comment in (C if path.endswith((".c", ".h")) else SCRIPT).finditer(text):
            for name in NAME.finditer(comment[0]) if comment[0][0] in "/#" else ():
                if "NAME" not in name[0] and not any(one.endswith("/" + name[0]) for one in files):
                    line = text.count("\n", 0, comment.start() + name.start()) + 1
                    print(f"{path}:{line}: there is no {name[0]}")


main()
