use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{DropReason, Ilv, L64};

use super::{L64Entry, LocatorUpdate, Operation};
use crate::fill_icmp_checksum;
use crate::ilnp::consts::LOCATOR_UPDATE;
use crate::ilnp::icmp;
use crate::reader::Reader;

/// Locator Update in the older form of the St Andrews kernel (decision 152): 24 octets with one locator.
///
/// Preference and lifetime have 32 bits each and are little-endian. The checksum covers the identifiers: its
/// pseudo-header has zeros in place of the locators of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderLocatorUpdate {
    /// Advertisement or acknowledgement.
    pub operation: Operation,
    /// The locator.
    pub l64: L64,
    /// Preference; lower is better.
    pub preference: u32,
    /// Seconds for which the locator counts as valid.
    pub lifetime: u32,
}

impl OlderLocatorUpdate {
    /// Whether an ICMPv6 message has the length of this form. By RFC 6743, a message with one locator has 20 octets,
    /// and no number of locators makes 24.
    #[must_use]
    pub const fn is_it(octets: &[u8]) -> bool {
        octets.len() == LEN
    }

    /// Reads an ICMPv6 message of type 156, from a packet with these addresses.
    ///
    /// # Errors
    /// [`DropReason::UnknownType`] if it is another message; [`DropReason::Truncated`] and [`DropReason::BadLength`]
    /// if it does not have 24 octets; [`DropReason::BadAddress`], [`DropReason::BadChecksum`];
    /// [`DropReason::BadFormat`] if the code is not zero, or the number of locators is not one.
    pub fn parse(octets: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, DropReason> {
        let mut reader = Reader::new(octets);
        let [kind, code, _, _] = reader.array()?;
        if kind != LOCATOR_UPDATE {
            return Err(DropReason::UnknownType);
        }
        let [count, operation, _reserved, _] = reader.array()?;
        let l64 = L64::from(reader.array()?);
        let preference = u32::from_le_bytes(reader.array()?);
        let lifetime = u32::from_le_bytes(reader.array()?);
        if !reader.rest().is_empty() {
            return Err(DropReason::BadLength);
        }
        icmp::check_addresses(src, dst)?;
        icmp::check_sum(octets, without_locator(src), without_locator(dst))?;
        if code != 0 || count != 1 {
            return Err(DropReason::BadFormat);
        }
        Ok(Self { operation: Operation::new(operation), l64, preference, lifetime })
    }

    /// Octets of the ICMPv6 message, for a packet with these addresses.
    #[must_use]
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut octets = Vec::with_capacity(LEN);
        octets.extend([LOCATOR_UPDATE, 0, 0, 0, 1, self.operation.value(), 0, 0]);
        octets.extend(self.l64.octets());
        octets.extend(self.preference.to_le_bytes());
        octets.extend(self.lifetime.to_le_bytes());
        fill_icmp_checksum(&mut octets, without_locator(src), without_locator(dst));
        octets
    }

    /// The acknowledgement of this message: only the Operation differs, as RFC 6743 s2 says about its own form.
    #[must_use]
    pub const fn acknowledgement(&self) -> Self {
        Self { operation: Operation::ACKNOWLEDGEMENT, ..*self }
    }

    /// The same update in the form of RFC 6743. If a preference or lifetime has no room there, the largest value
    /// replaces it.
    #[must_use]
    pub fn update(&self) -> LocatorUpdate {
        let [preference, lifetime] =
            [self.preference, self.lifetime].map(|value| u16::try_from(value).unwrap_or(u16::MAX));
        let locators = Vec::from([L64Entry { preference, l64: self.l64, lifetime }]);
        LocatorUpdate { operation: self.operation, locators }
    }
}

/// Address with the identifier in its place, and zeros in place of the locator.
fn without_locator(address: Ipv6Addr) -> Ipv6Addr {
    Ilv::new(L64(0), Ilv::of(address).nid).address()
}

const LEN: usize = 24;
