use super::*;
use crate::address as addresses;
use moorline_ip::address::{ALL_NODES, ALL_ROUTERS};
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::header::LEN;
use moorline_ip::icmp::Icmp;
use moorline_ip::mld::Report;
use moorline_ip::nd::{
    Message, NeighborAdvertisement, PrefixInformation, RouterAdvertisement, RouterPreference,
};
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Prefix;

pub(super) const HOST_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
pub(super) const ROUTER_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(super) const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

pub(super) fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("address")
}

/// A host, and what it has sent.
pub(super) struct Link {
    pub(super) stack: Stack,
    pub(super) now: Instant,
    pub(super) frames: Vec<Vec<u8>>,
}

impl Link {
    pub(super) fn new(config: Config) -> Self {
        let mut stack = Stack::new(config, [7; 32], Instant::ZERO);
        let addressing =
            addresses::Config { mode: addresses::Mode::Eui64, ..addresses::Config::new(HOST_MAC) };
        stack.add_wire(WireConfig { mtu: 1500, addressing, ip4: None }, Instant::ZERO);
        Self { stack, now: Instant::ZERO, frames: vec![] }
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        self.collect();
        while let Some(due) = self.stack.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.stack.handle_timeout(self.now);
            self.collect();
        }
        self.now = until;
    }

    fn collect(&mut self) {
        while let Some((_, frame)) = self.stack.poll_frame() {
            self.frames.push(frame.into_vec());
        }
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.stack.poll_event()).collect()
    }

    /// Gives the host a packet from the router's station, and takes what it sends.
    pub(super) fn give(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        payload: &[u8],
    ) {
        self.put(source, destination, protocol, payload);
        self.collect();
    }

    /// Gives the host a packet from the router's station, and polls nothing.
    pub(super) fn put(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        payload: &[u8],
    ) {
        let hop_limit = if protocol == ICMPV6 && payload[0] >= 133 { 255 } else { 64 };
        let len = u16::try_from(payload.len()).expect("short");
        let to = if destination.is_multicast() { Mac::of_group(destination) } else { HOST_MAC };
        let ethernet = Ethernet { destination: to, source: ROUTER_MAC, ether_type: ethernet::IPV6 };
        let mut frame = PacketBuf::copy_of(payload);
        frame.prepend(&Header::new(source, destination, protocol, hop_limit, len).octets());
        frame.prepend(&ethernet.octets());
        self.stack.handle_frame(WireId(0), frame, self.now);
    }

    pub(super) fn discover(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        message: &Message<'_>,
    ) {
        let mut octets = vec![];
        message.emit(source, destination, &mut octets);
        self.give(source, destination, ICMPV6, &octets);
    }

    /// The router advertises itself and a prefix.
    pub(super) fn advertise(&mut self, lifetime: Duration) {
        self.advertise_as((ROUTER, ROUTER_MAC), "2001:db8:1::", lifetime);
    }

    /// A router advertises itself and a prefix of 64 bits.
    pub(super) fn advertise_as(
        &mut self,
        (router, mac): (Ipv6Addr, Mac),
        prefix: &str,
        lifetime: Duration,
    ) {
        let body = Body::RouterAdvertisement(RouterAdvertisement {
            hop_limit: 64,
            managed: false,
            other: false,
            preference: RouterPreference::Medium,
            lifetime,
            reachable_time: Duration::ZERO,
            retrans_timer: Duration::ZERO,
        });
        let prefix = PrefixInformation {
            prefix: Prefix::new(address(prefix), 64),
            on_link: true,
            autonomous: true,
            valid: Duration::from_secs(7200),
            preferred: Duration::from_secs(3600),
        };
        let options = vec![NdOption::SourceLinkLayer(mac), NdOption::Prefix(prefix)];
        self.discover(router, ALL_NODES, &Message { body, options });
    }

    /// Lets time pass, in which a router answers solicitations and all others are silent.
    pub(super) fn run_beside(&mut self, (router, mac): (Ipv6Addr, Mac), time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let asked = Body::NeighborSolicitation { target: router };
            let sent = self.sent_discovery();
            for (header, _) in sent.iter().filter(|(_, message)| message.body == asked) {
                let body = Body::NeighborAdvertisement(NeighborAdvertisement {
                    target: router,
                    is_router: true,
                    is_solicited: true,
                    overrides: true,
                });
                let options = vec![NdOption::TargetLinkLayer(mac)];
                self.discover(router, header.source, &Message { body, options });
            }
            self.frames.clear();
            self.run(Duration::from_millis(100));
        }
    }

    /// The station, source and protocol of each packet to a destination.
    pub(super) fn packets_to(&self, destination: Ipv6Addr) -> Vec<(Mac, Ipv6Addr, u8)> {
        let read = self.frames.iter().filter_map(|frame| {
            let header = Header::parse(&frame[ethernet::LEN..]).expect("packet");
            let station = Ethernet::parse(frame).expect("frame").destination;
            let row = (station, header.source, header.next_header);
            (header.destination == destination).then_some(row)
        });
        read.collect()
    }

    /// A node at the router's station says that it has the address.
    pub(super) fn advertise_neighbor(&mut self, target: Ipv6Addr) {
        let body = Body::NeighborAdvertisement(NeighborAdvertisement {
            target,
            is_router: false,
            is_solicited: false,
            overrides: true,
        });
        let message = Message { body, options: vec![NdOption::TargetLinkLayer(ROUTER_MAC)] };
        self.discover(target, ALL_NODES, &message);
    }

    pub(super) fn ping(&mut self, source: Ipv6Addr, destination: Ipv6Addr, size: usize) {
        let mut request = vec![];
        let data = vec![1; size];
        Echo { identifier: 1, sequence: 1, data: &data }.emit(
            Kind::ECHO_REQUEST,
            source,
            destination,
            &mut request,
        );
        self.give(source, destination, ICMPV6, &request);
    }

    pub(super) fn datagram(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        ports: (u16, u16),
        payload: &[u8],
    ) {
        let mut out = vec![];
        let datagram = udp::Datagram { source_port: ports.0, destination_port: ports.1, payload };
        datagram.emit(source, destination, &mut out).expect("datagram");
        self.give(source, destination, UDP, &out);
    }

    /// The packets with this next header that the host has sent: header and payload.
    pub(super) fn packets(&mut self, next_header: u8) -> Vec<(Header, Vec<u8>)> {
        self.collect();
        let read = self.frames.iter().map(|frame| {
            let packet = &frame[ethernet::LEN..];
            (Header::parse(packet).expect("packet"), packet[LEN..].to_vec())
        });
        read.filter(|(header, _)| header.next_header == next_header).collect()
    }

    /// The messages of Neighbor Discovery that the host has sent, which must be valid.
    pub(super) fn sent_discovery(&mut self) -> Vec<(Header, Message<'static>)> {
        let packets = self.packets(ICMPV6);
        let read = packets.into_iter().filter_map(|(header, octets)| {
            let octets: &'static [u8] = octets.leak();
            let icmp = Icmp::parse(header.source, header.destination, octets).expect("checksum");
            Message::parse(&header, &icmp).expect("valid").map(|message| (header, message))
        });
        read.collect()
    }

    /// The groups of each report that the host has sent.
    pub(super) fn reports(&mut self) -> Vec<Vec<Ipv6Addr>> {
        let packets = self.packets(moorline_ip::ip6::HOP_BY_HOP);
        let read = packets.iter().filter_map(|(header, octets)| {
            let icmp =
                Icmp::parse(header.source, header.destination, &octets[8..]).expect("checksum");
            match Report::parse(&icmp).expect("valid") {
                Some(Report::Version2(records)) => {
                    Some(records.iter().map(|record| record.group).collect())
                }
                _ => None,
            }
        });
        read.collect()
    }

    /// Takes a solicitation of routers off the count; used to see that none comes.
    #[allow(dead_code, reason = "for tests of routers")]
    pub(super) fn solicitations(&mut self) -> usize {
        self.sent_discovery().iter().filter(|(header, _)| header.destination == ALL_ROUTERS).count()
    }
}
