use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Socket, Update};
use moorline_ilnp::{
    Config, LocalLocator, LocalState, Machine, NonceLen, NonceMode, Open, Transmit,
};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nid, Nonce, SessionId};
use moorline_wire::ilnp::{NonceHeader, transport_checksum};

use crate::input::Input;
use crate::shared::{OneSocket, ipv6, polled};

/// A host between an honest correspondent and an attacker on its path, who writes the rest of the input: steps
/// that deliver, lose, replay, change and invent ICMPv6 packets, make up traffic and reports of the data plane,
/// change sockets and locators, and let time pass. The first octet is the configuration.
///
/// Promises: no panic; never more sessions than are allowed, and the data plane knows each; none with
/// ourselves or with what is no node; packets leave from addresses of ours; queues that come to an end, and no
/// timer in the past. Well formed is an input that leaves one session on both sides and has nothing dropped.
pub fn ilnp_machine(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut world = World::new(input.octet());
    while let Some(step) = input.step() {
        world.step(step, &mut input);
        world.check();
    }
    world.hosts.iter().all(|host| host.machine.session_count() == 1)
        && world.hosts[0].machine.drops().next().is_none()
}

struct World {
    /// The one that is attacked, and the correspondent.
    hosts: [Host; 2],
    /// What the correspondent has sent.
    seen: Vec<Vec<u8>>,
    now: Instant,
}

struct Host {
    machine: Machine,
    socket: Socket,
    /// To be delivered to it.
    waiting: VecDeque<Vec<u8>>,
    /// What its data plane knows.
    entries: BTreeMap<SessionId, SessionEntry>,
}

impl Host {
    fn take(&mut self, packet: &[u8], now: Instant) {
        self.machine.handle_control(packet, now);
        self.machine.answer_all(&OneSocket(self.socket), now);
    }
}

