#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tags: slow
"""The session protocol (src/file/session.h) as a model, of which every state is visited. Prints TAP.

    model.py            the protocol holds, and does not without any one of its steps
    model.py --long     the same, with more processes: some minutes
    model.py STEP       show how it fails without this step

A few processes run the protocol on one file: writers, readers, `verify --repair`, and one that copies the file
and puts the copy in its place later. Each step is a system call or a change of the shared mapping. They
interleave in every order that the locks allow; at any point one may be killed, a sync may fail, the data, the
marks or the session page may be damaged, and the power may be cut. What was written and not synced is then on
disk or not, each part for itself, and a header slot may be torn. In every state:

    held     keys that were acknowledged are in the file, now and after a power cut;
    header   one of the two header slots is valid, now and after a power cut;
    clean    a file that is marked clean has checksums that match its data, counters that do, an empty touched
             bitmap and an empty session page, now and after a power cut;
    dirty    nobody marks the file dirty unless a sync failed, the power was cut, it is damaged or a copy;
    damage   no process finds a page damaged, unless it is or the power was cut; nobody says that a key is
             absent that is not, or ends well after that; damage of a page whose checksum is up to date is
             seen by all who come, and accepted by nobody; the repair sets all bits of such a page, and of no other
             unless a sync failed or the file is a copy;
    stuck    the file is clean on disk when all who came have ended well, unless a sync failed or the
             power was cut before, or somebody was killed after whom nobody ended well; after a
             repair it is so in any case.

The file is of one page of data. Its parts are those that the program writes one by one:

    A, B     the header slots: Header, or TORN
    session  the session page: None if it is zero, else Page: keys counted, the number of the turn (odd: a writer
             is in it), whether checksums are stale, whether a sync has failed, and when the machine was started
    data     the set of keys in it
    sums     the set of keys for which the checksum was made
    touched  the bit of the page in the bitmap

The processes are generators that yield operations. No value is kept from one operation to the next
but in their variables (see Model.run). The names of steps are those that can be left out.
MODEL_STATES=500000: for each set of processes, that many states are visited at most. Without FULL=1 and --long it is
20,000 where the protocol holds.

Not in the model: a sync that fails and the note of it are one step; a writer that is killed between them leaves
no note. A reader that relies on a page that it has checked finds out in one step with what it reads of it that
nobody has written since. A reader that meets the beginning of a session, two turns and the end of the session, all
while it looks at one page, may call that page damaged.
"""

import collections
import functools
import gc
import itertools
import os
import sys

PARTS = A, B, SESSION, DATA, SUMS, TOUCHED = range(6)
TORN = "torn"
CLEAN, WRITING, DIRTY = "clean", "writing", "dirty"
Header = collections.namedtuple("Header", "epoch state n")
Page = collections.namedtuple("Page", "n turn stale failed place")
ZERO = Page(0, 0, False, False, 0)
GARBAGE = Page(7, 7, True, True, 7)
LIMIT = int(os.environ.get("MODEL_STATES", "500000"))


# ---- The protocol


class Failed(Exception):
    """A call of this process has failed; it ends with an error."""


class Process:
    """What a process knows. `without`: the steps that it leaves out."""

    def __init__(self, without):
        self.without = without
        self.forget()

    def forget(self):
        """As it opens the file."""
        self.header = self.n = self.file = None
        self.epoch_on_disk = 0  # of the last header that it has synced
        self.checked = False    # the page was found sound
        self.times = None       # of the file, when the header was read
        self.settled = True     # no writer was at its end then

    at_work = None  # the name of the set of processes that are at work

    def does(self, step):
        STEPS.setdefault(step, set()).add(Process.at_work)
        return step not in self.without

    def __repr__(self):
        return repr((self.header, self.n, self.file, self.epoch_on_disk, self.checked, self.times, self.settled))


STEPS = {}  # all names, in the order in which they come, with the sets of processes that do the step


def newest(a, b):
    """The header that counts."""
    return max((h for h in (a, b) if h != TORN), default=None)


def slot(epoch):
    return A if epoch % 2 == 0 else B


def lock(p):
    """Whoever finds that the file was replaced goes on with the new one, which a repair has made."""
    file = yield "lock",
    if p.file is not None and file != p.file:
        p.forget()
    p.file = file


def reload_header(p):
    before = p.header
    a = yield "read", A
    b = yield "read", B
    p.header = newest(a, b)
    if before is None or p.header.epoch != before.epoch:
        p.checked = False


def sync(p):
    if not (yield "sync", p.does("note that a sync has failed")):
        raise Failed


def sync_header(p):
    """The header that was read may not be on disk: its writer may have been killed before the sync,
    or that may have failed, and then the kernel would not write it again."""
    at = slot(p.header.epoch)
    if (yield "read", at) != p.header or p.does("write the header again"):
        yield "write", at, p.header
    yield from sync(p)
    p.epoch_on_disk = p.header.epoch


def publish(p, state, n, synced=True):
    """Writes the next header into the slot that holds the last but one."""
    if p.does("sync a header before the next is written"):
        if p.epoch_on_disk != p.header.epoch:
            yield from sync_header(p)
    p.header = Header(p.header.epoch + 1, state, n)
    yield "write", slot(p.header.epoch), p.header
    if synced:
        yield from sync(p)
        p.epoch_on_disk = p.header.epoch


