//! What is played: who is there, what runs, what breaks when.

mod check;
mod file;
mod schedule;
mod text;

use std::time::Duration;

use moorline_contexts::Profile;
use serde::{Deserialize, Serialize};

pub use file::PlanError;
use file::{
    UplinkForm, as_text, endless, from_one, is_default, is_endless, is_true, pace_or_none,
    usual_delay, usual_duration,
};
pub use schedule::{Fault, Flap, Renumbering};

/// A network, what runs over it, and what breaks when. Times are from the beginning of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// Longest duration: the run ends before, once nothing is left to wait for.
    #[serde(with = "as_text", default = "usual_duration")]
    pub duration: Duration,
    /// Whether it goes on until [`Plan::duration`] even so.
    #[serde(rename = "full-length", skip_serializing_if = "is_default")]
    pub is_full_length: bool,
    /// Whether a host that has found a path takes back its sockets' retransmission backoff at once
    /// (RFC 6069). Otherwise the next retransmission finds the path.
    #[serde(skip_serializing_if = "is_default")]
    pub reverts_backoff: bool,
    /// How likely the kernel of a host refuses a change of routes or addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel_failures: Chance,
    /// Whether a daemon is killed between two effects that it executes, if there are some soon enough.
    #[serde(skip_serializing_if = "is_default")]
    pub kills_amid_effects: bool,
    /// Somebody who wishes the hosts ill.
    #[serde(skip_serializing_if = "is_default")]
    pub attack: Option<Attack>,
    /// The hosts; elsewhere named by their place here.
    #[serde(rename = "host")]
    pub hosts: Vec<HostPlan>,
    /// Traffic between them.
    #[serde(rename = "traffic", skip_serializing_if = "is_default")]
    pub workloads: Vec<Workload>,
    /// What happens to the network, in order of time.
    #[serde(rename = "change", skip_serializing_if = "is_default")]
    pub changes: Vec<Change>,
    /// Faults that come and go.
    #[serde(rename = "flap", skip_serializing_if = "is_default")]
    pub flaps: Vec<Flap>,
    /// Prefixes that take the place of others.
    #[serde(rename = "renumbering", skip_serializing_if = "is_default")]
    pub renumberings: Vec<Renumbering>,
}

impl Plan {
    /// The same with ILNP on the hosts whose place in it is among these bits.
    #[must_use]
    pub fn with_ilnp(mut self, places: u64) -> Self {
        for (place, host) in self.hosts.iter_mut().enumerate() {
            host.ilnp = host.moorline && places >> (place % 64) & 1 == 1;
        }
        self
    }

    /// Two hosts with Moorline and an uplink to each of two ISPs, 10 ms from one to the other, and
    /// nothing else yet.
    #[must_use]
    pub fn pair(send_timeout: Duration) -> Self {
        let uplinks = (0..2).map(|isp| Uplink::clean(isp, usual_delay())).collect();
        let host = HostPlan { send_timeout, uplinks, ..HostPlan::default() };
        Self { hosts: vec![host; 2], duration: usual_duration(), ..Self::default() }
    }
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct HostPlan {
    /// Whether it runs Moorline; otherwise it has plain IPv6 and has never heard of protocol 140.
    #[serde(skip_serializing_if = "is_true")]
    pub moorline: bool,
    /// Whether it speaks ILNP beside Shim6.
    #[serde(skip_serializing_if = "is_default")]
    pub ilnp: bool,
    /// Whether its traffic makes it ask for contexts; otherwise it waits to be asked, as a server.
    #[serde(skip_serializing_if = "is_true")]
    pub initiates: bool,
    /// What proves that its addresses belong together.
    pub addresses: Addresses,
    /// Its Send Timeout.
    #[serde(with = "as_text")]
    pub send_timeout: Duration,
    /// What its reachability detection does beyond RFC 5534.
    #[serde(with = "as_text")]
    pub profile: Profile,
    /// Time that a report of the data plane takes to the core: a ring buffer and a wake-up.
    #[serde(with = "as_text", skip_serializing_if = "is_default")]
    pub report_delay: Duration,
    /// Each with one address, or more once it has been renumbered.
    #[serde(rename = "uplink")]
    pub uplinks: Vec<Uplink>,
}

impl Default for HostPlan {
    /// With Moorline, RFC 5534's Send Timeout, and no uplink yet.
    fn default() -> Self {
        Self {
            moorline: true,
            ilnp: false,
            initiates: true,
            addresses: Addresses::Hba,
            send_timeout: Duration::from_secs(15),
            profile: Profile::default(),
            report_delay: Duration::ZERO,
            uplinks: Vec::new(),
        }
    }
}

/// Kinds of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addresses {
    /// An HBA set (RFC 5535): a hash binds all prefixes there are; later ones are a set of their own.
    #[default]
    Hba,
    /// CGAs of one key (RFC 3972): a signature binds whatever prefixes there are.
    Cga,
    /// An HBA set that is bound to a key too: its members by the hash, others by a signature.
    HbaCompatible,
    /// Addresses that prove nothing: peers are told of no other.
    Plain,
}

