use std::collections::VecDeque;
use std::time::Duration;

use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_host::datapath::{Report, Update};
use moorline_host::{Config, Host, LocalState, Transmit};
use moorline_types::{ContextId, Instant, LocatorPair, UlidPair};
use moorline_wire::fill_checksum;

/// A host between an honest peer and an attacker who writes the rest of the input: steps that deliver,
/// lose, replay, change and invent packets, make up reports of the data plane, and let time pass.
///
/// Promises: no panic; no context but with the honest peer; no packet and no entry of the data plane
/// with a locator that the peer has not proved; queues that come to an end.
pub fn host(input: &[u8]) -> bool {
    let mut world = World::new();
    let mut input = input.iter().copied();
    while let Some(step) = input.next() {
        world.step(step, &mut input);
        world.check();
    }
    world.victim.drops().iter().count() == 0 && world.victim.contexts().count() == 1
}

struct World {
    victim: Host,
    peer: Host,
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
        let mut hosts = [1, 2].map(|seed| Host::new(Config::default(), [seed; 32], now));
        for (host, local) in hosts.iter_mut().zip(&locators) {
            host.handle_local(local, now);
        }
        let [victim, peer] = hosts;
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

    fn step(&mut self, step: u8, input: &mut impl Iterator<Item = u8>) {
        match step % 8 {
            0 => self.victim.handle_report(Report::Trigger { ulids: self.ulids }, self.now),
            1 => self.deliver_to_peer(),
            2 => self.deliver_to_victim(),
            3 => drop(self.to_victim.pop_front()),
            4 => self.replay_changed(input),
            5 => self.invent(input),
            6 => self.report(input),
            _ => self.pass_time(input.next().unwrap_or(0)),
        }
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
    fn replay_changed(&mut self, input: &mut impl Iterator<Item = u8>) {
        let mut next = || usize::from(input.next().unwrap_or(0));
        let (which, at, change) = (next(), next(), next());
        let Some(transmit) = self.seen.get(which % self.seen.len().max(1)) else { return };
        let mut octets = transmit.octets.clone();
        let at = at % octets.len();
        octets[at] ^= u8::try_from(change).unwrap_or(0);
        fill_checksum(&mut octets);
        let locators = turned(transmit.locators);
        self.victim.handle_control(&octets, locators, self.now);
    }

    fn invent(&mut self, input: &mut impl Iterator<Item = u8>) {
        let (addresses, len) = (input.next().unwrap_or(0), input.next().unwrap_or(0));
        let mut octets: Vec<u8> = input.take(usize::from(len)).collect();
        fill_checksum(&mut octets);
        let pick =
            |side: usize, bit: u8| self.locators[side].usable[usize::from(addresses >> bit & 1)];
        let locators = LocatorPair::new(pick(0, 0), pick(1, 1));
        self.victim.handle_control(&octets, locators, self.now);
        self.victim.handle_unrecognized(&octets, locators, self.now);
    }

    fn report(&mut self, input: &mut impl Iterator<Item = u8>) {
        let kind = input.next().unwrap_or(0);
        let context = ContextId(u32::from(kind >> 4));
        let report = match kind % 4 {
            0 => Report::SendExpired { context, since: self.now },
            1 => Report::KeepaliveDue { context },
            2 => Report::Received { context, at: self.now },
            _ => Report::Idle { context, since: self.now },
        };
        self.victim.handle_report(report, self.now);
    }

    fn pass_time(&mut self, quarters: u8) {
        self.now = self.now + Duration::from_millis(u64::from(quarters) * 250);
        self.victim.handle_timeout(self.now);
        self.peer.handle_timeout(self.now);
    }

    fn drain(&mut self) {
        for transmit in polled(|| self.victim.poll_transmit()) {
            let LocatorPair { local, peer } = transmit.locators;
            assert!(self.locators[0].usable.contains(&local), "sends from {local}");
            assert!(self.locators[1].usable.contains(&peer), "sends to {peer}");
            self.to_peer.push_back(transmit);
        }
        for update in polled(|| self.victim.poll_datapath()) {
            if let Update::Upsert(entry) = update {
                assert!(self.locators[0].usable.contains(&entry.locators.local));
                assert!(entry.peer_locators.contains(&entry.locators.peer));
                let proved = &self.locators[1].usable;
                assert!(entry.peer_locators.iter().all(|locator| proved.contains(locator)));
            }
        }
        polled(|| self.victim.poll_event());
        for transmit in polled(|| self.peer.poll_transmit()) {
            if self.seen.len() < MAX_SEEN {
                self.seen.push(transmit.clone());
            }
            self.to_victim.push_back(transmit);
        }
        polled(|| self.peer.poll_datapath());
        polled(|| self.peer.poll_event());
    }

    fn check(&self) {
        for context in self.victim.contexts() {
            assert_eq!(context.ulids, self.ulids, "a context that nobody asked for");
        }
        if let Some((at, _)) = self.victim.poll_timeout() {
            assert!(at > self.now || self.now == Instant::from_nanos(1), "a timeout in the past");
        }
    }
}

/// All that is polled: more than a step may ever bring means that it does not come to an end.
fn polled<T>(poll: impl FnMut() -> Option<T>) -> Vec<T> {
    let all: Vec<T> = std::iter::from_fn(poll).take(MAX_POLLED).collect();
    assert!(all.len() < MAX_POLLED, "a queue without end");
    all
}

fn local(side: u8) -> LocalState {
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

/// Packets of the peer kept for replay.
const MAX_SEEN: usize = 64;
/// More than any step brings.
const MAX_POLLED: usize = 1000;
