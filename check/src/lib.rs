//! Model checker of the real machines: every interleaving of a small world, with nothing copied.
//!
//! Two [`moorline_host::Host`]s, the core of the daemon, have two locators each, and speak Shim6, in some worlds with ILNP beside it. Each step of the world is an [`Action`]: any
//! packet under way arrives, is lost, or arrives and stays under way; the next timer of either host runs out; traffic asks for a
//! context, goes out, or gets no answer for a Send Timeout; a path dies for good; a host forgets everything; an uplink goes, or is
//! back; the kernel refuses a change of routes or ULIDs. A
//! [`Bounds`] says how often. [`World`] is a model of `stateright`, which tries all orders and holds each
//! state against the properties of [`World::PROPERTIES`].
//!
//! **Time.** Each host has a clock of its own that moves only when a timer of its own runs out: packets
//! may take any time, and one clock may run as much faster as it likes.
//!
//! **Equal states.** Nonces, tags and validators are random, and deadlines have jitter. Two states are
//! taken for one if they differ in nothing but names for random numbers, the time past, and by how much
//! one deadline is before another (`digest.rs`). What comes next may depend on ages, so
//! this leaves out some orders of timers; it invents none.
//!
//! **In the end.** From every state that is found the world goes on without losses and with traffic both
//! ways, fairly: [`World::ends_well`].
#![forbid(unsafe_code)]

mod digest;
mod ending;
mod model;
mod side;
mod world;

pub use model::{Report, check};
pub use world::{Action, Bounds, World};

#[cfg(test)]
mod tests;
