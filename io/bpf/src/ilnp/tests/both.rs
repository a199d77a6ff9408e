//! Random traffic and updates go through the eBPF programs and through [`moorline_plane::ilnp::Plane`]: octets,
//! verdicts and reports must be equal.

use moorline_datapath::Plane as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Sockets as _, Update};
use moorline_plane::ilnp::{Inbound, Outbound, Plane, Settings};
use moorline_types::{DropReason, Ilv, IlvPair, Instant, L64, Nid, Nonce, SessionId};
use moorline_wire::ilnp::{NonceHeader, checksum_at};

use super::harness::{
    AWAY, ELSEWHERE, HOME, Harness, NEVER_NAMED, OURS, PAIRS, THEIR_PORT, THERE, UNCONNECTED,
    our_port,
};
use crate::ilnp::IlnpSettings;
use crate::tests::both::{Random, compare};
use crate::tests::can_run;
use moorline_datapath::ilnp::Wanted;

/// Largest MTU that the errors report.
const LARGEST_MTU: usize = 0x0500 + 120;
const SEEDS: u64 = 48;
const STEPS: u32 = 400;

const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_REDIRECT: i32 = 7;

const OUR_LOCATORS: [L64; 2] = [HOME, AWAY];
/// Identifier of a host to which this host forwards packets.
const BEHIND_US: Nid = Nid(0x0200_00ff_fe00_0002);
const THEIR_LOCATORS: [L64; 3] = [THERE, ELSEWHERE, NEVER_NAMED];

#[test]
fn both_planes_do_the_same_with_random_traffic() {
    if !can_run("both_planes_do_the_same_with_random_traffic") {
        return;
    }
    let mut seen = BTreeMap::new();
    for (wanted, checksum) in
        [(Wanted::Connected, ChecksumMode::NidOnly), (Wanted::All, ChecksumMode::Full)]
    {
        let settings =
            IlnpSettings { max_sessions: 4, wanted, checksum, ..IlnpSettings::default() };
        let harness = Harness::new(&settings);
        let mut both = Both::new(harness, wanted, checksum);
        for seed in 0..SEEDS {
            both.clear(seed);
            let mut random = Random(seed);
            for step in 0..STEPS {
                let at = format!("{wanted:?} seed {seed} step {step}");
                both.now += random.below(random_pause(&random)) + 1;
                both.kernel.set_now(both.now);
                let what = match random.below(12) {
                    0 => both.upsert(&mut random),
                    1 if random.one_in(4) => both.remove(&mut random),
                    odd if odd % 2 == 1 => both.outbound(&mut random, &at),
                    _ => both.inbound(&mut random, &at),
                };
                *seen.entry(what).or_insert(0) += 1;
                for kind in both.compare_reports(&at) {
                    *seen.entry(kind).or_insert(0) += 1;
                }
            }
        }
    }
    println!("{seen:?}");
    // Otherwise the run tested little.
    for what in WANTED {
        assert!(seen.get(what).is_some_and(|&count| count >= 5), "{what}: {seen:?}");
    }
}

/// Events that must have occurred.
const WANTED: [&str; 21] = [
    "candidate",
    "learned",
    "authenticated",
    "used",
    "sent unmoved",
    "sent moved",
    "sent with nonce",
    "delivered",
    "stripped",
    "namesake passed",
    "namesake stripped",
    "namesake to its socket",
    "translated",
    "nonce for others",
    "up",
    "drop bad_nonce",
    "drop wrong_locators",
    "drop missing_option",
    "drop duplicate_option",
    "drop adjust_room",
    "drop header_chain",
];

/// Random pause, mostly short, and at times as long as the intervals of reports.
fn random_pause(random: &Random) -> u64 {
    if random.0.is_multiple_of(9) { 12_000_000_000 } else { 200_000_000 }
}

struct Both {
    kernel: Harness,
    user: Plane,
    settings: Settings,
    now: u64,
    live: BTreeMap<SessionId, IlvPair>,
}

impl Both {
    fn new(kernel: Harness, wanted: Wanted, checksum: ChecksumMode) -> Self {
        let settings = Settings { wanted, checksum, max_sessions: 64, ..Settings::default() };
        let mut user = Plane::new(settings.clone(), [0; 16]);
        user.set_nids([OURS].into());
        Self { kernel, user, settings, now: 0, live: BTreeMap::new() }
    }

