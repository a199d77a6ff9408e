mod older;

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::{DropReason, L64};

use super::consts::{LOCATOR_UPDATE, MAX_UPDATE_LOCATORS};
use super::icmp;
use crate::fill_icmp_checksum;
use crate::numbers::number_space;
use crate::reader::Reader;

pub use older::OlderLocatorUpdate;

number_space! {
    /// Operation of a Locator Update (RFC 6743 s2).
    Operation(u8, 0xff, "operation") {
        /// The message lists the locators of its sender.
        ADVERTISEMENT = 1, "advertisement";
        /// The message acknowledges such a list.
        ACKNOWLEDGEMENT = 2, "acknowledgement";
    }
}

/// A locator with its preference and its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct L64Entry {
    /// Preference; lower is better (RFC 6742 s2.3.1.1).
    pub preference: u16,
    /// The locator.
    pub l64: L64,
    /// Seconds for which the locator counts as valid.
    pub lifetime: u16,
}

/// ICMPv6 Locator Update: all locators that are valid now (RFC 6743 s4), or the acknowledgement of such a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorUpdate {
    /// Advertisement or acknowledgement.
    pub operation: Operation,
    /// Locators in the order of the sender. An acknowledgement has the locators of the advertisement.
    pub locators: Vec<L64Entry>,
}

impl LocatorUpdate {
    /// Reads an ICMPv6 message of type 156, from a packet with these addresses.
    ///
    /// The Operation may be unknown.
    ///
    /// # Errors
    /// [`DropReason::UnknownType`] if it is another message; [`DropReason::Truncated`]; [`DropReason::BadLength`] if
    /// octets follow the locators; [`DropReason::BadAddress`], [`DropReason::BadChecksum`]; [`DropReason::BadFormat`]
    /// if there is no locator, or if the code is not zero.
    //= rfc6743#2-3
    pub fn parse(octets: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, DropReason> {
        let mut reader = Reader::new(octets);
        let [kind, code, _, _] = reader.array()?;
        if kind != LOCATOR_UPDATE {
            return Err(DropReason::UnknownType);
        }
        let [count, operation, _reserved, _] = reader.array()?;
        let (entries, rest) = reader.rest().as_chunks::<ENTRY_LEN>();
        let count = usize::from(count);
        if entries.len() < count {
            return Err(DropReason::Truncated);
        }
        if entries.len() > count || !rest.is_empty() {
            return Err(DropReason::BadLength);
        }
        icmp::check(octets, src, dst)?;
        if code != 0 || count == 0 {
            return Err(DropReason::BadFormat);
        }
        let locators = entries.iter().map(|entry| L64Entry::read(*entry)).collect();
        Ok(Self { operation: Operation::new(operation), locators })
    }

    /// Octets of the ICMPv6 message, for a packet with these addresses. Locators beyond [`MAX_UPDATE_LOCATORS`] are
    /// left out.
    //= rfc6743#2-3 rfc6743#2-4
    #[must_use]
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let locators = self.locators.get(..MAX_UPDATE_LOCATORS).unwrap_or(&self.locators);
        let count = u8::try_from(locators.len()).unwrap_or(u8::MAX);
        let mut octets = Vec::with_capacity(HEADER_LEN + locators.len() * ENTRY_LEN);
        octets.extend([LOCATOR_UPDATE, 0, 0, 0, count, self.operation.value(), 0, 0]);
        for entry in locators {
            octets.extend(entry.l64.octets());
            octets.extend(entry.preference.to_be_bytes());
            octets.extend(entry.lifetime.to_be_bytes());
        }
        fill_icmp_checksum(&mut octets, src, dst);
        octets
    }

    /// The acknowledgement of this message: "identical to the received Advertisement message body, except for the
    /// Operation value" (RFC 6743 s2).
    #[must_use]
    pub fn acknowledgement(&self) -> Self {
        Self { operation: Operation::ACKNOWLEDGEMENT, locators: self.locators.clone() }
    }
}

impl L64Entry {
    fn read([a, b, c, d, e, f, g, h, p0, p1, l0, l1]: [u8; ENTRY_LEN]) -> Self {
        Self {
            l64: L64::from([a, b, c, d, e, f, g, h]),
            preference: u16::from_be_bytes([p0, p1]),
            lifetime: u16::from_be_bytes([l0, l1]),
        }
    }
}

const HEADER_LEN: usize = 8;
const ENTRY_LEN: usize = 12;
