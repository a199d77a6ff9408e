use alloc::vec::Vec;

use moorline_types::ContextId;

use crate::context::Context;
use crate::event::Event;
use crate::machine::Machine;

impl Machine {
    /// Removes the other contexts with the CT(peer) of this one and a locator of the peer in common: the
    /// peer has lost them, and given their tag to this one (RFC 5533 s7.15).
    pub(crate) fn resolve_confusion(&mut self, id: ContextId) {
        //= rfc5533#7.15
        //= rfc5533#7.6-2 rfc5533#7.15-1 rfc5533#7.15-2 rfc5533#7.15-3 rfc5533#7.15-5
        let Some(context) = self.table.get(id) else { return };
        let Some(established) = context.established() else { return };
        let is_of_same_peer = |other: &&Context| {
            let theirs = other.established().map_or(&[][..], |other| &other.peer.locators);
            other.id != id && theirs.iter().any(|l| established.peer.locators.contains(l))
        };
        let same_tag = self.table.by_peer_tag(established.peer_tag);
        let confused: Vec<_> = same_tag.filter(is_of_same_peer).map(|other| other.id).collect();
        for id in confused {
            if let Some(context) = self.table.remove(id) {
                self.push_event(Event::Confused { context: id, ulids: context.key.ulids });
            }
        }
    }
}
