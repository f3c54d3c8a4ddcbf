#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Answers of a Redis server that no server should give.

    redis_answers.py SERVER bitmaps|module|valkey|cluster

SERVER is the socket of a server, behind whose back the answers are changed: commands run once with the
true answers, which says what they ask for. Then one of these answers is replaced by each of many wrong
ones: of another type, with too few elements or too many, negative, nil, an error, of a huge length. Or the
server is gone from one command on, or answers that command with an error. Each time the command must end
with status 2 and one line on stderr, or, where the answer does not matter, as before. It must not take more
than 30 s and 200 MiB, nor be killed by a signal.

With FULL=1 all combinations are tried, else one in seven, the same in each run.
"""
import collections
import os
import socket
import subprocess
import sys
import tempfile
import threading

FULL = bool(os.environ.get("FULL"))
SANITIZER = bool(os.environ.get("SANITIZER"))
HERE = tempfile.mkdtemp(dir=os.environ.get("BATS_TEST_TMPDIR"))
SECONDS, KIBIBYTES = 30, 200 << 10


# ---- RESP2

class Stream:
    """Reads values from a socket."""

    def __init__(self, sock):
        self.file = sock.makefile("rb")

    def read(self):
        """A value as (type, contents), or None at the end."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            return None
        kind, rest = line[:1], line[1:-2]
        if kind.isalpha():  # a command on a line
            return b"*", [text(word) for word in line.split()]
        if kind == b"*":
            return kind, [self.read() for _ in range(int(rest))] if rest != b"-1" else None
        if kind == b"$":
            return kind, self.file.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        return kind, rest


def encode(value):
    kind, data = value
    if data is None:
        return kind + b"-1\r\n"
    if kind == b"*":
        return b"*%d\r\n" % len(data) + b"".join(map(encode, data))
    return b"$%d\r\n" % len(data) + data + b"\r\n" if kind == b"$" else kind + data + b"\r\n"


def text(data):
    return b"$", data


def array(*values):
    return b"*", list(values)


def integer(n):
    return b":", b"%d" % n


NIL, NIL_ARRAY = (b"$", None), (b"*", None)


def send(server, *words):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(server)
        s.sendall(encode(array(*(text(w if isinstance(w, bytes) else str(w).encode()) for w in words))))
        return Stream(s).read()


# ---- The server between: passes on commands and true answers, except one

class Between:
    def __init__(self, server, listener):
        self.server, self.listener = server, listener
        self.asked = {}  # target: the first true answer to it
        self.target = self.lie = None
        self.n = collections.Counter()  # answers to each target
        self.true = 0  # how many true answers come before the wrong ones
        self.words = []  # the names of the commands that were answered
        self.stop = None  # the number of the command, from 0, that gets no true answer
        self.once = None  # what it gets instead; None: nothing, and neither do later ones
        self.ends = False  # then no connection is accepted any more
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return  # it was shut down
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def answer(self, target, value):
        """The bytes that are sent for a true answer."""
        self.asked.setdefault(target, value)
        self.n[target] += 1
        if target == self.target and self.n[target] > self.true:
            return self.lie
        if value[0] == b"*" and value[1] is not None and target == "EXEC":
            parts = (self.answer(f"EXEC {i}", v) for i, v in enumerate(value[1]))
            return b"*%d\r\n" % len(value[1]) + b"".join(parts)
        return encode(value)

    def serve(self, client):
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self.server)
            commands, answers = Stream(client), Stream(server)
            try:
                block = False
                while (command := commands.read()) is not None:
                    server.sendall(encode(command))
                    word = command[1][0][1].decode()
                    block = word == "MULTI" or (block and word != "EXEC")
                    sent = self.answer("QUEUED" if block else word, answers.read())
                    if len(self.words) == self.stop:
                        if self.once is None:
                            if self.ends:
                                self.listener.shutdown(socket.SHUT_RDWR)
                            break
                        sent = self.once
                    self.words.append(word)
                    client.sendall(sent)
                    if b"..." in sent:
                        break  # the end is in the middle of an answer
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


# ---- Wrong answers

