//! ILNP in the DNS (RFC 6742): what a peer's name says of it, and what ours says to peers.
//!
//! A host that speaks ILNP has NID records, its identifiers, and L64 records, its locators. Where many hosts
//! share their locators, such as those of a network that moves, an LP record names the name that has them.
//!
//! * [`NodeRecords`]: a host's own, from its addresses, as lines of a zone file.
//! * [`Update`]: puts them in place of those that a name has, by a dynamic update (RFC 2136) with TSIG
//!   (RFC 8945). [`Key`] is read from what `tsig-keygen` writes.
//! * [`Resolver`]: looks a name up: its NID records first, since without one it speaks no ILNP, then L64 and
//!   LP, and the L64 records of what LP points to, once.
//! * [`watch`]: looks names up again and again, as their TTLs say.
//!
//! The library that speaks DNS has no types for these records: they come and go as RDATA, which `moorline-wire`
//! reads and writes. An answer is bounded by [`MAX_RECORDS`], and what is malformed in it is left out.
#![forbid(unsafe_code)]

mod error;
mod key;
mod lookup;
mod name;
mod node;
mod own;
mod tsig;
mod update;
mod watch;

pub use error::{KeyError, LookupError, NameError, UpdateError};
pub use key::Key;
pub use lookup::{Found, Locator, MAX_POINTERS, MAX_RECORDS, Resolver};
pub use name::parse_name;
pub use node::{Line, NodeRecords, Ttls};
pub use update::{Change, Update};
pub use watch::{Known, watch};
