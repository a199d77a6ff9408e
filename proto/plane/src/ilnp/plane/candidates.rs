//! Reports traffic without a session to the machine.

use core::net::Ipv6Addr;

use moorline_datapath::ilnp::{
    CANDIDATE_INTERVAL, CANDIDATES_BURST, CANDIDATES_REST, LOOK_INTERVAL, LOOK_SHARES,
    LOOKS_RENEWED, Report, Socket, Wanted,
};
use moorline_types::{IlvPair, Instant, Nonce, Prefix};
use moorline_wire::ip6::Upper;

use super::{At, Plane};
use crate::shim6::budget::{OfPrefixes, Rate};

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
        let may_look = match (origin, nonce) {
            _ if self.settings.wanted == Wanted::All => true,
            (Origin::Here | Origin::Lost, _) => true,
            (Origin::Stranger, None) => self.may_look(now),
            (Origin::Stranger, Some(_)) => self.looks.take(pair.remote.address(), now),
        };
        if !may_look {
            return;
        }
        let protocol = upper.protocol;
        let ports = upper.ports.unwrap_or_default();
        let socket = sockets.kind(pair, protocol, ports);
        // A correspondent that has begun anew may not have the socket yet.
        let is_wanted = self.settings.wanted == Wanted::All
            || socket == Socket::Connected
            || origin == Origin::Lost;
        if !is_wanted {
            return;
        }
        let inbound = origin != Origin::Here;
        let report = Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
        // Other reports have limits of their own.
        let has_limit = nonce.is_some() || origin == Origin::Lost;
        let rate = Rate { interval: CANDIDATES_REST, burst: CANDIDATES_BURST };
        let may_report = has_limit || self.candidates.take(rate, now);
        if !may_report || !self.reports.push(report) {
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

    /// Whether the plane may look for the socket of a stranger without a nonce now. This look costs more than all other
    /// work on such a packet, and rarely finds a socket that is wanted: the plane sees what connected sockets send on the
    /// way out (decision 082).
    fn may_look(&mut self, now: Instant) -> bool {
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK_INTERVAL) {
            return false;
        }
        self.looked = Some(now);
        true
    }
}

/// Looks for the sockets of strangers that show a nonce (decision 205). Only a look that all shares allow takes from
/// them. So a flood from one site uses up no share of others.
#[derive(Debug, Default)]
pub(super) struct Looks(OfPrefixes);

impl Looks {
    /// Takes a look from the shares of this address, if all of them allow it.
    fn take(&mut self, from: Ipv6Addr, now: Instant) -> bool {
        let shares = LOOK_SHARES.map(|(length, looks)| {
            (Prefix::new(from, length), Rate { interval: LOOKS_RENEWED / looks, burst: looks })
        });
        let has_room = shares.iter().all(|&(prefix, rate)| self.0.has(prefix, rate, now));
        if has_room {
            self.0.take(shares, now);
        }
        has_room
    }
}

/// Largest number of pairs that were reported lately: 4,096.
const MAX_REPORTED: usize = 4096;
