//! Random traffic and updates go through the eBPF programs and through `proto/plane`: octets, reports and counters
//! must be equal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use moorline_datapath as datapath;
use moorline_datapath::shim6::{
    ContextCounters, ContextEntry, ContextPlane, PathCounters, ReapTimers, Report, TriggerPolicy,
    TriggerRule, Triggers, Update,
};
use moorline_plane::shim6::{Inbound, Outbound, Plane, Sender};
use moorline_types::{
    ContextId, ContextTag, Instant, Locator, LocatorPair, Path, Prefix, Ulid, UlidPair,
};

use super::can_run;
use super::harness::{Harness, Origin, Outcome};

const SEEDS: u64 = 30;
const STEPS: u32 = 250;
const CONTEXTS: u32 = 4;

const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_SHOT: i32 = 2;
/// Action for a packet that is lost on its way out: a redirection to no interface. The counters of drops tell it from
/// other redirections.
const LOST: i32 = TC_ACT_REDIRECT;
const TC_ACT_REDIRECT: i32 = 7;

/// Addresses of this host. The lists below hold those of the peers, and some that the planes ignore.
const LOCALS: [&str; 2] = ["2001:db8:a::1", "2001:db8:b::1"];
const PEERS: [&str; 3] = ["2001:db8:c::1", "2001:db8:d::1", "2001:db8:e::1"];
/// The peers, and their other locators.
const SENDERS: [&str; 9] = [
    PEERS[0],
    PEERS[1],
    PEERS[2],
    "2001:db8:c::2",
    "2001:db8:c::3",
    "2001:db8:d::2",
    "2001:db8:d::3",
    "2001:db8:e::2",
    "2001:db8:e::3",
];
const STRANGE: [&str; 6] =
    ["fe80::1", "ff02::1", "::", "::1", "2001:db8:ffff::1", "2001:db8:ffff::211:22ff:fe33:4455"];

/// SplitMix64. A failure prints its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn octet(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    fn address(&mut self, usual: &[&str]) -> Ipv6Addr {
        let from = if self.one_in(12) { &STRANGE[..] } else { usual };
        self.of(from).parse().unwrap()
    }

    fn context(&mut self) -> ContextId {
        ContextId(u32::try_from(self.below(CONTEXTS.into())).unwrap())
    }
}

/// Both planes, with the decisions that they have.
struct Both {
    kernel: Harness,
    user: Plane,
    now: u64,
    live: Vec<ContextEntry>,
    /// Contexts that only receive: another one between the same ULIDs sends.
    forks: BTreeSet<ContextId>,
    /// Number of packets that came on these contexts.
    forked: u64,
}

#[test]
fn both_planes_do_the_same_with_random_traffic() {
    if !can_run("both_planes_do_the_same_with_random_traffic") {
        return;
    }
    let mut both = Both::new();
    let (mut moved, mut quoted) = (0, 0);
    let mut hints = BTreeMap::new();
    let mut congested = 0;
    for seed in 0..SEEDS {
        let mut random = Random(seed);
        both.clear();
        for step in 0..STEPS {
            let at = format!("seed {seed} step {step}");
            let most = random.of(&[2_000_000_000, 300_000_000, 20_000_000]);
            both.now += random.below(most) + 1;
            both.kernel.set_now(both.now);
            match random.below(20) {
                0 => both.upsert(&mut random),
                1 if random.one_in(3) => both.remove(&mut random),
                2 => both.heard(&mut random),
                3 if random.one_in(3) => both.set_triggers(&mut random),
                3 => both.rearm(&mut random),
                4 | 5 => both.tick(),
                6 => both.exchange(&mut random, &at),
                7 | 9 => quoted += u32::from(both.error(&mut random, &at)),
                even if even % 2 == 0 => moved += u32::from(both.outbound(&mut random, &at)),
                _ => moved += u32::from(both.inbound(&mut random, &at)),
            }
            for report in both.compare(&at) {
                if let Report::Suspected { hint, .. } = report {
                    *hints.entry(hint).or_insert(0) += 1;
                }
                congested += u32::from(matches!(report, Report::Congested { .. }));
            }
        }
    }
    // Otherwise the run tested little.
    println!("{hints:?}, {congested} congested");
    assert!(hints.len() == 4 && hints.values().all(|&count| count >= 3), "{hints:?}");
    assert!(both.forked > 10, "{} packets came on forks", both.forked);
    assert!(congested > 50, "{congested} reports of congestion");
    assert!(moved > STEPS, "{moved} packets rewritten");
    assert!(quoted > STEPS / 4, "{quoted} errors translated");
}

