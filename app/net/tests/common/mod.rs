//! A link between hosts, with a router that advertises a prefix and does nothing else.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may, and not each test uses all of them"
)]

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_ip::address::ALL_NODES;
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::ip6::ICMPV6;
use moorline_ip::nd::{
    Body, Message, NdOption, PrefixInformation, RouterAdvertisement, RouterPreference,
};
use moorline_ip::{Header, Mac, PacketBuf};
use moorline_net::{AddressMode, Builder, Host, Wire};
use moorline_types::Prefix;
use tokio::sync::mpsc;

type Frames = mpsc::UnboundedSender<PacketBuf>;

/// Brings hosts up on one link. Their addresses are those of [`address`], and the first of them is the DNS server.
pub(crate) async fn hosts<const N: usize>() -> [Host; N] {
    let ports: Vec<_> = (0..N).map(|_| mpsc::unbounded_channel()).collect();
    let senders: Vec<Frames> = ports.iter().map(|(sender, _)| sender.clone()).collect();
    let mut hosts = Vec::new();
    for (port, (_, frames)) in ports.into_iter().enumerate() {
        let (ours, mut theirs) = Wire::pair().unwrap();
        theirs.set_mac(mac(port)).unwrap();
        tokio::spawn(switch(ours, frames, senders.clone(), port));
        let builder = Builder::new().addresses(AddressMode::Eui64).optimistic(true);
        hosts.push(builder.wire("link", theirs).up().unwrap());
    }
    for (port, host) in hosts.iter().enumerate() {
        assert_eq!(host.address().await, address(port));
    }
    hosts.try_into().ok().unwrap()
}

/// Address of a host on the link.
pub(crate) fn address(port: usize) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(PREFIX) | 0xff_fe00_0000 | u128::try_from(port).unwrap())
}

fn mac(port: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, u8::try_from(port).unwrap()])
}

/// Carries frames between a port and the others. A Router Solicitation is answered.
async fn switch(
    mut wire: Wire,
    mut frames: mpsc::UnboundedReceiver<PacketBuf>,
    ports: Vec<Frames>,
    port: usize,
) {
    loop {
        let received = tokio::select! {
            received = wire.recv() => received,
            frame = frames.recv() => {
                if wire.send(&frame.unwrap()).await.is_err() {
                    return;
                }
                continue;
            }
        };
        // The host has ended.
        let Ok(frame) = received else { return };
        if frame.get(ethernet::LEN + 40) == Some(&ROUTER_SOLICITATION) {
            wire.send(&advertisement()).await.unwrap();
        }
        for (_, other) in ports.iter().enumerate().filter(|(number, _)| *number != port) {
            // The other host may have ended.
            let _ = other.send(frame.clone());
        }
    }
}

/// An advertisement of the prefix, and of the first host as the DNS server. The router leads nowhere.
fn advertisement() -> PacketBuf {
    let body = Body::RouterAdvertisement(RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        preference: RouterPreference::Medium,
        lifetime: Duration::ZERO,
        reachable_time: Duration::ZERO,
        retrans_timer: Duration::ZERO,
    });
    let lifetime = Duration::from_secs(3600);
    let prefix = PrefixInformation {
        prefix: Prefix::new(PREFIX, 64),
        on_link: true,
        autonomous: true,
        valid: lifetime,
        preferred: lifetime,
    };
    let options =
        vec![NdOption::Prefix(prefix), NdOption::RecursiveDns(lifetime, vec![address(0)])];
    let mut packet = PacketBuf::with_capacity(1500);
    packet.append_with(|out| Message { body, options }.emit(ROUTER, ALL_NODES, out));
    let len = packet.len().try_into().unwrap();
    let header = Header::new(ROUTER, ALL_NODES, ICMPV6, 255, len);
    packet.prepend(&header.octets());
    let destination = Mac([0x33, 0x33, 0, 0, 0, 1]);
    let source = Mac([2, 0, 0, 0, 1, 0]);
    packet.prepend(&Ethernet { destination, source, ether_type: ethernet::IPV6 }.octets());
    packet
}

const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xff);
const ROUTER_SOLICITATION: u8 = 133;
