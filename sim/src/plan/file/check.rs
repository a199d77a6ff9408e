//! What a file may say and still cannot be played.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{PlanError, at};
use crate::plan::schedule::MAX_CHANGES;
use crate::plan::{Fault, HostPlan, Kind, Pace, Plan, Port, What, host_name};

pub(super) fn check(plan: &Plan) -> Result<(), PlanError> {
    let whole = |problem: String| PlanError::Invalid { place: "plan".into(), problem };
    within(plan.hosts.len(), HOSTS, "[[host]]").map_err(whole)?;
    for (number, host) in (1..).zip(&plan.hosts) {
        check_host(host).map_err(at("host", number))?;
    }
    let known = Known::of(plan);
    for (number, workload) in (1..).zip(&plan.workloads) {
        let check = || {
            known.port(workload.from)?;
            known.port(workload.to)?;
            if workload.from.host == workload.to.host {
                return Err("goes from a host to itself".into());
            }
            check_pace(workload.kind)
        };
        check().map_err(at("traffic", number))?;
    }
    for (number, change) in (1..).zip(&plan.changes) {
        known.what(change.what).map_err(at("change", number))?;
    }
    for (number, flap) in (1..).zip(&plan.flaps) {
        known.fault(flap.fault).map_err(at("flap", number))?;
    }
    for (number, renumbering) in (1..).zip(&plan.renumberings) {
        known.port(renumbering.port).map_err(at("renumbering", number))?;
    }
    if plan.attack.is_some_and(|attack| attack.interval < LEAST_INTERVAL) {
        return Err(whole(format!("attack: `interval` is below {LEAST_INTERVAL:?}")));
    }
    if plan.schedule().len() >= MAX_CHANGES {
        return Err(whole(format!("{MAX_CHANGES} changes or more: let them flap more slowly")));
    }
    Ok(())
}

fn check_host(host: &HostPlan) -> Result<(), String> {
    within(host.uplinks.len(), UPLINKS, "[[host.uplink]]")?;
    if !SEND_TIMEOUT.contains(&host.send_timeout) {
        return Err("`send-timeout` is outside 200ms to 100s".into());
    }
    let is_too_long = |delay: &Duration| *delay > MAX_DELAY;
    for link in host.uplinks.iter().flat_map(|uplink| [uplink.out, uplink.inbound]) {
        let delays = [link.delay, link.jitter, link.queue, host.report_delay];
        if delays.iter().any(is_too_long) {
            return Err(format!("a delay is above {MAX_DELAY:?}"));
        }
        if link.rate > 0 && !RATE.contains(&link.rate) {
            return Err("`rate` is outside 1000 to 10000000000 octets a second".into());
        }
        if (link.rate > 0) == link.queue.is_zero() {
            return Err("`rate` and `queue` go together".into());
        }
    }
    Ok(())
}

fn check_pace(kind: Kind) -> Result<(), String> {
    let pace = match kind {
        Kind::Stream { pace, .. } => pace,
        Kind::Requests { pace } | Kind::Datagrams { pace, .. } => Some(pace),
    };
    let Some(Pace { octets, interval }) = pace else { return Ok(()) };
    if interval < LEAST_INTERVAL {
        return Err(format!("`interval` is below {LEAST_INTERVAL:?}"));
    }
    let most = if matches!(kind, Kind::Stream { .. }) { usize::MAX } else { MAX_DATAGRAM };
    within(octets, 1..=most, "`octets`")
}

/// What there is.
struct Known {
    ports: BTreeSet<Port>,
    isps: BTreeSet<usize>,
    hosts: usize,
}

impl Known {
    fn of(plan: &Plan) -> Self {
        let hosts = plan.hosts.iter().enumerate();
        let ports = hosts.flat_map(|(host, of_host)| {
            (0..of_host.uplinks.len()).map(move |uplink| Port { host, uplink })
        });
        let isps = plan.hosts.iter().flat_map(|host| &host.uplinks).map(|uplink| uplink.isp);
        Self { ports: ports.collect(), isps: isps.collect(), hosts: plan.hosts.len() }
    }

    fn what(&self, what: What) -> Result<(), String> {
        match what {
            What::CutPath { from, to } => self.port(from).and_then(|()| self.port(to)),
            What::Cut { port, .. }
            | What::CarrierDown(port)
            | What::CarrierUp(port)
            | What::AddressRemoved(port)
            | What::AddressAdded(port)
            | What::PrefixAdded(port)
            | What::PrefixWithdrawn(port)
            | What::Heal(port) => self.port(port),
            What::IspDown { isp } | What::IspUp { isp } => self.isp(isp),
            What::CutTransit { from, to } => self.isp(from).and_then(|()| self.isp(to)),
            What::Kill { host }
            | What::Restart { host }
            | What::Reboot { host }
            | What::Suspend { host }
            | What::Resume { host }
            | What::CutProtected { host } => {
                let is_there = host < self.hosts;
                is_there
                    .then_some(())
                    .ok_or_else(|| format!("there is no host {}", host_name(host)))
            }
            What::HealAll => Ok(()),
        }
    }

    fn fault(&self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::Silent(port, _) | Fault::Carrier(port) | Fault::Address(port) => self.port(port),
            Fault::Isp(isp) => self.isp(isp),
        }
    }

    fn port(&self, port: Port) -> Result<(), String> {
        let is_there = self.ports.contains(&port);
        is_there.then_some(()).ok_or_else(|| format!("there is no uplink {port}"))
    }

    fn isp(&self, isp: usize) -> Result<(), String> {
        let is_there = self.isps.contains(&isp);
        is_there.then_some(()).ok_or_else(|| format!("no host has an uplink to ISP {}", isp + 1))
    }
}

fn within(count: usize, range: RangeInclusive<usize>, what: &str) -> Result<(), String> {
    if range.contains(&count) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err(format!("{what}: {count} is outside {least} to {most}"))
}

/// As many as there are letters.
const HOSTS: RangeInclusive<usize> = 2..=26;
/// What one digit and a locator list with a renumbering under way have room for.
const UPLINKS: RangeInclusive<usize> = 1..=9;
/// As of the daemon.
const SEND_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(100);
/// Octets a second: a modem's, to ten times what any host here has.
const RATE: RangeInclusive<u64> = 1000..=10_000_000_000;
/// There and back within Initial Probe Timeout's backoff, roughly.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Between packets of a workload or an attacker.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// Leaves room for all headers within 1500.
const MAX_DATAGRAM: usize = 1400;
