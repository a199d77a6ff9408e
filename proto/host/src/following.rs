//! Brings the host in step with its view, one stage after the other: rules by source address, addresses, programs of
//! the data planes, the proof of the addresses, and then contexts and sessions.
//!
//! A stage begins when the effects of the stage before are executed, so it knows which of them failed. To try a
//! failed effect again, the host follows the view once more: in a moment, and then at growing intervals, but after
//! [`RETRY`] at the latest.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::net::Ipv6Addr;

use moorline_addresses::{Action, Addressing, Advertisement, RETRY, SpecificRoute, Uplink};
use moorline_cga::LocalProof;
use moorline_contexts::LocalState;
use moorline_types::{Instant, Locator, Retry};

use crate::effect::{Effect, Protocol};
use crate::host::Host;
use crate::node::Node;
use crate::routing::Carriers;

/// Next stage of following the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Done,
    Rules,
    Addresses,
    Programs,
    Proof,
    Locators,
    Protocols,
}

/// State of following the view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Following {
    stage: Stage,
    /// Addresses that the host makes; `None` if others decide which addresses the host has.
    pub(crate) addressing: Option<Addressing>,
    /// Proof of the addresses.
    pub(crate) proof: LocalProof,
    /// Interfaces that carry programs.
    attached: Carriers,
    /// Changes to addresses that wait until each prefix has a rule.
    actions: Vec<Action>,
    outranked: BTreeSet<(u32, Ipv6Addr)>,
    /// Addresses that the data plane of Shim6 takes for ours; `None` if it may have others.
    locals: Option<BTreeMap<Ipv6Addr, u32>>,
    /// Whether parameters of addresses are missing on disk.
    is_unsaved: bool,
    /// Whether the rules by source address are not in step with the view.
    are_rules_behind: bool,
    /// Whether the kernel may have removed routes of moved pairs.
    may_lack_routes: bool,
    /// Whether contexts and sessions of a run before have been taken over.
    pub(crate) is_restored: bool,
    /// Timer of failed effects.
    pub(crate) retry: Retry,
    /// Latest time at which the host follows the view again.
    due: Option<Instant>,
}

impl Following {
    /// Time when the host follows the view again; `None` while it follows the view.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        if self.stage != Stage::Done {
            return None;
        }
        let addressing = self.addressing.as_ref().and_then(Addressing::poll_timeout);
        [self.due, self.retry.at(), addressing].into_iter().flatten().min()
    }
}

/// Inputs about addresses.
impl Host {
    /// Has the host make its own addresses.
    #[must_use]
    pub fn with_addressing(mut self, addressing: Addressing, proof: LocalProof) -> Self {
        self.following.addressing = Some(addressing);
        self.following.proof = proof;
        self
    }

    /// The planner of the host's own addresses, if the host makes some.
    #[must_use]
    pub const fn addressing(&self) -> Option<&Addressing> {
        self.following.addressing.as_ref()
    }

    /// The proof of the host's addresses.
    #[must_use]
    pub const fn proof(&self) -> &LocalProof {
        &self.following.proof
    }

    /// Sets the proof: the answer to [`Effect::Sign`], or the new proof if others make the addresses.
    pub fn set_proof(&mut self, proof: LocalProof) {
        self.following.proof = proof;
    }

    /// Takes the contents of a Router Advertisement, from the router or from the kernel.
    pub fn handle_advertisement(&mut self, said: &Advertisement, now: Instant) {
        if let Some(addressing) = &mut self.following.addressing {
            addressing.handle_advertisement(said, now);
        }
    }

    /// Notes that interfaces were down, perhaps for a moment only, and that the kernel has removed their addresses
    /// and routes. The next view follows.
    pub fn handle_interfaces_down(&mut self, down: &BTreeSet<u32>) {
        if let Some(addressing) = &mut self.following.addressing {
            addressing.handle_interfaces_down(down);
        }
    }

    /// Notes that the kernel may have removed routes of moved pairs. The host reads them once it has followed the
    /// view.
    pub const fn doubt_routes(&mut self) {
        self.following.may_lack_routes = true;
    }

    /// Takes the present specific routes. The rest of the view stays as it is.
    pub fn handle_specific(&mut self, specific: BTreeSet<SpecificRoute>, now: Instant) {
        let before = self.routing.followed();
        self.routing.view.specific = specific;
        self.note_detours(&before);
        if !self.routing.view.detours.is_empty() {
            self.follow_again(now + RETRY);
        }
        let routes = self.routing.local_routes();
        self.follow_rules_first(&routes);
        if self.shim6.set_routes(routes) {
            self.shim6.handle_lost(&[], now);
            self.follow_node(now);
            self.plan_effects(now);
        }
        self.reroute(&self.routing.routes.movers(), now);
        self.effects.extend([Effect::FollowRules, Effect::FollowDefaultRoutes]);
    }

    /// Has the host follow the view again at this time at the latest.
    pub fn follow_again(&mut self, at: Instant) {
        let due = &mut self.following.due;
        *due = Some(due.map_or(at, |due| due.min(at)));
    }

