#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times seen beside the tools that do the same jobs today. Run it with `make bench`.

    bench.py BUILD          (BUILD/seen is measured; data and results go to BUILD/bench)

Every job of a kind of record runs once a round, yardstick and rivals in between, so that whatever
else the machine does meets all of them alike. Shown: the median time, time a record, CPU time a
record, of all processes and threads (steadier than time where others use the machine too), the
median over rounds of the ratio to the yardstick of the same round, peak memory of the job's largest
process, the size of what it wrote, and its bits a record.

The least time that a job can take is the larger of two: that of a bare reader of the same input
(bare.c), and the CPU time of that reader, of who writes to it, and of the stages of the job by loops
that do nothing else (least.c), on all CPUs that the job may use at once. All are of the same round.
Shown: the ratios to it, of time and of CPU time. The second is the steadier one where others use the
machine.

    BENCH_N=10000000        records a file
    BENCH_RUNS=7            rounds (slow rivals take part in the first 3)
    BENCH_KINDS="urls sha1 phones"
    BENCH_JOBS=REGEX        only jobs whose name matches, and their yardsticks. These run
                            all or none: "lookup", "grown", "records" (CSV and JSON
                            Lines), and "counted: " of counted sets
    BENCH_REDIS_N=          records in Redis (a tenth of BENCH_N; 0: none). The names of those jobs
                            begin with "redis: "; if BENCH_JOBS is given, it must have that word
    BENCH_DIGESTS=          digests of stolen passwords in the stream that becomes a filter (BENCH_N;
                            0: none), and
    BENCH_LIST=             at most as many in a stored list, for other tools (BENCH_N). These jobs
                            run all or none; if BENCH_JOBS is given, it must have "passwords".
                            BENCH_KINDS= BENCH_JOBS=passwords BENCH_DIGESTS=1e9 is that alone
    BENCH_BASE=             another seen program, such as the last release: each job of seen is run
                            with it too, in pairs. Shown: the median ratios of time and CPU time,
                            below 1 where this build is the faster one; a job that it cannot do has
                            none. Not for those in Redis and of passwords
    BENCH_RIVALS=1          0: without the other tools
    BENCH_DIR=BUILD/bench   where the data is, and where filters are written
    BENCH_PAGE=0            1: put the figures into README.md, man/seen-performance.7 and speed.svg
                            (see page.py), and add a line to history.jsonl (see history.py).
                            Needs all jobs of all kinds

Results: a table on stdout, and BUILD/bench/results.json.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

