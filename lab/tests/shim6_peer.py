"""A host with Shim6 by RFC 5533, 5534 and 5535 and nothing else, the responder of one context.

    shim6_peer.py PORT SEND_TIMEOUT UPLINK=ADDRESS...

Makes an HBA set in the prefixes of these addresses, prints it as JSON, and sends datagrams to PORT back. Each word of input
has a line of output with what happened so far, as JSON. The kernel has to own the addresses of the set, for Neighbor
Discovery, and must not answer anything else.
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

SHIM6, NO_NEXT_HEADER = 140, 59
# RFC 5533 s5.3
I1, R1, I2, R2, UPDATE, UPDATE_ACK, KEEPALIVE, PROBE, ERROR = 1, 2, 3, 4, 64, 65, 66, 67, 68
# RFC 5533 s5.15
VALIDATOR, LOCATORS, PREFERENCES, PARAMETERS, SIGNATURE, ULIDS, FORK, TIMEOUT = 1, 2, 3, 4, 5, 6, 7, 10
OF_LISTS = {LOCATORS, PREFERENCES, PARAMETERS, SIGNATURE, TIMEOUT}
LISTED = {I1: {ULIDS, FORK}, I2: OF_LISTS | {VALIDATOR, ULIDS, FORK}, UPDATE: OF_LISTS}
# Where the options of the messages begin, behind the reports in a Probe.
OPTIONS_AT = {I1: 16, I2: 24, UPDATE: 16, UPDATE_ACK: 16, KEEPALIVE: 16, PROBE: 16}
UNKNOWN_TYPE, CRITICAL_OPTION = 0, 1
HBA = 1
REPORT_LEN = 40
# RFC 5534 s5.2
OPERATIONAL, EXPLORING, INBOUND_OK = 0, 1, 2
# RFC 5534 s7
INITIAL_PROBE_TIMEOUT, INITIAL_PROBES, MAX_PROBE_TIMEOUT, DEFAULT_TIMEOUT = 0.5, 4, 60, 15


def control(kind, fields, code=0):
    """RFC 5533 s5.3"""
    head = struct.pack("!BBBB", NO_NEXT_HEADER, (6 + len(fields)) // 8 - 1, kind, code << 1)
    assert (len(head) + 2 + len(fields)) % 8 == 0
    return head + struct.pack("!H", raw.ones_sum(head + b"\0\0" + fields) ^ 0xFFFF) + fields


def option(kind, contents):
    """RFC 5533 s5.15"""
    padding = 7 - (len(contents) + 3) % 8
    return struct.pack("!HH", kind << 1, len(contents)) + contents + b"\0" * padding


def options_of(message, at):
    """Offset, type, critical bit and contents of each."""
    while at + 4 <= len(message):
        kind, length = struct.unpack("!HH", message[at : at + 4])
        yield at, kind >> 1, kind & 1, message[at + 4 : at + 4 + length]
        at += 11 + length - (length + 3) % 8


class Reap:
    """RFC 5534 s6"""

    def __init__(self, send_timeout, transmit):
        self.send_timeout, self.keepalive_timeout = send_timeout, DEFAULT_TIMEOUT
        self.transmit = transmit
        self.state = OPERATIONAL
        self.pairs, self.current = None, None
        # The Send Timer; the next keepalive and the Keepalive Timer; the next probe.
        self.send, self.keepalive, self.retransmission = None, None, None
        self.probes, self.sent, self.received = 0, [], []
        self.explorations, self.disturbed, self.malformed = 0, 0, 0

    def next_time(self):
        keepalive = self.keepalive and self.keepalive[0]
        return min((at for at in (self.send, keepalive, self.retransmission) if at), default=None)

    def wake(self, now):
        if self.keepalive and self.keepalive[0] <= now:
            # s6.3, and s6.1 for the keepalives before.
            after, end = self.keepalive[0] + self.keepalive_timeout / 3, self.keepalive[1]
            self.keepalive = (after, end) if after <= end else None
            self.transmit(self.current, KEEPALIVE, bytes(4))
        if self.send and self.send <= now:
            # s6.4
            self.send, self.keepalive, self.received = None, None, []
            self.explorations += 1
            self.go(EXPLORING)
            self.probe(None, now)
        elif self.retransmission and self.retransmission <= now:
            # s6.5
            if self.state == INBOUND_OK:
                self.start_send(now)
            self.probe(None, now)

    def on_payload(self, now):
        """s6.1"""
        if self.state == EXPLORING:
            self.on_heard(now)
        else:
            self.send = None
        if self.state == OPERATIONAL:
            self.start_keepalive(now)

    def on_keepalive(self, now):
        """s6.6"""
        if self.state == EXPLORING:
            self.on_heard(now)
        else:
            self.send = None

    def on_heard(self, now):
        self.go(INBOUND_OK)
        self.start_send(now)
        self.probe(None, now)

    def on_sending(self, now):
        """s6.2"""
        if self.state == OPERATIONAL:
            self.keepalive = None
        if self.state != EXPLORING:
            self.start_send(now)

    def on_probe(self, pair, message, now):
        """s6.7 to s6.9; the end of the reports."""
        received, sent, state = message[12] >> 4, message[12] & 15, message[13] >> 6
        end = OPTIONS_AT[PROBE] + REPORT_LEN * (sent + received)
        reports = [message[at : at + REPORT_LEN] for at in range(OPTIONS_AT[PROBE], end, REPORT_LEN)]
        # s5.2: "When a sender is in state InboundOk it MUST include copies of [...] at least one of the inbound probes."
        if end > len(message) or not sent or state > INBOUND_OK or (state == INBOUND_OK and not received):
            self.malformed += 1
            return
        self.received = [reports[0], *self.received][:4]
        proven = next(((one[:16], one[16:32]) for one in reports[sent:] if one in self.sent), None)
        if state == EXPLORING:
            self.go(INBOUND_OK)
            self.keepalive, self.send = None, now + self.send_timeout
            # Appendix A: "as it appeared in the Probe".
            self.probe(pair, now)
        elif state == INBOUND_OK:
            self.current = proven or self.current
            self.go(OPERATIONAL)
            self.keepalive, self.send = None, now + self.send_timeout
            self.probe(self.current, now)
        else:
            self.disturbed += self.state != OPERATIONAL and not proven
            self.current = proven or self.current
            self.go(OPERATIONAL)
            self.send = None
            self.start_keepalive(now)

    def go(self, state):
        if state != self.state:
            self.state, self.probes, self.retransmission = state, 0, None

    def start_send(self, now):
        self.send = self.send or now + self.send_timeout

    def start_keepalive(self, now):
        end = now + self.keepalive_timeout
        self.keepalive = self.keepalive or (now + self.keepalive_timeout / 3, end)

    def probe(self, pair, now):
        """s4.3: one pair after the other, with exponential back-off."""
        pair = pair or next(self.pairs)
        self.sent = [pair[0] + pair[1] + os.urandom(4) + bytes(4), *self.sent][:64]
        counts = bytes([len(self.received) << 4 | 1, self.state << 6, 0, 0])
        self.transmit(pair, PROBE, counts + self.sent[0] + b"".join(self.received))
        if self.state != OPERATIONAL:
            self.probes += 1
            doublings = min(max(self.probes - INITIAL_PROBES, 0), 7)
            timeout = min(INITIAL_PROBE_TIMEOUT * 2**doublings, MAX_PROBE_TIMEOUT)
            self.retransmission = now + timeout


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

    def transmit(self, pair, kind, rest, code=0):
        """A message of the context."""
        self.wire.send(*pair, SHIM6, control(kind, self.peer_tag + rest, code))

    def on_packet(self, packet, now):
        if packet.destination not in self.locators:
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
        methods = bytes([len(self.locators)]) + bytes([HBA]) * len(self.locators)
        head = struct.pack("!I", 1) + methods
        listed = head + bytes(-(4 + len(head)) % 8) + b"".join(self.locators)
        options = option(LOCATORS, listed) + option(PARAMETERS, self.parameters)
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
                    self.tell()
            self.reap.wake(time.monotonic())


if __name__ == "__main__":
    named = [one.split("=") for one in sys.argv[3:]]
    uplinks = [(name, raw.address(prefix)[:8]) for name, prefix in named]
    Host(int(sys.argv[1]), int(sys.argv[2]), uplinks).run()
