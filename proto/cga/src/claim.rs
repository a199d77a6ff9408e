use crate::{
    VerifyError,
    parameters::Parameters,
    public_key::signing_bits,
    signature::{signed_octets, verify_signature},
    verify::{Verifier, verify_hba},
};
use alloc::vec::Vec;
use moorline_types::{Locator, Ulid};
use moorline_wire::{LocatorEntry, LocatorList, VerificationMethod};

/// Largest number of locators in a list that is verified.
pub const MAX_LOCATORS: usize = moorline_wire::consts::MAX_LOCATORS;

/// Claim of a peer about its locators in one message, not verified (RFC 5533 s7.2).
///
/// 1. [`LocatorClaim::needs_signature`] costs nothing. After it, the caller decides whether a signature of
///    this peer is worth a verification.
/// 2. [`LocatorClaim::check`] takes two hashes, and one more for each HBA.
/// 3. [`HashesVerified::verify_signature`] takes the RSA verification, if there is a signature to verify.
///
/// [`LocatorClaim::verify`] is 2 and 3 together.
#[derive(Clone, Copy, Debug)]
pub struct LocatorClaim<'a> {
    /// The address by which this host knows the peer.
    pub ulid: Ulid,
    /// Parameters of this ULID, or of any address of its HBA set. They come from the message. If the message
    /// has none, they are the parameters that were verified before (see [`crate::ParameterMemory`]).
    pub pds: &'a [u8],
    /// The list. With `None`, only the parameters are verified to be those of the ULID.
    pub list: Option<&'a LocatorList>,
    /// Contents of the CGA Signature option.
    pub signature: Option<&'a [u8]>,
}

impl<'a> LocatorClaim<'a> {
    /// Whether an RSA verification is necessary: a locator other than the ULID has the method CGA.
    ///
    /// The ULID needs no signature, whatever method the list gives for it: the parameters are compared with
    /// it.
    #[must_use]
    pub fn needs_signature(&self) -> bool {
        self.first_signed().is_some()
    }

    /// Checks everything but the signature, the cheapest first.
    ///
    /// If the prefix of the ULID is in the Multi-Prefix extension, the ULID is verified as an HBA, otherwise
    /// as a CGA. Locators with the method HBA are verified as HBAs. Other locators with the method CGA can be
    /// any addresses, as the signature binds them (s5.15.5). For these, there must be a signature, and the
    /// key in the parameters must be able to make it.
    ///
    /// # Errors
    ///
    /// The step that failed, for the ULID or for the first locator that fails. One bad locator rejects the
    /// list.
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

    /// Checks everything, with the signature.
    ///
    /// # Errors
    ///
    /// As [`LocatorClaim::check`] and [`HashesVerified::verify_signature`].
    pub fn verify(&self) -> Result<LocatorsVerified, VerifyError> {
        self.check()?.verify_signature()
    }

    /// Index of the verification method that an error is about: the Pointer of an Error message with code 2
    /// leads there (s7.2). `None` for all other errors.
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

    /// Index of the first locator that fails the verification with this error. The parameters belong to the ULID.
    //= rfc5533#5.14
    #[must_use]
    pub fn unverified(&self, error: VerifyError) -> Option<usize> {
        if matches!(error, VerifyError::NoSignature | VerifyError::Signature) {
            return self.first_signed();
        }
        let fails = |entry: &LocatorEntry| verify_hba(entry.locator, self.pds).is_err();
        self.entries().iter().position(|entry| is_hba(entry) && fails(entry))
    }

    /// Index of the first locator with the method HBA that has none of the prefixes of the set.
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

/// A claim whose hashes are verified.
#[derive(Debug)]
pub struct HashesVerified<'a> {
    claim: LocatorClaim<'a>,
    spki: Vec<u8>,
}

impl HashesVerified<'_> {
    /// Whether the next step needs an RSA verification.
    #[must_use]
    pub fn needs_signature(&self) -> bool {
        self.claim.needs_signature()
    }

    /// Verifies the signature, if a locator depends on it. A signature that no locator needs is not checked.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Signature`], or [`VerifyError::Key`] if the key cannot verify signatures.
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
/// creates this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorsVerified {
    ulid: Ulid,
    pds: Vec<u8>,
    locators: Vec<Locator>,
}

impl LocatorsVerified {
    /// The ULID to which the locators are bound.
    #[must_use]
    pub fn ulid(&self) -> Ulid {
        self.ulid
    }

    /// The parameters that prove the ULID.
    #[must_use]
    pub fn pds(&self) -> &[u8] {
        &self.pds
    }

    /// The locators in the order of the list, to which Locator Preferences refer. The ULID need not be among
    /// them.
    #[must_use]
    pub fn locators(&self) -> &[Locator] {
        &self.locators
    }
}

fn is_hba(entry: &LocatorEntry) -> bool {
    entry.method == VerificationMethod::HBA
}

/// Checks the methods. This costs nothing, so it comes before any parsing.
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

/// Checks key and signature without arithmetic: refuses a key that cannot have made the signature.
fn check_key(parameters: &Parameters<'_>, signature: &[u8]) -> Result<(), VerifyError> {
    // RFC 5535 s5: without the P flag the Public Key field holds no key.
    if parameters.fields.multi_prefix().is_some_and(|set| !set.has_public_key()) {
        return Err(VerifyError::NoPublicKey);
    }
    let bits = signing_bits(&parameters.fields.public_key).map_err(VerifyError::Key)?;
    let is_length = u32::try_from(signature.len()) == Ok(bits.div_ceil(8));
    if is_length { Ok(()) } else { Err(VerifyError::Signature) }
}
