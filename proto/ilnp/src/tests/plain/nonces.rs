//! The nonces of a session with a correspondent without the handshake.

use core::time::Duration;
use std::vec::Vec;

use moorline_datapath::ilnp::{Report, USED_INTERVAL};
use moorline_types::Nonce;

use super::{Plain, is_echo, packet, summed, with_nonce};
use crate::tests::duo::Duo;
use crate::{Classic, Event, Socket, State, Why};

fn short(nonce: [u8; 4]) -> Option<Nonce> {
    Some(Nonce::Short(nonce))
}

/// The error with which a node without ILNP answers the nonce (RFC 4443 s3.4).
pub(super) fn unrecognized(about: &[u8]) -> Vec<u8> {
    let message = [&[4, 2, 0, 0, 0, 0, 0, 42][..], about].concat();
    let message = summed(&about[24..40], &about[8..24], &message);
    packet(&about[24..40], &about[8..24], 58, &message)
}

//= rfc6744#6-2 rfc6744#6-10 (test)
#[test]
fn a_correspondent_without_the_handshake_has_a_session_when_it_has_answered_our_nonce() {
    let mut duo = Duo::new();
    let peer = Plain::new();
    peer.sends_nonce(&mut duo);
    assert!(duo.updates[0].is_empty(), "until then its traffic is classic IPv6");
    let echo = duo.take(0);
    let [ref only] = echo[..] else { panic!("one question: {echo:?}") };
    assert!(is_echo(only) && only.len() == 64);
    let answer = peer.answer(only).expect("an answer");
    duo.give(0, &[answer]);
    let (session, entry) = (duo.session(0), duo.entry(0));
    assert_eq!((session.state, session.why), (State::Established, Why::ConnectedHere));
    assert!(entry.settled && entry.attach && !entry.maps_tcp);
    assert_eq!(entry.receive_nonce, short(peer.nonce));
    assert_eq!(entry.send_nonce.octets(), &only[44..48]);
}

/// A node that cannot read our packets sends a nonce in the name of another node, any number of times.
#[test]
fn a_forged_nonce_changes_nothing_for_the_traffic() {
    let forged = Plain { nonce: [9; 4], ..Plain::new() };
    type Answer = fn(&[u8]) -> Vec<Vec<u8>>;
    let answers: [(Answer, Option<Classic>); 4] = [
        (|_| Vec::new(), Some(Classic::Unread)),
        (|echo| [unrecognized(echo)].into(), Some(Classic::NoSupport)),
        // A guess of the data, and an answer without a nonce.
        (
            |echo| {
                let mut message = echo[48..].to_vec();
                (message[0], message[15]) = (129, message[15] ^ 1);
                [with_nonce(&echo[24..40], &echo[8..24], [9; 4], &message)].into()
            },
            Some(Classic::Unread),
        ),
        (
            |echo| {
                let mut message = echo[48..].to_vec();
                message[0] = 129;
                let message = summed(&echo[24..40], &echo[8..24], &message);
                [packet(&echo[24..40], &echo[8..24], 58, &message)].into()
            },
            Some(Classic::Unread),
        ),
    ];
    for (at, (answer, cause)) in answers.into_iter().enumerate() {
        let mut duo = Duo::new();
        forged.sends_nonce(&mut duo);
        for _ in 0..10 {
            for packet in duo.take(0).iter().filter(|packet| is_echo(packet)) {
                duo.give(0, &answer(packet));
            }
            forged.report(&mut duo, Socket::Connected);
            if duo.machines[0].poll_timeout().is_some() {
                duo.fire(0);
            }
        }
        assert!(duo.updates[0].is_empty(), "answer {at}");
        let is_it =
            |event: &Event| matches!(event, Event::Classic { cause: is, .. } if Some(*is) == cause);
        assert!(duo.has_event(0, is_it), "answer {at}");
    }
}

/// The correspondent has restarted: it knows no session, and its next packets have another nonce.
#[test]
fn a_correspondent_with_a_new_nonce_has_its_session_back_after_a_round_trip() {
    // A server here has no connected socket for the new connection yet.
    for socket in [Socket::Connected, Socket::Unconnected] {
        let mut duo = Duo::new();
        let old = Plain::in_session(&mut duo);
        let send_nonce = duo.entry(0).send_nonce;
        let new = Plain { nonce: [0xb2, 3, 4, 5], ..Plain::new() };
        duo.now = duo.now + Duration::from_secs(1);
        new.report(&mut duo, socket);
        assert_eq!(duo.entry(0).receive_nonce, short(old.nonce), "not on the word of anybody");
        new.play(&mut duo);
        let entry = duo.entry(0);
        assert_eq!((entry.receive_nonce, entry.send_nonce), (short(new.nonce), send_nonce));
        assert!(entry.attach && entry.settled);
        assert_eq!(duo.machines[0].session_count(), 1);
    }
}

#[test]
fn a_forged_nonce_for_a_session_costs_one_question_and_changes_nothing() {
    let mut duo = Duo::new();
    let peer = Plain::in_session(&mut duo);
    let forged = Plain { nonce: [9; 4], ..Plain::new() };
    let told = duo.updates[0].len();
    duo.now = duo.now + Duration::from_secs(1);
    for _ in 0..10 {
        forged.report(&mut duo, Socket::Connected);
    }
    let asked = duo.take(0);
    assert_eq!(asked.len(), 1);
    duo.give(0, &[peer.answer(&asked[0]).expect("an answer")]);
    forged.report(&mut duo, Socket::Connected);
    assert!(duo.take(0).is_empty(), "it has just shown that it knows the session");
    assert_eq!((duo.updates[0].len(), duo.entry(0).receive_nonce), (told, short(peer.nonce)));
}

/// The node answers requests and sends nothing by itself. After a restart it takes requests for classic IPv6 with a
/// wrong checksum, and Locator Updates for forgeries.
#[test]
fn a_node_that_begins_anew_and_is_silent_is_taken_back_after_a_report_of_use() {
    let mut duo = Duo::new();
    let peer = Plain { nonce: [7; 4], acknowledges: false, ..Plain::in_session(&mut duo) };
    for used in [duo.now, duo.now + USED_INTERVAL] {
        duo.now = used;
        let session = duo.entry(0).id;
        duo.report(0, Report::Used { session, at: used });
        let end = used + Duration::from_secs(5);
        while duo.machines[0].poll_timeout().is_some_and(|next| next <= end) {
            peer.play(&mut duo);
            duo.fire(0);
        }
        peer.play(&mut duo);
    }
    assert_eq!(duo.machines[0].session_count(), 1);
    assert_eq!(duo.entry(0).receive_nonce, Some(Nonce::Short(peer.nonce)));
}