def session_page(p):
    return (yield "read", SESSION) or ZERO


def load_counters(p):
    page = yield from session_page(p)
    p.n = page.n
    if page.turn % 2 and p.does("count the keys after a turn that was cut off"):
        p.n = len((yield "read", DATA))


def close(p, state, synced):
    """Ends the session of all writers."""
    if state == CLEAN or not p.does("keep the note of a failed sync until the file is dirty"):
        if p.does("empty the session page"):
            yield "write", SESSION, None
    if p.does("sync before the mark clean") and (
            synced or p.does("sync before the mark clean even if not asked to")):
        yield from sync_header(p)
    yield from publish(p, state, p.n, False)
    if synced and p.does("sync the mark clean"):
        yield from sync(p)
        p.epoch_on_disk = p.header.epoch


def renew(p):
    """Renews the checksum of the page."""
    if p.does("renew the checksums"):
        yield "write", SUMS, (yield "read", DATA)


def clear_marks(p):
    if (yield "read", TOUCHED) and p.does("empty the touched bitmap"):
        yield "write", TOUCHED, False


def clear_synced_marks(p):
    """Once the checksums are on disk."""
    page = yield from session_page(p)
    if (yield "read", TOUCHED) and not page.failed and p.does("sync before marks are cleared"):
        yield from sync(p)
    yield from clear_marks(p)


def recover_if_left(p):
    """Ends the session of writers that are all dead. Returns whether others are alive."""
    others = yield "others",
    if not p.does("look for living writers"):
        others = False
    if others or p.header.state != WRITING or not p.does("end the session of dead writers"):
        return others
    page = yield from session_page(p)
    failed = page.failed and p.does("call a file dirty if a sync failed in a session of dead writers")
    p.n = len((yield "read", DATA))
    touched = yield "read", TOUCHED
    stale = page.turn % 2 or page.stale
    if page.place != (yield "here",) or not p.does("excuse pages that are not stale only after a crash"):
        stale = True
    if (touched and stale) or not p.does("seal no other pages"):
        yield from renew(p)
    yield from clear_synced_marks(p)
    keys = yield "read", DATA
    sums = yield "read", SUMS
    dirty = failed or (keys != sums and p.does("call a file dirty whose pages differ"))
    yield from close(p, DIRTY if dirty else CLEAN, True)
    return False


def check_not_dirty(p):
    page = yield from session_page(p)
    if p.header.state == DIRTY and p.does("refuse a dirty file"):
        raise Failed
    if p.header.state == WRITING and page.failed and p.does("refuse a file in which a sync has failed"):
        raise Failed


def clear_leavings(p):
    """In a clean file marks and session page mean nothing, and may be damaged."""
    if p.does("empty the touched bitmap to begin"):
        yield from clear_marks(p)
    if p.does("empty the session page to begin"):
        yield "write", SESSION, None


def start(p):
    p.n = p.header.n
    early = p.does("empty both before the file is marked")
    if early:
        yield from clear_leavings(p)
    if not p.does("fill the session page after the mark is on disk"):
        yield "note", {"n": p.n, "turn": 2, "place": (yield "here",)}
    if p.does("write the mark"):
        yield from publish(p, WRITING, p.n, p.does("sync the mark"))
    if not early:
        yield from clear_leavings(p)
    if p.does("fill the session page"):
        yield "note", {"n": p.n, "turn": 2, "place": (yield "here",)}


def enter(p):
    if p.does("share the session byte"):
        yield "share",
    yield from reload_header(p)
    others = yield from recover_if_left(p)
    yield from check_not_dirty(p)
    if others:
        yield from load_counters(p)
    else:
        yield from start(p)


def begin(p):
    if p.does("lock the file to begin"):
        yield from lock(p)
    yield from enter(p)
    yield "unlock",


def begin_turn(p):
    page = yield from session_page(p)
    if page.turn % 2 and p.does("say that checksums are stale after a turn that was cut off"):
        yield "note", {"stale": True}
    if p.does("mark the turn"):
        yield "note", {"turn": page.turn | 1}


def end_turn(p, renewed, many):
    """renewed: it has changed the page."""
    page = yield from session_page(p)
    if many:
        if p.does("say that checksums are stale after a turn of many pages"):
            yield "note", {"stale": True}
    elif renewed and not page.stale and p.does("renew few checksums at the end of the turn"):
        yield from renew(p)
    if p.does("store the counters"):
        yield "note", {"n": p.n}
    yield "note", {"turn": (page.turn | 1) + 1}
    yield "unlock",


def damaged(p):
    p.checked = False
    yield "damage",
    raise Failed


def find(p, key):
    """Looks for a key, on a page that is checked if it was not before. In the own turn, a page that is
    marked cannot be checked."""
    keys = yield "read", DATA
    if not p.checked and not (yield "read", TOUCHED) and keys != (yield "read", SUMS):
        yield from damaged(p)
    p.checked = True
    return key in keys


