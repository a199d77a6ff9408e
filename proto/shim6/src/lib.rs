//! Shim6 context establishment and lookup (RFC 5533).
//!
//! Two hosts that exchange enough traffic between a pair of addresses agree on a *context*. Each host gives the other a
//! 47-bit tag and its list of locators. HBA and CGA prove that the locators of a list belong together. From then on
//! packets between the pair, which is the ULID pair of the context, may take any pair of those locators. They carry a
//! payload header with the receiver's tag.
//!
//! ```text
//!   initiator                                  responder
//!   IDLE      -- I1 (tag, nonce) ------------>  IDLE       answers without keeping anything
//!   I1-SENT  <-- R1 (nonce, validator) -------  IDLE
//!             -- I2 (validator, locators, PDS) -> IDLE     checks validator, then the locators
//!   I2-SENT  <-- R2 (tag, locators, PDS) -----  ESTABLISHED
//!   ESTABLISHED
//! ```
//!
//! The responder keeps no state for a peer before the peer's I2 shows a validator that only this host can have made
//! ([`moorline_index::Validators`]). Before that check the responder reads only the fixed fields of the I2, the options
//! that name the context, and the validator. If an initiator gets no answer, it remembers that: E-FAILED for a minute,
//! or NO-SUPPORT for ten minutes after an ICMPv6 "unrecognized next header". The traffic goes on as plain IPv6.
//!
//! [`Machine`] holds all contexts of a host. It has no clock and no randomness of its own: `handle_*` takes the time;
//! `poll_*` gives messages, events and the time of the next call. The crate `moorline-reap` checks the reachability of
//! an established context.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod acknowledged;
mod announce;
mod claim;
mod complaint;
mod config;
mod confusion;
mod consts;
mod context;
mod event;
mod index;
mod initiator;
mod key;
mod machine;
mod negative;
mod peer;
mod recovery;
mod responder;
mod resume;
mod table;
mod update;
mod validator;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use consts::*;
pub use context::{Context, Established, Role, State};
pub use event::{Event, Failure, Incoming, Transmit, Used, Via};
pub use key::Key;
pub use machine::Machine;
pub use peer::{Millis, PeerSet, Preferences};
