# SPDX-License-Identifier: MIT
"""A signal or an error at each system call of each writing command, by strace.

The calls of each command are counted once (strace -f); then it runs again and again, and at the Nth
call of one name it is killed, told to end, or the call fails with an error that it can have. Calls
that the dynamic loader makes before main() are left out. What must hold then:

- keys that were acknowledged before are in the file that is under the name;
- where a file is replaced, it is the old one, byte for byte, or the new one, complete;
- nothing else is left in the directory; after SIGKILL the next command removes it;
- an exit status other than 0 comes with one line on stderr; no crash, no hang;
- a command that exited 0 has done all of its work;
- the file can be added to, before a repair or after one; after a failed sync only after one;
- what dedup printed over all runs, it printed once.

A case is COMMAND:CALL:N:WHAT, as in add:fdatasync:1:EIO; WHAT is KILL, TERM or an error. Several
injections into one run are joined by "+".
"""

import collections
import filecmp
import fnmatch
import os
import random
import re
import shutil
import signal
import subprocess
import zlib

from commands import COMMANDS, Maker, Writer, make_keys
from common import PATIENCE, SEEN, TRACED, Scratch, fatal, in_parallel, seen, whole_lines

NAME = "calls"
TITLE = "a signal or an error at system calls of writing commands"

# The errors that each call may give. At others the program is killed or told to end, no more. An
# error of FUTEX_WAKE would be none of the kernel's: those who wait would wait for ever.
_IO = ["EIO", "ENOSPC"]
_LOOK = ["EIO", "EACCES", "ENOMEM"]
ERRORS = {
    "access": ["EACCES"],
    "clone": ["EAGAIN", "ENOMEM"],
    "clone3": ["EAGAIN", "ENOMEM"],
    "close": ["EIO"],
    "dup": ["EMFILE"],
    "fadvise64": ["EINVAL"],
    "fallocate": ["ENOSPC", "EIO", "EINTR", "EOPNOTSUPP"],
    "fchmod": ["EPERM", "EIO"],
    "fchown": ["EPERM", "EIO"],
    "fcntl": ["ENOLCK", "EINTR", "EAGAIN"],
    "fdatasync": ["EIO", "ENOSPC", "EINTR"],
    "fstatfs": ["EIO", "ENOSYS"],
    "fsync": ["EIO", "ENOSPC", "EINTR"],
    "ftruncate": ["EIO", "ENOSPC"],
    "getdents64": ["EIO", "ENOMEM"],
    "getrandom": ["EAGAIN", "EINTR", "ENOSYS"],
    "linkat": ["EIO", "ENOSPC", "EACCES", "EXDEV"],
    "lseek": ["ESPIPE"],
    "madvise": ["ENOMEM", "EINVAL"],
    "mmap": ["ENOMEM", "EAGAIN"],
    "mprotect": ["ENOMEM"],
    "msync": ["EIO"],
    "munmap": ["ENOMEM"],
    "newfstatat": _LOOK,
    "openat": ["EMFILE", "EACCES", "ENOMEM", "ENOSPC"],
    "poll": ["EINTR", "ENOMEM"],
    "pread64": ["EIO"],
    "pwrite64": _IO + ["EINTR"],
    "pwritev": _IO + ["EINTR"],
    "read": ["EIO", "EINTR", "EAGAIN"],
    "readlink": ["EIO", "EACCES"],
    "rename": _IO + ["EACCES"],
    "renameat": _IO + ["EACCES"],
    "renameat2": _IO + ["EACCES", "EINVAL"],
    "sched_getaffinity": ["EPERM"],
    "statfs": ["EIO", "ENOSYS"],
    "statx": _LOOK,
    "sync_file_range": ["EIO"],
    "sysinfo": ["EPERM"],
    "unlink": ["EIO", "EACCES"],
    "unlinkat": ["EIO", "EACCES"],
    "write": _IO + ["EINTR", "EAGAIN"],
    # This one fails by returning another address than the wanted one.
    "brk": ["ENOMEM"],
}
# Interrupted, which only a signal does that is handled, these are made again. Other calls on regular
# files are not interrupted.
MADE_AGAIN = re.compile(r" (fdatasync|fsync|pwritev|pwrite64|read|fallocate)\(|F_OFD_SETLKW")
# These are the program's memory and threads: a sanitizer's runtime cannot do without them.
MEMORY = {"brk", "clone", "clone3", "madvise", "mmap", "mprotect", "munmap",
          "sched_getaffinity"}
