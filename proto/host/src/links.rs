//! Changes of the host's links.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;
use core::net::Ipv6Addr;

use moorline_addresses::{FoundRoute, HostView, MovedRoute, Mover, RouteStep, Routes, Uplink};
use moorline_contexts::Waiting;
use moorline_datapath::ilnp::Update as SessionUpdate;
use moorline_datapath::shim6::Update as ContextUpdate;
use moorline_ilnp::SessionSnapshot;
use moorline_types::{
    ContextId, DropReason, Ilv, Instant, LocalRoutes, Locator, LocatorPair, Prefix, SessionId,
    Ulid, UlidPair,
};

use crate::effect::{Effect, SessionAddress};
use crate::host::Host;
use crate::known::KnownSession;
use crate::node::{LocatorRule, Node, Seen, node};
use crate::routing::{Routing, named_on_bare};

/// Inputs about links.
impl Host {
    /// Takes the present links, addresses and routers of the host. Contexts and sessions leave lost addresses first,
    /// because rules, signatures and programs take time. Only the rules that a move needs come before that.
    //= rfc5534#3.2-2
    pub fn handle_view(&mut self, mut view: HostView, now: Instant) {
        self.routing.session_addresses.leave_out(&mut view);
        // The addresses in use are counted anew once contexts and sessions have left lost addresses. Until then, no
        // address is left out that is in use.
        self.routing.note_bare(&view);
        view.in_use = mem::take(&mut self.routing.view.in_use);
        view.in_use.extend(self.routing.told());
        let named: Vec<_> = named_on_bare(&view, &self.shim6).collect();
        view.in_use.extend(named);
        let before = self.routing.followed();
        (self.routing.view, self.routing.view_at) = (view, Some(now));
        self.note_detours(&before);
        let routes = self.routing.local_routes();
        self.follow_rules_first(&routes);
        self.follow_health(now);
        self.follow_node(now);
        let usable = self.routing.usable();
        let lost = self.shim6.usable().iter().filter(|own| !usable.contains(own));
        let lost: Vec<_> = lost.copied().collect();
        if self.shim6.set_routes(routes) || !lost.is_empty() {
            self.shim6.handle_lost(&lost, now);
        }
        if self.routing.carriers.is_none() {
            // At the start, programs that know sessions and locators replace those of the run before. After that,
            // correspondents are told the locators.
            let attach = self.attach_ilnp();
            self.effects.extend(attach);
        }
        self.begin_following();
    }

    /// Has the rules follow before contexts and sessions move, if peers are in a prefix that no specific route leads
    /// to any more. A context that moves next to a peer on a link without a carrier sends by a router of another
    /// link. With the old rules its packets would wait for the peer on that other link, and TCP does not resend a
    /// packet that waits in the host.
    pub(crate) fn follow_rules_first(&mut self, routes: &LocalRoutes) {
        let gone = self.shim6.routes().gone_in(routes);
        if gone.len() > MAX_LOOKED_UP || self.has_peers_in(&gone) {
            self.tell_advertisers();
            self.effects.push_back(Effect::FollowRules);
        }
    }

    /// Whether a peer of a context, or the correspondent of a session, is in one of these prefixes.
    fn has_peers_in(&self, prefixes: &[Prefix]) -> bool {
        let has = |(_, known): (_, &KnownSession)| {
            prefixes.iter().any(|prefix| prefix.contains(known.wire.remote.address()))
        };
        !prefixes.is_empty()
            && (self.shim6.has_peers_in(prefixes) || self.routing.sessions.iter().any(has))
    }

    /// The present view, without the addresses of sessions.
    #[must_use]
    pub const fn view(&self) -> &HostView {
        &self.routing.view
    }

    /// Time when the view was taken.
    #[must_use]
    pub const fn view_at(&self) -> Option<Instant> {
        self.routing.view_at
    }

    /// Time when an address last became usable. A check that left before that did not use the address.
    #[must_use]
    pub const fn gained_at(&self) -> Option<Instant> {
        self.routing.gained_at
    }

    /// The uplink of packets with this source. The source may be an address of the uplink or, for ILNP, of a session.
    #[must_use]
    pub fn uplink_of(&self, source: Ipv6Addr) -> Option<&Uplink> {
        self.routing.view.uplink(self.routing.ifindex_of(source)?)
    }

    /// Notes in the view which addresses contexts and sessions use.
    pub(crate) fn note_in_use(&mut self) {
        self.routing.view.in_use = self.routing.in_use(&self.shim6);
    }

