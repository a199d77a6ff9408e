use alloc::vec::Vec;

use moorline_types::{ContextId, ContextTag, DropReason, Locator};

use crate::context::Context;
use crate::event::Event;
use crate::key::Key;
use crate::machine::Machine;
use crate::responder::Offer;

/// Confusion: a peer that has lost a context may give its tag to another context (RFC 5533 s7.15).
///
/// Two contexts have the same peer if they have a locator of the peer in common. Of the message that names the tag,
/// only two locators count: the source, at which our R1, R1bis, I1 or I2 has arrived, and the ULID. The other locators
/// in its list do not count, because the owner of any CGA can sign a list with locators of another host.
impl Machine {
    /// Removes the other contexts with the CT(peer) of this context and a common locator of the peer. The peer has lost
    /// them and given their tag to this context (RFC 5533 s7.15). `source` is the source of the message.
    pub(crate) fn resolve_confusion(&mut self, id: ContextId, source: Locator) {
        //= rfc5533#7.15
        //= rfc5533#7.6-2 rfc5533#7.15-1 rfc5533#7.15-2 rfc5533#7.15-3 rfc5533#7.15-5
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let confused = self.confused(context.key, established.peer_tag, source);
        let confused: Vec<_> = confused.map(|other| other.id).collect();
        for id in confused {
            if let Some(context) = self.table.remove(id) {
                self.events.push_back(Event::Confused { context: id, ulids: context.key.ulids });
            }
        }
    }

    /// Refuses an offer that would end a context for which the peer has named the tag later. An attacker may overhear
    /// an I2bis and send it again with a damaged ULID-pair option. Such an I2bis names the tag for another context, as
    /// no validator of an R1bis covers the ULIDs.
    ///
    /// # Errors
    /// [`StaleNonce`](DropReason::StaleNonce): the peer has named the tag for another context since.
    pub(crate) fn check_confusion(
        &self,
        offer: &Offer<'_>,
        source: Locator,
    ) -> Result<(), DropReason> {
        let is_newer = |told_at| self.validators.is_newer(offer.responder_nonce, told_at);
        let mut confused = self.confused(offer.key, offer.initiator_tag, source);
        let is_last =
            confused.all(|other| other.established().is_none_or(|other| is_newer(other.told_at)));
        if is_last { Ok(()) } else { Err(DropReason::StaleNonce) }
    }

    /// The contexts of other keys with this CT(peer) and one of these two locators of the peer.
    fn confused(
        &self,
        key: Key,
        tag: ContextTag,
        source: Locator,
    ) -> impl Iterator<Item = &Context> + '_ {
        let shown = [source, key.ulids.peer.as_locator()];
        self.table.by_peer_tag(tag).filter(move |other| {
            let theirs = other.established().map_or(&[][..], |other| &other.peer.locators);
            other.key != key && theirs.iter().any(|locator| shown.contains(locator))
        })
    }
}
