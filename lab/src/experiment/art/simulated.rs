//! The same failure on a virtual clock.

use std::time::Duration;

use anyhow::ensure;
use moorline_sim::{Change, HostPlan, Kind, Link, Pace, Plan, Port, Uplink, What, Workload};

use super::{ArtFlow, Job, LIMIT, OCTETS, PER_SECOND, RTT, RTT_STDDEV};
use crate::experiment::pool::part;
use crate::interrupt;

/// The recovery time; none if there was no recovery.
pub(super) fn run(job: &Job) -> anyhow::Result<Option<Duration>> {
    interrupt::check()?;
    let cut = SETTLING + job.send_timeout.mul_f64(part(job.seed, 0));
    let outcome = moorline_sim::run(job.seed, &plan(job, cut));
    let violation = outcome.violations.first();
    ensure!(violation.is_none(), "{job:?} in the simulator: {violation:?}");
    let pause = outcome.workloads.first().and_then(|workload| workload.longest_pause);
    let pause = pause.filter(|pause| pause.to > cut);
    Ok(pause.map(|pause| pause.to - pause.from))
}

fn plan(job: &Job, cut: Duration) -> Plan {
    // Each packet crosses two links on its way, so four uniform delays make up a round trip: as good
    // as a normal one. The variance of each is its width squared by twelve.
    let jitter = RTT_STDDEV.mul_f64((12.0_f64 / 4.0).sqrt());
    let link = Link { jitter, ..Link::clean((RTT / 4).saturating_sub(jitter / 2)) };
    let uplinks = (0..2).map(|isp| Uplink::symmetric(isp, link)).collect();
    let host = HostPlan { send_timeout: job.send_timeout, uplinks, ..HostPlan::default() };
    let port = |host| Port { host, uplink: 0 };
    let traffic = Workload {
        from: port(0),
        to: port(1),
        start: Duration::ZERO,
        until: Some(cut + LIMIT),
        kind: kind(job.flow),
    };
    Plan {
        hosts: vec![host; 2],
        workloads: vec![traffic],
        changes: vec![Change { at: cut, what: What::IspDown { isp: 0 } }],
        reverts_backoff: job.flow == ArtFlow::Tcp,
        duration: cut + LIMIT,
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
            let pace = Pace { octets: 1000, interval: Duration::from_millis(10) };
            Kind::Stream { bytes: 1 << 40, pace: Some(pace) }
        }
        ArtFlow::UdpOneWay => voice(false),
        ArtFlow::UdpBothWays => voice(true),
    }
}

/// From the beginning to the earliest failure.
const SETTLING: Duration = Duration::from_secs(5);
