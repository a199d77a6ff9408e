//! Machines alone, message by message. Whole hosts are in the simulator (`sim/src/tests/ilnp`).

mod advertise;
mod again;
mod crossed;
mod duo;
mod known;
mod lost;
mod neighbor;
mod overlap;
mod paths;
mod plain;
mod question;
mod room;

use alloc::sync::Arc;
use core::time::Duration;
use std::vec::Vec;

use duo::{Duo, NOW, control, of_session};
use moorline_datapath::ilnp::Update;
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid, Nonce};
use moorline_wire::ilnp::{
    Admission, AdmissionFlags, AdmissionTypes, Flow, L64Entry, LocatorUpdate, Operation,
};

use crate::consts::{
    ALL_ANSWERS_BURST, ALL_ANSWERS_INTERVAL, ANSWER_BURST, IDLE_TIMEOUT, PROPOSAL_TRIES,
};
use crate::{
    Admit, Cause, Classic, Config, Event, LocalLocator, NonceLen, NonceMode, Socket, State,
};

//= rfc6744#6-9 (test)
#[test]
fn the_handshake_makes_a_session_at_both_ends_with_crossed_nonces() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    duo.play();
    let [ours, theirs] = [0, 1].map(|host| duo.session(host));
    assert_eq!((ours.state, theirs.state), (State::Established, State::Established));
    let [a, b] = [0, 1].map(|host| duo.entry(host));
    assert_eq!(Some(a.send_nonce), b.receive_nonce);
    assert_eq!(Some(b.send_nonce), a.receive_nonce);
    assert_eq!(a.pair, b.pair.reversed());
    assert!(a.settled && b.settled);
}

#[test]
fn a_responder_keeps_nothing_before_the_confirm() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    for _ in 0..100 {
        duo.give(1, &propose);
    }
    assert_eq!(duo.machines[1].session_count(), 0);
    assert_eq!(duo.machines[1].poll_timeout(), None);
    assert_eq!(duo.machines[1].poll_update(), None);
}

#[test]
fn a_confirm_needs_a_validator_of_ours_for_this_pair_and_of_late() {
    let (mut duo, confirm) = Duo::at_confirm();
    let types = AdmissionTypes::default();
    let Ok(Admission::Confirm(good)) =
        Admission::parse(&confirm[40..], types, duo.ilv(0).address(), duo.ilv(1).address())
    else {
        panic!("a Confirm")
    };
    let mut forged = Vec::new();
    for at in 0..16 {
        let mut bad = good;
        bad.accept.validator[at] ^= 1;
        forged.push((bad, DropReason::BadValidator));
    }
    let mut nonce = good;
    nonce.accept.responder_nonce = Nonce::Short([0; 4]);
    forged.push((nonce, DropReason::BadValidator));
    let mut port = good;
    port.accept.flow.responder_port ^= 1;
    forged.push((port, DropReason::BadValidator));
    let mut number = good;
    number.accept.number = number.accept.number.wrapping_add(1);
    forged.push((number, DropReason::StaleNonce));
    let pair = IlvPair::new(duo.ilv(0), duo.ilv(1));
    for (message, reason) in forged {
        let before = duo.drops(1, reason);
        duo.give(1, &[control(pair, &Admission::Confirm(message))]);
        assert_eq!(duo.drops(1, reason), before + 1);
    }
    // From somewhere else.
    let elsewhere = IlvPair::new(duo.ilv(0).at(L64(0x2001_0db8_0009_0000)), duo.ilv(1));
    duo.give(1, &[control(elsewhere, &Admission::Confirm(good))]);
    assert_eq!(duo.machines[1].session_count(), 0);
    duo.now = NOW + Duration::from_secs(61);
    duo.give(1, core::slice::from_ref(&confirm));
    assert_eq!(duo.machines[1].session_count(), 0, "too old");
    duo.now = NOW + Duration::from_secs(1);
    let (mut duo, confirm) = Duo::at_confirm();
    duo.give(1, &[confirm]);
    assert_eq!(duo.machines[1].session_count(), 1);
}

#[test]
fn answers_are_limited_and_no_longer_than_questions() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    let mut answers = 0;
    for _ in 0..2 * ANSWER_BURST {
        duo.give(1, &propose);
        for answer in duo.take(1) {
            answers += 1;
            assert!(answer.len() <= propose[0].len());
        }
    }
    assert_eq!(answers, ANSWER_BURST);
    assert_eq!(duo.drops(1, DropReason::RateLimited), ANSWER_BURST.into());
}

