use std::future::poll_fn;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use moorline_stack::socket::Error;
use moorline_stack::stack::Stack;
use moorline_stack::tcp::{Flow, ListenerId, State, TcpId};
use moorline_types::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::Host;
use crate::error::to_io;
use crate::host::{local, v6};
use crate::waiting::{Directions, Tasks};

/// A TCP connection of a host. It ends when it is dropped; octets that the peer has not acknowledged are still sent.
#[derive(Debug)]
pub struct TcpStream {
    host: Host,
    id: TcpId,
    flow: Flow,
}

/// A TCP socket that accepts connections. Connections that nobody has accepted are reset when it is dropped.
#[derive(Debug)]
pub struct TcpListener {
    host: Host,
    id: ListenerId,
    address: SocketAddr,
}

impl TcpStream {
    /// Connects to an address.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`]: the host has no route, or no address yet ([`Host::address`] waits for one).
    /// [`io::ErrorKind::ConnectionRefused`] and others: the peer's or the network's answer. [`io::ErrorKind::TimedOut`]: there was none.
    pub async fn connect(host: &Host, peer: impl Into<SocketAddr>) -> io::Result<Self> {
        let peer = v6(peer.into());
        let connected = host.shared().with(|state, now| {
            let id = state.node.call(now, |stack| stack.tcp_connect(peer, now))?;
            state.waiting.tcp.insert(id, Directions::default());
            Ok((id, state.node.stack().tcp_flow(id)?))
        });
        let (id, flow) = connected.map_err(to_io)?;
        // From here on the connection ends if this future is dropped.
        let stream = Self { host: host.clone(), id, flow };
        poll_fn(|context| stream.poll_established(context)).await?;
        Ok(stream)
    }

    fn poll_established(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.poll(
            context,
            |directions| &mut directions.writable,
            |stack, now| match stack.tcp_state(self.id)? {
                State::SynSent | State::SynReceived => Err(Error::WouldBlock),
                State::Closed => Err(stack
                    .tcp_recv(self.id, &mut [0], now)
                    .err()
                    .unwrap_or(Error::ConnectionAborted)),
                State::Established
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
                | State::Closing
                | State::LastAck
                | State::TimeWait => Ok(()),
            },
        )
    }

    /// Addresses and ports of both ends.
    #[must_use]
    pub const fn flow(&self) -> Flow {
        self.flow
    }

    /// Address and port of the host.
    ///
    /// # Errors
    /// None: the result has the form of the standard library's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.flow.local.into())
    }

    /// Address and port of the peer.
    ///
    /// # Errors
    /// None: the result has the form of the standard library's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.flow.peer.into())
    }

    /// Resets the connection.
    pub fn abort(self) {
        // The connection may be over already.
        let _ = self
            .host
            .shared()
            .with(|state, now| state.node.call(now, |stack| stack.tcp_abort(self.id, now)));
    }

    /// Calls the stack. If the call would block, the task waits.
    fn poll<T>(
        &self,
        context: &Context<'_>,
        tasks: impl FnOnce(&mut Directions) -> &mut Tasks,
        call: impl FnOnce(&mut Stack, Instant) -> Result<T, Error>,
    ) -> Poll<io::Result<T>> {
        self.host.shared().with(|state, now| match state.node.call(now, |stack| call(stack, now)) {
            Err(Error::WouldBlock) => {
                tasks(state.waiting.tcp.entry(self.id).or_default()).add(context);
                Poll::Pending
            }
            result => Poll::Ready(result.map_err(to_io)),
        })
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let octets = buffer.initialize_unfilled();
        let received = self.poll(
            context,
            |directions| &mut directions.readable,
            |stack, now| stack.tcp_recv(self.id, octets, now),
        );
        received.map_ok(|len| buffer.advance(len))
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        if octets.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll(
            context,
            |directions| &mut directions.writable,
            |stack, now| stack.tcp_send(self.id, octets, now),
        )
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing waits here: the octets are with the host.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that is over has no direction to end.
        let _ = self
            .host
            .shared()
            .with(|state, now| state.node.call(now, |stack| stack.tcp_shutdown(self.id, now)));
        Poll::Ready(Ok(()))
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.host.shared().with(|state, now| {
            state.waiting.tcp.remove(&self.id);
            // The name may be gone already.
            let _ = state.node.call(now, |stack| stack.tcp_close(self.id, now));
        });
    }
}

impl TcpListener {
    /// Listens at a port. `::` and `0.0.0.0` stand for all addresses of the host, and port 0 for a free port from 49152 on. At most 128 connections
    /// wait to be accepted.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]: another listener has the port. [`io::ErrorKind::AddrNotAvailable`]: the host does not have the address.
    pub fn bind(host: &Host, address: impl Into<SocketAddr>) -> io::Result<Self> {
        let address = address.into();
        let (ip, port) = local(address);
        let ports = if port == 0 { DYNAMIC..=u16::MAX } else { port..=port };
        let listening = host.shared().with(|state, now| {
            let mut result = Err(Error::AddrInUse);
            for port in ports {
                let listen = |stack: &mut Stack| stack.tcp_listen(ip, port, BACKLOG);
                result = state.node.call(now, listen).map(|id| (id, port));
                if result != Err(Error::AddrInUse) {
                    break;
                }
            }
            let (id, port) = result?;
            state.waiting.listeners.entry(id).or_default();
            Ok((id, port))
        });
        let (id, port) = listening.map_err(to_io)?;
        let address = (ip.unwrap_or(Ipv6Addr::UNSPECIFIED), port).into();
        Ok(Self { host: host.clone(), id, address })
    }

    /// Waits for a connection. Cancel safe.
    ///
    /// # Errors
    /// The host has ended.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Takes a connection if there is one, as [`Self::accept`] does.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn poll_accept(&self, context: &Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.host.shared().with(|state, now| {
            while let Some(id) = state.node.call(now, |stack| stack.tcp_accept(self.id))? {
                // A connection may be over before it is accepted.
                let Ok(flow) = state.node.stack().tcp_flow(id) else { continue };
                state.waiting.tcp.insert(id, Directions::default());
                return Ok(Some((id, flow)));
            }
            state.waiting.listeners.entry(self.id).or_default().add(context);
            Ok(None)
        });
        let Some((id, flow)) = accepted.map_err(to_io)? else { return Poll::Pending };
        let stream = TcpStream { host: self.host.clone(), id, flow };
        Poll::Ready(Ok((stream, flow.peer.into())))
    }

    /// Address and port; the address is `::` if the listener has all of them.
    ///
    /// # Errors
    /// None: the result has the form of the standard library's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.host.shared().with(|state, now| {
            state.waiting.listeners.remove(&self.id);
            // The name may be gone already.
            let _ = state.node.call(now, |stack| stack.tcp_unlisten(self.id, now));
        });
    }
}

#[cfg(feature = "axum")]
impl axum::serve::Listener for TcpListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        match Self::accept(self).await {
            Ok(accepted) => accepted,
            // The host has ended: no connection comes any more.
            Err(_) => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

/// Connections of a listener that may wait.
const BACKLOG: usize = 128;
/// The first dynamic port (RFC 6335 s6).
const DYNAMIC: u16 = 49152;
