# SPDX-License-Identifier: MIT
"""Runs a program at a terminal of its own, for tests: types, reads what is shown, and looks whether
the terminal echoes. With `secret`, also searches its memory for that."""

import ctypes
import os
import pty
import select
import signal
import sys
import termios
import time

PATIENCE = 300  # seconds, for what would hang for ever else

PTRACE_TRACEME, PTRACE_CONT, PTRACE_SYSCALL, PTRACE_SETOPTIONS = 0, 7, 24, 0x4200
TRACE_SYSGOOD, TRACE_EXIT = 1, 0x40
EXIT_STOP = signal.SIGTRAP | 6 << 8
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=0):
    if libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


class Terminal:
    """The program leads a session of its own. With the empty secret its memory is searched only when
    `memory.search` is called, for `memory.secret`."""

    def __init__(self, argv, secret=None, stdin=None, stdout=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
            if stdin is not None:
                os.dup2(stdin, 0)
            if stdout is not None:
                os.dup2(stdout, 1)
            if secret is not None:
                ptrace(PTRACE_TRACEME, 0)
            os.execvp(argv[0], argv)
        self.shown = ""
        self.memory = None
        if secret is not None:
            self.memory = Memory(self.pid, secret, bool(secret))

    def step(self, wait=0.02):
        """Reads what is shown within that time. False: the terminal is gone."""
        if select.select([self.fd], [], [], wait if self.memory is None else 0.001)[0]:
            try:
                got = os.read(self.fd, 4096)
            except OSError:
                return False
            self.shown += got.decode().replace("\r\n", "\n")
            return bool(got)
        return True

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if self.memory is not None:
                self.memory.step()
            if not self.step() and not condition():
                raise AssertionError("no %s: %r" % (what, self.shown))
            if time.monotonic() > end:
                raise AssertionError("no %s for too long: %r" % (what, self.shown))

    def expect(self, text):
        """Waits for the text, and forgets all up to it."""
        self.until(lambda: text in self.shown, repr(text))
        before, self.shown = self.shown.split(text, 1)
        return before

    def expect_hidden(self, text):
        self.expect(text)
        assert not self.echoes()

    def type(self, text):
        os.write(self.fd, text if isinstance(text, bytes) else text.encode())

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def echoes(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def end(self):
        """The exit status, or minus the signal that ended it. What was not read before, may be lost:
        the end of a session flushes its terminal."""
        if self.memory is not None:
            self.until(lambda: self.memory.left is not None, "exit")
            return self.memory.end()
        while self.step():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Memory:
    """Of a traced child. Its memory is opened before it can forbid that."""

    def __init__(self, pid, secret, armed):
        self.pid = pid
        self.secret = secret
        self.armed = armed  # is the secret looked for at each system call?
        self.held = False  # was the secret there?
        self.left = None  # what of it was there when the process exited
        os.waitpid(pid, 0)
        self.mem = open("/proc/%d/mem" % pid, "rb", 0)
        self.maps = open("/proc/%d/maps" % pid, "rb", 0)
        ptrace(PTRACE_SETOPTIONS, pid, TRACE_SYSGOOD | TRACE_EXIT)
        self.go_on()

    def go_on(self, forward=0):
        """Up to the next system call, if that may be where the secret shows."""
        ptrace(PTRACE_SYSCALL if self.armed and not self.held else PTRACE_CONT, self.pid, forward)

    def search(self, most=None):
        """Pieces of 8 bytes of the secret, folded or not, in UTF-8 or UTF-16, with the mapping that
        they are in. 15 bytes of it in a row hold one of them."""
        folded = self.secret.lower()
        wide = b"".join(b"%c\0" % c for c in self.secret)
        pieces = [secret[i:i + 8] for secret in (self.secret, folded, wide)
                  for i in range(0, max(1, len(secret) - 7), 8)][:most]
        found = []
        self.maps.seek(0)
        for line in b"".join(iter(lambda: self.maps.read(1 << 16), b"")).decode().splitlines():
            where, rights, _ = line.split(None, 2)
            if not rights.startswith("rw"):
                continue
            start, end = (int(x, 16) for x in where.split("-"))
            try:
                self.mem.seek(start)
                # Stacks are mostly zeroes; a piece in UTF-16 may end in one.
                data = self.mem.read(end - start).strip(b"\0") + b"\0"
            except (OSError, OverflowError, ValueError):
                continue
            found += [(piece, line) for piece in pieces if piece in data]
        return found

    def step(self):
        """Up to the exit of the process, which is left for `end`."""
        while self.left is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return
            assert os.WIFSTOPPED(status), status
            stop, forward = status >> 8, 0
            if stop == EXIT_STOP:
                self.left = self.search()
                return
            if stop == signal.SIGTRAP | 0x80:
                self.held = self.held or bool(self.search(1))
            elif stop != signal.SIGTRAP:
                forward = os.WSTOPSIG(status)
            self.go_on(forward)

    def end(self):
        self.go_on()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def searched(argv, secret, stdin, stdout):
    """Has the secret read from a file or a pipe. Returns the exit status; fails if the process never
    held the secret, or still did when it exited. Only the first thread is watched, so with several
    it is not known whether another held it."""
    t = Terminal(argv, secret=secret, stdin=stdin, stdout=stdout)
    status = t.end()
    assert t.memory.held or "-j3" in argv, "the search finds nothing"
    assert not t.memory.left, t.memory.left[:5]
    return status


if __name__ == "__main__":
    sys.exit("a module for tests/cli/*.bats")
