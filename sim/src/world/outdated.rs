//! Locator Updates that arrive after newer ones. Without the handshake they have no numbers (RFC 6743), so their
//! receiver cannot know their order.

use std::collections::BTreeMap;

use moorline_types::{IlvPair, Nid};
use moorline_wire::ilnp::{Control, L64Entry, LocatorUpdate, Operation};

use super::World;
use crate::recovery::Watch;
use crate::workload::Side;

/// What each node has told another, and what the other has read of it.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By identifiers of sender and receiver.
    by_nodes: BTreeMap<[Nid; 2], Sequence>,
}

/// The Locator Updates of one node to another, each different from the one before, in the order in which they were sent.
#[derive(Debug, Default)]
struct Sequence {
    sent: Vec<Vec<L64Entry>>,
    /// Place of the newest one that has arrived.
    newest: Option<usize>,
    /// Whether the last one that arrived is older.
    is_outdated: bool,
}

impl Sequence {
    fn on_sent(&mut self, locators: Vec<L64Entry>) {
        if self.sent.last() != Some(&locators) {
            self.sent.push(locators);
        }
    }

    /// Notes an arrival. Returns whether the receiver has read a newer Locator Update before.
    fn on_arrived(&mut self, locators: &[L64Entry]) -> bool {
        // Equal Locator Updates say the same, so the last place counts.
        let Some(place) = self.sent.iter().rposition(|sent| sent == locators) else { return false };
        self.is_outdated = self.newest.is_some_and(|newest| place < newest);
        self.newest = self.newest.max(Some(place));
        self.is_outdated
    }
}

impl Told {
    pub(super) fn on_sent(&mut self, packet: &[u8]) {
        if let Some((nids, locators)) = advertisement(packet) {
            self.by_nodes.entry(nids).or_default().on_sent(locators);
        }
    }

    /// Notes an arrival. Returns the identifiers if the receiver has read a newer Locator Update before. A Locator Update
    /// that arrives while a newer one is under way, or lost, is the best that the receiver can know: the sender repeats
    /// the newer one.
    fn on_arrived(&mut self, packet: &[u8]) -> Option<[Nid; 2]> {
        let (nids, locators) = advertisement(packet)?;
        self.by_nodes.get_mut(&nids)?.on_arrived(&locators).then_some(nids)
    }

    /// Whether either node has read an older Locator Update of the other after a newer one.
    pub(super) fn is_outdated(&self, (one, other): (Nid, Nid)) -> bool {
        let both = [[one, other], [other, one]];
        both.iter().any(|nids| self.by_nodes.get(nids).is_some_and(|told| told.is_outdated))
    }
}

impl World<'_> {
    /// Notes the arrival of a packet between a node with ILNP by the RFCs alone and another. After an older Locator
    /// Update the receiver sends to locators that may have failed, so nothing is promised until the next one.
    pub(super) fn note_told(&mut self, packet: &[u8]) {
        let Some(nids) = self.told.on_arrived(packet) else { return };
        for index in 0..self.watches.len() {
            let Watch { workload: number, to, .. } = self.watches[index];
            let (one, other) = IlvPair::of(self.workloads[&number].ulids_of(Side::From)).nids();
            if nids == [one, other] || nids == [other, one] {
                let late = self.watches[index].release(self.now);
                self.on_late(number, to, late);
            }
        }
    }
}

/// Identifiers of sender and receiver, and locators, of an advertisement.
fn advertisement(packet: &[u8]) -> Option<([Nid; 2], Vec<L64Entry>)> {
    let Control { pair, message, .. } = Control::read(packet).ok()?;
    let (src, dst) = (pair.remote.address(), pair.local.address());
    let update = LocatorUpdate::parse(message, src, dst).ok()?;
    let is_advertisement = update.operation == Operation::ADVERTISEMENT;
    is_advertisement.then_some(([pair.remote.nid, pair.local.nid], update.locators))
}

#[cfg(test)]
mod tests {
    use moorline_types::L64;

    use super::*;

    fn entry(preference: u16) -> Vec<L64Entry> {
        vec![L64Entry { preference, l64: L64(1), lifetime: 60 }]
    }

    #[test]
    fn a_locator_update_is_outdated_only_after_a_newer_one_has_arrived() {
        let mut told = Sequence::default();
        told.on_sent(entry(1));
        told.on_sent(entry(2));
        assert!(!told.on_arrived(&entry(1)), "the newer one is under way, or lost");
        assert!(!told.on_arrived(&entry(2)));
        assert!(told.on_arrived(&entry(1)) && told.is_outdated, "a late copy");
        assert!(!told.on_arrived(&entry(2)) && !told.is_outdated, "sent again");
        told.on_sent(entry(1));
        assert!(!told.on_arrived(&entry(1)), "a late copy says the same as the last one");
    }
}
