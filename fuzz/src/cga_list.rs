use moorline_cga::{
    KeyFile, LocatorClaim, LocatorsVerified, MAX_LOCATORS, ParameterMemory, RsaKey, Signer,
    VerifyError, signed_octets, verify_cga, verify_hba, verify_signature,
};
use moorline_types::{Locator, Ulid};
use moorline_wire::{CgaParameters, LocatorEntry, LocatorList, VerificationMethod};
use std::sync::OnceLock;

/// A locator list from a peer, with parameters and signature. The list is accepted exactly if each HBA locator verifies
/// alone and the signature verifies.
///
/// Input: ULID (16 octets), whether to sign (1), lengths of the signature (2) and of the PDS (2), signature, PDS,
/// generation (4), then method and locator (17) for each entry. A fuzzer cannot sign. So if the second field is odd,
/// the target signs with the key below.
pub(crate) fn cga_signed_list(octets: &[u8]) -> bool {
    let Some(input) = Input::parse(octets) else { return false };
    let signature = input.signature.as_deref();
    let claim =
        LocatorClaim { ulid: input.ulid, pds: input.pds, list: Some(&input.list), signature };
    let entries = &input.list.entries;
    let by_signature = |entry: &LocatorEntry| {
        entry.method == VerificationMethod::CGA && entry.locator != input.ulid.as_locator()
    };
    assert_eq!(claim.needs_signature(), entries.iter().any(by_signature));
    let checked = claim.check();
    let verdict = claim.verify();
    match (&checked, &verdict) {
        (Err(early), late) => assert_eq!(late.as_ref().err(), Some(early)),
        (Ok(checked), late) => {
            assert_eq!(checked.needs_signature(), claim.needs_signature());
            // All hashes are right, so only the signature can fail.
            let is_signature = matches!(late, Err(VerifyError::Signature | VerifyError::Key(_)));
            assert!(late.is_ok() || is_signature && claim.needs_signature());
        }
    }
    match &verdict {
        Ok(verified) => check_accepted(&claim, verified),
        Err(error) => {
            let at = claim.inconsistent_method(*error);
            assert!(at.is_none_or(|at| at < entries.len()));
        }
    }
    checked.is_ok()
}

fn check_accepted(claim: &LocatorClaim<'_>, verified: &LocatorsVerified) {
    let list = claim.list.expect("the target gives one");
    let ulid = claim.ulid.as_locator();
    assert!(list.entries.iter().map(|entry| &entry.locator).eq(verified.locators()));
    assert!(list.entries.len() <= MAX_LOCATORS);
    assert!(verify_hba(ulid, claim.pds).is_ok() || verify_cga(ulid, claim.pds).is_ok());
    for entry in &list.entries {
        match entry.method {
            VerificationMethod::HBA => assert_eq!(verify_hba(entry.locator, claim.pds), Ok(())),
            method => assert_eq!(method, VerificationMethod::CGA),
        }
    }
    if claim.needs_signature() {
        check_signed(claim, list);
    }
    let mut memory = ParameterMemory::new(1);
    memory.remember(verified);
    assert_eq!(memory.recall(claim.ulid), Some(claim.pds));
}

fn check_signed(claim: &LocatorClaim<'_>, list: &LocatorList) {
    let signature = claim.signature.expect("it was verified");
    let fields = CgaParameters::parse(claim.pds).expect("it was verified");
    assert!(fields.multi_prefix().is_none_or(|set| set.has_public_key()));
    let verdict = verify_signature(&fields.public_key, &signed_octets(list), signature);
    assert_eq!(verdict, Ok(()));
    let later = LocatorList { generation: list.generation.wrapping_add(1), ..list.clone() };
    let replayed = LocatorClaim { list: Some(&later), ..*claim };
    assert_eq!(replayed.verify(), Err(VerifyError::Signature));
    let unsigned = LocatorClaim { signature: None, ..*claim };
    assert_eq!(unsigned.verify(), Err(VerifyError::NoSignature));
}

struct Input<'a> {
    ulid: Ulid,
    signature: Option<Vec<u8>>,
    pds: &'a [u8],
    list: LocatorList,
}

impl<'a> Input<'a> {
    fn parse(octets: &'a [u8]) -> Option<Self> {
        let (ulid, rest) = octets.split_first_chunk::<16>()?;
        let (&[make, s0, s1, p0, p1], rest) = rest.split_first_chunk()?;
        let (signature, rest) = rest.split_at_checked(u16::from_be_bytes([s0, s1]).into())?;
        let (pds, rest) = rest.split_at_checked(u16::from_be_bytes([p0, p1]).into())?;
        let (generation, rest) = rest.split_first_chunk()?;
        let entry = |&[method, ref locator @ ..]: &[u8; 17]| LocatorEntry {
            locator: Locator::from(*locator),
            method: VerificationMethod::new(method),
        };
        let list = LocatorList {
            generation: u32::from_be_bytes(*generation),
            entries: rest.as_chunks().0.iter().map(entry).collect(),
        };
        let signature = match make % 2 {
            0 => Some(signature.to_vec()).filter(|signature| !signature.is_empty()),
            _ => key().sign(&signed_octets(&list), [make; 32]).ok(),
        };
        Some(Self { ulid: Locator::from(*ulid).as_ulid(), signature, pds, list })
    }
}

/// A key file, as `moorline key import` reads it. A file that parses can be written and parsed again. If its key may
/// sign, the signatures verify.
pub(crate) fn cga_key_file(octets: &[u8]) -> bool {
    let Ok(file) = KeyFile::parse(octets) else { return false };
    let public = file.public_key().clone();
    match &file {
        KeyFile::Rsa(key) => {
            let pem = key.to_pkcs8_pem().expect("a key that was read");
            let again = KeyFile::parse(pem.as_bytes()).expect("what was just written");
            assert_eq!(again.public_key(), &public);
        }
        KeyFile::AddressOnly(_) => {
            let again = KeyFile::parse(public.spki()).expect("what was just read");
            assert_eq!(again.public_key(), &public);
        }
    }
    // A key signs nothing if its numbers fit each other and are not prime.
    if let Ok(Ok(signature)) = file.signer().map(|key| key.sign(b"octets", [7; 32])) {
        assert_eq!(verify_signature(public.spki(), b"octets", &signature), Ok(()));
    }
    true
}

fn key() -> &'static RsaKey {
    static KEY: OnceLock<RsaKey> = OnceLock::new();
    KEY.get_or_init(|| match KeyFile::parse(KEY_OF_THE_VECTORS) {
        Ok(KeyFile::Rsa(key)) => key,
        _ => panic!("the constant is an RSA key"),
    })
}

/// The throw-away key of `tests/vectors/cga_hba.json`.
const KEY_OF_THE_VECTORS: &[u8] = include_bytes!("../corpus/cga_key_file/rsa1024-pkcs1-pem");
