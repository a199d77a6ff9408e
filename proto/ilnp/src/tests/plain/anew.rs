//! A correspondent without the handshake begins anew while its session is at other locators than the session began
//! with. The node sends nothing by itself. It takes our packets for classic IPv6 with a wrong checksum, and Locator
//! Updates for forgeries, until it has read our nonce in an Echo Request.

use core::time::Duration;
use std::vec::Vec;

use moorline_datapath::ilnp::Report;
use moorline_types::{IlvPair, L64, Nonce};

use super::second::{both, name, sessions};
use super::{Plain, is_echo};
use crate::consts::SILENT_TRIES;
use crate::tests::duo::Duo;
use crate::tests::ilv;
use crate::{Event, Socket};

const NEW: L64 = L64(0x2001_0db8_00aa_0000);
const THERE: L64 = L64(0x2001_0db8_00bb_0000);

/// Runs the first host for some seconds beside a node that has begun anew. All sessions are in use.
fn beside_a_new_node(duo: &mut Duo) -> Nonce {
    let mut node = Plain { nonce: [0xb2, 3, 4, 5], acknowledges: false, ..Plain::new() };
    duo.now = duo.now + Duration::from_secs(5);
    for session in sessions(duo) {
        duo.report(0, Report::Used { session: session.id, at: duo.now });
    }
    let end = duo.now + Duration::from_secs(8);
    loop {
        for packet in duo.take(0) {
            node.acknowledges |= is_echo(&packet);
            let answer: Vec<_> = node.answer(&packet).into_iter().collect();
            duo.give(0, &answer);
        }
        if duo.machines[0].poll_timeout().is_none_or(|next| next > end) {
            break;
        }
        duo.fire(0);
    }
    Nonce::Short(node.nonce)
}

/// The locators and the correspondent's nonce of each session.
fn uses(duo: &Duo) -> Vec<((L64, L64), Option<Nonce>)> {
    let sessions = sessions(duo).into_iter();
    sessions.map(|one| ((one.wire.local.l64, one.wire.remote.l64), one.nonces.1)).collect()
}

#[test]
fn a_node_is_found_again_when_our_locator_has_changed() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    duo.roam(0, &[NEW.0]);
    peer.play(&mut duo);
    let nonce = beside_a_new_node(&mut duo);
    assert_eq!(uses(&duo), [((NEW, ilv(1).l64), Some(nonce))]);
    let session = duo.session(0);
    assert_eq!(session.pair, IlvPair::new(ilv(0), ilv(1)), "the sockets see what they saw");
    assert!(!session.awaits_acknowledgement, "the new node knows our locators");
}

#[test]
fn a_node_is_found_again_that_has_not_read_of_our_new_locator() {
    for locators in [&[NEW.0][..], &[NEW.0, ilv(0).l64.0]] {
        let mut duo = Duo::new();
        let _peer = Plain::in_session(&mut duo);
        duo.roam(0, locators);
        let nonce = beside_a_new_node(&mut duo);
        assert_eq!(uses(&duo)[0].1, Some(nonce), "{locators:?}");
    }
}

#[test]
fn a_node_is_found_again_at_the_locator_that_it_has_moved_to() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[THERE]);
    let nonce = beside_a_new_node(&mut duo);
    assert_eq!(uses(&duo), [((ilv(0).l64, THERE), Some(nonce))]);
    assert_eq!(duo.entry(0).remote[..], [THERE, ilv(1).l64], "its sockets send from there");
    let Nonce::Short(nonce) = nonce else { panic!("a node without the handshake has four octets") };
    name(&mut duo, &Plain { nonce, ..Plain::new() }, &[THERE]);
    assert_eq!(duo.entry(0).remote[..], [THERE]);
}

#[test]
fn all_sessions_that_share_the_nonces_and_locators_begin_anew_together() {
    let mut duo = Duo::new();
    let peer = both(&mut duo);
    name(&mut duo, &peer, &[THERE]);
    let nonce = beside_a_new_node(&mut duo);
    assert_eq!(uses(&duo), [((ilv(0).l64, THERE), Some(nonce)); 2]);
}

/// Another node with the same identifier has the address that the session began with. The correspondent is silent for
/// a while.
#[test]
fn a_session_that_has_moved_is_asked_about_by_the_locators_in_use_alone() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[THERE]);
    duo.now = duo.now + Duration::from_secs(5);
    let session = duo.entry(0).id;
    duo.report(0, Report::Used { session, at: duo.now });
    for _ in 0..SILENT_TRIES + 2 {
        duo.fire(0);
    }
    let asked: Vec<_> = duo.take(0).into_iter().filter(|packet| is_echo(packet)).collect();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|packet| packet[24..32] == THERE.octets()));
    duo.give(0, &[peer.answer(&asked[0]).expect("an answer")]);
    assert_eq!(uses(&duo), [((ilv(0).l64, THERE), Some(Nonce::Short(peer.nonce)))]);
    assert!(!duo.has_event(0, |event| matches!(event, Event::Forgotten { .. })));
}

/// The first locator of the host is there again. The node that has begun anew knows no other.
#[test]
fn a_wrong_nonce_from_the_locator_in_use_has_the_node_asked_at_once() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    duo.roam(0, &[NEW.0]);
    peer.play(&mut duo);
    duo.roam(0, &[NEW.0, ilv(0).l64.0]);
    peer.play(&mut duo);
    duo.now = duo.now + Duration::from_secs(1);
    let node = Plain { nonce: [0xb2, 3, 4, 5], ..Plain::new() };
    node.report(&mut duo, Socket::Connected);
    node.play(&mut duo);
    assert_eq!(uses(&duo), [((NEW, ilv(1).l64), Some(Nonce::Short(node.nonce)))]);
}

/// A node at the address that the correspondent has left shows another nonce.
#[test]
fn who_has_the_address_that_the_correspondent_has_left_is_not_asked() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    name(&mut duo, &peer, &[THERE]);
    let guest = Plain { nonce: [9; 4], ..Plain::new() };
    duo.now = duo.now + Duration::from_secs(2);
    guest.report(&mut duo, Socket::Connected);
    assert!(!duo.take(0).iter().any(|packet| is_echo(packet)));
    assert_eq!(uses(&duo), [((ilv(0).l64, THERE), Some(Nonce::Short(peer.nonce)))]);
}
