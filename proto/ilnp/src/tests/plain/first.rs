//! A correspondent that is silent at its locators in use, and a node at the address that the sockets see: the
//! correspondent after a restart, with another nonce or without ILNP, or somebody else.

use core::time::Duration;
use std::vec::Vec;

use moorline_datapath::ilnp::Report;
use moorline_types::{IlvPair, L64, Nonce};

use super::second::name;
use super::{Plain, is_echo, message, octets, packet, summed, with_nonce};
use crate::tests::duo::Duo;
use crate::tests::ilv;
use crate::{Cause, Event, LocalLocator, Socket};

const THERE: L64 = L64(0x2001_0db8_00bb_0000);
/// Time in which the traffic of a correspondent that is back goes on: the question by the locators in use, and the Echo
/// Requests after it.
const SECONDS: u64 = 12;

/// Answers an Echo Request as each host does, with its own nonce only if it is a node of the RFCs.
pub(super) fn echo(asked: &[u8], nonce: Option<[u8; 4]>) -> Option<Vec<u8>> {
    let mut answer = is_echo(asked).then(|| message(asked).to_vec())?;
    answer[0] = 129;
    let (source, destination) = (&asked[24..40], &asked[8..24]);
    Some(match nonce {
        Some(nonce) => with_nonce(source, destination, nonce, &answer),
        None => packet(source, destination, 58, &summed(source, destination, &answer)),
    })
}

fn has_nonce(packet: &[u8]) -> bool {
    packet[6] == 60
}

/// Whether a packet goes to the address that the sockets see.
fn is_to_first(packet: &[u8]) -> bool {
    packet[24..40] == octets(ilv(1).address())
}

/// Runs the first host for so many seconds, in use or beside a node that shows another nonce, and gives it the answers.
/// Returns the packets of the host.
fn run(
    duo: &mut Duo,
    seconds: u64,
    shows: Option<&Plain>,
    answer: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        match shows {
            Some(node) => node.report(duo, Socket::Connected),
            None if duo.machines[0].session_count() > 0 => {
                let session = duo.session(0).id;
                duo.report(0, Report::Used { session, at: duo.now });
            }
            None => {}
        }
        let end = duo.now + Duration::from_secs(1);
        loop {
            let sent = duo.take(0);
            let answers: Vec<_> = sent.iter().filter_map(|packet| answer(packet)).collect();
            duo.give(0, &answers);
            all.extend(sent);
            let next = duo.machines[0].poll_timeout().filter(|next| *next <= end);
            if answers.is_empty() && next.is_none() {
                break;
            }
            if answers.is_empty() {
                duo.fire(0);
            }
        }
        duo.now = end;
    }
    all
}

/// A session with a peer that has moved, and some time without a sign.
fn moved(duo: &mut Duo) -> Plain {
    naming(duo, &[THERE])
}

fn naming(duo: &mut Duo, locators: &[L64]) -> Plain {
    let peer = Plain::in_session(duo);
    name(duo, &peer, locators);
    duo.now = duo.now + Duration::from_secs(6);
    peer
}

/// The locator of the peer is dead, and the peer has restarted with its first locator alone.
#[test]
fn a_peer_that_begins_anew_at_its_first_locator_is_taken_back_when_its_new_one_is_dead() {
    let named: [&[L64]; 2] = [&[THERE], &[THERE, ilv(1).l64]];
    for (shows_nonce, named) in
        [true, false].into_iter().flat_map(|shows| named.map(|one| (shows, one)))
    {
        let mut duo = Duo::new();
        naming(&mut duo, named);
        let before = duo.entry(0).send_nonce;
        let node = Plain { nonce: [0xb2, 3, 4, 5], ..Plain::new() };
        let answer = |asked: &[u8]| {
            let nonce = has_nonce(asked).then_some(node.nonce);
            echo(asked, nonce).filter(|_| is_to_first(asked))
        };
        run(&mut duo, SECONDS, shows_nonce.then_some(&node), answer);
        let (session, entry) = (duo.session(0), duo.entry(0));
        assert_eq!(session.wire, IlvPair::new(ilv(0), ilv(1)), "{shows_nonce}");
        assert_eq!(entry.receive_nonce, Some(Nonce::Short(node.nonce)));
        let has_read = entry.send_nonce == before;
        assert_eq!(
            has_read,
            named.len() > 1,
            "somebody else may be at a locator that it does not name"
        );
    }
}

/// The node at the first address answers all. It never sees the nonce of the session.
#[test]
fn a_node_at_the_first_address_takes_nothing_from_a_peer_that_lives_elsewhere() {
    let mut duo = Duo::new();
    let peer = moved(&mut duo);
    let before = duo.entry(0);
    let guest = Plain { nonce: [9; 4], ..Plain::new() };
    let answer = |asked: &[u8]| match is_to_first(asked) {
        true => echo(asked, has_nonce(asked).then_some(guest.nonce)),
        false => peer.answer(asked),
    };
    let sent = run(&mut duo, 60, Some(&guest), answer);
    assert!(sent.len() > 4 && !sent.iter().any(|packet| is_to_first(packet)));
    assert_eq!(duo.entry(0).id, before.id);
    assert_eq!(duo.session(0).wire.remote.l64, THERE);
}

