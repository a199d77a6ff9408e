//! Sockets bound before they connect, and transfers over them. Each transfer checks often whether it should stop.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt,
};

use super::{Endpoint, Pacer, Pattern, Protocol};

/// Both ends of a connection, the client's end first, and its listener.
pub(super) fn connection(
    [client, server]: [&Endpoint; 2],
    protocol: Protocol,
) -> anyhow::Result<([TcpStream; 2], TcpListener)> {
    let listener = server.namespace.enter(|| listen(server, protocol))?;
    let port = listener.local_addr().context("address of a listener")?.port();
    let connected = client.namespace.enter(|| connect_from(client, server, port, protocol))?;
    let end = Instant::now() + CONNECT_LIMIT;
    let accepted = accept(&listener, || Instant::now() < end)?;
    Ok(([connected, accepted.context("the connection was not accepted")?], listener))
}

/// A connection from the address of `source`.
fn connect_from(
    source: &Endpoint,
    to: &Endpoint,
    port: u16,
    protocol: Protocol,
) -> anyhow::Result<TcpStream> {
    let socket = stream_socket(protocol)?;
    prefer_cubic(&socket)?;
    bind(&socket, &source.socket_address(0))
        .with_context(|| format!("bind to {}", source.address))?;
    connect(&socket, &to.socket_address(port))
        .with_context(|| format!("connect {} to {} port {port}", source.address, to.address))?;
    let stream = TcpStream::from(socket);
    set_timeouts(&stream)?;
    Ok(stream)
}

/// Two datagram sockets, one at each end, connected to each other. The kernel finds connected sockets without a route
/// lookup. A read returns after `patience` at the latest.
pub(crate) fn datagram_sockets(
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

/// A socket that listens at the address of `at` and any port. Callers must be inside the namespace. A listener of MPTCP
/// uses all addresses, because subflows join at other addresses of the host.
pub(super) fn listen(at: &Endpoint, protocol: Protocol) -> anyhow::Result<TcpListener> {
    let socket = stream_socket(protocol)?;
    let address = match protocol {
        Protocol::Tcp => at.address,
        Protocol::Mptcp => Ipv6Addr::UNSPECIFIED,
    };
    bind(&socket, &SocketAddrV6::new(address, 0, 0, 0))
        .and_then(|()| rustix::net::listen(&socket, BACKLOG))
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

/// The next connection to `listener`. `None` if `go_on` returns false first.
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
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error).context("accept"),
        }
    }
    Ok(None)
}

/// The machine's default congestion control may pace or probe. With cubic, results of machines compare.
fn prefer_cubic(socket: impl AsFd) -> anyhow::Result<()> {
    sockopt::set_tcp_congestion(socket, "cubic").context("choose cubic")
}

/// Sets short timeouts, so that a blocked thread checks often whether it should stop.
fn set_timeouts(stream: &TcpStream) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(POLL)).context("read timeout")?;
    stream.set_write_timeout(Some(POLL)).context("write timeout")
}

/// Content of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) pattern: Pattern,
    /// Total octets.
    pub(super) size: u64,
    /// Octets a second.
    pub(super) rate: u64,
    /// Octets of each write.
    pub(super) chunk: usize,
}

impl Content {
    /// Sends all content and passes each part to `watch`. False if `stop` was set before.
    pub(super) fn send(
        self,
        stream: &mut TcpStream,
        stop: &AtomicBool,
        mut watch: impl FnMut(&[u8]),
    ) -> anyhow::Result<bool> {
        let pacer = Pacer::start(self.rate);
        let mut chunk = vec![0; self.chunk];
        let mut sent = 0;
        while sent < self.size {
            let left = usize::try_from(self.size - sent).unwrap_or(usize::MAX);
            let part = &mut chunk[..left.min(self.chunk)];
            self.pattern.fill(sent, part);
            watch(part);
            let is_sent = write_all(stream, part, stop);
            if !is_sent.with_context(|| format!("after {sent} octets"))? {
                return Ok(false);
            }
            sent += part.len() as u64;
            thread::sleep(pacer.wait(sent));
        }
        Ok(true)
    }
}

/// Writes all octets. False if `stop` was set before.
pub(super) fn write_all(
    stream: &mut TcpStream,
    mut octets: &[u8],
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    while !octets.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match stream.write(octets) {
            Ok(count) => octets = &octets[count..],
            Err(error) if is_timeout(&error) => {}
            // The other end has stopped, too, and has closed its socket with unread octets.
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
            Err(error) => return Err(error).context("write"),
        }
    }
    Ok(true)
}

/// Reads the next octets. 0 at the end of the stream or if `stop` is set.
pub(super) fn read_some(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    stop: &AtomicBool,
) -> anyhow::Result<usize> {
    while !stop.load(Ordering::Relaxed) {
        match stream.read(buffer) {
            Ok(count) => return Ok(count),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error).context("read"),
        }
    }
    Ok(0)
}

/// Sends datagrams, each with a number and its pattern, until `stop` is set. Calls `watch` before each. Gives the
/// number of datagrams.
pub(super) fn send_datagrams(
    socket: &UdpSocket,
    size: usize,
    per_second: u32,
    stop: &AtomicBool,
    mut watch: impl FnMut(),
) -> anyhow::Result<u64> {
    let pacer = Pacer::start(per_second.into());
    let mut datagram = vec![0; size];
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        Pattern::new(number).fill(0, &mut datagram[8..]);
        watch();
        // If the route is missing for a moment, or an ICMP error came, the datagram counts as lost.
        let _ = socket.send(&datagram);
        number += 1;
        thread::sleep(pacer.wait(number));
    }
    Ok(number)
}

/// Passes incoming datagrams and their sources to `take` until `stop` is set, and after that until nothing has come for
/// `late`.
pub(crate) fn receive_datagrams(
    socket: &UdpSocket,
    late: Duration,
    stop: &AtomicBool,
    mut take: impl FnMut(&[u8], SocketAddr),
) -> anyhow::Result<()> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut last = Instant::now();
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => take(&buffer[..length], from),
            Err(error) if !is_timeout(&error) && !LOST.contains(&error.kind()) => {
                return Err(error).context("receive");
            }
            Err(_) if is_over && last.elapsed() >= late => return Ok(()),
            Err(_) if is_over => continue,
            Err(_) => {}
        }
        last = Instant::now();
    }
}

/// Whether an error only means that nothing happened within the timeout.
fn is_timeout(error: &std::io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&error.kind())
}

/// Errors that tell of a lost datagram. Later datagrams may arrive.
const LOST: [ErrorKind; 4] = [
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
];
/// Time for which a read or write blocks before its thread checks whether it should stop.
pub(super) const POLL: Duration = Duration::from_millis(50);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const BACKLOG: i32 = 128;
const MAX_DATAGRAM: usize = 1 << 16;
