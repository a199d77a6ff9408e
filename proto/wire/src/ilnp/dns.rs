use core::fmt;

use moorline_types::{L64, Nid};

use crate::WireError;
use crate::reader::exactly;

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident: $value:ident }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// Lower is better.
            pub preference: u16,
            $(#[$field_doc])*
            pub $field: $value,
        }

        impl $name {
            /// Reads the RDATA.
            ///
            /// # Errors
            /// [`WireError::BadLength`] if it has not 10 octets.
            pub fn parse(rdata: &[u8]) -> Result<Self, WireError> {
                let [p0, p1, a, b, c, d, e, f, g, h] = exactly(rdata)?;
                let preference = u16::from_be_bytes([p0, p1]);
                Ok(Self { preference, $field: $value::from([a, b, c, d, e, f, g, h]) })
            }

            /// The RDATA.
            #[must_use]
            pub const fn emit(self) -> [u8; 10] {
                let [p0, p1] = self.preference.to_be_bytes();
                let [a, b, c, d, e, f, g, h] = self.$field.octets();
                [p0, p1, a, b, c, d, e, f, g, h]
            }
        }

        /// As in a zone file.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} {}", self.preference, self.$field)
            }
        }
    };
}

record! {
    /// RDATA of a NID record (RFC 6742 s2.1.1): an identifier of the node that owns the name.
    NidRecord {
        /// The identifier.
        nid: Nid
    }
}
record! {
    /// RDATA of an L64 record (RFC 6742 s2.3.1): a locator of the node that owns the name.
    L64Record {
        /// The locator.
        l64: L64
    }
}
