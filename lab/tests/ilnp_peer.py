"""A host with ILNPv6 by RFC 6740 to 6744 and nothing else, the initiator of one session.

    ilnp_peer.py PORT PEER PEER_PORT UPLINK=ADDRESS...

Sends a datagram every 50 ms from the first address. Each word of input has a line of output with what happened so far, as
JSON; the word "move" has the session go on from the next address. The kernel has to own the addresses, for Neighbor
Discovery, and must not answer anything else.
"""

import os
import struct
import sys
import time

sys.dont_write_bytecode = True
import raw  # noqa: E402

DESTINATION_OPTIONS, ICMPV6 = 60, 58
# RFC 6744 s2
NONCE, PAD1 = 0x8B, 0
# RFC 4443 s4, RFC 6743 s2
ECHO_REQUEST, ECHO_REPLY, LOCATOR_UPDATE = 128, 129, 156
ADVERTISEMENT, ACKNOWLEDGEMENT = 1, 2
LIFETIME = 3600
# Packets with the nonce that begin a session, once the correspondent has shown its own (RFC 6744 s6).
FIRST_PACKETS = 5
# Between a Locator Update and the next, until it is acknowledged.
AGAIN = 0.5


def identified(address):
    """An address as checksums have it (RFC 6744 s3)."""
    return bytes(8) + address[8:]


def read_options(packet):
    """Nonces, upper-layer protocol and message."""
    nonces, protocol, message = [], packet.next_header, packet.payload
    while protocol == DESTINATION_OPTIONS:
        protocol, end, at = message[0], 8 * (message[1] + 1), 2
        while at < end:
            if message[at] == PAD1:
                at += 1
                continue
            length = message[at + 1]
            if message[at] == NONCE:
                nonces.append(message[at + 2 : at + 2 + length])
            at += 2 + length
        message = message[end:]
    return nonces, protocol, message


