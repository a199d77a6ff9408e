use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::FailureHint;

#[derive(Clone, Debug)]
enum Op {
    SendExpired {
        ago: u64,
    },
    KeepaliveDue,
    Payload {
        ago: u64,
    },
    Control,
    ControlSent,
    Keepalive,
    LocalFailure,
    Switch(u16, u16),
    /// Candidates. Bits 0 to 2: our locators; bits 3 to 5: the peer's. Ranks: bits 0 to 2: broken locators of the peer;
    /// bits 3 to 5: transient ones.
    Candidates(u8, Option<u8>),
    Suspicion {
        hint: FailureHint,
        ago: u64,
        usual: u64,
    },
    ChecksRefused,
    Hint(Option<(u16, u16)>),
    KeepaliveTimeout(u64),
    SendTimeout(u64),
    Probe {
        state: State,
        isps: (u16, u16),
        nonce: u32,
        reports: Vec<Claim>,
    },
    Advance(u64),
    Timeout,
}

/// A probe that the peer claims to have received.
#[derive(Clone, Debug)]
enum Claim {
    /// The n-th last probe that the machine sent, correctly reported.
    True(usize),
    /// The same probe with another nonce.
    WrongNonce(usize),
    /// The same probe by another pair.
    WrongPair(usize, u16),
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let claim = prop_oneof![
        3 => (0usize..20).prop_map(Claim::True),
        1 => (0usize..3).prop_map(Claim::WrongNonce),
        1 => (0usize..3, 1u16..5).prop_map(|(n, isp)| Claim::WrongPair(n, isp)),
    ];
    prop::collection::vec(claim, 0..4)
}

fn op() -> impl Strategy<Value = Op> {
    let state =
        prop_oneof![Just(State::Operational), Just(State::Exploring), Just(State::InboundOk)];
    prop_oneof![
        2 => (0u64..2_000).prop_map(|ago| Op::SendExpired { ago }),
        1 => Just(Op::KeepaliveDue),
        2 => (0u64..2_000).prop_map(|ago| Op::Payload { ago }),
        1 => Just(Op::Control),
        1 => Just(Op::ControlSent),
        1 => Just(Op::Keepalive),
        1 => Just(Op::LocalFailure),
        1 => (any::<u8>(), any::<Option<u8>>()).prop_map(|(sets, ranks)| Op::Candidates(sets, ranks)),
        1 => (1u16..4, 1u16..4).prop_map(|(a, b)| Op::Switch(a, b)),
        8 => (state, (1u16..4, 1u16..4), 0u32..64, claims())
            .prop_map(|(state, isps, nonce, reports)| Op::Probe { state, isps, nonce, reports }),
        2 => prop_oneof![0u64..700, 0u64..20_000, 0u64..200_000].prop_map(Op::Advance),
        6 => Just(Op::Timeout),
        1 => said_by_host(),
    ]
}

/// Inputs of the host: reports about the transport, and its wishes.
fn said_by_host() -> impl Strategy<Value = Op> {
    let hint = prop_oneof![
        Just(FailureHint::Retransmission),
        Just(FailureHint::Silence),
        Just(FailureHint::Unreachable),
        Just(FailureHint::Unproven),
    ];
    prop_oneof![
        (hint, 0u64..2_000, 0u64..2_000).prop_map(|(hint, ago, usual)| Op::Suspicion {
            hint,
            ago,
            usual
        }),
        Just(Op::ChecksRefused),
        any::<Option<(u16, u16)>>()
            .prop_map(|pair| Op::Hint(pair.map(|(a, b)| (a % 4 + 1, b % 4 + 1)))),
        (1u64..65_000).prop_map(Op::KeepaliveTimeout),
        (1u64..65_000).prop_map(Op::SendTimeout),
    ]
}

/// The machine, and what an observer knows about it.
struct Model {
    machine: Machine,
    now: Instant,
    local: Vec<Locator>,
    peer: Vec<Locator>,
    unrouted: Option<LocatorPair>,
    sent: Vec<Report>,
    nonces: BTreeSet<u32>,
    /// Pairs for which a correct report was made.
    claimed: BTreeSet<LocatorPair>,
    delivered: BTreeMap<u32, Report>,
    /// When the last retransmission left, if the state has not changed since.
    last_timed: Option<Instant>,
    /// No deadline is further from now than this time.
    longest: Duration,
}

impl Model {
    fn new(seed: u8) -> Self {
        let local: Vec<_> = (1..=3).map(|isp| locator(A, isp)).collect();
        let peer: Vec<_> = (1..=3).map(|isp| locator(B, isp)).collect();
        let mut machine = Machine::new(Config::default(), ab(1, 1), [seed; 16], at(0));
        machine.set_candidates(&local, &peer, at(0));
        Self {
            machine,
            now: at(0),
            local,
            peer,
            unrouted: None,
            sent: Vec::new(),
            nonces: BTreeSet::new(),
            claimed: [ab(1, 1)].into(),
            delivered: BTreeMap::new(),
            last_timed: None,
            longest: MAX_PROBE_TIMEOUT,
        }
    }

