"""A host with Shim6 by RFC 5533, 5534 and 5535 and nothing else, the responder of one context.

    shim6_peer.py PORT SEND_TIMEOUT UPLINK=ADDRESS...

Makes an HBA set in the prefixes of these addresses, prints it as JSON, and sends datagrams to PORT back. Each word of input
has a line of output with what happened so far, as JSON. Some words do more:

    outside           tells the peer of a locator outside the set
    ignore, refuse    lists with a verification method besides HBA are ignored from now on, or have an Error
    gone, back        protocol 140 is unknown from now on, as to a kernel without a daemon, or known again

The kernel has to own the addresses of the set, for Neighbor Discovery, and must not answer anything else.
"""

import hashlib
import hmac
import itertools
import os
import struct
import sys
import time

sys.dont_write_bytecode = True
import hba  # noqa: E402
import raw  # noqa: E402
from reap import KEEPALIVE, PROBE, REPORT_LEN, REPORTS_AT, Reap  # noqa: E402

SHIM6, NO_NEXT_HEADER, ICMPV6 = 140, 59, 58
# RFC 5533 s5.3
I1, R1, I2, R2, UPDATE, UPDATE_ACK, ERROR = 1, 2, 3, 4, 64, 65, 68
# RFC 5533 s5.15
VALIDATOR, LOCATORS, PREFERENCES, PARAMETERS, SIGNATURE, ULIDS, FORK, TIMEOUT = 1, 2, 3, 4, 5, 6, 7, 10
OF_LISTS = {LOCATORS, PREFERENCES, PARAMETERS, SIGNATURE, TIMEOUT}
LISTED = {I1: {ULIDS, FORK}, I2: OF_LISTS | {VALIDATOR, ULIDS, FORK}, UPDATE: OF_LISTS}
# Where the options of the messages begin, behind the reports in a Probe.
OPTIONS_AT = {I1: 16, I2: 24, UPDATE: 16, UPDATE_ACK: 16, KEEPALIVE: 16, PROBE: REPORTS_AT}
# RFC 5533 s5.14
UNKNOWN_TYPE, CRITICAL_OPTION, VERIFICATION_METHOD = 0, 1, 2
HBA = 1
# Where the methods of the first option are in an Update Request: behind the option's header, generation and number.
METHODS_AT = OPTIONS_AT[UPDATE] + 4 + 5
# RFC 4443 s3.4, and where the Next Header of an IPv6 header is.
PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER, NEXT_HEADER_AT = 4, 1, 6


