#!/usr/bin/env python3
"""strangers.py PID N: N connections to every loopback port on which the process listens, as strangers make them: closed at once,
held without a word, garbage, a wrong secret, half a greeting, one byte after the other. Fails if it listens on no such port, on
another address, answers any of them, or lets one stay that sent no secret for ten seconds."""
import os
import random
import socket
import sys
import time

HELD = 200  # at a time


def listens(pid):
    """[(address, port)] of the process's listening sockets."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for line in open(f"/proc/{pid}/net/tcp").readlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in inodes:
            ip, port = words[1].split(":")
            found.append((socket.inet_ntoa(bytes.fromhex(ip)[::-1]), int(port, 16)))
    return found


def send(s, what):
    try:
        s.send(what)
    except OSError:
        pass  # closed by the other side


def visit(port, kind, draw, held):
    s = socket.create_connection(("127.0.0.1", port), 10)
    if kind == 1:
        send(s, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    elif kind == 2:
        send(s, draw.randbytes(96))
    elif kind == 3:
        send(s, draw.randbytes(16) + (1).to_bytes(8, "little") * 2 + bytes(64) + b"LQBM")
    elif kind == 4:
        send(s, draw.randbytes(1 << 16))
    elif kind == 5:
        send(s, draw.randbytes(1))
    if kind:
        held.append(s)
    else:
        s.close()
    if len(held) > HELD:
        answer(held.pop(0))


def answer(s, wait=0.0):
    """Nobody may answer; True: it is closed."""
    s.settimeout(wait or 0.0001)
    try:
        got = s.recv(64)
    except (BlockingIOError, socket.timeout):
        return False
    except OSError:
        got = b""
    if got:
        sys.exit(f"a stranger was answered: {got!r}")
    s.close()
    return True


def main():
    pid, n = int(sys.argv[1]), int(sys.argv[2])
    draw, held = random.Random(1), []
    listeners = listens(pid)
    own = [port for ip, port in listeners if ip == "127.0.0.1"]
    others = [f"{ip}:{port}" for ip, port in listeners if ip != "127.0.0.1"]
    print(f"process {pid} listens on {listeners}", flush=True)
    if not own:
        sys.exit("it does not listen on 127.0.0.1")
    # Open MPI listens on all addresses: 0.0.0.0
    if any(not o.startswith("0.0.0.0:") for o in others):
        sys.exit(f"it listens on {others}")
    for i in range(n):
        for port in own:
            visit(port, i % 6, draw, held)
    end = time.monotonic() + 10
    while held and time.monotonic() < end:
        held = [s for s in held if not answer(s, 0.02)]
    if held:
        sys.exit(f"{len(held)} strangers are still connected")


main()
