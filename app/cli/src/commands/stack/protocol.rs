//! Messages on the control socket of a host.
//!
//! A client sends one line of JSON, a [`Request`], and gets one line, an [`Answer`]. The rest depends on the request:
//!
//! | request | follows |
//! |---|---|
//! | `show`, `lookup` | the end |
//! | `ping` | the client sends [`Echo`] lines, the host [`EchoOutcome`] lines |
//! | `tcp_connect`, `tcp_take` | chunks both ways: four octets of length, most significant first, and the octets. A length of zero ends a direction; `ffffffff` says that the connection failed, and a line with the reason follows |
//! | `tcp_listen` | an [`Accepted`] line for each connection; another client takes it with `tcp_take` |
//! | `udp_open` | [`Datagram`] lines both ways |
//!
//! Whatever a request has opened ends with its connection.

use std::io;
use std::net::Ipv6Addr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite,
    AsyncWriteExt as _,
};

/// The first line of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// The state of the host.
    Show,
    /// Echo Requests.
    Ping,
    /// Addresses of a name.
    Lookup { name: String },
    /// Connect to a TCP port at an address or a name.
    TcpConnect { to: String, port: u16 },
    /// Accept connections to a TCP port.
    TcpListen { port: u16 },
    /// Take an accepted connection over.
    TcpTake { id: u64 },
    /// Send and receive datagrams; without a port, at a random one.
    UdpOpen { port: Option<u16> },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The host does it.
    Ok(Value),
    /// The reason why the host does not.
    Error(String),
}

/// An Echo Request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Echo {
    pub(super) to: Ipv6Addr,
    pub(super) seq: u16,
    /// Octets of data.
    pub(super) size: u16,
}

/// Result of an Echo Request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum EchoOutcome {
    /// A node has answered.
    Reply { from: Ipv6Addr, seq: u16, size: usize, hop_limit: u8, rtt_us: u64 },
    /// A node has sent an error about the request.
    Error { from: Ipv6Addr, seq: u16, error: String },
    /// The host could not send the request.
    Unsent { seq: u16, error: String },
}

/// A connection that a client can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Accepted {
    pub(super) id: u64,
    pub(super) peer: Ipv6Addr,
    pub(super) peer_port: u16,
}

/// A datagram, or an error of the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", untagged)]
pub(super) enum Datagram {
    /// A datagram from a peer or to it. The host sends from the address `source`, if it is there.
    Payload {
        peer: Ipv6Addr,
        port: u16,
        /// In hexadecimal.
        data: String,
        source: Option<Ipv6Addr>,
    },
    /// Reason why a datagram did not arrive.
    Error { error: String },
}

/// A part of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    Octets(Vec<u8>),
    /// Nothing more comes in this direction.
    End,
    /// The connection failed.
    Failed(String),
}

