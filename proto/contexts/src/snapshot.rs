use core::ops::Range;

use moorline_datapath::shim6::{MAX_PEER_LOCATORS, PairInUse};
use moorline_reap as reap;
use moorline_shim6::{Established, Key, PeerSet, Role};
use moorline_types::{ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, Locators};
use serde::{Deserialize, Serialize};

use crate::machine::Contexts;

/// The data with which another run of the host continues an established context. The data holds the tags, so it is as
/// secret as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSnapshot {
    /// Slot in the data plane.
    pub id: ContextId,
    /// The ULIDs, and which of several contexts between them this one is.
    pub key: Key,
    /// The tag in packets from the peer.
    pub local_tag: ContextTag,
    /// The tag in packets to the peer.
    pub peer_tag: ContextTag,
    /// The current locator pair.
    pub locators: LocatorPair,
    /// Our locators that the peer can verify.
    pub local_locators: Locators,
    /// The verified data that the peer has told about itself.
    pub peer: PeerSet,
    /// Whether the peer may have been told preferences for our locators.
    pub told_preferences: bool,
    /// Whether the peer has shown that it knows checks. Earlier versions did not store this.
    #[serde(default)]
    pub knows_checks: bool,
    /// Whether traffic has used the context. Earlier versions did not store this.
    #[serde(default)]
    pub has_traffic: bool,
    /// Side of this host.
    pub role: Role,
    /// Cause of the last move. Earlier versions, which wrote all other fields by their names, did not store this.
    #[serde(skip)]
    pub cause: Option<reap::Cause>,
}

impl ContextSnapshot {
    /// Corrects the current pair by a data plane that has outlived the earlier run: a crash may come after a move and
    /// before its save. The data plane knew both locators to be verified, so the lists get them if they lack them.
    pub fn handle_in_use(&mut self, found: PairInUse) {
        let PairInUse { ulids, local_tag, peer_tag, pair } = found;
        let is_same = (ulids, local_tag, peer_tag)
            == (self.key.ulids, self.local_tag, self.peer_tag)
            // No payload leaves by a fork.
            && self.key.forked_instance == 0;
        if !is_same || pair == self.locators {
            return;
        }
        let lists = (with(&self.local_locators, pair.local), with(&self.peer.locators, pair.peer));
        if let (Some(local), Some(peer)) = lists {
            (self.local_locators, self.peer.locators) = (local, peer);
            (self.locators, self.cause) = (pair, None);
        }
    }
}

/// A list with this locator. `None`: the list has no room.
fn with(known: &Locators, locator: Locator) -> Option<Locators> {
    if known.contains(&locator) {
        return Some(known.clone());
    }
    (known.len() < MAX_PEER_LOCATORS).then(|| known.iter().copied().chain([locator]).collect())
}

impl Contexts {
    /// The established contexts in their present state, and those that still wait to be restored.
    pub fn snapshot(&self) -> impl Iterator<Item = ContextSnapshot> + '_ {
        self.snapshot_in(0..self.slots())
    }

    /// Number of slots that contexts have, or wait for.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.shim6.slots().max(self.waiting.slots())
    }

    /// The [`snapshot`](Self::snapshot) of the contexts in these slots. A context that waits is restored into its slot, so
    /// snapshots of all slots, taken one after the other, miss no context and have none twice.
    pub fn snapshot_in(&self, slots: Range<u32>) -> impl Iterator<Item = ContextSnapshot> + '_ {
        slots
            .map(ContextId)
            .filter_map(|id| self.snapshot_of(id).or_else(|| self.waiting.get(id).cloned()))
    }

    fn snapshot_of(&self, id: ContextId) -> Option<ContextSnapshot> {
        let context = self.shim6.context(id)?;
        let established = context.established()?;
        let active = self.active.get(&id)?;
        Some(ContextSnapshot {
            id,
            key: context.key,
            local_tag: context.local_tag,
            peer_tag: established.peer_tag,
            locators: active.reap.current_pair(),
            local_locators: established.local_locators.clone(),
            peer: established.peer.clone(),
            told_preferences: self.shim6.has_told_preferences(),
            knows_checks: active.reap.knows_checks(),
            has_traffic: context.has_traffic(),
            role: established.role,
            cause: active.cause,
        })
    }

    /// Continues a context of an earlier run. The caller must have set the addresses by
    /// [`handle_local`](Self::handle_local) before. The data plane gets an upsert. If a data plane outlived the earlier
    /// run, the upsert does not change its traffic. The peer is told our locators again.
    pub fn restore(&mut self, snapshot: ContextSnapshot, now: Instant) -> Result<(), DropReason> {
        self.restore_untold(snapshot, now)?;
        self.tell_restored(now);
        Ok(())
    }

    /// Tells the peers of restored contexts our locators, each in its turn.
    pub(crate) fn tell_restored(&mut self, now: Instant) {
        self.shim6.tell_restored(now);
        self.drain_shim6(now);
    }

    /// Continues a context without a word to its peer.
    pub(crate) fn restore_untold(
        &mut self,
        snapshot: ContextSnapshot,
        now: Instant,
    ) -> Result<(), DropReason> {
        let ulids = snapshot.key.ulids;
        let local = snapshot.locators.local;
        // While it is not certain what the peer was told, payload may leave from another locator of ours. The pair
        // stays current until another one is found, even if its local locator has gone or the peer has withdrawn its
        // own. REAP looks for another pair at once.
        let is_ours = snapshot.local_locators.contains(&local)
            || self.usable.contains(&local)
            || self.shim6.is_provable(local.as_ulid());
        if !is_ours || !snapshot.peer.locators.contains(&ulids.peer.as_locator()) {
            return Err(DropReason::WrongLocators);
        }
        if snapshot.told_preferences {
            self.shim6.succeed_to_preferences(&snapshot.local_locators);
        }
        // Contexts with the same locators continue to share them.
        let (known, _) = &self.usable_of;
        let local_locators =
            if *known == snapshot.local_locators { known.clone() } else { snapshot.local_locators };
        let told = local_locators.clone();
        let established = Established::new(
            snapshot.peer_tag,
            local_locators,
            // The next list of the peer sets this again.
            PeerSet { has_lost_ulid: false, ..snapshot.peer },
            snapshot.role,
        );
        self.shim6.restore(snapshot.id, snapshot.key, snapshot.local_tag, established)?;
        if snapshot.has_traffic || snapshot.locators != ulids.as_locators() {
            self.shim6.handle_traffic(snapshot.id);
        }
        self.note_gone(told.iter().copied().chain([ulids.local.as_locator(), local]));
        self.activate(snapshot.id, snapshot.locators, now);
        if let Some(active) = self.active.get_mut(&snapshot.id) {
            active.cause = snapshot.cause;
        }
        if snapshot.knows_checks {
            self.change(snapshot.id, now, reap::Machine::handle_known_checks);
        }
        self.drain_shim6(now);
        Ok(())
    }
}
