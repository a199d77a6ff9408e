use std::time::Duration;

use moorline_contexts::Profile;

use crate::plan::{
    Addresses, Attack, Chance, Change, Direction, Fault, Flap, HostPlan, Kind, Link, Pace, Plan,
    Port, Renumbering, Uplink, What, Workload,
};
use crate::rng::Rng;

/// Makes a random network, traffic and schedule of failures from a seed.
#[must_use]
pub fn random_plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed, PLAN_STREAM);
    let mut hosts = hosts(&mut rng);
    let workloads = workloads(&mut rng, &hosts);
    let changes = changes(&mut rng, &hosts);
    let last = changes.last().map_or(Duration::ZERO, |change| change.at);
    let flaps = flaps(&mut rng, &hosts, last);
    let renumberings = renumberings(&mut rng, &hosts, last);
    let has_attacker = rng.is(Chance::percent(20));
    let overhears = rng.is(Chance::percent(50));
    let interval = rng.between(Duration::from_millis(100), Duration::from_secs(1));
    let reverts_backoff = rng.is(Chance::percent(50));
    for host in hosts.iter_mut().filter(|_| rng.is(Chance::percent(25))) {
        host.profile = Profile::RFC;
    }
    let mut changes = changes;
    if rng.is(Chance::percent(15)) {
        changes.extend(roaming(&mut rng, &hosts, last));
    }
    if rng.is(Chance::percent(10)) {
        changes.extend(sleep(&mut rng, &hosts, end_of(&changes)));
    }
    if rng.is(Chance::percent(15)) {
        let at = end_of(&changes) + rng.between(Duration::from_secs(5), Duration::from_secs(100));
        let what = What::CutProtected { host: rng.index(hosts.len()) };
        changes.push(Change { at, what });
    }
    Plan {
        hosts,
        workloads,
        changes,
        flaps,
        renumberings,
        attack: has_attacker.then_some(Attack {
            interval,
            overhears,
            isp: None,
            pretends: false,
            knows_ports: false,
        }),
        reverts_backoff,
        kernel_failures: Chance::percent(2),
        kills_amid_effects: true,
        duration: LONGEST,
        is_full_length: false,
        neighbors: false,
    }
}

/// Makes a random plan with ILNP on some hosts, or on all of them. In a fifth of the plans one host has ILNP by the
/// RFCs alone.
#[must_use]
pub fn random_mixed_plan(seed: u64) -> Plan {
    let mut plan = plan_of_both_protocols(seed);
    let mut rng = Rng::new(seed, PLAIN_STREAM);
    let place = rng.index(plan.hosts.len());
    if rng.is(Chance::percent(20))
        && let Some(host) = plan.hosts.get_mut(place)
    {
        (host.moorline, host.ilnp, host.plain_ilnp) = (false, false, true);
        host.addresses = Addresses::OneIdentifier;
    }
    plan
}

/// Makes a random plan with a host stack on some hosts, or on all of them. Links may be too small for some packets, and host stacks may
/// restart. Some hosts speak ILNP beside Shim6. Nobody attacks.
#[must_use]
pub fn random_stack_plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed, STACK_STREAM);
    let mut plan = Plan { attack: None, ..random_plan(seed) };
    let first = rng.index(plan.hosts.len());
    let is_all = rng.is(Chance::percent(40));
    for (place, host) in plan.hosts.iter_mut().enumerate() {
        if place == first || is_all {
            (host.stack, host.moorline, host.addresses) = (true, true, Addresses::Hba);
        }
    }
    let Plan { hosts, workloads, .. } = &mut plan;
    let is_of_stack = |workload: &&mut Workload| {
        [workload.from, workload.to].iter().any(|port| hosts[port.host].stack)
    };
    for workload in workloads.iter_mut().filter(is_of_stack) {
        workload.kind = kind_of_stack(&mut rng, workload.kind);
    }
    if rng.is(Chance::percent(40)) {
        narrow_links(&mut rng, &mut plan);
    }
    if rng.is(Chance::percent(30)) {
        plan = plan.with_ilnp(rng.below(u64::MAX));
    }
    if rng.is(Chance::percent(25)) {
        let at = rng.between(Duration::from_secs(5), end_of(&plan.changes) + OVERLAP);
        plan.changes.push(Change { at, what: What::Reboot { host: first } });
    }
    plan.delayed(STACKS_READY).without_what_stacks_lack()
}

