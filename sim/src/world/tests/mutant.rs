//! Faults that a test gives to a run, to show that each rule can fail.

use moorline_addresses::RouteStep;
use moorline_contexts::{ContextSnapshot, ContextView, Key, PeerSet, Readiness, Role};
use moorline_datapath::shim6::{Report, Update};
use moorline_host::Effect;
use moorline_host::model::Kernel;
use moorline_types::{ContextId, ContextTag, Instant, Locator, LocatorPair, Path, UlidPair};
use moorline_wire::{MessageType, Packet};

use crate::workload::Application;
use crate::world::core::living_core;
use crate::world::faults::Faults;
use crate::world::{Occurrence, World, attack::ELSEWHERE};

/// A fault in hosts or simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// A data plane changes an octet of a packet that it delivers.
    FlipsDelivered,
    /// A data plane changes an octet of a packet that it passes on.
    FlipsUnmoved,
    /// The receiver of a stream accepts a wrong octet.
    SwallowsOctet,
    /// Probes never arrive.
    LosesProbes,
    /// I2bis never arrives.
    LosesI2bis,
    /// A core takes an address that nobody has for its peer's.
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
    /// A data plane reports silence without having waited.
    CriesWolf,
    /// The stored state of a core comes back changed.
    SpoilsStore,
    /// A moved context appears at a host that has a session for the pair.
    OwnsTwice,
    /// A kernel loses routes to the segmentation path.
    LosesRoutes,
    /// Data planes do not execute removals.
    LosesRemovals,
    /// A kernel sends moved packets by another uplink.
    MisleadsRoutes,
    /// A core gets a report that a router is lost which answers.
    GivesUpRouter,
    /// A core calls each context protected by its current pair.
    ClaimsProtection,
}

impl Faults for Mutant {
    fn begin_step(&self, world: &mut World<'_>) {
        assert_ne!(*self, Self::Panics, "a fault on purpose");
        if *self == Self::LogsError {
            tracing::error!("a fault on purpose");
        } else if *self == Self::FloodsQueue && world.now < world.end {
            (0..100).for_each(|_| world.queue.push(world.end, Occurrence::Wake(usize::MAX)));
        } else if *self == Self::CriesWolf {
            world.cry_wolf();
        } else if *self == Self::MakesUnwanted {
            world.make_unwanted();
        } else if *self == Self::OwnsTwice {
            world.own_twice();
        } else if *self == Self::GivesUpRouter {
            world.give_up_router();
        }
    }

    fn on_update(&self, world: &World<'_>, update: &mut Update) {
        let Update::Upsert(entry) = update else { return };
        let ulids = entry.ulids.as_locators();
        if *self == Self::BelievesStranger {
            let known = entry.peer_locators.iter().copied();
            entry.peer_locators = known.chain([Locator(ELSEWHERE)]).collect();
        } else if *self == Self::MovesUnprobed {
            let pair = LocatorPair { peer: world.other_of(ulids.peer), ..entry.current.pair };
            entry.current = Path::of(entry.ulids, pair);
        } else if *self == Self::StealsSource {
            let pair = LocatorPair { local: ulids.peer, ..entry.current.pair };
            entry.current = Path::of(entry.ulids, pair);
        } else if *self == Self::SharesTag {
            entry.peer_tag = ContextTag::from_bits(7);
        }
    }

    fn readiness(&self, context: &ContextView, said: Readiness, now: Instant) -> Readiness {
        match &context.established {
            Some(established) if *self == Self::ClaimsProtection => {
                Readiness::Protected { by: established.locators, at: now }
            }
            Some(_) | None => said,
        }
    }

    fn copies(&self, message: &[u8], pair: LocatorPair) -> usize {
        let is_lost = *self == Self::LosesProbes && is_kind(message, pair, MessageType::PROBE)
            || *self == Self::LosesI2bis && is_kind(message, pair, MessageType::I2BIS);
        match (is_lost, *self == Self::RepeatsControl) {
            (true, _) => 0,
            (false, true) => 20,
            (false, false) => 1,
        }
    }

    fn on_control(&self, packet: &mut [u8]) {
        flip_last_if(*self == Self::DamagesControl, packet);
    }

    fn on_received(&self, world: &mut World<'_>, host: usize, message: &[u8], pair: LocatorPair) {
        if *self != Self::TakesI1 || !is_kind(message, pair, MessageType::I1) {
            return;
        }
        let now = world.now;
        if let Some(core) = living_core(&mut world.nodes, host) {
            // An existing context does not matter.
            let _ = core.host.shim6_mut().restore(made_up(pair), now);
        }
    }

    fn on_passed(&self, packet: &mut [u8]) {
        flip_last_if(*self == Self::FlipsUnmoved, packet);
    }

