use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use moorline_addresses::{MovedRoute, Mover, RouteStep};
use moorline_api::{EventKind, Pair};
use moorline_bpf::Error;
use moorline_contexts::{Contexts, Event, Failure, ReapState, Removal, Transmit};
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_types::{ContextId, LocatorPair, UlidPair};

use crate::clock;
use crate::events::{locator_pair, ulid_pair};
use crate::ilnp::Ilnp;
use crate::shell::Daemon;
use crate::views;

/// IPv6 asks for no less of any link (RFC 8200 s5).
pub(crate) const MIN_MTU: u32 = moorline_wire::ip6::MIN_MTU as u32;

impl Daemon {
    pub(crate) fn send_shim6(&self, transmit: &Transmit) {
        // A ULID that has left its uplink is an address of the host, and no source for any other uplink.
        if self.kept.contains(&transmit.locators.local.as_ulid()) {
            return;
        }
        let uplink = self.uplink_to_force(transmit.locators);
        if let Err(error) = self.shim6.send(&transmit.octets, transmit.locators, uplink) {
            // An address that just went, a full buffer: REAP's retransmission takes care.
            tracing::debug!(%error, locators = %transmit.locators, "control packet not sent");
        }
    }

    /// In the order that [`Routes`](moorline_addresses::Routes) asks for.
    pub(crate) async fn carry_out(&mut self, updates: &[Update]) {
        let entries = moved_after(updates);
        let route = |entry: &&ContextEntry| MovedRoute {
            ulids: entry.ulids,
            path_mtu: self.mtu_of(entry),
            is_tcp_bare: false,
            direct: self.next_hop(entry.locators.local.0),
            own: self.own_hop(entry.ulids.local),
        };
        let moved: Vec<_> =
            entries.values().map(|entry| (Mover::Context(entry.id), route(entry))).collect();
        self.route(moved.clone()).await;
        let back = back_in(updates);
        let step = self.routes.lead_by_moor(back.iter().map(|id| Mover::Context(*id)));
        self.carry_out_routes(step).await;
        for update in updates {
            if let Err(error) = self.datapath.apply(update) {
                on_not_applied(self.host.shim6_mut(), update, &error);
            }
        }
        let gone = back.iter().filter(|id| !entries.contains_key(id));
        self.unroute(gone.map(|id| Mover::Context(*id))).await;
        self.routes.lead_soon(moved, clock::now());
        let is_removal = |update: &Update| matches!(update, Update::Remove { .. });
        if !self.kept.is_empty() && updates.iter().any(is_removal) {
            self.keep_ulids().await;
        }
    }

    /// Moved traffic goes through `moor0`, where it is segmented before the header goes in.
    pub(crate) async fn route(&mut self, moved: Vec<(Mover, MovedRoute)>) {
        let steps = self.routes.route(moved);
        if !steps.is_empty() {
            self.carry_out_routes(steps).await;
            self.drop_waiting().await;
        }
    }

    /// Carries out steps in their order. The routes of a step that fails are looked at again in a moment: an uplink may just have
    /// gone.
    pub(crate) async fn carry_out_routes(&mut self, steps: impl IntoIterator<Item = RouteStep>) {
        for step in steps {
            let netlink = &self.netlink;
            let done = match &step {
                RouteStep::RemoveTcp(routes) => netlink.remove_moved_tcp(routes).await.map(drop),
                RouteStep::Add(routes) => netlink.add_all_moved(routes).await,
                RouteStep::LeadDirectly(routes) => netlink.lead_directly(routes).await,
                RouteStep::LeadByMoor(routes) => netlink.lead_by_moor(routes).await.map(drop),
                RouteStep::Remove(routes) => netlink.remove_moved(routes).await.map(drop),
            };
            if let Err(error) = done {
                match &step {
                    RouteStep::LeadDirectly(_) => tracing::debug!(%error, "direct routes"),
                    RouteStep::RemoveTcp(_)
                    | RouteStep::Add(_)
                    | RouteStep::LeadByMoor(_)
                    | RouteStep::Remove(_) => tracing::warn!(%error, "routes of what has moved"),
                }
                self.routes.handle_failed(clock::now());
            }
            if let RouteStep::Remove(routes) = &step {
                self.forget_unbound(routes).await;
            }
        }
    }

