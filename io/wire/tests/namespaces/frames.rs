use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};

use moorline_ip::{Mac, upper_layer_checksum};
use moorline_wires::{Counts, Wire};
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};

use crate::harness::{frame, in_namespace, ip, open, veth};

const GROUP: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);
/// Lengths of frames, from the bare header to the longest of Ethernet.
const LENS: [usize; 6] = [15, 60, 61, 1000, 1513, 1514];

/// Sends frames both ways and compares each.
async fn assert_equal_both_ways(left: &mut Wire, right: &mut Wire) {
    for (number, len) in (0..).zip(LENS) {
        for to in [right.mac(), GROUP] {
            let sent = frame(to, len, number);
            left.send(&sent).await.unwrap();
            assert_eq!(*right.recv().await.unwrap(), sent, "{len} octets to {to}");
        }
        for to in [left.mac(), GROUP] {
            let sent = frame(to, len, number + 100);
            right.send(&sent).await.unwrap();
            assert_eq!(*left.recv().await.unwrap(), sent, "{len} octets to {to}");
        }
    }
    let expected = Counts { received: 12, sent: 12, ..Counts::default() };
    assert_eq!([left.counts(), right.counts()], [expected; 2]);
}

#[test]
fn frames_pass_between_a_tap_and_its_interface() {
    in_namespace(|| async {
        let mut tap = open("tap:moor-w1").await;
        assert!(ip("link show moor-w1").contains(",UP"));
        assert_eq!((tap.mtu(), tap.mac().0[0] & 3), (1500, 2), "unicast, locally administered");
        let mut interface = open("packet:moor-w1").await;
        assert_ne!(tap.mac(), interface.mac(), "each end has an address of its own");
        assert_equal_both_ways(&mut tap, &mut interface).await;
        drop(tap);
        // The interface ends with the wire.
        // A program that another test starts may hold the descriptor for a moment.
        while ip("link show").contains("moor-w1") {
            tokio::task::yield_now().await;
        }
        assert!(interface.recv().await.is_err());
    });
}

#[test]
fn frames_pass_between_two_interfaces() {
    in_namespace(|| async {
        veth("left", "right");
        ip("link set left mtu 1400");
        ip("link set left address 02:00:00:00:00:77");
        let (mut left, mut right) = (open("packet:left").await, open("packet:right").await);
        assert_eq!((left.mtu(), left.mac()), (1400, "02:00:00:00:00:77".parse().unwrap()));
        ip("link set left mtu 1500");
        assert_equal_both_ways(&mut left, &mut right).await;
    });
}

#[test]
fn an_interface_gives_only_frames_for_the_host() {
    in_namespace(|| async {
        veth("left", "right");
        let (mut left, mut right) = (open("packet:left").await, open("packet:right").await);
        let stranger = Mac([2, 0, 0, 0, 0, 0x55]);
        let mut other = frame(right.mac(), 100, 1);
        other[12..14].copy_from_slice(&[0x88, 0xcc]);
        left.send(&frame(stranger, 100, 2)).await.unwrap();
        left.send(&other).await.unwrap();
        let mut tagged = frame(right.mac(), 100, 3);
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        left.send(&tagged).await.unwrap();
        right.send(&frame(left.mac(), 100, 4)).await.unwrap();
        let sent = [[8, 0], [8, 6], [0x86, 0xdd]].map(|kind| {
            let mut sent = frame(right.mac(), 100, kind[1]);
            sent[12..14].copy_from_slice(&kind);
            sent
        });
        for frame in &sent {
            left.send(frame).await.unwrap();
            assert_eq!(*right.recv().await.unwrap(), *frame);
        }
        assert!(right.try_recv().unwrap().is_none());

        right.set_mac(stranger).unwrap();
        left.send(&sent[2]).await.unwrap();
        let sent = frame(stranger, 100, 2);
        left.send(&sent).await.unwrap();
        assert_eq!(*right.recv().await.unwrap(), sent);
        assert!(ip("-d link show right").contains("promiscuity 1"));
    });
}

#[test]
fn checksums_are_complete_and_large_datagrams_are_cut() {
    in_namespace(|| async {
        veth("left", "right");
        ip("-6 addr add 2001:db8::1/64 dev left nodad");
        let mut right = open("packet:right").await;
        ip(&format!("-6 neigh add 2001:db8::2 lladdr {} dev left", right.mac()));
        let socket = UdpSocket::bind("[2001:db8::1]:9999").unwrap();
        let to = SocketAddrV6::new("2001:db8::2".parse().unwrap(), 7, 0, 0);
        // The kernel leaves the checksum to the adapter, and the adapter of this link leaves it to the receiver.
        socket.send_to(b"one", to).unwrap();
        setsockopt(&socket, UdpGsoSegment, &1000).unwrap();
        let payload: Vec<u8> = (0..=u8::MAX).cycle().take(2500).collect();
        socket.send_to(&payload, to).unwrap();
        let expected = [&b"one"[..], &payload[..1000], &payload[1000..2000], &payload[2000..]];
        for datagram in expected {
            let frame = udp(&mut right).await;
            assert_eq!(frame[62..], *datagram);
            assert_eq!(residue(&frame), 0);
        }
        assert_eq!(right.counts().not_understood, 0);
    });
}

/// The next frame with UDP; the kernel sends reports of groups besides.
async fn udp(wire: &mut Wire) -> Vec<u8> {
    loop {
        let frame = wire.recv().await.unwrap();
        if frame[20] == 17 {
            return frame.to_vec();
        }
    }
}

fn residue(frame: &[u8]) -> u16 {
    let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
    upper_layer_checksum(address(22), address(38), 17, &frame[54..])
}

#[test]
fn a_frame_that_the_interface_does_not_take_is_lost_and_counted() {
    in_namespace(|| async {
        veth("left", "right");
        let (mut left, mut right) = (open("packet:left").await, open("packet:right").await);
        left.send(&frame(right.mac(), 1515, 1)).await.unwrap();
        ip("link set left down");
        left.send(&frame(right.mac(), 100, 2)).await.unwrap();
        assert_eq!((left.counts().sent, left.counts().lost), (0, 2));
        ip("link set left up");
        let sent = frame(right.mac(), 100, 3);
        // The kernel drops frames until it has noticed the carrier, and says nothing.
        let received = loop {
            left.send(&sent).await.unwrap();
            match right.try_recv().unwrap() {
                Some(received) => break received,
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!(*received, sent, "the wires go on");
        let too_long = vec![0; moorline_wires::MAX_FRAME + 1];
        assert_eq!(left.try_send(&too_long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn a_wire_that_cannot_be_opened_says_why() {
    in_namespace(|| async {
        veth("left", "right");
        let first = open("tap:moor-w2").await;
        for (spec, words) in [
            ("tap:left", "left: there is an interface of this name that is no TAP"),
            ("tap:moor-w2", "moor-w2: another program uses"),
            ("packet:none", "none"),
            ("packet:lo", "lo has no framing of Ethernet"),
        ] {
            let error = Wire::open(&spec.parse().unwrap()).await.unwrap_err().to_string();
            assert!(error.contains(words), "{spec}: {error}");
        }
        drop(first);
    });
}
