#!/usr/bin/env python3
"""The session protocol (src/store/session.h) as a model, of which every state is visited. Prints TAP.

    model.py            the protocol holds, and does not without any one of its steps
    model.py --long     the same, with more processes: some minutes
    model.py STEP       show how it fails without this step

A few processes run the protocol on one file: writers, and `verify --repair`. Each step is a system
call or a change of the shared mapping. They interleave in every order that the locks allow; at any
point one may be killed, a sync may fail, and the power may be cut. What was written and not synced
is then on disk or not, each part for itself, and a header slot may be torn. In every state:

    held     keys that were acknowledged are in the file, now and after a power cut;
    header   one of the two header slots is valid, now and after a power cut;
    clean    a file that is marked clean has checksums that match its data, counters that do, and an
             empty session page and touched bitmap, now and after a power cut;
    damage   no process finds a page damaged;
    stuck    the file is clean on disk when all who came have ended well, unless somebody died or
             a sync failed before; after a repair it is so in any case.

The file is of one page of data. Its parts are those that the program writes one by one:

    A, B     the header slots: Header, or TORN
    session  the session page: None if it is zero, else (keys counted, in a batch)
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

    def does(self, step):
        STEPS.setdefault(step)
        return step not in self.without

    def __repr__(self):
        return repr((self.header, self.n, self.broken, self.epoch_on_disk))


STEPS = {}  # all names, in the order in which they come


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
        if p.does("remember that a sync has failed"):
            p.broken = True
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
    p.n = 0 if page is None else page[0]
    if page is not None and page[1] and p.does("know a batch that was cut off"):
        p.n = UNKNOWN


def restart_dirty(p):
    """A writer has died, and was the only one."""
    p.n = UNKNOWN
    if p.header.state != DIRTY and p.does("mark the file of a dead writer dirty"):
        yield from publish(p, DIRTY, p.n)
    yield "write", SESSION, (p.n, False)


def enter(p):
    others = yield "others",
    if p.does("share the session byte"):
        yield "share",
    yield from reload_header(p)
    clean = p.header.state == CLEAN and (yield "read", SESSION) is None
    if clean:
        p.n = p.header.n
        if p.does("write the mark"):
            yield from publish(p, WRITING, p.n, p.does("sync the mark"))
        if p.does("fill the session page"):
            yield "write", SESSION, (p.n, False)
    elif p.header.state == CLEAN or (not others and p.does("see that a writer has died")):
        yield from restart_dirty(p)
    else:
        yield from load_counters(p)


def begin(p):
    if p.does("lock the file to begin"):
        yield "lock",
    yield from enter(p)
    yield "unlock",


def batch(p, key, syncs):
    """Adds a key. `syncs`: on the way, as growth does."""
    if p.does("lock the file for a batch"):
        yield "lock",
    yield from reload_header(p)
    if p.does("read the counters under the lock"):
        yield from load_counters(p)
    if p.does("mark the batch"):
        yield "write", SESSION, (p.n, True)
    keys = yield "read", DATA
    checked = yield "read", SUMS
    if keys != checked and p.header.state != DIRTY and not (yield "read", TOUCHED):
        yield "damage",
    if p.does("mark pages as touched"):
        yield "write", TOUCHED, True
    if key not in keys or p.does("write pages again that are relied on"):
        yield "write", DATA, keys | {key}
    if key not in keys and p.n != UNKNOWN:
        p.n += 1
    if syncs:
        yield from sync(p)
    if p.does("store the counters"):
        yield "write", SESSION, (p.n, True)
    page = yield "read", SESSION
    yield "write", SESSION, (page[0] if page else 0, False)
    yield "unlock",


def is_last(p):
    yield from reload_header(p)
    yield from load_counters(p)
    if p.header.state == CLEAN or (p.header.state == DIRTY and p.does("leave a dirty file dirty")):
        return False
    return (yield "alone",) or not p.does("see that nobody else is at work")


def make_clean(p, synced):
    if (yield "read", TOUCHED):
        if p.does("renew the checksums"):
            yield "write", SUMS, (yield "read", DATA)
        if p.does("empty the touched bitmap"):
            yield "write", TOUCHED, False
    n = p.n if p.n != UNKNOWN else len((yield "read", DATA))
    if p.does("empty the session page"):
        yield "write", SESSION, None
    if p.does("sync before the mark clean") and (
            synced or p.does("sync before the mark clean even if not asked to")):
        yield from sync_header(p)
    yield from publish(p, CLEAN, n, synced and p.does("sync the mark clean"))


def make_dirty(p):
    """Nobody may make clean what was not synced."""
    yield from reload_header(p)
    if p.header.state == WRITING:
        yield from publish(p, DIRTY, UNKNOWN)


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
            yield from make_clean(p, synced)
    except Failed:
        ok = False
        yield "lock",
    if p.broken and p.does("make the file dirty when a sync has failed"):
        try:
            yield from make_dirty(p)
        except Failed:
            pass
    yield "leave",
    return ok


def writer(without, key, synced=True, syncs=False):
    """add, or dedup: a session with one batch, or with none if there is no key."""
    p, ok = Process(without), True
    try:
        yield from begin(p)
    except Failed:
        return
    try:
        if key is not None:
            yield from batch(p, key, syncs)
    except Failed:
        ok = False
    yield "unlock",
    if (yield from leave(p, synced)) and ok:
        yield "ended", key, synced


def repair(without):
    """verify --repair."""
    p = Process(without)
    yield "lock",
    try:
        if p.does("repair only when nobody is at work"):
            if not (yield "alone",):
                return
        yield from reload_header(p)
        a = yield "read", A
        b = yield "read", B
        n = p.header.n
        if p.header.state != CLEAN or (yield "read", SESSION) is not None:
            keys = yield "read", DATA
            n = len(keys)
            if p.does("repair: write the data again"):
                yield "write", DATA, keys
            yield "write", SUMS, keys
            yield "write", TOUCHED, False
            yield "write", SESSION, None
            yield from sync_header(p)
        elif TORN not in (a, b):
            return
        yield from publish(p, CLEAN, n)
        yield from publish(p, CLEAN, n)
        yield "repaired",
    except Failed:
        pass


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
    "State", "parts lock session procs acked kills fails cuts unclean")


class Wrong(Exception):
    pass


class Model:
    """processes: functions of the steps that are left out, which make generators."""

    def __init__(self, processes, without=(), kills=1, fails=0, cuts=1):
        self.processes = [functools.partial(f, frozenset(without)) for f in processes]
        self.kinds = [f.kind for f in processes]
        self.programs = [{} for _ in processes]  # history -> the operation that comes next
        self.places = [{} for _ in processes]    # the same, by what the process knows
        first, old = Header(1, CLEAN, 1), frozenset({"old"})
        parts = (first, first, None, old, old, False)
        self.first = State(
            tuple(map(settled, parts)), None, frozenset(),
            tuple(Proc(WAITS, (), False) for _ in processes), frozenset({"old"}), kills, fails,
            cuts, False)

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
        if op is None:
            return self.gone(s, i, ENDED)
        parts, result = list(s.parts), None
        kind = op[0]
        if kind == "lock":
            if s.lock not in (None, i):
                return None
            s = s._replace(lock=i)
        elif kind == "unlock":
            s = s._replace(lock=None if s.lock == i else s.lock)
        elif kind == "share":
            s = s._replace(session=s.session | {i})
        elif kind == "others":
            result = bool(s.session - {i})
        elif kind == "alone":
            result = not s.session - {i}
        elif kind == "leave":
            s = s._replace(session=s.session - {i}, lock=None if s.lock == i else s.lock)
        elif kind == "read":
            result = parts[op[1]].now
        elif kind == "write":
            parts[op[1]] = parts[op[1]].write(op[2], op[1] in (A, B))
        elif kind == "sync":
            # The kernel tells of a sync that failed once to each who had the file open.
            result = not p.error
            p = p._replace(error=False)
            parts = [part.sync() for part in parts]
        elif kind == "damage":
            raise Wrong("damage: a writer finds a page that nobody has touched damaged")
        elif kind == "ended":
            # Without sync a file may be found dirty.
            if op[2]:
                s = s._replace(acked=s.acked | {op[1]} - {None})
            else:
                s = s._replace(unclean=True)
        elif kind == "repaired":
            s = s._replace(unclean=False)
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
                          unclean=s.unclean or how == DEAD)

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
        if s.cuts > 0 and any(p.state == WAITS for p in s.procs):
            for values in itertools.product(*(sorted(p.disk, key=repr) for p in s.parts)):
                after = s
                for i, p in enumerate(s.procs):
                    if p.state == RUNS:
                        after = self.gone(after, i, DEAD)
                yield "the power is cut: " + show(values), after._replace(
                    parts=tuple(map(settled, values)), cuts=s.cuts - 1, unclean=True)

    def visit(self):
        """Visits all states. Returns how many, and None or what is wrong and how it came."""
        came = {self.first: None}
        todo = collections.deque([self.first])
        while todo and len(came) < LIMIT:
            s = todo.popleft()
            try:
                check(s)
                for how, after in self.next(s):
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
        if disk[SESSION] != {None} and not now:
            raise Wrong("clean: the session page is not empty, " + when)
        if disk[TOUCHED] != {False}:
            raise Wrong("clean: a page is touched, " + when)
        if any(header.n != len(d) for d in disk[DATA]):
            raise Wrong("clean: the counters do not match, " + when)
    if any(acked - d for d in disk[DATA]):
        raise Wrong("held: an acknowledged key is lost, " + when)


def check(s):
    check_parts(True, tuple(frozenset({p.now}) for p in s.parts), s.acked)
    check_parts(False, tuple(p.disk for p in s.parts), s.acked)
    if s.unclean or any(p.state != ENDED for p in s.procs):
        return
    headers = {newest(a, b) for a in s.parts[A].disk for b in s.parts[B].disk}
    if any(h.state != CLEAN for h in headers):
        raise Wrong("stuck: all have ended well, and the file is not clean on disk")


# ---- All of it


def add(key, **more):
    """A writer of this key. Those with the same options are alike."""
    def program(without):
        return writer(without, key, **more)
    program.kind = repr(more)
    return program


repair.kind = "repair"
THREE = [add("a"), add("b"), add("c")]
SETS = {
    "two writers": ([add("a"), add("b")], {"kills": 2}),
    "two writers, one does not sync": ([add("a", synced=False), add("b")], {}),
    "two writers, a sync fails": ([add("a", syncs=True), add("b")], {"fails": 1}),
    "two writers of one key, a sync fails": ([add("a"), add("a")], {"kills": 0, "fails": 1}),
    "a writer and a repair, a sync fails": ([add("a"), repair], {"fails": 1}),
    "two writers, one without keys, a sync fails": (
        [add("a", syncs=True), add(None)], {"kills": 0, "fails": 1, "cuts": 0}),
    "two writers, one without keys": ([add("a"), add(None)], {}),
    "three writers": (THREE, {"kills": 0, "cuts": 0}),
}
LONG = {
    "three writers, one is killed": (THREE, {"cuts": 0}),
    "a writer, a repair and a writer": ([add("a"), repair, add("b")], {}),
    "three writers, the power comes back": (THREE, {}),
    "three writers, one does not sync": ([add("a", synced=False), add("b"), add("c")], {}),
    "three writers, a sync fails": (THREE, {"kills": 0, "fails": 1}),
}


def trace_without(step):
    """How the protocol fails without this step, in whatever set of processes it does first."""
    for name, (processes, more) in SETS.items():
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
    for name, (processes, more) in sets.items():
        n, trace = Model(processes, **more).visit()
        first = "the first " if n >= LIMIT else ""
        show_test(trace is None, "%s: %s%d states" % (name, first, n), trace or ())
    for step in list(STEPS):
        trace = trace_without(step)
        name = "without '%s' it fails" % step
        show_test(trace is not None, name + (": " + trace[-1] if trace else ""))
    print("1..%d" % show_test.count)


main()