def control(kind, fields, code=0):
    """RFC 5533 s5.3"""
    head = struct.pack("!BBBB", NO_NEXT_HEADER, (6 + len(fields)) // 8 - 1, kind, code << 1)
    assert (len(head) + 2 + len(fields)) % 8 == 0
    return head + struct.pack("!H", raw.ones_sum(head + b"\0\0" + fields) ^ 0xFFFF) + fields


def option(kind, contents):
    """RFC 5533 s5.15"""
    padding = 7 - (len(contents) + 3) % 8
    return struct.pack("!HH", kind << 1, len(contents)) + contents + b"\0" * padding


def locator_list(generation, locators):
    """Contents of an option of HBAs (RFC 5533 s5.15.2)."""
    head = struct.pack("!IB", generation, len(locators)) + bytes([HBA]) * len(locators)
    return head + bytes(-(4 + len(head)) % 8) + b"".join(locators)


def options_of(message, at):
    """Offset, type, critical bit and contents of each."""
    while at + 4 <= len(message):
        kind, length = struct.unpack("!HH", message[at : at + 4])
        yield at, kind >> 1, kind & 1, message[at + 4 : at + 4 + length]
        at += 11 + length - (length + 3) % 8


class Host:
    """RFC 5533"""

    def __init__(self, port, send_timeout, uplinks):
        self.port, self.send_timeout = port, send_timeout
        self.wire = raw.Wire(uplinks)
        self.locators, self.parameters = hba.hba_set([prefix for _, prefix in uplinks])
        self.secret = os.urandom(16)
        self.tag, self.peer_tag = (os.urandom(6) for _ in range(2))
        self.tag = bytes([self.tag[0] & 0x7F]) + self.tag[1:]
        self.ulids, self.peer_locators, self.peer_parameters = None, [], b""
        self.reap = Reap(send_timeout, self.transmit)
        self.handshakes, self.echoed, self.moved, self.refused = 0, 0, 0, 0
        self.unverified, self.wrong = 0, 0
        self.word, self.mixed, self.errors, self.unknown = None, 0, [], 0

    def transmit(self, pair, kind, rest, code=0):
        """A message of the context."""
        self.wire.send(*pair, SHIM6, control(kind, self.peer_tag + rest, code))

    def on_packet(self, packet, now):
        if packet.destination not in self.locators:
            return
        if packet.next_header == SHIM6 and self.word == "gone":
            self.on_unknown(packet)
            return
        if packet.next_header == raw.UDP:
            self.on_datagram(packet, packet.payload, now)
        elif packet.next_header == SHIM6 and packet.payload[2] & 0x80:
            self.on_payload(packet, now)
        elif packet.next_header == SHIM6:
            self.on_control(packet, packet.payload, now)

    def on_payload(self, packet, now):
        """s5.2, s12.2"""
        tag = bytes([packet.payload[2] & 0x7F]) + packet.payload[3:8]
        if tag != self.tag or packet.payload[0] != raw.UDP:
            self.wrong += 1
            return
        self.moved += 1
        self.on_datagram(packet, packet.payload[8:], now, is_moved=True)

    def on_datagram(self, packet, message, now, is_moved=False):
        local, peer = (packet.destination, packet.source) if not is_moved else self.ulids
        peer_port, port, length = struct.unpack("!HHH", message[:6])
        if port != self.port:
            return
        if not packet.is_sum_right(peer, local, message[:length]):
            self.wrong += 1
            return
        is_of_context = (local, peer) == self.ulids
        if is_of_context:
            self.reap.on_payload(now)
        self.echoed += 1
        answer = raw.udp(local, peer, (port, peer_port), message[8:length])
        if is_of_context:
            self.reap.on_sending(now)
        if not is_of_context or self.reap.current == self.ulids:
            self.wire.send(local, peer, raw.UDP, answer)
        else:
            tag = bytes([self.peer_tag[0] | 0x80]) + self.peer_tag[1:]
            self.wire.send(*self.reap.current, SHIM6, bytes([raw.UDP, 0]) + tag + answer)

    def on_control(self, packet, message, now):
        """s12.3"""
        if raw.ones_sum(message) != 0xFFFF or 8 * (message[1] + 1) > len(message):
            self.wrong += 1
            return
        message = message[: 8 * (message[1] + 1)]
        kind, pair = message[2], (packet.destination, packet.source)
        if kind == ERROR:
            self.errors.append([message[3] >> 1, int.from_bytes(message[6:8], "big") - METHODS_AT])
        if kind in (R1, R2, ERROR):
            return
        if kind not in OPTIONS_AT:
            self.complain(packet, pair, UNKNOWN_TYPE, 2, now)
            return
        at = OPTIONS_AT[kind]
        if kind == PROBE:
            at += REPORT_LEN * ((message[12] >> 4) + (message[12] & 15))
        options = {}
        for offset, which, is_critical, contents in options_of(message, at):
            if which == LOCATORS and self.word in ("ignore", "refuse") and self.is_mixed(contents):
                self.mixed += 1
                if self.word == "refuse":
                    methods = contents[5 : 5 + contents[4]]
                    other = next(at for at, method in enumerate(methods) if method != HBA)
                    self.complain(packet, pair, VERIFICATION_METHOD, offset + 9 + other, now)
                return
            if which in LISTED.get(kind, ()):
                options[which] = contents
            elif is_critical:
                self.complain(packet, pair, CRITICAL_OPTION, offset, now)
                return
        if kind == I1:
            self.on_i1(pair, message, options)
        elif kind == I2:
            self.on_i2(pair, message, options, now)
        elif self.tag == message[6:12] and pair[0] in self.locators and pair[1] in self.peer_locators:
            self.on_message(kind, pair, message, options, now)
        else:
            self.wrong += 1

    def is_mixed(self, contents):
        """Whether a list has another verification method than HBA (s5.15.2)."""
        return any(method != HBA for method in contents[5 : 5 + contents[4]])

    def on_unknown(self, packet):
        """RFC 4443 s3.4: what a kernel answers when nobody listens to the protocol."""
        self.unknown += 1
        head = bytes([PARAMETER_PROBLEM, UNRECOGNIZED_NEXT_HEADER])
        rest = struct.pack("!I", NEXT_HEADER_AT) + packet.octets[:1232]
        ends = packet.destination, packet.source
        sum_ = raw.checksum(*ends, ICMPV6, head + bytes(2) + rest)
        self.wire.send(*ends, ICMPV6, head + struct.pack("!H", sum_) + rest)

    def on_word(self, word):
        if word == "outside":
            stranger = raw.address("2001:db8:bad::1")
            listed = locator_list(2, [*self.locators, stranger])
            self.reap.on_sending(time.monotonic())
            self.transmit(self.reap.current, UPDATE, os.urandom(4) + option(LOCATORS, listed))
        elif word in ("ignore", "refuse", "gone", "back"):
            self.word = word

    def on_message(self, kind, pair, message, options, now):
        if kind == KEEPALIVE:
            self.reap.on_keepalive(now)
        elif kind == PROBE:
            self.reap.on_probe(pair, message, now)
        else:
            self.reap.on_payload(now)
        if kind == UPDATE:
            # s10.4
            self.learn(options)
            self.reap.on_sending(now)
            self.transmit(pair, UPDATE_ACK, message[12:16])

    def complain(self, packet, pair, code, offset, now):
        """s5.14: the Pointer counts from the start of the packet in error, and s12.4 reads the addresses of its header."""
        self.refused += 1
        if self.ulids:
            self.reap.on_sending(now)
        quoted = packet.octets[: 8 * ((1280 - raw.IPV6_HEADER - 8) // 8)]
        fields = struct.pack("!H", raw.IPV6_HEADER + offset) + quoted + bytes(-len(quoted) % 8)
        self.wire.send(*pair, SHIM6, control(ERROR, fields, code))

    def validator(self, pair, initiator_tag, responder_nonce):
        """s7.10.1; the Initiator Nonce need not be that of the I1 (s7.11)."""
        octets = responder_nonce + initiator_tag + b"".join(pair)
        return hmac.new(self.secret, octets, hashlib.sha256).digest()

    def on_i1(self, pair, message, options):
        """s7.7, s7.9: the I1 of a context that is there has its R2 again."""
        tag, nonce = message[6:12], message[12:16]
        if self.ulids and tag == self.peer_tag:
            self.send_r2(pair, nonce)
        elif ULIDS not in options and FORK not in options:
            own = os.urandom(4)
            validator = option(VALIDATOR, self.validator(pair, tag, own))
            self.wire.send(*pair, SHIM6, control(R1, bytes(2) + nonce + own + validator))

    def on_i2(self, pair, message, options, now):
        """s7.13"""
        tag, nonce = message[6:12], message[12:16]
        if options.get(VALIDATOR) != self.validator(pair, tag, message[16:20]) or ULIDS in options:
            self.wrong += 1
            return
        self.ulids = self.ulids or pair
        if pair == self.ulids:
            self.handshakes += 1
            self.peer_tag, self.peer_locators = tag, [pair[1]]
            self.reap.current = self.reap.current or pair
            self.learn(options)
            self.send_r2(pair, nonce)
            self.reap.on_payload(now)
            self.reap.on_sending(now)

    def learn(self, options):
        """What the peer says of its locators and of its Send Timeout (RFC 5534 s5.3)."""
        if TIMEOUT in options:
            self.reap.keepalive_timeout = int.from_bytes(options[TIMEOUT][2:4], "big")
        if LOCATORS in options:
            self.peer_parameters = options.get(PARAMETERS) or self.peer_parameters
            contents = options[LOCATORS]
            methods = contents[5 : 5 + contents[4]]
            at = len(contents) - 16 * len(methods)
            listed = [contents[one : one + 16] for one in range(at, len(contents), 16)]
            is_verified = [
                method == HBA and hba.is_of_set(locator, self.peer_parameters)
                for locator, method in zip(listed, methods)
            ]
            self.unverified += is_verified.count(False)
            self.peer_locators = list(itertools.compress(listed, is_verified))
        pairs = itertools.product(self.locators, self.peer_locators)
        self.reap.pairs = itertools.cycle(list(pairs))

    def send_r2(self, pair, nonce):
        """s7.14"""
        options = option(LOCATORS, locator_list(1, self.locators)) + option(PARAMETERS, self.parameters)
        options += option(TIMEOUT, struct.pack("!HH", 0, self.send_timeout))
        self.wire.send(*pair, SHIM6, control(R2, self.tag + nonce + options))

    def tell(self):
        reap = self.reap
        raw.tell(
            locators=[raw.text(one) for one in self.peer_locators],
            current=reap.current and [raw.text(one) for one in reap.current],
            state=["Operational", "Exploring", "InboundOk"][reap.state],
            handshakes=self.handshakes,
            echoed=self.echoed,
            # Payload that came with a payload extension header.
            moved=self.moved,
            explorations=reap.explorations,
            refused=self.refused,
            # Lists with another verification method that were ignored or refused.
            mixed=self.mixed,
            # Errors of the peer: the code, and which method of the list in our Update Request it points at.
            errors=self.errors,
            # Packets of a protocol that nobody listens to.
            unknown=self.unknown,
            # All of these have to be 0.
            faults={
                "disturbed": reap.disturbed,
                "malformed": reap.malformed,
                "unverified": self.unverified,
                "wrong": self.wrong,
            },
        )

    def run(self):
        print(raw.json.dumps([raw.text(one) for one in self.locators]), flush=True)
        while True:
            due = self.reap.next_time()
            timeout = 60 if due is None else due - time.monotonic()
            for came in self.wire.receive(timeout):
                if isinstance(came, raw.Packet):
                    self.on_packet(came, time.monotonic())
                else:
                    self.on_word(came)
                    self.tell()
            self.reap.wake(time.monotonic())


if __name__ == "__main__":
    named = [one.split("=") for one in sys.argv[3:]]
    uplinks = [(name, raw.address(prefix)[:8]) for name, prefix in named]
    Host(int(sys.argv[1]), int(sys.argv[2]), uplinks).run()
