use crate::SOCKET_GROUP;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why the daemon gave no answer; each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens on the socket, or there is none.
    #[error(
        "moorlined does not answer at {path}: is it running? Start it with `moorlined` as root, \
         or see `systemctl status moorlined`; a socket elsewhere is named with --socket or \
         MOORLINE_SOCKET", path = path.display()
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// The socket is not for this user.
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
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke, or what came is not HTTP.
    #[error(
        "the conversation with moorlined at {path} broke off: {message}. If it was restarted, try \
         again; otherwise see its log (`journalctl -u moorlined`)", path = path.display()
    )]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What happened.
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
        /// How long we waited.
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
        /// What the daemon said.
        error: String,
        /// What the daemon says to do.
        help: Option<String>,
    },
    /// The answer is not what this version understands.
    #[error(
        "moorlined's answer to {request} cannot be read ({message}): are `moorline` and \
         `moorlined` of the same version?"
    )]
    Decode {
        /// Path of the request.
        request: String,
        /// What is wrong with it.
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
