//! Effects of the host on the kernel after changes of links, moves and failures, in order.

use core::net::Ipv6Addr;

use moorline_addresses::{HostView, MovedRoute, Mover, RouteStep, SpecificRoute, Uplink};
use moorline_datapath::shim6::ContextEntry;
use moorline_types::{ContextId, ContextTag, Locator, Prefix, SessionId};
use moorline_wire::{I1, Message, Opt, Options};

use super::*;

/// Two hosts with a context between them. The effects of the first one are recorded from now on.
fn with_context() -> Duo {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    duo.traffic(0);
    duo.run(GIVES_UP);
    assert!(duo.has_context(0) && duo.has_context(1));
    duo.effects[0].clear();
    duo
}

/// Two hosts with a context between them, after the first host has lost its first uplink.
fn with_moved_context() -> Duo {
    let mut duo = with_context();
    let (now, left) = (duo.now, view(&duo.locals[0].usable[1..]));
    duo.hosts[0].handle_view(left, now);
    duo.run(Duration::from_secs(5));
    assert!(duo.hosts[0].has_moved(duo.pair(0)));
    duo
}

/// Two hosts with a session between them, and all effects for it.
fn with_session() -> Duo {
    let mut duo = Duo::new();
    duo.traffic(0);
    duo.traffic(1);
    duo.run(GIVES_UP);
    assert!(duo.has_session(0));
    duo
}

fn place(effects: &[Effect], is_it: impl Fn(&Effect) -> bool) -> usize {
    effects.iter().position(is_it).unwrap_or_else(|| panic!("{effects:#?}"))
}

fn is_moved_update(effect: &Effect) -> bool {
    matches!(effect, Effect::UpdateContext(Update::Upsert(entry)) if entry.is_moved())
}

fn context(duo: &Duo) -> ContextId {
    duo.hosts[0].shim6().contexts().next().expect("a context").id
}

#[test]
fn the_route_comes_before_the_move_and_the_direct_route_after_it() {
    let mut duo = with_moved_context();
    let effects = &duo.effects[0];
    let by_moor = place(effects, |one| matches!(one, Effect::Route(RouteStep::Add(_))));
    let moved = place(effects, is_moved_update);
    let told = place(
        effects,
        |one| matches!(one, Effect::TellContext(event) if matches!(event.kind, shim6::EventKind::Moved { .. })),
    );
    let notified = place(effects, |one| matches!(one, Effect::NotifyTcp { .. }));
    assert!(by_moor < moved && moved < notified && notified < told, "{effects:#?}");
    // The first uplink's address is gone, so the ULID is no address of the host: its routes come with the address.
    let route = *duo.hosts[0].routes().get(Mover::Context(context(&duo))).expect("a route");
    assert_eq!((route.mtu, route.own), (1492, None));
    let is_direct = |one: &Effect| matches!(one, Effect::Route(RouteStep::LeadDirectly(_)));
    let direct = place(effects, is_direct);
    assert!(moved < direct);
    let now = duo.now;
    let local = duo.locals[0].clone();
    duo.effects[0].clear();
    tell(&mut duo.hosts[0], &local, now);
    duo.settle();
    assert!(duo.effects[0].iter().all(|one| !is_moved_update(one)), "it stays where it is");
}

#[test]
fn a_ulid_that_has_left_its_uplink_is_kept_until_it_is_back_or_nothing_needs_it() {
    let mut duo = with_moved_context();
    let (now, ulid) = (duo.now, duo.pair(0).local);
    assert!(duo.effects[0].contains(&Effect::KeepUlid(ulid)) && duo.hosts[0].is_kept(ulid));
    duo.effects[0].clear();
    // The host could not keep the ULID: the next change tries again.
    duo.hosts[0].handle_failed(&Effect::KeepUlid(ulid), now);
    duo.hosts[0].begin_following();
    duo.settle();
    assert!(duo.effects[0].contains(&Effect::KeepUlid(ulid)));
    duo.effects[0].clear();
    let id = context(&duo);
    duo.hosts[0].shim6_mut().remove(id, Removal::Requested);
    duo.settle();
    let effects = &duo.effects[0];
    let update =
        place(effects, |one| *one == Effect::UpdateContext(Update::Remove { context: id }));
    let route = place(effects, |one| matches!(one, Effect::Route(RouteStep::Remove(_))));
    let release = place(effects, |one| *one == Effect::ReleaseUlid(ulid));
    let rules = place(effects, |one| *one == Effect::FollowRules);
    assert!(update < route && route < release && release < rules, "{effects:#?}");
}

/// A view of links with these addresses and without default routes.
fn bare(own: &[Locator]) -> HostView {
    let mut view = view(own);
    let links = view.uplinks.drain(..);
    let links = links.map(|link| Uplink { default_routes: Vec::new(), gateway: None, ..link });
    HostView { bare: links.collect(), ..HostView::default() }
}

