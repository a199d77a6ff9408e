use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::Instant;

use super::Stack;
use crate::select::{self, Destination};

impl Stack {
    /// The DNS servers that routers advertise, the best of each wire first (RFC 8106).
    #[must_use]
    pub fn dns_servers(&self, now: Instant) -> Vec<Ipv6Addr> {
        self.wires.iter().flat_map(|wire| wire.routers.dns_servers(now)).collect()
    }

    /// The search domains that routers advertise, the best of each wire first, without a dot at their ends (RFC 8106).
    #[must_use]
    pub fn search_domains(&self, now: Instant) -> Vec<String> {
        self.wires
            .iter()
            .flat_map(|wire| wire.routers.search_domains(now))
            .map(Into::into)
            .collect()
    }

    /// Sorts the addresses of a name, the best first (RFC 6724 s6).
    //= rfc6724#8-2
    pub fn order_destinations(&mut self, addresses: &mut [Ipv6Addr], now: Instant) {
        let destinations = addresses.iter().map(|address| {
            let source = self.source_candidate(*address, None, now);
            Destination { address: *address, source, is_reachable: true, is_encapsulated: false }
        });
        let mut destinations: Vec<_> = destinations.collect();
        select::order(&mut destinations, &self.policy);
        for (address, destination) in addresses.iter_mut().zip(destinations) {
            *address = destination.address;
        }
    }
}
