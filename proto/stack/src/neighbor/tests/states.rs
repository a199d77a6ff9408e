//! State x event.

use super::*;

/// Effect of a Neighbor Advertisement in the states INCOMPLETE, REACHABLE, STALE, DELAY, PROBE and UNREACHABLE (RFC 4861
/// s7.2.5, RFC 7048 s3). `.` is an advertisement that is ignored, `=` leaves state and address, and a letter is the next state;
/// `!` is behind it where the new link-layer address is taken. In INCOMPLETE a packet waits, so STALE goes on to DELAY.
const ADVERTISEMENTS: [(&str, Option<Mac>, [&str; 6]); 12] = [
    ("", None, [".", "=", "=", "=", "=", "="]),
    ("", Some(MAC), ["D", "=", "=", "=", "=", "="]),
    ("", Some(OTHER_MAC), ["D!", "S", ".", ".", ".", "."]),
    ("O", None, [".", "=", "=", "=", "=", "="]),
    ("O", Some(MAC), ["D", "=", "=", "=", "=", "="]),
    ("O", Some(OTHER_MAC), ["D!", "S!", "S!", "S!", "S!", "S!"]),
    ("S", None, [".", "R", "R", "R", "R", "R"]),
    ("S", Some(MAC), ["R", "R", "R", "R", "R", "R"]),
    ("S", Some(OTHER_MAC), ["R!", "S", ".", ".", ".", "."]),
    ("SO", None, [".", "R", "R", "R", "R", "R"]),
    ("SO", Some(MAC), ["R", "R", "R", "R", "R", "R"]),
    ("SO", Some(OTHER_MAC), ["R!", "R!", "R!", "R!", "R!", "R!"]),
];

/// Effect of other events in the same states. NS, RS, RA and Redirect with a link-layer address all do as in the rows
/// of NS (RFC 4861 appendix C).
const EVENTS: [(&str, [&str; 6]); 6] = [
    ("send", ["=", "=", "D", "=", "=", "="]),
    ("NS", ["D", "=", "=", "=", "=", "="]),
    ("NS!", ["D!", "S!", "S!", "S!", "S!", "S!"]),
    ("RA without address", ["=", "=", "=", "=", "=", "="]),
    ("progress", ["=", "R", "R", "R", "R", "R"]),
    ("60 s", ["removed", "S", "S", "U", "U", "U"]),
];

fn expected(cell: &str, before: State) -> (Option<State>, Mac) {
    let mac = if cell.ends_with('!') { OTHER_MAC } else { MAC };
    let state = match cell.trim_end_matches('!') {
        "." | "=" => Some(before),
        "R" => Some(State::Reachable),
        "S" => Some(State::Stale),
        "D" => Some(State::Delay),
        "U" => Some(State::Unreachable),
        _ => None,
    };
    (state, mac)
}

fn check(neighbors: &Neighbors, cell: &str, before: State, now: Instant, why: &str) {
    let (state, mac) = expected(cell, before);
    let found = neighbors.iter(now).find(|found| found.address == PEER);
    assert_eq!(found.map(|found| found.state), state, "{why} in {before}");
    if let Some(found) = found.filter(|found| found.state != State::Incomplete) {
        assert_eq!(found.mac, Some(mac), "{why} in {before}");
    }
    neighbors.table.check();
}

//= rfc4861#7.2.5-2 rfc4861#7.2.5-3 rfc4861#7.2.5-4 rfc4861#7.2.5-5 rfc4861#7.2.5-6 (test)
//= rfc4861#7.2.5-7 rfc4861#7.3.1-2 (test)
#[test]
fn advertisements_do_what_rfc_4861_s7_2_5_says() {
    for (flags, mac, cells) in ADVERTISEMENTS {
        for (cell, before) in cells.into_iter().zip(State::ALL.iter().copied()) {
            let mut neighbors = in_state(before);
            let result = neighbors.handle_advertisement(&advertisement(PEER, flags), mac, at(0));
            let ignored = if cell == "." { Err(Drop::AdvertisementValue) } else { Ok(()) };
            let why = std::format!("NA {flags} {mac:?}");
            assert_eq!(result, ignored, "{why} in {before}");
            check(&neighbors, cell, before, at(0), &why);
        }
    }
}

//= rfc4861#7.2-1 rfc4861#7.2.3-2 rfc4861#7.2.3-4 rfc4861#7.3.3-4 (test)
#[test]
fn other_events_do_what_rfc_4861_appendix_c_says() {
    for (event, cells) in EVENTS {
        for (cell, before) in cells.into_iter().zip(State::ALL.iter().copied()) {
            let mut neighbors = in_state(before);
            let mut now = at(0);
            match event {
                "send" => neighbors.send(PEER, packet(1), now).expect("room"),
                "NS" => neighbors.handle_solicitation(PEER, MAC, now).expect("taken"),
                "NS!" => neighbors.handle_solicitation(PEER, OTHER_MAC, now).expect("taken"),
                "RA without address" => neighbors.handle_router(PEER, None, now).expect("taken"),
                "progress" => neighbors.confirm(PEER, now),
                _ => {
                    now = at(60);
                    run(&mut neighbors, now);
                }
            }
            check(&neighbors, cell, before, now, event);
        }
    }
}

