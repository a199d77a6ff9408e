use moorline_types::{Ilv, L64, Nid};

use crate::ip6::{DCCP, TCP, UDP, UDP_LITE};
use moorline_ip::{fold, upper_layer_checksum};

/// Difference between the checksums of a transport over two sets of locators. It changes a checksum without a look at
/// the packet (RFC 1624 eqn. 3).
///
/// A transport of ILNP leaves the locators out of its pseudo-header, as if they were zero (RFC 6741 s4.2). The
/// sockets of the kernel do not do so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumDelta(u16);

impl ChecksumDelta {
    /// Difference between a sum with the locators `from` and a sum with the locators `to`. Their order does not
    /// matter. Zero stands for a locator that is left out.
    #[must_use]
    pub fn new(from: [L64; 2], to: [L64; 2]) -> Self {
        Self::of(fold(u64::from(!sum(from)) + u64::from(sum(to))))
    }

    /// Difference between the checksum of a socket and the checksum on the wire, which leaves the locators out.
    #[must_use]
    pub fn to_nid_only(locators: [L64; 2]) -> Self {
        Self::new(locators, [L64(0); 2])
    }

    /// Difference when the identifier `to` replaces `from`.
    #[must_use]
    pub fn of_identifier(from: Nid, to: Nid) -> Self {
        Self::new([L64(from.0), L64(0)], [L64(to.0), L64(0)])
    }

    /// The opposite difference.
    #[must_use]
    pub const fn inverse(self) -> Self {
        Self::of(!self.0)
    }

    /// Number that is added to the sum; zero changes nothing.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// One's complement has two zeros; a difference has only one.
    const fn of(bits: u16) -> Self {
        Self(if bits == u16::MAX { 0 } else { bits })
    }

    /// The new value of the checksum field of `protocol`. A UDP or UDP-Lite packet without a checksum keeps none.
    #[must_use]
    pub fn apply(self, protocol: u8, field: u16) -> u16 {
        // RFC 768, RFC 3828 s3.1: zero means that there is no checksum.
        let can_be_none = matches!(protocol, UDP | UDP_LITE);
        if can_be_none && field == 0 {
            return 0;
        }
        match !fold(u64::from(!field) + u64::from(self.0)) {
            0 if can_be_none => 0xffff,
            sum => sum,
        }
    }
}

/// Checksum of a transport packet between two I-LVs. If their locators are zero, it is the checksum of ILNP. Over a
/// packet that contains its own checksum, the result is zero.
#[must_use]
pub fn transport_checksum(src: Ilv, dst: Ilv, protocol: u8, packet: &[u8]) -> u16 {
    upper_layer_checksum(src.address(), dst.address(), protocol, packet)
}

/// Offset of the checksum in a transport header; `None` if the transport is unknown, or its checksum covers no
/// pseudo-header.
#[must_use]
pub const fn checksum_at(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP | DCCP | UDP_LITE => Some(6),
        _ => None,
    }
}

fn sum([a, b]: [L64; 2]) -> u16 {
    fold(u64::from(fold_word(a.0)) + u64::from(fold_word(b.0)))
}

/// One's complement sum of the four 16-bit words.
fn fold_word(word: u64) -> u16 {
    fold((word >> 32) + (word & 0xffff_ffff))
}
