//! A host's own addresses: a host with Moorline and the same host without, on links whose routers, carriers and people are
//! up to something.
//!
//! [`moorline_addresses::Addressing`] is what decides in the daemon. The kernels, and who carries actions out, are models.
//! Every address that is not Moorline's is the same on both hosts at any time, with the same lifetimes, and those of
//! Moorline last as long as the kernel's own addresses in the same prefixes.

mod kernel;
mod link;
mod rules;
mod world;

pub use world::{run_addresses, trace_addresses};

#[cfg(test)]
mod tests;
