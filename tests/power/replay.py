#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tags: slow
"""Power cuts, replayed. Prints TAP.

    replay.py [SCENARIO]...

Each scenario runs seen on a directory under preload.so, which logs every change of every page, size
and name, and every sync. From the log, disks are made as a power cut may leave them: what was
synced is there; of what was not, each page, size and name is as it was at the last sync or at any
moment since, whatever the others are, and a page may be torn between sectors. On each such disk

    all keys that were acknowledged are found, and none that was never added, or the query says that
        pages do not match and so does verify;
    verify says ok or dirty, or that one copy of the header is damaged;
    verify --repair mends that, and the keys are there, or it refuses, because more than a tenth of the pages
        have changed and lost their marks: how often is printed;
    without a repair, keys can be added, or they are refused because the file is dirty.

Where a command was only killed, the next writer has made the file clean. Where a sync has failed, it is refused
until a repair.

    POWER_SEED=1        of what is chosen at random
    POWER_IMAGES=2      disks that are tried for a numbered scenario, at most (0: all; 6 with FULL=1);
                        eight times as many for the others. By default each is either repaired or
                        added to; if this or FULL is set, both
    POWER_RANDOM=20     random ones made at each point of interest
    POWER_KEEP=DIR      keep the disks that fail there
"""

import collections
import functools
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEEN = os.environ.get("SEEN", os.path.join(SOURCE, "build", "seen"))
PRELOAD = os.path.join(os.path.dirname(SEEN), "preload.so")
SEED = int(os.environ.get("POWER_SEED", "1"))
IMAGES = int(os.environ.get("POWER_IMAGES", "6" if os.environ.get("FULL") else "2"))
BOTH = "POWER_IMAGES" in os.environ or "FULL" in os.environ
RANDOM = int(os.environ.get("POWER_RANDOM", "20"))
KEEP = os.environ.get("POWER_KEEP")
PAGE, SECTOR = 4096, 512
HEAD = struct.Struct("=QQQQ")
F = "f.seen"
ABSENT = None
FOREIGN = ["foreign%d" % i for i in range(50)]
ZERO = bytes(PAGE)


def keys(name, n):
    return frozenset("%s.%d" % (name, i) for i in range(n))


# ---- The disk as the log has it


class File:
    """Pages and size: as they are (`now`), as they are on disk for certain (`synced`), and what
    they have been since then (`versions`; the last is as now). Units are page numbers and
    "size"."""

    def __init__(self):
        self.now, self.synced, self.versions = {}, {}, {}
        self.lost = set()  # written, but the sync failed: no later sync writes it

    def change(self, unit, value):
        if self.now.get(unit, ZERO if unit != "size" else 0) != value:
            self.now[unit] = value
            self.versions.setdefault(unit, []).append(value)
            self.lost.discard(unit)

    def sync(self, ok):
        if not ok:
            self.lost |= {unit for unit in self.versions if unit != "size"}
            return
        for unit in list(self.versions):
            if unit not in self.lost:
                self.synced[unit] = self.now[unit]
                del self.versions[unit]

    def content(self, pick):
        """The bytes, where pick(unit, versions) chooses for what was not synced."""
        def value(unit, default):
            old = self.synced.get(unit, default)
            versions = self.versions.get(unit)
            return old if versions is None else pick(unit, [old] + versions)
        size = value("size", 0)
        pages = {u for u in [*self.synced, *self.versions] if u != "size"}
        data = bytearray(size)
        for page in pages:
            at = page * PAGE
            if at < size:
                data[at:at + PAGE] = value(page, ZERO)[:size - at]
        return bytes(data)