    fn clear(&mut self, seed: u64) {
        for session in std::mem::take(&mut self.live).into_keys() {
            self.kernel.plane.apply(&Update::Remove { session }, Instant::ZERO).unwrap();
        }
        self.kernel.clear();
        self.user = Plane::new(self.settings.clone(), [seed.to_be_bytes()[7]; 16]);
        self.user.set_nids([OURS].into());
    }

    fn update(&mut self, update: &Update) {
        self.kernel.plane.apply(update, Instant::ZERO).unwrap();
        self.user.handle_update(update);
    }

    fn upsert(&mut self, random: &mut Random) -> &'static str {
        let id = SessionId(u32::try_from(random.below(4)).unwrap());
        let pair = random.of(&PAIRS);
        if self.live.iter().any(|(other, its)| *other != id && *its == pair) {
            return "not changed";
        }
        self.live.insert(id, pair);
        let moves = random.one_in(2);
        let wire = if moves {
            (random.of(&OUR_LOCATORS), random.of(&THEIR_LOCATORS))
        } else {
            (pair.local.l64, pair.remote.l64)
        };
        // Only the session that is alone with its node may lack a nonce: with other sessions, a new nonce would be
        // ambiguous.
        let is_alone = pair == PAIRS[3];
        let receive_nonce =
            (!is_alone || random.one_in(3)).then(|| nonce_of(pair, random.below(2)));
        let first = if pair == PAIRS[4] { NEVER_NAMED } else { THERE };
        let remote: Arc<[L64]> = [first, ELSEWHERE][..1 + usize::from(random.one_in(2))].into();
        let attach = random.one_in(3);
        let entry = SessionEntry {
            id,
            pair,
            wire,
            send_nonce: our_nonce(pair, random.one_in(3)),
            attach,
            always: attach && random.one_in(2),
            maps_tcp: !random.one_in(3),
            settled: !random.one_in(4),
            receive_nonce,
            remote,
            checksum: random.of(&[ChecksumMode::NidOnly, ChecksumMode::Full]),
            confirming: random.one_in(3),
            watch: random.one_in(2),
        };
        self.update(&Update::Upsert(entry));
        "changed"
    }

    fn remove(&mut self, random: &mut Random) -> &'static str {
        let session = SessionId(u32::try_from(random.below(4)).unwrap());
        self.live.remove(&session);
        self.update(&Update::Remove { session });
        "removed"
    }

    fn outbound(&mut self, random: &mut Random, at: &str) -> &'static str {
        let pair = random.of(&PAIRS);
        let packet = packet(random, pair, pair_index(pair), false);
        let before = self.kernel.drops();
        let outcome = self.kernel.run("ilnp_egress", &packet);
        let mut expected = packet.clone();
        let now = Instant::from_nanos(self.now);
        let verdict = self.user.handle_outbound(&mut expected, &self.kernel.plane, now);
        let (action, what) = match verdict {
            Outbound::Pass => (TC_ACT_UNSPEC, "passed out"),
            Outbound::Send { .. } if expected[6] == 60 && packet[6] != 60 => {
                let is_moved = expected[8..40] != packet[8..40];
                (if is_moved { TC_ACT_REDIRECT } else { TC_ACT_UNSPEC }, "sent with nonce")
            }
            Outbound::Send { .. } => {
                let is_moved = self.is_moved(pair, &expected);
                let what = if is_moved { "sent moved" } else { "sent unmoved" };
                (if is_moved { TC_ACT_REDIRECT } else { TC_ACT_UNSPEC }, what)
            }
            // A redirection to no interface. The counters of drops tell it from other redirections.
            Outbound::Drop(reason) => (TC_ACT_REDIRECT, drop_name(reason)),
        };
        let dropped = if let Outbound::Drop(reason) = verdict { Some(reason) } else { None };
        self.compare(
            &outcome.packet,
            &expected,
            (outcome.action, action),
            (before, dropped),
            at,
            &packet,
        );
        what
    }

    fn is_moved(&self, pair: IlvPair, sent: &[u8]) -> bool {
        sent[8..24] != pair.local.address().octets()
            || sent[24..40] != pair.remote.address().octets()
    }

    fn inbound(&mut self, random: &mut Random, at: &str) -> &'static str {
        let pair = random.of(&PAIRS);
        let (to, from) = (random.of(&OUR_LOCATORS), random.of(&THEIR_LOCATORS));
        let (pair, shown) = if random.one_in(12) {
            // The packet has the ports of the other pair.
            (PAIRS[0], PAIRS[4])
        } else if random.one_in(2) {
            (pair, pair)
        } else {
            (pair, IlvPair::new(pair.local.at(to), pair.remote.at(from)))
        };
        let shown = if random.one_in(12) {
            IlvPair::new(Ilv::new(shown.local.l64, BEHIND_US), shown.remote)
        } else {
            shown
        };
        let packet = if random.one_in(6) {
            error(random, pair, shown)
        } else {
            packet(random, shown.reversed(), pair_index(pair), true)
        };
        let before = self.kernel.drops();
        let outcome = self.kernel.run("ilnp_ingress", &packet);
        let mut expected = packet.clone();
        let now = Instant::from_nanos(self.now);
        let verdict = self.user.handle_inbound(&mut expected, &self.kernel.plane, now);
        let is_namesake = self.is_namesake(shown) && expected[8..40] == packet[8..40];
        let (action, what) = match verdict {
            Inbound::Pass if is_namesake && self.claims(shown, &packet) => {
                (TC_ACT_UNSPEC, "namesake to its socket")
            }
            Inbound::Pass if is_namesake => (TC_ACT_UNSPEC, "namesake passed"),
            Inbound::Deliver if is_namesake && packet[6] == 60 => {
                (TC_ACT_UNSPEC, "namesake stripped")
            }
            Inbound::Pass if shown.local.nid == BEHIND_US && packet[6] == 60 => {
                (TC_ACT_UNSPEC, "nonce for others")
            }
            Inbound::Pass => (TC_ACT_UNSPEC, "passed in"),
            Inbound::Deliver if expected.len() < packet.len() => (TC_ACT_UNSPEC, "stripped"),
            Inbound::Deliver if packet[6] == 58 && matches!(packet.get(40), Some(128 | 129)) => {
                (TC_ACT_UNSPEC, "echo without nonce")
            }
            // All other ICMPv6 messages that are delivered had a nonce in front.
            Inbound::Deliver if packet[6] == 58 => (TC_ACT_UNSPEC, "translated"),
            Inbound::Deliver => (TC_ACT_UNSPEC, "delivered"),
            Inbound::Up => (TC_ACT_SHOT, "up"),
            Inbound::Drop(reason) => (TC_ACT_SHOT, drop_name(reason)),
        };
        // Octets behind the end are not part of the packet.
        let len = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        let up = if verdict == Inbound::Up { vec![packet[..len].to_vec()] } else { Vec::new() };
        assert_eq!(self.kernel.controls(), up, "{at}: packets for the core");
        let dropped = if let Inbound::Drop(reason) = verdict { Some(reason) } else { None };
        self.compare(
            &outcome.packet,
            &expected,
            (outcome.action, action),
            (before, dropped),
            at,
            &packet,
        );
        what
    }

    /// Whether there are sessions between the nodes, none of which names the locator.
    fn is_namesake(&self, shown: IlvPair) -> bool {
        let with_node: Vec<_> =
            self.live.values().filter(|pair| pair.nids() == shown.nids()).collect();
        shown.remote.l64 == NEVER_NAMED
            && !with_node.is_empty()
            && with_node.iter().all(|pair| pair.remote.l64 != NEVER_NAMED)
    }

    /// Whether a datagram or segment has the ports of the socket of a session.
    fn claims(&self, shown: IlvPair, packet: &[u8]) -> bool {
        let ports = [0, 2].map(|at| packet.get(40 + at..).and_then(<[u8]>::first_chunk));
        let Some([theirs, ours]) = ports[0].zip(ports[1]).map(<[&[u8; 2]; 2]>::from) else {
            return false;
        };
        let ports = (u16::from_be_bytes(*ours), u16::from_be_bytes(*theirs));
        let kind = |pair| self.kernel.plane.kind(pair, packet[6], ports);
        let mut sessions = self.live.values().filter(|pair| pair.nids() == shown.nids());
        (packet[6] == 17 || packet[6] == 6 && packet.get(53).is_some_and(|flags| flags & 2 == 0))
            && sessions.any(|pair| kind(*pair) == Socket::Connected)
    }

    fn compare(
        &self,
        seen: &[u8],
        expected: &[u8],
        actions: (i32, i32),
        (mut drops, dropped): (BTreeMap<DropReason, u64>, Option<DropReason>),
        at: &str,
        packet: &[u8],
    ) {
        let packet = hex::encode(packet);
        let is_dropped = dropped.is_some() || actions.1 == TC_ACT_SHOT;
        if let Some(reason) = dropped {
            *drops.entry(reason).or_default() += 1;
        }
        assert_eq!(self.kernel.drops(), drops, "{at}: {packet}");
        assert_eq!(actions.0, actions.1, "{at}: action on {packet}");
        // The octets of a dropped packet do not count.
        if !is_dropped {
            assert_eq!(hex::encode(seen), hex::encode(expected), "{at}: octets of {packet}");
        }
    }

    fn compare_reports(&mut self, at: &str) -> Vec<&'static str> {
        // The kernel does not know the sockets of the other plane.
        let is_shared = |report: &Report| !matches!(report, Report::NoRoom { .. });
        let reports = compare(&mut self.kernel.plane, &mut self.user, is_shared, at);
        let name = |report: &Report| match report {
            Report::Candidate { .. } => "candidate",
            Report::Learned { .. } => "learned",
            Report::Authenticated { .. } => "authenticated",
            Report::Used { .. } => "used",
            Report::Silent { .. } => "silent",
            Report::NoRoom { .. } => "no room",
        };
        reports.iter().map(name).collect()
    }
}

