#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tags: slow
"""Faults, injected into each command. Prints TAP.

    faults.py [--all] [SCENARIO]...

Each scenario is a command in a directory of small files. It runs once as it is, under preload.so, which
counts its calls; and then once for each fault: call N fails with an errno that it can fail with, once
or from then on; or it reads or writes one byte; or the process is killed before it. Each time

    exit status 0 (or what the command says otherwise) means that files and output are as without a fault,
    and that no sync and no lock failed; else the status is 2, and one line on standard error names the cause;
    each file is as it was, or as it was to become, or has all the keys that it had, and verify says so;
    what was printed is the beginning of what would have been, and is in the filter if dedup printed it;
    nothing else is left in the directory, but by SIGKILL, and the next command works.

Without --all, each fault is tried once at each place of the program that it can come from, in the first
scenario that gets there; and the first errno of the call once for each way of calls to that place.
"""
import base64
import collections
import errno
import fcntl
import gzip
import hashlib
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from errno import (EACCES, EINTR, EINVAL, EIO, EMFILE, ENOENT, ENOLCK, ENOMEM, ENOSPC, ENOSYS,
                   EOPNOTSUPP, EAGAIN)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEEN = os.environ.get("SEEN", os.path.join(SOURCE, "build", "seen"))
PRELOAD = os.path.join(os.path.dirname(SEEN), "preload.so")
CALL = struct.Struct("=16sQQ")
HEAD = struct.Struct("=QQ")
LOG_SIZE = HEAD.size + 65536 * CALL.size
PATIENCE = 300  # seconds, for what would hang

# What each call may fail with. Those of memory and files that are not here are not made to fail.
MEMORY = {ENOMEM: ("once", "from")}
DISK = {ENOSPC: ("once", "from"), EIO: ("once",)}
ERRORS = {
    "malloc": MEMORY, "calloc": MEMORY, "realloc": MEMORY, "aligned_alloc": MEMORY,
    "posix_memalign": MEMORY, "strdup": MEMORY, "strndup": MEMORY,
    "mmap": MEMORY, "mprotect": MEMORY, "madvise": {EINVAL: ("once",)},
    "open": {EMFILE: ("once", "from"), EACCES: ("once",), EIO: ("once",)},
    "openat": {EMFILE: ("once", "from"), EACCES: ("once",), EOPNOTSUPP: ("once", "from")},
    "mkstemp": {EACCES: ("once",), ENOSPC: ("once",)},
    "fstat": {EIO: ("once",)}, "stat": {EACCES: ("once",)}, "fstatat": {EACCES: ("once",)},
    "fstatfs": {EIO: ("once",)}, "statvfs": {EIO: ("once",)}, "fstatvfs": {EIO: ("once",)},
    "access": {EACCES: ("once",)},
    "fsync": {EIO: ("once", "from")}, "fdatasync": {EIO: ("once",)},
    "sync_file_range": {EIO: ("once",), ENOSYS: ("from",)},
    "ftruncate": DISK, "fallocate": DISK | {EOPNOTSUPP: ("from",)},
    "write": DISK | {EINTR: ("once",)}, "pwritev": DISK | {EINTR: ("once",)},
    "read": {EIO: ("once",), EINTR: ("once",)}, "pread": {EIO: ("once",), EINTR: ("once",)},
    "lock": {ENOLCK: ("once", "from"), EINTR: ("once",)}, "fcntl": {ENOLCK: ("once", "from"), EINTR: ("once",)},
    "fchmod": {EIO: ("once",)}, "fchown": {EIO: ("once",)},
    "dup2": {EMFILE: ("once",)}, "lseek": {EIO: ("once",)}, "readlink": {EACCES: ("once",)},
    "renameat": {EIO: ("once",)}, "renameat2": {EIO: ("once",), EINVAL: ("from",)},
    "linkat": {EIO: ("once",), ENOENT: ("from",)}, "unlink": {EIO: ("once",)}, "unlinkat": {EIO: ("once",)},
    "getrandom": {ENOSYS: ("once",)}, "pthread_create": {EAGAIN: ("once", "from")}, "close": {EIO: ("once",)},
}
# What may be said instead of the errno's own words.
OWN_WORDS = re.compile("|".join((
    "out of memory", "no memory", "the address space is full", "random numbers", "bytes are needed",
    "or the disk failed",
    "No such file or directory$",  # the error before, when the file cannot be made
)))
MAY_BE_SHORT = {"read", "pread", "write", "pwritev"}

