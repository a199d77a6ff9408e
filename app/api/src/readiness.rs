use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;
use crate::types::Pair;

/// Whether a connection survives the loss of the pair that it uses: the one notion of it, for `status`, `contexts`
/// and `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Protected, not yet, or not at all.
    pub state: ReadinessState,
    /// Why it is not protected: a name for programs, as in `unanswered` (docs/doctor.md has the list).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for a person.
    #[serde(default)]
    pub why: String,
    /// Step that mends it, for a person.
    #[serde(default)]
    pub remedy: String,
    /// The pair that payload would take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby: Option<Pair>,
    /// Milliseconds since the check left that the peer answered by that pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_ms_ago: Option<u64>,
}

/// Consequences of the loss of an uplink for the contexts whose current pair uses it. Others lose nothing and are not
/// counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survival {
    /// Interface name.
    pub uplink: String,
    /// Contexts whose current pair uses it.
    pub contexts: u64,
    /// Contexts among them with a pair by another uplink that has answered.
    pub survive: u64,
    /// The others, by [`Readiness::reason`].
    pub others: BTreeMap<String, u64>,
    /// ILNP sessions that use it. Nothing tries their other locators beforehand, so none is counted as surviving.
    pub sessions: u64,
}

open_enum! {
    /// Whether a connection survives the loss of its pair.
    ReadinessState {
        /// Another pair has answered, not long ago.
        Protected = "protected",
        /// Nothing is known to be in the way, but no other pair has answered.
        NotYet = "not-yet",
        /// It does not.
        Cannot = "cannot",
    }
}

/// A [`Readiness::reason`]: the pair that has answered leaves by the uplink of the current one, and none by another uplink has.
pub const SAME_UPLINK: &str = "same-uplink";
