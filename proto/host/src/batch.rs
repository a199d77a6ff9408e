//! Puts the outputs of the protocols in an order in which no packet takes a wrong path.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use moorline_addresses::{MovedRoute, Mover, RouteStep};
use moorline_contexts::{self as shim6, EventKind};
use moorline_datapath::ilnp::Update as SessionUpdate;
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_ilnp as ilnp;
use moorline_types::{ContextId, Instant, SessionId, Ulid};

use crate::effect::Effect;
use crate::host::Host;

/// Outputs that are due together, by kind. All routes go at once, because each change makes every socket of the host
/// look up its route again. An output of a session can come before an older output of a context: if both are about
/// one pair, the session gives way.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) session_updates: Vec<SessionUpdate>,
    pub(crate) ilnp_transmits: Vec<ilnp::Transmit>,
    pub(crate) session_events: Vec<ilnp::Event>,
    pub(crate) shim6_transmits: Vec<shim6::Transmit>,
    pub(crate) context_updates: Vec<Update>,
    pub(crate) context_events: Vec<shim6::Event>,
    pub(crate) socket_questions: Vec<ilnp::Question>,
    pub(crate) usage_questions: Vec<shim6::Question>,
}

impl Batch {
    /// Adds an update behind the others. If the last update is an upsert of the same context, the new one replaces
    /// it.
    pub(crate) fn add_context_update(&mut self, update: Update) {
        match (self.context_updates.last_mut(), update) {
            (Some(Update::Upsert(last)), Update::Upsert(entry))
                if (last.id, last.ulids) == (entry.id, entry.ulids) =>
            {
                *last = entry;
            }
            (_, update) => self.context_updates.push(update),
        }
    }
}

impl Host {
    /// Orders the outputs. Effects of ILNP come first, because a session may replace a context.
    pub(crate) fn order(&mut self, batch: Batch, now: Instant) {
        if !batch.socket_questions.is_empty() {
            self.effects.push_back(Effect::AskSockets(batch.socket_questions));
        }
        self.order_sessions(batch.session_updates, batch.ilnp_transmits, batch.session_events, now);
        for transmit in batch.shim6_transmits {
            // A ULID that has left its uplink is an address of the host, but cannot be a source on any other uplink.
            if !self.routing.is_only_kept(transmit.locators.local.as_ulid()) {
                let ifindex = self.routing.ifindex_to_force(transmit.locators);
                self.effects.push_back(Effect::SendShim6 { transmit, ifindex });
            }
        }
        if !batch.context_updates.is_empty() {
            self.order_contexts(batch.context_updates, now);
        }
        for event in batch.context_events {
            self.order_context_event(event);
        }
        self.effects.extend(batch.usage_questions.into_iter().map(Effect::AskUsage));
    }

    /// Adds updates of contexts, and the route changes around them in the order that
    /// [`Routes`](moorline_addresses::Routes) needs.
    fn order_contexts(&mut self, updates: Vec<Update>, now: Instant) {
        let entries = moved_after(&updates);
        let movers: BTreeSet<_> = entries.keys().copied().collect();
        let route = |entry: &ContextEntry| self.routing.route_of_context(entry);
        let moved: Vec<_> =
            entries.into_iter().map(|(id, entry)| (Mover::Context(id), route(entry))).collect();
        self.lead_by_moor_all(moved.clone());
        let back = back_in(&updates);
        self.lead_back(back.iter().map(|id| Mover::Context(*id)));
        let changes_ulids = updates.iter().any(|update| self.changes_ulids(update));
        for update in &updates {
            if let Update::Upsert(entry) = update {
                let own = [entry.ulids.local.0, entry.current.pair.local.0];
                self.routing.view.in_use.extend(own);
            }
        }
        self.effects.extend(updates.into_iter().map(Effect::UpdateContext));
        self.unroute(back.difference(&movers).map(|id| Mover::Context(*id)));
        self.routing.routes.lead_soon(moved, now);
        if changes_ulids {
            self.follow_ulids();
        }
    }

    /// Whether this update may end the need for a ULID, or begins the need for one that no uplink has.
    fn changes_ulids(&self, update: &Update) -> bool {
        match update {
            Update::Upsert(entry) => self.routing.is_nowhere(entry.ulids.local),
            Update::Remove { .. } => !self.routing.kept.is_empty(),
            Update::Heard { .. } | Update::Rearm { .. } => false,
        }
    }

