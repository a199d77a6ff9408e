use crate::{
    Cga, GenerateError, PublicKey, Sec, VerifyError,
    parameters::{MAX_COLLISION_COUNT, Parameters},
};
use alloc::vec::Vec;
use moorline_types::Locator;
use moorline_wire::{CgaParameters, MultiPrefix};

/// Largest number of prefixes in a set of this host: as many as a locator list may have locators.
pub const MAX_PREFIXES: usize = moorline_wire::consts::MAX_PREFIXES;

/// Addresses of a host that prove each other, with the parameters that prove them.
///
/// To keep a set, store [`HbaSet::pds`] and [`HbaSet::sec`], and give them to [`HbaSet::from_pds`] later. The
/// octets on disk have no checksum, and any change gives another set: so compare the locators with those in
/// use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbaSet {
    sec: Sec,
    /// Parameters of all addresses. The prefix field has the prefix of the last one.
    parameters: CgaParameters,
    members: Vec<Cga>,
    locators: Vec<Locator>,
}

impl HbaSet {
    /// The set of a PDS, which may be that of any address of the set, and a Sec.
    ///
    /// # Errors
    ///
    /// `sec` is above 2, or the PDS is malformed, has no Multi-Prefix extension, or has a Hash2 that is too
    /// weak for `sec`.
    pub fn from_pds(pds: &[u8], sec: Sec) -> Result<Self, VerifyError> {
        let parameters = Parameters::for_sec(pds, sec)?;
        let prefixes = parameters.prefixes().ok_or(VerifyError::NoMultiPrefix)?.to_vec();
        Ok(Self::assemble(parameters.fields, &prefixes, sec))
    }

    /// The next set, after duplicate address detection has found one of the addresses taken: all of them
    /// change (RFC 5535 s6 step 6.4).
    ///
    /// # Errors
    ///
    /// [`GenerateError::Collisions`] the third time.
    pub fn after_collision(&self) -> Result<Self, GenerateError> {
        let collision_count = self.collision_count() + 1;
        if collision_count > MAX_COLLISION_COUNT {
            return Err(GenerateError::Collisions);
        }
        let prefixes: Vec<_> = self.locators.iter().map(|locator| locator.prefix()).collect();
        let parameters = CgaParameters { collision_count, ..self.parameters.clone() };
        Ok(Self::assemble(parameters, &prefixes, self.sec))
    }

    /// One address for each prefix, in the order of the prefixes. Never empty.
    #[must_use]
    pub fn locators(&self) -> &[Locator] {
        &self.locators
    }

    /// The addresses with their parameters, in the same order. The prefix field of the parameters has the
    /// prefix of the address.
    #[must_use]
    pub fn members(&self) -> &[Cga] {
        &self.members
    }

    /// Parameters of the first address. They verify each address of the set as an HBA.
    #[must_use]
    pub fn pds(&self) -> &[u8] {
        self.members[0].pds()
    }

    /// Parameters of one address, which verify it as a CGA too. A peer that knows this address as our ULID
    /// gets them. `None` if the address is not in the set.
    #[must_use]
    pub fn pds_of(&self, address: Locator) -> Option<&[u8]> {
        self.members.iter().find(|member| member.address() == address).map(Cga::pds)
    }

    /// The public key to which the addresses are bound too; `None` for a set without a key (P flag).
    #[must_use]
    pub fn public_key(&self) -> Option<PublicKey> {
        let has_key = self.parameters.multi_prefix().is_some_and(MultiPrefix::has_public_key);
        has_key.then(|| PublicKey::of_pds(&self.parameters.public_key))
    }

    /// Security parameter of all addresses.
    #[must_use]
    pub fn sec(&self) -> Sec {
        self.sec
    }

    /// Number of collisions of the set: 0 to 2.
    #[must_use]
    pub fn collision_count(&self) -> u8 {
        self.parameters.collision_count
    }

    /// Makes the addresses. `prefixes` are the prefixes of the Multi-Prefix extension, one at least.
    pub(crate) fn assemble(mut parameters: CgaParameters, prefixes: &[[u8; 8]], sec: Sec) -> Self {
        let key = PublicKey::of_pds(&parameters.public_key);
        let members: Vec<Cga> = prefixes
            .iter()
            .map(|&prefix| {
                parameters.subnet_prefix = prefix;
                Cga::assemble(parameters.emit(), key.clone(), sec)
            })
            .collect();
        let locators = members.iter().map(Cga::address).collect();
        Self { sec, parameters, members, locators }
    }
}
