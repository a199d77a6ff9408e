//! What is checked after every step, by what can be seen from outside of a host.

use std::collections::BTreeSet;

use moorline_host::datapath::{ContextEntry, Update};
use moorline_types::{DropReason, Instant, Locator, LocatorPair, UlidPair};
use moorline_wire::{Message, MessageType, OptionType, Packet, Probe};

use crate::log::since_start;
use crate::outcome::{Rule, Violation};
use crate::packet::Header;
use crate::plan::host_name;

/// Collects violations, and what it takes to find them.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) violations: Vec<Violation>,
    /// Addresses of each host: what a peer can prove, as all hosts are honest.
    addresses: Vec<BTreeSet<Locator>>,
    /// ULID pairs of the workloads, as each host has them.
    wanted: BTreeSet<(usize, UlidPair)>,
    /// Responder nonce and validator of every R1 and R1bis that a host sent.
    validators: Vec<BTreeSet<(u32, Vec<u8>)>>,
    /// Where Shim6 packets came from, as the receiver sees it: answers that take no state go back there.
    asked: BTreeSet<(usize, LocatorPair)>,
    /// Probes, I1s and I2s that a host sent: the pair and the nonce.
    probes: BTreeSet<(usize, LocatorPair, u32)>,
    /// Pairs by which the peer says that it got one of them, or echoes a validator.
    probed: BTreeSet<(usize, LocatorPair)>,
}

impl Rules {
    pub(crate) fn new(
        addresses: &[Vec<Locator>],
        wanted: impl IntoIterator<Item = (usize, UlidPair)>,
    ) -> Self {
        Self {
            violations: Vec::new(),
            addresses: addresses.iter().map(|of_host| of_host.iter().copied().collect()).collect(),
            wanted: wanted.into_iter().collect(),
            validators: vec![BTreeSet::new(); addresses.len()],
            asked: BTreeSet::new(),
            probes: BTreeSet::new(),
            probed: BTreeSet::new(),
        }
    }

    pub(crate) fn check(
        &mut self,
        holds: bool,
        rule: Rule,
        now: Instant,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            self.violations.push(Violation { at: since_start(now), rule, detail: detail() });
        }
    }

    /// A packet leaves a host. `chosen` is the destination that a socket chose, if one did.
    pub(crate) fn on_wire(
        &mut self,
        host: usize,
        locators: LocatorPair,
        chosen: Option<Locator>,
        now: Instant,
    ) {
        let is_own = self.is_of(host, locators.local);
        self.check(is_own, Rule::OwnSource, now, || format!("{} sends {locators}", name(host)));
        let is_proven = chosen == Some(locators.peer)
            || self.is_proven(host, locators.peer)
            || self.asked.contains(&(host, locators));
        self.check(is_proven, Rule::ProvenDestination, now, || {
            format!("{} sends {locators}", name(host))
        });
    }

    /// The core of a host tells its data plane something.
    pub(crate) fn on_update(&mut self, host: usize, update: &Update, now: Instant) {
        let Update::Upsert(entry) = update else { return };
        let ContextEntry { ulids, locators, peer_locators, .. } = entry;
        let is_wanted = self.wanted.contains(&(host, *ulids));
        self.check(is_wanted, Rule::WantedContext, now, || format!("{}: {ulids}", name(host)));
        let is_proven = peer_locators.iter().all(|&locator| self.is_proven(host, locator));
        self.check(is_proven, Rule::ProvenDestination, now, || {
            format!("{}: entry with {peer_locators:?}", name(host))
        });
        // A pair stays current until another is found, even if the peer has withdrawn its locator.
        let is_probed = !entry.is_moved() || self.probed.contains(&(host, *locators));
        self.check(is_probed, Rule::ProbedPair, now, || {
            format!("{}: entry with {locators}", name(host))
        });
        let is_own = self.is_of(host, locators.local);
        self.check(is_own, Rule::OwnSource, now, || format!("{}: entry {locators}", name(host)));
    }

    pub(crate) fn on_control_sent(
        &mut self,
        host: usize,
        octets: &[u8],
        locators: LocatorPair,
        now: Instant,
    ) {
        let Ok(packet) = Packet::parse(octets, locators.local.0, locators.peer.0) else { return };
        let stateless = [MessageType::R1, MessageType::R1BIS, MessageType::ERROR];
        let is_answer = stateless.contains(&packet.kind())
            && self.asked.contains(&(host, locators))
            || self.is_proven(host, locators.peer);
        self.check(is_answer, Rule::ProvenDestination, now, || {
            format!("{} sends {:?} by {locators}", name(host), packet.kind())
        });
        for own in probe(&packet).into_iter().flat_map(|probe| probe.sent) {
            if LocatorPair::new(own.src, own.dst) == locators {
                self.probes.insert((host, locators, own.nonce));
            }
        }
        let asks = [MessageType::I1, MessageType::I2, MessageType::I2BIS];
        if let Some(nonce) = packet.initiator_nonce().filter(|_| asks.contains(&packet.kind())) {
            self.probes.insert((host, locators, nonce));
        }
        if ![MessageType::R1, MessageType::R1BIS].contains(&packet.kind()) {
            return;
        }
        if let (Some(key), Some(of_host)) = (validator(&packet), self.validators.get_mut(host)) {
            of_host.insert(key);
        }
    }

    pub(crate) fn on_control_received(
        &mut self,
        host: usize,
        octets: &[u8],
        locators: LocatorPair,
    ) {
        self.asked.insert((host, locators));
        let Ok(packet) = Packet::parse(octets, locators.peer.0, locators.local.0) else { return };
        let answers = [MessageType::R1, MessageType::R2].contains(&packet.kind());
        let nonce = packet.initiator_nonce().filter(|_| answers);
        let is_answer = nonce.is_some_and(|nonce| self.probes.contains(&(host, locators, nonce)));
        let of_host = self.validators.get(host);
        let is_echo = validator(&packet).zip(of_host).is_some_and(|(key, of)| of.contains(&key));
        if is_answer || is_echo {
            self.probed.insert((host, locators));
        }
        for report in probe(&packet).into_iter().flat_map(|probe| probe.received) {
            let pair = LocatorPair::new(report.src, report.dst);
            if self.probes.contains(&(host, pair, report.nonce)) {
                self.probed.insert((host, pair));
            }
        }
    }

    /// A data plane has put a payload header in.
    pub(crate) fn on_moved(&mut self, host: usize, octets: &[u8], original: &[u8], now: Instant) {
        let pair = |packet| {
            let header = Header::read(packet)?;
            Some(LocatorPair::new(Locator(header.source), Locator(header.destination)))
        };
        let (way, ulids) = (pair(octets), pair(original));
        self.check(way != ulids, Rule::Untouched, now, || {
            format!("{}: payload header on the ULID pair", name(host))
        });
        let is_probed = way.is_some_and(|way| self.probed.contains(&(host, way)));
        self.check(is_probed, Rule::ProbedPair, now, || format!("{}: {way:?}", name(host)));
    }

    /// A host has one more context after this control packet.
    pub(crate) fn on_new_context(
        &mut self,
        host: usize,
        octets: &[u8],
        locators: LocatorPair,
        now: Instant,
    ) {
        let echoed = Packet::parse(octets, locators.peer.0, locators.local.0)
            .ok()
            .filter(|packet| [MessageType::I2, MessageType::I2BIS].contains(&packet.kind()))
            .and_then(|packet| validator(&packet));
        let of_host = self.validators.get(host);
        let is_valid = echoed.zip(of_host).is_some_and(|(key, of_host)| of_host.contains(&key));
        self.check(is_valid, Rule::ValidI2, now, || {
            format!("{} made a context without a valid I2", name(host))
        });
    }

    /// Counters at the end of a run.
    pub(crate) fn on_drops(&mut self, host: usize, drops: &[(DropReason, u64)], now: Instant) {
        for &(reason, times) in drops {
            self.check(is_explained(reason), Rule::HonestDrops, now, || {
                format!("{} dropped {times} for {reason}", name(host))
            });
        }
    }

    fn is_of(&self, host: usize, locator: Locator) -> bool {
        self.addresses.get(host).is_some_and(|of_host| of_host.contains(&locator))
    }

    fn is_proven(&self, host: usize, locator: Locator) -> bool {
        let others = self.addresses.iter().enumerate().filter(|&(other, _)| other != host);
        others.into_iter().any(|(_, of_host)| of_host.contains(&locator))
    }
}

