# SPDX-License-Identifier: MIT
"""The writing commands that tests/soak/calls.py attacks: what each finds, and what it has to leave.

A Command runs in a directory with the files that `prepare` made. Key sets are files KEYS/NAME, made
once; a target holds the sets `before`, and must hold `before` and `after` once the command exited 0.
"""

import os
import shutil
import subprocess

from common import PATIENCE, SEEN, fatal, seen, write_lines

# Files of keys, with a key a line. Those of `mapped` are so long that the file is mapped, those of
# `scratch` so many that 4 MiB do not hold their hashes, those of `spread` touch more than the 1024
# pages from which on a writer syncs before it leaves.
KEY_SETS = {
    "a": ("a%d", 300),
    "b": ("b%d", 300),
    "c": ("c%d", 300),
    "d": ("d%d", 300),
    "more": ("more%d", 50),
    "mapped": ("m%07d", 150000),
    "scratch": ("s%d", 600000),
    "spread": ("p%d", 20000),
    "compact": ("k%07d", 6000000),
}


def make_keys(directory, slow):
    os.mkdir(directory)
    for name, (form, count) in KEY_SETS.items():
        if slow or count < 10 ** 6:
            write_lines(os.path.join(directory, name), (form % i for i in range(count)))


class Command:
    """target: the file that it writes. replaces: what is under the name afterwards is the old file or
    the new one, and was never changed in place. again: arguments with which it can be repeated after
    it was cut off. prints: the key set whose lines
    it prints, each once. input: the key set on its standard input, a pipe. takes_keys: its target can
    be added to. batches: on SIGTERM it finishes its batch and exits 143. beside: another process adds keys to
    f.seen meanwhile, `c` before it begins and `d` when it has ended; joins: those `c` are to be in the
    target too. slow: seconds a case."""

    def __init__(self, name, args, prepare=None, target="f.seen", before=(), after=(), replaces=True,
                 again=None, prints=None, input=None, takes_keys=True, batches=False,
                 beside=False, joins=True, slow=False):
        self.name, self.args, self.prepare, self.target = name, args, prepare, target
        self.before, self.after, self.replaces = before, after, replaces
        self.again = again or args
        self.prints, self.input = prints, input
        self.takes_keys, self.batches, self.slow = takes_keys, batches, slow
        self.beside, self.joins = beside, joins