ANY = [
    NIL, NIL_ARRAY, array(), integer(-1), integer(2**63 - 1), text(b""), text(b"a\0b"), (b"+", b"OK"),
    (b"-", b"ERR two\nlines \x1b[31m of it"), (b"-", b""), array(NIL), array(array(), integer(-5)),
    array(*[integer(1)] * 70000), text(b"x" * (3 << 20)), array(text(b"0"), text(b"-1")),
]
# Protocol errors are for tests/unit/test_redis.c; and each of these costs a pause of 250 ms.
RAW = [b"*1000000000\r\n...", b"$536870912\r\nabc..."]


# Their elements are all of one type, which matters; of others, an element may be missing, or be a length.
EVEN = {"BITFIELD", "BITFIELD_RO", "BF.MEXISTS", "BF.INSERT"}


def variants(target, value):
    """Answers that differ from a true one in one place; and whether they are of another form."""
    kind, data = value
    if kind == b"*" and data:
        yield (kind, data[:-1]), True
        yield (kind, data + data[-1:]), target != "BF.INSERT"
        for wrong in NIL, array(), integer(-1), text(b"1x"), (b"-", b"ERR no"):
            yield (kind, [wrong] + data[1:]), target in EVEN and wrong[0] != b":"
            yield (kind, data[:-1] + [wrong]), target in EVEN and wrong[0] != b":"
    elif kind == b"$" and data:
        for wrong in data[:-1], data + b"\xff", b"\0" * len(data), b"\xff" * len(data):
            yield (kind, wrong), False


def wrong_answers(target, value):
    """Pairs: the bytes, and whether the answer is of the wrong type or form."""
    for wrong in ANY:
        if wrong != value:
            yield encode(wrong), wrong[0] != value[0] or wrong[1] is None
    for wrong, typed in variants(target, value):
        yield encode(wrong), typed
    for wrong in RAW:
        yield wrong, True


# ---- Running seen

