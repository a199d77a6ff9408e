//! Measurement of the core's cost: octets in, octets out, no sockets.
//!
//! A [`Responder`] is a host as the daemon runs it. [`Peers`] make other hosts, each with its own addresses and proofs,
//! that ask the responder for contexts. Figures count all work of the responder, and only that: parsing, verification,
//! answer, and the draining of updates for the data plane.

mod peers;
mod responder;
#[cfg(test)]
mod tests;

pub use peers::{Peer, Peers, Security};
pub use responder::{Outcome, Responder};
