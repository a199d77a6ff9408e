use moorline_cga::{GenerateError, KeyError};
use std::{io, path::PathBuf};

/// Reason why there is no address, key or file. The text is one sentence for a person.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not an IPv6 prefix of 64 bits.
    #[error("{text} is no prefix of 64 bits: write it like 2001:db8:1::/64")]
    Prefix {
        /// Text of the user.
        text: String,
    },
    /// The prefix is multicast or reserved.
    #[error(
        "{text} has no addresses of hosts: give a prefix of this network, like 2001:db8:1::/64"
    )]
    NoHosts {
        /// Text of the user.
        text: String,
    },
    /// The text is not a shard.
    #[error("{text} is no shard: write it like 0/16, counting from 0")]
    Shard {
        /// Text of the user.
        text: String,
    },
    /// The text is not octets in hex.
    #[error("{text} is not in hexadecimal digits")]
    Hex {
        /// Text of the user.
        text: String,
    },
    /// The request has several prefixes for a CGA, which has only one.
    #[error("a CGA has one prefix: ask for an HBA set, or for one address after the other")]
    OnePrefix,
    /// The request is for a CGA, and has no key.
    #[error("a CGA needs a key: make one with `moorline key generate`, or ask for an HBA set")]
    NoKey,
    /// Without a seed, the shards would draw different random octets.
    #[error("the shards of an HBA set without a key must agree: give all of them the same seed")]
    NoSeed,
    /// The requested addresses cannot be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The key file cannot be used.
    #[error("{}: {error}", path.display())]
    Key {
        /// The key file.
        path: PathBuf,
        /// Fault of the key.
        error: KeyError,
    },
    /// The octets are not a public key.
    #[error("{0}")]
    PublicKey(KeyError),
    /// A key of this length cannot be generated.
    #[error("{0}")]
    KeyBits(KeyError),
    /// Users other than the owner may read the private key.
    #[error("{} holds a private key that others may read or write: chmod 600 {}", path.display(), path.display())]
    KeyMode {
        /// The key file.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file is much longer than it should be.
    #[error("{} is longer than {max} octets, so it is not what it should be", path.display())]
    FileTooLong {
        /// The file.
        path: PathBuf,
        /// The cap.
        max: usize,
    },
    /// A file could not be written. No partial file is left.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The file is not a state file.
    #[error("{} is no state of a search: {why}", path.display())]
    State {
        /// The state file.
        path: PathBuf,
        /// Fault of the file.
        why: String,
    },
    /// The state file belongs to another search.
    #[error("{} is the state of a search with another {what}: remove it or name another file", path.display())]
    OtherSearch {
        /// The state file.
        path: PathBuf,
        /// Name of the difference.
        what: &'static str,
    },
    /// The caller has cancelled the search.
    #[error("interrupted after {tries} tries")]
    Cancelled {
        /// Tries of this run and earlier runs.
        tries: u64,
    },
    /// The system refused to start threads.
    #[error("cannot start {wanted} threads: {error}")]
    Threads {
        /// Requested number of threads.
        wanted: usize,
        /// Error of the system.
        error: io::Error,
    },
    /// All offsets have been tried. In practice this never happens.
    #[error("2^64 tries found nothing")]
    Exhausted,
    /// The system gives no random octets.
    #[error("no random octets: {0}")]
    Random(getrandom::Error),
}
