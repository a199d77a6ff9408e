use crate::{
    VerifyError,
    parameters::Parameters,
    public_key::signing_bits,
    signature::{signed_octets, verify_signature},
    verify::Verifier,
};
use alloc::vec::Vec;
use moorline_types::{Locator, Ulid};
use moorline_wire::{LocatorEntry, LocatorList, VerificationMethod};

/// Most locators in a list that is looked into.
pub const MAX_LOCATORS: usize = moorline_wire::consts::MAX_LOCATORS;

/// What a peer says of its locators, in one message, not verified (RFC 5533 s7.2).
///
/// 1. [`LocatorClaim::needs_signature`] costs nothing. What it is worth to verify a signature of this
///    peer is for the caller to say, before it goes on.
/// 2. [`LocatorClaim::check`] takes two hashes, and one more for each HBA.
/// 3. [`HashesVerified::verify_signature`] takes the RSA verification, if there is one to do.
///
/// [`LocatorClaim::verify`] is 2 and 3 together.
#[derive(Clone, Copy, Debug)]
pub struct LocatorClaim<'a> {
    /// The address that the peer is known by.
    pub ulid: Ulid,
    /// Of this ULID, or of any address of its HBA set: from the message, or if it has none, those that
    /// were verified before (see [`crate::ParameterMemory`]).
    pub pds: &'a [u8],
    /// `None` verifies that the parameters are those of the ULID, and that is all.
    pub list: Option<&'a LocatorList>,
    /// Contents of the CGA Signature option.
    pub signature: Option<&'a [u8]>,
}

impl<'a> LocatorClaim<'a> {
    /// Whether there is an RSA verification to do: a locator other than the ULID has the method CGA.
    ///
    /// The ULID needs none, whatever the list says of it: it is what the parameters are held against.
    #[must_use]
    pub fn needs_signature(&self) -> bool {
        self.first_signed().is_some()
    }

    /// Everything but the signature, the cheapest first.
    ///
    /// The ULID is verified as an HBA if its prefix is in the Multi-Prefix extension, or else as a CGA.
    /// The locators with the method HBA are verified as such. The others with the method CGA can be
    /// any addresses: it is the signature that binds them (s5.15.5), so there must be one, and the key
    /// in the parameters must be one that can have made it.
    ///
    /// # Errors
    ///
    /// The step that failed, for the ULID or the first locator that does not pass. One bad locator
    /// rejects the list.
    //= rfc5533#7.2-4
    pub fn check(&self) -> Result<HashesVerified<'a>, VerifyError> {
        check_methods(self.entries())?;
        if self.needs_signature() && self.signature.is_none() {
            return Err(VerifyError::NoSignature);
        }
        let mut verifier = Verifier::new(self.pds)?;
        if self.needs_signature() {
            check_key(verifier.parameters(), self.signature.unwrap_or_default())?;
        }
        //= rfc3972#6-2
        self.check_ulid(&mut verifier)?;
        let ulid = self.ulid.as_locator();
        for entry in self.entries().iter().filter(|entry| is_hba(entry) && entry.locator != ulid) {
            verifier.hba(entry.locator)?;
        }
        Ok(HashesVerified { claim: *self, spki: verifier.into_public_key() })
    }

    /// Everything, signature included.
    ///
    /// # Errors
    ///
    /// As [`LocatorClaim::check`] and [`HashesVerified::verify_signature`].
    pub fn verify(&self) -> Result<LocatorsVerified, VerifyError> {
        self.check()?.verify_signature()
    }

    /// Place of the verification method that an error is about, which is where the Pointer of an
    /// Error message with code 2 goes (s7.2); `None` for all other errors.
    #[must_use]
    pub fn inconsistent_method(&self, error: VerifyError) -> Option<usize> {
        if let VerifyError::MethodUnsupported { index } = error {
            Some(index)
        } else if error == VerifyError::NoMultiPrefix {
            self.entries().iter().position(is_hba)
        } else if matches!(error, VerifyError::NoPublicKey | VerifyError::Key(_)) {
            self.first_signed()
        } else if error == VerifyError::PrefixNotInSet {
            self.first_outside()
        } else {
            None
        }
    }

    /// The first locator that is to be an HBA of the set, and has none of its prefixes.
    fn first_outside(&self) -> Option<usize> {
        let parameters = Parameters::parse(self.pds).ok()?;
        let prefixes = parameters.prefixes()?;
        let is_outside = |entry: &LocatorEntry| !prefixes.contains(&entry.locator.prefix());
        self.entries().iter().position(|entry| is_hba(entry) && is_outside(entry))
    }

    fn check_ulid(&self, verifier: &mut Verifier<'_>) -> Result<(), VerifyError> {
        let ulid = self.ulid.as_locator();
        let entries = self.entries();
        let prefixes = verifier.parameters().prefixes();
        let is_in_set = prefixes.is_some_and(|prefixes| prefixes.contains(&ulid.prefix()));
        let is_listed_as_hba = entries.iter().any(|entry| entry.locator == ulid && is_hba(entry));
        let has_no_set = prefixes.is_none() && entries.iter().any(is_hba);
        if is_in_set || is_listed_as_hba || has_no_set {
            return verifier.hba(ulid);
        }
        let is_set = prefixes.is_some();
        match verifier.cga(ulid) {
            Err(VerifyError::PrefixMismatch) if is_set => Err(VerifyError::PrefixNotInSet),
            verdict => verdict,
        }
    }

    fn first_signed(&self) -> Option<usize> {
        let ulid = self.ulid.as_locator();
        self.entries()
            .iter()
            .position(|entry| entry.method == VerificationMethod::CGA && entry.locator != ulid)
    }

    fn entries(&self) -> &'a [LocatorEntry] {
        self.list.map_or(&[], |list| &list.entries)
    }
}

