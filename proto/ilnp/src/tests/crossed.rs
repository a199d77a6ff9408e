//! Proposals of both ends that cross, and proposals that are withdrawn.

use core::time::Duration;
use std::vec::Vec;

use moorline_datapath::ilnp::Report;
use moorline_types::{DropReason, IlvPair, Nonce};

use super::duo::Duo;
use super::{Socket, ilv};
use crate::{Event, Machine};

/// The host whose proposal goes on.
const HIGHER: usize = 1;
const LOWER: usize = 0;

fn proposed(hosts: &[usize]) -> Duo {
    assert!(ilv(HIGHER) > ilv(LOWER));
    let mut duo = Duo::new();
    hosts.iter().for_each(|host| duo.traffic_of(*host, Socket::Connected));
    duo
}

/// The host that prevails has sent its Confirm, which has not arrived yet.
fn accepted() -> Duo {
    let mut duo = proposed(&[HIGHER]);
    let propose = duo.take(HIGHER);
    duo.give(LOWER, &propose);
    let accept = duo.take(LOWER);
    duo.give(HIGHER, &accept);
    duo
}

#[test]
fn two_that_cross_make_one_session() {
    for [first, second] in [[HIGHER, LOWER], [LOWER, HIGHER]] {
        let mut duo = proposed(&[first, second]);
        duo.play();
        assert!(duo.is_agreed());
        // A Propose of each host, Accept, Confirm, Locator Update, acknowledgement: only the one Propose is in vain.
        assert_eq!(duo.transcript.len(), 6);
    }
}

/// The daemon starts while the correspondent has been proposing for a while.
#[test]
fn who_was_not_there_for_a_proposal_is_answered_at_once() {
    let mut duo = proposed(&[HIGHER]);
    duo.take(HIGHER);
    duo.fire(HIGHER);
    duo.take(HIGHER);
    duo.traffic_of(LOWER, Socket::Connected);
    duo.play();
    assert!(duo.is_agreed());
}

/// The host that prevails confirms, and the correspondent restarts: it cannot read that Confirm any more, and
/// proposes.
#[test]
fn a_proposal_while_a_confirm_is_repeated_begins_the_handshake_anew() {
    let mut duo = accepted();
    duo.take(HIGHER);
    duo.machines[LOWER] = Duo::seeded(7).machines.swap_remove(LOWER);
    duo.traffic_of(LOWER, Socket::Connected);
    duo.play();
    assert_eq!(duo.machines[LOWER].session_count(), 0, "the Confirm may be on its way still");
    duo.fire(HIGHER);
    duo.fire(LOWER);
    duo.play();
    assert!(duo.is_agreed());
}

/// The Propose was sent before the repeated Confirm arrived.
#[test]
fn a_proposal_that_crosses_a_repeated_confirm_ends_no_session() {
    let mut duo = accepted();
    duo.take(HIGHER);
    duo.traffic_of(LOWER, Socket::Connected);
    duo.fire(HIGHER);
    duo.play();
    assert!(duo.is_agreed());
    assert!(!duo.has_event(LOWER, |event| matches!(event, Event::Forgotten { .. })));
}

/// The correspondent would take the old Confirm. It would then refuse the new one, because it has a session already.
#[test]
fn a_confirm_is_not_repeated_while_the_handshake_begins_anew() {
    let mut duo = accepted();
    duo.fire(HIGHER);
    duo.take(HIGHER);
    duo.traffic_of(LOWER, Socket::Connected);
    let propose = duo.take(LOWER);
    duo.give(HIGHER, &propose);
    let propose = duo.take(HIGHER);
    duo.give(LOWER, &propose);
    let accept = duo.take(LOWER);
    duo.fire(HIGHER);
    duo.fire(HIGHER);
    let repeated = duo.take(HIGHER);
    duo.give(LOWER, &repeated);
    duo.take(LOWER);
    duo.give(HIGHER, &accept);
    duo.play();
    assert!(duo.is_agreed());
    assert!(!duo.has_event(LOWER, |event| matches!(event, Event::Forgotten { .. })));
}

