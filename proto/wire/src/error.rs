use moorline_types::DropReason;

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Ends before its own length says.
    #[error("ends before its own length says")]
    Truncated,
    /// A length field contradicts the rest.
    #[error("a length field contradicts the rest")]
    BadLength,
    /// Checksum wrong.
    #[error("wrong checksum")]
    BadChecksum,
    /// A field has a value that its specification forbids.
    #[error("a field has a forbidden value")]
    BadFormat,
    /// Source or destination is multicast or unspecified.
    #[error("multicast or unspecified address")]
    BadAddress,
    /// Control message of a type we do not know.
    #[error("unknown message type")]
    UnknownType,
    /// More options, locators, prefixes or octets than the cap.
    #[error("more than the cap")]
    TooMany,
    /// Something stands twice that may stand once.
    #[error("stands twice")]
    Duplicate,
}

impl From<WireError> for DropReason {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Truncated => Self::Truncated,
            WireError::BadLength => Self::BadLength,
            WireError::BadChecksum => Self::BadChecksum,
            WireError::BadFormat => Self::BadFormat,
            WireError::BadAddress => Self::BadAddress,
            WireError::UnknownType => Self::UnknownType,
            WireError::TooMany => Self::TooMany,
            WireError::Duplicate => Self::DuplicateOption,
        }
    }
}
