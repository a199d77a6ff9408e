use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_addresses::Mover;
use moorline_types::{Instant, LocatorPair};
use moorline_wire::ip6;

/// MTUs of the paths of moved pairs, as reported by routers (decision 118).
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMtus {
    known: BTreeMap<Mover, Known>,
    /// Time when the next MTU expires, or an earlier time.
    expires: Option<Instant>,
}

/// The MTU of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    path: LocatorPair,
    /// MTU in octets, with the header.
    mtu: u32,
    /// Time when the MTU expires.
    until: Instant,
    /// Number of times that routers have reported a smaller MTU.
    told: u32,
}

impl PathMtus {
    /// The MTU that routers have reported for the path of `mover`.
    pub(crate) fn of(&self, mover: Mover, path: LocatorPair) -> Option<u32> {
        self.known.get(&mover).filter(|known| known.path == path).map(|known| known.mtu)
    }

    /// Notes an MTU that is smaller than the one before.
    pub(crate) fn note(&mut self, mover: Mover, path: LocatorPair, mtu: u32, now: Instant) {
        let until = now + EXPIRES;
        self.expires.get_or_insert(until);
        let before = self.known.get(&mover).filter(|known| known.path == path);
        let told = before.map_or(1, |known| known.told + 1);
        // A stranger that reports ever smaller MTUs reaches the end soon.
        let mtu = if told < MAX_TOLD { mtu } else { MIN_MTU };
        self.known.insert(mover, Known { path, mtu, until, told });
    }

    /// Forgets the MTU of `mover`, which takes no other path than its own any more.
    pub(crate) fn forget(&mut self, mover: Mover) {
        self.known.remove(&mover);
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.expires
    }

    /// Forgets expired MTUs. Returns their movers.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Mover> {
        let expired = self.known.extract_if(.., |_, known| known.until <= now);
        let expired = expired.map(|(mover, _)| mover).collect();
        self.expires = self.known.values().map(|known| known.until).min();
        expired
    }
}

/// Smallest MTU that IPv6 requires of a link (RFC 8200 s5), octets.
pub(crate) const MIN_MTU: u32 = ip6::MIN_MTU as u32;
/// Time for which the kernel keeps the MTU of a Packet Too Big (`net.ipv6.route.mtu_expires`).
const EXPIRES: Duration = Duration::from_secs(600);
/// Number of reports of a smaller MTU after which the path gets [`MIN_MTU`].
const MAX_TOLD: u32 = 5;

#[cfg(test)]
mod tests;
