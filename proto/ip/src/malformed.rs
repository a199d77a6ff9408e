use core::fmt;

/// Reason for which octets are no valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// The octets end before the message does.
    Truncated,
    /// The version is not the one of the header: 6, or 4.
    Version,
    /// A length field contradicts the message.
    Length,
    /// The checksum is wrong.
    Checksum,
    /// The hop limit is not the one that the message must have: a router has forwarded it.
    HopLimit,
    /// The code has no meaning for this type of message.
    Code,
    /// An address is not one that the message may have.
    Address,
    /// An option is not valid, or must not be in this message.
    Option,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the message is truncated",
            Self::Version => "the version of IP is wrong",
            Self::Length => "a length is wrong",
            Self::Checksum => "the checksum is wrong",
            Self::HopLimit => "the hop limit is wrong",
            Self::Code => "the code is unknown",
            Self::Address => "an address is wrong",
            Self::Option => "an option is wrong",
        })
    }
}

impl core::error::Error for Malformed {}