def touch(p, many):
    keys = yield "read", DATA
    sums = yield "read", SUMS
    touched = yield "read", TOUCHED
    page = yield from session_page(p)
    if keys != sums and not many and not page.stale and touched:
        if p.does("check a marked page before it is changed"):
            yield from damaged(p)
    if not touched:
        if keys != sums and p.does("check a page before it is touched"):
            yield from damaged(p)
        if p.does("mark pages as touched"):
            yield "write", TOUCHED, True
            if p.does("sync marks before pages are changed"):
                yield from sync(p)


def change(p, key, many, older):
    """Returns whether the key was new, and whether the page was changed."""
    if not many and (yield from find(p, key)):
        return False, False
    if older:
        return True, False
    yield from touch(p, many)
    keys = yield "read", DATA
    yield "write", DATA, keys | {key}
    if key not in keys:
        p.n += 1
    return key not in keys, True


def turn(p, key, many, syncs, older):
    """Adds a key. Returns whether it was new. `many`: as a turn does that changes many pages. `syncs`: on the
    way, as growth does. `older`: the page is of an older layer, which takes no keys."""
    if p.does("lock the file for a turn"):
        yield from lock(p)
    yield from reload_header(p)
    yield from check_not_dirty(p)
    yield from load_counters(p)
    yield from begin_turn(p)
    renewed, ok = False, True
    try:
        new, renewed = yield from change(p, key, many, older)
        if syncs:
            yield from sync(p)
    except Failed:
        ok = False
    yield from end_turn(p, renewed, many)
    if not ok:
        raise Failed
    return new


def is_last(p):
    yield from reload_header(p)
    yield from load_counters(p)
    return (yield "alone",) or not p.does("see that nobody else is at work")


def check_used(p):
    """Is the page still sound that this writer has relied on?"""
    page = yield from session_page(p)
    if not p.checked or ((yield "read", TOUCHED) and (page.turn % 2 or page.stale)):
        return True
    keys = yield "read", DATA
    sums = yield "read", SUMS
    return keys == sums or not p.does("check at the end what was relied on")


def end_session(p, synced):
    page = yield from session_page(p)
    touched = yield "read", TOUCHED
    stale = page.turn % 2 or page.stale
    if (touched and stale) or not p.does("seal no pages but those that are stale"):
        yield from renew(p)
    yield from clear_synced_marks(p)
    page = yield from session_page(p)
    if page.failed and p.does("call a file dirty if a sync has failed"):
        yield from close(p, DIRTY, True)
        raise Failed
    yield from close(p, CLEAN, synced)


def leave(p, synced):
    ok = aside = syncs = False
    if synced and p.does("sync although others go on"):
        syncs = True
        if (yield "others",):
            # They need not wait for it. The session byte is held until it is done.
            aside = True
    try:
        try:
            if aside:
                yield from sync(p)
            ok = True
        except Failed:
            pass
        if p.does("lock the file to end"):
            yield from lock(p)
        last = yield from is_last(p)
        ok = (yield from check_used(p)) and ok
        if last:
            yield from end_session(p, synced)
        elif syncs and not aside:
            yield from sync(p)
    except Failed:
        ok = False
    yield "leave",
    return ok


def writer(without, key, synced=True, syncs=False, many=False, older=False, turns=1):
    """add, or dedup: a session with a turn for this key and more for others, or with none if there is no key."""
    p, ok, new = Process(without), True, False
    try:
        yield from begin(p)
    except Failed:
        return
    try:
        for i in range(turns if key is not None else 0):
            another = key if i == 0 or older else "%s %d" % (key, i)
            new = (yield from turn(p, another, many, syncs, older)) or new
    except Failed:
        ok = False
    yield "unlock",
    if (yield from leave(p, synced)) and ok:
        yield "ended", key, synced, new


def repair(without):
    """verify --repair, as a writer without keys if there is something to do. Other writers may be at work."""
    p, ok = Process(without), False
    a = yield "read", A
    b = yield "read", B
    p.header = newest(a, b)
    if p.header.state != CLEAN or TORN in (a, b):
        try:
            yield from begin(p)
            ok = yield from leave(p, True)
        except Failed:
            yield "leave",
    was_last = ok and p.header.state == CLEAN
    yield from lock(p)
    yield from reload_header(p)
    keys = yield "read", DATA
    differs = keys != (yield "read", SUMS)
    if p.header.state == DIRTY or (p.header.state == CLEAN and differs):
        filled = differs and p.does("set all bits of pages that do not match")
        if p.does("make a new file to repair one"):
            yield "replace", Header(1, CLEAN, len(keys)), keys, filled
        else:
            yield "write", SUMS, keys
            yield from publish(p, CLEAN, len(keys))
            yield from publish(p, CLEAN, len(keys))
        yield "repaired",
    elif was_last:
        yield "repaired",


# ---- Readers


def open_file(p):
    """The header, and the times that belong to it."""
    before = p.header
    p.header, p.times, p.settled = yield "open",
    if before is None or p.header.epoch != before.epoch:
        if p.does("forget what was checked in another epoch"):
            p.checked = False


def refresh(p):
    epoch, _ = yield "look",
    if epoch > p.header.epoch or not p.settled:
        if not p.settled and p.does("forget what was checked while a writer was at its end"):
            p.checked = False
        yield from open_file(p)


