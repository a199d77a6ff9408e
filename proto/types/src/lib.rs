//! Identifiers, units and drop reasons shared by every Moorline crate.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod address;
mod depths;
mod drop_reason;
mod drops;
mod ilnp;
mod locators;
mod named;
mod path;
mod prefix;
mod retry;
mod routes;
mod rtt;
mod tag;
mod time;

pub use address::{Locator, LocatorPair, Ulid, UlidPair};
pub use depths::{Depths, FEW_LOCATORS};
pub use drop_reason::DropReason;
pub use drops::DropCounters;
pub use ilnp::{Ilv, IlvPair, L64, Nid, Nonce, SessionId};
pub use locators::Locators;
pub use path::{Encapsulation, Path};
pub use prefix::Prefix;
pub use retry::Retry;
pub use routes::LocalRoutes;
pub use rtt::Rtt;
pub use tag::{ContextId, ContextTag};
pub use time::Instant;
