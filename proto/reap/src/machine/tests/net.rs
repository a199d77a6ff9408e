//! Two machines, each with a model of the data plane, on one virtual clock and a lossy network.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;

use super::*;
use crate::random::Random;

/// Whether a packet arrives, by the pair as its sender sees it.
pub(super) type Route = Box<dyn Fn(LocatorPair) -> bool>;

/// State of the data plane, as its contract demands.
#[derive(Default)]
struct Plane {
    first_sent: Option<Instant>,
    keepalive: Option<(Instant, Instant)>,
    watch_told: u32,
}

pub(super) struct Host {
    pub(super) machine: Machine,
    plane: Plane,
    /// Time between payload packets. `None`: the host sends no payload.
    pub(super) payload: Option<Duration>,
    next_payload: Instant,
    pub(super) log: Vec<(Instant, Event)>,
    pub(super) probes_sent: usize,
    pub(super) keepalives_sent: usize,
    pub(super) payload_received: Vec<Instant>,
    pub(super) drops: Vec<DropReason>,
    /// Suspicions of the data plane since payload was answered.
    pub(super) doubts: u32,
    /// Whether the host has no room for the checks of comparisons.
    pub(super) refuses_comparisons: bool,
}

pub(super) enum Packet {
    Payload,
    Reap(Message),
    /// An Error that quotes a check with this nonce.
    Refusal(u32),
}

pub(super) struct Net {
    pub(super) now: Instant,
    pub(super) hosts: [Host; 2],
    pub(super) route: Route,
    /// Whether firewalls pass protocol 140, by the pair as its sender sees it: control messages, and payload that does
    /// not take the ULIDs, which are the first locators.
    pub(super) passes_140: Route,
    /// Whether a host that knows no checks sends an Error.
    pub(super) has_errors: bool,
    /// Loss, out of 256.
    pub(super) loss: usize,
    /// Pairs as their sender sees them, with a loss (out of 256) and delay of their own.
    pub(super) bad: Vec<(LocatorPair, usize, Duration)>,
    pub(super) duplication: usize,
    pub(super) delay: Duration,
    /// Largest additional random delay: packets overtake each other.
    pub(super) jitter: Duration,
    /// Probes sent by ISP 2, with the index of their sender, if an attacker listens there.
    pub(super) overheard: Option<Vec<(usize, LocatorPair, Probe)>>,
    /// Whether an attacker at ISP 2 answers each check there by an Error in the name of the receiver.
    pub(super) is_refused_at_isp_2: bool,
    random: Random,
    serial: u64,
    /// Packets under way, by arrival time: receiver, pair as its sender sees it, packet.
    flight: BTreeMap<(Instant, u64), (usize, LocatorPair, Packet)>,
}

impl Net {
    pub(super) fn new(config: &Config, isps: u16, seed: u8) -> Self {
        let sets = [A, B].map(|h| (1..=isps).map(|isp| locator(h, isp)).collect::<Vec<_>>());
        let host = |pair, index: u8| {
            let mut machine = Machine::new(config.clone(), pair, [seed ^ (index << 7); 16], at(0));
            let (own, other) = (usize::from(index), usize::from(1 - index));
            machine.set_candidates(&sets[own], &sets[other], at(0));
            Host::new(machine)
        };
        Self {
            now: at(0),
            hosts: [host(ab(1, 1), 0), host(ba(1, 1), 1)],
            route: Box::new(|_| true),
            passes_140: Box::new(|_| true),
            has_errors: true,
            loss: 0,
            bad: vec![],
            duplication: 0,
            delay: ms(10),
            jitter: ms(0),
            overheard: None,
            is_refused_at_isp_2: false,
            random: Random::new([seed; 32], u64::MAX),
            serial: 0,
            flight: BTreeMap::new(),
        }
    }

    pub(super) fn states(&self) -> [State; 2] {
        [0, 1].map(|h: usize| self.hosts[h].machine.state())
    }

    pub(super) fn pairs(&self) -> [LocatorPair; 2] {
        [0, 1].map(|h: usize| self.hosts[h].machine.current_pair())
    }

    pub(super) fn probes_sent(&self) -> usize {
        self.hosts.iter().map(|h| h.probes_sent).sum()
    }

