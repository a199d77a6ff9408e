use crate::{
    Sec, VerifyError,
    hash::{hash1, hash2_zero_bits, is_hash1},
    parameters::Parameters,
    set::MAX_COLLISION_COUNT,
};
use alloc::vec::Vec;
use core::ops::Deref;
use moorline_types::{Locator, Ulid};
use moorline_wire::VerificationMethod;

/// Most locators in a list that is looked into.
pub const MAX_LOCATORS: usize = moorline_wire::consts::MAX_LOCATORS;

/// Verifies that an address belongs to the HBA set of a PDS (RFC 5535 s7.2), which may be the PDS of
/// any address of the set.
///
/// # Errors
///
/// The step that failed.
pub fn verify_hba(address: Locator, pds: &[u8]) -> Result<(), VerifyError> {
    Verifier::new(pds)?.hba(address)
}

/// Verifies that an address is the CGA of a PDS (RFC 3972 s5), and so that its owner is the owner of
/// the public key in there.
///
/// # Errors
///
/// The step that failed.
pub fn verify_cga(address: Locator, pds: &[u8]) -> Result<(), VerifyError> {
    Verifier::new(pds)?.cga(address)
}

/// Verifies the locators that a peer claims, and that the PDS is that of its ULID (RFC 5533 s7.2).
///
/// HBA is carried out. The method CGA needs a signature over the list and is unsupported, except for
/// the ULID itself, which needs no more than to fit the PDS. Where the PDS has no Multi-Prefix
/// extension the ULID is verified as a CGA.
///
/// # Errors
///
/// The step that failed, for the ULID or the first locator that does not pass. One bad locator
/// rejects the list.
pub fn verify_locator_set(
    ulid: Ulid,
    pds: &[u8],
    list: &[(Locator, VerificationMethod)],
) -> Result<HbaVerified<LocatorSet>, VerifyError> {
    if list.len() > MAX_LOCATORS {
        return Err(VerifyError::TooManyLocators);
    }
    check_methods(ulid, list)?;
    let mut verifier = Verifier::new(pds)?;
    let says_hba = list.iter().any(|&(_, method)| method == VerificationMethod::HBA);
    if says_hba || verifier.parameters.prefixes().is_some() {
        verifier.hba(ulid.as_locator())?;
    } else {
        verifier.cga(ulid.as_locator())?;
    }
    for &(locator, _) in list.iter().filter(|(locator, _)| *locator != ulid.as_locator()) {
        verifier.hba(locator)?;
    }
    let locators = list.iter().map(|&(locator, _)| locator).collect();
    Ok(HbaVerified(LocatorSet { ulid, locators }))
}

/// Something that has passed HBA verification. Only the verifier makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbaVerified<T>(T);

impl<T> HbaVerified<T> {
    /// What was verified.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for HbaVerified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The locators of a peer in the order of its list, which Locator Preferences refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorSet {
    ulid: Ulid,
    locators: Vec<Locator>,
}

impl LocatorSet {
    /// The ULID that the locators are bound to.
    #[must_use]
    pub fn ulid(&self) -> Ulid {
        self.ulid
    }

    /// As many as the list had, which need not include the ULID.
    #[must_use]
    pub fn locators(&self) -> &[Locator] {
        &self.locators
    }

    /// Whether the peer may use this locator: the ULID always, the others as listed.
    #[must_use]
    pub fn contains(&self, locator: Locator) -> bool {
        locator == self.ulid.as_locator() || self.locators.contains(&locator)
    }
}

/// Costs nothing, so it comes before any parsing.
fn check_methods(ulid: Ulid, list: &[(Locator, VerificationMethod)]) -> Result<(), VerifyError> {
    let is_supported = |&(locator, method): &(Locator, VerificationMethod)| match method {
        VerificationMethod::HBA => true,
        VerificationMethod::CGA => locator == ulid.as_locator(),
        _ => false,
    };
    match list.iter().position(|entry| !is_supported(entry)) {
        Some(index) => Err(VerifyError::MethodUnsupported { index }),
        None => Ok(()),
    }
}

/// One PDS against any number of addresses.
struct Verifier<'a> {
    parameters: Parameters<'a>,
    /// Hash2 is the same for the whole set, and with Sec 0 nobody asks for it.
    hash2_zero_bits: Option<u32>,
}

impl<'a> Verifier<'a> {
    fn new(pds: &'a [u8]) -> Result<Self, VerifyError> {
        Ok(Self { parameters: Parameters::parse(pds)?, hash2_zero_bits: None })
    }

    fn hba(&mut self, address: Locator) -> Result<(), VerifyError> {
        let prefixes = self.parameters.prefixes().ok_or(VerifyError::NoMultiPrefix)?;
        if !prefixes.contains(&address.prefix()) {
            return Err(VerifyError::PrefixNotInSet);
        }
        self.collision_count()?;
        self.hashes(address)
    }

    fn cga(&mut self, address: Locator) -> Result<(), VerifyError> {
        self.collision_count()?;
        if address.prefix() != self.parameters.fields.subnet_prefix {
            return Err(VerifyError::PrefixMismatch);
        }
        self.hashes(address)
    }

    fn collision_count(&self) -> Result<(), VerifyError> {
        if self.parameters.fields.collision_count > MAX_COLLISION_COUNT {
            return Err(VerifyError::CollisionCount);
        }
        Ok(())
    }

    /// RFC 3972 s5 steps 3 to 7, if the hash function is SHA-1 (RFC 4982 s4.1), with the prefix of the address in the PDS.
    fn hashes(&mut self, address: Locator) -> Result<(), VerifyError> {
        let interface_id = address.interface_id();
        let sec = Sec::of_interface_id(interface_id);
        if !sec.is_sha1() {
            return Err(VerifyError::HashFunction { sec });
        }
        if !is_hash1(interface_id, hash1(self.parameters.pds, address.prefix())) {
            return Err(VerifyError::Hash1);
        }
        let wanted = sec.hash2_zero_bits();
        if wanted > 0 {
            let pds = self.parameters.pds;
            let found = self.hash2_zero_bits.get_or_insert_with(|| hash2_zero_bits(pds));
            if *found < wanted {
                return Err(VerifyError::Hash2);
            }
        }
        Ok(())
    }
}
