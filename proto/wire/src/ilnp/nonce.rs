use alloc::vec::Vec;

use moorline_types::{DropReason, Nonce};

use super::consts::MAX_OPTIONS;

/// Type of the Nonce option (RFC 6744 s2). By its upper bits, a host that does not know the option drops the packet
/// and reports it.
pub const NONCE_OPTION: u8 = 0x8b;

/// A Destination Options header with a nonce, as Moorline sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonceHeader {
    /// Protocol number of the header behind this one.
    pub next_header: u8,
    /// Nonce of this direction.
    pub nonce: Nonce,
    /// Number of the Locator Update in the packet (decision 072).
    pub sequence: Option<u32>,
}

impl NonceHeader {
    /// Length of the header in octets: 8 or 16, and 8 more with a sequence number.
    #[must_use]
    pub const fn wire_len(&self) -> usize {
        let sequence = if self.sequence.is_some() { SEQUENCE_LEN } else { 0 };
        OPTIONS_AT + OPTION_HEADER_LEN + self.nonce.octets().len() + sequence
    }

    /// Octets of the header. The Nonce option is the first option, as the others have to follow it. It is aligned
    /// without padding for both lengths.
    //= rfc6744#2-4 rfc6744#2-5 rfc6744#2-6
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let nonce = self.nonce.octets();
        let mut octets = Vec::with_capacity(self.wire_len());
        // The header has 24 octets at most, and nonces have 4 or 12: both fit into an octet.
        let units = u8::try_from(self.wire_len() / 8 - 1).unwrap_or(u8::MAX);
        octets.extend([self.next_header, units, NONCE_OPTION]);
        octets.push(u8::try_from(nonce.len()).unwrap_or(u8::MAX));
        octets.extend_from_slice(nonce);
        if let Some(sequence) = self.sequence {
            octets.extend(SEQUENCE_OPTION);
            octets.extend(sequence.to_be_bytes());
        }
        octets
    }
}

/// A received Destination Options header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionsHeader {
    /// Protocol number of the header behind this one.
    pub next_header: u8,
    /// Octets of the header.
    pub len: usize,
    /// The nonce, if the header has one.
    pub nonce: Option<Nonce>,
    /// Number of the Locator Update in the packet (decision 072).
    pub sequence: Option<u32>,
    /// Whether the header has options that are neither ours nor padding. Then the header must stay in the packet.
    pub has_others: bool,
    /// Whether a host that does not know one of these options discards the packet (RFC 8200 s4.2).
    pub is_refused: bool,
    /// Offset of the Nonce option in the header; 0 if there is none.
    nonce_at: usize,
}

impl OptionsHeader {
    /// Reads the header at the start of `octets`. The rest of the packet follows it.
    ///
    /// # Errors
    /// [`DropReason::Truncated`]; [`DropReason::BadLength`] if an option exceeds the header, or if a nonce has
    /// neither 32 nor 96 bits; [`DropReason::DuplicateOption`] if there are two nonces (RFC 6744 s2: discard as
    /// "Authentication Failed"); [`DropReason::TooMany`] if there are more than [`MAX_OPTIONS`] options.
    #[inline]
    pub fn parse(octets: &[u8]) -> Result<Self, DropReason> {
        let &[next_header, units] = octets.first_chunk().ok_or(DropReason::Truncated)?;
        let len = (usize::from(units) + 1) * 8;
        let header = octets.get(..len).ok_or(DropReason::Truncated)?;
        let mut found = Self {
            next_header,
            len,
            nonce: None,
            sequence: None,
            has_others: false,
            is_refused: false,
            nonce_at: 0,
        };
        let mut at = OPTIONS_AT;
        for _ in 0..MAX_OPTIONS {
            let Some(&kind) = header.get(at) else { break };
            if kind == PAD1 {
                at += 1;
                continue;
            }
            let option_len = *header.get(at + 1).ok_or(DropReason::BadLength)?;
            let start = at + OPTION_HEADER_LEN;
            let end = start + usize::from(option_len);
            let contents = header.get(start..end).ok_or(DropReason::BadLength)?;
            found.take(kind, contents, at)?;
            at = end;
        }
        if at < len { Err(DropReason::TooMany) } else { Ok(found) }
    }

    /// Replaces the Nonce option in the header at the start of `octets` by an option that every host skips. Padding
    /// does not serve: Linux drops a packet with more than 7 octets of padding in a row.
    pub fn void_nonce(&self, octets: &mut [u8]) {
        let Some(nonce) = self.nonce else { return };
        let len = OPTION_HEADER_LEN + nonce.octets().len();
        if let Some([kind, _, contents @ ..]) = octets.get_mut(self.nonce_at..self.nonce_at + len) {
            *kind = EXPERIMENTAL;
            contents.fill(0);
        }
    }

    //= rfc6744#2-1 rfc6744#2-6
    fn take(&mut self, kind: u8, contents: &[u8], at: usize) -> Result<(), DropReason> {
        match (kind, contents) {
            (NONCE_OPTION, nonce) => {
                let nonce = Nonce::from_octets(nonce).ok_or(DropReason::BadLength)?;
                if self.nonce.replace(nonce).is_some() {
                    return Err(DropReason::DuplicateOption);
                }
                self.nonce_at = at;
            }
            (EXPERIMENTAL, &[m, l, a, b, c, d]) if [m, l] == MAGIC => {
                if self.sequence.replace(u32::from_be_bytes([a, b, c, d])).is_some() {
                    return Err(DropReason::DuplicateOption);
                }
            }
            (PADN, _) => {}
            _ => {
                self.has_others = true;
                self.is_refused |= kind & REFUSED != 0;
            }
        }
        Ok(())
    }
}

/// Bits of an option type. If a host does not know the option: 0 means that it skips the option, any other value that
/// it discards the packet (RFC 8200 s4.2).
const REFUSED: u8 = 0xc0;

/// Octets in front of the first option.
const OPTIONS_AT: usize = 2;
/// Octets of an option in front of its contents.
const OPTION_HEADER_LEN: usize = 2;
const PAD1: u8 = 0;
const PADN: u8 = 1;
/// Option type for experiments (RFC 4727 s4). A host that does not know the option skips it.
const EXPERIMENTAL: u8 = 0x1e;
/// First octets of the contents, which tell the experiment of Moorline from others.
const MAGIC: [u8; 2] = *b"ML";
const SEQUENCE_OPTION: [u8; 4] = [EXPERIMENTAL, 6, MAGIC[0], MAGIC[1]];
/// Octets of the option with the sequence number.
const SEQUENCE_LEN: usize = 8;
