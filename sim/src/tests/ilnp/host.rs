use std::collections::BTreeMap;
use std::sync::Arc;

use moorline_ilnp::{
    Admit, Config, Event, LocalLocator, LocalState, Machine, MoveCause, NonceMode, Open, Policy,
    State,
};
use moorline_plane::ilnp::{Inbound, Outbound, Plane, Settings};
use moorline_types::{DropReason, Ilv, Instant, L64, Nid, Nonce};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::OptionsHeader;

use super::attack::{EVIL, syn_ack};
use super::plan::{FALSE_LOCATORS, IlnpHost, IlnpOutcome};
use super::sockets::{SimSocket, ip6, read, sockets_of};
use crate::packet::ICMPV6;
use crate::plain::PlainNode;

/// A host: its locators, its socket and, with ILNP, its machine and plane.
pub(crate) struct SimHost {
    number: usize,
    prefers_none: bool,
    pub(crate) locators: Vec<u8>,
    pub(crate) core: Option<Core>,
    pub(crate) plain: Option<PlainNode>,
    pub(crate) socket: Option<SimSocket>,
    pub(crate) is_gone: bool,
    /// Whether the host names the locator of a third party as its own.
    pub(crate) pretends: bool,
    /// Whether errors about a nonce get lost.
    loses_errors: bool,
    /// Packets that the host sends.
    pub(crate) out: Vec<Vec<u8>>,
}

/// The receiver of a packet, with its contents.
pub(crate) enum Received {
    Socket(Vec<u8>),
    Machine(Vec<u8>),
    Nothing,
}

pub(crate) struct Core {
    pub(crate) machine: Machine,
    pub(crate) plane: Plane,
}

/// Identifier of the host.
pub(crate) fn nid(host: usize) -> Nid {
    Nid(0x0a00_0000_0000_0001 + host as u64)
}

/// A locator of the host.
pub(crate) fn l64(host: usize, locator: u8) -> L64 {
    L64(0x2001_0db8_0000_0000 + ((host as u64 + 1) << 16) + u64::from(locator))
}

/// The host of a locator, and the locator's number.
pub(crate) fn owner(l64: L64) -> Option<(usize, u8)> {
    let [.., host, _, locator] = l64.octets();
    let is_ours = l64.0 >> 24 == 0x0020_010d_b800 && (1..=2).contains(&host);
    is_ours.then(|| (usize::from(host) - 1, locator))
}

/// The uplink of a locator. Each ISP has one of its own, and the stranger is on the first one.
fn uplink_of(locator: u8) -> u8 {
    if FALSE_LOCATORS.contains(&locator) { 0 } else { locator }
}

impl Core {
    fn new(plan: &IlnpHost, seed: [u8; 32], now: Instant) -> Self {
        let policy: Arc<dyn Policy> = match plan.open {
            true => Arc::new(Open),
            false => Arc::new(Admit::of(plan.max_sessions)),
        };
        let config = Config {
            policy: Arc::clone(&policy),
            max_sessions: plan.max_sessions,
            nonce: plan.nonce,
            nonce_len: plan.nonce_len,
            checksum: plan.checksum,
            ..Config::default()
        };
        let settings = Settings {
            max_sessions: plan.max_sessions,
            checksum: plan.checksum,
            wanted: policy.wanted(),
            ..Settings::default()
        };
        let machine = Machine::new(config, seed, now);
        let key = std::array::from_fn(|at| seed[at]);
        Self { machine, plane: Plane::new(settings, key) }
    }
}

impl SimHost {
    pub(crate) fn new(number: usize, plan: &IlnpHost, seed: [u8; 32], now: Instant) -> Self {
        let mut host = Self {
            number,
            prefers_none: plan.prefers_none,
            locators: vec![0],
            core: None,
            plain: None,
            socket: None,
            is_gone: false,
            pretends: false,
            loses_errors: false,
            out: Vec::new(),
        };
        host.begin_anew(plan, seed, now);
        host
    }

    pub(crate) fn begin_anew(&mut self, plan: &IlnpHost, seed: [u8; 32], now: Instant) {
        let [a, b, c, d, ..] = seed;
        let always = plan.nonce == NonceMode::Always;
        let before = self.plain.take();
        self.plain = plan.plain.then(|| PlainNode::new([a, b, c, d], always).restarted(before));
        self.core = (plan.ilnp && !plan.plain).then(|| Core::new(plan, seed, now));
        self.tell_local(now);
    }

    pub(crate) fn end(&mut self, says_so: bool, outcome: &mut IlnpOutcome, now: Instant) {
        if let Some(core) = self.core.as_mut().filter(|_| says_so) {
            core.machine.handle_end();
            self.drain(outcome, now);
        }
        self.core = None;
    }

    pub(crate) fn become_classic(&mut self) {
        (self.core, self.plain, self.loses_errors) = (None, None, true);
    }

    pub(crate) fn ilv(&self, locator: u8) -> Ilv {
        Ilv::new(l64(self.number, locator), nid(self.number))
    }

