//! What the core costs: measured on its machines themselves, octets in and octets out, no sockets.
//!
//! A [`Responder`] is a host as the daemon runs it. [`Peers`] are as many others as wanted, each with
//! addresses and proofs of its own, that ask it for contexts. Figures count the work of the responder
//! alone, all of it: parsing, verification, answer, and draining of what it has for the data plane.

mod i2;
mod isp_loss;
mod peers;
mod responder;
mod spread;
mod state;
#[cfg(test)]
mod tests;

pub use i2::{I2Cost, I2Point, i2_cost};
pub use isp_loss::{IspLoss, IspLossOutcome, isp_loss};
pub use peers::{Peer, Peers, Security};
pub use responder::{Outcome, Prepared, Responder};
pub use spread::Spread;
pub(crate) use state::SHORTEST_STEP;
pub use state::{MAX_TRIGGER_PACKETS, State, Step};