/// A claim that is true as far as hashes can tell.
#[derive(Debug)]
pub struct HashesVerified<'a> {
    claim: LocatorClaim<'a>,
    spki: Vec<u8>,
}

impl HashesVerified<'_> {
    /// Whether the next step takes an RSA verification.
    #[must_use]
    pub fn needs_signature(&self) -> bool {
        self.claim.needs_signature()
    }

    /// Verifies the signature, if a locator is there by virtue of it. One that is not needed is not
    /// looked at.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Signature`], or [`VerifyError::Key`] if there is no such key.
    //= rfc3972#6-3
    pub fn verify_signature(self) -> Result<LocatorsVerified, VerifyError> {
        let Self { claim, spki } = self;
        if let Some(list) = claim.list.filter(|_| claim.needs_signature()) {
            let signature = claim.signature.ok_or(VerifyError::NoSignature)?;
            verify_signature(&spki, &signed_octets(list), signature)?;
        }
        let locators = claim.entries().iter().map(|entry| entry.locator).collect();
        Ok(LocatorsVerified { ulid: claim.ulid, pds: claim.pds.to_vec(), locators })
    }
}

/// The locators of a peer, each bound to its ULID by the method that the list gives. Only verification
/// makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorsVerified {
    ulid: Ulid,
    pds: Vec<u8>,
    locators: Vec<Locator>,
}

impl LocatorsVerified {
    /// The ULID that the locators are bound to.
    #[must_use]
    pub fn ulid(&self) -> Ulid {
        self.ulid
    }

    /// The parameters that prove the ULID.
    #[must_use]
    pub fn pds(&self) -> &[u8] {
        &self.pds
    }

    /// The addresses of the list, in its order, which Locator Preferences refer to. The ULID need not be among them.
    #[must_use]
    pub fn locators(&self) -> &[Locator] {
        &self.locators
    }
}

fn is_hba(entry: &LocatorEntry) -> bool {
    entry.method == VerificationMethod::HBA
}

/// Costs nothing, so it comes before any parsing.
fn check_methods(entries: &[LocatorEntry]) -> Result<(), VerifyError> {
    if entries.len() > MAX_LOCATORS {
        return Err(VerifyError::TooManyLocators);
    }
    let is_unknown = |entry: &LocatorEntry| {
        ![VerificationMethod::HBA, VerificationMethod::CGA].contains(&entry.method)
    };
    match entries.iter().position(is_unknown) {
        Some(index) => Err(VerifyError::MethodUnsupported { index }),
        None => Ok(()),
    }
}

/// What can be said of a signature without arithmetic: who cannot have made it.
fn check_key(parameters: &Parameters<'_>, signature: &[u8]) -> Result<(), VerifyError> {
    // RFC 5535 s5: without the P flag the Public Key field holds no key.
    if parameters.fields.multi_prefix().is_some_and(|set| !set.has_public_key()) {
        return Err(VerifyError::NoPublicKey);
    }
    let bits = signing_bits(&parameters.fields.public_key).map_err(VerifyError::Key)?;
    let is_length = u32::try_from(signature.len()) == Ok(bits.div_ceil(8));
    if is_length { Ok(()) } else { Err(VerifyError::Signature) }
}
