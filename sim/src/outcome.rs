use std::fmt;
use std::time::Duration;

use moorline_types::DropReason;
use serde::{Serialize, Serializer};

use crate::log::HostEvent;

/// How a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Times that traffic was cut off and flowed again within the bound.
    pub recovered: u32,
    /// How often of these one host had lost the context and got it anew from the other one.
    pub regained: u32,
    /// Times that traffic was cut off and nothing could have brought it back.
    pub unrecoverable: u32,
    /// Times that traffic was cut off and the next change came, or traffic ended, before the bound.
    pub unsettled: u32,
    /// ILNP sessions that were established, at both ends.
    pub sessions: u32,
    /// Times that a host has taken an uplink away from new connections although the uplink had a carrier.
    pub given_up: u32,
    /// Rules that were broken: of the program, or of the simulator's idea of it.
    pub violations: Vec<Violation>,
    /// What the cores said, in order.
    pub events: Vec<HostEvent>,
    /// The workloads, in the order of the plan.
    pub workloads: Vec<WorkloadOutcome>,
    /// What each host dropped, core and data plane together.
    pub drops: Vec<Vec<(DropReason, u64)>>,
    /// Packets that left a host.
    pub packets: u64,
    /// Checksum of all packets, their times, and all events: equal for equal seed and plan.
    pub digest: u64,
    /// How long the run was.
    pub duration: Duration,
}

/// How a workload went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadOutcome {
    /// Octets of payload that arrived, each counted once: at the far side, and back.
    pub octets: [u64; 2],
    /// The same per [`SAMPLE`] of time, at the far side.
    pub samples: Vec<u64>,
    /// The longest time without anything new at the far side that came to an end.
    pub longest_pause: Option<Pause>,
    /// The longest time without a packet, whether or not it brings anything new: at the far side, and back.
    pub longest_gaps: [Option<Pause>; 2],
    /// Whether a stream has ended with every byte right; `None`: it has not ended, or is none.
    pub intact: Option<bool>,
}

/// A time without arrivals, from the last one before to the first one after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Its begin.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
}

/// Time that a sample covers.
pub const SAMPLE: Duration = Duration::from_millis(100);

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Duration,
    /// Which.
    pub rule: Rule,
    /// The circumstances, for people.
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

/// What must hold.
///
/// Seven invariants say what the hosts promise to their users and to the network, each by one rule or
/// more; further rules say that the machines are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// (1) What reaches a socket is, octet for octet and with its ULIDs, what another socket sent to it.
    DeliveredAsSent,
    /// (1) Traffic that has not moved is not touched.
    Untouched,
    /// (1) A stream ends with every byte right.
    StreamIntact,
    /// (2) While pairs work in both directions traffic flows again within [`crate::recovery_bound`], or
    /// [`crate::loss_bound`] where one host has lost the context, and goes on.
    Recovery,
    /// (2) Of a context that a host calls protected the peer has answered by another pair, not long ago.
    Answered,
    /// (3) A host sends to the address its socket chose, or to one that its peer has proved to be its
    /// own.
    VerifiedLocator,
    /// (3) Payload that has moved takes a pair by which the peer says that it got a probe of this host.
    ProbedPair,
    /// (3) A host sends from its own addresses.
    OwnSource,
    /// (3) A pair of addresses that has a session at a host has no context there that has moved (decision 071).
    OneOwner,
    /// (3) The kernel sends no packet of a socket by an uplink that does not have its source.
    RightUplink,
    /// (3) The kernel has the routes of moved pairs and the ULIDs that contexts and sessions need, and no others.
    KernelInStep,
    /// (3) The data planes have the contexts and sessions of the host, and no others.
    PlanesInStep,
    /// (3) A host takes an uplink away from new connections only if something is wrong with it.
    LiveUplink,
    /// (7) Every address of the host that is not Moorline's is there as it would be without Moorline, with the same lifetimes.
    OwnAddresses,
    /// (7) Moorline's addresses last as long as the kernel's own in the same prefixes.
    LifetimesInStep,
    /// (4) A responder makes a context only by an I2 or I2bis that echoes a validator of its own.
    ValidI2,
    /// (4) Nobody has a context that its traffic did not ask for.
    WantedContext,
    /// (5) Control packets that answer none come no faster than the timers of the contexts allow.
    ControlBound,
    /// A Probe InboundOk reports a probe that has come in (RFC 5534 s5.2), and each check says that only who knows checks may
    /// process it.
    ProbeForm,
    /// (6) No two ESTABLISHED contexts with one peer share a tag, in either direction.
    UniqueTags,
    /// Nothing is logged as an error.
    NoErrorLog,
    /// Nothing panics.
    NoPanic,
    /// Queues of what one input brings, and tables, do not grow without limit.
    Bounded,
    /// A timer that has been served does not ask again for the same moment.
    TimersAdvance,
    /// Honest hosts drop packets of each other only for reasons that loss, delay and repetition give.
    HonestDrops,
    /// While no packet is lost or late and nothing has changed nobody explores.
    FalseAlarm,
    /// A core takes over what it had stored.
    Restored,
}

impl Rule {
    /// Number of the invariant that it is about, 1 to 7; `None`: it is about the machines.
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
    /// Runs.
    pub seeds: u64,
    /// Rules broken, all runs together.
    pub violations: u64,
    /// [`Outcome::recovered`], all together.
    pub recovered: u64,
    /// [`Outcome::regained`], all together.
    #[serde(skip)]
    pub regained: u64,
    /// [`Outcome::unrecoverable`], all together.
    pub unrecoverable: u64,
    /// [`Outcome::unsettled`], all together.
    pub unsettled: u64,
    /// Packets that left a host.
    pub packets: u64,
    /// Virtual time.
    #[serde(rename = "virtual_s", serialize_with = "as_seconds")]
    pub duration: Duration,
    /// The first seed with a violation.
    #[serde(skip)]
    pub first_failing: Option<u64>,
}

fn as_seconds<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(time.as_secs())
}

impl Summary {
    /// Counts one more run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.violations += outcome.violations.len() as u64;
        self.recovered += u64::from(outcome.recovered);
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