impl Both {
    fn new() -> Self {
        let kernel = Harness::new(&Triggers::default());
        let user = Plane::new(moorline_plane::shim6::Settings::default());
        Self { kernel, user, now: 0, live: Vec::new(), forks: BTreeSet::new(), forked: 0 }
    }

    fn clear(&mut self) {
        let trigger = TriggerPolicy { bytes: 3000, ..TriggerPolicy::default() };
        self.kernel.clear(&trigger.into());
        let settings = moorline_plane::shim6::Settings {
            trigger,
            ..moorline_plane::shim6::Settings::default()
        };
        self.user = Plane::new(settings);
        for local in LOCALS {
            self.kernel.set_local(local.parse().unwrap());
            self.user.set_local(Locator(local.parse().unwrap()));
        }
        self.live.clear();
        self.forks.clear();
        self.now = 1_000_000_000;
    }

    fn apply(&mut self, update: &Update) {
        self.kernel.apply(update);
        self.user.handle_update(update, Instant::from_nanos(self.now));
    }

    fn upsert(&mut self, random: &mut Random) {
        let id = random.context();
        let known =
            self.live.iter().position(|entry| entry.id == id).map(|at| self.live.remove(at));
        let known = known.filter(|_| !random.one_in(4));
        let was_known = known.is_some();
        let ulids = known.map_or_else(
            || {
                let local = Ulid(random.of(&LOCALS).parse().unwrap());
                UlidPair::new(local, Ulid(random.of(&PEERS).parse().unwrap()))
            },
            |entry| entry.ulids,
        );
        let locators = if random.one_in(3) {
            ulids.as_locators()
        } else {
            let local = Locator(random.address(&LOCALS));
            LocatorPair::new(local, Locator(random.of(&SENDERS).parse().unwrap()))
        };
        let entry = ContextEntry {
            id,
            ulids,
            local_tag: ContextTag::from_bits(
                0x5a5a_0000_0000 + u64::from(id.0) + random.below(2) * 16,
            ),
            peer_tag: ContextTag::from_bits(random.next()),
            current: Path::of(ulids, locators),
            peer_locators: peer_locators(random).into(),
            timers: (!random.one_in(6)).then(|| ReapTimers {
                send: Duration::from_secs(1 + random.below(10)),
                keepalive_interval: Duration::from_secs(1 + random.below(4)),
                keepalive_timeout: Duration::from_secs(random.below(15)),
            }),
            watch: u32::try_from(random.below(3)).unwrap(),
            idle: Duration::from_secs(random.below(2) * 20),
            suspects: !random.one_in(4),
            congestion: random.one_in(2),
            paths: random_paths(random, ulids),
            spread: random.one_in(3),
        };
        let is_first =
            |other: &&ContextEntry| other.ulids == entry.ulids && !self.forks.contains(&other.id);
        let first = self.live.iter().find(is_first).cloned();
        let is_known = was_known && self.user.counters(id).is_some();
        self.forks.remove(&id);
        let Some(first) = first else {
            self.live.push(entry.clone());
            return self.apply(&Update::Upsert(entry));
        };
        // As in the core, the first context of a ULID pair is added last, and forks send nothing.
        let fork = ContextEntry {
            current: Path::of(ulids, ulids.as_locators()),
            suspects: false,
            congestion: false,
            paths: Arc::default(),
            ..entry
        };
        self.forks.insert(id);
        self.live.push(fork.clone());
        if is_known {
            return self.apply(&Update::Upsert(fork));
        }
        self.apply(&Update::Remove { context: first.id });
        self.apply(&Update::Upsert(fork));
        self.apply(&Update::Upsert(first));
    }

