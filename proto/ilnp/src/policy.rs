use core::fmt;

use moorline_datapath::ilnp::{Socket, Wanted};
use moorline_types::named_enum;
use moorline_wire::ilnp::Refusal;

use crate::consts::{LOCATORS_THAT_FILL, MAX_SESSIONS, MAX_WITH_NODE};

/// Situation in which the policy decides about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A packet goes out to a correspondent without a session.
    Outbound,
    /// A packet came in from a correspondent without a session. A nonce shows that its sender speaks ILNP.
    Inbound {
        /// Whether the packet had a nonce.
        nonce: bool,
    },
    /// The correspondent proposes a session (decision 070).
    Proposed {
        /// Whether the correspondent's socket is connected.
        connected: bool,
    },
    /// We proposed a session and got no answer, but packets of the correspondent have nonces, or the DNS names it and
    /// we initiate by the DNS. So the correspondent knows RFC 6744, and not the handshake.
    Unanswered,
}

/// Facts about a possible session, for a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Situation of the question.
    pub stage: Stage,
    /// Our socket.
    pub socket: Socket,
    /// Sessions of this host, without a session that the new one would replace.
    pub sessions: usize,
    /// Number of `sessions` that give way to a session whose socket here is connected.
    pub guests: usize,
    /// Number of `sessions` between the two nodes.
    pub with_node: usize,
    /// Number of `guests` whose correspondents agreed and are at the locator of this correspondent. If the address has
    /// more than a quarter of this number, the /56 more than twice, or the /48 more than four times as many, the number
    /// is larger in proportion ([`FairShares`](moorline_index::FairShares)).
    pub with_locator: usize,
}

named_enum! {
    /// Reason of an admission, for people.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
    )]
    pub enum Why {
        /// The open policy admits every correspondent.
        Open => "open policy",
        /// Both ends agreed, and we proposed the session.
        WeProposed => "agreed, proposed here",
        /// Both ends agreed, and the correspondent proposed the session.
        PeerProposed => "agreed, proposed there",
        /// Our socket is connected to a correspondent that knows no handshake.
        ConnectedHere => "connected socket here",
    }
}

/// Decision of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The session gets an entry.
    Admit(Why),
    /// The machine proposes the session to the correspondent first.
    Propose,
    /// The session gets no entry.
    Refuse(Refusal),
}

/// Decides which correspondents get an entry in the cache.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Decides about one session. The machine asks for each reported packet, so the answer has to be quick.
    fn decide(&self, candidate: &Candidate) -> Decision;

    /// The packets between addresses without a session that a data plane reports. A packet that the data plane does
    /// not report makes no entry and costs nothing.
    fn wanted(&self) -> Wanted;
}

/// Makes an entry for the packet of each new correspondent, as the St Andrews kernel does. For comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open;

impl Policy for Open {
    fn decide(&self, candidate: &Candidate) -> Decision {
        match candidate.stage {
            Stage::Inbound { nonce: false } => Decision::Refuse(Refusal::POLICY),
            Stage::Outbound
            | Stage::Inbound { nonce: true }
            | Stage::Proposed { .. }
            | Stage::Unanswered => Decision::Admit(Why::Open),
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted::All
    }
}

/// Makes an entry where the entry is of use and both ends want it: table 1 of the ILCC paper (Kadi et al.).
///
/// A session needs a socket here, and a connected socket at either end. The end with the connected socket proposes
/// the session. So packets to an unconnected socket, which anybody can send, cause nothing.
///
/// The correspondent alone says whether its socket is connected. If the socket here is not connected, the session is
/// a guest. The number of guests from one locator is limited, and guests give way to sessions that a socket here
/// wants (decision 092).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admit {
    /// Largest number of sessions of the host.
    pub max_sessions: usize,
    /// Largest number of sessions with one node.
    pub max_with_node: usize,
    /// Largest number of guests at one locator. An address has a quarter of that, a /56 twice, a /48 four times that.
    pub max_with_locator: usize,
}

impl Admit {
    /// Makes a policy for this number of sessions, with the default bounds of a node and a locator.
    #[must_use]
    pub const fn of(max_sessions: usize) -> Self {
        let max_with_locator = share_of_locator(max_sessions);
        Self { max_sessions, max_with_node: MAX_WITH_NODE, max_with_locator }
    }
}

/// Default of [`Admit::max_with_locator`] for a host with `max_sessions`: a sixteenth, at least [`MAX_WITH_NODE`].
#[must_use]
pub const fn share_of_locator(max_sessions: usize) -> usize {
    let share = max_sessions / LOCATORS_THAT_FILL;
    if share > MAX_WITH_NODE { share } else { MAX_WITH_NODE }
}

impl Default for Admit {
    fn default() -> Self {
        Self::of(MAX_SESSIONS)
    }
}

