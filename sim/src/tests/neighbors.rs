//! Two hosts on the same two links (decision 136). Default routes go one by one, within a moment, and come back; a link
//! flaps. One link at least works all the time.

use std::time::Duration;

use super::{first_seed, seconds, setting};
use crate::plan::{Addresses, Change, Kind, Link, Pace, Plan, Port, Uplink, What, Workload};
use crate::rng::Rng;
use crate::{Outcome, Pause, run, run_many, trace};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Shim6,
    Ilnp,
}

/// The two hosts, with traffic by the first link from either host, one way or both ways.
fn hosts(rng: &mut Rng, protocol: Protocol) -> Plan {
    let millis = Duration::from_millis;
    let pace = Pace { octets: 100 + rng.index(900), interval: millis(10 + rng.below(40)) };
    let kinds = [
        Kind::Stream { bytes: u64::MAX, pace: Some(pace) },
        Kind::Datagrams { pace, both_ways: false },
        Kind::Datagrams { pace, both_ways: true },
        Kind::Requests { pace },
    ];
    let kind = kinds[rng.index(kinds.len())];
    let jitter = rng.pick(&[0, 0, 3, 20]).unwrap_or(0);
    let link = Link { jitter: millis(jitter), ..Link::clean(millis(1 + rng.below(10))) };
    let mut plan = Plan::pair(SEND_TIMEOUT);
    if protocol == Protocol::Ilnp {
        plan = plan.with_ilnp(u64::MAX);
    }
    for host in &mut plan.hosts {
        host.uplinks = (0..2).map(|isp| Uplink::symmetric(isp, link)).collect();
        // Peers of a context verify each locator.
        let kinds = [Addresses::Hba, Addresses::Cga, Addresses::OneIdentifier];
        let count = if protocol == Protocol::Shim6 { 2 } else { 3 };
        host.addresses = kinds[rng.index(count)];
        host.report_delay = millis(rng.pick(&[0, 0, 5]).unwrap_or(0));
    }
    let from = rng.index(2);
    let [from, to] = [from, 1 - from].map(|host| Port { host, uplink: 0 });
    plan.workloads = vec![Workload { from, to, start: Duration::ZERO, until: None, kind }];
    (plan.neighbors, plan.reverts_backoff, plan.is_full_length) = (true, true, true);
    plan
}

/// The default routes of one host, or of both, go within a moment. Meanwhile the second link may flap at one end. Then
/// the routes come back, and either link flaps.
fn plan(seed: u64, protocol: Protocol) -> Plan {
    let mut rng = Rng::new(seed, 113);
    let mut plan = hosts(&mut rng, protocol);
    let mut at = seconds(8) + rng.duration(seconds(2));
    for _ in 0..1 + rng.below(3) {
        let both = rng.below(2) == 0;
        let first = rng.index(2);
        let losers: Vec<_> = if both { vec![0, 1] } else { vec![first] };
        let routes = |rng: &mut Rng, at, what: fn(Port) -> What| {
            let ports = losers.iter().flat_map(|host| [0, 1].map(|uplink| (*host, uplink)));
            let change = |(host, uplink)| Change {
                at: at + rng.duration(MOMENT),
                what: what(Port { host, uplink }),
            };
            ports.map(change).collect::<Vec<_>>()
        };
        plan.changes.extend(routes(&mut rng, at, |uplink| What::RouteRemoved { uplink }));
        at += MOMENT + rng.duration(seconds(6));
        if rng.below(2) == 0 {
            let host = rng.index(2);
            plan.changes.extend(flap(&mut rng, &mut at, Port { host, uplink: 1 }));
        }
        plan.changes.extend(routes(&mut rng, at, |uplink| What::RouteAdded { uplink }));
        at += MOMENT + rng.duration(seconds(6));
        let uplink = Port { host: rng.index(2), uplink: rng.index(2) };
        plan.changes.extend(flap(&mut rng, &mut at, uplink));
    }
    plan.changes.sort_by_key(|change| change.at);
    plan.duration = at + seconds(20);
    plan
}

/// A link loses its carrier at one end for a while.
fn flap(rng: &mut Rng, at: &mut Duration, uplink: Port) -> [Change; 2] {
    let down = Change { at: *at, what: What::CarrierDown { uplink } };
    *at += Duration::from_millis(50) + rng.duration(seconds(3));
    let up = Change { at: *at, what: What::CarrierUp { uplink } };
    *at += rng.duration(seconds(4));
    [down, up]
}

/// The longest time without a packet, in the directions that have payload. The end of the run ends a time, too: the
/// traffic goes on until then.
fn longest_gap(plan: &Plan, outcome: &Outcome) -> Duration {
    let is_one_way = matches!(plan.workloads[0].kind, Kind::Datagrams { both_ways: false, .. });
    let gaps = outcome.workloads[0].longest_gaps.iter().take(if is_one_way { 1 } else { 2 });
    let length = |gap: &Option<Pause>| gap.map_or(plan.duration, |gap| gap.to - gap.from);
    gaps.map(length).max().expect("a direction")
}

/// Both links lose their carrier, for good, before any traffic or while traffic flows.
#[test]
fn traffic_that_never_begins_or_stops_for_good_has_a_gap_until_the_end() {
    for (at, gap) in [(Duration::ZERO, seconds(25)), (seconds(10), seconds(15))] {
        let mut plan = hosts(&mut Rng::new(1, 113), Protocol::Ilnp);
        plan.duration = seconds(30);
        let down = |uplink| What::CarrierDown { uplink: Port { host: 0, uplink } };
        plan.changes = [0, 1].map(|uplink| Change { at, what: down(uplink) }).into();
        let longest = longest_gap(&plan, &run(1, &plan));
        assert!(longest >= gap, "{longest:?}");
    }
}

#[test]
fn sessions_of_neighbors_go_on_while_default_routes_come_and_go() {
    go_on(Protocol::Ilnp);
}

#[test]
fn contexts_of_neighbors_go_on_while_default_routes_come_and_go() {
    go_on(Protocol::Shim6);
}

#[track_caller]
fn go_on(protocol: Protocol) {
    let (first, seeds) = (first_seed(), setting("MOORLINE_SEEDS").unwrap_or(SEEDS));
    let (mut with_session, mut broken) = (0, Vec::new());
    let total = run_many(
        first..first + seeds,
        |seed| run(seed, &plan(seed, protocol)),
        |seed, outcome| {
            with_session += u64::from(outcome.sessions > 0);
            let gap = longest_gap(&plan(seed, protocol), outcome);
            if !outcome.violations.is_empty() || gap > LONGEST_GAP {
                broken.push((seed, gap, outcome.violations.first().cloned()));
            }
            true
        },
    );
    if let Some((seed, ..)) = broken.first() {
        panic!("{broken:?}\n{}", trace(*seed, &plan(*seed, protocol)));
    }
    let sessions = if protocol == Protocol::Ilnp { seeds } else { 0 };
    assert_eq!((total.seeds, with_session), (seeds, sessions));
}

const SEEDS: u64 = 400;
const SEND_TIMEOUT: Duration = Duration::from_secs(2);
/// Time within which the default routes of a host go.
const MOMENT: Duration = Duration::from_millis(300);
/// Each host knows of all changes at its end, and tells the other.
const LONGEST_GAP: Duration = Duration::from_secs(2);
