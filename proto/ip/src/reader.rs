use core::net::Ipv6Addr;

use crate::Malformed;

/// Takes fields off the front of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn octets(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn address(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