def is_excused(p):
    """May the page differ from its checksum?"""
    if not p.does("look whether the page is marked"):
        return False
    late = p.does("look at the mark last")
    touched = False if late else (yield "read", TOUCHED)
    epoch, page = yield "look",
    if late:
        touched = yield "read", TOUCHED
    in_session = p.header.state != CLEAN or epoch > p.header.epoch
    stale = page.turn % 2 or page.stale or not p.does("excuse marked pages only if they may be stale")
    return touched and stale and (in_session or not p.does("excuse no page of a clean file"))


def check_page(p, epoch, page):
    """Returns the page, and whether it was found sound; fails if it is damaged."""
    while True:
        for _ in range(2 if p.does("look at a page again") else 1):
            keys = yield "read", DATA
            if keys == (yield "read", SUMS):
                return keys, True
            if (yield from is_excused(p)):
                return keys, False
        before, turn = epoch, page.turn
        epoch, page = yield "look",
        if (epoch == before or not p.does("look twice in one epoch")) and (
                page.turn == turn or not p.does("look twice in one turn")):
            yield from damaged(p)


def ask(p):
    """Returns the page that is answered from."""
    epoch, page, times, keys = yield "rely",
    trusted = p.header.state == CLEAN and epoch == p.header.epoch
    if not p.does("check each time while writers are at work"):
        trusted = True
    if trusted and p.checked:
        if epoch == p.header.epoch and times != p.times and p.does("look at the times of the file"):
            raise Failed
        return keys
    keys, sound = yield from check_page(p, epoch, page)
    p.checked = sound and trusted
    return keys


def reader(without, asks=1, late=False):
    """query, of the key `old`, again and again. `late`: it begins in a session of writers."""
    p = Process(without)
    if late:
        yield "await session",
    try:
        yield from open_file(p)
        for i in range(asks):
            if i > 0:
                yield from refresh(p)
            yield "answer", (yield from ask(p))
    except Failed:
        pass


def copier(_):
    """cp of the file, and back when nobody uses it."""
    parts = {}
    yield "copy",
    for part in (A, B, SESSION, SUMS, TOUCHED, DATA):
        parts[part] = yield "read", part
    if newest(parts[A], parts[B]).state != CLEAN:  # else what does not match is damage
        yield "restore", tuple(parts[part] for part in PARTS)


# ---- The machine


class Part(collections.namedtuple("Part", "now disk lost")):
    """What a part is, what it may be on disk, and whether a sync that failed has made the kernel
    believe that it is there."""

    def write(self, value, tears):
        disk = self.disk | {value}
        if tears and len(disk) > 1:
            disk |= {TORN}
        return Part(value, disk, False)

    def sync(self):
        return self if self.lost else Part(self.now, frozenset({self.now}), False)

    def fail(self):
        return self._replace(lost=self.lost or len(self.disk) > 1)


def settled(value):
    return Part(value, frozenset({value}), False)


# state of a process
WAITS, RUNS, ENDED, DEAD = "waits", "runs", "ended", "dead"
# place: a number, see Model.place.
Proc = collections.namedtuple("Proc", "state place error")
# file: counts up when it is replaced. times: as a reader sees them: how often it was damaged. copied: the keys that
# were acknowledged when the copy was begun. happened: "fail", "cut" and "copy".
State = collections.namedtuple("State", "parts lock session procs acked kills fails cuts harms file times copied "
                               "unclean died harmed happened")


class Wrong(Exception):
    pass


