# SPDX-License-Identifier: MIT
"""Writers on one file, some of them killed, and random bytes of the file damaged afterwards.

Two or three writers (add, dedup, dedup that rotates) get batches of keys; some are killed at random
instants, and one may live on. Then bytes are changed at a random place, or at two if the file is clean and
one of them is a mark or in the session page, which mean nothing then; or a copy of the file that was made
beside the writers is put in its place; or part of another file is written over it beside a reader; or nothing.
A reader stays as long as the file (query --annotate). What must hold:

- no key of a writer that exited 0 is ever called absent by a query that exits with 0 or 1, nor by the reader
  that stays; nor one that was in the file when it was copied, after it was restored;
- without damage all who are not killed exit 0, the next writer makes the file clean, and verify finds
  nothing: no repair is needed after a kill;
- what is called dirty, verify --repair makes a sound file of, unless too many pages differ;
- a reader whose file is overwritten prints no wrong line before it exits with 2.

The checksum of a page that a living or killed writer has marked need not be up to date: such a page is left
alone. After damage the file is made anew from its keys."""

import os
import random
import signal
import subprocess
import sys
import time

from common import PATIENCE, SEEN, Scratch, seen

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from forge import Forged  # noqa: E402
from reader import PAGE  # noqa: E402

NAME = "damage"
BLOCK, BATCHES = 60, 4  # keys of a batch, batches of a run
GENERATIONS, EACH, FIXED = 4, 2000, 40000  # EACH: keys of a generation
WRITING = 1  # state in the header
KINDS = {
    "fixed": (["--fixed", "-n", str(FIXED)], [["add"], ["dedup"]]),
    "growing": (["--grow", "-n", "500"], [["add"], ["dedup"]]),
    "ring": (["--generations", str(GENERATIONS), "-n", str(GENERATIONS * EACH)],
             [["add", "--max-fpr", "0.5"], ["dedup", "--rotate-at-capacity"], ["add", "--rotate-at-capacity"]]),
}


