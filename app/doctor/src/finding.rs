use serde::{Deserialize, Serialize};

use crate::probe::PeerReport;

/// Result of a check that needs attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name for programs, such as `one-uplink`.
    pub code: String,
    /// Severity of the finding.
    pub severity: Severity,
    /// Description of the fault.
    pub what: String,
    /// Observations that show the fault.
    pub evidence: Vec<String>,
    /// Advice.
    pub remedy: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Connections cannot move.
    StopsProtection,
    /// Some connections cannot move, or the fault has another cost.
    Warning,
    /// The check was not possible.
    NotSeen,
    /// Information.
    Note,
}

/// All findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Findings, the worst first.
    pub findings: Vec<Finding>,
    /// Results of the test packets, if the user gave a peer.
    pub peer: Option<PeerReport>,
}

impl Finding {
    pub(crate) fn new(code: &str, severity: Severity, what: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            severity,
            what: what.into(),
            evidence: Vec::new(),
            remedy: String::new(),
        }
    }

    /// Makes a finding: connections cannot move.
    pub(crate) fn stops(code: &str, what: impl Into<String>) -> Self {
        Self::new(code, Severity::StopsProtection, what)
    }

    /// Makes a finding: some connections cannot move, or the fault has another cost.
    pub(crate) fn warning(code: &str, what: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, what)
    }

    /// Makes a finding that is information.
    pub(crate) fn note(code: &str, what: impl Into<String>) -> Self {
        Self::new(code, Severity::Note, what)
    }

    pub(crate) fn shown_by(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    pub(crate) fn shown_by_each<T: ToString>(mut self, all: impl IntoIterator<Item = T>) -> Self {
        self.evidence.extend(all.into_iter().map(|one| one.to_string()));
        self
    }

    /// Adds the first elements as evidence, and the number of the others.
    pub(crate) fn shown_by_some<T: ToString>(self, all: impl ExactSizeIterator<Item = T>) -> Self {
        let more = all.len().saturating_sub(MAX_SHOWN);
        let rest = (more > 0).then(|| format!("and {more} more"));
        self.shown_by_each(all.take(MAX_SHOWN)).shown_by_each(rest)
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl Report {
    /// Makes a report, and sorts the findings.
    #[must_use]
    pub fn new(mut findings: Vec<Finding>, peer: Option<PeerReport>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        Self { findings, peer }
    }

    /// Returns the exit code: 0: nothing prevents protection; 1: something does; 2: nothing was found, and some checks were
    /// not possible.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let has = |severity| self.findings.iter().any(|finding| finding.severity == severity);
        if has(Severity::StopsProtection) {
            1
        } else if has(Severity::NotSeen) {
            2
        } else {
            0
        }
    }
}

/// Largest number of peers or connections in a finding.
const MAX_SHOWN: usize = 10;