impl Policy for Admit {
    fn decide(&self, candidate: &Candidate) -> Decision {
        if candidate.socket == Socket::None {
            return Decision::Refuse(Refusal::NO_SOCKET);
        }
        let is_connected = candidate.socket == Socket::Connected;
        if !self.has_room(candidate, is_connected) {
            return Decision::Refuse(Refusal::RESOURCES);
        }
        match candidate.stage {
            Stage::Proposed { connected } if connected || is_connected => {
                Decision::Admit(Why::PeerProposed)
            }
            Stage::Outbound | Stage::Inbound { .. } if is_connected => Decision::Propose,
            Stage::Unanswered if is_connected => Decision::Admit(Why::ConnectedHere),
            Stage::Proposed { .. }
            | Stage::Outbound
            | Stage::Inbound { .. }
            | Stage::Unanswered => Decision::Refuse(Refusal::NOT_CONNECTED),
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted::Connected
    }
}

impl Admit {
    fn has_room(&self, candidate: &Candidate, is_connected: bool) -> bool {
        let has_room = match is_connected {
            true => candidate.sessions.saturating_sub(candidate.guests) < self.max_sessions,
            false => {
                candidate.sessions < self.max_sessions
                    && candidate.with_locator < self.max_with_locator
            }
        };
        has_room && candidate.with_node < self.max_with_node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(stage: Stage, socket: Socket) -> Candidate {
        Candidate { stage, socket, sessions: 0, guests: 0, with_node: 0, with_locator: 0 }
    }

    /// Table 1 of the paper, from the side that gets the proposal.
    #[test]
    fn an_entry_needs_a_connected_socket_at_either_end() {
        use Decision::{Admit as Yes, Refuse as No};
        let asked = |socket, connected| {
            Admit::default().decide(&candidate(Stage::Proposed { connected }, socket))
        };
        assert_eq!(asked(Socket::Connected, true), Yes(Why::PeerProposed));
        assert_eq!(asked(Socket::Connected, false), Yes(Why::PeerProposed));
        assert_eq!(asked(Socket::Unconnected, true), Yes(Why::PeerProposed));
        assert_eq!(asked(Socket::Unconnected, false), No(Refusal::NOT_CONNECTED));
        assert_eq!(asked(Socket::None, true), No(Refusal::NO_SOCKET));
    }

    #[test]
    fn only_the_end_with_the_connected_socket_begins() {
        for stage in
            [Stage::Outbound, Stage::Inbound { nonce: false }, Stage::Inbound { nonce: true }]
        {
            let decide = |socket| Admit::default().decide(&candidate(stage, socket));
            assert_eq!(decide(Socket::Connected), Decision::Propose);
            assert_eq!(decide(Socket::Unconnected), Decision::Refuse(Refusal::NOT_CONNECTED));
            assert_eq!(decide(Socket::None), Decision::Refuse(Refusal::NO_SOCKET));
        }
    }

    #[test]
    fn limits_hold_whatever_the_sockets() {
        for socket in [Socket::Connected, Socket::Unconnected] {
            let decide = |sessions, with_node| {
                let asked = candidate(Stage::Proposed { connected: true }, socket);
                LIMITED.decide(&Candidate { sessions, with_node, ..asked })
            };
            assert_eq!(decide(9, 2), Decision::Admit(Why::PeerProposed));
            assert_eq!(decide(10, 0), Decision::Refuse(Refusal::RESOURCES));
            assert_eq!(decide(3, 3), Decision::Refuse(Refusal::RESOURCES));
        }
    }

    #[test]
    fn guests_take_no_room_from_a_connected_socket_and_share_that_of_their_locator() {
        let decide = |socket, guests, with_locator| {
            let asked = candidate(Stage::Proposed { connected: true }, socket);
            LIMITED.decide(&Candidate { sessions: 10, guests, with_locator, ..asked })
        };
        assert_eq!(decide(Socket::Connected, 1, 2), Decision::Admit(Why::PeerProposed));
        assert_eq!(decide(Socket::Unconnected, 1, 0), Decision::Refuse(Refusal::RESOURCES));
        let asked = candidate(Stage::Proposed { connected: true }, Socket::Unconnected);
        let with = |with_locator| LIMITED.decide(&Candidate { with_locator, ..asked });
        assert_eq!(with(1), Decision::Admit(Why::PeerProposed));
        assert_eq!(with(2), Decision::Refuse(Refusal::RESOURCES));
        assert_eq!([share_of_locator(65_536), share_of_locator(1)], [4096, MAX_WITH_NODE]);
    }

    const LIMITED: Admit = Admit { max_sessions: 10, max_with_node: 3, max_with_locator: 2 };

    #[test]
    fn the_open_policy_takes_everybody_with_a_nonce() {
        let decide = |stage| Open.decide(&candidate(stage, Socket::None));
        assert_eq!(decide(Stage::Inbound { nonce: true }), Decision::Admit(Why::Open));
        assert_eq!(decide(Stage::Outbound), Decision::Admit(Why::Open));
        assert_eq!(decide(Stage::Inbound { nonce: false }), Decision::Refuse(Refusal::POLICY));
    }
}
