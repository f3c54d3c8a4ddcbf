# SPDX-License-Identifier: MIT
"""A list of stolen passwords, from its digests to answers: a part of bench.py.

The large list, of BENCH_DIGESTS digests, is generated while the filter is made and is never stored.
What it is compared with needs a stored list: of at most BENCH_LIST digests, and so short that 10 GB
of disk stay free. Both sizes are printed.

One lookup is a process that gets one digest. "cold": the file's pages are dropped from the page cache
before each (posix_fadvise); the machine below a virtual one may still have them. Cold lookups in one
process are so few that they touch a tenth of the file's pages at most.
"""

import os
import re
import shlex
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
LINE = 44  # bytes of the list a digest
FREE = 10e9
# A table of blobs in a tree takes 28 bytes a digest; a compact filter 2.5, and its scratch 8.
DISK = LINE + 28 + 2.5 + 8
PAGE = 4096
ASKED = 1000000
ONCE = 21
PREPARED = "--digest sha1 --input-digests -d: -f1"


class Sampler(threading.Thread):
    """The most disk that the regular files under `place` take which a process has open for writing,
    named or not. Looks 50 times a second."""

    def __init__(self, pid, place):
        super().__init__()
        self.pid, self.place, self.most, self.over = pid, place, 0, threading.Event()

    def processes(self):
        yield self.pid
        with open("/proc/%d/task/%d/children" % (self.pid, self.pid), encoding="ascii") as f:
            yield from map(int, f.read().split())

    def run(self):
        while not self.over.wait(0.02):
            try:
                self.most = max(self.most, sum(map(self.disk, self.processes())))
            except OSError:
                pass  # it has ended, or closed the file

    def disk(self, pid):
        files = {}
        for fd in os.listdir("/proc/%d/fd" % pid):
            path = "/proc/%d/fd/%s" % (pid, fd)
            with open("/proc/%d/fdinfo/%s" % (pid, fd), encoding="ascii") as f:
                flags = int(re.search("flags:\\s*([0-7]+)", f.read()).group(1), 8)
            if flags & os.O_ACCMODE and os.readlink(path).startswith(self.place + "/"):
                stat = os.stat(path)
                files[stat.st_ino] = stat.st_blocks * 512
        return sum(files.values())