    fn remove(&mut self, random: &mut Random) {
        let id = random.context();
        let before = self.live.len();
        self.live.retain(|entry| entry.id != id);
        if self.live.len() != before {
            self.forks.remove(&id);
            self.apply(&Update::Remove { context: id });
        }
    }

    fn heard(&mut self, random: &mut Random) {
        let context = random.context();
        let at = Instant::from_nanos(self.now - random.below(1_000_000_000));
        if self.live.iter().any(|entry| entry.id == context) {
            self.apply(&Update::Heard { context, at });
        }
    }

    fn set_triggers(&mut self, random: &mut Random) {
        let count = random.below(6);
        let rules = (0..count).map(|_| random_rule(random)).collect();
        let triggers = Triggers::new(random_policy(random), rules).unwrap();
        self.kernel.plane.set_triggers(&triggers).unwrap();
        let Ok(()) = self.user.set_triggers(&triggers);
    }

    fn rearm(&mut self, random: &mut Random) {
        let local = Ulid(random.of(&LOCALS).parse().unwrap());
        let ulids = UlidPair::new(local, Ulid(random.of(&PEERS).parse().unwrap()));
        self.apply(&Update::Rearm { ulids });
    }

    fn tick(&mut self) {
        self.kernel.tick();
        self.user.handle_timeout(Instant::from_nanos(self.now));
    }

    fn outbound(&mut self, random: &mut Random, at: &str) -> bool {
        let pair = random_pair(random, &LOCALS, &PEERS);
        let packet = packet(random, pair, &[]);
        self.send(random, &packet, at)
    }

    fn send(&mut self, random: &mut Random, packet: &[u8], at: &str) -> bool {
        let mut octets = packet.to_vec();
        let cgroup = u32::try_from(random.below(3)).unwrap();
        let mark = u32::try_from(random.below(5)).unwrap() | 0x100;
        let now = Instant::from_nanos(self.now);
        let sender = Sender { cgroups: &[cgroup.into()], mark };
        let verdict = self.user.handle_outbound_of(&mut octets, sender, now);
        let (action, is_lost) = match verdict {
            Outbound::Pass => (TC_ACT_UNSPEC, false),
            Outbound::Send { .. } => (TC_ACT_REDIRECT, false),
            Outbound::Drop(_) => (LOST, true),
        };
        let outcome = self.kernel.run_of(
            "uplink_egress",
            packet,
            Origin { cgroup, mark, ..Origin::default() },
        );
        check(&outcome, packet, (!is_lost).then_some(&octets), action, at);
        action == TC_ACT_REDIRECT && !is_lost
    }

    /// Sends packets in both directions between the ULIDs of a context, for less than a second, and then looks at the
    /// timers.
    fn exchange(&mut self, random: &mut Random, at: &str) {
        if self.live.is_empty() {
            return;
        }
        let which = usize::try_from(random.below(self.live.len() as u64)).unwrap();
        let UlidPair { local, peer } = self.live[which].ulids;
        for _ in 0..random.below(16) {
            self.now += random.below(60_000_000);
            self.kernel.set_now(self.now);
            let (from, to) = if random.one_in(3) { (peer, local) } else { (local, peer) };
            let packet = loop {
                let packet = packet(random, [from.0, to.0], &[]);
                if matches!(packet[6], 6 | 17) && packet.len() >= 60 {
                    break packet;
                }
            };
            if from == peer {
                self.receive(random, &packet, at);
            } else {
                self.send(random, &packet, at);
            }
        }
        self.now += random.below(400_000_000);
        self.kernel.set_now(self.now);
        self.tick();
    }

