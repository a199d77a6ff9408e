//! Checks of plans whose syntax is right, but that cannot be played.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::schedule::MAX_CHANGES;
use super::{Addresses, HostPlan, Kind, Pace, Plan, PlanError, Port, What, Workload, host_name};

impl Plan {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let whole = |problem: String| PlanError::Invalid { place: "plan".into(), problem };
        within(self.hosts.len(), HOSTS, "[[host]]").map_err(whole)?;
        each("host", &self.hosts, check_host)?;
        each("traffic", &self.workloads, |workload| {
            self.has_uplink(workload.from)?;
            self.has_uplink(workload.to)?;
            require(workload.from.host != workload.to.host, || {
                "goes from a host to itself".into()
            })?;
            check_pace(workload.kind, self.longest_datagram(workload))
        })?;
        each("change", &self.changes, |change| self.is_possible(change.what))?;
        each("flap", &self.flaps, |flap| self.is_possible(flap.fault.begin()))?;
        each("renumbering", &self.renumberings, |one| {
            self.is_possible(What::PrefixAdded { uplink: one.uplink })
        })?;
        let is_fast = self.attack.is_some_and(|attack| attack.interval < LEAST_INTERVAL);
        let too_fast = || format!("attack: `interval` is below {LEAST_INTERVAL:?}");
        require(!is_fast, too_fast).map_err(whole)?;
        let too_many = || format!("{MAX_CHANGES} changes or more: let them flap more slowly");
        require(self.schedule().len() < MAX_CHANGES, too_many).map_err(whole)
    }

    /// Octets of the longest datagram of a workload. If one end is a host stack, both ends cut datagrams into fragments.
    fn longest_datagram(&self, workload: &Workload) -> usize {
        let ends = [workload.from.host, workload.to.host].map(|host| self.hosts.get(host));
        let has_stack = ends.iter().flatten().any(|host| host.stack);
        if has_stack { MAX_FRAGMENTED } else { MAX_DATAGRAM }
    }

    /// Whether a change can happen to its host. A host stack has no daemon, has its addresses and routes from its routers, and does not
    /// renumber.
    pub(crate) fn is_for_its_host(&self, what: What) -> bool {
        let host = match what {
            What::AddressRemoved { uplink }
            | What::AddressAdded { uplink }
            | What::RouteRemoved { uplink }
            | What::RouteAdded { uplink }
            | What::PrefixAdded { uplink }
            | What::Misled { uplink }
            | What::PrefixWithdrawn { uplink } => uplink.host,
            What::Kill { host } | What::Restart { host } => host,
            What::Cut { .. }
            | What::CutPath { .. }
            | What::CarrierDown { .. }
            | What::CarrierUp { .. }
            | What::Filter { .. }
            | What::FilterEnd { .. }
            | What::Loss { .. }
            | What::Mtu { .. }
            | What::Heal { .. }
            | What::IspDown { .. }
            | What::IspUp { .. }
            | What::CutTransit { .. }
            | What::Reboot { .. }
            | What::Suspend { .. }
            | What::Resume { .. }
            | What::CutProtected { .. }
            | What::HealAll {} => return true,
        };
        !self.hosts.get(host).is_some_and(|host| host.stack)
    }

    fn is_possible(&self, what: What) -> Result<(), String> {
        self.has_place_of(what)?;
        require(self.is_for_its_host(what), || {
            "a host with `stack` has no daemon, and keeps the addresses of its routers".into()
        })
    }

    fn has_place_of(&self, what: What) -> Result<(), String> {
        match what {
            What::Mtu { uplink, mtu } => self.has_uplink(uplink).and_then(|()| check_mtu(mtu)),
            What::CutPath { uplink, to_uplink } => {
                self.has_uplink(uplink).and_then(|()| self.has_uplink(to_uplink))
            }
            What::Cut { uplink, .. }
            | What::CarrierDown { uplink }
            | What::CarrierUp { uplink }
            | What::AddressRemoved { uplink }
            | What::AddressAdded { uplink }
            | What::RouteRemoved { uplink }
            | What::RouteAdded { uplink }
            | What::PrefixAdded { uplink }
            | What::PrefixWithdrawn { uplink }
            | What::Misled { uplink }
            | What::Filter { uplink, .. }
            | What::FilterEnd { uplink }
            | What::Loss { uplink, .. }
            | What::Heal { uplink } => self.has_uplink(uplink),
            What::IspDown { isp } | What::IspUp { isp } => self.has_isp(isp),
            What::CutTransit { isp, to_isp } => {
                self.has_isp(isp).and_then(|()| self.has_isp(to_isp))
            }
            What::Kill { host }
            | What::Restart { host }
            | What::Reboot { host }
            | What::Suspend { host }
            | What::Resume { host }
            | What::CutProtected { host } => {
                require(host < self.hosts.len(), || format!("there is no host {}", host_name(host)))
            }
            What::HealAll {} => Ok(()),
        }
    }

    fn has_uplink(&self, uplink: Port) -> Result<(), String> {
        let host = self.hosts.get(uplink.host);
        let is_there = host.is_some_and(|host| uplink.uplink < host.uplinks.len());
        require(is_there, || format!("there is no uplink {uplink}"))
    }

    fn has_isp(&self, isp: usize) -> Result<(), String> {
        let is_there = self.hosts.iter().flat_map(|host| &host.uplinks).any(|one| one.isp == isp);
        require(is_there, || format!("no host has an uplink to ISP {}", isp + 1))
    }
}

