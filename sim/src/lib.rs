//! A deterministic network of Moorline hosts on a virtual clock.
//!
//! Each host is the real core ([`moorline_contexts::Contexts`]) over the real user-space data plane
//! ([`moorline_plane::shim6::Plane`]). Its addresses are under the prefixes of its ISPs, and it proves them by hash
//! (HBA), by signature (CGA), by both, or not at all. Small applications send real IPv6 packets: streams of bytes
//! like TCP, requests with answers, and datagrams. The network delays, loses, repeats and reorders packets; each
//! direction of each link has its own settings. A [`Plan`] has the hosts, the traffic, the times of failures, and an
//! attacker if there is one. Uplinks, paths and ISPs drop packets silently, in one direction or both. Carriers and
//! addresses go, prefixes replace others, cores are killed and start again, and hosts lose all their state.
//!
//! ```text
//!   applications --> Plane --> uplinks -- delay, loss, cuts --> uplinks --> Plane --> applications
//!                     | ^                                                    | ^
//!                     v |                                                    v |
//!                     Host                                                   Host
//! ```
//!
//! [`run`] plays a plan. All randomness comes from the seed, and all events are ordered by time, then by the time
//! when they were caused. So an equal seed and plan give equal packets and events, a seed that fails is a test case,
//! and [`trace`] draws it as a message sequence chart.
//!
//! **Safety.** The simulator checks each [`Rule`] after every step, by what is visible outside a host. A socket gets
//! exactly the packets that another one sent. Traffic that has not moved is unchanged. Moved payload takes only pairs
//! by which the peer has reported a probe, and only locators that the peer has proved. A responder makes a context
//! only by an I2 with a validator of its own. Control packets that answer none come no faster than the timers allow.
//! No two contexts with a peer share a tag. Queues end, timers advance, and honest hosts drop packets of each other
//! only for a reason. Nothing panics or logs an error. For each rule there is a fault that breaks it
//! (`world/tests/mutant.rs`).
//!
//! **Recovery.** An episode lies between two changes of the network. At its beginning the simulator knows which pairs
//! work for the whole episode, and so the time by which each direction of each application has to flow.
//! [`recovery_bound`] derives that time from the timers of RFC 5534. After that, traffic must not pause for longer
//! than loss explains. [`Outcome`] counts the recoveries, and the cuts without one.
//!
//! [`run_addresses`] plays another world: a host with Moorline beside one without, on links whose routers, carriers
//! and people make changes. `tests/ilnp.rs` plays two hosts that speak ILNPv6 alone.
//!
//! [`random_plan`] makes random plans, [`Plan::from_toml`] reads one, and [`run_many`] plays many. [`demo_scenario`]
//! is `moorline demo` for machines without root or BPF. `docs/simulator.md` is the guide.
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
mod plain;
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
pub use random_plan::{random_mixed_plan, random_plan, random_stack_plan};
pub use world::{run, trace};

#[cfg(test)]
mod tests;
