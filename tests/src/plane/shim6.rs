//! The format of the vectors of Shim6, field by field as in `tests/vectors/plane/README.md`, and the player for
//! `proto/plane`.

mod play;

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::{
    ContextCounters, ContextEntry, ContextPlane, FailureHint, PathCounters, ReapTimers, Report,
    TriggerPolicy, TriggerRule, Triggers, Update,
};
use moorline_types::{ContextId, ContextTag, Instant, Locator, Path, Prefix, Ulid, UlidPair};
use serde::Deserialize;

pub use play::UserPlane;

use super::{Bench, Packet, Player, Vector, both, check_reports, compare, drops};

/// A case, which starts with empty tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    name: String,
    #[serde(default = "both")]
    planes: Vec<String>,
    #[serde(default)]
    trigger: Option<Trigger>,
    #[serde(default)]
    rules: Vec<Rule>,
    /// Our addresses, each on its own uplink.
    pub locals: Vec<Ipv6Addr>,
    steps: Vec<Step>,
}

/// An object in `steps`.
pub type Step = super::Step<Input, Check>;

/// An input of a case.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Input {
    /// `Update::Upsert`
    Upsert {
        /// The entry.
        upsert: Entry,
    },
    /// `Update::Heard`
    Heard {
        /// Context and time.
        heard: Heard,
    },
    /// `Update::Remove`
    Remove {
        /// The context.
        remove: OfContext,
    },
    /// `Update::Rearm`
    Rearm {
        /// The pair of ULIDs.
        rearm: OfPair,
    },
    /// The trigger policy changes.
    Policy {
        /// The new default policy and rules.
        policy: Policy,
    },
    /// The plane checks the timers of every context.
    Tick {
        /// Always true.
        tick: bool,
    },
    /// A packet at a hook, and its expected fate.
    Packet(Packet),
}

/// A check of a case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// All reports since the last check.
    Reports(Vec<ReportText>),
    /// The counters of a context.
    Counters(CountersText),
    /// The counters of the current pair of a context.
    PathCounters(PathCountersText),
    /// All drop counts that are not zero, by reason.
    Drops(BTreeMap<String, u64>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of `ContextEntry`")]
pub struct Entry {
    pub context: u32,
    pub ulids: [Ipv6Addr; 2],
    pub local_tag: String,
    pub peer_tag: String,
    pub locators: [Ipv6Addr; 2],
    pub peer_locators: Vec<Ipv6Addr>,
    pub timers: Option<Timers>,
    pub watch: u32,
    pub idle: u64,
    #[serde(default)]
    pub suspects: bool,
    #[serde(default)]
    pub congestion: bool,
    #[serde(default)]
    pub paths: Vec<[Ipv6Addr; 2]>,
    #[serde(default)]
    pub spread: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of `ReapTimers`")]
pub struct Timers {
    pub send: u64,
    pub keepalive_interval: u64,
    pub keepalive_timeout: u64,
}

/// A trigger policy. A limit that is left out does not apply. The default of `idle` is 120 s.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trigger {
    bytes: Option<u64>,
    packets: Option<u32>,
    age: Option<u64>,
    idle: Option<u64>,
    #[serde(default)]
    eui64: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    local: Option<(Ipv6Addr, u8)>,
    peer: Option<(Ipv6Addr, u8)>,
    protocol: Option<u8>,
    local_ports: Option<[u16; 2]>,
    peer_ports: Option<[u16; 2]>,
    cgroup: Option<u64>,
    policy: Trigger,
}

/// A new default policy and new rules.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    trigger: Option<Trigger>,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of `Update::Heard`")]
pub struct Heard {
    pub context: u32,
    pub at: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "a number of a context")]
pub struct OfContext {
    pub context: u32,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "local and peer address")]
