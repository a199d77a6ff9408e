//! A flood of I1s with made-up sources.

use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::Context as _;
use moorline_types::ContextTag;
use moorline_wire::{I1, Message, Options, PROTOCOL};

use super::generator::{Generator, Stream};
use crate::hop::{ETHERNET_LEN, Hop};
use crate::netns::{Namespace, output};

/// A flood of I1s (RFC 5533 s5.4). Each I1 has a source under another prefix within `SOURCES`. The victim's router
/// sends the flood. The router also counts and drops the answers of the victim.
#[derive(Debug)]
pub struct I1Flood {
    router: Namespace,
    generator: Generator,
}

impl I1Flood {
    /// Starts the flood with `rate` I1s a second. Without a rate, one thread sends as fast as it can.
    ///
    /// # Errors
    /// There is no route to the victim, or no nftables.
    pub fn start(router: &Namespace, victim: Ipv6Addr, rate: Option<u64>) -> anyhow::Result<Self> {
        router.nft(&format!(
            "table inet {TABLE} {{ counter answers {{ }}; chain received {{ type filter hook prerouting priority 0; \
             ip6 daddr {SOURCES} counter name answers drop; }}; }}"
        ))?;
        let (hop, _) = Hop::towards(router, victim)?;
        let interface = hop.interface.clone();
        let mut number = 0_u64;
        let vary = Box::new(move |frame: &mut [u8]| {
            number += 1;
            // The multiplier is odd, so the sources visit all prefixes, in no order.
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            frame[SOURCE_AT + 4..SOURCE_AT + 8].copy_from_slice(&mixed[..4]);
            frame[SOURCE_AT + 8..SOURCE_AT + 16].copy_from_slice(&mixed);
            frame[SOURCE_AT + 4] |= 0xf0;
        });
        let streams = vec![Stream { frame: frame(&hop, victim), vary, rate }];
        let generator = Generator::start(router, &interface, streams, LONGEST)?;
        Ok(Self { router: router.clone(), generator })
    }

    /// Number of I1s sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.generator.sent()
    }

    /// Number of answers received so far.
    ///
    /// # Errors
    /// `nft` failed.
    pub fn answered(&self) -> anyhow::Result<u64> {
        let mut command = self.router.command("nft");
        let said = output(command.args(["list", "counter", "inet", TABLE, "answers"]))?;
        let count = said.split_whitespace().skip_while(|word| *word != "packets").nth(1);
        count.and_then(|count| count.parse().ok()).context("a counter without a count")
    }

    /// Ends the flood.
    ///
    /// # Errors
    /// The flood could not be sent.
    pub fn finish(self) -> anyhow::Result<()> {
        self.generator.finish()?;
        self.router.nft(&format!("delete table inet {TABLE}"))
    }
}

/// The frame: IPv6 header and I1. The checksum of Shim6 does not cover addresses, so one message serves all sources.
fn frame(hop: &Hop, victim: Ipv6Addr) -> Vec<u8> {
    let message = Message::I1(I1 {
        initiator_tag: ContextTag::from_bits(0x1234_5678_9abc),
        initiator_nonce: 0x1bad_cafe,
        options: Options::default(),
    });
    let source = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
    hop.frame([source, victim], PROTOCOL, &message.octets())
}

/// Prefix of the made-up sources.
const SOURCES: &str = "2001:db8:f000::/36";
const TABLE: &str = "flood";
const SOURCE_AT: usize = ETHERNET_LEN + 8;
/// Limit of a flood, even if its owner never ends it.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);
