#!/usr/bin/env python3
# tags: slow
"""The session protocol (src/store/session.h) as a model, of which every state is visited. Prints TAP.

    model.py            the protocol holds, and does not without any one of its steps
    model.py --long     the same, with more processes: some minutes
    model.py STEP       show how it fails without this step

A few processes run the protocol on one file: writers, readers, and `verify --repair`. Each step is a system
call or a change of the shared mapping. They interleave in every order that the locks allow; at any
point one may be killed, a sync may fail, the data may be damaged, and the power may be cut. What was written and not synced
is then on disk or not, each part for itself, and a header slot may be torn. In every state:

    held     keys that were acknowledged are in the file, now and after a power cut;
    header   one of the two header slots is valid, now and after a power cut;
    clean    a file that is marked clean has checksums that match its data, counters that do, and an
             empty touched bitmap, now and after a power cut;
    damage   no process finds a page damaged, unless it is or the power was cut; damage of a page that
             is not touched is seen by all who come, and accepted by nobody;
    stuck    the file is clean on disk when all who came have ended well, unless a sync failed or the
             power was cut before, or somebody was killed after whom nobody ended well; after a
             repair it is so in any case.

The file is of one page of data. Its parts are those that the program writes one by one:

    A, B     the header slots: Header, or TORN
    session  the session page: None if it is zero, else Page: keys counted, in a turn, the boot in
             which it was written, and whether a sync has FAILED or the last writer is CLOSING
    data     the set of keys in it
    sums     the set of keys for which the checksum was made
    touched  the bit of the page in the bitmap

The processes are generators that yield operations. No value is kept from one operation to the next
but in their variables (see Model.run). The names of steps are those that can be left out.
MODEL_STATES=500000 limits the states that are visited for a set of processes: the first so many.
"""

import collections
import functools
import itertools
import os
import sys

PARTS = A, B, SESSION, DATA, SUMS, TOUCHED = range(6)
TORN = "torn"
CLEAN, WRITING, DIRTY = "clean", "writing", "dirty"
UNKNOWN = -1  # keys counted, after a crash
Header = collections.namedtuple("Header", "epoch state n")
Page = collections.namedtuple("Page", "n in_turn boot failed")
FAILED, CLOSING = "failed", "closing"
LIMIT = int(os.environ.get("MODEL_STATES", "500000"))


# ---- The protocol


class Failed(Exception):
    """A call of this process has failed; it ends with an error."""


class Process:
    """What a process knows. `without`: the steps that it leaves out."""

    def __init__(self, without):
        self.without = without
        self.header = self.n = None
        self.broken = False     # a sync has failed
        self.epoch_on_disk = 0  # of the last header that it has synced

    at_work = None  # the name of the set of processes that are at work

    def does(self, step):
        STEPS.setdefault(step, set()).add(Process.at_work)
        return step not in self.without

    def __repr__(self):
        return repr((self.header, self.n, self.broken, self.epoch_on_disk))


STEPS = {}  # all names, in the order in which they come, with the sets of processes that do the step


def newest(a, b):
    """The header that counts."""
    return max((h for h in (a, b) if h != TORN), default=None)


def slot(epoch):
    return A if epoch % 2 == 0 else B


def reload_header(p):
    a = yield "read", A
    b = yield "read", B
    p.header = newest(a, b)


def sync(p):
    if not (yield "sync",):
        p.broken = True
        if p.does("note that a sync has failed") and (yield "read", SESSION) is not None:
            yield "note failure",
        raise Failed


def sync_header(p):
    """The header that was read may not be on disk: its writer may have been killed before the sync,
    or that may have failed, and then the kernel would not write it again."""
    at = slot(p.header.epoch)
    if (yield "read", at) == p.header:
        if p.does("write the header again"):
            yield "write", at, p.header
    else:
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


def load_counters(p):
    page = yield "read", SESSION
    p.n = 0 if page is None else page.n
    if page is not None and page.in_turn and p.does("know a turn that was cut off"):
        p.n = UNKNOWN


