//! Moves of our host in sessions with correspondents without the handshake.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use moorline_types::{L64, LocalRoutes, Locator, Prefix, SessionId};

use super::{Plain, message};
use crate::tests::duo::Duo;
use crate::tests::ilv;
use crate::{Event, LocalLocator, LocalState, State};

const NEW: L64 = L64(0x2001_0db8_0005_0000);

/// Sets the locators of the first host and their preferences.
fn place(duo: &mut Duo, locators: &[(L64, u16)]) {
    let locators = locators
        .iter()
        .map(|&(l64, preference)| LocalLocator { preference, ..LocalLocator::new(l64) });
    duo.place(0, locators.collect());
}

/// Source locators of the Locator Updates among these packets.
fn sources(packets: &[Vec<u8>]) -> Vec<u64> {
    let updates = packets.iter().filter(|packet| message(packet)[0] == 156);
    updates.map(|packet| u64::from_be_bytes(packet[8..16].try_into().unwrap())).collect()
}

/// The locator that a Locator Update prefers to all others.
fn preferred(packet: &[u8]) -> u64 {
    let octets = |octets: &[u8]| octets.try_into().expect("as long");
    let entries = message(packet)[8..].chunks(12);
    let entries =
        entries.map(|entry| (entry[8..10].to_vec(), u64::from_be_bytes(octets(&entry[..8]))));
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    assert!(entries[0].0 < entries[1].0, "{entries:?}");
    entries[0].1
}

/// The node chooses among locators of one preference as it likes, and knows of no failure of ours.
#[test]
fn a_node_without_the_handshake_is_told_to_prefer_the_locator_in_use_to_its_equals() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    let old = ilv(0).l64;
    place(&mut duo, &[(NEW, 100), (old, 100)]);
    let told = duo.take(0);
    assert_eq!((preferred(&told[0]), duo.session(0).wire.local.l64), (old.0, old));
    duo.give(0, &[peer.answer(&told[0]).expect("an acknowledgement")]);
    assert_eq!(duo.session(0).wire.local.l64, old);
    // The machine follows the preferences of its configuration first.
    place(&mut duo, &[(NEW, 99), (old, 100)]);
    assert_eq!(preferred(&duo.take(0)[0]), NEW.0);
}

/// Nobody acknowledges the first Locator Updates, which prefer the locator that the session leaves.
#[test]
fn a_session_that_goes_back_has_the_node_prefer_the_locator_of_the_sockets() {
    let mut duo = Duo::new();
    let _silent = Plain::in_session(&mut duo);
    let old = ilv(0).l64;
    place(&mut duo, &[(NEW, 100)]);
    place(&mut duo, &[(NEW, 100), (old, 100)]);
    assert_eq!(preferred(&duo.take(0)[1]), NEW.0);
    while duo.entry(0).wire.0 != old {
        duo.take(0);
        duo.fire(0);
    }
    assert_eq!(preferred(&duo.take(0)[0]), old.0);
}

/// The session sends by another link now, and the routes are all that has changed.
#[test]
fn a_session_that_follows_routes_has_the_node_prefer_its_locator() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    let old = ilv(0).l64;
    place(&mut duo, &[(NEW, 100), (old, 100)]);
    let told = duo.take(0);
    duo.give(0, &[peer.answer(&told[0]).expect("an acknowledgement")]);
    duo.take(0);
    let locators = [NEW, old].map(|l64| LocalLocator { preference: 100, ..LocalLocator::new(l64) });
    let to_node = Prefix::new(ilv(1).address(), 64);
    let routes = LocalRoutes([(to_node, [Locator(ilv(0).at(NEW).address())].into())].into());
    duo.set_local(0, &LocalState { nids: [ilv(0).nid].into(), locators: locators.into(), routes });
    assert_eq!(duo.session(0).wire.local.l64, NEW);
    assert_eq!(preferred(&duo.take(0)[0]), NEW.0);
}

#[test]
fn a_soft_hand_off_tells_from_the_old_locator_and_moves_on_the_acknowledgement() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    let old = ilv(0).l64;
    place(&mut duo, &[(old, 1100), (NEW, 100)]);
    let told = duo.take(0);
    assert_eq!(sources(&told), [old.0]);
    assert_eq!(told[0][41], 0, "8 octets of options: a nonce and no number of ours");
    assert_eq!(duo.session(0).wire.local.l64, old);
    duo.now = duo.now + Duration::from_millis(100);
    duo.give(0, &[peer.answer(&told[0]).expect("an acknowledgement")]);
    assert_eq!((duo.session(0).wire.local.l64, duo.entry(0).wire.0), (NEW, NEW));
    assert!(duo.entry(0).attach, "RFC 6744 s4");
}

/// A correspondent without the handshake gets no Locator Update when the session begins.
#[test]
fn a_soft_hand_off_to_a_locator_of_before_the_session_tells_from_the_old_one_as_well() {
    let mut duo = Duo::new();
    let old = ilv(0).l64;
    place(&mut duo, &[(old, 100), (NEW, 1100)]);
    let peer = Plain::in_session(&mut duo);
    place(&mut duo, &[(old, 1100), (NEW, 100)]);
    let told = duo.take(0);
    assert_eq!((sources(&told), duo.session(0).wire.local.l64), (vec![old.0], old));
    duo.give(0, &[peer.answer(&told[0]).expect("an acknowledgement")]);
    assert_eq!(duo.session(0).wire.local.l64, NEW);
    // The correspondent knows both locators by now.
    place(&mut duo, &[(old, 100), (NEW, 1100)]);
    assert_eq!(duo.session(0).wire.local.l64, old);
}

#[test]
fn a_soft_hand_off_that_nobody_acknowledges_does_not_move_while_the_old_locator_is_there() {
    let mut duo = Duo::new();
    let _silent = Plain::in_session(&mut duo);
    let old = ilv(0).l64;
    place(&mut duo, &[(old, 1100), (NEW, 100)]);
    let mut told = sources(&duo.take(0));
    let end = duo.now + Duration::from_secs(60);
    while duo.machines[0].poll_timeout().is_some_and(|next| next <= end) {
        duo.fire(0);
        told.extend(sources(&duo.take(0)));
    }
    assert_eq!(told[..4], [old.0, NEW.0, old.0, NEW.0], "by turns: the old path may be dead");
    assert!(duo.has_event(0, |event| matches!(event, Event::UpdateUnanswered { .. })));
    assert!(!duo.has_event(0, |event| matches!(event, Event::Moved { .. })));
    // The host has no other locator left.
    place(&mut duo, &[(NEW, 100)]);
    assert_eq!((duo.session(0).state, duo.entry(0).wire.0), (State::Established, NEW));
}

#[test]
fn a_session_goes_back_if_nobody_acknowledges_the_new_locator_and_the_old_one_returns() {
    for is_back in [false, true] {
        let mut duo = Duo::new();
        let _silent = Plain::in_session(&mut duo);
        let old = ilv(0).l64;
        place(&mut duo, &[(NEW, 100)]);
        assert_eq!(duo.entry(0).wire.0, NEW);
        let places = [(NEW, 100), (old, 100)];
        place(&mut duo, if is_back { &places } else { &places[..1] });
        duo.alone(0, Duration::from_secs(5));
        assert_eq!(duo.entry(0).wire.0, if is_back { old } else { NEW });
        let moved = |event: &Event| matches!(event, Event::Moved { session: SessionId(0), wire, .. } if wire.local.l64 == old);
        assert_eq!(duo.has_event(0, moved), is_back);
        assert!(duo.entry(0).attach);
    }
}
