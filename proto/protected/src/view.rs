//! The links of the stack, as [`moorline_host::Host`] wants to see them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_addresses::{
    AddressFlags, Advertisement, DefaultRoute, Envelope, HostView, Lifetimes, Origin,
    SpecificRoute, Uplink, UplinkAddress, read_advertisement,
};
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::icmp::{Icmp, Kind};
use moorline_ip::ip6::ICMPV6;
use moorline_ip::nd::RouterPreference;
use moorline_ip::{Header, header};
use moorline_stack::address::{self, State};
use moorline_stack::router::Route;
use moorline_stack::stack::{Event, Stack, WireId, WireView};
use moorline_types::{Instant, Prefix};

use crate::host::Host;

impl Host {
    /// Takes a valid Router Advertisement: as one of a router, and as one that the kernel of this host, the stack, has accepted.
    pub(crate) fn on_advertisement(&mut self, said: Advertisement, now: Instant) {
        let accepted = Advertisement { origin: Origin::Kernel, ..said.clone() };
        self.protocols.handle_advertisement(&said, now);
        self.protocols.handle_advertisement(&accepted, now);
        self.is_view_due = true;
    }
}

/// Number by which the protocols know a wire.
pub(crate) const fn ifindex_of(wire: WireId) -> u32 {
    wire.0.saturating_add(1)
}

/// The wire with this number.
pub(crate) const fn wire_of(ifindex: u32) -> WireId {
    WireId(ifindex.saturating_sub(1))
}

/// Whether the links look different after this event.
pub(crate) const fn is_about_links(event: &Event) -> bool {
    match event {
        Event::AddressReady(..)
        | Event::AddressDuplicate(..)
        | Event::AddressDeprecated(..)
        | Event::AddressRemoved(..)
        | Event::Disabled(_)
        | Event::RouterFound(..)
        | Event::RouterLost(..) => true,
        Event::DnsChanged(_)
        | Event::RouterUnreachable(..)
        | Event::EchoReply(_)
        | Event::EchoError { .. }
        | Event::PathMtu(..)
        | Event::UdpError { .. }
        | Event::Udp(_)
        | Event::Tcp(_) => false,
    }
}

/// The Router Advertisement in a frame; `None` if the frame is something else, or is not for this host.
pub(crate) fn advertisement(wire: &WireView<'_>, frame: &[u8]) -> Option<Advertisement> {
    // Nearly all frames are told apart by one octet.
    if *frame.get(ethernet::LEN + NEXT_HEADER_AT)? != ICMPV6 {
        return None;
    }
    let link = Ethernet::parse(frame).ok()?;
    let is_for_us = link.destination.is_group() || link.destination == wire.mac();
    let packet = frame.get(ethernet::LEN..)?;
    let header = Header::parse(packet).ok().filter(|_| is_for_us && wire.is_up())?;
    let message = packet.get(header::LEN..header.packet_len())?;
    let icmp = Icmp::parse(header.source, header.destination, message).ok()?;
    let ifindex = ifindex_of(wire.id());
    let envelope = Envelope { ifindex, source: header.source, hop_limit: header.hop_limit };
    (icmp.kind == Kind::ROUTER_ADVERTISEMENT).then(|| read_advertisement(envelope, message))?
}

/// The view of all wires.
pub(crate) fn view(
    stack: &Stack,
    duplicates: &BTreeMap<(WireId, Ipv6Addr), u8>,
    now: Instant,
) -> HostView {
    let mut view = HostView { has_moor: true, ..HostView::default() };
    for wire in stack.wires() {
        let uplink = uplink(&wire, duplicates, now);
        view.specific.extend(specific(&wire));
        let has_address = uplink.addresses.iter().any(|own| own.flags.is_usable());
        match (uplink.default_routes.is_empty(), has_address, uplink.carrier) {
            (false, true, _) => view.uplinks.push(uplink),
            (false, false, _) => view.candidates.push(uplink),
            (true, _, true) => view.bare.push(uplink),
            (true, _, false) => drop(view.dead.insert(uplink.ifindex)),
        }
    }
    view
}

