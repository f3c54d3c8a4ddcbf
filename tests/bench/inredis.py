# SPDX-License-Identifier: MIT
"""Filters that live in Redis, beside what other clients of Redis do: a part of bench.py.

A server on a Unix socket, and a cluster of three masters and three replicas, from tests/lib/redis.bash.
All jobs are run in turn in each round. Shown for a key: wall time, CPU time of the client's
processes and of the servers, commands that the servers ran, bytes that they got and sent; and how
many times as fast the job is as its rival in the same round, by wall time and by CPU time of both
sides. CPU time is what to trust on a machine that does other things too.

Of a cluster the masters count; what they send to their replicas is in what they send.
"""

import math
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHELL = """
. "%s/redis.bash"
trap redis_stop EXIT
while IFS= read -r line; do
    eval "$line" </dev/null
    printf '\\001%%d\\n' $?
done
""" % os.path.join(os.path.dirname(HERE), "lib")
BIG = 1 << 30  # bits of a bitmap of 128 MiB


def sh(command, place):
    """What it says on stderr, such as that a filter is full, is shown only if it fails."""
    run = subprocess.run(["bash", "-c", command], cwd=place, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if run.returncode != 0:
        sys.exit("bench: status %d from: %s\n%s"
                 % (run.returncode, command, run.stderr.decode(errors="replace")))


class Servers:
    """A shell that has sourced redis.bash. The servers end with it."""

    def __enter__(self):
        self.shell = subprocess.Popen(["bash", "-c", SHELL], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.shell.stdin.close()
        self.shell.wait()

    def __call__(self, line):
        self.shell.stdin.write(line + "\n")
        self.shell.stdin.flush()
        out = ""
        for said in self.shell.stdout:
            text, end, status = said.partition("\001")
            out += text
            if end:
                if int(status) != 0:
                    sys.exit("bench: status %s from: %s" % (status.strip(), line))
                return out
        sys.exit("bench: the shell with the servers has ended")

    def start(self):
        self("redis_start a")
        self.directory = self("echo $REDIS_DIR").strip()

    def start_cluster(self):
        self("redis_cluster")
        self.ports = self("echo ${REDIS_PORTS[*]}").split()

    def masters(self):
        """Their names; a replica may have become one."""
        return [c for c in ("c%d" % i for i in range(6)) if "role:master" in
                self("redis %s INFO replication" % c)]

    def used(self, names):
        """CPU seconds, commands, bytes got and bytes sent, of all time."""
        text = "".join(self("redis %s INFO all" % name) for name in names)
        return [sum(float(x) for x in re.findall(r"(?m)^(?:%s):([0-9.]+)" % field, text))
                for field in ("used_cpu_user|used_cpu_sys", "total_commands_processed",
                              "total_net_input_bytes", "total_net_output_bytes")]


class Job:
    def __init__(self, name, action, keys, before=None, rival=None, goal=None, servers=("a",),
                 check=None):
        self.name, self.keys, self.before, self.check = name, keys, before, check
        self.action = action  # a command line, or a function
        self.rival = rival    # the name of another job
        self.goal = goal      # so many times as fast as the rival, at least
        self.servers = servers
        self.runs = []        # lists: wall, CPU of the client, then what Servers.used tells

    def run(self, servers, place):
        if self.before:
            servers(self.before)
        before = servers.used(self.servers)
        children, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        if callable(self.action):
            self.action()
        else:
            sh(self.action, place)
        wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        client = after.ru_utime - children.ru_utime + after.ru_stime - children.ru_stime
        used = [b - a for a, b in zip(before, servers.used(self.servers))]
        self.runs.append([wall, client, *used])
        if self.check:
            self.check()

    def times(self, rival, column):
        """How many times as fast as the rival, by the sum of these columns."""
        return statistics.median(
            sum(theirs[c] for c in column) / rival.keys / (sum(ours[c] for c in column) / self.keys)
            for ours, theirs in zip(self.runs, rival.runs))

    def result(self, jobs):
        wall, client, server, commands, got, sent = (
            statistics.median(run[i] for run in self.runs) for i in range(6))
        rival = jobs.get(self.rival)
        return {
            "job": self.name, "command": str(self.action), "keys": self.keys, "seconds": wall,
            "ns_per_key": wall / self.keys * 1e9, "client_ns": client / self.keys * 1e9,
            "server_ns": server / self.keys * 1e9, "commands_per_key": commands / self.keys,
            "got_per_key": got / self.keys, "sent_per_key": sent / self.keys,
            "rival": self.rival, "times_as_fast": self.times(rival, (0,)) if rival else None,
            "times_less_cpu": self.times(rival, (1, 2)) if rival else None,
            "goal": self.goal,
        }


class Bench:
    def __init__(self, seen, tools, place, n, servers):
        self.seen, self.tools, self.place, self.n, self.servers = seen, tools, place, n, servers
        self.socket = servers.directory + "/a/socket"
        self.jobs = []

    def sh(self, command):
        sh(command, self.place)

    def uri(self, key, spec):
        return "redis+unix://%s?key=%s&layout=%s" % (self.socket, key, spec)

    def add(self, name, action, keys, **more):
        self.jobs.append(Job(name, action, keys, **more))

    def groups(self, words, lines, size):
        """A process that gets so many lines at once and no more before it has printed as many."""
        def action():
            process = subprocess.Popen([self.seen, *words], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       cwd=self.place)
            for i in range(0, len(lines), size):
                part = lines[i:i + size]
                process.stdin.write(b"".join(part))
                process.stdin.flush()
                for _ in part:
                    if not process.stdout.readline():
                        sys.exit("bench: %s has ended" % words)
            process.stdin.close()
            if process.stdout.read() or process.wait() != 0:
                sys.exit("bench: %s fails" % words)
        return action

    def layout(self, name, spec, k, m):
        """The jobs of a filter of m bits, in one server."""
        seen, n, cli = self.seen, self.n, "redis-cli -s " + self.socket
        full, new = self.whole(name, spec)
        ones = self.servers("redis a BITCOUNT full-" + name)
        self.sh("[ $(%s query -c '%s' r.urls) = %d ]" % (seen, full, n))
        empty = "redis a UNLINK new-%s >/dev/null; redis a SETBIT new-%s %d 0 >/dev/null" \
            % (name, name, m - 1)
        # Only the rivals' cost matters, which is the same for each key.
        part, few, title = max(n // 10, 1), max(n // 100, 1), name + ": "
        setbits = self.tools + "setbits"

        def same():
            if self.servers("redis a BITCOUNT new-" + name) != ones:
                sys.exit("bench: other bits in " + spec)

        for command, key in ("SETBIT", "new-" + name), ("GETBIT", "full-" + name):
            resp = "%s.%d.resp" % (command, k)
            self.sh("%s %s %s %d %d %d >%s" % (setbits, command, key, part, k, m, resp))
            self.add(title + "redis-cli --pipe, " + command, "%s --pipe <%s >/dev/null"
                     % (cli, resp), part, before=empty)
            for batch, count in (1, few), (10, part), (1000, part):
                self.add("%sa loop of %s, groups of %d" % (title, command, batch),
                         "%s %s %s %d %d %d %s %d" % (setbits, command, key, count, k, m,
                                                      self.socket, batch), count, before=empty)
        setbit, getbit = title + "redis-cli --pipe, SETBIT", title + "redis-cli --pipe, GETBIT"
        self.add(title + "seen add", "%s add '%s' r.urls" % (seen, new), n, before=empty,
                 rival=setbit, check=same)
        self.add(title + "seen query", "%s query '%s' r.ask >/dev/null" % (seen, full), n,
                 rival=getbit)
        self.add(title + "seen dedup", "%s dedup '%s' r.urls >r.out" % (seen, new), n,
                 before=empty, rival=setbit, check=same)
        self.add(title + "seen dedup, four processes", "".join(
            "%s dedup '%s' four.%d >four.%d.out & p%d=$!; " % (seen, new, i, i, i)
            for i in range(4)) + "wait $p0 && wait $p1 && wait $p2 && wait $p3", n,
            before=empty, rival=setbit, check=same)
        with open(self.place + "/r.ask", "rb") as f:
            lines = f.read().splitlines(keepends=True)
        for size, count in (1, few), (10, part), (1000, part):
            self.add("%sseen query, groups of %d" % (title, size),
                     self.groups(["query", "--annotate", full], lines[:count], size), count,
                     rival="%sa loop of GETBIT, groups of %d" % (title, size))
            # So few are all new, and printed.
            self.add("%sseen dedup, groups of %d" % (title, size),
                     self.groups(["dedup", new], lines[:count], size), count, before=empty,
                     rival="%sa loop of SETBIT, groups of %d" % (title, size))
        self.add(title + "seen query -k, a process", "%s query -c -k x '%s' >r.out; [ $? -lt 2 ]"
                 % (seen, full), 1)
        self.add(title + "redis-cli GETBIT, a process", cli + " GETBIT full-%s 7 >/dev/null" % name,
                 1)

    def whole(self, name, spec):
        """A filter of all URLs on the server, and the jobs that move it. Returns its address, and
        that of one to be made."""
        seen, cli, words = self.seen, "redis-cli -s " + self.socket, {"name": name, "spec": spec}
        words |= {"seen": seen, "cli": cli, "full": self.uri("full-" + name, spec),
                  "new": self.uri("new-" + name, spec)}
        self.sh("%(seen)s create --force --layout %(spec)s %(name)s.seen r.urls && "
                "%(seen)s export --force --pad %(name)s.seen -o %(name)s.bits && "
                "%(seen)s export %(name)s.seen -o '%(full)s'" % words)
        drop = "redis a DEL new-%s >/dev/null" % name
        set_, get = name + ": redis-cli -x SET", name + ": redis-cli GET"
        self.add(set_, "%(cli)s -x SET new-%(name)s <%(name)s.bits >/dev/null" % words, self.n,
                 before=drop)
        self.add(name + ": seen export", "%(seen)s export %(name)s.seen -o '%(new)s'" % words, self.n,
                 before=drop, rival=set_, goal=0.5)
        self.add(get, "%(cli)s GET full-%(name)s >r.out" % words, self.n)
        self.add(name + ": seen import", "%(seen)s import --force '%(full)s' -o out.seen" % words,
                 self.n, rival=get)
        return words["full"], words["new"]

    def shards(self, spec, m):
        """The same work over the nodes of the cluster; spec without the number of bits."""
        for s in (1, 3, 12):
            each = max(m // s, 64)
            def uri(key):
                return "redis://127.0.0.1:%s/%s?layout=%s%d&shards=%d" \
                    % (self.servers.ports[0], key, spec, each, s)
            names = ["new%d:{%d}" % (s, i) for i in range(s)] if s > 1 else ["new1"]
            empty = "; ".join("redis-cli -c -p %s SETBIT '%s' %d 0 >/dev/null"
                              % (self.servers.ports[0], name, each - 1) for name in names)
            drop = "; ".join("redis-cli -c -p %s UNLINK '%s' >/dev/null"
                             % (self.servers.ports[0], name) for name in names)
            self.servers(empty)
            if subprocess.run([self.seen, "query", "-c", "-k", "x", uri("new%d" % s)],
                              capture_output=True).returncode == 2:
                print("%d shards: not known to this seen" % s)
                continue
            masters, empty = self.servers.masters(), drop + "; " + empty
            title, one = "%d shards: " % s, "1 shards: " if s > 1 else "none"
            self.servers(empty)
            self.sh("%s add '%s' r.urls" % (self.seen, uri("new%d" % s)))
            for command in "add", "query", "dedup":
                name = "seen " + command
                self.add(title + name, "%s %s '%s' %s >r.out"
                         % (self.seen, command, uri("new%d" % s),
                            "r.ask" if command == "query" else "r.urls"), self.n,
                         before=None if command == "query" else empty, rival=one + name,
                         servers=masters)


def bits(n, k, p):
    """Of a filter that has the rate p once it holds n keys: (1 - exp(-k n / m))^k = p."""
    return math.ceil(-k * n / math.log(1 - p ** (1 / k)))


def make_data(bench):
    subprocess.check_call(["cc", "-O2", "-o", bench.tools + "setbits", HERE + "/setbits.c"])
    gen = bench.tools + "gen urls 0 %d" % bench.n
    bench.sh("%s >r.urls && %s %d >r.ask && split -n l/4 -d -a 1 r.urls four."
             % (gen, gen, bench.n))


def table(results, n):
    print("\nredis, %s URLs" % format(n, ","))
    print("%-44s %8s %9s %9s %9s %8s %8s %8s %7s %7s  %s" % (
        "job; for each key:", "seconds", "ns", "client", "server", "commands", "to it", "from it",
        "x fast", "x CPU", "goal"))
    for r in results:
        cells = [" " * 7, " " * 7, ""]
        if r["times_as_fast"]:
            cells[:2] = "%7.3g" % r["times_as_fast"], "%7.3g" % r["times_less_cpu"]
        if r["goal"]:
            met = r["times_as_fast"] >= r["goal"]
            cells[2] = "%s >= %g x" % ("yes" if met else "NO ", r["goal"])
        print("%-44s %8.4f %9.0f %9.0f %9.0f %8.3g %8.4g %8.4g %s %s  %s" % (
            r["job"], r["seconds"], r["ns_per_key"], r["client_ns"], r["server_ns"],
            r["commands_per_key"], r["got_per_key"], r["sent_per_key"], *cells))
    sys.stdout.flush()


def measure(seen, tools, place, n, rounds, wanted):
    """A list of results. wanted: which jobs' names; their rivals run too."""
    if not shutil.which("redis-server"):
        print("\nredis: no redis-server")
        return []
    with Servers() as servers:
        servers.start()
        bench = Bench(seen, tools, place, n, servers)
        make_data(bench)
        bench.layout("gozero", "gozero:bits=%d" % bits(n, 14, 0.01), 14, bits(n, 14, 0.01))
        bench.layout("redisson", "redisson:codec=bytes,k=7,bits=%d" % bits(n, 7, 0.01), 7,
                     bits(n, 7, 0.01))
        bench.whole("128-MiB", "gozero:bits=%d" % BIG)
        servers.start_cluster()
        bench.shards("gozero:bits=", bits(n, 14, 0.01))
        names = {job.name for job in bench.jobs if wanted(job.name)}
        names |= {job.rival for job in bench.jobs if job.name in names}
        jobs = {job.name: job for job in bench.jobs if job.name in names}
        for _ in range(rounds):
            for job in jobs.values():
                job.run(servers, place)
        results = [job.result(jobs) for job in jobs.values()]
    table(results, n)
    return results