def seal(p, again):
    """Renews the checksum of the page, if it is touched. `again`: it may only seem to be on disk."""
    if p.does("say that the session is being ended"):
        yield "note closing",
    touched = yield "read", TOUCHED
    if touched and again and p.does("write touched pages again after a kill"):
        yield "write", DATA, (yield "read", DATA)
    if touched or not p.does("seal no other pages"):
        if p.does("renew the checksums"):
            yield "write", SUMS, (yield "read", DATA)
    if touched and p.does("empty the touched bitmap"):
        yield "write", TOUCHED, False


def close(p, state, synced):
    """Ends the session of all writers."""
    n = p.n if p.n != UNKNOWN else len((yield "read", DATA))
    yield "count", n, False
    if p.does("sync before the mark clean") and (
            synced or p.does("sync before the mark clean even if not asked to")):
        yield from sync_header(p)
    yield from publish(p, state, n, False)
    if p.does("empty the session page"):
        yield "write", SESSION, None
    if synced and p.does("sync the mark clean"):
        yield from sync(p)
        p.epoch_on_disk = p.header.epoch


def recover_if_left(p):
    """Ends the session of writers that are all dead."""
    page = yield "read", SESSION
    if p.header.state != WRITING and page is None:
        return
    if (yield "others",) or not p.does("end the session of dead writers"):
        return
    boot = yield "boot",
    intact = page is not None and page.boot == boot and page.failed != FAILED
    state = p.header.state
    yield from seal(p, True)
    if p.does("write all again after a sync that failed") and (
            (state == DIRTY and not intact) or (page is not None and page.failed)):
        yield "write", DATA, (yield "read", DATA)
        yield "write", SUMS, (yield "read", SUMS)
        yield "write", TOUCHED, (yield "read", TOUCHED)
    if intact:
        yield from load_counters(p)
    else:
        p.n = UNKNOWN
        keys = yield "read", DATA
        sums = yield "read", SUMS
        state = DIRTY if keys != sums and p.does("call a file dirty whose pages differ") else CLEAN
    yield from close(p, DIRTY if state == DIRTY else CLEAN, True)


def begin_or_join(p):
    page = yield "read", SESSION
    p.n = p.header.n
    if page is not None:
        yield from load_counters(p)
    if page is None and p.does("fill the session page"):
        yield "write", SESSION, Page(p.n, False, (yield "boot",), False)
    if p.header.state == CLEAN and p.does("write the mark"):
        yield from publish(p, WRITING, p.n, p.does("sync the mark"))


def enter(p):
    if p.does("share the session byte"):
        yield "share",
    yield from reload_header(p)
    yield from recover_if_left(p)
    yield from begin_or_join(p)


def begin(p):
    if p.does("lock the file to begin"):
        yield "lock",
    yield from enter(p)
    yield "unlock",


def turn(p, key, syncs):
    """Adds a key. `syncs`: on the way, as growth does."""
    if p.does("lock the file for a turn"):
        yield "lock",
    yield from reload_header(p)
    yield from begin_or_join(p)
    if p.does("mark the turn"):
        yield "count", p.n, True
    keys = yield "read", DATA
    checked = yield "read", SUMS
    if not (yield "read", TOUCHED):
        if keys != checked and p.does("check a page before it is touched"):
            yield "damage",
            raise Failed
        if p.does("mark pages as touched"):
            yield "write", TOUCHED, True
    if key not in keys or p.does("write pages again that are relied on"):
        yield "write", DATA, keys | {key}
    if key not in keys and p.n != UNKNOWN:
        p.n += 1
    if syncs:
        yield from sync(p)
    if p.does("store the counters"):
        yield "count", p.n, True
    yield "count", None, False
    yield "unlock",


def is_last(p):
    yield from reload_header(p)
    yield from load_counters(p)
    alone = (yield "alone",) or not p.does("see that nobody else is at work")
    # A writer whose sync failed notes that before it leaves, so this is looked at only now.
    page = yield "read", SESSION
    failed = page is not None and page.failed == FAILED
    return alone and not (failed and p.does("leave a session open in which a sync failed"))