class Model:
    """processes: functions of the steps that are left out, which make generators."""

    def __init__(self, processes, without=(), kills=1, fails=0, cuts=1, harms=0, marked=False):
        self.processes = [functools.partial(f, frozenset(without)) for f in processes]
        self.kinds = [f.kind for f in processes]
        self.keys = [f.key for f in processes]
        alike = ([i for i, kind in enumerate(self.kinds) if kind == one] for one in sorted(set(self.kinds)))
        self.groups = [group for group in alike if len(group) > 1]
        self.places = [[] for _ in processes]   # the operation that comes next, and a history that leads there
        self.numbers = [{} for _ in processes]  # of places, by what the process knows there
        self.waiting = [{} for _ in processes]  # by place: a process that has come there, until it goes on
        self.follow = [{} for _ in processes]   # the place that follows, by place and result
        self.marked = marked  # is marked data damaged, too?
        first, old = Header(1, CLEAN, 1), frozenset({"old"})
        parts = (first, first, None, old, old, False)
        self.first = State(
            tuple(map(settled, parts)), None, frozenset(),
            tuple(Proc(WAITS, self.place(i, ()), False) for i, _ in enumerate(processes)), frozenset({"old"}),
            kills, fails, cuts, harms, 0, 0, frozenset(), False, False, frozenset(), frozenset())
        self.came = {self.first: None}  # state -> how it came, and from which
        self.todo = collections.deque([self.first])

    @functools.lru_cache(maxsize=None)
    def place(self, i, history):
        """The number of the place where process i is after it was given these results. Histories that lead to the
        same operation with the same knowledge lead to one place."""
        process = self.processes[i]()
        try:
            op = next(process)
            for result in history:
                op = process.send(result)
        except StopIteration:
            op = None
        return self.arrive(i, history, process, op)

    def arrive(self, i, history, process, op):
        """The number of the place where this process i is now, before this operation."""
        known = []
        if op is not None:
            at = process
            while at is not None:
                frame = at.gi_frame
                known.append((frame.f_lasti, sorted(
                    (k, repr(v)) for k, v in frame.f_locals.items() if k != "without")))
                at = at.gi_yieldfrom
        number = self.numbers[i].setdefault(repr((op, known)), len(self.places[i]))
        if number == len(self.places[i]):
            self.places[i].append((op, history))
            self.waiting[i][number] = process
        return number

    def go_on(self, i, place, result):
        """The place where process i is once it was given this result."""
        number = self.follow[i].get((place, result))
        if number is None:
            history = self.places[i][place][1] + (result,)
            process = self.waiting[i].pop(place, None)
            if process is None:
                number = self.place(i, history)
            else:
                try:
                    op = process.send(result)
                except StopIteration:
                    op = None
                number = self.arrive(i, history, process, op)
            self.follow[i][place, result] = number
        return number

    def step(self, s, i):
        """The state after the next operation of process i; None if that has to wait. What it reads
        under the lock it reads with it: nobody can change that meanwhile."""
        p = s.procs[i]
        op = self.places[i][p.place][0]
        parts, result = list(s.parts), None
        kind = op[0]
        if kind == "lock":
            if s.lock not in (None, i):
                return None
            s, result = s._replace(lock=i), s.file
        elif kind == "unlock":
            s = s._replace(lock=None if s.lock == i else s.lock)
        elif kind == "share":
            s = s._replace(session=s.session | {i}, died=False)
        elif kind == "others":
            result = bool(s.session - {i})
        elif kind == "alone":
            result = not s.session - {i}
            s = s._replace(died=s.died and not result)
        elif kind == "leave":
            s = s._replace(session=s.session - {i}, lock=None if s.lock == i else s.lock)
        elif kind == "here":
            result = s.cuts + 1
        elif kind == "await session":
            if parts[SESSION].now is None:
                return None
        elif kind == "read":
            result = parts[op[1]].now
        elif kind in ("open", "look", "rely"):
            header = newest(parts[A].now, parts[B].now)
            result = (header.epoch, parts[SESSION].now or ZERO)
            if kind == "rely":
                result += (s.times, parts[DATA].now)
            elif kind == "open":
                result = (header, s.times, header.state != CLEAN or not s.session)
        elif kind == "write":
            parts[op[1]] = parts[op[1]].write(op[2], op[1] in (A, B))
        elif kind == "note":
            page = (parts[SESSION].now or ZERO)._replace(**op[1])
            parts[SESSION] = parts[SESSION].write(page, False)
        elif kind == "sync":
            # The kernel tells of a sync that failed once to each who had the file open.
            result = not p.error
            p = p._replace(error=False)
            parts = [part.sync() for part in parts]
            if not result:
                # It writes what it can, and forgets the rest.
                page = (parts[SESSION].now or ZERO)._replace(failed=True)
                if op[1] and newest(parts[A].now, parts[B].now).state == WRITING:
                    parts[SESSION] = parts[SESSION].write(page, False)
        elif kind == "damage":
            if "data" not in s.harmed and not s.happened & {"cut", "copy"}:
                raise Wrong("damage: it finds a page damaged that is not")
        elif kind == "answer":
            if "old" not in op[1]:
                raise Wrong("damage: a reader says that a key is absent")
        elif kind == "ended":
            if op[1] == "old" and op[3]:
                raise Wrong("damage: a writer takes a key for a new one, and ends well")
            # Without sync, the mark that the file is clean may not be on disk.
            if op[2]:
                s = s._replace(acked=s.acked | {op[1]} - {None})
            else:
                s = s._replace(unclean=True)
        elif kind == "replace":
            if s.session:
                raise Wrong("held: the file of a living writer is replaced")
            if op[3] and "data" not in s.harmed and not s.happened & {"fail", "copy"}:
                raise Wrong("repair: it sets bits of a page that is not damaged")
            keys = op[2] | (s.acked if op[3] else frozenset())
            header = op[1]._replace(n=len(keys))
            parts = list(map(settled, (header, header, None, keys, keys, False)))
            s = s._replace(file=s.file + 1, harmed=frozenset())
        elif kind == "repaired":
            s = s._replace(unclean=s.unclean and bool(s.session))
        elif kind == "copy":
            s = s._replace(copied=s.acked)
        elif kind == "restore":
            if s.lock is not None or any(q.state == RUNS for j, q in enumerate(s.procs) if j != i):
                return None
            parts = list(map(settled, op[1]))
            s = s._replace(acked=s.copied, unclean=True, times=s.times + 1,
                           happened=s.happened | {"copy"})
        place = self.go_on(i, p.place, result)
        op = self.places[i][place][0]
        while op is not None and op[0] == "read" and s.lock == i:
            place = self.go_on(i, place, parts[op[1]].now)
            op = self.places[i][place][0]
        procs = list(s.procs)
        procs[i] = Proc(p.state, place, p.error)
        s = s._replace(parts=tuple(parts), procs=tuple(procs))
        return self.gone(s, i, ENDED) if op is None else s

    @staticmethod
    def gone(s, i, how):
        """Process i ends, with all its locks."""
        procs = list(s.procs)
        procs[i] = Proc(how, 0, False)
        return s._replace(procs=tuple(procs), session=s.session - {i},
                          lock=None if s.lock == i else s.lock,
                          died=s.died or how == DEAD)

    def fail(self, s, i):
        """A sync of process i fails, and the kernel believes that all is written."""
        procs = [p._replace(error=p.error or p.state == RUNS) for p in s.procs]
        failed = s._replace(parts=tuple(p.fail() for p in s.parts), procs=tuple(procs),
                            fails=s.fails - 1, unclean=True,
                            happened=s.happened | {"fail"})
        return self.step(failed, i)

    def next(self, s):
        """All states that can follow, with a word on how."""
        for i, p in enumerate(s.procs):
            if p.state == WAITS:
                # Of those that are alike it does not matter which comes first.
                if any(q.state == WAITS for q, kind in zip(s.procs[:i], self.kinds)
                       if kind == self.kinds[i]):
                    continue
                procs = list(s.procs)
                procs[i] = p._replace(state=RUNS)
                yield "%d begins" % i, s._replace(procs=tuple(procs))
            elif p.state == RUNS:
                op = self.places[i][p.place][0]
                after = self.step(s, i)
                if after is not None:
                    yield (i, op), after
                if s.kills > 0:
                    yield "%d is killed" % i, self.gone(s, i, DEAD)._replace(kills=s.kills - 1)
                if s.fails > 0 and op[0] == "sync":
                    yield "%d: the sync fails" % i, self.fail(s, i)
        if s.harms > 0 and s.lock is None:
            yield from self.harm(s)
        if s.cuts > 0 and any(p.state == WAITS for p in s.procs):
            for values in itertools.product(*(sorted(p.disk, key=repr) for p in s.parts)):
                after = s
                for i, p in enumerate(s.procs):
                    if p.state == RUNS:
                        after = self.gone(after, i, DEAD)
                yield "the power is cut: " + show(values), after._replace(
                    parts=tuple(map(settled, values)), cuts=s.cuts - 1, unclean=True,
                    happened=s.happened | {"cut"})

    def harm(self, s):
        """Damage of a page whose checksum is up to date; and of what means nothing in a clean file. That of a
        marked page is only sure to be found if its writers change few pages at a time and are not killed in a turn."""
        def harmed(what, **new):
            parts = list(s.parts)
            for part, value in new.items():
                parts[int(part[1:])] = settled(value)
            return s._replace(parts=tuple(parts), harms=s.harms - 1, harmed=s.harmed | {what},
                              times=s.times + 1)
        a, b, page, data, sums, touched = (part.now for part in s.parts)
        header = newest(a, b)
        page = page or ZERO
        is_marked = header.state != CLEAN and touched and (
            not self.marked or page.turn % 2 or page.stale or (s.kills > 0 and s.session))
        if data == sums and not is_marked and "data" not in s.harmed:
            yield "the data is damaged", harmed("data", _3=data - {"old"} | {"harm %d" % s.harms})
        at_work = any(p.state == RUNS for p in s.procs)
        if header.state == CLEAN and not at_work and "marks" not in s.harmed:
            yield "marks and session page are damaged", harmed("marks", _2=GARBAGE, _5=True)

    @functools.lru_cache(maxsize=None)
    def told(self, i, place):
        """What process i was told, whoever it is: a text."""
        return repr(renamed(self.places[i][place][1],
                            {key: "mine" if key == self.keys[i] else "another's" for key in self.keys}))

    @functools.lru_cache(maxsize=None)
    def place_as(self, i, place, at, names):
        """The place of process i as one of process `at`, which is like it, under these other names for keys."""
        return self.place(at, renamed(self.places[i][place][1], dict(names)))

    def sorted(self, s):
        """The state with processes that are alike in one order, and their keys with them. It stands for all that
        differ in which is which."""
        for group in self.groups:
            def what(i):
                p, key = s.procs[i], self.keys[i]
                return (p.state, p.error, i in s.session, s.lock == i, key in s.acked, key in s.parts[DATA].now,
                        key in s.parts[SUMS].now, self.told(i, p.place))
            order = sorted(group, key=what)
            if order == group:
                continue
            place = {i: i for i in range(len(s.procs))} | dict(zip(order, group))
            names = {self.keys[i]: self.keys[at] for i, at in place.items()}
            procs, parts = list(s.procs), list(s.parts)
            for i, at in place.items():
                p = s.procs[i]  # the others may have read keys, too
                procs[at] = p if p.state != RUNS else Proc(
                    RUNS, self.place_as(i, p.place, at, tuple(names.items())), p.error)
            for part in (DATA, SUMS):
                parts[part] = parts[part]._replace(now=renamed(parts[part].now, names),
                                                   disk=renamed(parts[part].disk, names))
            s = s._replace(procs=tuple(procs), parts=tuple(parts), acked=renamed(s.acked, names),
                           copied=renamed(s.copied, names),
                           session=frozenset(place[i] for i in s.session),
                           lock=None if s.lock is None else place[s.lock])
        return s

    def visit(self, limit=LIMIT):
        """Visits all states, or so many, and more when it is called again. Returns how many, and None or what is
        wrong and how it came."""
        came, todo = self.came, self.todo
        while todo and len(came) < limit:
            s = todo.popleft()
            try:
                check(s)
                for how, after in self.next(s):
                    after = self.sorted(after)
                    if after not in came:
                        came[after] = (how, s)
                        todo.append(after)
            except Wrong as wrong:
                trace = [str(wrong)]
                while came[s] is not None:
                    how, s = came[s]
                    trace.insert(0, how if isinstance(how, str) else "%d: %s" % (how[0], show(how[1])))
                return len(came), trace
        return len(came), None