/// A host's access to an ISP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UplinkForm<toml::Table>", into = "UplinkForm<Link>")]
pub struct Uplink {
    /// Number of the ISP, from zero on.
    pub isp: usize,
    /// What packets suffer from the host to the core of the Internet.
    pub out: Link,
    /// And back.
    pub inbound: Link,
}

impl Uplink {
    /// Nothing but this delay, either way.
    #[must_use]
    pub fn clean(isp: usize, delay: Duration) -> Self {
        Self::symmetric(isp, Link::clean(delay))
    }

    /// The same either way.
    #[must_use]
    pub const fn symmetric(isp: usize, link: Link) -> Self {
        Self { isp, out: link, inbound: link }
    }
}

/// What packets suffer one way between a host and the core of the Internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// One-way delay.
    #[serde(with = "as_text", default = "usual_delay")]
    pub delay: Duration,
    /// Further delay, up to this, different for each packet. Packets may overtake each other by it.
    #[serde(with = "as_text", skip_serializing_if = "is_default")]
    pub jitter: Duration,
    /// Octets a second that it carries, one packet after the other; zero: all at once.
    #[serde(skip_serializing_if = "is_default")]
    pub rate: u64,
    /// A packet that would have to wait longer for those before it is dropped.
    #[serde(with = "as_text", skip_serializing_if = "is_default")]
    pub queue: Duration,
    /// Packets lost.
    #[serde(skip_serializing_if = "is_default")]
    pub loss: Chance,
    /// Packets that arrive twice.
    #[serde(skip_serializing_if = "is_default")]
    pub duplication: Chance,
    /// Packets held back for [`REORDER_DELAY`].
    #[serde(skip_serializing_if = "is_default")]
    pub reordering: Chance,
    /// Control packets that arrive once more, up to [`REPLAY_WITHIN`] later.
    #[serde(skip_serializing_if = "is_default")]
    pub replay: Chance,
}

/// How long a reordered packet is held back at each uplink.
pub const REORDER_DELAY: Duration = Duration::from_millis(40);
/// Time within which a replayed packet comes back.
pub const REPLAY_WITHIN: Duration = Duration::from_secs(60);

/// A probability in parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Chance(pub u32);

