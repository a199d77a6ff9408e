//! TCP connections of clients: octets pass between the control connection and the host.

use std::io;
use std::net::Ipv6Addr;
use std::rc::Rc;

use moorline_stack::socket::Error;
use moorline_stack::tcp::{State, TcpId};
use serde_json::json;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::super::protocol::{Chunk, MAX_CHUNK, read_chunk, write_chunk, write_octets};
use super::host::{Host, Ready};
use super::session::Client;

/// A connection that ends with its client.
struct Connection {
    host: Rc<Host>,
    id: TcpId,
    ready: Rc<Ready>,
}

/// Connects, and relays.
pub(super) async fn connect(
    client: &mut Client,
    host: &Rc<Host>,
    peer: (Ipv6Addr, u16),
) -> io::Result<()> {
    let now = host.now();
    let connected = host.stack().tcp_connect(peer, now);
    let connection = match connected {
        Ok(id) => Connection::new(host, id),
        Err(error) => return client.refuse(&error).await,
    };
    match connection.established().await {
        Ok(()) => connection.relay(client).await,
        Err(error) => client.refuse(&error).await,
    }
}

/// Relays a connection that a listener has accepted.
pub(super) async fn take(client: &mut Client, host: &Rc<Host>, number: u64) -> io::Result<()> {
    match host.take(number) {
        Some(id) => Connection::new(host, id).relay(client).await,
        None => client.refuse(&format!("no connection {number} waits")).await,
    }
}

impl Connection {
    fn new(host: &Rc<Host>, id: TcpId) -> Self {
        Self { host: Rc::clone(host), id, ready: host.watch_tcp(id) }
    }

    /// Waits until the peer has answered.
    async fn established(&self) -> Result<(), Error> {
        loop {
            let state = self.host.stack().tcp_state(self.id)?;
            match state {
                State::SynSent | State::SynReceived => self.ready.writable.notified().await,
                State::Closed => return Err(self.reason()),
                State::Established
                | State::FinWait1
                | State::FinWait2
                | State::CloseWait
                | State::Closing
                | State::LastAck
                | State::TimeWait => return Ok(()),
            }
        }
    }

    /// The reason for which the connection is over.
    fn reason(&self) -> Error {
        let now = self.host.now();
        let read = self.host.stack().tcp_recv(self.id, &mut [0], now);
        read.err().unwrap_or(Error::ConnectionAborted)
    }

    /// Carries octets both ways until both directions have ended, the connection has failed, or the client has left.
    async fn relay(&self, client: &mut Client) -> io::Result<()> {
        let flow = self.host.stack().tcp_flow(self.id).map_err(io::Error::other)?;
        let ((local, local_port), (peer, peer_port)) = (flow.local, flow.peer);
        client
            .accept(json!({ "local": local, "local_port": local_port, "peer": peer, "peer_port": peer_port }))
            .await?;
        let Client { reader, writer } = client;
        let mut to_client = Box::pin(self.to_client(writer));
        let mut to_peer = Box::pin(self.to_peer(reader));
        tokio::select! {
            is_whole = &mut to_client => if is_whole? {
                to_peer.await?;
            },
            result = &mut to_peer => {
                result?;
                to_client.await?;
            }
        }
        Ok(())
    }

    /// Carries octets to the client. Returns `false` if the connection has failed; the client knows then.
    async fn to_client(&self, writer: &mut OwnedWriteHalf) -> io::Result<bool> {
        let mut octets = vec![0; MAX_CHUNK];
        loop {
            let now = self.host.now();
            let received = self.host.stack().tcp_recv(self.id, &mut octets, now);
            match received {
                Ok(0) => {
                    write_chunk(writer, &Chunk::End).await?;
                    return Ok(true);
                }
                Ok(len) => write_octets(writer, &octets[..len]).await?,
                Err(Error::WouldBlock) => self.ready.readable.notified().await,
                Err(error) => {
                    write_chunk(writer, &Chunk::Failed(error.to_string())).await?;
                    writer.flush().await?;
                    return Ok(false);
                }
            }
        }
    }

    /// Carries octets from the client, and the end behind them. If the connection fails, the other direction tells the client.
    async fn to_peer(&self, reader: &mut BufReader<OwnedReadHalf>) -> io::Result<()> {
        loop {
            match read_chunk(reader).await? {
                Chunk::Octets(octets) => {
                    if self.send(&octets).await.is_err() {
                        return std::future::pending().await;
                    }
                }
                Chunk::End => {
                    let now = self.host.now();
                    // A connection that has failed has no direction to end.
                    let _ = self.host.stack().tcp_shutdown(self.id, now);
                    return Ok(());
                }
                Chunk::Failed(_) => {
                    let now = self.host.now();
                    let _ = self.host.stack().tcp_abort(self.id, now);
                    return Ok(());
                }
            }
        }
    }

    async fn send(&self, mut octets: &[u8]) -> Result<(), Error> {
        while !octets.is_empty() {
            let now = self.host.now();
            let sent = self.host.stack().tcp_send(self.id, octets, now);
            match sent {
                Ok(len) => octets = &octets[len..],
                Err(Error::WouldBlock) => self.ready.writable.notified().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.host.close_tcp(self.id);
    }
}
