use moorline_datapath::ilnp::Sockets;
use moorline_types::{IlvPair, Nonce, SessionId};

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
    /// Sessions with a correspondent without the handshake share its nonce (decision 149). Of these the one of the packet's addresses, else the one
    /// whose socket it is for.
    pub(super) fn sibling_of(
        &self,
        slot: SessionId,
        (pair, nonce): (IlvPair, Nonce),
        upper: &Upper,
        sockets: &dyn Sockets,
    ) -> SessionId {
        let is_alone = |flow: &Flow| flow.entry.maps_tcp || flow.entry.pair == pair;
        if self.sessions.get(slot).is_none_or(is_alone) {
            return slot;
        }
        let shares = |other: &SessionId| {
            self.sessions.key(*other).is_some_and(|(_, known)| known == Some(nonce))
        };
        if let Some(exact) = self.sessions.find_pair(pair).filter(shares) {
            return exact;
        }
        let (local, remote) = pair.nids();
        let ports = upper.reversed().ports.unwrap_or_default();
        let has_socket = |other: &SessionId| {
            let key = self.sessions.key(*other);
            key.is_some_and(|(of, _)| sockets.has_connection(of, upper.protocol, ports))
        };
        let all = self.sessions.between(local, remote);
        all.filter(shares).find(has_socket).unwrap_or(slot)
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
