use std::time::Duration;

use crate::plan::Workload;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Every workload that could go on did, and nothing was violated.
    pub survived: bool,
    /// From the last change of the network until the last workload to recover had recovered.
    pub recovered_after: Duration,
    /// What must not happen and did.
    pub violations: Vec<Violation>,
    /// One for each workload of the plan.
    pub workloads: Vec<WorkloadOutcome>,
    /// When the run ended, in virtual time.
    pub ended: Duration,
    /// How often a host began to explore.
    pub explorations: usize,
    /// How often a host moved a context.
    pub moves: usize,
    /// Packets that were sent into the network.
    pub packets: u64,
    /// A digest of everything that was sent and when: equal runs have equal ones.
    pub fingerprint: u64,
}

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Duration,
    /// What, for a person.
    pub what: String,
}

/// How a workload fared.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadOutcome {
    /// Octets that arrived for the first time at whoever waits for them.
    pub octets: u64,
    /// Whether a context protected it at both ends when the network settled.
    pub was_protected: bool,
    /// Whether packets could get either way in the end.
    pub could_go_on: bool,
    /// Whether it did.
    pub went_on: bool,
    /// Its longest silence that ended after the network had settled, measured from then.
    pub recovered_after: Duration,
    /// How long it might take.
    pub bound: Duration,
}

impl Outcome {
    /// A line for each thing that went wrong, and how to see it again.
    #[must_use]
    pub fn complaint(&self, seed: u64, workloads: &[Workload]) -> String {
        let mut lines = vec![format!("seed {seed}, ended {:?}", self.ended)];
        for violation in &self.violations {
            lines.push(format!("  {:?}: {}", violation.at, violation.what));
        }
        for (workload, outcome) in workloads.iter().zip(&self.workloads) {
            if outcome.could_go_on && !outcome.went_on {
                lines.push(format!("  silent: {workload:?}: {outcome:?}"));
            }
        }
        lines.join("\n")
    }
}
