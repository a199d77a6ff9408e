//! A TCP transfer, every byte checked, paced.

use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail, ensure};

use super::socket::{self, Content, read_some};
use super::{Arrivals, Endpoint, Pattern};
use crate::netns::Worker;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The end that connects.
    Client,
    /// The end that listens.
    Server,
}

/// What to transfer.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The end that connects.
    pub client: Endpoint,
    /// The end that listens.
    pub server: Endpoint,
    /// Who sends.
    pub sender: Sender,
    /// Octets in all.
    pub bytes: u64,
    /// Octets a second.
    pub rate: u64,
}

/// How octets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carriage {
    /// Over which kind of socket.
    pub protocol: Protocol,
    /// Octets written at a time; each write is sent at once if it is less than a segment.
    pub chunk: usize,
}

/// Kinds of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// The kernel's MPTCP.
    Mptcp,
}

impl Default for Carriage {
    fn default() -> Self {
        Self { protocol: Protocol::Tcp, chunk: CHUNK }
    }
}

/// A transfer that runs.
#[derive(Debug)]
pub struct TcpTransfer {
    arrivals: Arrivals,
    receiver: Worker<TcpOutcome>,
    sender: Worker<bool>,
    /// Subflows of MPTCP come to it for as long as the connection lasts.
    _listener: TcpListener,
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOutcome {
    /// Octets that arrived and were the right ones.
    pub good_bytes: u64,
    /// All arrived, every one right, and both ends saw an orderly end.
    pub complete: bool,
}

impl TcpTransfer {
    /// Starts it; returns when both ends are connected.
    ///
    /// # Errors
    /// No connection.
    pub fn start(options: &TcpOptions) -> anyhow::Result<Self> {
        Self::start_as(options, Carriage::default())
    }

    /// The same with another kind of socket or with messages instead of a stream.
    ///
    /// # Errors
    /// No connection, or no such sockets here.
    pub fn start_as(options: &TcpOptions, carriage: Carriage) -> anyhow::Result<Self> {
        let Carriage { protocol, chunk } = carriage;
        let &TcpOptions { ref client, ref server, sender, bytes, rate } = options;
        let ([from, to], listener) = socket::connection([client, server], protocol)?;
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
            _listener: listener,
        })
    }

    /// The arrivals at the receiver.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Whether [`TcpTransfer::finish`] would answer at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.sender.is_finished() && self.receiver.is_finished()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The connection broke, or wrong bytes arrived.
    pub fn finish(self) -> anyhow::Result<TcpOutcome> {
        let sent = self.sender.join()?;
        let outcome = self.receiver.join()?;
        Ok(TcpOutcome { complete: outcome.complete && sent, ..outcome })
    }

    /// Gives up and says how far it came.
    ///
    /// # Errors
    /// As [`TcpTransfer::finish`].
    pub fn abandon(self) -> anyhow::Result<TcpOutcome> {
        self.sender.stop();
        self.receiver.stop();
        self.finish()
    }
}

/// Sends all and waits for the receiver's receipt; false if told to stop before.
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