import history
import inredis
import page
import passwords

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
HERE = os.path.dirname(os.path.abspath(__file__))
DIR = os.path.abspath(os.environ.get("BENCH_DIR", BUILD + "/bench"))
TOOLS = BUILD + "/bench/"
SEEN = BUILD + "/seen"
N = int(float(os.environ.get("BENCH_N", "1e7")))
REDIS_N = int(float(os.environ.get("BENCH_REDIS_N", N // 10)))
DIGESTS = int(float(os.environ.get("BENCH_DIGESTS", N)))
LIST = int(float(os.environ.get("BENCH_LIST", N)))
RUNS = int(os.environ.get("BENCH_RUNS", "7"))
KINDS = os.environ.get("BENCH_KINDS", "urls sha1 phones").split()
JOBS = re.compile(os.environ.get("BENCH_JOBS", ""))
BASE = os.environ.get("BENCH_BASE") and os.path.abspath(os.environ["BENCH_BASE"])
RIVALS = os.environ.get("BENCH_RIVALS", "1") != "0"
SLOW_RUNS = 3
GREP_N = min(N, 1000000)
CRAFTED = min(N, 60000)  # keys whose hashes are chosen: a group takes no more than 65536
CPUS = len(os.sched_getaffinity(0))

# What seen wants to reach on two cores: (kind, job) -> (measure, at most). "x" is the ratio to the
# yardstick, "least" that to the least time, "ns" time a record, "ms" time, "cpu ms" CPU time.
GOALS = {
    ("phones", "create -j1"): ("least", 1.05),
    ("phones", "create -j2"): ("least", 1.05),
    ("phones", "query -j1"): ("least", 1.1),
    ("phones", "query -j2"): ("least", 1.1),
    ("urls", "create --compact -j2"): ("ns", 45),
    ("sha1", "create --compact -j2"): ("ns", 45),
    ("lookup", "query -k, 1 GiB filter"): ("ms", 1.5),
    ("lookup", "query of 100 keys, 1 GiB filter"): ("ms", 1.5),
    ("lookup", "dedup -k, 1 GiB filter"): ("cpu ms", 1.5),
    ("grown", "dedup, grown to %d" % N): ("x", 1.5),
    ("counted", "create --counted"): ("x", 1.3),
    ("counted", "create, run keys"): ("x", 4),
    ("counted", "create, page keys"): ("x", 4),
    ("counted", "query, run keys"): ("x", 4),
    ("counted", "query, page keys"): ("x", 4),
    ("counted", "merge --subtract"): ("ns", 30),
    ("counted", "remove of 1 key"): ("ms", 50),
}
LEAST = 1.15  # of each other job that has a least time
LAYERS = 1.6  # of a query of four layers to one of a single layer


TITLES = {"urls": "URLs", "sha1": "SHA-1 digests", "phones": "phone numbers"}


class Job:
    """A command line, and what must be true around it."""

    def __init__(self, name, command, yardstick=None, output=None, rival=False, records=None,
                 statuses=(0,), least=None, before=None):
        self.name = name
        self.before = before  # a command for the shell, not timed
        self.command = command  # for the shell, or a list of arguments
        self.statuses = statuses
        self.yardstick = yardstick
        self.least = least  # the bare reader's job (or another), CPUs, a file and its stages (least.c)
        self.output = output  # a file that the job makes: removed before, measured after
        self.rival = rival
        self.records = records or N
        self.times = []
        self.cpu_times = []
        self.ratios = []
        self.least_ratios = []  # (of time, of CPU time)
        self.base_ratios = []  # (of time, of CPU time)
        self.can_base = True
        self.memory = 0
        self.size = None

    def once(self, program):
        """Status, time, memory, CPU time."""
        if self.output and os.path.exists(self.output):
            os.unlink(self.output)
        if self.before:
            subprocess.check_call(self.before, shell=True, cwd=DIR)
        argv = self.command if isinstance(self.command, list) else ["sh", "-c", self.command]
        argv = [a.replace(SEEN, program) for a in argv]
        status = subprocess.call([TOOLS + "clock", TOOLS + "clock.out", *argv], cwd=DIR,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(TOOLS + "clock.out", encoding="ascii") as f:
            seconds, memory, cpu = f.read().split()
        return status, float(seconds), int(memory), float(cpu)

    def run_base(self):
        """Time and CPU time of the other program, or None."""
        if not BASE or not self.can_base or SEEN not in str(self.command):
            return None
        status, seconds, _, cpu = self.once(BASE)
        self.can_base = status in self.statuses
        return (seconds, cpu) if self.can_base else None

    def run(self):
        base_first = len(self.times) % 2 == 1
        base = self.run_base() if base_first else None
        status, seconds, memory, cpu = self.once(SEEN)
        if status not in self.statuses:
            sys.exit("bench: status %d from: %s" % (status, self.command))
        self.times.append(seconds)
        self.cpu_times.append(cpu)
        self.memory = max(self.memory, memory)
        if self.output:
            self.size = os.path.getsize(self.output)
        if not base_first:
            base = self.run_base()
        if base:
            self.base_ratios.append((seconds / base[0], cpu / max(base[1], 1e-6)))
        return seconds

    def forget(self):
        """Leaves out what was measured so far."""
        for kept in self.times, self.cpu_times, self.base_ratios:
            kept.clear()

    def result(self):
        median = statistics.median(self.times)
        cpu = statistics.median(self.cpu_times)
        base = [statistics.median(r) for r in zip(*self.base_ratios)] or [None, None]
        least = [statistics.median(r) for r in zip(*self.least_ratios)] or [None, None]
        return {
            "job": self.name,
            "command": str(self.command).replace(SEEN, "seen"),
            "seconds": median,
            "seconds_min": min(self.times),
            "seconds_max": max(self.times),
            "cpu_seconds": cpu,
            "cpu_seconds_min": min(self.cpu_times),
            "runs": len(self.times),
            "ns_per_record": median / self.records * 1e9,
            "cpu_ns_per_record": cpu / self.records * 1e9,
            "yardstick": self.yardstick,
            "ratio": statistics.median(self.ratios) if self.ratios else None,
            "least_ratio": least[0],
            "least_cpu_ratio": least[1],
            "base_ratio": base[0],
            "base_cpu_ratio": base[1],
            "peak_bytes": self.memory,
            "output_bytes": self.size,
            "output_bits_per_record": self.size * 8 / self.records if self.size else None,
        }


def stages_of(file):
    """CPU seconds of each stage of least.c."""
    names = [DIR + "/" + name for name in (file, file.removesuffix(".ask") + ".seen")]
    lines = subprocess.check_output([TOOLS + "clock", TOOLS + "clock.out", TOOLS + "least", *names],
                                    text=True)
    return {name: float(seconds) for name, seconds in map(str.split, lines.splitlines())}


def least_ratios(job, bare, stages):
    """The last run's ratios to the least time and to its CPU time."""
    _, cpus, file, names = job.least
    cpu = bare.cpu_times[-1] + sum(stages[file][name] for name in names)
    return job.times[-1] / max(bare.times[-1], cpu / cpus), job.cpu_times[-1] / cpu


def run_rounds(jobs):
    by_name = {j.name: j for j in jobs}
    files = {j.least[2] for j in jobs if j.least}
    for round_ in range(RUNS):
        stages = {file: stages_of(file) for file in files}
        for j in jobs:
            if j.rival and (round_ >= SLOW_RUNS or not RIVALS):
                continue
            elapsed = j.run()
            if j.yardstick:
                j.ratios.append(elapsed / by_name[j.yardstick].times[round_])
            if j.least:
                j.least_ratios.append(least_ratios(j, by_name[j.least[0]], stages))


def make_data():
    os.makedirs(DIR, exist_ok=True)
    os.makedirs(TOOLS, exist_ok=True)
    source = HERE + "/gen.c"
    for tool in ("gen", "clock", "bare"):
        subprocess.check_call(["cc", "-O2", "-o", TOOLS + tool, "%s/%s.c" % (HERE, tool)])
    for kind in KINDS:
        for name, args in ((kind, (0, N)), (kind + ".ask", (0, N, N)),
                           (kind + ".few", (0, GREP_N)), (kind + ".ask-few", (0, GREP_N, GREP_N))):
            # The name says what is in it: data of another N or another generator is made anew.
            path = "%s/%s.%d.%d" % (DIR, name, N, os.path.getmtime(source))
            if not os.path.exists(path):
                with open(path + ".tmp", "wb") as out:
                    subprocess.check_call([TOOLS + "gen", kind, *map(str, args)], stdout=out)
                os.rename(path + ".tmp", path)
            link = "%s/%s" % (DIR, name)
            if os.path.lexists(link):
                os.unlink(link)
            os.symlink(os.path.basename(path), link)


def seen_can(*args):
    return subprocess.run([SEEN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def thread_counts():
    return sorted({1, min(2, CPUS), CPUS})


def jobs_for(kind):
    file, ask, filter_ = kind, kind + ".ask", kind + ".seen"
    jobs = [
        Job("wc -l", "exec wc -l %s >/dev/null" % file),
        Job("wc -l, pipe", "cat %s | wc -l >/dev/null" % file),
        Job("wc -l, queries", "exec wc -l %s >/dev/null" % ask),
        Job("wc -l, queries, pipe", "cat %s | wc -l >/dev/null" % ask),
        Job("bare reader", "exec %sbare <%s" % (TOOLS, file)),
        Job("bare reader, pipe", "cat %s | %sbare" % (file, TOOLS)),
        Job("bare reader, queries", "exec %sbare <%s" % (TOOLS, ask)),
        Job("bare reader, queries, pipe", "cat %s | %sbare" % (ask, TOOLS)),
    ]

    def seen(name, command, yardstick, stages=None, **more):
        for j in thread_counts():
            least = None
            if stages:
                bare = yardstick.replace("wc -l", "bare reader")
                cpus = CPUS if "pipe" in bare else min(j, CPUS)
                least = (bare, cpus, ask if "queries" in bare else file, stages)
            jobs.append(Job("%s -j%d" % (name, j), command.format(seen=SEEN, j=j), yardstick,
                            least=least, **more))

    out, created = DIR + "/out.seen", ("records", "insert", "filter")
    seen("create", "exec {seen} create -p 0.001 -j{j} out.seen %s" % file, "wc -l", created, output=out)
    seen("create -n", "exec {seen} create -p 0.001 -j{j} -n %d out.seen %s" % (N, file), "wc -l", created,
         output=out)
    seen("create, pipe", "cat %s | {seen} create -p 0.001 -j{j} out.seen" % file, "wc -l, pipe", created,
         output=out)
    asked = ("answers",)
    seen("query", "exec {seen} query -j{j} %s %s >/dev/null" % (filter_, ask), "wc -l, queries",
         asked)
    seen("query, pipe", "cat %s | {seen} query -j{j} %s >/dev/null" % (ask, filter_),
         "wc -l, queries, pipe", asked)
    for j in thread_counts():
        jobs.append(Job("query of four layers -j%d" % j,
                        "exec %s query -j%d %s.layers %s >/dev/null" % (SEEN, j, kind, ask),
                        least=("query -j%d" % j, min(j, CPUS), ask, ())))
    seen("add", "exec {seen} add -j{j} out.seen %s" % file, "wc -l", ("records", "add", "filter"),
         before="%s create --empty -p 0.001 --fixed -n %d out.seen" % (SEEN, N), output=out)
    seen("dedup", "exec {seen} dedup --create -n %d -p 0.001 -j{j} out.seen %s >out" % (N, file), "wc -l",
         ("records", "add", "filter", "print"), output=out)
    jobs.append(Job("cat, into a file", "exec cat %s >out" % file))
    seen("dedup, in memory", "exec {seen} dedup -j{j} <%s >out" % file, "wc -l", output=DIR + "/out")
    seen("dedup, growing", "exec {seen} dedup --create -p 0.001 -j{j} out.seen %s >out" % file,
         "cat, into a file", output=out)
    seen("create --compact", "exec {seen} create -p 0.001 --compact -j{j} out.seen %s" % file, "wc -l",
         ("records", "compact"), output=out)
    jobs.append(Job("bare reader, nothing", "exec %sbare </dev/null" % TOOLS))
    jobs.append(Job("merge", "exec %s merge -o out.seen %s.half %s.other" % (SEEN, kind, kind),
                    least=("bare reader, nothing", CPUS, file, ("merge",)), output=out))
    jobs.append(Job("stats", "exec %s stats %s >/dev/null" % (SEEN, filter_), "wc -l"))

    if RIVALS:
        few, ask_few = kind + ".few", kind + ".ask-few"

        def rival(name, command, yardstick, **more):
            jobs.append(Job(name, command, yardstick, rival=True, **more))

        rival("sort -u", "LC_ALL=C exec sort -u %s -o out" % file, "wc -l", output=DIR + "/out")
        rival("awk '!seen[$0]++'", "exec awk '!seen[$0]++' %s >out" % file, "wc -l",
              output=DIR + "/out")
        # Into a file: with /dev/null, GNU grep stops at the first match.
        rival("grep -Fxf (%dk)" % (GREP_N // 1000), "exec grep -Fxf %s %s >out" % (few, ask_few),
              None, records=GREP_N)
        if shutil.which("bloom"):
            rival("bloom create+insert, p = 0.001",
                  "bloom create -p 0.001 -n %d out.bloom && exec bloom insert out.bloom <%s"
                  % (N, file), "wc -l", output=DIR + "/out.bloom")
            rival("bloom check, p = 0.001", "exec bloom check %s.bloom <%s >/dev/null"
                  % (kind, ask), "wc -l, queries")
    wanted = [j for j in jobs if JOBS.search(j.name)]
    others = {j.yardstick for j in wanted} | {j.least[0] for j in wanted if j.least}
    others |= {j.yardstick for j in jobs if j.name in others}
    return [j for j in jobs if j in wanted or j.name in others]


def prepare(kind):
    """The filters that queries ask, and a look at whether the answers are right."""
    filter_ = "%s/%s.seen" % (DIR, kind)
    for name in ("seen", "bloom", "layers", "half", "other"):
        if os.path.exists("%s/%s.%s" % (DIR, kind, name)):
            os.unlink("%s/%s.%s" % (DIR, kind, name))
    subprocess.check_call([SEEN, "create", "-p", "0.001", filter_, DIR + "/" + kind])
    names = {"seen": SEEN, "kind": kind, "half": N // 2, "fifth": N // 5, "n": N}
    for command in ("{seen} dedup --create -n {fifth} -p 0.001 {kind}.layers {kind} >/dev/null",
                    "head -n {half} {kind} | {seen} create -p 0.001 -n {n} {kind}.half",
                    "tail -n +{half} {kind} | {seen} create --like {kind}.half {kind}.other"):
        subprocess.check_call(command.format(**names), shell=True, cwd=DIR)
    present = int(subprocess.check_output([SEEN, "query", "-c", filter_, DIR + "/" + kind]))
    asked = int(subprocess.check_output([SEEN, "query", "-c", filter_, "%s/%s.ask" % (DIR, kind)]))
    if present != N or not 0.49 * N < asked < 0.51 * N:
        sys.exit("bench: wrong answers for %s: %d of %d, %d of about half"
                 % (kind, present, N, asked))
    if RIVALS and shutil.which("bloom"):
        subprocess.check_call("bloom create -p 0.001 -n %d %s.bloom && bloom insert %s.bloom <%s"
                              % (N, kind, kind, kind), shell=True, cwd=DIR)


def lookup():
    """A few keys and a large filter, by a process of their own. dedup waits for the disk: its CPU
    time is what the program can do something about."""
    big = DIR + "/big.seen"
    if os.path.exists(big):
        os.unlink(big)
    subprocess.check_call([SEEN, "create", "--empty", "-s", "1G", "-p", "0.001", big])
    with open(DIR + "/hundred", "w", encoding="ascii") as f:
        f.writelines("%d\n" % i for i in range(100))
    jobs = [
        Job("query -k, 1 GiB filter", [SEEN, "query", "-c", "-k", "somebody", big], records=1,
            statuses=(0, 1)),
        Job("query of 100 keys, 1 GiB filter", [SEEN, "query", "-c", big, DIR + "/hundred"],
            records=100, statuses=(0, 1)),
        Job("dedup -k, 1 GiB filter", [SEEN, "dedup", "-c", "-k", "somebody", big], records=1),
        Job("dedup of 100 keys, 1 GiB filter", [SEEN, "dedup", "-c", big, DIR + "/hundred"],
            records=100),
    ]
    for _ in range(21):
        for job in jobs:
            job.run()
    os.unlink(big)
    return [j.result() for j in jobs]


def grown():
    """Filters that grew, beside those made for the number: the ratio is of time, the last column has
    the sizes. All threads."""
    out = DIR + "/out.seen"
    jobs = []
    for n in sorted({N // 10, N * 2 // 5, N * 7 // 10, N}):
        first = "head -n %d %s | exec %s dedup --create -p 0.001 %%s out.seen >out" % (n, KINDS[0], SEEN)
        jobs += [Job("dedup, made for %d" % n, first % ("-n %d" % n), output=out, records=n),
                 Job("dedup, grown to %d" % n, first % "", "dedup, made for %d" % n, output=out,
                     records=n)]
    run_rounds(jobs)
    return [j.result() for j in jobs]


def make_records():
    """The keys of the first kind as a column of CSV, with and without quotes in half of the fields, and
    as a member of objects of some 1,000 bytes; the filter knows them."""
    filler = "the quick brown fox jumps over the lazy dog " * 18
    with open("%s/%s" % (DIR, KINDS[0]), encoding="utf-8") as keys, open(DIR + "/out.csv", "w") as csv, \
            open(DIR + "/out.quoted", "w") as quoted, open(DIR + "/out.jsonl", "w") as lines:
        for out in (csv, quoted):
            out.write("id,key,name,note\n")
        for i, key in enumerate(keys):
            key = key.rstrip("\n")
            csv.write("%d,%s,name%d,some text of row %d\n" % (i, key, i % 1000, i))
            quoted.write('%d,"%s",name%d,"some text, of row %d"\n' % (i, key, i % 1000, i))
            if i < N // 10:
                lines.write('{"n":%d,"text":"%s","tags":["a","b",3],"user":{"name":"n%d","id":%s}}\n' % (
                    i, filler, i, json.dumps(key)))


def records():
    """CSV and JSON Lines, one thread each; other programs read the same key and count. The ratio is that
    of time to seen with -d, -f."""
    make_records()
    known = "exec %s query -j1 -c %%s %s.seen out.%%s >/dev/null" % (SEEN, KINDS[0])
    first = "query -d, -f 2"
    few = N // 10
    jobs = [Job(first, known % ("-d, -f 2", "csv")),
            Job("query --csv", known % ("--csv -f key", "csv"), first),
            Job("query --csv, half in quotes", known % ("--csv -f key", "quoted"), first),
            Job("query --jsonl", known % ("--jsonl -f .user.id", "jsonl"), records=few)]
    rivals = [("mlr", "Miller, half in quotes", "exec mlr --icsv --ocsv count-distinct -n -f key out.quoted >/dev/null",
               first, N),
              ("python3", "Python's csv, half in quotes",
               "exec python3 -c 'import csv; print(len({row[1] for row in csv.reader(open(\"out.quoted\"))}))'"
               " >/dev/null", first, N),
              ("jq", "jq", "exec jq -r .user.id out.jsonl >/dev/null", "query --jsonl", few),
              ("python3", "Python's json",
               "exec python3 -c 'import json; print(len({json.loads(s)[\"user\"][\"id\"] for s in open(\"out.jsonl\")}))'"
               " >/dev/null", "query --jsonl", few)]
    for program, name, command, yardstick, n in rivals if RIVALS else ():
        if shutil.which(program):
            jobs.append(Job(name, command, yardstick, rival=True, records=n))
        else:
            print("records: %s is not measured: there is no %s" % (name, program))
    run_rounds(jobs)
    for name in ("csv", "quoted", "jsonl"):
        os.unlink("%s/out.%s" % (DIR, name))
    return [j.result() for j in jobs]


def crafted():
    """Counted sets of keys whose hashes are chosen, beside those of random keys."""
    make = "exec %s create --counted -j1 -xp 0 --memory 16M --force %s.seen %s.keys"
    ask = "exec %s query -j1 -c %s.seen %s.keys"
    jobs = []
    for crowd in "random", "run", "page":
        command = [sys.executable, HERE + "/../lib/crafted.py", crowd, str(CRAFTED)]
        if crowd == "random":
            command = ["od", "-An", "-v", "-tx8", "-w8", "-N%d" % (8 * CRAFTED), "/dev/urandom"]
        with open("%s/%s.keys" % (DIR, crowd), "wb") as f:
            f.write(subprocess.check_output(command).replace(b" ", b""))
        for verb, line in ("create", make), ("query", ask):
            yardstick = None if crowd == "random" else verb + ", random keys"
            jobs.append(Job("%s, %s keys" % (verb, crowd), line % (SEEN, crowd, crowd), yardstick,
                            records=CRAFTED))
    return jobs


def counted():
    """Counted sets of N keys each, half of them shared, beside what else does these jobs. The jobs'
    names begin with "counted: " for BENCH_JOBS. All threads."""
    keys, other = KINDS[0], KINDS[0] + ".ask"
    with open("%s/%s" % (DIR, keys), encoding="ascii") as f:
        key = f.readline().rstrip("\n")
    for name, file in (("a", keys), ("b", other)):
        subprocess.check_call([SEEN, "create", "--counted", "-p", "0", "--force",
                               "%s/counted-%s.seen" % (DIR, name), "%s/%s" % (DIR, file)])
        subprocess.check_call("LC_ALL=C sort -u -o %s.sorted %s" % (name, file), shell=True, cwd=DIR)
    out = DIR + "/out.seen"
    change = "exec %s %%s -k '%s' counted-a.seen" % (SEEN, key)
    query = "exec %s query -c %%s %s" % (SEEN, other)
    jobs = [
        Job("create --compact", "exec %s create --compact -p 1e-6 out.seen %s" % (SEEN, keys),
            output=out),
        Job("create --counted", "exec %s create --counted -p 1e-6 out.seen %s" % (SEEN, keys),
            "create --compact", output=out),
        Job("create --counted -p 0", "exec %s create --counted -p 0 out.seen %s" % (SEEN, keys),
            "create --compact", output=out),
        Job("compact from a set",
            "exec %s create --compact -p 1e-6 --from counted-a.seen out.seen" % SEEN,
            "create --compact", output=out),
        Job("query, Bloom", query % (keys + ".seen")),
        Job("query", query % "counted-a.seen", "query, Bloom"),
        Job("comm -23 of sorted files", "LC_ALL=C exec comm -23 a.sorted b.sorted >out",
            output=DIR + "/out"),
        Job("sort -u twice, comm -23",
            "export LC_ALL=C; sort -u -o a.sorted %s; sort -u -o b.sorted %s; "
            "exec comm -23 a.sorted b.sorted >out" % (keys, other), "comm -23 of sorted files",
            output=DIR + "/out", rival=True),
        Job("merge --subtract", "exec %s merge --subtract -o out.seen counted-a.seen counted-b.seen" % SEEN,
            "comm -23 of sorted files", output=out),
        Job("compare", "exec %s compare counted-a.seen counted-b.seen" % SEEN),
    ]
    jobs += crafted()
    if seen_can("remove", "--help"):
        for verb in "remove", "add":  # each undoes the other, so neither can run twice
            jobs.append(Job(verb + " of 1 key", change % verb))
            jobs[-1].can_base = False
    run_rounds(jobs)
    for name in ("a.sorted", "b.sorted"):
        os.unlink(DIR + "/" + name)
    return [j.result() for j in jobs if j.times]


def verdict(kind, result):
    goal = GOALS.get((kind, result["job"]))
    if not goal and result["least_ratio"]:
        goal = "least", LAYERS if result["job"].startswith("query of four layers") else LEAST
    if not goal:
        return ""
    measure, most = goal
    value = {"x": result["ratio"], "least": result["least_ratio"], "ns": result["ns_per_record"],
             "ms": result["seconds"] * 1e3, "cpu ms": result["cpu_seconds"] * 1e3}[measure]
    unit = {"x": "x", "least": " of the least", "ns": " ns", "ms": " ms",
            "cpu ms": " ms CPU"}[measure]
    return "%s <= %g%s" % ("yes" if value <= most else "NO ", most, unit)


def table(kind, results):
    print("\n%s, %s records" % (kind, format(N, ",")) if kind != "lookup" else "\nlookup")
    base = ("%8s %8s " % ("base", "base CPU")) if BASE else ""
    print("%-32s %9s %9s %9s %8s %7s %9s %s%9s %9s %6s  %s" % (
        "job", "seconds", "ns/record", "CPU ns", "ratio", "x least", "x its CPU", base, "memory",
        "written", "bits", "goal"))

    def number(form, value):
        return form % value if value else ""

    for r in results:
        base = "%8s %8s " % (number("%.2f", r["base_ratio"]),
                             number("%.2f", r["base_cpu_ratio"])) if BASE else ""
        print("%-32s %9.4f %9.1f %9.1f %8s %7s %9s %s%9s %9s %6s  %s" % (
            r["job"], r["seconds"], r["ns_per_record"], r["cpu_ns_per_record"],
            number("%.2f", r["ratio"]), number("%.2f", r["least_ratio"]),
            number("%.2f", r["least_cpu_ratio"]), base, page.human(r["peak_bytes"]),
            page.human(r["output_bytes"]), number("%.2f", r["output_bits_per_record"]),
            verdict(kind, r)))
    sys.stdout.flush()


def against(results):
    """How many times as fast as the other tools, for the jobs that both do."""
    time_of = {r["job"]: r["seconds"] for r in results}
    most = "-j%d" % thread_counts()[-1]
    pairs = [("create " + most, "sort -u"), ("create " + most, "awk '!seen[$0]++'"),
             ("create " + most, "bloom create+insert, p = 0.001"),
             ("query " + most, "bloom check, p = 0.001")]
    for ours, theirs in pairs:
        if ours in time_of and theirs in time_of:
            print("seen %s is %.1f times as fast as %s"
                  % (ours, time_of[theirs] / time_of[ours], theirs))


def update_page(everything):
    history.add(history.HISTORY, everything)
    page.update(everything)


def commit():
    """The last one that changed the program, with + if it was changed since; "" without git."""
    def git(*args):
        return subprocess.run(["git", "-C", HERE + "/../..", *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    program = ["--", "src", "Makefile"]
    last = git("log", "-1", "--abbrev=9", "--format=%h", *program).stdout.strip()
    changed = last and git("diff", "--quiet", "HEAD", *program).returncode != 0
    return last + ("+" if changed else "")


def machine():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    return {"cpu": model.group(1) if model else "unknown", "cpus": CPUS,
            "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "kernel": os.uname().release,
            "seen": subprocess.check_output([SEEN, "--version"], text=True).splitlines()[0]}


def main():
    make_data()
    where = machine()
    print("%(seen)s; %(cpu)s, %(cpus)d CPUs" % where)
    everything = {"machine": where, "date": time.strftime("%Y-%m-%d", time.gmtime()),
                  "commit": commit(), "n": N, "runs": RUNS, "kinds": {}}
    for kind in KINDS:
        prepare(kind)
        jobs = jobs_for(kind)
        for j in jobs:
            if not j.rival:
                j.run()  # to have everything in memory; not counted
                j.forget()
        run_rounds(jobs)
        results = [j.result() for j in jobs]
        everything["kinds"][kind] = results
        table(kind, results)
        if RIVALS:
            against(results)
    if JOBS.search("lookup"):
        everything["kinds"]["lookup"] = lookup()
        table("lookup", everything["kinds"]["lookup"])
    if KINDS and JOBS.search("grown"):
        everything["kinds"]["grown"] = grown()
        table("grown", everything["kinds"]["grown"])
    if KINDS and JOBS.search("records"):
        everything["kinds"]["records"] = records()
        table("records", everything["kinds"]["records"])
    if JOBS.search("counted: "):
        everything["kinds"]["counted"] = counted()
        table("counted", everything["kinds"]["counted"])
    if REDIS_N and (not JOBS.pattern or "redis" in JOBS.pattern):
        everything["redis"] = inredis.measure(SEEN, TOOLS, DIR, REDIS_N, min(RUNS, SLOW_RUNS),
                                              lambda name: JOBS.search("redis: " + name))
    if DIGESTS and (not JOBS.pattern or "passwords" in JOBS.pattern):
        everything["passwords"] = passwords.measure(SEEN, TOOLS, DIR, DIGESTS, LIST)
    with open(TOOLS + "results.json", "w", encoding="ascii") as f:
        json.dump(everything, f, indent=1)
    if os.environ.get("BENCH_PAGE", "0") != "0":
        update_page(everything)


main()
