use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::*;

fn locator(site: u16, isp: u16) -> Locator {
    Locator::from(core::net::Ipv6Addr::new(0x2001, 0xdb8, isp, 0, 0, 0, 0, site))
}

fn set(site: u16, count: u16) -> Vec<Locator> {
    (0..count).map(|isp| locator(site, isp)).collect()
}

const fn sets<'a>(local: &'a [Locator], peer: &'a [Locator]) -> Sets<'a> {
    Sets { local, peer, ranks: &[], order: &[], avoided: &[], unrouted: &[], proven: &[] }
}

fn walk(local: &[Locator], peer: &[Locator], failed: LocatorPair, seed: u8) -> Vec<LocatorPair> {
    let mut order = Order::new(sets(local, peer), failed, &mut Random::new([seed; 32], 0));
    (0..order.len()).filter_map(|_| order.advance(sets(local, peer))).collect()
}

/// Number of ends that the pair shares with the failed pair: 0, 1, or 2 for the failed pair itself.
fn shared(pair: LocatorPair, failed: LocatorPair) -> usize {
    usize::from(pair.local == failed.local) + usize::from(pair.peer == failed.peer)
}

#[test]
fn disjoint_pairs_come_first_and_the_failed_one_last() {
    for locals in 1..5 {
        for peers in 1..5 {
            let (local, peer) = (set(1, locals), set(2, peers));
            let failed = LocatorPair::new(local[0], peer[usize::from(peers) - 1]);
            let walked = walk(&local, &peer, failed, 7);
            let classes: Vec<_> = walked.iter().map(|&p| shared(p, failed)).collect();
            assert!(classes.is_sorted(), "{classes:?}");
            assert_eq!(walked.last(), Some(&failed));
            assert_eq!(walked.len(), usize::from(locals * peers));
            assert_eq!(walked.iter().collect::<BTreeSet<_>>().len(), walked.len(), "no pair twice");
        }
    }
}

#[test]
fn a_failed_pair_that_is_no_candidate_is_not_walked() {
    let (local, peer) = (set(1, 2), set(2, 2));
    let failed = LocatorPair::new(locator(1, 9), peer[0]);
    let walked = walk(&local, &peer, failed, 1);
    assert_eq!(walked.len(), 4);
    assert_eq!(shared(walked[0], failed), 0);
    assert_eq!(shared(walked[3], failed), 1);
}

#[test]
fn disjoint_pairs_in_a_row_share_no_end() {
    let (local, peer) = (set(1, 4), set(2, 4));
    let failed = LocatorPair::new(local[0], peer[0]);
    let walked = walk(&local, &peer, failed, 3);
    for row in walked[..9].chunks(3) {
        assert!(row.windows(2).all(|w| w[0].shared_ends(w[1]) == 0), "{row:?}");
    }
}

#[test]
fn seeds_give_different_first_pairs() {
    let (local, peer) = (set(1, 4), set(2, 4));
    let failed = LocatorPair::new(local[0], peer[0]);
    let first: BTreeSet<_> = (0..64).map(|seed| walk(&local, &peer, failed, seed)[0]).collect();
    assert_eq!(first.len(), 9, "all disjoint pairs get their turn to be first");
    assert_eq!(walk(&local, &peer, failed, 5), walk(&local, &peer, failed, 5));
}

#[test]
fn the_walk_begins_again_after_the_last_pair() {
    let (local, peer) = (set(1, 2), set(2, 2));
    let failed = LocatorPair::new(local[0], peer[0]);
    let mut order = Order::new(sets(&local, &peer), failed, &mut Random::new([0; 32], 0));
    let twice: Vec<_> = (0..8).map(|_| order.advance(sets(&local, &peer))).collect();
    assert_eq!(twice[..4], twice[4..]);
}

#[test]
fn nothing_to_walk_without_locators() {
    let local = set(1, 2);
    let failed = LocatorPair::new(local[0], locator(2, 0));
    assert!(walk(&local, &[], failed, 0).is_empty());
    assert!(walk(&[], &local, failed, 0).is_empty());
}

#[test]
fn pairs_of_different_scope_are_left_out() {
    let link_local = Locator::from("fe80::1".parse::<core::net::Ipv6Addr>().unwrap());
    let local = [locator(1, 0), link_local];
    let failed = LocatorPair::new(local[0], locator(2, 0));
    let walked = walk(&local, &set(2, 2), failed, 0);
    assert_eq!(walked.len(), 2);
    assert!(walked.iter().all(|p| p.local != link_local));
    for bad in ["::", "::1", "ff02::1"] {
        let bad = Locator::from(bad.parse::<core::net::Ipv6Addr>().unwrap());
        assert!(!is_usable(LocatorPair::new(bad, locator(2, 0))));
    }
    assert!(!is_usable(LocatorPair::new(local[0], local[0])), "a host does not probe itself");
}