/// A route to the network of one of the peer's addresses by a link of the host.
fn route(peer: Locator, length: u8, ifindex: u32) -> SpecificRoute {
    let destination = Prefix::new(peer.0, length);
    SpecificRoute { destination, source: None, metric: 256, way: Some((ifindex, None)), mtu: None }
}

#[test]
fn payload_is_back_at_the_ulids_of_neighbors_and_programs_stay_when_all_default_routes_are_gone() {
    let mut duo = with_moved_context();
    let [first, second] = [0, 1].map(|n| duo.locals[0].usable[n]);
    let (now, pair, id) = (duo.now, duo.pair(0), context(&duo));
    let has_moved_entry = |duo: &Duo| duo.hosts[0].shim6().entry_of(id).expect("one").is_moved();
    duo.hosts[0].handle_view(bare(&duo.locals[0].usable), now);
    duo.settle();
    assert!(has_moved_entry(&duo), "the peer is no neighbor");
    duo.effects[0].clear();
    let specific = [route(pair.peer.as_locator(), 64, 1)].into();
    duo.hosts[0].handle_view(HostView { specific, ..bare(&duo.locals[0].usable) }, now);
    duo.settle();
    assert!(!has_moved_entry(&duo));
    assert!(duo.hosts[0].has_moved(pair), "it is not for ILNP to take");
    let effects = &duo.effects[0];
    let back = place(effects, |one| matches!(one, Effect::UpdateContext(Update::Upsert(_))));
    let route = place(effects, |one| matches!(one, Effect::Route(RouteStep::Remove(_))));
    assert!(back < route, "{effects:#?}");
    assert_eq!(duo.hosts[0].carriers().shim6, [1, 2].into(), "programs on links that are in use");
    assert!([first, second].iter().all(|own| duo.hosts[0].takes_payload_at(*own)));
    // Nothing else is known of the second link, which is gone.
    duo.hosts[0].handle_view(bare(&[first]), now);
    duo.settle();
    assert_eq!(duo.hosts[0].carriers().shim6, [1].into());
    duo.hosts[0].handle_view(view(&[second]), now);
    duo.settle();
    assert!(has_moved_entry(&duo), "a default route is back");
}

/// The view of a host beside its peer on two links. Only these links have a default route.
fn beside_peer(duo: &Duo, with_default: &[u32]) -> HostView {
    let [own, peers] = [0, 1].map(|side: usize| duo.locals[side].usable.clone());
    let (mut with, mut without) = (view(&own), bare(&own));
    with.uplinks.retain(|link| with_default.contains(&link.ifindex));
    without.bare.retain(|link| !with_default.contains(&link.ifindex));
    let specific = (1..).zip(peers).map(|(link, peer)| route(peer, 64, link)).collect();
    HostView { uplinks: with.uplinks, bare: without.bare, specific, ..HostView::default() }
}

/// The peer may send to each address of the host that it has been told.
#[test]
fn a_context_stays_on_a_link_with_its_peer_that_loses_its_default_route() {
    let mut duo = with_moved_context();
    let (id, now, whole) = (context(&duo), duo.now, beside_peer(&duo, &[1, 2]));
    duo.hosts[0].handle_view(whole, now);
    duo.run(Duration::from_secs(5));
    let before = duo.hosts[0].shim6().entry_of(id).expect("a context");
    assert!(before.is_moved());
    duo.effects[0].clear();
    for with_default in [&[1][..], &[]] {
        let (now, left) = (duo.now, beside_peer(&duo, with_default));
        duo.hosts[0].handle_view(left, now);
        duo.settle();
        let effects = &duo.effects[0];
        assert_eq!(duo.hosts[0].shim6().entry_of(id).as_ref(), Some(&before), "{effects:#?}");
        let is_told = |one: &Effect| matches!(one, Effect::TellContext(_) | Effect::Route(_));
        assert!(!effects.iter().any(is_told), "{with_default:?}: {effects:#?}");
        assert_eq!(duo.hosts[0].carriers().shim6, [1, 2].into(), "{with_default:?}");
    }
    // The link of the moved pair fails.
    let (now, mut left) = (duo.now, beside_peer(&duo, &[]));
    left.bare.retain(|link| link.ifindex == 1);
    left.dead.insert(2);
    duo.hosts[0].handle_view(left, now);
    duo.run(Duration::from_secs(1));
    let after = duo.hosts[0].shim6().entry_of(id).expect("a context");
    assert_eq!(after.current.pair, duo.pair(0).as_locators());
}

fn has_moved(effect: &Effect) -> bool {
    matches!(effect, Effect::TellSession(ilnp::Event::Moved { .. }))
}

/// The session began after the last view.
#[test]
fn a_session_stays_on_a_link_with_its_correspondent_that_loses_its_default_route() {
    let mut duo = with_session();
    duo.effects[0].clear();
    let (now, left) = (duo.now, beside_peer(&duo, &[2]));
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    assert!(!duo.effects[0].iter().any(has_moved), "{:#?}", duo.effects[0]);
    assert_eq!(duo.hosts[0].ilnp().expect("sessions").locators().len(), 2);
}

