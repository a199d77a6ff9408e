//! ILNPv6 sessions (RFC 6740 to 6744): an address is a locator, which says where, and an identifier, which
//! says who. A session is between two identifiers, and goes on when the locators change.
//!
//! ```text
//!   traffic on a connected socket                     a socket that takes it
//!     -- Propose ---------------------------------->    keeps nothing
//!    <-- Accept (validator, nonce), or Refuse ------
//!     -- Confirm (validator, both nonces) --------->    makes the entry
//!    <-- Locator Update, with nonce ----------------
//!     ... data as in classic IPv6, but for the transport's checksum ...
//!   a locator goes, another comes
//!     == data, with nonce, from the new locator ===>    taken at once
//!     -- Locator Update, with nonce --------------->    replaces the set of locators
//!    <-- acknowledgement ---------------------------
//! ```
//!
//! **Admission.** Every new correspondent could have an entry in the cache ([`moorline_index::Ilcc`]), and in the St Andrews
//! kernel has; whoever makes up identifiers fills it. Here a [`Policy`] decides: [`Admit`] wants a socket,
//! a connected one at either end, room, and the correspondent's agreement, and costs a host nothing for what
//! it does not want. [`Open`] is there for comparison. Either way the cache is bounded.
//!
//! **Nonces.** A nonce for each direction shows that a packet comes from who the session began with,
//! wherever from. Locator Updates need it; packets from a locator that the correspondent never named need
//! it; others go without, once the correspondent has shown that it knows the session. The first nonce of
//! a correspondent is kept as long as the session.
//!
//! **Locator Updates** bring all locators that are valid, with preference and lifetime, and are repeated until
//! acknowledged. Between two hosts that did the handshake they have numbers, so that an old one is not
//! taken again (decision 072).
//!
//! **Losing it.** A session that only one end has would be a black hole. So a correspondent of a session in use is asked at times
//! whether it still knows it, by its last Locator Update once more; one that does not says so as a host without ILNP does, and
//! so does one that ends (decision 089).
//!
//! **Correspondents without the handshake** are asked by an Echo Request with our nonce, once theirs has come, or where the DNS names them and
//! [`Initiate::Dns`] is set. The answer, with theirs, makes
//! the session, or gives it another nonce (decision 146).
//!
//! **Paths that fail.** If the question goes unanswered by the locators in use, it goes by others, and the session goes where the
//! answer comes from (decision 148).
//!
//! **Falling back.** A host that answers a nonce with "unrecognized option", or no proposal at all, is
//! remembered, and gets classic IPv6.
//!
//! [`Machine`] holds all sessions of a host and has neither clock nor randomness of its own. The machine asks
//! about sockets of the host by a [`Question`], and the answer is an input. What happens to each packet is the business of a data
//! plane; between the two is the contract in [`moorline_datapath::ilnp`].
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod best;
mod config;
pub mod consts;
mod control;
mod entries;
mod event;
mod known;
mod locator_update;
mod machine;
mod negative;
mod paths;
mod policy;
mod proposal;
mod question;
mod received;
mod responder;
mod session;
mod sibling;
mod snapshot;
mod trial;
mod used;
mod validator;

#[cfg(test)]
mod tests;

pub use config::{Config, Initiate, LocalLocator, LocalState, NonceLen, NonceMode};
pub use event::{Cause, Classic, Event, Transmit};
pub use machine::Machine;
pub use moorline_datapath::ilnp::Socket;
pub use policy::{Admit, Candidate, Decision, Open, Policy, Stage, Why, share_of_locator};
pub use question::{Question, QuestionId};
pub use session::{RemoteLocator, SessionView, State, Validity};
pub use snapshot::SessionSnapshot;
