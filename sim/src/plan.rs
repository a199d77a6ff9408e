use std::time::Duration;

use crate::random::Random;

/// What a run consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of hosts.
    pub hosts: usize,
    /// ISPs of each host.
    pub isps: usize,
    /// Hosts that have no Moorline: plain IPv6, and "unrecognized next header" for the rest.
    pub plain_hosts: Vec<usize>,
    /// How every uplink behaves while it works.
    pub link: LinkPlan,
    /// Send Timeout of every host.
    pub send_timeout: Duration,
    /// Longest retransmission timeout of the streams.
    pub max_rto: Duration,
    /// Who sends what to whom.
    pub workloads: Vec<Workload>,
    /// What fails when.
    pub faults: Vec<Fault>,
    /// How often someone who is on no path injects forged and repeated packets; zero: never.
    pub attack_interval: Duration,
    /// The run ends here at the latest, from the last change of the network.
    pub limit: Duration,
}

/// One uplink, each direction alike. A path is the uplinks at its two ends.
#[derive(Clone, Copy, Debug)]
pub struct LinkPlan {
    /// Propagation delay.
    pub delay: Duration,
    /// Uniform, on top.
    pub jitter: Duration,
    /// Chances in a million that a packet is lost.
    pub loss_ppm: u32,
    /// That it arrives twice.
    pub duplicate_ppm: u32,
    /// That it is late by up to a second.
    pub reorder_ppm: u32,
    /// Octets a second; `None`: as fast as one likes.
    pub rate: Option<u64>,
}

/// One end of an access link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Number of the host.
    pub host: usize,
    /// Number of its ISP.
    pub isp: usize,
}

/// Traffic between two addresses.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// What kind.
    pub traffic: Traffic,
    /// Who begins, and which of its addresses is the ULID.
    pub from: End,
    /// With whom.
    pub to: End,
    /// When.
    pub start: Duration,
}

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// A reliable stream, as TCP: handed to it at `rate` octets a second until `octets` are through.
    Stream {
        /// Length.
        octets: u64,
        /// Octets a second that the application writes.
        rate: u64,
    },
    /// A datagram each `interval`, each answered by one.
    Requests {
        /// Time between requests.
        interval: Duration,
    },
    /// A datagram each `interval`, unanswered.
    OneWay {
        /// Time between datagrams.
        interval: Duration,
    },
}

/// A failure and its time.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// From.
    pub at: Duration,
    /// To; `None`: for ever.
    pub until: Option<Duration>,
    /// What fails.
    pub failure: Failure,
}

/// Ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The ISP drops every packet and says nothing.
    Silent(End),
    /// It drops what the host sends.
    Outbound(End),
    /// It drops what the host should receive.
    Inbound(End),
    /// Nothing gets from one ISP to another, though both work.
    Path {
        /// Sender.
        from: End,
        /// Receiver.
        to: End,
    },
    /// The host's interface is down, and the host knows.
    Carrier(End),
    /// The ISP took the address back, and the host knows.
    Address(End),
    /// The host's daemon is killed, its data plane goes on by itself; when the failure is over, a new
    /// daemon takes over what the old one knew.
    Daemon {
        /// Number of the host.
        host: usize,
    },
}

impl Default for LinkPlan {
    /// 10 ms and nothing wrong.
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            rate: None,
        }
    }
}

impl Plan {
    /// Two hosts with two ISPs each, clean links, no traffic and no faults.
    #[must_use]
    pub fn pair() -> Self {
        Self {
            hosts: 2,
            isps: 2,
            plain_hosts: Vec::new(),
            link: LinkPlan::default(),
            send_timeout: Duration::from_secs(2),
            max_rto: Duration::from_secs(2),
            workloads: Vec::new(),
            faults: Vec::new(),
            attack_interval: Duration::ZERO,
            limit: Duration::from_secs(1200),
        }
    }

    /// A plan drawn from a seed: 2 to 3 hosts, 2 to 3 ISPs, bad links, several kinds of traffic, and up
    /// to 6 failures that come and go for some time after the first ten seconds.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ PLAN_STREAM);
        let hosts = 2 + random.index(2);
        let isps = 2 + random.index(2);
        let mut plan = Self {
            hosts,
            isps,
            link: random_link(random),
            send_timeout: random.duration(Duration::from_millis(500), Duration::from_secs(4)),
            ..Self::pair()
        };
        for _ in 0..=random.index(3) {
            plan.workloads.push(random_workload(random, hosts, isps));
        }
        for _ in 0..random.below(7) {
            plan.faults.push(random_fault(random, hosts, isps));
        }
        if random.chance(300_000) {
            plan.attack_interval = Duration::from_millis(100);
        }
        plan
    }

    /// When the network changes for the last time.
    #[must_use]
    pub fn settled(&self) -> Duration {
        let ends = self.faults.iter().map(|fault| fault.until.unwrap_or(fault.at));
        let starts = self.workloads.iter().map(|workload| workload.start);
        ends.chain(starts).max().unwrap_or_default()
    }
}

fn random_link(random: &mut Random) -> LinkPlan {
    let millis = |random: &mut Random, end: u64| Duration::from_millis(random.below(end));
    let is_clean = random.chance(300_000);
    let mut ppm = |end: u64| {
        let drawn = random.below(end);
        if is_clean { 0 } else { u32::try_from(drawn).unwrap_or(0) }
    };
    let (loss_ppm, duplicate_ppm, reorder_ppm) = (ppm(30_000), ppm(20_000), ppm(20_000));
    LinkPlan {
        delay: millis(random, 60),
        jitter: millis(random, 20),
        loss_ppm,
        duplicate_ppm,
        reorder_ppm,
        rate: None,
    }
}

fn random_workload(random: &mut Random, hosts: usize, isps: usize) -> Workload {
    let from = End { host: random.index(hosts), isp: random.index(isps) };
    let host = (from.host + 1 + random.index(hosts - 1)) % hosts;
    let interval = random.duration(Duration::from_millis(50), Duration::from_millis(200));
    let traffic = match random.below(4) {
        0 | 1 => Traffic::Stream { octets: u64::MAX, rate: 12_000 },
        2 => Traffic::Requests { interval },
        _ => Traffic::OneWay { interval },
    };
    let start = random.duration(Duration::ZERO, Duration::from_secs(2));
    Workload { traffic, from, to: End { host, isp: random.index(isps) }, start }
}

fn random_fault(random: &mut Random, hosts: usize, isps: usize) -> Fault {
    let mut end = || End { host: random.index(hosts), isp: random.index(isps) };
    let (from, to) = (end(), end());
    let failure = match random.below(9) {
        0..=2 => Failure::Silent(from),
        3 => Failure::Outbound(from),
        4 => Failure::Inbound(from),
        5 => Failure::Path { from, to },
        6 => Failure::Carrier(from),
        7 => Failure::Address(from),
        _ => Failure::Daemon { host: from.host },
    };
    let at = random.duration(Duration::from_secs(10), Duration::from_secs(25));
    let until = at + random.duration(Duration::from_millis(100), Duration::from_secs(15));
    // Nothing is promised for a daemon that stays dead.
    let ends = random.chance(700_000) || matches!(failure, Failure::Daemon { .. });
    Fault { at, until: ends.then_some(until), failure }
}

/// Keeps what a plan is drawn from apart from what happens in the run.
const PLAN_STREAM: u64 = 0x6d6f_6f72_6c69_6e65;
