//! A TCP connection of the whole host, with a peer that is made of segments.

use super::link::{Link, ROUTER, address};
use super::*;
use crate::tcp::{Flags, Segment, Seq, TcpId, fill_checksum};
use moorline_ip::ethernet;
use moorline_ip::ip6::TCP;

pub(super) fn peer() -> Ipv6Addr {
    address("2001:db8:ffff::9")
}

/// A connection of a peer behind the router to port 80, and the next number of the host.
pub(super) fn connected() -> (Link, TcpId, Seq) {
    connected_with(&[])
}

/// The same with a peer whose SYN has these options.
pub(super) fn connected_with(options: &[u8]) -> (Link, TcpId, Seq) {
    let mut link = configured();
    let listener = link.stack.tcp_listen(None, 80, 8).expect("listener");
    link.frames.clear();
    put_all(&mut link, Flags::SYN, (Seq(999), Seq(0)), options, b"");
    let isn = segments(&mut link)[0].1;
    put(&mut link, Flags::ACK, Seq(1000), isn + 1, b"");
    let id = link.stack.tcp_accept(listener).expect("listener").expect("connection");
    link.frames.clear();
    (link, id, isn + 1)
}

pub(super) fn put(
    link: &mut Link,
    flags: Flags,
    sequence: Seq,
    acknowledgment: Seq,
    payload: &[u8],
) {
    put_all(link, flags, (sequence, acknowledgment), &[], payload);
}

fn put_all(
    link: &mut Link,
    flags: Flags,
    (sequence, acknowledgment): (Seq, Seq),
    options: &[u8],
    payload: &[u8],
) {
    let segment = Segment {
        source_port: 5000,
        destination_port: 80,
        sequence,
        acknowledgment,
        flags,
        window: 60_000,
        options,
        payload,
    };
    let mut octets = segment.to_packet();
    fill_checksum(&mut octets, peer(), host());
    link.put(peer(), host(), TCP, &octets);
}

/// Flags, sequence and acknowledgment number of each segment that the host has sent.
pub(super) fn segments(link: &mut Link) -> Vec<(Flags, Seq, Seq)> {
    let sent = link.packets(TCP);
    let parsed = sent.iter().map(|(_, octets)| Segment::parse(octets).expect("segment"));
    parsed.map(|one| (one.flags, one.sequence, one.acknowledgment)).collect()
}

/// Frames of a host that sends 20,000 octets, with the sizes to which the wire is to cut them.
fn bulk(cuts: bool) -> Vec<(usize, Option<u16>)> {
    let (mut link, id, _) = connected();
    link.stack.set_cuts_segments(WireId(0), cuts);
    link.stack.tcp_send(id, &[7; 20_000], link.now).expect("room");
    let frames = core::iter::from_fn(|| link.stack.poll_frame());
    frames.map(|(_, frame)| (frame.len(), frame.segment_size().map(Into::into))).collect()
}

//= rfc8201#5.4-5 (test)
#[test]
fn a_wire_that_cuts_segments_gets_them_whole() {
    // Without options of its SYN the peer takes segments of 1220 octets (RFC 9293 s3.7.1, RFC 8200 s5).
    let (header, payload) = (ethernet::LEN + 40 + 20, 1220);
    let cut = bulk(false);
    assert!(cut.iter().all(|(len, size)| *len <= header + payload && size.is_none()), "{cut:?}");
    let whole = bulk(true);
    let octets =
        |frames: &[(usize, Option<u16>)]| frames.iter().map(|(len, _)| len - header).sum::<usize>();
    assert!(cut.len() > whole.len() && octets(&cut) == octets(&whole), "{cut:?} {whole:?}");
    let longest = whole.iter().max().expect("frames");
    assert!(longest.0 > header + payload && longest.1 == Some(1220), "{whole:?}");
}

/// Solicitations of the router in two minutes in which the host sends an octet a second, and the peer acknowledges `progress` of it.
fn solicitations(progress: u32) -> usize {
    let (mut link, id, mut next) = connected();
    let mut solicited = 0;
    for _ in 0..120 {
        link.stack.tcp_send(id, &[7], link.now).expect("room");
        link.run(Duration::from_secs(1));
        next = next + progress;
        put(&mut link, Flags::ACK, Seq(1000), next, b"");
        let of_router = Body::NeighborSolicitation { target: ROUTER };
        let sent = link.sent_discovery();
        solicited += sent.iter().filter(|(_, message)| message.body == of_router).count();
        link.frames.clear();
    }
    solicited
}

//= rfc4861#7.3.1-1 (test)
#[test]
fn acknowledgments_of_tcp_confirm_the_router_instead_of_solicitations() {
    // RFC 4861 s7.3.1: "forward progress" of a connection shows that packets reach the neighbor.
    assert_eq!(solicitations(1), 0);
    assert!(solicitations(0) > 0);
}
