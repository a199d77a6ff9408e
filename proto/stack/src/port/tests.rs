use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use rand_core::SeedableRng as _;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const C: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3);

fn ports(seed: u64) -> Ports {
    Ports::new(ChaCha20Rng::seed_from_u64(seed))
}

#[test]
fn ports_towards_one_peer_count_up_within_the_range_and_come_around_after_all_of_them() {
    let mut ports = ports(1);
    let chosen: Vec<u16> =
        (0..16_384).map(|_| ports.for_peer(A, B, 80, |_| true).unwrap()).collect();
    assert!(chosen.iter().all(|port| EPHEMERAL.contains(port)));
    assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 16_384, "none twice");
    let next = |port: u16| if port == 65_535 { 49_152 } else { port + 1 };
    assert!(chosen.windows(2).filter(|pair| pair[1] == next(pair[0])).count() >= 16_382);
}

#[test]
fn ports_depend_on_the_seed_the_local_address_the_peer_and_its_port() {
    let first = |seed, local, peer, port| ports(seed).for_peer(local, peer, port, |_| true);
    let differ = |seed| {
        let base = first(seed, A, B, 80);
        assert_eq!(base, first(seed, A, B, 80), "equal seeds and inputs give equal ports");
        [first(seed, C, B, 80), first(seed, A, C, 80), first(seed, A, B, 81)]
            .iter()
            .filter(|other| **other != base)
            .count()
    };
    assert!((0..100).map(differ).sum::<usize>() > 295);
    let seeds: BTreeSet<_> = (0..1000).map(|seed| first(seed, A, B, 80)).collect();
    assert!(seeds.len() > 950, "{} ports of 1,000 seeds", seeds.len());
}

#[test]
fn a_peer_learns_nothing_about_the_ports_towards_another_peer() {
    // RFC 6056 s3.3.3: an attacker must not derive ports towards others from ports that it saw.
    let distances: BTreeSet<u16> = (0..1000)
        .map(|seed| {
            let mut ports = ports(seed);
            let [b, c] = [B, C].map(|peer| ports.for_peer(A, peer, 80, |_| true).unwrap());
            b.wrapping_sub(c)
        })
        .collect();
    assert!(distances.len() > 950, "{}", distances.len());
}

#[test]
fn a_port_that_is_not_free_is_passed_over() {
    let mut ports = ports(2);
    assert_eq!(ports.for_peer(A, B, 80, |port| port == 60_000), Some(60_000));
    assert_eq!(ports.random(|port| port == 50_000), Some(50_000));
    assert_eq!(ports.for_peer(A, B, 80, |_| false), None);
    assert_eq!(ports.random(|_| false), None);
}

#[test]
fn random_ports_spread_over_the_range() {
    let mut ports = ports(3);
    let chosen: BTreeSet<_> = (0..1000).filter_map(|_| ports.random(|_| true)).collect();
    assert!(chosen.len() > 950, "{}", chosen.len());
    assert!(chosen.iter().all(|port| EPHEMERAL.contains(port)));
}

#[test]
fn a_range_can_have_one_port_or_none_or_all() {
    let in_range = |range| Ports::in_range(range, ChaCha20Rng::seed_from_u64(4));
    let mut one = in_range(7..=7);
    assert_eq!([one.random(|_| true), one.for_peer(A, B, 1, |_| true)], [Some(7); 2]);
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "a range without ports is the case under test"
    )]
    let mut none = in_range(8..=7);
    assert_eq!([none.random(|_| true), none.for_peer(A, B, 1, |_| true)], [None; 2]);
    let mut all = in_range(0..=u16::MAX);
    assert_eq!(all.random(|port| port == u16::MAX), Some(u16::MAX));
    assert_eq!(all.for_peer(A, B, 1, |port| port == 0), Some(0));
}