    /// Sets the uplinks that moved traffic may be routed to.
    pub fn set_takes_moved(&mut self, uplinks: BTreeSet<u32>) {
        self.routing.takes_moved = uplinks;
    }

    /// Sets the rules about the locators of this node.
    pub fn set_locator_rules(&mut self, rules: Vec<LocatorRule>, now: Instant) {
        if self.routing.locator_rules != rules {
            self.routing.locator_rules = rules;
            self.follow_node(now);
        }
    }

    /// Handles an uplink whose router does not answer: the addresses of the uplink cannot be used for now.
    //= rfc5534#3.2-1
    pub fn handle_router_lost(&mut self, ifindex: u32, now: Instant) {
        let Some(uplink) = self.routing.view.uplink(ifindex) else { return };
        let local = locators_of(uplink);
        self.shim6.handle_router_lost(&local, now);
        self.plan_effects(now);
        // A socket that found its route before it had a source address keeps the route by that uplink, although the
        // pair has moved. Its packets wait there for the router.
        let is_own = |route: &MovedRoute| local.contains(&route.ulids.local.as_locator());
        if self.routing.routes.all().iter().any(is_own) {
            self.effects.push_back(Effect::FlushCachedRoutes);
            self.effects.push_back(Effect::GiveUpNeighbors { ifindex });
        }
        self.on_router_lost(ifindex, now);
        self.ask_correspondents(&local, now);
    }

    /// Handles addresses whose router does not answer, on an uplink with other routers.
    pub fn handle_router_lost_of(&mut self, local: &[Locator], now: Instant) {
        self.shim6.handle_router_lost(local, now);
        self.ask_correspondents(local, now);
    }

    /// Has the correspondents of sessions asked that still use the locators of these addresses.
    fn ask_correspondents(&mut self, local: &[Locator], now: Instant) {
        let l64s: Vec<_> = local.iter().map(|own| Ilv::of(own.0).l64).collect();
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.handle_router_lost(&l64s, now);
        }
    }

    /// Handles an effect that could not be executed. A context or session that a data plane has not taken goes.
    /// Routes are read and set again in a moment, because an uplink may just have gone. Addresses and removals are
    /// tried again in a moment.
    pub fn handle_failed(&mut self, effect: &Effect, now: Instant) {
        let routing = &mut self.routing;
        match effect {
            Effect::UpdateContext(ContextUpdate::Upsert(entry)) => {
                // The slot may have another context by now.
                let context = self.shim6.context(entry.id);
                if context.is_some_and(|context| context.ulids == entry.ulids) {
                    self.shim6.handle_not_taken(entry.id, now);
                }
                return;
            }
            Effect::UpdateSession(SessionUpdate::Upsert(entry)) => {
                if let Some(ilnp) = &mut self.ilnp {
                    ilnp.handle_not_taken(entry.id);
                }
                return;
            }
            Effect::Route(_) | Effect::AskRoutes => return routing.routes.handle_failed(now),
            Effect::UpdateContext(_) | Effect::UpdateSession(_) => {
                return self.refused.note(effect, now);
            }
            Effect::FollowRules
            | Effect::SaveAddresses
            | Effect::ChangeAddress(_)
            | Effect::Outrank(_)
            | Effect::Attach { .. }
            | Effect::SetLocals(_)
            | Effect::RemoveStale
            | Effect::Sign(_) => return self.handle_not_followed(effect, now),
            Effect::KeepUlid(ulid) => drop(routing.kept.remove(ulid)),
            Effect::ReleaseUlid(ulid) => drop(routing.kept.insert(*ulid)),
            Effect::AddSessionAddress(one) => routing.session_addresses.on_not_added(*one),
            Effect::RemoveSessionAddress(one) => routing.session_addresses.on_not_removed(*one),
            Effect::SetNode(_) => routing.is_node_refused = true,
            Effect::GiveUpNeighbors { .. }
            | Effect::FlushCachedRoutes
            | Effect::AskForwarding
            | Effect::Detach { .. }
            | Effect::AskOffloads
            | Effect::FollowPathRules
            | Effect::FollowDefaultRoutes
            | Effect::AskTarget { .. }
            | Effect::PreferRoute(_)
            | Effect::Introduce { .. }
            | Effect::SendShim6 { .. }
            | Effect::SendIlnp { .. }
            | Effect::NotifyTcp { .. }
            | Effect::TellAddress(_)
            | Effect::TellContext(_)
            | Effect::TellSession(_)
            | Effect::AskSockets(_)
            | Effect::AskUsage(_) => return,
        }
        self.retry.handle_failed(now);
    }

    /// Notes that an address for sessions exists already, because another program has set it.
    pub fn handle_address_of_others(&mut self, address: SessionAddress) {
        self.routing.session_addresses.on_of_others(address);
    }

    /// Tells the sessions the present node. The effects that add addresses for sessions come before the packets that
    /// use them.
    pub(crate) fn follow_node(&mut self, now: Instant) {
        let known = self.routing.sessions.nids();
        let failing = self.failing_uplinks();
        let Some(ilnp) = &mut self.ilnp else { return };
        let routing = &mut self.routing;
        let (node, state) = node(&Seen {
            view: &routing.view,
            attached: routing.carriers.as_ref().map(|carriers| &carriers.ilnp),
            known: &known,
            rules: &routing.locator_rules,
            failing: &failing,
            before: &routing.node.uplinks,
            routes: &routing.session_routes(),
        });
        if mem::take(&mut routing.is_node_refused) || node != routing.node {
            self.effects.push_back(Effect::SetNode(node.clone()));
        }
        let (missing, gone) = routing.session_addresses.follow(&node, &known);
        let is_missing = |effect: &Effect| matches!(effect, Effect::RemoveSessionAddress(address) if missing.contains(address));
        self.last_effects.retain(|effect| !is_missing(effect));
        self.effects.extend(missing.into_iter().map(Effect::AddSessionAddress));
        // These removals come last: contexts and sessions leave the addresses first.
        self.last_effects.extend(gone.into_iter().map(Effect::RemoveSessionAddress));
        let before = mem::replace(&mut routing.node, node);
        ilnp.handle_local(&state, now);
        self.notify_regained(&before);
    }

    /// Has TCP send again at once in sessions whose lost locator is back.
    fn notify_regained(&mut self, before: &Node) {
        let Routing { node, sessions, routes, .. } = &self.routing;
        let regained = |l64| node.uplinks.contains_key(&l64) && !before.uplinks.contains_key(&l64);
        let waiting = sessions.iter().filter(|(_, known)| regained(known.wire.local.l64));
        let notices = waiting.map(|(id, known)| {
            let mtu = routes.get(Mover::Session(id)).map(MovedRoute::tcp_mtu);
            Effect::NotifyTcp { ulids: known.pair.ulids(), mtu }
        });
        self.effects.extend(notices);
    }
}

