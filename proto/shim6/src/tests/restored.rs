//! Contexts of a run before.

use super::*;

/// Gives this slot the context that a run before had there.
pub(super) fn restore(machine: &mut Machine, slot: u32) {
    let peer = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, u16::try_from(slot).expect("fits"));
    let state = crate::Established::new(
        ContextTag::from_bits(u64::from(slot)),
        locators(1).into(),
        crate::PeerSet::of_ulid(peer.into()),
        Role::Responder,
    );
    let key = crate::Key::of(UlidPair::new(ulids().local, peer.into()));
    let local_tag = ContextTag::from_bits(u64::from(slot) + 1000);
    machine.restore(ContextId(slot), key, local_tag, state).expect("room");
}

/// A file of contexts has no order that this host could rely on.
#[test]
fn contexts_of_the_run_before_come_in_any_order_and_the_slots_between_them_are_free() {
    let mut a = machine(1);
    for slot in [6, 2, 4, 0] {
        restore(&mut a, slot);
    }
    let mut new: Vec<_> = (0..4u16)
        .map(|n| {
            let peer = Ipv6Addr::new(0x2001, 0xdb8, 0xa, n, 0, 0, 0, 1);
            a.initiate(crate::Key::of(UlidPair::new(ulids().local, peer.into())), NOW)
                .expect("room")
        })
        .collect();
    new.sort();
    assert_eq!(new, [1, 3, 5, 7].map(ContextId));
}
