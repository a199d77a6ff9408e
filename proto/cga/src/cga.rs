use crate::{
    GenerateError, PublicKey, Sec, VerifyError,
    hash::{MODIFIER_LEN, hash1, interface_id},
    parameters::{MAX_COLLISION_COUNT, Parameters},
};
use alloc::vec::Vec;
use moorline_types::Locator;
use moorline_wire::consts::CGA_FIXED_LEN;

/// An address that is bound to a public key, with the parameters that say so (RFC 3972).
///
/// To keep one, store [`Cga::pds`] and [`Cga::sec`], and give them to [`Cga::from_pds`] later. As with
/// [`crate::HbaSet`], a change on disk gives another address, and no error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cga {
    sec: Sec,
    address: Locator,
    key: PublicKey,
    pds: Vec<u8>,
}

impl Cga {
    /// The address that belongs to a PDS and a Sec.
    ///
    /// # Errors
    ///
    /// `sec` is above 2, or the PDS is malformed or has a Hash2 too weak for `sec`.
    pub fn from_pds(pds: &[u8], sec: Sec) -> Result<Self, VerifyError> {
        let key = PublicKey::of_pds(&Parameters::for_sec(pds, sec)?.fields.public_key);
        Ok(Self::assemble(pds.to_vec(), key, sec))
    }

    /// The address after duplicate address detection has found this one taken (RFC 3972 s4 step 8).
    ///
    /// # Errors
    ///
    /// [`GenerateError::Collisions`] the third time.
    //= rfc3972#4-1
    pub fn after_collision(&self) -> Result<Self, GenerateError> {
        let collision_count = self.collision_count() + 1;
        if collision_count > MAX_COLLISION_COUNT {
            return Err(GenerateError::Collisions);
        }
        let mut pds = self.pds.clone();
        pds[COLLISION_COUNT_AT] = collision_count;
        Ok(Self::assemble(pds, self.key.clone(), self.sec))
    }

    /// The address of the same key under another prefix, without a search: neither prefix nor
    /// collision count is in Hash2, so the modifier serves again (RFC 3972 s4).
    ///
    /// Who sees the parameters of both can tell that they are of one owner; from a signed locator
    /// list everybody can. Not for an address that is to be hard to link (RFC 3972 s7.3).
    //= rfc3972#4-9 rfc3972#4-10
    #[must_use]
    pub fn under_prefix(&self, prefix: [u8; 8]) -> Self {
        let mut pds = self.pds.clone();
        pds[MODIFIER_LEN..COLLISION_COUNT_AT].copy_from_slice(&prefix);
        pds[COLLISION_COUNT_AT] = 0;
        Self::assemble(pds, self.key.clone(), self.sec)
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> Locator {
        self.address
    }

    /// Its parameters.
    #[must_use]
    pub fn pds(&self) -> &[u8] {
        &self.pds
    }

    /// The public key that it is bound to.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.key
    }

    /// Its security parameter.
    #[must_use]
    pub fn sec(&self) -> Sec {
        self.sec
    }

    /// How many collisions it has been through: 0 to 2.
    #[must_use]
    pub fn collision_count(&self) -> u8 {
        self.pds[COLLISION_COUNT_AT]
    }

    /// RFC 3972 s4 steps 5 to 7. `pds` has been parsed or made here, so its fixed part is there.
    pub(crate) fn assemble(pds: Vec<u8>, key: PublicKey, sec: Sec) -> Self {
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&pds[MODIFIER_LEN..COLLISION_COUNT_AT]);
        let mut address = [0; 16];
        address[..8].copy_from_slice(&prefix);
        address[8..].copy_from_slice(&interface_id(hash1(&pds, prefix), sec));
        Self { sec, address: address.into(), key, pds }
    }
}

/// The last octet of the fixed part.
const COLLISION_COUNT_AT: usize = CGA_FIXED_LEN - 1;