/// Traffic of the sockets of a host stack: a stream, or datagrams of which some need fragments.
fn kind_of_stack(rng: &mut Rng, kind: Kind) -> Kind {
    let pace = kind.pace();
    if rng.is(Chance::percent(50)) {
        let bytes = 100_000 + rng.below(2_000_000);
        let is_paced = pace.is_some() && rng.is(Chance::percent(60));
        let bytes = if is_paced { u64::MAX } else { bytes };
        return Kind::Stream { bytes, pace: pace.filter(|_| is_paced) };
    }
    let octets = 1300 + rng.index(LONGEST_DATAGRAM - 1300);
    let has_fragments = rng.is(Chance::percent(50));
    let of = |pace: Pace| if has_fragments { Pace { octets, ..pace } } else { pace };
    match kind {
        Kind::Stream { .. } => kind,
        Kind::Requests { pace } => Kind::Requests { pace: of(pace) },
        Kind::Datagrams { pace, both_ways } => Kind::Datagrams { pace: of(pace), both_ways },
    }
}

/// Gives half of the links an MTU, and lets others get one later.
fn narrow_links(rng: &mut Rng, plan: &mut Plan) {
    let last = end_of(&plan.changes);
    for link in plan.hosts.iter_mut().flat_map(|host| &mut host.uplinks) {
        for link in [&mut link.out, &mut link.inbound] {
            if rng.is(Chance::percent(50)) {
                link.mtu = rng.pick(&MTUS).unwrap_or(0);
            }
        }
    }
    for _ in 0..1 + rng.index(4) {
        let at = rng.duration(last + OVERLAP);
        let what = What::Mtu { uplink: port(rng, &plan.hosts), mtu: rng.pick(&MTUS).unwrap_or(0) };
        plan.changes.push(Change { at, what });
    }
}

/// Makes a random plan with ILNP, without hosts that have ILNP by the RFCs alone.
pub(crate) fn plan_of_both_protocols(seed: u64) -> Plan {
    let mut rng = Rng::new(seed, ILNP_STREAM);
    let places = if rng.is(Chance::percent(60)) { u64::MAX } else { rng.below(u64::MAX) };
    random_plan(seed).with_ilnp(places)
}

fn hosts(rng: &mut Rng) -> Vec<HostPlan> {
    let count = rng.pick(&[2, 2, 2, 2, 3, 3, 4, 5]).unwrap_or(2);
    let network = NetworkKind {
        isps: 1 + rng.index(4),
        is_lossy: rng.is(Chance::percent(40)),
        is_symmetric: rng.is(Chance::percent(50)),
        addresses: rng.is(Chance::percent(50)).then_some(Addresses::Hba),
    };
    (0..count).map(|_| host(rng, &network)).collect()
}

/// Properties that the hosts of a plan share.
struct NetworkKind {
    isps: usize,
    is_lossy: bool,
    is_symmetric: bool,
    /// `None` for a mix.
    addresses: Option<Addresses>,
}

fn host(rng: &mut Rng, network: &NetworkKind) -> HostPlan {
    let mixed = [
        Addresses::Hba,
        Addresses::Hba,
        Addresses::HbaCompatible,
        Addresses::HbaCompatible,
        Addresses::Cga,
        Addresses::Cga,
        Addresses::Plain,
    ];
    let random = rng.pick(&mixed).unwrap_or_default();
    let uplinks = rng.pick(&[1, 2, 2, 2, 2, 2, 2, 3, 3, 4]).unwrap_or(2);
    let first = rng.index(network.isps);
    HostPlan {
        moorline: !rng.is(Chance::percent(3)),
        initiates: !rng.is(Chance::percent(25)),
        addresses: network.addresses.unwrap_or(random),
        send_timeout: Duration::from_millis(
            rng.pick(&[500, 1000, 2000, 3000, 5000, 10_000, 15_000]).unwrap_or(15_000),
        ),
        report_delay: Duration::from_millis(rng.pick(&[0, 0, 1, 5]).unwrap_or(0)),
        // The uplinks take one ISP after the other. If a host has more uplinks than there are ISPs, it has an ISP
        // twice.
        uplinks: (0..uplinks).map(|n| uplink(rng, (first + n) % network.isps, network)).collect(),
        ..HostPlan::default()
    }
}

fn uplink(rng: &mut Rng, isp: usize, network: &NetworkKind) -> Uplink {
    let [out, inbound] = [(), ()].map(|()| link(rng, network.is_lossy));
    Uplink { isp, out, inbound: if network.is_symmetric { out } else { inbound } }
}

