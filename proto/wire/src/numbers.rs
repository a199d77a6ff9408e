/// Defines a number space as a struct with constants, so that unknown values survive a round trip. The text of an
/// unknown value is its number, behind a word if there is one.
macro_rules! number_space {
    ($(#[$doc:meta])* $name:ident($int:ty, $mask:expr $(, $word:literal)?) {
        $($(#[$item:meta])* $constant:ident = $value:expr, $text:literal;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($int);

        impl $name {
            $($(#[$item])* pub const $constant: Self = Self($value);)*

            /// All values that have a name.
            pub const KNOWN: &'static [Self] = &[$(Self::$constant,)*];

            /// Creates a value from its number. Bits that the field does not have are cut off.
            #[must_use]
            pub const fn new(value: $int) -> Self {
                Self(value & $mask)
            }

            /// The number.
            #[must_use]
            pub const fn value(self) -> $int {
                self.0
            }

            /// Whether the value has a name here.
            #[must_use]
            pub fn is_known(self) -> bool {
                Self::KNOWN.contains(&self)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Self::$constant => f.write_str($text),)*
                    Self(other) => write!(f, concat!($($word, " ",)? "{}"), other),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    };
}
pub(crate) use number_space;

number_space! {
    /// Type of a control message, 7 bits (RFC 5533 s5.3, table 1).
    MessageType(u8, 0x7f) {
        /// First message of the initiator.
        I1 = 1, "I1";
        /// First message of the responder.
        R1 = 2, "R1";
        /// Second message of the initiator.
        I2 = 3, "I2";
        /// Second message of the responder.
        R2 = 4, "R2";
        /// Answer to a reference to a context that does not exist.
        R1BIS = 5, "R1bis";
        /// Answer to R1bis.
        I2BIS = 6, "I2bis";
        /// New locators or preferences.
        UPDATE_REQUEST = 64, "Update Request";
        /// Answer to Update Request.
        UPDATE_ACK = 65, "Update Acknowledgement";
        /// Answer to payload when there is no payload to send (RFC 5534 s5.1).
        KEEPALIVE = 66, "Keepalive";
        /// Explores pairs of addresses (RFC 5534 s5.2).
        PROBE = 67, "Probe";
        /// The sender could not process a critical part of a message.
        ERROR = 68, "Error";
    }
}

impl MessageType {
    /// Octets before reports and options; `None` if the type is unknown.
    pub(crate) const fn fixed_len(self) -> Option<usize> {
        match self {
            Self::I2 => Some(24),
            Self::I2BIS => Some(32),
            Self::I1
            | Self::R1
            | Self::R2
            | Self::R1BIS
            | Self::UPDATE_REQUEST
            | Self::UPDATE_ACK
            | Self::KEEPALIVE
            | Self::PROBE
            | Self::ERROR => Some(16),
            Self(_) => None,
        }
    }

    /// Whether the option is listed for this type of message (RFC 5533 s5.4-5.11, RFC 5534 s5.3).
    ///
    /// A receiver treats any other option as unknown (RFC 5533 s5.15).
    #[must_use]
    pub const fn lists(self, option: OptionType) -> bool {
        match option {
            OptionType::RESPONDER_VALIDATOR => {
                matches!(self, Self::R1 | Self::I2 | Self::R1BIS | Self::I2BIS)
            }
            OptionType::ULID_PAIR | OptionType::FORKED_INSTANCE => {
                matches!(self, Self::I1 | Self::I2 | Self::I2BIS)
            }
            OptionType::LOCATOR_LIST
            | OptionType::LOCATOR_PREFERENCES
            | OptionType::CGA_PARAMETERS
            | OptionType::CGA_SIGNATURE
            | OptionType::KEEPALIVE_TIMEOUT
            | OptionType::SEND_TIMEOUT_MILLIS => {
                matches!(self, Self::I2 | Self::R2 | Self::I2BIS | Self::UPDATE_REQUEST)
            }
            OptionType::SOURCE => matches!(self, Self::I1 | Self::R1),
            OptionType::CHECK => matches!(self, Self::PROBE),
            OptionType(_) => false,
        }
    }
}

number_space! {
    /// Type of an option, 15 bits, without the critical bit (RFC 5533 s5.15, table 3).
    OptionType(u16, 0x7fff) {
        /// Proof that the I2 or I2bis answers our R1 or R1bis.
        RESPONDER_VALIDATOR = 1, "Responder Validator";
        /// All locators of the sender.
        LOCATOR_LIST = 2, "Locator List";
        /// Flags, priority and weight for each locator of the list.
        LOCATOR_PREFERENCES = 3, "Locator Preferences";
        /// CGA Parameters data structure.
        CGA_PARAMETERS = 4, "CGA Parameter Data Structure";
        /// Signature over the locators that CGA verifies.
        CGA_SIGNATURE = 5, "CGA Signature";
        /// The ULIDs, if the addresses in the IPv6 header differ from them.
        ULID_PAIR = 6, "ULID Pair";
        /// Number that tells apart several contexts between two ULIDs.
        FORKED_INSTANCE = 7, "Forked Instance Identifier";
        /// Keepalive Timeout in seconds (RFC 5534 s5.3).
        KEEPALIVE_TIMEOUT = 10, "Keepalive Timeout";
        /// Send Timeout in milliseconds, an option of Moorline (design s6). "ML" in ASCII, in the range that RFC 5533
        /// s17 leaves "For Experimental use" (16384-32767).
        SEND_TIMEOUT_MILLIS = 0x4d4c, "Send Timeout";
        /// Source address, an option of Moorline. "MS" in ASCII, in the same range. In I1, the address from which the
        /// I1 is sent. In R1, if the I1 has the option, the address from which the I1 came.
        SOURCE = 0x4d53, "Source";
        /// Mark of a check, an option of Moorline. "MC" in ASCII, in the same range, critical: this Probe is a check,
        /// and a host that does not know checks must not process it (RFC 5533 s5.15).
        CHECK = 0x4d43, "Check";
    }
}

number_space! {
    /// Reason of an Error message, 7 bits (RFC 5533 s5.14, table 2).
    ErrorCode(u8, 0x7f) {
        /// Unknown message type; Pointer to the type.
        UNKNOWN_MESSAGE_TYPE = 0, "unknown Shim6 message type";
        /// Critical option not recognized; Pointer to its type.
        CRITICAL_OPTION = 1, "critical option not recognized";
        /// Locator verification method failed; Pointer to its octet.
        VERIFICATION_METHOD = 2, "locator verification method failed";
        /// Locator List Generation number out of sync.
        GENERATION = 3, "Locator List Generation number out of sync";
        /// Locator Preferences for another number of locators.
        LOCATOR_COUNT = 4, "error in the number of locators";
    }
}

number_space! {
    /// Method that binds a locator to the ULID, 8 bits.
    ///
    /// RFC 5533 contradicts itself: s5.15.2 (table 4) has these values, s17 the opposite ones. LinShim6 follows table
    /// 4, and so does Moorline.
    VerificationMethod(u8, 0xff) {
        /// Hash-based address (RFC 5535).
        HBA = 1, "HBA";
        /// Cryptographically generated address with a signature (RFC 3972).
        CGA = 2, "CGA";
    }
}
