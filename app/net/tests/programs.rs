//! Programs on sockets of a host: HTTP by axum and hyper, names by the DNS.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::net::Ipv6Addr;

use axum::routing::get;
use common::{address, hosts};
use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::AAAA;
use hickory_proto::rr::{RData, Record, RecordType};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use moorline_net::{Host, Resolver, TcpListener, TcpStream, UdpSocket};

const ANY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

/// Serves one document by HTTP.
fn serve(host: &Host) {
    let listener = TcpListener::bind(host, (ANY, 80)).unwrap();
    let router = axum::Router::new().route("/greeting", get(|| async { "hello" }));
    tokio::spawn(async move { axum::serve(listener, router).await });
}

async fn fetch(stream: TcpStream) -> Bytes {
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request =
        Request::get("/greeting").header("host", "server").body(Empty::<Bytes>::new()).unwrap();
    let response = client.send_request(request).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn an_axum_server_answers_a_hyper_client() {
    let [server, client] = hosts().await;
    serve(&server);
    let stream = TcpStream::connect(&client, (address(0), 80)).await.unwrap();
    assert_eq!(fetch(stream).await, "hello");
}

#[tokio::test]
async fn a_name_leads_to_the_address_that_answers() {
    let [server, client] = hosts().await;
    serve(&server);
    let socket = UdpSocket::bind(&server, (ANY, 53)).unwrap();
    tokio::spawn(answer(socket));
    let resolver = Resolver::new(&client).unwrap();
    let found = resolver.lookup("server.example.").await.unwrap();
    // The last address has no route, so it comes last.
    assert_eq!(found, [address(9), address(0), FAR], "{found:?}");
    assert_eq!(resolver.lookup("::1").await.unwrap(), [Ipv6Addr::LOCALHOST]);
    resolver.lookup("nobody.example.").await.unwrap_err();
    // Nobody has the first address. The second one has its turn before the first attempt is over.
    let stream = resolver.connect("server.example.", 80).await.unwrap();
    assert_eq!(fetch(stream).await, "hello");
}

#[tokio::test]
async fn a_resolver_needs_a_server() {
    let (_ours, theirs) = moorline_net::Wire::pair().unwrap();
    let host = moorline_net::Builder::new().wire("link", theirs).up().unwrap();
    let error = Resolver::new(&host).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

/// A DNS server that knows one name.
async fn answer(socket: UdpSocket) {
    loop {
        let received = socket.recv().await.unwrap();
        let question = Message::from_vec(&received.payload).unwrap();
        let query = question.queries[0].clone();
        let mut message = Message::response(question.metadata.id, question.metadata.op_code);
        message.metadata.message_type = MessageType::Response;
        message.add_query(query.clone());
        if query.name().to_ascii() != "server.example." {
            message.metadata.response_code = ResponseCode::NXDomain;
        } else if query.query_type() == RecordType::AAAA {
            for address in [FAR, address(9), address(0)] {
                let record =
                    Record::from_rdata(query.name().clone(), 60, RData::AAAA(AAAA(address)));
                message.add_answer(record);
            }
        }
        let octets = message.to_vec().unwrap();
        socket.send_to(&octets, (received.source, received.source_port)).unwrap();
    }
}
