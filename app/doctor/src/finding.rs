use serde::{Deserialize, Serialize};

use crate::probe::PeerReport;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name for programs, as in `one-uplink`.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// What shows it.
    pub evidence: Vec<String>,
    /// What to do about it.
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Connections cannot move.
    StopsProtection,
    /// Some cannot, or it costs something.
    Warning,
    /// Could not be looked at.
    NotSeen,
    /// Worth knowing.
    Note,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What came of the test packets, if there was a peer to send some to.
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

    /// Connections cannot move.
    pub(crate) fn stops(code: &str, what: impl Into<String>) -> Self {
        Self::new(code, Severity::StopsProtection, what)
    }

    /// Some connections cannot move, or it costs something.
    pub(crate) fn warning(code: &str, what: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, what)
    }

    /// Worth knowing.
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

    /// Names some, and says how many there are more.
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
    /// The findings in order.
    #[must_use]
    pub fn new(mut findings: Vec<Finding>, peer: Option<PeerReport>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        Self { findings, peer }
    }

    /// 0: nothing stops protection; 1: something does; 2: nothing was seen to, but not all could be looked at.
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

/// Peers or connections that a finding names.
const MAX_SHOWN: usize = 10;