    /// Tells the machine the locators. The newest ISP is the preferred one, if any is, and all locators of an uplink have
    /// the same preference.
    pub(crate) fn tell_local(&mut self, now: Instant) {
        let isps = self.locators.iter().rev().filter(|one| !FALSE_LOCATORS.contains(one));
        let newest_first: Vec<_> = isps.copied().collect();
        let preference = |locator| {
            let place = newest_first.iter().take_while(|one| **one != uplink_of(locator)).count();
            if self.prefers_none { 10 } else { 10 + u16::try_from(place).unwrap_or(0) }
        };
        let locators = self.by_turns().into_iter().map(|locator| LocalLocator {
            preference: preference(locator),
            ..LocalLocator::new(l64(self.number, locator))
        });
        let mut locators: Vec<_> = locators.collect();
        locators.sort_by_key(|one| one.preference);
        let pretended =
            self.pretends.then(|| LocalLocator { preference: 1, ..LocalLocator::new(EVIL) });
        let state = LocalState {
            nids: vec![nid(self.number)],
            locators: pretended.into_iter().chain(locators).collect(),
            ..LocalState::default()
        };
        if let Some(plain) = &mut self.plain {
            plain.set_locators(state.locators.iter().map(|one| one.l64.octets()).collect(), now);
        }
        if let Some(core) = &mut self.core {
            core.plane.set_nids(state.nids.iter().copied().collect());
            core.machine.handle_local(&state, now);
        }
    }

    /// The locators as the host has them: the oldest one of each uplink, then the second oldest one of each, and so on.
    fn by_turns(&self) -> Vec<u8> {
        let turn = |at: usize, locator: u8| {
            let older = self.locators.iter().take(at);
            older.filter(|one| uplink_of(**one) == uplink_of(locator)).count()
        };
        let all = self.locators.iter().enumerate().map(|(at, one)| (turn(at, *one), *one));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(turn, _)| *turn);
        all.into_iter().map(|(_, locator)| locator).collect()
    }

    /// Sends a packet of the socket.
    pub(crate) fn send(&mut self, mut packet: Vec<u8>, outcome: &mut IlnpOutcome, now: Instant) {
        if let Some(plain) = &mut self.plain {
            packet = plain.send(&packet, now);
        }
        if let (Some(core), Some(socket)) = (&mut self.core, &self.socket) {
            match core.plane.handle_outbound(&mut packet, socket, now) {
                Outbound::Pass | Outbound::Send { .. } => {}
                Outbound::Drop(reason) => {
                    outcome.violations.push(format!("sender drops: {reason}"))
                }
            }
        }
        outcome.with_nonce += u64::from(packet[6] == DESTINATION_OPTIONS);
        self.out.push(packet);
    }

    /// Takes a packet from the network: for the socket, for the machine, or for nobody.
    pub(crate) fn receive(
        &mut self,
        mut packet: Vec<u8>,
        outcome: &mut IlnpOutcome,
        now: Instant,
    ) -> Received {
        if let Some(plain) = &mut self.plain {
            return plain.receive(&packet, now).map_or(Received::Nothing, Received::Socket);
        }
        let Some(core) = &mut self.core else {
            return self
                .receive_classic(packet, outcome)
                .map_or(Received::Nothing, Received::Socket);
        };
        let sockets = sockets_of(self.socket.as_ref());
        match core.plane.handle_inbound(&mut packet, sockets, now) {
            Inbound::Pass | Inbound::Deliver => {
                match echo_reply(&packet).or_else(|| syn_ack(&packet)) {
                    Some(reply) => {
                        self.send(reply, outcome, now);
                        Received::Nothing
                    }
                    None => Received::Socket(packet),
                }
            }
            Inbound::Up => Received::Machine(packet),
            Inbound::Drop(_) => Received::Nothing,
        }
    }

    /// Has the machine read a control message.
    pub(crate) fn read_control(&mut self, packet: &[u8], now: Instant) {
        let Some(core) = &mut self.core else { return };
        core.machine.handle_control(packet, now);
        core.machine.answer_all(sockets_of(self.socket.as_ref()), now);
    }

    /// Handles a packet like Linux: RFC 8200 s4.2 for the option, RFC 4443 s2.4 (b) for unknown messages.
    fn receive_classic(&mut self, packet: Vec<u8>, outcome: &mut IlnpOutcome) -> Option<Vec<u8>> {
        let (pair, next_header, _) = read(&packet)?;
        if next_header != DESTINATION_OPTIONS {
            self.out.extend(echo_reply(&packet));
            return (next_header != ICMPV6).then_some(packet);
        }
        outcome.options_to_classic += 1;
        if self.loses_errors {
            return None;
        }
        let mut message = vec![4, 2, 0, 0];
        message.extend(42_u32.to_be_bytes());
        message.extend(&packet);
        self.out.push(ip6(pair.reversed(), ICMPV6, &message));
        None
    }

    /// Exchanges messages between the parts until none has any.
    pub(crate) fn drain(&mut self, outcome: &mut IlnpOutcome, now: Instant) {
        let number = self.number;
        self.out.extend(self.plain.iter_mut().flat_map(|plain| plain.out.drain(..)));
        let Some(core) = &mut self.core else { return };
        loop {
            let mut is_done = true;
            while let Some(report) = core.plane.poll_report() {
                core.machine.handle_report(report, now);
                is_done = false;
            }
            while let Some(update) = core.machine.poll_update() {
                core.plane.handle_update(&update);
                is_done = false;
            }
            while let Some(event) = core.machine.poll_event() {
                note(event, number, outcome);
            }
            while let Some(mut transmit) = core.machine.poll_transmit() {
                let sockets = sockets_of(self.socket.as_ref());
                core.plane.handle_outbound(&mut transmit.packet, sockets, now);
                self.out.push(transmit.packet);
            }
            if is_done {
                break;
            }
        }
        let count = core.machine.session_count();
        outcome.most_sessions[number] = outcome.most_sessions[number].max(count);
        if core.plane.session_count() != count {
            outcome.violations.push(format!("host {number}: plane and machine disagree"));
        }
        for session in core.machine.sessions(now) {
            let (ours, theirs) = (session.wire.local.l64, session.wire.remote.l64);
            // The invented correspondents of a flood are elsewhere, and so is a namesake.
            let is_elsewhere = session.pair.remote.l64 == EVIL || self.pretends;
            if session.pair.remote.nid != nid(1 - number) || is_elsewhere {
                continue;
            }
            let is_right = [(ours, number), (theirs, 1 - number)]
                .iter()
                .all(|(l64, host)| owner(*l64).is_some_and(|(owner, _)| owner == *host));
            if !is_right {
                outcome.violations.push(format!("host {number}: a session goes to {theirs}"));
            }
        }
    }

    /// Whether the host has the session of its socket, and the peer has read its first Locator Update, if the host
    /// has sent one.
    pub(crate) fn has_agreed(&self, now: Instant) -> bool {
        let (Some(core), Some(socket)) = (&self.core, &self.socket) else { return false };
        let mut sessions = core.machine.sessions(now).filter(|one| one.pair == socket.pair);
        sessions.any(|one| one.state == State::Established && !one.awaits_acknowledgement)
    }

    /// Whether a packet has the nonce that the host sends on the session of its socket.
    pub(crate) fn shows_nonce(&self, packet: &[u8], now: Instant) -> bool {
        let nonce = nonce_in(packet);
        nonce.is_some() && self.nonces(now).any(|nonces| nonce == Some(nonces.0))
    }

    /// Whether a packet has the nonce that the host expects on the session of its socket.
    pub(crate) fn takes(&self, packet: &[u8], now: Instant) -> bool {
        let nonce = nonce_in(packet);
        nonce.is_some() && self.nonces(now).any(|nonces| nonce == nonces.1)
    }

    fn nonces(&self, now: Instant) -> impl Iterator<Item = (Nonce, Option<Nonce>)> {
        let pair = self.socket.as_ref().map(|socket| socket.pair);
        let all = self.core.iter().flat_map(move |core| core.machine.sessions(now));
        all.filter(move |one| Some(one.pair) == pair).map(|session| session.nonces)
    }

    pub(crate) fn drops(&self) -> BTreeMap<DropReason, u64> {
        let mut all = BTreeMap::new();
        if let Some(core) = &self.core {
            for (reason, count) in core.machine.drops().chain(core.plane.drops().iter()) {
                *all.entry(reason).or_default() += count;
            }
        }
        all
    }
}

