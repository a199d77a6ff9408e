//! Routers that do not answer. A path with an address of such a router carries nothing, so the protocols look for another one at
//! once, without waiting for the end of the Send Timeout (RFC 5534 s3.2).

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_addresses::Uplink;
use moorline_stack::stack::{Event, WireId};
use moorline_types::{Instant, Locator};

use crate::host::Host;
use crate::view::ifindex_of;

impl Host {
    /// Follows an event about a router.
    pub(crate) fn on_router(&mut self, event: &Event, now: Instant) {
        match *event {
            Event::RouterUnreachable(wire, router) => self.on_unreachable(wire, router, now),
            Event::RouterLost(wire, router) => drop(self.silent.remove(&(wire, router))),
            Event::AddressReady(..)
            | Event::AddressDuplicate(..)
            | Event::AddressDeprecated(..)
            | Event::AddressRemoved(..)
            | Event::Disabled(_)
            | Event::RouterFound(..)
            | Event::DnsChanged(_)
            | Event::EchoReply(_)
            | Event::EchoError { .. }
            | Event::PathMtu(..)
            | Event::UdpError { .. }
            | Event::Udp(_)
            | Event::Tcp(_) => {}
        }
    }

    /// Tells the protocols that a router does not answer.
    fn on_unreachable(&mut self, wire: WireId, router: Ipv6Addr, now: Instant) {
        self.silent.insert((wire, router));
        let ifindex = ifindex_of(wire);
        let Some(uplink) = self.protocols.view().uplink(ifindex) else { return };
        if is_only_gateway(uplink, router) {
            return self.protocols.handle_router_lost(ifindex, now);
        }
        // The other routers of the link go on.
        let local = addresses_of(uplink, router);
        self.protocols.handle_router_lost_of(&local, now);
    }

    /// Tells the protocols of each silent router that answers again.
    pub(crate) fn find_routers(&mut self, now: Instant) {
        if self.silent.is_empty() {
            return;
        }
        let Self { silent, stack, .. } = self;
        let answers = |(wire, router): &(WireId, Ipv6Addr)| {
            let mut wires = stack.wires().filter(|known| known.id() == *wire);
            wires.any(|known| known.is_reachable(*router, now))
        };
        let found: Vec<_> = silent.extract_if(.., answers).collect();
        for (wire, _) in found {
            self.protocols.handle_router_found(ifindex_of(wire), now);
        }
    }
}

/// Whether all traffic of the uplink for anywhere takes this router. A router with routes to prefixes alone (RFC 4191) is no gateway.
fn is_only_gateway(uplink: &Uplink, router: Ipv6Addr) -> bool {
    let mut gateways = uplink.default_routes.iter().map(|route| route.gateway);
    gateways.len() > 0 && gateways.all(|gateway| gateway == Some(router))
}

/// The addresses whose prefixes this router advertises, and no other one.
fn addresses_of(uplink: &Uplink, router: Ipv6Addr) -> Vec<Locator> {
    let is_of = |address: Ipv6Addr| {
        let mut by = uplink.advertisers.iter().filter(|(prefix, _)| prefix.contains(address));
        by.clone().count() > 0 && by.all(|(_, advertiser)| *advertiser == router)
    };
    let own = uplink.addresses.iter().map(|own| own.address);
    own.filter(|address| is_of(*address)).map(Locator).collect()
}

#[cfg(test)]
mod tests {
    use moorline_addresses::{DefaultRoute, Uplink};

    use super::is_only_gateway;

    #[test]
    fn a_router_of_prefixes_alone_is_not_the_way_to_everywhere() {
        let [gateway, other, of_prefixes] = [1, 2, 3].map(|n| [0xfe80, 0, 0, 0, 0, 0, 0, n].into());
        let mut uplink = Uplink::new(1, "wire0");
        assert!(!is_only_gateway(&uplink, of_prefixes));
        uplink.default_routes.push(DefaultRoute::new(1024, Some(gateway)));
        assert!(is_only_gateway(&uplink, gateway));
        assert!(!is_only_gateway(&uplink, of_prefixes));
        uplink.default_routes.push(DefaultRoute::new(1024, Some(other)));
        assert!(!is_only_gateway(&uplink, gateway));
    }
}
