//! Reports of traffic without a session.

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
