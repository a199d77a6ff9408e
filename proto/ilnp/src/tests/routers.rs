//! Routers that do not answer, on a host with many sessions.

use core::time::Duration;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

use moorline_types::{Instant, L64, Nid};

use super::duo::{Duo, NOW};
use super::ilv;
use crate::consts::{ROUTER_LOST_BATCH, ROUTER_LOST_INTERVAL};
use crate::{LocalLocator, LocalState, Machine};

const SESSIONS: u64 = 10_000;
const SECOND: L64 = L64(0x2001_0db8_00c0_0000);

/// A host with two locators and many sessions, all in use by the first locator.
fn busy() -> Machine {
    let snapshot = Duo::established().machines[0].snapshot().next().expect("a session");
    let mut machine = Machine::new(crate::Config::default(), [5; 32], NOW);
    let locators = vec![LocalLocator::new(ilv(0).l64), LocalLocator::new(SECOND)];
    let nids = vec![ilv(0).nid];
    machine.handle_local(&LocalState { nids, locators, ..LocalState::default() }, NOW);
    for n in 0..SESSIONS {
        let mut one = snapshot.clone();
        one.pair.remote.nid = Nid(0x0a00_0000_0400_0000 + n);
        let id = machine.restore(one, NOW).expect("room");
        let session = machine.ilcc.get_mut(id).expect("there");
        (session.owes_update, session.last_used) = (false, NOW + Duration::from_secs(60));
    }
    machine
}

/// Runs the timers for this time. Returns when each correspondent was asked first.
fn asked(machine: &mut Machine, from: Instant, time: Duration) -> Vec<Instant> {
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
    let mut all: Vec<_> = first.into_values().collect();
    all.sort();
    all
}

/// The router is reported twice, and later once more.
#[test]
fn the_correspondents_of_ten_thousand_sessions_are_asked_at_a_pace() {
    let mut machine = busy();
    for _ in 0..2 {
        machine.handle_router_lost(&[ilv(0).l64], NOW);
    }
    let per_second = ROUTER_LOST_BATCH * 1000 / ROUTER_LOST_INTERVAL.as_millis() as usize;
    let all = asked(&mut machine, NOW, Duration::from_secs(25));
    assert_eq!(all.len() as u64, SESSIONS);
    assert_eq!(all[0], NOW, "the first ones at once");
    let is_too_fast =
        |(one, later): (&Instant, &Instant)| later.since(*one) < Duration::from_secs(1);
    assert!(!all.iter().zip(&all[per_second..]).any(is_too_fast));
}
