#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""records.py csv|jsonl SEED N: N random tables, or lines of JSON, some of them with a slip, are read by `seen dedup`
and by Python: the same records must come out, or both must refuse."""
import csv
import io
import json
import os
import random
import subprocess
import sys

form, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
R = random.Random(seed)
NAMES = ["id", "url", "a b", "a,b", "2024", "é", ""]


def seen(words, data):
    done = subprocess.run([os.environ.get("SEEN", "seen"), "dedup", *words], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=300)
    return done.returncode, done.stdout, done.stderr


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


def spelled(text):
    needs = any(c in text for c in '",\r\n')
    return quoted(text) if needs or R.random() < 0.3 else text


def value():
    return R.choice(["", "a", "b,c", 'd"e', "f\ng", "h\r\ni", " x ", "é", '""', ",", "z" * R.randrange(90)])


def broken(text):
    """The rule, a byte at a time."""
    state, cr = "begin", False
    for c in text:
        ends = state != "inside" and c in ",\n"
        if (cr and c != "\n") or (state == "closed" and not ends and c not in '"\r') or (state == "bare" and c == '"'):
            return True
        cr = state != "inside" and c == "\r"
        if state == "inside":
            state = "closed" if c == '"' else "inside"
        elif ends:
            state = "begin"
        elif c == '"':
            state = "inside"
        elif not (c == "\r" and state == "closed"):
            state = "bare"
    return state == "inside" or cr


def table():
    names = R.sample(NAMES, R.randrange(1, 5))
    rows = [[value() for _ in names] for _ in range(R.randrange(12))]
    text = ",".join(quoted(n) for n in names) + "\n"
    for row in rows:
        text += ",".join(spelled(v) for v in row) + R.choice(["\n", "\r\n"])
    if R.random() < 0.3:
        at = R.randrange(text.index("\n") + 1, len(text) + 1)
        text = text[:at] + R.choice(['"', ",", "\r", "\n", "x"]) + text[at + R.randrange(2):]
    return names, text


def check_csv():
    names, text = table()
    chosen = R.sample(range(len(names)), R.randrange(1, len(names) + 1))
    want = ",".join(R.choice([quoted(names[i]), str(i + 1), str(i - len(names))]) for i in chosen)
    status, out, err = seen(["--csv", "-f", want, "--skip-bad", f"-j{R.randrange(1, 4)}"], text.encode())
    if broken(text):
        assert status == 2 and err.startswith(b"seen: (standard input):"), (text, want, status, err)
        return
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    known, new = set(), [rows[0]]
    for row in rows[1:]:
        key = tuple(row[i] for i in chosen) if len(row) == len(names) else ()
        if any(key) and key not in known:
            known.add(key)
            new.append(row)
    got = list(csv.reader(io.StringIO(out.decode(), newline=""), strict=True))
    assert status == 0 and got == new, (text, want, status, err, got, new)


class Spelling(str):
    pass


def refuse(word):
    raise ValueError(word)


def thing(depth):
    r = R.random()
    if depth > 0 and r < 0.4:
        return {R.choice(NAMES): thing(depth - 1) for _ in range(R.randrange(4))}
    if depth > 0 and r < 0.5:
        return [thing(depth - 1) for _ in range(R.randrange(3))]
    return R.choice([None, True, 0, 1, 12345678901234567890, 1.5e300, "", "x", "1", 'a"b\\\n\x00', "\U0001f600" * R.randrange(9)])


def check_jsonl():
    lines = []
    for _ in range(40):
        line = json.dumps({"id": thing(2), "url": thing(0)}, ensure_ascii=R.random() < 0.5).encode()
        if R.random() < 0.3:
            at = R.randrange(len(line))
            line = line[:at] + R.choice([b"", b'"', b"\\", b"}", b"\xff", b"NaN"]) + line[at + R.randrange(2):]
        lines.append(line)
    known, new = set(), []
    for line in lines:
        try:
            found = json.loads(line.decode(), parse_int=Spelling, parse_float=Spelling, parse_constant=refuse)
            found = found["id"] if isinstance(found, dict) else None
            key = {True: "true", False: "false"}.get(found, found) if isinstance(found, (bool, str)) else None
            key = key.encode() if key else None
        except (ValueError, KeyError, UnicodeError):
            key = None
        if key is not None and key not in known:
            known.add(key)
            new.append(line)
    status, out, err = seen(["--jsonl", "-f", ".id", "--skip-bad"], b"\n".join(lines))
    assert status == 0 and out == b"".join(line + b"\n" for line in new), (lines, err, out, new)


for _ in range(count):
    check_csv() if form == "csv" else check_jsonl()
print(f"{count} of {form}, seed {seed}: alike")
