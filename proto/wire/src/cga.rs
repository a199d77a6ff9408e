use crate::consts::{CGA_FIXED_LEN, MAX_CGA_EXTENSIONS, MAX_PDS_LEN, MAX_PREFIXES};
use crate::reader::Reader;
use alloc::vec::Vec;
use moorline_types::DropReason;

/// CGA Parameters data structure (RFC 3972 s3).
///
/// [`CgaParameters::emit`] returns the same octets that were parsed, because the hashes cover these octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgaParameters {
    /// Result of a search that began at a random number.
    pub modifier: [u8; 16],
    /// Upper 64 bits of the address.
    pub subnet_prefix: [u8; 8],
    /// Collision count: 0, 1 or 2 in valid parameters; not checked here.
    pub collision_count: u8,
    /// DER `SubjectPublicKeyInfo`. Only its outer tag and length are checked: the key of an HBA-only set may hold any
    /// octets (design s6).
    pub public_key: Vec<u8>,
    /// Extension fields in order, at most [`MAX_CGA_EXTENSIONS`].
    pub extensions: Vec<CgaExtension>,
}

/// Extension field (RFC 4581 s2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgaExtension {
    /// Multi-Prefix extension.
    MultiPrefix(MultiPrefix),
    /// An extension that is ignored, but hashed.
    Unknown {
        /// Extension Type.
        kind: u16,
        /// Extension Data.
        data: Vec<u8>,
    },
}

/// Multi-Prefix extension: makes the addresses one set (RFC 5535 s5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiPrefix {
    /// P flag, and reserved bits that are ignored, but hashed.
    pub flags: u32,
    /// Prefixes, at most [`MAX_PREFIXES`].
    pub prefixes: Vec<[u8; 8]>,
}

impl CgaParameters {
    /// Decodes the structure.
    ///
    /// # Errors
    /// [`DropReason::Truncated`] if the key or an extension is longer than the input, [`DropReason::BadFormat`] if
    /// the key is no DER SEQUENCE, [`DropReason::BadLength`] if a Multi-Prefix extension does not consist of 4 octets
    /// and whole prefixes, [`DropReason::TooMany`] above a cap.
    pub fn parse(octets: &[u8]) -> Result<Self, DropReason> {
        if octets.len() > MAX_PDS_LEN {
            return Err(DropReason::TooMany);
        }
        let mut reader = Reader::new(octets);
        let modifier = reader.array()?;
        let subnet_prefix = reader.array()?;
        let collision_count = reader.u8()?;
        let key_len = der_sequence_len(reader)?;
        let public_key = reader.octets(key_len)?.to_vec();
        let mut extensions = Vec::new();
        while !reader.is_empty() {
            if extensions.len() == MAX_CGA_EXTENSIONS {
                return Err(DropReason::TooMany);
            }
            extensions.push(CgaExtension::decode(&mut reader)?);
        }
        Ok(Self { modifier, subnet_prefix, collision_count, public_key, extensions })
    }

    /// The octets of the structure.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(CGA_FIXED_LEN + self.public_key.len());
        out.extend(self.modifier);
        out.extend(self.subnet_prefix);
        out.push(self.collision_count);
        out.extend_from_slice(&self.public_key);
        for extension in &self.extensions {
            extension.emit(&mut out);
        }
        out
    }

    /// The first Multi-Prefix extension, if there is one.
    #[must_use]
    pub fn multi_prefix(&self) -> Option<&MultiPrefix> {
        self.extensions.iter().find_map(|extension| match extension {
            CgaExtension::MultiPrefix(multi_prefix) => Some(multi_prefix),
            CgaExtension::Unknown { .. } => None,
        })
    }
}

impl CgaExtension {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DropReason> {
        let kind = reader.u16()?;
        let len = usize::from(reader.u16()?);
        let data = reader.octets(len)?;
        Ok(if kind == MultiPrefix::EXTENSION_TYPE {
            Self::MultiPrefix(MultiPrefix::decode(data)?)
        } else {
            //= rfc3972#3-7 rfc3972#5-8
            Self::Unknown { kind, data: data.to_vec() }
        })
    }

    /// Appends type, length and data. Data that the length field cannot express is cut off.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::MultiPrefix(multi_prefix) => {
                let prefixes = multi_prefix.capped();
                let len = u16::try_from(FLAGS_LEN + 8 * prefixes.len()).unwrap_or(u16::MAX);
                out.extend(MultiPrefix::EXTENSION_TYPE.to_be_bytes());
                out.extend(len.to_be_bytes());
                out.extend(multi_prefix.flags.to_be_bytes());
                out.extend_from_slice(prefixes.as_flattened());
            }
            Self::Unknown { kind, data } => {
                let data = data.get(..usize::from(u16::MAX)).unwrap_or(data);
                out.extend(kind.to_be_bytes());
                out.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
                out.extend_from_slice(data);
            }
        }
    }
}

impl MultiPrefix {
    /// Extension Type (RFC 5535 s10).
    pub const EXTENSION_TYPE: u16 = 0x0012;
    /// P flag: the Public Key field holds a real key. LinShim6 on x86 writes 0x80 instead.
    pub const P_FLAG: u32 = 0x8000_0000;

    /// Creates an extension with the P flag from `has_public_key`, and with reserved bits of zero.
    //= rfc5535#5-1
    #[must_use]
    pub const fn new(has_public_key: bool, prefixes: Vec<[u8; 8]>) -> Self {
        Self { flags: if has_public_key { Self::P_FLAG } else { 0 }, prefixes }
    }

    /// Value of the P flag.
    #[must_use]
    //= rfc5535#5-1
    pub const fn has_public_key(&self) -> bool {
        self.flags & Self::P_FLAG != 0
    }

    //= rfc5535#5
    fn decode(data: &[u8]) -> Result<Self, DropReason> {
        let (flags, prefixes) = data.split_first_chunk().ok_or(DropReason::BadLength)?;
        let (prefixes, rest) = prefixes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(DropReason::BadLength);
        }
        if prefixes.len() > MAX_PREFIXES {
            return Err(DropReason::TooMany);
        }
        Ok(Self { flags: u32::from_be_bytes(*flags), prefixes: prefixes.to_vec() })
    }

    fn capped(&self) -> &[[u8; 8]] {
        self.prefixes.get(..MAX_PREFIXES).unwrap_or(&self.prefixes)
    }
}

/// Length of the DER SEQUENCE at the front, with its tag and length.
///
/// A length of more than two octets cannot be within [`MAX_PDS_LEN`]; LinShim6 crashed on such lengths.
fn der_sequence_len(mut reader: Reader<'_>) -> Result<usize, DropReason> {
    if reader.u8()? != DER_SEQUENCE {
        return Err(DropReason::BadFormat);
    }
    match reader.u8()? {
        short @ 0..0x80 => Ok(2 + usize::from(short)),
        0x81 => match reader.u8()? {
            0..0x80 => Err(DropReason::BadFormat),
            len => Ok(3 + usize::from(len)),
        },
        0x82 => match reader.u16()? {
            0..0x100 => Err(DropReason::BadFormat),
            len => Ok(4 + usize::from(len)),
        },
        0x80 | 0xff => Err(DropReason::BadFormat),
        _ => Err(DropReason::Truncated),
    }
}

const DER_SEQUENCE: u8 = 0x30;
const FLAGS_LEN: usize = 4;
