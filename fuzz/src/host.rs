use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_contexts::{Config, Contexts, LocalState, Removal, Transmit};
use moorline_datapath::shim6::{FailureHint, Report, Update};
use moorline_types::{ContextId, Instant, Locator, LocatorPair, UlidPair};
use moorline_wire::{LocatorPreference, PayloadHeader, fill_checksum};

use crate::input::Input;
use crate::shared::polled;

/// A host between an honest peer and an attacker who writes the rest of the input: steps that deliver,
/// lose, replay, change and invent packets, make up reports of the data plane, and let time pass. Both
/// hosts send payload, lose their contexts (so that R1bis and I2bis are drawn), fork, state preferences, change
/// their Send Timeout and which addresses are usable, lose routers, restart, and answer what they are asked.
///
/// Promises: no panic; no context but with the honest peer (by another of its addresses, if the attacker has taken the
/// ULID-pair option out of its I1 and I2); no packet and no entry of the data plane with a locator that the peer has not
/// proved; no two established contexts that share a tag; queues that come to an end.
pub fn host(input: &[u8]) -> bool {
    let mut world = World::new();
    let mut input = Input::new(input);
    while let Some(step) = input.step() {
        world.step(step, &mut input);
        world.check();
    }
    world.victim.drops().iter().count() == 0 && world.victim.contexts().count() == 1
}

struct World {
    victim: Contexts,
    peer: Contexts,
    ulids: UlidPair,
    /// Ls(local) and Ls(peer), as the victim may use them.
    locators: [LocalState; 2],
    to_victim: VecDeque<Transmit>,
    to_peer: VecDeque<Transmit>,
    seen: Vec<Transmit>,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let now = Instant::from_nanos(1);
        let locators = [local(1), local(2)];
        let [victim, peer] =
            [1, 2].map(|seed| new_host(&locators[usize::from(seed) - 1], seed, now));
        let ulid = |side: usize| locators[side].usable[0].as_ulid();
        let ulids = UlidPair::new(ulid(0), ulid(1));
        Self {
            victim,
            peer,
            ulids,
            locators,
            to_victim: VecDeque::new(),
            to_peer: VecDeque::new(),
            seen: Vec::new(),
            now,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 16 {
            0 => self.victim.handle_report(Report::Trigger { ulids: self.ulids }, self.now),
            1 => self.deliver_to_peer(),
            2 => self.deliver_to_victim(),
            3 => drop(self.to_victim.pop_front()),
            4 => self.replay_changed(input),
            5 => self.invent(input),
            6 => self.report(input),
            7 => self.pass_time(input.octet()),
            8 => self.peer.handle_report(Report::Trigger { ulids: self.turned_ulids() }, self.now),
            9 => self.forget(input.octet()),
            10 => self.payload(input.octet()),
            11 => self.fork(input.octet()),
            12 => self.prefer(input),
            13 => self.settings(input),
            14 => self.answer(input.octet()),
            _ => self.restart(input),
        }
        self.drain();
        // What is due at once is done at once, and then no more.
        self.victim.handle_timeout(self.now);
        self.drain();
    }

    fn deliver_to_peer(&mut self) {
        if let Some(transmit) = self.to_peer.pop_front() {
            self.peer.handle_control(&transmit.octets, turned(transmit.locators), self.now);
        }
    }

    fn deliver_to_victim(&mut self) {
        if let Some(transmit) = self.to_victim.pop_front() {
            self.victim.handle_control(&transmit.octets, turned(transmit.locators), self.now);
        }
    }

    /// A packet that the peer has sent before, with one octet changed and the checksum put right.
    fn replay_changed(&mut self, input: &mut Input<'_>) {
        let (which, at) = (usize::from(input.octet()), usize::from(input.octet()));
        let change = input.octet();
        let Some(transmit) = self.seen.get(which % self.seen.len().max(1)) else { return };
        let mut octets = transmit.octets.clone();
        let at = at % octets.len();
        octets[at] ^= change;
        fill_checksum(&mut octets);
        let locators = turned(transmit.locators);
        self.victim.handle_control(&octets, locators, self.now);
    }

    fn invent(&mut self, input: &mut Input<'_>) {
        let (addresses, len) = (input.octet(), input.octet());
        let mut octets = input.take(usize::from(len)).to_vec();
        fill_checksum(&mut octets);
        let pick =
            |side: usize, bit: u8| self.locators[side].usable[usize::from(addresses >> bit & 1)];
        let locators = LocatorPair::new(pick(0, 0), pick(1, 1));
        self.victim.handle_control(&octets, locators, self.now);
        self.victim.handle_unrecognized(&octets, locators, locators.peer, self.now);
    }

