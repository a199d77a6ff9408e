use moorline_types::{ContextTag, DropReason};

/// Takes fields off the front of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self(octets)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DropReason> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(DropReason::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn octets(&mut self, len: usize) -> Result<&'a [u8], DropReason> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(DropReason::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DropReason> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DropReason> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DropReason> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn tag(&mut self) -> Result<ContextTag, DropReason> {
        self.array().map(ContextTag::from_octets)
    }

    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// Returns `contents` as an array. They must have exactly `N` octets.
pub(crate) fn exactly<const N: usize>(contents: &[u8]) -> Result<[u8; N], DropReason> {
    contents.try_into().map_err(|_| DropReason::BadLength)
}

/// `len` rounded up to whole 8-octet units.
pub(crate) const fn padded(len: usize) -> usize {
    len.next_multiple_of(8)
}
