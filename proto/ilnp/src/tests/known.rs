//! Sessions that only one end knows.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid, Nonce};

use super::duo::{Duo, of_session};
use super::updates::update_of;
use super::{Cause, Classic, Event, Socket, ilv};
use crate::consts::{CHECK_INTERVAL, DENIALS_RENEWED, REFUSAL_LIFETIME, SILENT_TRIES, TRIAL_TRIES};
use crate::{Config, LocalLocator, LocalState, Machine};
use moorline_datapath::ilnp::{CANDIDATE_INTERVAL, USED_INTERVAL};
use moorline_datapath::ilnp::{Report, SessionEntry};

/// Reports that the session of the first host is in use.
fn in_use(duo: &mut Duo) {
    let report = Report::Used { session: duo.entry(0).id, at: duo.now };
    duo.report(0, report);
}

fn later(duo: &mut Duo, time: Duration) {
    duo.now = duo.now + time;
    in_use(duo);
}

/// Restarts the host without its sessions.
fn begin_anew(duo: &mut Duo, host: usize) {
    let mut machine = Machine::new(Config::default(), [88; 32], duo.now);
    let ilv = ilv(host);
    let locators = vec![LocalLocator::new(ilv.l64)];
    machine.handle_local(
        &LocalState { nids: vec![ilv.nid], locators, ..LocalState::default() },
        duo.now,
    );
    duo.machines[host] = machine;
}

fn is_denied(event: &Event) -> bool {
    matches!(event, Event::Forgotten { cause: Cause::Denied, .. })
}

/// Repeats Locator Updates of a host until the correspondent says that it does not know the session.
fn play_until_denied(duo: &mut Duo, host: usize) {
    for _ in 0..8 {
        if duo.has_event(host, is_denied) {
            return;
        }
        duo.fire(host);
        duo.play();
    }
    panic!("{:?}", duo.events[host]);
}

#[test]
fn a_correspondent_is_asked_at_times_whether_it_knows_a_session_in_use_and_nothing_changes() {
    let mut duo = Duo::established();
    duo.alone(1, Duration::from_secs(5));
    later(&mut duo, USED_INTERVAL);
    assert!(duo.take(0).is_empty(), "it has shown so of late");
    // For the responder this is the first Locator Update at all.
    later(&mut duo, CHECK_INTERVAL);
    duo.play();
    let before = duo.updates.each_ref().map(Vec::len);
    for _ in 0..3 {
        later(&mut duo, USED_INTERVAL);
        assert!(duo.take(0).is_empty());
        later(&mut duo, CHECK_INTERVAL);
        duo.play();
    }
    assert_eq!(duo.updates.each_ref().map(Vec::len), before, "no nonce in data");
    assert_eq!(duo.transcript.len(), AGREED + 2 * 4);
    assert!(!duo.has_event(0, |event| matches!(event, Event::UpdateAcknowledged { .. })));
    assert!([0, 1].iter().all(|host| duo.drops(*host, DropReason::Replayed) == 0));
}

/// Number of packets of the handshake, with the responder's Locator Update and its acknowledgement.
const AGREED: usize = 5;

#[test]
fn one_that_is_asked_in_vain_keeps_its_session_and_is_asked_again() {
    let mut duo = Duo::established();
    duo.now = duo.now + CHECK_INTERVAL;
    for _ in 0..3 {
        later(&mut duo, USED_INTERVAL);
        let sent = duo.alone(0, USED_INTERVAL / 2);
        // The address is asked as well, without a nonce.
        assert_eq!(sent, SILENT_TRIES + TRIAL_TRIES as usize);
        assert!(!duo.entry(0).attach);
        assert!(!duo.has_event(0, |event| matches!(event, Event::UpdateUnanswered { .. })));
    }
    assert_eq!(duo.machines[0].session_count(), 1);
}

#[test]
fn one_that_began_anew_says_so_and_both_agree_once_more() {
    let mut duo = Duo::established();
    begin_anew(&mut duo, 1);
    later(&mut duo, CHECK_INTERVAL);
    duo.play();
    play_until_denied(&mut duo, 0);
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [0, 0]);
    assert!(!duo.has_event(0, |event| matches!(event, Event::Classic { .. })));
    duo.traffic(Socket::Connected);
    duo.play();
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [1, 1]);
}

