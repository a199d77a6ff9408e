//! Two hosts in this process, a server of axum at one of them and a client of hyper at the other. The program needs no privilege, and
//! the kernel sees no packet.

use std::net::Ipv6Addr;

use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use moorline_net::{Builder, Event, Host, StackEvent, TcpListener, TcpStream, Wire};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A link with two ends. There is no router, so the hosts have link-local addresses.
    let (one, other) = Wire::pair()?;
    let server = Builder::new().wire("link", one).up()?;
    let client = Builder::new().wire("link", other).up()?;
    let (address, _) = tokio::join!(link_local(&server), link_local(&client));

    let listener = TcpListener::bind(&server, (Ipv6Addr::UNSPECIFIED, 80))?;
    let router = Router::new().route("/", get(|| async { "hello from a host in a process\n" }));
    tokio::spawn(async move { axum::serve(listener, router).await });

    let stream = TcpStream::connect(&client, (address, 80)).await?;
    let (mut requests, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/").header("host", "server").body(Empty::<Bytes>::new())?;
    let body = requests.send_request(request).await?.into_body().collect().await?.to_bytes();
    tokio::io::AsyncWriteExt::write_all(&mut tokio::io::stdout(), &body).await?;
    client.shut_down().await;
    server.shut_down().await;
    Ok(())
}

/// Waits until the host is sure that no other node has its link-local address (RFC 4862 s5.4).
async fn link_local(host: &Host) -> Ipv6Addr {
    let mut events = host.events();
    loop {
        match events.recv().await {
            Ok(Event::Stack(StackEvent::AddressReady(_, address))) => return address,
            Ok(_) => {}
            Err(error) => panic!("no address: {error}"),
        }
    }
}
