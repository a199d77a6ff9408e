//! The plan of a run: hosts, traffic and failures.

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

/// A network, its traffic, and its failures. Times are from the beginning of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// Longest duration: the run ends earlier if nothing is left to wait for.
    #[serde(with = "as_text", default = "usual_duration")]
    pub duration: Duration,
    /// Whether the run goes on until [`Plan::duration`] in any case.
    #[serde(rename = "full-length", skip_serializing_if = "is_default")]
    pub is_full_length: bool,
    /// Whether a host that has found a path reverts its sockets' retransmission backoff at once (RFC 6069). Otherwise
    /// the next retransmission finds the path.
    #[serde(skip_serializing_if = "is_default")]
    pub reverts_backoff: bool,
    /// Probability that the kernel of a host refuses a change of routes or addresses.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel_failures: Chance,
    /// Whether a daemon that is killed dies between two of its effects, if there are some soon enough.
    #[serde(skip_serializing_if = "is_default")]
    pub kills_amid_effects: bool,
    /// Whether the uplinks to an ISP are on one link: hosts reach each other's addresses on a link without a router.
    #[serde(skip_serializing_if = "is_default")]
    pub neighbors: bool,
    /// An attacker, if there is one.
    #[serde(skip_serializing_if = "is_default")]
    pub attack: Option<Attack>,
    /// The hosts. Other fields name a host by its index here.
    #[serde(rename = "host")]
    pub hosts: Vec<HostPlan>,
    /// Traffic between them.
    #[serde(rename = "traffic", skip_serializing_if = "is_default")]
    pub workloads: Vec<Workload>,
    /// Changes of the network, in order of time.
    #[serde(rename = "change", skip_serializing_if = "is_default")]
    pub changes: Vec<Change>,
    /// Faults that come and go.
    #[serde(rename = "flap", skip_serializing_if = "is_default")]
    pub flaps: Vec<Flap>,
    /// Prefixes that replace others.
    #[serde(rename = "renumbering", skip_serializing_if = "is_default")]
    pub renumberings: Vec<Renumbering>,
}

impl Plan {
    /// Adds ILNP to the hosts whose indices are among these bits.
    #[must_use]
    pub fn with_ilnp(mut self, places: u64) -> Self {
        for (place, host) in self.hosts.iter_mut().enumerate() {
            host.ilnp = host.moorline && places >> (place % 64) & 1 == 1;
        }
        self
    }

    /// Two hosts with Moorline and an uplink to each of two ISPs, 10 ms one way, without traffic and changes.
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
    /// Whether the host runs Moorline. Otherwise it has plain IPv6, and does not know protocol 140.
    #[serde(skip_serializing_if = "is_true")]
    pub moorline: bool,
    /// Whether the host speaks ILNP beside Shim6.
    #[serde(skip_serializing_if = "is_default")]
    pub ilnp: bool,
    /// Whether the host speaks ILNP by RFC 6740 to 6744 alone, to hosts with ILNP. The host is one without Moorline.
    #[serde(skip_serializing_if = "is_default")]
    pub plain_ilnp: bool,
    /// Whether the host is a host stack in a process, with Shim6 beneath its own TCP and UDP, in place of a kernel with a daemon. Both ends
    /// of its traffic have the sockets of the host stack.
    #[serde(skip_serializing_if = "is_default")]
    pub stack: bool,
    /// Whether the host's traffic makes it ask for contexts. Otherwise it waits for its peers, like a server.
    #[serde(skip_serializing_if = "is_true")]
    pub initiates: bool,
    /// Kind of the host's addresses.
    pub addresses: Addresses,
    /// Send Timeout of the host.
    #[serde(with = "as_text")]
    pub send_timeout: Duration,
    /// Profile of the host's detection beyond RFC 5534.
    #[serde(with = "as_text")]
    pub profile: Profile,
    /// Time that a report takes from the data plane to the core: a ring buffer and a wake-up.
    #[serde(with = "as_text", skip_serializing_if = "is_default")]
    pub report_delay: Duration,
    /// Uplinks, each with one address, or more once it has been renumbered.
    #[serde(rename = "uplink")]
    pub uplinks: Vec<Uplink>,
}

