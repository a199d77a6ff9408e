use crate::Error;
use moorline_cga::{
    Cga, GenerateError, HbaKey, HbaSet, PublicKey, Sec, generate_cga, generate_hba,
};
use sha2::{Digest, Sha256};

/// Complete description of addresses, except for their modifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Whether the result is an HBA set and not a CGA.
    pub hba: bool,
    /// Prefixes, one for each address.
    pub prefixes: Vec<[u8; 8]>,
    /// The key that binds the addresses, or the random octets in its place.
    pub key: SetKey,
    /// Security parameter, which sets the work of the search.
    pub sec: Sec,
    /// The first modifier of the search.
    pub start: [u8; 16],
    /// Public key and extensions: the input of Hash2 besides the modifier.
    pub(crate) tail: Vec<u8>,
}

/// The contents of the public key field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetKey {
    /// A key, so that the addresses of an HBA set are CGAs too.
    Public(PublicKey),
    /// The Extended Modifier of an HBA set: 384 random bits (RFC 5535 s6).
    Random([u8; 48]),
}

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// One address, bound to a key.
    Cga(Cga),
    /// Addresses bound to each other, and to the key if the set has a key.
    Hba(HbaSet),
}

impl Job {
    /// Makes a job for an HBA set, or for one CGA.
    ///
    /// # Errors
    ///
    /// These addresses cannot be made.
    pub fn new(
        hba: bool,
        prefixes: Vec<[u8; 8]>,
        key: SetKey,
        sec: Sec,
        start: [u8; 16],
    ) -> Result<Self, Error> {
        if !hba && matches!(key, SetKey::Random(_)) {
            return Err(Error::NoKey);
        }
        if !hba && prefixes.len() != 1 {
            return Err(Error::OnePrefix);
        }
        if !sec.is_sha1() {
            return Err(GenerateError::HashFunction { sec }.into());
        }
        let mut job = Self { hba, prefixes, key, sec, start, tail: Vec::new() };
        // Sec 0 needs no search. So this shows before a long search whether the addresses can be made.
        job.tail = job.make(Sec::ZERO, start)?.params()[FIXED_OCTETS..].to_vec();
        Ok(job)
    }

    /// Derives the start of shards without an explicit start from the job.
    #[must_use]
    pub fn agreed_start(&self) -> [u8; 16] {
        let digest = Sha256::new()
            .chain_update(START_LABEL)
            .chain_update([self.sec.value()])
            .chain_update(&self.tail)
            .finalize();
        let ([start, _], _) = digest.0.as_chunks() else {
            unreachable!("32 octets are 2 times 16")
        };
        *start
    }

    /// Returns the public key; none for an HBA set without a key.
    #[must_use]
    pub fn public_key(&self) -> Option<&PublicKey> {
        match &self.key {
            SetKey::Public(key) => Some(key),
            SetKey::Random(_) => None,
        }
    }

    /// Makes the addresses of the modifier at this offset from the start.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Exhausted`] if that modifier does not fit.
    pub fn finish(&self, offset: u64) -> Result<Addresses, GenerateError> {
        let modifier = u128::from_be_bytes(self.start).wrapping_add(offset.into());
        self.make(self.sec, modifier.to_be_bytes())
    }

    fn make(&self, sec: Sec, modifier: [u8; 16]) -> Result<Addresses, GenerateError> {
        let key = match (&self.key, &self.prefixes[..]) {
            (SetKey::Public(key), &[prefix]) if !self.hba => {
                return generate_cga(prefix, sec, key, &[], modifier, 1).map(Addresses::Cga);
            }
            (SetKey::Public(key), _) => HbaKey::of(key),
            (SetKey::Random(random), _) => HbaKey::extended_modifier(*random),
        };
        generate_hba(&self.prefixes, sec, &key, modifier, 1).map(Addresses::Hba)
    }
}

impl Addresses {
    /// Returns the parameters of the first address.
    #[must_use]
    pub fn params(&self) -> &[u8] {
        self.members()[0].pds()
    }

    /// Makes the next addresses, after duplicate address detection has found a duplicate.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Collisions`] after the third duplicate.
    pub fn after_collision(&self) -> Result<Self, GenerateError> {
        match self {
            Self::Cga(cga) => cga.after_collision().map(Self::Cga),
            Self::Hba(set) => set.after_collision().map(Self::Hba),
        }
    }

    /// Returns each address with its parameters.
    #[must_use]
    pub fn members(&self) -> &[Cga] {
        match self {
            Self::Cga(cga) => std::slice::from_ref(cga),
            Self::Hba(set) => set.members(),
        }
    }
}

/// Label that separates these hash inputs from all others.
const START_LABEL: &[u8] = b"moorline: start of a search";
/// Octets of modifier, prefix and collision count (RFC 3972 s3).
const FIXED_OCTETS: usize = 25;