    fn inbound(&mut self, random: &mut Random, at: &str) -> bool {
        let is_for_forks = random.one_in(3) && !self.forks.is_empty();
        let chosen =
            self.live.iter().filter(|entry| !is_for_forks || self.forks.contains(&entry.id));
        let tags: Vec<_> = chosen.map(|entry| entry.local_tag).collect();
        let pair = random_pair(random, &SENDERS, &LOCALS);
        let packet = packet(random, pair, &tags);
        let before = self.received_on_forks();
        let is_delivered = self.receive(random, &packet, at);
        self.forked += self.received_on_forks() - before;
        is_delivered
    }

    fn received_on_forks(&self) -> u64 {
        let received = |id: &ContextId| self.user.counters(*id).map_or(0, |one| one.rx_packets);
        self.forks.iter().map(received).sum()
    }

    fn receive(&mut self, random: &mut Random, packet: &[u8], at: &str) -> bool {
        let mut octets = packet.to_vec();
        let cgroup = u32::try_from(random.below(3)).unwrap();
        let cgroups = [cgroup.into()];
        let now = Instant::from_nanos(self.now);
        let verdict = self.user.handle_inbound_of(&mut octets, &cgroups, now);
        let action = match verdict {
            Inbound::Pass | Inbound::Deliver | Inbound::Up => TC_ACT_UNSPEC,
            Inbound::Drop(_) => TC_ACT_SHOT,
        };
        let outcome =
            self.kernel.run_of("uplink_ingress", packet, Origin { cgroup, ..Origin::default() });
        check(&outcome, packet, (action != TC_ACT_SHOT).then_some(&octets), action, at);
        matches!(verdict, Inbound::Deliver)
    }

    /// Sends an ICMPv6 error about a packet of a context, or one that nearly is.
    fn error(&mut self, random: &mut Random, at: &str) -> bool {
        if self.live.is_empty() {
            return false;
        }
        let about = usize::try_from(random.below(self.live.len() as u64)).unwrap();
        let packet = error_about(random, &self.live[about]);
        let mut octets = packet.clone();
        let verdict = self.user.handle_inbound(&mut octets, Instant::from_nanos(self.now));
        let outcome = self.kernel.run("uplink_ingress", &packet, 0);
        check(&outcome, &packet, Some(&octets), TC_ACT_UNSPEC, at);
        verdict == Inbound::Deliver
    }

    /// Compares reports, drops and counters.
    fn compare(&mut self, at: &str) -> Vec<Report> {
        // The kernel does not know the sockets of the other plane.
        let is_shared = |report: &Report| !matches!(report, Report::NoRoom { .. });
        let reports = compare(&mut self.kernel.plane, &mut self.user, is_shared, at);
        for ContextEntry { id, .. } in &self.live {
            let (kernel, user) = (counted(&self.kernel.plane, *id), counted(&self.user, *id));
            assert_eq!(kernel, user, "{at}: context {id}");
        }
        reports
    }
}

/// Compares reports and drops of both planes, except reports that only the kernel makes. Returns the reports.
pub(crate) fn compare<K, U>(
    kernel: &mut K,
    user: &mut U,
    is_shared: impl Fn(&K::Report) -> bool,
    at: &str,
) -> Vec<K::Report>
where
    K: datapath::Plane<Report: PartialEq + Debug>,
    U: datapath::Plane<Report = K::Report>,
{
    let mut reports = kernel.take_reports().unwrap();
    reports.retain(is_shared);
    assert_eq!(reports, user.take_reports().unwrap(), "{at}");
    assert_eq!(kernel.drops().unwrap(), user.drops().unwrap(), "{at}");
    reports
}

fn counted<P: ContextPlane>(plane: &P, id: ContextId) -> (ContextCounters, Option<PathCounters>) {
    (plane.counters(id).unwrap(), plane.path_counters(id).unwrap())
}

