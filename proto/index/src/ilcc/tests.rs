use super::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use moorline_types::{Ilv, L64};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn cache(capacity: usize) -> Ilcc<u32> {
    Ilcc::new(capacity, [1; 16])
}

fn pair(n: u64) -> IlvPair {
    let local = Ilv::new(L64(1), Nid(7));
    // Some correspondents share an identifier.
    IlvPair::new(local, Ilv::new(L64(n), Nid(n / 2)))
}

fn nonce(n: u32) -> Nonce {
    Nonce::Short(n.to_be_bytes())
}

//= rfc6740#3.1.1-3 (test)
#[test]
fn an_entry_is_found_by_pair_nonce_and_identifiers_until_it_is_gone() {
    let mut cache = cache(10);
    let (id, none) = cache.insert(pair(4), Some(nonce(9)), Class::Unproven, 44);
    assert_eq!(none, None);
    let (twin, _) = cache.insert(pair(5), Some(nonce(9)), Class::Unproven, 55);
    assert_eq!(cache.find_pair(pair(4)), Some(id));
    let mut both: Vec<_> = cache.between(Nid(7), Nid(2)).collect();
    both.sort_unstable();
    assert_eq!(both, [id, twin]);
    assert!(cache.find_nonce(Nid(7), Nid(2), nonce(9)).is_some());
    assert_eq!(cache.find_nonce(Nid(8), Nid(2), nonce(9)), None, "of another node here");
    assert_eq!(cache.find_nonce(Nid(7), Nid(2), nonce(8)), None, "another nonce");
    cache.remove(twin);
    assert_eq!(cache.find_nonce(Nid(7), Nid(2), nonce(9)), Some(id));
    cache.set_nonce(id, nonce(3));
    assert_eq!(cache.find_nonce(Nid(7), Nid(2), nonce(9)), None);
    assert_eq!(cache.find_nonce(Nid(7), Nid(2), nonce(3)), Some(id));
    assert_eq!(cache.remove(id).map(|removed| removed.value), Some(44));
    assert_eq!((cache.find_pair(pair(4)), cache.len(), cache.remove(id)), (None, 0, None));
}

#[test]
fn among_many_with_one_nonce_each_is_found_by_its_identifiers() {
    let mut cache = cache(60);
    let inserted: Vec<_> = (0..100).step_by(3).map(|n| pair(n).nids()).collect();
    for n in (0..100).step_by(3) {
        cache.insert(pair(n), Some(nonce(5)), Class::Unproven, 0);
    }
    for (local, remote) in (0..100).map(|n| pair(n).nids()) {
        let found = cache.find_nonce(local, remote, nonce(5)).and_then(|id| cache.key(id));
        assert_eq!(found.is_some(), inserted.contains(&(local, remote)));
        assert!(found.is_none_or(|(pair, _)| pair.nids() == (local, remote)));
    }
}

#[test]
fn a_flood_pushes_out_itself_and_not_who_has_proved_to_be_there() {
    let mut cache = cache(100);
    let proven: Vec<_> = (0..50).map(|n| cache.insert(pair(n), None, Class::Proven, 0).0).collect();
    for n in 1000..100_000 {
        cache.insert(pair(n), Some(nonce(1)), Class::Unproven, 0);
        assert!(cache.len() <= 100);
    }
    assert!(proven.iter().all(|id| cache.class(*id) == Some(Class::Proven)));
    assert_eq!(cache.iter().count(), 100);
}

#[test]
fn guests_go_after_the_unproven_and_before_all_others() {
    let mut cache = cache(3);
    let mut insert = |n, class| {
        let (id, gone) = cache.insert(pair(n), None, class, 0);
        (id, gone.map(|gone| gone.pair))
    };
    insert(1, Class::Proven);
    insert(2, Class::Guest);
    insert(3, Class::Unproven);
    assert_eq!(insert(4, Class::Guest).1, Some(pair(3)));
    assert_eq!(insert(5, Class::Proven).1, Some(pair(2)));
    assert_eq!(insert(6, Class::Proven).1, Some(pair(4)));
    assert_eq!(insert(7, Class::Proven).1, Some(pair(1)));
}

#[test]
fn among_equals_the_first_goes_that_was_not_used_since_it_came() {
    let mut cache = cache(3);
    let [a, b, c] = [1, 2, 3].map(|n| cache.insert(pair(n), None, Class::Unproven, 0).0);
    cache.touch(a);
    cache.promote(b, Class::Unproven);
    let (_, gone) = cache.insert(pair(4), None, Class::Unproven, 0);
    assert_eq!(gone.map(|gone| gone.id), Some(c));
    let (_, gone) = cache.insert(pair(5), None, Class::Unproven, 0);
    assert_eq!(gone.map(|gone| gone.id), Some(a));
}