    fn order_sessions(
        &mut self,
        updates: Vec<SessionUpdate>,
        transmits: Vec<ilnp::Transmit>,
        events: Vec<ilnp::Event>,
        now: Instant,
    ) {
        for event in &events {
            if let ilnp::Event::Moved { wire, .. } = event {
                let address = wire.local.address();
                let ifindex = self.routing.uplink_of_locator(address);
                self.effects.push_back(Effect::Introduce { ifindex, address });
            }
        }
        let is_lost = |update: &SessionUpdate| match update {
            SessionUpdate::Upsert(entry) => self.routing.leaves_what_is_lost(entry),
            SessionUpdate::Remove { .. } => false,
        };
        // A session leaves a lost locator at once: a route change may take milliseconds, and all packets are lost
        // until then.
        let is_any_lost = updates.iter().any(is_lost);
        let routes = self.routes_of_sessions(&updates);
        if !is_any_lost {
            self.lead_by_moor_all(routes.clone());
        }
        self.lead_sessions_back(&updates);
        self.effects.extend(updates.iter().cloned().map(Effect::UpdateSession));
        // The addresses of new sessions exist before a correspondent learns the locators.
        let changes_ulids = self.note_sessions(&updates, now);
        for transmit in transmits {
            let ifindex = self.routing.uplink_of_locator(transmit.source);
            self.effects.push_back(Effect::SendIlnp { transmit, ifindex });
        }
        if is_any_lost {
            self.lead_by_moor_all(routes.clone());
        }
        self.routing.routes.lead_soon(routes, now);
        let last: BTreeMap<_, _> =
            updates.iter().map(|update| (session_of(update), update)).collect();
        self.unroute(last.into_values().filter_map(without_route));
        if changes_ulids {
            self.follow_ulids();
        }
        for event in events {
            self.order_session_event(event);
        }
    }

    /// The routes of the sessions that need one. A route that leaves room for a nonce in all packets exists as long
    /// as the session.
    fn routes_of_sessions(&self, updates: &[SessionUpdate]) -> Vec<(Mover, MovedRoute)> {
        let routes = updates.iter().filter_map(|update| match update {
            SessionUpdate::Upsert(entry) => entry
                .needs_route()
                .then(|| (Mover::Session(entry.id), self.routing.route_of_session(entry))),
            SessionUpdate::Remove { .. } => None,
        });
        routes.collect()
    }

    /// Removes the direct routes of sessions that are about to go back to their own addresses: these packets are not
    /// for the other uplink.
    fn lead_sessions_back(&mut self, updates: &[SessionUpdate]) {
        let back = updates.iter().filter_map(|update| match update {
            SessionUpdate::Upsert(entry) => {
                let is_back = entry.wire_pair() == entry.pair && self.routing.changes(entry);
                is_back.then_some(Mover::Session(entry.id))
            }
            SessionUpdate::Remove { session } => Some(Mover::Session(*session)),
        });
        let back: Vec<_> = back.collect();
        self.lead_back(back);
    }

    /// Notes the sessions that exist after these updates. Returns whether the need for a ULID may end, or begins for
    /// one that no uplink has.
    fn note_sessions(&mut self, updates: &[SessionUpdate], now: Instant) -> bool {
        let (mut is_any_gone, mut has_other_nids) = (false, false);
        let told = self.routing.told_on_bare();
        for update in updates {
            match update {
                SessionUpdate::Upsert(entry) => {
                    let own = [entry.pair.local.address(), entry.wire_pair().local.address()];
                    self.routing.view.in_use.extend(own);
                    has_other_nids |= self.routing.sessions.insert(entry);
                }
                SessionUpdate::Remove { session } => {
                    let removed = self.routing.sessions.remove(*session);
                    is_any_gone |= removed.is_some();
                    has_other_nids |= removed.unwrap_or_default();
                }
            }
        }
        if self.routing.told_on_bare() != told {
            // A link without a default route may go, so the programs follow once correspondents are told.
            self.note_in_use();
            self.begin_following();
            has_other_nids = true;
        }
        if has_other_nids {
            self.follow_node(now);
        }
        let is_nowhere = |update: &SessionUpdate| match update {
            SessionUpdate::Upsert(entry) => {
                self.routing.is_nowhere(Ulid(entry.pair.local.address()))
            }
            SessionUpdate::Remove { .. } => false,
        };
        is_any_gone && !self.routing.kept.is_empty() || updates.iter().any(is_nowhere)
    }

    fn order_context_event(&mut self, event: shim6::Event) {
        if let EventKind::Moved { to, .. } = event.kind {
            self.effects.push_back(Effect::Introduce { ifindex: 0, address: to.local.0 });
        }
        // A path works again: another one or the same as before.
        if let EventKind::Moved { .. }
        | EventKind::StateChanged { to: shim6::ReapState::Operational, .. } = event.kind
        {
            let shim6::Event { context, ulids, .. } = event;
            let route = self.routing.routes.get(Mover::Context(context));
            let established = self.shim6.context(context).and_then(|one| one.established);
            let is_away = established.is_some_and(|one| one.locators != ulids.as_locators());
            let mtu = route.filter(|_| is_away).map(|route| route.mtu);
            self.effects.push_back(Effect::NotifyTcp { ulids, mtu });
        }
        self.effects.push_back(Effect::TellContext(event));
    }

