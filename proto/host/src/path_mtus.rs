use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_addresses::Mover;
use moorline_types::{Instant, LocatorPair};
use moorline_wire::ip6;

/// The MTUs of the paths of moved pairs, as routers have told them (decision 118).
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMtus {
    known: BTreeMap<Mover, Known>,
    /// When the next MTU is to be forgotten, or an earlier time.
    expires: Option<Instant>,
}

/// The MTU of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    path: LocatorPair,
    /// Octets, with the header in.
    mtu: u32,
    /// When it no longer counts.
    until: Instant,
    /// How often routers have told of a smaller one.
    told: u32,
}

impl PathMtus {
    /// The MTU that routers have told of the path that `mover` takes.
    pub(crate) fn of(&self, mover: Mover, path: LocatorPair) -> Option<u32> {
        self.known.get(&mover).filter(|known| known.path == path).map(|known| known.mtu)
    }

    /// Notes an MTU that is less than the one before.
    pub(crate) fn note(&mut self, mover: Mover, path: LocatorPair, mtu: u32, now: Instant) {
        let until = now + EXPIRES;
        self.expires.get_or_insert(until);
        let before = self.known.get(&mover).filter(|known| known.path == path);
        let told = before.map_or(1, |known| known.told + 1);
        // A stranger who tells of ever smaller ones comes to the end soon.
        let mtu = if told < MAX_TOLD { mtu } else { MIN_MTU };
        self.known.insert(mover, Known { path, mtu, until, told });
    }

    /// `mover` no longer takes another path than its own.
    pub(crate) fn forget(&mut self, mover: Mover) {
        self.known.remove(&mover);
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.expires
    }

    /// Forgets each MTU that is too old to count. Result: whose MTU that was.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<Mover> {
        let expired = self.known.extract_if(.., |_, known| known.until <= now);
        let expired = expired.map(|(mover, _)| mover).collect();
        self.expires = self.known.values().map(|known| known.until).min();
        expired
    }
}

/// IPv6 asks for no less of any link (RFC 8200 s5), octets.
pub(crate) const MIN_MTU: u32 = ip6::MIN_MTU as u32;
/// As the kernel keeps what a Packet Too Big has told (`net.ipv6.route.mtu_expires`).
const EXPIRES: Duration = Duration::from_secs(600);
/// A path that becomes narrower so often while its MTU counts has the least MTU.
const MAX_TOLD: u32 = 5;

#[cfg(test)]
mod tests;