class Disk:
    def __init__(self):
        self.files = {}    # by inode number, of those that are in use
        self.names = {}    # name -> File, as they are
        self.on_disk = {}  # the same, synced
        self.changes = []  # of names, since: [(name, File or None), ...] each

    def rename(self, listing):
        names = {}
        for line in listing.splitlines():
            ino, name = line.split(" ", 1)
            names[name] = self.files.setdefault(int(ino), File())
        change = [(name, names.get(name)) for name in sorted({*names, *self.names})
                  if names.get(name) is not self.names.get(name)]
        if change:
            self.changes.append(change)
        self.names = names

    def units(self):
        """All that was not synced: (File or None, unit, how many states it may be in)."""
        found = [(None, i, 2) for i in range(len(self.changes))]
        files = []
        for file in [*self.on_disk.values(), *(f for c in self.changes for _, f in c)]:
            if file is not None and file not in files:
                files.append(file)
                found += [(file, unit, 1 + len(v)) for unit, v in file.versions.items()]
        return found

    def image(self, state, tear=None):
        """The disk where each unit is in state[File or None, unit]. tear(versions) may choose
        another content for a page, made of sectors of its versions."""
        def picker(file):
            def pick(unit, versions):
                torn = tear(versions) if tear is not None and unit != "size" else None
                return versions[state[file, unit]] if torn is None else torn
            return pick
        names = dict(self.on_disk)
        for i, change in enumerate(self.changes):
            if state[None, i]:
                names.update(change)
        contents = {}
        for name, file in names.items():
            if file is not None:
                if file not in contents:
                    contents[file] = file.content(picker(file))
        return {n: contents[f] for n, f in sorted(names.items()) if f is not None}

    def images(self, chance):
        """Yields disks, and whether every page is torn in them."""
        def torn(versions, pick):
            return b"".join(pick(versions)[at:at + SECTOR] for at in range(0, PAGE, SECTOR))

        def tear(versions):
            return torn(versions, chance.choice) if chance.random() < 0.3 else None
        units = self.units()
        old = {(f, u): 0 for f, u, _ in units}
        new = {(f, u): n - 1 for f, u, n in units}
        yield self.image(old), False
        yield self.image(new), False
        if not units:
            return
        half = PAGE // 2
        yield self.image(new, lambda v: v[-1][:half] + v[0][half:]), True
        yield self.image(new, lambda v: v[0][:half] + v[-1][half:]), True
        for f, u, n in units:
            for s in range(n):
                yield self.image({**old, (f, u): s}), False
                yield self.image({**new, (f, u): s}), False
        for _ in range(RANDOM):
            state = {(f, u): chance.randrange(n) for f, u, n in units}
            yield self.image(state, tear), False


