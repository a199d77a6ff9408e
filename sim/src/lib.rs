//! Deterministic network of Moorline hosts on a virtual clock.
//!
//! Each host is the real core ([`moorline_host::Host`]) over the real user-space data plane
//! ([`moorline_plane::Plane`]), with one address of one HBA set at each of its ISPs. On top run small
//! applications: streams of bytes as TCP's, requests with answers, and datagrams, as real IPv6 packets.
//! The network delays, loses, repeats and reorders packets. A [`Plan`] says who is there, what runs,
//! and what breaks when: uplinks silently cut, both ways or one, single paths, carriers, addresses,
//! cores killed and started again; and whether somebody wishes the hosts ill.
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
//! that fails is a test case, and [`trace`] tells its story message by message.
//!
//! **Safety.** Every [`Rule`] is checked after every step, by what can be seen from outside of a host:
//! a socket gets exactly what another one sent; traffic that has not moved is not touched; payload that
//! has moved takes only pairs by which the peer says that it got a probe; a responder makes no context
//! but by an I2 with a validator of its own; queues come to an end; timers advance; honest hosts drop
//! nothing of each other's without a reason.
//!
//! **Recovery.** Between two changes of the network lies an episode. At its begin it is known which
//! pairs will work all along, and so by when traffic has to flow, each direction of each application by
//! itself: [`recovery_bound`] derives it from the timers of RFC 5534. From then on it must not pause for
//! longer than loss explains. [`Outcome`] counts what recovered and what could not.
//!
//! [`random_plan`] makes plans up, [`Summary`] plays many, [`demo_scenario`] is `moorline demo` for
//! machines without root or BPF.
#![forbid(unsafe_code)]

mod bound;
mod demo;
mod describe;
mod log;
mod network;
mod node;
mod outcome;
mod packet;
mod plan;
mod queue;
mod random_plan;
mod recovery;
mod rng;
mod rules;
mod workload;
mod world;

pub use bound::{Conditions, recovery_bound};
pub use demo::{Demo, DemoConfig, DemoRun, Interval, Mark, demo_scenario};
pub use log::HostEvent;
pub use outcome::{Outcome, Pause, Rule, SAMPLE, Summary, Violation, WorkloadOutcome};
pub use plan::{
    Attack, Chance, Change, Direction, HostPlan, Kind, Pace, Plan, Port, REORDER_DELAY,
    REPLAY_WITHIN, Uplink, What, Workload, host_name,
};
pub use random_plan::random_plan;
pub use world::{run, trace};

#[cfg(test)]
mod tests;
