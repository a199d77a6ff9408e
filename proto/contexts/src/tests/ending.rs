//! A host that knows no Shim6 any more, at either end, and a data plane that does not take a context.

use moorline_types::{ContextTag, DropReason};
use moorline_wire::{Message, Options, PayloadHeader, UpdateRequest};

use super::*;
use crate::{Failure, Removal};

impl Pair {
    /// What the kernel of the peer says of payload of side 0, if there is no Shim6 any more.
    fn refuse(&mut self, tag: ContextTag, locators: LocatorPair, source: Locator) {
        let quoted = PayloadHeader { next_header: 6, tag }.emit();
        self.hosts[0].handle_unrecognized(&quoted, locators, source, self.now);
        self.drain(0);
    }

    fn has_context(&self) -> bool {
        self.hosts[0].contexts().count() == 1 && self.entries[0].len() == 1
    }
}

#[test]
fn refused_payload_ends_a_context_that_has_moved() {
    let mut pair = Pair::moved();
    let ContextEntry { id, ulids, peer_tag, current, .. } = pair.entries[0][0].clone();
    let locators = current.pair;
    pair.refuse(peer_tag, locators, locators.peer);
    assert!(pair.entries[0].is_empty());
    assert_eq!(pair.hosts[0].contexts().count(), 0);
    let removed =
        Event { context: id, ulids, kind: EventKind::Removed { removal: Removal::NoSupport } };
    assert_eq!(pair.events[0].last(), Some(&removed));
    // It is not asked again at once, and may come by itself.
    let negative = pair.hosts[0].negatives().next().expect("remembered");
    assert_eq!((negative.ulids, negative.failure), (ulids, Failure::NoSupport));
    assert_eq!(negative.until, pair.now + Duration::from_secs(600));
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    assert_eq!(pair.hosts[0].poll_transmit(), None);
    pair.dead.clear();
    pair.lose(1);
    pair.trigger(1);
    assert!(pair.has_context());
    assert_eq!(pair.hosts[0].negatives().count(), 0);
}

#[test]
fn any_locator_of_the_peer_may_refuse() {
    let mut pair = Pair::moved();
    let (entry, other) = (pair.entries[0][0].clone(), pair.locators[1][0]);
    assert_ne!(entry.current.pair.peer, other);
    pair.refuse(entry.peer_tag, entry.current.pair, other);
    assert!(pair.entries[0].is_empty());
}

#[test]
fn payload_that_was_not_sent_is_not_refused() {
    let mut pair = Pair::moved();
    let entry = pair.entries[0][0].clone();
    let (ulids, locators) = (entry.ulids.as_locators(), entry.current.pair);
    let other_tag = ContextTag::from_bits(entry.peer_tag.bits() ^ 1);
    pair.refuse(other_tag, locators, locators.peer);
    pair.refuse(entry.local_tag, locators, locators.peer);
    pair.refuse(entry.peer_tag, locators, locators.local);
    pair.refuse(entry.peer_tag, ulids, ulids.peer);
    let unused = LocatorPair::new(locators.local, ulids.peer);
    pair.refuse(entry.peer_tag, unused, locators.peer);
    pair.refuse(entry.peer_tag, LocatorPair::new(locators.peer, locators.local), locators.peer);
    assert!(pair.has_context());
    let drops = pair.hosts[0].drops();
    assert_eq!(drops.of(DropReason::UnknownTag), 3);
    assert_eq!(drops.of(DropReason::WrongLocators), 1);
    assert_eq!(drops.of(DropReason::Disbelieved), 2);
}

#[test]
fn a_context_on_its_first_addresses_sends_nothing_to_refuse() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let entry = pair.entries[0][0].clone();
    pair.refuse(entry.peer_tag, entry.current.pair, entry.current.pair.peer);
    assert!(pair.has_context());
    assert_eq!(pair.hosts[0].payload_to_refuse().count(), 0);
}

/// The kernel of a peer that hands over refuses them, while payload is taken.
#[test]
fn refused_control_messages_of_a_context_change_nothing() {
    let mut pair = Pair::moved();
    let ContextEntry { peer_tag, current, .. } = pair.entries[0][0].clone();
    let locators = current.pair;
    let request =
        UpdateRequest { receiver_tag: peer_tag, request_nonce: 7, options: Options::default() };
    let quoted = Message::UpdateRequest(request).octets();
    pair.hosts[0].handle_unrecognized(&quoted, locators, locators.peer, pair.now);
    pair.drain(0);
    assert!(pair.has_context());
    assert_eq!(pair.hosts[0].drops().of(DropReason::UnknownType), 1);
}

#[test]
fn what_a_host_that_ends_refuses_is_what_its_peer_sends() {
    let mut pair = Pair::moved();
    let refused: Vec<_> = pair.hosts[1].payload_to_refuse().collect();
    let [(header, locators)] = refused[..] else { panic!("{refused:?}") };
    assert_eq!((header[0], header[1]), (59, 0));
    let quoted = LocatorPair::new(locators.peer, locators.local);
    pair.hosts[0].handle_unrecognized(&header, quoted, locators.local, pair.now);
    pair.drain(0);
    assert!(pair.entries[0].is_empty());
}

#[test]
fn a_context_that_the_data_plane_does_not_take_is_none() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let ContextEntry { id, ulids, .. } = pair.entries[0][0].clone();
    pair.hosts[0].handle_not_taken(id, pair.now);
    pair.drain(0);
    assert!(pair.entries[0].is_empty());
    assert_eq!(pair.hosts[0].contexts().count(), 0);
    let removed =
        Event { context: id, ulids, kind: EventKind::Removed { removal: Removal::NotTaken } };
    assert_eq!(pair.events[0].last(), Some(&removed));
    // Not again and again while there is no room; later there may be.
    pair.trigger(0);
    assert_eq!(pair.hosts[0].contexts().count(), 0);
    let until = pair.hosts[0].negatives().next().expect("remembered").until;
    pair.run(until.since(pair.now));
    pair.trigger(0);
    assert!(pair.has_context());
    assert_eq!(pair.entries[0][0].peer_tag, pair.entries[1][0].local_tag);
}
