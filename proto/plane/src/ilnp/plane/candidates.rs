//! Reports traffic without a session to the machine.

use moorline_datapath::ilnp::{
    CANDIDATE_INTERVAL, CANDIDATES_BURST, CANDIDATES_REST, LOOK_ALL_BURST, LOOK_ALL_INTERVAL,
    LOOK_INTERVAL, LOOK_SHARES, Report, Socket, Wanted,
};
use moorline_types::{IlvPair, Instant, L64, Nonce};
use moorline_wire::ip6::Upper;

use super::{At, Plane};
use crate::shim6::budget::Rate;

/// Sender of a packet without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A socket of this host.
    Here,
    /// A correspondent that may have lost the session, which this host still has.
    Lost,
    /// Any other node.
    Stranger,
}

impl Plane {
    /// Reports traffic without a session, if the policy asks for its kind of socket.
    pub(super) fn consider(
        &mut self,
        pair: IlvPair,
        upper: &Upper,
        (origin, nonce): (Origin, Option<Nonce>),
        At { sockets, now }: At<'_>,
    ) {
        let is_recent = |at: &Instant| now.since(*at) < CANDIDATE_INTERVAL;
        if nonce.is_none() && self.reported.get(&pair).is_some_and(is_recent) {
            return;
        }
        if origin == Origin::Stranger && !self.may_look(pair.remote.l64, now) {
            return;
        }
        let protocol = upper.protocol;
        let ports = upper.ports.unwrap_or_default();
        let socket = sockets.kind(pair, protocol, ports);
        // A correspondent that has begun anew may not have the socket yet.
        let is_wanted = self.settings.wanted == Wanted::All
            || socket == Socket::Connected
            || origin == Origin::Lost;
        let inbound = origin != Origin::Here;
        let report = Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
        let rate = Rate { interval: CANDIDATES_REST, burst: CANDIDATES_BURST };
        if !is_wanted || !self.candidates.take(rate, now) || !self.reports.push(report) {
            return;
        }
        if self.reported.len() >= MAX_REPORTED {
            self.reported.retain(|_, at| is_recent(at));
            if self.reported.len() >= MAX_REPORTED {
                self.reported.clear();
            }
        }
        self.reported.insert(pair, now);
    }

    /// Whether the plane may look for the socket of this stranger now. This look costs more than all other work on such
    /// a packet, and rarely finds a socket that is wanted: the plane sees what connected sockets send on the way out
    /// (decision 082). The /64s have shares, so that a flood from one of them leaves the others theirs.
    fn may_look(&mut self, stranger: L64, now: Instant) -> bool {
        let rate = match self.settings.wanted {
            Wanted::All => Rate { interval: LOOK_ALL_INTERVAL, burst: LOOK_ALL_BURST },
            Wanted::Connected => Rate { interval: LOOK_INTERVAL, burst: 1 },
        };
        self.looked.get_mut(share_of(stranger)).is_some_and(|share| share.take(rate, now))
    }
}

/// The share of a /64 in the looks.
fn share_of(L64(prefix): L64) -> usize {
    // The highest bits of the product depend on all bits of the prefix.
    let mixed = prefix.swap_bytes().wrapping_mul(MIX) >> 32;
    usize::try_from(mixed).unwrap_or(0) * LOOK_SHARES >> 32
}

/// An odd number whose products depend on all bits of what it is multiplied with.
const MIX: u64 = 0xd6e8_feb8_6659_fd93;
/// Largest number of pairs that were reported lately: 4,096.
const MAX_REPORTED: usize = 4096;
