use super::*;
use crate::plan::{Failure, Fault, LinkPlan};

fn end(host: usize, isp: usize) -> End {
    End { host, isp }
}

fn workload(traffic: Traffic) -> Workload {
    Workload { traffic, from: end(0, 0), to: end(1, 0), start: Duration::ZERO }
}

fn stream() -> Workload {
    workload(Traffic::Stream { octets: u64::MAX, rate: 50_000 })
}

const EACH: Duration = Duration::from_millis(100);

fn all() -> Vec<Workload> {
    let upload = stream();
    let download = Workload { from: upload.to, to: upload.from, ..upload };
    let requests = workload(Traffic::Requests { interval: EACH });
    let one_way = workload(Traffic::OneWay { interval: EACH });
    vec![upload, download, requests, one_way]
}

fn fault(failure: Failure) -> Fault {
    Fault { at: Duration::from_secs(8), until: None, failure }
}

/// Each kind of traffic alone, so that the packets of one do not answer for another's.
fn each_survives(faults: &[Fault], bound: Duration) {
    for workload in all() {
        let plan = Plan { workloads: vec![workload], faults: faults.to_vec(), ..Plan::pair() };
        for seed in 0..4 {
            let outcome = run(seed, &plan);
            let complaint = outcome.complaint(seed, &plan.workloads);
            assert!(outcome.workloads[0].was_protected, "{workload:?} {complaint}");
            assert!(outcome.workloads[0].could_go_on, "{workload:?} {complaint}");
            assert!(outcome.survived, "{faults:?} {workload:?} {complaint}");
            let late = outcome.recovered_after;
            assert!(late < bound, "{faults:?} {workload:?} seed {seed}: {late:?}");
        }
    }
}

/// Send Timeout of `Plan::pair`, four probes and a retransmission timeout that had grown to 2 s.
const SILENT_BOUND: Duration = Duration::from_millis(2 * 2000 + 4 * 500 + 2000);

#[test]
fn silent_death_of_an_isp_at_either_end() {
    each_survives(&[fault(Failure::Silent(end(0, 0)))], SILENT_BOUND);
    each_survives(&[fault(Failure::Silent(end(1, 0)))], SILENT_BOUND);
    let both = [fault(Failure::Silent(end(0, 0))), fault(Failure::Silent(end(1, 0)))];
    each_survives(&both, SILENT_BOUND);
}

#[test]
fn death_in_one_direction() {
    for failure in [
        Failure::Outbound(end(0, 0)),
        Failure::Inbound(end(0, 0)),
        Failure::Outbound(end(1, 0)),
        Failure::Inbound(end(1, 0)),
        Failure::Path { from: end(0, 0), to: end(1, 0) },
        Failure::Path { from: end(1, 0), to: end(0, 0) },
    ] {
        each_survives(&[fault(failure)], SILENT_BOUND);
    }
}

#[test]
fn what_the_host_sees_itself() {
    for host in 0..2 {
        each_survives(&[fault(Failure::Carrier(end(host, 0)))], SILENT_BOUND);
        each_survives(&[fault(Failure::Address(end(host, 0)))], SILENT_BOUND);
    }
}

#[test]
fn only_one_pair_is_left_each_way_and_they_differ() {
    // A reaches B from 1 to 0, B reaches A from 1 to 0: unidirectional paths (RFC 5534 s4).
    let mut faults = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        for (source, destination) in [(0, 0), (0, 1), (1, 1)] {
            let failure = Failure::Path { from: end(from, source), to: end(to, destination) };
            faults.push(fault(failure));
        }
    }
    each_survives(&faults, Duration::from_secs(30));
}

#[test]
fn a_total_outage_is_survived_once_anything_works_again() {
    let both = |isp, until| Fault { until, ..fault(Failure::Silent(end(0, isp))) };
    each_survives(
        &[both(0, None), both(1, Some(Duration::from_secs(20)))],
        Duration::from_secs(60),
    );
}

