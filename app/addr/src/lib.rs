//! Everything about making provable addresses that needs threads, files or randomness.
//!
//! A [`Request`] says what addresses are wanted. [`Request::resolve`] settles what it leaves open, from
//! a state file if there is one, else with random octets, and gives a [`Search`]. The search counts
//! tries up from a starting modifier. It is cut into chunks: the chunks of shard `i` of `n` are those
//! whose number leaves `i` when divided by `n`, and the threads of a machine take the chunks of its
//! shard in turn. A chunk that has a fit ends the search when all chunks of the shard before it have
//! been searched too, so a shard has one result, whoever runs it, with however many threads, engines
//! and interruptions; and the least offset among all shards is what one machine alone would find.
//!
//! Keys and parameters live in files that are written beside, synced and renamed, so that a full disk
//! or a cut leaves the old file or the new one.
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