def leave(p, synced):
    if p.does("lock the file to end"):
        yield "lock",
    ok = not p.broken
    try:
        last = ok and (yield from is_last(p))
        if ok and synced and not last and p.does("sync although others go on"):
            # They need not wait for it. The session byte is held until it is done.
            yield "unlock",
            yield from sync(p)
            yield "lock",
            last = yield from is_last(p)
        if last:
            yield from seal(p, False)
            yield from close(p, DIRTY if p.header.state == DIRTY else CLEAN, synced)
    except Failed:
        ok = False
    yield "leave",
    return ok


def writer(without, key, synced=True, syncs=False):
    """add, or dedup: a session with one turn, or with none if there is no key."""
    p, ok = Process(without), True
    try:
        yield from begin(p)
    except Failed:
        return
    try:
        if key is not None:
            yield from turn(p, key, syncs)
    except Failed:
        ok = False
    yield "unlock",
    if (yield from leave(p, synced)) and ok:
        yield "ended", key, synced


def repair(without):
    """verify --repair. Writers may be at work; they wait."""
    p = Process(without)
    yield "lock",
    try:
        yield from reload_header(p)
        yield from recover_if_left(p)
        a = yield "read", A
        b = yield "read", B
        n, state = p.header.n, p.header.state
        keys = yield "read", DATA
        if state == DIRTY:
            yield "write", DATA, keys
            yield "write", SUMS, keys
            yield "write", TOUCHED, (yield "read", TOUCHED)
            yield from sync_header(p)
            n, state = len(keys), CLEAN if (yield "read", SESSION) is None else WRITING
        elif keys != (yield "read", SUMS) and not (yield "read", TOUCHED):
            yield "damage",
            return
        elif TORN not in (a, b):
            return
        yield from publish(p, state, n)
        yield from publish(p, state, n)
        yield "repaired",
    except Failed:
        pass


def reader(without):
    """query: of the key `old`."""
    p = Process(without)
    while True:
        yield from reload_header(p)
        epoch = p.header.epoch
        for _ in range(2 if p.does("look at a page again") else 1):
            keys = yield "read", DATA
            if keys == (yield "read", SUMS) and keys == (yield "read", DATA):
                yield "answer", keys
                return
            if p.does("look whether it is touched") and (yield "read", TOUCHED):
                return
        yield from reload_header(p)
        if p.header.epoch == epoch or not p.does("look twice in one epoch"):
            yield "damage",
            return


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
Proc = collections.namedtuple("Proc", "state history error")
State = collections.namedtuple(
    "State", "parts lock session procs acked kills fails cuts harms unclean died harmed")


class Wrong(Exception):
    pass