/// The peer is away for a while, and comes back while the node at its first address is asked.
#[test]
fn a_peer_that_shows_itself_meanwhile_keeps_its_session() {
    let mut duo = Duo::new();
    let peer = moved(&mut duo);
    let guest = Plain { nonce: [9; 4], ..Plain::new() };
    let asked = loop {
        let sent = run(&mut duo, 1, Some(&guest), |_| None);
        if let Some(asked) = sent.into_iter().find(|packet| is_to_first(packet)) {
            break asked;
        }
    };
    duo.report(0, Report::Authenticated { session: duo.entry(0).id });
    duo.give(0, &[echo(&asked, Some(guest.nonce)).expect("an Echo Request")]);
    assert_eq!(duo.entry(0).receive_nonce, Some(Nonce::Short(peer.nonce)));
    assert_eq!(duo.session(0).wire.remote.l64, THERE);
}

/// The error of a node that does not know our nonce never arrives. While the peer restarts, nobody answers.
#[test]
fn a_peer_without_ilnp_after_a_restart_has_classic_ipv6() {
    let times = [0, 10, 20, 60].into_iter().flat_map(|away| [(false, away), (true, away)]);
    for (moves, away) in times {
        let mut duo = Duo::new();
        match moves {
            true => moved(&mut duo),
            false => Plain::in_session(&mut duo),
        };
        duo.now = duo.now + Duration::from_secs(6);
        let answer = |asked: &[u8]| {
            let is_plain = !has_nonce(asked) && is_to_first(asked);
            echo(asked, None).filter(|_| is_plain)
        };
        run(&mut duo, away, None, |_| None);
        run(&mut duo, SECONDS + 4, None, answer);
        let is_denied =
            |event: &Event| matches!(event, Event::Forgotten { cause: Cause::Denied, .. });
        assert!(duo.has_event(0, is_denied), "{moves} {away}");
        assert_eq!(duo.machines[0].session_count(), 0, "{moves} {away}");
    }
}

/// Destination Options do not pass for a while. The peer has its session, and answers with its nonce (RFC 6744 s6).
#[test]
fn a_peer_whose_options_get_lost_keeps_its_session() {
    let mut duo = Duo::new();
    Plain::in_session(&mut duo);
    duo.now = duo.now + Duration::from_secs(6);
    let sent = run(&mut duo, 60, None, |_| None);
    assert!(sent.iter().any(|packet| !has_nonce(packet)), "a question without a nonce");
    assert_eq!(duo.machines[0].session_count(), 1);
}

/// A peer with the handshake answers an echo with its nonce as long as it has the session.
#[test]
fn a_peer_with_the_handshake_that_has_no_session_any_more_has_classic_ipv6_if_it_has_not_moved() {
    for moves in [false, true] {
        let mut duo = Duo::established();
        duo.place(
            0,
            [ilv(0).l64.0, 0x2001_0db8_00aa_0000].map(|l64| LocalLocator::new(L64(l64))).into(),
        );
        duo.play();
        if moves {
            duo.roam(1, &[THERE.0]);
            duo.play();
        }
        duo.now = duo.now + Duration::from_secs(60);
        let answer = |asked: &[u8]| echo(asked, None).filter(|_| !has_nonce(asked));
        run(&mut duo, 60, None, answer);
        assert_eq!(duo.machines[0].session_count(), usize::from(moves));
    }
}

//= rfc6743#6-4 (test)
#[test]
fn a_locator_update_with_a_wrong_nonce_draws_nothing_wherever_the_session_is() {
    let mut duo = Duo::new();
    moved(&mut duo);
    let entry = [&THERE.octets()[..], &[0, 10, 0, 100]].concat();
    let update = [&[156, 0, 0, 0, 1, 1, 0, 0][..], &entry].concat();
    for l64 in [THERE, ilv(1).l64] {
        let (from, to) = (octets(ilv(1).at(l64).address()), octets(ilv(0).address()));
        duo.give(0, &[with_nonce(&from, &to, [9; 4], &update)]);
        assert_eq!(duo.take(0), [[0; 0]; 0], "{l64}");
    }
    // A node that no session knows is told.
    let (from, to) =
        (octets(ilv(1).at(L64(0x2001_0db8_00cc_0000)).address()), octets(ilv(0).address()));
    let update = with_nonce(&from, &to, [9; 4], &update);
    duo.give(0, &[update.clone(), update]);
    assert_eq!(duo.take(0).len(), 1);
}
