//! Faults that a run can be given on purpose: what shows that each rule can fail.

use moorline_contexts::{ContextSnapshot, ContextView, Readiness, Role};
use moorline_datapath::shim6::{Report, Update};
use moorline_types::{ContextId, ContextTag, Locator, LocatorPair, UlidPair};
use moorline_wire::{MessageType, Packet};

use super::core::living_core;
use super::{Occurrence, World};

/// A fault in hosts or simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests give a run a fault"))]
pub(crate) enum Mutant {
    /// A data plane changes an octet of what it delivers.
    FlipsDelivered,
    /// A data plane changes an octet of what it passes on.
    FlipsUnmoved,
    /// A stream's receiver takes a wrong octet for right.
    SwallowsOctet,
    /// Probes never arrive.
    LosesProbes,
    /// I2bis never arrives.
    LosesI2bis,
    /// A core takes an address for the peer's that is nobody's.
    BelievesStranger,
    /// A core moves traffic to a pair that was never probed.
    MovesUnprobed,
    /// A core sends from an address of its peer.
    StealsSource,
    /// A responder makes a context by an I1.
    TakesI1,
    /// A core makes contexts for addresses without traffic.
    MakesUnwanted,
    /// A core sends each control packet many times.
    RepeatsControl,
    /// All contexts of a core send the same tag.
    SharesTag,
    /// Something is logged as an error.
    LogsError,
    /// Something panics.
    Panics,
    /// Timers fill the queue.
    FloodsQueue,
    /// A timer that is due is not served.
    SleepsIn,
    /// Control packets arrive damaged.
    DamagesControl,
    /// A data plane says that nothing came back, without having waited for it.
    CriesWolf,
    /// What a core has stored comes back changed.
    SpoilsStore,
    /// A context comes about behind the back of a core that has a session for the pair, and has moved.
    OwnsTwice,
    /// A kernel loses routes to the segmentation path.
    LosesRoutes,
    /// Data planes do not forget what they are told to.
    LosesRemovals,
    /// A kernel sends moved packets by another uplink.
    MisleadsRoutes,
    /// A core calls each context protected by its current pair.
    ClaimsProtection,
}