/// The new Propose overtakes the repeated Confirm in the network, so the Accept was made before the session of that Confirm.
#[test]
fn a_proposal_that_overtakes_a_repeated_confirm_takes_the_place_of_its_session() {
    let mut duo = accepted();
    duo.take(HIGHER);
    duo.traffic_of(LOWER, Socket::Connected);
    let crossing = duo.take(LOWER);
    duo.fire(HIGHER);
    let repeated = duo.take(HIGHER);
    duo.give(HIGHER, &crossing);
    let anew = duo.take(HIGHER);
    duo.give(LOWER, &anew);
    duo.give(LOWER, &repeated);
    duo.play();
    assert!(duo.is_agreed());
}

/// The Accept was made while the responder had a session, which ended before the Confirm came.
#[test]
fn a_confirm_makes_a_session_though_the_one_at_its_accept_has_ended() {
    let mut duo = Duo::established();
    duo.machines[LOWER] = Duo::seeded(7).machines.swap_remove(LOWER);
    duo.traffic_of(LOWER, Socket::Connected);
    let propose = duo.take(LOWER);
    duo.give(HIGHER, &propose);
    let accept = duo.take(HIGHER);
    duo.give(LOWER, &accept);
    let confirm = duo.take(LOWER);
    duo.end(HIGHER);
    duo.take(HIGHER);
    duo.give(HIGHER, &confirm);
    duo.play();
    assert!(duo.is_agreed());
}

#[test]
fn what_is_withdrawn_is_agreed_on_no_more() {
    let mut duo = proposed(&[LOWER]);
    duo.withdraw(LOWER);
    duo.play();
    assert_eq!(duo.machines.iter().map(Machine::session_count).sum::<usize>(), 0);
    let (mut duo, confirm) = Duo::at_confirm();
    duo.withdraw(LOWER);
    assert_eq!(duo.machines[LOWER].session_count(), 0);
    // The other host learns it from the answer to its second Locator Update.
    duo.give(HIGHER, &[confirm]);
    duo.play();
    duo.fire(HIGHER);
    duo.play();
    assert_eq!(duo.machines[HIGHER].session_count(), 0);
    let mut duo = Duo::established();
    duo.withdraw(LOWER);
    assert!(duo.is_agreed());
}

/// The network keeps a Confirm of a handshake that another one has overtaken, and gives it once the session is there.
#[test]
fn a_confirm_of_an_earlier_handshake_takes_the_place_of_no_session() {
    for crosses in [true, false] {
        let (mut duo, old) = Duo::at_confirm();
        if crosses {
            duo.withdraw(LOWER);
            duo.traffic_of(HIGHER, Socket::Connected);
        } else {
            duo.give(HIGHER, core::slice::from_ref(&old));
            duo.play();
            assert!(duo.is_agreed());
            duo.end(LOWER);
            duo.play();
            duo.now = duo.now + Duration::from_secs(1);
            duo.traffic_of(LOWER, Socket::Connected);
        }
        duo.play();
        assert!(duo.is_agreed());
        let session = duo.session(HIGHER);
        duo.give(HIGHER, &[old]);
        assert_eq!(duo.session(HIGHER), session);
        let drops: Vec<_> = duo.machines[HIGHER].drops().collect();
        assert!(drops.contains(&(DropReason::StaleNonce, 1)), "{crosses} {drops:?}");
    }
}

/// A packet with a nonce has led to a proposal, which got lost and which no timer repeats.
#[test]
fn a_proposal_that_prevails_and_was_due_again_is_repeated_for_the_next_propose_of_the_correspondent()
 {
    let mut duo = Duo::new();
    let report = Report::Candidate {
        pair: IlvPair::new(ilv(HIGHER), ilv(LOWER)),
        protocol: 6,
        ports: (7, 40_000),
        socket: Socket::Connected,
        inbound: true,
        nonce: Some(Nonce::Short([7; 4])),
    };
    duo.report(HIGHER, report);
    assert_eq!(duo.take(HIGHER).len(), 1);
    duo.fire(HIGHER);
    assert_eq!(duo.take(HIGHER).len(), 0);
    duo.traffic(Socket::Connected);
    duo.play();
    assert!(duo.is_agreed());
}
