//! Reports of traffic without a session.

use core::time::Duration;

use moorline_datapath::ilnp::{LOOK_INTERVAL, LOOK_SHARES, LOOKS_RENEWED};

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

/// A packet of a stranger with a nonce comes. Returns whether it is reported: there is a connected socket for each.
fn is_reported(plane: &mut Plane, stranger: Ilv, now: Instant) -> bool {
    let mut packet = packet(stranger, pair().local, 17, 0, (L64(0), L64(0)));
    insert(&mut packet, NonceHeader { next_header: 0, nonce: OURS, sequence: None });
    assert_eq!(plane.handle_inbound(&mut packet, &Counted::default(), now), Inbound::Deliver);
    core::iter::from_fn(|| plane.poll_report()).count() == 1
}

/// A host in one of the 65,536 links of one /48.
fn of_site(n: u64) -> Ilv {
    Ilv::new(L64(0x2001_0db8_0200_0000 + n % 0x1_0000), Nid(0x0a00_0000_0200_0000 + n))
}

#[test]
fn a_dozen_peers_that_show_nonces_are_reported_beside_a_flood_of_a_site() {
    let mut plane = Plane::new(Settings::default(), [1; 16]);
    plane.set_nids([pair().local.nid].into());
    let peer = |n: u64| Ilv::new(THERE, Nid(0x100 + n));
    let mut flood = 0;
    for ms in 0..4000 {
        let now = NOW + Duration::from_millis(ms);
        let shown = (0..20).filter(|n| is_reported(&mut plane, of_site(20 * ms + n), now));
        flood += shown.count();
        // Each peer sends two packets a second.
        if ms % 500 < 12 {
            assert!(is_reported(&mut plane, peer(ms % 500), now), "{ms}");
        }
    }
    let (_, share) = LOOK_SHARES[3];
    assert_eq!(u32::try_from(flood), Ok(2 * share - 1), "a /48: its share, and once more in 4 s");
}

#[test]
fn an_address_a_link_a_part_of_a_site_and_all_have_shares_of_the_looks() {
    let sources: [fn(u64) -> Ilv; 5] = [
        |_| of_site(0),
        |n| Ilv::new(of_site(0).l64, Nid(n)),
        |n| Ilv::new(L64(of_site(0).l64.0 + n % 0x100), Nid(n)),
        of_site,
        |n| Ilv::new(L64(0x2400_0000_0000_0000 + (n << 16)), Nid(n)),
    ];
    for (source, (_, share)) in sources.into_iter().zip(LOOK_SHARES) {
        let mut plane = Plane::new(Settings::default(), [1; 16]);
        plane.set_nids([pair().local.nid].into());
        let mut reported = |now| {
            let of = (0..2000).filter(|n| is_reported(&mut plane, source(*n), now));
            u32::try_from(of.count()).expect("few")
        };
        assert_eq!(reported(NOW), share);
        assert_eq!(reported(NOW + LOOKS_RENEWED / share), 1);
        assert_eq!(reported(NOW + LOOKS_RENEWED * 3), share);
    }
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
