//! Where each demand of the RFCs is done, and which test shows it.
//!
//! `rfc5533.toml` and its neighbours list what an RFC demands, in our words: one entry for each
//! upper-case key word (MUST, SHOULD, MAY and the like), named by section and ordinal. Comments in
//! code and tests point at these entries:
//!
//! ```text
//! //= rfc5533#7.13-3                    the item below, or the function around it, does this
//! //= rfc5533#7.13-3 rfc5533#7.14-1     or these
//! //= rfc5533#7.13-3 (test)             the test below or around shows it
//! //= rfc5533#7.8                       a section without key words of its own, or all of it
//! ```
//!
//! From both comes `docs/conformance.md` (`cargo run -p moorline-conformance` writes it). The tests
//! of this crate fail when a marker names nothing, when a MUST has neither code and test nor a
//! reason why not, when anything else has neither code nor a reason, and when the page in the
//! repository is not what the markers say.
#![forbid(unsafe_code)]

mod files;
mod item;
mod list;
mod marker;
mod page;
mod record;

use std::path::{Path, PathBuf};

pub use list::{Requirement, RequirementList};
pub use marker::{Marker, Place};
pub use record::{Entry, Record, Rfc};

/// The page, seen from the root of the repository.
pub const PAGE: &str = "docs/conformance.md";

/// The root of the repository that this crate was built in.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