OLD = ["old%d" % i for i in range(300)]
NEW = ["new%d" % i for i in range(300)]


def lines(keys):
    return "".join(key + "\n" for key in keys).encode()


HASHES = b"".join(hashlib.sha1(key.encode()).hexdigest().encode() + b"\n" for key in NEW)
F_SETPIPE_SZ = 1031
# The first record is longer than a chunk, and what follows it than the bytes that tell a list of keys.
WIDE = b"w" * 600000 + b",key,rest\n" + lines(f"1,{key}," + 500 * "r" for key in NEW)
TABLE = b"id,key\n" + b"".join(b"1,%s\n" % key.encode() for key in NEW)


class Scenario:
    """make: commands that make the files, as words. run: the command. kept: keys that are in a file
    after whatever happens; then: keys that are in it after success. every: try each fault, as with --all.
    flip: the offset of a byte of f that is damaged before. needless: syncs and locks, by number, whose failure
    does no harm. files: more of them, by name."""

    def __init__(self, name, run, make=(), stdin=None, status=0, kept=None, then=None, ordered=False, printed=None,
                 lacks=False, every=False, flip=None, needless=(), files=()):
        self.name, self.run, self.make, self.stdin, self.status = name, run.split(), make, stdin, status
        self.kept, self.then = kept or {}, then or {}
        self.ordered, self.printed, self.lacks, self.every, self.flip = ordered, printed, lacks, every, flip
        self.needless, self.files = needless, dict(files)


LAYOUTS = ["guava", "dcso", "gozero", "redisson", "redisbloom"]