#[test]
fn a_flood_of_proposals_from_one_prefix_keeps_nobody_else_from_being_answered() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let honest = duo.take(0);
    for n in 0..4 * ANSWER_BURST {
        let source =
            Ilv::new(L64(0x2001_0db8_0066_0000), Nid(0x0a00_0000_0100_0000 + u64::from(n)));
        duo.give(1, &[control(IlvPair::new(source, ilv(1)), &proposal())]);
    }
    assert!(duo.drops(1, DropReason::RateLimited) > 0);
    duo.take(1);
    duo.give(1, &honest);
    assert_eq!(duo.take(1).len(), 1);
}

#[test]
fn a_flood_of_proposals_from_prefixes_made_up_everywhere_takes_only_so_much_of_our_time() {
    let mut duo = Duo::new();
    for n in 0..3 * ALL_ANSWERS_BURST {
        let source = Ilv::new(L64(0x2001_0db8_0000_0000 + (u64::from(n) << 8)), ilv(0).nid);
        duo.give(1, &[control(IlvPair::new(source, ilv(1)), &proposal())]);
    }
    assert_eq!(duo.take(1).len(), ALL_ANSWERS_BURST as usize);
    duo.now = duo.now + ALL_ANSWERS_INTERVAL;
    duo.traffic(Socket::Connected);
    let honest = duo.take(0);
    duo.give(1, &honest);
    assert_eq!(duo.take(1).len(), 1);
}

fn proposal() -> Admission {
    let flow = Flow {
        protocol: 17,
        initiator_port: 40_000,
        responder_port: 7,
        transaction: 1,
        flags: AdmissionFlags::CONNECTED,
    };
    Admission::Propose(flow)
}

#[test]
fn without_a_socket_there_or_a_connected_one_anywhere_there_is_no_session() {
    for (here, there) in
        [(Socket::Connected, Socket::None), (Socket::Unconnected, Socket::Connected)]
    {
        let mut duo = Duo::new();
        duo.sockets[1] = there;
        duo.traffic(here);
        duo.play();
        assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [0, 0]);
        // And is not asked for again at once.
        duo.traffic(here);
        assert!(duo.take(0).is_empty());
    }
}

//= rfc6740#8-2 (test)
#[test]
fn a_silent_correspondent_is_asked_three_times_and_remembered() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let sent = duo.alone(0, Duration::from_secs(60));
    assert_eq!(sent, PROPOSAL_TRIES as usize);
    assert!(
        duo.has_event(0, |event| matches!(event, Event::Classic { cause: Classic::Silent, .. }))
    );
    duo.traffic(Socket::Connected);
    assert!(duo.take(0).is_empty());
    duo.now = duo.now + Duration::from_secs(600);
    duo.traffic(Socket::Connected);
    assert_eq!(duo.take(0).len(), 1);
}

//= rfc6742#2.1 rfc6744#6-7 (test)
#[test]
fn one_that_is_said_to_speak_ilnp_is_asked_at_once_and_soon_again() {
    let mut duo = Duo::new();
    let asks_now = |duo: &mut Duo| {
        duo.traffic(Socket::Connected);
        let asked = !duo.take(0).is_empty();
        duo.alone(0, Duration::from_secs(5));
        asked
    };
    assert!(asks_now(&mut duo));
    assert!(!asks_now(&mut duo), "it was silent");
    let (nid, minute) = (duo.ilv(1).nid, Duration::from_secs(60));
    duo.machines[0].handle_hint(nid, &[], duo.now + minute, duo.now);
    assert!(asks_now(&mut duo));
    assert!(!asks_now(&mut duo), "not all the time");
    duo.now = duo.now + Duration::from_secs(10);
    assert!(asks_now(&mut duo));
    // The hint is old.
    duo.now = duo.now + minute;
    assert!(asks_now(&mut duo));
    duo.now = duo.now + minute;
    assert!(!asks_now(&mut duo));
    assert_eq!(duo.machines[0].session_count(), 0, "a hint makes no session");
}

#[test]
fn a_confirm_that_gets_lost_is_repeated_until_something_comes_back() {
    let (mut duo, _lost) = Duo::at_confirm();
    // 50 ms after it, then twice that, and so on, for 3 s.
    let sent = duo.alone(0, Duration::from_secs(60));
    assert_eq!(sent, 5);
    assert_eq!(duo.machines[0].session_count(), 0, "given up");
    let (mut duo, _lost) = Duo::at_confirm();
    duo.fire(0);
    duo.play();
    assert_eq!(duo.session(0).state, State::Established);
}

