//! Carries out what the sessions decided.

use moorline_ilnp::NonceLen;
use moorline_ilnp::datapath::{SessionEntry, Update};
use moorline_netlink::MovedRoute;

use super::{Known, ulids};
use crate::protect::Mover;
use crate::shell::Daemon;

impl Daemon {
    /// Everything that the sessions have to say, until there is nothing more.
    pub(crate) async fn pump_ilnp(&mut self) {
        let Some(ilnp) = &mut self.ilnp else { return };
        let mut updates = Vec::new();
        while let Some(update) = ilnp.machine.poll_update() {
            updates.push(update);
        }
        if !updates.is_empty() {
            ilnp.is_unsaved = true;
            self.carry_out_ilnp(&updates).await;
        }
        let Some(ilnp) = &mut self.ilnp else { return };
        while let Some(transmit) = ilnp.machine.poll_transmit() {
            let uplink = ilnp.uplink_of(transmit.source);
            if let Err(error) = ilnp.sender.send(&transmit.packet, uplink) {
                // An address that just went, a full buffer: it is sent again.
                tracing::debug!(%error, source = %transmit.source, "message not sent");
            }
        }
        let mut events = Vec::new();
        while let Some(event) = ilnp.machine.poll_event() {
            events.push(event);
        }
        for event in events {
            self.tell_ilnp(&event);
        }
    }

    /// The route to the segmentation path comes before the move and goes after it, as for Shim6.
    async fn carry_out_ilnp(&mut self, updates: &[Update]) {
        let mut routes = Vec::new();
        for update in updates {
            if let Update::Upsert(entry) = update
                && entry.wire_pair() != entry.pair
            {
                routes.push((Mover::Session(entry.id), self.route_of(entry)));
            }
        }
        self.route(routes).await;
        let (mut is_new, mut is_gone) = (false, false);
        for update in updates {
            let Some(ilnp) = &mut self.ilnp else { return };
            if let Err(error) = ilnp.datapath.apply(update) {
                tracing::warn!(%error, "data plane of ILNP");
            }
            match update {
                Update::Upsert(entry) => {
                    let known = Known { pair: entry.pair, wire: entry.wire_pair() };
                    ilnp.sessions.insert(entry.id, known);
                    is_new |= !ilnp.presence.has(entry.pair.local.nid);
                    if entry.wire_pair() == entry.pair {
                        self.unroute(Mover::Session(entry.id)).await;
                    }
                }
                Update::Remove { session } => {
                    is_gone |= ilnp.sessions.remove(session).is_some();
                    self.unroute(Mover::Session(*session)).await;
                }
            }
        }
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
        let more = self.ilnp.as_ref().map_or(0, |ilnp| match ilnp.config.nonce_len {
            NonceLen::Short => 0,
            NonceLen::Long => LONGER,
        });
        let mtu = self.mtu_from(wire.local.address());
        MovedRoute { ulids: ulids(entry.pair), path_mtu: mtu.saturating_sub(more) }
    }
}

/// Octets of the header with a nonce of 96 bits beyond [`MovedRoute::HEADER`], which is what one of 32 bits takes.
const LONGER: u32 = 8;
