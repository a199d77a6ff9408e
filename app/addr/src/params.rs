//! Input forms of parameters: files of octets or of hexadecimal digits, or the digits themselves.

use crate::{Error, files};
use moorline_cga::MAX_PDS_OCTETS;
use std::path::Path;

/// Reads parameters from a file of octets, or of hexadecimal digits with any white space.
///
/// # Errors
///
/// The file cannot be read, or is far too long. The function does not check the meaning of the octets.
pub fn read_params(path: &Path) -> Result<Vec<u8>, Error> {
    let (octets, _) = files::read(path, MAX_FILE_OCTETS)?;
    // A key has octets that are not digits, so the two forms cannot be confused.
    let as_hex = std::str::from_utf8(&octets).ok().and_then(|text| params_from_hex(text).ok());
    Ok(as_hex.filter(|params| !params.is_empty()).unwrap_or_else(|| octets.to_vec()))
}

/// Reads parameters from hexadecimal digits, with any white space and colons between them.
///
/// # Errors
///
/// [`Error::Hex`].
pub fn params_from_hex(text: &str) -> Result<Vec<u8>, Error> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    hex::decode(digits).map_err(|_| {
        let mut text: String = text.chars().take(MAX_QUOTED).collect();
        if text.len() == MAX_QUOTED {
            text.push_str("...");
        }
        Error::Hex { text }
    })
}

/// Largest file: three characters for each octet, and some white space.
const MAX_FILE_OCTETS: usize = 4 * MAX_PDS_OCTETS;
/// Largest number of characters of wrong input in an error.
const MAX_QUOTED: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_public;

    #[test]
    fn octets_and_digits_give_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("params");
        let octets = [&[0x12; 16][..], &[0xfe, 0x80, 0x30, 0x0a]].concat();
        for written in [&octets[..], format!("{}\n fe80:30 0A\n", "12".repeat(16)).as_bytes()] {
            write_public(&path, written).unwrap();
            assert_eq!(read_params(&path).unwrap(), octets);
        }
        write_public(&path, b"").unwrap();
        assert!(read_params(&path).unwrap().is_empty());
    }

    #[test]
    fn other_characters_are_told() {
        assert_eq!(
            params_from_hex("12 3x").unwrap_err().to_string(),
            "12 3x is not in hexadecimal digits"
        );
        assert!(params_from_hex("123").is_err());
        assert!(params_from_hex(&"x".repeat(5000)).unwrap_err().to_string().len() < 100);
    }
}
