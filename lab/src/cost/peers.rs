use moorline_cga::{
    GenerateError, HbaKey, KeyError, LocalAddresses, LocalProof, RsaKey, Sec, Signer, generate_cga,
    generate_hba,
};
use moorline_contexts::LocalState;
use moorline_types::{ContextTag, Ulid};
use moorline_wire::{I1, I2, Message, Opt, Options};
use std::fmt;

/// Kind of proof of a peer's locators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Security {
    /// Hashes alone (HBA, RFC 5535).
    Hba,
    /// A signature with an RSA key (CGA, RFC 3972).
    Cga {
        /// Length of the modulus in bits.
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

/// Makes peers with two locators, each peer under its own prefixes. Equal numbers give equal peers.
#[derive(Debug)]
pub struct Peers {
    /// The key of all CGAs.
    key: Option<RsaKey>,
}

/// A host that asks for a context.
#[derive(Clone, Debug)]
pub struct Peer {
    /// ULID of the peer.
    pub ulid: Ulid,
    /// The addresses of the peer, the ULID first, and their proof.
    pub local: LocalState,
    /// Locator list, parameters and signature, as options.
    told: Vec<Opt>,
    tag: ContextTag,
}

impl Peers {
    /// Peers with this kind of proof. All peers share one RSA key, because their signed data differs.
    pub fn new(security: Security) -> Result<Self, KeyError> {
        let key = match security {
            Security::Hba => None,
            Security::Cga { bits } => Some(RsaKey::generate(bits, &mut [7; 32])?),
        };
        Ok(Self { key })
    }

    /// Makes the peer of this number.
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
        // Tags are spread over all 47 bits, as random tags are. No two numbers have the same tag.
        let tag = ContextTag::from_bits(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(Peer { ulid, local: LocalState { proof, usable }, told, tag })
    }
}

impl Peer {
    /// Locator list, parameters and signature, as options.
    #[must_use]
    pub fn told(&self) -> &[Opt] {
        &self.told
    }

    /// The I1 of the peer, from the Next Header octet on.
    #[must_use]
    pub fn i1(&self) -> Vec<u8> {
        let options = Options::default();
        Message::I1(I1 { initiator_tag: self.tag, initiator_nonce: NONCE, options }).octets()
    }

    /// The I2 of the peer that answers an R1.
    #[must_use]
    pub fn i2(&self, responder_nonce: u32, validator: &[u8]) -> Vec<u8> {
        let mut options = vec![Opt::Validator(validator.to_vec())];
        options.extend(self.told.iter().cloned());
        let options = Options::from(options);
        let initiator_tag = self.tag;
        Message::I2(I2 { initiator_tag, initiator_nonce: NONCE, responder_nonce, options }).octets()
    }
}

/// A prefix for each number. The prefixes are spread over the address space, as those of real peers are.
fn prefix(isp: u8, number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    [0x2a, isp, a, b, c, d, 0, 0]
}

/// Initiator Nonce. The responder only repeats it.
const NONCE: u32 = 0x1122_3344;
