use std::io;
use std::rc::Rc;

use moorline_stack::socket::Error;
use moorline_stack::tcp::ListenerId;
use moorline_stack::udp::{self, UdpId};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::super::protocol::{
    Accepted, Answer, Datagram, Echo, EchoOutcome, Request, read_line, until_end, write_line,
};
use super::host::Host;
use super::tcp;

/// A client of the control socket.
pub(super) struct Client {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
}

/// Serves a client until it leaves. A client that sends nonsense is told once, and cut off.
pub(super) async fn serve(host: &Rc<Host>, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let mut client = Client { reader: BufReader::new(reader), writer };
    let outcome = match read_line(&mut client.reader).await {
        Ok(Some(request)) => client.act(host, request).await,
        Ok(None) => Ok(()),
        Err(error) => client.refuse(&error).await,
    };
    // A client may leave at any time.
    drop(outcome);
    let _ = client.writer.shutdown().await;
}

impl Client {
    async fn act(&mut self, host: &Rc<Host>, request: Request) -> io::Result<()> {
        match request {
            Request::Show => self.accept(host.show()).await,
            Request::Ping => self.ping(host).await,
            Request::TcpConnect { to, port } => tcp::connect(self, host, (to, port)).await,
            Request::TcpTake { id } => tcp::take(self, host, id).await,
            Request::TcpListen { port } => self.listen(host, port).await,
            Request::UdpOpen { port } => self.udp(host, port).await,
        }
    }

    pub(super) async fn accept(&mut self, value: Value) -> io::Result<()> {
        write_line(&mut self.writer, &Answer::Ok(value)).await
    }

    pub(super) async fn refuse(&mut self, reason: &impl ToString) -> io::Result<()> {
        write_line(&mut self.writer, &Answer::Error(reason.to_string())).await
    }

    async fn ping(&mut self, host: &Host) -> io::Result<()> {
        let Some((identifier, mut outcomes)) = host.begin_pings() else {
            return self.refuse(&"too many programs ping").await;
        };
        let result = async {
            self.accept(json!({ "identifier": identifier })).await?;
            let tell = async {
                while let Some(outcome) = outcomes.recv().await {
                    write_line(&mut self.writer, &outcome).await?;
                }
                Ok(())
            };
            tokio::select! {
                result = tell => result,
                result = send_echoes(&mut self.reader, host, identifier) => result,
            }
        };
        let result = result.await;
        host.end_pings(identifier);
        result
    }

    async fn listen(&mut self, host: &Rc<Host>, port: u16) -> io::Result<()> {
        let listener = host.stack().tcp_listen(None, port, BACKLOG);
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => return self.refuse(&error).await,
        };
        let result = tokio::select! {
            result = announce(&mut self.writer, host, listener, port) => result,
            () = until_end(&mut self.reader) => Ok(()),
        };
        host.close_listener(listener);
        result
    }

    async fn udp(&mut self, host: &Rc<Host>, port: Option<u16>) -> io::Result<()> {
        let socket = host.stack().udp_bind(None, port);
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => return self.refuse(&error).await,
        };
        let port = host.stack().udp_local(socket).map_or(0, |(_, port)| port);
        let result = async {
            self.accept(json!({ "port": port })).await?;
            tokio::select! {
                result = receive(&mut self.writer, host, socket) => result,
                result = transmit(&mut self.reader, host, socket) => result,
            }
        };
        let result = result.await;
        host.close_udp(socket);
        result
    }
}

/// Tells the client of each connection. A connection that no client takes stays until the listener ends.
async fn announce(
    writer: &mut OwnedWriteHalf,
    host: &Rc<Host>,
    listener: ListenerId,
    port: u16,
) -> io::Result<()> {
    let ready = host.watch_listener(listener);
    write_line(writer, &Answer::Ok(json!({ "port": port }))).await?;
    let mut kept = Kept { host: Rc::clone(host), numbers: Vec::new() };
    loop {
        let accepted = host.stack().tcp_accept(listener);
        let Some(id) = accepted.map_err(io::Error::other)? else {
            ready.readable.notified().await;
            continue;
        };
        let flow = host.stack().tcp_flow(id);
        let Ok(flow) = flow else { continue };
        let number = host.keep(id);
        kept.note(number);
        let (peer, peer_port) = flow.peer;
        write_line(writer, &Accepted { id: number, peer, peer_port }).await?;
    }
}

/// Connections of a listener that a client may still take. The others end with the listener.
struct Kept {
    host: Rc<Host>,
    numbers: Vec<u64>,
}

impl Kept {
    /// Notes a connection. If there are [`BACKLOG`] already, the oldest one ends.
    fn note(&mut self, number: u64) {
        self.numbers.retain(|number| self.host.is_kept(*number));
        if self.numbers.len() == BACKLOG {
            let oldest = self.numbers.remove(0);
            self.end(oldest);
        }
        self.numbers.push(number);
    }

    fn end(&self, number: u64) {
        if let Some(id) = self.host.take(number) {
            self.host.close_tcp(id);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for number in &self.numbers {
            self.end(*number);
        }
    }
}

async fn receive(writer: &mut OwnedWriteHalf, host: &Host, socket: UdpId) -> io::Result<()> {
    let ready = host.watch_udp(socket);
    loop {
        let received = host.stack().udp_recv(socket);
        let line = match received {
            Ok(received) => Datagram::Payload {
                peer: received.source,
                port: received.source_port,
                data: hex::encode(received.payload),
                source: (!received.destination.is_multicast()).then_some(received.destination),
            },
            Err(Error::WouldBlock) => {
                ready.readable.notified().await;
                continue;
            }
            Err(Error::BadHandle) => return Ok(()),
            Err(error) => Datagram::Error { error: error.to_string() },
        };
        write_line(writer, &line).await?;
    }
}

/// Sends the datagrams of the client. A datagram that cannot be sent is lost, as any datagram can be.
async fn transmit(
    reader: &mut BufReader<OwnedReadHalf>,
    host: &Host,
    socket: UdpId,
) -> io::Result<()> {
    while let Some(line) = read_line(reader).await? {
        let Datagram::Payload { peer, port, data, source } = line else { continue };
        let payload = hex::decode(data).map_err(io::Error::other)?;
        let options = udp::Options { source, ..udp::Options::default() };
        let now = host.now();
        let _ = host.stack().udp_send_to(socket, &payload, Some((peer, port)), options, now);
    }
    Ok(())
}

/// Sends the Echo Requests of the client until it leaves.
async fn send_echoes(
    reader: &mut BufReader<OwnedReadHalf>,
    host: &Host,
    identifier: u16,
) -> io::Result<()> {
    while let Some(Echo { to, seq, size }) = read_line(reader).await? {
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(size.into()).collect();
        host.note_ping(identifier, seq);
        let now = host.now();
        let sent = host.stack().ping(to, (identifier, seq), &data, now);
        if let Err(drop) = sent {
            host.tell_ping(identifier, EchoOutcome::Unsent { seq, error: drop.to_string() });
        }
    }
    Ok(())
}

/// Connections of a listener that may wait.
const BACKLOG: usize = 128;
