use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_reap::{
    Config, Event, FailureHint, Machine, Message, Probe, Rank, Report, State, Timer, Transmit,
};
use moorline_types::{Instant, Locator, LocatorPair};

use crate::input::Input;
use crate::shared::polled;

/// A REAP machine whose peer, data plane and host say whatever the input wants.
///
/// Promises: no panic; payload goes only by pairs that a true report of the peer has named, and that are
/// candidates when the machine is at rest; nonces are drawn once; events tell the states as they were; a
/// refused input changes nothing; no timer is lost. Well formed is an input after which payload has moved.
pub(crate) fn reap(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut world = World::new(input.octet());
    while let Some(step) = input.step() {
        world.step(step, &mut input);
    }
    world.moves > 0
}

struct World {
    machine: Machine,
    local: Vec<Locator>,
    peer: Vec<Locator>,
    sent: Vec<Report>,
    /// Of all that was sent.
    nonces: BTreeMap<u32, LocatorPair>,
    /// The last one was there before: of thousands, two are equal now and then.
    is_again: bool,
    /// Pairs of which a true report was given, and the first one.
    proven: Vec<LocatorPair>,
    moves: usize,
    now: Instant,
}

impl World {
    fn new(seed: u8) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let [local, peer] = [1, 2].map(|host| (1..=ISPS).map(|isp| locator(host, isp)).collect());
        let first = LocatorPair::new(locator(1, 1), locator(2, 1));
        let mut machine = Machine::new(Config::default(), first, [seed; 16], now);
        machine.handle_candidates(&local, &peer, &[], now);
        Self {
            machine,
            local,
            peer,
            sent: Vec::new(),
            nonces: BTreeMap::new(),
            is_again: false,
            proven: vec![first],
            moves: 0,
            now,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let before = (self.machine.state(), self.machine.current_pair());
        let deadline = self.machine.poll_timeout();
        let is_refused = self.apply(step, input);
        let (transmits, events) = self.drain();
        if is_refused {
            assert!(transmits.is_empty() && events.is_empty(), "{transmits:?} {events:?}");
            assert_eq!((self.machine.state(), self.machine.current_pair()), before);
            assert_eq!(self.machine.poll_timeout(), deadline);
        }
        self.check_events(&events, before);
        transmits.iter().for_each(|transmit| self.check_transmit(transmit));
        self.check_machine();
    }

    /// Whether it was refused.
    fn apply(&mut self, step: u8, input: &mut Input<'_>) -> bool {
        let now = self.now;
        let machine = &mut self.machine;
        match step % 16 {
            0 => machine.handle_send_expired(now - millis(input), now),
            1 => machine.handle_keepalive_due(now),
            2 => machine.handle_payload(now - millis(input), now),
            3 => machine.handle_control(now),
            4 => machine.handle_control_sent(now),
            5 => return machine.handle_keepalive(now).is_err(),
            6 => machine.handle_local_failure(now),
            7 => self.candidates(input),
            8..=9 => return self.probe(input),
            10 => self.now = now + millis(input),
            11 => machine.handle_keepalive_timeout(millis(input)),
            12 => {
                let send_timeout = millis(input) + Duration::from_millis(1);
                machine.handle_config(Config { send_timeout, ..Config::default() });
                let isps = input.octet();
                let isp = |bits: u8| u16::from(bits % 4) + 1;
                let pair = LocatorPair::new(locator(1, isp(isps)), locator(2, isp(isps >> 2)));
                machine.handle_hint(Some(pair).filter(|_| isps >> 4 & 1 == 0));
            }
            14 => {
                let hints =
                    [FailureHint::Retransmission, FailureHint::Silence, FailureHint::Unreachable];
                let (hint, since) = (input.pick(&hints), now - millis(input));
                machine.handle_suspicion(hint, since, millis(input), now);
            }
            15 => machine.handle_checks_refused(now),
            _ => {
                if let Some((next, _)) = machine.poll_timeout() {
                    self.now = now.max(next);
                    machine.handle_timeout(self.now);
                }
            }
        }
        false
    }

    /// Which locators there are, and what the peer says of its own.
    fn candidates(&mut self, input: &mut Input<'_>) {
        let (sets, ranks) = (input.octet(), input.octet());
        let set = |host, bits: u8| -> Vec<Locator> {
            (1..=ISPS)
                .filter(|isp| bits >> (isp - 1) & 1 == 1)
                .map(|isp| locator(host, isp))
                .collect()
        };
        (self.local, self.peer) = (set(1, sets), set(2, sets >> 3));
        let rank = |at: usize| Rank {
            is_broken: ranks >> at & 1 == 1,
            is_transient: ranks >> (at + 3) & 1 == 1,
            priority: 0,
        };
        let ranks: Vec<_> = (0..self.peer.len()).map(rank).collect();
        let ranks = if sets >> 7 == 1 { &ranks[..] } else { &[] };
        let (local, peer) = (&self.local, &self.peer);
        self.machine.handle_candidates(local, peer, ranks, self.now);
    }

