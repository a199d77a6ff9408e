//! Hash-based and cryptographically generated addresses (RFC 5535, RFC 3972).
//!
//! An address of a multihomed host can prove which other addresses belong to the same host. Its
//! interface identifier is a hash over a *CGA Parameters data structure* (PDS):
//!
//! ```text
//! modifier (16) | subnet prefix (8) | collision count (1) | public key (DER) | extensions
//! ```
//!
//! **Hash1** is the left 64 bits of SHA-1 over the PDS. With Sec in its three leftmost bits and the
//! `u` and `g` bits cleared it is the interface identifier. **Hash2** is SHA-1 over the PDS with prefix
//! and collision count zero; its 16 * Sec leftmost bits must be zero, so finding a modifier costs
//! 2^(16 * Sec) tries, for the owner once and for a forger each time.
//!
//! **HBA generation** (RFC 5535 s6): all prefixes go into the Multi-Prefix extension of one PDS; a
//! modifier is searched for Hash2; then Hash1 is taken once for each prefix with that prefix in the
//! prefix field. The addresses differ, and each is bound to the whole set. No public key is needed:
//! 384 random bits, the *Extended Modifier*, stand in for it, in the shape of an RSA key.
//!
//! **HBA verification** (RFC 5535 s7.2) of an address against the PDS of any address of the set: its
//! prefix is in the Multi-Prefix extension; with that prefix put into the PDS, Hash1 gives its
//! interface identifier and Hash2 fits the Sec that the address claims.
//!
//! **CGA generation** (RFC 3972 s4) is the same for one prefix and a real public key, without the
//! extension. **CGA verification** (s5) too: the prefix of the PDS must be that of the address.
//!
//! **Locator lists** (RFC 5533 s7.2) are verified against the PDS of the peer's ULID, which must be an HBA or
//! a CGA of that PDS. Each locator names the method that binds it to the ULID: either it is an HBA of the
//! same PDS, or a signature with the key in the PDS covers it. The signature covers the generation of the
//! list and all locators with the method CGA (s5.15.5). Signed locators may be any addresses. The cheap
//! checks come first, and the caller can learn beforehand whether there will be a signature to verify.
//!
//! **Our own lists** are made when our addresses change, one for each ULID that we can prove, with parameters
//! and signature. So no packet makes the host sign.
//!
//! The hashes do not say whether an address is unicast, global, or reachable. The caller checks the first
//! two, and REAP's return-routability probe the third.
//!
//! **The search** ([`Hash2Search`]) makes many tries at once in the lanes of the processor's vectors. Its
//! result is the first modifier that fits, counted from the starting one. Neither the engine nor the number
//! of callers that share the work changes the result.
//!
//! Each function depends on its inputs only. Random octets and a limit on the work come from the caller, who
//! can continue a search where the last call stopped.
#![no_std]
// `forbid`, except for the vector kernels in `search/x86`.
#![deny(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod cga;
mod claim;
mod error;
mod generate;
mod hash;
mod key;
mod key_file;
mod memory;
mod parameters;
mod proof;
mod public_key;
mod rsa_key;
mod search;
mod sec;
mod set;
mod signature;
mod verify;

#[cfg(test)]
mod tests;

pub use cga::Cga;
pub use claim::{HashesVerified, LocatorClaim, LocatorsVerified, MAX_LOCATORS};
pub use error::{GenerateError, KeyError, SignError, VerifyError};
pub use generate::{generate_cga, generate_hba};
pub use key::HbaKey;
pub use key_file::KeyFile;
pub use memory::ParameterMemory;
pub use parameters::MAX_PDS_OCTETS;
pub use proof::{Announcement, LeftOut, LocalAddresses, LocalProof};
pub use public_key::{MAX_SIGNING_BITS, MIN_SIGNING_BITS, PublicKey};
pub use rsa_key::RsaKey;
pub use search::{Engine, Hash2Search};
pub use sec::Sec;
pub use set::{HbaSet, MAX_PREFIXES};
pub use signature::{MESSAGE_TYPE_TAG, Signer, signed_octets, verify_signature};
pub use verify::{verify_cga, verify_hba};