/// Checks each element. The error has the number of the element, from one on.
fn each<T>(
    what: &str,
    parts: &[T],
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<(), PlanError> {
    (1..).zip(parts).try_for_each(|(number, part)| {
        let at = |problem| PlanError::Invalid { place: format!("{what} {number}"), problem };
        check(part).map_err(at)
    })
}

fn require(holds: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(problem()) }
}

fn check_host(host: &HostPlan) -> Result<(), String> {
    within(host.uplinks.len(), UPLINKS, "[[host.uplink]]")?;
    let is_one = host.addresses == Addresses::OneIdentifier;
    require(!host.plain_ilnp || !host.moorline && !host.ilnp && is_one, || {
        "`plain-ilnp` needs `moorline = false` and `addresses = \"one-identifier\"`".into()
    })?;
    let has_set = host.moorline && host.addresses == Addresses::Hba;
    require(!host.stack || has_set, || {
        "`stack` goes with `addresses = \"hba\"` and Moorline".into()
    })?;
    require(SEND_TIMEOUT.contains(&host.send_timeout), || {
        "`send-timeout` is outside 200ms to 100s".into()
    })?;
    for link in host.uplinks.iter().flat_map(|uplink| [uplink.out, uplink.inbound]) {
        let delays = [link.delay, link.jitter, link.queue, host.report_delay];
        let is_short = delays.iter().all(|delay| *delay <= MAX_DELAY);
        require(is_short, || format!("a delay is above {MAX_DELAY:?}"))?;
        require(link.rate == 0 || RATE.contains(&link.rate), || {
            "`rate` is outside 1000 to 10000000000 octets a second".into()
        })?;
        require((link.rate > 0) != link.queue.is_zero(), || {
            "`rate` and `queue` go together".into()
        })?;
        check_mtu(link.mtu)?;
    }
    Ok(())
}

fn check_mtu(mtu: u32) -> Result<(), String> {
    require(mtu == 0 || MTU.contains(&mtu), || "`mtu` is outside 1280 to 65535 octets".into())
}

fn check_pace(kind: Kind, longest: usize) -> Result<(), String> {
    let Some(Pace { octets, interval }) = kind.pace() else { return Ok(()) };
    require(interval >= LEAST_INTERVAL, || format!("`interval` is below {LEAST_INTERVAL:?}"))?;
    let most = if matches!(kind, Kind::Stream { .. }) { usize::MAX } else { longest };
    within(octets, 1..=most, "`octets`")
}

fn within(count: usize, range: RangeInclusive<usize>, what: &str) -> Result<(), String> {
    let (least, most) = (range.start(), range.end());
    require(range.contains(&count), || format!("{what}: {count} is outside {least} to {most}"))
}

/// Number of hosts: at most one for each letter.
const HOSTS: RangeInclusive<usize> = 2..=26;
/// Number of uplinks of a host: one digit, and a locator list with room for a renumbering.
const UPLINKS: RangeInclusive<usize> = 1..=9;
/// Send Timeouts, as in the daemon.
const SEND_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(100);
/// Octets a second: from a modem's rate to ten times the rate of any host here.
const RATE: RangeInclusive<u64> = 1000..=10_000_000_000;
/// MTUs of links: no link of IPv6 has less (RFC 8200 s5).
const MTU: RangeInclusive<u32> = 1280..=65_535;
/// Largest delay: there and back takes roughly as long as the backoff from Initial Probe Timeout.
const MAX_DELAY: Duration = Duration::from_secs(10);
/// Smallest time between packets of a workload or an attacker.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// Largest payload: all headers have room within 1500 octets.
const MAX_DATAGRAM: usize = 1400;
/// Largest payload of datagrams in fragments: a UDP packet has room for a little more.
const MAX_FRAGMENTED: usize = 65_000;