    fn report(&mut self, input: &mut Input<'_>) {
        let kind = input.octet();
        let context = ContextId(u32::from(kind >> 4));
        let report = match kind % 6 {
            0 => Report::SendExpired { context, since: self.now },
            1 => Report::KeepaliveDue { context },
            2 => Report::Received { context, at: self.now },
            3 => Report::Idle { context, since: self.now },
            4 => {
                let hint =
                    [FailureHint::Retransmission, FailureHint::Silence][usize::from(kind >> 4 & 1)];
                let usual = Duration::from_millis(u64::from(kind) * 4);
                Report::Suspected { context, hint, since: self.now, usual }
            }
            _ => Report::Congested { context, at: self.now, ce: kind.into(), ece: 1 },
        };
        self.victim.handle_report(report, self.now);
    }

    fn pass_time(&mut self, quarters: u8) {
        self.now = self.now + Duration::from_millis(u64::from(quarters) * 250);
        self.victim.handle_timeout(self.now);
        self.peer.handle_timeout(self.now);
    }

    /// One side has no context any more, and has told nobody.
    fn forget(&mut self, flags: u8) {
        let host = if flags & 1 == 0 { &mut self.peer } else { &mut self.victim };
        let ids: Vec<_> = host.contexts().map(|context| context.id).collect();
        if let Some(id) = ids.get(usize::from(flags >> 1) % ids.len().max(1)) {
            host.remove(*id, Removal::Requested);
        }
    }

    /// Payload of a context, from either side, that comes to the core of the other: of a tag that its data
    /// plane does not know, or that it knows and the core has to look up.
    fn payload(&mut self, flags: u8) {
        let (from, to) = if flags & 1 == 0 {
            (&self.victim, &mut self.peer)
        } else {
            (&self.peer, &mut self.victim)
        };
        let Some(context) = from.snapshot().nth(usize::from(flags >> 2)) else { return };
        let header = PayloadHeader { next_header: 59, tag: context.peer_tag };
        to.handle_control(&header.emit(), turned(context.locators), self.now);
        let Some(context) = to.snapshot().find(|c| c.ulids == turned_ulids(context.ulids)) else {
            return;
        };
        let received = Report::Received { context: context.id, at: self.now };
        to.handle_report(received, self.now);
    }

    fn fork(&mut self, flags: u8) {
        let ulids = if flags & 1 == 0 { self.ulids } else { self.turned_ulids() };
        let host = if flags & 1 == 0 { &mut self.victim } else { &mut self.peer };
        host.fork(ulids, self.now).ok();
    }

    fn prefer(&mut self, input: &mut Input<'_>) {
        let side = usize::from(input.octet() % 2);
        let mut preference = |_| LocatorPreference {
            flags: input.octet(),
            priority: Some(input.octet()).filter(|octet| *octet > 0),
            weight: None,
        };
        let preferences: Vec<_> =
            self.locators[side].usable.iter().map(|one| (*one, preference(one))).collect();
        let host = if side == 0 { &mut self.victim } else { &mut self.peer };
        host.set_preferences(&preferences, self.now);
    }

    /// Send Timeout, usable addresses, routers.
    fn settings(&mut self, input: &mut Input<'_>) {
        let (flags, value) = (input.octet(), input.octet());
        let side = usize::from(flags & 1);
        let host = if side == 0 { &mut self.victim } else { &mut self.peer };
        let all = &self.locators[side];
        let chosen = all.usable.iter().enumerate().filter(|(at, _)| value >> at & 1 == 1);
        let chosen: Vec<_> = chosen.map(|(_, locator)| *locator).collect();
        match flags >> 1 & 3 {
            0 => host.set_send_timeout(Duration::from_millis(10 * u64::from(value) + 1), self.now),
            1 => host.handle_router_lost(&chosen, self.now),
            _ => {
                let local = LocalState { usable: chosen, ..all.clone() };
                host.handle_local(&local, self.now);
            }
        }
    }

    fn answer(&mut self, flags: u8) {
        for host in [&mut self.victim, &mut self.peer] {
            for question in polled(MAX_POLLED, || host.poll_question()) {
                host.handle_usage(question.context, flags & 1 == 1, self.now);
            }
        }
    }

