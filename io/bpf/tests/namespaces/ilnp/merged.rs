//! Datagrams that the receiving kernel has merged on the way in.

use moorline_bpf::AttachMode;

use super::super::can_run;
use super::super::capture::Capture;
use super::super::net::{Net, address};
use super::{Node, hand_off, set_segment_size};

const DATAGRAMS: usize = 8;
const OCTETS: usize = 1000;

/// The router sends each datagram alone, and `b` merges datagrams that come at once.
fn merge_at_b(net: &Net) {
    net.r.sh("ethtool -K b1 tso off gso off tx-udp-segmentation off >/dev/null");
    net.b.sh("ethtool -K up1 gro on rx-udp-gro-forwarding on >/dev/null");
}

#[test]
fn merged_datagrams_of_a_moved_session_arrive_one_by_one() {
    if !can_run("merged_datagrams_of_a_moved_session_arrive_one_by_one") {
        return;
    }
    let net = Net::new("im");
    let auto = AttachMode::Auto;
    let (mut a, mut b) = (Node::new(&net, "a", auto), Node::new(&net, "b", auto));
    let (ours, theirs) = (a.socket(), b.socket());
    hand_off(&mut a, &mut b);
    merge_at_b(&net);
    let merged = format!("src host {} and greater {}", address("a", 2), 2 * OCTETS);
    let capture = Capture::begin_counted(&net.b, "up1", &merged, 1);
    // The datagrams come at once.
    set_segment_size(&ours, OCTETS.try_into().unwrap());
    let sent: Vec<u8> = (0..=250).cycle().take(DATAGRAMS * OCTETS).collect();
    let mut buffer = [0; 2 * OCTETS];
    for _ in 0..10 {
        ours.send(&sent).unwrap();
        for datagram in sent.chunks(OCTETS) {
            assert_eq!(theirs.recv(&mut buffer).unwrap(), OCTETS);
            assert_eq!(buffer[..OCTETS], *datagram);
        }
    }
    // Some datagrams were merged.
    assert_eq!(capture.all().len(), 1);
    for node in [&a, &b] {
        node.check_drops();
    }
}
