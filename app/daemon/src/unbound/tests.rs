use std::net::Ipv6Addr;

use moorline_types::ContextId;

use super::*;

fn address(site: u16, host: u32) -> Ulid {
    Ulid(Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(site) << 80 | u128::from(host)))
}

/// Two contexts of each peer.
fn moved(mover: Mover) -> Option<MovedRoute> {
    let Mover::Context(ContextId(number)) = mover else { return None };
    let ulids = UlidPair::new(address(1, number), address(2, number / 2));
    Some(MovedRoute { ulids, path_mtu: 1500, is_tcp_bare: false, direct: None, own: None })
}

fn context(number: u32) -> Mover {
    Mover::Context(ContextId(number))
}

impl Unbound {
    /// As the daemon does it; the kernel knows this MTU.
    fn set_all(&mut self, now: Instant, mtu: Option<u32>) -> Vec<Ulid> {
        let due = self.take_due(now, moved);
        let peers: Vec<_> = due.iter().map(|(pair, _)| pair.peer).collect();
        let set: Vec<_> =
            mtu.into_iter().flat_map(|mtu| peers.iter().map(move |peer| (*peer, mtu))).collect();
        assert_eq!(self.on_set(&due, &set, now), BTreeSet::new());
        peers
    }
}

#[test]
fn each_peer_has_routes_once_and_again_ever_more_rarely_while_that_changes_nothing() {
    let mut unbound = Unbound::default();
    assert_eq!(unbound.poll_timeout(), None);
    let start = Instant::now();
    (0..4).for_each(|number| unbound.on_no_room(context(number)));
    assert!(unbound.poll_timeout().is_some());
    assert_eq!(unbound.set_all(start, Some(1492)), [address(2, 0), address(2, 1)]);
    assert_eq!(unbound.poll_timeout(), None);
    unbound.on_no_room(context(1));
    assert_eq!(
        unbound.poll_timeout(),
        Some(start + PAUSE),
        "all sockets look their routes up again"
    );
    assert_eq!(unbound.set_all(start + PAUSE - Duration::from_millis(1), Some(1492)), []);

    let mut sets = 0;
    for millisecond in 50..=10_000 {
        unbound.on_no_room(context(1));
        sets += unbound.set_all(start + Duration::from_millis(millisecond), Some(1492)).len();
    }
    assert!((5..=8).contains(&sets), "{sets}");
    // Another MTU is news.
    let later = start + Duration::from_secs(30);
    unbound.on_too_long(UlidPair::new(address(1, 0), address(2, 0)));
    assert_eq!(unbound.set_all(later, Some(1400)), [address(2, 0)]);
    unbound.on_too_long(UlidPair::new(address(1, 0), address(2, 0)));
    assert_eq!(unbound.set_all(later + PAUSE, Some(1300)), [address(2, 0)]);
}

#[test]
fn a_peer_whose_packets_the_kernel_knows_nothing_of_costs_no_routes() {
    let mut unbound = Unbound::default();
    let pair = UlidPair::new(address(1, 0), address(2, 0));
    unbound.on_too_long(pair);
    let now = Instant::now();
    assert_eq!(unbound.set_all(now, None), [address(2, 0)]);
    assert_eq!(unbound.forget([address(2, 0)]), BTreeSet::new(), "nothing to remove");
}

#[test]
fn what_is_no_longer_moved_has_no_routes() {
    let mut unbound = Unbound::default();
    unbound.on_no_room(context(0));
    assert_eq!(unbound.take_due(Instant::now(), |_| None), []);
    assert_eq!(unbound.poll_timeout(), None);
    unbound.on_no_room(context(0));
    let later = Instant::now() + PAUSE;
    assert_eq!(unbound.set_all(later, Some(1492)), [address(2, 0)]);
    assert_eq!(unbound.forget([address(2, 0), address(2, 1)]), BTreeSet::from([address(2, 0)]));
    unbound.on_no_room(context(0));
    assert_eq!(unbound.set_all(later, Some(1492)), [address(2, 0)], "at once");
}

#[test]
fn routes_that_have_expired_are_set_again() {
    let mut unbound = Unbound::default();
    let mut now = Instant::now();
    for _ in 0..20 {
        unbound.on_no_room(context(0));
        unbound.set_all(now, Some(1492));
        now += EXPIRES;
    }
    unbound.on_no_room(context(0));
    assert_eq!(unbound.take_due(now, moved).len(), 1);
}

#[test]
fn the_peers_that_had_routes_first_make_room_for_others() {
    let mut unbound = Unbound::default();
    let mut now = Instant::now();
    let most = u32::try_from(MAX_PEERS).unwrap();
    let mut gone = BTreeSet::new();
    for host in 0..most + 3 {
        unbound.on_too_long(UlidPair::new(address(1, 0), address(3, host)));
        let due = unbound.take_due(now, moved);
        gone.extend(unbound.on_set(&due, &[(address(3, host), 1400)], now));
        now += PAUSE;
    }
    assert_eq!(gone, (0..3).map(|host| address(3, host)).collect());
    for host in 0..most {
        unbound.on_too_long(UlidPair::new(address(1, 0), address(4, host)));
    }
    assert_eq!(unbound.take_due(now, moved).len(), MAX_WAITING);
}

#[test]
fn peers_that_a_stranger_names_push_out_no_peer_with_routes() {
    let mut unbound = Unbound::default();
    let mut now = Instant::now();
    unbound.on_no_room(context(0));
    assert_eq!(unbound.set_all(now, Some(1492)), [address(2, 0)]);
    for host in 0..2 * u32::try_from(MAX_PEERS).unwrap() {
        now += Duration::from_millis(1);
        unbound.on_too_long(UlidPair::new(address(1, 0), address(4, host)));
        let due = unbound.take_due(now, moved);
        assert_eq!(unbound.on_set(&due, &[], now), BTreeSet::new(), "no routes to remove");
    }
    assert!(unbound.peers.contains_key(&address(2, 0)) && unbound.peers.len() == MAX_PEERS);
}