def records(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, ino, arg, length = HEAD.unpack_from(data, at)
        at += HEAD.size
        yield chr(kind), ino, arg, data[at:at + length]
        at += length


def disks(log, chance):
    """All disks that a power cut may leave, each with what it has to hold and when it was cut."""
    disk, need, printed, where = Disk(), None, False, "at the start"
    for kind, ino, arg, data in records(log):
        if kind in "FDM" and need is not None:
            for image, is_torn in disk.images(chance):
                yield image, need, where, is_torn
        if kind == "N":
            disk.files[ino] = File()
        elif kind in "ZPW":
            file = disk.files.setdefault(ino, File())
            if kind == "Z":
                file.change("size", arg)
            elif kind == "P":
                file.change(arg, data)
            else:
                file.lost.discard(arg)
        elif kind == "F":
            disk.files.setdefault(ino, File()).sync(arg)
        elif kind == "D":
            disk.on_disk, disk.changes = dict(disk.names), []
        elif kind == "L":
            disk.rename(data.decode())
        elif kind == "O" and printed:
            need = [n if n is ABSENT else n | set(data.decode().split()) for n in need]
        elif kind == "M":
            mark = json.loads(data)
            need = [n if n is ABSENT else frozenset(n) for n in mark["need"]]
            printed = mark["printed"]
            where = "in '%s'" % mark["what"]
        elif kind == "C":
            # What a kill would leave, at least: everything in order.
            new = {(f, u): n - 1 for f, u, n in disk.units()}
            yield disk.image(new), need, where, False
            where = "%s, before call %d (%s)" % (where.split(",")[0], arg, data.decode())
    for image, is_torn in disk.images(chance):
        yield image, need, where, is_torn


# ---- A recorded run


class Run:
    """A directory that commands change one after the other, while that is recorded."""

    def __init__(self, top):
        self.top, self.dir, self.log = top, os.path.join(top, "disk"), os.path.join(top, "log")
        os.mkdir(self.dir)
        self.need = [ABSENT]

    def mark(self, what, printed=False):
        need = [n if n is ABSENT else sorted(n) for n in self.need]
        data = json.dumps({"what": what, "need": need, "printed": printed}).encode()
        with open(self.log, "ab") as f:
            f.write(HEAD.pack(ord("M"), 0, 0, len(data)) + data)

    def before(self, *args, give=()):
        """Runs a command whose power cuts are not of interest: all that it makes is on disk."""
        subprocess.run([SEEN, *args], input="".join(k + "\n" for k in sorted(give)), text=True,
                       cwd=self.dir, check=True)

    def begin(self, need):
        """What is in the directory is on disk, and holds these keys."""
        with open(self.log, "wb") as log:
            def put(kind, ino, arg, data=b""):
                log.write(HEAD.pack(ord(kind), ino, arg, len(data)) + data)
            listing = ""
            for name in os.listdir(self.dir):
                with open(os.path.join(self.dir, name), "rb") as f:
                    ino, data = os.fstat(f.fileno()).st_ino, f.read()
                put("Z", ino, len(data))
                for at in range(0, len(data), PAGE):
                    put("P", ino, at // PAGE, data[at:at + PAGE].ljust(PAGE, b"\0"))
                listing += "%d %s\n" % (ino, name)
                put("F", ino, 1)
            put("L", 0, 0, listing.encode())
            put("D", 0, 1)
        self.need = [need]
        self.mark("the beginning")

    def environment(self):
        return {**os.environ, "LD_PRELOAD": PRELOAD, "RECORD_DIR": self.dir, "RECORD_LOG": self.log}

    def seen(self, *args, give=None, during=None, after=None, status=(0,), kill=0, fail=0,
             printed=False):
        """Runs a command in the directory. `during`, `after`: what the disk has to hold meanwhile
        and once it has succeeded, as a list of sets of keys, one of which has to be there."""
        env = self.environment()
        if kill:
            env["INJECT"] = "change:%d:kill" % kill
        if fail:
            env["INJECT"] = "sync:%d:EIO" % fail
        if during is not None:
            self.need = during
        self.mark("seen " + " ".join(args), printed)
        text = None if give is None else "".join(k + "\n" for k in sorted(give))
        done = subprocess.run([SEEN, *args], input=text, cwd=self.dir, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode not in status:
            raise RuntimeError("seen %s: %d: %s" % (" ".join(args), done.returncode, done.stderr))
        if printed:
            self.need = [n if n is ABSENT else n | set(done.stdout.split()) for n in self.need]
        if done.returncode == 0 and after is not None:
            self.need = after
        self.mark("after seen " + " ".join(args))
        return done

    def writer(self, *args):
        """Begins a dedup that stays in its session. It is fed through .feed()."""
        return Writer(self, args)

    def add(self, new, *args, **more):
        """Adds keys to F; once that has succeeded they have to be there."""
        need = self.need[0]
        return self.seen("add", "-j1", *args, F, give=new, after=[need | new], **more)


class Writer:
    """A dedup that others run beside."""

    def __init__(self, run, args):
        self.run = run
        self.process = subprocess.Popen(
            [SEEN, "dedup", "-j1", *args, F], cwd=run.dir, env=run.environment(), text=True,
            bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def feed(self, new):
        """Returns when the keys have been added."""
        for key in sorted(new):
            self.process.stdin.write(key + "\n")
            if self.process.stdout.readline() != key + "\n":
                raise RuntimeError("dedup did not print what was new")

    def end(self, new):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise RuntimeError("dedup failed")
        self.process.stdout.close()
        self.run.need = [self.run.need[0] | new]
        self.run.mark("after seen dedup")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


# ---- What is done to each disk


here = threading.local()  # .dir: where this thread's commands run
here_lock = threading.Lock()


class Wrong(Exception):
    pass


def seen(*args, give=(), want=(0,)):
    done = subprocess.run([SEEN, *args], input="".join(k + "\n" for k in give), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          cwd=here.dir)
    if done.returncode not in want:
        raise Wrong("%s: exit status %d: %s" % (" ".join(args), done.returncode,
                                                done.stderr.strip()))
    return done


IS_DIRTY = " is dirty since a crash of the machine or a failed sync"


def is_dirty(done):
    return done.returncode == 2 and IS_DIRTY in done.stderr


def is_refused(done):
    """Does a page that was being written look damaged?"""
    return done.returncode == 2 and " does not match its checksum" in done.stderr


def check_verify(want=(0, 2)):
    done = seen("verify", F, want=want)
    for line in done.stderr.splitlines():
        if IS_DIRTY not in line and "one of the two copies of the header" not in line:
            raise Wrong("verify: " + line)


def found(asked):
    """None: it is refused."""
    done = seen("query", F, give=sorted(asked), want=(0, 1, 2))
    if is_refused(done):
        check_verify(want=(2,))
        return None
    if done.returncode == 2:
        raise Wrong("query: " + done.stderr.strip())
    return set(done.stdout.split())


def check_holds(need, more=(), repaired=False, filled=False):
    """One of the sets has to be there, and `more`. filled: so may be others."""
    sets = [n for n in need if n is not ABSENT]
    have = found({*FOREIGN, *more, *(k for n in sets for k in n)})
    if have is None:
        if repaired:
            raise Wrong("a query is refused after the repair")
        return
    if have & set(FOREIGN) and not filled:
        raise Wrong("%d keys are found that were never added" % len(have & set(FOREIGN)))
    missing = min(len((n | set(more)) - have) for n in sets)
    if missing > 0:
        raise Wrong("%d acknowledged keys are lost" % missing)


# Repairs: of a file that was clean or left, those of a dirty one, whose pages match, and those that fill pages
# or refuse, because a page had changed and its mark was lost.
REPAIRS = collections.Counter()


def check_repaired(need, more=()):
    done = seen("verify", "--repair", F, want=(0, 2))
    filled = " damaged; every key of such a page is now reported present" in done.stdout
    if done.returncode == 2:
        if " which is too much to repair: make it again" not in done.stderr:
            raise Wrong("repair: " + done.stderr.strip())
        check_verify(want=(2,))
        check_holds(need)
    else:
        seen("verify", F)
        check_holds(need, more, repaired=True, filled=filled)
    what = "refused" if done.returncode == 2 else "filled" if filled else "whole"
    with here_lock:
        REPAIRS[what] += 1


def check_image(image, need, repair, add):
    path = here.dir

    def lay_out():
        for name in os.listdir(path):
            os.unlink(os.path.join(path, name))
        for name, data in image.items():
            with open(os.path.join(path, name), "wb") as f:
                f.write(data)
    lay_out()
    if F not in image:
        if ABSENT not in need:
            raise Wrong("the file is not there")
        seen("create", "-n", "1000", F, give=["a"])
        rest = [n for n in os.listdir(path) if n.endswith(".seen-tmp")]
        if rest:
            raise Wrong("temporary files stay: " + " ".join(rest))
        return
    if all(n is ABSENT for n in need):
        raise Wrong("the file is there before its keys are")
    if repair:
        check_holds(need)
        check_verify()
        check_repaired(need)
    if not add:
        return
    lay_out()
    more = ["more.%d" % i for i in range(30)]
    added = seen("add", "-j1", F, give=more, want=(0, 2))
    if is_dirty(added):
        more = []
    elif added.returncode != 0:
        raise Wrong("add: " + added.stderr.strip())
    check_holds(need, more)
    check_verify()
    check_repaired(need, more)


# ---- Scenarios


def sized(run, n=200, room=2000):
    old = keys("old", n)
    run.before("create", "--reproducible", "-n", str(room), "-p", "1e-6", F, give=old)
    run.begin(old)
    return old


def create(run):
    """create, to which keys are then added"""
    old = keys("old", 300)
    run.seen("create", "-n", "2000", "-p", "1e-6", F, give=old, during=[ABSENT, old], after=[old])
    run.add(keys("new", 100))


def create_force(run):
    """create --force, over another filter"""
    old, new = sized(run), keys("new", 300)
    run.seen("create", "--force", "-p", "1e-6", F, give=new, during=[old, new], after=[new])


def add(run):
    """add to a filter of a fixed size, twice"""
    sized(run)
    run.add(keys("new", 200))
    run.add(keys("newer", 200))


def growing(run):
    old = keys("old", 100)
    run.before("create", "--reproducible", "--grow", "-n", "300", "-p", "1e-6", F, give=old)
    run.begin(old)


def grow(run):
    """add to a growing filter, which gets two layers more"""
    growing(run)
    run.add(keys("new", 500))
    run.add(keys("newer", 700))


def ringed(run):
    old = keys("old", 100)
    run.before("create", "--reproducible", "--generations", "2", "-n", "1000", "-p", "1e-6", F,
               give=old)
    run.begin(old)


def ring(run):
    """add to a ring, rotate it, add; the third rotation drops the oldest keys"""
    ringed(run)
    run.add(keys("new", 100))
    run.seen("rotate", F)
    run.add(keys("newer", 100))
    run.seen("rotate", F)
    kept = keys("newer", 100)
    run.seen("rotate", F, during=[kept], after=[kept])
    run.add(keys("newest", 100))


def dedup(run):
    """dedup --create --sync-every 1: what was printed is on disk, in whatever pieces input comes"""
    given = keys("new", 900)
    run.seen("dedup", "--create", "-n", "900", "-p", "1e-6", "--sync-every", "1", "-j1", F,
             give=given, during=[ABSENT, frozenset()], printed=True, after=[given])


def refit(run):
    """dedup --create of a filter that grows, which gets the size of its keys in the end"""
    given = keys("new", 900)
    run.seen("dedup", "--create", "-p", "0.1", "-j1", F, give=given,
             during=[ABSENT, frozenset()], after=[given])
    run.add(keys("newer", 200))


def merge(run):
    """merge --force -o one of the inputs"""
    new = keys("new", 200)
    run.before("create", "-n", "2000", "-p", "1e-6", "other.seen", give=new)
    old = sized(run)
    run.seen("merge", "--force", "-o", F, F, "other.seen", during=[old, old | new],
             after=[old | new])


def shrink(run):
    """shrink in place"""
    old = sized(run, room=8000)
    run.seen("shrink", F, during=[old], after=[old])
    run.add(keys("new", 100))


def beside(run):
    """two writers at once: the one that leaves first, and the last one out"""
    sized(run)
    stays = run.writer()
    stays.feed(keys("stays", 20))
    run.add(keys("leaves", 100))
    stays.feed(keys("still", 20))
    stays.end(keys("stays", 20) | keys("still", 20))
    run.add(keys("new", 100))


def beside_killed(run):
    """a writer is killed beside another, which then leaves"""
    sized(run)
    killed, stays = run.writer(), run.writer()
    killed.feed(keys("killed", 20))
    stays.feed(keys("stays", 20))
    killed.kill()
    run.add(keys("new", 100))
    stays.end(keys("stays", 20))


def beside_growth(run):
    """a filter grows beside a writer"""
    growing(run)
    stays = run.writer()
    stays.feed(keys("stays", 5))
    run.add(keys("leaves", 400))
    stays.feed(keys("still", 5))
    stays.end(keys("stays", 5) | keys("still", 5))


def no_sync(run):
    """add --no-sync twice after keys that were synced, and then add"""
    old = sized(run)
    for name in "ab":
        run.seen("add", "-j1", "--no-sync", F, give=keys(name, 100))
    assert run.need == [old]
    run.add(keys("new", 100))


def no_sync_grow(run):
    """growth under --no-sync, and then add"""
    growing(run)
    run.seen("add", "-j1", "--no-sync", F, give=keys("a", 400))
    run.add(keys("new", 100))


def no_sync_beside(run):
    """add --no-sync is the last one out, after one that has synced"""
    sized(run)
    stays = run.writer("--no-sync")
    stays.feed(keys("stays", 20))
    run.add(keys("leaves", 100))
    stays.end(frozenset())


# Those in which a command is killed before its nth call, or its nth sync fails.


def check_clean(run):
    """A kill leaves nothing that the next writer does not put in order."""
    done = run.seen("verify", F)
    if done.stdout != F + ": ok\n":
        raise RuntimeError("after a kill: " + done.stdout)


def killed(run, n):
    """add is killed, and its file repaired"""
    sized(run)
    run.add(keys("lost", 100), kill=n, status=(0, -9))
    run.seen("verify", "--repair", F)
    check_clean(run)
    run.add(keys("new", 100))


def two_writers(run, n):
    """add is killed, and another begins where it was"""
    sized(run)
    run.add(keys("lost", 100), kill=n, status=(0, -9))
    run.add(keys("new", 100))
    check_clean(run)


def killed_growth(run, n):
    """add is killed while the filter grows, and another begins there"""
    growing(run)
    run.add(keys("lost", 300), kill=n, status=(0, -9))
    run.add(keys("new", 300))
    check_clean(run)


def killed_rotation(run, n):
    """rotate is killed, and add begins there"""
    ringed(run)
    run.seen("rotate", F, kill=n, status=(0, -9))
    run.add(keys("new", 100))
    check_clean(run)


def after_failure(run, new):
    """Adds keys, after a sync may have failed: if one has, the file is dirty until a repair."""
    done = run.add(new, status=(0, 2))
    if done.returncode == 0:
        return
    if not is_dirty(done):
        raise RuntimeError("add: " + done.stderr)
    run.seen("verify", "--repair", F)
    check_clean(run)
    run.add(new)


def failed_sync(run, n):
    """a sync fails, and another add follows"""
    sized(run)
    run.add(keys("lost", 100), fail=n, status=(0, 2))
    after_failure(run, keys("new", 100))


def failed_growth(run, n):
    """a sync fails while the filter grows, and another add follows"""
    growing(run)
    run.add(keys("lost", 300), fail=n, status=(0, 2))
    after_failure(run, keys("new", 300))


def failed_again(run, n):
    """a sync fails while the filter grows, and the same keys are added again"""
    growing(run)
    run.add(keys("again", 300), fail=n, status=(0, 2))
    after_failure(run, keys("again", 300))
    run.seen("verify", "--repair", F)
    run.add(keys("again", 300))


def failed_beside(run, n):
    """a sync fails beside another writer, which is then killed, and add follows"""
    sized(run)
    stays = run.writer()
    stays.feed(keys("stays", 20))
    run.add(keys("lost", 100), fail=n, status=(0, 2))
    stays.kill()
    after_failure(run, keys("new", 100))


def failed_rotation(run, n):
    """a sync fails in a rotation, and add follows"""
    ringed(run)
    run.seen("rotate", F, fail=n, status=(0, 2))
    after_failure(run, keys("new", 100))


def failed_repair(run, n):
    """a sync fails in a repair, and add follows"""
    sized(run)
    run.add(keys("lost", 100), kill=9, status=(-9,))
    run.seen("verify", "--repair", F, fail=n, status=(0, 2))
    after_failure(run, keys("new", 100))


def repair(run):
    """a file that is dirty after a failed sync is repaired"""
    old = sized(run)
    run.add(keys("lost", 100), fail=3, status=(2,))
    run.seen("add", "-j1", F, give=keys("new", 100), status=(2,))
    run.seen("verify", "--repair", F, during=[old])
    check_clean(run)
    run.add(keys("new", 100))


SCENARIOS = {
    "create": create, "create-force": create_force, "add": add, "grow": grow, "ring": ring,
    "dedup": dedup, "refit": refit, "merge": merge, "shrink": shrink, "beside": beside,
    "beside-killed": beside_killed, "beside-growth": beside_growth, "no-sync": no_sync,
    "no-sync-grow": no_sync_grow, "no-sync-beside": no_sync_beside, "repair": repair,
}
# How far the numbers go: as far as there are calls, or a little further.
NUMBERED = {
    "killed": (killed, 20), "two-writers": (two_writers, 20), "killed-growth": (killed_growth, 40),
    "killed-rotation": (killed_rotation, 24), "failed-sync": (failed_sync, 6),
    "failed-growth": (failed_growth, 10), "failed-again": (failed_again, 10), "failed-beside": (failed_beside, 3),
    "failed-rotation": (failed_rotation, 8), "failed-repair": (failed_repair, 6),
}
for title, (what, last) in NUMBERED.items():
    for number in range(1, last + 1):
        SCENARIOS["%s-%d" % (title, number)] = functools.partial(what, n=number)


# ---- All of it


def identity(image, need):
    text = repr([(n, hashlib.sha256(d).digest()) for n, d in image.items()]) + repr(
        [n if n is ABSENT else sorted(n) for n in need])
    return hashlib.sha256(text.encode()).digest()


class Sample:
    """At most `room` of what is put in, each with the same chance."""

    def __init__(self, room, chance):
        self.room, self.chance, self.kept, self.n = room, chance, [], 0

    def put(self, what):
        self.n += 1
        if self.room == 0 or len(self.kept) < self.room:
            self.kept.append(what)
        elif self.chance.random() < self.room / self.n:
            self.kept[self.chance.randrange(self.room)] = what


def chosen(log, room, chance):
    """The disks to be tried: each once, and no more than `room`, half of them torn."""
    known = set()
    torn, others = (Sample((room + 1) // 2, chance) for _ in range(2))
    for image, need, where, is_torn in disks(log, chance):
        key = identity(image, need)
        if key not in known:
            known.add(key)
            (torn if is_torn else others).put((image, need, where))
    return torn.kept + others.kept, torn.n + others.n


def attempt(job):
    top, (image, need, where), number = job
    path = here.dir = tempfile.mkdtemp(dir=top)
    try:
        check_image(image, need, BOTH or number % 2 == 0, BOTH or number % 2 == 1)
        return None
    except Wrong as wrong:
        if KEEP:
            keep = tempfile.mkdtemp(dir=KEEP, prefix="disk.")
            for name, data in image.items():
                with open(os.path.join(keep, name), "wb") as f:
                    f.write(data)
            where += " [%s]" % keep
        return "%s: %s" % (where, wrong)
    finally:
        shutil.rmtree(path)


def play(name, pool):
    """Returns the numbers of disks that were wrong, were tried, and there are."""
    top, chance = tempfile.mkdtemp(), random.Random("%d %s" % (SEED, name))
    try:
        run = Run(top)
        SCENARIOS[name](run)
        room = IMAGES if name[-1].isdigit() else 8 * IMAGES
        chosen_disks, n = chosen(run.log, room, chance)
        jobs = [(top, disk, i) for i, disk in enumerate(chosen_disks)]
        wrong = [w for w in pool.map(attempt, jobs) if w is not None]
    finally:
        shutil.rmtree(top)
    for line in wrong[:3]:
        print("# %s: %s" % (name, line.replace("\n", " / ")))
    return len(wrong), len(jobs), n


def main():
    names = sys.argv[1:] or list(SCENARIOS)
    for variable in ("LC_ALL", "LANG"):
        os.environ[variable] = "C.UTF-8"
    if KEEP:
        os.makedirs(KEEP, exist_ok=True)
    print("# seed %d" % SEED)
    # The numbered ones of a kind are one test.
    tests = {}
    for name in names:
        tests.setdefault(name.rstrip("-0123456789"), []).append(name)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for i, (title, scenarios) in enumerate(tests.items()):
            wrong = tried = made = 0
            for name in scenarios:
                n_wrong, n_tried, n_made = play(name, pool)
                wrong, tried, made = wrong + n_wrong, tried + n_tried, made + n_made
            print("# %s: %d disks of %d; repairs: %d whole, %d filled, %d refused" % (
                title, tried, made, *(REPAIRS[what] for what in ("whole", "filled", "refused"))))
            REPAIRS.clear()
            print("%sok %d - power cut: %s" % ("not " if wrong else "", i + 1, title), flush=True)
    print("1..%d" % len(tests))


main()
