use super::*;
use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::Ulid;
use proptest::prelude::*;
use std::collections::BTreeMap as Model;

fn pair(n: u16) -> UlidPair {
    let local = Ulid("2001:db8::1".parse().unwrap());
    let peer = Ulid(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, n));
    UlidPair::new(local, peer)
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A packet of this host.
fn sent(octets: usize) -> (usize, Passage) {
    (octets, Passage::Sent)
}

/// A packet of the peer.
fn received(octets: usize) -> (usize, Passage) {
    (octets, Passage::Received)
}

const POLICY: TriggerPolicy =
    TriggerPolicy { bytes: 2048, age: Duration::from_secs(60), ..TriggerPolicy::NEVER };

#[test]
fn the_packet_that_reaches_the_octets_is_news_once() {
    let mut flows = Flows::new(16);
    assert!(!flows.count(pair(1), sent(2047), &POLICY, at(1)));
    assert!(flows.count(pair(1), sent(1), &POLICY, at(2)));
    assert!(!flows.count(pair(1), sent(5000), &POLICY, at(3)));
}

#[test]
fn the_packet_that_reaches_the_packets_is_news_once() {
    let policy = TriggerPolicy { packets: 3, ..TriggerPolicy::NEVER };
    let mut flows = Flows::new(16);
    let news: Vec<_> =
        (1..=5).map(|now| flows.count(pair(1), sent(9000), &policy, at(now))).collect();
    assert_eq!(news, [false, false, true, false, false]);
}

#[test]
fn a_pair_in_use_for_long_is_news_whatever_its_octets() {
    let mut flows = Flows::new(16);
    assert!(!flows.count(pair(1), sent(1), &POLICY, at(1)));
    assert!(!flows.count(pair(1), sent(1), &POLICY, at(60_000)));
    assert!(flows.count(pair(1), sent(1), &POLICY, at(60_001)));
}

#[test]
fn packets_of_the_peer_alone_are_no_news() {
    let mut flows = Flows::new(16);
    for n in 0..100 {
        assert!(!flows.count(pair(1), received(2048), &POLICY, at(1 + n * 1000)));
    }
    // An answer alone is none either: a made-up source draws it. The packet that follows the answer is.
    assert!(!flows.count(pair(1), sent(2048), &POLICY, at(100_001)));
    assert!(flows.count(pair(1), received(1), &POLICY, at(100_002)));
}

#[test]
fn an_idle_pair_starts_from_zero() {
    let mut flows = Flows::new(16);
    assert!(flows.count(pair(1), sent(2048), &POLICY, at(1)));
    assert!(!flows.count(pair(1), sent(2047), &POLICY, at(120_001)));
    assert!(flows.count(pair(1), sent(1), &POLICY, at(120_002)));
}

#[test]
fn forgetting_and_a_lost_report_let_a_pair_be_news_again() {
    let mut flows = Flows::new(16);
    assert!(flows.count(pair(1), sent(2048), &POLICY, at(1)));
    flows.forget(pair(1));
    assert!(!flows.count(pair(1), sent(2047), &POLICY, at(2)));
    assert!(flows.count(pair(1), sent(1), &POLICY, at(3)));
    flows.unreport(pair(1));
    assert!(flows.count(pair(1), sent(1), &POLICY, at(4)));
}

#[test]
fn a_scan_pushes_out_newcomers_but_no_pair_in_use() {
    let mut flows = Flows::new(64);
    for n in 0..40 {
        for packet in 0..3 {
            assert!(!flows.count(pair(n), sent(40), &POLICY, at(u64::from(n) * 3 + packet)));
        }
    }
    flows.count(pair(50), sent(40), &POLICY, at(200));
    for n in 1000..9000 {
        flows.count(pair(n), sent(60), &POLICY, at(u64::from(n)));
        flows.count(pair(n), sent(40), &POLICY, at(u64::from(n)));
        assert!(flows.len() <= 64);
    }
    assert!((0..40).all(|n| flows.contains(pair(n))));
    assert!(!flows.contains(pair(50)));
    assert!(flows.contains(pair(8999)));
}

#[test]
fn pairs_in_use_leave_room_for_newcomers() {
    let mut flows = Flows::new(64);
    for n in 0..200 {
        for _ in 0..3 {
            flows.count(pair(n), sent(40), &POLICY, at(1));
        }
    }
    assert!(flows.in_use <= 48 && flows.len() == 64);
    // A newcomer reaches the threshold although the table is full of other traffic.
    assert!(!flows.count(pair(500), sent(1024), &POLICY, at(2)));
    for n in 600..610 {
        flows.count(pair(n), sent(40), &POLICY, at(3));
    }
    assert!(flows.count(pair(500), sent(1024), &POLICY, at(4)));
}

/// Lists the pairs in order, and checks that each is at the place that its node says.
fn walk(flows: &Flows) -> Vec<UlidPair> {
    for ((is_in_use, last), pair) in &flows.order {
        let node = &flows.nodes[pair];
        assert_eq!((node.last, node.is_in_use), (*last, *is_in_use));
    }
    assert_eq!(flows.in_use, flows.order.range((true, 0)..).count());
    flows.order.values().copied().collect()
}

proptest! {
    #[test]
    fn order_and_index_agree_after_each_step(
        capacity in 0usize..12,
        steps in proptest::collection::vec((0u16..24, 0u8..8, 1usize..900, 0u64..200), 0..200),
    ) {
        let mut flows = Flows::new(capacity);
        let mut now = 1;
        let mut last = Model::new();
        for (n, op, octets, wait) in steps {
            now += wait * 1000;
            if op == 0 {
                flows.forget(pair(n));
            } else {
                flows.count(pair(n), sent(octets), &POLICY, at(now));
                prop_assert!(flows.contains(pair(n)));
            }
            last.insert(n, now);
            let mut linked = walk(&flows);
            linked.sort_unstable();
            prop_assert_eq!(linked, flows.nodes.keys().copied().collect::<Vec<_>>());
            prop_assert!(flows.len() <= capacity.max(LEAST_CAPACITY));
        }
    }
}
