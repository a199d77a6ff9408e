use std::fmt;
use std::time::Duration;

use moorline_types::DropReason;
use serde::{Serialize, Serializer};

use crate::log::HostEvent;

/// Outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of times that traffic was cut off and flowed again within the bound.
    pub recovered: u32,
    /// The longest of these times, from the cut to the first payload.
    pub longest_recovery: Duration,
    /// Number of recoveries in which one host had lost the context and got it again from the other.
    pub regained: u32,
    /// Number of times that traffic was cut off and nothing could have restored it.
    pub unrecoverable: u32,
    /// Number of times that traffic was cut off, and the next change or the end of the traffic came before the bound.
    pub unsettled: u32,
    /// Number of established ILNP sessions, counted at both ends.
    pub sessions: u32,
    /// Number of times that a host took an uplink away from new connections although the uplink had a carrier.
    pub given_up: u32,
    /// Number of packets that a router has dropped because they were too big for a link.
    pub too_big: u32,
    /// Broken rules: the program may be wrong, or the simulator's expectation.
    pub violations: Vec<Violation>,
    /// Events of the cores, in order.
    pub events: Vec<HostEvent>,
    /// Outcomes of the workloads, in the order of the plan.
    pub workloads: Vec<WorkloadOutcome>,
    /// Drops of each host, core and data plane together.
    pub drops: Vec<Vec<(DropReason, u64)>>,
    /// Number of packets that left a host.
    pub packets: u64,
    /// Checksum of all packets, their times, and all events: equal for equal seed and plan.
    pub digest: u64,
    /// Duration of the run.
    pub duration: Duration,
}

/// Outcome of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadOutcome {
    /// Octets of payload that arrived, each counted once: at the far side, and back.
    pub octets: [u64; 2],
    /// Octets of payload that arrived at the far side in each [`SAMPLE`] of time.
    pub samples: Vec<u64>,
    /// The longest time without new payload at the far side, if payload came after it.
    pub longest_pause: Option<Pause>,
    /// The longest time without a packet, with or without new payload: at the far side, and back. The end of the traffic
    /// or of the run ends a time, too.
    pub longest_gaps: [Option<Pause>; 2],
    /// Whether a stream ended with every byte right; `None` if it has not ended, or is no stream.
    pub intact: Option<bool>,
}

/// A time without arrivals, from the last one before to the first one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Beginning of the pause.
    pub from: Duration,
    /// End of the pause.
    pub to: Duration,
}

/// Duration of a sample.
pub const SAMPLE: Duration = Duration::from_millis(100);

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Time of the violation.
    pub at: Duration,
    /// The rule.
    pub rule: Rule,
    /// Circumstances, for people.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(invariant) = self.rule.invariant() {
            write!(f, "({invariant}) ")?;
        }
        write!(f, "{:?} at {:.6} s: {}", self.rule, self.at.as_secs_f64(), self.detail)
    }
}

