//! Files in which a host keeps its addresses from one run to the next (decision 162). The daemon and the host stack use them.
//!
//! | module | concern |
//! |---|---|
//! | `folder` | a folder for its user alone, and its files |
//! | `addresses` | the file of addresses, and the file before it |
//! | `saved` | form of the addresses in the file |
//! | `sealed` | checksum at the end of a file |
#![forbid(unsafe_code)]

mod addresses;
mod folder;
mod saved;
mod sealed;

pub use addresses::{ADDRESSES, Kept, Loaded};
pub use folder::{Folder, LOCK};
pub use saved::{Moment, SavedAddresses};
pub use sealed::{seal, unseal};
