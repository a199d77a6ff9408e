//! A peer that follows the tables of RFC 5534 s6 alone: it has no private extension, and checks the format of messages
//! strictly.

use alloc::vec;

use super::net::Packet;
use super::*;

/// One end of a context, with its payload.
pub(super) struct RfcPeer {
    send_timeout: Duration,
    /// The Keepalive Timeout that the other end has named (s5.3).
    keepalive_timeout: Duration,
    pairs: Vec<LocatorPair>,
    pub(super) current: LocatorPair,
    pub(super) state: State,
    send: Option<Instant>,
    /// Time of the next keepalive, and end of the Keepalive Timer.
    keepalive: Option<(Instant, Instant)>,
    retransmission: Option<Instant>,
    /// Number of probes in the present state, and index of the next pair.
    probes: u32,
    next_pair: usize,
    nonce: u32,
    sent: Vec<Report>,
    received: Vec<Report>,
    pub(super) payload: Option<Duration>,
    next_payload: Instant,
    pub(super) payload_received: Vec<Instant>,
    pub(super) dropped: usize,
    pub(super) explorations: usize,
    transmits: Vec<(LocatorPair, Packet)>,
}

impl RfcPeer {
    pub(super) fn new(
        pairs: Vec<LocatorPair>,
        send_timeout: Duration,
        keepalive_timeout: Duration,
    ) -> Self {
        Self {
            send_timeout,
            keepalive_timeout,
            current: pairs[0],
            pairs,
            state: State::Operational,
            send: None,
            keepalive: None,
            retransmission: None,
            probes: 0,
            next_pair: 0,
            nonce: 0,
            sent: vec![],
            received: vec![],
            payload: None,
            next_payload: at(1),
            payload_received: vec![],
            dropped: 0,
            explorations: 0,
            transmits: vec![],
        }
    }

    pub(super) fn take_transmits(&mut self) -> Vec<(LocatorPair, Packet)> {
        core::mem::take(&mut self.transmits)
    }

    pub(super) fn next_time(&self) -> Option<Instant> {
        let payload = self.payload.map(|_| self.next_payload);
        let keepalive = self.keepalive.map(|(next, _)| next);
        [self.send, keepalive, self.retransmission, payload].into_iter().flatten().min()
    }

    pub(super) fn wake(&mut self, now: Instant) {
        if let Some(interval) = self.payload.filter(|_| self.next_payload <= now) {
            self.next_payload = now + interval;
            self.on_sending(now);
            self.transmits.push((self.current, Packet::Payload));
        }
        if let Some((next, end)) = self.keepalive.filter(|(next, _)| *next <= now) {
            // s6.3, and s6.1 for the earlier keepalives.
            let after = next + self.keepalive_timeout / 3;
            self.keepalive = Some((after, end)).filter(|_| after <= end);
            self.transmits.push((self.current, Packet::Reap(Message::Keepalive)));
        }
        if self.send.is_some_and(|at| at <= now) {
            // s6.4
            self.go(State::Exploring, now);
            (self.send, self.keepalive) = (None, None);
            self.received.clear();
            self.explorations += 1;
            self.probe(None, now);
        } else if self.retransmission.is_some_and(|at| at <= now) {
            // s6.5
            if self.state == State::InboundOk {
                self.start_send(now);
            }
            self.probe(None, now);
        }
    }

    pub(super) fn receive(&mut self, pair: LocatorPair, packet: &Packet, now: Instant) {
        match packet {
            Packet::Payload => {
                self.payload_received.push(now);
                self.on_payload(now);
            }
            Packet::Reap(Message::Keepalive) => self.on_keepalive(now),
            Packet::Reap(Message::Probe(probe)) if probe.is_check() => {
                // RFC 5533 s12.3: an unknown option with C=1.
                self.on_sending(now);
                self.transmits.push((pair, Packet::Refusal(probe.sent[0].nonce)));
            }
            Packet::Reap(Message::Probe(probe)) => self.on_probe(pair, probe, now),
            Packet::Refusal(_) => unreachable!("it sends no checks"),
        }
    }