fn link(rng: &mut Rng, is_lossy: bool) -> Link {
    let delay = rng.between(Duration::from_millis(1), Duration::from_millis(80));
    let has_jitter = rng.is(Chance::percent(50));
    let jitter = if has_jitter { rng.duration(Duration::from_millis(20)) } else { Duration::ZERO };
    let mut chance = |most: u32| {
        Chance(u32::try_from(rng.below(u64::from(most))).unwrap_or(0) * u32::from(is_lossy))
    };
    Link {
        jitter,
        loss: chance(30_000),
        duplication: chance(20_000),
        reordering: chance(30_000),
        replay: chance(100_000),
        ..Link::clean(delay)
    }
}

fn workloads(rng: &mut Rng, hosts: &[HostPlan]) -> Vec<Workload> {
    let count = 1 + rng.index(3);
    (0..count)
        .map(|_| {
            let from = rng.index(hosts.len());
            let to = (from + 1 + rng.index(hosts.len() - 1)) % hosts.len();
            let kind = kind(rng);
            let is_late = rng.is(Chance::percent(15));
            let latest = Duration::from_secs(if is_late { 60 } else { 1 });
            Workload {
                from: uplink_of(rng, hosts, from, Chance::percent(30)),
                to: uplink_of(rng, hosts, to, Chance::percent(30)),
                start: rng.duration(latest),
                until: None,
                kind,
            }
        })
        .collect()
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
    // The first failure mostly comes when contexts exist, and sometimes while they are made.
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
            // Nothing is promised while a core is dead.
            at += rng.duration(Duration::from_secs(10));
            changes.push(Change { at, what: What::Restart { host } });
        }
        at += pause(rng);
    }
    if rng.is(Chance::percent(60)) {
        changes.push(Change { at, what: What::HealAll {} });
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
    let direction = direction(rng);
    match rng.below(27) {
        0..=7 => What::Cut { uplink: port, direction },
        8..=10 => What::CutPath { uplink: port, to_uplink: self::port(rng, hosts) },
        11 | 12 => What::CarrierDown { uplink: port },
        13 => What::CarrierUp { uplink: port },
        14 | 15 => What::AddressRemoved { uplink: port },
        16 => What::AddressAdded { uplink: port },
        17 => What::Heal { uplink: port },
        18 => What::HealAll {},
        19 => What::Kill { host: port.host },
        20 => What::Restart { host: port.host },
        21 => What::Reboot { host: port.host },
        22 | 23 => What::IspDown { isp: isp(rng, hosts) },
        24 => What::IspUp { isp: isp(rng, hosts) },
        25 => What::CutTransit { isp: isp(rng, hosts), to_isp: isp(rng, hosts) },
        _ => What::PrefixAdded { uplink: port },
    }
}

fn flaps(rng: &mut Rng, hosts: &[HostPlan], last: Duration) -> Vec<Flap> {
    if !rng.is(Chance::percent(15)) {
        return Vec::new();
    }
    let port = port(rng, hosts);
    let fault = match rng.below(5) {
        0 | 1 => Fault::Silent { uplink: port, direction: direction(rng) },
        2 => Fault::Carrier { uplink: port },
        3 => Fault::Address { uplink: port },
        _ => Fault::Isp { isp: isp(rng, hosts) },
    };
    let from = rng.duration(last + Duration::from_secs(5));
    let longest = Duration::from_secs(rng.pick(&[1, 5, 30]).unwrap_or(1));
    let [down, up] = [(), ()].map(|()| rng.between(Duration::from_millis(50), longest));
    let until = from + (down + up) * (1 + u32::try_from(rng.index(8)).unwrap_or(0));
    vec![Flap { fault, from, until: Some(until), down, up }]
}

fn renumberings(rng: &mut Rng, hosts: &[HostPlan], last: Duration) -> Vec<Renumbering> {
    if !rng.is(Chance::percent(20)) {
        return Vec::new();
    }
    let at = rng.duration(last + Duration::from_secs(10));
    let is_hard = rng.is(Chance::percent(30));
    let overlap =
        if is_hard { Duration::ZERO } else { rng.between(Duration::from_secs(1), OVERLAP) };
    let comes_again = rng.is(Chance::percent(30));
    let every = comes_again.then(|| rng.between(Duration::from_secs(10), OVERLAP * 2));
    let until = at + every.unwrap_or(Duration::from_secs(1)) * 2;
    vec![Renumbering { uplink: port(rng, hosts), at, overlap, every, until: Some(until) }]
}

