//! Host stacks in a process with Shim6 beneath their own TCP, in random networks: against hosts with a daemon, and among themselves.

use std::time::Duration;

use moorline_contexts::EventKind;

use super::seconds;
use crate::plan::{Chance, Change, Direction, Kind, Pace, Plan, Port, What, Workload};
use crate::{HostEvent, Outcome, random_stack_plan, run, run_many, trace};

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

/// Streams and datagrams arrive between host stacks and from and to hosts with a daemon, by contexts that have moved, and after a restart.
#[test]
fn host_stacks_and_daemons_have_connections_that_move() {
    let (mut whole, mut fragments) = ([0; 3], [0; 3]);
    let (mut moved, mut too_big, mut renewed, mut sessions) = (0, 0, 0, 0);
    run_many(
        0..SEEDS * 3,
        |seed| run(seed, &random_stack_plan(seed)),
        |seed, outcome| {
            let plan = random_stack_plan(seed);
            for (workload, outcome) in plan.workloads.iter().zip(&outcome.workloads) {
                let stacks = stacks_of(&plan, [workload.from.host, workload.to.host]);
                whole[stacks] += u32::from(outcome.intact == Some(true));
                let is_cut = is_in_fragments(workload.kind) && outcome.octets[0] > 0;
                fragments[stacks] += u32::from(is_cut);
            }
            let of_stack = |told: &&HostEvent| plan.hosts[told.host].stack;
            let events = || outcome.events.iter().filter(of_stack).map(|told| told.event.kind);
            moved += events().filter(|kind| matches!(kind, EventKind::Moved { .. })).count();
            renewed += events().filter(|kind| matches!(kind, EventKind::Renewed)).count();
            too_big += outcome.too_big;
            if plan.hosts.iter().any(|host| host.stack && host.ilnp) {
                sessions += outcome.sessions;
            }
            true
        },
    );
    let [_, with_daemon, among_stacks] = whole;
    assert!(with_daemon > 0 && among_stacks > 0 && moved > 0, "{whole:?}, {moved} moves");
    let [_, with_daemon, among_stacks] = fragments;
    assert!(with_daemon > 0 && among_stacks > 0 && too_big > 0, "{fragments:?}, {too_big}");
    assert!(renewed > 0 && sessions > 0, "{renewed} renewed contexts, {sessions} sessions");
}

/// A link becomes too small amid a stream, and the stream moves to a path that is smaller yet, with a payload header.
#[test]
fn streams_get_through_links_that_are_too_small_for_their_packets() {
    let pace = Pace { octets: 20_000, interval: Duration::from_millis(100) };
    let kind = Kind::Stream { bytes: 4_000_000, pace: Some(pace) };
    for stacks in [[true, true], [true, false], [false, true], [false, false]] {
        for seed in seeds() {
            let mut plan = pair(stacks, kind);
            plan.hosts[0].uplinks[0].out.mtu = 1380;
            plan.hosts[0].uplinks[1].out.mtu = 1280;
            plan.changes = vec![
                Change { at: seconds(12), what: What::Mtu { uplink: port(0, 0), mtu: 1300 } },
                cut(16, 0),
            ];
            let outcome = sound(seed, &plan);
            assert_eq!(outcome.workloads[0].intact, Some(true), "{stacks:?}, seed {seed}");
            assert!(outcome.too_big >= 3, "{stacks:?}, seed {seed}: {}", outcome.too_big);
            assert_eq!(moves_of(&outcome, 0), 1, "{stacks:?}, seed {seed}");
        }
    }
}

/// Datagrams of several fragments, on links that lose, repeat and reorder packets, through a change of the MTU and a move.
#[test]
fn datagrams_arrive_in_fragments_as_they_were_sent() {
    let pace = Pace { octets: 5000, interval: Duration::from_millis(100) };
    let kinds = [
        Kind::Requests { pace },
        Kind::Datagrams { pace, both_ways: true },
        Kind::Datagrams { pace, both_ways: false },
    ];
    for (seed, kind) in seeds().flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        for stacks in [[true, true], [true, false], [false, true]] {
            let mut plan = pair(stacks, kind);
            for uplink in plan.hosts.iter_mut().flat_map(|host| &mut host.uplinks) {
                for link in [&mut uplink.out, &mut uplink.inbound] {
                    (link.loss, link.duplication) = (Chance(5_000), Chance(10_000));
                    (link.reordering, link.jitter) = (Chance(10_000), Duration::from_millis(5));
                }
            }
            plan.changes = vec![
                Change { at: seconds(12), what: What::Mtu { uplink: port(0, 0), mtu: 1300 } },
                Change { at: seconds(13), what: What::Mtu { uplink: port(0, 1), mtu: 1280 } },
                cut(16, 0),
            ];
            let outcome = sound(seed, &plan);
            let [there, back] = outcome.workloads[0].octets;
            assert!(there > 1_000_000, "{kind:?}, {stacks:?}, seed {seed}: {there}");
            let comes_back = !matches!(kind, Kind::Datagrams { both_ways: false, .. });
            assert!(!comes_back || back > 1_000_000, "{kind:?}, {stacks:?}, seed {seed}: {back}");
            assert!(outcome.too_big >= 2, "{kind:?}, {stacks:?}, seed {seed}");
        }
    }
}

