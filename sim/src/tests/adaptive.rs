//! Detection beyond the Send Timeout: doubts of the data plane, and their results.

use std::time::Duration;

use moorline_contexts::{Cause, Event, EventKind};

use crate::plan::{
    Attack, Chance, Change, Direction, HostPlan, Kind, Link, Pace, Plan, Port, Uplink, What,
    Workload,
};
use crate::{Outcome, run, trace};

const CUT: Duration = Duration::from_secs(20);

/// Two hosts with two uplinks each, this round-trip time, and a Send Timeout that is never reached.
pub(super) fn plan(kind: Kind, rtt: Duration) -> Plan {
    let link = Link { delay: rtt / 4, ..Link::default() };
    let uplinks = (0..2).map(|isp| Uplink { isp, out: link, inbound: link }).collect();
    let host = HostPlan { send_timeout: Duration::from_secs(15), uplinks, ..HostPlan::default() };
    let [from, to] = [0, 1].map(|host| Port { host, uplink: 0 });
    Plan {
        hosts: vec![host; 2],
        workloads: vec![Workload { from, to, start: Duration::ZERO, until: None, kind }],
        reverts_backoff: true,
        ..Plan::pair(Duration::from_secs(15))
    }
}

fn cut(mut plan: Plan) -> Plan {
    let port = Port { host: 0, uplink: 0 };
    plan.changes
        .push(Change { at: CUT, what: What::Cut { uplink: port, direction: Direction::Both } });
    plan
}

pub(super) fn sound(seed: u64, plan: &Plan) -> Outcome {
    let outcome = run(seed, plan);
    assert_eq!(outcome.violations, [], "seed {seed}\n{}", trace(seed, plan));
    outcome
}

pub(super) fn causes(outcome: &Outcome) -> Vec<Cause> {
    let cause = |event: &Event| {
        if let EventKind::Moved { cause, .. } = event.kind { Some(cause) } else { None }
    };
    outcome.events.iter().filter_map(|told| cause(&told.event)).collect()
}

#[test]
fn a_silent_cut_is_noticed_long_before_the_send_timeout() {
    let pace = Pace { octets: 200, interval: Duration::from_millis(20) };
    let stream = Kind::Stream { bytes: u64::MAX, pace: Some(pace) };
    let both_ways = Kind::Datagrams { pace, both_ways: true };
    for rtt in [4, 20, 80, 200].map(Duration::from_millis) {
        for kind in [stream, both_ways] {
            for seed in 0..4 {
                let outcome = sound(seed, &cut(plan(kind, rtt)));
                let pause = outcome.workloads[0].longest_pause.expect("a pause");
                let late = pause.to.saturating_sub(CUT);
                let most = Duration::from_millis(700) + rtt * 5;
                assert!(late <= most, "{kind:?} at {rtt:?}, seed {seed}: {late:?}");
                assert!(causes(&outcome).contains(&Cause::Suspicion), "{:?}", outcome.events);
            }
        }
    }
}

/// Only the direction of the payload fails, after a check has been answered. The receiver goes on with keepalives for
/// a Keepalive Timeout.
#[test]
fn one_way_payload_leaves_a_pair_that_loses_it_within_the_send_timeout() {
    let send_timeout = Duration::from_secs(10);
    for interval in [10, 100, 700, 2_000].map(Duration::from_millis) {
        for seed in 0..12 {
            let kind = Kind::Datagrams { pace: Pace { octets: 200, interval }, both_ways: false };
            let mut plan = plan(kind, Duration::from_millis(40));
            plan.hosts.iter_mut().for_each(|host| host.send_timeout = send_timeout);
            let at = CUT * 2 + Duration::from_millis(seed * 900);
            let Workload { from, to, .. } = plan.workloads[0];
            plan.changes.push(Change { at, what: What::CutPath { uplink: from, to_uplink: to } });
            let outcome = sound(seed, &plan);
            let pause = outcome.workloads[0].longest_pause.expect("a pause");
            let late = pause.to.saturating_sub(at);
            assert!(late <= send_timeout + interval, "{interval:?}, seed {seed}: {late:?}");
        }
    }
}

