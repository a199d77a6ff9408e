use crate::Sec;
use moorline_types::DropReason;

/// Step of a verification that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The PDS has no more than its fixed part, or less.
    #[error("the parameters end before the public key")]
    Truncated,
    /// The PDS is longer than the cap.
    #[error("the parameters are longer than {} octets", crate::MAX_PDS_OCTETS)]
    TooLong,
    /// The public key field is not the DER of a `SubjectPublicKeyInfo`.
    #[error("the public key is not a DER SubjectPublicKeyInfo")]
    PublicKey,
    /// An extension is longer than what is left of the PDS.
    #[error("an extension runs past the end of the parameters")]
    Extension,
    /// The PDS has more extensions, or more prefixes, than the cap.
    #[error("too many extensions or prefixes")]
    TooMany,
    /// The Multi-Prefix extension does not hold its flags and a whole number of prefixes, at least one.
    #[error("the Multi-Prefix extension has an impossible length")]
    MultiPrefixLength,
    /// More than one Multi-Prefix extension.
    #[error("there are two Multi-Prefix extensions")]
    DuplicateMultiPrefix,
    /// An HBA was to be verified, and there is no Multi-Prefix extension (RFC 5533 s7.2).
    #[error("there is no Multi-Prefix extension")]
    NoMultiPrefix,
    /// The prefix of the HBA is not in the Multi-Prefix extension.
    #[error("the prefix is not in the Multi-Prefix extension")]
    PrefixNotInSet,
    /// The collision count is above 2.
    #[error("the collision count is above 2")]
    CollisionCount,
    /// The prefix of the CGA is not the one in the PDS.
    #[error("the prefix is not the one in the parameters")]
    PrefixMismatch,
    /// The interface identifier is not Hash1.
    #[error("the interface identifier is not Hash1")]
    Hash1,
    /// Hash2 has fewer zero bits than the Sec of the address asks for.
    #[error("Hash2 has too few zero bits")]
    Hash2,
    /// The Sec of the address stands for a hash function other than SHA-1 (RFC 4982).
    #[error("Sec {sec} stands for no hash function known here: only 0, 1 and 2 do, for SHA-1")]
    HashFunction {
        /// Sec of the address, or of the request.
        sec: Sec,
    },
    /// A locator is to be verified by CGA, and the message has no signature (RFC 5533 s5.15.5).
    #[error("there is no signature, and a locator needs it")]
    NoSignature,
    /// A locator is to be verified by CGA, and the parameters belong to an HBA set without a key (P flag, RFC
    /// 5535 s5).
    #[error("the Multi-Prefix extension says that there is no public key, and a locator needs it")]
    NoPublicKey,
    /// The public key cannot have made a signature that is accepted.
    #[error("the signature cannot be verified: {0}")]
    Key(KeyError),
    /// The signature does not belong to this key and this list.
    #[error("the signature is not of this key, or not over this list")]
    Signature,
    /// The locator list has more entries than the cap.
    #[error("more than {} locators", crate::MAX_LOCATORS)]
    TooManyLocators,
    /// A locator is to be verified by a method that this crate does not have.
    #[error("verification method of locator {index} is not supported")]
    MethodUnsupported {
        /// Index of the locator in the list, from zero.
        index: usize,
    },
}

impl From<VerifyError> for DropReason {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Truncated => Self::Truncated,
            VerifyError::TooLong | VerifyError::TooMany | VerifyError::TooManyLocators => {
                Self::TooMany
            }
            VerifyError::PublicKey
            | VerifyError::Extension
            | VerifyError::MultiPrefixLength
            | VerifyError::DuplicateMultiPrefix
            | VerifyError::CollisionCount => Self::BadFormat,
            VerifyError::NoSignature => Self::MissingOption,
            VerifyError::NoMultiPrefix
            | VerifyError::NoPublicKey
            | VerifyError::PrefixNotInSet
            | VerifyError::PrefixMismatch
            | VerifyError::Hash1
            | VerifyError::Hash2
            | VerifyError::Signature => Self::Unverified,
            VerifyError::Key(KeyError::Malformed) => Self::BadFormat,
            VerifyError::Key(_)
            | VerifyError::HashFunction { .. }
            | VerifyError::MethodUnsupported { .. } => Self::Unsupported,
        }
    }
}

/// Reason why no address was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The list of prefixes is empty.
    #[error("an HBA set needs at least one prefix")]
    NoPrefix,
    /// There are more prefixes than the cap.
    #[error("an HBA set has at most {} prefixes", crate::MAX_PREFIXES)]
    TooManyPrefixes,
    /// A prefix is in the list twice.
    #[error("prefix {index} is already in the list")]
    DuplicatePrefix {
        /// Index of the second one, from zero.
        index: usize,
    },
    /// The public key is not the DER of a `SubjectPublicKeyInfo`.
    #[error("the public key is not a DER SubjectPublicKeyInfo")]
    PublicKey,
    /// The Sec stands for a hash function other than SHA-1 (RFC 4982).
    #[error("Sec {sec} stands for no hash function known here: only 0, 1 and 2 do, for SHA-1")]
    HashFunction {
        /// Sec of the request.
        sec: Sec,
    },
    /// Our own verification would not accept these extensions.
    #[error("the extensions do not make valid parameters: {0}")]
    Extensions(VerifyError),
    /// The PDS would be longer than our own verification accepts.
    #[error("the parameters would be longer than {} octets", crate::MAX_PDS_OCTETS)]
    TooLong,
    /// The allowed tries are used up. The search can continue from here with the same key.
    #[error("no modifier found within the allowed tries")]
    Exhausted {
        /// The first modifier that was not tried.
        next_modifier: [u8; 16],
    },
    /// There were three address collisions: something else is wrong in this network (RFC 5535 s6 step 6.4).
    #[error("three address collisions")]
    Collisions,
}

/// Fault of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The octets are not the DER of a key, or PEM around one.
    #[error("the key is malformed")]
    Malformed,
    /// The key is encrypted with a passphrase, for which a daemon cannot ask anybody.
    #[error(
        "the key is encrypted: decrypt it first, for example with openssl pkey -in FILE -out NEW"
    )]
    Encrypted,
    /// The key is a private key other than RSA without its public key. Addresses need only the public key.
    #[error(
        "the file holds no public key: give that, for example from openssl pkey -in FILE -pubout"
    )]
    NoPublic,
    /// The key is a public key, and signing needs a private one.
    #[error("the file holds a public key, and only the private key can sign")]
    NoPrivate,
    /// The algorithm is not RSA. RFC 5533 s5.15.5 has no other signatures.
    #[error("the key is not an RSA key, and only those can sign")]
    NotRsa,
    /// The RSA key is shorter than signatures need. Addresses may have one.
    #[error("an RSA key of {bits} bits is too short to sign: {} at least", crate::MIN_SIGNING_BITS)]
    TooShort {
        /// Bits of the modulus.
        bits: u32,
    },
    /// The RSA key makes signatures that take too long to verify.
    #[error("an RSA key of {bits} bits is too long to sign: {} at most", crate::MAX_SIGNING_BITS)]
    TooLong {
        /// Bits of the modulus.
        bits: u32,
    },
}

/// Reason why nothing was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The key cannot sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The new signature does not verify: the key or the machine is faulty.
    #[error("the signature came out wrong: the key or the machine is faulty")]
    Faulty,
}
