//! Made-up sources of packets, and the answers to them.

use std::net::Ipv6Addr;

use anyhow::Context as _;

use crate::hop::ETHERNET_LEN;
use crate::netns::{Namespace, output};

/// Source of a frame before [`make_up_source`] has written another one.
pub(crate) const STRANGER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xf000, 0, 0, 0, 0, 0);

/// Writes a made-up source into a frame. Each number has its own source, under its own prefix within `SOURCES`.
pub(crate) fn make_up_source(frame: &mut [u8], number: u64) {
    // The multiplier is odd, so the sources visit all prefixes, in no order.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    frame[SOURCE_AT + 4..SOURCE_AT + 8].copy_from_slice(&mixed[..4]);
    frame[SOURCE_AT + 8..SOURCE_AT + 16].copy_from_slice(&mixed);
    frame[SOURCE_AT + 4] |= 0xf0;
}

/// Drops the packets to made-up sources in a router, and counts them, except plain UDP: services of a host send that,
/// and not Moorline.
#[derive(Debug)]
pub(crate) struct Answers {
    router: Namespace,
}

impl Answers {
    /// Starts to count.
    ///
    /// # Errors
    /// `nft` failed.
    pub(crate) fn start(router: &Namespace) -> anyhow::Result<Self> {
        router.nft(&format!(
            "table inet {TABLE} {{ counter answers {{ }}; chain received {{ type filter hook prerouting priority 0; \
             ip6 daddr {SOURCES} ip6 nexthdr udp drop; ip6 daddr {SOURCES} counter name answers drop; }}; }}"
        ))?;
        Ok(Self { router: router.clone() })
    }

    /// Numbers of packets and of octets so far, from the IPv6 header on.
    ///
    /// # Errors
    /// `nft` failed.
    pub(crate) fn count(&self) -> anyhow::Result<[u64; 2]> {
        let mut command = self.router.command("nft");
        let said = output(command.args(["list", "counter", "inet", TABLE, "answers"]))?;
        let count = |name: &str| -> anyhow::Result<u64> {
            let number = said.split_whitespace().skip_while(|word| *word != name).nth(1);
            number.and_then(|number| number.parse().ok()).context("a counter without a count")
        };
        Ok([count("packets")?, count("bytes")?])
    }

    /// Ends the count.
    ///
    /// # Errors
    /// `nft` failed.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        self.router.nft(&format!("delete table inet {TABLE}"))
    }
}

/// Prefix of the made-up sources.
const SOURCES: &str = "2001:db8:f000::/36";
const TABLE: &str = "flood";
const SOURCE_AT: usize = ETHERNET_LEN + 8;
