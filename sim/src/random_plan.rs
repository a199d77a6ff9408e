use std::time::Duration;

use crate::plan::{
    Attack, Chance, Change, Direction, HostPlan, Kind, Pace, Plan, Port, Uplink, What, Workload,
};
use crate::rng::Rng;

/// A network, traffic and a schedule of failures made up from a seed.
#[must_use]
pub fn random_plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed, PLAN_STREAM);
    let hosts = hosts(&mut rng);
    let workloads = workloads(&mut rng, &hosts);
    let changes = changes(&mut rng, &hosts);
    let has_attacker = rng.is(Chance::percent(20));
    let overhears = rng.is(Chance::percent(50));
    let interval = rng.between(Duration::from_millis(100), Duration::from_secs(1));
    Plan {
        hosts,
        workloads,
        changes,
        attack: has_attacker.then_some(Attack { interval, overhears }),
        reverts_backoff: rng.is(Chance::percent(50)),
        duration: LONGEST,
    }
}

fn hosts(rng: &mut Rng) -> Vec<HostPlan> {
    let count = if rng.is(Chance::percent(15)) { 3 } else { 2 };
    let is_lossy = rng.is(Chance::percent(40));
    let host = |rng: &mut Rng| {
        let isps = rng.pick(&[1, 2, 2, 2, 2, 2, 2, 3, 3]).unwrap_or(2);
        HostPlan {
            moorline: true,
            send_timeout: Duration::from_millis(
                rng.pick(&[500, 1000, 2000, 3000, 5000, 10_000, 15_000]).unwrap_or(15_000),
            ),
            report_delay: Duration::from_millis(rng.pick(&[0, 0, 1, 5]).unwrap_or(0)),
            uplinks: (0..isps).map(|_| uplink(rng, is_lossy)).collect(),
        }
    };
    (0..count).map(|_| host(rng)).collect()
}

fn uplink(rng: &mut Rng, is_lossy: bool) -> Uplink {
    let delay = rng.between(Duration::from_millis(1), Duration::from_millis(80));
    let has_jitter = rng.is(Chance::percent(50));
    let jitter = if has_jitter { rng.duration(Duration::from_millis(20)) } else { Duration::ZERO };
    let mut chance = |most: u32| {
        Chance(u32::try_from(rng.below(u64::from(most))).unwrap_or(0) * u32::from(is_lossy))
    };
    Uplink {
        delay,
        jitter,
        loss: chance(30_000),
        duplication: chance(20_000),
        reordering: chance(30_000),
        replay: chance(100_000),
    }
}

fn workloads(rng: &mut Rng, hosts: &[HostPlan]) -> Vec<Workload> {
    let count = 1 + rng.index(3);
    (0..count)
        .map(|_| {
            let from = rng.index(hosts.len());
            let to = (from + 1 + rng.index(hosts.len() - 1)) % hosts.len();
            let kind = kind(rng);
            Workload {
                from: ulid(rng, hosts, from),
                to: ulid(rng, hosts, to),
                start: rng.duration(Duration::from_secs(1)),
                kind,
            }
        })
        .collect()
}

/// Mostly the first address of a host.
fn ulid(rng: &mut Rng, hosts: &[HostPlan], host: usize) -> Port {
    let isps = hosts.get(host).map_or(1, |host| host.uplinks.len());
    let isp = if rng.is(Chance::percent(20)) { rng.index(isps) } else { 0 };
    Port { host, isp }
}

fn kind(rng: &mut Rng) -> Kind {
    let interval = rng.between(Duration::from_millis(100), Duration::from_millis(400));
    let pace = Pace { octets: 40 + rng.index(600), interval };
    match rng.below(6) {
        0 => Kind::Stream { bytes: 100_000 + rng.below(2_000_000), pace: None },
        1 => Kind::Stream { bytes: u64::MAX, pace: Some(pace) },
        2 | 3 => Kind::Datagrams { pace, both_ways: true },
        4 => Kind::Requests { pace },
        _ => Kind::Datagrams { pace, both_ways: false },
    }
}

fn changes(rng: &mut Rng, hosts: &[HostPlan]) -> Vec<Change> {
    // Mostly when contexts are there, sometimes while they are made.
    let is_early = rng.is(Chance::percent(20));
    let mut at = if is_early {
        rng.duration(Duration::from_secs(3))
    } else {
        rng.between(Duration::from_secs(4), Duration::from_secs(9))
    };
    let count = 1 + rng.index(5);
    let mut changes = Vec::new();
    for _ in 0..count {
        let what = what(rng, hosts);
        changes.push(Change { at, what });
        if let What::Kill { host } = what {
            // Nothing is promised while it is dead.
            at += rng.duration(Duration::from_secs(10));
            changes.push(Change { at, what: What::Restart { host } });
        }
        at += pause(rng);
    }
    if rng.is(Chance::percent(60)) {
        changes.push(Change { at, what: What::HealAll });
    }
    changes
}

fn pause(rng: &mut Rng) -> Duration {
    let seconds = Duration::from_secs;
    match rng.below(10) {
        0 => Duration::ZERO,
        1 | 2 => rng.duration(seconds(2)),
        3..=7 => rng.between(seconds(5), seconds(40)),
        _ => rng.between(seconds(40), seconds(150)),
    }
}

fn what(rng: &mut Rng, hosts: &[HostPlan]) -> What {
    let port = port(rng, hosts);
    let direction = rng.pick(&[Direction::Both, Direction::Both, Direction::Out, Direction::In]);
    match rng.below(21) {
        0..=7 => What::Cut { port, direction: direction.unwrap_or(Direction::Both) },
        8..=10 => What::CutPath { from: port, to: self::port(rng, hosts) },
        11 | 12 => What::CarrierDown(port),
        13 => What::CarrierUp(port),
        14 | 15 => What::AddressRemoved(port),
        16 => What::AddressAdded(port),
        17 => What::Heal(port),
        18 => What::HealAll,
        19 => What::Kill { host: port.host },
        _ => What::Restart { host: port.host },
    }
}

/// Mostly the first uplink, as the traffic is there at first.
fn port(rng: &mut Rng, hosts: &[HostPlan]) -> Port {
    let host = rng.index(hosts.len());
    let isps = hosts.get(host).map_or(1, |host| host.uplinks.len());
    let isp = if rng.is(Chance::percent(50)) { rng.index(isps) } else { 0 };
    Port { host, isp }
}

/// Stream of the seed that plans come from.
const PLAN_STREAM: u64 = 3;
/// Most runs end long before, when nothing is left to wait for.
const LONGEST: Duration = Duration::from_secs(3600);