#[test]
fn a_killed_daemon_leaves_traffic_alone_and_its_successor_protects_it() {
    let second = Duration::from_secs(1);
    for host in 0..2 {
        let killed = |at: u32, until: u32| Fault {
            at: second * at,
            until: Some(second * until),
            failure: Failure::Daemon { host },
        };
        // Before anything fails; and after the context has moved, which it then stays.
        each_survives(&[killed(4, 6), fault(Failure::Silent(end(0, 0)))], SILENT_BOUND);
        let moved = [fault(Failure::Silent(end(0, 0))), killed(20, 25)];
        each_survives(&moved, second / 2);
        // While it explores: its successor knows none of the probes that the peer answers, so this may
        // last until the peer's own exploration comes round again, with the backoff it has by then.
        each_survives(&[fault(Failure::Silent(end(0, 0))), killed(10, 11)], second * 60);
    }
}

#[test]
fn nothing_fails_and_nothing_moves() {
    // Each alone too: one-way traffic lives on keepalives.
    let mut mixes: Vec<_> = all().into_iter().map(|workload| vec![workload]).collect();
    mixes.push(all());
    for workloads in mixes {
        let plan = Plan { workloads, ..Plan::pair() };
        let mut world = World::new(plan, 1);
        world.run_until(BEGIN + Duration::from_secs(120));
        assert_eq!(world.oracle.violations, []);
        let is_trouble =
            |event: &Event| matches!(event, Event::StateChanged { .. } | Event::Moved { .. });
        assert!(!world.events.iter().any(|(_, _, event)| is_trouble(event)), "{:?}", world.events);
        for node in &world.nodes {
            assert_eq!(node.host.contexts().count(), 1);
            assert_eq!(node.host.drops().iter().count(), 0);
            assert_eq!(node.plane.drops().iter().count(), 0);
        }
    }
}

#[test]
fn a_peer_without_moorline_gets_plain_ipv6_and_is_remembered() {
    for plain in 0..2 {
        let plan = Plan { plain_hosts: vec![plain], workloads: all(), ..Plan::pair() };
        let mut world = World::new(plan, 1);
        world.run_until(BEGIN + Duration::from_secs(120));
        assert_eq!(world.oracle.violations, []);
        for index in 0..4 {
            assert!(flows(&world, index));
        }
        let events: Vec<_> = world.events.iter().map(|(_, _, event)| event).collect();
        use moorline_host::Failure;
        assert!(
            matches!(
                events[..],
                [Event::Initiated { .. }, Event::Failed { failure: Failure::NoSupport, .. }]
            ),
            "{events:?}"
        );
    }
}

#[test]
fn bad_links_lose_no_octet() {
    let link = LinkPlan {
        jitter: Duration::from_millis(30),
        loss_ppm: 50_000,
        duplicate_ppm: 50_000,
        reorder_ppm: 50_000,
        ..LinkPlan::default()
    };
    let traffic = Traffic::Stream { octets: 300_000, rate: 50_000 };
    let faults = vec![fault(Failure::Silent(end(0, 0)))];
    let plan = Plan { link, workloads: vec![workload(traffic)], faults, ..Plan::pair() };
    for seed in 0..8 {
        let mut world = World::new(plan.clone(), seed);
        world.run_until(BEGIN + Duration::from_secs(300));
        assert_eq!(world.oracle.violations, []);
        assert_eq!(octets(&world, 0), 300_000);
    }
}

#[test]
fn without_moorline_the_same_failure_is_the_end() {
    let faults = vec![fault(Failure::Silent(end(0, 0)))];
    let plan = Plan { plain_hosts: vec![0, 1], workloads: all(), faults, ..Plan::pair() };
    let outcome = run(1, &plan);
    for workload in outcome.workloads {
        assert!(!workload.was_protected && !workload.could_go_on && !workload.went_on);
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_do_not() {
    let plan = Plan::random(7);
    let outcome = run(7, &plan);
    assert_eq!(run(7, &Plan::random(7)), outcome);
    assert_ne!(run(8, &plan).fingerprint, outcome.fingerprint);
}
