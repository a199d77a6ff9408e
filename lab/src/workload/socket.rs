//! Sockets bound before they connect; call from inside the namespace.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Context as _;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use super::{Endpoint, Protocol};

/// A connection from `source`'s address.
pub(super) fn connect_from(
    source: &Endpoint,
    to: SocketAddr,
    protocol: Protocol,
) -> anyhow::Result<TcpStream> {
    let socket = stream_socket(protocol)?;
    prefer_cubic(&socket)?;
    bind(&socket, &SocketAddr::from(source.socket_address(0)))
        .with_context(|| format!("bind to {}", source.address))?;
    connect(&socket, &to).with_context(|| format!("connect {} to {to}", source.address))?;
    let stream = TcpStream::from(socket);
    set_timeouts(&stream)?;
    Ok(stream)
}

/// Two sockets for datagrams, one at each end and connected to the other: the kernel finds such sockets without a look at
/// routes. A read comes back after `patience`.
pub(super) fn datagram_sockets(
    ends: [&Endpoint; 2],
    patience: Duration,
) -> anyhow::Result<[UdpSocket; 2]> {
    let open = |end: &Endpoint| {
        let bound = || UdpSocket::bind(end.socket_address(0));
        let socket =
            end.namespace.enter(|| bound().with_context(|| format!("bind to {}", end.address)))?;
        socket.set_read_timeout(Some(patience)).context("read timeout")?;
        anyhow::Ok(socket)
    };
    let [one, two] = [open(ends[0])?, open(ends[1])?];
    one.connect(two.local_addr().context("local address")?).context("connect")?;
    two.connect(one.local_addr().context("local address")?).context("connect")?;
    Ok([one, two])
}

/// A listening socket on `at`'s address and any port.
pub(super) fn listen(at: &Endpoint) -> anyhow::Result<TcpListener> {
    TcpListener::bind(at.socket_address(0)).with_context(|| format!("listen at {}", at.address))
}

/// The same for a kind of socket. MPTCP joins subflows to the listener's other addresses, so it listens at
/// all of them.
pub(super) fn listen_as(at: &Endpoint, protocol: Protocol) -> anyhow::Result<TcpListener> {
    if protocol == Protocol::Tcp {
        return listen(at);
    }
    let socket = stream_socket(protocol)?;
    let any = Endpoint { address: Ipv6Addr::UNSPECIFIED, ..at.clone() };
    bind(&socket, &SocketAddr::from(any.socket_address(0)))
        .and_then(|()| rustix::net::listen(&socket, 1))
        .with_context(|| format!("listen at {}", at.address))?;
    Ok(TcpListener::from(socket))
}

fn stream_socket(protocol: Protocol) -> anyhow::Result<OwnedFd> {
    let number = match protocol {
        Protocol::Tcp => None,
        Protocol::Mptcp => Some(ipproto::MPTCP),
    };
    socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, number)
        .with_context(|| format!("{protocol:?} socket"))
}

/// The next connection to `listener`, or none if `go_on` says so first.
pub(super) fn accept(
    listener: &TcpListener,
    go_on: impl Fn() -> bool,
) -> anyhow::Result<Option<TcpStream>> {
    listener.set_nonblocking(true).context("listener")?;
    while go_on() {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).context("accepted socket")?;
                prefer_cubic(&stream)?;
                set_timeouts(&stream)?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error).context("accept"),
        }
    }
    Ok(None)
}

/// The default of the machine may pace or probe in its own rhythm; results should compare.
fn prefer_cubic(socket: impl AsFd) -> anyhow::Result<()> {
    sockopt::set_tcp_congestion(socket, "cubic").context("choose cubic")
}

/// Short ones, so that a blocked thread looks around now and then.
fn set_timeouts(stream: &TcpStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(POLL)).context("read timeout")?;
    stream.set_write_timeout(Some(POLL)).context("write timeout")
}

/// Whether an error only says that nothing happened for a while.
pub(super) fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// How long a read or write blocks before its thread looks whether it should end.
pub(super) const POLL: Duration = Duration::from_millis(50);