    /// Interfaces that carry the programs of the data planes.
    #[must_use]
    pub const fn carriers(&self) -> &Carriers {
        &self.following.attached
    }
}

/// The stages.
impl Host {
    /// Begins with the first stage as soon as all other effects are executed.
    pub(crate) const fn begin_following(&mut self) {
        self.following.stage = Stage::Rules;
    }

    /// Plans the effects of the next stage. Returns false if no stage is left.
    pub(crate) fn follow_on(&mut self, now: Instant) -> bool {
        let (effects, next) = match self.following.stage {
            Stage::Done => return false,
            Stage::Rules => (self.follow_rules(now), Stage::Addresses),
            Stage::Addresses => (self.follow_addresses(), Stage::Programs),
            Stage::Programs => (self.follow_programs(), Stage::Proof),
            Stage::Proof => (self.ask_for_proof(), Stage::Locators),
            Stage::Locators => (self.follow_locators(now), Stage::Protocols),
            Stage::Protocols => (self.follow_protocols(now), Stage::Done),
        };
        self.effects.extend(effects);
        self.following.stage = next;
        true
    }

    fn follow_rules(&mut self, now: Instant) -> Vec<Effect> {
        self.following.retry.begin();
        self.following.due = None;
        self.note_in_use();
        if !self.routing.view.detours.is_empty() {
            let before = self.routing.followed();
            self.note_detours(&before);
            // Contexts and sessions return from a detour, or end, without another view.
            self.follow_again(now + RETRY);
        }
        let mut effects = Vec::from([Effect::AskForwarding]);
        let Self { following, routing, .. } = self;
        if let Some(addressing) = &mut following.addressing {
            let plan = addressing.plan(&routing.view, routing.view_at.unwrap_or(now), now);
            following.is_unsaved |= plan.is_changed;
            effects.extend(plan.notes.into_iter().map(Effect::TellAddress));
            effects.extend(following.is_unsaved.then_some(Effect::SaveAddresses));
            (following.actions, following.outranked) = (plan.actions, plan.outranked);
        }
        self.tell_advertisers();
        effects.push(Effect::FollowRules);
        effects
    }

    /// Notes in the view which routers have advertised which prefixes. Packets from a prefix leave by a router that
    /// has advertised it.
    pub(crate) fn tell_advertisers(&mut self) {
        if let Some(addressing) = &self.following.addressing {
            let uplinks = self.routing.view.uplinks.iter_mut();
            uplinks.for_each(|uplink| addressing.tell_advertisers(uplink));
        }
    }

    /// Changes addresses. If rules are behind, nothing changes: no packet leaves from an address whose prefix has no
    /// rule. If parameters are not saved, no address is added, because its parameters could be lost.
    fn follow_addresses(&mut self) -> Vec<Effect> {
        let following = &mut self.following;
        let mut actions = mem::take(&mut following.actions);
        if following.are_rules_behind {
            actions.clear();
        } else if following.is_unsaved {
            actions.retain(|action| !matches!(action, Action::Add { .. }));
        }
        let outranked = mem::take(&mut following.outranked);
        let has_addressing = following.addressing.is_some();
        let labels = has_addressing.then_some(Effect::Outrank(outranked));
        actions.into_iter().map(Effect::ChangeAddress).chain(labels).collect()
    }

    fn follow_programs(&mut self) -> Vec<Effect> {
        // A peer on a link that has lost its default route may go on sending moved packets.
        let view = &self.routing.view;
        let places = || view.uplinks.iter().chain(view.bare_in_use());
        let present = places().map(|place| place.ifindex).collect();
        let own = places()
            .flat_map(|place| place.addresses.iter().map(|own| (own.address, place.ifindex)));
        let locals: BTreeMap<_, _> = own.collect();
        let mut effects = self.following.attached.follow(Protocol::Shim6, &present);
        if !effects.is_empty() {
            effects.push(Effect::AskOffloads);
        }
        effects.extend(self.attach_ilnp());
        if self.following.locals.as_ref() != Some(&locals) {
            effects.push(Effect::SetLocals(locals));
        }
        effects
    }

    /// Whether the data plane takes moved payload to this address for ours.
    pub(crate) fn takes_payload_at(&self, local: Locator) -> bool {
        self.following.locals.as_ref().is_none_or(|locals| locals.contains_key(&local.0))
    }

    /// Attaches the programs of ILNP to all interfaces that packets may leave by.
    pub(crate) fn attach_ilnp(&mut self) -> Vec<Effect> {
        let places = Node::places(&self.routing.view).map(|place| place.ifindex);
        let places = self.ilnp.is_some().then(|| places.collect::<BTreeSet<_>>());
        let attached = &mut self.following.attached;
        places.map(|places| attached.follow(Protocol::Ilnp, &places)).unwrap_or_default()
    }

