//! Packets that their sender has cut into fragments.
//!
//! A nonce behind the Fragment header is in the first fragment alone, and so are the ports (RFC 8200 s4.5). If the
//! correspondent has moved, the addresses of a later fragment do not show its session. So the plane remembers the
//! session of each first fragment that came by other addresses than those of the sockets. If a later fragment overtakes
//! the first one, the stack gets it as it is, and the packet is lost.

use alloc::collections::VecDeque;

use moorline_types::{IlvPair, SessionId};
use moorline_wire::ip6::{Fragment, fragment};

use super::Plane;
use crate::ilnp::packet::Ip6;

/// The last first fragments, the oldest first; at most [`MAX_FRAGMENTED`].
#[derive(Debug, Default)]
pub(super) struct Fragments(VecDeque<Fragmented>);

/// A packet whose first fragment has come.
#[derive(Clone, Copy, Debug)]
struct Fragmented {
    pair: IlvPair,
    /// Identification of the Fragment header.
    number: u32,
    /// The session, as the machine names it.
    session: SessionId,
}

impl Plane {
    /// Remembers the session of a first fragment that came by other addresses than those of the session.
    pub(super) fn note_fragment(
        &mut self,
        packet: &[u8],
        (ip6, pair): (Ip6, IlvPair),
        slot: SessionId,
    ) {
        let Some(entry) = self.sessions.get(slot).map(|flow| &flow.entry) else { return };
        let cut = if entry.pair == pair { None } else { fragment(packet, &ip6.header) };
        if let Some(Fragment { identification: number, offset: 0, has_more: true, .. }) = cut {
            let all = &mut self.fragments.0;
            all.retain(|one| (one.pair, one.number) != (pair, number));
            if all.len() == MAX_FRAGMENTED {
                all.pop_front();
            }
            all.push_back(Fragmented { pair, number, session: entry.id });
        }
    }

    /// The session of a later fragment, by the first fragment of its packet.
    pub(super) fn session_of_fragment(
        &self,
        packet: &[u8],
        (ip6, pair): (Ip6, IlvPair),
    ) -> Option<SessionId> {
        let later = fragment(packet, &ip6.header).filter(|later| later.offset > 0)?;
        let mut all = self.fragments.0.iter().rev();
        let first = all.find(|one| (one.pair, one.number) == (pair, later.identification))?;
        let slot = self.slots.get(&first.session).copied()?;
        // Another session may have the number by now.
        let is_of_node = self.sessions.key(slot).is_some_and(|(own, _)| own.nids() == pair.nids());
        is_of_node.then_some(slot)
    }
}

/// Largest number of packets whose first fragments are remembered: 64.
const MAX_FRAGMENTED: usize = 64;
