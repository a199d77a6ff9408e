use std::time::Duration;

use moorline_contexts::{ContextSnapshot, LocalState, Role};
use moorline_datapath::shim6::Paths;
use moorline_types::{ContextTag, Locator, Ulid};

use super::*;

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// By its ULIDs, or moved to another address of ours.
fn entry(id: u32, is_moved: bool) -> ContextEntry {
    let (local, peer) = (address("2001:db8:a::1"), address("2001:db8:b::1"));
    let other = if is_moved { address("2001:db8:c::1") } else { local };
    ContextEntry {
        id: ContextId(id),
        ulids: UlidPair::new(Ulid(local), Ulid(peer)),
        local_tag: ContextTag::from_bits(u64::from(id)),
        peer_tag: ContextTag::from_bits(u64::from(id)),
        locators: LocatorPair::new(Locator(other), Locator(peer)),
        peer_locators: vec![Locator(peer)].into(),
        timers: None,
        watch: 0,
        idle: Duration::from_secs(1),
        suspects: false,
        congestion: false,
        paths: Paths::default(),
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
    // For a moment it is found by nothing.
    assert_eq!(back_in(&updates), [1, 2].map(ContextId).into());
}

#[test]
fn what_comes_last_counts() {
    let updates = [upsert(1, true), upsert(2, true), upsert(3, true), upsert(1, false), remove(2)];
    let moved = moved_after(&updates);
    assert_eq!(moved.into_values().collect::<Vec<_>>(), [&entry(3, true)]);
    assert_eq!(back_in(&updates), [1, 2].map(ContextId).into());
}

/// A host that goes on with one context, and the update that it has for the data plane.
fn host_with_context() -> (Contexts, Update) {
    let entry = entry(3, false);
    let (now, usable) = (clock::now(), vec![entry.locators.local]);
    let mut host = Contexts::new(moorline_contexts::Config::default(), [1; 32], now);
    host.handle_local(&LocalState { usable: usable.clone(), ..LocalState::default() }, now);
    let snapshot = ContextSnapshot {
        id: entry.id,
        ulids: entry.ulids,
        forked_instance: 0,
        local_tag: entry.local_tag,
        peer_tag: entry.peer_tag,
        locators: entry.locators,
        local_locators: usable,
        peer_locators: vec![entry.locators.peer],
        peer_generation: None,
        peer_listed: 0,
        peer_preferences: Vec::new(),
        peer_send_timeout: Duration::from_secs(10),
        told_preferences: false,
        role: Role::Initiator,
    };
    host.restore(snapshot, now).expect("a context");
    let update = host.poll_datapath().expect("an upsert");
    (host, update)
}

#[test]
fn a_context_that_the_data_plane_refuses_is_none_in_the_core() {
    let (mut host, update) = host_with_context();
    let Update::Upsert(ContextEntry { id, ulids, .. }) = update else { panic!("{update:?}") };
    on_not_applied(&mut host, &update, &Error::TooManyContexts(id));
    assert_eq!(host.contexts().count(), 0);
    let updates: Vec<_> = std::iter::from_fn(|| host.poll_datapath()).collect();
    assert!(updates.contains(&Update::Remove { context: id }), "{updates:?}");
    let events: Vec<_> = std::iter::from_fn(|| host.poll_event()).collect();
    let removed = Event::Removed { context: id, ulids, removal: Removal::NotTaken };
    assert_eq!(events.last(), Some(&removed));
}

#[test]
fn what_else_goes_wrong_leaves_contexts_alone() {
    let (mut host, _) = host_with_context();
    let context = ContextId(3);
    let heard = Update::Heard { context, at: clock::now() };
    for update in [Update::Remove { context }, heard] {
        on_not_applied(&mut host, &update, &Error::UnknownContext(context));
    }
    assert_eq!(host.contexts().count(), 1);
}
