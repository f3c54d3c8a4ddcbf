"""Writers on one file, some of them killed, and random bytes of the file damaged afterwards.

Two or three writers (add, dedup, dedup that rotates) get batches of keys; some are killed at random
instants, and one may live on. Then bytes are changed at a random place, or not. What must hold:

- no key of a writer that exited 0 is ever called absent by a query that exits with 0 or 1;
- without damage all who are not killed exit 0, the next writer makes the file clean, and verify finds
  nothing: no repair is needed after a kill.

A page that a living or killed writer has marked has no checksum that could show damage: it is left
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
             [["add"], ["dedup", "--rotate-at-capacity"], ["add", "--rotate-at-capacity"]]),
}


class File:
    """The file, and the keys that must be in it: each with the number of keys given before it."""

    def __init__(self, directory, kind, seed):
        self.kind, self.directory = kind, directory
        self.chance = random.Random("%d.%s" % (seed, kind))
        self.path = os.path.join(directory, "f.seen")
        self.wrong, self.count = [], {"killed": 0, "damaged": 0, "refused": 0, "answered": 0}
        self.number = 0
        os.mkdir(directory)
        self.acknowledged, self.given = {}, 0
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
        seen("add", "f.seen", cwd=self.directory, input="".join(k + "\n" for k in keys), text=True)
        self.acknowledged, self.given = dict.fromkeys(keys, 0), len(keys)

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
        layer = {f: forged.header(slot + 256 + 128 * number + at, "Q")
                 for f, at in (("data", 32), ("length", 40), ("touched", 56))}
        for page in range((layer["length"] + PAGE - 1) // PAGE):
            if forged.data[layer["touched"] + page // 8] >> page % 8 & 1:
                yield layer["data"] + page * PAGE, layer["data"] + (page + 1) * PAGE


def _damage(file):
    """Changes up to 64 bytes, in a part of the file that is chosen first: the small ones count too."""
    chance = file.chance
    with open(file.path, "r+b", buffering=0) as f:
        forged = Forged(f.read())
        size, marked = len(forged.data), list(_marked(forged))
        for _ in range(100):
            layer = chance.randrange(forged.header(28, "I"))
            begin, room = chance.choice([
                (0, size), (0, 512), (PAGE, 512), (2 * PAGE, 64),
                (forged.layer(layer, "sums"), 64), (forged.layer(layer, "touched"), 64),
                (forged.layer(layer, "data"), forged.layer(layer, "length"))])
            at = begin + chance.randrange(room)
            length = min(chance.randint(1, 64), size - at)
            if length > 0 and not any(at < last and first < at + length for first, last in marked):
                how = chance.choice([bytes(length), b"\xff" * length, chance.randbytes(length)])
                os.pwrite(f.fileno(), how, at)
                file.count["damaged"] += 1
                return "%d bytes at %d" % (length, at)
    return None


def _round(file):
    chance = file.chance
    writers = [Writer(file) for _ in range(chance.randint(2, 3))]
    share = chance.choice([0.3, 0.3, 1])  # with 1, nobody is left to end the session
    victims = [w for w in writers if chance.random() < share]
    for step in range(BATCHES):
        for writer in writers:
            if not writer.is_killed:
                writer.feed()
        time.sleep(chance.choice([0, 0, chance.uniform(0, 0.01)]))
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
    what = _damage(file) if chance.random() < 0.5 else None
    when = what or "without damage"
    file.ask(when, what)
    if last and chance.random() < 0.5:
        last.end(what)
        last = None
    new = file.block()
    done = file.run("add", "f.seen", given="".join(k + "\n" for k in new))
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
                wrong = file.wrong
                tap.say("%s, seed %d, round %d: %s" % (kind, seed, number, ", ".join(
                    "%d %s" % (n, text) for text, n in file.count.items())))
                seed += 1
        for problem in wrong[:10]:
            tap.say(problem)
        tap.result(not wrong, "writers that are killed and bytes that are damaged, in a %s file" % kind)
