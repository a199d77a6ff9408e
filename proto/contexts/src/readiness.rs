use moorline_reap::{Standby, State};
use moorline_shim6 as shim6;
use moorline_shim6::Failure;
use moorline_types::{ContextId, Instant, LocatorPair, named_enum};

use crate::machine::Contexts;

/// Says whether a connection survives the loss of its current pair.
///
/// This is all that `status`, `contexts` and `doctor` say about failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Another pair has answered within two intervals. If the current pair fails, payload takes the other pair at once.
    Protected {
        /// The other pair.
        by: LocatorPair,
        /// When the answered check left.
        at: Instant,
    },
    /// No obstacle is known, but no other pair has answered.
    NotYet(Reason),
    /// Failover does not work.
    Cannot(Reason),
}

named_enum! {
    /// Reason why a connection is not protected.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// I1 or I2 has not been answered yet.
        Establishing => "establishing",
        /// R1 has come, and R2 has not come although I2 was sent again. The reason stays while I1 is sent again.
        HalfOpen => "half-open",
        /// R2 has come and was dropped, because its locators could not be verified.
        Unverified => "unverified",
        /// The context is established here. The peer has not shown yet that it has the context.
        Unconfirmed => "unconfirmed",
        /// The peer says that it does not have the context, and has not answered I2bis yet.
        Renewing => "renewing",
        /// The peer says that it does not have the context, and has not answered a repeated I2bis.
        Unrenewed => "unrenewed",
        /// REAP is probing: the current pair is in doubt.
        Exploring => "exploring",
        /// REAP is probing. The peer is silent, and several probes have found no pair that works.
        Unreachable => "unreachable",
        /// No check of another pair has been answered or given up yet, since the last move.
        Untried => "untried",
        /// Some pairs have not answered; others have not been tried.
        Trying => "trying",
        /// The last answer is too old.
        Stale => "stale",
        /// This host checks no pairs (profile `rfc`).
        ChecksOff => "checks-off",
        /// The peer answers no check, not even by the current pair.
        PeerMute => "peer-mute",
        /// Every other pair was checked, and none has answered.
        Unanswered => "unanswered",
        /// Each end has only one usable address.
        OnePair => "one-pair",
        /// The peer cannot verify another address of ours, and has told no other address.
        OwnUnproven => "own-unproven",
        /// The peer has told no address that can be verified. This host has one.
        PeerUnproven => "peer-unproven",
        /// Our address that the connection uses is gone.
        AddressGone => "address-gone",
        /// The peer has not answered I1, which was sent again.
        NoAnswer => "no-answer",
        /// The peer has no Shim6.
        NoSupport => "no-support",
        /// The data plane did not take the context.
        NotTaken => "not-taken",
        /// The handshake made room for another one.
        NoRoom => "no-room",
        /// ILNP: the correspondent has not acknowledged our locators.
        Unacknowledged => "unacknowledged",
        /// ILNP: other locators are known, and no check tests them in advance.
        Untested => "untested",
    }
}

impl Reason {
    /// A sentence for people about the state of the context.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Establishing => "the peer has not answered yet",
            Self::HalfOpen => {
                "no context comes about: the peer answers I1 and not I2, which was sent again"
            }
            Self::Unverified => {
                "this host drops the R2 of the peer, because its locators cannot be verified"
            }
            Self::Unconfirmed => "the peer has not shown yet that it has the context",
            Self::Renewing => {
                "the peer says that it does not have the context, and has not answered I2bis yet"
            }
            Self::Unrenewed => {
                "the peer says that it does not have the context, and does not answer I2bis, which was sent again"
            }
            Self::Exploring => "the current pair is in doubt, and other pairs are being probed",
            Self::Unreachable => "nothing comes from the peer, and no pair of addresses answers",
            Self::Untried => {
                "no other pair has answered a check yet: checks need traffic in both directions, and some seconds"
            }
            Self::Trying => {
                "the other pairs that were tried did not answer; the rest are tried next"
            }
            Self::Stale => {
                "another pair has answered, but not in the last two intervals: it is asked again with the next traffic"
            }
            Self::ChecksOff => {
                "this host tries no pair besides the current one (profile \"rfc\", or standby-interval \"off\")"
            }
            Self::PeerMute => {
                "the peer answers no check, on the current pair neither: it has profile \"rfc\", another \
                 implementation or no context, or a firewall drops protocol 140"
            }
            Self::Unanswered => {
                "no other pair answers: an ISP is down, or an ISP or a firewall drops protocol 140 or translates addresses (NAT66)"
            }
            Self::OnePair => {
                "each end has one address that can be used now: there is no other pair"
            }
            Self::OwnUnproven => {
                "the address of ours that the connection uses proves nothing, so our end cannot move"
            }
            Self::PeerUnproven => {
                "the peer has told no other address: the one that the connection uses proves nothing"
            }
            Self::AddressGone => {
                "the address of ours that the connection uses has gone, and no other is told"
            }
            Self::NoAnswer => "the peer does not answer I1",
            Self::NoSupport => "the peer has no Shim6",
            Self::NotTaken => "the data plane did not take it",
            Self::NoRoom => "its handshake made room for another one",
            Self::Unacknowledged => "the correspondent has not acknowledged our locators",
            Self::Untested => {
                "ILNP tries no other pair of locators beforehand. If the pair in use fails, a session in use asks by the \
                 others, and moves to one by which the correspondent answers"
            }
        }
    }

    /// Advice for people.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Establishing
            | Self::Unconfirmed
            | Self::Renewing
            | Self::Exploring
            | Self::Untried
            | Self::Trying
            | Self::Stale => "Wait; `moorline doctor PEER` tries every pair now.",
            Self::Unreachable => {
                "Payload takes the addresses of the sockets meanwhile. All paths of one end or the peer may be down, and the connection \
                 stands still then; or a firewall drops protocol 140 alone. `moorline doctor PEER` as root tries each pair."
            }
            Self::HalfOpen | Self::Unrenewed => {
                "`moorline doctor PEER` as root tells which: a firewall drops protocol 140, somebody translates addresses \
                 (NAT66), or the peer has no room or is busy (`moorline doctor` there)."
            }
            Self::Unverified => {
                "The fault is in the peer: its locators do not belong to the address that the connection uses \
                 (`moorline addr list` there)."
            }
            Self::NoAnswer => {
                "`moorline doctor PEER` as root tries each pair: the peer has no Moorline, a firewall drops protocol 140, or somebody \
                 translates addresses (NAT66)."
            }
            Self::Unanswered | Self::PeerMute => {
                "`moorline doctor PEER` as root tries each pair. Both firewalls have to accept protocol 140 \
                 (docs/doctor.md, Firewalls)."
            }
            Self::ChecksOff => {
                "Set profile = \"default\" in moorlined.toml to have other pairs tried beforehand."
            }
            Self::OnePair => "One of the two hosts needs a second uplink.",
            Self::OwnUnproven => {
                "Open it again: new connections take an address with a proof by themselves, if the uplink that they leave by has one \
                 (`moorline addr list`). A server gives out such an address in the DNS: `moorline dns-records`."
            }
            Self::PeerUnproven => {
                "Connect to an address of the peer with a proof, which `moorline status` shows there: publish it in the DNS."
            }
            Self::AddressGone => "New connections take another address.",
            Self::NoSupport => "Install Moorline there, or start it.",
            Self::NotTaken | Self::NoRoom => "Raise max-contexts in moorlined.toml.",
            Self::Unacknowledged => {
                "A firewall may drop ICMPv6 type 156: `moorline doctor PEER` as root tries."
            }
            Self::Untested => "`moorline doctor PEER` as root tries each pair of locators.",
        }
    }
}