class Writer:
    """Another process that adds keys to f.seen, and is at it until it is told to end."""

    def __init__(self, directory, keys):
        self.directory, self.keys = directory, keys
        self.process = subprocess.Popen([SEEN, "add", "f.seen"], cwd=directory, stdin=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.give("c")
        self.await_key("c")

    def give(self, key_set):
        with open(os.path.join(self.keys, key_set), "rb") as f:
            shutil.copyfileobj(f, self.process.stdin)
        self.process.stdin.flush()

    def await_key(self, key_set):
        """Until the last key of the set is there."""
        form, count = KEY_SETS[key_set]
        while seen("query", "-q", "f.seen", "-k", form % (count - 1), check=False, cwd=self.directory,
                   stderr=subprocess.DEVNULL).returncode != 0:
            if self.process.poll() is not None:
                fatal("a writer ended: %s" % self.process.stderr.read())

    def end(self):
        """Adds the last keys. Returns its status, and what it said."""
        try:
            self.give("d")
        except BrokenPipeError:
            pass  # the status tells why
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said.decode()

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Maker:
    """Makes files in the directory of a command."""

    def __init__(self, directory, keys):
        self.directory, self.keys = directory, keys

    def seen(self, *args):
        seen(*[self.resolve(a) for a in args], cwd=self.directory, stdout=subprocess.DEVNULL)

    def resolve(self, arg):
        return os.path.join(self.keys, arg[1:]) if arg.startswith("@") else arg

    def dirty(self):
        """Adds the keys `c` to f.seen, and dies before it can leave the file in order."""
        Writer(self.directory, self.keys).kill()


def fixed(m):
    m.seen("create", "-n", "5000", "-p", "1e-6", "f.seen", "@a")


def growing(m):
    m.seen("create", "--grow", "-n", "200", "-p", "1e-6", "--empty", "f.seen")
    m.seen("add", "f.seen", "@a")


def ring(m):
    """The keys `a` are in the oldest generation, which is the next to go."""
    m.seen("create", "--generations", "3", "-n", "3000", "-p", "1e-6", "--empty", "f.seen")
    for keys in ("@a", "@b", "@c"):
        m.seen("rotate", "f.seen")
        m.seen("add", "f.seen", keys)


def large(m):
    m.seen("create", "-n", "4M", "-p", "0.01", "f.seen", "@a")


def two(m):
    fixed(m)
    m.seen("create", "--like", "f.seen", "g.seen", "@b")


def misfits(m):
    fixed(m)
    m.seen("create", "-n", "900", "-p", "1e-4", "g.seen", "@b")


def roomy(m):
    m.seen("create", "--foldable", "-n", "50k", "-p", "1e-6", "f.seen", "@a")


def roomy_and_other(m):
    roomy(m)
    m.seen("create", "-n", "1000", "o.seen", "@b")


def compact(m):
    m.seen("create", "--compact", "-p", "1e-6", "f.seen", "@a")


def compact_and_other(m):
    compact(m)
    m.seen("create", "-n", "1000", "o.seen", "@b")


def counted(m):
    m.seen("create", "--counted", "-p", "0", "f.seen", "@a")


def counted_two(m):
    counted(m)
    m.seen("create", "--counted", "-p", "0", "g.seen", "@b")


def counted_both(m):
    m.seen("create", "--counted", "-p", "1e-6", "f.seen", "@a", "@b")


def dirty(m):
    fixed(m)
    m.dirty()


def linked(m):
    os.mkdir(os.path.join(m.directory, "real"))
    os.symlink("real/f.seen", os.path.join(m.directory, "link.seen"))


def zipped(m):
    with open(m.resolve("@b"), "rb") as plain, open(os.path.join(m.directory, "b.gz"), "wb") as out:
        subprocess.run(["gzip", "-c"], stdin=plain, stdout=out, check=True)


def _create(name, *args, **more):
    return Command("create-" + name, ["create", *args, "f.seen", "@b"], after=("b",),
                   again=["create", "--force", *args, "f.seen", "@b"], **more)


def _replace(name, *args, prepare=fixed, **more):
    return Command("replace-" + name, ["create", "--force", *args, "f.seen", "@b"], prepare=prepare,
                   before=("a",), after=("b",), **more)


COMMANDS = [
    _create("plain"),
    _create("capacity", "-n", "2000", "-j2"),
    _create("compact", "--compact", "-j2", takes_keys=False),
    Command("create-pipe", ["create", "-j1", "f.seen"], input="b", after=("b",),
            again=["create", "--force", "f.seen", "@b"]),
    Command("create-gzip", ["create", "-j1", "f.seen", "b.gz"], prepare=zipped, after=("b",),
            again=["create", "--force", "f.seen", "b.gz"]),
    Command("create-link", ["create", "-j1", "-n", "1000", "link.seen", "@b"], prepare=linked,
            target="real/f.seen", after=("b",),
            again=["create", "--force", "-n", "1000", "link.seen", "@b"]),
    Command("create-empty", ["create", "--empty", "--grow", "-n", "500", "f.seen"],
            again=["create", "--empty", "--force", "-n", "500", "f.seen"]),
    Command("create-scratch", ["create", "-j2", "--memory", "4M", "-p", "0.1", "f.seen", "@scratch"],
            after=("scratch",),
            again=["create", "--force", "--memory", "4M", "-p", "0.1", "f.seen", "@scratch"]),
    Command("create-compact-scratch",
            ["create", "--compact", "-j1", "--memory", "44M", "-p", "0.1", "f.seen", "@compact"],
            after=("compact",), takes_keys=False, slow=True,
            again=["create", "--compact", "--force", "-j1", "--memory", "44M", "-p", "0.1", "f.seen",
                   "@compact"]),
    _replace("plain", "-j1"),
    _replace("compact", "--compact", "-j1", takes_keys=False),
    Command("add", ["add", "-j1", "f.seen", "@b"], prepare=fixed, before=("a",), after=("b",),
            replaces=False, batches=True),
    Command("add-pipe", ["add", "-j2", "f.seen"], input="b", prepare=fixed, before=("a",),
            after=("b",), replaces=False, batches=True),
    Command("add-mapped", ["add", "-j2", "f.seen", "@mapped"], prepare=large, before=("a",),
            after=("mapped",), replaces=False, batches=True),
    Command("add-spread", ["add", "-j1", "f.seen", "@spread"], prepare=large, before=("a",),
            after=("spread",), replaces=False, batches=True),
    Command("add-no-sync", ["add", "-j1", "--no-sync", "f.seen", "@b"], prepare=fixed, before=("a",),
            after=("b",), replaces=False, batches=True),
    Command("add-growing", ["add", "-j1", "f.seen", "@b", "@c"], prepare=growing, before=("a",),
            after=("b", "c"), replaces=False, batches=True),
    Command("add-ring", ["add", "-j1", "f.seen", "@more"], prepare=ring, before=("b", "c"),
            after=("more",), replaces=False, batches=True),
    Command("add-dirty", ["add", "-j1", "f.seen", "@b"], prepare=dirty, before=("a",), after=("b",),
            replaces=False, batches=True),
    Command("dedup", ["dedup", "-j1", "f.seen", "@a", "@b"], prepare=fixed, before=("a",),
            after=("b",), replaces=False, prints="b", batches=True),
    Command("dedup-pipe", ["dedup", "-j2", "--sync-every", "100", "f.seen"], input="b",
            prepare=fixed, before=("a",), after=("b",), replaces=False, prints="b", batches=True),
    Command("dedup-create", ["dedup", "-j1", "--create", "-n", "3000", "-p", "1e-6", "f.seen", "@b"],
            after=("b",), replaces=False, prints="b", batches=True),
    Command("dedup-growing", ["dedup", "-j1", "f.seen", "@b"], prepare=growing, before=("a",),
            after=("b",), replaces=False, prints="b", batches=True),
    Command("dedup-rotating", ["dedup", "-j1", "--rotate-at-capacity", "f.seen", "@spread"],
            prepare=ring, replaces=False, batches=True),
    Command("rotate", ["rotate", "f.seen"], prepare=ring, before=("b", "c"), replaces=False),
    Command("merge", ["merge", "-o", "o.seen", "f.seen", "g.seen"], prepare=two, target="o.seen",
            after=("a", "b"), again=["merge", "--force", "-o", "o.seen", "f.seen", "g.seen"]),
    Command("merge-into-input", ["merge", "--force", "-o", "f.seen", "f.seen", "g.seen"], prepare=two,
            before=("a",), after=("a", "b")),
    Command("shrink", ["shrink", "f.seen"], prepare=roomy, before=("a",), after=("a",)),
    Command("shrink-other", ["shrink", "-o", "o.seen", "f.seen"], prepare=roomy, target="o.seen",
            after=("a",), again=["shrink", "--force", "-o", "o.seen", "f.seen"]),
    Command("shrink-over", ["shrink", "--force", "-o", "o.seen", "f.seen"], prepare=roomy_and_other,
            target="o.seen", before=("b",), after=("a",)),
    Command("shrink-compact", ["shrink", "-p", "0.01", "-o", "o.seen", "f.seen"], prepare=compact,
            target="o.seen", after=("a",), takes_keys=False,
            again=["shrink", "--force", "-p", "0.01", "-o", "o.seen", "f.seen"]),
    _create("counted", "--counted", "-j2"),
    _replace("counted", "--counted", "-j1", prepare=counted),
    Command("add-counted", ["add", "-j1", "--batch-id", "1", "f.seen", "@b"], prepare=counted,
            before=("a",), after=("a", "b")),
    Command("add-counted-no-sync", ["add", "--no-sync", "--batch-id", "1", "f.seen", "@b"],
            prepare=counted, before=("a",), after=("a", "b")),
    Command("remove", ["remove", "-j1", "--batch-id", "1", "f.seen", "@b"], prepare=counted_both,
            before=("a",), after=("a",)),
    Command("subtract", ["merge", "--subtract", "-o", "o.seen", "f.seen", "g.seen"], prepare=counted_two,
            target="o.seen", after=("a",),
            again=["merge", "--subtract", "--force", "-o", "o.seen", "f.seen", "g.seen"]),
    Command("shrink-counted", ["shrink", "-p", "1e-4", "f.seen"], prepare=counted, before=("a",),
            after=("a",)),
    Command("create-compact-from", ["create", "--compact", "-p", "0.01", "--from", "f.seen", "o.seen"],
            prepare=counted, target="o.seen", after=("a",), takes_keys=False,
            again=["create", "--force", "--compact", "-p", "0.01", "--from", "f.seen", "o.seen"]),
    Command("create-from", ["create", "--from", "f.seen", "o.seen"], prepare=counted,
            target="o.seen", after=("a",), again=["create", "--force", "--from", "f.seen", "o.seen"]),
    Command("repair", ["verify", "--repair", "f.seen"], prepare=dirty, before=("a", "c"),
            replaces=False),
    Command("add-beside", ["add", "-j1", "f.seen", "@b"], prepare=fixed, before=("a",), after=("b",),
            replaces=False, batches=True, beside=True),
    Command("add-growing-beside", ["add", "-j1", "f.seen", "@b"], prepare=growing, before=("a",),
            after=("b",), replaces=False, batches=True, beside=True),
    Command("dedup-beside", ["dedup", "-j1", "f.seen", "@b"], prepare=fixed, before=("a",),
            after=("b",), replaces=False, prints="b", batches=True, beside=True),
    Command("rotate-beside", ["rotate", "f.seen"], prepare=ring, before=("b", "c"), replaces=False,
            beside=True),
    Command("replace-beside", ["create", "-j1", "--force", "-n", "5000", "f.seen", "@b"],
            prepare=fixed, before=("a",), after=("b",), beside=True, joins=False),
    Command("merge-into-input-beside", ["merge", "--force", "-o", "f.seen", "f.seen", "g.seen"],
            prepare=two, before=("a",), after=("a", "b"), beside=True),
    Command("shrink-beside", ["shrink", "f.seen"], prepare=roomy, before=("a",), after=("a",),
            beside=True),
    Command("shrink-other-beside", ["shrink", "-o", "o.seen", "f.seen"], prepare=roomy,
            target="o.seen", after=("a",), beside=True,
            again=["shrink", "--force", "-o", "o.seen", "f.seen"]),
]
