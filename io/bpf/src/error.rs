use std::io;
use std::path::PathBuf;

use moorline_types::{ContextId, SessionId};

/// Why the data plane could not do what it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused the programs or the tables.
    #[error(
        "cannot load the eBPF programs (root or CAP_BPF and CAP_NET_ADMIN, and Linux 6.1 are needed)"
    )]
    Load(#[source] libbpf_rs::Error),
    /// A program could not be put on an interface, or taken off.
    #[error("cannot {action} interface {ifindex}")]
    Attach {
        /// What was tried.
        action: &'static str,
        /// Where.
        ifindex: u32,
        /// What the kernel said.
        #[source]
        source: libbpf_rs::Error,
    },
    /// An operation on a table failed.
    #[error("cannot {action} table {table}")]
    Table {
        /// What was tried.
        action: &'static str,
        /// Which one.
        table: &'static str,
        /// What the kernel said.
        #[source]
        source: libbpf_rs::Error,
    },
    /// The object lacks a program or table that this library was built with.
    #[error("the eBPF object has no {0}")]
    Missing(&'static str),
    /// The id is not below [`crate::Settings::max_contexts`].
    #[error("context {0} is beyond the size of the tables")]
    TooManyContexts(ContextId),
    /// More locators than [`moorline_datapath::shim6::MAX_PEER_LOCATORS`].
    #[error("context {0} has too many peer locators")]
    TooManyLocators(ContextId),
    /// More paths than [`moorline_datapath::shim6::MAX_PATHS`].
    #[error("context {0} has too many paths")]
    TooManyPaths(ContextId),
    /// Both places that an index has for the context are taken: hardly ever, as half of the index is empty.
    #[error("no room in an index")]
    IndexFull,
    /// The kernel gave no random octets.
    #[error("cannot get random octets")]
    Randomness(#[source] io::Error),
    /// The context is not there.
    #[error("no context {0}")]
    UnknownContext(ContextId),
    /// The id is not below [`crate::ilnp::IlnpSettings::max_sessions`].
    #[error("session {} is beyond the size of the tables", .0.0)]
    TooManySessions(SessionId),
    /// More sessions between two nodes than the tables take: 16.
    #[error("session {} is one too many with its node", .0.0)]
    TooManyWithNode(SessionId),
    /// Pins could not be made or removed.
    #[error("cannot {action} {}", path.display())]
    Pins {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A program that user space runs itself failed.
    #[error("cannot run the control program")]
    Control(#[source] libbpf_rs::Error),
}

/// Result of this crate.
pub type Result<T> = core::result::Result<T, Error>;
