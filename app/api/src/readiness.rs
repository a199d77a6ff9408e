use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;
use crate::types::Pair;

/// Whether a connection survives the loss of its current pair. `status`, `contexts` and `doctor` share this type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Protected, not yet, or not at all.
    pub state: ReadinessState,
    /// Reason why the connection is not protected, as a name for programs, such as `unanswered` (docs/doctor.md has the list).
    /// A protected connection has a reason if it does not survive each loss of an uplink: `peer-one-address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Explanation of the state, for a person.
    #[serde(default)]
    pub why: String,
    /// Step that makes the connection protected, for a person.
    #[serde(default)]
    pub remedy: String,
    /// Standby path: the pair that payload would use after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<Pair>,
    /// Milliseconds since this host sent the check that the peer answered by `standby`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_ms_ago: Option<u64>,
}

/// Consequences of the loss of an uplink for the contexts whose current pair uses it. Other contexts lose nothing and do
/// not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survival {
    /// Interface name.
    pub uplink: String,
    /// Contexts whose current pair uses it.
    pub contexts: u64,
    /// Contexts among them with a pair by another uplink that has answered.
    pub survive: u64,
    /// Contexts that do not survive, by [`Readiness::reason`].
    pub others: BTreeMap<String, u64>,
    /// ILNP sessions that use the uplink. Nothing tests their other locators in advance, so no session counts as surviving.
    pub sessions: u64,
}

open_enum! {
    /// Whether a connection survives the loss of its pair.
    ReadinessState {
        /// Another pair has answered recently.
        Protected = "protected",
        /// No obstacle is known, but no other pair has answered.
        NotYet = "not-yet",
        /// The connection does not survive.
        Cannot = "cannot",
    }
}

/// A [`Readiness::reason`]: only pairs by the uplink of the current pair have answered.
pub const SAME_UPLINK: &str = "same-uplink";
/// A [`Readiness::reason`]: no pair by another uplink has answered, and another uplink fails.
pub const UPLINK_FAILS: &str = "uplink-fails";
