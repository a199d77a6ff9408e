//! Shim6 context establishment and lookup (RFC 5533).
//!
//! Two hosts that exchange enough traffic between a pair of addresses agree on a *context*: each
//! gives the other a 47-bit tag and its list of locators, proved to belong together by HBA and CGA. From
//! then on packets between the pair, the context's ULIDs, may take any pair of those locators, with
//! a payload header that carries the receiver's tag.
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
//! No state is kept for a peer before its I2 shows a validator that only we can have made
//! ([`moorline_index::Validators`]), and nothing of an I2 but fixed fields and the validator is looked at before.
//! An initiator that gets no answer remembers so (E-FAILED for a minute, NO-SUPPORT for ten after
//! an ICMPv6 "unrecognized next header"), and the traffic goes on as plain IPv6.
//!
//! [`Machine`] holds all contexts of a host. It has no clock and no randomness of its own:
//! `handle_*` takes the time, `poll_*` gives what to send, what happened and when to wake it.
//! Reachability of an established context is `moorline-reap`'s business.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod acknowledged;
mod announce;
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
pub use event::{Event, Failure, Incoming, Transmit, Via};
pub use key::Key;
pub use machine::Machine;
pub use peer::{Millis, PeerSet, Preferences};