/// The daemon restarts: nobody answers until it is there.
#[test]
fn one_that_was_in_session_a_moment_ago_is_not_given_up_for_its_silence() {
    let mut duo = Duo::established();
    duo.end(1);
    let said = duo.take(1);
    duo.give(0, &said);
    duo.traffic(Socket::Connected);
    duo.alone(0, Duration::from_secs(5));
    assert!(duo.has_event(0, |event| matches!(event, Event::Classic { .. })));
    duo.now = duo.now + REFUSAL_LIFETIME;
    begin_anew(&mut duo, 1);
    duo.traffic(Socket::Connected);
    duo.play();
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [1, 1]);
}

#[test]
fn a_correspondent_that_has_lost_a_moved_session_and_proposes_another_is_asked_at_once() {
    let mut duo = Duo::established();
    let better = LocalLocator { preference: 1, ..LocalLocator::new(L64(0x2001_0db8_00aa_0000)) };
    duo.place(0, vec![better, LocalLocator::new(ilv(0).l64)]);
    duo.play();
    duo.now = duo.now + CANDIDATE_INTERVAL;
    begin_anew(&mut duo, 0);
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    duo.give(1, &propose);
    // No node answers at the locators that the host was told: the Refuse alone arrives.
    let (refuse, update): (Vec<_>, Vec<_>) =
        duo.take(1).into_iter().partition(|packet| packet[6] == 58);
    assert_eq!((refuse.len(), update.len()), (1, 1));
    duo.give(0, &refuse);
    // The question goes to that locator some times, and then to others, as long as the session is in use.
    duo.report(1, Report::Used { session: duo.entry(1).id, at: duo.now });
    for _ in 1..SILENT_TRIES {
        duo.fire(1);
        duo.take(1);
    }
    play_until_denied(&mut duo, 1);
    // The next packet of the host causes a proposal.
    duo.traffic_of(1, Socket::Connected);
    duo.play();
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [1, 1]);
}

/// The test runs with and without an answer of the correspondent.
#[test]
fn a_flood_of_proposals_for_a_moved_session_has_its_correspondent_asked_every_ten_seconds() {
    for answers in [true, false] {
        let mut duo = Duo::established();
        duo.roam(0, &[0x2001_0db8_00aa_0000]);
        duo.play();
        let mut stranger = Duo::new();
        stranger.traffic(Socket::Connected);
        let propose = stranger.take(0);
        let mut asked = 0;
        for _ in 0..300 {
            duo.now = duo.now + Duration::from_millis(100);
            duo.give(1, &propose);
            duo.fire_due(1);
            let updates: Vec<_> =
                duo.take(1).into_iter().filter(|packet| packet[6] == 60).collect();
            asked += updates.len();
            if answers {
                duo.give(0, &updates);
                let acknowledged = duo.take(0);
                duo.give(1, &acknowledged);
            }
        }
        // Three times for each proposal, if nobody answers.
        let most = if answers { 3 } else { 3 * SILENT_TRIES };
        assert!((2..=most).contains(&asked), "{asked}");
        assert_eq!(duo.machines[1].session_count(), 1);
    }
}

#[test]
fn only_who_knows_the_nonce_is_believed() {
    let mut duo = Duo::established();
    begin_anew(&mut duo, 1);
    let guess = SessionEntry { send_nonce: Nonce::Short([1, 2, 3, 4]), ..duo.entry(0) };
    let update = update_of(&[(ilv(0).l64.0, 10)]);
    let update = of_session(&guess, ilv(0), ilv(1), None, &update);
    duo.give(1, &[update.clone(), update]);
    let denial = duo.take(1);
    assert_eq!(denial.len(), 1);
    duo.give(0, &denial);
    assert_eq!(duo.drops(0, DropReason::BadNonce), 1);
    assert_eq!(duo.machines[0].session_count(), 1);
}

/// Locator Updates with a made-up nonce from these addresses, and the answers. Each address sends so many.
fn answered(duo: &mut Duo, sources: &[Ilv], each: usize) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let guess = SessionEntry { send_nonce: Nonce::Short([1, 2, 3, 4]), ..duo.entry(0) };
    let update = update_of(&[(ilv(0).l64.0, 10)]);
    let sent = sources.iter().map(|from| of_session(&guess, *from, ilv(1), None, &update));
    let sent: Vec<_> = sent.flat_map(|packet| vec![packet; each]).collect();
    duo.give(1, &sent);
    (sent, duo.take(1))
}