fn drop_name(reason: DropReason) -> &'static str {
    WANTED
        .into_iter()
        .find(|what| what.strip_prefix("drop ") == Some(reason.as_str()))
        .unwrap_or("drop otherwise")
}

fn pair_index(pair: IlvPair) -> usize {
    PAIRS.iter().position(|other| *other == pair).unwrap()
}

const SHORT: Nonce = Nonce::Short([0xa1, 0xa2, 0xa3, 0xa4]);
const LONG: Nonce = Nonce::Long([0xb1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);

/// Our nonce; each session has one of its own.
fn our_nonce(pair: IlvPair, is_long: bool) -> Nonce {
    let index = u8::try_from(pair_index(pair)).unwrap();
    match (is_long, LONG) {
        (true, Nonce::Long(mut octets)) => {
            octets[11] = index;
            Nonce::Long(octets)
        }
        _ => Nonce::Short([0xa1, 0xa2, 0xa3, index]),
    }
}

/// One of the two nonces of the correspondent.
fn nonce_of(pair: IlvPair, which: u64) -> Nonce {
    let index = u8::try_from(pair_index(pair)).unwrap();
    if which == 0 { Nonce::Short([7, 7, 7, index]) } else { Nonce::Long([index; 12]) }
}

/// An error about a packet of a session between these addresses, from a router or at times from the correspondent.
fn error(random: &mut Random, pair: IlvPair, shown: IlvPair) -> Vec<u8> {
    let nonce = random.of(&[Some(our_nonce(pair, false)), Some(our_nonce(pair, true)), None]);
    let protocol = random.of(&[6, 17]);
    let mut header = nonce
        .map(|nonce| NonceHeader { next_header: protocol, nonce, sequence: None }.emit())
        .unwrap_or_default();
    if random.one_in(4) && !header.is_empty() {
        lengthen(&mut header);
    }
    let next = if header.is_empty() { protocol } else { 60 };
    let mut upper = upper(random, protocol, pair_index(pair), false);
    upper.splice(0..0, header);
    let mut message = vec![random.of(&[1, 2, 2, 3, 4]), 0, random.octet(), random.octet(), 0, 0];
    message.extend([random.of(&[0, 5, 5]), random.of(&[0, 40, 43, 48, 120])]);
    message.extend([0x60, 0, 0, 0]);
    message.extend(u16::try_from(upper.len()).unwrap().to_be_bytes());
    message.extend([next, 63]);
    message.extend(shown.local.address().octets());
    message.extend(shown.remote.address().octets());
    message.extend(upper);
    if random.one_in(8) {
        message.truncate(usize::try_from(random.below(100)).unwrap());
    }
    let router = Ilv::new(NEVER_NAMED, Nid(0x0200_00ff_fe00_0099));
    let next_to_us = Ilv::new(L64(0xfe80 << 48), router.nid);
    let from = match random.below(8) {
        0 => shown.remote,
        1 | 2 => next_to_us,
        _ => router,
    };
    let to = if random.one_in(8) { pair.local } else { shown.local };
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
    packet.extend([58, 64]);
    packet.extend(from.address().octets());
    packet.extend(to.address().octets());
    packet.extend(message);
    packet
}

/// Adds padding until the packet is longer than any MTU that the errors report.
fn lengthen(header: &mut Vec<u8>) {
    while header.len() < LARGEST_MTU {
        header.extend([1, 254]);
        header.extend([0; 254]);
    }
    header[1] = u8::try_from(header.len() / 8 - 1).unwrap();
}

/// A packet between these addresses, with the ports of the sockets of a pair.
fn packet(random: &mut Random, addresses: IlvPair, index: usize, inbound: bool) -> Vec<u8> {
    let protocol = random.of(&[6, 6, 6, 17, 17, 58, 58, 33, 136, 50]);
    let mut rest = upper(random, protocol, index, inbound);
    let mut next = protocol;
    if random.one_in(10) {
        let more = [next, 0, 0, random.of(&[0, 1, 8, 0xb9]), 1, 2, 3, 4];
        rest.splice(0..0, more);
        next = 44;
    }
    let nonces = if inbound { random.of(&[0, 0, 1, 1, 1]) } else { random.of(&[0, 0, 0, 0, 1]) };
    if nonces > 0 || random.one_in(8) {
        rest.splice(0..0, options(random, next, nonces, index));
        next = 60;
    }
    if random.one_in(12) {
        rest.splice(0..0, [next, 0, 1, 4, 0, 0, 0, 0]);
        next = random.of(&[0, 43]);
    }
    if random.one_in(40) {
        next = 140;
    }
    let len = u16::try_from(rest.len()).unwrap();
    let len = if random.one_in(30) { len.saturating_sub(9) } else { len };
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(addresses.local.address().octets());
    packet.extend(addresses.remote.address().octets());
    packet.extend(rest);
    packet
}

fn upper(random: &mut Random, protocol: u8, index: usize, inbound: bool) -> Vec<u8> {
    let len = match random.below(12) {
        0 => random.below(24),
        1 => 1200 + random.below(60),
        2 => 1430 + random.below(30),
        _ => 24 + random.below(40),
    };
    let mut upper: Vec<u8> = (0..len).map(|_| random.octet()).collect();
    let ours = random.of(&[our_port(index), our_port(index), UNCONNECTED, 9]);
    let ports = [ours, our_port(index) + THEIR_PORT];
    let ports = if inbound { [ports[1], ports[0]] } else { ports };
    let ports: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    if checksum_at(protocol).is_some() && upper.len() >= 4 {
        upper[..4].copy_from_slice(&ports);
    }
    if protocol == 58 && upper.len() >= 8 {
        upper[0] = random.of(&[128, 129, 1, 4, 4, 135, 156, 200, 201]);
        upper[1] = random.of(&[0, 2]);
        upper[4..8].copy_from_slice(&[0, 0, 0, random.of(&[42, 42, 40])]);
        if upper.len() > 50 {
            upper[50] = random.of(&[0x8b, 0x8b, 0]);
        }
    }
    if protocol == 6 && upper.len() > 13 {
        upper[13] = random.of(&[0x10, 0x10, 0x18, 0x02, 0x12, 0x04]);
    }
    if let Some(at) = checksum_at(protocol).filter(|at| upper.len() > at + 1) {
        let sums = [[0, 0], [0xff, 0xff], [upper[at], upper[at + 1]]];
        let sum = random.of(&[sums[0], sums[1], sums[2], sums[2], sums[2], sums[2]]);
        upper[at..at + 2].copy_from_slice(&sum);
    }
    upper
}

/// A Destination Options header with nonces and other options, at times an invalid one.
fn options(random: &mut Random, next: u8, nonces: u32, index: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let nonces = if random.one_in(20) { 2 } else { nonces };
    for _ in 0..nonces {
        let nonce = match random.below(8) {
            0 => SHORT,
            even if even % 2 == 0 => nonce_of(PAIRS[index], 0),
            _ => nonce_of(PAIRS[index], 1),
        };
        let len = u8::try_from(nonce.octets().len()).unwrap();
        all.extend([0x8b, if random.one_in(30) { len - 1 } else { len }]);
        all.extend_from_slice(nonce.octets());
        if random.one_in(6) {
            all.extend([0x1e, 6, b'M', b'L', 0, 0, 0, 9]);
        }
    }
    if random.one_in(5) {
        all.extend(random.of(&[[0x1e, 2, 5, 5], [0x05, 2, 0, 0], [1, 2, 0, 0], [0, 0, 0, 0]]));
    }
    if random.one_in(10) {
        // Up to as many options as a program reads, and more.
        all.resize(all.len() + usize::try_from(random.below(18)).unwrap(), 0);
    }
    while (all.len() + 2) % 8 != 0 {
        all.push(0);
    }
    let units = u8::try_from((all.len() + 2) / 8 - 1).unwrap();
    let units = if random.one_in(40) { units + 1 } else { units };
    let mut header = vec![next, units];
    header.extend(all);
    header
}
