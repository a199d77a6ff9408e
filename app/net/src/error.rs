use std::io::{self, ErrorKind};

use moorline_stack::socket::Error;

/// The error as the standard library's sockets report it. [`io::Error::get_ref`] has the [`Error`] itself.
pub(crate) fn to_io(error: Error) -> io::Error {
    io::Error::new(kind(error), error)
}

const fn kind(error: Error) -> ErrorKind {
    match error {
        Error::WouldBlock => ErrorKind::WouldBlock,
        Error::AddrInUse => ErrorKind::AddrInUse,
        Error::AddrNotAvailable => ErrorKind::AddrNotAvailable,
        Error::NotConnected => ErrorKind::NotConnected,
        Error::ConnectionRefused => ErrorKind::ConnectionRefused,
        Error::ConnectionReset => ErrorKind::ConnectionReset,
        Error::ConnectionAborted => ErrorKind::ConnectionAborted,
        Error::TimedOut => ErrorKind::TimedOut,
        Error::HostUnreachable => ErrorKind::HostUnreachable,
        Error::NetworkUnreachable => ErrorKind::NetworkUnreachable,
        Error::PermissionDenied => ErrorKind::PermissionDenied,
        Error::Closed => ErrorKind::BrokenPipe,
        Error::AlreadyConnected | Error::Invalid => ErrorKind::InvalidInput,
        // The enumeration is not exhaustive.
        Error::ProtocolUnreachable
        | Error::MessageSize(_)
        | Error::NoBuffers
        | Error::BadHandle
        | _ => ErrorKind::Other,
    }
}
