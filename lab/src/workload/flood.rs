//! A flood of I1s with made-up sources.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_types::ContextTag;
use moorline_wire::{I1, Message, Options, PROTOCOL};

use super::generator::{Generator, Stream};
use super::strangers::{Answers, STRANGER, make_up_source};
use crate::hop::Hop;
use crate::netns::Namespace;

/// A flood of I1s (RFC 5533 s5.4). Each I1 has a made-up source under another prefix. The victim's router
/// sends the flood. The router also counts and drops the answers of the victim.
#[derive(Debug)]
pub struct I1Flood {
    answers: Answers,
    generator: Generator,
}

impl I1Flood {
    /// Starts the flood with `rate` I1s a second. Without a rate, one thread sends as fast as it can.
    ///
    /// # Errors
    /// There is no route to the victim, or no nftables.
    pub fn start(router: &Namespace, victim: Ipv6Addr, rate: Option<u64>) -> anyhow::Result<Self> {
        let answers = Answers::start(router)?;
        let (hop, _) = Hop::towards(router, victim)?;
        let interface = hop.interface.clone();
        let mut number = 0_u64;
        let vary = Box::new(move |frame: &mut [u8]| {
            number += 1;
            make_up_source(frame, number);
        });
        let streams = vec![Stream { frame: frame(&hop, victim), vary, rate }];
        let generator = Generator::start(router, &interface, streams, LONGEST)?;
        Ok(Self { answers, generator })
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
        self.answers.count().map(|[packets, _]| packets)
    }

    /// Ends the flood.
    ///
    /// # Errors
    /// The flood could not be sent.
    pub fn finish(self) -> anyhow::Result<()> {
        self.generator.finish()?;
        self.answers.finish()
    }
}

/// The frame: IPv6 header and I1. The checksum of Shim6 does not cover addresses, so one message serves all sources.
fn frame(hop: &Hop, victim: Ipv6Addr) -> Vec<u8> {
    let message = Message::I1(I1 {
        initiator_tag: ContextTag::from_bits(0x1234_5678_9abc),
        initiator_nonce: 0x1bad_cafe,
        options: Options::default(),
    });
    hop.frame([STRANGER, victim], PROTOCOL, &message.octets())
}

/// Limit of a flood, even if its owner never ends it.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);
