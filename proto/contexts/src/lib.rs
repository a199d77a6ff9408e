//! The root protocol machine of a host, and the contract with its data plane.
//!
//! [`Contexts`] joins `moorline-shim6`, which proves the identity and the locators of a peer, and one `moorline-reap`
//! machine per established context, which finds a locator pair that works. The machine is pure: bytes, reports and the
//! time go in; bytes, updates and events come out.
//!
//! ```text
//!   control packets --> handle_control --+            +--> poll_transmit  control packets
//!   data plane      --> handle_report  --+--> Contexts ---+--> poll_datapath  entries for the data plane
//!   addresses       --> handle_local   --+            +--> poll_event     for people and the API
//!   clock           --> handle_timeout --+            +--> poll_timeout   when to come back
//! ```
//!
//! Contexts that lose the same path at the same time do not all probe at once. Without a request they send
//! [`PROBE_BURST`] probes at once and then [`PROBES_PER_SECOND`] together, in the order in which they asked, and two
//! more for each answered probe. A context that leaves a pair first tries the pair that has worked for others that left
//! it.
//!
//! Contexts with the same peer share their knowledge of standby paths, so that one of them checks for all.
//!
//! After each `handle_*` the caller drains the queues, then sleeps until the timeout. Equal seeds and inputs give equal
//! outputs. No message of a peer is an error for the caller: it is a counted
//! [`DropReason`](moorline_types::DropReason).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod active;
mod asked;
mod config;
mod congestion;
mod contest;
mod control;
mod drain;
mod ending;
mod event;
mod machine;
mod pacer;
mod question;
mod readiness;
mod reply;
mod report;
mod rules;
mod slots;
mod snapshot;
mod spread;
mod standby;
mod steer;
mod sweep;
mod tally;
mod view;
mod waiting;

#[cfg(test)]
mod tests;

pub use config::{Config, IDLE, MOVED_IDLE, PROBE_BURST, PROBES_PER_SECOND};
pub use congestion::{CONGESTED_EVERY, CongestionPolicy, MAX_HOLD};
pub use event::{Cause, Event, EventKind, FailureHint, Removal, TimerKind, Transmit};
pub use machine::{Contexts, LocalState};
pub use moorline_reap::{FAIL_BACK, Profile, STANDBY_INTERVAL, State as ReapState};
pub use moorline_shim6::{
    DEFAULT_SEND_TIMEOUT, Failure, HALF_OPEN_SHARE, Incoming, Key, Millis, PeerSet, Preferences,
    Role,
};
pub use question::Question;
pub use readiness::{Readiness, Reason};
pub use reply::{Reply, Witness};
pub use rules::{PathRule, Preference, Scope};
pub use snapshot::ContextSnapshot;
pub use steer::{PathView, Placed, Refusal};
pub use tally::Class;
pub use view::{ContextView, EstablishedView, NegativeView};
pub use waiting::Waiting;