impl World {
    fn new(flags: u8) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let hosts = [0, 1].map(|side| {
            let mut config = Config { max_sessions: MAX_SESSIONS, ..Config::default() };
            if flags & 1 == 1 {
                config.policy = Arc::new(Open);
            }
            if flags >> 1 & 1 == 1 {
                config.nonce = NonceMode::Always;
            }
            if flags >> 2 & 1 == 1 {
                config.nonce_len = NonceLen::Long;
            }
            if flags >> 3 & 1 == 1 {
                config.checksum = ChecksumMode::Full;
            }
            let seed = [u8::try_from(side).expect("two") + 1; 32];
            let mut machine = Machine::new(config, seed, now);
            machine.handle_local(&local(side, 1), now);
            let (waiting, entries) = (VecDeque::new(), BTreeMap::new());
            Host { machine, socket: Socket::Connected, waiting, entries }
        });
        Self { hosts, seen: Vec::new(), now }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 12 {
            0 => self.traffic(0, 0),
            1 => self.deliver(1),
            2 => self.deliver(0),
            3 => drop(self.hosts[0].waiting.pop_front()),
            4 => self.replay_changed(input),
            5 => self.invent(input),
            6 => self.report(input),
            7 => self.pass_time(input.octet()),
            8 => {
                let flags = input.octet();
                self.traffic(usize::from(flags & 1), flags >> 1);
            }
            9 => self.roam(input.octet()),
            10 => self.sockets(input.octet()),
            _ => self.stranger(input),
        }
        self.drain();
        for host in &mut self.hosts {
            host.machine.handle_timeout(self.now);
            host.machine.answer_all(&OneSocket(host.socket), self.now);
        }
        self.drain();
    }

    /// A packet between the addresses of the two.
    fn traffic(&mut self, side: usize, flags: u8) {
        let pair = IlvPair::new(ilv(side, flags & 1), ilv(1 - side, flags >> 1 & 1));
        self.candidate(side, pair, flags >> 2 & 1 == 1, None);
    }

    /// A packet between any addresses, perhaps with a nonce.
    fn stranger(&mut self, input: &mut Input<'_>) {
        let flags = input.octet();
        let remote = Ilv::new(L64(u64::from(input.word()) << 48), Nid(input.word().into()));
        let nonce = Nonce::from_octets(input.take([0, 4, 12][usize::from(flags >> 1 & 3).min(2)]));
        self.candidate(0, IlvPair::new(ilv(0, flags & 1), remote), flags >> 3 & 1 == 1, nonce);
    }

    fn candidate(&mut self, side: usize, pair: IlvPair, inbound: bool, nonce: Option<Nonce>) {
        let host = &mut self.hosts[side];
        let (protocol, ports, socket) = (17, (40_000, 7), host.socket);
        let report = Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
        host.machine.handle_report(report, self.now);
    }

    fn deliver(&mut self, side: usize) {
        let host = &mut self.hosts[side];
        if let Some(packet) = host.waiting.pop_front() {
            host.take(&packet, self.now);
        }
    }

    /// A packet that the correspondent has sent before, with one octet changed and the checksum put right.
    fn replay_changed(&mut self, input: &mut Input<'_>) {
        let (which, at, change) = (input.octet(), input.octet(), input.octet());
        let which = usize::from(which) % self.seen.len().max(1);
        let Some(mut packet) = self.seen.get(which).cloned() else { return };
        let at = usize::from(at) % packet.len();
        packet[at] ^= change;
        self.attack(packet);
    }

    fn invent(&mut self, input: &mut Input<'_>) {
        let (flags, kind) = (input.octet(), input.pick(&[156, 200, 201, 4, 128]));
        let pair = IlvPair::new(ilv(1, flags & 1), ilv(0, flags >> 1 & 1));
        let mut payload = Vec::new();
        if flags >> 2 & 1 == 1 {
            let len = [4, 12][usize::from(flags >> 3 & 1)];
            let mut octets = input.take(len).to_vec();
            octets.resize(len, 0);
            let nonce = Nonce::from_octets(&octets).expect("of one of the lengths");
            let sequence = (flags >> 4 & 1 == 1).then(|| u32::from(input.octet()));
            payload = NonceHeader { next_header: 58, nonce, sequence }.emit();
        }
        let next_header = if payload.is_empty() { 58 } else { 60 };
        let len = input.octet();
        payload.extend([kind, flags >> 5, 0, 0]);
        payload.extend(input.take(len.into()));
        let (source, destination) = (pair.local.address(), pair.remote.address());
        self.attack(ipv6(next_header, source, destination, &payload));
    }

    fn attack(&mut self, mut packet: Vec<u8>) {
        set_checksum(&mut packet);
        self.hosts[0].take(&packet, self.now);
    }

    fn report(&mut self, input: &mut Input<'_>) {
        let (kind, session) = (input.octet(), SessionId(u32::from(input.octet() % 8)));
        let report = match kind % 3 {
            0 => {
                let Some(nonce) = Nonce::from_octets(input.take(4)) else { return };
                Report::Learned { session, nonce }
            }
            1 => Report::Authenticated { session },
            _ => Report::Used { session, at: self.now },
        };
        self.hosts[usize::from(kind >> 7)].machine.handle_report(report, self.now);
    }

    fn pass_time(&mut self, quarters: u8) {
        self.now = self.now + Duration::from_millis(u64::from(quarters) * 250);
    }

    fn roam(&mut self, flags: u8) {
        let side = usize::from(flags & 1);
        self.hosts[side].machine.handle_local(&local(side, flags >> 1), self.now);
    }

    fn sockets(&mut self, flags: u8) {
        let kinds = [Socket::None, Socket::Unconnected, Socket::Connected];
        self.hosts[usize::from(flags & 1)].socket = kinds[usize::from(flags >> 1) % kinds.len()];
    }

    fn drain(&mut self) {
        for side in 0..2 {
            let host = &mut self.hosts[side];
            let machine = &mut host.machine;
            for update in polled(MAX_POLLED, || machine.poll_update()) {
                match update {
                    Update::Upsert(entry) => drop(host.entries.insert(entry.id, entry)),
                    Update::Remove { session } => {
                        assert!(host.entries.remove(&session).is_some(), "removes {session:?}");
                    }
                }
            }
            polled(MAX_POLLED, || machine.poll_event());
            for Transmit { source, packet } in polled(MAX_POLLED, || machine.poll_transmit()) {
                assert_eq!(packet[8..24], source.octets());
                assert!((0..LOCATORS).any(|at| ilv(side, at).address() == source), "from {source}");
                if side == 1 && self.seen.len() < MAX_SEEN {
                    self.seen.push(packet.clone());
                }
                self.hosts[1 - side].waiting.push_back(packet);
            }
            self.hosts[1 - side].waiting.truncate(MAX_SEEN);
        }
    }

    fn check(&self) {
        for (side, host) in self.hosts.iter().enumerate() {
            let ours = ilv(side, 0).nid;
            assert!(host.machine.session_count() <= MAX_SESSIONS);
            assert_eq!(host.entries.len(), host.machine.session_count());
            let pairs: BTreeSet<_> = host.entries.values().map(|entry| entry.pair).collect();
            assert_eq!(pairs.len(), host.entries.len(), "two sessions of one pair");
            for entry in host.entries.values() {
                let IlvPair { local, remote } = entry.pair;
                assert!(local.nid == ours && remote.nid != ours && !remote.nid.is_group());
                assert!(!entry.remote.is_empty());
                assert!(entry.remote.iter().all(|l64| l64.is_global_unicast()));
                assert!(entry.wire.1.is_global_unicast());
                assert!((0..LOCATORS).any(|at| ilv(side, at).l64 == entry.wire.0));
            }
            let sessions = host.machine.sessions(self.now).map(|session| session.id);
            assert!(sessions.eq(host.entries.keys().copied()), "a plane that knows others");
            if let Some(at) = host.machine.poll_timeout() {
                assert!(at > self.now, "a timeout in the past: {at:?} at {:?}", self.now);
            }
        }
    }
}

