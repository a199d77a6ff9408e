//! The end of Shim6 on a host, at either end, and a data plane that does not take a context.

use moorline_types::{ContextTag, DropReason};
use moorline_wire::{Message, Options, UpdateRequest};

use super::*;
use crate::{Failure, Removal};

impl Pair {
    /// The ICMPv6 message of the peer's kernel about payload of side 0, after Shim6 has ended there.
    fn refuse(&mut self, tag: ContextTag, locators: LocatorPair, source: Locator) {
        let quoted = PayloadHeader { next_header: 6, tag }.emit();
        self.hosts[0].handle_unrecognized(&quoted, locators, source, self.now);
        self.drain(0);
    }

    /// The kernel refuses payload of side 0 on its current pair once a second, the rate of such messages. Tells for
    /// each second whether the context still exists.
    fn refuse_for(&mut self, seconds: usize) -> Vec<bool> {
        let entry = self.entries[0][0].clone();
        let refused = (0..seconds).map(|_| {
            self.refuse(entry.peer_tag, entry.current.pair, entry.current.pair.peer);
            self.now = self.now + Duration::from_secs(1);
            self.has_context()
        });
        refused.collect()
    }

    fn has_context(&self) -> bool {
        self.hosts[0].contexts().count() == 1 && self.entries[0].len() == 1
    }
}

#[test]
fn payload_that_is_refused_for_long_ends_a_context_that_has_moved() {
    let mut pair = Pair::moved();
    let ContextEntry { id, ulids, .. } = pair.entries[0][0].clone();
    assert_eq!(pair.refuse_for(6), [true, true, true, true, true, false]);
    assert_eq!(pair.hosts[0].contexts().count(), 0);
    let removed =
        Event { context: id, ulids, kind: EventKind::Removed { removal: Removal::NoSupport } };
    assert_eq!(pair.events[0].last(), Some(&removed));
    // This host does not ask the peer again at once. The peer may ask.
    let negative = pair.hosts[0].negatives().next().expect("remembered");
    assert_eq!((negative.ulids, negative.failure), (ulids, Failure::NoSupport));
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    assert_eq!(pair.hosts[0].poll_transmit(), None);
    pair.dead.clear();
    pair.lose(1);
    pair.trigger(1);
    assert!(pair.has_context());
    assert_eq!(pair.hosts[0].negatives().count(), 0);
}

