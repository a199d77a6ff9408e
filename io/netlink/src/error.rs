use std::fmt::Display;
use std::io;

/// Reason why a change of the host, or a reading of its state, has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The raw socket for ICMPv6 cannot be opened.
    #[error("cannot open a raw ICMPv6 socket: {0}. It needs CAP_NET_RAW: run as root")]
    OpenRaw(#[source] io::Error),
    /// The kernel could not be asked, or its answer could not be read.
    #[error("cannot read the host's {what}: {source}")]
    Read {
        /// Kind of the objects: links, addresses, routes or rules.
        what: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The kernel refused a change.
    #[error("cannot {action}: {source}{}", hint(source))]
    Refused {
        /// The change and its object, as in "add rule 5530".
        action: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A link that is not ours has the name of one of our links.
    #[error("link {0} is in the way and is not Moorline's: rename or remove it")]
    Conflict(String),
    /// There is no such link: [`crate::Netlink::ensure_moor`] must be called first.
    #[error("the link {0} does not exist: it has to be made first")]
    NoMoorLink(&'static str),
}

impl Error {
    /// Makes the error for a refused action from the error of the kernel.
    pub(crate) fn refused(action: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Refused { action: action.to_string(), source }
    }
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
