//! ILNP in the DNS (RFC 6742): look-up of a peer's records, and publication of this host's records.
//!
//! A host that speaks ILNP has NID records for its identifiers and L64 records for its locators. If many hosts
//! share their locators, such as the hosts of a mobile network, an LP record points to the name that has the L64 records.
//!
//! * [`NodeRecords`]: records of this host, from its addresses, as lines of a zone file.
//! * [`Update`]: replaces the records of a name by a dynamic update (RFC 2136) with TSIG
//!   (RFC 8945). [`Key`] reads the format of `tsig-keygen`.
//! * [`Resolver`]: looks up a name. NID records come first, because a name without them speaks no ILNP. L64 and
//!   LP records follow, and then the L64 records of the names that LP points to, one level deep.
//! * [`watch`]: looks up names repeatedly, at intervals of their TTLs.
//!
//! The DNS library has no types for these records, so the crate passes RDATA to it; `moorline-wire`
//! reads and writes the RDATA. [`MAX_RECORDS`] bounds an answer, and the resolver skips malformed records.
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
