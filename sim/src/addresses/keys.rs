//! Keys and signatures are made once, so that runs with many seeds stay cheap.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use moorline_cga::{PublicKey, RsaKey, SignError, Signer};

/// A signer that signs each message once.
#[derive(Debug)]
pub(crate) struct CachedSigner {
    key: RsaKey,
    signatures: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Signer for CachedSigner {
    fn public_key(&self) -> &PublicKey {
        self.key.public_key()
    }

    fn sign(&self, octets: &[u8], blinding: [u8; 32]) -> Result<Vec<u8>, SignError> {
        let mut signatures = self.signatures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signature) = signatures.get(octets) {
            return Ok(signature.clone());
        }
        // The signature is the same with any blinding.
        let signature = self.key.sign(octets, blinding)?;
        if signatures.len() >= MAX_SIGNATURES {
            signatures.clear();
        }
        signatures.insert(octets.to_vec(), signature.clone());
        Ok(signature)
    }
}

/// The signer of a host. Beyond [`KEYS`] hosts share signers, which has no effect.
pub(crate) fn of_host(host: usize) -> &'static CachedSigner {
    let number = host % KEYS;
    SIGNERS[number].get_or_init(|| signer(u8::try_from(number).unwrap_or(0)))
}

static SIGNERS: [OnceLock<CachedSigner>; KEYS] = [const { OnceLock::new() }; KEYS];

fn signer(number: u8) -> CachedSigner {
    let key = RsaKey::generate(moorline_cga::MIN_SIGNING_BITS, &mut [number; 32])
        .expect("the least length that may sign");
    CachedSigner { key, signatures: Mutex::default() }
}

const KEYS: usize = 6;
const MAX_SIGNATURES: usize = 4096;
