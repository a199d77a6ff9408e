//! Commands that work on a host by its control socket.

mod echo;
mod fetch;
mod httpd;
mod nc;
mod ping;
mod show;

pub(super) use echo::echo;
pub(super) use fetch::fetch;
pub(super) use httpd::httpd;
pub(super) use nc::nc;
pub(super) use ping::ping;
pub(super) use show::{ifconfig, netstat, route};

use std::net::Ipv6Addr;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

use super::protocol::{
    Accepted, Answer, Chunk, MAX_CHUNK, Request, read_answer, read_chunk, read_line, write_chunk,
    write_line, write_octets,
};

/// A connection to the control socket, behind its first answer.
struct Control {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// A TCP connection of the host.
struct Tcp {
    /// The octets. Its end may be a failure: see [`Tcp::finish`].
    stream: DuplexStream,
    relay: JoinHandle<anyhow::Result<()>>,
}

/// A listener of the host.
struct Listener<'a> {
    path: &'a Path,
    control: Control,
}

impl Control {
    /// Makes a request. Returns the answer, and the connection behind it.
    async fn request(path: &Path, request: &Request) -> anyhow::Result<(Self, Value)> {
        let stream = UnixStream::connect(path).await.with_context(|| {
            format!(
                "no host at {}: start one with `moorline stack up`, or name its --control",
                path.display()
            )
        })?;
        let (reader, writer) = stream.into_split();
        let mut control = Self { reader: BufReader::new(reader), writer };
        write_line(&mut control.writer, request).await?;
        match control.next().await?.context("the host has ended")? {
            Answer::Ok(value) => Ok((control, value)),
            Answer::Error(reason) => bail!("{reason}"),
        }
    }

    /// The next line of the host; `None` if the host has ended.
    async fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        Ok(read_answer(&mut self.reader).await?)
    }
}

/// The best address of a name, which the host looks up, or the address that it is.
async fn address(path: &Path, name: &str) -> anyhow::Result<Ipv6Addr> {
    if let Ok(address) = name.parse() {
        return Ok(moorline_net::mapped(address));
    }
    let request = Request::Lookup { name: name.to_owned() };
    let (_, answer) = Control::request(path, &request).await?;
    let address = answer.pointer("/addresses/0").and_then(Value::as_str);
    Ok(address.with_context(|| format!("{name} has no address"))?.parse()?)
}

impl Tcp {
    /// Connects to an address or a name.
    async fn connect(path: &Path, to: &str, port: u16) -> anyhow::Result<Self> {
        let request = Request::TcpConnect { to: to.to_owned(), port };
        let answer = Control::request(path, &request).await;
        let (control, _) = answer.with_context(|| format!("cannot connect to {to} port {port}"))?;
        Ok(Self::over(control))
    }

    fn over(control: Control) -> Self {
        let (stream, ours) = tokio::io::duplex(BUFFER);
        Self { stream, relay: tokio::spawn(relay(control, ours)) }
    }

    /// Waits until both directions have ended.
    ///
    /// # Errors
    /// The connection has failed.
    async fn finish(self) -> anyhow::Result<()> {
        drop(self.stream);
        self.relay.await?
    }
}

impl<'a> Listener<'a> {
    async fn open(path: &'a Path, port: u16) -> anyhow::Result<Self> {
        let answer = Control::request(path, &Request::TcpListen { port }).await;
        let (control, _) = answer.with_context(|| format!("cannot listen at port {port}"))?;
        Ok(Self { path, control })
    }

    /// Waits for the next connection.
    async fn accept(&mut self) -> anyhow::Result<(Tcp, Accepted)> {
        loop {
            let accepted: Accepted = self.control.next().await?.context("the host has ended")?;
            // A connection may be over before it is taken.
            if let Ok((control, _)) =
                Control::request(self.path, &Request::TcpTake { id: accepted.id }).await
            {
                return Ok((Tcp::over(control), accepted));
            }
        }
    }
}

/// Carries octets between a program and the host until both directions have ended.
async fn relay(control: Control, stream: DuplexStream) -> anyhow::Result<()> {
    let Control { mut reader, mut writer } = control;
    let (mut from_program, mut to_program) = tokio::io::split(stream);
    let send = async {
        let mut octets = vec![0; MAX_CHUNK];
        loop {
            let len = from_program.read(&mut octets).await?;
            if len == 0 {
                return Ok(write_chunk(&mut writer, &Chunk::End).await?);
            }
            write_octets(&mut writer, &octets[..len]).await?;
        }
    };
    let receive = async {
        loop {
            match read_chunk(&mut reader).await.context("the host has ended")? {
                // A program that reads nothing more does not keep the peer from sending.
                Chunk::Octets(octets) => drop(to_program.write_all(&octets).await),
                Chunk::End => return Ok(to_program.shutdown().await?),
                Chunk::Failed(reason) => return Err(anyhow!("{reason}")),
            }
        }
    };
    let (mut send, mut receive) = (Box::pin(send), Box::pin(receive));
    tokio::select! {
        result = &mut receive => { result?; send.await }
        result = &mut send => {
            let sent: anyhow::Result<()> = result;
            // If the host is gone, reading tells the reason.
            receive.await?;
            sent
        }
    }
}

/// Octets that wait between a program and the relay.
const BUFFER: usize = 256 << 10;
