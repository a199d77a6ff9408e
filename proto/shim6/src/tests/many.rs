//! Tables so large that an algorithm of quadratic time would take minutes.

use moorline_types::Locators;

use super::*;
use crate::{Established, Key, PeerSet};

const MANY: u32 = 150_000;

fn large() -> Machine {
    let config = Config { max_contexts: MANY, ..Config::default() };
    Machine::new(config, [0; 32], NOW)
}

/// The key of the context in a slot. Slots `2 n` and `2 n + 1` have one pair: the second of them is forked.
fn key(slot: u32) -> Key {
    let peer = 0x2a00 << 112 | u128::from(slot / 2) << 64 | 1;
    let ulids = UlidPair::new(ulids().local, Ipv6Addr::from(peer).into());
    Key { ulids, forked_instance: slot % 2 }
}

fn restore(machine: &mut Machine, slot: u32) {
    let tag = ContextTag::from_bits(slot.into());
    let peer = PeerSet::of_ulid(key(slot).ulids.peer);
    let established = Established::new(tag, Locators::default(), peer, Role::Initiator);
    machine.restore(ContextId(slot), key(slot), tag, established).expect("room");
}

/// Slots in an order that has nothing to do with their numbers: the step has no factor with their number.
fn mixed() -> impl Iterator<Item = u32> {
    (0..MANY).map(|n| u32::try_from(u64::from(n) * 7_919 % u64::from(MANY)).expect("a slot"))
}

#[test]
fn contexts_come_back_from_slots_in_any_order() {
    for slots in [(0..MANY).rev().collect::<Vec<_>>(), mixed().collect()] {
        let mut machine = large();
        slots.into_iter().for_each(|slot| restore(&mut machine, slot));
        assert_eq!(machine.contexts().count(), MANY as usize);
        assert!(machine.contexts().all(|context| context.key == key(context.id.0)));
    }
}

#[test]
fn a_slot_that_no_context_of_the_run_before_had_is_free() {
    let mut machine = large();
    machine.set_local(&local(0), NOW);
    [5, 2].into_iter().for_each(|slot| restore(&mut machine, slot));
    let taken = |n: u32| key(1_000 + 2 * n).ulids;
    for n in 0..5 {
        machine.handle_trigger(taken(n), NOW).expect("room");
    }
    let slots: Vec<_> = machine.contexts().map(|context| context.id.0).collect();
    assert_eq!(slots, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn the_contexts_of_each_pair_are_found_without_the_others() {
    let mut machine = large();
    mixed().for_each(|slot| restore(&mut machine, slot));
    for slot in (0..MANY).step_by(2) {
        let found: Vec<_> = machine.of_pair(key(slot).ulids).map(|context| context.id).collect();
        assert_eq!(found, [ContextId(slot), ContextId(slot + 1)]);
    }
    machine.remove(ContextId(1));
    assert_eq!(machine.of_pair(key(0).ulids).count(), 1);
    machine.remove(ContextId(0));
    assert_eq!(machine.of_pair(key(0).ulids).count(), 0);
}