    fn order_session_event(&mut self, event: ilnp::Event) {
        // TCP has backed off while the correspondent, which does not know the session, dropped its segments.
        if let ilnp::Event::Forgotten { pair, cause: ilnp::Cause::Denied, .. } = event {
            self.effects.push_back(Effect::NotifyTcp { ulids: pair.ulids(), mtu: None });
        }
        // TCP has backed off while no locators brought anything.
        if let ilnp::Event::Moved { session, .. } | ilnp::Event::Regained { session } = event
            && let Some(known) = self.routing.sessions.get(session)
        {
            let route = self.routing.routes.get(Mover::Session(session));
            let (ulids, mtu) = (known.pair.ulids(), route.map(MovedRoute::tcp_mtu));
            self.effects.push_back(Effect::NotifyTcp { ulids, mtu });
        }
        self.effects.push_back(Effect::TellSession(event));
    }

    /// Leads moved traffic to the segmentation path before the data plane moves it.
    pub(crate) fn lead_by_moor_all(&mut self, moved: Vec<(Mover, MovedRoute)>) {
        let steps = self.routing.routes.route(moved);
        if steps.is_empty() {
            return;
        }
        self.push_routes(steps);
        // Packets that were sent after an uplink lost its carrier wait for a router that will not answer.
        let dead = self.routing.view.uplinks.iter().filter(|uplink| !uplink.carrier);
        let give_up = dead.map(|uplink| Effect::GiveUpNeighbors { ifindex: uplink.ifindex });
        self.effects.extend(give_up);
    }

    /// Removes the direct routes of these movers.
    pub(crate) fn lead_back(&mut self, movers: impl IntoIterator<Item = Mover>) {
        let step = self.routing.routes.lead_by_moor(movers);
        self.push_routes(step);
    }

    pub(crate) fn push_routes(&mut self, steps: impl IntoIterator<Item = RouteStep>) {
        self.effects.extend(steps.into_iter().map(Effect::Route));
    }

    fn unroute(&mut self, movers: impl IntoIterator<Item = Mover>) {
        let movers: Vec<_> = movers.into_iter().collect();
        movers.iter().for_each(|mover| self.routing.path_mtus.forget(*mover));
        // A route that a session leaves to a moved context belongs to the context.
        let Self { moved, shim6, routing, .. } = self;
        let has_moved = |pair| moved.contains(pair) || shim6.waiting().has_moved(pair);
        let is_left = |(mover, route): &(Mover, MovedRoute)| {
            matches!(mover, Mover::Context(_)) || !has_moved(route.ulids)
        };
        let step = routing.routes.remove(movers, is_left);
        self.push_routes(step);
    }
}

/// Contexts that are moved after these updates. If a fork comes beside a context, the context is removed in between
/// and comes again: the data plane finds the last one by its ULIDs.
fn moved_after(updates: &[Update]) -> BTreeMap<ContextId, &ContextEntry> {
    let mut moved = BTreeMap::new();
    for update in updates {
        let (id, entry) = match update {
            Update::Upsert(entry) => (entry.id, Some(entry).filter(|entry| entry.is_moved())),
            Update::Remove { context } => (*context, None),
            Update::Heard { .. } | Update::Rearm { .. } => continue,
        };
        moved.remove(&id);
        moved.extend(entry.map(|entry| (id, entry)));
    }
    moved
}

/// Contexts that are at their ULIDs after one of these updates, perhaps only until the next one.
fn back_in(updates: &[Update]) -> BTreeSet<ContextId> {
    let back = updates.iter().filter_map(|update| match update {
        Update::Upsert(entry) => Some(entry.id).filter(|_| !entry.is_moved()),
        Update::Remove { context } => Some(*context),
        Update::Heard { .. } | Update::Rearm { .. } => None,
    });
    back.collect()
}

const fn session_of(update: &SessionUpdate) -> SessionId {
    match update {
        SessionUpdate::Upsert(entry) => entry.id,
        SessionUpdate::Remove { session } => *session,
    }
}

/// The session of an update that ends the need for a route.
fn without_route(update: &SessionUpdate) -> Option<Mover> {
    match update {
        SessionUpdate::Upsert(entry) => (!entry.needs_route()).then_some(Mover::Session(entry.id)),
        SessionUpdate::Remove { session } => Some(Mover::Session(*session)),
    }
}

#[cfg(test)]
mod tests;
