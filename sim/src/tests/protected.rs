//! Protected means answered: the current pair fails at any moment while a host says so, and traffic recovers in time.

use std::time::Duration;

use super::seconds;
use crate::plan::{Change, What};
use crate::{Plan, random_plan, run, trace};
use moorline_contexts::{Cause, Event, EventKind, Profile};

/// A random network whose hosts check their standby paths. The cuts are of pairs that one of the two hosts of a
/// workload calls protected.
fn plan(seed: u64) -> Plan {
    let mut plan = random_plan(seed);
    plan.hosts.iter_mut().for_each(|host| host.profile = Profile::default());
    let workload = plan.workloads[0];
    let host = if seed.is_multiple_of(2) { workload.from.host } else { workload.to.host };
    let at = seconds(2) + Duration::from_millis(seed * 7919 % 70_000);
    let again = at + seconds(150);
    let changes = [
        (at, What::CutProtected { host }),
        (again - seconds(60), What::HealAll {}),
        (again, What::CutProtected { host }),
    ];
    let changes = changes.map(|(at, what)| Change { at, what }).into();
    let (flaps, renumberings) = (Vec::new(), Vec::new());
    Plan { changes, flaps, renumberings, attack: None, ..plan }
}

#[test]
fn a_context_that_is_called_protected_survives_the_loss_of_its_pair() {
    let (mut recovered, mut moves) = (0, 0);
    for seed in SEED..SEED + SEEDS {
        let plan = plan(seed);
        let outcome = run(seed, &plan);
        assert_eq!(outcome.violations, [], "seed {seed}\n{}", trace(seed, &plan));
        recovered += outcome.recovered;
        let is_move = |event: &Event| matches!(event.kind, EventKind::Moved { cause, .. } if cause != Cause::FailBack);
        moves += outcome.events.iter().filter(|told| is_move(&told.event)).count();
    }
    assert!(recovered > 100 && moves > 200, "{recovered} recovered, {moves} moves");
}

const SEED: u64 = 80_000;
const SEEDS: u64 = 300;
