use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use moorline_contexts::{Contexts, LocalState, Removal};
use moorline_datapath::ilnp::{ChecksumMode, SessionEntry, Socket};
use moorline_datapath::shim6::{ContextEntry, FailureHint};
use moorline_datapath::{ilnp, shim6};
use moorline_host::model::{Kernel, OneSocket, Told, contested, local_state, view};
use moorline_host::{Effect, Host, Sessions};
use moorline_ilnp::{NonceLen, NonceMode, Open};
use moorline_types::{
    ContextId, Ilv, IlvPair, Instant, L64, Locator, LocatorPair, Nid, Nonce, SessionId, UlidPair,
};
use moorline_wire::ilnp::NonceHeader;
use moorline_wire::{LocatorPreference, PayloadHeader, fill_checksum, fill_icmp_checksum, ip6};

use crate::input::Input;
use crate::shared::polled;

/// Two hosts with Shim6 and ILNP, and an on-path attacker who writes the input. The first octet is the configuration.
/// Each step delivers, loses, replays, changes or invents packets of both protocols, reports made-up traffic or events
/// of the data planes, or lets time pass. The hosts send payload, lose contexts (so that R1bis and I2bis follow), fork
/// contexts, state preferences, change their Send Timeout, sockets and usable addresses, lose routers, restart, and see
/// effects fail.
///
/// Promises:
/// - no panic, no queue without end, no timer in the past;
/// - packets of a host leave from its addresses;
/// - the first host has contexts with the second only, by another of its addresses if the attacker has removed the
///   ULID-pair option from I1 and I2; no Shim6 packet and no entry of its data plane has a locator that the second host
///   has not proved; no two contexts share a tag;
/// - there are never more sessions than allowed, each with its own pair of addresses; no session of a host with itself
///   or with an identifier that names no node;
/// - if a host has nothing to try again, the data planes know exactly its contexts and sessions;
/// - a pair of addresses with a session has no context that has moved.
///
/// An input is well formed if it leaves a session or an established context on both hosts.
pub(crate) fn host(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut world = World::new(input.octet());
    while let Some(step) = input.step() {
        world.step(step, &mut input);
        world.check();
    }
    world.sides.iter().all(|Side { host, .. }| {
        let is_established = host.shim6().contexts().any(|context| context.established.is_some());
        is_established || host.ilnp().is_some_and(|ilnp| ilnp.session_count() > 0)
    })
}

/// A control packet in flight, with the locators from the view of its receiver.
#[derive(Clone)]
enum Packet {
    Shim6(Vec<u8>, LocatorPair),
    Ilnp(Vec<u8>),
}

struct World {
    flags: u8,
    /// The host under attack, and the honest peer.
    sides: [Side; 2],
    /// Whether kernel and data planes refuse updates.
    fails: bool,
    now: Instant,
}

struct Side {
    host: Host,
    kernel: Kernel,
    local: LocalState,
    socket: Socket,
    /// Quiet contexts for which the host has asked about sockets.
    quiet: Vec<ContextId>,
    /// Packets to deliver, and packets delivered or lost before.
    waiting: VecDeque<Packet>,
    seen: Vec<Packet>,
    /// Contexts and sessions in the data planes of the host.
    told: Told,
    /// Whether a data plane has refused to take or to remove a session.
    has_refused: bool,
}

