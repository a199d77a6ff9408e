use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use moorline_types::{DropReason, L64, Nid};

use crate::reader::exactly;

macro_rules! record {
    ($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident: $value:ident, $len:literal }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// Preference; lower is better.
            pub preference: u16,
            $(#[$field_doc])*
            pub $field: $value,
        }

        impl $name {
            /// Reads the RDATA.
            ///
            /// # Errors
            #[doc = concat!("[`DropReason::BadLength`] if it has not ", stringify!($len), " octets behind the preference.")]
            pub fn parse(rdata: &[u8]) -> Result<Self, DropReason> {
                let (preference, value) =
                    rdata.split_first_chunk::<2>().ok_or(DropReason::BadLength)?;
                let $field = $value::from(exactly::<$len>(value)?);
                Ok(Self { preference: u16::from_be_bytes(*preference), $field })
            }

            /// Octets of the RDATA.
            #[must_use]
            pub fn emit(self) -> [u8; 2 + $len] {
                let mut rdata = [0; 2 + $len];
                rdata[..2].copy_from_slice(&self.preference.to_be_bytes());
                rdata[2..].copy_from_slice(&self.$field.octets());
                rdata
            }
        }

        /// Writes the RDATA as in a zone file.
        impl fmt::Display for $name {
            //= rfc6742#2.1.2-1 rfc6742#2.1.2-2 rfc6742#2.1.2-3
            //= rfc6742#2.2.2-1 rfc6742#2.2.2-2
            //= rfc6742#2.3.2-1 rfc6742#2.3.2-2 rfc6742#2.3.2-3
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
        nid: Nid, 8
    }
}
record! {
    /// RDATA of an L32 record (RFC 6742 s2.2.1): a locator for ILNPv4, which Moorline does not support.
    L32Record {
        /// The locator.
        l32: Ipv4Addr, 4
    }
}
record! {
    /// RDATA of an L64 record (RFC 6742 s2.3.1): a locator of the node that owns the name.
    L64Record {
        /// The locator.
        l64: L64, 8
    }
}

/// RDATA of an LP record (RFC 6742 s2.4.1): another name, whose records contain the locators of the node that owns
/// this name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LpRecord {
    /// Preference; lower is better.
    pub preference: u16,
    /// Name whose records contain the locators.
    pub name: DomainName,
}

impl LpRecord {
    /// Reads the RDATA.
    ///
    /// # Errors
    /// As [`DomainName::parse`].
    pub fn parse(rdata: &[u8]) -> Result<Self, DropReason> {
        let (preference, name) = rdata.split_first_chunk::<2>().ok_or(DropReason::BadLength)?;
        let preference = u16::from_be_bytes(*preference);
        Ok(Self { preference, name: DomainName::parse(name)? })
    }

    /// Octets of the RDATA.
    //= rfc6742#2.4.1.2-2
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut rdata = Vec::with_capacity(2 + self.name.0.len());
        rdata.extend(self.preference.to_be_bytes());
        rdata.extend_from_slice(&self.name.0);
        rdata
    }
}

/// Writes the RDATA as in a zone file.
impl fmt::Display for LpRecord {
    //= rfc6742#2.4.2-1 rfc6742#2.4.2-2
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.preference, self.name)
    }
}

/// A fully qualified domain name in wire format, not compressed (RFC 1035 s3.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(Vec<u8>);

impl DomainName {
    /// The root: the name without labels.
    #[must_use]
    pub fn root() -> Self {
        Self(alloc::vec![0])
    }

    /// Reads labels up to the root, at which `octets` must end.
    ///
    /// # Errors
    /// [`DropReason::Truncated`] if there is no root, [`DropReason::BadLength`] if octets follow the root or the name
    /// has more than 255 octets, [`DropReason::BadFormat`] if a label is not a plain one, as in a compressed name.
    pub fn parse(octets: &[u8]) -> Result<Self, DropReason> {
        if octets.len() > MAX_NAME_LEN {
            return Err(DropReason::BadLength);
        }
        let mut rest = octets;
        loop {
            let (&len, behind) = rest.split_first().ok_or(DropReason::Truncated)?;
            if len > MAX_LABEL_LEN {
                return Err(DropReason::BadFormat);
            }
            rest = behind.get(usize::from(len)..).ok_or(DropReason::Truncated)?;
            if len == 0 {
                return match rest {
                    [] => Ok(Self(octets.to_vec())),
                    _ => Err(DropReason::BadLength),
                };
            }
        }
    }

    /// Octets of the name in wire format.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Whether two names are equal. The case of ASCII letters does not matter (RFC 4343).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }

    /// The labels, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        core::iter::from_fn(move || {
            let (&len, behind) = rest.split_first()?;
            let (label, behind) = behind.split_at_checked(len.into())?;
            rest = behind;
            (len > 0).then_some(label)
        })
    }
}

/// Writes the name as in a zone file, with the root. Octets other than letters, digits, `-`, `_` and `*` are escaped
/// (RFC 1035 s5.1).
impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for label in self.labels() {
            for &octet in label {
                match octet {
                    b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'*' => {
                        write!(f, "{}", char::from(octet))?;
                    }
                    b'!'..=b'~' => write!(f, "\\{}", char::from(octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        if self.0.len() <= 1 { f.write_str(".") } else { Ok(()) }
    }
}

impl fmt::Debug for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Largest name in octets (RFC 1035 s2.3.4).
const MAX_NAME_LEN: usize = 255;
/// Longest label in octets (RFC 1035 s2.3.4). Longer lengths are pointers, or not defined.
const MAX_LABEL_LEN: u8 = 63;