/// A host loses all its prefixes, has none for a while, and then gets another one at one of its uplinks. Some hosts
/// do so repeatedly, and sometimes two hosts do so at once.
fn roaming(rng: &mut Rng, hosts: &[HostPlan], last: Duration) -> Vec<Change> {
    let mut changes = Vec::new();
    let both = rng.is(Chance::percent(20));
    let first = rng.index(hosts.len());
    let others = usize::from(both);
    let mut at = last + rng.between(Duration::from_secs(10), Duration::from_secs(40));
    for _ in 0..rng.pick(&[1, 1, 2, 10]).unwrap_or(1) {
        let gap = rng.between(Duration::from_secs(2), Duration::from_secs(30));
        for host in (0..=others).map(|n| (first + n) % hosts.len()) {
            let uplinks = hosts.get(host).map_or(1, |host| host.uplinks.len());
            let mut withdraw = |uplink| {
                let what = What::PrefixWithdrawn { uplink: Port { host, uplink } };
                changes.push(Change { at, what });
            };
            (0..uplinks).for_each(&mut withdraw);
            let what = What::PrefixAdded { uplink: Port { host, uplink: rng.index(uplinks) } };
            changes.push(Change { at: at + gap, what });
        }
        at += gap + rng.between(Duration::from_secs(3), Duration::from_secs(90));
    }
    changes
}

/// A host sleeps for less than the idle time of a context. Every other time one of its uplinks has another prefix
/// when it wakes up.
fn sleep(rng: &mut Rng, hosts: &[HostPlan], last: Duration) -> Vec<Change> {
    let port = port(rng, hosts);
    let from = last + rng.between(Duration::from_secs(5), Duration::from_secs(40));
    let at = from + Duration::from_secs(rng.pick(&[1, 10, 60, 200]).unwrap_or(10));
    let elsewhere = [What::PrefixWithdrawn { uplink: port }, What::PrefixAdded { uplink: port }];
    let elsewhere: &[What] = if rng.is(Chance::percent(50)) { &elsewhere } else { &[] };
    let mut changes = vec![Change { at: from, what: What::Suspend { host: port.host } }];
    changes.extend(elsewhere.iter().map(|&what| Change { at, what }));
    changes.push(Change { at, what: What::Resume { host: port.host } });
    changes
}

fn end_of(changes: &[Change]) -> Duration {
    changes.iter().map(|change| change.at).max().unwrap_or_default()
}

fn direction(rng: &mut Rng) -> Direction {
    let directions = [Direction::Both, Direction::Both, Direction::Out, Direction::In];
    rng.pick(&directions).unwrap_or(Direction::Both)
}

fn port(rng: &mut Rng, hosts: &[HostPlan]) -> Port {
    let host = rng.index(hosts.len());
    uplink_of(rng, hosts, host, Chance::percent(50))
}

/// The first uplink of a host, where most traffic is, or with this chance any of them.
fn uplink_of(rng: &mut Rng, hosts: &[HostPlan], host: usize, any: Chance) -> Port {
    let uplinks = hosts.get(host).map_or(1, |host| host.uplinks.len());
    Port { host, uplink: if rng.is(any) { rng.index(uplinks) } else { 0 } }
}

/// A random ISP that has a customer.
fn isp(rng: &mut Rng, hosts: &[HostPlan]) -> usize {
    let Port { host, uplink } = port(rng, hosts);
    hosts.get(host).and_then(|host| host.uplinks.get(uplink)).map_or(0, |uplink| uplink.isp)
}

/// Stream of the seed for plans.
const PLAN_STREAM: u64 = 3;
const ILNP_STREAM: u64 = 5;
const PLAIN_STREAM: u64 = 6;
const STACK_STREAM: u64 = 7;
/// Longest duration of a run. Most runs end long before, when nothing is left to wait for.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time that a host stack takes for its addresses.
const STACKS_READY: Duration = Duration::from_secs(5);
/// Longest time for which an uplink has an old and a new prefix.
const OVERLAP: Duration = Duration::from_secs(30);
/// MTUs of links: without a limit, behind PPPoE and behind tunnels, and the least one (RFC 8200 s5).
const MTUS: [u32; 5] = [0, 1492, 1420, 1300, 1280];
/// Octets of the longest datagram of a host stack: several fragments.
const LONGEST_DATAGRAM: usize = 6000;