/// Checks an outcome. The octets of a dropped packet do not count.
fn check(outcome: &Outcome, packet: &[u8], octets: Option<&Vec<u8>>, action: i32, at: &str) {
    assert_eq!(outcome.action, action, "{at}: {}", hex::encode(packet));
    if let Some(octets) = octets {
        let (kernel, user) = (hex::encode(&outcome.packet), hex::encode(octets));
        assert_eq!(kernel, user, "{at}: {}", hex::encode(packet));
    }
}

fn random_policy(random: &mut Random) -> TriggerPolicy {
    TriggerPolicy {
        bytes: random.of(&[u64::MAX, 3000, 500]),
        packets: random.of(&[u32::MAX, 5, 2]),
        age: random.of(&[Duration::MAX, Duration::from_secs(10)]),
        idle: random.of(&[Duration::from_secs(120), Duration::from_secs(20)]),
        eui64: random.one_in(2),
    }
}

fn random_rule(random: &mut Random) -> TriggerRule {
    let ports = |random: &mut Random| {
        let [first, last] =
            [(); 2].map(|()| u16::from(random.octet()) << 8 | u16::from(random.octet()));
        random.one_in(3).then(|| first.min(last)..=first.max(last))
    };
    let prefix = |random: &mut Random, from: &[&str]| {
        Prefix::new(random.address(from), random.of(&[0, 32, 47, 48, 64, 128]))
    };
    TriggerRule {
        local: prefix(random, &LOCALS),
        peer: prefix(random, &PEERS),
        protocol: random.of(&[None, None, Some(6), Some(17), Some(59)]),
        local_ports: ports(random),
        peer_ports: ports(random),
        cgroup: random.of(&[None, None, Some(1), Some(2)]),
        policy: random_policy(random),
    }
}

/// Random peer locators, up to all of them, in any order, none twice.
fn peer_locators(random: &mut Random) -> Vec<Locator> {
    let mut all: Vec<Locator> = SENDERS.iter().map(|text| Locator(text.parse().unwrap())).collect();
    let count = random.of(&[1, 2, 2, 3, 4, 7, 8, 9]);
    for index in 0..count {
        let other = index + usize::try_from(random.below((all.len() - index) as u64)).unwrap();
        all.swap(index, other);
    }
    all.truncate(count);
    all
}

/// Random paths, mostly none.
fn random_paths(random: &mut Random, ulids: UlidPair) -> Arc<[Path]> {
    let count = random.of(&[0, 0, 0, 1, 3]);
    let pair = |_| {
        let [local, peer] = [random.of(&LOCALS), random.of(&SENDERS)];
        let [local, peer] = [local, peer].map(|text| Locator(text.parse().unwrap()));
        Path::of(ulids, LocatorPair::new(local, peer))
    };
    (0..count).map(pair).collect()
}