impl World {
    fn new(flags: u8) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let sides = [1, 2].map(|number| {
            let local = local_state(number, 1);
            let mut host = new_host(flags, number);
            tell(&mut host, &local, now);
            let (waiting, seen, quiet) = (VecDeque::new(), Vec::new(), Vec::new());
            let (kernel, told, socket) = (Kernel::default(), Told::default(), Socket::Connected);
            Side { host, kernel, local, socket, quiet, waiting, seen, told, has_refused: false }
        });
        Self { flags, sides, fails: false, now }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let side = usize::from(step >> 7);
        let now = self.now;
        match step % 32 {
            0 => self.traffic(side, input.octet()),
            1 => {
                if let Some(packet) = self.sides[side].waiting.pop_front() {
                    self.sides[side].take(packet, now);
                }
            }
            2 => drop(self.sides[side].waiting.pop_front()),
            3 => self.replay_changed(side, input),
            4 => self.invent_shim6(side, input),
            5 => self.invent_ilnp(side, input),
            6 => self.sides[side].report_of_shim6(input.octet(), now),
            7 => self.sides[side].report_of_ilnp(input, now),
            8 => self.now = now + Duration::from_millis(input.word().into()),
            9 => self.sides[side].forget(input.octet()),
            10 => self.payload(side, input.octet()),
            11 => {
                let ulids = self.pair(side, 0);
                self.sides[side].host.shim6_mut().fork(ulids, now).ok();
            }
            12 => self.sides[side].prefer(input, now),
            13 => self.sides[side].settings(input, now),
            14 => self.sides[side].answer(input.octet(), now),
            15 => self.restart(side, input),
            16 => self.stranger(side, input),
            17 => {
                let kinds = [Socket::None, Socket::Unconnected, Socket::Connected];
                self.sides[side].socket = input.pick(&kinds);
            }
            _ => self.fails = !self.fails,
        }
        self.settle();
        // Timers that are due fire at once. After that, no timer is due.
        self.sides.iter_mut().for_each(|side| side.host.handle_timeout(self.now));
        self.settle();
    }

    fn pair(&self, side: usize, which: u8) -> UlidPair {
        let ulid = |side: usize, bit: u8| self.sides[side].own(which >> bit).as_ulid();
        UlidPair::new(ulid(side, 0), ulid(1 - side, 1))
    }

    /// Reports traffic of a pair, by both planes of a host or by one.
    fn traffic(&mut self, side: usize, which: u8) {
        let ulids = self.pair(side, which);
        if which & 4 == 0 {
            self.candidate(side, IlvPair::of(ulids), which & 16 != 0, None);
        }
        if which & 8 == 0 {
            let report = shim6::Report::Trigger { ulids };
            self.sides[side].host.handle_shim6_report(report, self.now);
        }
    }

    /// Reports a packet between any addresses, with or without a nonce.
    fn stranger(&mut self, side: usize, input: &mut Input<'_>) {
        let flags = input.octet();
        let remote = Ilv::new(L64(u64::from(input.word()) << 48), Nid(input.word().into()));
        let nonce = Nonce::from_octets(input.take([0, 4, 12][usize::from(flags >> 1 & 3).min(2)]));
        let pair = IlvPair::new(Ilv::of(self.sides[side].own(flags).0), remote);
        self.candidate(side, pair, flags >> 3 & 1 == 1, nonce);
    }

    fn candidate(&mut self, side: usize, pair: IlvPair, inbound: bool, nonce: Option<Nonce>) {
        let side = &mut self.sides[side];
        let (protocol, ports, socket) = (17, (40_000, 7), side.socket);
        let report = ilnp::Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
        side.host.handle_ilnp_report(report, self.now);
    }

    /// Replays a packet of the other host with one octet changed and the right checksum.
    fn replay_changed(&mut self, side: usize, input: &mut Input<'_>) {
        let (which, at) = (usize::from(input.octet()), usize::from(input.octet()));
        let change = input.octet();
        let side = &mut self.sides[side];
        let Some(mut packet) = side.seen.get(which % side.seen.len().max(1)).cloned() else {
            return;
        };
        let (Packet::Shim6(octets, _) | Packet::Ilnp(octets)) = &mut packet;
        let at = at % octets.len();
        octets[at] ^= change;
        side.attack(packet, self.now);
    }

    fn invent_shim6(&mut self, side: usize, input: &mut Input<'_>) {
        let (addresses, len) = (input.octet(), input.octet());
        let octets = input.take(usize::from(len)).to_vec();
        let locators = self.pair(side, addresses).as_locators();
        self.sides[side].attack(Packet::Shim6(octets.clone(), locators), self.now);
        let contexts = self.sides[side].host.shim6_mut();
        contexts.handle_unrecognized(&octets, locators, locators.peer, self.now);
    }

    fn invent_ilnp(&mut self, side: usize, input: &mut Input<'_>) {
        let (flags, kind) = (input.octet(), input.pick(&[156, 200, 201, 4, 128]));
        let mut options = Vec::new();
        if flags >> 2 & 1 == 1 {
            let len = [4, 12][usize::from(flags >> 3 & 1)];
            let mut octets = input.take(len).to_vec();
            octets.resize(len, 0);
            let nonce = Nonce::from_octets(&octets).expect("of one of the lengths");
            let sequence = (flags >> 4 & 1 == 1).then(|| u32::from(input.octet()));
            options = NonceHeader { next_header: ip6::ICMPV6, nonce, sequence }.emit();
        }
        let next_header = if options.is_empty() { ip6::ICMPV6 } else { ip6::DESTINATION_OPTIONS };
        let len = input.octet();
        let payload = [&options, &[kind, flags >> 5, 0, 0][..], input.take(len.into())].concat();
        let UlidPair { local, peer } = self.pair(1 - side, flags);
        let packet = ip6::packet(next_header, local.0, peer.0, &payload);
        self.sides[side].attack(Packet::Ilnp(packet), self.now);
    }

    /// Passes payload of a context from the other host to the core: with a tag that the data plane does not know, or as
    /// a report of received payload.
    fn payload(&mut self, side: usize, which: u8) {
        let from = self.sides[1 - side].host.shim6().snapshot().nth(which.into());
        let Some(context) = from else { return };
        let header = PayloadHeader { next_header: 59, tag: context.peer_tag };
        let to = &mut self.sides[side].host;
        to.handle_shim6(&header.emit(), context.locators.reversed(), self.now);
        let ulids = context.key.ulids.reversed();
        let Some(context) = to.shim6().contexts().find(|context| context.ulids == ulids) else {
            return;
        };
        let received = shim6::Report::Received { context: context.id, at: self.now };
        to.handle_shim6_report(received, self.now);
    }

    /// Restarts a host with its saved state. Another host gets a changed state, and must not panic.
    fn restart(&mut self, side: usize, input: &mut Input<'_>) {
        let seed = input.octet();
        let now = self.now;
        let ulids = self.pair(1 - side, 0);
        let Side { host, kernel, local, told, .. } = &mut self.sides[side];
        let contexts: Vec<_> = host.shim6().snapshot().collect();
        let sessions = host.ilnp().into_iter().flat_map(Sessions::snapshot).collect();
        let mut other = new_host(self.flags, seed ^ 0x80);
        tell(&mut other, local, now);
        while let Some(effect) = other.poll_effect(now) {
            other.handle_done(&effect, now);
        }
        for mut changed in contexts.iter().cloned() {
            match input.octet() % 5 {
                0 => changed.key.ulids = ulids,
                1 => changed.locators = changed.locators.reversed(),
                2 => changed.peer.locators = (&[changed.locators.local; 40]).into(),
                3 => changed.local_tag = changed.peer_tag,
                _ => changed.id = ContextId(u32::from(input.octet())),
            }
            other.shim6_mut().restore(changed.clone(), now).ok();
            other.shim6_mut().restore(changed, now).ok();
        }
        *host = new_host(self.flags, seed);
        *told = Told::default();
        assert_eq!(host.restore_sessions(sessions, BTreeSet::new(), now), []);
        host.handle_left(kernel.routes());
        tell(host, local, now);
        self.settle();
        let Side { host, kernel, .. } = &mut self.sides[side];
        for context in contexts {
            let restored = host.shim6_mut().restore(context, now);
            assert!(restored.is_ok(), "{restored:?}");
        }
        host.handle_restored(kernel.kept().clone(), now);
    }

    fn settle(&mut self) {
        for side in 0..2 {
            let all = polled(MOST, || {
                let effect = self.sides[side].host.poll_effect(self.now)?;
                self.execute(side, effect);
                Some(())
            });
            drop(all);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are for kernel and people")]
    fn execute(&mut self, side: usize, effect: Effect) {
        let now = self.now;
        if let Effect::UpdateContext(shim6::Update::Upsert(entry)) = &effect
            && side == 0
        {
            self.check_context(entry);
        }
        self.sides[side].tell_planes(&effect, self.fails);
        match self.fails {
            true => self.sides[side].host.handle_failed(&effect, now),
            false => self.sides[side].host.handle_done(&effect, now),
        }
        match effect {
            Effect::SendShim6 { transmit, .. } => {
                let LocatorPair { local, peer } = transmit.locators;
                assert!(self.sides[side].local.usable.contains(&local), "sends from {local}");
                assert!(side == 1 || self.is_proved(peer), "sends to {peer}");
                self.send(side, Packet::Shim6(transmit.octets, transmit.locators.reversed()));
            }
            Effect::SendIlnp { transmit, .. } => {
                let source = transmit.source;
                assert_eq!(transmit.packet[8..24], source.octets());
                assert!(self.sides[side].is_own_ilv(Ilv::of(source)), "sends from {source}");
                self.send(side, Packet::Ilnp(transmit.packet));
            }
            Effect::AskUsage(question) => self.sides[side].quiet.push(question.context),
            _ => {
                let Side { host, kernel, socket, .. } = &mut self.sides[side];
                kernel.execute(&effect, host, &OneSocket(*socket), now);
            }
        }
    }

    fn send(&mut self, side: usize, packet: Packet) {
        let Side { waiting, seen, .. } = &mut self.sides[1 - side];
        if seen.len() < MAX_SEEN {
            seen.push(packet.clone());
        }
        waiting.push_back(packet);
        waiting.truncate(MAX_WAITING);
    }

    /// Whether the parameters of the honest peer prove the locator. The hash does not cover the bits u, g and Sec (RFC
    /// 3972 s5), so an attacker on the path can set them in a locator.
    fn is_proved(&self, locator: Locator) -> bool {
        let hashed = |locator: Locator| {
            let mut octets = locator.0.octets();
            octets[8] &= 0b0001_1100;
            octets
        };
        self.sides[1].local.usable.iter().any(|own| hashed(*own) == hashed(locator))
    }

    fn check_context(&self, entry: &ContextEntry) {
        assert!(self.sides[0].local.usable.contains(&entry.current.pair.local));
        assert!(entry.peer_locators.contains(&entry.current.pair.peer));
        let is_proved = entry.peer_locators.iter().all(|locator| self.is_proved(*locator));
        assert!(is_proved, "{:?}", entry.peer_locators);
    }

    fn check(&self) {
        for context in self.sides[0].host.shim6().contexts() {
            let UlidPair { local, peer } = context.ulids;
            let is_own = self.sides[0].local.usable.contains(&local.as_locator());
            assert!(is_own && self.is_proved(peer.as_locator()), "a context with somebody else");
        }
        let mut tags = BTreeSet::new();
        for context in self.sides[0].host.shim6().snapshot() {
            assert!(tags.insert((true, context.local_tag)), "one of our tags twice");
            assert!(tags.insert((false, context.peer_tag)), "one of the peer's tags twice");
        }
        for side in &self.sides {
            side.check(self.now);
        }
    }
}

impl Side {
    /// One of the two addresses of the host.
    fn own(&self, which: u8) -> Locator {
        self.local.usable[usize::from(which & 1)]
    }

    /// Whether the address combines an identifier of the host with one of its locators.
    fn is_own_ilv(&self, ilv: Ilv) -> bool {
        let own = || self.local.usable.iter().map(|own| Ilv::of(own.0));
        own().any(|own| own.l64 == ilv.l64) && own().any(|own| own.nid == ilv.nid)
    }

    fn take(&mut self, packet: Packet, now: Instant) {
        match packet {
            Packet::Shim6(octets, locators) => self.host.handle_shim6(&octets, locators, now),
            Packet::Ilnp(packet) => self.host.handle_ilnp(&packet, now),
        }
    }

    /// Handles a packet of the attacker. Sets its checksum first.
    fn attack(&mut self, mut packet: Packet, now: Instant) {
        match &mut packet {
            Packet::Shim6(octets, _) => fill_checksum(octets),
            Packet::Ilnp(packet) => {
                if let Some(header) = ip6::Ip6::read(packet)
                    && let Some(at) = header.upper(packet).at
                    && let Some(message) = packet.get_mut(at..)
                {
                    fill_icmp_checksum(message, header.source, header.destination);
                }
            }
        }
        self.take(packet, now);
    }

    fn report_of_shim6(&mut self, kind: u8, now: Instant) {
        let context = ContextId(u32::from(kind >> 4));
        let report = match kind % 6 {
            0 => shim6::Report::SendExpired { context, since: now },
            1 => shim6::Report::KeepaliveDue { context },
            2 => shim6::Report::Received { context, at: now },
            3 => shim6::Report::Idle { context, since: now },
            4 => {
                let hints =
                    [FailureHint::Retransmission, FailureHint::Silence, FailureHint::Unproven];
                let hint = hints[usize::from(kind >> 4) % hints.len()];
                let usual = Duration::from_millis(u64::from(kind) * 4);
                shim6::Report::Suspected { context, hint, since: now, usual }
            }
            _ => shim6::Report::Congested { context, at: now, ce: kind.into(), ece: 1 },
        };
        self.host.handle_shim6_report(report, now);
    }

    fn report_of_ilnp(&mut self, input: &mut Input<'_>, now: Instant) {
        let (kind, session) = (input.octet(), SessionId(u32::from(input.octet() % 8)));
        let report = match kind % 4 {
            0 => {
                let Some(nonce) = Nonce::from_octets(input.take(4)) else { return };
                ilnp::Report::Learned { session, nonce }
            }
            1 => ilnp::Report::Authenticated { session },
            2 => ilnp::Report::Silent { session },
            _ => ilnp::Report::Used { session, at: now },
        };
        self.host.handle_ilnp_report(report, now);
    }

    /// Makes the host lose a context silently.
    fn forget(&mut self, which: u8) {
        let ids: Vec<_> = self.host.shim6().contexts().map(|context| context.id).collect();
        if let Some(id) = ids.get(usize::from(which) % ids.len().max(1)) {
            self.host.shim6_mut().remove(*id, Removal::Requested);
        }
    }

    fn prefer(&mut self, input: &mut Input<'_>, now: Instant) {
        let mut preference = || LocatorPreference {
            flags: input.octet(),
            priority: Some(input.octet()).filter(|octet| *octet > 0),
            weight: None,
        };
        let all: Vec<_> = self.local.usable.iter().map(|one| (*one, preference())).collect();
        self.host.shim6_mut().set_preferences(&all, now);
    }

    /// Changes the Send Timeout, the usable addresses, or the routers.
    fn settings(&mut self, input: &mut Input<'_>, now: Instant) {
        let (flags, value) = (input.octet(), input.octet());
        let all = self.local.usable.iter().enumerate();
        let usable = all.filter(|(at, _)| value >> at & 1 == 1).map(|(_, own)| *own).collect();
        let chosen = LocalState { usable, ..self.local.clone() };
        match flags & 3 {
            0 => {
                let timeout = Duration::from_millis(10 * u64::from(value) + 1);
                self.host.shim6_mut().set_send_timeout(timeout, now);
            }
            1 => {
                let lost = chosen.usable.into_iter().map(ifindex);
                lost.for_each(|ifindex| self.host.handle_router_lost(ifindex, now));
            }
            _ => tell(&mut self.host, &chosen, now),
        }
    }

    fn answer(&mut self, flags: u8, now: Instant) {
        for context in std::mem::take(&mut self.quiet) {
            self.host.shim6_mut().handle_usage(context, flags & 1 == 1, now);
        }
    }

    fn tell_planes(&mut self, effect: &Effect, fails: bool) {
        self.has_refused |= fails && matches!(effect, Effect::UpdateSession(_));
        if let Effect::UpdateSession(ilnp::Update::Remove { session }) = effect {
            let is_known = self.told.sessions.contains_key(session);
            assert!(is_known || self.has_refused, "removes {session:?}");
        }
        if !fails {
            self.told.execute(effect);
        }
    }

    fn check(&self, now: Instant) {
        let contested = contested(&self.host);
        assert!(contested.is_none(), "{contested:?} has two owners");
        let difference = self.told.difference(&self.host, now);
        assert!(difference.is_none() || self.host.awaits_retry(), "{difference:?}");
        if let Some(ilnp) = self.host.ilnp() {
            assert!(ilnp.session_count() <= MAX_SESSIONS);
            let sessions = ilnp.sessions(now).map(|session| session.id);
            let is_same = sessions.eq(self.told.sessions.keys().copied());
            assert!(is_same || self.has_refused, "a plane that knows others");
        }
        let sessions = &self.told.sessions;
        let pairs: BTreeSet<_> = sessions.values().map(|entry| entry.pair).collect();
        assert!(pairs.len() == sessions.len() || self.has_refused, "two sessions of one pair");
        sessions.values().for_each(|entry| self.check_session(entry));
        let next = self.host.poll_timeout();
        assert!(next.is_none_or(|at| at > now), "a timer in the past: {next:?} at {now:?}");
    }

    fn check_session(&self, entry: &SessionEntry) {
        let IlvPair { local, remote } = entry.pair;
        let is_own = |nid| self.local.usable.iter().any(|own| Ilv::of(own.0).nid == nid);
        assert!(is_own(local.nid) && !is_own(remote.nid) && !remote.nid.is_group());
        assert!(!entry.remote.is_empty());
        assert!(entry.remote.iter().all(|l64| l64.is_global_unicast()));
        assert!(entry.wire.1.is_global_unicast());
        assert!(self.is_own_ilv(Ilv::new(entry.wire.0, local.nid)));
    }
}

/// Makes a host. Flags are settings of ILNP, and whether the host has ILNP at all.
fn new_host(flags: u8, seed: u8) -> Host {
    let now = Instant::from_nanos(1_000_000_000);
    let mut config = moorline_contexts::Config {
        asks_before_removal: seed.is_multiple_of(2),
        ..moorline_contexts::Config::default()
    };
    config.shim6.max_contexts = 16;
    let mut sessions =
        moorline_ilnp::Config { max_sessions: MAX_SESSIONS, ..moorline_ilnp::Config::default() };
    if flags & 1 == 1 {
        sessions.policy = Arc::new(Open);
    }
    if flags >> 1 & 1 == 1 {
        sessions.nonce = NonceMode::Always;
    }
    if flags >> 2 & 1 == 1 {
        sessions.nonce_len = NonceLen::Long;
    }
    if flags >> 3 & 1 == 1 {
        sessions.checksum = ChecksumMode::Full;
    }
    let sessions = (flags >> 4 & 1 == 0).then(|| Sessions::new(sessions, [seed; 32], now));
    Host::new(Contexts::new(config, [seed; 32], now), sessions)
}

/// Gives the host these addresses, each on its own uplink.
fn tell(host: &mut Host, local: &LocalState, now: Instant) {
    host.set_proof(local.proof.clone());
    host.handle_view(view(&local.usable), now);
}

fn ifindex(own: Locator) -> u32 {
    own.0.segments()[2].into()
}

/// Few, so that the host evicts sessions.
const MAX_SESSIONS: usize = 3;
/// Most packets kept for replay, and most packets in flight.
const MAX_SEEN: usize = 64;
const MAX_WAITING: usize = 256;
/// More effects than any step causes.
const MOST: usize = 1000;
