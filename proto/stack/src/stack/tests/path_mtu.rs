//! Path MTU Discovery of the whole host (RFC 8201).

use moorline_ip::ip6::TCP;

use super::*;
use crate::tcp::{Flags, Segment, Seq, TcpId, fill_checksum};

fn far() -> Ipv6Addr {
    address("2001:db8:ffff::9")
}

fn too_big(link: &mut Link, quote: &[u8], mtu: u32) {
    let mut error = vec![];
    Error { cause: Cause::PacketTooBig(mtu), quote }.emit(ROUTER, host(), &mut error);
    link.give(ROUTER, host(), ICMPV6, &error);
}

/// Sends a datagram, and returns the packet or its fragments.
fn datagram(link: &mut Link, to: Ipv6Addr, size: usize) -> Vec<Vec<u8>> {
    let socket = link.stack.udp_bind(None, None).expect("socket");
    let options = crate::udp::Options {
        source: Some(host()),
        hop_limit: Some(64),
        ..crate::udp::Options::default()
    };
    link.frames.clear();
    let sent = link.stack.udp_send_to(socket, &vec![1; size], Some((to, 9)), options, link.now);
    sent.expect("sent");
    let packets = [link.packets(UDP), link.packets(FRAGMENT)].concat();
    packets.iter().map(|(header, payload)| [&header.octets()[..], payload].concat()).collect()
}

/// Puts a segment of the far peer in.
fn put(link: &mut Link, flags: Flags, (sequence, acknowledgment): (Seq, Seq), options: &[u8]) {
    let segment = Segment {
        source_port: 5000,
        destination_port: 80,
        sequence,
        acknowledgment,
        flags,
        window: 60_000,
        options,
        payload: b"",
    };
    let mut octets = segment.to_packet();
    fill_checksum(&mut octets, far(), host());
    link.give(far(), host(), TCP, &octets);
}

/// A connection whose peer takes segments of 1440 octets.
fn connected() -> (Link, TcpId) {
    let mut link = configured();
    let listener = link.stack.tcp_listen(None, 80, 8).expect("listener");
    link.frames.clear();
    put(&mut link, Flags::SYN, (Seq(999), Seq(0)), &[2, 4, 0x05, 0xa0]);
    let answer = link.packets(TCP).pop().expect("a SYN").1;
    let isn = Segment::parse(&answer).expect("segment").sequence;
    put(&mut link, Flags::ACK, (Seq(1000), isn + 1), &[]);
    let id = link.stack.tcp_accept(listener).expect("listener").expect("connection");
    (link, id)
}

fn longest_segment(link: &mut Link) -> usize {
    assert!(link.packets(FRAGMENT).is_empty());
    let lens = link.packets(TCP).into_iter().map(|(header, _)| header.packet_len());
    lens.max().expect("segments")
}

//= rfc8201#5.2-6 rfc8201#5.2-7 rfc8201#5.4-3 rfc8201#5.4-6 (test)
#[test]
fn a_message_about_udp_makes_the_segments_of_tcp_smaller() {
    let (mut link, id) = connected();
    let packet = datagram(&mut link, far(), 1400).remove(0);
    link.frames.clear();
    link.stack.tcp_send(id, &[7; 20_000], link.now).expect("room");
    assert_eq!(longest_segment(&mut link), 1500);
    too_big(&mut link, &packet, 1300);
    link.frames.clear();
    // The peer acknowledges nothing: all that follows are retransmissions.
    link.run(Duration::from_secs(10));
    assert_eq!(longest_segment(&mut link), 1300);
}

//= rfc8201#4-1 (test)
#[test]
fn a_packet_too_big_about_a_packet_that_was_never_sent_changes_nothing() {
    let mut link = configured();
    let mut packet = datagram(&mut link, far(), 1400).remove(0);
    // Another source port.
    packet[41] ^= 0xff;
    too_big(&mut link, &packet, 1280);
    assert_eq!(datagram(&mut link, far(), 1400).len(), 1);
    packet[41] ^= 0xff;
    too_big(&mut link, &packet, 1280);
    assert_eq!(datagram(&mut link, far(), 1400).len(), 2);
}

//= rfc8201#5.2-3 (test)
#[test]
fn a_router_on_the_way_of_a_group_lowers_its_path_mtu() {
    let mut link = configured();
    let group = address("ff0e::77");
    let packet = datagram(&mut link, group, 1400).remove(0);
    for (mtu, longest) in [(1400, 1400), (1300, 1300), (1350, 1300)] {
        too_big(&mut link, &packet, mtu);
        let sent = datagram(&mut link, group, 1400);
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|packet| packet.len() <= longest));
        assert!(sent.iter().any(|packet| packet.len() > longest - 8));
    }
}