def renamed(what, names):
    """A key, or whatever has keys in it, with these names for them."""
    if type(what) in (tuple, frozenset):
        return type(what)(renamed(one, names) for one in what)
    return names.get(what, what) if isinstance(what, str) else what


def show(values):
    return " ".join(map(str, values))


def check_parts(when, disk, acked, is_marked, is_noted):
    """`disk`: what each part may be. is_marked: marks and session page of the clean file were damaged. is_noted: the
    note of a failed sync may be in the session page."""
    for a, b in itertools.product(disk[A], disk[B]):
        header = newest(a, b)
        if header is None:
            raise Wrong("header: no slot is valid, " + when)
        if header.state != CLEAN:
            continue
        if any(d != s for d in disk[DATA] for s in disk[SUMS]):
            raise Wrong("clean: a checksum does not match, " + when)
        if disk[TOUCHED] != {False} and not is_marked:
            raise Wrong("clean: a page is touched, " + when)
        if disk[SESSION] != {None} and not is_marked and not is_noted:
            raise Wrong("clean: the session page is not empty, " + when)
        if any(header.n != len(d) for d in disk[DATA]):
            raise Wrong("clean: the counters do not match, " + when)
    if any(acked - d for d in disk[DATA]):
        raise Wrong("held: an acknowledged key is lost, " + when)


