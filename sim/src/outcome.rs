use std::fmt;
use std::time::Duration;

use moorline_types::DropReason;

use crate::log::HostEvent;
use crate::plan::Plan;

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Times that traffic was cut off and flowed again within the bound.
    pub recovered: u32,
    /// Times that traffic was cut off and nothing could have brought it back.
    pub unrecoverable: u32,
    /// Times that traffic was cut off and the next change came, or traffic ended, before the bound.
    pub unsettled: u32,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadOutcome {
    /// Octets of payload that arrived, each counted once: at the far side, and back.
    pub octets: [u64; 2],
    /// The same per [`SAMPLE`] of time, at the far side.
    pub samples: Vec<u64>,
    /// The longest time without anything at the far side that came to an end.
    pub longest_pause: Option<Pause>,
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
        write!(f, "{:?} at {:.6} s: {}", self.rule, self.at.as_secs_f64(), self.detail)
    }
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// What reaches a socket is, octet for octet, what another socket sent to it.
    SameOctets,
    /// Traffic that has not moved is not touched.
    Untouched,
    /// A host sends from its own addresses.
    OwnSource,
    /// A host sends to the address its socket chose, or to one that is its peer's.
    ProvenDestination,
    /// Payload that has moved takes a pair by which the peer says that it got a probe of this host.
    ProbedPair,
    /// A responder makes a context only by an I2 that echoes a validator of its own.
    ValidI2,
    /// Nobody has a context that its traffic did not ask for.
    WantedContext,
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
    /// A stream ends with every byte right.
    Intact,
    /// Traffic flows again within [`crate::recovery_bound`], and goes on.
    Recovery,
}

/// Results over many seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs.
    pub seeds: u64,
    /// Rules broken, all runs together.
    pub violations: u64,
    /// [`Outcome::recovered`], all together.
    pub recovered: u64,
    /// [`Outcome::unrecoverable`], all together.
    pub unrecoverable: u64,
    /// [`Outcome::unsettled`], all together.
    pub unsettled: u64,
    /// Packets that left a host.
    pub packets: u64,
    /// Virtual time.
    pub duration: Duration,
    /// The first seed with a violation.
    pub first_failing: Option<u64>,
}

impl Summary {
    /// Counts one more run.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.violations += outcome.violations.len() as u64;
        self.recovered += u64::from(outcome.recovered);
        self.unrecoverable += u64::from(outcome.unrecoverable);
        self.unsettled += u64::from(outcome.unsettled);
        self.packets += outcome.packets;
        self.duration += outcome.duration;
        if !outcome.violations.is_empty() {
            self.first_failing.get_or_insert(seed);
        }
    }

    /// Adds what another part of the seeds has come to.
    pub fn merge(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.violations += other.violations;
        self.recovered += other.recovered;
        self.unrecoverable += other.unrecoverable;
        self.unsettled += other.unsettled;
        self.packets += other.packets;
        self.duration += other.duration;
        self.first_failing = [self.first_failing, other.first_failing].into_iter().flatten().min();
    }

    /// Runs [`crate::random_plan`] with each of `count` seeds from `first` on. `each` sees every run as
    /// it ends, and says whether to go on.
    pub fn of(first: u64, count: u64, mut each: impl FnMut(u64, &Plan, &Outcome) -> bool) -> Self {
        let mut summary = Self::default();
        for seed in (first..=u64::MAX).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let plan = crate::random_plan(seed);
            let outcome = crate::run(seed, &plan);
            summary.add(seed, &outcome);
            if !each(seed, &plan, &outcome) {
                break;
            }
        }
        summary
    }
}
