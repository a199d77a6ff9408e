use moorline_cga::{
    GenerateError, HbaKey, KeyError, LocalAddresses, LocalProof, RsaKey, Sec, Signer, generate_cga,
    generate_hba,
};
use moorline_contexts::LocalState;
use moorline_types::{ContextTag, Ulid};
use moorline_wire::{I1, I2, Message, Opt, Options};
use std::fmt;

/// How a peer proves its locators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Security {
    /// By hashes alone (RFC 5535).
    Hba,
    /// By a signature with an RSA key of so many bits (RFC 3972).
    Cga {
        /// Length of the modulus.
        bits: u32,
    },
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hba => f.write_str("hba"),
            Self::Cga { bits } => write!(f, "cga-rsa{bits}"),
        }
    }
}

/// Makes peers with two locators, under prefixes of their own; equal numbers give equal peers.
#[derive(Debug)]
pub struct Peers {
    /// That of CGAs.
    key: Option<RsaKey>,
}

/// A host that wants a context.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The address it is known by.
    pub ulid: Ulid,
    /// Its addresses, the ULID first, and their proof.
    pub local: LocalState,
    /// Locator list, parameters and signature as options.
    told: Vec<Opt>,
    tag: ContextTag,
}

impl Peers {
    /// Peers with this kind of proof. One RSA key serves them all: what differs is what is signed.
    pub fn new(security: Security) -> Result<Self, KeyError> {
        let key = match security {
            Security::Hba => None,
            Security::Cga { bits } => Some(RsaKey::generate(bits, &mut [7; 32])?),
        };
        Ok(Self { key })
    }

    /// The peer of this number.
    pub fn peer(&self, number: u32) -> Result<Peer, GenerateError> {
        let modifier = (u128::from(number) << 32 | 1).to_be_bytes();
        let prefixes = [prefix(0, number), prefix(1, number)];
        let (addresses, signers) = match &self.key {
            None => {
                let key = HbaKey::extended_modifier([1; 48]);
                let set = generate_hba(&prefixes, Sec::ZERO, &key, modifier, 1)?;
                let present = set.locators().to_vec();
                (
                    LocalAddresses {
                        present,
                        sets: vec![set],
                        cgas: vec![],
                        ..LocalAddresses::default()
                    },
                    vec![],
                )
            }
            Some(key) => {
                let cga =
                    |prefix| generate_cga(prefix, Sec::ZERO, key.public_key(), &[], modifier, 1);
                let cgas = vec![cga(prefixes[0])?, cga(prefixes[1])?];
                let present = cgas.iter().map(|cga| cga.address()).collect();
                let signer: &dyn Signer = key;
                (
                    LocalAddresses { present, sets: vec![], cgas, ..LocalAddresses::default() },
                    vec![signer],
                )
            }
        };
        let usable = addresses.present.clone();
        let ulid = usable[0].as_ulid();
        let proof = LocalProof::new(1, addresses, &signers, [number.to_be_bytes()[3]; 32]);
        let told = proof.announcement_for(ulid).map(|told| told.options()).unwrap_or_default();
        // Spread over the tag's bits, as random ones are; never the same for two numbers.
        let tag = ContextTag::from_bits(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(Peer { ulid, local: LocalState { proof, usable }, told, tag })
    }
}

impl Peer {
    /// Its I1, from the Next Header octet on.
    #[must_use]
    pub fn i1(&self) -> Vec<u8> {
        let options = Options::default();
        Message::I1(I1 { initiator_tag: self.tag, initiator_nonce: NONCE, options }).octets()
    }

    /// Its I2 in answer to an R1.
    #[must_use]
    pub fn i2(&self, responder_nonce: u32, validator: &[u8]) -> Vec<u8> {
        let mut options = vec![Opt::Validator(validator.to_vec())];
        options.extend(self.told.iter().cloned());
        let options = Options::from(options);
        let initiator_tag = self.tag;
        Message::I2(I2 { initiator_tag, initiator_nonce: NONCE, responder_nonce, options }).octets()
    }
}

/// One of its own for each number, spread over all prefixes as peers' are.
fn prefix(isp: u8, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    [0x2a, isp, a, b, c, d, 0, 0]
}

/// Initiator Nonce: the responder only repeats it.
const NONCE: u32 = 0x1122_3344;
