use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// Returns the value as JSON, followed by a line with the checksum of the JSON.
///
/// # Errors
/// The value cannot be written as JSON.
pub fn seal(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut octets = serde_json::to_vec(value)?;
    let checksum = hex::encode(Sha256::digest(&octets));
    octets.extend_from_slice(MARK);
    octets.extend_from_slice(checksum.as_bytes());
    Ok(octets)
}

/// Reads the value of a sealed file. A file of an earlier version has no checksum.
///
/// # Errors
/// The checksum does not match; the JSON is malformed or of another type.
pub fn unseal<T: DeserializeOwned>(octets: &[u8]) -> anyhow::Result<T> {
    let mark = octets.windows(MARK.len()).rposition(|window| window == MARK);
    let json = match mark {
        Some(at) => {
            let (json, checksum) = (&octets[..at], &octets[at + MARK.len()..]);
            let expected = hex::encode(Sha256::digest(json));
            ensure!(checksum == expected.as_bytes(), "damaged: the checksum does not match");
            json
        }
        None => octets,
    };
    serde_json::from_slice(json).context("damaged")
}

const MARK: &[u8] = b"\nsha256 ";
