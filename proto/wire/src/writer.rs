use crate::checksum::fill_checksum;
use crate::consts::{CONTROL_HEADER_LEN, MAX_MESSAGE_LEN, MAX_OPTIONS, NEXT_HEADER_NONE};
use crate::option::OPTION_HEADER_LEN;
use crate::reader::padded;
use crate::{MessageType, Opt, Options};
use alloc::vec::Vec;

/// Builds a control message within the limits of the parser.
pub(crate) struct Writer {
    octets: Vec<u8>,
    complete: bool,
}

impl Writer {
    /// Starts a message with the fields from Next Header to Checksum. `code` goes into the 7 bits behind the type.
    pub(crate) fn new(kind: MessageType, code: u8) -> Self {
        let mut octets = Vec::with_capacity(TYPICAL_LEN);
        octets.extend([NEXT_HEADER_NONE, 0, kind.value(), code << 1, 0, 0]);
        Self { octets, complete: true }
    }

    #[must_use]
    pub(crate) fn field(mut self, octets: &[u8]) -> Self {
        self.octets.extend_from_slice(octets);
        self
    }

    /// Notes that a part was left out.
    pub(crate) const fn cut(&mut self) {
        self.complete = false;
    }

    /// Appends the options that fit, up to the first one that does not.
    #[must_use]
    pub(crate) fn options(mut self, options: &Options) -> Self {
        let mut contents = Vec::new();
        for (count, option) in options.iter().enumerate() {
            contents.clear();
            self.complete &= option.emit_contents(&mut contents);
            let total = padded(OPTION_HEADER_LEN + contents.len());
            match u16::try_from(contents.len()) {
                Ok(len)
                    if count < MAX_OPTIONS
                        && self.octets.len() + total <= MAX_MESSAGE_LEN
                        && contents.len() <= option.max_contents() =>
                {
                    self.option(option, len, &contents);
                }
                Ok(_) | Err(_) => {
                    self.complete = false;
                    break;
                }
            }
        }
        self
    }

    //= rfc5533#5.15-1 rfc5533#5.15-2 rfc5533#5.15-3
    fn option(&mut self, option: &Opt, len: u16, contents: &[u8]) {
        let type_and_critical = option.kind().value() << 1 | u16::from(option.has_critical_bit());
        self.octets.extend(type_and_critical.to_be_bytes());
        self.octets.extend(len.to_be_bytes());
        self.octets.extend_from_slice(contents);
        self.octets.resize(padded(self.octets.len()), 0);
    }

    /// Returns the message, with length and checksum, and whether it is complete.
    pub(crate) fn finish(mut self) -> (Vec<u8>, bool) {
        self.octets.resize(padded(self.octets.len()).max(2 * CONTROL_HEADER_LEN), 0);
        // The message has MAX_MESSAGE_LEN octets at most: 154 units behind the first.
        self.octets[1] = u8::try_from(self.octets.len() / 8 - 1).unwrap_or(u8::MAX);
        fill_checksum(&mut self.octets);
        (self.octets, self.complete)
    }
}

const TYPICAL_LEN: usize = 256;