#[test]
fn new_pairs_jump_the_queue() {
    let (local, peer) = (set(1, 3), set(2, 1));
    let failed = LocatorPair::new(local[0], peer[0]);
    let mut order = Order::new(sets(&local, &peer), failed, &mut Random::new([0; 32], 0));
    order.advance(sets(&local, &peer));
    order.prefer(sets(&local, &peer), |pair| pair.local == local[2]);
    assert_eq!(order.advance(sets(&local, &peer)), Some(LocatorPair::new(local[2], peer[0])));
}

#[test]
fn what_the_peer_calls_broken_comes_last_and_its_order_counts_before_chance() {
    let (local, peer) = (set(1, 2), set(2, 4));
    let failed = LocatorPair::new(local[0], peer[0]);
    let rank = |is_broken, is_transient, priority| Rank { is_broken, is_transient, priority };
    let ranks =
        [rank(false, false, 0), rank(true, false, 0), rank(false, true, 1), rank(false, false, 9)];
    for seed in 0..32 {
        let sets = Sets { ranks: &ranks, ..sets(&local, &peer) };
        let mut order = Order::new(sets, failed, &mut Random::new([seed; 32], 0));
        let walked: Vec<_> = (0..order.len()).filter_map(|_| order.advance(sets)).collect();
        assert_eq!(walked[0], LocatorPair::new(local[1], peer[3]), "disjoint, stable");
        assert_eq!(walked[1], LocatorPair::new(local[1], peer[2]), "disjoint, transient");
        assert!(walked[6..].iter().all(|pair| pair.peer == peer[1]), "{walked:?}");
        assert_eq!(walked[5], failed);
    }
}

#[test]
fn what_we_would_rather_try_comes_first_among_equals_and_what_we_avoid_after_the_others() {
    let (local, peer) = (set(1, 3), set(2, 3));
    let pair = |l: usize, p: usize| LocatorPair::new(local[l], peer[p]);
    let failed = pair(0, 0);
    let (order, avoided) = ([pair(2, 1), pair(1, 2)], [pair(1, 1)]);
    for seed in 0..20 {
        let sets = Sets { order: &order, avoided: &avoided, ..sets(&local, &peer) };
        let mut walk = Order::new(sets, failed, &mut Random::new([seed; 32], 0));
        let walked: Vec<_> = (0..walk.len()).filter_map(|_| walk.advance(sets)).collect();
        assert_eq!(walked[..2], order, "those that share no end with the failed one first");
        assert_eq!(walked.last(), Some(&avoided[0]));
        assert_eq!(walked.len(), 9);
    }
}

#[test]
fn pairs_that_are_not_routed_are_not_tried() {
    let (local, peer) = (set(1, 2), set(2, 2));
    let pair = |l: usize, p: usize| LocatorPair::new(local[l], peer[p]);
    let unrouted = [pair(0, 1), pair(1, 0)];
    let sets = Sets { unrouted: &unrouted, ..sets(&local, &peer) };
    let mut order = Order::new(sets, pair(0, 0), &mut Random::new([1; 32], 0));
    let walked: Vec<_> = (0..order.len()).filter_map(|_| order.advance(sets)).collect();
    assert_eq!(walked, [pair(1, 1), pair(0, 0)]);
}

#[test]
fn with_many_locators_pairs_that_are_known_to_work_come_first() {
    let (local, peer) = (set(1, 9), set(2, 9));
    let pair = |l: usize, p: usize| LocatorPair::new(local[l], peer[p]);
    let (failed, proven) = (pair(3, 3), [local[3], local[7], peer[3], peer[7]]);
    let sets = Sets { proven: &proven, ..sets(&local, &peer) };
    let mut order = Order::new(sets, failed, &mut Random::new([5; 32], 0));
    let walked: Vec<_> = (0..order.len()).filter_map(|_| order.advance(sets)).collect();
    assert_eq!((walked[0], walked[3], walked.len()), (pair(7, 7), failed, 81));
    assert!(walked[1..3].contains(&pair(3, 7)) && walked[1..3].contains(&pair(7, 3)));
    // Then come the first ones of the two lists.
    let next: BTreeSet<_> = walked[4..9].iter().copied().collect();
    let firsts = [(0, 0), (0, 3), (0, 7), (3, 0), (7, 0)].map(|(l, p)| pair(l, p));
    assert_eq!(next, BTreeSet::from(firsts));
}
