//! Reports of traffic without a session.

use core::time::Duration;

use moorline_datapath::ilnp::LOOK_INTERVAL;

use super::*;

#[test]
fn a_nonce_that_nobody_agreed_to_costs_nothing_and_passes() {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.set_nids([pair().local.nid].into());
    let stranger = Ilv::new(AWAY, Nid(77));
    for n in 0..1000 {
        let mut packet =
            packet(Ilv { nid: Nid(n), ..stranger }, pair().local, 17, 0, (L64(0), L64(0)));
        let header = NonceHeader { next_header: 0, nonce: OURS, sequence: None };
        insert(&mut packet, header);
        assert_eq!(plane.handle_inbound(&mut packet, &One, NOW), Inbound::Deliver);
        let ip6 = Ip6::read(&packet).expect("a header");
        assert_eq!(transport_checksum(ip6.source, ip6.destination, 17, &packet[40..]), 0);
    }
    assert_eq!((plane.session_count(), plane.poll_report()), (0, None));
    assert!(plane.reported.is_empty());
}

/// Sockets with a connected socket for each packet. Counts how often a plane looks for one.
#[derive(Default)]
struct Counted(core::cell::Cell<u32>);

impl Sockets for Counted {
    fn kind(&self, _of: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        self.0.set(self.0.get() + 1);
        Socket::Connected
    }

    fn any_between(&self, _of: IlvPair) -> bool {
        true
    }
}

#[test]
fn sockets_of_strangers_are_looked_for_at_intervals_and_those_that_send_at_once() {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    let sockets = Counted::default();
    let home = pair().local;
    let stranger = |n: u64| Ilv::new(THERE, Nid(0x100 + n));
    let over = (L64(0), L64(0));
    for n in 0..50 {
        let mut packet = packet(stranger(n), home, 17, 0, over);
        assert_eq!(plane.handle_inbound(&mut packet, &sockets, NOW), Inbound::Pass);
    }
    assert_eq!(sockets.0.get(), 1);
    let later = NOW + LOOK_INTERVAL;
    let mut again = packet(stranger(7), home, 17, 0, over);
    assert_eq!(plane.handle_inbound(&mut again, &sockets, later), Inbound::Pass);
    assert_eq!(sockets.0.get(), 2);
    for n in 50..60 {
        let mut packet = packet(home, stranger(n), 17, 0, over);
        assert_eq!(plane.handle_outbound(&mut packet, &sockets, later), Outbound::Pass);
    }
    assert_eq!(sockets.0.get(), 12);
    assert_eq!(core::iter::from_fn(|| plane.poll_report()).count(), 12);
}

/// With more pairs in use than the plane remembers, each packet was a report.
#[test]
fn very_many_pairs_in_use_are_reported_at_a_pace() {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    let sockets = Counted::default();
    let mut reports = 0;
    for n in 0..50_000 {
        let remote = Ilv::new(THERE, Nid(0x100 + n % 10_000));
        let mut packet = packet(pair().local, remote, 17, 0, (L64(0), L64(0)));
        let now = NOW + Duration::from_micros(20 * n);
        assert_eq!(plane.handle_outbound(&mut packet, &sockets, now), Outbound::Pass);
        reports += core::iter::from_fn(|| plane.poll_report()).count();
    }
    assert!((4096..4096 + 4_001).contains(&reports), "{reports}");
}

/// Strangers with addresses of one /64, and of many.
fn strange_packets(links: u64, count: u64) -> impl Iterator<Item = Vec<u8>> {
    let stranger = move |n: u64| Ilv::new(L64(THERE.0 + n % links), Nid(0x100 + n));
    (0..count).map(move |n| packet(stranger(n), pair().local, 17, 0, (L64(0), L64(0))))
}

#[test]
fn a_flood_from_one_prefix_leaves_others_their_looks() {
    for (wanted, most) in [(Wanted::Connected, 1), (Wanted::All, 64)] {
        let mut plane = Plane::new(Settings { wanted, ..Settings::default() }, [1; 16]);
        let sockets = Counted::default();
        for mut packet in strange_packets(1, 10_000) {
            plane.handle_inbound(&mut packet, &sockets, NOW);
        }
        assert_eq!(sockets.0.get(), most, "{wanted:?}");
        for mut packet in strange_packets(1_000, 1_000) {
            plane.handle_inbound(&mut packet, &sockets, NOW);
        }
        assert!(sockets.0.get() >= 15 + most, "{wanted:?}: {}", sockets.0.get());
        for mut packet in strange_packets(1_000, 100_000) {
            plane.handle_inbound(&mut packet, &sockets, NOW);
        }
        assert_eq!(sockets.0.get(), 16 * most, "{wanted:?}");
    }
}
