//! What the core costs: measured on its machines themselves, octets in and octets out, no sockets.
//!
//! A [`Responder`] is a host as the daemon runs it. [`Peers`] are as many others as wanted, each with
//! addresses and proofs of its own, that ask it for contexts. Figures count the work of the responder
//! alone, all of it: parsing, verification, answer, and draining of what it has for the data plane.

mod peers;
mod responder;
#[cfg(test)]
mod tests;

pub use peers::{Peer, Peers, Security};
pub use responder::{Outcome, Responder};