class Model:
    """processes: functions of the steps that are left out, which make generators."""

    def __init__(self, processes, without=(), kills=1, fails=0, cuts=1, harms=0):
        self.processes = [functools.partial(f, frozenset(without)) for f in processes]
        self.kinds = [f.kind for f in processes]
        self.keys = [f.key for f in processes]
        alike = ([i for i, kind in enumerate(self.kinds) if kind == one] for one in sorted(set(self.kinds)))
        self.groups = [group for group in alike if len(group) > 1]
        self.programs = [{} for _ in processes]  # history -> the operation that comes next
        self.places = [{} for _ in processes]    # the same, by what the process knows
        self.cuts = cuts
        first, old = Header(1, CLEAN, 1), frozenset({"old"})
        parts = (first, first, None, old, old, False)
        self.first = State(
            tuple(map(settled, parts)), None, frozenset(),
            tuple(Proc(WAITS, (), False) for _ in processes), frozenset({"old"}), kills, fails,
            cuts, harms, False, False, False)

    def run(self, i, history):
        """The operation that process i does after it was given these results; None: it has ended.
        Histories that lead to the same place with the same knowledge are one."""
        known = self.programs[i].get(history)
        if known is None:
            process, op = self.processes[i](), None
            try:
                for result in (None, *history):
                    op = process.send(result)
                place = []
                at = process
                while at is not None:
                    frame = at.gi_frame
                    place.append((frame.f_lasti, sorted(
                        (k, repr(v)) for k, v in frame.f_locals.items() if k != "without")))
                    at = at.gi_yieldfrom
                canonical = self.places[i].setdefault(repr((op, place)), history)
            except StopIteration:
                op, canonical = None, ("ended",)
            known = self.programs[i][history] = (op, canonical)
        return known

    def step(self, s, i):
        """The state after the next operation of process i; None if that has to wait. What it reads
        under the lock it reads with it: nobody can change that meanwhile."""
        s = self.operate(s, i)
        while s is not None and s.lock == i and s.procs[i].state == RUNS and (
                self.run(i, s.procs[i].history)[0][0] == "read"):
            s = self.operate(s, i)
        return s

    def operate(self, s, i):
        p = s.procs[i]
        op, history = self.run(i, p.history)
        parts, result = list(s.parts), None
        kind = op[0]
        if kind == "lock":
            if s.lock not in (None, i):
                return None
            s = s._replace(lock=i)
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
        elif kind == "read":
            result = parts[op[1]].now
        elif kind == "write":
            parts[op[1]] = parts[op[1]].write(op[2], op[1] in (A, B))
        elif kind == "boot":
            result = s.cuts
        elif kind in ("count", "note failure", "note closing"):
            page = parts[SESSION].now or Page(0, False, None, False)
            if kind == "count":
                page = page._replace(n=page.n if op[1] is None else op[1], in_turn=op[2])
            elif kind == "note failure" or page.failed != FAILED:
                page = page._replace(failed=FAILED if kind == "note failure" else CLOSING)
            parts[SESSION] = parts[SESSION].write(page, False)
        elif kind == "sync":
            # The kernel tells of a sync that failed once to each who had the file open.
            result = not p.error
            p = p._replace(error=False)
            parts = [part.sync() for part in parts]
        elif kind == "damage":
            if not s.harmed and s.cuts == self.cuts:
                raise Wrong("damage: it finds a page damaged that is not")
        elif kind == "answer":
            if "old" not in op[1]:
                raise Wrong("damage: a reader says that a key is absent")
        elif kind == "ended":
            # Without sync, the mark that the file is clean may not be on disk.
            if op[2]:
                s = s._replace(acked=s.acked | {op[1]} - {None})
            else:
                s = s._replace(unclean=True)
        elif kind == "repaired":
            s = s._replace(unclean=s.unclean and bool(s.session))
        procs = list(s.procs)
        procs[i] = p._replace(history=history + (result,))
        s = s._replace(parts=tuple(parts), procs=tuple(procs))
        if self.run(i, procs[i].history)[0] is None:
            return self.gone(s, i, ENDED)
        # Not all that the history says matters for what comes.
        procs[i] = procs[i]._replace(history=self.run(i, procs[i].history)[1])
        return s._replace(procs=tuple(procs))

    @staticmethod
    def gone(s, i, how):
        """Process i ends, with all its locks."""
        procs = list(s.procs)
        procs[i] = Proc(how, (), False)
        return s._replace(procs=tuple(procs), session=s.session - {i},
                          lock=None if s.lock == i else s.lock,
                          died=s.died or how == DEAD)

    def fail(self, s, i):
        """A sync of process i fails, and the kernel believes that all is written."""
        procs = [p._replace(error=p.error or p.state == RUNS) for p in s.procs]
        failed = s._replace(parts=tuple(p.fail() for p in s.parts), procs=tuple(procs),
                            fails=s.fails - 1, unclean=True)
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
                op = self.run(i, p.history)[0]
                after = self.step(s, i)
                if after is not None:
                    yield "%d: %s" % (i, show(op)), after
                if s.kills > 0:
                    yield "%d is killed" % i, self.gone(s, i, DEAD)._replace(kills=s.kills - 1)
                if s.fails > 0 and op == ("sync",):
                    yield "%d: the sync fails" % i, self.fail(s, i)
        touched, data = s.parts[TOUCHED], s.parts[DATA]
        if s.harms > 0 and s.lock is None and not touched.now and data.now == s.parts[SUMS].now:
            parts = list(s.parts)
            parts[DATA] = settled(data.now - {"old"} | {"harm"})
            yield "the data is damaged", s._replace(parts=tuple(parts), harms=s.harms - 1,
                                                    harmed=True)
        if s.cuts > 0 and any(p.state == WAITS for p in s.procs):
            for values in itertools.product(*(sorted(p.disk, key=repr) for p in s.parts)):
                after = s
                for i, p in enumerate(s.procs):
                    if p.state == RUNS:
                        after = self.gone(after, i, DEAD)
                yield "the power is cut: " + show(values), after._replace(
                    parts=tuple(map(settled, values)), cuts=s.cuts - 1, unclean=True)

    @functools.lru_cache(maxsize=None)
    def told(self, i, history):
        """What process i was told, whoever it is: a text."""
        return repr(renamed(history, {key: "mine" if key == self.keys[i] else "another's" for key in self.keys}))

    def sorted(self, s):
        """The state with processes that are alike in one order, and their keys with them. It stands for all that
        differ in which is which."""
        for group in self.groups:
            def what(i):
                p, key = s.procs[i], self.keys[i]
                return (p.state, p.error, i in s.session, s.lock == i, key in s.acked, key in s.parts[DATA].now,
                        key in s.parts[SUMS].now, self.told(i, p.history))
            order = sorted(group, key=what)
            if order == group:
                continue
            place = {i: i for i in range(len(s.procs))} | dict(zip(order, group))
            names = {self.keys[i]: self.keys[at] for i, at in place.items()}
            procs, parts = list(s.procs), list(s.parts)
            for i, at in place.items():
                history = renamed(s.procs[i].history, names)  # the others may have read keys, too
                procs[at] = s.procs[i]._replace(
                    history=self.run(at, history)[1] if s.procs[i].state == RUNS else history)
            for part in (DATA, SUMS):
                parts[part] = parts[part]._replace(now=renamed(parts[part].now, names),
                                                   disk=renamed(parts[part].disk, names))
            s = s._replace(procs=tuple(procs), parts=tuple(parts), acked=renamed(s.acked, names),
                           session=frozenset(place[i] for i in s.session),
                           lock=None if s.lock is None else place[s.lock])
        return s

    def visit(self):
        """Visits all states. Returns how many, and None or what is wrong and how it came."""
        came = {self.first: None}
        todo = collections.deque([self.first])
        while todo and len(came) < LIMIT:
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
                    trace.insert(0, how)
                return len(came), trace
        return len(came), None


