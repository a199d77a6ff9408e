//! Path MTU Discovery of the whole host (RFC 8201).

use moorline_ip::ip6::TCP;

use super::connection::{connected_with, peer};
use super::*;

/// Option of a SYN: segments of 1440 octets (RFC 9293 s3.2).
const MSS_1440: [u8; 4] = [2, 4, 0x05, 0xa0];

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

fn longest_segment(link: &mut Link) -> usize {
    assert!(link.packets(FRAGMENT).is_empty());
    let lens = link.packets(TCP).into_iter().map(|(header, _)| header.packet_len());
    lens.max().expect("segments")
}

//= rfc8201#5.2-6 rfc8201#5.2-7 rfc8201#5.4-3 rfc8201#5.4-6 (test)
#[test]
fn a_message_about_udp_makes_the_segments_of_tcp_smaller() {
    let (mut link, id, _) = connected_with(&MSS_1440);
    let packet = datagram(&mut link, peer(), 1400).remove(0);
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
    let mut packet = datagram(&mut link, peer(), 1400).remove(0);
    // Another source port.
    packet[41] ^= 0xff;
    too_big(&mut link, &packet, 1280);
    assert_eq!(datagram(&mut link, peer(), 1400).len(), 1);
    packet[41] ^= 0xff;
    too_big(&mut link, &packet, 1280);
    assert_eq!(datagram(&mut link, peer(), 1400).len(), 2);
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
