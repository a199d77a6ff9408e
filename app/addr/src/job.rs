use crate::Error;
use moorline_cga::{
    Cga, GenerateError, HbaKey, HbaSet, PublicKey, Sec, generate_cga, generate_hba,
};
use sha2::{Digest, Sha256};

/// Addresses to be made, with nothing left open but the modifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// An HBA set, and not a CGA.
    pub hba: bool,
    /// One for each address.
    pub prefixes: Vec<[u8; 8]>,
    /// The key that binds the addresses, or the random octets in its place.
    pub key: SetKey,
    /// How hard the search is.
    pub sec: Sec,
    /// The first modifier of the search.
    pub start: [u8; 16],
    /// Public key and extensions, which is what Hash2 is over besides the modifier.
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

/// What a job makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// One address, bound to a key.
    Cga(Cga),
    /// Addresses bound to each other, and to a key if there is one.
    Hba(HbaSet),
}

impl Job {
    /// An HBA set, or one CGA.
    ///
    /// # Errors
    ///
    /// It cannot be made.
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
        // Sec 0 takes no search, and shows before a long one whether there will be addresses.
        job.tail = job.make(Sec::ZERO, start)?.params()[FIXED_OCTETS..].to_vec();
        Ok(job)
    }

    /// Where shards start who have not been told: it follows from the job.
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

    /// The public key, unless it is an HBA set without.
    #[must_use]
    pub fn public_key(&self) -> Option<&PublicKey> {
        match &self.key {
            SetKey::Public(key) => Some(key),
            SetKey::Random(_) => None,
        }
    }

    /// The addresses of the modifier at this offset from the start.
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
    /// Parameters of the first address.
    #[must_use]
    pub fn params(&self) -> &[u8] {
        self.members()[0].pds()
    }

    /// The addresses after duplicate address detection has found one of them taken.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Collisions`] the third time.
    pub fn after_collision(&self) -> Result<Self, GenerateError> {
        match self {
            Self::Cga(cga) => cga.after_collision().map(Self::Cga),
            Self::Hba(set) => set.after_collision().map(Self::Hba),
        }
    }

    /// Each address with its parameters.
    #[must_use]
    pub fn members(&self) -> &[Cga] {
        match self {
            Self::Cga(cga) => std::slice::from_ref(cga),
            Self::Hba(set) => set.members(),
        }
    }
}

/// So that these octets are those of nothing else.
const START_LABEL: &[u8] = b"moorline: start of a search";
/// RFC 3972 s3: modifier, prefix and collision count.
const FIXED_OCTETS: usize = 25;
