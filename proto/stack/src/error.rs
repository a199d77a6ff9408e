//! ICMPv6 errors that this host sends, and the ones that come in (RFC 4443 s2.4).
//!
//! [`Errors::report`] says whether the host may send an error about a packet, [`Errors::allow_echo`] whether it may
//! answer an Echo Request. [`Quote`] reads the packet that an error quotes.
//!
//! # Rate
//!
//! Errors have a rate as a whole, and each /64 of sources has a rate within it; echo replies have two rates of their
//! own. A rate that many share can tell one of them what the others do. For example, somebody off the path sends
//! packets with the source address of a resolver to many ports of a host, and then asks the host for errors about
//! packets of his own: the errors that are missing show how many of the ports were closed. So an error takes a random
//! part of the rates, by the whole rate nothing or four errors' worth. The limits are random each time: from half of the
//! burst to the whole burst, the chance of an error falls from one to zero. Prefixes share a fixed number of
//! allowances. A keyed hash chooses the allowance of a prefix, and the key changes at random times.

mod meter;
mod quote;

use core::net::Ipv6Addr;
use core::time::Duration;

use alloc::vec::Vec;
use moorline_ip::icmp::{self, Cause, Kind, UNKNOWN_OPTION};
use moorline_ip::ip6::{ICMPV6, IP6_LEN, Ip6};
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use crate::Drop;
use crate::chain::{Skim, skim};
use meter::Meter;
pub use quote::Quote;

/// Rates of the errors and echo replies that a host sends.
#[derive(Clone, Debug)]
pub struct Errors {
    limits: Limits,
    errors: Meter,
    echoes: Meter,
}

/// Limits of the errors and echo replies that a host sends.
//= rfc4443#2.4-7 rfc4443#3.1-5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Errors of the host.
    pub errors: Rate,
    /// Errors to one /64.
    pub errors_of_prefix: Rate,
    /// Echo replies of the host.
    pub echoes: Rate,
    /// Echo replies to one /64.
    pub echoes_of_prefix: Rate,
    /// Whether the host answers Echo Requests to a multicast address (RFC 4443 s4.2: it may).
    pub answers_multicast_echo: bool,
}

/// A rate of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Mean time between two messages.
    pub interval: Duration,
    /// Messages that may be sent at once, on average at most. Half of them are sent if each takes its mean part of the
    /// rate, and each of the others with a chance that falls.
    pub burst: u32,
}

/// An error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// Destination of the error: the source of the packet.
    pub destination: Ipv6Addr,
    /// Source address of the error, if the destination of the packet was a unicast address (RFC 4443 s2.2). For
    /// another packet, the host selects one.
    pub source: Option<Ipv6Addr>,
    /// The error.
    pub error: icmp::Error<'a>,
}

impl Errors {
    /// Creates full allowances, with keys from the generator.
    #[must_use]
    pub fn new(limits: Limits, random: ChaCha20Rng, now: Instant) -> Self {
        let mut echo_random = random.clone();
        echo_random.set_stream(ECHO_STREAM);
        Self {
            limits,
            errors: Meter::new(limits.errors, limits.errors_of_prefix, random, now),
            echoes: Meter::new(limits.echoes, limits.echoes_of_prefix, echo_random, now),
        }
    }