    fn on_delivered(&self, packet: &mut [u8]) {
        flip_last_if(*self == Self::FlipsDelivered, packet);
    }

    fn on_read(&self, application: &mut dyn Application) {
        if *self == Self::SwallowsOctet {
            application.swallow_octet();
        }
    }

    fn serves_timers(&self) -> bool {
        *self != Self::SleepsIn
    }

    fn on_stored(&self, stored: &mut [ContextSnapshot]) {
        if *self == Self::SpoilsStore {
            // The address is not the host's.
            stored.iter_mut().for_each(|context| context.locators.local = Locator(ELSEWHERE));
        }
    }

    fn obeys(&self, effect: &Effect) -> bool {
        let is_route = matches!(effect, Effect::Route(RouteStep::Add(_)));
        (*self != Self::LosesRoutes || !is_route)
            && (*self != Self::LosesRemovals || !effect.is_removal())
    }

    fn on_kernel(&self, effect: &Effect, kernel: &mut Kernel) {
        if *self == Self::MisleadsRoutes && matches!(effect, Effect::Route(_)) {
            for hop in kernel.routes_mut().filter_map(|route| route.direct.as_mut()) {
                hop.ifindex = 3 - hop.ifindex.min(2);
            }
        }
    }
}

impl World<'_> {
    fn cry_wolf(&mut self) {
        if let Some(core) = living_core(&mut self.nodes, 0) {
            let report = Report::SendExpired { context: ContextId(0), since: self.now };
            core.host.shim6_mut().handle_report(report, self.now);
        }
        self.settle(0);
    }

    fn give_up_router(&mut self) {
        if let Some(core) = living_core(&mut self.nodes, 0) {
            core.host.handle_router_lost(1, self.now);
        }
        self.settle(0);
    }

    fn make_unwanted(&mut self) {
        let Some(pair) = self.second_pair() else { return };
        let ulids = UlidPair::new(pair.local.as_ulid(), pair.peer.as_ulid());
        if let Some(core) = living_core(&mut self.nodes, 0) {
            core.host.handle_shim6_report(Report::Trigger { ulids }, self.now);
        }
        self.settle(0);
    }

    fn own_twice(&mut self) {
        let now = self.now;
        let Some(second) = self.second_pair() else { return };
        let Some(core) = living_core(&mut self.nodes, 0) else { return };
        let session = core.host.ilnp().and_then(|ilnp| ilnp.sessions(now).next());
        let Some(pair) = session.map(|session| session.pair.ulids()) else { return };
        let context = ContextSnapshot {
            key: Key::of(pair),
            peer: PeerSet {
                locators: (&[pair.peer.as_locator(), second.peer]).into(),
                ..PeerSet::of_ulid(pair.peer)
            },
            ..made_up(second)
        };
        // An existing context does not matter.
        let _ = core.host.shim6_mut().restore(context, now);
        while core.host.shim6_mut().poll_datapath().is_some() {}
        self.settle(0);
    }

    /// The newest addresses of the first two hosts at their second uplinks.
    fn second_pair(&self) -> Option<LocatorPair> {
        let newest = |host: usize| self.nodes.get(host)?.addresses.newest(1);
        Some(LocatorPair::new(newest(0)?, newest(1)?))
    }

    /// Another address of the host with this address.
    fn other_of(&self, own: Locator) -> Locator {
        let books = self.nodes.iter().map(|node| &node.addresses);
        let mut of_owner = books.filter(|book| book.locators().any(|one| one == own));
        let other = of_owner.next().and_then(|book| book.locators().find(|&one| one != own));
        other.unwrap_or(own)
    }
}

/// Changes an octet of the payload.
fn flip_last_if(flips: bool, octets: &mut [u8]) {
    if let Some(last) = octets.last_mut().filter(|_| flips) {
        *last ^= 1;
    }
}

fn made_up(pair: LocatorPair) -> ContextSnapshot {
    ContextSnapshot {
        id: ContextId(0),
        key: Key::of(UlidPair::new(pair.local.as_ulid(), pair.peer.as_ulid())),
        local_tag: ContextTag::from_bits(1),
        peer_tag: ContextTag::from_bits(2),
        locators: pair,
        local_locators: (&[pair.local]).into(),
        peer: PeerSet::of_ulid(pair.peer.as_ulid()),
        told_preferences: false,
        knows_checks: false,
        has_traffic: false,
        role: Role::Responder,
        cause: None,
    }
}

fn is_kind(message: &[u8], pair: LocatorPair, kind: MessageType) -> bool {
    // The checksum adds the addresses, so their order does not matter.
    Packet::parse(message, pair.local.0, pair.peer.0).is_ok_and(|packet| packet.kind() == kind)
}
