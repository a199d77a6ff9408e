use crate::SOCKET_GROUP;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reason why the daemon gave no answer. Each text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No process listens on the socket, or the socket does not exist.
    #[error(
        "moorlined does not answer at {path}: is it running? Start it with `moorlined` as root, \
         or see `systemctl status moorlined`; a socket elsewhere is named with --socket or \
         MOORLINE_SOCKET", path = path.display()
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// The user has no permission for the socket.
    #[error(
        "no permission to use {path}: run this as root, or as a member of the group {SOCKET_GROUP} \
         (`sudo groupadd -rf {SOCKET_GROUP}; sudo usermod -aG {SOCKET_GROUP} $USER; sudo systemctl \
         restart moorlined`, then log in again)", path = path.display()
    )]
    Permission {
        /// The socket.
        path: PathBuf,
    },
    /// Another failure to connect.
    #[error("cannot connect to {path}: {source}", path = path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The connection broke, or the answer is not HTTP.
    #[error(
        "the conversation with moorlined at {path} broke off: {message}. If it was restarted, try \
         again; otherwise see its log (`journalctl -u moorlined`)", path = path.display()
    )]
    Broken {
        /// The socket.
        path: PathBuf,
        /// Error text.
        message: String,
    },
    /// No answer in time.
    #[error(
        "moorlined at {path} took the request and has not answered for {limit:?}. A first start makes \
         a key, which takes a while on a busy machine; otherwise see its log (`journalctl -u moorlined`)", path = path.display()
    )]
    Timeout {
        /// The socket.
        path: PathBuf,
        /// Time that the client waited.
        limit: Duration,
    },
    /// The daemon refused the request.
    #[error(
        "moorlined refused {request} ({status}): {error}{}",
        .help.as_ref().map(|help| format!(". {help}")).unwrap_or_default()
    )]
    Refused {
        /// Path of the request.
        request: String,
        /// HTTP status.
        status: u16,
        /// Error text of the daemon.
        error: String,
        /// Advice of the daemon.
        help: Option<String>,
    },
    /// This version cannot read the answer.
    #[error(
        "moorlined's answer to {request} cannot be read ({message}): are `moorline` and \
         `moorlined` of the same version?"
    )]
    Decode {
        /// Path of the request.
        request: String,
        /// Fault in the answer.
        message: String,
    },
}

impl Error {
    pub(crate) fn from_connect(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let kind = source.kind();
        if kind == io::ErrorKind::NotFound || kind == io::ErrorKind::ConnectionRefused {
            Self::NotRunning { path }
        } else if kind == io::ErrorKind::PermissionDenied {
            Self::Permission { path }
        } else {
            Self::Connect { path, source }
        }
    }

    pub(crate) fn broken(path: &Path, message: impl ToString) -> Self {
        Self::Broken { path: path.to_owned(), message: message.to_string() }
    }

    pub(crate) fn decode(request: &str, message: impl ToString) -> Self {
        Self::Decode { request: request.to_owned(), message: message.to_string() }
    }
}
