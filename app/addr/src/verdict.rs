use moorline_cga::{Sec, VerifyError, verify_cga, verify_hba};
use moorline_types::Locator;
use serde::Serialize;
use std::net::Ipv6Addr;

/// Result of verifying an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Address of the question.
    pub address: Ipv6Addr,
    /// `cga` or `hba`.
    pub method: &'static str,
    /// Sec in the address.
    pub sec: u8,
    /// Whether the parameters prove the address.
    pub valid: bool,
    /// Failed step of the verification.
    pub step: Option<&'static str>,
    /// Reason of the failure.
    pub reason: Option<String>,
}

impl Verdict {
    /// Verifies a CGA (RFC 3972 s5) or, with `hba`, an address of an HBA set (RFC 5535 s7.2).
    #[must_use]
    pub fn new(address: Ipv6Addr, params: &[u8], hba: bool) -> Self {
        let locator = Locator(address);
        let (method, verify) =
            if hba { ("hba", verify_hba as Verify) } else { ("cga", verify_cga as _) };
        let error = verify(locator, params).err();
        Self {
            address,
            method,
            sec: Sec::of_interface_id(locator.interface_id()).value(),
            valid: error.is_none(),
            step: error.map(step),
            reason: error.map(|error| error.to_string()),
        }
    }
}

type Verify = fn(Locator, &[u8]) -> Result<(), VerifyError>;

/// Returns the step of the verification that gives an error.
#[expect(clippy::wildcard_enum_match_arm, reason = "the errors of locator lists do not occur here")]
fn step(error: VerifyError) -> &'static str {
    match error {
        VerifyError::Hash1 => "hash 1",
        VerifyError::Hash2 => "hash 2",
        VerifyError::HashFunction { .. } => "Sec",
        VerifyError::PrefixMismatch | VerifyError::PrefixNotInSet => "prefix",
        VerifyError::CollisionCount => "collision count",
        VerifyError::NoMultiPrefix
        | VerifyError::DuplicateMultiPrefix
        | VerifyError::MultiPrefixLength => "Multi-Prefix",
        VerifyError::PublicKey => "DER",
        VerifyError::Extension => "extension",
        _ => "length",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, SetKey};

    const A: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
    const B: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0];

    fn a_set() -> (Vec<Ipv6Addr>, Vec<u8>) {
        let job = Job::new(true, vec![A, B], SetKey::Random([1; 48]), Sec::ZERO, [9; 16]).unwrap();
        let made = job.finish(0).unwrap();
        let addresses = made.members().iter().map(|member| member.address().0).collect();
        (addresses, made.params().to_vec())
    }

    #[test]
    fn every_address_of_a_set_is_an_hba_and_the_first_a_cga() {
        let (addresses, params) = a_set();
        for address in &addresses {
            let verdict = Verdict::new(*address, &params, true);
            assert_eq!((verdict.valid, verdict.method, verdict.step), (true, "hba", None));
        }
        assert!(Verdict::new(addresses[0], &params, false).valid);
        let other = Verdict::new(addresses[1], &params, false);
        assert_eq!((other.valid, other.step), (false, Some("prefix")));
    }

    #[test]
    fn the_step_that_failed_is_named() {
        let (addresses, params) = a_set();
        let step = |address: u128, params: &[u8], hba: bool| {
            Verdict::new(Ipv6Addr::from_bits(address), params, hba).step.unwrap()
        };
        let address = addresses[0].to_bits();
        let with = |at: usize, octet: u8| {
            let mut params = params.clone();
            params[at] = octet;
            params
        };
        assert_eq!(step(address ^ 1, &params, true), "hash 1");
        assert_eq!(step(address ^ 1 << 64, &params, true), "prefix");
        assert_eq!(step(address, &with(24, 3), true), "collision count");
        assert_eq!(step(address, &with(25, 0x31), true), "DER");
        let no_extension = &params[..params.len() - 24];
        assert_eq!(step(address, no_extension, true), "Multi-Prefix");
        assert_eq!(step(address, &params[..params.len() - 1], true), "extension");
        assert_eq!(step(address, &[], true), "length");
        assert_eq!(step(address | 7 << 61, &params, true), "Sec");
        // With Sec 1 in the address, Hash2 does not fulfil the condition.
        assert_eq!(step(address | 1 << 61, &params, true), "hash 2");
    }
}