@functools.lru_cache(maxsize=1 << 20)
def check_file(parts, *more):
    """Returns the states that the header may have on disk."""
    check_parts("now", [{p.now} for p in parts], *more)
    check_parts("after a power cut", [p.disk for p in parts], *more)
    return {newest(a, b).state for a in parts[A].disk for b in parts[B].disk}


def check(s):
    if "data" in s.harmed:
        if s.parts[DATA].now == s.parts[SUMS].now:
            raise Wrong("damage: it is accepted")
        return
    states = check_file(s.parts, s.acked, "marks" in s.harmed, "fail" in s.happened)
    if not s.happened and DIRTY in states:
        raise Wrong("dirty: nothing has happened that a repair would be needed for")
    if s.unclean or s.died or any(p.state not in (ENDED, DEAD) for p in s.procs):
        return
    if states != {CLEAN}:
        raise Wrong("stuck: all have ended well, and the file is not clean on disk")


# ---- All of it


def add(key, **more):
    """A writer of this key. Those with the same options are alike."""
    def program(without):
        return writer(without, key, **more)
    program.kind, program.key = repr((key is None, more)), key
    return program


def one_after_the_other(*keys):
    def program(without):
        for key in keys:
            yield from writer(without, key)
    program.kind, program.key = "one after the other", None
    return program


def asking(asks, **more):
    def program(without):
        return reader(without, asks, **more)
    program.kind, program.key = "reader", None
    return program


repair.kind, repair.key = "repair", None
copier.kind, copier.key = "copier", None
THREE = [add("a"), add("b"), add("c")]
MANY = [add("a", many=True), add("b")]
SETS = {
    "two writers": ([add("a"), add("b")], {"kills": 2}),
    "two writers, one of many pages": (MANY, {}),
    "two writers, one does not sync": ([add("a", synced=False), add("b")], {}),
    "two writers, a sync fails": ([add("a", syncs=True), add("b")], {"fails": 1}),
    "two writers of one key, a sync fails": (
        [add("a", syncs=True), add("a")], {"kills": 0, "fails": 1}),
    "a writer and a repair, a sync fails": ([add("a"), repair], {"fails": 1}),
    "two writers, one without keys, a sync fails": (
        [add("a", syncs=True), add(None)], {"kills": 0, "fails": 1, "cuts": 0}),
    "two writers, one without keys": ([add("a"), add(None)], {}),
    "two writers and damage": ([add("a"), add("b")], {"cuts": 0, "harms": 2, "marked": True}),
    "two writers, one of many pages, and damage": (MANY, {"cuts": 0, "harms": 2}),
    "a writer that relies on a page and damage": (
        [add("old", older=True, turns=2)], {"cuts": 0, "kills": 0, "harms": 1}),
    "a writer, a repair and damage": ([add("a"), repair], {"cuts": 0, "harms": 2}),
    "a copy beside a writer is restored": ([copier, add("a"), add(None)], {"cuts": 0, "kills": 0}),
    "a copy beside a writer is restored and repaired": ([copier, add("a"), repair], {"cuts": 0, "kills": 0}),
    "a reader beside a writer of two turns": ([asking(1, late=True), add("a", turns=2)], {"kills": 0, "cuts": 0}),
    "a reader beside one writer after the other": (
        [asking(1), one_after_the_other("a", "b")], {"kills": 0, "cuts": 0}),
    "a reader beside a writer of many pages": ([asking(1), add("a", many=True)], {"kills": 0, "cuts": 0}),
    "a reader that stays, a writer and damage": (
        [asking(2), add("a")], {"kills": 0, "cuts": 0, "harms": 2, "marked": True}),
    "a reader, a writer, damage and a kill": ([asking(1), add("a")], {"cuts": 0, "harms": 1}),
    "three writers": (THREE, {"kills": 0, "cuts": 0}),
}
LONG = {
    "a reader beside two writers": ([asking(1), add("a"), add("b")], {"kills": 0, "cuts": 0}),
    "a reader beside writers of few and many pages": ([asking(1), *MANY], {"kills": 0, "cuts": 0}),
    "three writers, one is killed": (THREE, {"cuts": 0}),
    "a writer, a repair and a writer": ([add("a"), repair, add("b")], {}),
    "three writers, the power comes back": (THREE, {}),
    "three writers, one does not sync": ([add("a", synced=False), add("b"), add("c")], {}),
    "three writers, a sync fails": (THREE, {"kills": 0, "fails": 1}),
    "three writers and damage, one is killed": (THREE, {"cuts": 0, "harms": 1}),
    "a copy, two writers and a repair": ([copier, add("a"), add("b"), repair], {"cuts": 0, "kills": 0}),
    "a reader that stays beside two writers, one is killed": (
        [asking(2), add("a"), add("b")], {"cuts": 0, "harms": 1}),
}