def scenarios():
    f = ["create -n 1000 f old"]
    both = OLD + NEW
    for kind, options in {"bloom": "-n 1000", "unsized": "", "compact": "--compact", "counted": "--counted",
                          "growing": "--grow -n 100", "generations": "--generations 2 -n 1000",
                          "foldable": "--foldable -n 100k", "few-threads": "-j2 -n 1000",
                          "digest": "--digest sha1"}.items():
        yield Scenario("create " + kind, f"create {options} g new", then={"g": NEW})
    for layout in LAYOUTS:
        yield Scenario(f"create {layout}", f"create --layout {layout} -n 1000 -p 0.01 g new", then={"g": NEW})
    yield Scenario("create, old system", "create -n 1000 g new", then={"g": NEW}, lacks=True)
    yield Scenario("create --force, old system", "create --force f new", f, then={"f": NEW}, lacks=True)
    yield Scenario("create from a pipe", "create g", stdin=lines(NEW), then={"g": NEW})
    yield Scenario("create from gzip", "create g new.gz", then={"g": NEW})
    yield Scenario("create from gzip in a pipe", "create g", stdin=gzip.compress(lines(NEW), mtime=0), then={"g": NEW})
    yield Scenario("create --header", "create --header 1 -d , -f 2 g table", then={"g": NEW})
    yield Scenario("create --csv", "create --csv -f key,id g", stdin=TABLE, then={"g": [key + ",1" for key in NEW]})
    yield Scenario("create --jsonl", "create --jsonl -f . g", stdin=lines(map(str, range(300))),
                   then={"g": [str(i) for i in range(300)]})
    yield Scenario("create --like", "create --like f g new", f, then={"g": NEW})
    yield Scenario("create --force", "create --force f new", f, then={"f": NEW})
    yield Scenario("create --new-secret", "create --secret s --new-secret g new", then={"g": NEW},
                   needless={("fsync", 2)})  # the directory is synced once more
    exact = ["create --counted -p 0 f old"]
    yield Scenario("create --from", "create --from f g", exact, then={"g": OLD})
    yield Scenario("create --from --force", "create --force --from f f", exact, then={"f": OLD})
    yield Scenario("create --empty", "create --empty -n 1000 g", then={"g": []})
    yield Scenario("create --dry-run", "create --dry-run --json g new")
    yield Scenario("create --json", "create --json -p 0.01 g new", then={"g": NEW})
    yield Scenario("create --forget-after", "create --forget-after 30d -n 9000 g new", then={"g": NEW})
    yield Scenario("create --min-ratio", "create --min-ratio 0.5 --force f new", f, then={"f": NEW})
    yield Scenario("create --digest", "create --digest ntlm g new", then={"g": NEW})
    yield Scenario("create --input-digests", "create --digest sha1 --input-digests g hashes", then={"g": NEW})
    yield Scenario("create --hex", "create --hex g hashes")
    yield Scenario("create -i -w", "create -i --trim -w -f 1 --comments g new", then={"g": NEW})
    yield Scenario("create -k", "create -k a -k b g", then={"g": ["a", "b"]})
    yield Scenario("create, threads", "create -j4 --memory 64M --tmpdir . --compact g new", then={"g": NEW})
    yield Scenario("create --reproducible", "create --reproducible --compact g new", then={"g": NEW})
    yield Scenario("add", "add f new", f, kept={"f": OLD}, then={"f": both})
    yield Scenario("add from a pipe", "add f", f, lines(NEW), kept={"f": OLD}, then={"f": both})
    yield Scenario("add, growing", "add f new", ["create --grow -n 100 f old"], kept={"f": OLD}, then={"f": both})
    yield Scenario("add, counted", "add f new", ["create --counted -n 1000 f old"], kept={"f": OLD}, then={"f": both})
    many = ["many%d" % i for i in range(20000)]
    yield Scenario("add, counted, one of many", "add f -k one", ["create --counted f many"], kept={"f": many},
                   then={"f": many + ["one"]}, files={"many": lines(many)})
    yield Scenario("add --create", "add --create -n 1000 g new", kept={"g": []}, then={"g": NEW},
                   needless={("fsync", 2)})  # the first change syncs the directory again
    yield Scenario("add, rotating", "add --rotate-at-capacity f new", ["create --generations 3 -n 1000 f old"],
                   kept={"f": OLD}, then={"f": both})
    # One rotation, whatever fails: a second one would forget the old keys.
    yield Scenario("dedup, rotating", "dedup --rotate-at-capacity f new", ["create --generations 1 -n 310 f old"],
                   kept={"f": OLD}, then={"f": both}, ordered=True, printed="f", every=True)
    yield Scenario("add --batch-id", "add --batch-id b1 f new", ["create --counted -n 1000 f old"], kept={"f": OLD},
                   then={"f": both})
    yield Scenario("add --once", "add --once f both", ["create --counted --once -n 1000 f old"], kept={"f": OLD},
                   then={"f": both})
    yield Scenario("add, forgetting", "add f new", ["create --forget-after 30d -n 9000 f old"], kept={"f": OLD},
                   then={"f": both})
    yield Scenario("add --max-fpr", "add --max-fpr 0.1 f new", f, kept={"f": OLD}, then={"f": both})
    yield Scenario("add --no-sync", "add --no-sync f new", f, kept={"f": OLD}, then={"f": both})
    yield Scenario("add --create, growing", "add --create g new", kept={"g": []}, then={"g": NEW},
                   needless={("fsync", 2), ("lock", 8), ("lock", 9)})
    yield Scenario("add --create, forgetting", "add --create --forget-after 1d -n 9000 g new", kept={"g": []},
                   then={"g": NEW}, needless={("fsync", 2)})
    yield Scenario("add --skip-bad", "add --skip-bad --csv -f key f table", f, kept={"f": OLD}, then={"f": both})
    for layout in LAYOUTS:
        yield Scenario(f"add {layout}", "add f new", [f"create --layout {layout} -n 1000 -p 0.001 f old"],
                       kept={"f": OLD}, then={"f": both})
    ask = dict(ordered=True)
    yield Scenario("query", "query f both", f, **ask)
    yield Scenario("query -v", "query -v f", f, lines(both), **ask)
    yield Scenario("query gzip", "query f new.gz", f, status=1, **ask)
    yield Scenario("query compact", "query f both", ["create --compact f old"], **ask)
    yield Scenario("query counted", "query --show-counts f both", ["create --counted f old"], **ask)
    yield Scenario("query --annotate", "query --annotate f both", f, **ask)
    yield Scenario("query --confirm", "query --confirm sorted f both", ["create f both"], **ask)
    yield Scenario("query --header", "query --header 1 -d , -f 2 f table", f, status=1, **ask)
    yield Scenario("query --header from a pipe", "query -vc --header 1 -d , -f 2 f", f, WIDE)
    yield Scenario("query --csv from a pipe", "query -v --csv -f key f", f, WIDE, **ask)
    yield Scenario("query from a pipe, a long record", "query -v -d , -f 2 f", f, WIDE, **ask)
    yield Scenario("query, a long record", "query -v -d , -f 2 f wide", f, files={"wide": WIDE}, **ask)
    yield Scenario("query --csv", "query --csv -f key f table", f, status=1, **ask)
    yield Scenario("query --secret", "query --secret s f both", ["create --secret s --new-secret f old"], **ask)
    yield Scenario("query --list", "query --list old both", **ask)
    yield Scenario("query --also", "query --which --also g f both", f + ["create g new"], **ask)
    yield Scenario("query --at-least", "query --at-least 1 f both", ["create --counted -n 1000 f old"], **ask)
    yield Scenario("query -l", "query -l f old new both", f, **ask)
    yield Scenario("query -L", "query -L f old new", f, **ask)
    yield Scenario("query -c", "query -c f old both", f, **ask)
    yield Scenario("query -m", "query -m 3 -n f both", f, **ask)
    yield Scenario("query -k", "query -k old1 -k new1 f", f, **ask)
    yield Scenario("query --jsonl", "query --jsonl -f . f", ["create f both"], b'"old1"\n"absent"\n', **ask)
    yield Scenario("query --csv --annotate", "query --csv -f key --annotate f table", ["create f both"], **ask)
    yield Scenario("query --digest", "query f both", ["create --digest sha256 f old"], **ask)
    yield Scenario("query --input-digests", "query --input-digests f hashes", ["create --digest sha1 f new"], **ask)
    yield Scenario("query --list --digest", "query --list hashes --digest sha1 --input-digests hashes", **ask)
    yield Scenario("query -j", "query -j4 f both", f, **ask)
    yield Scenario("query, layers", "query f both", ["create --grow -n 50 f old"], **ask)
    yield Scenario("query counted, twice", "query --show-counts f both", ["create --counted -n 1000 f old old"], **ask)
    yield Scenario("query guava", "query f both", ["create --layout guava -n 1000 f old"], **ask)
    yield Scenario("dedup", "dedup", stdin=lines(both + both), **ask)
    yield Scenario("dedup FILTER", "dedup f both", f, kept={"f": OLD}, then={"f": both}, printed="f", **ask)
    yield Scenario("dedup --create", "dedup --create -p 0.001 g both", kept={"g": []}, then={"g": both}, printed="g",
                   needless={("fsync", 2), ("lock", 8), ("lock", 9)}, **ask)  # the locks: it is not made again to size
    yield Scenario("dedup, growing", "dedup f", ["create --grow -n 100 f old"], lines(both), kept={"f": OLD},
                   then={"f": both}, printed="f", **ask)
    yield Scenario("dedup redisbloom", "dedup f both", ["create --layout redisbloom -n 1000 f old"],
                   kept={"f": OLD}, then={"f": both}, printed="f", **ask)
    yield Scenario("dedup --also", "dedup --also h f both", f + ["create h new"], kept={"f": OLD}, then={"f": OLD},
                   **ask)
    yield Scenario("dedup -v", "dedup -v f both", f, kept={"f": OLD}, then={"f": both}, **ask)
    yield Scenario("dedup -c", "dedup -c f both", f, kept={"f": OLD}, then={"f": both}, **ask)
    yield Scenario("dedup --csv", "dedup --csv -f key --annotate f table", f, kept={"f": OLD}, then={"f": both}, **ask)
    yield Scenario("dedup --csv, memory", "dedup --csv -f key --annotate table", **ask)
    yield Scenario("dedup --jsonl", "dedup --jsonl -f .", stdin=b"1\n2\n1\n", **ask)
    yield Scenario("dedup --sync-every", "dedup --sync-every 10 f both", f, kept={"f": OLD}, then={"f": both},
                   printed="f", **ask)
    yield Scenario("dedup --keep-bad", "dedup --keep-bad -x both", **ask)
    yield Scenario("dedup, forgetting", "dedup f both", ["create --forget-after 30d -n 9000 f old"], kept={"f": OLD},
                   then={"f": both}, printed="f", **ask)
    yield Scenario("dedup --create, fixed", "dedup --create --fixed -n 1000 g both", kept={"g": []}, then={"g": both},
                   printed="g", needless={("fsync", 2)}, **ask)
    yield Scenario("dedup, two inputs", "dedup f old new both", f, kept={"f": OLD}, then={"f": both}, printed="f",
                   **ask)
    counted = ["create --counted -n 1000 f both"]
    yield Scenario("remove --all", "remove --all f new", counted, kept={"f": OLD}, then={"f": OLD})
    yield Scenario("remove -k", "remove -k new1 f", counted, kept={"f": OLD}, then={"f": OLD})
    yield Scenario("remove", "remove f new", counted, kept={"f": OLD}, then={"f": OLD})
    yield Scenario("remove --batch-id", "remove --batch-id b1 f new", counted, kept={"f": OLD}, then={"f": OLD})
    yield Scenario("remove --skip-absent", "remove --skip-absent f both", ["create --counted -n 1000 f both old"],
                   kept={"f": OLD}, then={"f": OLD})
    for name, make in {"bloom": f, "compact": ["create --compact f old"], "counted": counted,
                       "growing": ["create --grow -n 50 f old"]}.items():
        yield Scenario(f"stats {name}", "stats --json f", make)
        yield Scenario(f"verify {name}", "verify f", make, kept={"f": OLD})
    yield Scenario("verify --repair, a header", "verify --repair f", f, kept={"f": OLD}, then={"f": OLD}, flip=100)
    yield Scenario("verify --repair, a page", "verify --repair f", ["create -n 40000 f old"], kept={"f": OLD},
                   then={"f": OLD}, flip=40000)
    yield Scenario("stats --prometheus", "stats --prometheus f", f)
    yield Scenario("stats", "stats f h", f + ["create --counted -n 1000 h new"])
    yield Scenario("stats --all", "stats --all f", ["create --grow -n 50 f old"])
    yield Scenario("stats guava", "stats --json f", ["create --layout guava -n 1000 f old"])
    yield Scenario("verify, two", "verify f h", f + ["create -n 1000 h new"], kept={"f": OLD})
    yield Scenario("plan", "plan --json -n 1000")
    ring = ["create --generations 2 -n 1000 f old"]
    yield Scenario("rotate", "rotate f", ring, kept={"f": OLD}, then={"f": OLD})
    fold = ["create --foldable -n 100k f old"]
    yield Scenario("shrink", "shrink f", fold, kept={"f": OLD}, then={"f": OLD})
    yield Scenario("shrink -o", "shrink -o g f", fold, kept={"f": OLD}, then={"g": OLD})
    two = f + ["create -n 1000 h new"]
    yield Scenario("merge", "merge -o g f h", two, kept={"f": OLD, "h": NEW}, then={"g": both})
    yield Scenario("merge onto one", "merge --force -o f f h", two, kept={"f": OLD, "h": NEW}, then={"f": both})
    yield Scenario("merge --intersect", "merge --intersect -o g f h", f + ["create -n 1000 h both"], then={"g": OLD})
    compact = ["create --compact f old", "create --compact h new"]
    yield Scenario("merge, compact", "merge -o g f h", compact, then={"g": both})
    counted_two = ["create --counted -n 1000 f both", "create --counted -n 1000 h new"]
    yield Scenario("merge, counted", "merge -o g f h", counted_two, then={"g": both})
    yield Scenario("merge, layers", "merge -o g f h", f + ["create --grow -n 100 h new"], then={"g": both})
    yield Scenario("shrink, compact", "shrink -p 0.1 -o g f", compact, then={"g": OLD})
    yield Scenario("merge --subtract", "merge --subtract -o g f h", counted_two, then={"g": OLD})
    yield Scenario("merge --max", "merge --max -o g f h", counted_two, then={"g": both})
    exact = ["create --counted -p 0 f both", "create --counted -p 0 h new"]
    yield Scenario("merge --distinct", "merge --distinct -o g f h", exact, then={"g": both})
    yield Scenario("merge --except", "merge --except -o g f h", exact, then={"g": OLD})
    yield Scenario("merge --json", "merge --json --max-fpr 0.1 -o g f h", two, then={"g": both})
    yield Scenario("merge --json, a sample", "merge --json -o g f h", ["create --layout redisson -n 1000 -p 0.01 f old",
                   "create --layout redisson -n 1000 -p 0.01 h new"], then={"g": both})
    yield Scenario("merge, generations", "merge -o g f h", [one + " old" for one in
                   ("create --generations 2 -n 1000 f", "create --generations 2 -n 1000 h")], then={"g": OLD})
    yield Scenario("merge guava", "merge -o g f h", ["create --layout guava -n 1000 f old",
                   "create --layout guava -n 1000 h new"], then={"g": both})
    yield Scenario("merge files of guava", "merge --layout guava -o g f h", ["create --layout guava -n 1000 a old",
                   "create --layout guava -n 1000 b new", "export a -o f", "export b -o h"], then={"g": both})
    yield Scenario("compare", "compare --json f h", two)
    yield Scenario("compare counted", "compare f h", counted_two)
    yield Scenario("shrink --fpr", "shrink --fpr 0.1 f", fold, kept={"f": OLD}, then={"f": OLD})
    yield Scenario("shrink, counted", "shrink --fpr 0.1 -o g f", ["create --counted -p 0.001 f old"], then={"g": OLD})
    yield Scenario("rotate --now", "rotate --now f", ["create --forget-after 30d -n 9000 f old"], kept={"f": OLD},
                   then={"f": OLD})
    yield Scenario("import --base64", "import --base64 --layout gozero:bits=20000 text -o g", then={"g": []},
                   files={"text": base64.b64encode(bytes(range(250)) * 10)})
    for layout in ("guava", "dcso", "gozero", "redisbloom", "spark", "bitsandblooms:json=yes", "dcso:gzip=yes"):
        spec, size = ("gozero:bits=20000", "") if layout == "gozero" else (layout, "-n 1000 -p 0.01")
        if layout == "dcso:gzip=yes":  # too large for memory when it is inflated
            size = "-n 60k -p 0.01"
        make = [f"create --layout {spec} {size} f old"]
        yield Scenario(f"export {layout}", "export f -o x", make)
        yield Scenario(f"import {layout}", f"import --layout {spec} x -o g", make + ["export f -o x"], then={"g": OLD})
        if layout in ("guava", "dcso", "bitsandblooms:json=yes"):  # larger than what is written at once
            yield Scenario(f"export {layout}, large", "export f -o x", [f"create --layout {spec} -n 200k f old"])
        yield Scenario(f"query a file of {layout}", f"query --layout {spec} x both", make + ["export f -o x"], **ask)


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