//= rfc6743#2-6 rfc6743#4-2 (test)
#[test]
fn a_locator_update_replaces_the_set_by_preference_and_is_acknowledged_with_its_body() {
    let mut duo = Duo::established();
    let entries = [(0x2001_0db8_0007_0000, 20), (0x2001_0db8_0008_0000, 5), (0xfe80 << 48, 1)];
    let update = update_of(&entries);
    let source = duo.ilv(0).at(L64(entries[0].0));
    let packet = of_session(&duo.entry(0), source, duo.ilv(1), Some(100), &update);
    duo.give(1, &[packet]);
    let session = duo.session(1);
    assert_eq!(session.wire.remote.l64, L64(entries[1].0), "preferred, and global");
    assert_eq!(session.remote.len(), 2);
    let acknowledgement = duo.take(1);
    assert_eq!(acknowledgement.len(), 1);
    // 40 of IPv6 and 16 of options.
    let message =
        LocatorUpdate::parse(&acknowledgement[0][56..], duo.ilv(1).address(), source.address());
    assert_eq!(message, Ok(update.acknowledgement()));
}

#[test]
fn an_acknowledgement_leaves_from_where_we_are() {
    let mut duo = Duo::established();
    let away = L64(0x2001_0db8_0009_0000);
    duo.roam(1, &[away.0]);
    duo.take(1);
    let (from, gone) = (duo.ilv(0), duo.ilv(1));
    let update = update_of(&[(from.l64.0, 10)]);
    duo.give(1, &[of_session(&duo.entry(0), from, gone, Some(100), &update)]);
    let acknowledgement = duo.take(1).pop().expect("an answer");
    assert_eq!(acknowledgement[8..24], gone.at(away).address().octets());
}

//= rfc6743#1.2-1 rfc6743#2-1 rfc6743#2-2 rfc6743#6-1 rfc6743#6-3 rfc6743#6-4 (test)
//= rfc6744#7-3 rfc6744#7-5 (test)
//= rfc6741#11.1-7 rfc6741#11.1-8 (test)
#[test]
fn a_locator_update_without_the_right_nonce_or_of_old_changes_nothing() {
    let mut duo = Duo::established();
    let good = duo.entry(0);
    let (from, to) = (duo.ilv(0), duo.ilv(1));
    let evil = update_of(&[(0x2001_0db8_6666_0000, 0)]);
    let before = duo.session(1);
    let wrong = moorline_datapath::ilnp::SessionEntry {
        send_nonce: Nonce::Short([1, 2, 3, 4]),
        ..good.clone()
    };
    let theirs = duo.entry(1);
    let packets = [
        (of_session(&wrong, from, to, Some(1000), &evil), DropReason::BadNonce),
        // The nonce of the other direction.
        (of_session(&theirs, from, to, Some(1000), &evil), DropReason::BadNonce),
        (duo::bare(from, to, &evil), DropReason::MissingOption),
        (of_session(&good, from, to, None, &evil), DropReason::MissingOption),
        (of_session(&good, from, to, Some(0), &evil), DropReason::Replayed),
        (of_session(&good, from, to, Some(u32::MAX / 2 + 10), &evil), DropReason::Replayed),
    ];
    let first = of_session(&good, from, to, Some(1), &update_of(&[(from.l64.0, 10)]));
    duo.give(1, &[first]);
    duo.take(1);
    for (packet, reason) in packets {
        let count = duo.drops(1, reason);
        duo.give(1, &[packet]);
        assert_eq!(duo.drops(1, reason), count + 1, "{reason}");
        assert!(duo.take(1).is_empty(), "no answer to {reason}");
        let now = duo.session(1);
        assert_eq!((now.wire, now.remote[0].0.l64), (before.wire, before.remote[0].0.l64));
    }
}

#[test]
fn a_repeated_update_is_acknowledged_again_and_an_old_one_is_not() {
    let mut duo = Duo::established();
    let (from, to) = (duo.ilv(0), duo.ilv(1));
    let entry = duo.entry(0);
    let [one, two] = [(7, 0x2001_0db8_0007_0000), (8, 0x2001_0db8_0008_0000)]
        .map(|(number, l64)| of_session(&entry, from, to, Some(number), &update_of(&[(l64, 1)])));
    for (packet, answers) in [(&one, 1), (&one, 1), (&two, 1), (&one, 0), (&two, 1)] {
        duo.give(1, core::slice::from_ref(packet));
        assert_eq!(duo.take(1).len(), answers);
    }
    assert_eq!(duo.session(1).wire.remote.l64, L64(0x2001_0db8_0008_0000));
    assert_eq!(duo.drops(1, DropReason::Replayed), 1);
}

