//! ILNPv6 sessions (RFC 6740 to 6744). An address is a locator, which says where a node is, and an identifier, which
//! says who the node is. A session is between two identifiers, and goes on when the locators change.
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
//! **Admission.** In the St Andrews kernel each new correspondent has an entry in the cache of correspondents, so a
//! node that invents identifiers fills the cache. Here a [`Policy`] decides. [`Admit`] wants a socket, a connected
//! socket at either end, room in the cache ([`moorline_index::Ilcc`]), and the correspondent's agreement. If the
//! policy refuses a session, the host keeps nothing of it. [`Open`] is there for comparison. The cache is bounded
//! with each policy.
//!
//! **Nonces.** Each direction has a nonce. The nonce shows that a packet comes from the node that the session began
//! with, from whatever locator. Locator Updates need the nonce, and so do packets from a locator that the
//! correspondent never named. Other packets go without the nonce once the correspondent has shown that it knows the
//! session. The session keeps the first nonce of a correspondent.
//!
//! **Locator Updates** carry all valid locators, with preference and lifetime. A node repeats its Locator Update
//! until it is acknowledged, and sends it once more before the lifetimes end (decision 226). Between two nodes that
//! did the handshake Locator Updates have numbers, so that an old one is not taken again (decision 072).
//!
//! **Lost sessions.** If only one end has a session, its packets are lost. So the machine at times asks the
//! correspondent of a session in use whether the correspondent still knows the session: it sends its last Locator
//! Update once more. A correspondent that does not know the session answers each second Locator Update with the error of
//! a host without ILNP. A host that ends its sessions sends the same error (decision 089).
//!
//! **Correspondents without the handshake** get an Echo Request with our nonce, once their nonce has come, or if the
//! DNS names them and [`Initiate::Dns`] is set. The answer has their nonce: it makes the session, or gives the
//! session another nonce (decision 146).
//!
//! **Paths that fail.** If the locators in use bring no answer to the question, the question goes by other pairs of
//! locators, and the session moves to the pair that brings the answer (decision 148).
//!
//! **Locators without proof.** A nonce shows that the correspondent names a locator, and not that it is there. So
//! payload goes to a locator of the correspondent after the correspondent has answered an Echo Request that went there
//! (decision 192).
//!
//! **Falling back.** If a host answers a nonce with "unrecognized option", or does not answer a proposal, the machine
//! remembers the host for a while, and its traffic is classic IPv6.
//!
//! [`Machine`] holds all sessions of a host and has neither clock nor randomness of its own. The machine asks about
//! sockets of the host by a [`Question`], and the answer is an input. A data plane handles the packets;
//! [`moorline_datapath::ilnp`] is the contract between the machine and the data plane.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod advertisement;
mod best;
mod config;
pub mod consts;
mod control;
mod denial;
mod entries;
mod event;
mod heard;
mod known;
mod locator_update;
mod lossy;
mod machine;
mod negative;
mod original;
mod pace;
mod paths;
mod places;
mod policy;
mod proof;
mod proposal;
mod question;
mod received;
mod responder;
mod retry;
mod session;
mod sibling;
mod snapshot;
mod trial;
mod used;
mod validator;

#[cfg(test)]
mod tests;

pub use config::{Config, Initiate, LocalLocator, LocalState, NonceLen, NonceMode};
pub use event::{Cause, Classic, Event, MoveCause, Transmit};
pub use machine::Machine;
pub use moorline_datapath::ilnp::Socket;
pub use policy::{Admit, Candidate, Decision, Open, Policy, Stage, Why, share_of_locator};
pub use question::{Question, QuestionId};
pub use session::{RemoteLocator, SessionView, State, Validity};
pub use snapshot::SessionSnapshot;