class Injector:
    def __init__(self, top):
        self.top = top
        self.log = os.path.join(top, "log")
        with open(self.log, "wb") as file:
            file.truncate(LOG_SIZE)
        with open(self.log, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), LOG_SIZE)
        self.out, self.err = os.path.join(top, "out"), os.path.join(top, "err")
        self.environ = dict(os.environ, LC_ALL="C.UTF-8", TMPDIR=".", INJECT_LOG=self.log)
        self.environ.pop("INJECT", None)

    def run(self, words, cwd, stdin=None, fault=None, preload=True, lacks=False):
        env = dict(self.environ)
        if preload:
            env["LD_PRELOAD"] = PRELOAD
            self.map[:HEAD.size] = bytes(HEAD.size)
        if fault:
            env["INJECT"] = fault
        if lacks:
            env["INJECT_LACKS"] = "1"
        given = subprocess.DEVNULL
        if stdin is not None:
            given, writer = os.pipe()
            fcntl.fcntl(writer, F_SETPIPE_SZ, 1 << 20)
            os.write(writer, stdin)  # less than the pipe holds
            os.close(writer)
        with open(self.out, "w+b") as out, open(self.err, "w+b") as err:
            process = subprocess.Popen([SEEN, *words], cwd=cwd, stdin=given, stdout=out, stderr=err, env=env)
            if stdin is not None:
                os.close(given)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return Result("hangs", b"", b"")
            out.seek(0)
            err.seek(0)
            return Result(process.returncode, out.read(), err.read())

    def calls(self):
        n, _ = HEAD.unpack_from(self.map)
        found = []
        for i in range(min(n, 65536)):
            name, site, stack = CALL.unpack_from(self.map, HEAD.size + i * CALL.size)
            found.append((name.rstrip(b"\0").decode(), site, stack))
        return found

    def done(self):
        return HEAD.unpack_from(self.map)[1]


