//! Failure detection and locator pair exploration: REAP (RFC 5534), one [`Machine`] for each context.
//!
//! # Detection
//!
//! Forced bidirectional detection: whoever receives payload answers, with payload of its own or with
//! keepalives, so payload that goes out with nothing coming back for a Send Timeout means a failure.
//! Nothing is sent on an idle context, nor on one with traffic both ways.
//!
//! The two timers this takes are touched by every packet, so the data plane runs them for payload and
//! reports when they run out ([`Machine::handle_send_expired`], [`Machine::handle_keepalive_due`]). The
//! machine runs those that a control message started, and asks for the one payload packet that
//! matters to it by a watch ([`Machine::watch`]). It says with [`Machine::timers`] which timers the
//! data plane is to run.
//!
//! # Exploration
//!
//! ```text
//!                  +----------------------------------------------+
//!                  |                 Operational                  |
//!                  +----------------------------------------------+
//!    Send Timeout, |   ^                ^   |                ^
//!    locator gone, |   | Probe Operat.  |   | Probe          | Probe InboundOk
//!    local failure |   | Probe InboundOk|   | Exploring      | Probe Operational
//!                  v   |                |   v                |
//!              +-----------+                             +-----------+
//!              | Exploring |   Probe Exploring           | InboundOk |
//!              |           | --------------------------> |           |
//!              |           | <-------------------------- |           |
//!              +-----------+        Send Timeout         +-----------+
//! ```
//!
//! *Exploring* hears nothing. It sends a probe at once, three more half a second apart, and then at
//! intervals that double up to Max Probe Timeout, each cut by up to a quarter so that contexts that
//! failed together do not stay in step. Each probe takes the next pair: first those that share no end
//! with the pair that failed, then those that share one, the failed pair last.
//!
//! *InboundOk* hears the peer and does not know whether it is heard. It answers each probe Exploring
//! at once, by the pair it came by in turn with the others, and walks the pairs by itself as well,
//! since the way back may be another one. If it hears nothing more it falls back to Exploring.
//!
//! *Operational* is reached when a probe of the peer's shows that ours arrived.
//!
//! # Which pair becomes current
//!
//! Each probe carries a fresh nonce and lists the probes that its sender has received. A report is
//! believed only if we have sent that nonce by that pair in this exploration and not too long ago: so
//! what it proves is that the peer, and nobody else, got a packet of ours by it. Of several pairs
//! proven at once the one probed last wins; a probe InboundOk without reports leaves the current pair
//! alone, as s6.8 says. Each direction is settled by itself, so the two may take different paths.
//! Payload stays on the old pair until then, if no standby path is kept (see below).
//!
//! Where the RFC leaves room:
//!
//! | point | choice |
//! |---|---|
//! | probe Operational, pair | moves to a pair it proves, as in example 4 of appendix A; s6.9 is silent |
//! | example 5 keeps B on its old pair, which was proven too | the pair probed last: it is the one least in doubt |
//! | in Operational, more reports | the current pair stays if this exploration has proven it |
//! | probe Operational without a report, in Exploring | a sign of life only: it cannot be the answer to a probe InboundOk of ours. So a recorded one does not stop the search |
//! | all reports in a probe are unknown | dropped as [`BadNonce`]; in Operational a probe InboundOk is still answered, as its sender may have waited too long for an answer, and in InboundOk one by the current pair, as its sender may ask whether that works |
//! | a probe Exploring reports a probe | a check from before the exploration, which shows that the sender sees the pair that it leaves (s5.2 allows additional reports in any state) |
//! | payload, keepalive or control message in Exploring, without a probe: s6.1 has InboundOk, and s5.2 a report in it, of which there is none | stays in Exploring and sends a probe Exploring at once (decision 144) |
//! | a probe InboundOk without reports, though we know that the current pair is gone | a sign of life only |
//! | the same probe twice | dropped as [`Replayed`] |
//! | Send Timeout shorter than a round of all pairs | InboundOk waits for the round ([`Config::inbound_ok_timeout`]) |
//! | a timer found a whole period late | we were suspended, not deaf: it is started again |
//!
//! [`BadNonce`]: moorline_types::DropReason::BadNonce
//! [`Replayed`]: moorline_types::DropReason::Replayed
//!
//! # Switch
//!
//! Someone, a rule or a policy wants another pair to be current ([`Machine::handle_switch`]). It has to
//! answer first: in Operational, probes go out by it that say Exploring, since of this pair we have
//! heard nothing, and [`SWITCH_PROBES`] of them at the initial pace. The peer answers as it does in an
//! exploration, InboundOk by the same pair, which makes the pair current here; our answer, Operational,
//! proves the same pair to the peer, which moves as well. Meanwhile the state stays what it is, timers
//! run and payload stays where it is; if nothing comes back it goes on doing so. In an exploration the
//! pair is tried next.
//!
//! # Beyond the RFC
//!
//! What [`Profile`] switches on; [`Profile::RFC`] is none of it.
//!
//! *Checks* are Probes Operational that only those answer who know them ([`CHECK`]; others refuse them, decision 143), by the pair they came
//! by; those of the current pair ([`CHECK_CURRENT`]) by the pair that their own payload takes, so that the answer
//! is a sign of life in both directions. They try pairs out while nothing is wrong, and touch no timer and no state.
//!
//! *A standby path*, a pair that shares no end with the current one if there is such a pair, is checked now and
//! then while traffic flows. If the current pair is known to be gone, or nothing has come back by it for a
//! Send Timeout, payload takes the standby path at once, and the exploration that begins takes it first and tells
//! the peer. The peer does the same when a probe Exploring comes by its own standby path and shows that it is the peer's.
//!
//! *Guarded pairs*: whoever is on the path of a standby path knows what it takes to forge probes there. So payload leaves a pair that has answered
//! checks for a probe of the peer's only if that probe reports the last check by that pair, or if the pair, asked at once, does not answer in
//! time (decision 153). A pin lets payload leave in the latter case alone.
//!
//! *Suspicions* of the data plane ([`Machine::handle_suspicion`]) lead to a trial: the current pair and
//! the standby path are checked in parallel. If the standby path answers and the current pair has not when its answer is
//! due by the round-trip time, payload moves; who has waited long for the transport waits as long for an
//! answer. After each trial suspicions have to wait longer. If the peer hears us and its own way to us has failed, payload
//! stays and exploration tells it.
//!
//! *A last trial* comes shortly before the Send Timeout is over: exploration begins then, unless the pair has answered.
//!
//! *Failing back*: when the pair that the context began with has answered its checks for a while, traffic
//! goes back to it without leaving Operational; deprecated addresses are left in the same way.
//!
//! *Comparisons*: a pair that loses packets, or is slow, is never silent for long enough to be given up. If the data plane doubts it, or a
//! check of it gets lost, the current pair and the standby path are checked at the same moments for some seconds. If the current pair
//! is much worse, payload leaves it by a switch, which moves both directions. Payload goes back after a comparison that shows no difference.
//! The time between comparisons doubles.
//!
//! # Several pairs at once
//!
//! Payload of one context may take other pairs at the same time, if somebody wants that
//! ([`Machine::handle_paths`]): each is checked every [`PATH_INTERVAL`], and used while the peer answers.
//!
//! # Limits
//!
//! One probe goes out for each that asks for an answer, up to [`ANSWERS_PER_SECOND`]. Of our own accord
//! [`INITIAL_PROBES`] go out at the fast pace when an exploration begins, once more when the peer is
//! heard again after silence (no more often than every Max Probe Timeout), and when the host gets new
//! locators. Records are capped at [`MAX_RECORDS`]. A machine that does not explore holds no more than
//! its configuration, seed, pair, candidates and standby path.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod bounded;
mod comparison;
mod config;
mod event;
mod exploration;
mod follow;
mod machine;
mod message;
mod monitor;
mod order;
mod profile;
mod random;
mod records;
mod state;
mod timers;

pub use config::*;
pub use event::{Cause, Event, FailureHint};
pub use machine::{
    CHECK, CHECK_CURRENT, Known, LEFT_AS_WORSE, Machine, PATH_INTERVAL, PATH_MISSES, SWITCH_PROBES,
    Standby,
};
pub use message::{Message, Probe, Report, Transmit};
pub use order::Rank;
pub use profile::{FAIL_BACK, Profile, STANDBY_INTERVAL};
pub use state::State;
pub use timers::{Timer, Timers};