class Bench:
    def __init__(self, seen, tools, place):
        self.seen, self.tools, self.place = seen, tools, place
        self.results = []

    def run(self, command, statuses=(0,), sample=False):
        """Seconds, peak memory, most disk."""
        clock = [self.tools + "clock", self.tools + "clock.out"]
        process = subprocess.Popen(clock + shlex.split(command), cwd=self.place,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        sampler = Sampler(process.pid, self.place)
        if sample:
            sampler.start()
        status = process.wait()
        sampler.over.set()
        if status not in statuses:
            sys.exit("bench: status %d from: %s" % (status, command))
        with open(self.tools + "clock.out", encoding="ascii") as f:
            seconds, memory, _ = f.read().split()
        return float(seconds), int(memory), sampler.most

    def path(self, name):
        return self.place + "/" + name

    def add(self, job, records, seconds, memory=None, disk=None, written=None, asks=False):
        result = {"job": job, "records": records, "seconds": seconds,
                  "ns_per_record": seconds / records * 1e9,
                  "lookups_per_second": records / seconds if asks else None,
                  "peak_bytes": memory, "disk_bytes": disk,
                  "output_bytes": written and os.path.getsize(self.path(written))}
        self.results.append(result)
        print("%-44s %12s %10.4g %10.4g %10s %9s %9s %9s" % (
            job, format(records, ","), seconds, seconds / records * 1e9,
            format(round(records / seconds), ",") if asks else "", mega(memory), mega(disk),
            mega(result["output_bytes"])))
        sys.stdout.flush()

    def drop(self, name):
        with open(self.path(name), "rb") as f:
            os.fdatasync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def questions(self, n, count, name):
        with open(self.path(name), "wb") as out:
            subprocess.check_call([self.tools + "digests", str(n), str(count)], stdout=out)

    def ask(self, what, file, command, n, statuses=(0, 1)):
        """Single lookups in `file`; command has %s for the digest."""
        self.questions(n, ONCE, "ask-once")
        with open(self.path("ask-once"), encoding="ascii") as f:
            asked = f.read().split()
        for state in "warm", "cold":
            times = []
            for digest in asked:
                if state == "cold":
                    self.drop(file)
                times.append(self.run(command % digest, statuses)[0])
            self.add("%s, one lookup, %s" % (what, state), 1, statistics.median(times), asks=True)

    def create(self, what, n, filter_, input_):
        """input_ is a file, or "< <(COMMAND)", whose generator takes part of the CPUs."""
        command = "%s create --compact --force -p 1e-6 %s --memory 256M %s %s" \
            % (self.seen, PREPARED, filter_, input_)
        seconds, memory, disk = self.run("bash -c 'exec %s'" % command, sample=True)
        self.add(what, n, seconds, memory, disk, filter_)

    def many(self, what, file, n):
        """Many lookups in one process, warm, and as many cold ones as leave the file cold."""
        few = min(ASKED, max(100, os.path.getsize(self.path(file)) // PAGE // 20))
        for count, state in ((min(ASKED, n), "warm"), (few, "cold")):
            self.questions(n, count, "ask")
            command = "%s query -c --input-digests %s ask" % (self.seen, file)
            if state == "cold":
                self.drop(file)
            else:
                self.run(command)
            seconds, memory, _ = self.run(command)
            self.add("%s, lookups, %s" % (what, state), count, seconds, memory, asks=True)


def mega(count):
    return "" if count is None else "%.4g MB" % (count / 1e6)


def build_table(bench):
    connection = sqlite3.connect(bench.path("list.db"), isolation_level=None)
    connection.execute("CREATE TABLE list (digest BLOB PRIMARY KEY) WITHOUT ROWID")
    connection.execute("BEGIN")
    with open(bench.path("list"), encoding="ascii") as f:
        connection.executemany("INSERT INTO list VALUES (?)",
                               ((bytes.fromhex(line[:40]),) for line in f))
    connection.execute("COMMIT")
    connection.close()


def in_sqlite(bench, n):
    """Lookups in a tree of blobs. That its answers are seen's is checked."""
    build_table(bench)
    bench.ask("sqlite3", "list.db",
              "sqlite3 list.db \"SELECT 1 FROM list WHERE digest = x'%s'\"", n)
    count = min(ASKED, n)
    bench.questions(n, count, "ask")
    with open(bench.path("ask"), encoding="ascii") as f, \
            open(bench.path("ask.sql"), "w", encoding="ascii") as out:
        # Its best: pages read in place, and no lock for each question.
        out.write("PRAGMA mmap_size = %d;\nBEGIN;\n" % (1 << 40))
        out.writelines("SELECT 1 FROM list WHERE digest = x'%s';\n" % line[:40] for line in f)
    command = "sh -c 'exec sqlite3 list.db <ask.sql >ask.out'"
    bench.run(command)
    seconds, memory, _ = bench.run(command)
    bench.add("sqlite3, lookups, warm", count, seconds, memory, written="list.db", asks=True)
    with open(bench.path("ask.out"), encoding="ascii") as f:
        found = sum(line == "1\n" for line in f)
    said = int(subprocess.check_output([bench.seen, "query", "-c", "--input-digests", "list.seen",
                                        "ask"], cwd=bench.place))
    # Of a million questions, one is a false positive in the mean, and 20 never.
    if not found <= said <= found + 20 or not 0.4 * count < found < 0.6 * count:
        sys.exit("bench: of %d digests, sqlite3 finds %d and seen %d" % (count, found, said))


def measure(seen, tools, place, n, listed):
    """A list of results."""
    bench = Bench(seen, tools, place)
    subprocess.check_call(["cc", "-O2", "-o", tools + "digests", HERE + "/digests.c"])
    listed = int(min(listed, (shutil.disk_usage(place).free - FREE) / DISK))
    print("\npasswords: a stream of %s digests, a stored list of %s"
          % (format(n, ","), format(max(listed, 0), ",")))
    print("%-44s %12s %10s %10s %10s %9s %9s %9s" % (
        "job", "digests", "seconds", "ns", "lookups/s", "memory", "disk", "written"))
    generate = "%sdigests %d" % (tools, n)
    seconds, _, _ = bench.run("sh -c '%s | exec cat >/dev/null'" % generate)
    bench.add("generator", n, seconds)
    bench.create("create --compact of the stream", n, "stream.seen", "< <(exec %s)" % generate)
    bench.many("filter of the stream", "stream.seen", n)
    bench.ask("filter of the stream", "stream.seen",
              seen + " query -c --input-digests -k %s stream.seen", n)
    os.unlink(bench.path("stream.seen"))
    if listed < 1:
        return bench.results
    with open(bench.path("list"), "wb") as out:
        subprocess.check_call([tools + "digests", str(listed)], stdout=out)
    bench.create("create --compact of the list", listed, "list.seen", "list")
    bench.many("filter of the list", "list.seen", listed)
    bench.ask("filter of the list", "list.seen", seen + " query -c --input-digests -k %s list.seen",
              listed)
    if shutil.which("look"):
        bench.ask("look", "list", "env LC_ALL=C look %s list", listed)
    bench.ask("grep", "list", "env LC_ALL=C grep -m 1 -F %s list", listed)
    if shutil.which("sqlite3"):
        in_sqlite(bench, listed)
    for name in ("list", "list.seen", "list.db", "ask", "ask-once", "ask.sql", "ask.out"):
        if os.path.exists(bench.path(name)):
            os.unlink(bench.path(name))
    return bench.results