/// What packets that are lost, late, repeated or out of order lead to, and addresses that go.
const fn is_explained(reason: DropReason) -> bool {
    match reason {
        DropReason::UnknownTag
        | DropReason::WrongLocators
        | DropReason::BadNonce
        | DropReason::StaleNonce
        | DropReason::UnexpectedState
        | DropReason::Replayed
        | DropReason::RateLimited
        | DropReason::NoUplink => true,
        DropReason::Truncated
        | DropReason::BadLength
        | DropReason::BadChecksum
        | DropReason::BadFormat
        | DropReason::UnknownType
        | DropReason::UnknownCriticalOption
        | DropReason::MissingOption
        | DropReason::DuplicateOption
        | DropReason::TooMany
        | DropReason::BadValidator
        | DropReason::Unverified
        | DropReason::NotOurs
        | DropReason::TableFull
        | DropReason::Unsupported
        | DropReason::BadAddress
        | DropReason::HeaderChain
        | DropReason::AdjustRoom
        | DropReason::ReportLost => false,
    }
}

fn validator(packet: &Packet<'_>) -> Option<(u32, Vec<u8>)> {
    let validator = packet.raw_option(OptionType::RESPONDER_VALIDATOR)?;
    Some((packet.responder_nonce()?, validator.to_vec()))
}

fn probe(packet: &Packet<'_>) -> Option<Probe> {
    // Others would cost as much to decode, and there are many.
    let is_probe = packet.kind() == MessageType::PROBE;
    match is_probe.then(|| packet.message())?.ok()? {
        Message::Probe(probe) => Some(probe),
        Message::I1(_)
        | Message::R1(_)
        | Message::I2(_)
        | Message::R2(_)
        | Message::R1bis(_)
        | Message::I2bis(_)
        | Message::UpdateRequest(_)
        | Message::UpdateAck(_)
        | Message::Keepalive(_)
        | Message::Error(_) => None,
    }
}

fn name(host: usize) -> char {
    host_name(host)
}

#[cfg(test)]
mod tests;
