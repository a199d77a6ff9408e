use anyhow::{Context as _, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

/// JSON, and behind it a line with its checksum.
///
/// # Errors
/// The value has no form in JSON.
pub(super) fn seal(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut octets = serde_json::to_vec(value)?;
    let checksum = hex::encode(Sha256::digest(&octets));
    octets.extend_from_slice(MARK);
    octets.extend_from_slice(checksum.as_bytes());
    Ok(octets)
}

/// Reads the value of a sealed file. Files of earlier versions end with the JSON.
///
/// # Errors
/// The checksum is of other octets; the JSON is of something else.
pub(super) fn unseal<T: DeserializeOwned>(octets: &[u8]) -> anyhow::Result<T> {
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
