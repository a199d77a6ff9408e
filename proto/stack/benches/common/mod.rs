//! Hosts without a wire: frames go from one to the other by function calls.
#![allow(dead_code, reason = "each bench has its own part")]

use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::{ALL_NODES, with_interface_id};
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::ip6::ICMPV6;
use moorline_ip::nd::{
    Body, Message, NdOption, NeighborAdvertisement, PrefixInformation, RouterAdvertisement,
    RouterPreference,
};
use moorline_ip::{Header, Mac, PacketBuf};
use moorline_stack::address;
use moorline_stack::stack::{Config, Stack, WireConfig, WireId};
use moorline_types::{Instant, Prefix};

pub(crate) const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0xff]);
pub(crate) const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xff);
pub(crate) const WIRE: WireId = WireId(0);

/// A host with an address in an on-link prefix.
pub(crate) struct Host {
    pub(crate) stack: Stack,
    pub(crate) mac: Mac,
    pub(crate) address: Ipv6Addr,
    pub(crate) now: Instant,
}

impl Host {
    /// A host with this number, on a link of this MTU and prefix.
    pub(crate) fn new(number: u8, mtu: u32, prefix: Ipv6Addr, config: Config) -> Self {
        let mac = Mac([2, 0, 0, 0, 0, number]);
        let addressing =
            address::Config { mode: address::Mode::Eui64, ..address::Config::new(mac) };
        let mut stack = Stack::new(config, [number; 32], Instant::ZERO);
        stack.add_wire(WireConfig { mtu, addressing, ip4: None }, Instant::ZERO);
        let address = with_interface_id(prefix, mac.eui64());
        let mut host = Self { stack, mac, address, now: Instant::ZERO };
        host.run(Duration::from_secs(3));
        host.give(ROUTER, ALL_NODES, ICMPV6, &advertisement(prefix));
        host.run(Duration::from_secs(3));
        host
    }

    /// Lets time pass, and drops what the host sends and tells.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.stack.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.stack.handle_timeout(self.now);
        }
        self.now = end;
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        while self.stack.poll_frame().is_some() {}
        while self.stack.poll_event().is_some() {}
    }

    pub(crate) fn give(&mut self, source: Ipv6Addr, to: Ipv6Addr, protocol: u8, payload: &[u8]) {
        let frame = self.frame(source, to, protocol, payload);
        self.stack.handle_frame(WIRE, frame, self.now);
    }

    /// A frame for the host from the station of the router.
    pub(crate) fn frame(
        &self,
        source: Ipv6Addr,
        to: Ipv6Addr,
        protocol: u8,
        payload: &[u8],
    ) -> PacketBuf {
        let len = u16::try_from(payload.len()).expect("short");
        let mut frame = PacketBuf::copy_of(payload);
        frame.prepend(&Header::new(source, to, protocol, 255, len).octets());
        let destination = if to.is_multicast() { Mac::of_group(to) } else { self.mac };
        let link = Ethernet { destination, source: ROUTER_MAC, ether_type: ethernet::IPV6 };
        frame.prepend(&link.octets());
        frame
    }

    /// Tells the host the link-layer address of a neighbor.
    pub(crate) fn know(&mut self, neighbor: Ipv6Addr, mac: Mac) {
        let body = Body::NeighborAdvertisement(NeighborAdvertisement {
            target: neighbor,
            is_router: false,
            is_solicited: true,
            overrides: true,
        });
        let message = Message { body, options: vec![NdOption::TargetLinkLayer(mac)] };
        let mut octets = vec![];
        message.emit(neighbor, self.address, &mut octets);
        self.give(neighbor, self.address, ICMPV6, &octets);
    }
}

fn advertisement(prefix: Ipv6Addr) -> Vec<u8> {
    let body = Body::RouterAdvertisement(RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        preference: RouterPreference::Medium,
        lifetime: Duration::from_secs(9000),
        reachable_time: Duration::from_secs(3600),
        retrans_timer: Duration::ZERO,
    });
    let prefix = PrefixInformation {
        prefix: Prefix::new(prefix, 64),
        on_link: true,
        autonomous: true,
        valid: Duration::from_secs(72_000),
        preferred: Duration::from_secs(36_000),
    };
    let options = vec![NdOption::SourceLinkLayer(ROUTER_MAC), NdOption::Prefix(prefix)];
    let mut octets = vec![];
    Message { body, options }.emit(ROUTER, ALL_NODES, &mut octets);
    octets
}
