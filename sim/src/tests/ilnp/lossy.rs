//! The ISP in use dies silently, and the only other ISP loses packets in both directions (decision 215).

use std::ops::Range;
use std::time::Duration;

use super::{IlnpChange, IlnpHost, IlnpPlan, IlnpTraffic, clean, plan};
use crate::rng::Rng;
use crate::tests::first_seed;

/// Time between the failure and the end of the run.
const AFTER: Duration = Duration::from_secs(60);

/// The ISP in use of both hosts, or of one, dies, and the other ISP of these hosts loses `percent` of the packets in each
/// direction.
fn lossy(seed: u64, rtt: u64, percent: u32, traffic: IlnpTraffic) -> IlnpPlan {
    let mut rng = Rng::new(seed, 215);
    let prefers_none = rng.below(2) == 0;
    let hosts: &'static [usize] = [&[0, 1][..], &[0], &[1]][rng.index(3)];
    let at = Duration::from_secs(20) + rng.duration(Duration::from_secs(10));
    let before = Duration::from_secs(10 * rng.below(2));
    let used = u8::from(!prefers_none);
    let gain = |host| (Duration::from_secs(5), IlnpChange::Gain { host, locator: 1 });
    let weaken = IlnpChange::Weaken { hosts, locator: 1 - used, loss: percent * 10 };
    let cut = hosts.iter().map(|host| (at, IlnpChange::Cut { host: *host, locator: used }));
    let changes = [gain(0), gain(1), (at - before, weaken)].into_iter().chain(cut).collect();
    let base = plan(seed, 0);
    IlnpPlan {
        delay: Duration::from_millis(rtt / 2),
        interval: Duration::from_millis(20),
        hosts: [IlnpHost { prefers_none, ..base.hosts[0] }; 2],
        duration: at + AFTER,
        traffic,
        changes,
        ..base
    }
}

/// The longest time without a packet in either direction.
fn dark(plan: &IlnpPlan) -> Duration {
    let outcome = clean(plan);
    outcome.longest_pause.max(outcome.pause_at_end)
}

/// The longest times without a packet of all seeds, the longest one first, each with its seed.
fn all_dark(
    seeds: Range<u64>,
    rtt: u64,
    percent: u32,
    traffic: IlnpTraffic,
) -> Vec<(Duration, u64)> {
    let mut all: Vec<_> =
        seeds.map(|seed| (dark(&lossy(seed, rtt, percent, traffic)), seed)).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all
}

/// The pauses of all seeds that are longer than this, with round trip and seed.
fn late(percent: u32, longest: Duration, traffic: IlnpTraffic) -> Vec<(Duration, u64, u64)> {
    let mut late = Vec::new();
    for rtt in RTTS {
        let all = all_dark(first_seed()..first_seed() + SEEDS, rtt, percent, traffic);
        let all = all.into_iter().filter(|(dark, _)| *dark > longest);
        late.extend(all.map(|(dark, seed)| (dark, rtt, seed)));
    }
    late
}

/// One of four questions by the only pair that works brings an answer.
#[test]
fn a_session_is_seldom_dark_for_long_on_an_isp_that_loses_half_of_the_packets() {
    let late = late(50, Duration::from_secs(8), IlnpTraffic::Datagrams);
    assert!(late.len() <= MOST_LATE, "{}: {late:?}", late.len());
}

#[test]
fn a_session_leaves_for_an_isp_that_loses_three_in_ten_packets_within_six_seconds() {
    assert_eq!(late(30, Duration::from_secs(6), IlnpTraffic::Datagrams), []);
}

/// The server sends nothing by itself.
#[test]
fn requests_are_seldom_without_answers_for_long_on_an_isp_that_loses_half_of_the_packets() {
    let late = late(50, Duration::from_secs(8), IlnpTraffic::Requests);
    assert!(late.len() <= MOST_LATE, "{}: {late:?}", late.len());
}

#[test]
fn requests_have_answers_again_within_six_seconds_on_an_isp_that_loses_three_in_ten_packets() {
    assert_eq!(late(30, Duration::from_secs(6), IlnpTraffic::Requests), []);
}

/// The figures of decisions 215 and 222: see them with `--nocapture`, and `MOORLINE_FIRST_SEED=1000`.
#[test]
#[ignore = "takes minutes, and prints figures"]
fn how_long_sessions_are_dark_on_an_isp_that_loses_packets() {
    for (traffic, percent) in [
        (IlnpTraffic::Datagrams, 50),
        (IlnpTraffic::Datagrams, 30),
        (IlnpTraffic::Requests, 50),
        (IlnpTraffic::Requests, 30),
    ] {
        for rtt in RTTS {
            let all = all_dark(first_seed()..first_seed() + MANY_SEEDS, rtt, percent, traffic);
            let over = |secs| all.iter().filter(|(dark, _)| dark.as_secs_f64() > secs).count();
            let (tenth, longest) = (all[all.len() / 10], all[0]);
            let (five, ten) = (over(5.0), over(10.0));
            eprintln!(
                "{traffic:?} {percent} % {rtt} ms: {five} > 5 s, {ten} > 10 s of {MANY_SEEDS}; 90th {tenth:?}, longest {longest:?}"
            );
        }
    }
}

const RTTS: [u64; 2] = [20, 160];
const SEEDS: u64 = 40;
const MANY_SEEDS: u64 = 300;
/// Of 80 runs.
const MOST_LATE: usize = 8;
