use std::io;
use std::path::PathBuf;

use moorline_types::{ContextId, SessionId};

/// Reason why the data plane could not execute an operation.
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
        /// The operation.
        action: &'static str,
        /// Index of the interface.
        ifindex: u32,
        /// Error of the kernel.
        #[source]
        source: libbpf_rs::Error,
    },
    /// An operation on a table failed.
    #[error("cannot {action} table {table}")]
    Table {
        /// The operation.
        action: &'static str,
        /// Name of the table.
        table: &'static str,
        /// Error of the kernel.
        #[source]
        source: libbpf_rs::Error,
    },
    /// The object lacks a program or table with which this library was built.
    #[error("the eBPF object has no {0}")]
    Missing(&'static str),
    /// The id is not below [`crate::Settings::max_contexts`].
    #[error("context {0} is beyond the size of the tables")]
    TooManyContexts(ContextId),
    /// The context has more locators than [`moorline_datapath::shim6::MAX_PEER_LOCATORS`].
    #[error("context {0} has too many peer locators")]
    TooManyLocators(ContextId),
    /// The context has more paths than [`moorline_datapath::shim6::MAX_PATHS`].
    #[error("context {0} has too many paths")]
    TooManyPaths(ContextId),
    /// Both buckets of an index for the context are full. This is rare, as half of the index is empty.
    #[error("no room in an index")]
    IndexFull,
    /// The kernel gave no random octets.
    #[error("cannot get random octets")]
    Randomness(#[source] io::Error),
    /// There is no such context.
    #[error("no context {0}")]
    UnknownContext(ContextId),
    /// The id is not below [`crate::ilnp::IlnpSettings::max_sessions`].
    #[error("session {} is beyond the size of the tables", .0.0)]
    TooManySessions(SessionId),
    /// There are more sessions between two nodes than the tables hold: 16.
    #[error("session {} is one too many with its node", .0.0)]
    TooManyWithNode(SessionId),
    /// Pins could not be made or removed.
    #[error("cannot {action} {}", path.display())]
    Pins {
        /// The operation.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A program that only user space runs has failed.
    #[error("cannot run the control program")]
    Control(#[source] libbpf_rs::Error),
}

/// Result of this crate.
pub type Result<T> = core::result::Result<T, Error>;
