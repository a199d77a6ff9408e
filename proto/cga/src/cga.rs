use crate::{
    GenerateError, PublicKey, Sec, VerifyError,
    hash::{MODIFIER_LEN, hash1, interface_id},
    parameters::{MAX_COLLISION_COUNT, Parameters},
};
use alloc::vec::Vec;
use moorline_types::Locator;
use moorline_wire::consts::CGA_FIXED_LEN;

/// An address that is bound to a public key, with the parameters that bind it (RFC 3972).
///
/// To keep a CGA, store [`Cga::pds`] and [`Cga::sec`], and give them to [`Cga::from_pds`] later. As with
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

    /// The next address, after duplicate address detection has found this one taken (RFC 3972 s4 step 8).
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

    /// The address of the same key under another prefix. It needs no search: neither prefix nor collision
    /// count is in Hash2, so the modifier stays valid (RFC 3972 s4).
    ///
    /// A node that sees the parameters of both addresses can tell that they have one owner. From a signed
    /// locator list everybody can. So this is not for an address that must be hard to link (RFC 3972 s7.3).
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

    /// Parameters of the address.
    #[must_use]
    pub fn pds(&self) -> &[u8] {
        &self.pds
    }

    /// The public key to which the address is bound.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.key
    }

    /// Security parameter of the address.
    #[must_use]
    pub fn sec(&self) -> Sec {
        self.sec
    }

    /// Number of collisions of the address: 0 to 2.
    #[must_use]
    pub fn collision_count(&self) -> u8 {
        self.pds[COLLISION_COUNT_AT]
    }

    /// Makes the address: RFC 3972 s4 steps 5 to 7. `pds` has been parsed or made here, so it has its fixed
    /// part.
    pub(crate) fn assemble(pds: Vec<u8>, key: PublicKey, sec: Sec) -> Self {
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&pds[MODIFIER_LEN..COLLISION_COUNT_AT]);
        let mut address = [0; 16];
        address[..8].copy_from_slice(&prefix);
        address[8..].copy_from_slice(&interface_id(hash1(&pds, prefix), sec));
        Self { sec, address: address.into(), key, pds }
    }
}

/// Offset of the collision count, the last octet of the fixed part.
const COLLISION_COUNT_AT: usize = CGA_FIXED_LEN - 1;