/// The first question comes soon. The time before the next ones doubles, up to the time for a host that has never
/// spoken Shim6.
#[test]
fn a_peer_that_has_lapsed_is_asked_again_soon_and_then_ever_more_rarely() {
    let mut pair = Pair::moved();
    let ulids = pair.ulids(0);
    pair.refuse_for(6);
    let mut waits = Vec::new();
    for _ in 0..10 {
        let until = pair.hosts[0].negatives().next().expect("remembered").until;
        waits.push(until.since(pair.now).as_secs());
        pair.now = until;
        pair.hosts[0].handle_timeout(pair.now);
        pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
        let i1 = next_of(&mut pair, 0, MessageType::I1);
        pair.hosts[0].handle_unrecognized(&i1.octets, i1.locators, i1.locators.peer, pair.now);
        pair.drain(0);
    }
    // The first wait began a second before.
    assert_eq!(waits, [3, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    let until = pair.hosts[0].negatives().next().expect("remembered").until;
    pair.now = until;
    pair.hosts[0].handle_timeout(pair.now);
    pair.dead.clear();
    pair.lose(1);
    pair.trigger(0);
    assert!(pair.has_context(), "it has come back");
}

#[test]
fn a_host_that_never_spoke_shim6_is_left_alone_for_ten_minutes() {
    let mut pair = Pair::new();
    let ulids = pair.ulids(0);
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    let i1 = next_of(&mut pair, 0, MessageType::I1);
    pair.hosts[0].handle_unrecognized(&i1.octets, i1.locators, i1.locators.peer, pair.now);
    let until = pair.hosts[0].negatives().next().expect("remembered").until;
    assert_eq!(until, pair.now + Duration::from_secs(600));
}

#[test]
fn a_daemon_that_is_gone_for_some_seconds_costs_no_context() {
    let mut pair = Pair::moved();
    let tag = pair.entries[0][0].peer_tag;
    assert_eq!(pair.refuse_for(4), [true; 4]);
    // The daemon has lost its contexts, and answers the next payload with R1bis.
    pair.lose(1);
    let locators = pair.entries[0][0].current.pair;
    let seen = LocatorPair::new(locators.peer, locators.local);
    pair.hosts[1].handle_control(&payload(tag), seen, pair.now);
    pair.settle();
    assert!(pair.has_context());
    assert_ne!(pair.entries[0][0].peer_tag, tag, "made anew");
    // The time of the next absence counts from its own beginning.
    assert_eq!(pair.refuse_for(4), [true; 4]);
}

/// A daemon that has kept its contexts continues without a message to our daemon.
#[test]
fn refusals_far_apart_are_no_long_absence() {
    let mut pair = Pair::moved();
    for _ in 0..3 {
        assert_eq!(pair.refuse_for(2), [true; 2]);
        pair.now = pair.now + Duration::from_secs(60);
    }
    // If nothing is heard of the peer in between, the refusals count as one long absence.
    let context = pair.entries[0][0].id;
    let since = pair.now;
    pair.now = pair.now + Duration::from_secs(2);
    pair.hosts[0].handle_report(Report::SendExpired { context, since }, pair.now);
    let entry = pair.entries[0][0].clone();
    pair.refuse(entry.peer_tag, entry.current.pair, entry.current.pair.peer);
    pair.now = pair.now + Duration::from_secs(60);
    pair.refuse(entry.peer_tag, entry.current.pair, entry.current.pair.peer);
    assert!(pair.entries[0].is_empty());
}

/// The Send Timeout is 10 s, and payload goes both ways between the two absences.
#[test]
fn payload_between_two_short_absences_tells_them_from_a_long_one() {
    for is_plain in [false, true] {
        let mut pair = Pair::moved();
        let context = pair.entries[0][0].id;
        let told = |pair: &mut Pair| {
            let watch = pair.entries[0][0].watch;
            assert_ne!(watch, 0, "payload is of interest");
            let report = Report::Received { context, at: pair.now };
            pair.hosts[0].handle_report(report, pair.now);
            pair.drain(0);
        };
        assert_eq!(pair.refuse_for(1), [true]);
        if is_plain {
            // A host without Shim6 sends plain payload, and refuses ours as often as before.
            let refused: Vec<_> =
                (0..5).flat_map(|_| [told(&mut pair)].map(|()| pair.refuse_for(1))).collect();
            assert_eq!(refused.concat().last(), Some(&false));
            continue;
        }
        told(&mut pair);
        pair.now = pair.now + Duration::from_secs(7);
        assert_eq!(pair.refuse_for(2), [true; 2]);
    }
}

#[test]
fn any_locator_of_the_peer_may_refuse() {
    let mut pair = Pair::moved();
    let (entry, other) = (pair.entries[0][0].clone(), pair.locators[1][0]);
    assert_ne!(entry.current.pair.peer, other);
    for _ in 0..3 {
        assert!(pair.has_context());
        pair.refuse(entry.peer_tag, entry.current.pair, other);
        pair.now = pair.now + Duration::from_secs(3);
    }
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

/// The kernel of a peer whose daemon hands over refuses control messages, while payload is taken.
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
    // The host does not try again and again while there is no room. Later there may be room.
    pair.trigger(0);
    assert_eq!(pair.hosts[0].contexts().count(), 0);
    let until = pair.hosts[0].negatives().next().expect("remembered").until;
    pair.run(until.since(pair.now));
    pair.trigger(0);
    assert!(pair.has_context());
    assert_eq!(pair.entries[0][0].peer_tag, pair.entries[1][0].local_tag);
}
