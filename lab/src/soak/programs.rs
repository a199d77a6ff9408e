//! Programs on the attacked host, which talk to nodes of the soak.

use std::net::{Ipv6Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::traffic::ECHO_PORT;
use crate::netns::{Namespace, Worker};

/// A server that returns datagrams, a listener of TCP, and a client of each of some nodes.
#[derive(Debug)]
pub(super) struct Programs {
    worker: Worker<()>,
    _listener: TcpListener,
}

impl Programs {
    /// Starts the programs on a host, with these nodes as servers of the clients.
    pub(super) fn start(host: &Namespace, servers: &[Ipv6Addr]) -> anyhow::Result<Self> {
        let listener = host
            .enter(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, ECHO_PORT)).context("listener"))?;
        let servers = servers.to_vec();
        let work = move |stop: &AtomicBool| {
            let echo =
                UdpSocket::bind((Ipv6Addr::UNSPECIFIED, ECHO_PORT)).context("echo server")?;
            echo.set_read_timeout(Some(LOOK_AROUND)).context("read timeout")?;
            let clients = servers.iter().map(|server| client(*server));
            let clients: Vec<_> = clients.collect::<anyhow::Result<_>>()?;
            serve(&echo, &clients, stop);
            Ok(())
        };
        Ok(Self { worker: host.work("programs", work)?, _listener: listener })
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.worker.finish()
    }
}

fn client(server: Ipv6Addr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).context("client")?;
    socket.connect((server, ECHO_PORT)).context("connect a client")?;
    Ok(socket)
}

/// Returns datagrams, and sends some of each client. A datagram that cannot be sent is lost.
fn serve(echo: &UdpSocket, clients: &[UdpSocket], stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    let mut sent = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..length], from);
        }
        if sent.elapsed() > SEND_AGAIN {
            sent = Instant::now();
            for client in clients {
                let _ = client.send(&[7; 400]);
            }
        }
    }
}

const LOOK_AROUND: Duration = Duration::from_millis(20);
const SEND_AGAIN: Duration = Duration::from_millis(100);