def files(where):
    found = {}
    for name in os.listdir(where):
        with open(os.path.join(where, name), "rb") as file:
            found[name] = file.read()
    return found


class Trial:
    """One scenario, its files as they were and are to become."""

    def __init__(self, injector, scenario):
        self.injector, self.scenario = injector, scenario
        self.dir = os.path.join(injector.top, "dir")
        os.mkdir(self.dir)
        for name, content in {"old": lines(OLD), "new": lines(NEW), "both": lines(OLD + NEW),
                              "sorted": lines(sorted(OLD)), "new.gz": gzip.compress(lines(NEW), mtime=0),
                              "table": TABLE, "hashes": HASHES, **scenario.files}.items():
            with open(os.path.join(self.dir, name), "wb") as file:
                file.write(content)
        for words in scenario.make:
            made = injector.run(words.split(), self.dir)
            assert made.status == 0, (scenario.name, words, made.err)
        if scenario.flip is not None:
            with open(os.path.join(self.dir, "f"), "r+b") as file:
                byte = os.pread(file.fileno(), 1, scenario.flip)
                os.pwrite(file.fileno(), bytes([byte[0] ^ 16]), scenario.flip)
        self.before = files(self.dir)
        self.changed = set()
        self.reference = injector.run(scenario.run, self.dir, scenario.stdin, lacks=scenario.lacks)
        assert self.reference.status == scenario.status, (scenario.name, self.reference.status, self.reference.err)
        self.calls = injector.calls()
        self.after = files(self.dir)
        self.restore()

    def restore(self):
        for name, content in files(self.dir).items():
            if content != self.before.get(name):
                os.unlink(os.path.join(self.dir, name))
        for name, content in self.before.items():
            path = os.path.join(self.dir, name)
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.write(content)

    def seen(self, *words):
        return self.injector.run(words, self.dir, preload=False)

    def has(self, name, keys):
        """What is wrong with the file, if it is to have these keys."""
        verified = self.seen("verify", name)
        if verified.status != 0 and (self.scenario.flip is not None or b"--repair" in verified.err + verified.out):
            verified = self.seen("verify", "--repair", name)
        if verified.status != 0:
            return f"verify: {verified.err.decode()}"
        with open(os.path.join(self.dir, "asked"), "wb") as file:
            file.write(lines(keys))
        secret = ["--secret", "s"] if os.path.exists(os.path.join(self.dir, "s")) else []
        counted = self.seen("query", "-c", *secret, name, "asked")
        os.unlink(os.path.join(self.dir, "asked"))
        if counted.out.strip() != b"%d" % len(keys) and keys:
            return f"{name} has {counted.out} of {len(keys)} keys: {counted.err.decode()}"
        return None

    def wrong_message(self, err, call, error):
        text = err.decode("utf-8", "backslashreplace")
        told = text.splitlines()
        if len(told) > 1 and re.search(r"(were not printed|Try 'seen .*)$", told[-1]):
            told.pop()
        if len(told) != 1 or not re.match(r"seen: .", told[0]):
            return f"not one line: {text!r}"
        if "Success" in text or told[0].rstrip().endswith(":"):
            return f"no cause: {text!r}"
        # A file in use that cannot be looked at counts as another.
        counts = call == "fstat" and re.search(r"(overwritten|replaced|sorted' is not)", told[0])
        if not counts and os.strerror(error) not in text and not OWN_WORDS.search(told[0]):
            return f"another cause: {text!r}"
        return None

    def judge(self, result, n, call, how, error):
        """What is wrong, or None."""
        scenario, killed = self.scenario, result.status == -signal.SIGKILL and how == "kill"
        good = result.status == self.reference.status
        if not good and not killed and result.status != 2:
            return f"status {result.status}: {result.err.decode()!r}"
        if not good and how == "short":
            return f"a short transfer: {result.err.decode()!r}"
        needless = how == "once" and (call, n) in scenario.needless
        if good and call in ("fsync", "fdatasync") and not needless:
            return "the sync failed, and the status is that of success"
        if good and call == "lock" and error == ENOLCK and not needless:
            return "a lock is missing, and the status is that of success"
        if good and result.out != self.reference.out:
            return f"status {result.status}, but other output: {result.out[-200:]!r}, {result.err!r}"
        if scenario.ordered and not self.reference.out.startswith(result.out):
            return f"other output: {result.out[-200:]!r}"
        if not good and not killed:
            wrong = self.wrong_message(result.err, call, error)
            if wrong:
                return wrong
        now = files(self.dir)
        for name in sorted({*now, *self.before, *(self.after if good else ())}):
            content = now.get(name)
            if content is None and (name in self.before or good):
                return f"{name} is gone"
            if content == self.after.get(name) or (content == self.before.get(name) and not good):
                continue
            if name not in self.before and name not in self.after:
                if name.startswith(".") and (killed or call in ("unlink", "unlinkat")):
                    continue
                return f"{name} is left behind"
            wanted = scenario.then.get(name) if good else scenario.kept.get(name)
            if wanted is None:
                return f"{name} is neither old nor new"
            wrong = self.has(name, wanted)
            if wrong:
                return wrong
        if scenario.printed is not None and result.out and not good:
            wrong = self.has(scenario.printed, result.out.decode().splitlines())
            if wrong:
                return "printed, but " + wrong
        if killed:
            for name in scenario.kept.keys() & now.keys():
                wrong = self.has(name, scenario.kept[name])
                if wrong:
                    return "afterwards: " + wrong
        return None

    def try_fault(self, n, call, error, how):
        what = how if error == 0 else errno.errorcode[error] + {"once": "", "from": ":from"}[how]
        result = self.injector.run(self.scenario.run, self.dir, self.scenario.stdin, f"{call}:{n}:{what}",
                                   lacks=self.scenario.lacks)
        if not self.injector.done():
            self.restore()
            return None, False
        wrong = self.judge(result, n, call, how, error)
        self.restore()
        if wrong is None:
            return None, True
        return f"call {n}, {call}, {how} {os.strerror(error)}: {wrong}", True


