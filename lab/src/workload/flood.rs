//! I1s with sources made up.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Context as _;
use moorline_types::ContextTag;
use moorline_wire::{I1, Message, Options};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, sendto, socket_with,
};

use super::Pacer;
use crate::netns::{Namespace, Task, output};

/// A flood of I1s (RFC 5533 s5.4), each from an address of another prefix of `SOURCES`, sent by the router that
/// the victim answers through, which counts and drops the answers.
#[derive(Debug)]
pub struct I1Flood {
    router: Namespace,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: Task<()>,
}

impl I1Flood {
    /// Starts it: `rate` a second, or as many as a thread can send.
    ///
    /// # Errors
    /// No raw socket, no nftables.
    pub fn start(router: &Namespace, victim: Ipv6Addr, rate: Option<u64>) -> anyhow::Result<Self> {
        router.nft(&format!(
            "table inet {TABLE} {{ counter answers {{ }}; chain received {{ type filter hook prerouting priority 0; \
             ip6 daddr {SOURCES} counter name answers drop; }}; }}"
        ))?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let sender = router.spawn("I1 flood", move || send(victim, rate, &stopped, &count))?;
        Ok(Self { router: router.clone(), stop, sent, sender })
    }

    /// I1s sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Answers that came back so far.
    ///
    /// # Errors
    /// `nft` failed.
    pub fn answered(&self) -> anyhow::Result<u64> {
        let mut command = self.router.command("nft");
        let said = output(command.args(["list", "counter", "inet", TABLE, "answers"]))?;
        let count = said.split_whitespace().skip_while(|word| *word != "packets").nth(1);
        count.and_then(|count| count.parse().ok()).context("a counter without a count")
    }

    /// Ends it.
    ///
    /// # Errors
    /// It could not send.
    pub fn finish(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join()?;
        self.router.nft(&format!("delete table inet {TABLE}"))
    }
}

fn send(
    victim: Ipv6Addr,
    rate: Option<u64>,
    stop: &AtomicBool,
    sent: &AtomicU64,
) -> anyhow::Result<()> {
    let socket = raw_socket().context("raw socket")?;
    let (to, pacer) = (SocketAddrV6::new(victim, 0, 0, 0), Pacer::start(rate.unwrap_or(u64::MAX)));
    let mut packet = packet(victim);
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            number += 1;
            // Odd, so all prefixes have their turn, in no order.
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            packet[SOURCE_AT + 4..SOURCE_AT + 8].copy_from_slice(&mixed[..4]);
            packet[SOURCE_AT + 8..SOURCE_AT + 16].copy_from_slice(&mixed);
            packet[SOURCE_AT + 4] |= 0xf0;
            match sendto(&socket, &packet, SendFlags::empty(), &to) {
                Ok(_) => {}
                // Its queue is full.
                Err(Errno::NOBUFS | Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error).context("send an I1"),
            }
        }
        sent.fetch_add(BATCH, Ordering::Relaxed);
        if rate.is_some() {
            thread::sleep(pacer.wait(number));
        }
    }
    Ok(())
}

/// Of IPPROTO_RAW: what is sent begins with the IPv6 header.
fn raw_socket() -> rustix::io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(255).map(Protocol::from_raw);
    socket_with(AddressFamily::INET6, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
}

/// IPv6 header and I1. The checksum of Shim6 does not cover addresses, so one message serves all sources.
fn packet(victim: Ipv6Addr) -> Vec<u8> {
    let message = Message::I1(I1 {
        initiator_tag: ContextTag::from_bits(0x1234_5678_9abc),
        initiator_nonce: 0x1bad_cafe,
        options: Options::default(),
    });
    let message = message.octets();
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], SHIM6, 64];
    packet.extend(PREFIX);
    packet.extend([0; 12]);
    packet.extend(victim.octets());
    packet.extend(message);
    packet
}

/// Where the sources are from.
const SOURCES: &str = "2001:db8:f000::/36";
const PREFIX: [u8; 4] = [0x20, 1, 0xd, 0xb8];
const TABLE: &str = "flood";
/// Sent between two looks at the clock.
const BATCH: u64 = 64;
const SHIM6: u8 = 140;
const SOURCE_AT: usize = 8;
