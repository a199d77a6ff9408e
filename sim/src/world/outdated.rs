//! Locator Updates that arrive after newer ones. Without the handshake they have no numbers (RFC 6743), so their
//! receiver cannot know their order.

use std::collections::{BTreeMap, BTreeSet};

use moorline_types::{IlvPair, Nid};
use moorline_wire::ilnp::{Control, L64Entry, LocatorUpdate, Operation};

use super::World;
use crate::recovery::Watch;
use crate::workload::Side;

/// What each node has last told another, and which nodes have since read an older Locator Update.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By identifiers of sender and receiver.
    latest: BTreeMap<[Nid; 2], Vec<L64Entry>>,
    outdated: BTreeSet<[Nid; 2]>,
}

impl Told {
    pub(super) fn on_sent(&mut self, packet: &[u8]) {
        if let Some((nids, locators)) = advertisement(packet) {
            self.latest.insert(nids, locators);
        }
    }

    /// Notes an arrival. Returns the identifiers if the Locator Update is not the last one that was sent.
    fn on_arrived(&mut self, packet: &[u8]) -> Option<[Nid; 2]> {
        let (nids, locators) = advertisement(packet)?;
        if *self.latest.get(&nids)? == locators {
            self.outdated.remove(&nids);
            return None;
        }
        self.outdated.insert(nids);
        Some(nids)
    }

    /// Whether either node has read an older Locator Update of the other after a newer one.
    pub(super) fn is_outdated(&self, (one, other): (Nid, Nid)) -> bool {
        self.outdated.contains(&[one, other]) || self.outdated.contains(&[other, one])
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
