//! TCP connections of clients: octets pass between the control connection and the host.

use std::io;
use std::pin::pin;
use std::rc::Rc;

use moorline_net::TcpStream;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf, split};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::super::protocol::{Chunk, MAX_CHUNK, read_chunk, write_chunk, write_octets};
use super::server::Server;
use super::session::Client;

/// Connects, and relays.
pub(super) async fn connect(
    client: &mut Client,
    server: &Rc<Server>,
    (to, port): (&str, u16),
) -> io::Result<()> {
    match server.connect(to, port).await {
        Ok(stream) => relay(client, stream).await,
        Err(error) => client.refuse(&error).await,
    }
}

/// Relays a connection that a listener has accepted.
pub(super) async fn take(client: &mut Client, server: &Server, number: u64) -> io::Result<()> {
    match server.take(number) {
        Some(stream) => relay(client, stream).await,
        None => client.refuse(&format!("no connection {number} waits")).await,
    }
}

/// Carries octets both ways until both directions have ended, the connection has failed, or the client has left.
async fn relay(client: &mut Client, stream: TcpStream) -> io::Result<()> {
    let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
    client
        .accept(json!({
            "local": local.ip(), "local_port": local.port(), "peer": peer.ip(), "peer_port": peer.port(),
        }))
        .await?;
    let (mut from_peer, mut to_peer) = split(stream);
    if !relay_halves(client, &mut from_peer, &mut to_peer).await? {
        from_peer.unsplit(to_peer).abort();
    }
    Ok(())
}

/// Returns `false` if the client has given the connection up.
async fn relay_halves(
    client: &mut Client,
    from_peer: &mut ReadHalf<TcpStream>,
    to_peer: &mut WriteHalf<TcpStream>,
) -> io::Result<bool> {
    let mut to_client = pin!(carry_to_client(from_peer, &mut client.writer));
    let mut to_peer = pin!(carry_to_peer(&mut client.reader, to_peer));
    tokio::select! {
        is_whole = &mut to_client => if is_whole? { to_peer.await } else { Ok(true) },
        is_wanted = &mut to_peer => {
            let is_wanted = is_wanted?;
            if is_wanted {
                to_client.await?;
            }
            Ok(is_wanted)
        }
    }
}

/// Carries octets to the client. Returns `false` if the connection has failed; the client knows then.
async fn carry_to_client(
    peer: &mut ReadHalf<TcpStream>,
    writer: &mut OwnedWriteHalf,
) -> io::Result<bool> {
    let mut octets = vec![0; MAX_CHUNK];
    loop {
        match peer.read(&mut octets).await {
            Ok(0) => {
                write_chunk(writer, &Chunk::End).await?;
                return Ok(true);
            }
            Ok(len) => write_octets(writer, &octets[..len]).await?,
            Err(error) => {
                write_chunk(writer, &Chunk::Failed(error.to_string())).await?;
                writer.flush().await?;
                return Ok(false);
            }
        }
    }
}

/// Carries octets from the client, and the end behind them. If the connection fails, the other direction tells the client. Returns `false`
/// if the client has given the connection up.
async fn carry_to_peer(
    reader: &mut BufReader<OwnedReadHalf>,
    peer: &mut WriteHalf<TcpStream>,
) -> io::Result<bool> {
    loop {
        match read_chunk(reader).await? {
            Chunk::Octets(octets) => {
                if peer.write_all(&octets).await.is_err() {
                    return std::future::pending().await;
                }
            }
            Chunk::End => {
                peer.shutdown().await?;
                return Ok(true);
            }
            Chunk::Failed(_) => return Ok(false),
        }
    }
}
