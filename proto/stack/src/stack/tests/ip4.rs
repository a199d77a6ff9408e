//! IPv4 by octets, and between two hosts in memory.

mod hostile;
mod hosts;

use alloc::string::String;
use core::net::Ipv4Addr;

use super::*;
use crate::Drop;
use crate::ip4 as v4;
use hex::FromHex as _;
use hosts::{A, B, Pair, host, mapped};
use moorline_ip::ethernet;
use moorline_ip::ip4::Ip4;
use moorline_ip::{PacketBuf, icmp4};

/// A host at 192.0.2.2 beside a station that is made of octets.
struct Octets {
    stack: Stack,
    now: Instant,
}

impl Octets {
    fn new() -> Self {
        let mut octets = Self { stack: host(2, Some(1)), now: Instant::from_nanos(1) };
        // The host learns of 192.0.2.1.
        octets.give(
            "ffffffffffff0200000000010806000108000604000102000000 0001c0000201000000000000c0000202",
        );
        octets
    }

    /// Gives the host a frame, and returns its frames and the drops that are new.
    fn give(&mut self, frame: &str) -> Vec<String> {
        self.give_octets(&Vec::from_hex(frame.replace(' ', "")).expect("hex"))
    }

    fn give_octets(&mut self, frame: &[u8]) -> Vec<String> {
        self.stack.handle_frame(WireId(0), PacketBuf::copy_of(frame), self.now);
        self.sent()
    }

    /// Lets time pass.
    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.stack.poll_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.stack.handle_timeout(self.now);
        }
        self.now = until;
    }

    /// The frames of IPv4 and ARP that the host has sent.
    fn sent(&mut self) -> Vec<String> {
        let all = core::iter::from_fn(|| self.stack.poll_frame());
        let all = all.map(|(_, frame)| hex::encode(&frame[..]));
        all.filter(|frame| frame[24..28] != *"86dd").collect()
    }

    /// Gives the host a packet of IPv4 with these changes, in a frame to it.
    fn packet(&mut self, ip: Ip4, payload: &[u8]) -> Vec<String> {
        self.give_octets(&framed(ip, payload))
    }

    fn drops(&self, reason: Drop) -> u64 {
        self.stack.all_drops().of(reason)
    }
}

/// The header of a packet from 192.0.2.1 to 192.0.2.2.
fn header(protocol: u8, payload_len: usize) -> Ip4 {
    Ip4 {
        tos: 0,
        header_len: 20,
        total_len: u16::try_from(20 + payload_len).expect("short"),
        identification: 7,
        dont_fragment: false,
        more_fragments: false,
        offset: 0,
        ttl: 64,
        protocol,
        source: A,
        destination: B,
    }
}

fn framed(ip: Ip4, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(ip.octets());
    frame.extend(payload);
    frame
}

fn datagram(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let datagram = udp::Datagram { source_port: ports.0, destination_port: ports.1, payload };
    datagram.emit(mapped(A), mapped(B), &mut out).expect("short");
    out
}

fn echo_request(data: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let echo = Echo { identifier: 1, sequence: 2, data };
    icmp4::Message::EchoRequest(echo).emit(&mut out);
    out
}

#[test]
fn a_request_of_arp_and_an_echo_are_answered_octet_for_octet() {
    let mut host = Octets { stack: host(2, Some(1)), now: Instant::from_nanos(1) };
    host.sent();
    let reply = host.give(
        "ffffffffffff02000000000108060001080006040001020000000001c0000201000000000000c0000202",
    );
    let wanted =
        "02000000000102000000000208060001080006040002020000000002c0000202020000000001c0000201";
    assert_eq!(reply, [wanted]);
    // The frame, the packet and the message were written by hand from RFC 791 and RFC 792.
    let reply = host.give("0200000000020200000000010800450000241c4640003f019b8fc0000201c000020208004047000700016d6f6f726c696e65");
    let wanted = "020000000001020000000002080045000024000040004001b6d5c0000202c000020100004847000700016d6f6f726c696e65";
    assert_eq!(reply, [wanted]);
}

#[test]
fn a_datagram_to_a_closed_port_draws_an_error_octet_for_octet() {
    let mut host = Octets::new();
    let error = host.give("02000000000202000000000108004500 0021abcd0000111179fbc0000201c000020203e807d0000d2c4668656c6c6f");
    let wanted = "02000000000102000000000208004500003d000040004001b6bcc0000202c00002010303811f0000000045000021abcd0000111179fbc0000201c000020203e807d0000d2c4668656c6c6f";
    assert_eq!(error, [wanted]);
    assert_eq!(host.drops(Drop::NoSocket), 1);
}

