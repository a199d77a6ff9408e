//! Cost of a packet on its whole path, measured on one processor that does nothing else.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::socket::{connection, datagram_sockets};
use super::speed::{DATAGRAM, SEGMENT};
use super::{Endpoint, Protocol, Traffic};

/// Both ends of a flow in one thread. A send passes all hosts and routers before the call returns, and then the thread
/// receives. So a slice of a few milliseconds measures a path. Slices of several paths can take turns, so that other
/// load of the machine affects all paths alike.
#[derive(Debug)]
pub enum WholeWay {
    /// A connection: its sender and its receiver.
    Tcp([TcpStream; 2]),
    /// Datagram sockets: the sender and the receiver.
    Udp([UdpSocket; 2]),
}

impl WholeWay {
    /// Opens a socket at each end. The second end receives.
    ///
    /// # Errors
    /// A socket or the connection failed.
    pub fn open(ends: [&Endpoint; 2], traffic: Traffic) -> anyhow::Result<Self> {
        let no_block = "a socket that does not block";
        match traffic {
            Traffic::Tcp => {
                let (sockets, _) = connection(ends, Protocol::Tcp)?;
                for stream in &sockets {
                    stream.set_nonblocking(true).context(no_block)?;
                }
                Ok(Self::Tcp(sockets))
            }
            Traffic::Udp => {
                let sockets = datagram_sockets(ends, PATIENCE)?;
                sockets[1].set_nonblocking(true).context(no_block)?;
                Ok(Self::Udp(sockets))
            }
        }
    }

    /// Sends and receives for some milliseconds. Gives nanoseconds for each full-size packet.
    ///
    /// # Errors
    /// A socket failed, or too few packets arrived.
    pub fn slice(&mut self) -> anyhow::Result<f64> {
        let begin = Instant::now();
        let packets = match self {
            Self::Tcp([from, to]) => transfer(from, to)?,
            Self::Udp([from, to]) => datagrams(from, to)?,
        };
        Ok(begin.elapsed().as_secs_f64() * 1e9 / packets)
    }
}

fn transfer(from: &mut TcpStream, to: &mut TcpStream) -> anyhow::Result<f64> {
    let mut buffer = vec![0; CHUNK];
    let (mut sent, mut received) = (0, 0);
    let begin = Instant::now();
    while received < TRANSFER {
        if sent < TRANSFER {
            let most = CHUNK.min(TRANSFER - sent);
            sent += unless_it_would_block(from.write(&buffer[..most]))?;
        }
        loop {
            let read = unless_it_would_block(to.read(&mut buffer))?;
            if read == 0 {
                break;
            }
            received += read;
        }
        ensure!(begin.elapsed() < PATIENCE, "{received} of {sent} octets have arrived");
    }
    Ok(TRANSFER as f64 / f64::from(SEGMENT))
}

fn datagrams(from: &UdpSocket, to: &UdpSocket) -> anyhow::Result<f64> {
    let mut buffer = [0; DATAGRAM as usize];
    let mut received = 0;
    for _ in 0..BURSTS {
        for _ in 0..BURST {
            from.send(&buffer).context("send a datagram")?;
        }
        while unless_it_would_block(to.recv(&mut buffer))? > 0 {
            received += 1;
        }
    }
    ensure!(received > BURSTS * BURST / 2, "{received} datagrams have arrived");
    Ok(f64::from(BURSTS * BURST))
}

fn unless_it_would_block(result: std::io::Result<usize>) -> anyhow::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result.context("a socket of a slice"),
    }
}

/// Datagrams of a burst, which fit the socket's buffer, and bursts of a slice.
const BURST: u32 = 50;
const BURSTS: u32 = 10;
/// Octets of a write, and of a slice.
const CHUNK: usize = 128 * 1024;
const TRANSFER: usize = 3000 * SEGMENT as usize;
/// By this time, TCP has sent lost segments again.
const PATIENCE: Duration = Duration::from_secs(10);
