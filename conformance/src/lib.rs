//! Record of the requirements of the RFCs, with the code that fulfils each and the test that shows it.
//!
//! `rfc5533.toml` and the files beside it list the requirements of an RFC in our words. There is one entry for each
//! upper-case key word (MUST, SHOULD, MAY and the like), named by section and ordinal. RFC 8200 and RFC 8201 have none:
//! there it is each lower-case word that binds a host. `left-out` names the sections that bind somebody else, such as
//! routers. Comments in code and tests refer to the entries:
//!
//! ```text
//! //= rfc5533#7.13-3                    the item below, or the function around it, does this
//! //= rfc5533#7.13-3 rfc5533#7.14-1     or these
//! //= rfc5533#7.13-3 (test)             the test below or around shows it
//! //= rfc5533#7.8                       a section without key words of its own, or all of it
//! ```
//!
//! `cargo run -p moorline-conformance` makes `docs/conformance.md` from both. The tests of this crate fail in four
//! cases: a marker names no entry; a MUST has neither code and test nor a reason; another requirement has neither code
//! nor a reason; the page in the repository is stale.
#![forbid(unsafe_code)]

mod files;
mod item;
mod list;
mod marker;
mod page;
mod record;

use std::path::{Path, PathBuf};

pub use list::{LeftOut, Requirement, RequirementList};
pub use marker::{Marker, Place};
pub use record::{Entry, Record, Rfc};

/// Path of the page in the repository.
pub const PAGE: &str = "docs/conformance.md";

/// The root of the repository that this crate was built in.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