#[test]
fn options_are_skipped_and_a_datagram_may_have_no_checksum() {
    let mut host = Octets::new();
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    // Router Alert (RFC 2113) and a timestamp (RFC 791) of no use.
    let mut ip = vec![0x47, 0, 0, 41, 0, 1, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    ip.extend([148, 4, 0, 0, 1, 1, 1, 0]);
    moorline_ip::fill(&mut ip, 10, moorline_ip::checksum);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(ip);
    let mut udp = datagram((1000, 2000), b"hello");
    udp[6..8].fill(0);
    frame.extend(udp);
    host.give_octets(&frame);
    let received = host.stack.udp_recv(socket).expect("a datagram");
    assert_eq!((received.source, received.destination), (mapped(A), mapped(B)));
    assert_eq!((&*received.payload, received.hop_limit), (&b"hello"[..], 9));
}

#[test]
fn hosts_ping_each_other() {
    let mut pair = Pair::new();
    for (host, to) in [(0, B), (1, A)] {
        pair.hosts[host].ping(mapped(to), (7, 1), &[1; 3000], pair.now).expect("a way");
        pair.run(Duration::from_secs(1));
        let answer =
            EchoReply { from: mapped(to), identifier: 7, sequence: 1, size: 3000, hop_limit: 64 };
        assert!(pair.events(host).contains(&Event::EchoReply(answer)));
    }
    // 3008 octets are three fragments in each direction.
    assert_eq!(pair.frames_of(ethernet::IPV4).len(), 12);
    assert_eq!(pair.frames_of(ethernet::ARP).len(), 2, "one request, one reply");
}

#[test]
fn a_socket_of_all_addresses_receives_both_versions() {
    let mut pair = Pair::new();
    pair.run(Duration::from_secs(5));
    let socket = pair.hosts[1].udp_bind(None, Some(53)).expect("socket");
    let client = pair.hosts[0].udp_bind(None, None).expect("socket");
    let link_local = address("fe80::0:ff:fe00:2");
    for (to, source) in [(mapped(B), mapped(A)), (link_local, address("fe80::0:ff:fe00:1"))] {
        pair.send(0, client, (to, 53), b"question");
        let question = pair.hosts[1].udp_recv(socket).expect("a datagram");
        assert_eq!((question.source, question.destination), (source, to));
        pair.send(1, socket, (question.source, question.source_port), b"answer");
        let answer = pair.hosts[0].udp_recv(client).expect("a datagram");
        assert_eq!((answer.source, &*answer.payload), (to, &b"answer"[..]));
    }
}

#[test]
fn a_connection_to_a_mapped_address_carries_octets_both_ways() {
    let mut pair = Pair::new();
    let listener = pair.hosts[1].tcp_listen(None, 80, 8).expect("listener");
    let client = pair.hosts[0].tcp_connect((mapped(B), 80), pair.now).expect("a way");
    pair.run(Duration::from_millis(10));
    let server = pair.hosts[1].tcp_accept(listener).expect("listener").expect("connection");
    let flow = pair.hosts[1].tcp_flow(server).expect("connection");
    assert_eq!((flow.local.0, flow.peer.0), (mapped(B), mapped(A)));
    for (from, to) in [((0, client), (1, server)), ((1, server), (0, client))] {
        let octets: Vec<u8> = (0..200_000_u32).map(|at| at.to_le_bytes()[1]).collect();
        assert_eq!(pair.carry(from, to, &octets), octets);
    }
    let largest = pair.frames_of(ethernet::IPV4).iter().map(Vec::len).max();
    assert_eq!(largest, Some(14 + 1500), "the MSS is the one of IPv4");
    let all_df = pair.frames_of(ethernet::IPV4).iter().all(|frame| frame[20] & 0x40 != 0);
    assert!(all_df, "path MTU discovery (RFC 1191 s3)");
    // Nobody listens at the other port.
    let refused = pair.hosts[0].tcp_connect((mapped(B), 81), pair.now).expect("a way");
    pair.run(Duration::from_millis(10));
    let closed = crate::tcp::Event::Closed(refused, Some(crate::socket::Error::ConnectionRefused));
    assert!(pair.events(0).contains(&Event::Tcp(closed)));
}

#[test]
fn fragments_are_one_datagram_in_any_order() {
    let mut host = Octets::new();
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let whole = datagram((1000, 2000), &[9; 40]);
    for (offset, more_fragments, range) in
        [(40, false, 40..48), (0, true, 0..24), (24, true, 24..40)]
    {
        let part = &whole[range];
        host.packet(Ip4 { offset, more_fragments, ..header(UDP, part.len()) }, part);
    }
    assert_eq!(*host.stack.udp_recv(socket).expect("a datagram").payload, [9; 40]);
    // The Identification of another protocol names another datagram (RFC 791 s2.3).
    host.packet(Ip4 { more_fragments: true, ..header(UDP, 24) }, &whole[..24]);
    host.packet(Ip4 { offset: 24, ..header(6, 24) }, &whole[24..]);
    assert!(host.stack.udp_recv(socket).is_err());
    host.packet(Ip4 { offset: 24, ..header(UDP, 24) }, &whole[24..]);
    assert!(host.stack.udp_recv(socket).is_ok());
}

#[test]
fn a_datagram_that_stays_incomplete_draws_time_exceeded_with_its_first_fragment() {
    let mut host = Octets::new();
    let first = datagram((1000, 2000), &[9; 40]);
    let ip = Ip4 { more_fragments: true, ..header(UDP, 24) };
    let frame = framed(ip, &first[..24]);
    host.give_octets(&frame);
    host.run(Duration::from_secs(59));
    assert_eq!(host.sent(), Vec::<String>::new());
    host.run(Duration::from_secs(1));
    let sent = host.sent();
    let error = sent.iter().find(|frame| frame[24..28] == *"0800").expect("an error");
    assert_eq!(error[68..72], *"0b01", "Time Exceeded, code 1");
    assert_eq!(error[84..], hex::encode(&frame[14..]), "the fragment as it was");
    assert_eq!(host.drops(Drop::FragmentTimeout), 1);
}

#[test]
fn a_router_lowers_the_path_mtu_and_not_below_576() {
    let mut host = Octets::new();
    let far = Ipv4Addr::new(198, 51, 100, 9);
    let ping = |host: &mut Octets, size| {
        host.stack.ping(mapped(far), (7, 1), &vec![1; size], host.now).expect("a way");
        let sent = host.sent().into_iter().map(|frame| Vec::from_hex(frame).expect("hex"));
        sent.map(|frame| frame[14..].to_vec()).collect::<Vec<_>>()
    };
    let mtu_of = |host: &mut Octets, quote: &[u8], mtu| {
        let mut error = vec![];
        let cause = icmp4::Cause::FragmentationNeeded(mtu);
        icmp4::Message::Error(icmp4::Error { cause, quote }).emit(&mut error);
        host.packet(header(1, error.len()), &error);
        let events = core::iter::from_fn(|| host.stack.poll_event());
        events.filter(|event| matches!(event, Event::PathMtu(..))).collect::<Vec<_>>()
    };
    let largest = |packets: &[Vec<u8>]| packets.iter().map(Vec::len).max();
    let whole = ping(&mut host, 1472);
    assert_eq!(largest(&whole), Some(1500));
    assert_eq!((whole[0][6], whole.len()), (0x40, 1), "the packet may not be fragmented");
    let event = |mtu| vec![Event::PathMtu(mapped(far), mtu)];
    assert_eq!(mtu_of(&mut host, &whole[0], 1400), event(1400));
    let cut = ping(&mut host, 1472);
    assert_eq!((largest(&cut), cut.len()), (Some(1396), 2));
    assert!(cut.iter().all(|packet| packet[6] & 0x40 != 0 && packet[4..6] == cut[0][4..6]));
    // A larger MTU, and an error about a packet of nobody, change nothing.
    assert_eq!(mtu_of(&mut host, &whole[0], 1450), []);
    let foreign = Ip4 { source: A, destination: far, ..header(1, 8) }.octets();
    assert_eq!(mtu_of(&mut host, &[&foreign[..], &whole[0][20..]].concat(), 600), []);
    assert_eq!(host.drops(Drop::ForeignError), 1);
    // A router that says nothing (before RFC 1191), or 68.
    for mtu in [0, 68] {
        assert_eq!(mtu_of(&mut host, &whole[0], mtu), if mtu == 0 { event(576) } else { vec![] });
        let small = ping(&mut host, 100);
        assert_eq!(small[0][6], 0, "routers may fragment now");
        let next = ping(&mut host, 1472);
        assert_eq!(largest(&next), Some(20 + 552));
        assert!(next.iter().all(|packet| packet[6] & 0x40 == 0));
        assert_ne!(small[0][4..6], next[0][4..6], "RFC 6864: unique");
    }
}

#[test]
fn errors_reach_the_sender_with_the_meaning_that_sockets_know() {
    let mut host = Octets::new();
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let options = crate::udp::Options::default();
    host.stack.udp_send_to(socket, b"x", Some((mapped(A), 9)), options, host.now).expect("sent");
    let sent = Vec::from_hex(&host.sent()[0]).expect("hex");
    for (cause, told) in [
        (icmp4::Cause::Unreachable(0), Cause::Unreachable(icmp::NO_ROUTE)),
        (icmp4::Cause::Unreachable(1), Cause::Unreachable(icmp::ADDRESS_UNREACHABLE)),
        (icmp4::Cause::Unreachable(2), Cause::ParameterProblem(icmp::UNKNOWN_NEXT_HEADER, 0)),
        (icmp4::Cause::Unreachable(3), Cause::Unreachable(icmp::PORT_UNREACHABLE)),
        (icmp4::Cause::Unreachable(13), Cause::Unreachable(icmp::PROHIBITED)),
        (icmp4::Cause::TimeExceeded(0), Cause::TimeExceeded(icmp::HOP_LIMIT)),
        (icmp4::Cause::ParameterProblem(0, 20), Cause::ParameterProblem(0, 20)),
    ] {
        let mut error = vec![];
        // RFC 792: the header and 8 octets are enough.
        icmp4::Message::Error(icmp4::Error { cause, quote: &sent[14..42] }).emit(&mut error);
        host.packet(header(1, error.len()), &error);
        let event = core::iter::from_fn(|| host.stack.poll_event()).last();
        let is_it = matches!(event, Some(Event::UdpError { quote, from, cause })
            if quote.source_port == 2000 && from == mapped(A) && cause == told);
        assert!(is_it, "{cause:?}: {event:?}");
    }
}

#[test]
fn a_neighbor_that_does_not_answer_is_told_to_the_sender() {
    let mut pair = Pair::new();
    let nobody = Ipv4Addr::new(192, 0, 2, 99);
    pair.hosts[0].ping(mapped(nobody), (7, 3), &[], pair.now).expect("a way");
    pair.run(Duration::from_secs(5));
    let told = pair.events(0);
    assert!(told.iter().any(|event| matches!(event, Event::EchoError { destination, cause, .. }
        if *destination == mapped(nobody) && *cause == Cause::Unreachable(icmp::ADDRESS_UNREACHABLE))));
}

#[test]
fn other_networks_are_behind_the_gateway_or_unreachable() {
    let far = mapped(Ipv4Addr::new(198, 51, 100, 9));
    let mut with = Octets::new();
    with.stack.tcp_connect((far, 80), with.now).expect("a way");
    assert_eq!(with.sent()[0][..12], *"020000000001");
    let mut without = Octets { stack: host(2, None), now: Instant::from_nanos(1) };
    let refused = without.stack.tcp_connect((far, 80), without.now);
    assert_eq!(refused, Err(crate::socket::Error::NetworkUnreachable));
    // No IPv4 address, no IPv4.
    let mut link = Link::new(Config::default());
    let refused = link.stack.tcp_connect((mapped(A), 80), link.now);
    assert_eq!(refused, Err(crate::socket::Error::NetworkUnreachable));
}

#[test]
fn a_host_talks_to_its_own_ipv4_addresses_without_a_frame() {
    let mut host = Octets::new();
    for own in [mapped(B), mapped(Ipv4Addr::LOCALHOST)] {
        let listener = host.stack.tcp_listen(Some(own), 80, 8).expect("listener");
        host.stack.tcp_connect((own, 80), host.now).expect("a way");
        assert!(host.stack.tcp_accept(listener).expect("listener").is_some());
        host.stack.ping(own, (9, 9), &[0; 2000], host.now).expect("a way");
    }
    assert_eq!(host.sent(), Vec::<String>::new());
    let replies = core::iter::from_fn(|| host.stack.poll_event());
    assert_eq!(replies.filter(|event| matches!(event, Event::EchoReply(_))).count(), 2);
}

#[test]
fn packets_of_ipv4_do_not_stop_between_the_layers() {
    let config = Config { intercepts: true, ..Config::default() };
    let mut host = Octets { stack: hosts::host_with(config, 2, None), now: Instant::from_nanos(1) };
    host.give(
        "ffffffffffff02000000000108060001080006040001020000000001c0000201000000000000c0000202",
    );
    let request = echo_request(&[]);
    assert_eq!(host.packet(header(1, request.len()), &request).len(), 1);
    assert_eq!((host.stack.poll_inbound(), host.stack.poll_outbound()), (None, None));
}

#[test]
fn the_state_for_people_has_the_address_the_neighbors_and_the_gateway() {
    let host = Octets::new();
    let state = host.stack.netstat(host.now);
    let row = state.addresses.iter().find(|row| row.address == mapped(B)).expect("a row");
    assert_eq!(row.prefix_len, 120);
    assert!(state.neighbors.iter().any(|row| row.address == mapped(A) && row.mac.is_some()));
    assert!(state.routes.iter().any(|row| row.router == mapped(A) && row.prefix.length() == 96));
    assert!(state.prefixes.iter().any(|row| row.prefix.contains(mapped(A))));
}
