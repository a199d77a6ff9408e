use moorline_netlink::DefaultRoute;
use moorline_types::{ContextId, UlidPair};

use super::*;

fn moved(mover: Mover) -> Option<MovedRoute> {
    let Mover::Context(ContextId(number)) = mover else { return None };
    let number = u16::try_from(number).ok()?;
    // Two contexts of each peer.
    let address = |site: u16, host: u16| Ulid([0x2001, 0xdb8, site, 0, 0, 0, 0, host].into());
    let ulids = UlidPair::new(address(1, number), address(2, number / 2));
    Some(MovedRoute { ulids, path_mtu: 1500, is_tcp_bare: false, direct: None, own: None })
}

fn context(number: u32) -> Mover {
    Mover::Context(ContextId(number))
}

#[test]
fn each_peer_has_routes_once_and_again_when_they_may_have_gone() {
    let mut room = Room::default();
    assert_eq!(room.poll_timeout(), None);
    let start = Instant::now();
    (0..4).for_each(|number| room.note(context(number)));
    assert!(room.poll_timeout().is_some());
    let peers =
        |routes: Vec<MovedRoute>| routes.into_iter().map(|one| one.ulids.peer).collect::<Vec<_>>();
    let both = [moved(context(0)), moved(context(2))].map(|route| route.unwrap().ulids.peer);
    assert_eq!(peers(room.take_due(start, moved)), both);
    assert_eq!(room.poll_timeout(), None);

    room.note(context(1));
    assert_eq!(
        room.poll_timeout(),
        Some(start + PAUSE),
        "all sockets look their routes up again each time"
    );
    assert_eq!(peers(room.take_due(start + PAUSE, moved)), [], "it has routes");
    room.note(context(1));
    assert_eq!(peers(room.take_due(start + AGAIN, moved)), both[..1]);

    assert_eq!(room.forget(both.into_iter()), both);
    assert_eq!(room.forget(both.into_iter()), [], "once");
    room.note(context(2));
    assert_eq!(peers(room.take_due(start + AGAIN + PAUSE, moved)), both[1..]);
}

#[test]
fn what_is_no_longer_moved_has_no_routes() {
    let mut room = Room::default();
    room.note(context(0));
    assert_eq!(room.take_due(Instant::now(), |_| None), []);
    assert_eq!(room.poll_timeout(), None);
}

#[test]
fn other_default_routes_of_the_host_make_those_before_go() {
    let mut room = Room::default();
    let way = |ifindex, metric| {
        (ifindex, DefaultRoute { metric, gateway: None, source: None, preferred_source: None })
    };
    assert!(room.turn_to(vec![way(3, 1024)]));
    room.note(context(0));
    let now = Instant::now();
    assert_eq!(room.take_due(now, moved).len(), 1);
    assert!(!room.turn_to(vec![way(3, 1024)]));
    room.note(context(0));
    assert_eq!(room.take_due(now, moved).len(), 0);
    assert!(room.turn_to(vec![way(4, 512), way(3, 1024)]));
    room.note(context(0));
    assert_eq!(room.take_due(now, moved).len(), 1);
}