/// Reads a line of JSON; `None` at the end.
pub(super) async fn read_line<T: DeserializeOwned>(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<T>> {
    read_line_within(reader, MAX_LINE).await
}

/// Reads an answer of the host, which can be long: a host under attack has full tables.
pub(super) async fn read_answer<T: DeserializeOwned>(
    reader: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<T>> {
    read_line_within(reader, MAX_ANSWER).await
}

async fn read_line_within<T: DeserializeOwned>(
    reader: &mut (impl AsyncBufRead + Unpin),
    most: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let mut limited = reader.take(most);
    if limited.read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    if !line.ends_with(b"\n") {
        return Err(invalid("a line without an end, or a too long one"));
    }
    serde_json::from_slice(&line).map(Some).map_err(|error| invalid(&error.to_string()))
}

/// Writes a line of JSON.
pub(super) async fn write_line(
    writer: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
    line.push(b'\n');
    writer.write_all(&line).await
}

/// Reads a chunk. The end of the stream without [`Chunk::End`] is an error.
pub(super) async fn read_chunk(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Chunk> {
    match reader.read_u32().await? {
        0 => Ok(Chunk::End),
        FAILED => Ok(Chunk::Failed(read_line(reader).await?.unwrap_or_default())),
        len => {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            if len > MAX_CHUNK {
                return Err(invalid("a too long chunk"));
            }
            let mut octets = vec![0; len];
            reader.read_exact(&mut octets).await?;
            Ok(Chunk::Octets(octets))
        }
    }
}

/// Writes a chunk.
pub(super) async fn write_chunk(
    writer: &mut (impl AsyncWrite + Unpin),
    chunk: &Chunk,
) -> io::Result<()> {
    match chunk {
        Chunk::End => writer.write_u32(0).await,
        Chunk::Failed(reason) => {
            writer.write_u32(FAILED).await?;
            write_line(writer, reason).await
        }
        Chunk::Octets(octets) => write_octets(writer, octets).await,
    }
}

/// Writes chunks with these octets; none if there are no octets.
pub(super) async fn write_octets(
    writer: &mut (impl AsyncWrite + Unpin),
    octets: &[u8],
) -> io::Result<()> {
    for part in octets.chunks(MAX_CHUNK) {
        writer.write_u32(u32::try_from(part.len()).map_err(io::Error::other)?).await?;
        writer.write_all(part).await?;
    }
    Ok(())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the other end of the control socket sent {what}"),
    )
}

/// Ignores what comes until the end.
pub(super) async fn until_end(reader: &mut (impl AsyncRead + Unpin)) {
    let mut octets = [0; 512];
    while reader.read(&mut octets).await.is_ok_and(|len| len > 0) {}
}

/// Octets of the longest line: a datagram of 65,535 octets in hexadecimal fits.
const MAX_LINE: u64 = 256 << 10;
/// Octets of the longest answer. The state of a host with full tables has some megabytes.
const MAX_ANSWER: u64 = 256 << 20;
/// Octets of the longest chunk.
pub(super) const MAX_CHUNK: usize = 64 << 10;
/// Length that stands for a failure.
const FAILED: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::block_on;

    #[test]
    fn chunks_round_trip_and_long_octets_are_cut() {
        let octets: Vec<u8> = (0..=u8::MAX).cycle().take(MAX_CHUNK + 5).collect();
        let (head, tail) = octets.split_at(MAX_CHUNK);
        let sent = [Chunk::Octets(octets.clone()), Chunk::Failed("no".into()), Chunk::End];
        block_on(async {
            let mut wire = Vec::new();
            for chunk in &sent {
                write_chunk(&mut wire, chunk).await?;
            }
            let mut reader = &wire[..];
            for expected in [head, tail].map(|part| Chunk::Octets(part.to_vec())) {
                assert_eq!(read_chunk(&mut reader).await?, expected);
            }
            assert_eq!(read_chunk(&mut reader).await?, sent[1]);
            assert_eq!(read_chunk(&mut reader).await?, Chunk::End);
            assert!(read_chunk(&mut reader).await.is_err(), "the stream ends in the middle");
            Ok(())
        })
        .expect("chunks");
    }

    #[test]
    fn lengths_and_lines_have_bounds() {
        block_on(async {
            let len = u32::try_from(MAX_CHUNK + 1)?.to_be_bytes();
            assert!(read_chunk(&mut &len[..]).await.is_err());
            let long = vec![b' '; 300 << 10];
            assert!(read_line::<Value>(&mut &long[..]).await.is_err());
            let answer = [&long[..], b"{}\n"].concat();
            assert!(
                read_answer::<Value>(&mut &answer[..]).await?.is_some(),
                "the state of a full host"
            );
            assert_eq!(read_line::<Value>(&mut &b""[..]).await?, None);
            assert!(read_line::<Value>(&mut &b"{}"[..]).await.is_err(), "the line has no end");
            Ok(())
        })
        .expect("bounds");
    }

    #[test]
    fn requests_have_the_documented_form() {
        for (text, request) in [
            (r#"{"do":"show"}"#, Request::Show),
            (
                r#"{"do":"tcp_connect","to":"::1","port":7}"#,
                Request::TcpConnect { to: "::1".into(), port: 7 },
            ),
            (r#"{"do":"udp_open","port":null}"#, Request::UdpOpen { port: None }),
        ] {
            assert_eq!(serde_json::to_string(&request).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Request>(text).expect(text), request);
        }
        assert!(serde_json::from_str::<Request>(r#"{"do":"tcp_take","id":1,"more":2}"#).is_err());
    }
}
