# SPDX-License-Identifier: MIT
"""Sound filters of each kind, with each field of headers and directories at its extremes and right
checksums: every command ends as commands may end, and no file is left worse than it was.

    forged.py CASES SEED    CASES are drawn at random from all; 0: all of them
"""
import os
import random
import resource
import subprocess
import sys

from forge import ENTRY, HEADER, LAYER, LAYER_LENGTH, LAYERS, LINE, Forged

SEEN = os.environ["SEEN"]
PATIENCE = int(os.environ["PATIENCE"])
# Addresses that a file of some 100 KB justifies: the program, its threads' stacks and heaps (two
# threads), and what create and merge may take by default, 256 MiB.
ADDRESSES = None if os.environ.get("SANITIZER") else 1 << 30

WHOLE = [0, 1, 2, 3, 7, 8, 9, 22, 23, 29, 30, 31, 32, 33, 255, 256, 65535, 65536, 65537,
         2**31 - 1, 2**31, 2**32 - 1]
LARGE = [64, 4095, 4096, 4097, 8192, 12288, 2**32, 2**32 + 1, 2**40, 2**41, 2**52, 2**53 + 1,
         2**62, 2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 8, 2**64 - 1]
REAL = [0.0, -0.0, -1.0, 1.0, 1 - 2**-53, 0.5, 0.999, 1e-9, 2**-32, 1e-10, 1e-300, 2.3e-308, 5e-324,
        1.5, 1e3, 1e15, 1e19, 1e300, float("inf"), float("-inf"), float("nan")]


COMPACT, COUNTED = 2, 3

# No file that comes of one is much larger: a growing filter gets a layer of twice its size.
LARGEST = 16 << 20


