use core::time::Duration;

/// Bits of the packet mark (`SO_MARK`) that hold the path index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMark {
    /// Mask of these bits; the lowest one is the lowest bit of the index. Without bits, marks choose no path.
    pub mask: u32,
}

impl PathMark {
    /// The path index in a mark.
    #[must_use]
    pub fn index(self, mark: u32) -> u32 {
        (mark & self.mask).checked_shr(self.mask.trailing_zeros()).unwrap_or(0)
    }
}

impl Default for PathMark {
    /// The lowest five bits: the mark is the index.
    fn default() -> Self {
        Self { mask: 0x1f }
    }
}

/// Counters of a context since it took its current pair, or since [`congestion`] was asked for.
///
/// [`congestion`]: super::ContextEntry::congestion
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Payload packets received.
    pub received: u64,
    /// Of these, packets with Congestion Experienced (RFC 3168 s5): the path to us is congested.
    pub ce: u64,
    /// TCP segments other than SYNs received with ECN-Echo: the path to the peer was congested (RFC 3168 s6.1).
    pub ece: u64,
    /// TCP segments other than SYNs sent with Congestion Window Reduced: our TCP has slowed down for congestion.
    pub cwr: u64,
    /// TCP segments with data, SYN or FIN sent.
    pub segments: u64,
    /// Of these, segments that had been sent before.
    pub retransmissions: u64,
    /// Smoothed round trip time of TCP (RFC 6298 s2), to the acknowledgement of one segment at a time; `None`: not
    /// known yet.
    pub rtt: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_where_the_mask_is() {
        for (mask, mark, index) in
            [(0x1f, 0x23, 3), (0x1f00_0000, 0x0200_ffff, 2), (0, 7, 0), (u32::MAX, 9, 9)]
        {
            assert_eq!(PathMark { mask }.index(mark), index, "{mask:#x} {mark:#x}");
        }
    }
}