/// The locators of a side whose bits are set.
fn local(side: usize, bits: u8) -> LocalState {
    let chosen = (0..LOCATORS).filter(|at| bits >> at & 1 == 1);
    let locators = chosen.map(|at| LocalLocator {
        l64: ilv(side, at).l64,
        preference: u16::from(bits >> 4 ^ at),
        lifetime: 3600,
    });
    LocalState { nids: vec![ilv(side, 0).nid], locators: locators.collect() }
}

fn ilv(side: usize, locator: u8) -> Ilv {
    let side = u64::try_from(side).expect("two");
    Ilv::new(L64(0x2001_0db8_0000_0000 | side << 16 | u64::from(locator)), Nid(10 + side))
}

/// Puts the checksum of an ICMPv6 message right, behind a header of options or not.
fn set_checksum(packet: &mut [u8]) {
    let at = match (packet.get(6), packet.get(41)) {
        (Some(58), _) => 40,
        (Some(60), Some(units)) => 40 + 8 * (usize::from(*units) + 1),
        _ => return,
    };
    if packet.len() < at + 4 {
        return;
    }
    let address = |from: usize| {
        let octets: [u8; 16] = packet[from..from + 16].try_into().expect("16 octets");
        Ilv::of(octets.into())
    };
    let (source, destination) = (address(8), address(24));
    packet[at + 2..at + 4].fill(0);
    let sum = transport_checksum(source, destination, 58, &packet[at..]);
    packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Locators that a host may have.
const LOCATORS: u8 = 3;
/// Few, so that they are evicted.
const MAX_SESSIONS: usize = 3;
/// Packets kept for replay, or waiting.
const MAX_SEEN: usize = 64;
/// More than any step brings.
const MAX_POLLED: usize = 1000;
