"""A host with ILNPv6 by RFC 6740 to 6744 and nothing else, the initiator of one session.

    ilnp_peer.py udp|tcp|mute PORT PEER PEER_PORT UPLINK=ADDRESS...

`mute` is `udp` by a peer that sends its nonce with each datagram and answers no ICMPv6 message.

Sends a number every 50 ms from the first address, and sends datagrams to the next port back. Each word of input has a line
of output with what happened so far, as JSON. Some words do more:

    move            the session goes on from the next address
    name            the peer is told of all addresses, the present one as the best
    guess           the socket of the peer gets one datagram with a wrong nonce
    forge           the peer gets a Locator Update with a wrong nonce from the present address, and then as for `name`
    deaf, hear      Locator Updates of the peer are ignored from now on, or are taken again
    open            Echo Requests without a nonce are answered from now on, which RFC 6744 s7 leaves open
    one of FORMS    from now on the datagrams have the nonce, behind such headers

The kernel has to own the addresses, for Neighbor Discovery, and must not answer anything else.
"""

import os
import struct
import sys
import time

sys.dont_write_bytecode = True
import raw  # noqa: E402
import tcp  # noqa: E402

HOP_BY_HOP, FRAGMENT, ICMPV6, DESTINATION_OPTIONS = 0, 44, 58, 60
# RFC 6744 s2
NONCE, PAD1, PADN = 0x8B, 0, 1
# RFC 4443 s4, RFC 6743 s2
PARAMETER_PROBLEM, ECHO_REQUEST, ECHO_REPLY, LOCATOR_UPDATE = 4, 128, 129, 156
ADVERTISEMENT, ACKNOWLEDGEMENT = 1, 2
LIFETIME = 3600
# Packets with the nonce that begin a session, once the correspondent has shown its own (RFC 6744 s6).
FIRST_PACKETS = 5
# Between a Locator Update and the next, until it is acknowledged.
AGAIN = 0.5
# Octets of the first fragment behind its Fragment header, so that the packet has the least MTU of IPv6.
FIRST_FRAGMENT = 1280 - raw.IPV6_HEADER - 8
LONG = bytes(1400)


class Datagrams:
    """Numbers in datagrams, and numbers that come back."""

    protocol = raw.UDP

    def __init__(self, ports):
        self.ports, self.padding = ports, b""

    def next_number(self, number):
        return number

    def message(self, ends, number):
        return raw.udp(*ends, self.ports, number.to_bytes(8, "big") + self.padding)

    def read(self, message):
        return [int.from_bytes(message[8:16], "big")], False


def padded(next_header):
    """A header of eight octets with nothing in it: Hop-by-Hop Options or Destination Options (RFC 8200 s4.2)."""
    return bytes([next_header, 0, PADN, 4]) + bytes(4)


def behind_hop_by_hop(options, _):
    return [(HOP_BY_HOP, padded(DESTINATION_OPTIONS) + options)]


def in_second_header(options, _):
    return [(DESTINATION_OPTIONS, padded(DESTINATION_OPTIONS) + options)]


def in_fragments(options, number):
    """RFC 8200 s4.5: the first fragment has the header with the nonce."""
    parts = [options[:FIRST_FRAGMENT], options[FIRST_FRAGMENT:]]
    fields = [(0, 1), (FIRST_FRAGMENT, 0)]
    heads = [struct.pack("!BBHI", DESTINATION_OPTIONS, 0, at | more, number) for at, more in fields]
    return [(FRAGMENT, head + part) for head, part in zip(heads, parts)]