/// The session sends from the first link, and its correspondent may send to the second.
#[test]
fn programs_stay_on_each_link_whose_locator_correspondents_know() {
    let mut duo = with_session();
    for with_default in [&[1][..], &[]] {
        let (now, left) = (duo.now, beside_peer(&duo, with_default));
        duo.hosts[0].handle_view(left, now);
        duo.settle();
        assert_eq!(duo.hosts[0].carriers().ilnp, [1, 2].into(), "{with_default:?}");
        assert_eq!(duo.hosts[0].ilnp().expect("sessions").locators().len(), 2);
    }
    duo.hosts[0].ilnp_mut().expect("sessions").handle_end();
    duo.settle();
    let (now, left) = (duo.now, beside_peer(&duo, &[]));
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    assert_eq!(duo.hosts[0].carriers().ilnp, [].into(), "nobody knows a locator any more");
}

/// Both sessions use the first link, and the second link has lost its default route when the later one begins.
#[test]
fn a_link_without_a_default_route_goes_with_the_last_session_from_before() {
    let mut duo = with_session();
    let (now, left) = (duo.now, beside_peer(&duo, &[1]));
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    let [at, other] = [0, 1].map(|n| Ilv::of(duo.locals[1].usable[n].0));
    let (old, peer) = (duo.pair(0), Ulid(other.at(at.l64).address()));
    let later = UlidPair::new(old.local, peer);
    duo.traffic_of(0, later);
    duo.traffic_of(1, later.reversed());
    duo.run(Duration::from_secs(2));
    let has =
        |duo: &Duo, pair| duo.hosts[0].ilnp().expect("sessions").has_session(IlvPair::of(pair));
    assert!(has(&duo, old) && has(&duo, later));
    assert_eq!(duo.hosts[0].carriers().ilnp, [1, 2].into(), "for the session from before");
    duo.effects[0].clear();
    let known = duo.hosts[0].routing.sessions.iter();
    let of_old = known.filter(|(_, known)| known.pair == IlvPair::of(old)).map(|(id, _)| id);
    let of_old: Vec<_> = of_old.collect();
    duo.hosts[0].ilnp_mut().expect("sessions").handle_not_taken(of_old[0]);
    duo.settle();
    assert!(!has(&duo, old) && has(&duo, later));
    assert_eq!(duo.hosts[0].carriers().ilnp, [1].into());
    assert_eq!(duo.hosts[0].ilnp().expect("sessions").locators().len(), 1);
    let told = place(
        &duo.effects[0],
        |one| matches!(one, Effect::SendIlnp { transmit, .. } if is_update(&transmit.packet)),
    );
    let gone = Effect::Detach { protocol: Protocol::Ilnp, ifindex: 2 };
    assert!(told < place(&duo.effects[0], |one| *one == gone), "{:#?}", duo.effects[0]);
}

#[test]
fn addresses_are_in_use_as_soon_as_a_context_or_session_has_them() {
    for duo in [with_context(), with_session()] {
        let own = duo.pair(0).local.0;
        assert!(duo.hosts[0].view().in_use.contains(&own), "no view has come since it began");
    }
}

#[test]
fn more_specific_routes_say_by_which_links_peers_are_reached() {
    let mut duo = with_context();
    let (own, peers) = (duo.locals[0].usable.clone(), duo.locals[1].usable.clone());
    let id = context(&duo);
    // Whether the context has the pair of the host's second address and the peer's first.
    let mut is_pair = |specific: &[SpecificRoute]| {
        let now = duo.now;
        duo.hosts[0].handle_specific(specific.iter().copied().collect(), now);
        duo.settle();
        let across = LocatorPair::new(own[1], peers[0]);
        let is_shown = duo.hosts[0].shim6().paths(id).iter().any(|path| path.pair == across);
        assert_eq!(is_shown, duo.hosts[0].shim6().check_pair(id, across).is_ok());
        is_shown
    };
    assert!(is_pair(&[]));
    let (wide, narrow) = (route(peers[0], 48, 1), route(peers[0], 64, 2));
    assert!(!is_pair(&[wide]), "by the other link");
    assert!(is_pair(&[wide, narrow]), "the longest prefix decides");
    let two_ways = [route(peers[0], 64, 1), SpecificRoute { metric: 512, ..narrow }];
    assert!(is_pair(&two_ways), "by both links");
    let of_others = Some(Prefix::new(peers[0].0, 64));
    assert!(is_pair(&[SpecificRoute { source: of_others, ..wide }]), "for no source of ours");
    assert!(is_pair(&[SpecificRoute { way: None, ..wide }]), "by several, or none");
    assert!(is_pair(&[SpecificRoute { way: Some((9, None)), ..wide }]), "by a VPN");
}

