use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::server::{BUFFER, Counter, Received};

/// A connection of either system.
pub(super) enum Stream {
    Linux(tokio::net::TcpStream),
    Moorline(moorline_net::TcpStream),
}

/// A UDP socket of either system, and its server.
pub(super) enum Datagrams {
    Linux(tokio::net::UdpSocket, SocketAddr),
    Moorline(moorline_net::UdpSocket, SocketAddr),
}

impl Stream {
    /// Sends `size` octets and waits until all of them have come back, for as long as `time`. Returns the times in seconds.
    pub(super) async fn exchange(
        mut self,
        size: usize,
        time: Duration,
    ) -> anyhow::Result<Vec<f64>> {
        let question = vec![7; size];
        let mut answer = vec![0; size];
        let mut times = Vec::new();
        let start = Instant::now();
        while start.elapsed() < time {
            let begin = Instant::now();
            self.write_all(&question).await?;
            self.read_exact(&mut answer).await?;
            times.push(begin.elapsed().as_secs_f64());
            ensure!(answer == question, "other octets came back");
        }
        self.shutdown().await?;
        Ok(times)
    }

    /// Sends for this time, in writes of `size` octets.
    pub(super) async fn send(mut self, size: usize, time: Duration) -> anyhow::Result<()> {
        let part = vec![7; size];
        let start = Instant::now();
        while start.elapsed() < time {
            self.write_all(&part).await?;
        }
        self.shutdown().await?;
        // The server closes once all octets are there.
        ensure!(self.read(&mut [0]).await? == 0, "an octet of a server that sends none");
        Ok(())
    }

    /// Counts octets until the server has no more.
    pub(super) async fn receive(mut self) -> anyhow::Result<Received> {
        let mut counter = Counter::default();
        let mut buffer = vec![0; BUFFER];
        loop {
            match self.read(&mut buffer).await? {
                0 => return Ok(counter.received()),
                len => counter.add(len),
            }
        }
    }
}

impl Datagrams {
    /// As [`Stream::exchange`]. A datagram that is lost is sent again after a second, and its time is left out.
    pub(super) async fn exchange(self, size: usize, time: Duration) -> anyhow::Result<Vec<f64>> {
        let question = vec![7; size];
        let mut answer = vec![0; BUFFER];
        let mut times = Vec::new();
        let start = Instant::now();
        while start.elapsed() < time {
            let begin = Instant::now();
            self.send_one(&question).await?;
            let received = tokio::time::timeout(LOST, self.receive_one(&mut answer)).await;
            let Ok(len) = received else { continue };
            times.push(begin.elapsed().as_secs_f64());
            ensure!(answer[..len?] == question, "other octets came back");
        }
        Ok(times)
    }

    /// Sends datagrams for this time, as fast as the system takes them.
    pub(super) async fn send(self, size: usize, time: Duration) -> anyhow::Result<()> {
        let part = vec![7; size];
        let start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..BURST {
                self.send_one(&part).await?;
            }
            // The host stack is a task of this thread.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Asks for datagrams, and counts them until none comes any more.
    pub(super) async fn receive(self) -> anyhow::Result<Received> {
        self.send_one(&[0]).await?;
        let mut counter = Counter::default();
        let mut buffer = vec![0; BUFFER];
        while let Ok(len) = tokio::time::timeout(LOST, self.receive_one(&mut buffer)).await {
            counter.add(len.context("receive")?);
        }
        Ok(counter.received())
    }

    async fn send_one(&self, payload: &[u8]) -> io::Result<()> {
        match self {
            Self::Linux(socket, server) => socket.send_to(payload, server).await.map(drop),
            Self::Moorline(socket, server) => socket.send_to(payload, *server).map(drop),
        }
    }

    async fn receive_one(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Linux(socket, _) => socket.recv(buffer).await,
            Self::Moorline(socket, _) => socket.recv_from(buffer).await.map(|(len, _)| len),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Linux(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Moorline(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Linux(stream) => Pin::new(stream).poll_write(context, octets),
            Self::Moorline(stream) => Pin::new(stream).poll_write(context, octets),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Linux(stream) => Pin::new(stream).poll_flush(context),
            Self::Moorline(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Linux(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Moorline(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Datagrams that are sent before the host has its turn.
const BURST: usize = 32;
/// Time after which a datagram counts as lost.
const LOST: Duration = Duration::from_secs(1);
