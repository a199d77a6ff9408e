use std::io;
use std::net::Ipv6Addr;
use std::rc::Rc;

use moorline_net::{EchoReply, Host, Outcome, Pinger, SendOptions, TcpListener, UdpSocket};
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;

use super::super::protocol::{
    Accepted, Answer, Datagram, Echo, EchoOutcome, Request, read_line, until_end, write_line,
};
use super::super::tell;
use super::server::Server;
use super::tcp;

/// A client of the control socket.
pub(super) struct Client {
    pub(super) reader: BufReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
}

/// Serves a client until it leaves. A client that sends nonsense is told once, and cut off.
pub(super) async fn serve(server: &Rc<Server>, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let mut client = Client { reader: BufReader::new(reader), writer };
    let outcome = match read_line(&mut client.reader).await {
        Ok(Some(request)) => client.act(server, request).await,
        Ok(None) => Ok(()),
        Err(error) => client.refuse(&error).await,
    };
    // A client may leave at any time.
    drop(outcome);
    let _ = client.writer.shutdown().await;
}

impl Client {
    async fn act(&mut self, server: &Rc<Server>, request: Request) -> io::Result<()> {
        match request {
            Request::Show => self.accept(server.show()).await,
            Request::Lookup { name } => match server.lookup(&name).await {
                Ok(addresses) => self.accept(json!({ "addresses": addresses })).await,
                Err(error) => self.refuse(&error).await,
            },
            Request::Ping => self.ping(&server.host).await,
            Request::TcpConnect { to, port } => tcp::connect(self, server, (&to, port)).await,
            Request::TcpTake { id } => tcp::take(self, server, id).await,
            Request::TcpListen { port } => self.listen(server, port).await,
            Request::UdpOpen { port } => self.udp(&server.host, port).await,
        }
    }

    pub(super) async fn accept(&mut self, value: Value) -> io::Result<()> {
        write_line(&mut self.writer, &Answer::Ok(value)).await
    }

    pub(super) async fn refuse(&mut self, reason: &impl ToString) -> io::Result<()> {
        write_line(&mut self.writer, &Answer::Error(reason.to_string())).await
    }

    async fn ping(&mut self, host: &Host) -> io::Result<()> {
        let pinger = match Pinger::new(host) {
            Ok(pinger) => pinger,
            Err(_) => return self.refuse(&"too many programs ping").await,
        };
        self.accept(json!({ "identifier": pinger.identifier() })).await?;
        let writer = Mutex::new(&mut self.writer);
        let tell = async {
            loop {
                let outcome = outcome(pinger.recv().await);
                write_line(&mut **writer.lock().await, &outcome).await?;
            }
        };
        tokio::select! {
            result = tell => result,
            result = send_echoes(&mut self.reader, &pinger, &writer) => result,
        }
    }

    async fn listen(&mut self, server: &Rc<Server>, port: u16) -> io::Result<()> {
        let listener = match TcpListener::bind(&server.host, (Ipv6Addr::UNSPECIFIED, port)) {
            Ok(listener) => listener,
            Err(error) => return self.refuse(&error).await,
        };
        tokio::select! {
            result = announce(&mut self.writer, server, &listener) => result,
            () = until_end(&mut self.reader) => Ok(()),
        }
    }

    async fn udp(&mut self, host: &Host, port: Option<u16>) -> io::Result<()> {
        let socket = match UdpSocket::bind(host, (Ipv6Addr::UNSPECIFIED, port.unwrap_or(0))) {
            Ok(socket) => socket,
            Err(error) => return self.refuse(&error).await,
        };
        self.accept(json!({ "port": socket.local_addr()?.port() })).await?;
        tokio::select! {
            result = receive(&mut self.writer, &socket) => result,
            result = transmit(&mut self.reader, &socket) => result,
        }
    }
}

/// Tells the client of each connection. A connection that no client takes stays until the listener ends.
async fn announce(
    writer: &mut OwnedWriteHalf,
    server: &Rc<Server>,
    listener: &TcpListener,
) -> io::Result<()> {
    let port = listener.local_addr()?.port();
    write_line(writer, &Answer::Ok(json!({ "port": port }))).await?;
    let mut kept = Kept { server: Rc::clone(server), numbers: Vec::new() };
    loop {
        let (stream, _) = listener.accept().await?;
        let (peer, peer_port) = stream.flow().peer;
        let id = server.keep(stream);
        kept.note(id);
        write_line(writer, &Accepted { id, peer, peer_port }).await?;
    }
}

/// Connections of a listener that a client may still take. The others end with the listener.
struct Kept {
    server: Rc<Server>,
    numbers: Vec<u64>,
}

impl Kept {
    /// Notes a connection. If there are [`BACKLOG`] already, the oldest one ends.
    fn note(&mut self, number: u64) {
        self.numbers.retain(|number| self.server.is_kept(*number));
        if self.numbers.len() == BACKLOG {
            drop(self.server.take(self.numbers.remove(0)));
        }
        self.numbers.push(number);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for number in &self.numbers {
            drop(self.server.take(*number));
        }
    }
}

async fn receive(writer: &mut OwnedWriteHalf, socket: &UdpSocket) -> io::Result<()> {
    loop {
        let line = match socket.recv().await {
            Ok(received) => Datagram::Payload {
                peer: received.source,
                port: received.source_port,
                data: hex::encode(&*received.payload),
                source: (!received.destination.is_multicast()).then_some(received.destination),
            },
            Err(error) => Datagram::Error { error: error.to_string() },
        };
        write_line(writer, &line).await?;
    }
}

/// Sends the datagrams of the client. A datagram that cannot be sent is lost, as any datagram can be.
async fn transmit(reader: &mut BufReader<OwnedReadHalf>, socket: &UdpSocket) -> io::Result<()> {
    while let Some(line) = read_line(reader).await? {
        let Datagram::Payload { peer, port, data, source } = line else { continue };
        let payload = hex::decode(data).map_err(io::Error::other)?;
        let options = SendOptions { source, ..SendOptions::default() };
        let _ = socket.send_with(&payload, (peer, port), options);
    }
    Ok(())
}

/// Sends the Echo Requests of the client until it leaves.
async fn send_echoes(
    reader: &mut BufReader<OwnedReadHalf>,
    pinger: &Pinger,
    writer: &Mutex<&mut (impl AsyncWrite + Unpin)>,
) -> io::Result<()> {
    while let Some(Echo { to, seq, size }) = read_line(reader).await? {
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(size.into()).collect();
        if let Err(error) = pinger.send(to, seq, &data) {
            let unsent = EchoOutcome::Unsent { seq, error: error.to_string() };
            write_line(&mut **writer.lock().await, &unsent).await?;
        }
    }
    Ok(())
}

fn outcome(outcome: Outcome) -> EchoOutcome {
    match outcome {
        Outcome::Reply { reply: EchoReply { from, sequence, size, hop_limit, .. }, rtt } => {
            let rtt_us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
            EchoOutcome::Reply { from, seq: sequence, size, hop_limit, rtt_us }
        }
        Outcome::Error { sequence, from, cause } => {
            EchoOutcome::Error { from, seq: sequence, error: tell::cause_text(cause) }
        }
    }
}

/// Connections of a listener that may wait.
const BACKLOG: usize = 128;