/// Control messages to the peer's address on the second link leave by that link, and moved payload would not.
#[test]
fn an_address_of_the_peer_on_a_link_without_a_default_route_makes_no_pair_with_another_link() {
    let mut duo = with_context();
    let (own, peers) = (duo.locals[0].usable.clone(), duo.locals[1].usable.clone());
    let (now, id, left) = (duo.now, context(&duo), beside_peer(&duo, &[1]));
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    let is_pair =
        |peer| duo.hosts[0].shim6().check_pair(id, LocatorPair::new(own[0], peer)).is_ok();
    assert!(is_pair(peers[0]) && !is_pair(peers[1]));
}

#[test]
fn a_moved_pair_is_led_to_a_neighbor_and_to_the_router_once_the_route_is_gone() {
    let mut duo = with_moved_context();
    let (now, id) = (duo.now, context(&duo));
    let peer = duo.hosts[0].path_of(Mover::Context(id)).expect("a path").peer;
    let mut hop = |specific: &[SpecificRoute]| {
        duo.hosts[0].handle_specific(specific.iter().copied().collect(), now);
        duo.run(Duration::from_secs(1));
        duo.hosts[0].routes().get(Mover::Context(id)).and_then(|route| route.direct)
    };
    let router = hop(&[]).expect("a router").gateway;
    assert_eq!(hop(&[route(peer, 64, 2)]).map(|hop| hop.gateway), Some(peer.0));
    let behind: Ipv6Addr = "fe80::7".parse().expect("an address");
    let by_another = SpecificRoute { way: Some((2, Some(behind))), ..route(peer, 64, 2) };
    assert_eq!(hop(&[by_another]).map(|hop| hop.gateway), Some(behind));
    assert_eq!(hop(&[]).map(|hop| hop.gateway), Some(router));
}

/// The peer is on the first link alone, and on no other link of the host.
#[test]
fn a_peer_on_a_link_without_a_carrier_is_behind_the_router_of_another_until_the_context_is_back() {
    let mut duo = with_context();
    let (id, own) = (context(&duo), duo.locals[0].usable.clone());
    let peers = duo.locals[1].usable.clone();
    let with_carrier = |duo: &mut Duo, carrier| {
        let mut view = view(&own);
        view.uplinks[0].carrier = carrier;
        view.specific = peers.iter().map(|peer| route(*peer, 64, 1)).collect();
        let now = duo.now;
        duo.effects[0].clear();
        duo.hosts[0].handle_view(view, now);
        duo.run(Duration::from_secs(5));
    };
    with_carrier(&mut duo, true);
    let across = LocatorPair::new(own[1], peers[0]);
    assert!(duo.hosts[0].shim6().check_pair(id, across).is_err(), "it would leave by the first");
    with_carrier(&mut duo, false);
    let rules = place(&duo.effects[0], |one| *one == Effect::FollowRules);
    assert!(rules < place(&duo.effects[0], is_moved_update), "{:#?}", duo.effects[0]);
    assert_eq!(duo.hosts[0].view().specific_for_all().count(), 0);
    // The default route of the link has expired meanwhile.
    let mut expired = duo.hosts[0].view().clone();
    expired.dead.insert(expired.uplinks.remove(0).ifindex);
    let now = duo.now;
    duo.hosts[0].handle_view(expired, now);
    duo.run(Duration::from_secs(5));
    assert_eq!(duo.hosts[0].view().specific_for_all().count(), 0);
    let pair = duo.hosts[0].path_of(Mover::Context(id)).expect("a path");
    assert_eq!(pair.local, own[1]);

    with_carrier(&mut duo, true);
    assert_eq!(duo.hosts[0].path_of(Mover::Context(id)), Some(pair), "it works");
    let thrown = |duo: &Duo| {
        let routes = duo.hosts[0].view().specific_for_all();
        routes.map(|route| route.destination).collect::<Vec<_>>()
    };
    assert!(thrown(&duo).iter().all(|to| !to.contains(pair.peer.0)), "{:?}", thrown(&duo));
    duo.hosts[0].shim6_mut().remove(id, Removal::Requested);
    duo.effects[0].clear();
    duo.run(Duration::from_secs(20));
    assert_eq!(thrown(&duo).len(), 2, "nothing goes round the routes any more");
    place(&duo.effects[0], |one| *one == Effect::FollowRules);
}

#[test]
fn a_detour_goes_by_the_router_from_before() {
    let address = |link, node| Ipv6Addr::new(0x2001, 0xdb8, link, 0, 0, 0, 0, node);
    let own = [Locator(address(1, 1)), Locator(address(2, 1))];
    let (peer, behind) = (Locator(address(9, 1)), address(2, 7));
    let by_another = SpecificRoute { way: Some((2, Some(behind))), ..route(peer, 48, 2) };
    let mut view = view(&own);
    view.specific = [by_another, route(peer, 64, 1)].into();
    let hop = |view: &HostView| view.specific_hop(&view.uplinks[1], own[1].0, peer.0);
    assert_eq!(hop(&view), None, "the longer prefix decides");
    view.detours.insert(Prefix::new(peer.0, 64));
    assert_eq!(hop(&view).map(|hop| hop.gateway), Some(behind));
}

