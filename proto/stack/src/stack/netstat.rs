use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use moorline_ip::Mac;
use moorline_ip::nd::RouterPreference;
use moorline_types::{Instant, Prefix};

use super::{Stack, WireId};
use crate::{Drop, address, neighbor};

/// Numbers of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in.
    pub frames_in: u64,
    /// Packets that came in for an address of the host.
    pub packets_in: u64,
    /// Messages of ICMPv6 and ICMP that came in.
    pub icmp_in: u64,
    /// Packets of the upper layers, after fragmentation.
    pub packets_out: u64,
    /// Packets that were sent in fragments.
    pub fragmented: u64,
    /// Errors of ICMPv6 and ICMP that were sent.
    pub errors_out: u64,
}

/// State of a host, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netstat {
    /// The addresses.
    pub addresses: Vec<AddressRow>,
    /// The neighbors.
    pub neighbors: Vec<NeighborRow>,
    /// The routes by way of routers.
    pub routes: Vec<RouteRow>,
    /// The prefixes of the links.
    pub prefixes: Vec<PrefixRow>,
    /// Numbers of packets.
    pub counters: Counters,
    /// Reasons of drops that occurred, with their numbers.
    pub drops: Vec<(Drop, u64)>,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRow {
    /// The wire.
    pub wire: WireId,
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix.
    pub prefix_len: u8,
    /// Its state.
    pub state: address::State,
    /// Whether the address is a temporary one.
    pub is_temporary: bool,
}

/// A neighbor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborRow {
    /// The wire.
    pub wire: WireId,
    /// Its address.
    pub address: Ipv6Addr,
    /// Its link-layer address, if it is known.
    pub mac: Option<Mac>,
    /// State of the entry.
    pub state: neighbor::State,
    /// Whether the neighbor is a router.
    pub is_router: bool,
}

/// A route by way of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRow {
    /// The wire.
    pub wire: WireId,
    /// The destinations; `::/0` for a default router.
    pub prefix: Prefix,
    /// Address of the router.
    pub router: Ipv6Addr,
    /// Preference of the route.
    pub preference: RouterPreference,
}

/// A prefix of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRow {
    /// The wire.
    pub wire: WireId,
    /// The prefix.
    pub prefix: Prefix,
}

impl Stack {
    /// State of the host.
    #[must_use]
    pub fn netstat(&self, now: Instant) -> Netstat {
        let addresses = self.wires.iter().flat_map(|wire| {
            wire.addresses.iter().map(|row| AddressRow {
                wire: wire.id,
                address: row.address,
                prefix_len: row.prefix_len,
                state: row.state,
                is_temporary: row.origin == address::Origin::Temporary,
            })
        });
        let addresses = addresses.chain(self.wires.iter().filter_map(|wire| {
            let config = wire.ip4()?.config();
            Some(AddressRow {
                wire: wire.id,
                address: config.mapped(),
                prefix_len: config.prefix().length(),
                state: address::State::Preferred,
                is_temporary: false,
            })
        }));
        let neighbors = self.wires.iter().flat_map(|wire| {
            let of_ip4 = wire.ip4().into_iter().flat_map(move |ip4| ip4.neighbors(now));
            wire.neighbors.iter(now).chain(of_ip4).map(|row| NeighborRow {
                wire: wire.id,
                address: row.address,
                mac: row.mac,
                state: row.state,
                is_router: row.is_router,
            })
        });
        let routes = self.wires.iter().flat_map(|wire| {
            wire.routers.routes().map(|route| RouteRow {
                wire: wire.id,
                prefix: route.prefix,
                router: route.router,
                preference: route.preference,
            })
        });
        let routes = routes.chain(self.wires.iter().filter_map(|wire| {
            Some(RouteRow {
                wire: wire.id,
                prefix: Prefix::new(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(), 96),
                router: wire.ip4()?.config().gateway?.to_ipv6_mapped(),
                preference: RouterPreference::Medium,
            })
        }));
        let prefixes = self.wires.iter().flat_map(|wire| {
            let of_ip4 = wire.ip4().map(|ip4| ip4.config().prefix());
            let all = wire.routers.prefixes().map(|(prefix, _)| prefix).chain(of_ip4);
            all.map(|prefix| PrefixRow { wire: wire.id, prefix })
        });
        Netstat {
            addresses: addresses.collect(),
            neighbors: neighbors.collect(),
            routes: routes.collect(),
            prefixes: prefixes.collect(),
            counters: self.counters,
            drops: self.all_drops().iter().collect(),
        }
    }
}