/// Taking over the state of a run before.
impl Host {
    /// Takes over sessions of a run before, and the addresses that it has set for them. Returns why some sessions are
    /// refused.
    ///
    /// The next effects tell the data plane the sessions, but set no routes: those of the run before stay.
    pub fn restore_sessions(
        &mut self,
        stored: Vec<SessionSnapshot>,
        addresses: BTreeSet<SessionAddress>,
        now: Instant,
    ) -> Vec<DropReason> {
        self.routing.session_addresses.take_over(addresses);
        let Some(ilnp) = &mut self.ilnp else { return Vec::new() };
        let refused = stored.into_iter().filter_map(|one| ilnp.restore(one, now).err());
        let refused = refused.collect();
        while let Some(update) = ilnp.poll_update() {
            if let SessionUpdate::Upsert(entry) = &update {
                self.routing.sessions.insert(entry);
            }
            self.effects.push_back(Effect::UpdateSession(update));
        }
        refused
    }

    /// Takes over the routes of moved pairs of a run before: those of sessions now, those of contexts as soon as the
    /// contexts exist.
    pub fn handle_left(&mut self, routes: Vec<FoundRoute>) {
        let sessions = self.routing.sessions.iter().filter(|(_, known)| known.is_routed);
        let routed: Vec<_> =
            sessions.map(|(id, known)| (Mover::Session(id), known.pair.ulids())).collect();
        self.routing.routes.leave(routes);
        self.routing.routes.take_over(routed);
    }

    /// Takes the contexts of a run before that [`Contexts::take_over`](moorline_contexts::Contexts::take_over) restores
    /// later. Until they are restored, the host keeps the addresses and ULIDs that they use.
    pub fn handle_waiting(&mut self, waiting: Waiting) {
        self.shim6.handle_waiting(waiting);
        self.note_in_use();
        self.follow_ulids();
        if self.routing.view.bare_in_use().next().is_some() {
            self.begin_following();
        }
    }

    /// Takes the contexts that a run before has left in the data plane. The data plane forgets those that were not
    /// taken over, before it gets any other update.
    pub fn handle_left_contexts(&mut self, left: impl IntoIterator<Item = ContextId>) {
        let unknown = left.into_iter().filter(|id| self.shim6.context(*id).is_none());
        let removals = unknown.map(|context| ContextUpdate::Remove { context });
        self.effects.extend(removals.map(Effect::UpdateContext));
    }

