//! Two nodes on the same two links.

use std::vec::Vec;

use moorline_datapath::ilnp::Update;
use moorline_types::{Ilv, L64, LocalRoutes, Locator, Prefix};

use super::duo::Duo;
use super::ilv;
use crate::{LocalLocator, LocalState};

/// The second locator of each host. The first locator is in the host's address.
const SECOND: [u64; 2] = [0x2001_0db8_00aa_0000, 0x2001_0db8_00ab_0000];

fn locators(host: usize) -> [L64; 2] {
    [ilv(host).l64, L64(SECOND[host])]
}

fn address(host: usize, link: usize) -> Ilv {
    ilv(host).at(locators(host)[link])
}

/// Routes to each locator of the other host by the link of that locator.
fn on_both_links(host: usize) -> LocalRoutes {
    let route = |link| {
        let [own, peer] = [host, 1 - host].map(|host| address(host, link).address());
        (Prefix::new(peer, 64), Vec::from([Locator(own)]))
    };
    LocalRoutes([0, 1].map(route).into())
}

/// Puts a host on these links, the best one first, with these routes.
fn place(duo: &mut Duo, host: usize, links: &[usize], routes: LocalRoutes) {
    duo.set_local(host, &local_state(host, links, routes));
    duo.play();
}

fn local_state(host: usize, links: &[usize], routes: LocalRoutes) -> LocalState {
    let locator = |(preference, link): (u16, &usize)| LocalLocator {
        preference,
        ..LocalLocator::new(locators(host)[*link])
    };
    let locators = (1..).zip(links).map(locator).collect();
    LocalState { nids: [ilv(host).nid].into(), locators, routes }
}

fn neighbors() -> Duo {
    let mut duo = Duo::established();
    for host in [0, 1] {
        place(&mut duo, host, &[0, 1], on_both_links(host));
    }
    duo
}

/// The links of the source and the destination of a host.
fn links(duo: &Duo, host: usize) -> (usize, usize) {
    links_of(duo.entry(host).wire, host)
}

fn links_of(wire: (L64, L64), host: usize) -> (usize, usize) {
    let link = |host, l64| locators(host).iter().position(|known| *known == l64);
    link(host, wire.0).zip(link(1 - host, wire.1)).expect("a locator")
}

#[test]
fn what_leaves_a_link_is_sent_to_the_locator_of_the_neighbor_on_the_same_link() {
    let mut duo = neighbors();
    assert_eq!([0, 1].map(|host| links(&duo, host)), [(0, 0); 2]);
    // The neighbor still prefers its first link, which no host on the second link reaches.
    place(&mut duo, 0, &[1], on_both_links(0));
    assert_eq!([0, 1].map(|host| links(&duo, host)), [(1, 1); 2]);
    place(&mut duo, 1, &[0, 1], on_both_links(1));
    assert_eq!([0, 1].map(|host| links(&duo, host)), [(1, 1); 2]);
    // The host is back on the first link, which is better than the second.
    place(&mut duo, 0, &[0, 1], on_both_links(0));
    for host in [0, 1] {
        let (own, others) = links(&duo, host);
        assert_eq!(own, others, "host {host}");
    }
    place(&mut duo, 1, &[0], on_both_links(1));
    assert_eq!([0, 1].map(|host| links(&duo, host)), [(0, 0); 2]);
}

#[test]
fn a_pair_that_no_link_carries_is_left_when_the_routes_are_known() {
    let mut duo = Duo::established();
    place(&mut duo, 0, &[0, 1], LocalRoutes::default());
    place(&mut duo, 1, &[1, 0], LocalRoutes::default());
    assert_eq!(links(&duo, 0), (0, 1), "each has its own preference");
    let sent = duo.transcript.len();
    place(&mut duo, 0, &[0, 1], on_both_links(0));
    assert_eq!(links(&duo, 0), (1, 1));
    assert_eq!(duo.transcript.len(), sent, "its locators are the same");
}

#[test]
fn where_no_pair_is_carried_by_a_link_preference_decides() {
    let mut duo = neighbors();
    place(&mut duo, 1, &[0], on_both_links(1));
    place(&mut duo, 0, &[1], on_both_links(0));
    assert_eq!(links(&duo, 0), (1, 0));
    assert!(duo.is_agreed());
}

/// The host is on the first link alone, and the router of that link is gone. The other host prefers its second link,
/// which has a router.
#[test]
fn a_node_without_a_default_route_sends_to_the_locator_on_its_link() {
    let mut duo = Duo::established();
    let to_the_first = |host: usize| {
        let [own, peer] = [host, 1 - host].map(|host| address(host, 0).address());
        (Prefix::new(peer, 64), Vec::from([Locator(own)]))
    };
    place(&mut duo, 1, &[0], LocalRoutes([to_the_first(1), (Prefix::ALL, Vec::new())].into()));
    let with_default = (Prefix::ALL, Vec::from([Locator(address(0, 1).address())]));
    place(&mut duo, 0, &[1, 0], LocalRoutes([to_the_first(0), with_default].into()));
    assert_eq!([links(&duo, 0), links(&duo, 1)], [(0, 0), (0, 0)]);
}

/// Both hosts prefer the second link from the same moment on. So the Locator Update of neither is acknowledged when the
/// other's comes.
#[test]
fn a_session_takes_no_pair_across_two_links_while_its_locator_update_waits() {
    let mut duo = neighbors();
    let both = [&[1, 0], &[0, 1]].map(|links| [0, 1].map(|host| (host, links)));
    for (host, links) in both.into_iter().flatten() {
        place(&mut duo, host, links, on_both_links(host));
    }
    assert_eq!([0, 1].map(|host| links(&duo, host)), [(0, 0); 2]);
    duo.updates = Default::default();
    for host in [0, 1] {
        duo.set_local(host, &local_state(host, &[1, 0], on_both_links(host)));
    }
    duo.play();
    assert_eq!([0, 1].map(|host| links(&duo, host)), [(1, 1); 2]);
    for host in [0, 1] {
        for update in &duo.updates[host] {
            let Update::Upsert(entry) = update else { continue };
            let (own, others) = links_of(entry.wire, host);
            assert_eq!(own, others, "host {host}");
        }
    }
}
