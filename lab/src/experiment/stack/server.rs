use std::io::{self, Read as _, Write as _};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::network::{PORT, Protocol};

/// A server of Linux for one client.
pub(super) enum Server {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// What the server does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// Sends back what comes.
    Echo,
    /// Counts what comes.
    Sink,
    /// Sends for this time, in writes of so many octets.
    Source(Duration, usize),
}

/// Octets that came, and the time from the first to the last of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Received {
    pub(super) octets: u64,
    pub(super) time: Duration,
}

/// Counts octets as they come.
#[derive(Debug, Default)]
pub(super) struct Counter {
    octets: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Counter {
    pub(super) fn add(&mut self, len: usize) {
        let now = Instant::now();
        // The octets that begin the time are not in the sum.
        if self.first.is_some() {
            self.octets += len as u64;
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    pub(super) fn received(&self) -> Received {
        let time = self.last.zip(self.first).map(|(last, first)| last - first);
        Received { octets: self.octets, time: time.unwrap_or_default() }
    }
}

impl Received {
    /// Bits in a second.
    pub(super) fn rate(&self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (seconds > 0.0).then(|| 8.0 * self.octets as f64 / seconds)
    }
}

impl Server {
    pub(super) fn open(protocol: Protocol) -> anyhow::Result<Self> {
        let at = (Ipv6Addr::UNSPECIFIED, PORT);
        Ok(match protocol {
            Protocol::Tcp => {
                let listener = TcpListener::bind(at).context("the server's port")?;
                listener.set_nonblocking(true)?;
                Self::Tcp(listener)
            }
            Protocol::Udp => Self::Udp(UdpSocket::bind(at).context("the server's port")?),
        })
    }

    /// Serves one connection to its end, or datagrams until the worker is told to stop. Returns the count of a [`Task::Sink`].
    pub(super) fn run(self, task: Task, stop: &AtomicBool) -> anyhow::Result<Option<Received>> {
        match self {
            Self::Tcp(listener) => match accept(&listener, stop)? {
                Some(stream) => stream_task(stream, task),
                None => Ok(None),
            },
            Self::Udp(socket) => datagram_task(&socket, task, stop),
        }
    }
}

/// Waits for a client. `None` if the worker is told to stop.
fn accept(listener: &TcpListener, stop: &AtomicBool) -> anyhow::Result<Option<TcpStream>> {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(LIMIT))?;
                stream.set_write_timeout(Some(LIMIT))?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut wanted = [PollFd::new(listener, PollFlags::IN)];
                poll(&mut wanted, Some(&TURN))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn stream_task(mut stream: TcpStream, task: Task) -> anyhow::Result<Option<Received>> {
    let mut buffer = vec![0; BUFFER];
    match task {
        Task::Echo => loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(None),
                len => stream.write_all(&buffer[..len])?,
            }
        },
        Task::Sink => {
            let mut counter = Counter::default();
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(Some(counter.received())),
                    len => counter.add(len),
                }
            }
        }
        Task::Source(time, size) => {
            let start = Instant::now();
            let part = vec![7; size];
            while start.elapsed() < time {
                stream.write_all(&part)?;
            }
            Ok(None)
        }
    }
}

fn datagram_task(
    socket: &UdpSocket,
    task: Task,
    stop: &AtomicBool,
) -> anyhow::Result<Option<Received>> {
    socket.set_read_timeout(Some(QUIET))?;
    let mut buffer = vec![0; BUFFER];
    let mut counter = Counter::default();
    loop {
        // A client that has ended may have datagrams on their way.
        let Some((len, from)) = receive(socket, &mut buffer)? else {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            continue;
        };
        match task {
            Task::Echo => drop(socket.send_to(&buffer[..len], from)?),
            Task::Sink => counter.add(len),
            Task::Source(time, size) => send_for(socket, from, time, size)?,
        }
    }
    Ok(matches!(task, Task::Sink).then(|| counter.received()))
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(received) => Ok(Some(received)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Answers the first datagram of a client with many.
fn send_for(socket: &UdpSocket, to: SocketAddr, time: Duration, size: usize) -> io::Result<()> {
    let start = Instant::now();
    let part = vec![7; size];
    while start.elapsed() < time {
        match socket.send_to(&part, to) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Octets that are read at once.
pub(super) const BUFFER: usize = 64 << 10;
/// Time after which no datagram is on its way.
const QUIET: Duration = Duration::from_millis(50);
/// Time between two looks at whether the worker is to stop.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longest time without an octet.
const LIMIT: Duration = Duration::from_secs(10);