    /// Ends the takeover: all contexts and sessions exist, and these ULIDs are kept. Whatever else a run before has
    /// left goes.
    pub fn handle_restored(&mut self, kept: BTreeSet<Ulid>, now: Instant) {
        if let Some(addressing) = &mut self.following.addressing {
            addressing.planner.on_restored();
        }
        self.routing.kept = kept;
        self.plan_effects(now);
        let step = self.routing.routes.remove_left();
        self.push_routes(step);
        // A route of the run before may lead to a lost router or uplink.
        self.reroute(&self.routing.routes.movers(), now);
        self.follow_ulids();
        self.following.is_restored = true;
        let last = self.last_of_following();
        self.effects.extend(last);
        self.note_in_use();
        // The pairs of the run before worked, whatever routes say.
        self.note_detours(&[]);
        let HostView { detours, .. } = &self.routing.view;
        if self.routing.view.bare_in_use().next().is_some() || !detours.is_empty() {
            self.begin_following();
        }
        self.doubt_uplinks_of_run_before(now);
    }

    /// Handles a new segmentation path, which has these ULIDs. Routes by it are gone, and direct routes are not.
    pub fn handle_moor_made(&mut self, kept: BTreeSet<Ulid>) {
        self.routing.kept = kept;
        self.follow_ulids();
        let routes = self.routing.routes.all();
        self.push_routes((!routes.is_empty()).then_some(RouteStep::Add(routes)));
    }
}

/// Routes of moved pairs, and ULIDs.
impl Host {
    /// The routes of moved pairs.
    #[must_use]
    pub const fn routes(&self) -> &Routes {
        &self.routing.routes
    }

    /// The locators of the packets of `mover`.
    #[must_use]
    pub fn path_of(&self, mover: Mover) -> Option<LocatorPair> {
        self.routing.path_of(&self.shim6, mover)
    }

    /// Octets that the header or nonce may add to packets of `mover` on the wire.
    #[must_use]
    pub fn overhead_of(&self, mover: Mover) -> Option<u32> {
        self.routing.overhead_of(&self.shim6, mover)
    }

    /// The interface of packets with this source.
    #[must_use]
    pub fn ifindex_of(&self, source: Ipv6Addr) -> Option<u32> {
        self.routing.ifindex_of(source)
    }

    /// The interface that a control packet with these locators has to leave by; 0 if the route decides.
    #[must_use]
    pub fn ifindex_to_force(&self, locators: LocatorPair) -> u32 {
        self.routing.ifindex_to_force(locators)
    }

