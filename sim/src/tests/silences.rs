//! The first ISP loses packets, and the second one is silent for a moment again and again (decision 177).

use std::time::Duration;

use moorline_contexts::EventKind;
use moorline_types::LocatorPair;

use super::adaptive::{plan, sound};
use super::{seconds, uplink_of};
use crate::Outcome;
use crate::plan::{Chance, Change, Kind, Link, Pace, Plan, Uplink, What};
use crate::rng::Rng;

/// Times in which the second ISP is silent.
type Silences = Vec<[Duration; 2]>;

/// A TCP stream alone. The first uplinks of both hosts lose this many packets of a thousand each way. From the second
/// minute on the second ISP is silent for 1.5 s again and again.
fn silent(seed: u64, loss: [u32; 2]) -> (Plan, Silences) {
    let pace = Pace { octets: 1000, interval: Duration::from_millis(50) };
    let stream = Kind::Stream { bytes: u64::MAX, pace: Some(pace) };
    let mut plan = plan(stream, Duration::from_millis(40));
    (plan.duration, plan.is_full_length) = (LENGTH, true);
    for (host, thousandths) in plan.hosts.iter_mut().zip(loss) {
        let clean = Link::clean(Duration::from_millis(10));
        let lossy = Link { loss: Chance(thousandths * 1_000), ..clean };
        host.uplinks[0] = Uplink::symmetric(0, lossy);
    }
    let mut rng = Rng::new(seed, 77);
    let mut silences: Silences = Vec::new();
    let mut from = seconds(60) + rng.duration(seconds(10));
    while from + seconds(20) < LENGTH {
        let to = from + Duration::from_millis(1500);
        let changes = [(from, What::IspDown { isp: 1 }), (to, What::IspUp { isp: 1 })];
        plan.changes.extend(changes.map(|(at, what)| Change { at, what }));
        silences.push([from, to]);
        from = to + seconds(9) + rng.duration(seconds(2));
    }
    (plan, silences)
}

/// Whether packets by this pair of a host get lost at random.
fn is_lossy(pair: LocatorPair, host: usize, loss: [u32; 2]) -> bool {
    let is_first = |locator| uplink_of(locator) == 1;
    let ends = [(pair.local, loss[host]), (pair.peer, loss[1 - host])];
    ends.into_iter().any(|(locator, loss)| is_first(locator) && loss > 0)
}

/// How long this host stayed on lossy pairs each time while the second ISP worked, since the first silence and since
/// payload left the first pair.
fn stays(outcome: &Outcome, host: usize, loss: [u32; 2], silences: &Silences) -> Vec<Duration> {
    let (mut since, mut times) = (None, Vec::new());
    let of_host = outcome.events.iter().filter(|told| told.host == host);
    for told in of_host {
        let EventKind::Moved { to, .. } = told.event.kind else { continue };
        if is_lossy(to, host, loss) {
            since.get_or_insert(told.at);
        } else if let Some(from) = since.take() {
            times.push([from, told.at]);
        }
    }
    times.extend(since.map(|from| [from, LENGTH]));
    let begin = silences[0][0];
    let while_up = |[from, to]: [Duration; 2]| {
        let from = from.max(begin);
        let shared = |one: &[Duration; 2]| one[1].min(to).saturating_sub(one[0].max(from));
        to.saturating_sub(from).saturating_sub(silences.iter().map(shared).sum())
    };
    times.into_iter().map(while_up).collect()
}

/// The first ISP loses 15 % each way, or each of the two hosts' links to it loses as much, so three of four pairs are
/// lossy.
#[test]
fn a_stream_is_off_the_lossy_isp_again_within_seconds_of_each_silence_of_the_good_one() {
    for loss in [[150, 0], [150, 150]] {
        let (mut all, mut longest) = (Duration::ZERO, Vec::new());
        for seed in 0..SEEDS {
            let (plan, silences) = silent(seed, loss);
            let outcome = sound(seed, &plan);
            for host in 0..2 {
                let stays = stays(&outcome, host, loss, &silences);
                longest.push((stays.iter().max().copied().unwrap_or_default(), seed, host));
                all += stays.into_iter().sum::<Duration>();
            }
        }
        longest.sort();
        let late = longest.iter().filter(|(longest, ..)| *longest > LATE).count();
        assert!(late <= longest.len() / 10, "{loss:?}: {longest:?}");
        assert!(longest.last().is_some_and(|last| last.0 < MOST), "{loss:?}: {longest:?}");
        let hosts = u32::try_from(longest.len()).expect("few");
        let share = all.as_secs_f64() / (hosts * (LENGTH - seconds(60))).as_secs_f64();
        assert!((0.05..0.4).contains(&share), "{loss:?}: {share}");
    }
}

const SEEDS: u64 = 40;
const LENGTH: Duration = seconds(360);
/// Few hosts stay for longer than this at any time: a trial, a check, and comparisons of which one or two meet another
/// silence.
const LATE: Duration = seconds(20);
/// No host stays for longer than this.
const MOST: Duration = seconds(40);