    /// What was sent by an uplink after its carrier went waits for a router that will not be found, and
    /// TCP sends none of it again as long as it waits.
    async fn drop_waiting(&self) {
        for uplink in self.view.uplinks.iter().filter(|uplink| !uplink.carrier) {
            match self.netlink.give_up_neighbors(uplink.ifindex).await {
                Ok(0) => {}
                Ok(_) => {
                    tracing::debug!(uplink = uplink.name, "dropped what waited for its router")
                }
                Err(error) => tracing::debug!(%error, "neighbours of a dead uplink"),
            }
        }
    }

    fn mtu_of(&self, entry: &ContextEntry) -> u32 {
        let told = self.path_mtus.of(Mover::Context(entry.id), entry.locators);
        let uplinks = entry.pairs().map(|pair| self.mtu_from(pair.local.0));
        uplinks.chain(told).min().unwrap_or(MIN_MTU)
    }

    /// Of the uplink that packets with this source leave by; the least there is if that is not known.
    pub(crate) fn mtu_from(&self, source: Ipv6Addr) -> u32 {
        self.uplink_mtu(source).unwrap_or(MIN_MTU)
    }

    /// Of the uplink that packets with this source leave by, if there is one now.
    pub(crate) fn uplink_mtu(&self, source: Ipv6Addr) -> Option<u32> {
        let all = || self.view.uplinks.iter().chain(&self.view.candidates);
        let of_locator = || {
            let ifindex = self.ilnp.as_ref()?.uplink_of(source);
            all().find(|uplink| uplink.ifindex == ifindex)
        };
        let uplink = self.view.uplink_of(source).or_else(of_locator)?;
        Some(uplink.mtu.max(MIN_MTU))
    }

    pub(crate) async fn unroute(&mut self, movers: impl IntoIterator<Item = Mover>) {
        let movers: Vec<_> = movers.into_iter().collect();
        movers.iter().for_each(|mover| self.path_mtus.forget(*mover));
        // What a session leaves to a context that has moved is the context's.
        let host = &self.host;
        let is_left = |(mover, route): &(Mover, MovedRoute)| {
            matches!(mover, Mover::Context(_)) || !host.has_moved(route.ulids)
        };
        let step = self.routes.remove(movers, is_left);
        self.carry_out_routes(step).await;
    }

    /// A ULID whose address has left the host stays on `moor0` as long as a context or session needs it.
    pub(crate) async fn keep_ulids(&mut self) {
        let mut needed = BTreeSet::new();
        for context in self.host.shim6().contexts().filter(|context| context.established.is_some())
        {
            needed.insert(context.ulids.local);
        }
        needed.extend(self.ilnp.iter().flat_map(Ilnp::local_addresses));
        needed.retain(|ulid| !self.is_on_uplink(ulid.0));
        let released: Vec<_> = self.kept.difference(&needed).copied().collect();
        for ulid in &released {
            if let Err(error) = self.netlink.release_ulid(*ulid).await {
                tracing::warn!(%error, "releasing a ULID");
            }
        }
        // The rule of a prefix stays for as long as the host has an address in it.
        if !released.is_empty() {
            self.view.in_use = self.addresses_in_use();
            if let Err(error) = self.ensure_rules().await {
                tracing::warn!(%error, "source-address rules");
            }
        }
        for ulid in needed.difference(&self.kept).copied().collect::<Vec<_>>() {
            if let Err(error) = self.netlink.keep_ulid(ulid).await {
                tracing::warn!(%error, "keeping a ULID");
            }
        }
        self.kept = needed;
    }

