//! Routers that do not answer and new locators, on a host with many sessions.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use moorline_types::{IlvPair, Instant, L64, Nid, SessionId};

use super::duo::{Duo, NOW};
use super::ilv;
use crate::consts::{PACED_BATCH, PACED_INTERVAL};
use crate::paths::Came;
use crate::session::Session;
use crate::{LocalLocator, LocalState, Machine};

const SESSIONS: u64 = 10_000;
const SECOND: L64 = L64(0x2001_0db8_00c0_0000);
const THIRD: L64 = L64(0x2001_0db8_00d0_0000);
/// Identifier of the first correspondent.
const FIRST: Nid = Nid(0x0a00_0000_0400_0000);

/// A host with two locators and many sessions, all in use by the first locator.
fn busy() -> Machine {
    let snapshot = Duo::established().machines[0].snapshot().next().expect("a session");
    let mut machine = Machine::new(crate::Config::default(), [5; 32], NOW);
    let locators = vec![LocalLocator::new(ilv(0).l64), LocalLocator::new(SECOND)];
    let nids = vec![ilv(0).nid];
    machine.handle_local(&LocalState { nids, locators, ..LocalState::default() }, NOW);
    for n in 0..SESSIONS {
        let mut one = snapshot.clone();
        one.pair.remote.nid = Nid(FIRST.0 + n);
        let id = machine.restore(one, NOW).expect("room");
        let session = machine.ilcc.get_mut(id).expect("there");
        (session.owes_update, session.last_used) = (false, NOW + Duration::from_secs(60));
    }
    machine
}

/// Runs the timers for this time. Returns when each correspondent was sent something first.
fn reached(machine: &mut Machine, from: Instant, time: Duration) -> BTreeMap<Vec<u8>, Instant> {
    let (mut first, mut now) = (BTreeMap::new(), from);
    loop {
        while let Some(sent) = machine.poll_transmit() {
            first.entry(sent.packet[24..40].to_vec()).or_insert(now);
        }
        match machine.poll_timeout().filter(|at| *at <= from + time) {
            Some(at) => now = at.max(now),
            None => break,
        }
        machine.handle_timeout(now);
    }
    first
}

/// The router is reported twice, and later once more.
#[test]
fn the_correspondents_of_ten_thousand_sessions_are_asked_at_a_pace() {
    let mut machine = busy();
    for _ in 0..2 {
        machine.handle_router_lost(&[ilv(0).l64], NOW);
    }
    let first = reached(&mut machine, NOW, Duration::from_secs(25));
    check_pace(&first);
}

/// The locators change twice, and the second change finds most sessions waiting. Of the sessions that stay where they are, those
/// that are in use come first.
#[test]
fn the_correspondents_of_ten_thousand_sessions_are_told_new_locators_at_a_pace() {
    let mut machine = busy();
    let busy: BTreeSet<_> = (0..10).map(|n| SESSIONS - 1 - n * 900).collect();
    for (id, pair) in machine.ilcc.iter().map(|(id, pair, _)| (id, pair)).collect::<Vec<_>>() {
        let is_busy = busy.contains(&(pair.remote.nid.0 - FIRST.0));
        let last_used = NOW + Duration::from_secs(if is_busy { 90 } else { 60 });
        machine.ilcc.get_mut(id).expect("there").last_used = last_used;
    }
    change_locators(&mut machine, &[ilv(0).l64], NOW);
    let later = NOW + Duration::from_secs(1);
    reached(&mut machine, NOW, Duration::from_millis(950));
    change_locators(&mut machine, &[ilv(0).l64, THIRD], later);
    let first = reached(&mut machine, later, Duration::from_secs(25));
    check_pace(&first.iter().map(|(to, at)| (to.clone(), *at - Duration::from_secs(1))).collect());
    let nid = |to: &Vec<u8>| u64::from_be_bytes(to[8..].try_into().expect("eight octets"));
    let at_once = first.iter().filter(|(_, at)| **at == later).map(|(to, _)| nid(to) - FIRST.0);
    let at_once: BTreeSet<_> = at_once.collect();
    assert!(at_once.is_superset(&busy), "{at_once:?}");
}

/// A session that its turn has not reached is told before, with a number of its own, if anything is to be sent to its correspondent; and not a
/// second time.
#[test]
fn a_session_whose_correspondent_is_asked_does_not_wait_for_its_turn() {
    // The correspondent has shown nothing for some seconds.
    const LATER: Instant = Instant::from_nanos(NOW.as_nanos() + 5_000_000_000);
    let causes: [fn(&mut Machine, SessionId); 4] = [
        |machine, id| machine.on_used(id, LATER, LATER),
        |machine, id| machine.on_silent(id, LATER),
        |machine, id| machine.ask_whether_known(id, LATER),
        |machine, id| {
            let by = (THIRD, machine.ilcc.get(id).expect("there").wire.1);
            machine.on_reached_by(id, by, Came::Question, LATER);
        },
    ];
    for (number, cause) in causes.iter().enumerate() {
        let mut machine = busy();
        change_locators(&mut machine, &[ilv(0).l64, THIRD], NOW);
        let first = reached(&mut machine, NOW, Duration::ZERO);
        let waits = |(_, pair, _): &(SessionId, IlvPair, &Session)| {
            !first.contains_key(pair.remote.address().octets().as_slice())
        };
        let one = machine.ilcc.iter().find(waits);
        let (id, pair) = one.map(|(id, pair, _)| (id, pair)).expect("one");
        let tries = |machine: &Machine| {
            let session = machine.ilcc.get(id).expect("there");
            (session.sent, session.advertisement.is_some())
        };
        let (before, _) = tries(&machine);
        cause(&mut machine, id);
        let sent = machine.poll_transmit();
        let sent = sent.unwrap_or_else(|| panic!("no Locator Update for cause {number}"));
        assert_eq!(sent.packet[24..40], pair.remote.address().octets());
        assert_eq!(tries(&machine), (before.wrapping_add(1), true), "cause {number}");
        // No other one is sent to it but for the repetitions of this one.
        reached(&mut machine, LATER, Duration::from_secs(25));
        assert_eq!(tries(&machine).0, before.wrapping_add(1), "cause {number}");
    }
}

fn change_locators(machine: &mut Machine, l64s: &[L64], now: Instant) {
    let locators = l64s.iter().copied().map(LocalLocator::new).collect();
    let nids = vec![ilv(0).nid];
    machine.handle_local(&LocalState { nids, locators, ..LocalState::default() }, now);
}

/// The first ones are reached at once, and no second has more than it may.
fn check_pace(first: &BTreeMap<Vec<u8>, Instant>) {
    let per_second = PACED_BATCH * 1000 / PACED_INTERVAL.as_millis() as usize;
    let mut all: Vec<_> = first.values().copied().collect();
    all.sort();
    assert_eq!(all.len() as u64, SESSIONS);
    assert_eq!(all[..PACED_BATCH], [NOW; PACED_BATCH], "the first ones at once");
    let is_too_fast =
        |(one, later): (&Instant, &Instant)| later.since(*one) < Duration::from_secs(1);
    assert!(!all.iter().zip(&all[per_second..]).any(is_too_fast));
}