    /// A session as the data plane has it.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<&KnownSession> {
        self.routing.sessions.get(id)
    }

    /// Whether this address is on an uplink for sessions alone.
    #[must_use]
    pub fn is_session_address(&self, address: Ipv6Addr) -> bool {
        self.routing.session_addresses.has(address)
    }

    /// ULIDs that contexts and sessions need and no uplink has.
    #[must_use]
    pub fn ulids_to_keep(&self) -> BTreeSet<Ulid> {
        self.routing.ulids_to_keep(&self.shim6)
    }

    /// Whether a failed effect still waits to be tried again.
    #[must_use]
    pub fn awaits_retry(&self) -> bool {
        let (routes, following) = (self.routing.routes.poll_look(), self.following.retry.at());
        let retries = [self.retry.at(), self.refused.retry.at(), routes, following];
        retries.into_iter().any(|at| at.is_some())
    }

    /// Whether the host keeps a ULID that has left its uplink as an address.
    #[must_use]
    pub fn is_kept(&self, ulid: Ulid) -> bool {
        self.routing.kept.contains(&ulid)
    }

    /// Takes the kernel's routes of moved pairs, after [`Effect::AskRoutes`] or a change in the kernel.
    pub fn handle_routes(&mut self, there: &[FoundRoute], now: Instant) {
        let steps = self.routing.routes.reconcile(there, now);
        self.push_routes(steps);
        self.reroute(&self.routing.routes.movers(), now);
    }

    /// Takes smaller MTUs that routers have reported for these paths, in octets with the header.
    pub fn handle_path_mtus(&mut self, told: &[(Mover, LocatorPair, u32)], now: Instant) {
        for (mover, path, mtu) in told {
            self.routing.path_mtus.note(*mover, *path, *mtu, now);
        }
        let movers: Vec<_> = told.iter().map(|(mover, ..)| *mover).collect();
        self.reroute(&movers, now);
    }

    pub(crate) fn poll_route_timeout(&self) -> Option<Instant> {
        let routes = &self.routing.routes;
        let path_mtus = self.routing.path_mtus.poll_timeout();
        let retries = [self.retry.at(), self.refused.retry.at(), self.following.poll_timeout()];
        let retries = retries.into_iter().chain([self.poll_health()]);
        let all = [routes.poll_lead(), routes.poll_look(), path_mtus].into_iter().chain(retries);
        all.flatten().min()
    }

    pub(crate) fn handle_route_timeouts(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.routing.routes.poll_lead()) {
            self.lead_waiting(now);
        }
        if is_due(self.routing.routes.poll_look()) {
            self.routing.routes.begin_look();
            self.effects.push_back(Effect::AskRoutes);
        }
        if is_due(self.refused.retry.at()) {
            self.retry_refused();
        }
        if is_due(self.poll_health()) {
            self.handle_health_timeout(now);
        }
        if is_due(self.following.poll_timeout()) {
            self.begin_following();
        }
        if is_due(self.retry.at()) {
            self.retry.begin();
            self.follow_node(now);
            self.follow_ulids();
        }
        if is_due(self.routing.path_mtus.poll_timeout()) {
            let expired = self.routing.path_mtus.take_expired(now);
            self.reroute(&expired, now);
        }
    }

    /// Sets the direct routes that wait.
    fn lead_waiting(&mut self, now: Instant) {
        let mut routes = mem::take(&mut self.routing.routes);
        let other = |routes: &Routes, mover| self.routing.other_route(routes, &self.shim6, mover);
        let step = routes.lead_waiting(other, now);
        self.routing.routes = routes;
        self.push_routes(step);
    }

    /// Corrects the routes of these movers.
    pub(crate) fn reroute(&mut self, movers: &[Mover], now: Instant) {
        self.follow_mtus(movers);
        let Self { routing, shim6, .. } = self;
        let other = |mover: &Mover| {
            let route = routing.other_route(&routing.routes, shim6, *mover)?;
            Some((*mover, route))
        };
        let others: Vec<_> = movers.iter().filter_map(other).collect();
        let by_moor: Vec<_> = others.iter().filter(|(_, route)| route.direct.is_none()).collect();
        let by_moor: Vec<_> = by_moor.into_iter().map(|(mover, _)| *mover).collect();
        self.lead_back(by_moor);
        self.routing.routes.lead_soon(others, now);
    }

    /// Follows changes of the MTUs of uplinks and paths. If an uplink's MTU changes, the kernel gives the routes by
    /// it the uplink's MTU, without room for a header. So these routes are set again.
    fn follow_mtus(&mut self, movers: &[Mover]) {
        let (mut others, mut smaller) = (Vec::new(), Vec::new());
        for mover in movers.iter().copied() {
            let wide = self.routing.route_as_wide(&self.shim6, mover);
            let Some((now, route)) = self.routing.routes.get(mover).zip(wide) else { continue };
            if route != *now {
                smaller.extend((route.mtu < now.mtu).then_some(route));
                others.push((mover, route));
            }
        }
        self.lead_by_moor_all(others);
        let notify = |route: MovedRoute| {
            let (ulids, mtu): (UlidPair, _) = (route.ulids, Some(route.tcp_mtu()));
            Effect::NotifyTcp { ulids, mtu }
        };
        self.effects.extend(smaller.into_iter().map(notify));
    }

    /// Keeps a ULID whose address has left the host as long as a context or session needs it.
    pub(crate) fn follow_ulids(&mut self) {
        let needed = self.routing.ulids_to_keep(&self.shim6);
        let kept = mem::replace(&mut self.routing.kept, needed);
        let released: Vec<_> = kept.difference(&self.routing.kept).copied().collect();
        let is_any_released = !released.is_empty();
        self.effects.extend(released.into_iter().map(Effect::ReleaseUlid));
        // The rule of a prefix stays as long as the host has an address in it.
        if is_any_released {
            self.note_in_use();
            self.effects.push_back(Effect::FollowRules);
        }
        let new = self.routing.kept.difference(&kept).copied();
        self.effects.extend(new.map(Effect::KeepUlid));
    }
}

/// Largest number of lost routes whose destinations are compared with all peers. If more are lost, the rules follow
/// in any case.
const MAX_LOOKED_UP: usize = 16;

/// Our locators on an uplink.
pub(crate) fn locators_of(uplink: &Uplink) -> Vec<Locator> {
    uplink.addresses.iter().map(|own| Locator(own.address)).collect()
}