/// A router on a link can advertise routes to any destination, and a VPN may start.
#[test]
fn a_pair_that_works_goes_on_whatever_routes_come_by_other_links_of_ours() {
    for (links, goes_on) in [(&[1][..], true), (&[1, 1], true), (&[9], false), (&[9, 1], false)] {
        let mut duo = with_context();
        let (id, own, now) = (context(&duo), duo.locals[0].usable.clone(), duo.now);
        let mut lost = view(&own);
        lost.uplinks[0].carrier = false;
        duo.hosts[0].handle_view(lost, now);
        duo.run(Duration::from_secs(5));
        let peer = duo.hosts[0].path_of(Mover::Context(id)).expect("a path").peer;
        duo.hosts[0].handle_view(view(&own), now);
        duo.settle();
        // Each prefix is inside the one before.
        let routes = links.iter().zip([48, 64]).map(|(link, length)| route(peer, length, *link));
        duo.hosts[0].handle_specific(routes.collect(), now);
        let followed = |duo: &Duo| duo.hosts[0].view().specific_for_all().count();
        assert_eq!(followed(&duo) == 0, goes_on, "{links:?}");
        duo.run(Duration::from_secs(15));
        assert_eq!(followed(&duo) == 0, goes_on, "{links:?}: looked at again");
        duo.hosts[0].shim6_mut().remove(id, Removal::Requested);
        duo.run(Duration::from_secs(15));
        assert_eq!(followed(&duo), links.len(), "{links:?}: nothing moved is left");
    }
}

#[test]
fn the_host_knows_since_when_it_has_no_other_addresses_than_before() {
    let mut duo = with_context();
    let (first, second) = (duo.now, duo.now + Duration::from_secs(9));
    let local = duo.locals[0].clone();
    let began = duo.hosts[0].gained_at();
    assert!(began.is_some_and(|at| at < first));
    let rest = LocalState { usable: local.usable[1..].to_vec(), ..local.clone() };
    for told in [&local, &rest] {
        tell(&mut duo.hosts[0], told, first);
        duo.settle();
    }
    assert_eq!(duo.hosts[0].gained_at(), began, "none has come");
    duo.now = second;
    tell(&mut duo.hosts[0], &local, second);
    duo.settle();
    assert_eq!(duo.hosts[0].gained_at(), Some(second));
}

#[test]
fn the_kernels_routes_are_looked_at_after_a_step_has_failed() {
    let mut duo = with_moved_context();
    let route = *duo.hosts[0].routes().get(Mover::Context(context(&duo))).expect("a route");
    duo.effects[0].clear();
    let failed = Effect::Route(RouteStep::Add(vec![route]));
    let now = duo.now;
    duo.hosts[0].handle_failed(&failed, now);
    duo.run(Duration::from_secs(2));
    assert!(duo.effects[0].contains(&Effect::AskRoutes));
    duo.effects[0].clear();
    let now = duo.now;
    duo.hosts[0].handle_routes(&[], now);
    duo.settle();
    let by_moor = MovedRoute { direct: None, own: None, ..route };
    assert!(duo.effects[0].contains(&Effect::Route(RouteStep::Add(vec![by_moor]))));
    // Reading the routes can fail, too.
    duo.hosts[0].handle_failed(&Effect::AskRoutes, now);
    duo.effects[0].clear();
    duo.run(Duration::from_secs(130));
    assert!(duo.effects[0].contains(&Effect::AskRoutes));
}

#[test]
fn a_data_plane_that_takes_no_context_leaves_none() {
    let mut duo = with_moved_context();
    let id = context(&duo);
    let entry = duo.hosts[0].shim6().entry_of(id).expect("an entry");
    duo.effects[0].clear();
    let now = duo.now;
    duo.hosts[0].handle_failed(&Effect::UpdateContext(Update::Upsert(entry)), now);
    duo.settle();
    assert!(!duo.has_context(0) && !duo.hosts[0].has_moved(duo.pair(0)));
    let effects = &duo.effects[0];
    assert!(effects.iter().any(|one| matches!(one, Effect::Route(RouteStep::Remove(_)))));
    let is_told = |one: &Effect| {
        let removed = shim6::EventKind::Removed { removal: Removal::NotTaken };
        matches!(one, Effect::TellContext(event) if event.kind == removed)
    };
    assert!(effects.iter().any(is_told), "{effects:#?}");
    // The slot may have another context by now. Other failures leave contexts alone.
    let other = duo.hosts[1].shim6().contexts().next().expect("a context");
    let of_other = duo.hosts[1].shim6().entry_of(other.id).expect("an entry");
    let stale = ContextEntry {
        ulids: UlidPair::new(of_other.ulids.peer, of_other.ulids.local),
        ..of_other
    };
    let stale = Effect::UpdateContext(Update::Upsert(stale));
    let heard = Effect::UpdateContext(Update::Heard { context: id, at: now });
    let removed = Effect::UpdateContext(Update::Remove { context: id });
    let before = duo.hosts[1].shim6().contexts().count();
    for effect in [heard, removed, stale, Effect::FollowRules] {
        duo.hosts[1].handle_failed(&effect, now);
    }
    assert_eq!(duo.hosts[1].shim6().contexts().count(), before);
}

