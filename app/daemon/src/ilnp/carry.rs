//! Carries out what the sessions decided.

use std::collections::BTreeMap;

use moorline_addresses::{MovedRoute, Mover};
use moorline_datapath::ilnp::ROOM_IN_TCP;
use moorline_datapath::ilnp::{SessionEntry, Update};
use moorline_host::Host;
use moorline_ilnp::{Event, Transmit};
use moorline_types::{Nonce, SessionId};

use super::{Ilnp, Known};
use crate::clock;
use crate::shell::Daemon;

impl Daemon {
    /// Carries out updates, messages and events of sessions, in an order in which no packet goes astray.
    pub(crate) async fn carry_out_ilnp(
        &mut self,
        updates: &[Update],
        transmits: &[Transmit],
        events: &[Event],
    ) {
        let Some(ilnp) = &mut self.ilnp else { return };
        ilnp.is_unsaved |= !updates.is_empty();
        for event in events {
            if let Event::Moved { wire, .. } = event {
                let address = wire.local.address();
                self.introductions.repeat(address, ilnp.uplink_of(address), clock::now());
            }
        }
        let is_lost = |update: &Update| match update {
            Update::Upsert(entry) => ilnp.leaves_what_is_lost(entry),
            Update::Remove { .. } => false,
        };
        let is_any_lost = updates.iter().any(is_lost);
        let mut routes = Vec::new();
        if !is_any_lost {
            routes = self.route_ahead(updates).await;
        }
        self.lead_back(updates).await;
        let Some(ilnp) = &mut self.ilnp else { return };
        ilnp.apply(updates, &mut self.host);
        ilnp.send(transmits);
        if is_any_lost {
            routes = self.route_ahead(updates).await;
        }
        self.routes.lead_soon(routes, clock::now());
        self.follow_updates(updates).await;
        for event in events {
            self.tell_ilnp(event);
        }
    }

    /// The route to the segmentation path comes before the move and goes after it, as for Shim6. One that leaves room for a
    /// nonce in all packets comes as soon as the session is there. All there are of these updates.
    async fn route_ahead(&mut self, updates: &[Update]) -> Vec<(Mover, MovedRoute)> {
        let mut routes = Vec::new();
        for update in updates {
            if let Update::Upsert(entry) = update
                && needs_route(entry)
            {
                routes.push((Mover::Session(entry.id), self.route_of(entry)));
            }
        }
        self.route(routes.clone()).await;
        routes
    }

    /// What is about to leave by its own addresses again does not go to the uplink of others.
    async fn lead_back(&mut self, updates: &[Update]) {
        let back = updates.iter().filter_map(|update| match update {
            Update::Upsert(entry) => (entry.wire_pair() == entry.pair && self.changes(entry))
                .then_some(Mover::Session(entry.id)),
            Update::Remove { session } => Some(Mover::Session(*session)),
        });
        let back: Vec<_> = back.collect();
        let step = self.routes.lead_by_moor(back);
        self.carry_out_routes(step).await;
    }

    async fn follow_updates(&mut self, updates: &[Update]) {
        let (mut is_new, mut is_gone) = (false, false);
        for update in updates {
            let Some(ilnp) = &mut self.ilnp else { return };
            match update {
                Update::Upsert(entry) => {
                    ilnp.sessions.insert(entry.id, Known::of(entry));
                    is_new |= !ilnp.presence.has(entry.pair.local.nid);
                }
                Update::Remove { session } => {
                    is_gone |= ilnp.sessions.remove(session).is_some();
                }
            }
        }
        let last: BTreeMap<_, _> =
            updates.iter().map(|update| (session_of(update), update)).collect();
        self.unroute(last.into_values().filter_map(without_route)).await;
        if is_new || is_gone {
            self.follow_sessions().await;
        }
        if is_gone && !self.kept.is_empty() {
            self.keep_ulids().await;
        }
    }

    /// The addresses that sessions need, now that there are others.
    async fn follow_sessions(&mut self) {
        let node = self.node();
        let Some((ilnp, (node, nids))) = self.ilnp.as_mut().zip(node) else { return };
        ilnp.presence.follow(&self.netlink, &node, &nids).await;
    }