pub struct OfPair {
    pub ulids: [Ipv6Addr; 2],
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "the variants of `Report`")]
pub enum ReportText {
    Trigger { ulids: [Ipv6Addr; 2] },
    SendExpired { context: u32, since: u64 },
    KeepaliveDue { context: u32 },
    Received { context: u32, at: u64 },
    Idle { context: u32, since: u64 },
    Suspected { context: u32, hint: HintText, since: u64, usual: u64 },
    Congested { context: u32, at: u64, ce: u32, ece: u32 },
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variants of `FailureHint`")]
pub enum HintText {
    Retransmission,
    Silence,
    Unreachable,
    Unproven,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of `ContextCounters`")]
pub struct CountersText {
    pub context: u32,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub last_tx: u64,
    pub last_rx: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields of `PathCounters`")]
pub struct PathCountersText {
    pub context: u32,
    pub received: u64,
    pub ce: u64,
    pub ece: u64,
    pub cwr: u64,
    pub segments: u64,
    pub retransmissions: u64,
    pub rtt: Option<u64>,
}

impl PathCountersText {
    /// The counters of a plane, in the form of the vectors.
    fn new(context: u32, counters: PathCounters) -> Self {
        let PathCounters { received, ce, ece, cwr, segments, retransmissions, rtt } = counters;
        let rtt = rtt.map(|rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        Self { context, received, ce, ece, cwr, segments, retransmissions, rtt }
    }
}

impl Vector for Case {
    type Input = Input;
    type Check = Check;
    const FOLDER: &'static str = "plane";

    fn name(&self) -> &str {
        &self.name
    }

    fn planes(&self) -> &[String] {
        &self.planes
    }

    fn steps(&self) -> &[Step] {
        &self.steps
    }

    fn packet(input: &Input) -> Option<&Packet> {
        if let Input::Packet(packet) = input { Some(packet) } else { None }
    }
}

impl<B: Bench<Plane: ContextPlane>> Player<Case> for B {
    fn update(&mut self, input: &Input, now: Instant) -> Result<(), String> {
        if let Input::Tick { .. } = input {
            self.tick(now);
            return Ok(());
        }
        let done = if let Input::Policy { policy } = input {
            self.plane().set_triggers(&policy.into())
        } else {
            self.plane().apply(&input.update().ok_or("no update")?, now)
        };
        done.map_err(|error| error.to_string())
    }

