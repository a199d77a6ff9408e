use core::net::Ipv6Addr;

use moorline_ip::nd::RouterPreference;
use moorline_types::Prefix;

/// A route by way of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The wire.
    pub wire: u32,
    /// Address of the router.
    pub router: Ipv6Addr,
    /// The destinations; [`Prefix::ALL`] for a default route, and for a router that has only advertised the source's prefix
    /// (RFC 8028 s3.1).
    pub prefix: Prefix,
    /// Preference of the route.
    pub preference: RouterPreference,
    /// Knowledge of whether the router is reachable.
    pub reach: Reach,
    /// Whether the router has advertised the prefix of the packet's source.
    pub advertises_source: bool,
}

/// Knowledge of whether a router is reachable, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Neighbor Unreachability Detection has found that the router does not answer.
    Unreachable,
    /// The host does not know yet: it waits for the link-layer address of the router.
    Suspect,
    /// The router is reachable or probably reachable. A router that the host knows nothing about counts as reachable
    /// (RFC 4191 s3.2).
    Reachable,
}

/// Chooses routers.
#[derive(Clone, Debug, Default)]
pub struct RouterChoice {
    turn: usize,
}

/// Order of candidates, the best last.
type Rank = (bool, bool, bool, u8, RouterPreference);

impl RouterChoice {
    /// The route for packets to a destination.
    ///
    /// Routers that are known as unreachable come last (RFC 4861 s6.3.6). RFC 8028 s3.2 chooses by source among the default
    /// routers, and does not say that a host keeps sending to a router that is dead. A router of another provider may
    /// discard a packet with this source, but a dead router discards it for certain. So the packets of existing
    /// connections take the other router too: they are lost if its provider filters by source, and arrive if not. New
    /// connections have a source that the other router has advertised, by rule 5.5 of RFC 6724.
    ///
    /// Among the others, routers that have advertised the prefix of the source come first (RFC 8028 s3.2). A router
    /// without link-layer address is among them: one second of resolution does not send packets to another provider.
    /// Then come reachable routers before suspect ones, the longest prefix, and the highest preference (RFC 4191 s3.2).
    /// Routes that are equal and not reachable get their turns (RFC 4861 s6.3.6).
    /// `None` means that the host has no route: the sender gets Destination Unreachable with code 0.
    //= rfc8504#5.9-2 rfc8504#5.10-1
    //= rfc4191#3.2-1
    //= rfc6724#7-1
    //= rfc4861#6.3.6-1 rfc4861#6.3.6-2
    pub fn choose<'a>(
        &mut self,
        destination: Ipv6Addr,
        candidates: &'a [Candidate],
    ) -> Option<&'a Candidate> {
        let matching = || candidates.iter().filter(|route| route.prefix.contains(destination));
        let best = matching().map(Candidate::rank).max()?;
        let mut equal = matching().filter(|route| route.rank() == best);
        let (_, _, is_reachable, ..) = best;
        if is_reachable {
            return equal.next();
        }
        // RFC 4861 s6.3.6: the same router does not come again "until all other routers have been selected".
        let turn = self.turn % equal.clone().count().max(1);
        self.turn = turn + 1;
        equal.nth(turn)
    }

    /// The unreachable routers that the host would have chosen before `chosen` if they were reachable. The host probes each
    /// of them, because it has a packet for them (RFC 4191 s3.5).
    //= rfc4191#3.5-1
    pub fn probes<'a>(
        destination: Ipv6Addr,
        candidates: &'a [Candidate],
        chosen: &'a Candidate,
    ) -> impl Iterator<Item = &'a Candidate> {
        candidates.iter().filter(move |route| {
            let if_reachable = Candidate { reach: Reach::Reachable, ..**route };
            route.reach != Reach::Reachable
                && *route != chosen
                && route.prefix.contains(destination)
                && if_reachable.rank() > chosen.rank()
        })
    }
}

impl Candidate {
    const fn rank(&self) -> Rank {
        let preference = match self.preference {
            // RFC 4191 s2.2: a receiver treats the reserved value as Medium.
            RouterPreference::Reserved => RouterPreference::Medium,
            known @ (RouterPreference::Low | RouterPreference::Medium | RouterPreference::High) => {
                known
            }
        };
        let [is_alive, is_reachable] =
            [!matches!(self.reach, Reach::Unreachable), matches!(self.reach, Reach::Reachable)];
        (is_alive, self.advertises_source, is_reachable, self.prefix.length(), preference)
    }
}

#[cfg(test)]
mod tests;
