# SPDX-License-Identifier: MIT
"""A redis-server of our own on a Unix socket, and as much of its protocol as is needed."""

import os
import socket
import subprocess
import tempfile
import time

# SETBIT and GETBIT for many keys at once: KEYS[1] is the bitmap, ARGV has k positions a key.
SET = """
for i = 2, #ARGV do redis.call('SETBIT', KEYS[1], ARGV[i], 1) end
return 1
"""
ASK = """
local k, out = tonumber(ARGV[1]), {}
for first = 2, #ARGV, k do
    local yes = '1'
    for i = first, first + k - 1 do
        if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then yes = '0' break end
    end
    out[#out + 1] = yes
end
return table.concat(out)
"""
BATCH = 500  # keys a script


class Server:
    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory()
        self.path = path = os.path.join(self.dir.name, "socket")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--dir", self.dir.name,
             "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
        for _ in range(300):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                time.sleep(0.1)
        else:
            self.__exit__()
            raise RuntimeError("redis-server does not answer")
        self.replies = self.socket.makefile("rb")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.socket.close()
        self.dir.cleanup()

    def call(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.reply()

    def reply(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self.replies.read(int(rest) + 2)[:-2] if rest != b"-1" else None
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest

    def set_bits(self, name, positions):
        """positions: a list of the same length for each key."""
        for at in range(0, len(positions), BATCH):
            part = positions[at:at + BATCH]
            self.call("EVAL", SET, 1, name, len(part[0]), *(x for key in part for x in key))

    def ask_bits(self, name, positions):
        """A list of booleans, one a key."""
        out = b""
        for at in range(0, len(positions), BATCH):
            part = positions[at:at + BATCH]
            out += self.call("EVAL", ASK, 1, name, len(part[0]), *(x for key in part for x in key))
        return [c == ord("1") for c in out]
