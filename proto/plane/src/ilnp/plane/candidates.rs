//! Reports traffic without a session to the machine.

use moorline_datapath::ilnp::{CANDIDATE_INTERVAL, LOOK_INTERVAL, Report, Socket, Wanted};
use moorline_types::{IlvPair, Instant, Nonce};
use moorline_wire::ip6::Upper;

use super::{At, Plane};

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
        if origin == Origin::Stranger && !self.may_look(now) {
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
        if !is_wanted || !self.reports.push(report) {
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

    /// Whether the plane may look for the socket of a stranger now. This look costs more than all other work on such
    /// a packet, and rarely finds a socket that is wanted: the plane sees what connected sockets send on the way out
    /// (decision 082).
    fn may_look(&mut self, now: Instant) -> bool {
        if self.settings.wanted == Wanted::All {
            return true;
        }
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK_INTERVAL) {
            return false;
        }
        self.looked = Some(now);
        true
    }
}

/// Largest number of pairs that were reported lately: 4,096.
const MAX_REPORTED: usize = 4096;
