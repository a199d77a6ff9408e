use crate::conflicts::Conflict;
use std::io;
use std::path::PathBuf;

/// Why a change to the host, or reading its state, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No netlink socket.
    #[error("cannot open a netlink socket: {0}")]
    Open(#[source] io::Error),
    /// No raw socket for router advertisements.
    #[error("cannot open a raw ICMPv6 socket: {0}. It needs CAP_NET_RAW: run as root")]
    OpenRaw(#[source] io::Error),
    /// Routers cannot be listened to any more.
    #[error("cannot listen to routers: {0}")]
    Routers(#[source] io::Error),
    /// A system control could not be read or set.
    #[error("cannot set {path}: {source}{}", hint(source))]
    Control {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The interface has gone.
    #[error("there is no interface {ifindex} any more")]
    NoInterface {
        /// Its index.
        ifindex: u32,
    },
    /// The kernel could not be asked, or its answer not be read.
    #[error("cannot read the host's {what}: {source}")]
    Read {
        /// Links, addresses, routes or rules.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused a change.
    #[error("cannot {action}: {source}{}", hint(source))]
    Refused {
        /// The change and its object, as in "add rule 5530".
        action: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something on the host has our number or name.
    #[error("{0}")]
    Conflict(Conflict),
    /// [`crate::Netlink::ensure_moor`] has to come first.
    #[error("the link {0} does not exist: it has to be made first")]
    NoMoorLink(String),
    /// The change was not made as it could not be written down first.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Why the journal of changes cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Reading failed.
    #[error("cannot read the journal of changes {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing failed.
    #[error(
        "cannot write the journal of changes {path}: {source}. Without it changes could not be \
         undone after a crash, so none is made"
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No journal of this version.
    #[error(
        "{path} is no journal of changes of this version: {reason}. Move it away; `moorline down` \
         finds Moorline's changes by their marks"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EPERM) => ". It needs CAP_NET_ADMIN: run as root",
        Some(libc::EACCES) => {
            ". It needs CAP_NET_ADMIN (run as root), and IPv6 switched on there (sysctl disable_ipv6)"
        }
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => {
            ". The kernel lacks a feature: IPv6, policy routing (IPV6_MULTIPLE_TABLES), source \
             routing (IPV6_SUBTREES) and veth are needed"
        }
        Some(libc::ENETDOWN) => ". The interface is down",
        Some(libc::ENODEV) => ". The interface is gone",
        Some(libc::EROFS) => ". /proc/sys is read-only here, as in a container without privileges",
        _ => "",
    }
}
