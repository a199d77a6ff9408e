//! Network-namespace testbed: real kernels, real programs, real daemons, simulated ISPs.
//!
//! A [`Topology`] is data: hosts, routers, links, addresses, routes. [`Lab::build`] builds a topology from network
//! namespaces, whose names carry the process id. A guardian process removes all namespaces: at the end, on an error, on
//! Ctrl-C, and after a SIGKILL. Programs and sockets run inside the namespaces ([`Namespace`]). [`Failure`]s break the
//! network under the programs. [`workload`]s note when each byte reached the application, so a recovery time is
//! measured: from the cut to the next byte.
//!
//! [`demo`] is one scenario on top. [`timeline`] draws the demo, or any other run that supplies samples.
//! [`experiment`]s measure, and give points and plots. [`cli`] is the program `moorline-lab`.
//!
//! A network needs root. [`preflight::check`] says what is missing.
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
pub mod soak;
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
