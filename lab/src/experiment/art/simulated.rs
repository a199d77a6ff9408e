//! The silent failure on a virtual clock.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use moorline_contexts::{Profile, STANDBY_INTERVAL};
use moorline_sim::{
    Change, HostPlan, Kind, Link, Pace, Pause, Plan, Port, Rule, Uplink, Violation, What, Workload,
};

use super::{ArtFlow, Case, LIMIT, OCTETS, PER_SECOND, RTT, RTT_STDDEV, Times};
use crate::experiment::pool::{Trial, mixed, part};
use crate::interrupt;

/// Runs a trial in the simulator and gives its recovery times. `None` for a flow that did not recover.
///
/// If the Send Timeout is not much longer than a round trip, a host may take a late keepalive for a failure. If traffic
/// has moved before the failure, the failure does not affect it, so another run replaces this one.
pub(super) fn run(job: &Trial<Case>) -> anyhow::Result<Times> {
    for attempt in 0..ATTEMPTS {
        interrupt::check()?;
        let seed = mixed(job.seed, attempt);
        let cut = SETTLING + job.send_timeout.mul_f64(1.0 / 3.0 + part(seed, 0));
        let outcome = moorline_sim::run(seed, &plan(job, cut));
        let false_alarm = |violation: &&Violation| violation.rule == Rule::FalseAlarm;
        let broken = outcome.violations.iter().find(|violation| !false_alarm(violation));
        ensure!(broken.is_none(), "{job:?} in the simulator: {broken:?}");
        if outcome.violations.iter().filter(false_alarm).any(|alarm| alarm.at < cut) {
            continue;
        }
        let workload = outcome.workloads.first().context("a workload")?;
        let length = |pause: Option<Pause>| {
            pause.filter(|pause| pause.to > cut).map(|pause| pause.to.saturating_sub(pause.from))
        };
        let [there, back] = workload.longest_gaps.map(length);
        let art = if job.flow == ArtFlow::UdpBothWays {
            there.zip(back).map(|(there, back)| there.max(back))
        } else {
            there
        };
        return Ok(Times { art, application: length(workload.longest_pause) });
    }
    bail!("{job:?} in the simulator: false alarms before the failure {ATTEMPTS} times");
}

fn plan(job: &Case, cut: Duration) -> Plan {
    // Each packet crosses two links, so a round trip is the sum of four uniform delays: close to a normal distribution.
    // The variance of each delay is the square of its width divided by twelve.
    let jitter = RTT_STDDEV.mul_f64((12.0_f64 / 4.0).sqrt());
    let link = Link { jitter, ..Link::clean((RTT / 4).saturating_sub(jitter / 2)) };
    let uplinks = (0..2).map(|isp| Uplink::symmetric(isp, link)).collect();
    let standby =
        Profile { standby_interval: STANDBY_INTERVAL, answers_checks: true, ..Profile::RFC };
    let profile = if job.standby { standby } else { Profile::RFC };
    let host = HostPlan { send_timeout: job.send_timeout, profile, uplinks, ..HostPlan::default() };
    let port = |host| Port { host, uplink: 0 };
    // A backed-off retransmission timer fires at the latest after twice the silence.
    let limit = (job.send_timeout * 3 + AFTERWARDS).min(LIMIT);
    let traffic = Workload {
        from: port(0),
        to: port(1),
        start: Duration::ZERO,
        until: Some(cut + limit),
        kind: kind(job.flow),
    };
    Plan {
        hosts: vec![host; 2],
        workloads: vec![traffic],
        changes: vec![Change { at: cut, what: What::IspDown { isp: 0 } }],
        reverts_backoff: job.flow == ArtFlow::Tcp,
        duration: cut + limit,
        ..Plan::pair(job.send_timeout)
    }
}

fn kind(flow: ArtFlow) -> Kind {
    let voice = |both_ways| {
        let pace = Pace { octets: OCTETS, interval: Duration::from_secs(1) / PER_SECOND };
        Kind::Datagrams { pace, both_ways }
    };
    match flow {
        ArtFlow::Tcp | ArtFlow::TcpNoNotice => {
            let pace = Pace { octets: 1000, interval: Duration::from_millis(20) };
            Kind::Stream { bytes: 1 << 40, pace: Some(pace) }
        }
        ArtFlow::UdpOneWay => voice(false),
        ArtFlow::UdpBothWays => voice(true),
    }
}

/// Time from the start to the earliest failure.
const SETTLING: Duration = Duration::from_secs(5);
/// Extra time for which a flow is watched.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// Most runs of a trial. A run with a false alarm is repeated.
const ATTEMPTS: u64 = 50;
