use alloc::vec::Vec;

use moorline_datapath::ilnp::Sockets;
use moorline_types::{IlvPair, SessionId};

use super::plane::{Flow, Plane};
use moorline_wire::ip6::{UDP, Upper};

/// Origin of a packet whose nonce and addresses show no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whence {
    /// The packet comes from a locator that this session names, and claims the session's socket.
    Session(SessionId),
    /// The packet comes from a locator that a session names, and claims no session's socket.
    Named,
    /// The packet comes from a locator that a session names, and claims the socket of a session to which it does not
    /// belong.
    Claimed,
    /// The packet comes from a locator that no session names, and claims the socket of a session.
    Nowhere,
    /// The packet comes from another node, even if its identifier is the same.
    Elsewhere,
}

impl Plane {
    /// Chooses among the sessions that share the nonce of a correspondent without the handshake (decision 149). The
    /// session whose socket the packet claims comes first: a correspondent that has moved sends from addresses that
    /// another session may have. If there is no such socket, the session of the packet's addresses is chosen. Of
    /// equal sessions the first is chosen, by number. `slot` is one of these sessions.
    pub(super) fn sibling_of(
        &self,
        slot: SessionId,
        pair: IlvPair,
        upper: &Upper,
        sockets: &dyn Sockets,
    ) -> SessionId {
        let (local, remote) = pair.nids();
        let nonce = self.sessions.key(slot).and_then(|(_, nonce)| nonce);
        let has_handshake = self.sessions.get(slot).is_none_or(|flow| flow.entry.maps_tcp);
        let is_alone = || self.sessions.between(local, remote).nth(1).is_none();
        if has_handshake || nonce.is_none() || is_alone() {
            return slot;
        }
        let ports = upper.reversed().ports.unwrap_or_default();
        let rank = |other: SessionId| {
            let (own, _) = self.sessions.key(other).filter(|(_, known)| *known == nonce)?;
            let has_socket = sockets.has_connection(own, upper.protocol, ports);
            let number = self.sessions.get(other)?.entry.id;
            Some((!has_socket, own != pair, number, other))
        };
        let all = self.sessions.between(local, remote).filter_map(rank);
        all.min().map_or(slot, |(.., best)| best)
    }

    /// Finds the origin of a packet. Two nodes may have the same identifier. So a locator that no session between the
    /// two nodes names belongs to another node, unless the packet claims the socket of a session. Such a packet goes
    /// neither to the session nor to the stack: the stack would answer a segment with a reset, although the
    /// correspondent's Locator Update may only be late. Of equal sessions the first is chosen, by number.
    //= rfc6744#4-2
    //= rfc6741#5.4-2 rfc6741#5.4-3 rfc6741#11.2-1
    pub(super) fn whence(
        &self,
        packet: &[u8],
        pair: IlvPair,
        upper: &Upper,
        sockets: &dyn Sockets,
    ) -> Whence {
        let (local, remote) = pair.nids();
        let ports = upper.reversed().ports.unwrap_or_default();
        let has_socket = |pair| sockets.has_connection(pair, upper.protocol, ports);
        let is_within_tcp = upper.is_within_tcp(packet);
        let may_claim = is_within_tcp || upper.protocol == UDP;
        let (mut is_named, mut is_claimed, mut is_claimed_elsewhere) = (false, false, false);
        let mut slots: Vec<_> = self.sessions.between(local, remote).collect();
        slots.sort_unstable_by_key(|slot| self.sessions.get(*slot).map(|flow| flow.entry.id));
        for slot in slots {
            let Some(Flow { entry, .. }) = self.sessions.get(slot) else { continue };
            if !entry.remote.contains(&pair.remote.l64) {
                is_claimed_elsewhere |=
                    !is_named && !is_claimed_elsewhere && may_claim && has_socket(entry.pair);
                continue;
            }
            is_named = true;
            if !may_claim || !has_socket(entry.pair) {
                continue;
            }
            is_claimed = true;
            // RFC 6741 s5.4. A correspondent with the handshake puts a nonce into all packets except segments of TCP.
            if entry.settled && (is_within_tcp || !entry.maps_tcp) {
                // If the packet's own addresses have a connection, the packet belongs to that connection.
                return if has_socket(pair) { Whence::Claimed } else { Whence::Session(slot) };
            }
        }
        match (is_named, is_claimed) {
            (true, true) => Whence::Claimed,
            (true, false) => Whence::Named,
            (false, _) if is_claimed_elsewhere && !has_socket(pair) => Whence::Nowhere,
            (false, _) => Whence::Elsewhere,
        }
    }
}
