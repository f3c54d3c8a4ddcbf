#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands between a client and a server on ports of this machine, and prints the port that it listens on.

    relay.py PORT record FILE    writes all bytes of both directions to FILE
    relay.py PORT cut BYTES      cuts the first connection after that many bytes of the server
    relay.py PORT drip SECONDS   passes one byte of the server's on at a time, with that pause
    relay.py PORT say HEX        gives each client these bytes for its first ones, and closes

Other connections, and the rest, are passed on as they are.
"""
import select
import socket
import sys
import time

PORT, ACTION, ARGUMENT = int(sys.argv[1]), sys.argv[2], sys.argv[3]
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
log = open(ARGUMENT, "ab", buffering=0) if ACTION == "record" else None
left = int(ARGUMENT) if ACTION == "cut" else None
peers = {}


def close(one):
    other = peers.pop(one, None)
    peers.pop(other, None)
    one.close()
    if other is not None:
        other.close()


def from_server(client, data):
    """Passes it on; False: the connection is cut."""
    global left
    if left is not None:
        data, left = data[:left], left - len(data)
    if ACTION != "drip":
        client.sendall(data)
    else:
        for i in range(len(data)):
            client.sendall(data[i:i + 1])
            time.sleep(float(ARGUMENT))
    if left is None or left > 0:
        return True
    left = None
    return False


while True:
    for ready in select.select([listener, *peers], [], [])[0]:
        if ready is listener:
            client = listener.accept()[0]
            if ACTION == "say":
                with client:
                    client.recv(1 << 16)
                    client.sendall(bytes.fromhex(ARGUMENT))
                continue
            server = socket.create_connection(("127.0.0.1", PORT))
            peers[client], peers[server] = server, client
            continue
        if ready not in peers:
            continue
        try:
            data = ready.recv(1 << 16)
            if log is not None:
                log.write(data)
            of_server = ready.getpeername()[1] == PORT
            if not data or (of_server and not from_server(peers[ready], data)):
                close(ready)
            elif not of_server:
                peers[ready].sendall(data)
        except OSError:
            close(ready)