impl Link {
    /// Nothing but this delay.
    #[must_use]
    pub fn clean(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// How long a packet occupies it.
    pub(crate) fn transmission(&self, octets: usize) -> Duration {
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        let nanos = octets.saturating_mul(1_000_000_000).checked_div(self.rate);
        Duration::from_nanos(nanos.unwrap_or(0))
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Port {
    /// Place of the host in [`Plan::hosts`].
    pub host: usize,
    /// Place of the uplink in [`HostPlan::uplinks`].
    pub uplink: usize,
}

/// A letter for each host.
#[must_use]
pub fn host_name(host: usize) -> char {
    u8::try_from(host).ok().filter(|host| *host < 26).map_or('?', |host| char::from(b'A' + host))
}

/// An attacker who can send from any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Attack {
    /// Time between its packets.
    #[serde(with = "as_text")]
    pub interval: Duration,
    /// Whether it hears the control messages of the last minute or so, tags and nonces included, and
    /// repeats and changes them. Whoever can do that can keep hosts from finding a path, as keepalives
    /// look all the same (RFC 5534 s8): then nothing is promised but that no rule of safety is broken.
    /// Otherwise it guesses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overhears: bool,
}

/// Something happens to the network or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    #[serde(with = "as_text")]
    pub at: Duration,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "what",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum What {
    /// An uplink drops every packet, one way or both, and nobody is told.
    Cut {
        /// Which uplink.
        uplink: Port,
        /// Which packets.
        #[serde(default)]
        direction: Direction,
    },
    /// Packets from one uplink to another vanish; everything else goes through.
    CutPath {
        /// Where they come from.
        uplink: Port,
        /// Where they would go.
        to_uplink: Port,
    },
    /// The link of an uplink is down, and its host knows.
    CarrierDown {
        /// Which uplink.
        uplink: Port,
    },
    /// It is up again.
    CarrierUp {
        /// Which uplink.
        uplink: Port,
    },
    /// The address of an uplink is gone, and its host knows: what is sent to it is lost.
    AddressRemoved {
        /// Which uplink.
        uplink: Port,
    },
    /// It is back.
    AddressAdded {
        /// Which uplink.
        uplink: Port,
    },
    /// An ISP drops every packet of its customers, and nobody is told.
    IspDown {
        /// Which ISP.
        #[serde(with = "from_one")]
        isp: usize,
    },
    /// It works again.
    IspUp {
        /// Which ISP.
        #[serde(with = "from_one")]
        isp: usize,
    },
    /// Packets from the customers of one ISP to those of another vanish; the way back goes on.
    CutTransit {
        /// Whose customers send.
        #[serde(with = "from_one")]
        isp: usize,
        /// Whose customers get nothing.
        #[serde(with = "from_one")]
        to_isp: usize,
    },
    /// A prefix more on an uplink: the host makes itself an address under it, and tells its peers.
    PrefixAdded {
        /// Which uplink.
        uplink: Port,
    },
    /// The oldest prefix of an uplink is gone for good, with its addresses; the host tells its peers.
    PrefixWithdrawn {
        /// Which uplink.
        uplink: Port,
    },
    /// An uplink's silent cuts are over, and those of the paths from it and to it.
    Heal {
        /// Which uplink.
        uplink: Port,
    },
    /// All is well again: cuts, ISPs, links, addresses. Prefixes stay as they are.
    // With braces, as serde refuses no unknown key beside the name of a variant without them.
    HealAll {},
    /// The core of a host is killed. Its data plane, as one in the kernel, goes on by itself.
    Kill {
        /// Which host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// It starts again, killed before or not, with what it had stored.
    Restart {
        /// Which host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// A host starts anew, data plane and all: it has forgotten its contexts, its peers have not.
    Reboot {
        /// Which host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// A host sleeps: nothing runs on it, and packets to it are lost.
    Suspend {
        /// Which host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// A host wakes up. Its clock has gone on meanwhile.
    Resume {
        /// Which host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// The current pair of each context that a host calls protected is cut both ways, and nothing else.
    CutProtected {
        /// Which host.
        #[serde(with = "as_text")]
        host: usize,
    },
}

/// Direction at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both ways.
    #[default]
    Both,
    /// What it sends.
    Out,
    /// What it receives.
    In,
}

/// Traffic between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Where it begins; the address there is the local ULID.
    pub from: Port,
    /// Where it goes.
    pub to: Port,
    /// When it begins; it takes the newest address of either uplink then.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub start: Duration,
    /// When the application stops of its own accord; `None`: never.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub until: Option<Duration>,
    /// What it is.
    #[serde(flatten)]
    pub kind: Kind,
}

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Kind {
    /// Bytes in order, retransmitted until acknowledged, as TCP does.
    Stream {
        /// How many.
        #[serde(default = "endless", skip_serializing_if = "is_endless")]
        bytes: u64,
        /// How fast the application writes them; `None`: as fast as they go.
        #[serde(flatten, deserialize_with = "pace_or_none")]
        pace: Option<Pace>,
    },
    /// Numbered packets that the other side answers one by one, as a question to a name server.
    Requests {
        /// The payload of either, and the time between requests.
        #[serde(flatten)]
        pace: Pace,
    },
    /// Numbered packets that nobody retransmits, as UDP.
    Datagrams {
        /// Their payload and the time between them.
        #[serde(flatten)]
        pace: Pace,
        /// Whether the other side sends the same.
        #[serde(default)]
        both_ways: bool,
    },
}

impl Kind {
    /// What the first side sends, and how often; `None`: as fast as it goes.
    pub(crate) const fn pace(self) -> Option<Pace> {
        match self {
            Self::Stream { pace, .. } => pace,
            Self::Requests { pace } | Self::Datagrams { pace, .. } => Some(pace),
        }
    }
}

/// So many octets every interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Octets of payload at a time.
    pub octets: usize,
    /// Time between.
    #[serde(with = "as_text")]
    pub interval: Duration,
}
