use core::net::Ipv6Addr;

use moorline_types::ContextId;

use super::*;

fn address(site: u16, host: u32) -> Ulid {
    Ulid(Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(site) << 80 | u128::from(host)))
}

fn pair(peer: Ulid) -> UlidPair {
    UlidPair::new(address(1, 0), peer)
}

const NOW: Instant = Instant::from_nanos(1 << 40);

const ROUTE: MovedRoute = MovedRoute {
    ulids: UlidPair::new(Ulid(Ipv6Addr::UNSPECIFIED), Ulid(Ipv6Addr::UNSPECIFIED)),
    mtu: 1492,
    bare_tcp_mtu: None,
    direct: None,
    own: None,
};

/// Routes of movers: two contexts for each peer.
fn moved(mover: Mover) -> Option<MovedRoute> {
    let Mover::Context(ContextId(number)) = mover else { return None };
    Some(MovedRoute { ulids: pair(address(2, number / 2)), ..ROUTE })
}

fn context(number: u32) -> Mover {
    Mover::Context(ContextId(number))
}

impl Unbound {
    /// Sets routes like the caller, if this is the kernel's MTU. Returns the peers that have new routes, and those
    /// whose routes go.
    fn set_all(&mut self, now: Instant, mtu: Option<u32>) -> (Vec<Ulid>, BTreeSet<Ulid>) {
        let asked = self.take_due(now, moved).into_iter().map(|one| (one, mtu)).collect();
        let plan = self.plan(asked, now);
        let set: Vec<_> = plan.wanted.iter().map(|one| (one.peer, one.path_mtu)).collect();
        let peers = set.iter().map(|(peer, _)| *peer).collect();
        (peers, self.on_set(plan, Some(set), now))
    }

    /// Sets routes. Returns the peers that have new routes, and checks that no peer has lost its routes.
    fn set(&mut self, now: Instant, mtu: Option<u32>) -> Vec<Ulid> {
        let (set, gone) = self.set_all(now, mtu);
        assert_eq!(gone, BTreeSet::new());
        set
    }
}

#[test]
fn each_peer_has_routes_once_and_again_ever_more_rarely_while_that_changes_nothing() {
    let mut unbound = Unbound::default();
    assert_eq!(unbound.poll_timeout(), None);
    (0..4).for_each(|number| unbound.on_no_room(context(number), NOW));
    let start = unbound.poll_timeout().unwrap();
    assert_eq!(unbound.set(start, Some(1492)), [address(2, 0), address(2, 1)]);
    assert_eq!(unbound.poll_timeout(), None);
    unbound.on_no_room(context(1), NOW);
    let next = Some(start + PAUSE);
    assert_eq!(unbound.poll_timeout(), next, "all sockets look their routes up again");
    assert_eq!(unbound.set(start + PAUSE - Duration::from_millis(1), Some(1492)), []);
    unbound.on_no_room(context(1), NOW);
    let next = unbound.poll_timeout();
    while unbound.on_too_long(pair(address(4, u32::try_from(unbound.too_long.len()).unwrap())), NOW)
    {
    }
    assert_eq!(unbound.poll_timeout(), next, "a flood of reports puts off nothing");
    unbound.take_due(start, |_| None);

    let mut sets = 0;
    for millisecond in 50..=10_000 {
        unbound.on_no_room(context(1), NOW);
        sets += unbound.set(start + Duration::from_millis(millisecond), Some(1492)).len();
    }
    assert!((5..=8).contains(&sets), "{sets}");
}

#[test]
fn another_mtu_is_news_whoever_told_of_the_last() {
    let (mut unbound, start) = (Unbound::default(), NOW);
    unbound.on_no_room(context(0), NOW);
    assert_eq!(unbound.set(start, Some(1492)), [address(2, 0)]);
    unbound.on_too_long(pair(address(2, 0)), NOW);
    assert_eq!(unbound.set(start, Some(1492)), []);
    unbound.on_too_long(pair(address(2, 0)), NOW);
    assert_eq!(unbound.set(start, Some(1400)), [address(2, 0)]);

    // The pair moves to another path.
    unbound.on_no_room(context(0), NOW);
    let narrow = |mover| moved(mover).map(|route| MovedRoute { mtu: 1292, ..route });
    let due = unbound.take_due(start, narrow);
    assert_eq!(due.len(), 1, "no pause: {due:?}");
}

#[test]
fn what_a_stranger_says_keeps_no_report_of_the_data_plane_waiting() {
    let (mut unbound, mut now) = (Unbound::default(), NOW);
    for _ in 0..100 {
        unbound.on_too_long(pair(address(2, 0)), NOW);
        assert_eq!(unbound.set(now, None), []);
        now = now + PAUSE;
    }
    assert_eq!(unbound.peers.len(), 0, "the kernel does not believe it");
    unbound.on_no_room(context(0), NOW);
    assert_eq!(unbound.set(now, Some(1492)), [address(2, 0)]);
}

#[test]
fn what_is_no_longer_moved_has_no_routes() {
    let (mut unbound, now) = (Unbound::default(), NOW);
    unbound.on_no_room(context(0), NOW);
    assert_eq!(unbound.take_due(now, |_| None), []);
    assert_eq!(unbound.poll_timeout(), None);
    unbound.on_no_room(context(0), NOW);
    let later = now + PAUSE;
    assert_eq!(unbound.set(later, Some(1492)), [address(2, 0)]);
    assert_eq!(unbound.forget([address(2, 0), address(2, 1)]), BTreeSet::from([address(2, 0)]));
    unbound.on_no_room(context(0), NOW);
    assert_eq!(unbound.set(later, Some(1492)), [address(2, 0)], "at once");
    unbound.on_no_room(context(0), NOW);
    let gone = unbound.set_all(later + PAUSE, None).1;
    assert_eq!(gone, BTreeSet::from([address(2, 0)]), "the kernel has forgotten the MTU");
}

#[test]
fn routes_that_have_expired_are_set_again() {
    let (mut unbound, mut now) = (Unbound::default(), NOW);
    for _ in 0..20 {
        unbound.on_no_room(context(0), NOW);
        unbound.set(now, Some(1492));
        now = now + EXPIRES;
    }
    unbound.on_no_room(context(0), NOW);
    assert_eq!(unbound.set(now, Some(1492)), [address(2, 0)]);
    unbound.on_too_long(pair(address(2, 0)), NOW);
    assert_eq!(unbound.set(now + EXPIRES, Some(1492)), [address(2, 0)]);
}

/// The kernel believes a Packet Too Big that quotes an echo reply.
#[test]
fn peers_that_a_stranger_names_are_few_and_push_out_none_that_the_data_plane_reports() {
    let (mut unbound, start) = (Unbound::default(), NOW);
    unbound.on_no_room(context(0), NOW);
    assert_eq!(unbound.set(start, Some(1492)), [address(2, 0)]);
    let (mut now, mut named, mut sets) = (start, 0, 0);
    let mut gone = BTreeSet::new();
    while unbound.peers.len() < MAX_PEERS || gone.is_empty() {
        while unbound.on_too_long(pair(address(4, named)), NOW) {
            named += 1;
        }
        let (set, without) = unbound.set_all(now, Some(1300));
        sets += set.len();
        gone.extend(without);
        now = now + Duration::from_secs(1);
        let most = MAX_LATELY * usize::try_from(1 + now.since(start).as_secs() / 10).unwrap();
        assert!(sets <= most, "{sets}");
    }
    assert!(!gone.contains(&address(2, 0)) && unbound.peers.contains_key(&address(2, 0)));
    assert_eq!(unbound.peers.len(), MAX_PEERS);
}
