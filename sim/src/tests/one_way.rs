//! Datagrams one way: the receiver answers with keepalives alone, and its keepalives still come after the path of the
//! payload has failed (decision 117).

use std::time::Duration;

use moorline_contexts::{Cause, EventKind};

use super::adaptive::{plan, sound};
use super::seconds;
use crate::plan::{Change, Kind, Pace, Plan, What, Workload};
use crate::rng::Rng;
use crate::run;

const PACE: Pace = Pace { octets: 200, interval: Duration::from_millis(20) };
const SEND_TIMEOUT: Duration = seconds(10);

/// Datagrams from either host by one of the four pairs of ULIDs.
fn one_way(seed: u64) -> Plan {
    let mut rng = Rng::new(seed, 117);
    let rtt = [4, 20, 40, 100][rng.index(4)];
    let kind = Kind::Datagrams { pace: PACE, both_ways: false };
    let mut plan = plan(kind, Duration::from_millis(rtt));
    plan.hosts.iter_mut().for_each(|host| host.send_timeout = SEND_TIMEOUT);
    let one = &mut plan.workloads[0];
    (one.from.uplink, one.to.uplink) = (rng.index(2), rng.index(2));
    if seed % 2 == 1 {
        (one.from, one.to) = (one.to, one.from);
    }
    plan
}

/// The payload is lost from `at` on, and all other packets arrive.
fn cut(plan: &Plan, at: Duration) -> Plan {
    let Workload { from, to, .. } = plan.workloads[0];
    let mut plan = plan.clone();
    plan.changes.push(Change { at, what: What::CutPath { uplink: from, to_uplink: to } });
    plan
}

/// The longest time without payload.
fn longest(seed: u64, plan: &Plan) -> Duration {
    let pause = sound(seed, plan).workloads[0].longest_pause.expect("a pause");
    pause.to - pause.from
}

/// No check has been answered when the path fails: the first one follows the first keepalive.
#[test]
fn a_new_context_leaves_a_pair_that_loses_its_payload_within_the_send_timeout() {
    for seed in 0..SEEDS {
        let at = seconds(2) + Rng::new(seed, 118).duration(seconds(3));
        let longest = longest(seed, &cut(&one_way(seed), at));
        assert!(longest <= SEND_TIMEOUT, "seed {seed}, cut at {at:?}: {longest:?}");
    }
}

/// Payload has just gone back to its first pair, which has answered no check since.
#[test]
fn a_pair_that_payload_has_just_gone_back_to_is_left_within_the_send_timeout() {
    for seed in 0..SEEDS {
        let mut plan = cut(&one_way(seed), seconds(20));
        let Workload { from, .. } = plan.workloads[0];
        plan.changes.push(Change { at: seconds(32), what: What::Heal { uplink: from } });
        (plan.duration, plan.is_full_length) = (seconds(150), true);
        let outcome = run(seed, &plan);
        let is_back =
            |kind: &EventKind| matches!(kind, EventKind::Moved { cause: Cause::FailBack, .. });
        let mut back = outcome.events.iter().filter(|told| told.host == from.host);
        let back = back.find(|told| is_back(&told.event.kind)).expect("payload goes back").at;
        let at = back + Rng::new(seed, 118).duration(seconds(1));
        let longest = longest(seed, &cut(&plan, at));
        assert!(
            longest <= SEND_TIMEOUT,
            "seed {seed}, {:?} after the move: {longest:?}",
            at - back
        );
    }
}

const SEEDS: u64 = 24;