/// A host stack restarts while its traffic takes another path. It has the addresses of before, and nothing else.
#[test]
fn a_host_stack_that_restarts_gets_its_context_again_and_has_new_streams() {
    let pace = Pace { octets: 3000, interval: Duration::from_millis(100) };
    let kinds = [
        Kind::Stream { bytes: 700_000, pace: Some(pace) },
        Kind::Datagrams { pace, both_ways: true },
        Kind::Requests { pace },
    ];
    for (seed, kind) in seeds().flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        for (stacks, host) in
            [([true, true], 0), ([true, true], 1), ([true, false], 0), ([false, true], 1)]
        {
            let mut plan = pair(stacks, kind);
            plan.changes = vec![
                cut(14, 0),
                Change { at: seconds(24), what: What::HealAll {} },
                Change { at: seconds(25), what: What::Reboot { host } },
            ];
            let outcome = sound(seed, &plan);
            let case = format!("{kind:?}, {stacks:?}, {host} restarts, seed {seed}");
            let is_again = |told: &&HostEvent| {
                let established = matches!(told.event.kind, EventKind::Established { .. });
                told.host == host && established
            };
            let contexts: Vec<_> = outcome.events.iter().filter(is_again).collect();
            let [before, .., after] = contexts.as_slice() else { panic!("{case}: {contexts:?}") };
            assert_eq!(before.event.ulids, after.event.ulids, "{case}");
            assert!(after.at > seconds(25), "{case}");
            if matches!(kind, Kind::Stream { .. }) {
                assert_eq!(outcome.workloads[0].intact, Some(true), "{case}");
            } else {
                let samples = &outcome.workloads[0].samples;
                let late = samples.iter().skip(400).sum::<u64>();
                assert!(late > 100_000, "{case}: {late} octets after 40 s");
            }
        }
    }
}

/// Hosts with ILNP have a session in place of a context, and it moves.
#[test]
fn streams_outlive_an_isp_by_sessions_of_ilnp() {
    let pace = Pace { octets: 20_000, interval: Duration::from_millis(100) };
    let kind = Kind::Stream { bytes: 4_000_000, pace: Some(pace) };
    for stacks in [[true, true], [true, false], [false, true]] {
        for seed in seeds() {
            let mut plan = pair(stacks, kind).with_ilnp(u64::MAX);
            plan.hosts[0].uplinks[1].out.mtu = 1280;
            plan.changes = vec![cut(12, 0)];
            let outcome = sound(seed, &plan);
            assert_eq!(outcome.workloads[0].intact, Some(true), "{stacks:?}, seed {seed}");
            assert!(outcome.sessions >= 2, "{stacks:?}, seed {seed}: {}", outcome.sessions);
            let is_there =
                |told: &HostEvent| matches!(told.event.kind, EventKind::Established { .. });
            assert!(!outcome.events.iter().any(is_there), "{stacks:?}, seed {seed}: a context");
        }
    }
}

/// Plays the same schedules with daemons in place of the host stacks, and prints both results: numbers and longest recovery. `MOORLINE_SEEDS` has
/// more of them played.
#[test]
fn host_stacks_and_daemons_recover_in_the_same_schedules() {
    let (first, seeds) = (super::first_seed(), super::setting("MOORLINE_SEEDS").unwrap_or(SEEDS));
    let play = |plan: &(dyn Fn(u64) -> Plan + Sync)| {
        run_many(first..first + seeds, |seed| run(seed, &plan(seed)), |_, _| true)
    };
    let (stacks, daemons) = (play(&random_stack_plan), play(&|seed| with_daemons(seed)));
    println!("{first}: {stacks:?}\n{daemons:?}");
    assert_eq!((stacks.violations, daemons.violations), (0, 0), "{stacks:?}\n{daemons:?}");
    assert!(stacks.recovered > 0 && daemons.recovered > 0, "{stacks:?}\n{daemons:?}");
}

/// The plan of a seed with daemons in place of host stacks. The model does not cut datagrams.
fn with_daemons(seed: u64) -> Plan {
    let mut plan = random_stack_plan(seed);
    plan.hosts.iter_mut().for_each(|host| host.stack = false);
    for workload in &mut plan.workloads {
        if let Kind::Requests { pace } | Kind::Datagrams { pace, .. } = &mut workload.kind {
            pace.octets = pace.octets.min(1200);
        }
    }
    plan
}

/// A pair of hosts, some of them host stacks, with traffic from the first to the second one.
fn pair(stacks: [bool; 2], kind: Kind) -> Plan {
    let mut plan = Plan::pair(seconds(3));
    for (host, is_stack) in plan.hosts.iter_mut().zip(stacks) {
        host.stack = is_stack;
    }
    let (from, to, start) = (port(0, 0), port(1, 0), seconds(6));
    plan.workloads = vec![Workload { from, to, start, until: None, kind }];
    (plan.duration, plan.is_full_length) = (seconds(60), true);
    plan
}

fn sound(seed: u64, plan: &Plan) -> Outcome {
    let outcome = run(seed, plan);
    assert_eq!(outcome.violations, [], "seed {seed}\n{}\n{}", plan.to_toml(), trace(seed, plan));
    outcome
}

fn cut(at: u64, host: usize) -> Change {
    let what = What::Cut { uplink: port(host, 0), direction: Direction::Both };
    Change { at: seconds(at), what }
}

const fn port(host: usize, uplink: usize) -> Port {
    Port { host, uplink }
}

/// Number of times that contexts of a host have moved.
fn moves_of(outcome: &Outcome, host: usize) -> usize {
    let is_move =
        |told: &&HostEvent| told.host == host && matches!(told.event.kind, EventKind::Moved { .. });
    outcome.events.iter().filter(is_move).count()
}

fn is_in_fragments(kind: Kind) -> bool {
    match kind {
        Kind::Stream { .. } => false,
        Kind::Requests { pace } | Kind::Datagrams { pace, .. } => pace.octets > 1500,
    }
}

fn seeds() -> std::ops::Range<u64> {
    let first = super::first_seed();
    first..first + 2
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
