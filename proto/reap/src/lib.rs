//! Failure detection and locator pair exploration: REAP (RFC 5534), one [`Machine`] for each context.
//!
//! # Detection
//!
//! REAP uses forced bidirectional detection: a host that receives payload answers with payload of its own or with
//! keepalives. So if payload goes out and nothing comes back for a Send Timeout, the pair has failed. On an idle
//! context, and on a context with traffic both ways, the host sends nothing.
//!
//! Detection needs two timers that every packet touches. So the data plane runs both timers for payload and reports
//! when they run out ([`Machine::handle_send_expired`], [`Machine::handle_keepalive_due`]). The machine runs the timers
//! that a control message has started. If the machine needs to know that payload has come in, it asks for one packet by
//! a watch ([`Machine::watch`]). [`Machine::timers`] tells the data plane which timers to run.
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
//! In *Exploring* the host does not hear the peer. The host sends a probe at once, then three more at intervals of half
//! a second, and then more probes at intervals that double up to Max Probe Timeout. Each of these intervals is
//! shortened by up to a quarter, so that contexts that failed together do not stay in step. Each probe takes the next
//! pair: first the pairs that share no end with the pair that failed, then the pairs that share one end, and last the
//! failed pair.
//!
//! In *InboundOk* the host hears the peer, and does not know whether the peer hears the host. The host answers each
//! Probe Exploring at once. The answers take the pair that the probe came by and the other pairs in turn. The host also
//! walks the pairs on its own, since the way back may be another pair. If the host hears nothing more, it falls back to
//! Exploring.
//!
//! *Operational* begins when a probe of the peer shows that a probe of this host arrived.
//!
//! # Which pair becomes current
//!
//! Each probe carries a fresh nonce and lists the probes that its sender has received. The machine believes a report
//! only if it has sent that nonce by that pair in this exploration, and not too long ago. So a report proves that the
//! peer itself received a probe by that pair. If several pairs are proven at once, the pair that was probed last
//! becomes current. A Probe InboundOk without reports does not change the current pair (s6.8). Each direction is
//! settled separately, so the two directions may take different pairs. Until a pair is proven, payload stays on the old
//! pair, unless there is a standby path (see below).
//!
//! The RFC leaves these points open:
//!
//! | point | choice |
//! |---|---|
//! | pair after a Probe Operational | payload moves to a pair that the probe proves, as in example 4 of appendix A; s6.9 says nothing |
//! | example 5 keeps B on its old pair, although that pair was proven too | the pair probed last becomes current, because it is the least in doubt |
//! | more reports in Operational | the current pair stays if this exploration has proven it |
//! | Probe Operational without a report, in Exploring | a sign of life only: the probe cannot answer a Probe InboundOk of this host. So a replayed probe does not stop the search |
//! | all reports in a probe are unknown | the probe is dropped as [`BadNonce`], with two exceptions. In Operational the machine still answers a Probe InboundOk, because its sender may have waited too long for an answer. In InboundOk it answers a Probe InboundOk by the current pair, because the sender may ask whether that pair works |
//! | a Probe Exploring reports a probe | the report is about a check from before the exploration. It shows that the sender sees the pair that it leaves (s5.2 allows additional reports in any state) |
//! | payload, keepalive or control message in Exploring, without a probe: s6.1 demands InboundOk, and s5.2 demands a report there, but there is none | the machine stays in Exploring and sends a Probe Exploring at once (decision 144) |
//! | Probe InboundOk without reports, while the host knows that the current pair is gone | a sign of life only |
//! | the same probe twice | dropped as [`Replayed`] |
//! | Send Timeout shorter than a walk through all pairs | InboundOk waits for the walk, up to 6 probes ([`Config::inbound_ok_timeout`]) |
//! | a timer is found a whole period late | this host was suspended and could hear nothing, so the timer starts again |
//!
//! [`BadNonce`]: moorline_types::DropReason::BadNonce
//! [`Replayed`]: moorline_types::DropReason::Replayed
//!
//! # Switch
//!
//! A person, a rule or a policy may want another pair to be current ([`Machine::handle_switch`]). That pair has to
//! answer first. In Operational the machine sends up to [`SWITCH_PROBES`] probes by the pair, at the initial pace.
//! These probes say Exploring, since the machine has heard nothing by this pair. The peer answers as in an exploration:
//! a Probe InboundOk by the same pair makes the pair current here. The Probe Operational of this host then proves the
//! same pair to the peer, so the peer moves as well. Meanwhile the state does not change, timers run, and payload stays
//! on its pair. If no answer comes, payload stays there. During an exploration the machine probes the wanted pair next.
//!
//! # Beyond the RFC
//!
//! [`Profile`] switches the following parts on. [`Profile::RFC`] has none of them.
//!
//! *Checks* are Probes Operational that only peers with this extension answer ([`CHECK`]); other peers refuse checks
//! (decision 143). The answer takes the pair that the check came by. The answer to a check of the current pair
//! ([`CHECK_CURRENT`]) takes the pair of the peer's own payload, so such an answer is a sign of life in both
//! directions. Checks test pairs while nothing is wrong. They change no timer of the RFC and no state.
//!
//! *A standby path* is a pair that shares no end with the current pair, if there is such a pair. The machine checks it
//! at intervals while traffic flows. If the host knows that the current pair is gone, or if nothing has come back for a
//! Send Timeout, payload takes the standby path at once. The exploration that begins then probes the standby path first
//! and so tells the peer. The peer moves at once as well, if the Probe Exploring comes by the peer's own standby path
//! and shows that this host sent it.
//!
//! *Guarded pairs*: an attacker on a standby path sees enough to forge probes there. So a probe of the peer alone takes
//! no payload from a pair that has answered checks, or from the first pair of a new context. Payload moves only if that probe reports the last check by that
//! pair, or if the pair, asked at once, does not answer in time (decision 153). If the pair is pinned, payload moves
//! only in the second case. The same question comes before payload leaves a pair whose peer locator the peer calls
//! broken. A question repeats what an earlier answer by the pair said, and so has a limit of answers of its own
//! (decision 164).
//!
//! *Suspicions* of the data plane ([`Machine::handle_suspicion`]) lead to a trial: the machine checks the current pair
//! and the standby path in parallel. The round-trip time of the current pair says when its answer is due. If answers to
//! payload have lately taken longer, the trial waits longer. If the standby path answers and the current pair does not
//! answer in time, payload moves. After each trial the machine defers suspicions until a quiet time is over, which
//! doubles. If the peer hears this host, and only the peer's way to this host has failed, payload stays, and
//! exploration tells the peer.
//!
//! *Proof*: payload without the context tag may be anybody's. If nothing else has come in for a second while payload
//! goes out, the data plane says so, and the machine checks the current pair. Only answers to checks end this question,
//! and the trial that follows three checks without an answer (decision 190).
//!
//! *Repetitions*: no message answers a Probe Operational, so a host that has answered a Probe InboundOk by one repeats
//! it up to three times, until the peer sends a message that only a host in Operational sends. In InboundOk each probe of
//! the peer pays for ten probes at the initial pace, of which every second one takes the pair of the peer's last probe
//! (decision 214). While payload takes a pair that is still to answer, the host asks this pair more often (decision 221).
//!
//! *A last trial* begins shortly before the end of the Send Timeout. If the pair does not answer by then, exploration
//! begins.
//!
//! *Failing back*: once the pair that the context began with has answered its checks for a while, traffic goes back to
//! it, without leaving Operational. Traffic leaves deprecated addresses in the same way.
//!
//! *Comparisons*: a pair that loses packets, or is slow, is never silent for long enough to count as failed. If the
//! data plane doubts such a pair, or if a check of it gets lost, the machine checks the current pair and the standby
//! path at the same moments for some seconds. If the current pair is much worse, payload leaves it by a switch, which
//! moves both directions. Payload goes back to its first pair, after a failure too, when a comparison shows that this
//! pair is about as good. The number of such moves in an hour is bounded.
//!
//! # Several pairs at once
//!
//! The host may ask that payload of one context takes other pairs at the same time ([`Machine::handle_paths`]). The
//! machine checks each of these pairs every [`PATH_INTERVAL`], and the data plane uses the pair while the peer answers.
//!
//! # Limits
//!
//! The machine answers each probe that asks for an answer with one probe, up to [`ANSWERS_PER_SECOND`] of each kind. On its own the
//! machine sends [`INITIAL_PROBES`] at the fast pace when an exploration begins, again when the peer is heard after
//! silence (at most once per Max Probe Timeout), and again when the host gets new locators. Beyond the RFC the pace stays
//! fast in InboundOk for ten probes after each probe of the peer. [`MAX_RECORDS`] caps the
//! records. A machine that does not explore holds only its configuration, seed, pair, candidates and standby path.
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
pub use profile::{FAIL_BACK, PROOF_INTERVAL, Profile, STANDBY_INTERVAL};
pub use state::State;
pub use timers::{Timer, Timers};