fn nonce_in(packet: &[u8]) -> Option<Nonce> {
    let options = OptionsHeader::parse(packet.get(40..).unwrap_or_default());
    options.ok().filter(|_| packet.get(6) == Some(&DESTINATION_OPTIONS))?.nonce
}

/// The kernel's answer to an Echo Request (RFC 4443 s4.2).
fn echo_reply(packet: &[u8]) -> Option<Vec<u8>> {
    let (pair, ICMPV6, message) = read(packet)? else { return None };
    let [128, code, _, _, rest @ ..] = message else { return None };
    let mut reply = [&[129, *code, 0, 0], rest].concat();
    fill_icmp_checksum(&mut reply, pair.remote.address(), pair.local.address());
    Some(ip6(pair.reversed(), ICMPV6, &reply))
}

fn note(event: Event, host: usize, outcome: &mut IlnpOutcome) {
    match event {
        Event::Established { .. } => outcome.established += 1,
        Event::Classic { .. } => outcome.classic += 1,
        Event::Moved { cause, .. } => {
            outcome.moves += 1;
            outcome.suspicions += u64::from(cause == MoveCause::Suspicion);
        }
        Event::Forgotten { .. }
        | Event::Regained { .. }
        | Event::UpdateAcknowledged { .. }
        | Event::UpdateUnanswered { .. }
        | Event::GivenUp { .. } => {}
    }
    tracing::debug!(host, ?event, "ILNP");
}

pub(crate) const DESTINATION_OPTIONS: u8 = 60;
