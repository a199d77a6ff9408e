"""The Reachability Protocol by RFC 5534 and nothing else, for one context."""

import os

KEEPALIVE, PROBE = 66, 67
# Where the reports of a Probe begin, and the length of each.
REPORTS_AT, REPORT_LEN = 16, 40
# RFC 5534 s5.2
OPERATIONAL, EXPLORING, INBOUND_OK = 0, 1, 2
# RFC 5534 s7
INITIAL_PROBE_TIMEOUT, INITIAL_PROBES, MAX_PROBE_TIMEOUT, DEFAULT_TIMEOUT = 0.5, 4, 60, 15


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
        end = REPORTS_AT + REPORT_LEN * (sent + received)
        reports = [message[at : at + REPORT_LEN] for at in range(REPORTS_AT, end, REPORT_LEN)]
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
