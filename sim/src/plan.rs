use std::fmt;
use std::time::Duration;

/// A network, what runs over it, and what breaks when. Times are from the beginning of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The hosts; elsewhere named by their place here.
    pub hosts: Vec<HostPlan>,
    /// Traffic between them.
    pub workloads: Vec<Workload>,
    /// What happens to the network, in order of time.
    pub changes: Vec<Change>,
    /// Somebody who wishes the hosts ill.
    pub attack: Option<Attack>,
    /// Whether a host that has found a path takes back its sockets' retransmission backoff at once
    /// (RFC 6069). Otherwise the next retransmission finds the path.
    pub reverts_backoff: bool,
    /// Longest duration: the run ends before, once nothing is left to wait for.
    pub duration: Duration,
}

impl Plan {
    /// Two hosts with Moorline and two ISPs each, 10 ms from one to the other, and nothing else yet.
    #[must_use]
    pub fn pair(send_timeout: Duration) -> Self {
        let host = HostPlan {
            moorline: true,
            send_timeout,
            report_delay: Duration::ZERO,
            uplinks: vec![Uplink::clean(Duration::from_millis(5)); 2],
        };
        Self {
            hosts: vec![host; 2],
            workloads: Vec::new(),
            changes: Vec::new(),
            attack: None,
            reverts_backoff: false,
            duration: Duration::from_secs(600),
        }
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// Whether it runs Moorline; otherwise it has plain IPv6 and has never heard of protocol 140.
    pub moorline: bool,
    /// Its Send Timeout.
    pub send_timeout: Duration,
    /// Time that a report of the data plane takes to the core: a ring buffer and a wake-up.
    pub report_delay: Duration,
    /// One to each of its ISPs, each with one address.
    pub uplinks: Vec<Uplink>,
}

/// What packets suffer between a host and the core of the Internet, either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uplink {
    /// One-way delay.
    pub delay: Duration,
    /// Further delay, up to this, different for each packet. Packets may overtake each other by it.
    pub jitter: Duration,
    /// Packets lost.
    pub loss: Chance,
    /// Packets that arrive twice.
    pub duplication: Chance,
    /// Packets held back for [`REORDER_DELAY`].
    pub reordering: Chance,
    /// Control packets that arrive once more, up to [`REPLAY_WITHIN`] later.
    pub replay: Chance,
}

/// How long a reordered packet is held back at each uplink.
pub const REORDER_DELAY: Duration = Duration::from_millis(40);
/// Time within which a replayed packet comes back.
pub const REPLAY_WITHIN: Duration = Duration::from_secs(60);

/// A probability in parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(pub u32);

impl Uplink {
    /// Nothing but this delay.
    #[must_use]
    pub const fn clean(delay: Duration) -> Self {
        Self {
            delay,
            jitter: Duration::ZERO,
            loss: Chance(0),
            duplication: Chance(0),
            reordering: Chance(0),
            replay: Chance(0),
        }
    }
}

impl Chance {
    /// In percent.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self(percent * 10_000)
    }
}

/// One end of a path: an uplink of a host, and the address on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Place of the host in [`Plan::hosts`].
    pub host: usize,
    /// Place of the uplink in [`HostPlan::uplinks`].
    pub isp: usize,
}

impl fmt::Display for Port {
    /// `A1`: host A, first ISP.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", host_name(self.host), self.isp + 1)
    }
}

/// A letter for each host.
#[must_use]
pub fn host_name(host: usize) -> char {
    u8::try_from(host).ok().filter(|host| *host < 26).map_or('?', |host| char::from(b'A' + host))
}

/// An attacker who can send from any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attack {
    /// Time between its packets.
    pub interval: Duration,
    /// Whether it hears the control messages of the last minute or so, tags and nonces included, and
    /// repeats and changes them. Whoever can do that can keep hosts from finding a path, as keepalives
    /// look all the same (RFC 5534 s8): then nothing is promised but that no rule of safety is broken.
    /// Otherwise it guesses.
    pub overhears: bool,
}

/// Something happens to the network or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An uplink drops every packet, one way or both, and nobody is told.
    Cut {
        /// Which uplink.
        port: Port,
        /// Which packets.
        direction: Direction,
    },
    /// Packets from one uplink to another vanish; everything else goes through.
    CutPath {
        /// Where they come from.
        from: Port,
        /// Where they would go.
        to: Port,
    },
    /// The link of an uplink is down, and its host knows.
    CarrierDown(Port),
    /// It is up again.
    CarrierUp(Port),
    /// The address of an uplink is gone, and its host knows: what is sent to it is lost.
    AddressRemoved(Port),
    /// It is back.
    AddressAdded(Port),
    /// An uplink's silent cuts are over, and those of the paths from it and to it.
    Heal(Port),
    /// All is well again: cuts, links, addresses.
    HealAll,
    /// The core of a host is killed. Its data plane, as one in the kernel, goes on by itself.
    Kill {
        /// Which host.
        host: usize,
    },
    /// It starts again, killed before or not, with what it had stored.
    Restart {
        /// Which host.
        host: usize,
    },
}

/// Direction at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    Both,
    /// What it sends.
    Out,
    /// What it receives.
    In,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { port, direction: Direction::Both } => write!(f, "cut {port} both ways"),
            Self::Cut { port, direction: Direction::Out } => write!(f, "cut {port} outbound"),
            Self::Cut { port, direction: Direction::In } => write!(f, "cut {port} inbound"),
            Self::CutPath { from, to } => write!(f, "cut the path {from} -> {to}"),
            Self::CarrierDown(port) => write!(f, "carrier of {port} down"),
            Self::CarrierUp(port) => write!(f, "carrier of {port} up"),
            Self::AddressRemoved(port) => write!(f, "address of {port} removed"),
            Self::AddressAdded(port) => write!(f, "address of {port} added"),
            Self::Heal(port) => write!(f, "heal {port}"),
            Self::HealAll => f.write_str("heal everything"),
            Self::Kill { host } => write!(f, "kill the core of {}", host_name(*host)),
            Self::Restart { host } => write!(f, "restart the core of {}", host_name(*host)),
        }
    }
}

/// Traffic between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Where it begins; the address there is the local ULID.
    pub from: Port,
    /// Where it goes.
    pub to: Port,
    /// When it begins.
    pub start: Duration,
    /// What it is.
    pub kind: Kind,
}

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes in order, retransmitted until acknowledged, as TCP does.
    Stream {
        /// How many.
        bytes: u64,
        /// How fast the application writes them; `None`: as fast as they go.
        pace: Option<Pace>,
    },
    /// Numbered packets that the other side answers one by one, as a question to a name server.
    Requests {
        /// The payload of either, and the time between requests.
        pace: Pace,
    },
    /// Numbered packets that nobody retransmits, as UDP.
    Datagrams {
        /// Their payload and the time between them.
        pace: Pace,
        /// Whether the other side sends the same.
        both_ways: bool,
    },
}

/// So many octets every interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Octets of payload at a time.
    pub octets: usize,
    /// Time between.
    pub interval: Duration,
}
