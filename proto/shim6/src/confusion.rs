use alloc::vec::Vec;

use moorline_types::{ContextId, ContextTag, DropReason, Locators};

use crate::context::Context;
use crate::event::Event;
use crate::key::Key;
use crate::machine::Machine;
use crate::responder::Offer;

impl Machine {
    /// Removes the other contexts with the CT(peer) of this one and a locator of the peer in common: the
    /// peer has lost them, and given their tag to this one (RFC 5533 s7.15).
    pub(crate) fn resolve_confusion(&mut self, id: ContextId) {
        //= rfc5533#7.15
        //= rfc5533#7.6-2 rfc5533#7.15-1 rfc5533#7.15-2 rfc5533#7.15-3 rfc5533#7.15-5
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let locators = &established.peer.locators;
        let confused: Vec<_> = self
            .confused(context.key, established.peer_tag, locators)
            .map(|other| other.id)
            .collect();
        for id in confused {
            if let Some(context) = self.table.remove(id) {
                self.push_event(Event::Confused { context: id, ulids: context.key.ulids });
            }
        }
    }

    /// A tag is of the context that the peer has named it for last. An I2bis that was overheard and comes again names another
    /// one if its ULID-pair option is damaged: no validator of an R1bis covers the ULIDs.
    pub(crate) fn check_confusion(
        &self,
        offer: &Offer<'_>,
        locators: &Locators,
    ) -> Result<(), DropReason> {
        let is_newer = |told_at| self.validators.is_newer(offer.responder_nonce, told_at);
        let mut confused = self.confused(offer.key, offer.initiator_tag, locators);
        let is_last =
            confused.all(|other| other.established().is_none_or(|other| is_newer(other.told_at)));
        if is_last { Ok(()) } else { Err(DropReason::StaleNonce) }
    }

    /// The contexts of other ULIDs with this CT(peer) and one of these locators of the peer.
    fn confused<'a>(
        &'a self,
        key: Key,
        tag: ContextTag,
        locators: &'a Locators,
    ) -> impl Iterator<Item = &'a Context> + 'a {
        self.table.by_peer_tag(tag).filter(move |other| {
            let theirs = other.established().map_or(&[][..], |other| &other.peer.locators);
            other.key != key && theirs.iter().any(|locator| locators.contains(locator))
        })
    }
}