    fn route_of(&self, entry: &SessionEntry) -> MovedRoute {
        let wire = entry.wire_pair();
        let is_tcp_bare = entry.maps_tcp && !entry.always && self.is_tcp_whole(entry);
        let told = self.path_mtus.of(Mover::Session(entry.id), wire.ulids().as_locators());
        let mtu = self.mtu_from(wire.local.address()).min(told.unwrap_or(u32::MAX));
        let path_mtu = mtu.saturating_sub(room_of(entry));
        let direct = self.next_hop(wire.local.address());
        let ulids = entry.pair.ulids();
        let own = self.own_hop(ulids.local);
        MovedRoute { ulids, path_mtu, is_tcp_bare, direct, own }
    }

    /// Whether its packets go by other locators than they did.
    fn changes(&self, entry: &SessionEntry) -> bool {
        let known = self.ilnp.as_ref().and_then(|ilnp| ilnp.sessions.get(&entry.id));
        known.is_none_or(|known| known.wire != entry.wire_pair())
    }

    /// Whether no segment of TCP got lost with the locators before. Of what the correspondent maps, none needs the nonce
    /// (decision 075), so a smaller MTU is of use to those alone that have to be sent again: that is how TCP is told
    /// (decision 081).
    fn is_tcp_whole(&self, entry: &SessionEntry) -> bool {
        let Some(ilnp) = &self.ilnp else { return true };
        match ilnp.sessions.get(&entry.id) {
            Some(known) if known.wire == entry.wire_pair() => {
                let route = self.routes.get(Mover::Session(entry.id));
                route.is_none_or(|route| route.is_tcp_bare)
            }
            _ => !ilnp.leaves_what_is_lost(entry),
        }
    }
}

impl Known {
    pub(super) fn of(entry: &SessionEntry) -> Self {
        let (room, is_routed) = (room_of(entry), needs_route(entry));
        Self { pair: entry.pair, wire: entry.wire_pair(), room, is_routed }
    }
}

/// Octets that its packets may need beyond the header of Shim6.
const fn room_of(entry: &SessionEntry) -> u32 {
    let room = match entry.send_nonce {
        _ if entry.always || !entry.maps_tcp => ROOM_IN_TCP,
        Nonce::Short(_) => MovedRoute::HEADER,
        Nonce::Long(_) => LONG_HEADER,
    };
    room - MovedRoute::HEADER
}

const fn session_of(update: &Update) -> SessionId {
    match update {
        Update::Upsert(entry) => entry.id,
        Update::Remove { session } => *session,
    }
}

/// Whose route, if there is one, is needed no more.
fn without_route(update: &Update) -> Option<Mover> {
    match update {
        Update::Upsert(entry) => (!needs_route(entry)).then_some(Mover::Session(entry.id)),
        Update::Remove { session } => Some(Mover::Session(*session)),
    }
}

impl Ilnp {
    /// Whether a session leaves a locator that is of no use any more. Then nothing waits for routes, which take some
    /// milliseconds: what they are good for until then, super-packets of datagrams and datagrams that leave no room for
    /// a nonce, would be lost where they were going as well.
    fn leaves_what_is_lost(&self, entry: &SessionEntry) -> bool {
        let Some(Known { wire, .. }) = self.sessions.get(&entry.id) else { return false };
        *wire != entry.wire_pair()
            && (!self.locators.contains_key(&wire.local.l64)
                || !entry.remote.contains(&wire.remote.l64))
    }

    fn apply(&mut self, updates: &[Update], host: &mut Host) {
        for update in updates {
            self.apply_one(update, host);
        }
    }

    /// Whether the data plane has taken it.
    pub(super) fn apply_one(&mut self, update: &Update, host: &mut Host) -> bool {
        let done = self.datapath.apply(update);
        if let Err(error) = &done {
            tracing::warn!(%error, "data plane of ILNP");
            if let (Update::Upsert(entry), Some(sessions)) = (update, host.ilnp_mut()) {
                sessions.handle_not_taken(entry.id);
            }
        }
        done.is_ok()
    }

    fn send(&self, transmits: &[Transmit]) {
        for transmit in transmits {
            let uplink = self.uplink_of(transmit.source);
            if let Err(error) = self.sender.send(&transmit.packet, uplink) {
                // An address that just went, a full buffer: it is sent again.
                tracing::debug!(%error, source = %transmit.source, "message not sent");
            }
        }
    }
}

fn needs_route(entry: &SessionEntry) -> bool {
    entry.always || entry.wire_pair() != entry.pair
}

/// Octets of the header with a nonce of 96 bits; [`MovedRoute::HEADER`] is what one of 32 bits takes.
const LONG_HEADER: u32 = 16;
