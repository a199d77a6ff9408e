//! Model checker of the real machines: it explores every interleaving of a small world, and copies no code of the
//! machines.
//!
//! Two [`moorline_host::Host`]s, the core of the daemon, have two locators each. The hosts speak Shim6, and in some
//! worlds ILNP, too. Each step of the world is an [`Action`]:
//! * a packet in flight arrives, is lost, or arrives and stays in flight
//! * the next timer of a host expires
//! * traffic triggers a context, goes out, or gets no answer for a Send Timeout
//! * a path fails for good
//! * a host loses its state
//! * an uplink goes down, or comes up again
//! * the kernel refuses a change of routes or ULIDs
//! * a third party sends a packet, from any address
//!
//! [`Bounds`] limits the number of each. [`World`] is a model of `stateright`, which tries all orders and checks each
//! state against the properties of [`World::PROPERTIES`].
//!
//! **Time.** Each host has its own clock, which advances only when one of its timers expires. So a packet may take any
//! time, and one clock may run faster than the other by any factor.
//!
//! **Equal states.** Nonces, tags and validators are random, and deadlines have jitter. Two states count as equal if
//! they differ only in random numbers, in the time that has passed, and in the distances between deadlines
//! (`digest.rs`). Later states may depend on ages, so the search leaves out some orders of timers. The search
//! adds no orders.
//!
//! **The end.** From every state that the search finds, the world goes on without losses and with traffic in both
//! directions: [`World::ends_well`].
#![forbid(unsafe_code)]

mod digest;
mod ending;
mod model;
mod side;
mod third;
mod world;

pub use model::{Report, check};
pub use third::{Forgery, Form, IlnpForm, Source};
pub use world::{Action, Bounds, World};

#[cfg(test)]
mod tests;
