#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands in for a Redis server with the module RedisBloom, which no package has.

Usage: bloom_server.py SOCKET [BYTES | valkey]

It answers on a Unix socket (RESP2) the BF commands that seen uses, as the module of versions 2.2.10
and later does, with the chains of tests/interop/second.py: their hashes, links and headers are those
of the golden dumps in tests/vectors, which the real module wrote. Of Redis itself it has what the
tests need. BF.SCANDUMP returns at most BYTES bytes at once (default: 16 MiB, as the module).

With "valkey" it is a server with valkey-bloom 1.0: without BF.SCANDUMP and BF.LOADCHUNK, with more
in BF.INFO, and with other links: the first has all of the error rate, and whole bytes.

What it cannot show is that the real module answers like this. The tests run on that one if
SEEN_REDISBLOOM names its redisbloom.so (tests/lib/bloom.bash).
"""

import asyncio
import math
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
import second  # noqa: E402

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
HEADER, LINK = struct.Struct("<QIII"), struct.Struct("<QQQddIQB")


class Refused(Exception):
    pass


class Full(Exception):
    pass


class Status(str):
    pass


def number(text, kind, why):
    try:
        return kind(text)
    except ValueError:
        raise Refused(why) from None


def chain_from(header):
    """BF.LOADCHUNK of a header, with the checks of the module."""
    bad = Refused("ERR received bad data")
    if len(header) < HEADER.size:
        raise bad
    size, links, options, growth = HEADER.unpack_from(header)
    if links == 0 or len(header) != HEADER.size + links * LINK.size or options > 15:
        raise bad
    chain = second.Chain.__new__(second.Chain)
    chain.options, chain.growth, chain.links = options, growth, []
    for i in range(links):
        link = second.Link.__new__(second.Link)
        (link.bytes, link.bits, link.size, link.error, link.bpe, link.k, link.entries,
         link.n2) = LINK.unpack_from(header, HEADER.size + i * LINK.size)
        if link.bits == 0 or link.bits != 8 * link.bytes or not 0 < link.error < 1 or \
                link.n2 > 63 or (link.n2 and link.bits < 1 << link.n2):
            raise bad
        link.mod = 1 << link.n2 if link.n2 else link.bits
        link.data = bytearray(link.bytes)
        chain.links.append(link)
    if size != sum(link.size for link in chain.links):
        raise bad
    return chain


class ValkeyChain(second.Chain):
    MOST = 128 << 20  # bytes, bf.bloom-memory-usage-limit

    def __init__(self, n, error, options, growth):
        self.options, self.growth, self.links = options, growth, []
        self.error, self.first = error, n
        self.append(n)

    def append(self, n):
        link = second.Link(n, self.error * 0.5 ** len(self.links), self.options)
        link.bytes = math.ceil(n * math.log(link.error) / (-8 * math.log(2) ** 2))
        link.bits = link.mod = 8 * link.bytes
        link.k = max(1, math.floor(link.bits / n * math.log(2) + 0.5))
        link.data = bytearray(link.bytes)
        if sum(each.bytes for each in self.links) + link.bytes > self.MOST:
            raise Full("ERR operation exceeds bloom object memory limit")
        self.links.append(link)

    def add(self, key):
        last = self.links[-1]
        if last.size >= last.entries:
            self.append(last.entries * self.growth)
        self.links[-1].add(*self.pair(key))

    def most(self):
        """How far it can grow: until a link is too large, or its error rate is 0."""
        n, total, used, error = self.first, 0, 0, self.error
        while error > 0:
            used += math.ceil(n * math.log(error) / (-8 * math.log(2) ** 2))
            if used > self.MOST:
                break
            total, n, error = total + n, n * self.growth, error * 0.5
        return total


def place(chain, at):
    """The link that has the byte at this offset of all bits, and the offset in it."""
    for link in chain.links:
        if 0 <= at < link.bytes:
            return link, at
        at -= link.bytes
    return None, 0


def add(chain, item):
    if chain.has(item):
        return 0
    last = chain.links[-1]
    if last.size >= last.entries and chain.options & second.NO_SCALING:
        raise Full("ERR non scaling filter is full")
    chain.add(item)
    return 1


class Server:
    def __init__(self, chunk, chain=second.Chain):
        self.chunk, self.make_chain = chunk, chain
        self.values, self.ends, self.denied = {}, {}, set()
        self.connections = set()
        self.awaited = None  # [name, number, words]: AFTER

    def get(self, key):
        if key in self.ends and self.ends[key] <= time.time():
            self.drop(key)
        return self.values.get(key)

    def drop(self, key):
        self.ends.pop(key, None)
        return self.values.pop(key, None) is not None

    def chain(self, key, missing=Refused("ERR not found")):
        value = self.get(key)
        if value is None:
            raise missing
        if not isinstance(value, second.Chain):
            raise Refused(WRONGTYPE)
        return value

    def run(self, words):
        name = words[0].decode("latin-1").lower()
        method = getattr(self, "do_" + name.replace(".", "_"), None)
        if method is None:
            raise Refused("ERR unknown command '%s', with args beginning with: " %
                          words[0].decode("latin-1"))
        if name in self.denied:
            raise Refused("NOPERM this user has no permissions to run the '%s' command" % name)
        try:
            return method(*words[1:])
        except TypeError:
            raise Refused("ERR wrong number of arguments for '%s' command" % name) from None
        finally:
            self.count(name)

    def count(self, name):
        if self.awaited is None or self.awaited[0] != name:
            return
        self.awaited[1] -= 1
        if self.awaited[1] == 0:
            words, self.awaited = self.awaited[2], None
            self.run(words)

    def do_after(self, number, name, *words):
        """Runs a command when so many of that name have been carried out: what others may do."""
        self.awaited = [name.decode().lower(), int(number), words]
        return Status("OK")

    # ---- The module.

    def do_bf_reserve(self, key, error, capacity, *options):
        words = [word.upper() for word in options]
        if self.get(key) is not None:
            self.chain(key)
            raise Refused("ERR item exists")
        scales = b"NONSCALING" not in words
        growth = int(words[words.index(b"EXPANSION") + 1]) if b"EXPANSION" in words else 2
        self.values[key] = self.make_chain(
            number(capacity, int, "ERR bad capacity"), number(error, float, "ERR bad error rate"),
            second.FORCE64 | second.NOROUND | (0 if scales else second.NO_SCALING), growth)
        return Status("OK")

    def do_bf_insert(self, key, *words):
        at = [word.upper() for word in words].index(b"ITEMS")
        if self.get(key) is None and b"NOCREATE" not in [word.upper() for word in words[:at]]:
            self.do_bf_reserve(key, b"0.01", b"100")
        chain, answers = self.chain(key), []
        for item in words[at + 1:]:
            try:
                answers.append(add(chain, item))
            except Full as full:
                answers.append(full)
                break
        return answers

    def do_bf_madd(self, key, *items):
        return self.do_bf_insert(key, b"ITEMS", *items)

    def do_bf_add(self, key, item):
        return self.do_bf_madd(key, item)[0]

    def do_bf_mexists(self, key, *items):
        chain = self.get(key)
        if not isinstance(chain, second.Chain):
            return [0] * len(items)
        return [int(chain.has(item)) for item in items]

    def do_bf_exists(self, key, item):
        return self.do_bf_mexists(key, item)[0]

    def do_bf_info(self, key):
        chain = self.chain(key)
        scales = not chain.options & second.NO_SCALING
        return [Status("Capacity"), sum(link.entries for link in chain.links),
                Status("Size"), sum(link.bytes for link in chain.links),
                Status("Number of filters"), len(chain.links),
                Status("Number of items inserted"), sum(link.size for link in chain.links),
                Status("Expansion rate"), chain.growth if scales else None]

    def do_bf_scandump(self, key, iterator):
        chain = self.chain(key)
        at = number(iterator, int, "Second argument must be numeric")
        if at == 0:
            return [1, chain.header()]
        link, offset = place(chain, at - 1)
        if link is None:
            return [0, b""]
        data = bytes(link.data[offset:offset + self.chunk])
        return [at + len(data), data]

    def do_bf_loadchunk(self, key, iterator, data):
        end = number(iterator, int, "ERR Second argument must be numeric")
        if self.get(key) is None and end == 1:
            self.values[key] = chain_from(data)
            return Status("OK")
        chain = self.chain(key)
        if end <= 0 or end < len(data):
            raise Refused("ERR received bad data")
        link, offset = place(chain, end - len(data) - 1)
        if link is None:
            raise Refused("ERR invalid offset - no link found")
        if len(data) > link.bytes - offset:
            raise Refused("ERR invalid chunk - Too big for current filter")
        link.data[offset:offset + len(data)] = data
        return Status("OK")

    # ---- Redis.

    def do_ping(self):
        return Status("PONG")

    def do_auth(self, *_):
        return Status("OK")

    def do_select(self, _):
        return Status("OK")

    def do_info(self, *_):
        return b"# Server\r\nredis_mode:standalone\r\n"

    def do_cluster(self, *_):
        raise Refused("ERR This instance has cluster support disabled")

    def do_acl(self, _setuser, _user, change):
        {b"-": self.denied.add, b"+": self.denied.discard}[change[:1]](change[1:].decode().lower())
        return Status("OK")

    def do_client(self, what, *_):
        """CLIENT LIST, a line each; CLIENT KILL of all."""
        if what.upper() == b"LIST":
            return b"client\n" * len(self.connections)
        for writer in self.connections:
            writer.close()
        return len(self.connections)

    def do_set(self, key, value):
        self.drop(key)
        self.values[key] = value
        return Status("OK")

    def do_exists(self, key):
        return int(self.get(key) is not None)

    def do_type(self, key):
        value = self.get(key)
        return Status("none" if value is None else
                      "MBbloom--" if isinstance(value, second.Chain) else "string")

    def do_unlink(self, *keys):
        return sum(self.drop(key) for key in keys)

    do_del = do_unlink

    def do_flushall(self):
        self.values.clear()
        self.ends.clear()
        return Status("OK")

    def do_scan(self, *_):
        return [b"0", [key for key in list(self.values) if self.get(key) is not None]]

    def do_dbsize(self):
        return sum(self.get(key) is not None for key in list(self.values))

    def do_rename(self, key, other):
        if self.get(key) is None:
            raise Refused("ERR no such key")
        end, value = self.ends.get(key), self.values[key]
        self.drop(key)
        self.drop(other)
        self.values[other] = value
        if end is not None:
            self.ends[other] = end
        return Status("OK")

    def do_pexpire(self, key, ms):
        if self.get(key) is None:
            return 0
        self.ends[key] = time.time() + int(ms) / 1000
        return 1

    def do_expire(self, key, seconds):
        return self.do_pexpire(key, int(seconds) * 1000)

    def do_persist(self, key):
        return int(self.get(key) is not None and self.ends.pop(key, None) is not None)

    def do_pttl(self, key):
        if self.get(key) is None:
            return -2
        return int((self.ends[key] - time.time()) * 1000) if key in self.ends else -1

    def do_ttl(self, key):
        ms = self.do_pttl(key)
        return ms if ms < 0 else ms // 1000


class ValkeyServer(Server):
    do_bf_scandump = do_bf_loadchunk = None

    def __init__(self):
        super().__init__(0, ValkeyChain)

    def do_bf_info(self, key):
        chain, info = self.chain(key), super().do_bf_info(key)
        info[8:8] = [Status("Error rate"), b"%.17g" % chain.error]
        if info[-1] is not None:
            info += [Status("Tightening ratio"), b"0.5",
                     Status("Max scaled capacity"), chain.most()]
        return info


def encode(answer):
    if answer is None:
        return b"$-1\r\n"
    if isinstance(answer, Exception):
        return b"-%s\r\n" % str(answer).encode("latin-1")
    if isinstance(answer, Status):
        return b"+%s\r\n" % answer.encode()
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    if isinstance(answer, bytes):
        return b"$%d\r\n%s\r\n" % (len(answer), answer)
    return b"*%d\r\n%s" % (len(answer), b"".join(map(encode, answer)))


async def read_command(reader):
    """The words of one command; an empty list at the end."""
    try:
        words = []
        for _ in range(int((await reader.readline())[1:] or b"0")):
            length = int((await reader.readline())[1:])
            words.append((await reader.readexactly(length + 2))[:-2])
        return words
    except (asyncio.IncompleteReadError, ConnectionError):
        return []


class Connection:
    def __init__(self, server):
        self.server = server
        self.queued = None  # the commands since MULTI

    def run(self, words):
        try:
            return self.server.run(words)
        except Refused as why:
            return why

    def answer(self, words):
        name = words[0].upper()
        if name == b"MULTI":
            self.queued = []
            return Status("OK")
        if self.queued is None:
            return self.run(words)
        if name != b"EXEC":
            self.queued.append(words)
            return Status("QUEUED")
        queued, self.queued = self.queued, None
        return [self.run(each) for each in queued]


async def serve(server, reader, writer):
    server.connections.add(writer)
    connection = Connection(server)
    try:
        while words := await read_command(reader):
            writer.write(encode(connection.answer(words)))
            await writer.drain()
    except ConnectionError:
        pass
    server.connections.discard(writer)
    writer.close()


async def main():
    mode = sys.argv[2] if len(sys.argv) > 2 else str(16 << 20)
    server = ValkeyServer() if mode == "valkey" else Server(int(mode))
    listening = await asyncio.start_unix_server(
        lambda reader, writer: serve(server, reader, writer), sys.argv[1])
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
