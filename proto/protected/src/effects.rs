//! Executes the effects of [`moorline_host::Host`] on the stack and the planes.

use alloc::collections::BTreeSet;
use core::net::Ipv6Addr;

use moorline_addresses::{Action, Lifetimes};
use moorline_cga::LocalProof;
use moorline_contexts::Question;
use moorline_datapath::ilnp::{SessionEntry, Update as SessionUpdate};
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_host::{Effect, Node, SessionAddress};
use moorline_stack::Drop;
use moorline_stack::address::Given;
use moorline_stack::stack::{Carried, WireId};
use moorline_types::{ContextId, IlvPair, Instant, Locator, UlidPair};

use crate::host::{Host, News, PREFIX_LEN, Saving, fork};
use crate::sockets::StackSockets;
use crate::view::{ends, wire_of};

impl Host {
    /// Executes all effects of the protocols. Returns whether there were any.
    pub(crate) fn execute_all(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(effect) = self.protocols.poll_effect(now) {
            if self.execute(&effect, now) {
                self.protocols.handle_done(&effect, now);
            } else {
                self.protocols.handle_failed(&effect, now);
            }
            is_any = true;
        }
        is_any
    }

    /// Executes an effect. Returns whether it is done.
    fn execute(&mut self, effect: &Effect, now: Instant) -> bool {
        match effect {
            Effect::UpdateContext(update) => self.update_context(update, now),
            Effect::UpdateSession(update) => self.update_session(update),
            Effect::SetNode(node) => self.set_node(node),
            Effect::SendShim6 { transmit, .. } => {
                self.send_control(&transmit.octets, transmit.locators, now);
            }
            Effect::SendIlnp { transmit, .. } => self.send_ilnp(&transmit.packet, now),
            Effect::NotifyTcp { ulids, .. } => {
                self.stack.handle_move(ulids.local.0, ulids.peer.0, now);
            }
            Effect::ChangeAddress(action) => return self.change_address(action, now).is_ok(),
            Effect::SaveAddresses => return !self.ask_to_save(),
            Effect::SetLocals(locals) => {
                self.set_locals(locals.keys().map(|address| Locator(*address)).collect());
            }
            Effect::Sign(addresses) => {
                let generation = self.protocols.proof().generation().wrapping_add(LocalProof::GENERATIONS);
                let seed = fork(&mut self.random);
                // Hash-based addresses need no signature.
                let proof = LocalProof::new(generation, addresses.clone(), &[], seed);
                self.protocols.set_proof(proof);
                self.ask_to_save();
            }
            Effect::AskUsage(question) => self.answer_usage(*question, now),
            Effect::AddSessionAddress(SessionAddress { ifindex, address }) => {
                return self.add_session_address(wire_of(*ifindex), *address, now).is_ok();
            }
            Effect::RemoveSessionAddress(SessionAddress { ifindex, address }) => {
                self.remove_address(wire_of(*ifindex), *address, now);
            }
            Effect::TellContext(event) => self.tell(News::Context(*event)),
            Effect::TellSession(event) => {
                let (id, pair) = event.subject();
                let known = id.and_then(|id| self.sessions.get(&id).copied());
                let ulids = pair.map(IlvPair::ulids).or(known);
                self.tell(News::Session { ulids, event: *event });
            }
            Effect::TellAddress(note) => self.tell(News::Address(note.clone())),
            Effect::Route(_)
            | Effect::AskRoutes
            | Effect::KeepUlid(_)
            | Effect::ReleaseUlid(_)
            | Effect::AskOffloads
            | Effect::AskSockets(_) => {
                let sockets = StackSockets(&self.stack, now);
                self.routes.execute(effect, &mut self.protocols, &sockets, now);
            }
            // The stack finds the next hop by the source of each packet, so it needs neither rules nor copies of routes. It
            // has solicited routers itself when the link came up.
            Effect::FollowRules
            | Effect::FollowPathRules
            | Effect::FollowDefaultRoutes
            | Effect::AskForwarding
            // The planes see all packets, and there are no contexts of a run before.
            | Effect::Attach { .. }
            | Effect::Detach { .. }
            | Effect::RemoveStale
            // TCP of the stack does not wait for packets that wait for a neighbor, and its sockets keep no route.
            | Effect::GiveUpNeighbors { .. }
            | Effect::FlushCachedRoutes
            | Effect::Introduce { .. }
            // All global addresses are the host's own.
            | Effect::Outrank(_)
            // The host asks no targets, and does not prefer routes.
            | Effect::AskTarget { .. }
            | Effect::PreferRoute(_) => {}
        }
        true
    }

    /// Has the caller save the addresses. Returns false if the caller saves nothing.
    fn ask_to_save(&mut self) -> bool {
        let saves = self.saving != Saving::Never;
        if saves {
            self.saving = Saving::Due;
        }
        saves
    }

    /// Tells the plane of a context, and the stack by which addresses the context's packets leave.
    fn update_context(&mut self, update: &Update, now: Instant) {
        self.planes.shim6.handle_update(update, now);
        match update {
            Update::Upsert(entry) => {
                let before = self.ulids.insert(entry.id, entry.ulids);
                before.filter(|ulids| *ulids != entry.ulids).into_iter().for_each(|ulids| {
                    self.stack.set_carried(addresses(ulids), None);
                });
                self.stack.set_carried(addresses(entry.ulids), carried(entry));
            }
            Update::Remove { context } => self.forget_context(*context),
            Update::Heard { .. } | Update::Rearm { .. } => {}
        }
    }

