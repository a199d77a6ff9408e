//! Key files.

use crate::{Error, files};
use moorline_cga::{KeyError, KeyFile, RsaKey};
use std::path::Path;
use zeroize::Zeroizing;

/// Makes an RSA key from random octets of the system.
///
/// # Errors
///
/// `bits` is out of range, or the system gives no random octets.
pub fn generate_key(bits: u32) -> Result<RsaKey, Error> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut seed[..]).map_err(Error::Random)?;
    RsaKey::generate(bits, &mut seed).map_err(Error::KeyBits)
}

/// Reads a key: PEM or DER, private or public.
///
/// # Errors
///
/// The file cannot be read, is not a key, or is a private key that other users may read.
pub fn read_key(path: &Path) -> Result<KeyFile, Error> {
    let (octets, mode) = files::read(path, MAX_KEY_OCTETS)?;
    let key =
        KeyFile::parse(&octets).map_err(|error| Error::Key { path: path.to_owned(), error })?;
    if matches!(key, KeyFile::Rsa(_)) && mode & OF_OTHERS != 0 {
        return Err(Error::KeyMode { path: path.to_owned() });
    }
    Ok(key)
}

/// Writes a private key as PEM (PKCS#8) into a new file that only its owner may read.
///
/// # Errors
///
/// The file cannot be written, or exists already.
pub fn write_key(path: &Path, key: &RsaKey) -> Result<(), Error> {
    let failed = |error: KeyError| Error::Key { path: path.to_owned(), error };
    let pem = key.to_pkcs8_pem().map_err(failed)?;
    files::write_new_private(path, pem.as_bytes())
}

/// Largest key file. A key of 4096 bits has 3,272 octets as PEM, and some files have text before the key.
const MAX_KEY_OCTETS: usize = 64 * 1024;
/// Permission bits that a private key file must not have.
const OF_OTHERS: u32 = 0o077;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    fn at(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_key_comes_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let key = generate_key(1024).unwrap();
        write_key(&path, &key).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with("-----BEGIN PRIVATE KEY-----\n"));
        let read = read_key(&path).unwrap();
        assert_eq!(read.public_key().rsa_bits(), Ok(1024));
        assert!(read.signer().is_ok());
        let KeyFile::Rsa(read) = read else { panic!("not RSA") };
        assert_eq!(*read.to_pkcs8_der().unwrap(), *key.to_pkcs8_der().unwrap());
        assert!(matches!(write_key(&path, &key), Err(Error::Write { .. })), "no key is lost");
    }

    #[test]
    fn a_private_key_that_is_open_to_others_is_refused_and_a_public_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = generate_key(1024).unwrap();
        write_key(&path, &key).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            at(&path, mode);
            let error = read_key(&path).unwrap_err().to_string();
            assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
        }
        files::write_public(&path, moorline_cga::Signer::public_key(&key).spki()).unwrap();
        assert!(matches!(read_key(&path), Ok(KeyFile::AddressOnly(_))));
    }

    #[test]
    fn what_is_no_key_is_told_in_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        files::write_public(&path, b"hello").unwrap();
        let expected = format!("{}: the key is malformed", path.display());
        assert_eq!(read_key(&path).unwrap_err().to_string(), expected);
        assert!(matches!(read_key(folder.path()), Err(Error::Read { .. })));
        assert!(matches!(generate_key(512), Err(Error::KeyBits(KeyError::TooShort { bits: 512 }))));
    }
}
