# SPDX-License-Identifier: MIT
"""Eight writers on one file, some of them killed, while the file is replaced under them.

Writers add blocks of keys, or have them printed by dedup, in runs of several batches; a replacer
merges other keys into the file, shrinks it in place, repairs it, and makes it anew (create --force);
or, if the file is a ring, rotates it. Readers ask all the while. What must hold:

- the keys of a writer that exited 0 are there, unless the file was made anew, or the ring turned, since
  that writer began;
- no key is printed twice, unless it was forgotten like that in between;
- who is not killed does not fail, unless the file was made anew since, or replaced more than once: then it may say
  that it has to be run again;
- nothing is called damaged or dirty; the next writer makes the file clean, without a repair;
- no temporary file is left.
"""

import collections
import os
import random
import signal
import subprocess
import threading
import time

from common import PATIENCE, SEEN, Scratch, seen

NAME = "chaos"
WRITERS = 8
GENERATIONS = 4
BLOCK = 60  # keys of a batch
BATCHES = 4  # of a run
# Shrinking is refused for a good reason when writers have filled what was shrunk before.
REFUSED = ("false-positive rate of",)

Written = collections.namedtuple("Written", "keys began")
Printed = collections.namedtuple("Printed", "began ended")


class File:
    """The file that all work on, and what is known about it."""

    def __init__(self, directory, ring, chance, seed):
        self.directory, self.ring, self.chance, self.seed = directory, ring, chance, seed
        self.lock = threading.Lock()
        self.written = []  # by runs that exited 0
        self.printed = collections.defaultdict(list)
        self.making = []  # [began, ended] of each create --force, by the clock
        self.turns = []  # when each rotation began
        self.successors = []  # [began, ended] of each replacement by a file that has all keys
        self.shrunk = False
        self.wrong = []
        self.count = collections.Counter()
        self.block = 0
        self.over = threading.Event()

    def blame(self, text):
        with self.lock:
            self.wrong.append(text)
        self.over.set()

    def forgotten(self, began):
        """May a key that went in after that time be gone? Call it with the lock."""
        if any(b is None or b >= began for _, b in self.making):
            return True
        return self.ring and sum(t >= began for t in self.turns) >= GENERATIONS

    def is_left_behind(self, began):
        """Was the file replaced more than once since, so that a writer may have missed the file in between? Call it
        with the lock."""
        return self.forgotten(began) or sum(b is None or b >= began for _, b in self.successors) > 1

    def run(self, *args, given=None):
        done = subprocess.run([SEEN, *args], cwd=self.directory, input=given, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL if given is None else None, check=False)
        if "damaged" in done.stderr or "is dirty" in done.stderr or done.returncode < 0:
            self.blame("'seen %s' exits %d: %s" % (" ".join(args), done.returncode, done.stderr.strip()))
        return done


def _next_block(file):
    """A block of keys. Every second one is given out twice, to two writers at about the same time."""
    with file.lock:
        file.block += 1
        number = file.block // 3 if file.block % 3 < 2 else -file.block
    return ["%d.%d" % (number, i) for i in range(BLOCK)]


def _write(file, number):
    """One writer after another, until it is over."""
    chance = random.Random("%d.%d" % (file.seed, number))
    while not file.over.is_set():
        dedup = chance.random() < 0.5
        out = os.path.join(file.directory, "out.%d" % number)
        began = time.monotonic()
        with open(out, "wb") as f:
            # Without a limit of its own, dedup stops where records are lost to false positives.
            command = ["dedup", "--max-fpr", "0.5"] if dedup else ["add"]
            process = subprocess.Popen([SEEN, *command, "f.seen"],
                                       cwd=file.directory, stdin=subprocess.PIPE, stdout=f,
                                       stderr=subprocess.PIPE, text=True)
        keys, end = [], chance.choice([None, None, None, signal.SIGKILL, signal.SIGTERM])
        try:
            for _ in range(BATCHES):
                block = _next_block(file)
                process.stdin.write("".join(key + "\n" for key in block))
                process.stdin.flush()
                keys += block
                time.sleep(chance.uniform(0, 0.02))
            if end:
                process.send_signal(end)
        except BrokenPipeError:
            pass  # its status will say why
        try:
            _, stderr = process.communicate(timeout=PATIENCE)
        except (BrokenPipeError, ValueError):
            process.wait(PATIENCE)
            stderr = ""
        _wrote(file, process.returncode, end, stderr, Written(keys, began), out if dedup else None)


def _wrote(file, status, end, stderr, written, out):
    expected = {None: (0,), signal.SIGKILL: (0, -9), signal.SIGTERM: (0, 143, -15)}[end]
    lost = status == 2 and "was replaced while keys were added" in stderr
    with file.lock:
        lost = lost and file.is_left_behind(written.began)
    # What was shrunk gets too full for more keys after many rounds.
    full = (file.shrunk and status == 2 and
            "not added: the false-positive rate of 'f.seen' would pass" in stderr)
    if (status not in expected and not lost and not full) or "damaged" in stderr or "is dirty" in stderr:
        file.blame("a writer exits %s: %s" % (status, stderr.strip()))
    lines = []
    if out:
        with open(out, encoding="ascii") as f:
            lines = [line for line in f if line.endswith("\n")]
    ended = time.monotonic()
    with file.lock:
        file.count["killed" if status else "written"] += 1
        if status == 0:
            file.written.append(written)
        for line in lines:
            file.printed[line].append(Printed(written.began, ended))