# Steps that are missed late, and the set in which they are: that is visited first, or all others would be for long.
MISSED_IN = {
    "forget what was checked in another epoch": "a reader that stays, a writer and damage",
    "look twice in one epoch": "a reader beside one writer after the other",
    "excuse marked pages only if they may be stale": "a reader that stays, a writer and damage",
    "keep the note of a failed sync until the file is dirty": "two writers, a sync fails",
    "sync before marks are cleared": "a writer and a repair, a sync fails",
    "lock the file to end": "two writers, one without keys, a sync fails",
    "sync marks before pages are changed": "a writer and a repair, a sync fails",
    "lock the file for a turn": "a writer, a repair and damage",
    "look at the mark last": "a reader that stays, a writer and damage",
    "end the session of dead writers": "two writers",
    "note that a sync has failed": "two writers, one without keys, a sync fails",
    "count the keys after a turn that was cut off": "two writers",
    "call a file dirty whose pages differ": "two writers of one key, a sync fails",
    "refuse a file in which a sync has failed": "two writers of one key, a sync fails",
    "excuse pages that are not stale only after a crash": "two writers and damage",
    "refuse a dirty file": "two writers, one without keys, a sync fails",
    "see that nobody else is at work": "two writers, one without keys, a sync fails",
    "check each time while writers are at work": "a reader that stays, a writer and damage",
    "empty the touched bitmap to begin": "two writers and damage",
    "empty both before the file is marked": "two writers and damage",
    "empty the touched bitmap": "two writers and damage",
    "seal no other pages": "two writers and damage",
    "look at a page again": "a reader beside a writer of many pages",
    "call a file dirty if a sync failed in a session of dead writers": "two writers, one without keys, a sync fails",
}


def trace_without(step, names=SETS):
    """How the protocol fails without this step, in the first of these sets in which it does: some states of each are
    visited, then more."""
    models = {name: Model(SETS[name][0], {step}, **SETS[name][1]) for name in names}
    likely = MISSED_IN.get(step)
    if likely in models:
        trace = models[likely].visit()[1]
        if trace is not None:
            return ["with " + likely] + trace
    limit = 1000
    while models:
        for name, model in list(models.items()):
            n, trace = model.visit(limit)
            if trace is not None:
                return ["with " + name] + trace
            if n < limit or n >= LIMIT:
                del models[name]
        limit *= 2
    return None


def show_test(ok, name, trace=()):
    show_test.count += 1
    for line in trace:
        print("# " + line)
    print("%sok %d - model: %s" % ("" if ok else "not ", show_test.count, name), flush=True)


show_test.count = 0


def main():
    gc.disable()  # it would look at all states again and again
    if len(sys.argv) > 1 and sys.argv[1] != "--long":
        print("\n".join(trace_without(sys.argv[1]) or ["it holds"]))
        return
    sets = {**SETS, **LONG} if len(sys.argv) > 1 else SETS
    limit = LIMIT if len(sys.argv) > 1 or "FULL" in os.environ else min(LIMIT, 20000)
    sizes = {}
    for name, (processes, more) in sets.items():
        Process.at_work = name
        n, trace = Model(processes, **more).visit(limit)
        sizes[name] = n
        first = "the first " if n >= limit else ""
        show_test(trace is None, "%s: %s%d states" % (name, first, n), trace or ())
    Process.at_work = None
    for step, names in list(STEPS.items()):
        trace = trace_without(step, sorted(names & SETS.keys(), key=sizes.get))
        name = "without '%s' it fails" % step
        show_test(trace is not None, name + (": " + trace[-1] if trace else ""))
    print("1..%d" % show_test.count)


main()
