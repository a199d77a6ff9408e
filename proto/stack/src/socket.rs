//! Errors of sockets, as programs see them, and the kinds of sockets that a packet can find.

use moorline_ip::icmp::{
    Cause, HOP_LIMIT, NO_ROUTE, PORT_UNREACHABLE, PROHIBITED, UNKNOWN_NEXT_HEADER,
};

/// The socket that takes the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No socket.
    None,
    /// A listener, or a UDP socket without a peer: anybody may send to it.
    Anyone,
    /// A connection whose handshake is not complete, or a connection in TIME-WAIT.
    HalfConnection,
    /// A connection, or a UDP socket that is connected to the peer.
    Connection,
}

/// Reason for which a call on a socket failed, or for which a connection ended. The names follow those of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call cannot proceed now. An event of the socket says when it can.
    #[error("the operation would block")]
    WouldBlock,
    /// Another socket has the address and port.
    #[error("the address is in use")]
    AddrInUse,
    /// The host does not have the address, or no port is free.
    #[error("the address is not available")]
    AddrNotAvailable,
    /// The socket has no peer.
    #[error("the socket is not connected")]
    NotConnected,
    /// The socket has a peer already.
    #[error("the socket is already connected")]
    AlreadyConnected,
    /// No socket of the peer has the port.
    #[error("the peer refused the connection")]
    ConnectionRefused,
    /// The peer reset the connection.
    #[error("the peer reset the connection")]
    ConnectionReset,
    /// This host aborted the connection.
    #[error("the connection was aborted")]
    ConnectionAborted,
    /// The peer did not answer in time.
    #[error("the connection timed out")]
    TimedOut,
    /// The network reports that it does not reach the host.
    #[error("the host is unreachable")]
    HostUnreachable,
    /// The network reports that it has no route.
    #[error("the network is unreachable")]
    NetworkUnreachable,
    /// The network forbids the communication.
    #[error("the network forbids the communication")]
    PermissionDenied,
    /// The peer, or a node on the way, does not understand the packets.
    #[error("the peer does not support the protocol")]
    ProtocolUnreachable,
    /// The datagram is too long. The value is the largest number of octets.
    #[error("the message has more than {0} octets")]
    MessageSize(usize),
    /// A limit on sockets or queues is reached.
    #[error("no room is left")]
    NoBuffers,
    /// The program has closed this direction of the connection.
    #[error("the sending side is closed")]
    Closed,
    /// The socket does not exist, or the program has closed it.
    #[error("the socket does not exist")]
    BadHandle,
    /// The arguments are not valid for this call.
    #[error("the argument is not valid")]
    Invalid,
}

impl Error {
    /// The error that a program sees for an ICMPv6 error about one of its packets; `None` if sockets ignore the cause.
    /// A Packet Too Big message concerns the route (RFC 8201), and Time Exceeded during reassembly one packet only.
    #[must_use]
    pub const fn of_cause(cause: Cause) -> Option<Self> {
        match cause {
            Cause::Unreachable(NO_ROUTE | REJECT_ROUTE) => Some(Self::NetworkUnreachable),
            Cause::Unreachable(PROHIBITED | POLICY) => Some(Self::PermissionDenied),
            Cause::Unreachable(PORT_UNREACHABLE) => Some(Self::ConnectionRefused),
            Cause::Unreachable(_) | Cause::TimeExceeded(HOP_LIMIT) => Some(Self::HostUnreachable),
            // RFC 4443 s3.4: an unrecognized Next Header is the answer of a host without the protocol.
            Cause::ParameterProblem(UNKNOWN_NEXT_HEADER, _) => Some(Self::ProtocolUnreachable),
            Cause::PacketTooBig(_)
            | Cause::TimeExceeded(_)
            | Cause::ParameterProblem(..)
            | Cause::Unknown(..) => None,
        }
    }

    /// Whether the error says that the peer does not want the connection, so that another try is in vain (RFC 9293
    /// s3.9.2.2: a port or protocol that is unreachable, or what is administratively prohibited).
    #[must_use]
    pub const fn is_hard(self) -> bool {
        matches!(self, Self::ConnectionRefused | Self::PermissionDenied | Self::ProtocolUnreachable)
    }
}

// Codes of RFC 4443 s3.1 without a name in `moorline_ip`.
const POLICY: u8 = 5;
const REJECT_ROUTE: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_ip::icmp::Kind;

    #[test]
    fn each_cause_has_the_error_that_rfc4443_and_errno_give_it() {
        let unreachable = |code| Error::of_cause(Cause::Unreachable(code));
        let wanted = [
            Error::NetworkUnreachable,
            Error::PermissionDenied,
            Error::HostUnreachable,
            Error::HostUnreachable,
            Error::ConnectionRefused,
            Error::PermissionDenied,
            Error::NetworkUnreachable,
            Error::HostUnreachable,
        ];
        for (code, error) in (0..).zip(wanted) {
            assert_eq!(unreachable(code), Some(error), "{code}");
        }
        assert_eq!(Error::of_cause(Cause::TimeExceeded(0)), Some(Error::HostUnreachable));
        assert_eq!(Error::of_cause(Cause::TimeExceeded(1)), None);
        let problem = |code| Error::of_cause(Cause::ParameterProblem(code, 6));
        assert_eq!([problem(0), problem(1)], [None, Some(Error::ProtocolUnreachable)]);
        assert_eq!(Error::of_cause(Cause::PacketTooBig(1280)), None);
        assert_eq!(Error::of_cause(Cause::Unknown(Kind(9), 0)), None);
    }
}