/// Both directions lose 5 % of the packets, and queues fill and empty: nothing has failed.
#[test]
fn loss_and_full_queues_move_nothing_in_an_hour() {
    let pace = Pace { octets: 1000, interval: Duration::from_millis(50) };
    let kinds = [
        Kind::Stream { bytes: u64::MAX, pace: Some(pace) },
        Kind::Requests { pace },
        Kind::Datagrams { pace, both_ways: true },
        Kind::Datagrams { pace, both_ways: false },
    ];
    let mut hints = 0;
    for (seed, kind) in (0..).zip(kinds) {
        let mut plan = plan(kind, Duration::from_millis(40));
        plan.duration = Duration::from_secs(3600);
        plan.is_full_length = true;
        for host in &mut plan.hosts {
            for uplink in &mut host.uplinks {
                for link in [&mut uplink.out, &mut uplink.inbound] {
                    // Each direction crosses two links.
                    link.loss = Chance::percent(5);
                    link.jitter = Duration::from_millis(100);
                }
            }
        }
        plan.hosts.iter_mut().for_each(|host| {
            host.uplinks.iter_mut().for_each(|uplink| uplink.inbound.loss = Chance::percent(0));
        });
        let outcome = sound(seed, &plan);
        assert_eq!(causes(&outcome), [], "{kind:?}");
        let is_hint = |event: &Event| matches!(event.kind, EventKind::Suspected { .. });
        hints += outcome.events.iter().filter(|told| is_hint(&told.event)).count();
    }
    assert!(hints > 0, "nothing was ever put to the test");
}

/// A host with a narrow uplink, and its peers. Their transfers keep the host's queues full in both directions, and 5
/// % of all packets are lost as well: nothing has failed.
#[test]
fn full_queues_and_loss_move_nothing_in_an_hour() {
    hours(0..1, &[90, 250], None);
}

/// An attacker off the path sends packets in the names of both ends all the time.
#[test]
fn full_queues_and_loss_and_an_attacker_move_nothing_in_an_hour() {
    let interval = Duration::from_millis(50);
    let attack =
        Attack { interval, overhears: false, isp: None, pretends: true, knows_ports: true };
    hours(10..11, &[90], Some(attack));
}

#[test]
#[ignore = "a minute: more hours of the same"]
fn full_queues_and_loss_move_nothing_in_many_hours() {
    hours(1..7, &[90, 150, 250], None);
}

/// Plays an hour for each seed and depth of the queue, in milliseconds.
fn hours(seeds: std::ops::Range<u64>, depths: &[u64], attack: Option<Attack>) {
    for (seed, &depth) in seeds.flat_map(|seed| depths.iter().map(move |depth| (seed, depth))) {
        let mut plan = crowded(Duration::from_millis(depth));
        plan.attack = attack;
        // The other uplink is much better, so a context that compares the two would leave.
        plan.hosts.iter_mut().for_each(|host| host.profile.leaves_worse = false);
        let outcome = run(seed, &plan);
        assert_eq!(causes(&outcome), [], "seed {seed}, {depth} ms");
        let is_hint = |event: &Event| matches!(event.kind, EventKind::Suspected { .. });
        let hints = outcome.events.iter().filter(|told| is_hint(&told.event)).count();
        assert!(hints > 100, "{hints} hints put little to the test");
        // The transfers up and down.
        for transfer in &outcome.workloads[..2] {
            let could = NARROW * plan.duration.as_secs();
            let octets = transfer.octets[0];
            assert!(octets > could / 4, "{octets} of {could}: the queues are empty");
        }
    }
}

/// The first uplink of the first host carries less than the traffic of its peers, each of which has a context.
pub(super) fn crowded(queue: Duration) -> Plan {
    let pace = |octets, millis| Pace { octets, interval: Duration::from_millis(millis) };
    let transfer = Kind::Stream { bytes: u64::MAX, pace: None };
    let kinds = [
        (transfer, true),
        (transfer, false),
        (Kind::Stream { bytes: u64::MAX, pace: Some(pace(500, 500)) }, true),
        (Kind::Datagrams { pace: pace(50, 100), both_ways: true }, true),
        (Kind::Requests { pace: pace(100, 500) }, true),
    ];
    let mut plan = plan(transfer, Duration::from_millis(40));
    let peer = plan.hosts[1].clone();
    let link = Link::clean(Duration::from_millis(10));
    let narrow = Link { rate: NARROW, queue, loss: Chance::percent(5), ..link };
    plan.hosts.truncate(1);
    plan.hosts[0].uplinks[0] = Uplink::symmetric(0, narrow);
    plan.workloads.clear();
    for (number, (kind, up)) in (1..).zip(kinds) {
        plan.hosts.push(peer.clone());
        let [here, there] = [0, number].map(|host| Port { host, uplink: 0 });
        let (from, to) = if up { (here, there) } else { (there, here) };
        // The transfers begin one after the other, so that round-trip times are measured before the queues are full.
        let start = Duration::from_millis(300) * u32::try_from(number).expect("few");
        plan.workloads.push(Workload { from, to, start, until: None, kind });
    }
    plan.duration = Duration::from_secs(3600);
    plan.is_full_length = true;
    plan
}

/// Octets a second of the narrow uplink: three full packets take 84 ms.
const NARROW: u64 = 50_000;