class Node:
    """One entry of an Identifier-Locator Communication Cache (RFC 6741 s5), and the traffic of its session."""

    def __init__(self, port, peer, peer_port, uplinks):
        self.ports, self.peer = (port, peer_port), peer
        self.wire = raw.Wire([(name, address[:8]) for name, address in uplinks])
        self.addresses = [address for _, address in uplinks]
        self.local = self.addresses[0]
        self.nonce, self.peer_nonce = os.urandom(4), None
        # Whether a datagram has come with the nonce (RFC 6744 s6).
        self.is_begun = False
        # The best first.
        self.peer_locators = [peer[:8]]
        self.first_packets = FIRST_PACKETS
        # Where the session moves to, and when that is told again.
        self.target, self.told = None, 0.0
        self.number, self.bare_numbers = 0, set()
        self.answered, self.bare, self.classic = set(), 0, 0
        self.last, self.updates = None, []
        self.faults = dict.fromkeys(["nonce", "nonces", "locator", "checksum"], 0)

    def peer_address(self):
        return self.peer_locators[0] + self.peer[8:]

    def send(self, source, destination, protocol, message, has_nonce=True):
        if has_nonce:
            message = bytes([protocol, 0, NONCE, len(self.nonce)]) + self.nonce + message
            protocol = DESTINATION_OPTIONS
        self.wire.send(source, destination, protocol, message)

    def send_icmp(self, source, destination, kind, rest):
        """With the nonce always (RFC 6744 s6), and the checksum of all ICMPv6 (RFC 6741 s4.3)."""
        head = bytes([kind, 0])
        sum_ = raw.checksum(source, destination, ICMPV6, head + bytes(2) + rest)
        self.send(source, destination, ICMPV6, head + struct.pack("!H", sum_) + rest)

    def ask(self):
        """The next datagram, without the nonce once the correspondent has shown that it takes part."""
        has_nonce = not self.is_begun or self.first_packets > 0
        if self.is_begun:
            self.first_packets -= has_nonce
        if not has_nonce:
            self.bare_numbers.add(self.number)
        source, destination = self.local, self.peer_address()
        payload = self.number.to_bytes(8, "big")
        message = raw.udp(identified(source), identified(destination), self.ports, payload)
        self.send(source, destination, raw.UDP, message, has_nonce)
        self.number += 1

    def move(self):
        """Tells of the next address from the present one, which is still there."""
        at = self.addresses.index(self.local)
        self.target = self.target or self.addresses[(at + 1) % len(self.addresses)]
        self.tell_of_target(time.monotonic())

    def tell_of_target(self, now):
        locator = self.target[:8] + struct.pack("!HH", 10, LIFETIME)
        rest = bytes([1, ADVERTISEMENT, 0, 0]) + locator
        self.send_icmp(self.local, self.peer_address(), LOCATOR_UPDATE, rest)
        self.told = now

    def on_packet(self, packet):
        is_ours = packet.destination in self.addresses and packet.source[8:] == self.peer[8:]
        nonces, protocol, message = read_options(packet) if is_ours else ([], None, b"")
        if len(nonces) > 1:
            self.faults["nonces"] += 1
            return
        nonce = nonces[0] if nonces else None
        if protocol == ICMPV6 and message[0] in (ECHO_REQUEST, LOCATOR_UPDATE):
            self.on_icmp(packet, nonce, message)
        elif protocol == raw.UDP and struct.unpack("!HH", message[:4]) == self.ports[::-1]:
            self.on_answer(packet, nonce, message)

    def is_right(self, packet, nonce):
        """RFC 6744 s4"""
        self.peer_nonce = self.peer_nonce or nonce
        self.faults["nonce"] += nonce not in (None, self.peer_nonce)
        is_known = packet.source[:8] in self.peer_locators
        self.faults["locator"] += nonce is None and not is_known
        return nonce == self.peer_nonce or (nonce is None and is_known)

    def on_icmp(self, packet, nonce, message):
        is_sum_right = packet.is_sum_right(packet.source, packet.destination, message, ICMPV6)
        self.faults["checksum"] += not is_sum_right
        if nonce is None or not is_sum_right or not self.is_right(packet, nonce):
            return
        if message[0] == ECHO_REQUEST:
            self.send_icmp(packet.destination, packet.source, ECHO_REPLY, message[4:])
        elif message[5] == ACKNOWLEDGEMENT and self.target and message[8:16] == self.target[:8]:
            self.local, self.target = self.target, None
            self.bare, self.bare_numbers = 0, set()
        elif message[5] == ADVERTISEMENT:
            self.on_update(packet, message)

    def on_update(self, packet, message):
        """RFC 6743 s2, s4"""
        at = range(8, 8 + 12 * message[4], 12)
        listed = [(int.from_bytes(message[one + 8 : one + 10], "big"), message[one : one + 8]) for one in at]
        locators = [locator for _, locator in sorted(listed)]
        self.updates.append([raw.text(packet.source), *(raw.text(one + bytes(8)) for one in locators)])
        if locators[0] != self.peer_locators[0]:
            self.bare, self.bare_numbers = 0, set()
        self.peer_locators = locators
        rest = bytes([message[4], ACKNOWLEDGEMENT]) + message[6:]
        self.send_icmp(packet.destination, packet.source, LOCATOR_UPDATE, rest)

    def on_answer(self, packet, nonce, message):
        self.is_begun = self.is_begun or nonce is not None
        if not self.is_begun:
            # The correspondent takes no part yet: the checksum is of classic IPv6, and wrong here.
            self.classic += 1
            return
        ends = identified(packet.source), identified(packet.destination)
        if not packet.is_sum_right(*ends, message):
            self.faults["checksum"] += 1
        elif self.is_right(packet, nonce):
            number = int.from_bytes(message[8:16], "big")
            self.answered.add(number)
            self.bare += number in self.bare_numbers
            self.last = [raw.text(packet.source), raw.text(packet.destination)]

    def tell(self):
        raw.tell(
            answered=len(self.answered),
            # Answers to datagrams without nonce since the last move of either end.
            bare=self.bare,
            # Datagrams by classic IPv6, before the session.
            classic=self.classic,
            # The addresses of the last answer, from the correspondent to here.
            last=self.last,
            # Locator Updates of the correspondent: where each came from, and its locators, the best first.
            updates=self.updates,
            # All of these have to be 0.
            faults=self.faults,
        )

    def run(self):
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            for came in self.wire.receive(due - time.monotonic()):
                if isinstance(came, raw.Packet):
                    self.on_packet(came)
                else:
                    if came == "move":
                        self.move()
                    self.tell()
            now = time.monotonic()
            if self.target and now >= self.told + AGAIN:
                self.tell_of_target(now)
            if now >= due:
                self.ask()
                due = now + raw.INTERVAL


if __name__ == "__main__":
    port, peer, peer_port, *named = sys.argv[1:]
    uplinks = [one.split("=") for one in named]
    uplinks = [(name, raw.address(address)) for name, address in uplinks]
    Node(int(port), raw.address(peer), int(peer_port), uplinks).run()
