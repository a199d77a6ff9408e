//! A TCP transfer at a fixed rate that checks each byte.

use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail, ensure};

use super::socket::{self, Content, read_some};
use super::{Arrivals, Endpoint, Pattern};
use crate::netns::Worker;

/// The sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

/// Options of a transfer.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The end that connects.
    pub client: Endpoint,
    /// The end that listens.
    pub server: Endpoint,
    /// The sending end.
    pub sender: Sender,
    /// Total octets.
    pub bytes: u64,
    /// Octets a second.
    pub rate: u64,
}

/// Socket type and size of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carriage {
    /// Type of socket.
    pub protocol: Protocol,
    /// Octets of each write. If the writes are smaller than the default, TCP sends each at once (no delay).
    pub chunk: usize,
}

/// Types of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// A TCP socket.
    #[default]
    Tcp,
    /// An MPTCP socket of the kernel.
    Mptcp,
}

impl Default for Carriage {
    fn default() -> Self {
        Self { protocol: Protocol::Tcp, chunk: CHUNK }
    }
}

/// A running transfer.
#[derive(Debug)]
pub struct TcpTransfer {
    arrivals: Arrivals,
    /// Ports of the client and of the server.
    ports: [u16; 2],
    receiver: Worker<TcpOutcome>,
    sender: Worker<bool>,
    /// Subflows of MPTCP join by the listener while the connection lasts.
    _listener: TcpListener,
}

/// Result of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOutcome {
    /// Octets that arrived and were right.
    pub good_bytes: u64,
    /// Whether all octets arrived, all were right, and both ends saw an orderly end.
    pub complete: bool,
}

impl TcpTransfer {
    /// Starts a transfer. Returns when both ends are connected.
    ///
    /// # Errors
    /// The connection failed.
    pub fn start(options: &TcpOptions) -> anyhow::Result<Self> {
        Self::start_as(options, Carriage::default())
    }

    /// Starts a transfer with another type of socket, or with messages instead of a stream.
    ///
    /// # Errors
    /// The connection failed, or the kernel has no such sockets.
    pub fn start_as(options: &TcpOptions, carriage: Carriage) -> anyhow::Result<Self> {
        let Carriage { protocol, chunk } = carriage;
        let &TcpOptions { ref client, ref server, sender, bytes, rate } = options;
        let ([from, to], listener) = socket::connection([client, server], protocol)?;
        let port = |stream: &TcpStream| stream.local_addr().map(|address| address.port());
        let ports = [port(&from).context("port")?, port(&to).context("port")?];
        let (from, to) = match sender {
            Sender::Client => (from, to),
            Sender::Server => (to, from),
        };
        if chunk < CHUNK {
            from.set_nodelay(true).context("send messages at once")?;
        }
        let arrivals = Arrivals::default();
        let noted = arrivals.clone();
        let content = Content { pattern: PATTERN, size: bytes, rate, chunk };
        let namespace = &client.namespace;
        Ok(Self {
            sender: namespace.work("tcp send", move |stop| send(from, content, stop))?,
            receiver: namespace
                .work("tcp receive", move |stop| receive(to, bytes, &noted, stop))?,
            arrivals,
            ports,
            _listener: listener,
        })
    }

    /// Arrivals at the receiver.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Ports of the client and of the server.
    pub(crate) const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// Whether the transfer has ended, so that [`TcpTransfer::finish`] would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished() && self.receiver.is_finished()
    }

    /// Waits for the end of the transfer.
    ///
    /// # Errors
    /// The connection broke, or wrong bytes arrived.
    pub fn finish(self) -> anyhow::Result<TcpOutcome> {
        let sent = self.sender.join()?;
        let outcome = self.receiver.join()?;
        Ok(TcpOutcome { complete: outcome.complete && sent, ..outcome })
    }

    /// Stops the transfer. Gives its result so far.
    ///
    /// # Errors
    /// The same errors as [`TcpTransfer::finish`].
    pub fn abandon(self) -> anyhow::Result<TcpOutcome> {
        self.sender.stop();
        self.receiver.stop();
        self.finish()
    }
}

/// Sends all content and waits for the receipt of the receiver. False if `stop` was set before.
fn send(mut stream: TcpStream, content: Content, stop: &AtomicBool) -> anyhow::Result<bool> {
    if !content.send(&mut stream, stop, |_| ())? {
        return Ok(false);
    }
    stream.shutdown(Shutdown::Write).context("shut down")?;
    let mut receipt = [0; 8];
    let got = read_some(&mut stream, &mut receipt, stop)?;
    Ok(got == receipt.len() && u64::from_be_bytes(receipt) == content.size)
}

fn receive(
    mut stream: TcpStream,
    bytes: u64,
    arrivals: &Arrivals,
    stop: &AtomicBool,
) -> anyhow::Result<TcpOutcome> {
    let mut buffer = vec![0; CHUNK];
    let mut good_bytes = 0;
    loop {
        let read = read_some(&mut stream, &mut buffer, stop);
        let count = read.with_context(|| format!("after {good_bytes} octets"))?;
        if count == 0 {
            break;
        }
        arrivals.note(count as u64);
        if !PATTERN.matches(good_bytes, &buffer[..count]) {
            bail!("wrong octets between {good_bytes} and {}", good_bytes + count as u64);
        }
        good_bytes += count as u64;
        ensure!(good_bytes <= bytes, "{good_bytes} octets of {bytes}");
    }
    let complete = good_bytes == bytes;
    if complete {
        stream.write_all(&good_bytes.to_be_bytes()).context("send the receipt")?;
    }
    Ok(TcpOutcome { good_bytes, complete })
}

const PATTERN: Pattern = Pattern::new(0x6d6f_6f72);
const CHUNK: usize = 32 * 1024;
