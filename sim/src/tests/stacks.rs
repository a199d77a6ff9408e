//! Host stacks in a process with Shim6 beneath their own TCP, in random networks: against hosts with a daemon, and among themselves.

use moorline_contexts::EventKind;

use crate::plan::Plan;
use crate::{HostEvent, random_stack_plan, run, run_many, trace};

#[test]
fn no_rule_is_broken_where_hosts_are_host_stacks() {
    let first = super::first_seed();
    let total = run_many(
        first..first + SEEDS,
        |seed| run(seed, &random_stack_plan(seed)),
        |_, outcome| outcome.violations.is_empty(),
    );
    if let Some(seed) = total.first_failing {
        panic!("{total:?}\n{}", trace(seed, &random_stack_plan(seed)));
    }
    assert!(total.recovered > 0 && total.seeds == SEEDS, "{total:?}");
}

/// Streams arrive whole between host stacks and from and to hosts with a daemon, by contexts that have moved.
#[test]
fn host_stacks_and_daemons_have_connections_that_move() {
    let mut whole = [0; 3];
    let mut moved = 0;
    run_many(
        0..SEEDS * 3,
        |seed| run(seed, &random_stack_plan(seed)),
        |seed, outcome| {
            let plan = random_stack_plan(seed);
            for (workload, outcome) in plan.workloads.iter().zip(&outcome.workloads) {
                let stacks = stacks_of(&plan, [workload.from.host, workload.to.host]);
                whole[stacks] += u32::from(outcome.intact == Some(true));
            }
            let is_move = |told: &&HostEvent| matches!(told.event.kind, EventKind::Moved { .. });
            let of_stack = |told: &&HostEvent| plan.hosts[told.host].stack;
            moved += outcome.events.iter().filter(is_move).filter(of_stack).count();
            true
        },
    );
    let [_, with_daemon, among_stacks] = whole;
    assert!(with_daemon > 0 && among_stacks > 0 && moved > 0, "{whole:?}, {moved} moves");
}

/// Number of host stacks among these hosts.
fn stacks_of(plan: &Plan, hosts: [usize; 2]) -> usize {
    hosts.into_iter().filter(|host| plan.hosts[*host].stack).count()
}

const SEEDS: u64 = 20;

/// A listener gave up a connection 5 ms after it had answered a SYN that had come again after a minute, and reset it.
#[test]
fn a_listener_that_answers_a_late_syn_waits_for_the_answer() {
    let plan = random_stack_plan(123_017);
    assert_eq!(run(123_017, &plan).violations, [], "{}", trace(123_017, &plan));
}