impl Default for HostPlan {
    /// A host with Moorline and RFC 5534's Send Timeout, without uplinks.
    fn default() -> Self {
        Self {
            moorline: true,
            ilnp: false,
            plain_ilnp: false,
            stack: false,
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
    /// An HBA set (RFC 5535): a hash binds all prefixes of the set. Later prefixes get another set.
    #[default]
    Hba,
    /// CGAs of one key (RFC 3972): a signature binds any prefixes.
    Cga,
    /// An HBA set that also has a key: a hash binds the addresses of the set, and a signature binds others.
    HbaCompatible,
    /// Addresses that prove nothing: peers are told no other address.
    Plain,
    /// The same, with one identifier under all prefixes.
    OneIdentifier,
}

/// A host's access to an ISP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UplinkForm<toml::Table>", into = "UplinkForm<Link>")]
pub struct Uplink {
    /// Number of the ISP, from zero on.
    pub isp: usize,
    /// The link from the host to the core of the Internet.
    pub out: Link,
    /// The link from the core of the Internet to the host.
    pub inbound: Link,
}

impl Uplink {
    /// Makes an uplink with this delay in both directions.
    #[must_use]
    pub fn clean(isp: usize, delay: Duration) -> Self {
        Self::symmetric(isp, Link::clean(delay))
    }

    /// Makes an uplink with the same link in both directions.
    #[must_use]
    pub const fn symmetric(isp: usize, link: Link) -> Self {
        Self { isp, out: link, inbound: link }
    }
}

/// Properties of one direction between a host and the core of the Internet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// One-way delay.
    #[serde(with = "as_text", default = "usual_delay")]
    pub delay: Duration,
    /// Largest additional delay, random for each packet. Packets may overtake each other.
    #[serde(with = "as_text", skip_serializing_if = "is_default")]
    pub jitter: Duration,
    /// Octets a second, one packet after the other; zero for no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub rate: u64,
    /// Longest time that a packet waits for those before it. A packet that would wait longer is dropped.
    #[serde(with = "as_text", skip_serializing_if = "is_default")]
    pub queue: Duration,
    /// Octets of the largest packet; zero for no limit. A router drops a larger one, and tells its sender by a Packet Too
    /// Big (RFC 4443 s3.2).
    #[serde(skip_serializing_if = "is_default")]
    pub mtu: u32,
    /// Probability that a packet is lost.
    #[serde(skip_serializing_if = "is_default")]
    pub loss: Chance,
    /// Probability that a packet arrives twice.
    #[serde(skip_serializing_if = "is_default")]
    pub duplication: Chance,
    /// Probability that a packet is held back for [`REORDER_DELAY`].
    #[serde(skip_serializing_if = "is_default")]
    pub reordering: Chance,
    /// Probability that a control packet arrives again, up to [`REPLAY_WITHIN`] later.
    #[serde(skip_serializing_if = "is_default")]
    pub replay: Chance,
}

/// Time for which a reordered packet is held back at each uplink.
pub const REORDER_DELAY: Duration = Duration::from_millis(40);
/// Longest time after which a replayed packet arrives again.
pub const REPLAY_WITHIN: Duration = Duration::from_secs(60);

/// A probability in parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Chance(pub u32);

impl Link {
    /// Makes a link with this delay and without other faults.
    #[must_use]
    pub fn clean(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Time for which a packet of this length occupies the link.
    pub(crate) fn transmission(&self, octets: usize) -> Duration {
        let octets = u64::try_from(octets).unwrap_or(u64::MAX);
        let nanos = octets.saturating_mul(1_000_000_000).checked_div(self.rate);
        Duration::from_nanos(nanos.unwrap_or(0))
    }
}

impl Chance {
    /// Makes a chance from percent.
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

/// The letter of a host.
#[must_use]
pub fn host_name(host: usize) -> char {
    u8::try_from(host).ok().filter(|host| *host < 26).map_or('?', |host| char::from(b'A' + host))
}

/// An attacker that can send from any address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Attack {
    /// Time between two packets of the attacker.
    #[serde(with = "as_text")]
    pub interval: Duration,
    /// Whether the attacker hears the recent control messages, with tags and nonces, and repeats and changes them.
    /// Such an attacker can keep hosts from finding a path, because all keepalives look the same (RFC 5534 s8). So
    /// only the rules of safety are checked then. If false, the attacker guesses.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overhears: bool,
    /// The ISP that the attacker is. The attacker hears the control messages of this ISP only, and forges messages of
    /// contexts with what it has heard, in the name of any host and from any address of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isp: Option<usize>,
    /// Whether the attacker sends packets of 8 octets without an upper layer instead, with the ULIDs of a connection as
    /// addresses, to both ends of each connection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pretends: bool,
    /// Whether such packets are datagrams or TCP segments with the ports of the connection. The flow label, or the numbers of the
    /// segment, are a guess. Their checksum is wrong, so the application does not get them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub knows_ports: bool,
}

/// A change of the network or of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time of the change.
    #[serde(with = "as_text")]
    pub at: Duration,
    /// The change.
    #[serde(flatten)]
    pub what: What,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "what",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum What {
    /// An uplink drops all packets in one direction or both, and nobody is told.
    Cut {
        /// The uplink.
        uplink: Port,
        /// The direction.
        #[serde(default)]
        direction: Direction,
    },
    /// Packets from one uplink to another are lost. Other packets pass.
    CutPath {
        /// Uplink of the source.
        uplink: Port,
        /// Uplink of the destination.
        to_uplink: Port,
    },
    /// The link of an uplink goes down, and its host knows.
    CarrierDown {
        /// The uplink.
        uplink: Port,
    },
    /// The link of an uplink comes up again.
    CarrierUp {
        /// The uplink.
        uplink: Port,
    },
    /// The address of an uplink is gone, and its host knows. Packets to it are lost.
    AddressRemoved {
        /// The uplink.
        uplink: Port,
    },
    /// The address of an uplink is back.
    AddressAdded {
        /// The uplink.
        uplink: Port,
    },
    /// The default route of an uplink is gone, and its host knows.
    RouteRemoved {
        /// The uplink.
        uplink: Port,
    },
    /// The default route of an uplink is back.
    RouteAdded {
        /// The uplink.
        uplink: Port,
    },
    /// An ISP drops all packets of its customers, and nobody is told.
    IspDown {
        /// The ISP.
        #[serde(with = "from_one")]
        isp: usize,
    },
    /// An ISP works again.
    IspUp {
        /// The ISP.
        #[serde(with = "from_one")]
        isp: usize,
    },
    /// Packets from the customers of one ISP to those of another are lost. The other direction works.
    CutTransit {
        /// ISP of the senders.
        #[serde(with = "from_one")]
        isp: usize,
        /// ISP of the receivers.
        #[serde(with = "from_one")]
        to_isp: usize,
    },
    /// An uplink gets another prefix. The host makes an address under it, and tells its peers.
    PrefixAdded {
        /// The uplink.
        uplink: Port,
    },
    /// A stranger on the link of an uplink advertises 40 prefixes that lead nowhere. The host makes an address under each,
    /// and tells its peers.
    Misled {
        /// The uplink.
        uplink: Port,
    },
    /// The oldest prefix of an uplink is gone for good, with its addresses. The host tells its peers.
    PrefixWithdrawn {
        /// The uplink.
        uplink: Port,
    },
    /// The silent cuts of an uplink end, and those of paths from it and to it.
    Heal {
        /// The uplink.
        uplink: Port,
    },
    /// A firewall of an uplink drops protocol 140 from now on: control messages of Shim6, and payload that has moved.
    Filter {
        /// The uplink.
        uplink: Port,
        /// The direction.
        #[serde(default)]
        direction: Direction,
    },
    /// The firewall of an uplink passes protocol 140 again.
    FilterEnd {
        /// The uplink.
        uplink: Port,
    },
    /// An uplink loses packets at random from now on, in both directions.
    Loss {
        /// The uplink.
        uplink: Port,
        /// Probability that a packet is lost, in each direction.
        loss: Chance,
    },
    /// An uplink has another MTU from now on, in both directions: see [`Link::mtu`].
    Mtu {
        /// The uplink.
        uplink: Port,
        /// Octets of the largest packet; zero for no limit.
        mtu: u32,
    },
    /// Cuts and failures of ISPs, links and addresses end. Prefixes stay as they are.
    // The variant has braces, because serde refuses no unknown key beside the name of a variant without them.
    HealAll {},
    /// The core of a host is killed. Its data plane goes on by itself, like one in the kernel.
    Kill {
        /// The host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// The core of a host starts again, killed before or not, with its stored state.
    Restart {
        /// The host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// A host restarts with its data plane. It has lost its contexts, and its peers have not.
    Reboot {
        /// The host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// A host sleeps: nothing runs on it, and packets to it are lost.
    Suspend {
        /// The host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// A host wakes up. Its clock has gone on meanwhile.
    Resume {
        /// The host.
        #[serde(with = "as_text")]
        host: usize,
    },
    /// The current pair of each context that a host calls protected is cut in both directions.
    CutProtected {
        /// The host.
        #[serde(with = "as_text")]
        host: usize,
    },
}

/// Direction at a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both directions.
    #[default]
    Both,
    /// Packets that the host sends.
    Out,
    /// Packets that the host receives.
    In,
}

/// Traffic between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// First end. Its address is the local ULID.
    pub from: Port,
    /// Second end.
    pub to: Port,
    /// Time when the traffic begins. It takes the newest address of both uplinks at that time.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub start: Duration,
    /// Time when the application stops by itself; `None`: never.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub until: Option<Duration>,
    /// Kind of traffic.
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
    /// Bytes in order, resent until they are acknowledged, like TCP.
    Stream {
        /// Number of bytes.
        #[serde(default = "endless", skip_serializing_if = "is_endless")]
        bytes: u64,
        /// Pace at which the application writes the bytes; `None` for no limit.
        #[serde(flatten, deserialize_with = "pace_or_none")]
        pace: Option<Pace>,
    },
    /// Numbered packets that the other side answers one by one, like questions to a name server.
    Requests {
        /// Payload of request and answer, and time between requests.
        #[serde(flatten)]
        pace: Pace,
    },
    /// Numbered packets that nobody resends, like UDP.
    Datagrams {
        /// Payload of the packets, and time between them.
        #[serde(flatten)]
        pace: Pace,
        /// Whether the other side sends packets as well.
        #[serde(default)]
        both_ways: bool,
    },
}

impl Kind {
    /// Payload and interval of the first side; `None` for no limit.
    pub(crate) const fn pace(self) -> Option<Pace> {
        match self {
            Self::Stream { pace, .. } => pace,
            Self::Requests { pace } | Self::Datagrams { pace, .. } => Some(pace),
        }
    }
}

/// A number of octets in each interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Octets of payload in an interval.
    pub octets: usize,
    /// Length of an interval.
    #[serde(with = "as_text")]
    pub interval: Duration,
}
