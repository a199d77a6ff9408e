//! A host's own addresses: a host with Moorline and the same host without, on links whose routers, carriers and
//! people make changes.
//!
//! [`moorline_addresses::Addressing`] decides, as in the daemon. The kernels, and the executor of actions, are
//! models. All addresses of others are the same on both hosts at any time, with the same lifetimes. Moorline's
//! addresses last as long as the kernel's own addresses in the same prefixes.

mod kernel;
mod link;
mod rules;
mod world;

pub use world::{run_addresses, trace_addresses};

#[cfg(test)]
mod tests;