    /// Whether the current pair of each side leads to the other side.
    pub(super) fn is_connected(&self) -> bool {
        self.pairs().into_iter().all(|pair| (self.route)(pair))
            && self.states() == [State::Operational; 2]
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(next) = self.next_time().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            self.turn();
        }
        self.now = until;
    }

    /// Runs until `done` holds, and gives the time that it took. `None` if `limit` passes first.
    pub(super) fn run_until(
        &mut self,
        limit: Duration,
        done: impl Fn(&Self) -> bool,
    ) -> Option<Duration> {
        let start = self.now;
        while !done(self) {
            let next = self.next_time().filter(|&next| next <= start + limit)?;
            self.now = self.now.max(next);
            self.turn();
        }
        Some(self.now.since(start))
    }

    /// Suspends both hosts for a time. Packets in flight are lost.
    pub(super) fn suspend(&mut self, time: Duration) {
        self.flight.clear();
        self.now = self.now + time;
    }

    fn next_time(&self) -> Option<Instant> {
        let arrival = self.flight.keys().next().map(|&(at, _)| at);
        let hosts = self.hosts.iter().filter_map(Host::next_time).min();
        arrival.into_iter().chain(hosts).min()
    }

    fn turn(&mut self) {
        let now = self.now;
        for index in 0..2 {
            let host = &mut self.hosts[index];
            host.run_plane(now);
            if host.is_payload_due(now) {
                let pair = host.send_payload(now);
                self.send(1 - index, pair, || Packet::Payload);
            }
            let host = &mut self.hosts[index];
            host.machine.handle_timeout(now);
            self.flush(index);
        }
        while let Some(entry) = self.flight.first_entry().filter(|e| e.key().0 <= now) {
            let (to, pair, packet) = entry.remove();
            let refused = self.hosts[to].receive(turn(pair), &packet, now);
            self.flush(to);
            if let Some(nonce) = refused.filter(|_| self.has_errors) {
                self.send(1 - to, turn(pair), || Packet::Refusal(nonce));
            }
        }
    }

    pub(super) fn flush(&mut self, from: usize) {
        if self.hosts[from].machine.question().is_some() {
            self.hosts[from].machine.handle_known(Known::Nothing, self.now);
        }
        let Host { machine, refuses_comparisons, .. } = &mut self.hosts[from];
        if *refuses_comparisons && machine.has_check() && machine.can_wait() {
            machine.handle_checks_refused(self.now);
        }
        let (transmits, events) = drain(&mut self.hosts[from].machine);
        let now = self.now;
        let worse = events.iter().find_map(|event| {
            if let Event::Worse { than, cause, .. } = event { Some((*than, *cause)) } else { None }
        });
        self.hosts[from].log.extend(events.into_iter().map(|e| (now, e)));
        for Transmit { pair, message } in transmits {
            match message {
                Message::Keepalive => self.hosts[from].keepalives_sent += 1,
                Message::Probe(_) => self.hosts[from].probes_sent += 1,
            }
            if let Message::Probe(probe) = &message
                && [ab(2, 2), ba(2, 2)].contains(&pair)
            {
                if let Some(overheard) = &mut self.overheard {
                    overheard.push((from, pair, probe.clone()));
                }
                if self.is_refused_at_isp_2 {
                    let nonce = probe.sent[0].nonce;
                    self.send(from, turn(pair), || Packet::Refusal(nonce));
                }
            }
            self.send(1 - from, pair, || Packet::Reap(message.clone()));
        }
        if let Some((than, cause)) = worse {
            self.hosts[from].machine.handle_switch(than, cause, now).unwrap();
            self.flush(from);
        }
    }

    /// Delivers a forged probe in the name of the other host, by this pair as that host would see it.
    pub(super) fn inject(&mut self, to: usize, sent_by: LocatorPair, probe: Probe) {
        self.hosts[to].receive(turn(sent_by), &Packet::Reap(Message::Probe(probe)), self.now);
        self.flush(to);
    }

    fn send(&mut self, to: usize, pair: LocatorPair, packet: impl Fn() -> Packet) {
        let is_plain = matches!(packet(), Packet::Payload) && [ab(1, 1), ba(1, 1)].contains(&pair);
        let passes = (self.route)(pair) && (is_plain || (self.passes_140)(pair));
        let bad = self.bad.iter().find(|(bad, ..)| *bad == pair);
        let (loss, delay) = bad.map_or((self.loss, self.delay), |&(_, loss, delay)| (loss, delay));
        let copies = 1 + usize::from(self.random.below(256) < self.duplication);
        for _ in 0..copies {
            if !passes || self.random.below(256) < loss {
                continue;
            }
            let micros = usize::try_from(self.jitter.as_micros()).unwrap();
            let extra = u64::try_from(self.random.below(micros + 1)).unwrap();
            let arrival = self.now + delay + Duration::from_micros(extra);
            self.serial += 1;
            self.flight.insert((arrival, self.serial), (to, pair, packet()));
        }
    }
}

