//! The second half of made-up handshakes: answers each R1 with its I2.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use moorline_link::{FrameSender, FrameSocket};

use super::packets::{self, R1};
use super::running::{Part, Sent};
use crate::hop::{ETHERNET_LEN, Hop};
use crate::netns::Namespace;

/// Starts to answer the R1s of `victim`, which is one hop away. `is_forked`: the I1s were of forked instances.
pub(super) fn start(
    router: &Namespace,
    hop: Hop,
    victim: Ipv6Addr,
    is_forked: bool,
) -> anyhow::Result<Part> {
    Part::start(router, "handshakes", move |stop, sent| {
        let reply = |frame: &_| reply(&hop, victim, frame, is_forked);
        answer(&hop.interface, reply, stop, sent)
    })
}

fn answer(
    interface: &str,
    reply: impl Fn(&[u8]) -> Option<Vec<u8>>,
    stop: &AtomicBool,
    sent: &Sent,
) -> anyhow::Result<()> {
    let received = FrameSocket::receiver(interface, WAITING).context("packet socket")?;
    let mut sender = FrameSender::open(interface).context("packet socket")?;
    let mut buffer = [0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        let Some(length) = received.receive(&mut buffer)? else {
            received.wait(LOOK_AROUND)?;
            continue;
        };
        let Some(i2) = reply(&buffer[..length]) else { continue };
        if sender.send(&[&i2])? > 0 {
            sent.note(i2.len() - ETHERNET_LEN);
        }
    }
    Ok(())
}

/// The frame of the I2 that answers an R1. `None` for other frames.
fn reply(hop: &Hop, victim: Ipv6Addr, frame: &[u8], is_forked: bool) -> Option<Vec<u8>> {
    let packet = frame.get(ETHERNET_LEN..)?;
    let address = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?));
    let (from, to) = (address(8)?, address(24)?);
    let r1 =
        (packet[6] == packets::SHIM6 && from == victim).then(|| R1::parse(&packet[40..]))??;
    Some(hop.frame([to, victim], packets::SHIM6, &packets::i2(&r1, is_forked)))
}

const LARGEST: usize = 2048;
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// R1s that may wait.
const WAITING: u16 = 4096;
