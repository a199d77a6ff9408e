//! A TCP transfer, every byte checked, paced.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::{Arrivals, Endpoint, Pacer, Pattern, socket};
use crate::netns::Task;

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
    stop: Arc<AtomicBool>,
    receiver: Task<TcpOutcome>,
    sender: Task<bool>,
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
        let stop = Arc::new(AtomicBool::new(false));
        let arrivals = Arrivals::default();
        let (to_stream, server_stream) = mpsc::channel();
        let (to_port, port) = mpsc::channel();
        let (server, listening) = (options.server.clone(), Arc::clone(&stop));
        let _accepting = options.server.namespace.spawn("tcp accept", move || {
            let listener = socket::listen_as(&server, protocol)?;
            let _ = to_port.send(listener.local_addr()?);
            let go_on = || !listening.load(Ordering::Relaxed);
            let stream = socket::accept(&listener, go_on)?;
            let _ = to_stream.send(stream.map(|stream| (stream, listener)));
            Ok(())
        })?;
        let mut address: SocketAddr = port.recv_timeout(CONNECT_LIMIT).context("no listener")?;
        address.set_ip(options.server.address.into());
        let client = options.client.namespace.enter(|| {
            // A failure must not leave the accepting thread behind.
            socket::connect_from(&options.client, address, protocol)
                .inspect_err(|_| stop.store(true, Ordering::Relaxed))
        })?;
        let (server, listener) = server_stream
            .recv_timeout(CONNECT_LIMIT)
            .ok()
            .flatten()
            .context("the connection was not accepted")?;
        let (from, to) = match options.sender {
            Sender::Client => (client, server),
            Sender::Server => (server, client),
        };
        if chunk < CHUNK {
            from.set_nodelay(true).context("send messages at once")?;
        }
        let (bytes, rate) = (options.bytes, options.rate);
        let (sending, receiving) = (Arc::clone(&stop), Arc::clone(&stop));
        let noted = arrivals.clone();
        let namespace = &options.client.namespace;
        Ok(Self {
            sender: namespace
                .spawn("tcp send", move || send(from, bytes, [rate, chunk as u64], &sending))?,
            receiver: namespace
                .spawn("tcp receive", move || receive(to, bytes, &noted, &receiving))?,
            arrivals,
            stop,
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
        self.stop.store(true, Ordering::Relaxed);
        self.finish()
    }
}

/// Sends all and waits for the receiver's receipt; false if told to stop before.
fn send(
    mut stream: TcpStream,
    bytes: u64,
    [rate, most]: [u64; 2],
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    let pacer = Pacer::start(rate);
    let mut chunk = vec![0; usize::try_from(most)?];
    let mut sent = 0;
    while sent < bytes {
        let length = usize::try_from(most.min(bytes - sent))?;
        CONTENT.fill(sent, &mut chunk[..length]);
        let mut rest = &chunk[..length];
        while !rest.is_empty() {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if socket::is_timeout(&error) => {}
                // The receiver was told to stop too and has closed on octets that it had not read.
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) => return Err(error).with_context(|| format!("after {sent} octets")),
            }
        }
        sent += length as u64;
        thread::sleep(pacer.wait(sent));
    }
    stream.shutdown(Shutdown::Write).context("shut down")?;
    let mut receipt = [0; 8];
    let got = read_some(&mut stream, &mut receipt, stop)?;
    Ok(got == receipt.len() && u64::from_be_bytes(receipt) == bytes)
}

fn receive(
    mut stream: TcpStream,
    bytes: u64,
    arrivals: &Arrivals,
    stop: &AtomicBool,
) -> anyhow::Result<TcpOutcome> {
    let (mut buffer, mut scratch) = (vec![0; CHUNK], Vec::new());
    let mut good_bytes = 0;
    loop {
        let count = match read_some(&mut stream, &mut buffer, stop) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Err(error).context(format!("after {good_bytes} octets")),
        };
        arrivals.note(count as u64);
        if !CONTENT.matches(good_bytes, &buffer[..count], &mut scratch) {
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

/// What is there next; 0 at the end of the stream or when told to stop.
fn read_some(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    stop: &AtomicBool,
) -> anyhow::Result<usize> {
    while !stop.load(Ordering::Relaxed) {
        match stream.read(buffer) {
            Ok(count) => return Ok(count),
            Err(error) if socket::is_timeout(&error) || error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("read"),
        }
    }
    Ok(0)
}

const CONTENT: Pattern = Pattern::new(0x6d6f_6f72);
const CHUNK: usize = 32 * 1024;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
