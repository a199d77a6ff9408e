//! Network-namespace testbed: real kernels, real programs, real daemons, made-up ISPs.
//!
//! A [`Topology`] is data: hosts, routers, links, addresses, routes. [`Lab::build`] makes it out of
//! network namespaces whose names carry the process id, and removes all of it again: at the end, on
//! an error, on Ctrl-C, and by a guardian process even after a SIGKILL. Programs and sockets run
//! inside the namespaces ([`Namespace`]), [`Failure`]s break the network under them,
//! and [`workload`]s note when each byte reached the application, so that a recovery time is a
//! measured one: from the cut to the next byte.
//!
//! [`demo`] is one scenario on top; [`timeline`] draws it, or any other run that gives it samples.
//! [`experiment`]s measure, and give points and plots. [`cli`] is the program `moorline-lab`.
//!
//! What makes a network needs root; [`preflight::check`] says what is missing.
#![forbid(unsafe_code)]

pub mod capture;
pub mod cli;
pub mod clock;
pub mod cost;
pub mod daemon;
pub mod demo;
pub mod experiment;
pub mod failure;
pub mod hop;
pub mod interrupt;
mod lab;
pub mod load;
mod named;
pub mod netns;
pub mod preflight;
pub mod process;
mod processors;
pub mod rough;
pub mod router;
pub mod sweep;
pub mod timeline;
pub mod topology;
pub mod trace;
mod wires;
pub mod workload;

pub use failure::Failure;
pub use lab::Lab;
pub use netns::Namespace;
pub use topology::Topology;