//= rfc4861#6.3.4-11 rfc4861#6.3.4-15 rfc4861#7.3.1-2 rfc4861#8.3-4 (test)
#[test]
fn routers_and_redirects_teach_link_layer_addresses_as_solicitations_do() {
    type Learn = fn(&mut Neighbors, Mac) -> Result<(), Drop>;
    let learn: [Learn; 3] = [
        |neighbors, mac| neighbors.handle_router(PEER, Some(mac), at(0)),
        |neighbors, mac| neighbors.handle_redirect(PEER, Some(mac), true, at(0)),
        |neighbors, mac| neighbors.handle_redirect(PEER, Some(mac), false, at(0)),
    ];
    for learn in learn {
        for (mac, row) in [(MAC, EVENTS[1].1), (OTHER_MAC, EVENTS[2].1)] {
            for (cell, before) in row.into_iter().zip(State::ALL.iter().copied()) {
                let mut neighbors = in_state(before);
                learn(&mut neighbors, mac).expect("taken");
                check(&neighbors, cell, before, at(0), "RA or Redirect");
            }
        }
    }
}

//= rfc4861#6.3.4-12 rfc4861#6.3.4-14 rfc4861#7.2-1 rfc4861#7.2.3-3 rfc4861#7.2.3-5 (test)
//= rfc4861#8.3-3 rfc4861#8.3-6 (test)
#[test]
fn without_an_entry_only_a_message_with_a_link_layer_address_makes_one() {
    let made = |act: fn(&mut Neighbors) -> Result<(), Drop>| {
        let mut neighbors = neighbors();
        act(&mut neighbors).expect("taken");
        neighbors.iter(at(0)).next().map(|found| (found.state, found.is_router))
    };
    let stale = |is_router| Some((State::Stale, is_router));
    assert_eq!(made(|all| all.handle_solicitation(PEER, MAC, at(0))), stale(false));
    assert_eq!(made(|all| all.handle_router(PEER, Some(MAC), at(0))), stale(true));
    assert_eq!(made(|all| all.handle_router(PEER, None, at(0))), None);
    // RFC 4861 s8.3: a target that is not the destination is a router.
    assert_eq!(made(|all| all.handle_redirect(PEER, Some(MAC), true, at(0))), stale(true));
    assert_eq!(made(|all| all.handle_redirect(PEER, Some(MAC), false, at(0))), stale(false));
    assert_eq!(made(|all| all.handle_redirect(PEER, None, true, at(0))), None);
}

//= rfc4861#6.3.4-13 rfc4861#7.2.5-8 rfc4861#7.2.5-9 rfc4861#7.3.3-5 rfc4861#7.3.3-6 (test)
#[test]
fn a_router_that_says_it_is_a_host_is_lost() {
    // RFC 4861 s7.2.5, s7.3.3, appendix D.
    for before in State::ALL {
        let mut neighbors = in_state(*before);
        neighbors.handle_router(PEER, None, at(0)).expect("taken");
        let is_router = |all: &Neighbors| all.iter(at(0)).next().map(|found| found.is_router);
        neighbors.handle_redirect(PEER, None, false, at(0)).expect("taken");
        assert_eq!(
            is_router(&neighbors),
            Some(true),
            "a redirect to a destination leaves the flag"
        );
        let router = advertisement(PEER, "R");
        neighbors.handle_advertisement(&router, Some(MAC), at(0)).expect("taken");
        outputs(&mut neighbors);
        let host = advertisement(PEER, "");
        neighbors.handle_advertisement(&host, Some(MAC), at(0)).expect("taken");
        assert_eq!(outputs(&mut neighbors), [Output::RouterLost(PEER)], "{before}");
        neighbors.handle_advertisement(&host, Some(MAC), at(0)).expect("taken");
        assert_eq!(outputs(&mut neighbors), [], "it is lost once");
        assert_eq!(is_router(&neighbors), Some(false));
    }
}

#[test]
fn an_advertisement_that_is_ignored_leaves_the_router_flag() {
    // RFC 4861 s7.2.5 I: the entry is not updated "in any other way".
    for before in [State::Reachable, State::Stale, State::Probe] {
        let mut neighbors = in_state(before);
        neighbors.handle_router(PEER, None, at(0)).expect("taken");
        let result =
            neighbors.handle_advertisement(&advertisement(PEER, "S"), Some(OTHER_MAC), at(0));
        assert_eq!(result.is_ok(), before == State::Reachable);
        assert_eq!(outputs(&mut neighbors), []);
    }
}

//= rfc4861#7.2.3-6 (test)
#[test]
fn a_solicitation_leaves_the_router_flag() {
    let mut neighbors = in_state(State::Stale);
    for is_router in [false, true] {
        if is_router {
            neighbors.handle_router(PEER, None, at(0)).expect("taken");
        }
        neighbors.handle_solicitation(PEER, OTHER_MAC, at(0)).expect("taken");
        let found = neighbors.iter(at(0)).next().expect("an entry");
        assert_eq!(found.is_router, is_router);
    }
}