class File:
    """The file, and the keys that must be in it: each with the number of keys given before it."""

    def __init__(self, directory, kind, seed):
        self.kind, self.directory = kind, directory
        self.chance = random.Random("%d.%s" % (seed, kind))
        self.path = os.path.join(directory, "f.seen")
        self.wrong, self.count = [], {"killed": 0, "damaged": 0, "restored": 0, "overwritten": 0, "refused": 0,
                                      "answered": 0}
        self.number = 0
        self.add = ["add", "--rotate-at-capacity"] if kind == "ring" else ["add"]
        os.mkdir(directory)
        self.acknowledged, self.given = {}, 0
        self.reader = None
        self.make()

    def blame(self, text):
        self.wrong.append(text)

    def due(self):
        """Those that no rotation can have dropped."""
        if self.kind != "ring":
            return list(self.acknowledged)
        least = self.given - (GENERATIONS - 2) * EACH
        return [key for key, before in self.acknowledged.items() if before >= least]

    def make(self):
        """Anew, of the keys that it must have."""
        keys = self.due()
        if len(keys) > FIXED / 2:
            keys = []
        seen("create", "--force", *KINDS[self.kind][0], "-p", "1e-6", "--empty", "f.seen",
             cwd=self.directory)
        seen(*self.add, "f.seen", cwd=self.directory, input="".join(k + "\n" for k in keys), text=True)
        self.acknowledged, self.given = dict.fromkeys(keys, 0), len(keys)
        # For up to a second, it would answer from the old file.
        if self.reader:
            self.reader.end()
        self.reader = Reader(self)

    def block(self):
        self.number += 1
        self.given += BLOCK
        return ["%d.%d" % (self.number, i) for i in range(BLOCK)]

    def run(self, *args, given=None):
        done = subprocess.run([SEEN, *args], cwd=self.directory, input=given, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
        if done.returncode not in (0, 1, 2):
            self.blame("'seen %s' exits %d: %s" % (args, done.returncode, done.stderr.strip()))
        return done

    def ask(self, when, may_refuse):
        keys = self.due()
        self.reader.ask(keys, when, may_refuse)
        done = self.run("query", "-v", "f.seen", given="".join(k + "\n" for k in keys))
        if done.returncode == 2:
            self.count["refused"] += 1
            if not may_refuse:
                self.blame("%s: query exits 2: %s" % (when, done.stderr.strip()))
            return
        self.count["answered"] += 1
        absent = set(done.stdout.splitlines()).intersection(keys)
        if absent:
            self.blame("%s: %d of %d keys are called absent, %s among them"
                       % (when, len(absent), len(keys), min(absent)))


class Reader:
    """Stays as long as the file, and is begun again when it was right to end."""

    def __init__(self, file):
        self.file = file
        self.start()

    def start(self):
        self.process = subprocess.Popen([SEEN, "query", "--annotate", "f.seen"], cwd=self.file.directory,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def ask(self, keys, when, may_refuse):
        keys = self.file.chance.sample(keys, min(len(keys), 500))  # less than a pipe holds
        answers = []
        try:
            self.process.stdin.write("".join(key + "\n" for key in keys))
            self.process.stdin.flush()
            while len(answers) < len(keys):
                answers.append(self.process.stdout.readline())
                if not answers[-1]:
                    raise BrokenPipeError
        except BrokenPipeError:
            status, said = self.process.wait(PATIENCE), self.process.stderr.read()
            if status != 2 or not may_refuse:
                self.file.blame("%s: the reader that stays exits %d: %s" % (when, status, said.strip()))
            self.process.communicate()
            self.start()
        absent = [a for a in answers if a.startswith("-")]
        if absent:
            self.file.blame("%s: the reader that stays calls %d of %d keys absent, %s among them"
                            % (when, len(absent), len(keys), absent[0].strip()))

    def end(self):
        self.process.communicate()


class Writer:
    def __init__(self, file):
        self.file, self.keys, self.before, self.is_killed = file, [], file.given, False
        self.command = file.chance.choice(KINDS[file.kind][1])
        self.process = subprocess.Popen([SEEN, *self.command, "f.seen"], cwd=file.directory,
                                        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)

    def feed(self):
        block = self.file.block()
        try:
            self.process.stdin.write("".join(key + "\n" for key in block))
            self.process.stdin.flush()
            self.keys += block
        except BrokenPipeError:
            pass  # its status will say why

    def end_input(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def kill(self):
        """At work, or while it ends."""
        if self.file.chance.random() < 0.4:
            self.end_input()
            time.sleep(self.file.chance.uniform(0, 0.005))
        self.process.send_signal(signal.SIGKILL)
        self.is_killed = True
        self.file.count["killed"] += 1

    def end(self, may_fail):
        try:
            _, stderr = self.process.communicate(timeout=PATIENCE)
        except (BrokenPipeError, ValueError):
            self.process.wait(PATIENCE)
            stderr = ""
        status = self.process.returncode
        if status == 0:
            self.file.acknowledged.update(dict.fromkeys(self.keys, self.before))
        elif status != (-9 if self.is_killed else 2 if may_fail else 0):
            self.file.blame("%s exits %d: %s" % (self.command, status, stderr.strip()))

    def until_done(self):
        """Its last key is in the file."""
        end = time.monotonic() + PATIENCE
        while self.keys and self.process.poll() is None and time.monotonic() < end:
            if self.file.run("query", "-q", "f.seen", "-k", self.keys[-1]).returncode == 0:
                return
            time.sleep(0.002)


def _marked(forged):
    """Ranges of the data that no checksum protects now."""
    slot = max((0, PAGE), key=lambda at: forged.header(at + 32, "Q"))
    if forged.header(slot + 40, "I") != WRITING:
        return
    for number in range(forged.header(slot + 28, "I")):
        data, _, touched = forged.place(number, slot)
        for page in range((forged.layer(number, "length", slot) + PAGE - 1) // PAGE):
            if forged.data[touched + page // 8] >> page % 8 & 1:
                yield data + page * PAGE, data + (page + 1) * PAGE


def _damage_clean(file, f, forged):
    """Garbage for marks or session page of a clean file."""
    layer = file.chance.randrange(forged.header(28, "I"))
    marks = forged.place(layer)[2]
    pages = (forged.layer(layer, "length") + PAGE - 1) // PAGE
    at, length = file.chance.choice([(marks, (pages + 7) // 8), (2 * PAGE, 64)])
    os.pwrite(f.fileno(), file.chance.choice([b"\xff" * length, file.chance.randbytes(length)]), at)


def _is_clean(forged):
    slot = max((0, PAGE), key=lambda at: forged.header(at + 32, "Q"))
    return forged.header(slot + 40, "I") == 0


def _damage(file, is_alone):
    """Changes up to 64 bytes, in a part of the file that is chosen first: the small ones count too."""
    chance = file.chance
    with open(file.path, "r+b", buffering=0) as f:
        forged = Forged(f.read())
        if is_alone and _is_clean(forged) and chance.random() < 0.5:
            _damage_clean(file, f, forged)
        size, marked = len(forged.data), list(_marked(forged))
        for _ in range(100):
            layer = chance.randrange(forged.header(28, "I"))
            data, sums, touched = forged.place(layer)
            begin, room = chance.choice([
                (0, size), (0, 512), (PAGE, 512), (2 * PAGE, 64), (sums, 64), (touched or sums, 64),
                (data, forged.layer(layer, "length"))])
            at = begin + chance.randrange(room)
            length = min(chance.randint(1, 64), size - at)
            if length > 0 and not any(at < last and first < at + length for first, last in marked):
                how = chance.choice([bytes(length), b"\xff" * length, chance.randbytes(length)])
                os.pwrite(f.fileno(), how, at)
                file.count["damaged"] += 1
                return "%d bytes at %d" % (length, at)
    return None


def _write_over(file, data):
    with open(file.path, "r+b", buffering=0) as f:
        f.write(data)
        f.truncate(len(data))


def _restore(file, copy, acknowledged):
    """Puts a copy that was made beside writers in the place of the file."""
    _write_over(file, copy)
    file.count["restored"] += 1
    file.acknowledged = acknowledged
    when = "after a copy was restored"
    file.ask(when, True)
    new = file.block()
    done = file.run(*file.add, "f.seen", given="".join(k + "\n" for k in new))
    if done.returncode == 0:
        file.acknowledged.update(dict.fromkeys(new, file.given))
    file.ask(when + ", and an add", True)
    if " is dirty " in done.stderr:
        repaired = file.run("verify", "--repair", "f.seen")
        if " which is too much to repair: make it again" in repaired.stderr:
            file.make()
        elif repaired.returncode != 0:
            file.blame("%s: the repair exits %d: %s" % (when, repaired.returncode, repaired.stderr.strip()))
        file.reader.end()
        file.reader = Reader(file)
        file.ask(when + ", and a repair", False)


def _overwrite(file):
    """Writes the first part of another file over this one while readers get keys that it has."""
    chance = file.chance
    with open(file.path, "rb") as f:
        data = f.read()
    seen("create", "--force", *KINDS[file.kind][0], "-p", "1e-6", "o.seen", "-k", "other", cwd=file.directory)
    with open(os.path.join(file.directory, "o.seen"), "rb") as f:
        other = f.read()
    keys = file.due()
    options = chance.choice([["-v"], ["-v", "-c"], ["-q", "-v"], ["-m", "1", "-v"], ["--annotate"]])
    process = subprocess.Popen([SEEN, "query", *options, "f.seen"], cwd=file.directory, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    half = len(keys) // 2
    try:
        process.stdin.write("".join(k + "\n" for k in keys[:half]))
        process.stdin.flush()
        time.sleep(chance.choice([0, chance.uniform(0, 0.01)]))
        with open(file.path, "r+b", buffering=0) as f:
            f.write(other[:chance.randrange(PAGE, min(len(data), len(other)))])
        process.stdin.write("".join(k + "\n" for k in keys[half:]))
    except BrokenPipeError:
        pass
    try:
        out, said = process.communicate(timeout=PATIENCE)
    except (BrokenPipeError, ValueError):
        out, said = process.stdout.read(), process.stderr.read()
        process.wait(PATIENCE)
    file.count["overwritten"] += 1
    wrong = [line for line in out.splitlines() if not line.startswith("+")]
    if wrong not in ([], ["0"]) or process.returncode not in (1, 2, 0 if options == ["--annotate"] else 1):
        file.blame("overwritten, query %s exits %d and prints %d wrong lines: %s"
                   % (" ".join(options), process.returncode, len(wrong), said.strip()))


def _round(file):
    chance = file.chance
    copy = acknowledged = None
    writers = [Writer(file) for _ in range(chance.randint(2, 3))]
    share = chance.choice([0.3, 0.3, 1])  # with 1, nobody is left to end the session
    victims = [w for w in writers if chance.random() < share]
    for step in range(BATCHES):
        for writer in writers:
            if not writer.is_killed:
                writer.feed()
        time.sleep(chance.choice([0, 0, chance.uniform(0, 0.01)]))
        if copy is None and chance.random() < 0.1:
            acknowledged = dict(file.acknowledged)
            with open(file.path, "rb") as f:
                copy = f.read()
        for writer in victims:
            if not writer.is_killed and chance.random() < (step + 1) / BATCHES:
                writer.kill()
    alive = [w for w in writers if not w.is_killed]
    last = alive.pop() if alive and chance.random() < 0.5 else None
    for writer in writers:
        if writer is not last:
            writer.end(False)
    if last:
        last.until_done()
    file.ask("after the writers", False)
    if copy and not last:
        _restore(file, copy, acknowledged)
        file.make()
        return
    what = _damage(file, last is None) if chance.random() < 0.5 else None
    when = what or "without damage"
    file.ask(when, what)
    if last and chance.random() < 0.5:
        last.end(what)
        last = None
    new = file.block()
    done = file.run(*file.add, "f.seen", given="".join(k + "\n" for k in new))
    if done.returncode == 0:
        file.acknowledged.update(dict.fromkeys(new, file.given))
    elif not what:
        file.blame("the next add exits %d: %s" % (done.returncode, done.stderr.strip()))
    file.ask(when + ", after an add", what)
    if last:
        last.end(what)
        file.ask(when + ", after the last writer", what)
    verified = file.run("verify", "f.seen")
    if not what and verified.stdout != "f.seen: ok\n":
        file.blame("verify: " + verified.stdout + verified.stderr)
    left = [n for n in os.listdir(file.directory) if n.startswith(".")]
    if left:
        file.blame("left behind: " + ", ".join(left))
    if not what and chance.random() < 0.3 and file.acknowledged:
        _overwrite(file)
        what = "overwritten"
    if what or file.given > FIXED:
        file.make()


def attack(tap, options):
    rounds = options.cases or (10 if options.short else 200)
    end = time.monotonic() + (options.seconds or 0)
    for kind in KINDS:
        wrong, seed = [], options.seed
        with Scratch() as path:
            while not wrong and (seed == options.seed or time.monotonic() < end):
                file = File(os.path.join(path, str(seed)), kind, seed)
                for number in range(rounds):
                    if not file.wrong:
                        _round(file)
                file.reader.end()
                wrong = file.wrong
                tap.say("%s, seed %d, round %d: %s" % (kind, seed, number, ", ".join(
                    "%d %s" % (n, text) for text, n in file.count.items())))
                seed += 1
        for problem in wrong[:10]:
            tap.say(problem)
        tap.result(not wrong, "writers that are killed and bytes that are damaged, in a %s file" % kind)
