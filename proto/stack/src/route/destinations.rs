use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::party;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use super::fair::{FairMap, Grouped};
use crate::ip4::MIN_PATH_MTU;
use crate::{Drop, Drops};

/// Cache of the facts that the host has learned about single destinations.
#[derive(Debug)]
pub struct Destinations {
    paths: FairMap<PathKey, Path>,
    redirects: FairMap<Pair, NextHop>,
    pmtu_age: Duration,
    drops: Drops,
}

/// Bounds of [`Destinations`].
//= rfc8201#5.3-3 rfc8201#5.3-4 rfc8201#5.6-1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Destinations with a path MTU; [`MAX_PATHS`] by default.
    pub paths: usize,
    /// Destinations with a redirect; [`MAX_REDIRECTS`] by default.
    pub redirects: usize,
    /// Time after which the host tries larger packets again; [`PMTU_AGE`] by default. [`MIN_PMTU_AGE`] is the least, and
    /// [`Duration::MAX`] means never (RFC 8201 s5.3).
    pub pmtu_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { paths: MAX_PATHS, redirects: MAX_REDIRECTS, pmtu_age: PMTU_AGE }
    }
}

/// The neighbor that packets go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The wire.
    pub wire: u32,
    /// Address of the neighbor.
    pub address: Ipv6Addr,
}

/// The path MTU of a destination, as `netstat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// The wire by which the packets leave.
    pub wire: u32,
    /// The destination.
    pub destination: Ipv6Addr,
    /// Octets of the largest packet.
    pub mtu: u32,
    /// Time at which the host tries larger packets.
    pub until: Instant,
}

/// A destination by way of a wire. RFC 8201 s5.2: "For nodes with multiple interfaces, Path MTU information should be
/// maintained for each IPv6 link."
//= rfc8201#5.2-1 rfc8201#5.2-2 rfc8201#5.2-3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PathKey {
    destination: Ipv6Addr,
    wire: u32,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: u32,
    until: Instant,
}

/// Packets that a redirect is about. The source is unspecified if the redirect holds for all sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Pair {
    destination: Ipv6Addr,
    source: Ipv6Addr,
}

impl Destinations {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(limits: Limits, mut random: ChaCha20Rng) -> Self {
        Self {
            paths: FairMap::new(limits.paths, &mut random),
            redirects: FairMap::new(limits.redirects, &mut random),
            pmtu_age: limits.pmtu_age.max(MIN_PMTU_AGE),
            drops: Drops::default(),
        }
    }

    /// Octets of the largest packet to a destination by way of a wire with this MTU. With time it can grow to the MTU of the
    /// link.
    //= rfc8201#4-8 rfc8201#5.3-1 rfc8201#5.3-2
    #[must_use]
    pub fn pmtu(&self, wire: u32, destination: Ipv6Addr, link_mtu: u32, now: Instant) -> u32 {
        let path = self.paths.get(PathKey { destination, wire });
        path.filter(|path| now < path.until).map_or(link_mtu, |path| path.mtu.min(link_mtu))
    }

    /// Handles a Packet Too Big message about a packet of ours to a destination, and returns the path MTU if it has become
    /// lower. The caller has checked the quoted packet.
    ///
    /// # Errors
    /// [`Drop::PacketTooBig`] if the MTU is below [`MIN_LINK_MTU`], or [`MIN_PATH_MTU`] for a v4-mapped destination. Then
    /// the path MTU is unchanged.
    //= rfc8504#5.7.1-1
    //= rfc8201#4-2 rfc8201#4-3 rfc8201#4-4 rfc8201#4-12 rfc8201#6-1 rfc8201#6-2 rfc8201#6-3
    //= rfc8200#5-5
    pub fn handle_packet_too_big(
        &mut self,
        wire: u32,
        destination: Ipv6Addr,
        mtu: u32,
        link_mtu: u32,
        now: Instant,
    ) -> Result<Option<u32>, Drop> {
        // RFC 8201 s4: a message with an MTU "less than the IPv6 minimum link MTU" is discarded.
        let is_ip4 = destination.to_ipv4_mapped().is_some();
        if mtu < if is_ip4 { MIN_PATH_MTU } else { MIN_LINK_MTU } {
            return Err(Drop::PacketTooBig);
        }
        let key = PathKey { destination, wire };
        // RFC 8201 s4: "A node must not increase its estimate of the Path MTU".
        if mtu >= self.pmtu(wire, destination, link_mtu, now) {
            self.delay_increase(key, now);
            return Ok(None);
        }
        let until = now + self.pmtu_age;
        if self.paths.insert(key, Path { mtu, until }, now) {
            self.drops.count(Drop::DestinationLimit);
        }
        Ok(Some(mtu))
    }

    /// RFC 8201 s4: the host tries larger packets not "less than 5 minutes after a Packet Too Big message".
    //= rfc8201#4-10
    fn delay_increase(&mut self, key: PathKey, now: Instant) {
        if let Some(path) = self.paths.get_mut(key).filter(|path| now < path.until) {
            path.until = path.until.max(now + MIN_PMTU_AGE);
        }
    }

