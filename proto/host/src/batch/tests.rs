use alloc::sync::Arc;
use alloc::vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::{ContextTag, Locator, LocatorPair, Path, Ulid, UlidPair};

use super::*;

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// A context at its ULIDs, or moved to another address of ours.
fn entry(id: u32, is_moved: bool) -> ContextEntry {
    let (local, peer) = (address("2001:db8:a::1"), address("2001:db8:b::1"));
    let other = if is_moved { address("2001:db8:c::1") } else { local };
    let ulids = UlidPair::new(Ulid(local), Ulid(peer));
    ContextEntry {
        id: ContextId(id),
        ulids,
        local_tag: ContextTag::from_bits(u64::from(id)),
        peer_tag: ContextTag::from_bits(u64::from(id)),
        current: Path::of(ulids, LocatorPair::new(Locator(other), Locator(peer))),
        peer_locators: vec![Locator(peer)].into(),
        timers: None,
        watch: 0,
        idle: Duration::from_secs(1),
        suspects: false,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    }
}

fn upsert(id: u32, is_moved: bool) -> Update {
    Update::Upsert(entry(id, is_moved))
}

fn remove(id: u32) -> Update {
    Update::Remove { context: ContextId(id) }
}

#[test]
fn a_moved_context_stays_moved_when_a_fork_comes_beside_it() {
    let updates = [remove(1), upsert(2, false), upsert(1, true)];
    assert_eq!(moved_after(&updates).into_keys().collect::<Vec<_>>(), [ContextId(1)]);
    // Between the updates no ULIDs lead to the context.
    assert_eq!(back_in(&updates), [1, 2].map(ContextId).into());
}

#[test]
fn what_comes_last_counts() {
    let updates = [upsert(1, true), upsert(2, true), upsert(3, true), upsert(1, false), remove(2)];
    let moved = moved_after(&updates);
    assert_eq!(moved.into_values().collect::<Vec<_>>(), [&entry(3, true)]);
    assert_eq!(back_in(&updates), [1, 2].map(ContextId).into());
}
