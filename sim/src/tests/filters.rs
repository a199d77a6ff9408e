//! Firewalls that drop protocol 140 and pass plain IPv6 (decision 208). A connection without Moorline notices nothing.

use std::time::Duration;

use moorline_contexts::Profile;

use super::adaptive::plan;
use super::seconds;
use crate::outcome::{Rule, SAMPLE};
use crate::plan::{Change, Direction, Kind, Pace, Plan, Port, What};
use crate::rng::Rng;
use crate::{Outcome, run, trace};

const PACE: Pace = Pace { octets: 200, interval: Duration::from_millis(20) };

/// The firewalls of the first host begin to drop protocol 140, pass it, and drop it again. `cut`: the host whose first
/// uplink is dead for 5 s while they drop it.
fn filtered(seed: u64, kind: Kind, direction: Direction, cut: Option<usize>) -> Plan {
    let mut rng = Rng::new(seed, 208);
    let mut plan = plan(kind, Duration::from_millis(40));
    if seed % 2 == 1 {
        let one = &mut plan.workloads[0];
        (one.from, one.to) = (one.to, one.from);
    }
    let standby_interval = if seed % 4 < 2 { seconds(5) } else { seconds(60) };
    let profile = Profile { standby_interval, ..Profile::default() };
    plan.hosts.iter_mut().for_each(|host| host.profile = profile);
    let from = seconds(25) + rng.duration(seconds(20));
    let to = from + seconds(20) + rng.duration(seconds(30));
    let again = to + seconds(1) + rng.duration(seconds(8));
    let last = again + seconds(25);
    let on = |uplink| What::Filter { uplink, direction };
    let off = |uplink| What::FilterEnd { uplink };
    let ports = [0, 1].map(|uplink| Port { host: 0, uplink });
    let mut changes = Vec::new();
    for (at, ends) in [(from, false), (to, true), (again, false), (last, true)] {
        let what = |port| if ends { off(port) } else { on(port) };
        changes.extend(ports.map(|port| Change { at, what: what(port) }));
    }
    if let Some(host) = cut {
        let uplink = Port { host, uplink: 0 };
        let at = from + seconds(3) + rng.duration(seconds(5));
        changes.push(Change { at, what: What::Cut { uplink, direction: Direction::Both } });
        changes.push(Change { at: at + seconds(5), what: What::Heal { uplink } });
    }
    changes.sort_by_key(|change| change.at);
    plan.changes = changes;
    (plan.duration, plan.is_full_length) = (last + seconds(40), true);
    plan
}

/// The same plan between hosts without Moorline.
fn plain(seed: u64, plan: &Plan) -> Outcome {
    let mut plan = plan.clone();
    plan.hosts.iter_mut().for_each(|host| host.moorline = false);
    run(seed, &plan)
}

/// The longest time in which payload arrived at the far side without Moorline, and none with Moorline.
fn dark(with: &Outcome, without: &Outcome) -> Duration {
    let samples = |outcome: &Outcome| outcome.workloads[0].samples.clone();
    let (with, without) = (samples(with), samples(without));
    let (mut longest, mut run) = (0, 0);
    for (place, octets) in without.iter().enumerate() {
        let is_there = with.get(place).is_some_and(|octets| *octets > 0);
        run = if is_there || *octets == 0 { 0 } else { run + 1 };
        longest = longest.max(run);
    }
    SAMPLE * longest
}

#[test]
fn payload_that_plain_ipv6_carries_is_not_dark_for_long_while_firewalls_drop_protocol_140() {
    let stream = Kind::Stream { bytes: u64::MAX, pace: Some(PACE) };
    let datagrams = |both_ways| Kind::Datagrams { pace: PACE, both_ways };
    let mut late = Vec::new();
    for kind in [stream, datagrams(true), datagrams(false)] {
        for direction in [Direction::Both, Direction::Out, Direction::In] {
            for cut in [None, Some(0), Some(1)] {
                for seed in 0..SEEDS {
                    let plan = filtered(seed, kind, direction, cut);
                    let outcome = run(seed, &plan);
                    let broken = outcome.violations.iter().find(|one| one.rule != Rule::Recovery);
                    assert_eq!(broken, None, "seed {seed}\n{}", trace(seed, &plan));
                    let dark = dark(&outcome, &plain(seed, &plan));
                    if dark > most(kind) {
                        late.push((dark, kind, direction, cut, seed));
                    }
                }
            }
        }
    }
    late.sort_by_key(|one| one.0);
    let last: Vec<_> = late.iter().rev().take(5).collect();
    assert!(late.is_empty(), "{}: {last:?}", late.len());
}

/// The firewall of the pair in use begins to drop protocol 140, and the other firewall of the same host 4 to 10 s later,
/// when payload has moved. Any two uplinks are the ULIDs.
fn one_by_one(seed: u64) -> Plan {
    let mut rng = Rng::new(seed, 209);
    let stream = Kind::Stream { bytes: u64::MAX, pace: Some(PACE) };
    let mut plan = plan(stream, Duration::from_millis(40));
    plan.hosts.iter_mut().for_each(|host| host.send_timeout = seconds(10));
    let one = &mut plan.workloads[0];
    (one.from.uplink, one.to.uplink) = (rng.index(2), rng.index(2));
    let used = if rng.below(2) == 0 { one.from } else { one.to };
    let other = Port { uplink: 1 - used.uplink, ..used };
    let mut at = seconds(20) + rng.duration(seconds(20));
    for uplink in [used, other] {
        let what = What::Filter { uplink, direction: Direction::Both };
        plan.changes.push(Change { at, what });
        at += seconds(4) + rng.duration(seconds(6));
    }
    at += seconds(30);
    plan.changes
        .extend([used, other].map(|uplink| Change { at, what: What::FilterEnd { uplink } }));
    (plan.duration, plan.is_full_length) = (at + seconds(20), true);
    plan
}

/// One host finds first that no pair answers, and takes the ULIDs. The other host then hears its payload there, while its own
/// acknowledgements are lost behind the header.
#[test]
fn a_stream_that_has_moved_is_back_on_the_ulids_when_no_pair_passes_protocol_140() {
    let mut late = Vec::new();
    for seed in 0..32 {
        let plan = one_by_one(seed);
        let dark = dark(&run(seed, &plan), &plain(seed, &plan));
        if dark > MOST_MOVED {
            late.push((dark, seed));
        }
    }
    late.sort();
    assert!(late.is_empty(), "{}: {late:?}", late.len());
}

/// A trial of each host and the time for an answer, one host after the other; then TCP waits for its timer.
const MOST_MOVED: Duration = seconds(12);
const SEEDS: u64 = 8;
/// TCP waits for its retransmission timer, which has doubled, after the pair is found.
const fn most(kind: Kind) -> Duration {
    match kind {
        Kind::Stream { .. } => seconds(3),
        Kind::Datagrams { .. } | Kind::Requests { .. } => seconds(2),
    }
}
