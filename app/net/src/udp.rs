use std::future::poll_fn;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use moorline_stack::socket::Error;
use moorline_stack::udp::{Options, Received, UdpId};

use crate::Host;
use crate::error::to_io;
use crate::host::{local, v6};

/// A UDP socket of a host.
#[derive(Debug)]
pub struct UdpSocket {
    host: Host,
    id: UdpId,
}

impl UdpSocket {
    /// Makes a socket. `::` and `0.0.0.0` stand for all addresses of the host, and port 0 for a free port that others cannot predict.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]: another socket has the port. [`io::ErrorKind::AddrNotAvailable`]: the host does not have the address.
    pub fn bind(host: &Host, address: impl Into<SocketAddr>) -> io::Result<Self> {
        let (ip, port) = local(address.into());
        let id = host.shared().with(|state, now| {
            let port = (port != 0).then_some(port);
            let id = state.node.call(now, |stack| stack.udp_bind(ip, port))?;
            state.waiting.udp.entry(id).or_default();
            Ok(id)
        });
        Ok(Self { host: host.clone(), id: id.map_err(to_io)? })
    }

    /// Connects the socket: it receives datagrams from this peer only, and [`Self::send`] sends there. The datagrams of a connected socket
    /// earn a session of ILNP.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`]: the host has no route or no address for the peer. Others: the socket has a peer already.
    pub fn connect(&self, peer: impl Into<SocketAddr>) -> io::Result<()> {
        let peer = v6(peer.into());
        let connected = self
            .host
            .shared()
            .with(|state, now| state.node.call(now, |stack| stack.udp_connect(self.id, peer, now)));
        connected.map_err(to_io)
    }

    /// Sends a datagram to the peer of [`Self::connect`].
    ///
    /// # Errors
    /// As [`Self::send_to`]; [`io::ErrorKind::NotConnected`].
    pub fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.send_octets(payload, None, Options::default())
    }

    /// Sends a datagram. As any datagram, it can be lost. Returns the number of its octets.
    ///
    /// # Errors
    /// [`io::ErrorKind::NetworkUnreachable`]: the host has no route or no address for the destination. Others: the datagram is too long.
    pub fn send_to(&self, payload: &[u8], to: impl Into<SocketAddr>) -> io::Result<usize> {
        self.send_with(payload, to, Options::default())
    }

    /// Sends a datagram with a source address, hop limit, traffic class or wire of its own.
    ///
    /// # Errors
    /// As [`Self::send_to`]; [`io::ErrorKind::AddrNotAvailable`] if the host does not have the source address.
    pub fn send_with(
        &self,
        payload: &[u8],
        to: impl Into<SocketAddr>,
        options: Options,
    ) -> io::Result<usize> {
        self.send_octets(payload, Some(v6(to.into())), options)
    }

    fn send_octets(
        &self,
        payload: &[u8],
        to: Option<(Ipv6Addr, u16)>,
        options: Options,
    ) -> io::Result<usize> {
        let sent = self.host.shared().with(|state, now| {
            state.node.call(now, |stack| stack.udp_send_to(self.id, payload, to, options, now))
        });
        sent.map(|()| payload.len()).map_err(to_io)
    }

    /// Waits for a datagram. Octets beyond the end of `buffer` are lost. Cancel safe.
    ///
    /// # Errors
    /// The host has ended.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        poll_fn(|context| self.poll_recv_from(context, buffer)).await
    }

    /// Waits for a datagram, with what is known of its packet. Cancel safe.
    ///
    /// # Errors
    /// As [`Self::recv_from`].
    pub async fn recv(&self) -> io::Result<Received> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Takes a datagram if there is one, as [`Self::recv_from`] does.
    ///
    /// # Errors
    /// As [`Self::recv_from`].
    pub fn poll_recv_from(
        &self,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.poll_recv(context).map_ok(|Received { payload, source, source_port, .. }| {
            let len = payload.len().min(buffer.len());
            buffer[..len].copy_from_slice(&payload[..len]);
            (len, (source, source_port).into())
        })
    }

    /// Takes a datagram if there is one, as [`Self::recv`] does.
    ///
    /// # Errors
    /// As [`Self::recv_from`].
    pub fn poll_recv(&self, context: &Context<'_>) -> Poll<io::Result<Received>> {
        self.host.shared().with(|state, now| {
            match state.node.call(now, |stack| stack.udp_recv(self.id)) {
                Err(Error::WouldBlock) => {
                    state.waiting.udp.entry(self.id).or_default().add(context);
                    Poll::Pending
                }
                result => Poll::Ready(result.map_err(to_io)),
            }
        })
    }

    /// Address and port; the address is `::` if the socket has all of them.
    ///
    /// # Errors
    /// The host has ended.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = self.host.shared().look(|state, _| state.node.stack().udp_local(self.id));
        let (ip, port) = local.map_err(to_io)?;
        Ok((ip.unwrap_or(Ipv6Addr::UNSPECIFIED), port).into())
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        self.host.shared().with(|state, now| {
            state.waiting.udp.remove(&self.id);
            // The name may be gone already.
            let _ = state.node.call(now, |stack| stack.udp_close(self.id, now));
        });
    }
}