/// Random ICMPv6 error, mostly one to translate.
fn error_about(random: &mut Random, entry: &ContextEntry) -> Vec<u8> {
    let mut tag = if random.one_in(8) { entry.local_tag } else { entry.peer_tag }.octets();
    tag[0] |= if random.one_in(12) { 0 } else { 0x80 };
    let ulids = entry.ulids.as_locators();
    // The error quotes a packet without a payload header.
    let is_plain = random.one_in(3);
    let locators = match random.below(8) {
        _ if is_plain => ulids,
        0 => ulids,
        1 => entry.all_paths().last().unwrap().pair,
        _ => entry.current.pair,
    };
    let length = random.of(&[0, 1, 8, 20, 100, 101, 1000]);
    let mut quote = vec![0x60 | random.octet() >> 4, random.octet(), 0, 0];
    quote.extend(u16::try_from(8 + length).unwrap().to_be_bytes());
    quote.extend([if is_plain || random.one_in(12) { 17 } else { 140 }, random.octet()]);
    quote.extend(locators.local.octets());
    quote.extend(locators.peer.octets());
    quote.extend([random.of(&[6, 17, 58]), u8::from(random.one_in(12))]);
    quote.extend(tag);
    quote.extend((0..length).map(|_| random.octet()));
    let info = random.of(&[0, 6, 7, 39, 40, 47, 48, 1280, 1500, 0x1000_0000, u32::MAX]);
    let kind = random.of(&[0, 1, 1, 2, 2, 3, 4, 5, 128]);
    let mut message = vec![kind, random.octet() % 6, random.octet(), random.octet()];
    message.extend(info.to_be_bytes());
    message.extend(quote);
    message.truncate(if random.one_in(12) { 50 } else { message.len() });
    let to =
        if random.one_in(12) { entry.ulids.local.as_locator() } else { entry.current.pair.local };
    let from = random.address(&["2001:db8:ffff::1", SENDERS[0], SENDERS[4]]);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
    packet.extend([58, 60]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(message);
    packet
}

/// Writes a TCP segment of one of a few flows.
fn segment(random: &mut Random, payload: &mut [u8]) {
    let ports: [u16; 2] = [random.of(&[7, 8]), random.of(&[7, 8])];
    let number = |random: &mut Random| {
        let about: u32 = random.of(&[0, 0, 0, 5000, u32::MAX - 500]);
        about.wrapping_add(u32::from(random.octet()) * 20)
    };
    payload[..2].copy_from_slice(&ports[0].to_be_bytes());
    payload[2..4].copy_from_slice(&ports[1].to_be_bytes());
    payload[4..8].copy_from_slice(&number(random).to_be_bytes());
    payload[8..12].copy_from_slice(&number(random).to_be_bytes());
    payload[12] = random.of(&[0x50, 0x50, 0x80, 0xf0]);
    payload[13] = random.of(&[0x10, 0x10, 0x10, 0x18, 0x02, 0x12, 0x11, 0x04, 0x50, 0x90, 0xc2]);
}

fn random_pair(random: &mut Random, from: &[&str], to: &[&str]) -> [Ipv6Addr; 2] {
    [random.address(from), random.address(to)]
}

/// Random packet, mostly valid and of a kind that the planes handle.
fn packet(random: &mut Random, [from, to]: [Ipv6Addr; 2], tags: &[ContextTag]) -> Vec<u8> {
    let next = random.of(&[6, 17, 17, 58, 0, 43, 44, 60, 59, 140, 140, 140, 140, 140]);
    let length = random.of(&[0, 1, 7, 8, 9, 20, 100, 1000, 1452, 1453, 1460]);
    let mut payload: Vec<u8> = (0..length).map(|_| random.octet()).collect();
    match next {
        6 if length >= 20 => segment(random, &mut payload),
        58 if length > 0 => payload[0] = random.of(&[1, 128, 129, 133, 135, 137]),
        0 | 43 | 44 | 60 if length > 1 => {
            payload[0] = random.of(&[58, 17, 0, 60, 44]);
            payload[1] = random.of(&[0, 0, 1]);
        }
        140 if length >= 8 => {
            let tag = if tags.is_empty() { ContextTag::from_bits(1) } else { random.of(tags) };
            payload[0] = random.of(&[6, 17, 58, 44, 59]);
            payload[1] = if random.one_in(10) { 1 } else { 0 };
            payload[2..8].copy_from_slice(&tag.octets());
            payload[2] |= if random.one_in(6) { 0 } else { 0x80 };
            if payload[0] == 6 && length >= 28 {
                segment(random, &mut payload[8..]);
            }
        }
        _ => {}
    }
    let mut packet =
        vec![0x60 | random.octet() >> 4, random.octet(), random.octet(), random.octet()];
    if random.one_in(40) {
        packet[0] = 0x45;
    }
    let said = if random.one_in(20) { random.of(&[0, 4, 8, 2000]) } else { length };
    packet.extend(u16::try_from(said).unwrap().to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    if random.one_in(40) {
        // BPF_PROG_TEST_RUN refuses packets shorter than an IPv6 header.
        packet.truncate(40 + usize::try_from(random.below(9)).unwrap());
    }
    packet
}
