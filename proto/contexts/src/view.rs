use alloc::vec::Vec;

use moorline_datapath::shim6::ContextEntry;
use moorline_reap::State;
use moorline_shim6::{Failure, Role};
use moorline_types::{ContextId, Instant, Locator, LocatorPair, Ulid, UlidPair};

use crate::event::Cause;
use crate::machine::Contexts;
use crate::tally::Class;

/// A context for people and the API, without tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextView {
    /// Slot.
    pub id: ContextId,
    /// The addresses sockets see.
    pub ulids: UlidPair,
    /// Forked Instance Identifier. Zero: the context is no fork.
    pub forked_instance: u32,
    /// Name of the state in RFC 5533, in lower case with hyphens.
    pub state: &'static str,
    /// The rest of the view, once the context is established.
    pub established: Option<EstablishedView>,
}

/// View of an established context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstablishedView {
    /// Side of this host.
    pub role: Role,
    /// State of REAP.
    pub reap: State,
    /// Addresses of outgoing payload.
    pub locators: LocatorPair,
    /// When the current pair was chosen.
    pub since: Instant,
    /// Why the pair was chosen. `None`: it is the ULID pair of the beginning, or the context is from an earlier run.
    pub cause: Option<Cause>,
    /// Our locators that the peer can verify.
    pub local_locators: Vec<Locator>,
    /// Verified locators of the peer.
    pub peer_locators: Vec<Locator>,
}

/// A pair of ULIDs that the host does not try for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeView {
    /// The ULIDs.
    pub ulids: UlidPair,
    /// E-FAILED or NO-SUPPORT.
    pub failure: Failure,
    /// End of the entry.
    pub until: Instant,
}

impl Contexts {
    /// All contexts, by slot.
    pub fn contexts(&self) -> impl Iterator<Item = ContextView> + '_ {
        self.contexts_after(None)
    }

    /// The contexts behind this slot, or all of them, by slot.
    pub fn contexts_after(
        &self,
        slot: Option<ContextId>,
    ) -> impl Iterator<Item = ContextView> + '_ {
        let first = slot.map_or(0, |ContextId(slot)| slot.saturating_add(1));
        self.shim6.contexts_from(ContextId(first)).map(|context| self.view_of(context))
    }

    /// Number of contexts in any state, without those of an earlier run that wait.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.shim6.count()
    }

    /// Whether there are no contexts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers of established contexts by class.
    pub fn counts(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        self.tally.iter()
    }

    /// The slots of the established contexts behind this slot, or of all of them, in order.
    pub fn established_after(
        &self,
        slot: Option<ContextId>,
    ) -> impl Iterator<Item = ContextId> + '_ {
        let first = slot.map_or(0, |ContextId(slot)| slot.saturating_add(1));
        let contexts = self.shim6.contexts_from(ContextId(first));
        contexts.filter(|context| context.established().is_some()).map(|context| context.id)
    }

    /// Our locator in the current pair of each established context, by slot.
    pub fn current_locals(&self) -> impl Iterator<Item = (ContextId, Locator)> + '_ {
        let local = |id: ContextId| Some((id, self.active.get(&id)?.reap.current_pair().local));
        self.shim6.contexts().filter_map(move |context| local(context.id))
    }

    /// The ULIDs of all contexts, by slot.
    pub fn ulid_pairs(&self) -> impl Iterator<Item = UlidPair> + '_ {
        self.shim6.contexts().map(|context| context.key.ulids)
    }

    /// The slots of the context between these ULIDs and of the contexts forked from it.
    pub fn of_pair(&self, ulids: UlidPair) -> impl Iterator<Item = ContextId> + '_ {
        self.shim6.of_pair(ulids).map(|context| context.id)
    }

    /// The context in this slot.
    #[must_use]
    pub fn context(&self, id: ContextId) -> Option<ContextView> {
        self.shim6.context(id).map(|context| self.view_of(context))
    }

    /// The entry that the data plane is told for the context in this slot.
    #[must_use]
    pub fn entry_of(&self, id: ContextId) -> Option<ContextEntry> {
        self.entry(self.shim6.context(id)?)
    }

    /// The entries of all contexts in the data plane.
    pub fn entries(&self) -> impl Iterator<Item = ContextEntry> + '_ {
        self.shim6.contexts().filter_map(|context| self.entry(context))
    }

    fn view_of(&self, context: &moorline_shim6::Context) -> ContextView {
        let established = context.established().and_then(|established| {
            let active = self.active.get(&context.id)?;
            Some(EstablishedView {
                role: established.role,
                reap: active.reap.state(),
                locators: active.reap.current_pair(),
                since: active.since,
                cause: active.cause,
                local_locators: established.local_locators.to_vec(),
                peer_locators: established.peer.locators.to_vec(),
            })
        });
        ContextView {
            id: context.id,
            ulids: context.key.ulids,
            forked_instance: context.key.forked_instance,
            state: context.state().as_str(),
            established,
        }
    }

    /// Our addresses that this host can send from, as far as the machine knows.
    #[must_use]
    pub fn usable(&self) -> &[Locator] {
        &self.usable
    }

    /// Whether this host can tell other locators to peers that know it by this address.
    #[must_use]
    pub fn is_provable(&self, ulid: Ulid) -> bool {
        self.shim6.is_provable(ulid)
    }

    /// Pairs in E-FAILED and NO-SUPPORT.
    pub fn negatives(&self) -> impl Iterator<Item = NegativeView> + '_ {
        self.shim6.negatives().map(|(ulids, failure, until)| NegativeView { ulids, failure, until })
    }
}