/// The error of RFC 4443 s2.4 quotes its packet, and so is longer than that.
#[test]
fn who_sends_a_made_up_nonce_gets_no_more_octets_than_it_has_sent() {
    let mut duo = Duo::established();
    begin_anew(&mut duo, 1);
    let (mut came_in, mut sent) = (0, 0);
    for _ in 0..30 {
        let (questions, answers) = answered(&mut duo, &[ilv(0)], 1);
        came_in += questions.concat().len();
        sent += answers.concat().len();
        assert!(sent <= came_in, "{sent} for {came_in}");
        duo.now = duo.now + Duration::from_millis(500);
    }
    assert!(sent >= came_in / 2);
}

#[test]
fn made_up_nonces_from_one_site_leave_others_their_answers() {
    let mut duo = Duo::established();
    begin_anew(&mut duo, 1);
    let host = |site: u64, link: u64, n: u64| {
        Ilv::new(L64(0x2001_0db8_0000_0000 | site << 16 | link), Nid(0x0a00_0000_0100_0000 | n))
    };
    let one = |duo: &mut Duo, sources: &[Ilv]| answered(duo, sources, 2).1.len();
    assert_eq!(one(&mut duo, &[host(1, 1, 1); 100]), 16, "an address");
    let link: Vec<_> = (2..1000).map(|n| host(1, 1, n)).collect();
    assert_eq!(one(&mut duo, &link), 64 - 16, "a /64");
    let part: Vec<_> = (2..250).flat_map(|link| (1..9).map(move |n| host(1, link, n))).collect();
    assert_eq!(one(&mut duo, &part), 128 - 64, "a /56");
    let site: Vec<_> =
        (1..250).flat_map(|part| (1..9).map(move |n| host(1, part << 8, n))).collect();
    assert_eq!(one(&mut duo, &site), 256 - 128, "a /48");
    assert_eq!(one(&mut duo, &[host(2, 1, 1)]), 1, "another site");
    assert_eq!(one(&mut duo, &[host(1, 0x7700, 1)]), 0);
    duo.now = duo.now + DENIALS_RENEWED;
    assert_eq!(one(&mut duo, &[host(1, 0x7700, 1)]), 1);
}

#[test]
fn who_has_a_session_of_these_addresses_denies_none() {
    let mut duo = Duo::established();
    let guess = SessionEntry { send_nonce: Nonce::Short([1, 2, 3, 4]), ..duo.entry(0) };
    let update = update_of(&[(ilv(0).l64.0, 10)]);
    duo.give(1, &[of_session(&guess, ilv(0), ilv(1), None, &update)]);
    // The host does not deny an acknowledgement either: the two denials would repeat for ever.
    begin_anew(&mut duo, 1);
    duo.give(1, &[of_session(&guess, ilv(0), ilv(1), None, &update.acknowledgement())]);
    assert!(duo.take(1).is_empty());
}

#[test]
fn who_ends_says_so_and_is_believed_whatever_has_moved() {
    for elsewhere in [None, Some(0x2001_0db8_00aa_0000)] {
        let mut duo = Duo::established();
        if let Some(elsewhere) = elsewhere {
            duo.roam(0, &[elsewhere]);
            duo.play();
        }
        duo.end(1);
        let said = duo.take(1);
        assert_eq!(said.len(), 1);
        // 40 octets of IPv6, 8 of the error, 40 and 8 of the quoted packet.
        assert_eq!(said[0].len(), 96);
        duo.give(0, &said);
        assert!(duo.has_event(0, is_denied));
        assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [0, 0]);
    }
}

#[test]
fn a_session_that_was_never_known_there_is_not_asked_for_again() {
    let (mut duo, confirm) = Duo::at_confirm();
    let pair = IlvPair::new(ilv(0), ilv(1));
    let entry = duo.entry(0);
    assert_eq!((entry.pair, confirm.len()), (pair, 104));
    begin_anew(&mut duo, 1);
    let update = update_of(&[(ilv(0).l64.0, 10)]);
    let update = of_session(&entry, ilv(0), ilv(1), None, &update);
    duo.give(1, &[update.clone(), update]);
    duo.play();
    assert!(
        duo.has_event(0, |event| matches!(event, Event::Classic { cause: Classic::NoSupport, .. }))
    );
}