    /// Packets to addresses of an uplink without programs would be lost, so peers are not told these addresses. A link
    /// without a default route counts while it leads to peers of contexts.
    fn ask_for_proof(&self) -> Vec<Effect> {
        let Some(addressing) = &self.following.addressing else { return Vec::new() };
        let (view, carriers) = (&self.routing.view, &self.following.attached.shim6);
        let mut carried = view.only_on(carriers);
        let bare = view.bare_in_use().filter(|link| carriers.contains(&link.ifindex));
        carried.uplinks.extend(bare.filter(|link| self.leads_to_peers(link)).cloned());
        let announced = addressing.planner.announced(&carried);
        let is_new = announced != *self.following.proof.addresses();
        is_new.then_some(Effect::Sign(announced)).into_iter().collect()
    }

    /// Whether specific routes by a link lead to peers of contexts.
    fn leads_to_peers(&self, link: &Uplink) -> bool {
        let by_it = self.routing.view.specific_in_force().filter(|one| one.is_by(link.ifindex));
        let led: Vec<_> = by_it.map(|one| one.destination).collect();
        self.shim6.has_peers_in(&led)
    }

    /// Takes new addresses of the view into use: rules, programs and a proof exist for them. Addresses of interfaces
    /// without programs stay unused.
    fn follow_locators(&mut self, now: Instant) -> Vec<Effect> {
        self.routing.carriers = Some(self.following.attached.clone());
        let usable = self.routing.usable();
        if usable.iter().any(|own| !self.shim6.usable().contains(own)) {
            self.routing.gained_at = Some(now);
        }
        let proof = self.following.proof.clone();
        self.shim6.set_routes(self.routing.local_routes());
        self.shim6.handle_local(&LocalState { proof, usable }, now);
        Vec::from([Effect::FollowPathRules])
    }

    /// Has sessions, routes and ULIDs follow the view: to new locators, to other routers, away from deprecated
    /// addresses.
    fn follow_protocols(&mut self, now: Instant) -> Vec<Effect> {
        self.follow_node(now);
        self.shim6.handle_deprecated(&self.routing.deprecated(), now);
        self.plan_effects(now);
        self.reroute(&self.routing.routes.movers(), now);
        self.follow_ulids();
        let routes = mem::take(&mut self.following.may_lack_routes).then_some(Effect::AskRoutes);
        routes.into_iter().chain(self.last_of_following()).collect()
    }

    /// Ends the programs of the run before, once this run has taken over contexts and sessions. If this run's
    /// programs are missing on an uplink, all old programs go on. If the host has no uplink, all go on as well: an
    /// uplink may come.
    pub(crate) fn last_of_following(&self) -> Vec<Effect> {
        let Following { is_restored, attached, .. } = &self.following;
        let mut uplinks = self.routing.view.uplinks.iter().map(|uplink| uplink.ifindex).peekable();
        let ends = *is_restored
            && uplinks.peek().is_some()
            && uplinks.all(|uplink| attached.shim6.contains(&uplink));
        let stale = ends.then_some(Effect::RemoveStale);
        stale.into_iter().chain([Effect::FollowDefaultRoutes]).collect()
    }

    /// Notes that an effect was executed.
    pub fn handle_done(&mut self, effect: &Effect, now: Instant) {
        let following = &mut self.following;
        if let Effect::FollowRules = effect {
            following.are_rules_behind = false;
        } else if let Effect::SaveAddresses = effect {
            following.is_unsaved = false;
        } else if let Effect::Attach { protocol, ifindex } = effect {
            following.attached.of(*protocol).insert(*ifindex);
        } else if let Effect::SetLocals(locals) = effect {
            following.locals = Some(locals.clone());
        } else if let (Effect::ChangeAddress(action), Some(addressing)) =
            (effect, &mut following.addressing)
        {
            addressing.planner.on_done(action, now);
        }
    }

    /// Handles a failed effect of following.
    pub(crate) fn handle_not_followed(&mut self, effect: &Effect, now: Instant) {
        if let Effect::SetLocals(_) = effect {
            // Some of the addresses may have been set.
            self.following.locals = None;
        }
        self.following.are_rules_behind |= *effect == Effect::FollowRules;
        // The proof may have been signed and its generation not saved.
        self.following.is_unsaved |= matches!(effect, Effect::Sign(_));
        self.following.retry.handle_failed(now);
        // If an uplink's programs get room again, the uplink can be used soon.
        self.follow_again(now + RETRY);
    }
}

impl Carriers {
    const fn of(&mut self, protocol: Protocol) -> &mut BTreeSet<u32> {
        match protocol {
            Protocol::Shim6 => &mut self.shim6,
            Protocol::Ilnp => &mut self.ilnp,
        }
    }

    /// Detaches the programs of a protocol from interfaces that are gone, and attaches them to interfaces that lack
    /// them.
    fn follow(&mut self, protocol: Protocol, present: &BTreeSet<u32>) -> Vec<Effect> {
        let attached = self.of(protocol);
        let gone = attached.extract_if(.., |ifindex| !present.contains(ifindex));
        let mut effects: Vec<_> =
            gone.map(|ifindex| Effect::Detach { protocol, ifindex }).collect();
        let new = present.difference(attached).copied();
        effects.extend(new.map(|ifindex| Effect::Attach { protocol, ifindex }));
        effects
    }
}
