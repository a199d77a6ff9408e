use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher as _;
use core::net::Ipv6Addr;

use moorline_ip::address::party;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use siphasher::sip::SipHasher24;

/// Identifications of fragmented packets, by the algorithm of RFC 7739 s5.3.
///
/// A keyed hash of source and destination gives the first value of a pair of addresses, so nobody off the path can
/// predict the values. A counter that some prefixes of destinations share is added, so a pair uses no value again
/// before 2^32 packets of these prefixes. There is no state that strangers can fill.
//= rfc7739#5.3
#[derive(Clone)]
pub struct Identifications {
    random: ChaCha20Rng,
    pair: SipHasher24,
    prefix: SipHasher24,
    /// Empty until the first packet.
    counters: Vec<u32>,
}

impl Identifications {
    /// Creates the keys from the generator.
    #[must_use]
    pub fn new(mut random: ChaCha20Rng) -> Self {
        let mut keyed = || SipHasher24::new_with_keys(random.next_u64(), random.next_u64());
        let (pair, prefix) = (keyed(), keyed());
        Self { random, pair, prefix, counters: Vec::new() }
    }

    /// The Identification of one more packet from `source` to `destination`. If the packet has a Routing header, that
    /// is its final destination.
    //= rfc8504#5.1-9
    //= rfc8200#4.5-2
    pub fn next(&mut self, source: Ipv6Addr, destination: Ipv6Addr) -> u32 {
        if self.counters.is_empty() {
            self.counters.extend((0..COUNTERS).map(|_| self.random.next_u32()));
        }
        let offset = low_half(hash(self.pair, source, destination.to_bits()));
        let prefix = u128::from(party(destination));
        let index = low_half(hash(self.prefix, source, prefix)) % COUNTERS;
        let index = usize::try_from(index).unwrap_or_default();
        let Some(counter) = self.counters.get_mut(index) else { return offset };
        *counter = counter.wrapping_add(1);
        offset.wrapping_add(*counter)
    }
}

/// Shows neither keys nor counters.
impl fmt::Debug for Identifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identifications").finish_non_exhaustive()
    }
}

fn hash(mut keyed: SipHasher24, source: Ipv6Addr, destination: u128) -> u64 {
    keyed.write(&source.octets());
    keyed.write(&destination.to_be_bytes());
    keyed.finish()
}

fn low_half(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}

/// Number of counters (RFC 7739 s5.3: 8K or more); they take 32 KB.
const COUNTERS: u32 = 8192;
