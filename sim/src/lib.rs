//! Deterministic network of Moorline hosts on a virtual clock.
//!
//! Each host is the real core ([`moorline_contexts::Contexts`]) over the real user-space data plane
//! ([`moorline_plane::shim6::Plane`]), with addresses under the prefixes of its ISPs that it proves by hash
//! (HBA), by signature (CGA), by either, or not at all. On top run small applications: streams of bytes
//! as TCP's, requests with answers, and datagrams, as real IPv6 packets. The network delays, loses,
//! repeats and reorders packets, each link either way in its own manner. A [`Plan`] says who is there,
//! what runs, and what breaks when: uplinks, paths and ISPs silently cut, both ways or one, carriers,
//! addresses, prefixes that take the place of others, cores killed and started again, hosts that forget
//! everything; and whether somebody wishes the hosts ill.
//!
//! ```text
//!   applications --> Plane --> uplinks -- delay, loss, cuts --> uplinks --> Plane --> applications
//!                     | ^                                                    | ^
//!                     v |                                                    v |
//!                     Host                                                   Host
//! ```
//!
//! [`run`] plays a plan. Everything random comes from the seed, and everything that happens is ordered
//! by time, then by when it was caused: equal seed and plan give equal packets and events. So a seed
//! that fails is a test case, and [`trace`] draws it as a message sequence chart.
//!
//! **Safety.** Every [`Rule`] is checked after every step, by what can be seen from outside of a host: a
//! socket gets exactly what another one sent; traffic that has not moved is not touched; payload that
//! has moved takes only pairs by which the peer says that it got a probe, of locators that the peer has
//! proved; a responder makes no context but by an I2 with a validator of its own; control packets that
//! answer none come no faster than the timers allow; no two contexts with a peer share a tag; queues come
//! to an end; timers advance; honest hosts drop nothing of each other's without a reason; nothing panics
//! or logs an error. For each rule there is a fault that breaks it (`world/tests/mutant.rs`).
//!
//! **Recovery.** Between two changes of the network lies an episode. At its begin it is known which
//! pairs will work all along, and so by when traffic has to flow, each direction of each application by
//! itself: [`recovery_bound`] derives it from the timers of RFC 5534. From then on it must not pause for
//! longer than loss explains. [`Outcome`] counts what recovered and what could not.
//!
//! [`run_addresses`] plays a world of its own: a host beside one without Moorline, on links whose routers, carriers and people are
//! up to something. `tests/ilnp.rs` has another, with two hosts that speak ILNPv6 alone.
//!
//! [`random_plan`] makes plans up, [`Plan::from_toml`] reads one, [`run_many`] plays many,
//! [`demo_scenario`] is `moorline demo` for machines without root or BPF. `docs/simulator.md` is the
//! guide.
#![forbid(unsafe_code)]

mod addresses;
mod batch;
mod bound;
mod chart;
mod demo;
mod describe;
mod log;
mod network;
mod node;
mod outcome;
mod own;
mod packet;
mod plan;
mod queue;
mod random_plan;
mod recovery;
mod rng;
mod rules;
mod workload;
mod world;

pub use batch::run_many;
pub use bound::{Conditions, loss_bound, recovery_bound};
pub use chart::Trace;
pub use demo::{DemoRun, demo_scenario};
pub use log::HostEvent;
pub use outcome::{Outcome, Pause, Rule, SAMPLE, Summary, Violation, WorkloadOutcome};
pub use own::{run_addresses, trace_addresses};
pub use plan::{
    Addresses, Attack, Chance, Change, Direction, Fault, Flap, HostPlan, Kind, Link, Pace, Plan,
    PlanError, Port, REORDER_DELAY, REPLAY_WITHIN, Renumbering, Uplink, What, Workload, host_name,
};
pub use queue::Queue;
pub use random_plan::{random_mixed_plan, random_plan};
pub use world::{run, trace};

#[cfg(test)]
mod tests;
