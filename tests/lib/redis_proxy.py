#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands between a client and a Redis server, and does something at a given command.

    redis_proxy.py LISTEN SERVER WORD COUNT ACTION [COMMAND]

LISTEN and SERVER are sockets' paths. The COUNT-th command of all connections that has the word WORD
alone gets the ACTION; all else is passed on.

    before   the shell COMMAND is run, if there is one, and the connection is cut; the server has got
             all that stands before the word, and the client the answers to the commands before
    after    the connection is cut when the server has answered, and the client gets no answer
    run      the shell COMMAND is run, and then the connection goes on
"""
import os
import select
import socket
import subprocess
import sys

LISTEN, SERVER, WORD, COUNT, ACTION = sys.argv[1:6]
MARK = b"\r\n" + WORD.encode() + b"\r\n"
left = int(COUNT)


def answered(reply):
    """Is the last of the replies that to EXEC, or the only one?"""
    return b"\r\n*" in reply if WORD == "EXEC" else reply.endswith(b"\r\n")


def swallow(server):
    """Reads the answers, which the client does not get."""
    reply = b""
    while not answered(reply):
        more = server.recv(1 << 20)
        if not more:
            break
        reply += more


class Pair:
    def __init__(self, client):
        self.client = client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(SERVER)
        self.tail = b""  # the latest bytes to the server, in which a word may have begun

    def to_server(self, data):
        """Passes data on; False: the connection is to be cut."""
        global left
        start = len(self.tail)
        seen = self.tail + data
        at = seen.find(MARK) if left > 0 else -1
        while at >= 0 and left > 1:
            left -= 1
            at = seen.find(MARK, at + 1)
        self.tail = seen[-len(MARK) + 1 :]
        if at < 0:
            self.server.sendall(data)
            return True
        left = 0
        # All but the word's own last bytes.
        end = max(at + len(MARK) - 2 - start, 0)
        self.server.sendall(data[:end])
        if ACTION == "run" or len(sys.argv) > 6:
            subprocess.run(sys.argv[6], shell=True, check=True)
        if ACTION == "before":
            self.server.shutdown(socket.SHUT_WR)  # in mid-command: the server closes it
            while answers := self.server.recv(1 << 16):
                self.client.sendall(answers)
            return False
        self.server.sendall(data[end:])
        if ACTION == "after":
            swallow(self.server)
            return False
        return True

    def move(self, source):
        """Passes on what has come; False at the end."""
        try:
            data = source.recv(1 << 16)
            if not data:
                return False
            if source is self.client:
                return self.to_server(data)
            self.client.sendall(data)
            return True
        except OSError:
            return False

    def close(self):
        self.client.close()
        self.server.close()


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(LISTEN + ".new")
    listener.listen()
    os.rename(LISTEN + ".new", LISTEN)
    pairs = {}
    while True:
        for ready in select.select([listener, *pairs], [], [])[0]:
            if ready is listener:
                try:
                    pair = Pair(listener.accept()[0])
                except OSError:
                    continue
                pairs[pair.client] = pairs[pair.server] = pair
            elif ready in pairs and not pairs[ready].move(ready):
                pair = pairs[ready]
                del pairs[pair.client], pairs[pair.server]
                pair.close()


main()
