use moorline_cga::{
    Cga, GenerateError, HbaKey, HbaSet, PublicKey, Sec, generate_cga, generate_hba,
};
use sha2::{Digest, Sha256};

/// Addresses to be made, with nothing left open but the modifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    kind: Kind,
    sec: Sec,
    /// Of the search.
    start: [u8; 16],
    tail: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Cga { prefix: [u8; 8], key: PublicKey },
    Hba { prefixes: Vec<[u8; 8]>, key: SetKey },
}

/// What stands in the public key field of an HBA set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetKey {
    /// A key, so that the addresses are CGAs too.
    Public(PublicKey),
    /// The Extended Modifier: 384 random bits (RFC 5535 s6).
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
    /// One CGA.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn cga(
        prefix: [u8; 8],
        sec: Sec,
        key: PublicKey,
        start: [u8; 16],
    ) -> Result<Self, GenerateError> {
        Self::new(Kind::Cga { prefix, key }, sec, start)
    }

    /// An HBA set.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn hba(
        prefixes: Vec<[u8; 8]>,
        sec: Sec,
        key: SetKey,
        start: [u8; 16],
    ) -> Result<Self, GenerateError> {
        Self::new(Kind::Hba { prefixes, key }, sec, start)
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

    /// The same with another start.
    #[must_use]
    pub fn with_start(self, start: [u8; 16]) -> Self {
        Self { start, ..self }
    }

    /// The first modifier of the search.
    #[must_use]
    pub fn start(&self) -> [u8; 16] {
        self.start
    }

    /// How hard the search is.
    #[must_use]
    pub fn sec(&self) -> Sec {
        self.sec
    }

    /// Public key and extensions, which is what Hash2 is over besides the modifier.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Whether it makes an HBA set.
    #[must_use]
    pub fn is_hba(&self) -> bool {
        matches!(self.kind, Kind::Hba { .. })
    }

    /// One for each address.
    #[must_use]
    pub fn prefixes(&self) -> &[[u8; 8]] {
        match &self.kind {
            Kind::Cga { prefix, .. } => std::slice::from_ref(prefix),
            Kind::Hba { prefixes, .. } => prefixes,
        }
    }

    /// The public key, unless it is an HBA set without.
    #[must_use]
    pub fn public_key(&self) -> Option<&PublicKey> {
        match &self.kind {
            Kind::Cga { key, .. } | Kind::Hba { key: SetKey::Public(key), .. } => Some(key),
            Kind::Hba { key: SetKey::Random(_), .. } => None,
        }
    }

    /// The Extended Modifier of an HBA set without a key.
    #[must_use]
    pub fn extended_modifier(&self) -> Option<&[u8; 48]> {
        match &self.kind {
            Kind::Hba { key: SetKey::Random(random), .. } => Some(random),
            Kind::Cga { .. } | Kind::Hba { .. } => None,
        }
    }

    /// The addresses of the modifier at this offset from the start.
    ///
    /// # Errors
    ///
    /// [`GenerateError::Exhausted`] if that modifier does not fit.
    pub fn finish(&self, offset: u64) -> Result<Addresses, GenerateError> {
        let modifier = u128::from_be_bytes(self.start).wrapping_add(offset.into());
        self.kind.make(self.sec, modifier.to_be_bytes())
    }

    fn new(kind: Kind, sec: Sec, start: [u8; 16]) -> Result<Self, GenerateError> {
        if !sec.is_sha1() {
            return Err(GenerateError::HashFunction { sec });
        }
        // Sec 0 takes no search, and shows before a long one whether there will be addresses.
        let tail = kind.make(Sec::ZERO, start)?.params()[FIXED_OCTETS..].to_vec();
        Ok(Self { kind, sec, start, tail })
    }
}

impl Kind {
    fn make(&self, sec: Sec, modifier: [u8; 16]) -> Result<Addresses, GenerateError> {
        match self {
            Self::Cga { prefix, key } => {
                generate_cga(*prefix, sec, key, &[], modifier, 1).map(Addresses::Cga)
            }
            Self::Hba { prefixes, key } => {
                generate_hba(prefixes, sec, &key.to_hba_key()?, modifier, 1).map(Addresses::Hba)
            }
        }
    }
}

impl SetKey {
    fn to_hba_key(&self) -> Result<HbaKey, GenerateError> {
        match self {
            Self::Public(key) => HbaKey::public_key(key.spki()),
            Self::Random(random) => Ok(HbaKey::extended_modifier(*random)),
        }
    }
}

impl Addresses {
    /// Parameters of the first address.
    #[must_use]
    pub fn params(&self) -> &[u8] {
        match self {
            Self::Cga(cga) => cga.pds(),
            Self::Hba(set) => set.pds(),
        }
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
    pub fn members(&self) -> Vec<(std::net::Ipv6Addr, &[u8])> {
        match self {
            Self::Cga(cga) => vec![(cga.address().0, cga.pds())],
            Self::Hba(set) => {
                set.members().iter().map(|member| (member.address().0, member.pds())).collect()
            }
        }
    }
}

/// So that these octets are those of nothing else.
const START_LABEL: &[u8] = b"moorline: start of a search";
/// RFC 3972 s3: modifier, prefix and collision count.
const FIXED_OCTETS: usize = 25;
