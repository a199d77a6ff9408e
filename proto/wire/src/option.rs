use crate::OptionType;
use crate::consts::MAX_OPTIONS;
use crate::reader::padded;
use moorline_types::DropReason;

/// An option of a message, not decoded (RFC 5533 s5.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Octets from the Next Header field of the message to the first octet of the option: a Pointer.
    pub offset: u16,
    /// Type without the critical bit.
    pub kind: OptionType,
    /// The C bit.
    pub critical: bool,
    /// Contents without padding.
    pub contents: &'a [u8],
}

/// Iterator over the options of a message. It ends after an error.
#[derive(Clone, Debug)]
pub struct OptionIter<'a> {
    octets: &'a [u8],
    offset: usize,
    count: usize,
}

impl<'a> OptionIter<'a> {
    /// `octets` begin `offset` octets into the message.
    pub(crate) const fn new(octets: &'a [u8], offset: usize) -> Self {
        Self { octets, offset, count: 0 }
    }

    fn take(&mut self) -> Result<RawOption<'a>, DropReason> {
        if self.count == MAX_OPTIONS {
            return Err(DropReason::TooMany);
        }
        let offset = u16::try_from(self.offset).map_err(|_| DropReason::BadLength)?;
        let (&[t0, t1, l0, l1], body) =
            self.octets.split_first_chunk().ok_or(DropReason::Truncated)?;
        let type_and_critical = u16::from_be_bytes([t0, t1]);
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        //= rfc5533#5.15-4
        let contents = body.get(..len).ok_or(DropReason::Truncated)?;
        let total = padded(OPTION_HEADER_LEN + len);
        self.octets = self.octets.get(total..).ok_or(DropReason::Truncated)?;
        self.offset += total;
        self.count += 1;
        Ok(RawOption {
            offset,
            kind: OptionType::new(type_and_critical >> 1),
            critical: type_and_critical & 1 != 0,
            contents,
        })
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<RawOption<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.octets.is_empty() {
            return None;
        }
        let item = self.take();
        if item.is_err() {
            self.octets = &[];
        }
        Some(item)
    }
}

/// Octets of Type, C and Length.
pub(crate) const OPTION_HEADER_LEN: usize = 4;