fn uplink(
    wire: &WireView<'_>,
    duplicates: &BTreeMap<(WireId, Ipv6Addr), u8>,
    now: Instant,
) -> Uplink {
    let (ifindex, mut default_routes) = (ifindex_of(wire.id()), default_routes(wire));
    default_routes.sort_by_key(|route| (route.preference, route.gateway));
    let is_global = |own: &address::Address| !own.address.is_unicast_link_local();
    let addresses = wire.addresses().filter(is_global).map(|own| own_address(&own, now));
    let failed = duplicates.iter().filter(|((at, _), _)| *at == wire.id());
    let failed = failed.map(|((_, address), prefix_len)| {
        UplinkAddress::new(*address, *prefix_len, AddressFlags::DAD_FAILED, Lifetimes::FOREVER)
    });
    let link_locals = wire.addresses().filter(|own| !is_global(own)).map(|own| own.address);
    Uplink {
        carrier: wire.is_up(),
        mtu: wire.mtu(),
        gateway: default_routes.first().and_then(|route| route.gateway),
        default_routes,
        addresses: addresses.chain(failed).collect(),
        link_locals: link_locals.collect(),
        ..Uplink::new(ifindex, format!("wire{}", wire.id().0))
    }
}

fn default_routes(wire: &WireView<'_>) -> Vec<DefaultRoute> {
    let routes = wire.routes().filter(|route| route.prefix == Prefix::ALL);
    let route = |route: Route| DefaultRoute {
        preference: preference(route.preference),
        ..DefaultRoute::new(METRIC, Some(route.router))
    };
    routes.map(route).collect()
}

/// The routes of a wire that are not default routes: to the prefixes on the link, and those of RFC 4191.
fn specific(wire: &WireView<'_>) -> Vec<SpecificRoute> {
    let ifindex = ifindex_of(wire.id());
    let route = |destination, router| SpecificRoute {
        destination,
        source: None,
        metric: METRIC,
        way: Some((ifindex, router)),
        mtu: None,
    };
    let others = wire.routes().filter(|route| route.prefix != Prefix::ALL);
    let on_link = wire.prefixes().map(|prefix| route(prefix, None));
    on_link.chain(others.map(|one| route(one.prefix, Some(one.router)))).collect()
}

fn own_address(own: &address::Address, now: Instant) -> UplinkAddress {
    let flags = match own.state {
        State::Tentative => AddressFlags::TENTATIVE,
        State::Optimistic => AddressFlags(AddressFlags::TENTATIVE.0 | AddressFlags::OPTIMISTIC.0),
        State::Preferred => AddressFlags(0),
        State::Deprecated => AddressFlags::DEPRECATED,
    };
    let left = |until: Option<Instant>| match until.map(|until| until.since(now)) {
        None => u32::MAX,
        Some(left) => u32::try_from(left.as_secs()).unwrap_or(u32::MAX - 1),
    };
    let lifetimes =
        Lifetimes { preferred: left(own.lifetimes.preferred), valid: left(own.lifetimes.valid) };
    let created = u32::try_from(own.created.as_nanos() / 10_000_000).unwrap_or(u32::MAX);
    UplinkAddress { created, ..UplinkAddress::new(own.address, own.prefix_len, flags, lifetimes) }
}

/// The ends of lifetimes in seconds.
pub(crate) fn ends(lifetimes: Lifetimes, now: Instant) -> address::Lifetimes {
    let end =
        |seconds: u32| (seconds != u32::MAX).then(|| now + Duration::from_secs(seconds.into()));
    address::Lifetimes { preferred: end(lifetimes.preferred), valid: end(lifetimes.valid) }
}

/// Preference of a router as [`DefaultRoute`] has it.
const fn preference(preference: RouterPreference) -> u8 {
    match preference {
        RouterPreference::High => 0,
        RouterPreference::Medium | RouterPreference::Reserved => 1,
        RouterPreference::Low => 2,
    }
}

/// Offset of the Next Header field in the IPv6 header.
const NEXT_HEADER_AT: usize = 6;
/// Metric of all routes: the stack has none.
const METRIC: u32 = 1024;