    /// A probe with reports that are true, or nearly.
    fn probe(&mut self, input: &mut Input<'_>) -> bool {
        let (ways, nonce, flags) = (input.octet(), input.octet(), input.octet());
        let pair = LocatorPair::new(
            locator(1, u16::from(ways % 4) + 1),
            locator(2, u16::from(ways / 4 % 4) + 1),
        );
        let state =
            [State::Operational, State::Exploring, State::InboundOk][usize::from(flags % 3)];
        let nonce = u32::from(nonce);
        let own = Report { src: pair.peer, dst: pair.local, nonce, data: 0 };
        let mut received = Vec::new();
        for _ in 0..flags / 3 % 4 {
            received.extend(self.claim(input));
        }
        let sent = if flags >> 7 == 0 { vec![own] } else { Vec::new() };
        let probe = Probe { state, sent, received };
        self.machine.handle_probe(pair, &probe, self.now).is_err()
    }

    fn claim(&mut self, input: &mut Input<'_>) -> Option<Report> {
        let (which, kind) = (usize::from(input.octet()), input.octet());
        let true_one = *self.sent.iter().rev().nth(which)?;
        let claim = match kind % 4 {
            0 | 1 => true_one,
            2 => Report { nonce: true_one.nonce ^ u32::from(kind), ..true_one },
            _ => Report { dst: locator(2, u16::from(kind / 4 % 4) + 1), ..true_one },
        };
        let pair = LocatorPair::new(claim.src, claim.dst);
        if self.nonces.get(&claim.nonce) == Some(&pair) {
            self.proven.push(pair);
        }
        Some(claim)
    }

    fn drain(&mut self) -> (Vec<Transmit>, Vec<Event>) {
        let transmits = polled(MAX_POLLED, || self.machine.poll_transmit());
        (transmits, polled(MAX_POLLED, || self.machine.poll_event()))
    }

    fn check_events(&mut self, events: &[Event], before: (State, LocatorPair)) {
        let (mut state, mut pair) = before;
        for event in events {
            if let Event::StateChanged { from, to, .. } = *event {
                assert_eq!(from, state);
                state = to;
            } else if let Event::Moved { from, to, .. } = *event {
                assert_eq!(from, pair);
                self.moves += 1;
                pair = to;
            } else if let Event::Unreachable { .. } = *event {
                assert_ne!(state, State::Operational);
            }
        }
        assert_eq!((state, pair), (self.machine.state(), self.machine.current_pair()));
    }

    fn check_transmit(&mut self, transmit: &Transmit) {
        let pair = transmit.pair;
        let Message::Probe(probe) = &transmit.message else {
            return assert_eq!(pair, self.machine.current_pair());
        };
        let own = probe.sent[0];
        assert_eq!((own.src, own.dst), (pair.local, pair.peer));
        let is_again = self.nonces.insert(own.nonce, pair).is_some();
        assert!(!(self.is_again && is_again), "nonces are drawn twice");
        self.is_again = is_again;
        self.sent.push(own);
        let is_candidate = self.local.contains(&pair.local) && self.peer.contains(&pair.peer);
        assert!(is_candidate || pair == self.machine.current_pair(), "a probe by {pair}");
    }

    fn check_machine(&self) {
        let machine = &self.machine;
        let current = machine.current_pair();
        assert!(self.proven.contains(&current), "{current} was never proven");
        let timer = machine.poll_timeout();
        match machine.state() {
            State::Operational => {
                assert!(self.local.contains(&current.local) && self.peer.contains(&current.peer));
                assert!(machine.timers().is_some());
            }
            State::Exploring => {
                assert_eq!(machine.timers(), None);
                assert!(matches!(timer, Some((_, Timer::Retransmission))), "{timer:?}");
            }
            State::InboundOk => {
                assert!(matches!(timer, Some((_, Timer::Retransmission | Timer::Send))));
            }
        }
        let limit = self.now + Duration::from_secs(600);
        assert!(timer.is_none_or(|(at, _)| at <= limit), "lost in the future: {timer:?}");
    }
}

fn millis(input: &mut Input<'_>) -> Duration {
    Duration::from_millis(input.word().into())
}

fn locator(host: u16, isp: u16) -> Locator {
    Ipv6Addr::new(0x2001, 0xdb8, isp, host, 0, 0, 0, 1).into()
}

/// Locators of a side, at most; probes may come by one more.
const ISPS: u16 = 3;
/// More than any step brings.
const MAX_POLLED: usize = 100;