    /// Takes a Redirect: packets to the destination go to the target. The caller has checked that the Redirect comes from the
    /// next hop of such packets (RFC 4861 s8.1). A Redirect to a router holds for packets with this source only
    /// (RFC 8028 s3.4): another source may belong to another router. If the target is the destination, the Redirect
    /// holds for all sources.
    ///
    /// # Errors
    /// [`Drop::Redirect`] for a destination that is on the link anyway.
    //= rfc4861#8.3-2 rfc4861#8.3-5
    pub fn redirect(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        wire: u32,
        target: Ipv6Addr,
        now: Instant,
    ) -> Result<(), Drop> {
        if destination.is_multicast() || destination.is_unicast_link_local() {
            return Err(Drop::Redirect);
        }
        let (own, all) = Pair::keys(source, destination);
        let (key, other) = if target == destination { (all, own) } else { (own, all) };
        // The last Redirect holds.
        self.redirects.remove(other);
        if self.redirects.insert(key, NextHop { wire, address: target }, now) {
            self.drops.count(Drop::DestinationLimit);
        }
        Ok(())
    }

    /// The next hop to which packets with these addresses have been redirected.
    #[must_use]
    pub fn next_hop(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Option<NextHop> {
        let (own, all) = Pair::keys(source, destination);
        self.redirects.get(own).or_else(|| self.redirects.get(all)).copied()
    }

    /// Forgets the redirects to a neighbor, because it is no router any more or does not answer (RFC 4861 s7.3.3).
    //= rfc4861#6.3.5-1
    pub fn forget_router(&mut self, wire: u32, address: Ipv6Addr) {
        self.redirects.remove_all(|_, next_hop| *next_hop == NextHop { wire, address });
    }

    /// Forgets all redirects, because routes have changed: RFC 4191 s3.3 demands that next hops are determined anew.
    //= rfc4191#3.3-1
    pub fn forget_redirects(&mut self) {
        self.redirects.remove_all(|_, _| true);
    }

    /// Forgets all about a wire, because it leads to another link now.
    pub fn forget_wire(&mut self, wire: u32) {
        self.redirects.remove_all(|_, next_hop| next_hop.wire == wire);
        self.paths.remove_all(|key, _| key.wire == wire);
    }

    /// The path MTUs in force: those of a site together, and the oldest first.
    pub fn paths(&self, now: Instant) -> impl Iterator<Item = PathMtu> + '_ {
        self.paths.iter().filter(move |(_, path)| now < path.until).map(|(key, path)| {
            let PathKey { wire, destination } = key;
            PathMtu { wire, destination, mtu: path.mtu, until: path.until }
        })
    }

    /// The redirects: destination, source (`None` for all sources), and next hop.
    pub fn redirects(&self) -> impl Iterator<Item = (Ipv6Addr, Option<Ipv6Addr>, NextHop)> + '_ {
        self.redirects.iter().map(|(pair, next_hop)| {
            let source = Some(pair.source).filter(|source| !source.is_unspecified());
            (pair.destination, source, *next_hop)
        })
    }

    /// Entries that had to go for others.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }
}

impl Pair {
    /// The key for the source, and the key for all sources.
    const fn keys(source: Ipv6Addr, destination: Ipv6Addr) -> (Self, Self) {
        let all = Self { destination, source: Ipv6Addr::UNSPECIFIED };
        (Self { destination, source }, all)
    }
}

impl Grouped for PathKey {
    const FIRST: Self = Self { destination: Ipv6Addr::UNSPECIFIED, wire: 0 };

    fn group(&self) -> u64 {
        site(self.destination)
    }
}

impl Grouped for Pair {
    const FIRST: Self = Self { destination: Ipv6Addr::UNSPECIFIED, source: Ipv6Addr::UNSPECIFIED };

    fn group(&self) -> u64 {
        site(self.destination)
    }
}

/// The first 48 bits, which are the prefix of a site as a rule; or a v4-mapped address.
fn site(address: Ipv6Addr) -> u64 {
    if address.to_ipv4_mapped().is_some() {
        return party(address);
    }
    let [a, b, c, ..] = address.segments();
    u64::from(a) << 32 | u64::from(b) << 16 | u64::from(c)
}

/// Least MTU of a link (RFC 8200 s5), in octets. No path MTU of IPv6 is lower.
pub const MIN_LINK_MTU: u32 = 1280;
/// Destinations with a path MTU, unless [`Limits`] says otherwise.
pub const MAX_PATHS: usize = 4096;
/// Destinations with a redirect, unless [`Limits`] says otherwise.
pub const MAX_REDIRECTS: usize = 128;
/// Time after which the host tries larger packets again (RFC 8201 s4). It can be configured.
//= rfc8201#4-9 rfc8201#4-11
pub const PMTU_AGE: Duration = Duration::from_secs(600);
/// Least time between a Packet Too Big message and larger packets (RFC 8201 s4).
//= rfc8201#4-10
pub const MIN_PMTU_AGE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