impl World<'_> {
    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Before each occurrence.
    pub(super) fn mutate_step(&mut self) {
        match self.mutant {
            Some(Mutant::LogsError) => tracing::error!("a fault on purpose"),
            Some(Mutant::Panics) => panic!("a fault on purpose"),
            Some(Mutant::FloodsQueue) if self.now < self.end => {
                (0..100).for_each(|_| self.queue.push(self.end, Occurrence::Wake(usize::MAX)));
            }
            Some(Mutant::CriesWolf) => {
                if let Some(core) = living_core(&mut self.nodes, 0) {
                    let report = Report::SendExpired { context: ContextId(0), since: self.now };
                    core.host.shim6_mut().handle_report(report, self.now);
                }
                self.settle(0);
            }
            Some(Mutant::MakesUnwanted) => {
                let Some(pair) = self.second_pair() else { return };
                let ulids = UlidPair::new(pair.local.as_ulid(), pair.peer.as_ulid());
                if let Some(core) = living_core(&mut self.nodes, 0) {
                    core.host.handle_shim6_report(Report::Trigger { ulids }, self.now);
                }
                self.settle(0);
            }
            Some(Mutant::OwnsTwice) => {
                let now = self.now;
                let Some(second) = self.second_pair() else { return };
                let Some(core) = living_core(&mut self.nodes, 0) else { return };
                let session = core.host.ilnp().and_then(|ilnp| ilnp.sessions(now).next());
                let Some(pair) = session.map(|session| session.pair.ulids()) else { return };
                let context = ContextSnapshot {
                    ulids: pair,
                    peer_locators: vec![pair.peer.as_locator(), second.peer],
                    ..made_up(second)
                };
                // Whether it was there before does not matter.
                let _ = core.host.shim6_mut().restore(context, now);
                while core.host.shim6_mut().poll_datapath().is_some() {}
                self.settle(0);
            }
            Some(_) | None => {}
        }
    }

    /// The newest addresses of the first two hosts at their second uplinks.
    fn second_pair(&self) -> Option<LocatorPair> {
        let newest = |host: usize| self.nodes.get(host)?.addresses.newest(1);
        Some(LocatorPair::new(newest(0)?, newest(1)?))
    }

    /// What a core tells its data plane.
    pub(super) fn mutate_update(&self, update: &mut Update) {
        let Update::Upsert(entry) = update else { return };
        let nobodys = Locator(super::attack::ELSEWHERE);
        let ulids = entry.ulids.as_locators();
        let other = |own: Locator, not: Locator| {
            let book =
                |node: &crate::node::Node| -> Vec<Locator> { node.addresses.locators().collect() };
            let books = self.nodes.iter().map(book);
            let mut of_owner = books.filter(|book| book.contains(&own)).flatten();
            of_owner.find(|&locator| locator != not).unwrap_or(own)
        };
        match self.mutant {
            Some(Mutant::BelievesStranger) => {
                let known = entry.peer_locators.iter().copied();
                entry.peer_locators = known.chain([nobodys]).collect();
            }
            Some(Mutant::MovesUnprobed) => entry.locators.peer = other(ulids.peer, ulids.peer),
            Some(Mutant::StealsSource) => entry.locators.local = ulids.peer,
            Some(Mutant::SharesTag) => entry.peer_tag = ContextTag::from_bits(7),
            Some(_) | None => {}
        }
    }

    /// The readiness that a core tells of a context.
    pub(super) fn mutant_readiness(&self, context: &ContextView, said: Readiness) -> Readiness {
        match &context.established {
            Some(established) if self.is(Mutant::ClaimsProtection) => {
                Readiness::Protected { by: established.locators, at: self.now }
            }
            Some(_) | None => said,
        }
    }

    /// How often a control packet of a core leaves.
    pub(super) fn copies_of(&self, message: &[u8], pair: LocatorPair) -> usize {
        match self.mutant {
            Some(Mutant::LosesProbes) if is_kind(message, pair, MessageType::PROBE) => 0,
            Some(Mutant::LosesI2bis) if is_kind(message, pair, MessageType::I2BIS) => 0,
            Some(Mutant::RepeatsControl) => 20,
            Some(_) | None => 1,
        }
    }

    /// A responder has got this.
    pub(super) fn mutate_responder(&mut self, host: usize, message: &[u8], pair: LocatorPair) {
        if !self.is(Mutant::TakesI1) || !is_kind(message, pair, MessageType::I1) {
            return;
        }
        let now = self.now;
        if let Some(core) = living_core(&mut self.nodes, host) {
            // Whether it was there before does not matter.
            let _ = core.host.shim6_mut().restore(made_up(pair), now);
        }
    }
}

/// One octet of the payload is another one.
pub(super) fn flip_last(octets: &mut [u8]) {
    if let Some(last) = octets.last_mut() {
        *last ^= 1;
    }
}

/// A stored context with an address that is not the host's.
pub(super) fn spoil(stored: &mut [ContextSnapshot]) {
    stored
        .iter_mut()
        .for_each(|context| context.locators.local = Locator(super::attack::ELSEWHERE));
}

fn made_up(pair: LocatorPair) -> ContextSnapshot {
    ContextSnapshot {
        id: ContextId(0),
        ulids: UlidPair::new(pair.local.as_ulid(), pair.peer.as_ulid()),
        local_tag: ContextTag::from_bits(1),
        peer_tag: ContextTag::from_bits(2),
        locators: pair,
        local_locators: vec![pair.local],
        peer_locators: vec![pair.peer],
        peer_generation: None,
        peer_listed: 0,
        peer_preferences: Vec::new(),
        forked_instance: 0,
        peer_send_timeout: std::time::Duration::from_secs(15),
        told_preferences: false,
        role: Role::Responder,
    }
}

fn is_kind(message: &[u8], pair: LocatorPair, kind: MessageType) -> bool {
    // The checksum covers the addresses as a sum: either order is right.
    Packet::parse(message, pair.local.0, pair.peer.0).is_ok_and(|packet| packet.kind() == kind)
}

#[cfg(test)]
mod tests;