def main():
    words = sys.argv[1:]
    everything = "--all" in words
    wanted = [w for w in words if w != "--all"]
    top = tempfile.mkdtemp(prefix="faults.")
    tried, points, failed, tests = set(), 0, 0, 0
    try:
        for scenario in scenarios():
            if wanted and scenario.name not in wanted:
                continue
            injector = Injector(top)
            shutil.rmtree(os.path.join(top, "dir"), ignore_errors=True)
            trial = Trial(injector, scenario)
            wrong, here, made = [], 0, collections.Counter()
            for call, site, stack in trial.calls:
                made[call] += 1
                faults = [(e, how) for e, hows in ERRORS.get(call, {}).items() for how in hows]
                first = faults[:1]
                faults += [(0, "short")] if call in MAY_BE_SHORT else []
                faults += [(0, "kill")] if not call.endswith("alloc") else []
                for error, how in faults:
                    # All kinds of filters write through one place, from which each write is tried once.
                    each = call == "pwritev" and error == ENOSPC and how == "once"
                    point = (call, site, error, how, (scenario.name, made[call]) if each else None)
                    caller = (call, stack) if (error, how) in first else point
                    if not (everything or scenario.every) and point in tried and caller in tried:
                        continue
                    tried |= {point, caller}
                    said, hit = trial.try_fault(made[call], call, error, how)
                    here += hit
                    if said:
                        wrong.append(said)
            tests += 1
            points += here
            for said in wrong:
                print(f"# {said}")
            failed += bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {tests} - {scenario.name}: {here} faults", flush=True)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f"1..{tests}")
    print(f"# {points} faults were injected")
    sys.exit(failed != 0)


main()