def renamed(what, names):
    """A key, or whatever has keys in it, with these names for them."""
    if type(what) in (tuple, frozenset):
        return type(what)(renamed(one, names) for one in what)
    return names.get(what, what) if isinstance(what, str) else what


def show(values):
    return " ".join(map(str, values))


@functools.lru_cache(maxsize=1 << 20)
def check_parts(now, disk, acked):
    """`disk`: what each part may be once the power was cut, or is now."""
    when = "now" if now else "after a power cut"
    for a, b in itertools.product(disk[A], disk[B]):
        header = newest(a, b)
        if header is None:
            raise Wrong("header: no slot is valid, " + when)
        if header.state != CLEAN:
            continue
        if any(d != s for d in disk[DATA] for s in disk[SUMS]):
            raise Wrong("clean: a checksum does not match, " + when)
        if disk[TOUCHED] != {False}:
            raise Wrong("clean: a page is touched, " + when)
        if any(header.n != len(d) for d in disk[DATA]):
            raise Wrong("clean: the counters do not match, " + when)
    if any(acked - d for d in disk[DATA]):
        raise Wrong("held: an acknowledged key is lost, " + when)


def check(s):
    if s.harmed:
        data, sums, touched = (s.parts[part].now for part in (DATA, SUMS, TOUCHED))
        if data == sums or touched:
            raise Wrong("damage: it is accepted")
        return
    check_parts(True, tuple(frozenset({p.now}) for p in s.parts), s.acked)
    check_parts(False, tuple(p.disk for p in s.parts), s.acked)
    if s.unclean or s.died or any(p.state not in (ENDED, DEAD) for p in s.procs):
        return
    headers = {newest(a, b) for a in s.parts[A].disk for b in s.parts[B].disk}
    if s.parts[SESSION].now is not None:
        raise Wrong("stuck: all have ended well, and the session page is not empty")
    if any(h.state != CLEAN for h in headers):
        raise Wrong("stuck: all have ended well, and the file is not clean on disk")


