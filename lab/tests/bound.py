"""Sockets that are bound to an interface, or that name one for each packet.

    bound.py serve PORT [DEVICE] [plain]          echoes TCP and UDP
    bound.py ask LOCAL PEER PORT [DEVICE]         a round of questions, and one more for each line of input;
                                                  in between it goes on asking

The server answers datagrams with IPV6_PKTINFO, with address and interface index; a plain one names no source. Each round is a line of
JSON: which questions had no right answer.

    bound.py ping LOCAL PEER                      one round of echo requests
    bound.py unbound LOCAL PEER PORT              full datagrams of new sockets without an address of their own: connected
                                                  ones, ones that are not, and an echo request
    bound.py narrow LOCAL PEER PORT [DEVICE]      full datagrams of a socket with an address and echo requests: the path may
                                                  have become narrower, so the first of each may be lost
"""

import errno
import json
import select
import socket
import struct
import sys
import threading
import time

PKTINFO = 50
RECVPKTINFO = 49
MTU_DISCOVER = 23
DONTFRAG = 62
SIZES = [100, 1436, 1440, 1452, 3000]
ECHO_REQUEST = 128
ECHO_REPLY = 129
ECHOES = [56, 1224, 1232, 1300, 1436, 1440, 1444, 1445, 1450, 1452, 1453, 3000]
REPEAT = 10
BULK = 400_000


def open_socket(kind, device):
    one = socket.socket(socket.AF_INET6, kind)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if device:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    return one


def echo(connection):
    while octets := connection.recv(65536):
        connection.sendall(octets)


def serve(port, device, is_plain):
    listener = open_socket(socket.SOCK_STREAM, device)
    listener.bind(("::", port))
    listener.listen()
    datagrams = open_socket(socket.SOCK_DGRAM, device)
    datagrams.bind(("::", port))
    datagrams.setsockopt(socket.IPPROTO_IPV6, RECVPKTINFO, 1)
    print("ready", flush=True)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    while True:
        octets, ancillary, _, source = datagrams.recvmsg(65536, 256)
        told = [one for one in ancillary if one[1] == PKTINFO and not is_plain]
        try:
            datagrams.sendmsg([octets], told, 0, source)
        except OSError as error:
            print(f"answer of {len(octets)}: {error}", file=sys.stderr, flush=True)


def pattern(number, size):
    return bytes((number * 31 + place) % 251 for place in range(size))


def is_answered(datagrams, number, size, timeout):
    octets = pattern(number, size)
    try:
        datagrams.send(octets)
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0 and select.select([datagrams], [], [], left)[0]:
            if datagrams.recv(65536) == octets:
                return True
    except OSError as error:
        return error.errno == errno.EMSGSIZE and "too long"
    return False


def is_echoed(connection, number, size):
    octets, came = pattern(number, size), b""
    sent = 0
    while len(came) < size:
        ready = select.select([connection], [connection] if sent < size else [], [], 30)
        if not ready[0] and not ready[1]:
            return False
        if ready[1]:
            sent += connection.send(octets[sent : sent + 65536])
        if ready[0]:
            came += connection.recv(65536)
    return came == octets


def one_round(connection, datagrams):
    lost = []
    for size in SIZES:
        answers = [is_answered(datagrams, number, size, 5) for number in range(REPEAT)]
        lost += [f"UDP {size}: {answers}"] if answers != [True] * REPEAT else []
    datagrams.setsockopt(socket.IPPROTO_IPV6, DONTFRAG, 1)
    longest = is_answered(datagrams, 1, 1440, 5), is_answered(datagrams, 1, 1453, 5)
    lost += [f"DONTFRAG: {longest}"] if longest != (True, "too long") else []
    datagrams.setsockopt(socket.IPPROTO_IPV6, DONTFRAG, 0)
    lost += [] if is_echoed(connection, 7, BULK) else ["TCP"]
    print(json.dumps(lost), flush=True)


def ask(local, peer, port, device):
    connection = open_socket(socket.SOCK_STREAM, device)
    connection.bind((local, 0))
    connection.connect((peer, port))
    connection.setblocking(False)
    datagrams = open_socket(socket.SOCK_DGRAM, device)
    datagrams.bind((local, 0))
    datagrams.connect((peer, port))
    # As the kernel does by itself, whatever the host says.
    datagrams.setsockopt(socket.IPPROTO_IPV6, MTU_DISCOVER, 1)
    one_round(connection, datagrams)
    number = 0
    while True:
        if select.select([sys.stdin], [], [], 0.01)[0]:
            if not sys.stdin.readline():
                return
            one_round(connection, datagrams)
        number += 1
        is_answered(datagrams, number, 50, 0.2)
        if not is_echoed(connection, number, 3000):
            sys.exit("the connection stands still")