#[test]
fn sockets_that_wait_for_a_router_that_is_lost_are_freed_if_their_pair_has_moved() {
    let mut duo = with_context();
    for (ifindex, has_moved) in [(1, false), (1, true), (2, true)] {
        duo.effects[0].clear();
        let now = duo.now;
        assert_eq!(duo.hosts[0].has_moved(duo.pair(0)), has_moved);
        duo.hosts[0].handle_router_lost(ifindex, now);
        duo.settle();
        let freed = [Effect::FlushCachedRoutes, Effect::GiveUpNeighbors { ifindex }];
        let is_freed = freed.iter().all(|one| duo.effects[0].contains(one));
        assert_eq!(is_freed, has_moved && ifindex == 1, "{ifindex} {:#?}", duo.effects[0]);
        duo.run(Duration::from_secs(5));
    }
}

#[test]
fn a_path_that_is_narrower_than_its_uplink_has_a_route_for_that_and_tcp_is_told() {
    let mut duo = with_moved_context();
    let mover = Mover::Context(context(&duo));
    let path = duo.hosts[0].path_of(mover).expect("a path");
    duo.effects[0].clear();
    let (now, ulids) = (duo.now, duo.pair(0));
    duo.hosts[0].handle_path_mtus(&[(mover, path, 1400)], now);
    duo.settle();
    assert_eq!(duo.hosts[0].routes().get(mover).expect("a route").mtu, 1392);
    let told = Effect::NotifyTcp { ulids, mtu: Some(1392) };
    assert!(duo.effects[0].contains(&told), "{:#?}", duo.effects[0]);
    // The smaller MTU expires.
    duo.run(Duration::from_secs(601));
    let route = duo.hosts[0].routes().get(mover).map(|route| route.mtu);
    assert_eq!(route, Some(1492));
}

#[test]
fn a_data_plane_that_has_not_taken_the_node_is_told_again() {
    let mut duo = Duo::new();
    duo.settle();
    let is_told = |one: &Effect| matches!(one, Effect::SetNode(_));
    let refused = duo.effects[0].remove(place(&duo.effects[0], is_told));
    duo.effects[0].clear();
    let now = duo.now;
    duo.hosts[0].handle_failed(&refused, now);
    duo.run(Duration::from_secs(2));
    assert_eq!(duo.effects[0].iter().filter(|one| **one == refused).count(), 1);
}

#[test]
fn what_a_data_plane_refuses_to_forget_is_removed_again_unless_its_slot_has_another_by_then() {
    let mut duo = with_context();
    let (now, pair) = (duo.now, duo.pair(0));
    let remove = |id: u32| Effect::UpdateContext(Update::Remove { context: ContextId(id) });
    let gone = Effect::UpdateSession(SessionUpdate::Remove { session: SessionId(9) });
    let rearm = Effect::UpdateContext(Update::Rearm { ulids: pair });
    let live = remove(context(&duo).0);
    for refused in [&remove(77), &live, &gone, &rearm] {
        duo.hosts[0].handle_failed(refused, now);
    }
    assert!(duo.hosts[0].awaits_retry());
    duo.run(Duration::from_secs(2));
    for again in [&remove(77), &gone, &rearm] {
        assert_eq!(duo.effects[0].iter().filter(|one| *one == again).count(), 1, "{again:?}");
    }
    assert!(!duo.effects[0].contains(&live));
    assert!(!duo.hosts[0].awaits_retry());
}

#[test]
fn contexts_of_a_run_before_that_were_not_taken_over_leave_the_data_plane() {
    let mut duo = with_context();
    let there = context(&duo);
    duo.hosts[0].handle_left_contexts([there, ContextId(77)]);
    duo.settle();
    let gone = Effect::UpdateContext(Update::Remove { context: ContextId(77) });
    assert_eq!(duo.effects[0], [gone]);
}

#[test]
fn what_fails_each_time_is_tried_ever_more_rarely() {
    let mut duo = Duo::new();
    duo.settle();
    let (began, mut times) = (duo.now, Vec::new());
    duo.hosts[0].handle_failed(&Effect::FollowRules, began);
    while times.len() < 5 {
        duo.run(Duration::from_millis(500));
        duo.effects[0].retain(|one| *one == Effect::FollowRules);
        if duo.effects[0].pop().is_some() {
            times.push(duo.now.since(began).as_secs());
            let now = duo.now;
            duo.hosts[0].handle_failed(&Effect::FollowRules, now);
        }
    }
    let pauses: Vec<_> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.is_sorted() && pauses[3] >= 4 * pauses[0].max(1), "{times:?}");
}