def limit():
    """For this process, too: to do it between fork and exec takes longer than most commands."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    if ADDRESSES:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))


def run(*command):
    return subprocess.run([SEEN, *command], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)


def values(form, now):
    if form == "d":
        return REAL + [now * (1 + 1e-9), now * 2, now / 2]
    bits = {"B": 8, "H": 16, "I": 32, "Q": 64}[form]
    found = WHOLE + (LARGE if bits == 64 else [])
    for step in (1, 8, 32, 4096):
        found += [now - step, now + step]
    found += [now * 2, now * 3, now // 2, now ^ 1 << bits - 1]
    return sorted({v for v in found if 0 <= v < 1 << bits} - {now})


def all_cases(sound):
    """(file, name of a field, value)"""
    for name, data in sound.items():
        file = Forged(data)
        fields = [(field, HEADER[field], 0) for field in HEADER]
        layers = file.header(28, "I")
        for number in sorted({0, layers - 1}):
            base = LAYERS + LAYER_LENGTH * number
            fields += [("layer.%d.%s" % (number, field), LAYER[field], base) for field in LAYER]
        kind = file.layer(0, "kind")
        if kind == COUNTED:
            for number in (0, file.layer(0, "geometry2") // 256):
                fields += [("line.%d.%s" % (number, field), LINE[field], file.line_at(number))
                           for field in LINE]
        elif kind == COMPACT:
            for number in sorted({0, file.layer(0, "geometry1") - 1}):
                fields += [("entry.%d.%s" % (number, field), ENTRY[field], file.entry_at(number))
                           for field in ENTRY]
        for field, (offset, form), base in fields:
            for value in values(form, file.header(base + offset, form)):
                yield name, field, value


def make_sound():
    keys = "".join("%08x\n" % n for n in range(3000))
    with open("keys", "w") as f:
        f.write(keys)
    with open("more", "w") as f:
        f.write("".join("%08x\n" % n for n in range(900000000, 900100000)))
    with open("short", "w") as f:
        f.write("01\n")
    wishes = {
        "fixed": ["-n", "4000", "keys"],
        "full": ["-n", "4000", "-p", "0.4", "keys"],
        "foldable": ["-n", "90000", "--foldable", "keys"],
        "growing": ["--grow", "-n", "1000", "keys"],
        "ring": ["--generations", "3", "-n", "9000", "keys"],
        "compact": ["--compact", "keys"],
        "parts": ["--compact", "-p", "0.4", "keys", "more"],
        "counted": ["--counted", "keys"],
        "hashes": ["--counted", "-p", "0", "keys", "more"],
        "empty": ["--empty", "-n", "4000"],
        "none": ["--empty", "--compact"],
        "prepared": ["-n", "4000", "--hex", "--trim", "--ignore-case", "keys", "short"],
    }
    sound = {}
    for name, wish in wishes.items():
        assert run("create", name, *wish).returncode == 0, name
        if name == "growing":
            assert run("add", name, "more").returncode == 0
        elif name == "ring":
            assert run("rotate", name).returncode == 0
            assert run("add", name, "keys").returncode == 0
        with open(name, "rb") as f:
            sound[name] = f.read()
    return sound


def commands(name):
    yield "query", "x", "-k", "00000001"
    yield "query", "-c", "x", "keys"
    yield "query", "-c", "x", "-f", "1", "keys"
    yield "query", "--show-counts", "x", "keys"
    yield "stats", "x"
    yield "stats", "--json", "x"
    yield "verify", "x"
    yield "verify", "--repair", "x"
    yield "add", "x", "-k", "abcdef"
    yield "add", "--no-sync", "x", "keys"
    yield "dedup", "x", "keys"
    yield "rotate", "x"
    yield "remove", "x", "-k", "00000001"
    yield "compare", "x", name
    yield "merge", "--subtract", "--force", "-o", "out", "x", name
    yield "merge", "--force", "-o", "out", "x", "x"
    yield "merge", "--force", "-o", "out", name, "x"
    yield "merge", "--force", "-o", "out", "x", name
    yield "merge", "--force", "--intersect", "-o", "out", "x", name
    yield "shrink", "--force", "-o", "out", "x"
    yield "shrink", "--force", "--fpr", "0.5", "-o", "out", "x"
    yield "create", "--force", "--like", "x", "out", "-k", "01"
    yield "create", "--force", "--min-ratio", "0.5", "x", "-k", "01"


def complaint(got):
    """What is wrong with how a command ended, or None."""
    lines = got.stderr.decode(errors="replace").splitlines()
    said = [line for line in lines
            if not line.startswith(("seen: warning: ", "seen: 'out': ", "seen: 'x': ",
                                    "seen: note: 'x' rotates by itself",
                                    "seen: note: none of these ", "seen: note: none of the first ",
                                    "seen: note: new ones probably mistaken for known: "))]
    if got.returncode not in (0, 1, 2):
        return "status %d" % got.returncode
    if any(not line.startswith("seen: ") for line in lines):
        return "strange words"
    if len(said) != (got.returncode == 2) and not (got.returncode == 1 and not said):
        return "%d reasons" % len(said)
    if b"File too large" in got.stderr:
        return "too large a file"
    return None


def found():
    got = run("query", "-c", "x", "keys")
    return got.returncode, got.stdout


def try_case(sound, case):
    name, field, value = case
    forged = Forged(sound[name])
    forged.set(field, value)
    with open("x", "wb") as f:
        f.write(forged.data)
    before = found()
    refused = before[0] == 2
    wrong = []
    for command in commands(name):
        if refused and command[0] not in ("verify", "add", "merge", "create"):
            continue
        with open("x", "wb") as f:
            f.write(forged.data)
        if os.path.exists("out"):
            os.remove("out")
        got = run(*command)
        why = complaint(got)
        if command[0] in ("verify", "add", "dedup") and why is None:
            after = found()
            if before[0] != 2 and (after[0] == 2 or int(after[1]) < int(before[1])):
                why = "worse than before: %s, then %s" % (before, after)
        made = why is None and os.path.exists("out")
        if made and run("query", "out", "-k", "01").returncode == 2:
            why = "unreadable output"
        if why is not None:
            wrong.append("%s %s=%r: seen %s: %s: %s" % (
                name, field, value, " ".join(command), why,
                got.stderr.decode(errors="replace")[:600]))
    return wrong


def main(count, seed):
    limit()
    sound = make_sound()
    cases = list(all_cases(sound))
    print("seed %d: %d of %d cases" % (seed, count or len(cases), len(cases)))
    if count:
        cases = random.Random(seed).sample(cases, count)
    bad = 0
    for case in cases:
        for wrong in try_case(sound, case):
            bad += 1
            print(wrong, flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
