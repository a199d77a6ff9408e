//! Initial sequence numbers (RFC 9293 s3.4.1, RFC 6528).
//!
//! `smoltcp` draws the number of a connection from a small generator (PCG) whose whole state is the seed of the interface: who knows
//! two numbers of one seed can compute the next ones. So each connection gets an interface with a seed of its own. The
//! seed is computed backwards from the number that RFC 9293 demands. A test shows that a SYN has that number: it
//! fails if `smoltcp` changes its generator.

use core::hash::Hasher as _;

use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use siphasher::sip::SipHasher24;

use super::super::{Flow, Seq};

/// Chooses initial sequence numbers.
pub(super) struct Isn {
    keyed: SipHasher24,
    rng: ChaCha20Rng,
}

impl Isn {
    pub(super) fn new(mut rng: ChaCha20Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self { keyed: SipHasher24::new_with_key(&key), rng }
    }

    /// The number of a connection: a clock of 4 microseconds plus a keyed hash of the flow (RFC 9293 s3.4.1, MUST-8, SHLD-1).
    pub(super) fn of(&self, flow: Flow, now: Instant) -> Seq {
        let mut hasher = self.keyed;
        for (address, port) in [flow.local, flow.peer] {
            hasher.write(&address.octets());
            hasher.write(&port.to_be_bytes());
        }
        let clock = now.as_nanos() / 4_000;
        low(hasher.finish().wrapping_add(clock))
    }

    /// A seed of an interface whose first socket draws this number.
    pub(super) fn seed(&mut self, isn: Seq) -> u64 {
        loop {
            // The generator outputs bits 29 to 60 of its state if bits 61 to 63 are zero. The low bits are free.
            let filler = self.rng.next_u64() & ((1 << SHIFT) - 1);
            let drawn = backwards(u64::from(isn.0) << SHIFT | filler);
            // The interface draws a number for IPv4 first, and again if 16 bits of it are zero.
            if first_16_bits(drawn) != 0 {
                return backwards(drawn);
            }
        }
    }
}

const fn low(number: u64) -> Seq {
    let [a, b, c, d, ..] = number.to_le_bytes();
    Seq(u32::from_le_bytes([a, b, c, d]))
}

/// The state of the generator before this one.
const fn backwards(state: u64) -> u64 {
    state.wrapping_sub(INCREMENT).wrapping_mul(INVERSE)
}

const fn first_16_bits(state: u64) -> u16 {
    let number = low(state >> (SHIFT - (state >> 61))).0;
    let [a, b, ..] = (number ^ number >> 16).to_le_bytes();
    u16::from_le_bytes([a, b])
}

/// The inverse of an odd number modulo 2^64, by Newton's method.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut bits = 3;
    while bits < 64 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

// Constants of the generator of smoltcp 0.14 (`rand.rs`).
const MULTIPLIER: u64 = 0xbb2e_fcec_3c39_611d;
const INCREMENT: u64 = 0x7590_ef39;
const SHIFT: u64 = 29;
const INVERSE: u64 = inverse(MULTIPLIER);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv6Addr;
    use core::time::Duration;
    use rand_core::SeedableRng as _;

    fn flow(port: u16) -> Flow {
        Flow { local: (Ipv6Addr::LOCALHOST, port), peer: (Ipv6Addr::LOCALHOST, 80) }
    }

    fn isn(seed: u64) -> Isn {
        Isn::new(ChaCha20Rng::seed_from_u64(seed))
    }

    #[test]
    fn the_multiplier_times_its_inverse_is_one() {
        assert_eq!(MULTIPLIER.wrapping_mul(INVERSE), 1);
    }

    #[test]
    fn the_number_of_a_flow_counts_up_every_4_microseconds() {
        let isn = isn(1);
        let at = |micros| isn.of(flow(1), Instant::ZERO + Duration::from_micros(micros));
        assert_eq!(at(3), at(0));
        assert_eq!(at(4).since(at(0)), 1);
        assert_eq!(at(1_000_000).since(at(0)), 250_000);
    }

    #[test]
    fn numbers_of_other_flows_and_seeds_are_unrelated() {
        // RFC 6528 s3: the offset between flows must not be computable without the key.
        let offset = |seed| {
            let isn = isn(seed);
            isn.of(flow(1), Instant::ZERO).since(isn.of(flow(2), Instant::ZERO))
        };
        let mut offsets: alloc::vec::Vec<u32> = (0..100).map(offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 100);
    }
}