# ---- All of it


def add(key, **more):
    """A writer of this key. Those with the same options are alike."""
    def program(without):
        return writer(without, key, **more)
    program.kind, program.key = repr((key is None, more)), key
    return program


repair.kind, repair.key = "repair", None
reader.kind, reader.key = "reader", None
THREE = [add("a"), add("b"), add("c")]
SETS = {
    "two writers": ([add("a"), add("b")], {"kills": 2}),
    "two writers, one does not sync": ([add("a", synced=False), add("b")], {}),
    "two writers, a sync fails": ([add("a", syncs=True), add("b")], {"fails": 1}),
    "two writers of one key, a sync fails": (
        [add("a", syncs=True), add("a")], {"kills": 0, "fails": 1}),
    "a writer and a repair, a sync fails": ([add("a"), repair], {"fails": 1}),
    "two writers, one without keys, a sync fails": (
        [add("a", syncs=True), add(None)], {"kills": 0, "fails": 1, "cuts": 0}),
    "two writers, one without keys": ([add("a"), add(None)], {}),
    "two writers and damage": ([add("a"), add("b")], {"cuts": 0, "harms": 1}),
    "a writer, a repair and damage": ([add("a"), repair], {"cuts": 0, "harms": 1}),
    "a reader beside two writers": ([reader, add("a"), add("b")], {"kills": 0, "cuts": 0}),
    "a reader and a writer, one is killed": ([reader, add("a")], {"cuts": 0, "harms": 1}),
    "three writers": (THREE, {"kills": 0, "cuts": 0}),
}
LONG = {
    "three writers, one is killed": (THREE, {"cuts": 0}),
    "a writer, a repair and a writer": ([add("a"), repair, add("b")], {}),
    "three writers, the power comes back": (THREE, {}),
    "three writers, one does not sync": ([add("a", synced=False), add("b"), add("c")], {}),
    "three writers, a sync fails": (THREE, {"kills": 0, "fails": 1}),
    "three writers and damage, one is killed": (THREE, {"cuts": 0, "harms": 1}),
    "a reader beside two writers, one is killed": (
        [reader, add("a"), add("b")], {"cuts": 0, "harms": 1}),
}


def trace_without(step, names=SETS):
    """How the protocol fails without this step, in the first of these sets in which it does."""
    for name in names:
        processes, more = SETS[name]
        trace = Model(processes, {step}, **more).visit()[1]
        if trace is not None:
            return ["with " + name] + trace
    return None


def show_test(ok, name, trace=()):
    show_test.count += 1
    for line in trace:
        print("# " + line)
    print("%sok %d - model: %s" % ("" if ok else "not ", show_test.count, name), flush=True)


show_test.count = 0


def main():
    if len(sys.argv) > 1 and sys.argv[1] != "--long":
        print("\n".join(trace_without(sys.argv[1]) or ["it holds"]))
        return
    sets = {**SETS, **LONG} if len(sys.argv) > 1 else SETS
    sizes = {}
    for name, (processes, more) in sets.items():
        Process.at_work = name
        n, trace = Model(processes, **more).visit()
        sizes[name] = n
        first = "the first " if n >= LIMIT else ""
        show_test(trace is None, "%s: %s%d states" % (name, first, n), trace or ())
    Process.at_work = None
    for step, names in list(STEPS.items()):
        trace = trace_without(step, sorted(names & SETS.keys(), key=sizes.get))
        name = "without '%s' it fails" % step
        show_test(trace is not None, name + (": " + trace[-1] if trace else ""))
    print("1..%d" % show_test.count)


main()