    /// Says which error the host sends about `packet`, which is as it came in or cut at its end. `is_link_multicast`:
    /// the frame had a multicast or broadcast address of the link.
    ///
    /// # Errors
    /// [`Drop::Truncated`], [`Drop::BadSource`], [`Drop::NoAnswer`], [`Drop::ErrorRate`]: the host sends no error.
    //= rfc4443#2.2-1 rfc4443#2.2-2 rfc4443#2.4-5
    pub fn report<'a>(
        &mut self,
        cause: Cause,
        packet: &'a [u8],
        is_link_multicast: bool,
        now: Instant,
    ) -> Result<Report<'a>, Drop> {
        let header = Ip6::read(packet).ok_or(Drop::Truncated)?;
        let packet = &packet[..header.octets(packet).min(packet.len())];
        check_source(header.source)?;
        let is_multicast = is_link_multicast || header.destination.is_multicast();
        if is_multicast && !is_for_multicast(cause, packet) || is_error_or_redirect(&header, packet)
        {
            return Err(Drop::NoAnswer);
        }
        self.errors.take(header.source, now)?;
        let source = Some(header.destination).filter(|address| !address.is_multicast());
        let error = icmp::Error { cause, quote: packet };
        Ok(Report { destination: header.source, source, error })
    }

    /// Says whether the rate allows an error to this address, whatever the error is.
    ///
    /// # Errors
    /// [`Drop::ErrorRate`]: it does not.
    pub fn allow_error(&mut self, to: Ipv6Addr, now: Instant) -> Result<(), Drop> {
        self.errors.take(to, now)
    }

    /// Says whether the host answers an Echo Request from `source` to `destination`.
    ///
    /// # Errors
    /// [`Drop::BadSource`], [`Drop::NoAnswer`], [`Drop::ErrorRate`]: the host does not.
    //= rfc4443#4.2-4
    pub fn allow_echo(
        &mut self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        now: Instant,
    ) -> Result<(), Drop> {
        check_source(source)?;
        if destination.is_multicast() && !self.limits.answers_multicast_echo {
            return Err(Drop::NoAnswer);
        }
        self.echoes.take(source, now)
    }
}

impl Report<'_> {
    /// Appends the ICMPv6 message to `out`, with the checksum for this source address.
    pub fn emit(&self, source: Ipv6Addr, out: &mut Vec<u8>) {
        self.error.emit(source, self.destination, out);
    }
}

impl Default for Limits {
    /// 1,000 errors a second with a burst of 50, 100 a second for a /64 with a burst of 25. 10,000 echo replies a
    /// second, 2,000 for a /64; both have a burst of 200.
    fn default() -> Self {
        let rate = |micros, burst| Rate { interval: Duration::from_micros(micros), burst };
        Self {
            errors: rate(1_000, 50),
            errors_of_prefix: rate(10_000, 25),
            echoes: rate(100, 200),
            echoes_of_prefix: rate(500, 200),
            answers_multicast_echo: false,
        }
    }
}

/// RFC 4443 s2.4 (e.6): a source address that does not uniquely identify a single node.
const fn check_source(source: Ipv6Addr) -> Result<(), Drop> {
    if source.is_unspecified() || source.is_multicast() {
        return Err(Drop::BadSource);
    }
    Ok(())
}

/// RFC 4443 s2.4 (e.3): Packet Too Big, and code 2 of Parameter Problem about an option with the highest bits 10.
fn is_for_multicast(cause: Cause, packet: &[u8]) -> bool {
    match cause {
        Cause::PacketTooBig(_) => true,
        Cause::ParameterProblem(UNKNOWN_OPTION, pointer) => {
            let option = usize::try_from(pointer).ok().and_then(|at| packet.get(at));
            option.is_some_and(|kind| kind >> 6 == REPORT_ALWAYS)
        }
        Cause::Unreachable(_)
        | Cause::TimeExceeded(_)
        | Cause::ParameterProblem(..)
        | Cause::Unknown(..) => false,
    }
}

/// RFC 4443 s2.4 (e.1), (e.2). A packet whose chain has too many headers could be an error too.
fn is_error_or_redirect(header: &Ip6, packet: &[u8]) -> bool {
    match skim(packet, header.next_header, IP6_LEN) {
        Skim::Upper { protocol: ICMPV6, at } => packet.get(at).is_some_and(|&kind| {
            let kind = Kind(kind);
            kind.is_error() || kind == Kind::REDIRECT
        }),
        Skim::TooLong => true,
        Skim::Upper { .. } | Skim::LaterFragment(_) | Skim::Truncated => false,
    }
}

const REPORT_ALWAYS: u8 = 0b10;
const ECHO_STREAM: u64 = 1;

#[cfg(test)]
mod tests;
