use std::vec;
use std::vec::Vec;

use moorline_datapath::ilnp::Update;
use moorline_types::{DropReason, L64, Nid, Nonce};

use super::duo::Duo;
use crate::tests::ilv;
use crate::{Cause, Config, Event, LocalLocator, Machine, MoveCause, SessionSnapshot, State};

const ELSEWHERE: u64 = 0x2001_0db8_00aa_0000;

/// Replaces the first machine by one that restores its sessions.
pub(super) fn again(duo: &mut Duo) {
    let snapshots: Vec<_> = duo.machines[0].snapshot().collect();
    let mut machine = Machine::new(Config::default(), [77; 32], duo.now);
    for snapshot in snapshots {
        machine.restore(snapshot, duo.now).expect("a session");
    }
    duo.machines[0] = machine;
}

//= rfc6740#3.1.1-1 rfc6740#3.4-2 (test)
#[test]
fn a_session_that_has_moved_goes_on_in_another_run_with_its_nonces_and_moves_again() {
    let mut duo = Duo::established();
    duo.roam(0, &[ELSEWHERE]);
    duo.play();
    let before = [0, 1].map(|host| (duo.entry(host), duo.session(host)));
    again(&mut duo);
    // The first Locator Update of the new machine has the same locators as the last one before, and is taken.
    duo.roam(0, &[ELSEWHERE]);
    let (entry, session) = (duo.entry(0), duo.session(0));
    assert_eq!((entry.pair, entry.wire), (before[0].0.pair, before[0].0.wire));
    assert_eq!(session.nonces, before[0].1.nonces);
    assert_eq!((session.state, session.why), (State::Established, before[0].1.why));
    assert!(entry.attach, "until the correspondent has read it");
    duo.play();
    assert!(duo.has_event(0, |event| matches!(event, Event::UpdateAcknowledged { .. })));
    assert_eq!(duo.session(1).nonces, before[1].1.nonces);
    assert!([0, 1].iter().all(|host| duo.drops(*host, DropReason::Replayed) == 0));
    duo.roam(0, &[ilv(0).l64.0]);
    duo.play();
    assert_eq!(duo.entry(1).wire.1, ilv(0).l64, "the number of the update was new");
}

#[test]
fn locators_that_went_between_two_runs_are_left() {
    let mut duo = Duo::established();
    again(&mut duo);
    duo.roam(0, &[ELSEWHERE]);
    duo.play();
    assert_eq!((duo.entry(0).wire.0, duo.entry(1).wire.1), (L64(ELSEWHERE), L64(ELSEWHERE)));
}

#[test]
fn what_is_under_way_is_not_kept() {
    let (duo, _) = Duo::at_confirm();
    assert_eq!(duo.machines[0].session_count(), 1);
    assert_eq!(duo.machines[0].snapshot().count(), 0);
}

#[test]
fn a_session_that_the_data_plane_does_not_take_is_none() {
    let mut duo = Duo::established();
    let pair = duo.entry(0).pair;
    let machine = &mut duo.machines[0];
    let session = machine.sessions(duo.now).next().expect("a session").id;
    machine.handle_not_taken(session);
    assert!(!machine.has_session(pair));
    let updates: Vec<_> = core::iter::from_fn(|| machine.poll_update()).collect();
    assert_eq!(updates, [Update::Remove { session }]);
    let events: Vec<_> = core::iter::from_fn(|| machine.poll_event()).collect();
    assert_eq!(events, [Event::Forgotten { session, pair, cause: Cause::NotTaken }]);
}

#[test]
fn what_cannot_be_a_session_or_is_one_already_is_refused() {
    let duo = Duo::established();
    let good = duo.machines[0].snapshot().next().expect("a session");
    let mut machine =
        Machine::new(Config { max_sessions: 2, ..Config::default() }, [1; 32], duo.now);
    let mut refused = |change: &dyn Fn(&mut SessionSnapshot)| {
        let mut bad = good.clone();
        change(&mut bad);
        machine.restore(bad, duo.now).err()
    };
    assert_eq!(refused(&|bad| bad.remote.clear()), Some(DropReason::WrongLocators));
    let many = |bad: &mut SessionSnapshot| bad.remote = vec![bad.remote[0]; 33];
    assert_eq!(refused(&many), Some(DropReason::WrongLocators));
    assert_eq!(refused(&|bad| bad.wire.1 = L64(0)), Some(DropReason::BadAddress));
    assert_eq!(refused(&|bad| bad.pair.remote.nid = Nid(u64::MAX)), Some(DropReason::BadAddress));
    assert_eq!(
        refused(&|bad| bad.pair.remote.nid = bad.pair.local.nid),
        Some(DropReason::BadAddress)
    );
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(refused(&|_| {}), Some(DropReason::Replayed));
    let other = L64(ELSEWHERE);
    assert_eq!(
        refused(&|bad| bad.pair.local.l64 = other),
        Some(DropReason::Replayed),
        "the nonce is taken"
    );
    let second = |bad: &mut SessionSnapshot| {
        bad.pair.local.l64 = other;
        bad.nonces.1 = Nonce::Short([9; 4]);
    };
    assert_eq!(refused(&second), None);
    let third = |bad: &mut SessionSnapshot| {
        bad.pair.local.l64 = L64(ELSEWHERE + 1);
        bad.nonces.1 = Nonce::Short([8; 4]);
    };
    assert_eq!(refused(&third), Some(DropReason::TableFull));
    assert_eq!(machine.locators(), &[] as &[LocalLocator]);
}

/// A checksum that this version does not know would be wrong in each packet. A reason is for people.
#[test]
fn a_session_with_an_unknown_reason_goes_on_and_one_with_an_unknown_checksum_does_not() {
    let duo = Duo::established();
    let snapshot = duo.machines[0].snapshot().next().expect("a session");
    let mut machine = Machine::new(Config::default(), [77; 32], duo.now);
    let checksum = SessionSnapshot { checksum: None, ..snapshot.clone() };
    assert_eq!(machine.restore(checksum, duo.now), Err(DropReason::UnknownType));
    machine.restore(SessionSnapshot { why: None, ..snapshot }, duo.now).expect("there");
    assert_eq!(machine.sessions(duo.now).count(), 1);
}

#[test]
fn a_session_whose_move_has_a_cause_that_only_a_later_version_knows_goes_on() {
    let mut duo = Duo::established();
    duo.roam(0, &[ELSEWHERE]);
    duo.play();
    let snapshot = duo.machines[0].snapshot().next().expect("a session");
    for (name, cause) in [("locator_gone", Some(MoveCause::LocatorGone)), ("of_later", None)] {
        let mut machine = Machine::new(Config::default(), [77; 32], duo.now);
        let moved = Some(name.into());
        machine.restore(SessionSnapshot { moved, ..snapshot.clone() }, duo.now).expect("there");
        assert_eq!(machine.sessions(duo.now).next().expect("a session").moved, cause);
    }
}