#[test]
fn an_insertion_spares_only_so_many_that_are_in_use() {
    let mut cache = cache(100);
    let all: Vec<_> = (0..100).map(|n| cache.insert(pair(n), None, Class::Unproven, 0).0).collect();
    all.iter().for_each(|id| cache.touch(*id));
    let (_, gone) = cache.insert(pair(100), None, Class::Unproven, 0);
    assert_eq!(gone.map(|gone| gone.id), Some(all[8]));
}

#[test]
fn what_finds_an_entry_is_one_line() {
    assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (64, 64));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64, Option<u32>, Class),
    Remove(u64),
    Touch(u64),
    Promote(u64, Class),
    Nonce(u64, u32),
}

fn op() -> impl Strategy<Value = Op> {
    let n = 0..20_u64;
    let class = select(&CLASSES[..]);
    prop_oneof![
        (n.clone(), any::<Option<u8>>(), class.clone()).prop_map(|(n, nonce, class)| Op::Insert(
            n,
            nonce.map(Into::into),
            class
        )),
        n.clone().prop_map(Op::Remove),
        n.clone().prop_map(Op::Touch),
        (n.clone(), class).prop_map(|(n, class)| Op::Promote(n, class)),
        (n, 0..4_u32).prop_map(|(n, nonce)| Op::Nonce(n, nonce)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Compares the cache with a list in order of arrival, with a mark for use.
    #[test]
    fn it_does_what_a_list_would(ops in vec(op(), 1..200)) {
        let mut cache = cache(6);
        let mut model: Vec<Entry> = Vec::new();
        for op in ops {
            apply(&mut cache, &mut model, op);
            prop_assert!(cache.len() == model.len() && model.len() <= 6);
            let by_pair: BTreeMap<_, _> = model.iter().map(|(n, nonce, class, _)| (*n, (*nonce, *class))).collect();
            for class in CLASSES {
                let of_class = by_pair.values().filter(|(_, its)| *its == class);
                prop_assert_eq!(cache.count(class), of_class.count());
            }
            for n in 0..20 {
                let is_guest = by_pair.get(&n).is_some_and(|(_, class)| *class == Class::Guest);
                // All are in one /56, which has two shares, and an address has a quarter of one.
                let taken = (4 * usize::from(is_guest)).max(cache.count(Class::Guest) / 2);
                prop_assert_eq!(cache.taken_by_guests(pair(n).remote, 0), taken);
                let found = cache.find_pair(pair(n));
                let is = found.and_then(|id| Some((cache.key(id)?.1, cache.class(id)?)));
                prop_assert_eq!(is, by_pair.get(&n).copied());
                if let (Some(id), Some((Some(nonce), _))) = (found, is) {
                    let by_nonce = cache.find_nonce(Nid(7), Nid(n / 2), nonce);
                    let twin = cache.find_pair(pair(n ^ 1));
                    prop_assert!(by_nonce == Some(id) || by_nonce == twin && twin.is_some());
                }
            }
        }
    }
}

/// Classes in order of eviction.
const CLASSES: [Class; 3] = [Class::Unproven, Class::Guest, Class::Proven];

/// Number, nonce, class, and whether the entry was used.
type Entry = (u64, Option<Nonce>, Class, bool);

fn evict(model: &mut Vec<Entry>) {
    loop {
        let of_class = |class| model.iter().position(|entry| entry.2 == class);
        let oldest = CLASSES.into_iter().find_map(of_class).expect("full");
        let mut entry = model.remove(oldest);
        if !core::mem::take(&mut entry.3) {
            return;
        }
        model.push(entry);
    }
}

fn apply(cache: &mut Ilcc<u32>, model: &mut Vec<Entry>, op: Op) {
    let (Op::Insert(n, ..) | Op::Remove(n) | Op::Touch(n) | Op::Promote(n, _) | Op::Nonce(n, _)) =
        op;
    let at = model.iter().position(|entry| entry.0 == n);
    let id = cache.find_pair(pair(n));
    match op {
        Op::Insert(_, value, class) => {
            if let Some(at) = at {
                model.remove(at);
            } else if model.len() == 6 {
                evict(model);
            }
            model.push((n, value.map(nonce), class, false));
            cache.insert(pair(n), value.map(nonce), class, 0);
        }
        Op::Remove(_) => {
            at.map(|at| model.remove(at));
            id.map(|id| cache.remove(id));
        }
        Op::Touch(_) => {
            let (Some(at), Some(id)) = (at, id) else { return };
            model[at].3 = true;
            cache.touch(id);
        }
        Op::Promote(_, from) => {
            let (Some(at), Some(id)) = (at, id) else { return };
            if model[at].2 == from {
                let mut entry = model.remove(at);
                entry.2 = Class::Proven;
                model.push(entry);
            }
            cache.promote(id, from);
        }
        Op::Nonce(_, value) => {
            let (Some(at), Some(id)) = (at, id) else { return };
            model[at].1 = Some(nonce(value));
            cache.set_nonce(id, nonce(value));
        }
    }
}
