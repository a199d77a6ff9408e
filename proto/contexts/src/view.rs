use alloc::vec::Vec;

use moorline_datapath::shim6::ContextEntry;
use moorline_reap::State;
use moorline_shim6::{Failure, Role};
use moorline_types::{ContextId, Instant, Locator, LocatorPair, Ulid, UlidPair};

use crate::event::Cause;
use crate::machine::Contexts;

/// A context as people and the API see it; no tags in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextView {
    /// Slot.
    pub id: ContextId,
    /// The addresses sockets see.
    pub ulids: UlidPair,
    /// Forked Instance Identifier; zero: no fork.
    pub forked_instance: u32,
    /// RFC 5533's name of the state, in lower case with hyphens.
    pub state: &'static str,
    /// The rest, once it is established.
    pub established: Option<EstablishedView>,
}

/// What an established context adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstablishedView {
    /// Which side we were.
    pub role: Role,
    /// REAP's state.
    pub reap: State,
    /// Addresses of what we send.
    pub locators: LocatorPair,
    /// When the current pair was chosen.
    pub since: Instant,
    /// Why; `None`: it is the ULID pair it began with, or the context is of a run before.
    pub cause: Option<Cause>,
    /// Our locators that the peer can verify.
    pub local_locators: Vec<Locator>,
    /// The peer's, verified.
    pub peer_locators: Vec<Locator>,
}

/// A pair that is not tried for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeView {
    /// Between these addresses.
    pub ulids: UlidPair,
    /// E-FAILED or NO-SUPPORT.
    pub failure: Failure,
    /// When it is forgotten.
    pub until: Instant,
}

impl Contexts {
    /// All contexts, by slot.
    pub fn contexts(&self) -> impl Iterator<Item = ContextView> + '_ {
        self.shim6.contexts().map(|context| self.view_of(context))
    }

    /// The context in this slot.
    #[must_use]
    pub fn context(&self, id: ContextId) -> Option<ContextView> {
        self.shim6.context(id).map(|context| self.view_of(context))
    }

    /// What the data plane is told of the context in this slot.
    #[must_use]
    pub fn entry_of(&self, id: ContextId) -> Option<ContextEntry> {
        self.entry(self.shim6.context(id)?)
    }

    /// All contexts as the data plane has them.
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

    /// Our addresses that can be sent from, as far as the host was told.
    #[must_use]
    pub fn usable(&self) -> &[Locator] {
        &self.usable
    }

    /// Whether peers that know us by this address can be told others.
    #[must_use]
    pub fn is_provable(&self, ulid: Ulid) -> bool {
        self.shim6.is_provable(ulid)
    }

    /// Pairs in E-FAILED and NO-SUPPORT.
    pub fn negatives(&self) -> impl Iterator<Item = NegativeView> + '_ {
        self.shim6.negatives().map(|(ulids, failure, until)| NegativeView { ulids, failure, until })
    }
}