def _check(file):
    """Are the keys there that must be? Asked for before and judged after, as they may be forgotten
    meanwhile."""
    with file.lock:
        due = [w for w in file.written if not file.forgotten(w.began)]
        file.written = due
    for part in (due[-200:], file.chance.sample(due, min(len(due), 200))):
        keys = [key + "\n" for w in part for key in w.keys]
        missing = file.run("query", "-v", "f.seen", given="".join(keys))
        if missing.returncode not in (0, 1):
            file.blame("query exits %d: %s" % (missing.returncode, missing.stderr.strip()))
        gone = set(missing.stdout.splitlines())
        with file.lock:
            lost = {k for w in part if not file.forgotten(w.began) for k in w.keys if k in gone}
        if lost:
            file.blame("%d keys of %d are missing, %s among them" % (len(lost), len(keys), min(lost)))
        file.count["asked"] += len(keys)


def _read(file):
    """Readers and others that only look."""
    while not file.over.is_set():
        _check(file)
        file.run("stats", "f.seen")
        file.run("verify", "f.seen")


def _anew(file):
    entry = [time.monotonic(), None]
    with file.lock:
        file.making.append(entry)
    done = file.run("create", "--force", *file.made_with)
    entry[1] = time.monotonic()
    return done


def _rotate(file):
    with file.lock:
        file.turns.append(time.monotonic())
    return file.run("rotate", "f.seen")


def _unite(file):
    """With a filter of the same size: the result is one layer, if the file was not shrunk before."""
    return file.run("merge", "--force", "-o", "f.seen", "f.seen", "like.seen")


def _join(file):
    """With a filter that does not fit: its layer is the one that writers go on with."""
    return file.run("merge", "--force", "-o", "f.seen", "f.seen", "other.seen")


def _shrink(file):
    file.shrunk = True
    return file.run("shrink", "f.seen")


def _repair(file):
    return file.run("verify", "--repair", "f.seen")


_SUCCESSORS = (_unite, _join, _shrink, _repair)


def _replace(file, steps):
    for step in steps:
        if file.over.is_set():
            return
        entry = [time.monotonic(), None]
        if step in _SUCCESSORS:
            with file.lock:
                file.successors.append(entry)
        done = step(file)
        entry[1] = time.monotonic()
        file.count[step.__name__.strip("_")] += 1
        if done.returncode != 0 and not any(reason in done.stderr for reason in REFUSED):
            file.blame("%s exits %d: %s" % (step.__name__, done.returncode, done.stderr.strip()))
        if done.returncode != 0:
            file.count["refused"] += 1
        time.sleep(file.chance.uniform(0, 0.1))


def _printed_twice(file):
    """Lines that were printed twice although nothing was forgotten in between."""
    twice = []
    for line, times in file.printed.items():
        times.sort()
        for one, other in zip(times, times[1:]):
            forgotten = any(b is None or a <= other.ended and b >= one.began for a, b in file.making)
            turned = sum(one.began <= t <= other.ended for t in file.turns) >= GENERATIONS
            if not forgotten and not (file.ring and turned):
                twice.append(line.strip())
    return twice


# What a file of each kind is made with, and what happens to it.
_MERGED = [_unite, _join, _join, _shrink, _shrink, _repair]
KINDS = {
    "fixed": (["--fixed", "--foldable", "-n", "200k"], _MERGED),
    "growing": (["--grow", "-n", "2000"], _MERGED),
    "ring": (["--generations", str(GENERATIONS), "-n", "200k"], [_rotate, _rotate, _rotate, _repair]),
}


def _storm(tap, directory, seed, kind, rounds):
    """One file, from its making to its end. Returns what was wrong."""
    chance = random.Random("%d.%s" % (seed, kind))
    size, actions = KINDS[kind]
    os.mkdir(directory)
    file = File(directory, kind == "ring", chance, seed)
    file.made_with = [*size, "-p", "1e-8", "--empty", "f.seen"]
    seen("create", *file.made_with, cwd=directory)
    seen("create", "--foldable", "-n", "200k", "-p", "1e-8", "like.seen", "-k", "like", cwd=directory)
    seen("create", "-n", "100k", "-p", "1e-9", "other.seen", "-k", "other", cwd=directory)
    steps = [chance.choice(actions) for _ in range(rounds)]
    # Anew now and then; in between there is time for keys to get lost in.
    for at in range(9, rounds, 10):
        steps[at] = _anew
    threads = [threading.Thread(target=_write, args=(file, n)) for n in range(WRITERS)]
    threads.append(threading.Thread(target=_read, args=(file,)))
    for thread in threads:
        thread.start()
    try:
        _replace(file, steps)
    finally:
        file.over.set()
        for thread in threads:
            thread.join()
    _check(file)
    twice = _printed_twice(file)
    if twice:
        file.blame("%d lines were printed twice, %s among them" % (len(twice), twice[0]))
    left = [n for n in os.listdir(directory) if n.startswith(".")]
    if left:
        file.blame("left behind: " + ", ".join(left))
    file.run("add", "f.seen", "-k", "last")
    verified = file.run("verify", "f.seen")
    if verified.stdout != "f.seen: ok\n":
        file.blame("not in order: " + verified.stdout + verified.stderr)
    tap.say("%s: %s" % (kind, ", ".join("%d %s" % (n, what) for what, n in file.count.items())))
    return file.wrong


def attack(tap, options):
    rounds = options.cases or (20 if options.short else 200)
    end = time.monotonic() + (options.seconds or 0)
    for kind in KINDS:
        wrong, seed = [], options.seed
        with Scratch() as path:
            while not wrong and (seed == options.seed or time.monotonic() < end):
                wrong = _storm(tap, os.path.join(path, str(seed)), seed, kind, rounds)
                seed += 1
        for problem in wrong[:10]:
            tap.say(problem)
        tap.result(not wrong, "eight writers on a %s file that is replaced under them" % kind)