# No point to stop at: they change nothing that others can see, and the next call is near.
PASSED_OVER = {"execve", "exit", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
               "set_robust_list", "set_tid_address", "arch_prctl", "prlimit64", "gettid", "getpid"}
SIGNALS = {"KILL": signal.SIGKILL, "TERM": signal.SIGTERM}
# Of a call that is made very often, so many at both ends and as many in between.
ENDS = 6

Injection = collections.namedtuple("Injection", "call number what")
Case = collections.namedtuple("Case", "command injections")


def case_name(case):
    return "+".join("%s:%s:%d:%s" % ((case.command.name,) + i) for i in case.injections)


def parse_case(text):
    """The case of that name."""
    injections = []
    for part in text.split("+"):
        try:
            name, call, number, what = part.split(":")
            command = {c.name: c for c in COMMANDS}[name]
            injections.append(Injection(call, int(number), what))
        except (KeyError, ValueError):
            fatal("there is no case '%s'" % part)
    return Case(command, tuple(injections))


def usable():
    """None if strace works here, or why not."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    if os.environ.get("SANITIZER") in ("thread", "valgrind", "qemu"):
        return "strace and this checker do not go together"
    done = subprocess.run(["strace", "-o", os.devnull, "true"], stderr=subprocess.DEVNULL, check=False)
    return None if done.returncode == 0 else "strace may not trace here"


def remove_case(directory):
    """The directory of a run, and what stands beside it."""
    shutil.rmtree(directory)
    for suffix in (".out", ".err", ".trace"):
        os.unlink(directory + suffix)


class Outcome:
    """What a run did: status is negative for a signal, None if it did not end."""

    def __init__(self, status, stderr, trace):
        self.status, self.stderr, self.trace = status, stderr, trace

    def hit(self):
        """Did it come to the call at which it was to be hit? Threads may make fewer in another run."""
        return bool(self.injected()) or re.search(r"--- SIGTERM|killed by SIG", self.trace) is not None

    def injected(self):
        """The lines of the trace in which something was injected."""
        return [line for line in self.trace.splitlines() if "(INJECTED)" in line]


class Place:
    """Where cases run: the key sets, a template of what each command finds, and directories."""

    def __init__(self, path, slow=False):
        self.path, self.keys = path, os.path.join(path, "keys")
        self.templates = os.path.join(path, "templates")
        make_keys(self.keys, slow)
        os.mkdir(self.templates)

    def template(self, command):
        path = os.path.join(self.templates, command.name)
        if not os.path.isdir(path):
            os.mkdir(path)
            if command.prepare:
                command.prepare(Maker(path, self.keys))
        return path

    def fresh(self, command, name):
        path = os.path.join(self.path, name)
        shutil.copytree(self.template(command), path, symlinks=True)
        return path

    def argv(self, args):
        return [SEEN, *(Maker(None, self.keys).resolve(a) for a in args)]

    def run(self, command, directory, args, trace, strace_args):
        """Runs the command under strace; standard output goes to a file `printed` beside it."""
        files = (directory + ".out", directory + ".err", directory + ".trace")
        given = subprocess.DEVNULL
        if command.input:
            with open(os.path.join(self.keys, command.input), "rb") as f:
                given = f.read()
        more = {"stdin": given} if given is subprocess.DEVNULL else {"stdin": subprocess.PIPE}
        argv = ["strace", "-f", "-qq", "-o", files[2], *strace_args, *self.argv(args)]
        with open(files[0], "wb") as out, open(files[1], "wb") as err:
            process = subprocess.Popen(argv, cwd=directory, stdout=out, stderr=err,
                                       env=TRACED, start_new_session=True, **more)
            try:
                process.communicate(None if given is subprocess.DEVNULL else given, PATIENCE)
                status = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                status = None
        with open(files[1], encoding="utf-8", errors="replace") as f:
            stderr = f.read()
        with open(files[2], encoding="utf-8", errors="replace") as f:
            text = f.read() if trace else ""
        if stderr.startswith("strace:"):
            fatal(stderr)
        return Outcome(status, stderr, text)


def _calls_of(trace):
    """For each thread, the first of them the main one, the names of its calls."""
    threads = collections.OrderedDict()
    for line in trace.splitlines():
        found = re.match(r"(\d+) +(\w+)\(", line)
        if found:
            threads.setdefault(found.group(1), []).append(found.group(2))
    return list(threads.values())


def _loader_calls(place):
    """The calls of the main thread that any command begins with."""
    path = os.path.join(place.path, "version")
    subprocess.run(["strace", "-qq", "-o", path, SEEN, "--version"], stdout=subprocess.DEVNULL,
                   env=TRACED, check=True)
    with open(path, encoding="utf-8") as f:
        return re.findall(r"^(\w+)\(", f.read(), re.MULTILINE)


def _count(place, command, loader):
    """What there is to attack: a list of (call, number)."""
    directory = place.fresh(command, "count." + command.name)
    writer = Writer(directory, place.keys) if command.beside else None
    outcome = place.run(command, directory, command.args, True, [])
    if writer:
        writer.end()
    if outcome.status != 0:
        fatal("%s fails unattacked: %s" % (command.name, outcome.stderr))
    remove_case(directory)
    threads = _calls_of(outcome.trace)
    begins = 0
    while threads[0][begins] == loader[begins]:
        begins += 1
    before = collections.Counter(threads[0][:begins])
    most = collections.Counter()
    for calls in threads:
        most |= collections.Counter(calls)
    return [(call, number) for call, count in sorted(most.items()) if call not in PASSED_OVER
            for number in range(before[call] + 1, count + 1)]


def _thin(points, chance):
    """Leaves out most of the calls of a name that is called very often."""
    by_call = collections.defaultdict(list)
    for call, number in points:
        by_call[call].append(number)
    kept = []
    for call, numbers in by_call.items():
        if len(numbers) > 3 * ENDS:
            numbers = (numbers[:ENDS] + sorted(chance.sample(numbers[ENDS:-ENDS], ENDS)) +
                       numbers[-ENDS:])
        kept += [(call, number) for number in numbers]
    return kept


def _errors(call, number, points):
    # The last one closes standard output. Others would have to close the file all the same, and with
    # it give up its locks: no kernel fails there without doing that.
    if call == "close" and (call, number + 1) in points:
        return []
    if os.environ.get("SANITIZER") and call in MEMORY:
        return []
    return ERRORS.get(call, [])


def _strata(command, points):
    """Lists of cases, each of the same call and the same sort of thing injected there."""
    strata = collections.OrderedDict()
    for call, number in points:
        for what in [*SIGNALS, *_errors(call, number, points)]:
            sort = what if what in SIGNALS else "error"
            case = Case(command, (Injection(call, number, what),))
            strata.setdefault((call, sort), []).append(case)
    return list(strata.values())


def _pairs(command, points, chance, count):
    """Two errors in one run, of different calls."""
    fail = {p: _errors(*p, points) for p in points}
    points = [p for p in points if fail[p]]
    pairs = []
    for _ in range(count):
        one, other = chance.choice(points), chance.choice(points)
        if one[0] != other[0]:
            pairs.append(Case(command, tuple(Injection(*p, chance.choice(fail[p]))
                                             for p in (one, other))))
    return pairs


# Judging.

def _injection_args(case):
    names, args = [], []
    for i in case.injections:
        if i.what in SIGNALS:
            how = "signal=" + i.what
        elif i.call == "brk":
            how = "retval=0"
        else:
            how = "error=" + i.what
        args += ["-e", "inject=%s:%s:when=%d" % (i.call, how, i.number)]
        names = names + [i.call]
    # Calls of no interest go faster so; but signals cannot be sent then.
    quick = [] if any(i.what in SIGNALS for i in case.injections) else ["--seccomp-bpf"]
    return [*quick, "-e", "trace=" + ",".join(names), *args]


def _files(directory):
    found = set()
    for base, _, names in os.walk(directory):
        found |= {os.path.relpath(os.path.join(base, name), directory) for name in names}
    return found


class Judge:
    """Looks at what a case left; what is wrong is added to `wrong`."""

    def __init__(self, place, case, directory):
        self.place, self.case, self.directory = place, case, directory
        self.command = case.command
        self.path = os.path.join(directory, self.command.target)
        self.old = os.path.join(place.template(self.command), self.command.target)
        self.wrong = []
        self.whats = {i.what for i in case.injections}
        self.errors = self.whats - set(SIGNALS)
        # Then nobody adds keys to a file that is changed in place before it is repaired.
        self.sync_failed = any(i.call in ("fsync", "fdatasync") and i.what in self.errors
                               for i in case.injections)

    def blame(self, text):
        self.wrong.append(text)

    def seen(self, *args):
        return seen(*args, check=False, cwd=self.directory, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                    env=TRACED)

    def has(self, key_sets):
        """Are the keys of these sets in the target?"""
        files = [os.path.join(self.place.keys, name) for name in key_sets]
        if not files:
            return True
        done = self.seen("query", "-vc", self.command.target, *files)
        return done.returncode == 1 and done.stdout == "0\n"

    def expect(self, what, *args):
        done = self.seen(*args)
        if done.returncode != 0:
            self.blame("%s: 'seen %s' exits %d: %s" % (what, " ".join(args), done.returncode,
                                                     done.stderr.strip()))
        return done.returncode == 0

    def state(self):
        """absent, old, new, or changed: neither."""
        if not os.path.exists(self.path):
            return "absent"
        if os.path.exists(self.old) and filecmp.cmp(self.old, self.path, shallow=False):
            return "old"
        if self.seen("verify", self.command.target).returncode == 0 and self.has(self.command.after):
            return "new"
        return "changed"

    def end(self, outcome):
        """How it ended, and what it said."""
        status, stderr = outcome.status, outcome.stderr
        lines = stderr.splitlines()
        # Of what failed; not what dedup says of records that it could not print.
        causes = [line for line in lines if not line.startswith(("seen: warning: ", "seen: note: "))
                  and not line.endswith("were not printed")]
        if status is None:
            self.blame("did not end in %d s" % PATIENCE)
        elif status == -signal.SIGKILL and "KILL" in self.whats:
            return
        elif "TERM" in self.whats and status in (-signal.SIGTERM, 128 + signal.SIGTERM):
            if status > 0 and not self.command.batches:
                self.blame("status 143, and not by the signal")
        elif status not in (0, 2):
            self.blame("ended with status %d" % status)
        elif status == 2:
            silenced = any(re.search(r" write\(2,", line) for line in outcome.injected())
            if not self.errors:
                self.blame("failed, and no call had failed")
            elif self.whats == {"EINTR"} and MADE_AGAIN.search("".join(outcome.injected())):
                self.blame("a call that was interrupted was not made again")
            elif not 1 <= len(causes) <= len(self.case.injections) and not silenced:
                self.blame("%d lines on stderr say why" % len(causes))
        if any(not line.startswith("seen: ") for line in lines):
            self.blame("stderr has a line that is not of the usual form")

    def leftovers(self, allowed):
        """Nothing may be there but the target and what was there before."""
        known = _files(self.place.template(self.command)) | {self.command.target}
        left = sorted(_files(self.directory) - known)
        if left and not allowed:
            self.blame("left behind: " + ", ".join(left))

    def inputs(self):
        """Files that the command only reads are as they were."""
        template = self.place.template(self.command)
        for name in sorted(_files(template) - {self.command.target}):
            there = os.path.join(self.directory, name)
            if os.path.islink(there):
                continue
            if not os.path.exists(there) or not filecmp.cmp(os.path.join(template, name), there,
                                                            shallow=False):
                self.blame("'%s' is not as it was" % name)

    def replaced(self, status):
        state = self.state()
        expected = {"new"} if status == 0 else {"new", "old" if os.path.exists(self.old) else "absent"}
        if state not in expected:
            self.blame("the file under the name is %s" % state)

    def changed(self, status):
        """A file that is changed in place, or made and then changed."""
        if not os.path.exists(self.path):
            if status == 0 or os.path.exists(self.old):
                self.blame("there is no file under the name")
            return
        if not self.has(self.command.before):
            self.blame("acknowledged keys are missing")
        if status == 0 and not self.has(self.command.after):
            self.blame("it exited 0, and its keys are missing")
        verified = self.seen("verify", self.command.target)
        ended_well = status == 0 and not self.errors or status == 143
        if ended_well and verified.returncode != 0 and self.command.name != "add-dirty":
            self.blame("the file is not clean: " + verified.stderr.strip())

    def beside(self, writer, status):
        """The other writer ended well, its keys are in the file, and where it was the last one it left
        that in order, whatever was done to us."""
        ended, said = writer.end()
        # It stops if the new file lacks its keys. Where the keys join the file, none are lacking.
        stopped = ended == 2 and not self.command.joins and "was replaced while keys were added" in said
        refused = ended == 2 and self.sync_failed and ("is dirty" in said or "could not be synced" in said)
        if ended != 0 and not stopped and not refused:
            self.blame("the other writer exits %d: %s" % (ended, said.strip()))
        for name in ("c",) if refused else ("c", "d") if self.command.joins else () if stopped else ("d",):
            path = os.path.join(self.place.keys, name)
            if self.seen("query", "-vc", "f.seen", path).stdout != "0\n":
                self.blame("keys of the other writer are missing")
        if not self.errors and self.seen("verify", "f.seen").returncode != 0:
            self.blame("the other writer, which was the last, left the file as it was")

    def replaced_beside(self, status):
        """What was replaced was being written, so the old file is not as it was before."""
        if status == 0 or os.path.exists(self.path):
            done = self.seen("verify", self.command.target)
            if done.returncode != 0:
                self.blame("the file under the name: " + done.stderr.strip())
        joined = self.command.after + (("c",) if self.command.joins else ())
        if status == 0 and not self.has(joined):
            self.blame("it exited 0, and keys are missing")
        if status != 0 and os.path.exists(self.old) and not (
                self.has(self.command.before) or self.has(joined)):
            self.blame("acknowledged keys are missing")

    def usable(self, status):
        """More keys can be added, and the file can be repaired, in either order."""
        if not os.path.exists(self.path):
            return
        repair = ("verify", "--repair", self.command.target)
        add = ("add", self.command.target, os.path.join(self.place.keys, "more"))
        steps = [repair] + [add] * self.command.takes_keys + [repair]
        if zlib.crc32(case_name(self.case).encode()) % 2 and not self.sync_failed:
            steps.reverse()
        if all(self.expect("afterwards", *step) for step in steps):
            self.expect("afterwards", "verify", self.command.target)
        expected = (("more",) if self.command.takes_keys else ()) + self.kept(status)
        if not self.has(expected):
            self.blame("afterwards keys are missing")

    def kept(self, status):
        if not self.command.replaces:
            return self.command.before + (self.command.after if status == 0 else ())
        return self.command.after if status == 0 else ()

    def printed(self, status, first, second):
        """dedup printed nothing twice, and what a batch may have lost is lost by a cut only."""
        lines = first + second
        with open(os.path.join(self.place.keys, self.command.prints), encoding="ascii") as f:
            wanted = set(f)
        if len(set(lines)) != len(lines):
            self.blame("%d lines were printed twice" % (len(lines) - len(set(lines))))
        if not set(lines) <= wanted:
            self.blame("lines were printed that are not new")
        if status == 0 and set(first) != wanted:
            self.blame("it exited 0, and %d lines were not printed" % len(wanted - set(first)))
        if status in (143, -signal.SIGTERM) and set(lines) != wanted:
            self.blame("it was told to end, and %d lines were not printed"
                       % len(wanted - set(lines)))


def run_case(place, case, directory):
    """Returns the outcome, and what is wrong with it."""
    command = case.command
    judge = Judge(place, case, directory)
    writer = Writer(directory, place.keys) if command.beside else None
    outcome = place.run(command, directory, command.args, True, _injection_args(case))
    first = whole_lines(directory + ".out")
    status = outcome.status
    judge.end(outcome)
    cannot_remove = any(i.call.startswith("unlink") for i in case.injections)
    judge.leftovers(allowed=status == -signal.SIGKILL or cannot_remove)
    if writer:
        judge.beside(writer, status)
    else:
        judge.inputs()
    if writer and command.replaces:
        judge.replaced_beside(status)
    elif command.replaces:
        judge.replaced(status)
    else:
        judge.changed(status)
    if zlib.crc32(case_name(case).encode()) % 3 or command.prints:
        # As it is usual: again, with the file as it was left.
        again = place.run(command, directory, command.again, False, [])
        if again.status == 2 and judge.sync_failed and "is dirty" in again.stderr:
            judge.expect("dirty", "verify", "--repair", command.target)
            again = place.run(command, directory, command.again, False, [])
        if again.status != 0:
            judge.blame("again, it exits %s: %s" % (again.status, again.stderr.strip()))
        judge.leftovers(allowed=False)
        if not judge.has(command.after) or not command.replaces and not judge.has(command.before):
            judge.blame("again, and keys are missing")
        if command.prints:
            judge.printed(status, first, whole_lines(directory + ".out"))
        status = 0
    judge.usable(status)
    return outcome, judge.wrong


def _plan(place, options, chance):
    """The cases to run, in order."""
    loader = _loader_calls(place)
    strata, cases = [], []
    for command in COMMANDS:
        if command.slow and options.short or not fnmatch.fnmatch(command.name, options.only):
            continue
        points = _thin(_count(place, command, loader), chance)
        strata += _strata(command, points)
        if not options.short:
            cases += _pairs(command, points, chance, 2 * len(points))
    if options.short:
        # One of each stratum, and of these so many.
        chance.shuffle(strata)
        return [chance.choice(s) for s in strata][:options.cases or 400]
    cases += [case for s in strata for case in s]
    chance.shuffle(cases)
    return cases[:options.cases] if options.cases else cases


def _report(tap, case, outcome, wrong):
    tap.say("%s: %s" % (case_name(case), "; ".join(wrong)))
    for line in outcome.injected():
        tap.say("    " + line)
    for line in outcome.stderr.splitlines()[:5]:
        tap.say("    " + line)


def attack(tap, options):
    why = usable()
    if why:
        tap.skip(TITLE, why)
        return
    chance = random.Random(options.seed)
    with Scratch() as path:
        place = Place(path, slow=not options.short)
        cases = _plan(place, options, chance)
        ran = hit = failed = 0

        def one(number, case):
            directory = place.fresh(case.command, "case.%d" % number)
            outcome, wrong = run_case(place, case, directory)
            remove_case(directory)
            return case, outcome, wrong

        for case, outcome, wrong in in_parallel(cases, options, one):
            ran += 1
            hit += outcome.hit()
            failed += bool(wrong)
            if wrong:
                _report(tap, case, outcome, wrong)
        tap.say("%d of %d cases, %d of them hit a call; repeat one with --repeat CASE"
                % (ran, len(cases), hit))
        tap.result(not failed, TITLE)


def repeat(tap, options, text):
    """One case, with all that it said."""
    case = parse_case(text)
    with Scratch() as path:
        place = Place(path, slow=case.command.slow)
        directory = place.fresh(case.command, "case")
        outcome, wrong = run_case(place, case, directory)
        tap.say("status %s" % outcome.status)
        tap.say(outcome.trace.rstrip())
        tap.say(outcome.stderr.rstrip())
        for problem in wrong:
            tap.say("wrong: " + problem)
        tap.result(not wrong, text)