//= rfc6744#4-1 rfc6740#3.2.2-1 (test)
#[test]
fn an_update_that_nobody_acknowledges_is_repeated_and_the_nonce_stays() {
    let mut duo = Duo::established();
    duo.roam(0, &[0x2001_0db8_0005_0000]);
    assert!(duo.entry(0).attach);
    let sent = duo.alone(0, Duration::from_secs(120));
    // For 50 s, the last times 8 s apart.
    assert_eq!(sent, 13);
    assert!(duo.has_event(0, |event| matches!(event, Event::UpdateUnanswered { .. })));
    assert!(duo.entry(0).attach, "the correspondent does not know the locator");
    assert_eq!(duo.session(0).wire.local.l64, L64(0x2001_0db8_0005_0000));
}

#[test]
fn a_soft_hand_off_waits_until_the_correspondent_has_read_of_the_locator() {
    let mut duo = Duo::established();
    let (old, new) = (duo.ilv(0).l64, L64(0x2001_0db8_0005_0000));
    let prefer = |duo: &mut Duo, locators: [(L64, u16); 2]| {
        let locators =
            locators.map(|(l64, preference)| LocalLocator { preference, ..LocalLocator::new(l64) });
        duo.place(0, locators.into());
    };
    let has_moved = |duo: &Duo| duo.has_event(0, |event| matches!(event, Event::Moved { .. }));
    prefer(&mut duo, [(old, 1100), (new, 100)]);
    assert_eq!(duo.session(0).wire.local.l64, old, "it is told of from where we were");
    assert!(!has_moved(&duo));
    duo.now = duo.now + Duration::from_millis(100);
    duo.play();
    let wire = duo.session(0).wire;
    assert_eq!((wire.local.l64, duo.session(1).wire.remote.l64), (new, new));
    assert!(has_moved(&duo) && duo.entry(0).attach, "RFC 6744 s4");
    // It knows both by now.
    prefer(&mut duo, [(old, 100), (new, 1100)]);
    assert_eq!(duo.session(0).wire.local.l64, old, "at once");
    // Of one that is gone there is nothing to wait for.
    duo.play();
    duo.roam(0, &[0x2001_0db8_0006_0000]);
    assert_eq!(duo.session(0).wire.local.l64, L64(0x2001_0db8_0006_0000));
}

//= rfc6744#4-3 (test)
#[test]
fn the_nonce_goes_three_round_trips_after_the_acknowledgement() {
    let mut duo = Duo::established();
    duo.roam(0, &[0x2001_0db8_0005_0000]);
    duo.now = duo.now + Duration::from_millis(100);
    duo.play();
    assert!(duo.entry(0).attach);
    duo.now = duo.now + Duration::from_millis(199);
    duo.fire_due(0);
    assert!(duo.entry(0).attach);
    duo.now = duo.now + Duration::from_millis(2);
    duo.fire_due(0);
    assert!(!duo.entry(0).attach);
}

//= rfc6744#6-4 (test)
#[test]
fn where_either_wants_it_the_nonce_is_there_for_good_once_both_know_of_the_session() {
    let mut duo = Duo::new();
    duo.machines[0].config.nonce = NonceMode::Always;
    duo.traffic(Socket::Connected);
    for host in [1, 0] {
        let message = duo.take(1 - host);
        duo.give(host, &message);
    }
    let entry = duo.entry(0);
    assert_eq!(
        (duo.session(0).state, entry.attach, entry.always),
        (State::Confirming, true, false)
    );
    duo.play();
    for host in [0, 1] {
        duo.now = duo.now + Duration::from_secs(60);
        duo.fire_due(host);
        let entry = duo.entry(host);
        assert!(entry.attach && entry.always, "{host}");
    }
    let mut without = Duo::established();
    without.now = without.now + Duration::from_secs(60);
    without.fire_due(0);
    assert!(!without.entry(0).attach && !without.entry(0).always);
}

#[test]
fn a_quiet_session_is_forgotten_unless_a_socket_has_it() {
    let mut duo = Duo::established();
    duo.sockets[0] = Socket::None;
    duo.alone(0, IDLE_TIMEOUT * 2);
    duo.alone(1, IDLE_TIMEOUT * 2);
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [0, 1]);
    assert!(duo.has_event(0, |event| matches!(event, Event::Forgotten { cause: Cause::Idle, .. })));
}

