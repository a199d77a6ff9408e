//! A download by HTTP while an ISP dies.

use std::io;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use moorline_net::{Builder, Event, Host, Shim6, TcpListener, TcpStream, Wire};

use crate::network::Isp;

/// The result of a download.
pub(crate) struct Outcome {
    /// Octets of the document.
    pub(crate) received: usize,
    /// Whether they are as the server sent them.
    pub(crate) is_equal: bool,
    /// The longest time between two octets.
    pub(crate) pause: Duration,
    /// Whether packets of the connection have other addresses than the connection.
    pub(crate) has_moved: bool,
}

/// Downloads a document of this size. The ISP of the connection dies when a quarter has arrived.
pub(crate) async fn survive(size: usize) -> Result<Outcome, Box<dyn std::error::Error>> {
    let (one, [a1, b1]) = Isp::start(0)?;
    let (other, [a2, b2]) = Isp::start(1)?;
    let (server, client) = (host([a1, a2])?, host([b1, b2])?);
    let (address, _) = tokio::join!(addresses(&server), addresses(&client));
    let document: Bytes = (0..size).map(octet).collect();
    serve(&server, document.clone())?;

    let stream = TcpStream::connect(&client, (address, 80)).await?;
    let (local, _) = stream.flow().local;
    let isp = if local.segments()[2] == 1 { one } else { other };
    let mut body = get_document(stream).await?;
    let (mut received, mut pause, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    let mut isp = Some(isp);
    while let Some(frame) = body.frame().await {
        pause = pause.max(last.elapsed());
        last = Instant::now();
        received.extend_from_slice(frame?.data_ref().map_or(&[][..], |octets| octets));
        if received.len() >= size / 4
            && let Some(isp) = isp.take()
        {
            protected(&client).await;
            isp.die();
        }
    }
    let moved = |host: &Host| {
        let all = host.contexts().into_iter().filter_map(|one| Some((one.ulids, one.established?)));
        all.into_iter().any(|(ulids, one)| one.locators.local.0 != ulids.local.0)
    };
    let has_moved = moved(&client) && moved(&server);
    client.shut_down().await;
    server.shut_down().await;
    let (received, is_equal) = (received.len(), received == document);
    Ok(Outcome { received, is_equal, pause, has_moved })
}

/// A host with a link to each ISP, and Shim6.
fn host(wires: [Wire; 2]) -> io::Result<Host> {
    let [one, other] = wires;
    Builder::new().wire("ISP 1", one).wire("ISP 2", other).shim6(Shim6::new()).up()
}

/// Waits until the host has an address of each ISP. Returns one of them.
async fn addresses(host: &Host) -> Ipv6Addr {
    let mut events = host.events();
    while host.addresses().len() < 2 {
        let _ = events.recv().await;
    }
    host.address().await
}

/// Waits until the hosts know each other's addresses. Traffic begins this.
async fn protected(host: &Host) {
    let mut events = host.events();
    while host.contexts().iter().all(|context| context.established.is_none()) {
        let _: Result<Event, _> = events.recv().await;
    }
}

fn serve(host: &Host, document: Bytes) -> io::Result<()> {
    let listener = TcpListener::bind(host, (Ipv6Addr::UNSPECIFIED, 80))?;
    let router = Router::new().route("/document", get(|| async { document }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}

async fn get_document(stream: TcpStream) -> Result<Incoming, Box<dyn std::error::Error>> {
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/document").header("host", "server").body(Empty::<Bytes>::new())?;
    Ok(client.send_request(request).await?.into_body())
}

/// Octets without a short period.
#[expect(clippy::cast_possible_truncation, reason = "the lowest octet is meant")]
const fn octet(number: usize) -> u8 {
    (number.wrapping_mul(number) >> 3) as u8
}
