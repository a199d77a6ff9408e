//! Generation of provable addresses (CGA, HBA): the parts that need threads, files or randomness.
//!
//! A [`Request`] describes the wanted addresses. [`Request::resolve`] completes the request, from
//! a state file if there is one, else with random octets, and returns a [`Search`]. The search counts
//! tries up from a start modifier, in chunks. Shard `i` of `n` has the chunks whose number modulo `n` is `i`. The
//! threads of a machine take the chunks of its shard in turn. If a chunk has a fit, the search ends after all earlier chunks
//! of the shard have been searched. So the result of a shard does not depend on the machine, the number of threads, the engine
//! or interruptions. The least offset among all shards is the result of a search on one machine.
//!
//! The crate writes keys and parameters to a new file, syncs it and renames it. So a full disk
//! or a power cut leaves the old file or the new file.
#![forbid(unsafe_code)]

mod bench;
mod describe;
mod error;
mod files;
mod job;
mod keys;
mod ledger;
mod params;
mod prefix;
mod progress;
mod request;
mod search;
mod shard;
mod state;
mod verdict;

pub use bench::{EngineRate, bench};
pub use describe::{ExtensionView, KeyView, ParamsView, public_key_pem};
pub use error::Error;
pub use files::{
    Outlives, check_public, write_new_private, write_new_public, write_private, write_public,
};
pub use job::{Addresses, Job, SetKey};
pub use keys::{generate_key, read_key, write_key};
pub use params::{params_from_hex, read_params};
pub use prefix::{parse_prefix, prefix_text};
pub use progress::Progress;
pub use request::{Request, parse_sec};
pub use search::{Found, Search};
pub use shard::Shard;
pub use verdict::Verdict;