/// A packet with another nonce, which seems to come from the other host.
fn claim(duo: &mut Duo) {
    let report = Report::Candidate {
        pair: IlvPair::new(ilv(0), ilv(1)),
        protocol: 6,
        ports: (40_000, 7),
        socket: Socket::Connected,
        inbound: true,
        nonce: Some(Nonce::Short([7; 4])),
    };
    duo.report(0, report);
}

/// The data plane has seen the first packet with a nonce before the Confirm, and its report comes after the Confirm.
#[test]
fn a_report_from_before_the_session_does_not_begin_it_anew() {
    let mut duo = Duo::established();
    claim(&mut duo);
    assert!(duo.take(0).is_empty());
    duo.now = duo.now + CANDIDATE_INTERVAL;
    claim(&mut duo);
    assert_eq!(duo.take(0).len(), 1, "a Propose");
}

/// Runs the timers of the responder for this time, and loses all its Locator Updates. `payload` and `confirm` say
/// whether payload of the initiator and its repeated Confirm keep coming.
fn unread(payload: bool, confirm: Option<&[u8]>, duo: &mut Duo, time: Duration) {
    let end = duo.now + time;
    while duo.now < end && duo.machines[1].session_count() > 0 {
        duo.alone(1, Duration::from_millis(250));
        duo.now = duo.now + Duration::from_millis(250);
        let watched = duo.entry(1);
        if payload && watched.watch {
            duo.report(1, Report::Authenticated { session: watched.id });
        }
        if let Some(confirm) = confirm
            && duo.machines[1].session_count() > 0
        {
            duo.give(1, &[confirm.to_vec()]);
        }
    }
}

#[test]
fn a_correspondent_whose_daemon_stops_after_its_confirm_keeps_the_session_while_it_sends() {
    let (mut duo, confirm) = Duo::at_confirm();
    duo.give(1, core::slice::from_ref(&confirm));
    unread(true, None, &mut duo, Duration::from_secs(30));
    assert_eq!(duo.machines[1].session_count(), 1);
    // The daemon of the correspondent is there again.
    duo.alone(0, Duration::ZERO);
    duo.fire(1);
    duo.play();
    assert!(duo.is_agreed());
    assert!(duo.has_event(1, |event| matches!(event, Event::UpdateAcknowledged { .. })));
}

/// The network has lost one Locator Update before the daemon stopped, or has delivered the Confirm twice.
#[test]
fn a_confirm_that_came_again_once_does_not_count_for_ever() {
    let (mut duo, confirm) = Duo::at_confirm();
    duo.give(1, core::slice::from_ref(&confirm));
    unread(true, Some(&confirm), &mut duo, Duration::from_millis(250));
    unread(true, None, &mut duo, Duration::from_secs(30));
    assert_eq!(duo.machines[1].session_count(), 1);
}

#[test]
fn a_first_locator_update_that_no_option_passes_with_ends_the_session() {
    for (payload, confirms) in [(false, false), (false, true), (true, true)] {
        let (mut duo, confirm) = Duo::at_confirm();
        duo.give(1, core::slice::from_ref(&confirm));
        unread(payload, confirms.then_some(&confirm[..]), &mut duo, Duration::from_secs(10));
        assert_eq!(duo.machines[1].session_count(), 0, "payload {payload}, Confirm {confirms}");
    }
}

#[test]
fn silence_towards_where_we_were_says_nothing() {
    for is_confirming in [false, true] {
        let mut duo = if is_confirming { Duo::at_confirm().0 } else { Duo::new() };
        duo.traffic(Socket::Connected);
        duo.roam(0, &[0x2001_0db8_00aa_0000]);
        duo.alone(0, Duration::from_secs(60));
        assert!(!duo.has_event(0, |event| matches!(event, Event::Classic { .. })));
        duo.roam(0, &[ilv(0).l64.0]);
        duo.traffic(Socket::Connected);
        assert_eq!(duo.take(0).len(), 1, "it is asked at once");
    }
}
