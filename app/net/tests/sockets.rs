//! Hosts in this process, and sockets of theirs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};

use common::{address, hosts};
use moorline_net::{
    Builder, Event, Outcome, Pinger, StackEvent, TcpListener, TcpStream, UdpSocket, Wire,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const ANY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

#[tokio::test]
async fn a_connection_carries_octets_both_ways_and_each_direction_ends_alone() {
    let [server, client] = hosts().await;
    let listener = TcpListener::bind(&server, (ANY, 7)).unwrap();
    let echo = tokio::spawn(async move {
        let (stream, peer) = listener.accept().await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let len = tokio::io::copy(&mut reader, &mut writer).await.unwrap();
        writer.shutdown().await.unwrap();
        (len, peer)
    });
    let stream = TcpStream::connect(&client, (address(0), 7)).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), (address(0), 7).into());
    let ours = stream.local_addr().unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_be_bytes()[2]).collect();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let octets = sent.clone();
    let send = tokio::spawn(async move {
        writer.write_all(&octets).await.unwrap();
        writer.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    reader.read_to_end(&mut received).await.unwrap();
    assert!(received == sent, "{} octets of {}", received.len(), sent.len());
    send.await.unwrap();
    assert_eq!(echo.await.unwrap(), (3_000_000, ours));
}

#[tokio::test]
async fn errors_have_the_kinds_of_the_standard_library() {
    let [server, client] = hosts().await;
    let error = |result: std::io::Result<TcpStream>| result.unwrap_err().kind();
    let refused = TcpStream::connect(&client, (address(0), 9)).await;
    assert_eq!(error(refused), ErrorKind::ConnectionRefused);
    let far: Ipv6Addr = "2001:db8:ffff::1".parse().unwrap();
    assert_eq!(error(TcpStream::connect(&client, (far, 9)).await), ErrorKind::NetworkUnreachable);
    // The host has no IPv4 address.
    let of_v4 = TcpStream::connect(&client, (Ipv4Addr::new(192, 0, 2, 1), 9)).await;
    assert_eq!(error(of_v4), ErrorKind::NetworkUnreachable);
    let _first = TcpListener::bind(&server, (ANY, 7)).unwrap();
    assert_eq!(TcpListener::bind(&server, (ANY, 7)).unwrap_err().kind(), ErrorKind::AddrInUse);
    let free = TcpListener::bind(&server, (ANY, 0)).unwrap().local_addr().unwrap();
    assert!(free.port() >= 49152, "{free}");
    let foreign = UdpSocket::bind(&server, (far, 7)).unwrap_err().kind();
    assert_eq!(foreign, ErrorKind::AddrNotAvailable);
}

#[tokio::test]
async fn datagrams_and_pings_come_and_go() {
    let [server, client] = hosts().await;
    let socket = UdpSocket::bind(&server, (ANY, 53)).unwrap();
    let other = UdpSocket::bind(&client, (ANY, 0)).unwrap();
    assert_eq!(other.send_to(b"question", (address(0), 53)).unwrap(), 8);
    let received = socket.recv().await.unwrap();
    assert_eq!((&*received.payload, received.source), (&b"question"[..], address(1)));
    socket.send_to(b"answer", (received.source, received.source_port)).unwrap();
    let mut buffer = [0; 3];
    let (len, from) = other.recv_from(&mut buffer).await.unwrap();
    assert_eq!((&buffer[..len], from), (&b"ans"[..], (address(0), 53).into()));

    let pinger = Pinger::new(&client).unwrap();
    pinger.send(address(0), 5, &[1; 100]).unwrap();
    let Outcome::Reply { reply, .. } = pinger.recv().await else { panic!("an error") };
    assert_eq!((reply.from, reply.sequence, reply.size), (address(0), 5, 100));
    assert_ne!(Pinger::new(&client).unwrap().identifier(), pinger.identifier());
}

#[tokio::test]
async fn a_host_that_is_shut_down_resets_its_connections() {
    let [server, client] = hosts().await;
    let listener = TcpListener::bind(&server, (ANY, 7)).unwrap();
    let mut stream = TcpStream::connect(&client, (address(0), 7)).await.unwrap();
    let (mut accepted, _) = listener.accept().await.unwrap();
    assert_eq!(client.connections().len(), 1);
    server.shut_down().await;
    let lost = stream.read_u8().await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::ConnectionReset);
    accepted.read_u8().await.unwrap_err();
}

#[tokio::test]
async fn a_host_ends_with_its_last_handle_and_socket() {
    let (ours, theirs) = Wire::pair().unwrap();
    let host = Builder::new().wire("link", theirs).up().unwrap();
    let socket = UdpSocket::bind(&host, (ANY, 0)).unwrap();
    drop(host);
    assert!(socket.local_addr().unwrap().port() > 0, "the socket keeps the host");
    drop(socket);
    let mut ours = ours;
    while ours.recv().await.is_ok() {}
}

#[tokio::test]
async fn a_program_hears_that_the_other_end_of_a_wire_has_gone() {
    let (ours, theirs) = Wire::pair().unwrap();
    let host = Builder::new().wire("link", theirs).up().unwrap();
    let mut events = host.events();
    drop(ours);
    let mut heard = Vec::new();
    loop {
        match events.recv().await.unwrap() {
            Event::Failed { error, .. } => {
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                break;
            }
            Event::Link { is_up, .. } => heard.push(is_up),
            Event::Stack(StackEvent::AddressReady(..)) => panic!("without a link"),
            Event::Stack(_) | Event::Shim6(_) | Event::Unsaved(_) => {}
        }
    }
    assert!(!heard.is_empty() && heard.iter().all(|is_up| !is_up));
    assert!(!host.interfaces()[0].is_up);
}

#[tokio::test]
async fn a_host_without_a_wire_or_with_a_small_mtu_does_not_come_up() {
    assert_eq!(Builder::new().up().unwrap_err().kind(), ErrorKind::InvalidInput);
    let (_ours, theirs) = Wire::pair().unwrap();
    let small = Builder::new().mtu(1279).wire("link", theirs).up();
    assert_eq!(small.unwrap_err().kind(), ErrorKind::InvalidInput);
}