impl Host {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine,
            plane: Plane::default(),
            payload: None,
            next_payload: at(1),
            log: vec![],
            probes_sent: 0,
            keepalives_sent: 0,
            payload_received: vec![],
            drops: vec![],
            doubts: 0,
            refuses_comparisons: false,
        }
    }

    /// Time since which payload has had no answer.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.plane.first_sent
    }

    pub(super) fn is_payload_due(&self, now: Instant) -> bool {
        self.payload.is_some() && self.next_payload <= now
    }

    pub(super) fn next_time(&self) -> Option<Instant> {
        let timers = self.machine.timers();
        let send = timers.and_then(|t| Some(self.plane.first_sent? + t.send));
        let keepalive = timers.and_then(|_| self.plane.keepalive.map(|(next, _)| next));
        let payload = self.payload.map(|_| self.next_payload);
        let machine = self.machine.poll_timeout().map(|(at, _)| at);
        [send, keepalive, payload, machine].into_iter().flatten().min()
    }

    pub(super) fn send_payload(&mut self, now: Instant) -> LocatorPair {
        self.next_payload = now + self.payload.unwrap();
        self.plane.first_sent.get_or_insert(now);
        self.plane.keepalive = None;
        self.machine.current_pair()
    }

    pub(super) fn run_plane(&mut self, now: Instant) {
        let Some(timers) = self.machine.timers() else { return };
        if let Some(since) = self.plane.first_sent.filter(|&since| since + timers.send <= now) {
            self.plane.first_sent = None;
            self.machine.handle_send_expired(since, now);
        }
        if let Some((next, end)) = self.plane.keepalive.filter(|&(next, _)| next <= now) {
            let after = next + timers.keepalive_interval;
            self.plane.keepalive = Some((after, end)).filter(|_| after <= end);
            self.machine.handle_keepalive_due(now);
        }
    }

    /// Hands a packet to this host. Returns the nonce of the check if the host refuses it.
    pub(super) fn receive(
        &mut self,
        pair: LocatorPair,
        packet: &Packet,
        now: Instant,
    ) -> Option<u32> {
        match packet {
            Packet::Payload => self.receive_payload(now),
            Packet::Reap(Message::Keepalive) => match self.machine.handle_keepalive(now) {
                Ok(()) => self.plane.first_sent = None,
                Err(reason) => self.drops.push(reason),
            },
            Packet::Reap(Message::Probe(probe)) => {
                match self.machine.handle_probe(pair, probe, now) {
                    Ok(()) if self.machine.heard() == now => self.plane.first_sent = None,
                    Ok(()) => {}
                    Err(reason) => {
                        self.drops.push(reason);
                        let is_refused = reason == DropReason::UnknownCriticalOption;
                        return is_refused.then(|| probe.sent[0].nonce);
                    }
                }
            }
            Packet::Refusal(nonce) => {
                let _ = self.machine.handle_check_refused(*nonce, now);
            }
        }
        None
    }

    fn receive_payload(&mut self, now: Instant) {
        self.payload_received.push(now);
        self.plane.first_sent = None;
        let timers = self.machine.timers().filter(|t| !t.keepalive_timeout.is_zero());
        if let Some(timers) = timers.filter(|_| self.plane.keepalive.is_none()) {
            self.plane.keepalive =
                Some((now + timers.keepalive_interval, now + timers.keepalive_timeout));
        }
        let watch = self.machine.watch();
        if watch != 0 && watch != self.plane.watch_told {
            self.plane.watch_told = watch;
            self.machine.handle_payload(now, now);
        }
    }
}