    fn check(&mut self, check: &Check) -> Result<(), String> {
        let plane = self.plane();
        match check {
            Check::Reports(expected) => {
                check_reports(plane, expected.iter().map(|&report| report.into()))
            }
            Check::Counters(expected) => {
                let context = expected.context;
                let seen = plane.counters(ContextId(context)).map_err(|error| error.to_string())?;
                compare("counters", &CountersText::new(context, &seen), expected)
            }
            Check::PathCounters(expected) => {
                let context = expected.context;
                let seen = plane.path_counters(ContextId(context));
                let seen = seen.map_err(|error| error.to_string())?;
                let seen = seen.map(|seen| PathCountersText::new(context, seen));
                compare("path counters", &seen, &Some(*expected))
            }
            Check::Drops(expected) => compare("drops", &drops(plane)?, expected),
        }
    }
}

impl Input {
    /// The update of the contract. `None` for any other input.
    fn update(&self) -> Option<Update> {
        match self {
            Self::Upsert { upsert } => Some(Update::Upsert(upsert.into())),
            Self::Heard { heard } => Some(Update::Heard {
                context: ContextId(heard.context),
                at: Instant::from_nanos(heard.at),
            }),
            Self::Remove { remove } => Some(Update::Remove { context: ContextId(remove.context) }),
            Self::Rearm { rearm } => Some(Update::Rearm { ulids: ulids(rearm.ulids) }),
            Self::Policy { .. } | Self::Tick { .. } | Self::Packet(_) => None,
        }
    }
}

impl CountersText {
    /// The counters of a plane, in the form of the vectors.
    const fn new(context: u32, counters: &ContextCounters) -> Self {
        Self {
            context,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            last_tx: counters.last_tx.as_nanos(),
            last_rx: counters.last_rx.as_nanos(),
        }
    }
}

impl Case {
    /// The trigger policies of the case.
    #[must_use]
    pub fn triggers(&self) -> Triggers {
        triggers(self.trigger, &self.rules)
    }
}

impl From<&Policy> for Triggers {
    fn from(policy: &Policy) -> Self {
        triggers(policy.trigger, &policy.rules)
    }
}

fn triggers(default: Option<Trigger>, rules: &[Rule]) -> Triggers {
    let default = default.map_or_else(TriggerPolicy::default, TriggerPolicy::from);
    let rules = rules.iter().map(TriggerRule::from).collect();
    Triggers::new(default, rules).expect("as many rules as a plane takes")
}

impl From<Trigger> for TriggerPolicy {
    fn from(trigger: Trigger) -> Self {
        Self {
            bytes: trigger.bytes.unwrap_or(u64::MAX),
            packets: trigger.packets.unwrap_or(u32::MAX),
            age: trigger.age.map_or(Duration::MAX, Duration::from_nanos),
            idle: trigger.idle.map_or(Self::NEVER.idle, Duration::from_nanos),
            eui64: trigger.eui64,
        }
    }
}

impl From<&Rule> for TriggerRule {
    fn from(rule: &Rule) -> Self {
        let prefix = |prefix: Option<(Ipv6Addr, u8)>| {
            prefix.map_or(Prefix::ALL, |(address, len)| {
                assert!(len <= 128, "a prefix has at most 128 bits");
                Prefix::new(address, len)
            })
        };
        let ports = |ports: Option<[u16; 2]>| ports.map(|[first, last]| first..=last);
        Self {
            local: prefix(rule.local),
            peer: prefix(rule.peer),
            protocol: rule.protocol,
            local_ports: ports(rule.local_ports),
            peer_ports: ports(rule.peer_ports),
            cgroup: rule.cgroup,
            policy: rule.policy.into(),
        }
    }
}

impl From<&Entry> for ContextEntry {
    fn from(entry: &Entry) -> Self {
        let addresses = ulids(entry.ulids);
        let path = |&pair: &[Ipv6Addr; 2]| Path::of(addresses, ulids(pair).as_locators());
        Self {
            id: ContextId(entry.context),
            ulids: addresses,
            local_tag: tag(&entry.local_tag),
            peer_tag: tag(&entry.peer_tag),
            current: path(&entry.locators),
            peer_locators: entry.peer_locators.iter().copied().map(Locator).collect(),
            timers: entry.timers.map(|timers| ReapTimers {
                send: Duration::from_nanos(timers.send),
                keepalive_interval: Duration::from_nanos(timers.keepalive_interval),
                keepalive_timeout: Duration::from_nanos(timers.keepalive_timeout),
            }),
            watch: entry.watch,
            idle: Duration::from_nanos(entry.idle),
            suspects: entry.suspects,
            congestion: entry.congestion,
            paths: entry.paths.iter().map(path).collect(),
            spread: entry.spread,
        }
    }
}

impl From<ReportText> for Report {
    fn from(report: ReportText) -> Self {
        let time = Instant::from_nanos;
        match report {
            ReportText::Trigger { ulids: pair } => Self::Trigger { ulids: ulids(pair) },
            ReportText::SendExpired { context, since } => {
                Self::SendExpired { context: ContextId(context), since: time(since) }
            }
            ReportText::KeepaliveDue { context } => {
                Self::KeepaliveDue { context: ContextId(context) }
            }
            ReportText::Received { context, at } => {
                Self::Received { context: ContextId(context), at: time(at) }
            }
            ReportText::Idle { context, since } => {
                Self::Idle { context: ContextId(context), since: time(since) }
            }
            ReportText::Suspected { context, hint, since, usual } => Self::Suspected {
                context: ContextId(context),
                hint: match hint {
                    HintText::Retransmission => FailureHint::Retransmission,
                    HintText::Silence => FailureHint::Silence,
                    HintText::Unreachable => FailureHint::Unreachable,
                    HintText::Unproven => FailureHint::Unproven,
                },
                since: time(since),
                usual: Duration::from_nanos(usual),
            },
            ReportText::Congested { context, at, ce, ece } => {
                Self::Congested { context: ContextId(context), at: time(at), ce, ece }
            }
        }
    }
}

/// Local and peer address.
#[must_use]
fn ulids([local, peer]: [Ipv6Addr; 2]) -> UlidPair {
    UlidPair::new(Ulid(local), Ulid(peer))
}

fn tag(text: &str) -> ContextTag {
    let octets = hex::decode(text).ok().and_then(|octets| <[u8; 6]>::try_from(octets).ok());
    ContextTag::from_octets(octets.expect("a tag is 12 hexadecimal digits"))
}