#[test]
fn addresses_of_uplinks_without_programs_are_not_used_until_the_uplinks_have_some() {
    let local = local_state(0, 1);
    let now = Instant::from_nanos(1_000_000_000);
    let mut host = host(0, &local, now);
    let mut execute = |now, has_room: bool| {
        while let Some(effect) = host.poll_effect(now) {
            if matches!(effect, Effect::Attach { ifindex: 1, .. }) && !has_room {
                host.handle_failed(&effect, now);
            } else {
                host.handle_done(&effect, now);
            }
        }
        let used = host.shim6().usable().to_vec();
        let due = host.poll_timeout();
        due.into_iter().for_each(|at| host.handle_timeout(at));
        (used, due)
    };
    let (used, due) = execute(now, false);
    assert_eq!(used, &local.usable[1..]);
    let (used, due) = execute(due.expect("it is tried again"), true);
    assert_eq!((used, due), (local.usable, None));
}

#[test]
fn a_stage_waits_for_the_one_before() {
    let mut duo = Duo::new();
    let (now, left) = (duo.now, view(&duo.locals[0].usable[1..]));
    duo.effects[0].clear();
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    let all = duo.locals[0].clone();
    tell(&mut duo.hosts[0], &all, now);
    duo.settle();
    let effects = &duo.effects[0];
    let gone = Effect::Detach { protocol: Protocol::Shim6, ifindex: 1 };
    let gone = place(effects, |one| *one == gone);
    let attached = Effect::Attach { protocol: Protocol::Ilnp, ifindex: 1 };
    let attached = place(effects, |one| *one == attached);
    let node = |one: &Effect| matches!(one, Effect::SetNode(node) if node.uplinks.len() == 2);
    let rules = place(&effects[gone..], |one| *one == Effect::FollowRules) + gone;
    let node = place(&effects[gone..], node) + gone;
    assert!(gone < rules && rules < attached && attached < node, "{effects:#?}");
}

/// Whether a packet has a Locator Update (RFC 6743 s2) behind its Destination Options header.
fn is_update(packet: &[u8]) -> bool {
    let at = if packet[6] == 60 { 48 + 8 * usize::from(packet[41]) } else { 40 };
    packet[at] == 156
}

#[test]
fn sessions_have_their_address_on_an_uplink_before_anything_is_sent_from_there() {
    let mut duo = with_session();
    let wanted = Ilv::of(duo.locals[0].usable[0].0).at(Ilv::of(duo.locals[0].usable[1].0).l64);
    let is_added = |one: &Effect| matches!(one, Effect::AddSessionAddress(made) if made.address == wanted.address());
    let is_told = |one: &Effect| matches!(one, Effect::SendIlnp { transmit, .. } if is_update(&transmit.packet));
    let effects = &duo.effects[0];
    assert!(place(effects, is_added) < place(effects, is_told), "before the peer is told of it");
    assert!(duo.hosts[0].is_session_address(wanted.address()));
    duo.effects[0].clear();
    let (now, left) = (duo.now, view(&duo.locals[0].usable[1..]));
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    let uplink = duo.hosts[0].uplink_of(wanted.address()).map(|uplink| uplink.ifindex);
    assert_eq!(uplink, Some(2), "though the uplink has no such address");
    let effects = &duo.effects[0];
    let node = place(effects, |one| matches!(one, Effect::SetNode(_)));
    let introduced = place(
        effects,
        |one| matches!(one, Effect::Introduce { ifindex: 2, address } if *address == wanted.address()),
    );
    let update = place(effects, |one| matches!(one, Effect::UpdateSession(_)));
    let sent = place(effects, |one| matches!(one, Effect::SendIlnp { ifindex: 2, .. }));
    assert!(node < introduced && introduced < update && update < sent, "{effects:#?}");
    // The locator that was left is gone: nothing waits for routes.
    let route = place(effects, |one| matches!(one, Effect::Route(RouteStep::Add(_))));
    assert!(sent < route, "{effects:#?}");
}

#[test]
fn addresses_of_sessions_are_removed_after_all_else() {
    let mut duo = with_session();
    duo.effects[0].clear();
    let (now, left) = (duo.now, view(&duo.locals[0].usable[..1]));
    duo.hosts[0].handle_view(left, now);
    duo.settle();
    let effects = &duo.effects[0];
    let sent = place(
        effects,
        |one| matches!(one, Effect::SendIlnp { transmit, .. } if is_update(&transmit.packet)),
    );
    let removed = place(effects, |one| matches!(one, Effect::RemoveSessionAddress(_)));
    assert!(sent < removed, "nothing waits for the removal: {effects:#?}");
}

