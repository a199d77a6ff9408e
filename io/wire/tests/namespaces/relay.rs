//! TCP of two kernels, over two wires between which a program carries frames.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use moorline_wires::Wire;

use crate::harness::{enter_namespace, in_namespace, ip, open};

/// Octets of payload of a segment with timestamps, for an MTU of 1500.
const SEGMENT: u16 = 1428;

#[test]
fn tcp_of_two_kernels_passes_in_frames_of_the_mtu() {
    in_namespace(|| carry_tcp(false));
}

#[test]
fn tcp_of_two_kernels_passes_in_segments_that_are_not_cut() {
    in_namespace(|| carry_tcp(true));
}

async fn carry_tcp(is_super: bool) {
    let mut left = tap("2001:db8::1").await;
    let listener = TcpListener::bind("[2001:db8::1]:80").unwrap();
    enter_namespace();
    let mut right = tap("2001:db8::2").await;
    for wire in [&mut left, &mut right] {
        wire.set_super_segments(is_super).unwrap();
    }
    let server = thread::spawn(move || answer(&listener));
    let (send, mut received) = tokio::sync::oneshot::channel();
    // A thread inherits the namespace of its parent.
    thread::spawn(move || send.send(fetch()));
    let mut longest = 0;
    let received = loop {
        carry(&mut left, &mut right, &mut longest);
        carry(&mut right, &mut left, &mut longest);
        tokio::select! {
            ready = left.readable() => ready.unwrap(),
            ready = right.readable() => ready.unwrap(),
            received = &mut received => break received.unwrap(),
        }
    };
    server.join().unwrap();
    assert!(received == pattern(), "the octets differ");
    assert_eq!(longest > 1514, is_super, "the longest frame has {longest} octets");
    assert_eq!(left.counts().not_understood + right.counts().not_understood, 0);
}

async fn tap(address: &str) -> Wire {
    let wire = open("tap:moor-w3").await;
    ip(&format!("-6 addr add {address}/64 dev moor-w3 nodad"));
    wire
}

/// Carries the frames that wait.
fn carry(from: &mut Wire, to: &mut Wire, longest: &mut usize) {
    while let Some(mut frame) = from.try_recv().unwrap() {
        *longest = frame.len().max(*longest);
        let is_sent = if frame.len() > 1514 {
            to.try_send_super(&mut frame, SEGMENT)
        } else {
            to.try_send(&frame)
        };
        // A frame that finds no room is lost; TCP sends it again.
        is_sent.unwrap();
    }
}

fn answer(listener: &TcpListener) {
    let mut stream = listener.accept().unwrap().0;
    stream.write_all(&pattern()).unwrap();
}

fn fetch() -> Vec<u8> {
    let mut received = Vec::new();
    TcpStream::connect("[2001:db8::1]:80").unwrap().read_to_end(&mut received).unwrap();
    received
}

/// Eight megabytes without a short period.
fn pattern() -> Vec<u8> {
    (0..1_000_000_u64).flat_map(|number| (number * number).to_be_bytes()).collect()
}
