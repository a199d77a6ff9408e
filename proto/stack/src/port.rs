//! Ephemeral ports that nobody off the path can guess (RFC 6056).
//!
//! A connected socket gets its port by the double-hash algorithm (RFC 6056 s3.3.4). A hash of the addresses and the
//! peer's port chooses the start of the search, so that one peer learns nothing about the ports towards another one. A second hash
//! chooses a counter, so that the ports towards one peer come around late. A socket without a peer gets a random port (RFC
//! 6056 s3.3.1). Both algorithms then pass over ports that are not free.

use core::hash::Hasher as _;
use core::net::Ipv6Addr;
use core::ops::RangeInclusive;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use siphasher::sip::SipHasher24;

/// Chooses ephemeral ports.
pub struct Ports {
    range: RangeInclusive<u16>,
    /// F of RFC 6056 s3.3.4: where the search starts.
    offset: SipHasher24,
    /// G of RFC 6056 s3.3.4: which counter applies.
    index: SipHasher24,
    table: [u16; TABLE_LENGTH],
    rng: ChaCha20Rng,
}

impl Ports {
    /// Creates a chooser for ports in [`EPHEMERAL`].
    #[must_use]
    pub fn new(rng: ChaCha20Rng) -> Self {
        Self::in_range(EPHEMERAL, rng)
    }

    /// Creates a chooser for ports in `range`. An empty range yields no port.
    #[must_use]
    pub fn in_range(range: RangeInclusive<u16>, mut rng: ChaCha20Rng) -> Self {
        let [offset, index] = core::array::from_fn(|_| keyed(&mut rng));
        // RFC 6056 s3.3.4: the counters start at random values.
        let table = core::array::from_fn(|_| random_u16(&mut rng));
        Self { range, offset, index, table, rng }
    }

    /// Chooses a port for a socket with this local address and this peer. `is_free` says whether the socket could have
    /// a port; it should answer in less than linear time, as it is asked up to once for each port of the range.
    /// Returns `None` if no port is free.
    pub fn for_peer(
        &mut self,
        local: Ipv6Addr,
        peer: Ipv6Addr,
        peer_port: u16,
        mut is_free: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let [offset, index] =
            [&self.offset, &self.index].map(|hasher| hash(hasher, local, peer, peer_port));
        let counter = usize::from(index) % TABLE_LENGTH;
        for _ in 0..self.len() {
            let at = u32::from(offset) + u32::from(self.table[counter]);
            self.table[counter] = self.table[counter].wrapping_add(1);
            if let Some(port) = self.nth(at).filter(|&port| is_free(port)) {
                return Some(port);
            }
        }
        None
    }

    /// Chooses a port for a socket without a peer. See [`Self::for_peer`] for `is_free`.
    pub fn random(&mut self, mut is_free: impl FnMut(u16) -> bool) -> Option<u16> {
        let start = self.rng.next_u32() >> 1;
        (0..self.len()).filter_map(|at| self.nth(start + at)).find(|&port| is_free(port))
    }

    fn len(&self) -> u32 {
        u32::try_from(self.range.len()).unwrap_or_default()
    }

    fn nth(&self, at: u32) -> Option<u16> {
        let offset = u16::try_from(at.checked_rem(self.len())?).ok()?;
        self.range.start().checked_add(offset)
    }
}

fn keyed(rng: &mut ChaCha20Rng) -> SipHasher24 {
    let mut key = [0; 16];
    rng.fill_bytes(&mut key);
    SipHasher24::new_with_key(&key)
}

fn random_u16(rng: &mut ChaCha20Rng) -> u16 {
    let mut octets = [0; 2];
    rng.fill_bytes(&mut octets);
    u16::from_le_bytes(octets)
}

fn hash(hasher: &SipHasher24, local: Ipv6Addr, peer: Ipv6Addr, peer_port: u16) -> u16 {
    let mut hasher = *hasher;
    hasher.write(&local.octets());
    hasher.write(&peer.octets());
    hasher.write(&peer_port.to_be_bytes());
    let [low, high, ..] = hasher.finish().to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// The dynamic ports of RFC 6335 s6.
pub const EPHEMERAL: RangeInclusive<u16> = 49_152..=65_535;
/// Counters of the double-hash algorithm (RFC 6056 s3.3.4 proposes 10).
const TABLE_LENGTH: usize = 16;

#[cfg(test)]
mod tests;
