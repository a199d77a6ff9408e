//! Locator Updates and hand-offs.

use super::*;

//= rfc6743#2-6 rfc6743#4-2 (test)
#[test]
fn a_locator_update_replaces_the_set_by_preference_and_is_acknowledged_with_its_body() {
    let mut duo = Duo::established();
    let entries = [(0x2001_0db8_0007_0000, 20), (0x2001_0db8_0008_0000, 5), (0xfe80 << 48, 1)];
    let update = update_of(&entries);
    let source = duo.ilv(0).at(L64(entries[0].0));
    let packet = of_session(&duo.entry(0), source, duo.ilv(1), Some(100), &update);
    duo.give(1, &[packet]);
    let acknowledgement = duo.take(1);
    assert_eq!(acknowledgement.len(), 2, "and a question at the preferred locator");
    let answer = duo::answer(&duo.entry(0), &acknowledgement[1]);
    duo.give(1, &[answer]);
    let session = duo.session(1);
    assert_eq!(session.wire.remote.l64, L64(entries[1].0), "preferred, and global");
    assert_eq!(session.remote.len(), 2);
    // 40 octets of IPv6 and 16 of options.
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
        let (questions, others): (Vec<_>, Vec<_>) =
            duo.take(1).into_iter().partition(|packet| duo::is_question(packet));
        assert_eq!(others.len(), answers);
        for question in &questions {
            let answer = duo::answer(&duo.entry(0), question);
            duo.give(1, &[answer]);
        }
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
    // Repetitions for 50 s, the last ones 8 s apart.
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
    // The correspondent knows both locators by now.
    prefer(&mut duo, [(old, 100), (new, 1100)]);
    assert_eq!(duo.session(0).wire.local.l64, old, "at once");
    // The host does not wait for a locator that is gone.
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

pub(super) fn update_of(entries: &[(u64, u16)]) -> LocatorUpdate {
    let entry = |&(l64, preference)| L64Entry { preference, l64: L64(l64), lifetime: 100 };
    LocatorUpdate {
        operation: Operation::ADVERTISEMENT,
        locators: entries.iter().map(entry).collect(),
    }
}

/// A Locator Update is repeated to all locators of its receiver, and one of these may be dead in one direction.
#[test]
fn a_locator_update_to_another_locator_moves_no_session_that_has_just_had_an_answer() {
    for (since_answer, moves) in [(Duration::ZERO, false), (crate::consts::ANSWERED_LATELY, true)] {
        let mut duo = Duo::established();
        let (here, there) = (duo.ilv(0), duo.ilv(1));
        let other = L64(0x2001_0db8_0007_0000);
        duo.roam(0, &[here.l64.0, other.0]);
        duo.play();
        duo.now = duo.now + since_answer;
        let update = update_of(&[(there.l64.0, 100)]);
        let repeated = of_session(&duo.entry(1), there, here.at(other), Some(100), &update);
        duo.give(0, &[repeated]);
        let used = duo.session(0).wire.local.l64;
        assert_eq!(used, if moves { other } else { here.l64 }, "{since_answer:?}");
    }
}