impl Readiness {
    /// Readiness of a pair of ULIDs without a context.
    #[must_use]
    pub const fn of_failure(failure: Failure) -> Self {
        Self::Cannot(match failure {
            Failure::NoAnswer => Reason::NoAnswer,
            Failure::NoSupport => Reason::NoSupport,
            Failure::NotTaken => Reason::NotTaken,
            Failure::NoRoom => Reason::NoRoom,
        })
    }
}

impl Contexts {
    /// Whether a context checks its pairs only with the next traffic.
    #[must_use]
    pub fn awaits_traffic(&self, id: ContextId) -> bool {
        self.active.get(&id).is_some_and(|active| active.reap.awaits_traffic())
    }

    /// Whether the connections of a context survive the loss of its current pair. `None`: there is no such context.
    #[must_use]
    pub fn readiness(&self, id: ContextId, now: Instant) -> Option<Readiness> {
        let context = self.shim6.context(id)?;
        let (Some(established), Some(active)) = (context.established(), self.active.get(&id))
        else {
            return Some(Readiness::NotYet(if context.is_unverified() {
                Reason::Unverified
            } else if context.is_half_open() {
                Reason::HalfOpen
            } else if context.is_unanswered() {
                Reason::NoAnswer
            } else {
                Reason::Establishing
            }));
        };
        let current = active.reap.current_pair();
        let is_renewing = context.state() == shim6::State::I2bisSent;
        Some(match active.reap.standby_state(now) {
            Standby::None if !self.can_send_by(current) => Readiness::Cannot(Reason::AddressGone),
            Standby::None if !self.shim6.is_provable(context.key.ulids.local) => {
                Readiness::Cannot(Reason::OwnUnproven)
            }
            Standby::None if established.peer.generation.is_none() => {
                Readiness::Cannot(Reason::PeerUnproven)
            }
            Standby::None => Readiness::Cannot(Reason::OnePair),
            _ if context.is_unverified() => Readiness::NotYet(Reason::Unverified),
            _ if context.is_renewal_late() => Readiness::NotYet(Reason::Unrenewed),
            _ if active.reap.explores_in_vain() => Readiness::NotYet(Reason::Unreachable),
            _ if active.reap.state() != State::Operational => Readiness::NotYet(Reason::Exploring),
            _ if is_renewing => Readiness::NotYet(Reason::Renewing),
            Standby::Answered { pair, at } if established.is_confirmed() => {
                Readiness::Protected { by: pair, at }
            }
            Standby::Answered { .. } => Readiness::NotYet(Reason::Unconfirmed),
            Standby::Unchecked => Readiness::NotYet(Reason::ChecksOff),
            Standby::Untried => Readiness::NotYet(Reason::Untried),
            Standby::Stale => Readiness::NotYet(Reason::Stale),
            Standby::Failing { is_peer_mute: true, .. } => Readiness::NotYet(Reason::PeerMute),
            Standby::Failing { tried, pairs, .. } if tried < pairs => {
                Readiness::NotYet(Reason::Trying)
            }
            Standby::Failing { .. } => Readiness::Cannot(Reason::Unanswered),
        })
    }
}
