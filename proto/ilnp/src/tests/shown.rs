//! Strangers that show a nonce: a host is asked as often as its packets pay for (decision 205).

use core::time::Duration;
use std::vec::Vec;

use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid};

use super::duo::Duo;
use super::ilv;
use super::plain::{Plain, is_echo};
use crate::{Classic, Socket};

/// Runs the timers of the first host for this time. Returns the packets that it sends. `peers` answer.
fn run(duo: &mut Duo, time: Duration, peers: &[Plain]) -> Vec<Vec<u8>> {
    let until = duo.now + time;
    let mut sent = Vec::new();
    loop {
        for packet in duo.take(0) {
            let asked = peers.iter().find(|peer| packet[24..40] == peer.at.address().octets());
            let answer = asked.and_then(|peer| peer.answer(&packet));
            answer.into_iter().for_each(|answer| duo.give(0, &[answer]));
            sent.push(packet);
        }
        if duo.machines[0].poll_timeout().is_none_or(|at| at > until) {
            duo.now = until;
            return sent;
        }
        duo.fire(0);
    }
}

/// A dozen nodes with the RFCs alone begin to talk to a server at once, each with four packets a second.
#[test]
fn a_dozen_peers_that_begin_at_once_have_their_sessions_within_four_seconds() {
    let mut duo = Duo::new();
    let peer = |n: u8| {
        let n64 = u64::from(n);
        let at = Ilv::new(L64(0x2001_0db8_0300_0000 + n64), Nid(0x0a00_0000_0400_0000 + n64));
        Plain { at, nonce: [n; 4], acknowledges: true }
    };
    let peers: Vec<_> = (0..12).map(peer).collect();
    for _ in 0..16 {
        peers.iter().for_each(|peer| peer.report(&mut duo, Socket::Connected));
        run(&mut duo, Duration::from_millis(250), &peers);
    }
    let has_session =
        |peer: &Plain| duo.machines[0].has_agreed_session(IlvPair::new(ilv(0), peer.at));
    assert!(peers.iter().all(has_session));
}

/// The packets have a made-up nonce, in the name of a host that is silent.
#[test]
fn a_silent_host_gets_no_more_packets_than_came_in_its_name() {
    for (reports, pause) in [(1, 0), (2, 0), (2, 5000), (4, 10), (4, 4000), (9, 700), (40, 250)] {
        let mut duo = Duo::new();
        let mut sent = 0;
        for report in 1..=reports {
            Plain::new().report(&mut duo, Socket::Connected);
            sent += run(&mut duo, Duration::from_millis(pause), &[]).len();
            assert!(sent <= report, "{sent} for {report} of {reports}, each {pause} ms");
        }
        sent += duo.alone(0, Duration::from_secs(60));
        assert!((1..=reports).contains(&sent), "{sent} for {reports}, each {pause} ms");
    }
}

/// One packet each five seconds: the first pays for a proposal, the second for an Echo Request.
#[test]
fn a_peer_that_shows_its_nonce_seldom_is_asked_by_an_echo_request_all_the_same() {
    let mut duo = Duo::new();
    let peer = Plain::new();
    peer.report(&mut duo, Socket::Connected);
    let proposals = run(&mut duo, Duration::from_secs(5), &[]);
    assert!(proposals.len() == 1 && !is_echo(&proposals[0]));
    peer.report(&mut duo, Socket::Connected);
    peer.play(&mut duo);
    assert!(duo.machines[0].has_agreed_session(IlvPair::new(ilv(0), peer.at)));
}

/// What this host sends pays for the proposals, whichever came first.
#[test]
fn a_proposal_for_traffic_of_this_host_is_repeated_without_further_nonces() {
    let mut duo = Duo::new();
    Plain::new().report(&mut duo, Socket::Connected);
    duo.traffic(Socket::Connected);
    assert_eq!(duo.alone(0, Duration::from_secs(60)), 3);
}

/// The first Echo Request gets lost. No packet pays for a repetition while its timer runs.
#[test]
fn a_peer_that_shows_its_nonce_seldom_loses_one_echo_request_and_has_its_session_with_the_next_packet()
 {
    let mut duo = Duo::new();
    let peer = Plain::new();
    for (packet, is_echo_request) in [(1, false), (2, true)] {
        peer.report(&mut duo, Socket::Connected);
        let sent = run(&mut duo, Duration::from_secs(5), &[]);
        assert_eq!(
            sent.iter().map(|sent| is_echo(sent)).collect::<Vec<_>>(),
            [is_echo_request],
            "packet {packet}"
        );
    }
    peer.report(&mut duo, Socket::Connected);
    peer.play(&mut duo);
    assert!(duo.machines[0].has_agreed_session(IlvPair::new(ilv(0), peer.at)));
}

/// A host that has left three Echo Requests unanswered reads no nonce, and packets in its name change nothing.
#[test]
fn a_peer_that_answers_none_of_three_echo_requests_is_asked_no_more() {
    let mut duo = Duo::new();
    for _ in 0..40 {
        Plain::new().report(&mut duo, Socket::Connected);
        run(&mut duo, Duration::from_millis(250), &[]);
    }
    Plain::new().report(&mut duo, Socket::Connected);
    assert_eq!(run(&mut duo, Duration::from_secs(60), &[]).len(), 0);
}

/// All places of the peer's /64 among the correspondents without ILNP are taken.
#[test]
fn a_peer_in_a_crowded_network_that_shows_its_nonce_seldom_is_asked_by_an_echo_request() {
    let mut duo = Duo::new();
    let peer = Plain::new();
    let mut others = (0..).map(|n| Ilv::new(peer.at.l64, Nid(0x0a00_0000_0400_0000 + n)));
    let negatives = &mut duo.machines[0].negatives;
    while negatives.remember(others.next().unwrap(), Classic::Silent, false, duo.now) {}
    peer.report(&mut duo, Socket::Connected);
    assert_eq!(run(&mut duo, Duration::from_secs(5), &[]).len(), 1);
    assert!(duo.drops(0, DropReason::TableFull) > 0);
    peer.report(&mut duo, Socket::Connected);
    peer.play(&mut duo);
    assert!(duo.machines[0].has_agreed_session(IlvPair::new(ilv(0), peer.at)));
}

/// The turns of the timer for which no packet has paid send nothing, so the answer is to the one Propose.
#[test]
fn an_answer_to_a_proposal_that_was_due_again_and_not_sent_gives_a_round_trip_time() {
    let mut duo = Duo::new();
    Plain::new().report(&mut duo, Socket::Connected);
    let propose = duo.take(0);
    duo.fire(0);
    assert_eq!(duo.take(0).len(), 0);
    duo.give(1, &propose);
    let accept = duo.take(1);
    duo.give(0, &accept);
    let id = duo.session(0).id;
    let session = duo.machines[0].ilcc.get(id).unwrap();
    assert!(session.rtt.timeout().is_some());
}
