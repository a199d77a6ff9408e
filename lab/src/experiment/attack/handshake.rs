//! The second half of made-up handshakes: answers each R1 with its I2.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use moorline_link::{FrameSender, FrameSocket};

use super::packets::{self, R1};
use crate::hop::{ETHERNET_LEN, Hop};
use crate::netns::{Namespace, Worker};

/// A thread that answers the R1s to made-up sources.
pub(super) struct Handshakes {
    /// Packets and octets sent.
    sent: Arc<[AtomicU64; 2]>,
    worker: Worker<()>,
}

impl Handshakes {
    /// Starts to answer the R1s of `victim`, which is one hop away.
    pub(super) fn start(router: &Namespace, hop: Hop, victim: Ipv6Addr) -> anyhow::Result<Self> {
        let sent = Arc::<[AtomicU64; 2]>::default();
        let counts = Arc::clone(&sent);
        let work = move |stop: &_| answer(&hop, victim, stop, &counts);
        Ok(Self { sent, worker: router.work("handshakes", work)? })
    }

    /// Numbers of I2s and of their octets, from the IPv6 header on.
    pub(super) fn sent(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.sent[at].load(Ordering::Relaxed))
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.worker.finish()
    }
}

fn answer(
    hop: &Hop,
    victim: Ipv6Addr,
    stop: &AtomicBool,
    counts: &[AtomicU64; 2],
) -> anyhow::Result<()> {
    let received = FrameSocket::receiver(&hop.interface, WAITING).context("packet socket")?;
    let mut sender = FrameSender::open(&hop.interface).context("packet socket")?;
    let mut buffer = [0; LARGEST];
    while !stop.load(Ordering::Relaxed) {
        let Some(length) = received.receive(&mut buffer)? else {
            received.wait(LOOK_AROUND)?;
            continue;
        };
        let Some(i2) = reply(hop, victim, &buffer[..length]) else { continue };
        if sender.send(&[&i2])? > 0 {
            counts[0].fetch_add(1, Ordering::Relaxed);
            counts[1].fetch_add((i2.len() - ETHERNET_LEN) as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The frame of the I2 that answers an R1. `None` for other frames.
fn reply(hop: &Hop, victim: Ipv6Addr, frame: &[u8]) -> Option<Vec<u8>> {
    let packet = frame.get(ETHERNET_LEN..)?;
    let address = |at: usize| Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<16>()?));
    let (from, to) = (address(8)?, address(24)?);
    let r1 =
        (packet[6] == packets::SHIM6 && from == victim).then(|| R1::parse(&packet[40..]))??;
    Some(hop.frame([to, victim], packets::SHIM6, &packets::i2(&r1)))
}

const LARGEST: usize = 2048;
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// R1s that may wait.
const WAITING: u16 = 4096;
