use std::time::Duration;

use moorline_contexts::EventKind;
use moorline_types::LocatorPair;

use crate::log::HostEvent;
use crate::outcome::{Outcome, SAMPLE};
use crate::plan::{Change, Direction, Kind, Pace, Plan, Port, What, Workload};
use crate::world::run;

/// One transfer. Times are from the beginning of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoRun {
    /// Octets that the application received in each [`SAMPLE`] of time, without gaps.
    pub samples: Vec<u64>,
    /// Events of the hosts, in order.
    pub marks: Vec<HostEvent>,
    /// Time when ISP 1 failed.
    pub cut_at: Duration,
    /// Whether the transfer was completed.
    pub survived: bool,
    /// Whether all octets arrived as they were sent, and no rule was broken.
    pub bytes_ok: bool,
    /// Time from the cut until both hosts had moved.
    pub moved: Option<Duration>,
    /// The pair to which host A, number 0, moved.
    pub moved_to: Option<LocatorPair>,
    /// Time from the cut to the first octet after the silence.
    pub recovery: Option<Duration>,
    /// Time for which the run went on after the cut.
    pub waited: Duration,
}

/// Plays two hosts with two ISPs each. B sends to A, and ISP 1 fails silently on the way: once with Moorline, and
/// once without. `rate` is the limit of the transfer in octets a second. This is the counterpart of the lab's demo in
/// virtual time.
#[must_use]
pub fn demo_scenario(send_timeout: Duration, rate: u64) -> [DemoRun; 2] {
    [true, false].map(|moorline| play(&plan(send_timeout, rate, moorline)))
}

fn play(plan: &Plan) -> DemoRun {
    let outcome = run(SEED, plan);
    let transfer = &outcome.workloads[0];
    let arrived = SAMPLE * u32::try_from(transfer.samples.len()).unwrap_or(u32::MAX);
    let end = if transfer.intact.is_some() { arrived } else { plan.duration };
    let [a, b] = [0, 1].map(|host| first_move(&outcome, host));
    // The pause ends with the first octet after the longest silence.
    let pause =
        transfer.longest_pause.filter(|pause| pause.to > CUT_AT && pause.to - pause.from > SAMPLE);
    DemoRun {
        samples: samples(&transfer.samples, end),
        marks: outcome.events.clone(),
        cut_at: CUT_AT,
        survived: transfer.intact.is_some(),
        bytes_ok: outcome.violations.is_empty() && transfer.intact != Some(false),
        moved: a.zip(b).map(|(a, b)| a.0.max(b.0)),
        moved_to: a.map(|(_, to)| to),
        recovery: pause.map(|pause| pause.to - CUT_AT),
        waited: end.saturating_sub(CUT_AT),
    }
}

fn plan(send_timeout: Duration, rate: u64, moorline: bool) -> Plan {
    let port = |host| Port { host, uplink: 0 };
    let running = CUT_AT + send_timeout + AFTER_RECOVERY;
    let milliseconds = u64::try_from(running.as_millis()).unwrap_or(u64::MAX);
    let interval = Duration::from_millis(10);
    let pace = Pace { octets: usize::try_from(rate / 100).unwrap_or(1).max(1), interval };
    let kind = Kind::Stream { bytes: rate.saturating_mul(milliseconds) / 1000, pace: Some(pace) };
    let silent = |host| Change {
        at: CUT_AT,
        what: What::Cut { uplink: port(host), direction: Direction::Both },
    };
    let mut plan = Plan {
        workloads: vec![Workload {
            from: port(1),
            to: port(0),
            start: Duration::ZERO,
            until: None,
            kind,
        }],
        // Both hosts have the same ISP 1.
        changes: vec![silent(0), silent(1)],
        ..Plan::pair(send_timeout)
    };
    for host in &mut plan.hosts {
        host.moorline = moorline;
    }
    // The limit is twice the time that is needed, as in the lab. After that the transfer counts as stalled.
    plan.duration = if moorline {
        running * 2 + LONGEST_END
    } else {
        CUT_AT + send_timeout * 2 + Duration::from_secs(2)
    };
    plan
}

/// The first move of a host after the cut, and its time.
fn first_move(outcome: &Outcome, host: usize) -> Option<(Duration, LocatorPair)> {
    let mut of_host = outcome.events.iter().filter(|told| told.host == host && told.at >= CUT_AT);
    of_host.find_map(|told| {
        let EventKind::Moved { to, .. } = told.event.kind else { return None };
        Some((told.at - CUT_AT, to))
    })
}

fn samples(arrived: &[u64], end: Duration) -> Vec<u64> {
    let count = usize::try_from(end.as_nanos().div_ceil(SAMPLE.as_nanos())).unwrap_or(usize::MAX);
    arrived.iter().copied().chain(std::iter::repeat(0)).take(count).collect()
}

/// Seed of all randomness.
const SEED: u64 = 1;
/// Time when ISP 1 fails.
const CUT_AT: Duration = Duration::from_secs(2);
/// Duration of the transfer after the recovery, long enough to be seen.
const AFTER_RECOVERY: Duration = Duration::from_secs(4);
/// Longest time to the end of the transfer after its recovery.
const LONGEST_END: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 500_000;

    #[test]
    fn the_transfer_survives_with_moorline_and_stalls_without() {
        for millis in [250, 2000, 15_000] {
            let send_timeout = Duration::from_millis(millis);
            let demo = demo_scenario(send_timeout, RATE);
            let [with, without] = &demo;
            assert!(with.survived && with.bytes_ok);
            assert!(!without.survived && without.bytes_ok && without.recovery.is_none());
            let (moved, recovery) = (with.moved.unwrap(), with.recovery.unwrap());
            assert!(moved <= recovery);
            // The data plane doubts the pair long before the Send Timer runs out.
            assert!(moved < Duration::from_secs(1).min(send_timeout * 2), "{moved:?}");
            let to = with.moved_to.unwrap();
            assert_eq!((to.local.prefix()[5], to.peer.prefix()[5]), (0xa2, 0xb2));
            let running = CUT_AT + send_timeout + AFTER_RECOVERY;
            let octets: u64 = with.samples.iter().sum();
            assert_eq!(u128::from(octets) * 1000, u128::from(RATE) * running.as_millis());
            assert_eq!(demo_scenario(send_timeout, RATE), demo);
        }
    }
}
