use core::hash::Hasher as _;
use core::net::Ipv6Addr;

use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use siphasher::sip::SipHasher13;

/// Flow labels (RFC 6437): each flow has one label, and nobody can tell the labels of other flows from it.
#[derive(Debug)]
pub(super) struct FlowLabels {
    key: [u64; 2],
}

impl FlowLabels {
    pub(super) fn new(random: &mut ChaCha20Rng) -> Self {
        Self { key: [random.next_u64(), random.next_u64()] }
    }

    /// Label of a flow: 20 bits, not zero (RFC 6437 s3).
    //= rfc8504#5.1-10 rfc8504#5.1-12
    //= rfc8200#6
    pub(super) fn label(
        &self,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        protocol: u8,
        ports: (u16, u16),
    ) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        hasher.write(&source.octets());
        hasher.write(&destination.octets());
        hasher.write(&[protocol]);
        hasher.write(&ports.0.to_be_bytes());
        hasher.write(&ports.1.to_be_bytes());
        let label = u32::try_from(hasher.finish() % u64::from(LABELS)).unwrap_or_default();
        label + 1
    }
}

/// Number of labels that are not zero.
const LABELS: u32 = 0x000f_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng as _;

    //= rfc8504#5.1-10 rfc8504#5.1-12 (test)
    //= rfc8200#6 (test)
    #[test]
    fn a_flow_has_one_label_and_other_flows_others() {
        let labels = FlowLabels::new(&mut ChaCha20Rng::from_seed([1; 32]));
        let label = |port| labels.label(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 6, (port, 80));
        assert_eq!(label(1), label(1));
        let others = (1..1000).filter(|port| label(*port) != label(port + 1)).count();
        assert!(others > 990);
        assert!((1..1000).all(|port| (1..=0x000f_ffff).contains(&label(port))));
    }
}
