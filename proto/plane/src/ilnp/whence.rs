use moorline_datapath::ilnp::Sockets;
use moorline_types::{IlvPair, SessionId};

use super::plane::{Flow, Plane};
use moorline_wire::ip6::{UDP, Upper};

/// Where a packet comes from that shows no session by its nonce or its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whence {
    /// A locator that a session names whose socket it is for.
    Session(SessionId),
    /// A locator that a session names.
    Named,
    /// A locator that a session names, and it claims a session's socket that it does not get.
    Claimed,
    /// A locator that no session names, and it claims a session's socket.
    Nowhere,
    /// Another node, be its identifier the same.
    Elsewhere,
}

impl Plane {
    /// Sessions with a correspondent without the handshake share its nonce (decision 149). Of these the session that the packet's socket has: a
    /// correspondent that has moved sends from addresses that another session may have. Without such a socket the session of the packet's
    /// addresses; `slot` is one of these sessions.
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
            Some((has_socket, own == pair, other == slot, other))
        };
        let all = self.sessions.between(local, remote).filter_map(rank);
        all.max_by_key(|&(has_socket, is_exact, is_given, _)| (has_socket, is_exact, is_given))
            .map_or(slot, |best| best.3)
    }

    /// Identifiers may coincide, so a locator that none of the sessions between two nodes names is another node's until
    /// the packet claims a socket of a session. To that it is not given, nor to the stack, which would answer the segment of
    /// a correspondent whose Locator Update is late with a reset.
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
        for slot in self.sessions.between(local, remote) {
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
            // RFC 6741 s5.4. A correspondent with the handshake has a nonce in all but segments of TCP.
            if entry.settled && (is_within_tcp || !entry.maps_tcp) {
                // A packet whose own addresses have a connection is of that.
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