    /// Logs an event and gives it to those who listen on the control socket.
    pub(crate) fn tell(&mut self, event: &Event) {
        self.contexts_changed |= matches!(
            event,
            Event::Established { .. }
                | Event::Renewed { .. }
                | Event::Moved { .. }
                | Event::Removed { .. }
        );
        if let Event::Moved { context, ulids, to, .. } = event {
            self.introductions.repeat(to.local.0, 0, clock::now());
            // Data plane and route are in place by now.
            let route =
                self.routes.get(Mover::Context(*context)).filter(|_| *to != ulids.as_locators());
            self.notices.on_moved(*ulids, route.map(MovedRoute::mtu), clock::now());
        }
        log(event);
        let (kind, context, ulids, mut reason) = describe(event);
        if let Event::Moved { context, cause, .. } = event {
            reason = Some(self.steer.reason(*context, *cause));
        }
        self.events.push(kind, |told| {
            told.context = context.map(|id| id.0);
            told.ulids = Some(ulid_pair(ulids));
            told.reason = reason;
            (told.from, told.to) = pairs(event);
        });
        if let Event::Established { context, .. } | Event::Renewed { context, .. } = event {
            self.rank(*context);
        }
        self.settle(event);
    }
}

/// What the data plane does not have of a context, nobody has.
fn on_not_applied(contexts: &mut Contexts, update: &Update, error: &Error) {
    match update {
        Update::Remove { context } if matches!(error, Error::UnknownContext(_)) => {
            tracing::debug!(%context, "was not taken in the first place");
        }
        Update::Upsert(entry) => {
            tracing::warn!(%error, "data plane");
            contexts.handle_not_taken(entry.id, clock::now());
        }
        Update::Remove { .. } | Update::Heard { .. } | Update::Rearm { .. } => {
            tracing::warn!(%error, "data plane");
        }
    }
}

/// Contexts that have moved once these updates are carried out. One that a fork comes beside is removed in between, and comes
/// again: the data plane finds the last by its ULIDs.
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

/// Contexts that go by their ULIDs with one of these updates, if only until the next.
fn back_in(updates: &[Update]) -> BTreeSet<ContextId> {
    let back = updates.iter().filter_map(|update| match update {
        Update::Upsert(entry) => Some(entry.id).filter(|_| !entry.is_moved()),
        Update::Remove { context } => Some(*context),
        Update::Heard { .. } | Update::Rearm { .. } => None,
    });
    back.collect()
}

/// The pair that was in use, and the one that is or was to be.
fn pairs(event: &Event) -> (Option<Pair>, Option<Pair>) {
    let pair = |locators: &LocatorPair| Some(locator_pair(*locators));
    match event {
        Event::Moved { from, to, .. } => (pair(from), pair(to)),
        Event::Suspected { locators, .. } => (pair(locators), None),
        Event::Congested { locators, .. } | Event::Unanswered { pair: locators, .. } => {
            (None, pair(locators))
        }
        Event::Initiated { .. }
        | Event::Established { .. }
        | Event::Renewed { .. }
        | Event::Failed { .. }
        | Event::StateChanged { .. }
        | Event::Cleared { .. }
        | Event::Unreachable { .. }
        | Event::Removed { .. } => (None, None),
    }
}

