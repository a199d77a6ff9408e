"""Flows of one pair of addresses, each with a packet mark or a traffic class of its own.

    marked.py receive ADDRESS COUNT PORT...         prints "ready", then what came, as JSON
    marked.py send LOCAL PEER COUNT CLASS PORT:MARK...
"""

import json
import socket
import struct
import sys
import time

SIZE = 1000


def datagram(number, port):
    return struct.pack("!I", number) + bytes((number + port) % 251 for _ in range(SIZE - 4))


def receive(address, count, ports):
    sockets = {port: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for port in ports}
    for port, one in sockets.items():
        one.bind((address, port))
        one.setblocking(False)
    print("ready", flush=True)
    came = {port: set() for port in ports}
    damaged, end = 0, time.monotonic() + 20
    while time.monotonic() < end and any(len(numbers) < count for numbers in came.values()):
        for port, one in sockets.items():
            try:
                octets = one.recv(2 * SIZE)
            except BlockingIOError:
                continue
            number = struct.unpack("!I", octets[:4])[0]
            damaged += octets != datagram(number, port)
            came[port].add(number)
        time.sleep(0.0005)
    print(json.dumps({"came": [len(came[port]) for port in ports], "damaged": damaged}), flush=True)


def send(local, peer, count, traffic_class, flows):
    sockets = []
    for port, mark in flows:
        one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, 36, mark)  # SO_MARK
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, traffic_class)
        one.bind((local, 0))
        one.connect((peer, port))
        sockets.append((port, one))
    for number in range(count):
        for port, one in sockets:
            try:
                one.send(datagram(number, port))
            except ConnectionRefusedError:
                pass
        time.sleep(0.005)


if sys.argv[1] == "receive":
    receive(sys.argv[2], int(sys.argv[3]), [int(port) for port in sys.argv[4:]])
else:
    pairs = [tuple(map(int, flow.split(":"))) for flow in sys.argv[6:]]
    send(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), pairs)
