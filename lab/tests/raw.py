"""What hand-made peers share: raw sockets, checksums, UDP; and the applications on the other host.

    raw.py ask LOCAL PEER PORT [FROM]   sends a datagram every 50 ms, from port FROM
    raw.py echo LOCAL PORT PEER PORT    a connected socket that sends back what comes
    raw.py serve LOCAL PORT             takes a TCP connection and sends back what comes

Each line of input has a line of output with what happened so far, as JSON.
"""

import ipaddress
import json
import os
import select
import socket
import struct
import sys
import time

ETH_P_IPV6 = 0x86DD
SOL_PACKET = 263
PACKET_AUXDATA = 8
TP_STATUS_CSUMNOTREADY = 1 << 3
IPV6_HEADER = 40
TCP, UDP = 6, 17
# Where the checksum is in the header.
SUM_AT = {TCP: 16, UDP: 6}
INTERVAL = 0.05


def address(text):
    return ipaddress.IPv6Address(text).packed


def text(octets):
    return str(ipaddress.IPv6Address(octets))


def ones_sum(octets):
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def pseudo_header(source, destination, length, protocol):
    return source + destination + struct.pack("!IxxxB", length, protocol)


def checksum(source, destination, protocol, message):
    """RFC 8200 s8.1; for ILNP the addresses have no locators (RFC 6741 s4.2)."""
    pseudo = pseudo_header(source, destination, len(message), protocol)
    return ones_sum(pseudo + message) ^ 0xFFFF or 0xFFFF


def udp(source, destination, ports, payload):
    head = struct.pack("!HHH", *ports, 8 + len(payload))
    sum_ = checksum(source, destination, UDP, head + b"\0\0" + payload)
    return head + struct.pack("!H", sum_) + payload


class Packet:
    """An IPv6 packet that came in."""

    def __init__(self, octets, is_partial):
        self.octets = octets
        self.next_header = octets[6]
        self.source, self.destination = octets[8:24], octets[24:40]
        self.payload = octets[IPV6_HEADER : IPV6_HEADER + int.from_bytes(octets[4:6], "big")]
        self.is_partial = is_partial

    def is_sum_right(self, source, destination, message, protocol=UDP):
        """Whether the checksum is for these addresses: the whole of it, or what the network card is to complete."""
        pseudo = pseudo_header(source, destination, len(message), protocol)
        if self.is_partial and protocol in SUM_AT:
            at = SUM_AT[protocol]
            return ones_sum(pseudo) == int.from_bytes(message[at : at + 2], "big")
        return ones_sum(pseudo + message) == 0xFFFF


class Wire:
    """All that comes to the uplinks of this host, and packets that are made in full."""

    def __init__(self, uplinks):
        """Interface and /64 of each."""
        self.listeners, self.senders = [], {}
        for name, prefix in uplinks:
            listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
            listener.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            listener.bind((name, ETH_P_IPV6))
            self.listeners.append(listener)
            sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
            self.senders[prefix] = sender

    def send(self, source, destination, next_header, payload):
        head = struct.pack("!IHBB", 6 << 28, len(payload), next_header, 64)
        packet = head + source + destination + payload
        self.senders[source[:8]].sendto(packet, (text(destination), 0))

    def receive(self, timeout):
        """Packets, and the words of input; nothing if the time is over."""
        ready = select.select([*self.listeners, sys.stdin], [], [], max(timeout, 0))[0]
        for one in ready:
            if one is sys.stdin:
                words = os.read(0, 4096).decode().split()
                if not words:
                    sys.exit()
                yield from words
                continue
            octets, ancillary, _, source = one.recvmsg(65536, 256)
            if source[2] == socket.PACKET_OUTGOING or len(octets) < IPV6_HEADER:
                continue
            status = struct.unpack("I", ancillary[0][2][:4])[0] if ancillary else 0
            yield Packet(octets, bool(status & TP_STATUS_CSUMNOTREADY))


def tell(**what):
    print(json.dumps(what), flush=True)


def connected(local, local_port, peer, port):
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.bind((local, int(local_port)))
    one.connect((peer, int(port)))
    return one


def is_told_to_speak(timeout, one):
    """Whether a line of input came, and whether the socket has something."""
    ready = select.select([sys.stdin, one], [], [], max(timeout, 0))[0]
    if sys.stdin in ready and not os.read(0, 4096):
        sys.exit()
    return sys.stdin in ready, one in ready


def ask(local, peer, port, local_port=0):
    one = connected(local, local_port, peer, port)
    sent, answered, longest = 0, set(), 0.0
    due = last = time.monotonic()
    while True:
        is_told, is_here = is_told_to_speak(due - time.monotonic(), one)
        now = time.monotonic()
        if is_here:
            try:
                answered.add(int.from_bytes(one.recv(64), "big"))
                longest, last = max(longest, now - last if len(answered) > 1 else 0), now
            except OSError:
                pass
        if is_told:
            tell(sent=sent, answered=len(answered), longest=max(longest, now - last))
        if now >= due:
            try:
                one.send(sent.to_bytes(8, "big"))
            except OSError:
                pass
            sent, due = sent + 1, now + INTERVAL


def echo(local, port, peer, peer_port):
    one = connected(local, port, peer, peer_port)
    print("ready", flush=True)
    send_back(one)


def serve(local, port):
    listener = socket.create_server((local, int(port)), family=socket.AF_INET6)
    print("ready", flush=True)
    send_back(listener.accept()[0])


def send_back(one):
    answered = 0
    while True:
        is_told, is_here = is_told_to_speak(60, one)
        if is_here:
            try:
                one.send(one.recv(2048))
                answered += 1
            except OSError:
                pass
        if is_told:
            tell(answered=answered)


if __name__ == "__main__":
    {"ask": ask, "echo": echo, "serve": serve}[sys.argv[1]](*sys.argv[2:])