#[test]
fn a_session_that_has_moved_is_not_displaced_by_who_has_its_address_now() {
    let mut duo = Duo::established();
    duo.roam(0, &[0x2001_0db8_0005_0000]);
    duo.play();
    assert_eq!(duo.session(1).wire.remote.l64, L64(0x2001_0db8_0005_0000));
    // Another host gets the old locator, has the same identifier, and agrees on a session.
    let mut other = Duo::new();
    other.traffic(Socket::Connected);
    let propose = other.take(0);
    duo.give(1, &propose);
    other.give(0, &duo.take(1));
    assert_eq!(other.machines[0].session_count(), 0, "refused");
    assert_eq!(duo.session(1).wire.remote.l64, L64(0x2001_0db8_0005_0000));
}

/// Its old session takes no room from it.
#[test]
fn one_that_began_anew_takes_the_place_of_its_old_session() {
    let policy = Admit { max_with_node: 1, ..Admit::of(1) };
    let config =
        Config { policy: Arc::new(policy), max_sessions: 1, max_with_node: 1, ..Config::default() };
    let mut duo = Duo::with(&config, 1);
    duo.traffic(Socket::Connected);
    duo.play();
    let mut anew = Duo::seeded(99);
    anew.traffic(Socket::Connected);
    let propose = anew.take(0);
    duo.machines[0] = anew.machines.remove(0);
    duo.give(1, &propose);
    duo.play();
    assert_eq!(Some(duo.entry(0).send_nonce), duo.entry(1).receive_nonce);
    assert!(
        duo.has_event(1, |event| matches!(event, Event::Forgotten { cause: Cause::Replaced, .. }))
    );
}

//= rfc6744#6-8 rfc6744#7-10 (test)
#[test]
fn nonces_differ_from_draw_to_draw_and_from_seed_to_seed_in_every_bit() {
    for nonce_len in [NonceLen::Short, NonceLen::Long] {
        let config = Config { nonce_len, ..Config::default() };
        let mut machines = Vec::new();
        for seed in [5, 6] {
            machines.append(&mut Duo::with(&config, seed).machines);
        }
        let draws = machines.iter_mut().flat_map(|machine| {
            (0..DRAWS).map(|_| machine.draw_nonce().octets().to_vec()).collect::<Vec<_>>()
        });
        let draws: Vec<_> = draws.collect();
        let different: std::collections::BTreeSet<_> = draws.iter().collect();
        assert_eq!(different.len(), draws.len());
        for bit in 0..draws[0].len() * 8 {
            let set = draws.iter().filter(|octets| octets[bit / 8] >> (bit % 8) & 1 == 1).count();
            let third = draws.len() / 3;
            assert!((third..=2 * third).contains(&set), "bit {bit}: {set}");
        }
    }
}

/// Nonces of a machine: of so few no two are alike.
const DRAWS: usize = 100;

#[test]
fn equal_seeds_and_inputs_give_equal_octets() {
    let transcript = |seed| {
        let mut duo = Duo::seeded(seed);
        duo.traffic(Socket::Connected);
        duo.play();
        duo.roam(1, &[0x2001_0db8_0005_0000]);
        duo.play();
        duo.transcript
    };
    assert_eq!(transcript(5), transcript(5));
    assert_ne!(transcript(5), transcript(6));
}

#[test]
fn a_data_plane_is_told_of_every_session_and_its_end() {
    let mut duo = Duo::established();
    let updates = duo.updates[0].iter().filter(|update| matches!(update, Update::Upsert(_)));
    assert!(updates.count() >= 2);
    duo.sockets[0] = Socket::None;
    duo.alone(0, IDLE_TIMEOUT * 2);
    assert!(matches!(duo.updates[0].last(), Some(Update::Remove { .. })));
}

fn update_of(entries: &[(u64, u16)]) -> LocatorUpdate {
    let entry = |&(l64, preference)| L64Entry { preference, l64: L64(l64), lifetime: 100 };
    LocatorUpdate {
        operation: Operation::ADVERTISEMENT,
        locators: entries.iter().map(entry).collect(),
    }
}

fn ilv(host: usize) -> Ilv {
    Ilv::new(
        L64(0x2001_0db8_0001_0000 + ((host as u64) << 16)),
        Nid(0x0a00_0000_0000_0001 + host as u64),
    )
}

#[test]
fn an_entry_is_small() {
    assert!(
        size_of::<crate::session::Session>() <= 192,
        "{}",
        size_of::<crate::session::Session>()
    );
    const { assert!(moorline_index::Ilcc::<crate::session::Session>::ENTRY_OCTETS <= 272) };
}
