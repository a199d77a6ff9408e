//! A deterministic network of Moorline hosts on a virtual clock.
//!
//! Each host is the real core ([`moorline_host::Host`]) over the real user-space data plane
//! ([`moorline_plane::Plane`]), with one address of one HBA set on each of its ISPs, and small sockets on
//! top: a reliable stream with congestion control, requests with answers, and one-way datagrams. The
//! network between them delays, loses, duplicates and reorders packets, and a [`Plan`] says which part
//! of it fails when, and how.
//!
//! [`run`] plays a plan with a seed. Everything random comes from that seed and everything that happens
//! is ordered by time, then by when it was caused: the same seed gives the same run to the octet, so a
//! failing seed is a test case by itself. After each step it holds that
//!
//! * a packet that reaches a socket is, octet for octet, one that a socket sent to it: ULIDs, header
//!   fields, payload, transport checksum;
//! * payload takes no locators but the ULIDs and pairs that the peer has proven by answering a probe
//!   that this host sent that way;
//! * honest hosts drop each other's packets only for reasons that loss, delay and repetition explain.
//!
//! In the end, if packets can get from either host to the other over whichever locators, traffic must
//! have recovered within the time that the timers of RFC 5534 imply ([`Outcome`]).
//!
//! [`demo_scenario`] is `moorline demo` for machines without root or BPF.
#![forbid(unsafe_code)]

mod demo;
mod driver;
mod network;
mod node;
mod oracle;
mod outcome;
mod packet;
mod plan;
mod random;
mod workload;
mod world;

pub use demo::{Demo, DemoConfig, DemoRun, Interval, Mark, demo_scenario};
pub use driver::run;
pub use outcome::{Outcome, Violation, WorkloadOutcome};
pub use plan::{End, Failure, Fault, LinkPlan, Plan, Traffic, Workload};