def ping(local, peer):
    one = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    one.bind((local, 0))
    lost = []
    for size in ECHOES:
        for number in range(3):
            # Identifier and number.
            rest = struct.pack("!HH", 7, size + number) + pattern(number, size)
            try:
                one.sendto(struct.pack("!BBH", ECHO_REQUEST, 0, 0) + rest, (peer, 0))
                is_here = is_replied(one, rest)
            except OSError as error:
                is_here = str(error)
            lost += [] if is_here is True else [f"{size}: {is_here}"]
    print(json.dumps(lost), flush=True)


def unbound(local, peer, port):
    lost = []
    connected = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    connected.connect((peer, port))
    name = connected.getsockname()[0]
    lost += [f"the kernel takes {name}"] if name != local else []
    # The first may be lost, or the kernel tells that it was too long: it is how the daemon learns of such sockets.
    for number in range(100):
        if is_answered(connected, number, 1452, 0.2) is True:
            break
        time.sleep(0.05)
    # Others than those before, whose answers may be late.
    answers = [is_answered(connected, 100 + number, 1452, 5) for number in range(REPEAT)]
    lost += [f"connected: {answers}"] if answers != [True] * REPEAT else []
    answers = []
    for number in range(REPEAT):
        one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        one.sendto(pattern(number, 1452), (peer, port))
        ready = select.select([one], [], [], 5)[0]
        answers.append(bool(ready) and one.recv(65536) == pattern(number, 1452))
    lost += [f"not connected: {answers}"] if answers != [True] * REPEAT else []
    echo = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    rest = struct.pack("!HH", 7, 1) + pattern(1, 1452)
    echo.sendto(struct.pack("!BBH", ECHO_REQUEST, 0, 0) + rest, (peer, 0))
    lost += [] if is_replied(echo, rest) else ["echo"]
    print(json.dumps(lost), flush=True)


def narrow(local, peer, port, device):
    datagrams = open_socket(socket.SOCK_DGRAM, device)
    datagrams.bind((local, 0))
    datagrams.connect((peer, port))
    datagrams.setsockopt(socket.IPPROTO_IPV6, MTU_DISCOVER, 1)
    echo = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    echo.bind((local, 0))

    def is_pinged(number, timeout):
        rest = struct.pack("!HH", 8, number) + pattern(number, 1452)
        echo.sendto(struct.pack("!BBH", ECHO_REQUEST, 0, 0) + rest, (peer, 0))
        return is_replied(echo, rest, timeout)

    def is_asked(number, timeout):
        return is_answered(datagrams, number, 1452, timeout)

    lost = []
    for has_address in [True, False]:
        connection = open_socket(socket.SOCK_STREAM, device)
        if has_address:
            connection.bind((local, 0))
        connection.connect((peer, port))
        connection.setblocking(False)
        lost += [] if is_echoed(connection, 7, BULK) else [f"TCP, {has_address}"]
    for name, is_right in [("datagrams", is_asked), ("echoes", is_pinged)]:
        for number in range(100):
            if is_right(number, 0.2) is True:
                break
            time.sleep(0.05)
        answers = [is_right(100 + number, 5) for number in range(REPEAT)]
        lost += [f"{name}: {answers}"] if answers != [True] * REPEAT else []
    print(json.dumps(lost), flush=True)


def is_replied(one, rest, timeout=5):
    end = time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0 and select.select([one], [], [], left)[0]:
        came = one.recv(65536)
        if came[0] == ECHO_REPLY and came[4:] == rest:
            return True
    return False


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "serve":
        serve(int(rest[0]), rest[1] if len(rest) > 1 else "", "plain" in rest[2:])
    elif mode == "ping":
        ping(rest[0], rest[1])
    elif mode == "narrow":
        narrow(rest[0], rest[1], int(rest[2]), rest[3] if len(rest) > 3 else "")
    elif mode == "unbound":
        unbound(rest[0], rest[1], int(rest[2]))
    else:
        ask(rest[0], rest[1], int(rest[2]), rest[3] if len(rest) > 3 else "")