    fn forget_context(&mut self, context: ContextId) {
        if let Some(ulids) = self.ulids.remove(&context) {
            self.stack.set_carried(addresses(ulids), None);
        }
    }

    /// Tells the plane of a session, and the stack by which addresses the session's packets leave.
    fn update_session(&mut self, update: &SessionUpdate) {
        let Some(plane) = &mut self.planes.ilnp else { return };
        plane.handle_update(update);
        match update {
            SessionUpdate::Upsert(entry) => {
                let ulids = entry.pair.ulids();
                let before = self.sessions.insert(entry.id, ulids);
                before.filter(|before| *before != ulids).into_iter().for_each(|ulids| {
                    self.stack.set_carried(addresses(ulids), None);
                });
                self.stack.set_carried(addresses(ulids), carried_in_session(entry));
            }
            SessionUpdate::Remove { session } => {
                if let Some(ulids) = self.sessions.remove(session) {
                    self.stack.set_carried(addresses(ulids), None);
                }
            }
        }
    }

    /// Gives the plane of ILNP the identifiers of the host.
    fn set_node(&mut self, node: &Node) {
        if let Some(plane) = &mut self.planes.ilnp {
            plane.set_nids(node.nids.clone());
        }
    }

    /// Adds an address that sessions alone need. The sessions may go there at any moment, so the address is optimistic
    /// (RFC 4429).
    fn add_session_address(
        &mut self,
        wire: WireId,
        address: Ipv6Addr,
        now: Instant,
    ) -> Result<(), Drop> {
        let lifetimes = ends(Lifetimes { preferred: 0, valid: u32::MAX }, now);
        let given = Given {
            address,
            prefix_len: SessionAddress::PREFIX_LEN,
            is_generated: true,
            is_optimistic: true,
            lifetimes,
        };
        self.is_view_due = true;
        self.stack.add_address(wire, &given, now)
    }

    fn remove_address(&mut self, wire: WireId, address: Ipv6Addr, now: Instant) {
        self.duplicates.remove(&(wire, address));
        self.stack.remove_address(wire, address, now);
        self.is_view_due = true;
    }

    fn change_address(&mut self, action: &Action, now: Instant) -> Result<(), Drop> {
        let (ifindex, address, lifetimes) = match *action {
            // The stack has asked when the link came up.
            Action::Solicit { .. } => return Ok(()),
            Action::Remove { ifindex, address } => {
                self.remove_address(wire_of(ifindex), address, now);
                return Ok(());
            }
            Action::Add { ifindex, address, preferred } => {
                (ifindex, address, Lifetimes { preferred, valid: u32::MAX })
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => (ifindex, address, lifetimes),
        };
        let lifetimes = ends(lifetimes, now);
        let given = Given {
            address,
            prefix_len: PREFIX_LEN,
            is_generated: true,
            is_optimistic: false,
            lifetimes,
        };
        self.is_view_due = true;
        self.stack.add_address(wire_of(ifindex), &given, now)
    }

    /// Gives the plane the addresses of the host.
    fn set_locals(&mut self, locals: BTreeSet<Locator>) {
        for gone in self.locals.difference(&locals) {
            self.planes.shim6.unset_local(*gone);
        }
        self.locals = locals;
        self.follow_mtus();
    }

    /// Gives the plane the MTU of the link of each address.
    pub(crate) fn follow_mtus(&mut self) {
        for local in &self.locals {
            let mtu = self.protocols.uplink_of(local.0).map(|uplink| uplink.mtu);
            let mtu = mtu.and_then(|mtu| usize::try_from(mtu).ok());
            match mtu {
                Some(mtu) => self.planes.shim6.set_local_with_mtu(*local, mtu),
                None => self.planes.shim6.set_local(*local),
            }
        }
    }

    /// Says whether a quiet context is still needed: a connection may be silent for hours.
    fn answer_usage(&mut self, question: Question, now: Instant) {
        let Question { context, ulids, since } = question;
        let counters = self.planes.shim6.counters(context);
        let is_busy = counters.is_some_and(|one| one.last_tx > since || one.last_rx > since);
        let is_used = is_busy || self.stack.has_connection(ulids.local.0, ulids.peer.0);
        self.protocols.shim6_mut().handle_usage(context, is_used, now);
    }
}

const fn addresses(ulids: UlidPair) -> (Ipv6Addr, Ipv6Addr) {
    (ulids.local.0, ulids.peer.0)
}

/// How the packets of a context leave; `None` if with their ULIDs.
fn carried(entry: &ContextEntry) -> Option<Carried> {
    let (source, destination) = (entry.current.pair.local.0, entry.current.pair.peer.0);
    let overhead = entry.overhead();
    entry.is_moved().then_some(Carried { source, destination, overhead, least: overhead })
}

/// How the packets of a session leave; `None` if with the addresses of the sockets, and not all of them with a nonce.
fn carried_in_session(entry: &SessionEntry) -> Option<Carried> {
    let wire = entry.wire_pair();
    let (source, destination) = (wire.local.address(), wire.remote.address());
    let overhead = u16::try_from(entry.overhead()).unwrap_or(u16::MAX);
    // A segment of TCP may have no nonce.
    entry.needs_route().then_some(Carried { source, destination, overhead, least: 0 })
}