    /// The victim goes on in another run with what it has kept; and one with what somebody has changed in
    /// that must not stumble.
    fn restart(&mut self, input: &mut Input<'_>) {
        let seed = input.octet();
        let kept: Vec<_> = self.victim.snapshot().collect();
        let mut other = new_host(&self.locators[0], seed ^ 0x80, self.now);
        for mut changed in kept.iter().cloned() {
            match input.octet() % 5 {
                0 => changed.ulids = self.turned_ulids(),
                1 => changed.locators = turned(changed.locators),
                2 => changed.peer_locators = vec![changed.locators.local; 40],
                3 => changed.local_tag = changed.peer_tag,
                _ => changed.id = ContextId(u32::from(input.octet())),
            }
            other.restore(changed.clone(), self.now).ok();
            other.restore(changed, self.now).ok();
        }
        self.victim = new_host(&self.locators[0], seed, self.now);
        for context in kept {
            let restored = self.victim.restore(context, self.now);
            assert!(restored.is_ok(), "{restored:?}");
        }
    }

    fn turned_ulids(&self) -> UlidPair {
        turned_ulids(self.ulids)
    }

    fn drain(&mut self) {
        for transmit in polled(MAX_POLLED, || self.victim.poll_transmit()) {
            let LocatorPair { local, peer } = transmit.locators;
            assert!(self.locators[0].usable.contains(&local), "sends from {local}");
            assert!(self.is_proved(peer), "sends to {peer}");
            self.to_peer.push_back(transmit);
        }
        for update in polled(MAX_POLLED, || self.victim.poll_datapath()) {
            if let Update::Upsert(entry) = update {
                assert!(self.locators[0].usable.contains(&entry.locators.local));
                assert!(entry.peer_locators.contains(&entry.locators.peer));
                let is_proved = entry.peer_locators.iter().all(|locator| self.is_proved(*locator));
                assert!(is_proved, "{:?}", entry.peer_locators);
            }
        }
        polled(MAX_POLLED, || self.victim.poll_event());
        for transmit in polled(MAX_POLLED, || self.peer.poll_transmit()) {
            if self.seen.len() < MAX_SEEN {
                self.seen.push(transmit.clone());
            }
            self.to_victim.push_back(transmit);
        }
        polled(MAX_POLLED, || self.peer.poll_datapath());
        polled(MAX_POLLED, || self.peer.poll_event());
    }

    /// Whether the honest peer's parameters prove it: the bits for u, g and Sec are not compared with the hash
    /// (RFC 3972 s5), so who can change a message on its way can set them in a locator.
    fn is_proved(&self, locator: Locator) -> bool {
        let hashed = |locator: Locator| {
            let mut octets = locator.0.octets();
            octets[8] &= 0b0001_1100;
            octets
        };
        self.locators[1].usable.iter().any(|own| hashed(*own) == hashed(locator))
    }

    fn check(&self) {
        for context in self.victim.contexts() {
            let UlidPair { local, peer } = context.ulids;
            let is_own = self.locators[0].usable.contains(&local.as_locator());
            assert!(is_own && self.is_proved(peer.as_locator()), "a context with somebody else");
        }
        let mut tags = BTreeSet::new();
        for context in self.victim.snapshot() {
            assert!(tags.insert((true, context.local_tag)), "one of our tags twice");
            assert!(tags.insert((false, context.peer_tag)), "one of the peer's tags twice");
        }
        if let Some((at, kind)) = self.victim.poll_timeout() {
            assert!(at > self.now, "a timeout of {kind:?} in the past: {at:?} at {:?}", self.now);
        }
    }
}

fn new_host(local: &LocalState, seed: u8, now: Instant) -> Contexts {
    let mut config = Config { asks_before_removal: seed.is_multiple_of(2), ..Config::default() };
    config.shim6.max_contexts = 16;
    let mut host = Contexts::new(config, [seed; 32], now);
    host.handle_local(local, now);
    host
}

/// Two addresses of an HBA set, which differs from side to side.
pub(crate) fn local(side: u8) -> LocalState {
    let prefixes = [1, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, side]);
    let key = HbaKey::extended_modifier([side; 48]);
    let sec = Sec::new(0).expect("0 is a Sec");
    let set = generate_hba(&prefixes, sec, &key, [side; 16], 1).expect("Sec 0 takes one try");
    let usable = set.locators().to_vec();
    let addresses = LocalAddresses { present: usable.clone(), sets: vec![set], cgas: Vec::new() };
    LocalState { proof: LocalProof::new(1, addresses, &[], [0; 32]), usable }
}

const fn turned(locators: LocatorPair) -> LocatorPair {
    LocatorPair::new(locators.peer, locators.local)
}

const fn turned_ulids(ulids: UlidPair) -> UlidPair {
    UlidPair::new(ulids.peer, ulids.local)
}

/// Packets of the peer kept for replay.
const MAX_SEEN: usize = 64;
/// More than any step brings.
const MAX_POLLED: usize = 1000;
