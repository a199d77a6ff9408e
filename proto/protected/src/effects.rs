//! Executes the effects of [`moorline_host::Host`] on the stack and the planes.

use alloc::collections::BTreeSet;

use moorline_addresses::{Action, Lifetimes};
use moorline_cga::LocalProof;
use moorline_contexts::Question;
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_host::Effect;
use moorline_stack::Drop;
use moorline_stack::address::Given;
use moorline_stack::stack::Carried;
use moorline_types::{ContextId, Instant, Locator, UlidPair};

use crate::host::{Host, News, fork};
use crate::packets::NO_SOCKETS;
use crate::view::{ends, wire_of};

impl Host {
    /// Executes all effects of the protocols. Returns whether there were any.
    pub(crate) fn execute_all(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(effect) = self.protocols.poll_effect(now) {
            match self.execute(&effect, now) {
                Ok(()) => self.protocols.handle_done(&effect, now),
                Err(_) => self.protocols.handle_failed(&effect, now),
            }
            is_any = true;
        }
        is_any
    }

    fn execute(&mut self, effect: &Effect, now: Instant) -> Result<(), Drop> {
        match effect {
            Effect::UpdateContext(update) => self.update_context(update, now),
            Effect::SendShim6 { transmit, .. } => {
                self.send_control(&transmit.octets, transmit.locators, now);
            }
            Effect::NotifyTcp { ulids, .. } => {
                self.stack.handle_move(ulids.local.0, ulids.peer.0, now);
            }
            Effect::ChangeAddress(action) => return self.change_address(action, now),
            Effect::SetLocals(locals) => {
                self.set_locals(locals.keys().map(|address| Locator(*address)).collect());
            }
            Effect::Sign(addresses) => {
                let generation = self.protocols.proof().generation().wrapping_add(LocalProof::GENERATIONS);
                let seed = fork(&mut self.random);
                // Hash-based addresses need no signature.
                let proof = LocalProof::new(generation, addresses.clone(), &[], seed);
                self.protocols.set_proof(proof);
            }
            Effect::AskUsage(question) => self.answer_usage(*question, now),
            Effect::TellContext(event) => self.tell(News::Context(*event)),
            Effect::TellAddress(note) => self.tell(News::Address(note.clone())),
            Effect::Route(_)
            | Effect::AskRoutes
            | Effect::KeepUlid(_)
            | Effect::ReleaseUlid(_)
            | Effect::AskOffloads
            | Effect::AskSockets(_) => {
                self.routes.execute(effect, &mut self.protocols, &NO_SOCKETS, now);
            }
            // The stack finds the next hop by the source of each packet, so it needs neither rules nor copies of routes. It
            // has solicited routers itself when the link came up.
            Effect::FollowRules
            | Effect::FollowPathRules
            | Effect::FollowDefaultRoutes
            | Effect::AskForwarding
            // The planes see all packets, and there is no run before.
            | Effect::Attach { .. }
            | Effect::Detach { .. }
            | Effect::RemoveStale
            | Effect::SaveAddresses
            // TCP of the stack does not wait for packets that wait for a neighbor, and its sockets keep no route.
            | Effect::GiveUpNeighbors { .. }
            | Effect::FlushCachedRoutes
            | Effect::Introduce { .. }
            // All global addresses are the host's own.
            | Effect::Outrank(_)
            // The host asks no targets, and does not prefer routes.
            | Effect::AskTarget { .. }
            | Effect::PreferRoute(_)
            // There is no ILNP.
            | Effect::UpdateSession(_)
            | Effect::SetNode(_)
            | Effect::AddSessionAddress(_)
            | Effect::RemoveSessionAddress(_)
            | Effect::SendIlnp { .. }
            | Effect::TellSession(_) => {}
        }
        Ok(())
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

    fn change_address(&mut self, action: &Action, now: Instant) -> Result<(), Drop> {
        let (ifindex, address, lifetimes) = match *action {
            // The stack has asked when the link came up.
            Action::Solicit { .. } => return Ok(()),
            Action::Remove { ifindex, address } => {
                self.duplicates.remove(&(wire_of(ifindex), address));
                self.stack.remove_address(wire_of(ifindex), address, now);
                self.is_view_due = true;
                return Ok(());
            }
            Action::Add { ifindex, address, preferred } => {
                (ifindex, address, Lifetimes { preferred, valid: u32::MAX })
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => (ifindex, address, lifetimes),
        };
        let lifetimes = ends(lifetimes, now);
        let given = Given { address, prefix_len: PREFIX_LEN, is_generated: true, lifetimes };
        self.is_view_due = true;
        self.stack.add_address(wire_of(ifindex), &given, now)
    }

    /// Gives the plane the addresses of the host, each with the MTU of its link.
    fn set_locals(&mut self, locals: BTreeSet<Locator>) {
        for gone in self.locals.difference(&locals) {
            self.planes.shim6.unset_local(*gone);
        }
        for local in &locals {
            let mtu = self.protocols.uplink_of(local.0).map(|uplink| uplink.mtu);
            let mtu = mtu.and_then(|mtu| usize::try_from(mtu).ok());
            match mtu {
                Some(mtu) => self.planes.shim6.set_local_with_mtu(*local, mtu),
                None => self.planes.shim6.set_local(*local),
            }
        }
        self.locals = locals;
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

const fn addresses(ulids: UlidPair) -> (core::net::Ipv6Addr, core::net::Ipv6Addr) {
    (ulids.local.0, ulids.peer.0)
}

/// How the packets of a context leave; `None` if with their ULIDs.
fn carried(entry: &ContextEntry) -> Option<Carried> {
    let (source, destination) = (entry.current.pair.local.0, entry.current.pair.peer.0);
    entry.is_moved().then(|| Carried { source, destination, overhead: entry.overhead() })
}

/// Length of the prefix of an address that the host makes.
const PREFIX_LEN: u8 = 64;