    /// s6.1
    fn on_payload(&mut self, now: Instant) {
        match self.state {
            State::Operational => {
                self.send = None;
                self.start_keepalive(now);
            }
            State::Exploring => self.on_heard(now),
            State::InboundOk => self.send = None,
        }
    }

    /// s6.6
    fn on_keepalive(&mut self, now: Instant) {
        match self.state {
            State::Operational | State::InboundOk => self.send = None,
            State::Exploring => self.on_heard(now),
        }
    }

    fn on_heard(&mut self, now: Instant) {
        self.go(State::InboundOk, now);
        self.start_send(now);
        self.probe(None, now);
    }

    /// s6.2
    fn on_sending(&mut self, now: Instant) {
        match self.state {
            State::Operational => {
                self.keepalive = None;
                self.start_send(now);
            }
            State::Exploring => {}
            State::InboundOk => self.start_send(now),
        }
    }

    /// s6.7 to s6.9
    fn on_probe(&mut self, pair: LocatorPair, probe: &Probe, now: Instant) {
        // s5.2: "When a sender is in state InboundOk it MUST include" a report.
        let is_short = probe.state == State::InboundOk && probe.received.is_empty();
        if is_short || probe.sent.is_empty() {
            self.dropped += 1;
            return;
        }
        self.received.insert(0, probe.sent[0]);
        self.received.truncate(4);
        let reported = probe.received.iter().find(|report| self.sent.contains(report));
        let proven = reported.map(|report| LocatorPair::new(report.src, report.dst));
        match probe.state {
            State::Exploring => {
                self.go(State::InboundOk, now);
                self.keepalive = None;
                self.send = Some(now + self.send_timeout);
                // Appendix A: "as it appeared in the Probe".
                self.probe(Some(pair), now);
            }
            State::InboundOk => {
                self.current = proven.unwrap_or(self.current);
                self.go(State::Operational, now);
                self.send = Some(now + self.send_timeout);
                self.keepalive = None;
                self.probe(Some(self.current), now);
            }
            State::Operational => {
                // s6.9 does not mention the pair; appendix A moves.
                self.current = proven.unwrap_or(self.current);
                self.go(State::Operational, now);
                self.send = None;
                self.start_keepalive(now);
            }
        }
    }

    fn go(&mut self, state: State, now: Instant) {
        if self.state != state {
            self.state = state;
            self.probes = 0;
            self.retransmission = (state != State::Operational).then_some(now);
        }
    }

    fn start_send(&mut self, now: Instant) {
        self.send.get_or_insert(now + self.send_timeout);
    }

    fn start_keepalive(&mut self, now: Instant) {
        let (interval, timeout) = (self.keepalive_timeout / 3, self.keepalive_timeout);
        self.keepalive.get_or_insert((now + interval, now + timeout));
    }

    /// s4.3: one pair after the other, with exponential back-off.
    fn probe(&mut self, via: Option<LocatorPair>, now: Instant) {
        let pair = via.unwrap_or_else(|| {
            self.next_pair += 1;
            self.pairs[(self.next_pair - 1) % self.pairs.len()]
        });
        self.nonce += 1;
        let own = Report { src: pair.local, dst: pair.peer, nonce: self.nonce, data: 0 };
        self.sent.insert(0, own);
        let probe =
            Probe { state: self.state, sent: [own].into(), received: self.received.clone() };
        self.transmits.push((pair, Packet::Reap(Message::Probe(probe))));
        if self.state != State::Operational {
            self.probes += 1;
            let doublings = self.probes.saturating_sub(4).min(7);
            let timeout = (ms(500) * 2u32.pow(doublings)).min(ms(60_000));
            self.retransmission = Some(now + timeout);
        }
    }
}
