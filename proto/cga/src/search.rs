//! The search for a modifier (RFC 3972 s4 steps 2 and 3, RFC 5535 s6 steps 3 and 4).

use crate::{Sec, hash::MODIFIER_LEN};
use alloc::{vec, vec::Vec};
use moorline_wire::consts::CGA_FIXED_LEN;
use sha1::block_api::compress;

/// The input of Hash2, padded as SHA-1 wants it, so that a try is one store and the compressions.
///
/// The modifier comes first, hence no part of the hash can be taken once for all tries.
pub(crate) struct Hash2Blocks(Vec<[u8; BLOCK]>);

impl Hash2Blocks {
    /// `tail` is the public key and the extensions.
    pub(crate) fn new(tail: &[u8]) -> Self {
        // Prefix and collision count are zero in Hash2.
        let message = CGA_FIXED_LEN + tail.len();
        let mut blocks = vec![[0; BLOCK]; (message + SHA1_PADDING).div_ceil(BLOCK)];
        let octets = blocks.as_flattened_mut();
        octets[CGA_FIXED_LEN..message].copy_from_slice(tail);
        octets[message] = 0x80;
        let bits = 8 * message as u64;
        let length_at = octets.len() - size_of_val(&bits);
        octets[length_at..].copy_from_slice(&bits.to_be_bytes());
        Self(blocks)
    }

    /// The first modifier from `start` on that fits, within `max_tries`; else the first not tried.
    pub(crate) fn search(&mut self, start: u128, sec: Sec, max_tries: u64) -> Result<u128, u128> {
        let zero_bits = sec.hash2_zero_bits();
        let mut modifier = start;
        for _ in 0..max_tries {
            if self.zero_bits(modifier) >= zero_bits {
                return Ok(modifier);
            }
            modifier = modifier.wrapping_add(1);
        }
        Err(modifier)
    }

    fn zero_bits(&mut self, modifier: u128) -> u32 {
        self.0[0][..MODIFIER_LEN].copy_from_slice(&modifier.to_be_bytes());
        let mut state = SHA1_START;
        compress(&mut state, &self.0);
        let [a, b, c, d, _] = state.map(u128::from);
        (a << 96 | b << 64 | c << 32 | d).leading_zeros()
    }
}

/// Octets of a SHA-1 block.
const BLOCK: usize = 64;
/// Least padding: the end mark and the length.
const SHA1_PADDING: usize = 9;
/// FIPS 180-4 s5.3.1.
const SHA1_START: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
