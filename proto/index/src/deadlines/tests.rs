use super::*;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use proptest::collection::vec;
use proptest::prelude::*;

const TICK_NANOS: u64 = 1 << TICK;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Checks that each slot is in the right part and on the right spoke, and that lists are linked in both
/// directions.
fn check(deadlines: &Deadlines) {
    assert!(!deadlines.near.is_empty() || deadlines.far.is_empty());
    let mut seen: BTreeSet<_> = deadlines.near.clone();
    assert!(seen.iter().all(|(at, _)| tick(*at) < deadlines.from));
    for (spoke, head) in &deadlines.far {
        let width = Spoke::WIDEST - spoke.narrowness;
        let (mut slot, mut before) = (*head, Link::end(width));
        loop {
            let entry = deadlines.entries.get(slot).expect("there");
            let at = entry.at.expect("armed");
            assert_eq!((entry.before, Spoke::of(at, width)), (before, *spoke));
            assert!(tick(at) >= deadlines.from && seen.insert((at, slot)));
            before = Link(slot);
            let Some(after) = entry.after.slot() else { break };
            slot = after;
        }
    }
    let armed = deadlines.entries.iter().filter(|entry| entry.at.is_some()).count();
    assert_eq!(seen.len(), armed);
}

#[test]
fn an_entry_is_small() {
    assert_eq!(size_of::<Entry>(), 16);
}

#[test]
fn deadlines_come_in_order_to_the_nanosecond_and_equal_ones_by_slot() {
    let mut deadlines = Deadlines::new();
    assert_eq!((deadlines.first(), deadlines.pop(at(u64::MAX))), (None, None));
    for (slot, nanos) in [(5, 1001), (3, 1000), (9, 1000), (4, 60_000_000_000), (0, 999)] {
        deadlines.set(slot, Some(at(nanos)));
        check(&deadlines);
    }
    assert_eq!(deadlines.first(), Some((at(999), 0)));
    assert_eq!(deadlines.pop(at(998)), None);
    let mut popped = Vec::new();
    popped.extend(core::iter::from_fn(|| deadlines.pop(at(1001))));
    assert_eq!(popped, [0, 3, 9, 5]);
    assert_eq!(deadlines.first(), Some((at(60_000_000_000), 4)));
    deadlines.set(4, None);
    deadlines.set(4, None);
    assert_eq!((deadlines.first(), deadlines.get(4), deadlines.get(77)), (None, None, None));
}

#[test]
fn a_slot_that_cannot_be_linked_is_not_looked_at() {
    let mut deadlines = Deadlines::new();
    deadlines.set(Link::END, Some(at(1)));
    assert_eq!((deadlines.first(), deadlines.entries.len()), (None, 0));
}

/// For any deadlines, there are few spokes, and few slots are in order.
#[test]
fn many_deadlines_take_no_more_than_their_entries() {
    let mut deadlines = Deadlines::new();
    let second = Duration::from_secs(1);
    // The first deadline is the farthest, so at first each other one comes before the ordered ones.
    for slot in (0..100_000_u32).rev() {
        let shuffled = slot.wrapping_mul(0x9e37_79b9) >> 16;
        deadlines.set(slot, Some(at(0) + second / 10 * shuffled));
    }
    check(&deadlines);
    assert!(deadlines.far.len() < 6000, "{}", deadlines.far.len());
    assert!(deadlines.near.len() <= MOST);
    // All deadlines are in one tick, while others come before it again and again.
    let mut deadlines = Deadlines::new();
    (1..5000).for_each(|slot| deadlines.set(slot, Some(at(0) + second)));
    for _ in 0..100 {
        deadlines.set(0, Some(at(0)));
        assert_eq!(deadlines.near.len(), 5000, "nothing is moved");
        assert_eq!(deadlines.pop(at(0)), Some(0));
    }
}

#[test]
fn what_is_shown_is_an_ordered_set() {
    let mut deadlines = Deadlines::new();
    deadlines.set(1, Some(at(90_000_000_000)));
    deadlines.set(0, Some(at(100_000_000_000)));
    let set = BTreeSet::from([(at(90_000_000_000), 1), (at(100_000_000_000), 0)]);
    assert_eq!(format!("{deadlines:?}"), format!("{set:?}"));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Set(u32, u64),
    Clear(u32),
    /// Passes the time of all deadlines within this distance of the first.
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let distance = prop_oneof![
        0..4_u64,
        0..4 * TICK_NANOS,
        0..2000 * TICK_NANOS,
        0..1_000_000 * TICK_NANOS,
        (0..64_u32).prop_map(|shift| u64::MAX >> shift),
    ];
    prop_oneof![
        6 => (0..600_u32, distance.clone()).prop_map(|(slot, distance)| Op::Set(slot, distance)),
        2 => (0..600_u32).prop_map(Op::Clear),
        1 => distance.prop_map(Op::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn they_do_as_an_ordered_set_does(ops in vec(op(), 0..2000)) {
        let (mut deadlines, mut set) = (Deadlines::new(), BTreeSet::new());
        let mut now = 0_u64;
        for op in ops {
            match op {
                Op::Set(slot, distance) => {
                    let at = at(now.saturating_add(distance));
                    set.retain(|(_, other)| *other != slot);
                    set.insert((at, slot));
                    deadlines.set(slot, Some(at));
                }
                Op::Clear(slot) => {
                    set.retain(|(_, other)| *other != slot);
                    deadlines.set(slot, None);
                }
                Op::Pass(distance) => {
                    let first = set.first().map_or(now, |(at, _)| at.as_nanos());
                    // Deadlines in the past are armed too.
                    now = first.saturating_add(distance) / 2 + now / 2;
                    while let Some(&(_, slot)) = set.first().filter(|(due, _)| *due <= at(now)) {
                        prop_assert_eq!(deadlines.pop(at(now)), Some(slot));
                        set.pop_first();
                    }
                    prop_assert_eq!(deadlines.pop(at(now)), None);
                }
            }
            prop_assert_eq!(deadlines.first(), set.first().copied());
        }
        check(&deadlines);
        prop_assert!(set.iter().all(|&(at, slot)| deadlines.get(slot) == Some(at)));
        let rest: Vec<_> = core::iter::from_fn(|| deadlines.pop(at(u64::MAX))).collect();
        prop_assert!(rest.into_iter().eq(set.into_iter().map(|(_, slot)| slot)));
    }
}