def seen(*words):
    """Exit status, stdout, lines of stderr."""
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    process = subprocess.Popen(["seen", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    clock = threading.Timer(SECONDS, process.kill)
    clock.start()
    _, status, usage = os.wait4(process.pid, 0)
    clock.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if not SANITIZER and usage.ru_maxrss > KIBIBYTES:
        process.returncode = f"{usage.ru_maxrss} KiB"
    for f in out, err:
        f.seek(0)
    return process.returncode, out.read(), err.read().decode().splitlines()


failures = tried = 0


def judge(what, wrong, typed, ended, before, free, reason=""):
    """`free`: the answer does not matter, so the command must end as before. `reason`: what a message has."""
    global failures, tried
    tried += 1
    status, out, err = ended
    if status == 2:
        fine = len(err) == 1 and err[0].startswith("seen: ") and reason in err[0] and before[1].startswith(out)
    else:
        fine = status in (0, 1) and (ended[:2] == before[:2] if free else not typed)
    if not fine:
        failures += 1
        print(f"{what}: {wrong[:60]!r}: {status}, {out[:60]!r}, {err[:3]}")


# Answers that do not matter: whether the server is well, will do something, or deletes a temporary key.
FREE = {"CLUSTER", "UNLINK", "QUEUED"}
# What has been made is looked at again, and temporary keys before they get their name.
MADE = FREE | {f"EXEC {i}" for i in range(6)}


def stops(asked):
    """The numbers of commands that get no answer: of few with one name all, of many the first and the last."""
    for word in set(asked):
        places = [at for at, other in enumerate(asked) if other == word]
        yield from places if len(places) <= 6 else (places[0], places[-1])


def gone(what, between, prepare, words, free=FREE):
    """Runs a command with no answer from some command on, or with one error. Returns how it ends else."""
    between.target, between.asked, between.words = None, {}, []
    prepare()
    before = seen(*words)
    assert before[0] in (0, 1), (words, before)
    asked = between.words
    for stop in sorted(stops(asked)):
        is_free = asked[stop] in free
        for once, reason in (None, " lost: "), (b"-ERR no\r\n", "ERR no"):
            prepare()
            between.words, between.stop, between.once = [], stop, once
            ended = seen(words[0], "--timeout", "0.1", *words[1:])
            judge(f"{what}: {stop}, {asked[stop]}", once or b"", not is_free, ended, before, is_free, reason)
    between.stop = None
    return before


def every(what, between, prepare, words, free=FREE):
    """Runs a command with each wrong answer, too."""
    before = gone(what, between, prepare, words, free)
    count = 0
    for target, value in list(between.asked.items()):
        for wrong, typed in wrong_answers(target, value):
            count += 1
            if count % 7 and not FULL:
                continue
            prepare()
            between.target, between.lie = target, wrong
            ended = seen(*words)
            judge(f"{what}: {target}", wrong, typed, ended, before, target in free)
            between.target = None


def again(between, word, errors, words):
    """The first command of that name is refused by each of these errors once: it is sent again."""
    global failures, tried
    between.words = []
    before = seen(*words)
    stop = between.words.index(word)
    for error in errors:
        between.words, between.stop, between.once = [], stop, encode((b"-", error))
        ended = seen(*words)
        tried += 1
        if ended != before:
            failures += 1
            print(f"{words}: {error}: {ended}")
    between.stop = None


def wrong(between, lie, message, *words, true=0):
    """The lie is (target, wrong answer). It comes after `true` true answers, and ends the command. `message` is how
    the message ends."""
    global failures, tried
    tried += 1
    between.n.clear()
    between.target, between.lie, between.true = lie[0], encode(lie[1]), true
    status, out, err = seen(*words)
    between.target, between.true = None, 0
    if status != 2 or out or len(err) != 1 or not err[0].endswith(message):
        failures += 1
        print(f"{words}: {str(lie)[:99]}: {status}, {out[:60]!r}, {err[:3]}")


# ---- What runs

SERVER, PART = sys.argv[1:3]
KEYS = f"{HERE}/keys"
BETWEEN = f"{os.path.dirname(SERVER)}/between"  # HERE may be longer than the 107 bytes of a socket's name
LAYOUTS = {"gozero:bits=2000": (), "redisson": ("size", 2000, "hashIterations", 3, "expectedInsertions", 200,
                                              "falseProbability", "0.1"), "gozero:bits=2000&shards=3": ()}

def listen(family=socket.AF_UNIX, address=BETWEEN):
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen()
    return Between(SERVER, listener)


def uri(spec):
    return f"redis+unix://{BETWEEN}?key=k&layout={spec}"


def bitmaps():
    between = listen()
    foreign = f"{HERE}/f.seen"
    for spec, config in LAYOUTS.items():
        def there():
            send(SERVER, "FLUSHALL")
            for key in ["k:{%d}" % i for i in range(3)] if "shards" in spec else ["k"]:
                send(SERVER, "SETRANGE", key, 0, b"\x11" * 250)
            if config:
                send(SERVER, "HSET", "{k}:config", *config)

        def absent():
            send(SERVER, "FLUSHALL")

        for command in "query", "add", "dedup", "stats":
            every(f"{command} {spec}", between, there, [command, uri(spec), *([] if command == "stats" else [KEYS])])
        every(f"query --verbose {spec}", between, there, ["query", "--verbose", "-c", uri(spec), KEYS])
        every(f"add --create {spec}", between, absent,
              ["add", "--create", "-n", "200", "-p", "0.1", uri(spec), KEYS], MADE)
        if "shards" in spec:
            continue
        there()
        unexpected = "the server's answer is of an unexpected type"
        os.environ["REDISCLI_AUTH"] = "x"
        wrong(between, ("AUTH", (b"-", b"ERR no")), "the server says 'ERR no'", "query", uri(spec), KEYS)
        del os.environ["REDISCLI_AUTH"]
        wrong(between, ("BITCOUNT", text(b"x")),
              f"the false-positive rate of '{uri(spec)}' is unknown: cannot use '{uri(spec)}': the server's answer is "
              "of an unexpected type", "query", "--verbose", uri(spec), KEYS)
        wrong(between, ("WAIT", (b"+", b"OK")), unexpected, "add", "--wait", "1", uri(spec), KEYS)
        plain = "redisson:bits=2000,k=3" if config else spec
        subprocess.run(["seen", "create", "--force", "--layout", plain, foreign, KEYS], check=True,
                       stderr=subprocess.DEVNULL)
        every(f"import {spec}", between, there, ["import", "--force", uri(spec), "-o", f"{HERE}/i.seen"])
        every(f"export {spec}", between, there, ["export", foreign, "-o", uri(spec)], MADE)
        every(f"export --merge {spec}", between, there, ["export", "--merge", foreign, "-o", uri(spec)])
        there()
        wrong(between, ("GETRANGE", text(b"x" * (1 << 21))), unexpected,
              "import", "--force", uri(spec), "-o", f"{HERE}/i.seen")
        if not config:
            # The last byte of a bitmap, and its size, decide whether it is this filter.
            gone("query of a short bitmap", between, there, ["query", uri("gozero:bits=2008"), KEYS])
            wrong(between, ("GETRANGE", integer(1)), unexpected, "query", uri("gozero:bits=1999"), KEYS)
            for word in "BITCOUNT", "STRLEN":
                wrong(between, (word, text(b"x")), unexpected, "query", uri("gozero:bits=4000"), KEYS,
                      true=word == "STRLEN")
            continue
        gone("export --expire", between, absent, ["export", "--expire", "100", foreign, "-o", uri(spec)], MADE)

        def full():
            there()
            subprocess.run(["seen", "add", uri(spec).replace(BETWEEN, SERVER), KEYS], check=True)

        gone("add --max-fpr", between, full, ["add", "--max-fpr", "0.02", uri(spec), KEYS])
        wrong(between, ("HMGET", array()), unexpected, "query", uri(spec), KEYS)
        # Less than a millisecond is not for ever.
        between.target, between.lie = "PTTL", encode(integer(0))
        assert seen("export", foreign, "-o", uri(spec))[0] == 0
        between.target = None
        assert send(SERVER, "PTTL", "k") != integer(-1), "it lives for ever"
        absent()
        wrong(between, ("EXEC", (b"-", b"ERR no")), "the server says 'ERR no'",
              "export", foreign, "-o", uri(spec), true=1)
        assert send(SERVER, "EXISTS", "k") == integer(0), "it got its name before its configuration was there"
        wrong(between, ("PEXPIRE", (b"-", b"ERR no")), "the server says 'ERR no'",
              "export", "--expire", "100", foreign, "-o", uri(spec))


def module():
    between = listen()

    def there():
        send(SERVER, "FLUSHALL")
        send(SERVER, "BF.RESERVE", "k", "0.01", "30")
        send(SERVER, "BF.MADD", "k", *range(40, 75))

    def absent():
        send(SERVER, "FLUSHALL")

    name = uri("redisbloom")
    for command in "query", "add", "dedup", "stats":
        every(command, between, there, [command, name, *([] if command == "stats" else [KEYS])])
    every("add --create", between, absent, ["add", "--create", "-n", "200", name, KEYS], FREE | {"BF.RESERVE"})
    every("import", between, there, ["import", "--force", name, "-o", f"{HERE}/i.seen"])
    there()
    missing = b"-", b"ERR not found"
    for command in ["query", name, KEYS], ["stats", name], ["import", "--force", name, "-o", f"{HERE}/i.seen"]:
        wrong(between, ("BF.SCANDUMP", missing), "the filter was deleted or replaced", *command, true=1)
    # More bytes than the filter has, and none.
    for data in b"x" * 100000, b"":
        wrong(between, ("BF.SCANDUMP", array(integer(9), text(data))), "the filter was deleted or replaced", *command,
              true=2)
    for answer in 2, 3, 4:
        wrong(between, ("BF.SCANDUMP", missing), "the filter was deleted or replaced", *command, true=answer)
    wrong(between, ("BF.SCANDUMP", missing), "there is no key 'k'", "add", name, KEYS, true=1)
    for command in "query", "add":
        wrong(between, ("BF.SCANDUMP", array(integer(1), NIL)), "the server's answer is of an unexpected type",
              command, name, KEYS, true=1)
    subprocess.run(["seen", "import", "--force", name, "-o", f"{HERE}/f.seen"], check=True)
    every("export", between, there, ["export", f"{HERE}/f.seen", "-o", name], MADE)


def valkey():
    between = listen()
    send(SERVER, "BF.RESERVE", "k", "0.01", "30")
    send(SERVER, "BF.MADD", "k", *range(40, 75))
    name = uri("redisbloom")
    gone("query", between, lambda: None, ["query", name, KEYS])
    known = [text(b"Capacity"), integer(30), text(b"Number of filters"), integer(1), text(b"Size"), integer(300)]
    ratio = [text(b"Error rate"), text(b"0.01")]
    for info in known, known + ratio + [text(b"Expansion rate"), integer(2)], known + [ratio[0], integer(1)]:
        for command in ["query", name, KEYS], ["add", name, KEYS], ["stats", name]:
            wrong(between, ("BF.INFO", array(*info)),
                  "the server's Bloom module has neither BF.SCANDUMP nor the error rate in BF.INFO", *command)
    wrong(between, ("BF.INFO", (b"-", b"ERR not found")), "there is no key 'k'", "stats", name, true=1)
    for reason in "object exceeds bloom object memory limit", "bloom object reached max number of filters", \
            "false positive degrades to 0 on scale out":
        wrong(between, ("BF.INSERT", (b"-", f"ERR {reason}".encode())),
              f"'{name}' is full: the server says 'ERR {reason}'", "add", name, KEYS)


with open(KEYS, "w") as f:
    f.writelines(f"{i}\n" for i in range(40))
def cluster():
    """Whatever the map says: a slot whose owner is not understood is asked of any node."""
    between = listen(socket.AF_INET, ("127.0.0.1", 0))
    port = between.listener.getsockname()[1]
    here = array(text(b"127.0.0.1"), integer(port))
    send(SERVER, "FLUSHALL")
    send(SERVER, "SETRANGE", "k", 0, b"\x11" * 250)
    words = ["query", f"redis://127.0.0.1:{port}/k?layout=gozero:bits=2000", KEYS]
    before = seen(*words)
    owners = [
        here, array(text(b""), integer(port)), array(NIL, integer(port)), NIL, array(), array(text(b"127.0.0.1")),
        array(text(b"x"), integer(0)), array(text(b"x"), integer(65536)), array(text(b"x"), integer(-1)),
        array(text(b"x"), integer(2**40)), array(text(b"x"), text(b"7")), array(integer(7), integer(port)),
        array(text(b"h" * 300), integer(port)), text(b"127.0.0.1"), (b"-", b"ERR no"), array(text(b"?"), integer(port)),
    ]
    ranges = [(0, 16383), (16383, 0), (-1, 16383), (0, 16384), (0, 2**63 - 1)]
    maps = [array(array(integer(a), integer(b), owner)) for owner in owners for a, b in ranges]
    maps += [array(), NIL_ARRAY, array(NIL, array(), integer(1), array(integer(0), integer(16383))),
             array(array(integer(0), integer(16383), here, *owners)), array(array(text(b"0"), NIL, here)),
             array(array(integer(0), integer(16383), array(text(b"127.0.0.1\0x"), integer(port)))),
             array(*[array(integer(0), integer(16383), owner) for owner in owners] * 1500),
             # More nodes than a process takes.
             array(array(integer(0), integer(16383), here, *[array(text(b"x"), integer(i + 1)) for i in range(6000)]))]
    for answer in maps:
        between.target, between.lie = "CLUSTER", encode(answer)
        judge("map", between.lie, True, seen(*words), before, True)
    for where in "", " ", " 1", " 1 ", " 1 :", " 1 x", " 1 x:", " 1 x:0", " 1 x:65536", " 1 x:-1", " x:7", " 1 x:7x", \
            " 1 " + "h" * 300 + ":7":
        for word in "MOVED", "ASK":
            between.target, between.lie = "STRLEN", encode((b"-", f"{word}{where}".encode()))
            judge(word, between.lie, True, seen(*words), before, False)
    between.target = None
    again(between, "BITFIELD_RO", [b"BUSY x", b"MASTERDOWN x", b"CLUSTERDOWN x", b"TRYAGAIN x", b"LOADING x"], words)
    # A node whose address differs in nothing but the host; and one that does not know its own, and is told of by a
    # socket.
    elsewhere, local = listen(socket.AF_INET, ("127.0.0.2", port)), listen()
    for asked, host, owner in (between, b"127.0.0.2", elsewhere), (local, b"", between), (local, None, between):
        owner.words = []
        asked.target = "CLUSTER"
        asked.lie = encode(array(array(integer(0), integer(16383), array(text(host), integer(port)))))
        judge("map", asked.lie, True, seen(*words), before, True)
        assert "BITFIELD_RO" in owner.words, host
        between.target, words[1] = None, uri("gozero:bits=2000")
    # The only node goes, with its connection: no other is asked for a map.
    words[1] = f"redis://127.0.0.1:{port}/k?layout=gozero:bits=2000&timeout=0.1"
    between.target, between.lie = "CLUSTER", encode(array(array(integer(0), integer(16383), here)))
    between.words, between.stop, between.once, between.ends = [], 1, None, True
    judge("gone", b"", True, seen(*words), before, False)


{"bitmaps": bitmaps, "module": module, "valkey": valkey, "cluster": cluster}[PART]()
print(f"{tried} runs, {failures} failures")
sys.exit(failures != 0)