/// Without a notice, the TCP of a host that comes back would wait for its timer, which has doubled meanwhile.
#[test]
fn tcp_is_told_when_a_path_works_again_be_it_the_one_from_before() {
    let mut duo = with_context();
    let (now, all) = (duo.now, duo.locals[0].clone());
    duo.hosts[0].handle_view(HostView::default(), now);
    duo.run(Duration::from_secs(20));
    duo.effects[0].clear();
    let now = duo.now;
    tell(&mut duo.hosts[0], &all, now);
    duo.run(Duration::from_secs(5));
    let is_told = |two: &[Effect]| {
        let to = shim6::ReapState::Operational;
        let is_back = |event: &shim6::Event| matches!(event.kind, shim6::EventKind::StateChanged { to: state, .. } if state == to);
        let is_back = matches!(&two[1], Effect::TellContext(event) if is_back(event));
        matches!(two[0], Effect::NotifyTcp { .. }) && is_back
    };
    assert!(duo.effects[0].windows(2).any(is_told), "{:#?}", duo.effects[0]);
}

#[test]
fn tcp_of_a_session_is_told_when_its_locator_is_back() {
    let mut duo = with_session();
    let (now, all) = (duo.now, duo.locals[0].clone());
    let is_notice = |one: &Effect| matches!(one, Effect::NotifyTcp { .. });
    duo.hosts[0].handle_view(HostView::default(), now);
    duo.settle();
    duo.effects[0].clear();
    tell(&mut duo.hosts[0], &all, now);
    duo.settle();
    assert_eq!(duo.effects[0].iter().filter(|one| is_notice(one)).count(), 1);
    duo.effects[0].clear();
    tell(&mut duo.hosts[0], &all, now);
    duo.settle();
    assert!(!duo.effects[0].iter().any(is_notice), "it was there all along");
}

/// The traffic is classic IPv6 from then on.
#[test]
fn tcp_is_told_when_the_correspondent_says_that_it_does_not_know_the_session() {
    let mut duo = with_session();
    duo.effects[0].clear();
    duo.hosts[1].ilnp_mut().expect("sessions").handle_end();
    duo.settle();
    assert!(!duo.has_session(0));
    let is_removed =
        |one: &Effect| matches!(one, Effect::UpdateSession(SessionUpdate::Remove { .. }));
    let is_notice = |one: &Effect| matches!(one, Effect::NotifyTcp { mtu: None, .. });
    let effects = &duo.effects[0];
    assert!(place(effects, is_removed) < place(effects, is_notice));
}

/// An I1 for the first addresses of both hosts, from the second address of the second host if `is_elsewhere`.
fn i1(duo: &Duo, receiver: Ulid, is_elsewhere: bool) -> (Vec<u8>, LocatorPair) {
    let peer = &duo.locals[1].usable;
    let named = Opt::UlidPair { sender: peer[0].as_ulid(), receiver };
    let i1 = Message::I1(I1 {
        initiator_tag: ContextTag::from_bits(77),
        initiator_nonce: 5,
        options: Options::from(Vec::from([named])),
    });
    let from = peer[usize::from(is_elsewhere)];
    (i1.octets(), LocatorPair::new(receiver.as_locator(), from))
}

#[test]
fn an_i1_for_ulids_with_a_session_gets_no_answer_from_wherever_it_comes_and_the_correspondent_is_asked()
 {
    for is_elsewhere in [false, true] {
        let mut duo = with_session();
        duo.run(Duration::from_secs(2));
        duo.effects[0].clear();
        let (octets, locators) = i1(&duo, duo.pair(0).local, is_elsewhere);
        let now = duo.now;
        duo.hosts[0].handle_shim6(&octets, locators, now);
        duo.settle();
        assert_eq!(duo.sent(0), [], "no R1");
        assert!(duo.effects[0].iter().any(
            |one| matches!(one, Effect::SendIlnp { transmit, .. } if is_update(&transmit.packet))
        ));
        assert!(duo.has_session(0));
    }
}

#[test]
fn an_i1_for_an_address_of_sessions_that_is_still_there_gets_no_answer() {
    let mut duo = with_session();
    let address = |one: &Effect| {
        let Effect::AddSessionAddress(made) = one else { return None };
        Some(*made)
    };
    let made = duo.effects[0].iter().find_map(address);
    let made = made.expect("an address for sessions");
    let (now, pair) = (duo.now, IlvPair::of(duo.pair(0)));
    // The session ends, and the kernel refuses to remove the address.
    let sessions = duo.hosts[0].ilnp_mut().expect("it speaks ILNP");
    sessions.handle_end();
    duo.settle();
    assert!(!duo.has_session(0), "{pair:?}");
    duo.hosts[0].handle_failed(&Effect::RemoveSessionAddress(made), now);
    duo.effects[0].clear();
    let (octets, locators) = i1(&duo, made.address.into(), true);
    duo.hosts[0].handle_shim6(&octets, locators, now);
    duo.settle();
    assert_eq!(duo.sent(0), []);
}