    fn reports(&mut self, claims: &[Claim]) -> Vec<Report> {
        let last = |n: usize| self.sent.iter().rev().nth(n).copied();
        let mut reports = Vec::new();
        for claim in claims {
            reports.extend(match *claim {
                Claim::True(n) => last(n).inspect(|r| {
                    self.claimed.insert(LocatorPair::new(r.src, r.dst));
                }),
                Claim::WrongNonce(n) => last(n).map(|r| Report { nonce: r.nonce ^ 0x100, ..r }),
                Claim::WrongPair(n, isp) => last(n)
                    .filter(|r| r.dst != locator(B, isp))
                    .map(|r| Report { dst: locator(B, isp), ..r }),
            });
        }
        reports
    }

    fn apply(&mut self, op: &Op) -> Result<(), DropReason> {
        let now = self.now;
        let machine = &mut self.machine;
        match op {
            Op::SendExpired { ago } => machine.handle_send_expired(now - ms(*ago), now),
            Op::KeepaliveDue => machine.handle_keepalive_due(now),
            Op::Payload { ago } => machine.handle_payload(now - ms(*ago), now),
            Op::Control => machine.handle_control(now),
            Op::ControlSent => machine.handle_control_sent(now),
            Op::Keepalive => machine.handle_keepalive(now)?,
            Op::LocalFailure => machine.handle_local_failure(now),
            Op::Switch(local, peer) => {
                let _ = machine.handle_switch(ab(*local, *peer), Cause::Switch, now);
            }
            Op::Candidates(bits, ranks) => {
                let set = |host, shift: u8| -> Vec<Locator> {
                    (0..3u8)
                        .filter(|i| bits >> (shift + i) & 1 == 1)
                        .map(|i| locator(host, u16::from(i) + 1))
                        .collect()
                };
                (self.local, self.peer) = (set(A, 0), set(B, 3));
                let rank = |bits: u8, at: usize| Rank {
                    is_broken: bits >> at & 1 == 1,
                    is_transient: bits >> (at + 3) & 1 == 1,
                    priority: 0,
                };
                let ranks: Vec<_> = (0..self.peer.len())
                    .filter_map(|at| ranks.map(|bits| rank(bits, at)))
                    .collect();
                self.unrouted = (bits >> 6 != 0).then(|| ab(u16::from(bits >> 6), 1));
                machine.handle_candidates(
                    &self.local,
                    &self.peer,
                    &ranks,
                    self.unrouted.as_slice(),
                    now,
                );
            }
            Op::Suspicion { hint, ago, usual } => {
                machine.handle_suspicion(*hint, now - ms(*ago), ms(*usual), now);
            }
            Op::ChecksRefused => machine.handle_checks_refused(now),
            Op::Hint(pair) => machine.handle_hint(pair.map(|(local, peer)| ab(local, peer))),
            Op::KeepaliveTimeout(millis) => machine.handle_keepalive_timeout(ms(*millis)),
            Op::SendTimeout(millis) => {
                machine.handle_config(Config { send_timeout: ms(*millis), ..Config::default() });
                self.longest = ms(600_000);
            }
            Op::Probe { state, isps, nonce, reports } => {
                let reports = self.reports(reports);
                let sent_by = ba(isps.0, isps.1);
                let (source, destination) = (sent_by.local, sent_by.peer);
                self.delivered.insert(
                    *nonce,
                    Report { src: source, dst: destination, nonce: *nonce, data: 0 },
                );
                deliver(&mut self.machine, sent_by, *state, *nonce, &reports, now)?;
            }
            Op::Advance(millis) => self.now = now + ms(*millis),
            Op::Timeout => {
                if let Some((next, _)) = machine.poll_timeout() {
                    self.now = now.max(next);
                    machine.handle_timeout(self.now);
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, op: &Op) {
        let before =
            (self.machine.state(), self.machine.current_pair(), self.machine.poll_timeout());
        let result = self.apply(op);
        let (transmits, events) = drain(&mut self.machine);
        let after =
            (self.machine.state(), self.machine.current_pair(), self.machine.poll_timeout());
        if result.is_err() {
            assert_eq!(before, after);
            assert!(transmits.is_empty() && events.is_empty());
        }
        self.check_events(&events, before.0, before.1);
        let most = if matches!(op, Op::Timeout) { 3 } else { 1 };
        assert!(transmits.len() <= most, "{transmits:?}");
        for transmit in &transmits {
            self.check_transmit(op, before.0, transmit);
        }
        self.check_pace(op, before.0, &transmits);
        self.check_machine();
    }

    fn check_events(&self, events: &[Event], mut state: State, mut pair: LocatorPair) {
        for event in events {
            match *event {
                Event::StateChanged { from, to, .. } => {
                    assert_eq!(from, state);
                    assert_ne!(from, to);
                    state = to;
                }
                Event::Moved { from, to, .. } => {
                    assert_eq!(from, pair);
                    assert!(self.is_candidate(to));
                    pair = to;
                }
                Event::Unreachable { .. } => assert_ne!(state, State::Operational),
                Event::Suspected { .. }
                | Event::Cleared { .. }
                | Event::Checked { .. }
                | Event::Missed { .. }
                | Event::Replied { .. } => {}
                Event::Answered { .. } | Event::Unanswered { .. } => {}
                Event::Worse { pair, than, .. } => {
                    assert!(pair != than && self.is_candidate(than));
                }
            }
        }
        assert_eq!((state, pair), (self.machine.state(), self.machine.current_pair()));
    }

    fn check_transmit(&mut self, op: &Op, before: State, transmit: &Transmit) {
        let pair = transmit.pair;
        let Message::Probe(probe) = &transmit.message else {
            assert_eq!(pair, self.machine.current_pair());
            return;
        };
        let own = probe.sent[0];
        assert_eq!((own.src, own.dst), (pair.local, pair.peer));
        assert!(self.nonces.insert(own.nonce), "a nonce is used once");
        self.sent.push(own);
        assert!(probe.state != State::InboundOk || !probe.received.is_empty());
        if probe.state == State::Operational {
            let is_way_back = before == State::Operational && is_unproven_by(op, pair);
            assert!(is_way_back || pair == self.machine.current_pair());
        }
        if probe.state != State::Operational || pair != self.machine.current_pair() {
            assert!(self.is_candidate(pair));
        }
        assert!(probe.sent.len() <= SENT_REPORTS && probe.received.len() <= RECEIVED_REPORTS);
        assert!(probe.received.iter().all(|r| self.delivered.values().any(|d| d.nonce == r.nonce)));
    }

    /// Checks that probes without a request leave half a second apart.
    fn check_pace(&mut self, op: &Op, before: State, transmits: &[Transmit]) {
        if before != self.machine.state() {
            self.last_timed = None;
            return;
        }
        let is_timed = matches!(op, Op::Timeout) && !transmits.is_empty();
        if !is_timed || before == State::Operational {
            return;
        }
        if let Some(last) = self.last_timed.replace(self.now) {
            assert!(self.now.since(last) >= INITIAL_PROBE_TIMEOUT, "{last:?} {:?}", self.now);
        }
    }

    fn has_locators_of(&self, pair: LocatorPair) -> bool {
        self.local.contains(&pair.local) && self.peer.contains(&pair.peer)
    }

    fn is_candidate(&self, pair: LocatorPair) -> bool {
        self.has_locators_of(pair) && self.unrouted != Some(pair)
    }

    fn check_machine(&self) {
        let machine = &self.machine;
        let current = machine.current_pair();
        assert!(self.claimed.contains(&current), "{current} was never proven");
        match machine.state() {
            State::Operational => {
                // The pair may have been current before its route changed.
                assert!(self.has_locators_of(current));
                assert!(machine.timers().is_some_and(|t| !t.keepalive_timeout.is_zero()));
            }
            State::Exploring => {
                assert_eq!(machine.timers(), None);
                assert!(matches!(
                    machine.poll_timeout(),
                    Some((_, Timer::Retransmission | Timer::Switch))
                ));
                let is_heard = machine.exploration.as_ref().is_some_and(|e| e.is_heard);
                assert!(is_heard || machine.watch() != 0);
            }
            State::InboundOk => {
                assert!(machine.timers().is_some_and(|t| t.keepalive_timeout.is_zero()));
                let timer = machine.poll_timeout().map(|t| t.1);
                assert!(matches!(timer, Some(Timer::Retransmission | Timer::Send | Timer::Switch)));
            }
        }
        let limit = self.now + self.longest;
        assert!(
            machine.poll_timeout().is_none_or(|(at, _)| at <= limit),
            "no timer is lost in the future"
        );
        if let Some(e) = &machine.exploration {
            assert!(e.records.sent_reports(100).len() <= MAX_RECORDS);
        }
    }
}

/// Whether `op` is a Probe InboundOk by this pair with reports, which may all be unknown.
fn is_unproven_by(op: &Op, pair: LocatorPair) -> bool {
    matches!(op, Op::Probe { state: State::InboundOk, isps, reports, .. }
        if !reports.is_empty() && turn(ba(isps.0, isps.1)) == pair)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_whatever_happens(seed: u8, ops in prop::collection::vec(op(), 1..120)) {
        let mut model = Model::new(seed);
        for op in &ops {
            model.step(op);
        }
    }

    #[test]
    fn a_machine_left_alone_with_a_quiet_peer_forgets_or_explores(
        seed: u8,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut model = Model::new(seed);
        ops.iter().for_each(|op| model.step(op));
        for _ in 0..60 {
            model.step(&Op::Timeout);
        }
        let machine = &model.machine;
        let is_settled = match machine.state() {
            State::Operational => machine.exploration.is_none(),
            State::Exploring => true,
            State::InboundOk => false,
        };
        prop_assert!(is_settled, "{machine:?}");
    }
}