# Each makes packets of a Destination Options header with the nonce, and of all behind it.
FORMS = {"hop-by-hop": behind_hop_by_hop, "second": in_second_header, "fragments": in_fragments}


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

    def __init__(self, transport, peer, uplinks):
        self.transport, self.peer = transport, peer
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
        # Addresses that the next Locator Update names.
        self.named, self.acknowledged = [], 0
        self.form, self.is_deaf, self.shaped = None, False, set()
        self.is_mute, self.is_open, self.asked = False, False, 0
        self.number, self.bare_numbers = 0, set()
        self.answered, self.bare, self.classic = set(), 0, 0
        self.last, self.updates = None, []
        faults = ["nonce", "nonces", "locator", "checksum", "refused"]
        self.faults = dict.fromkeys(faults, 0)

    def peer_address(self):
        return self.peer_locators[0] + self.peer[8:]

    def send(self, source, destination, protocol, message, has_nonce=True, form=None):
        if has_nonce:
            message = bytes([protocol, 0, NONCE, len(self.nonce)]) + self.nonce + message
            protocol = DESTINATION_OPTIONS
        packets = FORMS[form](message, self.number) if form else [(protocol, message)]
        for next_header, payload in packets:
            self.wire.send(source, destination, next_header, payload)

    def send_icmp(self, source, destination, kind, rest):
        """With the nonce always (RFC 6744 s6), and the checksum of all ICMPv6 (RFC 6741 s4.3)."""
        head = bytes([kind, 0])
        sum_ = raw.checksum(source, destination, ICMPV6, head + bytes(2) + rest)
        self.send(source, destination, ICMPV6, head + struct.pack("!H", sum_) + rest)

    def ask(self):
        """The next number, without the nonce once the correspondent has shown that it takes part."""
        number = self.transport.next_number(self.number)
        has_nonce = self.takes_nonce()
        (self.bare_numbers.discard if has_nonce else self.bare_numbers.add)(number)
        if self.form:
            self.shaped.add(number)
        source, destination = self.local, self.peer_address()
        ends = identified(source), identified(destination)
        message = self.transport.message(ends, number)
        self.send(source, destination, self.transport.protocol, message, has_nonce, self.form)
        self.number = number + 1

    def takes_nonce(self):
        has_nonce = not self.is_begun or self.first_packets > 0 or self.form is not None
        if self.is_begun:
            self.first_packets -= has_nonce
        return has_nonce

    def move(self):
        """Tells of the next address from the present one, which is still there."""
        at = self.addresses.index(self.local)
        self.target = self.target or self.addresses[(at + 1) % len(self.addresses)]
        self.named = [self.target]
        self.tell_of_target(time.monotonic())

    def name(self):
        """Tells of all addresses, and stays at the present one."""
        self.target = self.local
        self.named = [self.local, *(one for one in self.addresses if one != self.local)]
        self.tell_of_target(time.monotonic())

    def guess(self):
        """RFC 6744 s7: the correspondent discards the datagram, and nothing else changes."""
        nonce, self.nonce = self.nonce, os.urandom(4)
        source, destination = self.local, self.peer_address()
        message = self.transport.message((identified(source), identified(destination)), self.number)
        self.send(source, destination, self.transport.protocol, message)
        self.nonce = nonce

    def forge(self):
        """RFC 6743 s6: the correspondent discards the first Locator Update, and nothing comes back."""
        nonce, self.nonce = self.nonce, os.urandom(4)
        self.name()
        self.nonce = nonce
        self.name()

    def tell_of_target(self, now):
        locators = [one[:8] + struct.pack("!HH", 10 + at, LIFETIME) for at, one in enumerate(self.named)]
        rest = bytes([len(locators), ADVERTISEMENT, 0, 0]) + b"".join(locators)
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
        elif protocol == ICMPV6 and message[0] == PARAMETER_PROBLEM:
            self.faults["refused"] += 1
        elif protocol in (raw.TCP, raw.UDP):
            ports = struct.unpack("!HH", message[:4])
            if protocol == self.transport.protocol and ports == self.transport.ports[::-1]:
                self.on_answer(packet, nonce, message)
            elif protocol == raw.UDP and ports[1] == self.transport.ports[0] + 1:
                self.on_question(packet, nonce, message)

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
        is_echo = message[0] == ECHO_REQUEST
        self.asked += is_echo
        is_taken = nonce is not None or (is_echo and self.is_open)
        if self.is_mute or not is_taken or not is_sum_right or not self.is_right(packet, nonce):
            return
        if is_echo:
            self.send_icmp(packet.destination, packet.source, ECHO_REPLY, message[4:])
        elif message[5] == ACKNOWLEDGEMENT and self.target and message[8:16] == self.target[:8]:
            self.local, self.target = self.target, None
            self.bare, self.bare_numbers = 0, set()
            self.acknowledged = len(self.named)
        elif message[5] == ADVERTISEMENT:
            self.on_update(packet, message)

    def on_update(self, packet, message):
        """RFC 6743 s2, s4"""
        at = range(8, 8 + 12 * message[4], 12)
        listed = [(int.from_bytes(message[one + 8 : one + 10], "big"), message[one : one + 8]) for one in at]
        locators = [locator for _, locator in sorted(listed)]
        self.updates.append([raw.text(packet.source), *(raw.text(one + bytes(8)) for one in locators)])
        if self.is_deaf:
            return
        if locators[0] != self.peer_locators[0]:
            self.bare, self.bare_numbers = 0, set()
        self.peer_locators = locators
        rest = bytes([message[4], ACKNOWLEDGEMENT]) + message[6:]
        self.send_icmp(packet.destination, packet.source, LOCATOR_UPDATE, rest)

    def on_answer(self, packet, nonce, message):
        self.is_begun = self.is_begun or nonce is not None
        # The correspondent takes no part yet: the checksum is of classic IPv6, and wrong here.
        if self.is_begun:
            ends = identified(packet.source), identified(packet.destination)
            if not packet.is_sum_right(*ends, message, self.transport.protocol):
                self.faults["checksum"] += 1
                return
            if not self.is_right(packet, nonce):
                return
        numbers, is_owed = self.transport.read(message)
        if is_owed:
            source, destination = self.local, self.peer_address()
            answer = self.transport.acknowledgement((identified(source), identified(destination)))
            self.send(source, destination, self.transport.protocol, answer, self.takes_nonce())
        if not self.is_begun:
            ends = packet.source, packet.destination
            self.classic += packet.is_sum_right(*ends, message, self.transport.protocol)
            return
        for number in numbers:
            self.answered.add(number)
            self.bare += number in self.bare_numbers
            self.last = [raw.text(packet.source), raw.text(packet.destination)]

    def on_question(self, packet, nonce, message):
        """Sends a datagram of another connection back. Before its session the checksum is of classic IPv6."""
        ends = identified(packet.source), identified(packet.destination)
        if packet.is_sum_right(*ends, message) and self.is_right(packet, nonce):
            ports = struct.unpack("!HH", message[:4])[::-1]
            answer = raw.udp(*ends[::-1], ports, message[8:])
            self.send(packet.destination, packet.source, raw.UDP, answer, has_nonce=False)

    def tell(self):
        raw.tell(
            answered=len(self.answered),
            # Answers to datagrams without nonce since the last move of either end.
            bare=self.bare,
            # Answers to datagrams in the present form.
            shaped=len(self.answered & self.shaped),
            # Number of addresses in the last Locator Update that the peer has acknowledged.
            named=self.acknowledged,
            # Packets by classic IPv6, before the session.
            classic=self.classic,
            # Echo Requests that have come.
            asked=self.asked,
            # The addresses of the last answer, from the correspondent to here.
            last=self.last,
            # Locator Updates of the correspondent: where each came from, and its locators, the best first.
            updates=self.updates,
            # All of these have to be 0.
            faults=self.faults,
        )

    def on_word(self, word):
        if word == "move":
            self.move()
        elif word == "name":
            self.name()
        elif word in ("guess", "forge"):
            {"guess": self.guess, "forge": self.forge}[word]()
        elif word in ("deaf", "hear"):
            self.is_deaf = word == "deaf"
        elif word == "open":
            self.is_open = True
        elif word in FORMS:
            self.form, self.shaped = word, set()
            self.transport.padding = LONG if word == "fragments" else b""

    def run(self):
        print("ready", flush=True)
        due = time.monotonic()
        while True:
            for came in self.wire.receive(due - time.monotonic()):
                if isinstance(came, raw.Packet):
                    self.on_packet(came)
                else:
                    self.on_word(came)
                    self.tell()
            now = time.monotonic()
            if self.target and now >= self.told + AGAIN:
                self.tell_of_target(now)
            if now >= due:
                self.ask()
                due = now + raw.INTERVAL


if __name__ == "__main__":
    kind, port, peer, peer_port, *named = sys.argv[1:]
    uplinks = [one.split("=") for one in named]
    uplinks = [(name, raw.address(address)) for name, address in uplinks]
    transport = tcp.Client if kind == "tcp" else Datagrams
    node = Node(transport((int(port), int(peer_port))), raw.address(peer), uplinks)
    node.is_mute = kind == "mute"
    node.run()
