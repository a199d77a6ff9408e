use moorline_cga::{GenerateError, KeyError};
use std::{io, path::PathBuf};

/// Why there is no address, key or file. The text is one sentence for a person.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No IPv6 prefix of 64 bits.
    #[error("{text} is no prefix of 64 bits: write it like 2001:db8:1::/64")]
    Prefix {
        /// What was given.
        text: String,
    },
    /// Multicast, or what is reserved.
    #[error(
        "{text} has no addresses of hosts: give a prefix of this network, like 2001:db8:1::/64"
    )]
    NoHosts {
        /// What was given.
        text: String,
    },
    /// No shard.
    #[error("{text} is no shard: write it like 0/16, counting from 0")]
    Shard {
        /// What was given.
        text: String,
    },
    /// No octets in hex.
    #[error("{text} is not in hexadecimal digits")]
    Hex {
        /// What was given.
        text: String,
    },
    /// Several prefixes for a CGA, which has one.
    #[error("a CGA has one prefix: ask for an HBA set, or for one address after the other")]
    OnePrefix,
    /// A CGA without the key that it is bound to.
    #[error("a CGA needs a key: make one with `moorline key generate`, or ask for an HBA set")]
    NoKey,
    /// Shards that would draw different random octets.
    #[error("the shards of an HBA set without a key must agree: give all of them the same seed")]
    NoSeed,
    /// The addresses that were asked for cannot be made.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The key is not fit.
    #[error("{}: {error}", path.display())]
    Key {
        /// The key file.
        path: PathBuf,
        /// What is wrong.
        error: KeyError,
    },
    /// A public key that is none.
    #[error("{0}")]
    PublicKey(KeyError),
    /// No such key is made here.
    #[error("{0}")]
    KeyBits(KeyError),
    /// A private key that is none any more.
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
        /// What the system says.
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
    /// A file could not be written. Nothing half written stays.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The state file is not one.
    #[error("{} is no state of a search: {why}", path.display())]
    State {
        /// The state file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The state file is of a search for something else.
    #[error("{} is the state of a search with another {what}: remove it or name another file", path.display())]
    OtherSearch {
        /// The state file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// The caller wanted it to end.
    #[error("interrupted after {tries} tries")]
    Cancelled {
        /// Of this run and those before.
        tries: u64,
    },
    /// The system gives no more threads.
    #[error("cannot start {wanted} threads: {error}")]
    Threads {
        /// How many.
        wanted: usize,
        /// What the system says.
        error: io::Error,
    },
    /// No more offsets. Nobody will see this.
    #[error("2^64 tries found nothing")]
    Exhausted,
    /// The system gives no random octets.
    #[error("no random octets: {0}")]
    Random(getrandom::Error),
}
