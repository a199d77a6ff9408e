use alloc::collections::BTreeSet;

use moorline_datapath::shim6::ContextEntry;
use moorline_shim6::Failure;
use moorline_types::{DropReason, Instant, Locator, LocatorPair};
use moorline_wire::{PAYLOAD_HEADER_LEN, PayloadHeader};

use crate::event::Removal;
use crate::machine::Contexts;

/// A host that knows no Shim6 any more, at the other end or here (decision 094).
impl Contexts {
    /// Payload of a context that has moved came to a host without Shim6. With the tag, by locators that it takes, and
    /// from a locator of the peer that is as hard to forge as an R1bis.
    pub(crate) fn on_payload_refused(
        &mut self,
        quoted: &[u8],
        locators: LocatorPair,
        source: Locator,
        now: Instant,
    ) -> Result<(), DropReason> {
        let tag = PayloadHeader::parse(quoted)?.tag;
        let context = self.shim6.by_peer_tag(tag, locators).ok_or(DropReason::UnknownTag)?;
        let entry = self.entry(context).ok_or(DropReason::NotEstablished)?;
        if !entry.peer_locators.contains(&source) {
            return Err(DropReason::WrongLocators);
        }
        if !tagged(&entry).contains(&locators) {
            return Err(DropReason::Disbelieved);
        }
        self.shim6.give_up(entry.id, Failure::NoSupport, now);
        self.on_removed(entry.id, entry.ulids, Removal::NoSupport);
        Ok(())
    }

    /// What peers send on contexts that have moved, as far as we know: the header of payload, and the addresses on it.
    /// A host that ends refuses it, so that they need not find out.
    pub fn payload_to_refuse(
        &self,
    ) -> impl Iterator<Item = ([u8; PAYLOAD_HEADER_LEN], LocatorPair)> + '_ {
        let entries = self.shim6.contexts().filter_map(|context| self.entry(context));
        entries.flat_map(|entry| {
            let header = PayloadHeader { next_header: NO_NEXT_HEADER, tag: entry.local_tag };
            tagged(&entry).into_iter().map(move |locators| (header.emit(), locators))
        })
    }
}

/// The pairs that payload with a tag takes.
fn tagged(entry: &ContextEntry) -> BTreeSet<LocatorPair> {
    entry.all_paths().filter(|path| path.is_moved()).map(|path| path.pair).collect()
}

/// RFC 8200 s4.7.
const NO_NEXT_HEADER: u8 = 59;
