use alloc::vec::Vec;

use moorline_ip::PacketBuf;

/// Memory of large packets that are over, for those that come: at most [`MAX_SPARES`] pieces, each for a packet of [`LARGEST`] octets.
///
/// To fill new memory with zeros takes as long as to copy a packet.
#[derive(Debug, Default)]
pub struct Spares(Vec<PacketBuf>);

impl Spares {
    /// Takes the memory of a packet that is over. Memory for less than [`LARGEST`] octets goes, and so does memory above the limit.
    pub fn give(&mut self, spent: PacketBuf) {
        let is_fit = (LARGEST..=2 * LARGEST).contains(&spent.capacity());
        if is_fit && self.0.len() < MAX_SPARES {
            self.0.push(spent);
        }
    }

    /// Memory with a packet of before, if there is any.
    #[must_use]
    pub fn take(&mut self) -> Option<PacketBuf> {
        self.0.pop()
    }

    /// Memory for a packet of [`LARGEST`] octets.
    #[must_use]
    pub fn take_or_new(&mut self) -> PacketBuf {
        self.take().unwrap_or_else(|| PacketBuf::with_capacity(LARGEST))
    }
}

/// Pieces of memory that wait at most. A window of the default size has five segments of [`LARGEST`] octets.
pub const MAX_SPARES: usize = 8;
/// Octets of the largest packet, with the IPv6 header.
pub const LARGEST: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_comes_again_and_no_more_than_the_limit() {
        let mut spares = Spares::default();
        assert!(spares.take().is_none());
        for octets in [LARGEST - 1, 3 * LARGEST] {
            spares.give(PacketBuf::with_capacity(octets));
        }
        assert!(spares.take().is_none(), "too small, or too large to wait");
        for _ in 0..=MAX_SPARES {
            spares.give(PacketBuf::with_capacity(LARGEST));
        }
        assert_eq!(core::iter::from_fn(|| spares.take()).count(), MAX_SPARES);
        assert!(spares.take_or_new().capacity() >= LARGEST);
    }
}