/// A rule that must hold.
///
/// Seven invariants are the promises of the hosts to users and network, and each has one rule or more. Further rules
/// say that the machines are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// (1) A socket gets, octet for octet and with its ULIDs, a packet that another socket sent to it.
    DeliveredAsSent,
    /// (1) Traffic that has not moved is unchanged.
    Untouched,
    /// (1) A stream ends with every byte right.
    StreamIntact,
    /// (2) If pairs work in both directions, traffic flows again within [`crate::recovery_bound`], and goes on. If
    /// one host has lost the context, the bound is [`crate::loss_bound`].
    Recovery,
    /// (2) If a host calls a context protected, the peer has answered by another pair a short time ago.
    Answered,
    /// (3) A host sends to the address that its socket chose, or to an address that its peer has proved.
    VerifiedLocator,
    /// (3) Moved payload takes a pair by which the peer has reported a probe of this host.
    ProbedPair,
    /// (3) A host sends from its own addresses.
    OwnSource,
    /// (3) If a host has a session for a pair of addresses, it has no moved context for the pair (decision 071).
    OneOwner,
    /// (3) The kernel sends no packet of a socket by an uplink that lacks its source address.
    RightUplink,
    /// (3) The kernel has the routes of moved pairs and the ULIDs that contexts and sessions need, and no others.
    KernelInStep,
    /// (3) The data planes have the contexts and sessions of the host, and no others.
    PlanesInStep,
    /// (3) A host takes an uplink away from new connections only if something is wrong with the uplink.
    LiveUplink,
    /// (7) Each address of others on the host is the same as without Moorline, with the same lifetimes.
    OwnAddresses,
    /// (7) Moorline's addresses last as long as the kernel's own in the same prefixes.
    LifetimesInStep,
    /// (4) A responder makes a context only by an I2 or I2bis that echoes a validator of its own.
    ValidI2,
    /// (4) No host has a context that its traffic did not ask for.
    WantedContext,
    /// (5) Control packets that are no answers come no faster than the timers of the contexts allow.
    ControlBound,
    /// A Probe InboundOk reports a received probe (RFC 5534 s5.2). Each check has the option by which only a host
    /// that knows checks may process it.
    ProbeForm,
    /// (6) No two ESTABLISHED contexts with one peer share a tag, in either direction.
    UniqueTags,
    /// No error is logged.
    NoErrorLog,
    /// Nothing panics.
    NoPanic,
    /// Queues of one input, and tables, do not grow without limit.
    Bounded,
    /// A served timer does not ask for the same moment again.
    TimersAdvance,
    /// Honest hosts drop packets of each other only for reasons that loss, delay and repetition explain.
    HonestDrops,
    /// No host explores while no packet is lost or late and nothing has changed.
    FalseAlarm,
    /// A core takes over its stored state.
    Restored,
}

impl Rule {
    /// Number of the rule's invariant, 1 to 7; `None` for a rule about the machines.
    #[must_use]
    pub const fn invariant(self) -> Option<u8> {
        match self {
            Self::DeliveredAsSent | Self::Untouched | Self::StreamIntact => Some(1),
            Self::Recovery | Self::Answered => Some(2),
            Self::VerifiedLocator
            | Self::ProbedPair
            | Self::OwnSource
            | Self::OneOwner
            | Self::LiveUplink
            | Self::RightUplink
            | Self::KernelInStep
            | Self::PlanesInStep => Some(3),
            Self::ValidI2 | Self::WantedContext => Some(4),
            Self::ControlBound => Some(5),
            Self::UniqueTags => Some(6),
            Self::OwnAddresses | Self::LifetimesInStep => Some(7),
            Self::NoErrorLog
            | Self::NoPanic
            | Self::Bounded
            | Self::TimersAdvance
            | Self::HonestDrops
            | Self::FalseAlarm
            | Self::ProbeForm
            | Self::Restored => None,
        }
    }
}

/// Results over many seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of runs.
    pub seeds: u64,
    /// Number of broken rules in all runs.
    pub violations: u64,
    /// Sum of [`Outcome::recovered`].
    pub recovered: u64,
    /// The longest [`Outcome::longest_recovery`].
    #[serde(rename = "longest_recovery_s", serialize_with = "as_fraction")]
    pub longest_recovery: Duration,
    /// Sum of [`Outcome::regained`].
    #[serde(skip)]
    pub regained: u64,
    /// Sum of [`Outcome::unrecoverable`].
    pub unrecoverable: u64,
    /// Sum of [`Outcome::unsettled`].
    pub unsettled: u64,
    /// Number of packets that left a host.
    pub packets: u64,
    /// Sum of virtual time.
    #[serde(rename = "virtual_s", serialize_with = "as_seconds")]
    pub duration: Duration,
    /// The first seed with a violation.
    #[serde(skip)]
    pub first_failing: Option<u64>,
}

fn as_seconds<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(time.as_secs())
}

fn as_fraction<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(time.as_secs_f64())
}

impl Summary {
    /// Counts one more run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.violations += outcome.violations.len() as u64;
        self.recovered += u64::from(outcome.recovered);
        self.longest_recovery = self.longest_recovery.max(outcome.longest_recovery);
        self.regained += u64::from(outcome.regained);
        self.unrecoverable += u64::from(outcome.unrecoverable);
        self.unsettled += u64::from(outcome.unsettled);
        self.packets += outcome.packets;
        self.duration += outcome.duration;
        if !outcome.violations.is_empty() {
            self.first_failing.get_or_insert(seed);
        }
    }
}
