//! Advertisements of our addresses to routers, before the routers have packets for these addresses.
//!
//! A router resolves a new address before it forwards the first packet to it. A host resolves a new router before it sends
//! the first packet. Each resolution costs a round trip of that link, in the middle of a hand-off to the link.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, HostView, Uplink};
use moorline_link::{Icmp6Sender, Introduction};
use moorline_types::Instant;

use crate::clock;

/// Record of the advertisements that routers have received.
#[derive(Debug)]
pub(crate) struct Introductions {
    socket: Icmp6Sender,
    /// Advertised addresses, with the names of their links.
    told: BTreeMap<Introduction, String>,
    /// Addresses advertised again since that time.
    repeated: (Instant, BTreeSet<Ipv6Addr>),
}

impl Introductions {
    pub(crate) fn open() -> std::io::Result<Self> {
        let repeated = (clock::now(), BTreeSet::new());
        Ok(Self { socket: Icmp6Sender::open()?, told: BTreeMap::new(), repeated })
    }

    /// Sends advertisements for each change: a new address, a new router, a link that works again.
    pub(crate) fn follow(&mut self, view: &HostView) {
        let all = |uplink| introductions(uplink).into_iter().map(|what| (what, &uplink.name));
        let mut wanted = BTreeMap::new();
        for (what, name) in view.uplinks.iter().flat_map(all) {
            if !self.told.contains_key(&what) {
                self.send(&what, name);
            }
            wanted.insert(what, name.clone());
        }
        self.told = wanted;
    }

    /// Advertises an address again, because traffic for it is about to arrive: routers forget addresses that they do not
    /// use. If the address is not known, the daemon has just added it on this interface. If very many pairs move to the
    /// address, only the first move sends an advertisement.
    pub(crate) fn repeat(&mut self, address: Ipv6Addr, ifindex: u32, now: Instant) {
        if now.since(self.repeated.0) >= AGAIN {
            self.repeated = (now, BTreeSet::new());
        }
        if !self.repeated.1.insert(address) {
            return;
        }
        let mut known = self.told.iter().filter(|(known, _)| known.address == address).peekable();
        if known.peek().is_none()
            && let Some((beside, name)) = self.told.iter().find(|(one, _)| one.ifindex == ifindex)
        {
            self.send(&Introduction { address, is_optimistic: true, ..*beside }, name);
        }
        known.for_each(|(known, name)| self.send(known, name));
    }

    fn send(&self, what: &Introduction, link_name: &str) {
        if let Err(error) = self.socket.introduce(what) {
            // The address, link or router may be gone. A router that needs the address will resolve it.
            tracing::debug!(%error, link_name, "router not told of an address");
        }
    }
}

/// Returns an advertisement for each pair of a usable address and a router of the uplink.
fn introductions(uplink: &Uplink) -> Vec<Introduction> {
    if !uplink.carrier {
        return Vec::new();
    }
    let routers = uplink.default_routes.iter().filter_map(|route| route.gateway);
    let routers: BTreeSet<_> = routers.collect();
    let is_optimistic = |flags: AddressFlags| flags.contains(AddressFlags::OPTIMISTIC);
    let is_usable = |flags: AddressFlags| {
        !flags.contains(AddressFlags::DAD_FAILED)
            && (!flags.contains(AddressFlags::TENTATIVE) || is_optimistic(flags))
    };
    let ours = uplink.addresses.iter().filter(|own| is_usable(own.flags));
    let pairs = ours.flat_map(|own| routers.iter().map(move |router| (own, *router)));
    let all = pairs.map(|(own, router)| Introduction {
        ifindex: uplink.ifindex,
        router,
        address: own.address,
        is_optimistic: is_optimistic(own.flags),
    });
    all.take(MAX_ON_UPLINK).collect()
}

/// Shortest time between two advertisements of an address.
const AGAIN: Duration = Duration::from_secs(1);
/// Largest number of advertised addresses on an uplink. A host with more addresses does not move to all of them.
const MAX_ON_UPLINK: usize = 64;

#[cfg(test)]
mod tests {
    use moorline_addresses::{DefaultRoute, Lifetimes, UplinkAddress};

    use super::*;

    fn address(text: &str, flags: AddressFlags) -> UplinkAddress {
        UplinkAddress::new(text.parse().expect("an address"), 64, flags, Lifetimes::FOREVER)
    }

    fn uplink(addresses: &[UplinkAddress], gateways: &[Option<&str>]) -> Uplink {
        let gateway = |text: &Option<&str>| text.map(|text| text.parse().expect("an address"));
        let route = |text| DefaultRoute::new(1, gateway(text));
        Uplink {
            default_routes: gateways.iter().map(route).collect(),
            addresses: addresses.to_vec(),
            ..Uplink::new(7, "isp")
        }
    }

    #[test]
    fn every_router_is_told_of_every_address_that_can_be_used() {
        let optimistic = AddressFlags(AddressFlags::TENTATIVE.0 | AddressFlags::OPTIMISTIC.0);
        let addresses = [
            address("2001:db8::1", AddressFlags::DEPRECATED),
            address("2001:db8::2", AddressFlags::TENTATIVE),
            address("2001:db8::3", optimistic),
            address("2001:db8::4", AddressFlags::DAD_FAILED),
        ];
        let uplink = uplink(&addresses, &[Some("fe80::1"), None, Some("fe80::2"), Some("fe80::1")]);
        let told = introductions(&uplink);
        let told: Vec<_> = told
            .iter()
            .map(|one| format!("{} {} {}", one.address, one.router, one.is_optimistic))
            .collect();
        let expected = [
            "2001:db8::1 fe80::1 false",
            "2001:db8::1 fe80::2 false",
            "2001:db8::3 fe80::1 true",
            "2001:db8::3 fe80::2 true",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn nobody_is_told_by_a_link_that_is_down_and_again_when_it_is_back() {
        let up = uplink(&[address("2001:db8::1", AddressFlags::PERMANENT)], &[Some("fe80::1")]);
        let down = Uplink { carrier: false, ..up.clone() };
        assert_eq!((introductions(&up).len(), introductions(&down).len()), (1, 0));
    }
}