/// Kind, context, ULIDs and reason of an event.
fn describe(event: &Event) -> (EventKind, Option<ContextId>, UlidPair, Option<String>) {
    match event {
        Event::Initiated { context, ulids } => {
            (EventKind::ContextTriggered, Some(*context), *ulids, None)
        }
        Event::Established { context, ulids, role } => {
            let role = views::role(*role).to_string();
            (EventKind::ContextEstablished, Some(*context), *ulids, Some(role))
        }
        Event::Renewed { context, ulids } => {
            let reason = Some("renewed by the peer".to_owned());
            (EventKind::ContextEstablished, Some(*context), *ulids, reason)
        }
        Event::Failed { ulids, failure, .. } => {
            let (kind, reason) = describe_failure(*failure);
            (kind, None, *ulids, reason.map(str::to_owned))
        }
        Event::StateChanged { context, ulids, to, cause, .. } => {
            (kind_of_state(*to), Some(*context), *ulids, Some(cause.to_string()))
        }
        Event::Moved { context, ulids, cause, .. } => {
            (EventKind::Moved, Some(*context), *ulids, Some(cause.to_string()))
        }
        Event::Suspected { context, ulids, hint, .. } => {
            (EventKind::Suspect, Some(*context), *ulids, Some(hint.to_string()))
        }
        Event::Cleared { context, ulids, hint, after } => {
            let reason = Some(format!("{hint}, after {} ms", after.as_millis()));
            (EventKind::Cleared, Some(*context), *ulids, reason)
        }
        Event::Congested { context, ulids, ce, ece, .. } => {
            (EventKind::Congested, Some(*context), *ulids, Some(format!("ce={ce} ece={ece}")))
        }
        Event::Unanswered { context, ulids, cause, .. } => {
            (EventKind::PathUnanswered, Some(*context), *ulids, Some(cause.to_string()))
        }
        Event::Unreachable { context, ulids, probes } => {
            let reason = Some(format!("{probes} probes without an answer"));
            (EventKind::Warning, Some(*context), *ulids, reason)
        }
        Event::Removed { context, ulids, removal } => {
            let reason = Some(removal_text(*removal).to_owned());
            (EventKind::ContextRemoved, Some(*context), *ulids, reason)
        }
    }
}

const fn describe_failure(failure: Failure) -> (EventKind, Option<&'static str>) {
    match failure {
        Failure::NoAnswer => (EventKind::ContextFailed, Some("no answer to I1")),
        Failure::NoSupport => (EventKind::PeerNoSupport, None),
        Failure::NotTaken => (EventKind::ContextFailed, Some(views::NOT_TAKEN)),
    }
}

const fn kind_of_state(state: ReapState) -> EventKind {
    match state {
        ReapState::Operational => EventKind::Operational,
        ReapState::Exploring => EventKind::Exploring,
        ReapState::InboundOk => EventKind::InboundOk,
    }
}

const fn removal_text(removal: Removal) -> &'static str {
    match removal {
        Removal::Idle => "idle",
        Removal::Requested => "requested",
        Removal::Confused => "confused",
        Removal::NoSupport => "the peer has no Shim6 any more",
        Removal::NotTaken => views::NOT_TAKEN,
    }
}

/// For people: what they would want to know at INFO, without addresses.
fn log(event: &Event) {
    match event {
        Event::Initiated { context, ulids } => tracing::debug!(%context, %ulids, "initiated"),
        Event::Established { context, ulids, role } => {
            tracing::info!(%context, ?role, "context established");
            tracing::debug!(%context, %ulids, "established");
        }
        // A peer renews a context as often as it likes: at a higher level it could fill the log.
        Event::Renewed { context, .. } => tracing::debug!(%context, "context renewed by the peer"),
        Event::Failed { failure, ulids, .. } => tracing::debug!(?failure, %ulids, "no context"),
        Event::StateChanged { context, from, to, cause, .. } => {
            tracing::debug!(%context, ?from, ?to, %cause, "reachability");
        }
        Event::Moved { context, from, to, cause, .. } => {
            tracing::info!(%context, %cause, "context moved");
            tracing::debug!(%context, %from, %to, "moved");
        }
        Event::Suspected { context, locators, hint, .. } => {
            tracing::debug!(%context, %locators, %hint, "suspected");
        }
        Event::Cleared { context, hint, after, .. } => {
            tracing::debug!(%context, %hint, ?after, "suspicion cleared");
        }
        Event::Congested { context, locators, ce, ece, .. } => {
            tracing::debug!(%context, %locators, ce, ece, "congested");
        }
        Event::Unanswered { context, pair, cause, .. } => {
            tracing::info!(%context, %cause, "pair did not answer");
            tracing::debug!(%context, %pair, "no answer");
        }
        Event::Unreachable { context, probes, .. } => {
            tracing::warn!(%context, probes, "no locator pair answers");
        }
        Event::Removed { context, removal, .. } => {
            tracing::info!(%context, ?removal, "context removed");
        }
    }
}

#[cfg(test)]
mod tests;
