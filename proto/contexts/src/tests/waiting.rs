//! Contexts of an earlier run that wait until they are taken over.

use moorline_datapath::shim6::PairInUse;
use moorline_types::ContextTag;

use super::*;
use crate::{ContextSnapshot, Waiting};

impl Pair {
    /// Another run of a side finds its contexts in a file, with these changes, and has taken over none of them yet.
    fn restart_waiting(&mut self, side: usize, change: impl FnOnce(&mut Vec<ContextSnapshot>)) {
        let mut snapshots: Vec<_> = self.hosts[side].snapshot().collect();
        change(&mut snapshots);
        let number = u8::try_from(side).expect("two sides");
        let mut config = Config::default();
        config.shim6.send_timeout = Duration::from_secs(2);
        let mut host = Contexts::new(config, [number + 70; 32], self.now);
        host.handle_local(&local_state(number), self.now);
        host.handle_waiting(Waiting::new(snapshots, [3; 16]));
        self.hosts[side] = host;
        assert_eq!(self.known(side), 0, "the contexts wait");
    }

    fn known(&self, side: usize) -> usize {
        self.hosts[side].contexts().count()
    }

    /// Tags of the entries of both sides.
    fn tags(&self) -> Vec<(ContextTag, ContextTag)> {
        self.entries.iter().flatten().map(|entry| (entry.local_tag, entry.peer_tag)).collect()
    }

    fn cut_first_of(&mut self, side: usize) {
        let own = self.locators[side][0];
        for other in self.locators[1 - side].clone() {
            self.dead.extend([(own, other), (other, own)]);
        }
    }
}

/// A pair with a context, and the first side has just started again.
fn waiting() -> Pair {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.restart_waiting(0, |_| {});
    pair
}

/// Copies of a context in other slots, with other peers.
fn copies(of: &ContextSnapshot, count: u8) -> Vec<ContextSnapshot> {
    let copy = |number: u8| {
        let mut copy = of.clone();
        copy.id = ContextId(number.into());
        let peer = [0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, number];
        copy.key.ulids.peer = peer.into();
        copy.locators = copy.key.ulids.as_locators();
        copy.peer.locators = (&[copy.locators.peer]).into();
        [copy.local_tag, copy.peer_tag] =
            [1, 2].map(|end| ContextTag::from_bits(u64::from(number) << 8 | end));
        copy
    };
    (0..count).map(copy).collect()
}

#[test]
fn a_probe_for_a_waiting_context_is_answered_by_that_context() {
    let mut pair = waiting();
    let (tags, events) = (pair.tags(), pair.events[0].len());
    pair.cut_first_of(1);
    pair.send_expired(1);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.tags(), tags, "the peer has made no other context");
    for side in 0..2 {
        let expected = pair.locators[1][1];
        let LocatorPair { local, peer } = pair.entries[side][0].current.pair;
        assert!([local, peer].contains(&expected), "side {side} has moved");
    }
    let is_new = |event: &Event| matches!(event.kind, EventKind::Established { .. });
    assert!(!pair.events[0][events..].iter().any(is_new));
    assert_eq!(pair.hosts[0].drops().iter().count(), 0);
}

#[test]
fn a_cut_that_the_data_plane_reports_of_a_waiting_context_is_recovered() {
    let mut pair = waiting();
    pair.cut_first_of(0);
    pair.send_expired(0);
    assert!(pair.hosts[0].waiting().is_empty());
    pair.run(Duration::from_secs(2));
    for side in 0..2 {
        let LocatorPair { local, peer } = pair.entries[side][0].current.pair;
        assert!([local, peer].contains(&pair.locators[0][1]), "side {side}");
    }
}

#[test]
fn a_cut_before_a_slice_is_recovered_after_the_slice() {
    let mut pair = waiting();
    let mut local = local_state(0);
    let gone = local.usable.remove(0);
    pair.hosts[0].handle_lost(&[gone], pair.now);
    pair.hosts[0].handle_local(&local, pair.now);
    pair.settle();
    pair.hosts[0].take_over(1, pair.now);
    pair.settle();
    pair.run(Duration::from_secs(2));
    for side in 0..2 {
        let LocatorPair { local, peer } = pair.entries[side][0].current.pair;
        assert!([local, peer].contains(&pair.locators[0][1]), "side {side}");
    }
}

#[test]
fn traffic_between_the_ulids_of_a_waiting_context_begins_no_other() {
    let mut pair = waiting();
    let tags = pair.tags();
    for side in 0..2 {
        pair.trigger(side);
    }
    assert_eq!((pair.tags(), pair.known(0)), (tags, 1));
}

#[test]
fn an_i1_of_a_peer_that_has_lost_a_waiting_context_gets_an_answer_of_that_context() {
    let mut pair = waiting();
    let before = pair.entries[0][0].clone();
    let mut peer = Contexts::new(Config::default(), [99; 32], pair.now);
    peer.handle_local(&local_state(1), pair.now);
    (pair.hosts[1], pair.entries[1]) = (peer, Vec::new());
    pair.trigger(1);
    let [entry] = &pair.entries[0][..] else { panic!("{:?}", pair.entries[0]) };
    assert_eq!((entry.id, entry.local_tag), (before.id, before.local_tag));
    assert_ne!(entry.peer_tag, before.peer_tag, "the peer has drawn another tag");
    assert_eq!(pair.entries[1][0].peer_tag, before.local_tag);
}

#[test]
fn payload_with_the_tag_of_a_waiting_context_is_not_answered_with_r1bis() {
    let mut pair = waiting();
    let octets = payload(pair.entries[0][0].local_tag);
    let [ours, theirs] = [0, 1].map(|side: usize| pair.locators[side][0]);
    let locators = LocatorPair::new(ours, theirs);
    pair.hosts[0].handle_control(&octets, locators, pair.now);
    assert_eq!(pair.known(0), 1);
    while let Some(Transmit { octets, .. }) = pair.hosts[0].poll_transmit() {
        let packet = moorline_wire::Packet::parse(&octets, theirs.0, ours.0).expect("ours");
        assert_ne!(packet.kind(), MessageType::R1BIS);
    }
}

#[test]
fn a_new_context_takes_no_slot_that_is_waited_for() {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.restart_waiting(0, |snapshots| {
        let mut others = copies(&snapshots[0], 4);
        others.remove(2);
        *snapshots = others;
    });
    let ulids = [0, 1].map(|side: usize| pair.locators[side][1].as_ulid());
    for ulids in [pair.ulids(0), UlidPair::new(ulids[0], ulids[1])] {
        pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    }
    let slots = |pair: &Pair| pair.hosts[0].contexts().map(|one| one.id.0).collect::<Vec<_>>();
    assert_eq!(slots(&pair), [2, 4]);
    pair.hosts[0].take_over(9, pair.now);
    assert_eq!(slots(&pair), [0, 1, 2, 3, 4]);
    assert!(pair.hosts[0].waiting().refused().is_empty());
}

#[test]
fn a_waiting_context_that_is_refused_leaves_its_slot() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let stranger = pair.locators[1][0];
    pair.restart_waiting(0, |snapshots| snapshots[0].locators.local = stranger);
    pair.hosts[0].take_over(1, pair.now);
    assert_eq!(pair.known(0), 0);
    let refused: Vec<_> = pair.hosts[0].waiting().refused().iter().collect();
    assert_eq!(refused, [(&DropReason::WrongLocators, &1)]);
    pair.hosts[0].handle_report(Report::Trigger { ulids: pair.ulids(0) }, pair.now);
    assert_eq!(pair.hosts[0].contexts().next().map(|one| one.id), Some(ContextId(0)));
}

#[test]
fn what_waits_is_saved_with_the_rest() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let mut all = Vec::new();
    pair.restart_waiting(0, |snapshots| {
        *snapshots = copies(&snapshots[0], 5);
        all.clone_from(snapshots);
    });
    for slice in [0, 2, 2, 2] {
        pair.hosts[0].take_over(slice, pair.now);
        let mut saved: Vec<_> = pair.hosts[0].snapshot().map(|one| (one.id, one.key)).collect();
        saved.sort_unstable();
        let expected: Vec<_> = all.iter().map(|one| (one.id, one.key)).collect();
        assert_eq!(saved, expected);
    }
    assert!(pair.hosts[0].waiting().is_empty());
}

#[test]
fn moved_contexts_come_first_and_then_those_with_traffic() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let other = pair.locators[0][1];
    pair.restart_waiting(0, |snapshots| {
        *snapshots = copies(&snapshots[0], 5);
        snapshots.iter_mut().for_each(|one| one.has_traffic = false);
        snapshots[3].locators.local = other;
        snapshots[1].has_traffic = true;
        snapshots[4].has_traffic = true;
    });
    let mut order = Vec::new();
    while !pair.hosts[0].waiting().is_empty() {
        pair.hosts[0].take_over(1, pair.now);
        let now = pair.hosts[0].contexts().map(|one| one.id.0);
        let new: Vec<_> = now.filter(|id| !order.contains(id)).collect();
        order.extend(new);
    }
    assert_eq!(order, [3, 1, 4, 0, 2]);
    assert_eq!(pair.hosts[0].waiting().total(), 5);
}

/// The pair in use that a data plane with this entry reports after a crash.
fn in_use(entry: &ContextEntry) -> PairInUse {
    let &ContextEntry { ulids, local_tag, peer_tag, .. } = entry;
    PairInUse { ulids, local_tag, peer_tag, pair: entry.current.pair }
}

/// A pair whose first side has moved, with the snapshots of that side from before the move.
fn moved() -> (Pair, Vec<ContextSnapshot>) {
    let mut pair = Pair::new();
    pair.trigger(0);
    let before: Vec<_> = pair.hosts[0].snapshot().collect();
    pair.cut_first_of(0);
    pair.send_expired(0);
    pair.run(Duration::from_secs(2));
    assert_ne!(pair.entries[0][0].current.pair, before[0].locators);
    (pair, before)
}

/// The daemon was killed after the move and before the save.
#[test]
fn a_move_that_the_file_lacks_is_taken_from_the_data_plane() {
    let (mut pair, mut before) = moved();
    let (entry, events) = (pair.entries[0][0].clone(), pair.events[0].len());
    before[0].handle_in_use(in_use(&entry));
    pair.restart_waiting(0, |stored| *stored = before);
    pair.hosts[0].take_over(1, pair.now);
    pair.settle();
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.entries[0][0].current, entry.current);
    let is_move = |event: &Event| matches!(event.kind, EventKind::Moved { .. });
    assert!(!pair.events[0][events..].iter().any(is_move), "payload has stayed on its pair");
}

#[test]
fn the_pair_of_another_context_in_the_slot_and_of_a_fork_is_not_taken() {
    let (pair, before) = moved();
    let found = in_use(&pair.entries[0][0]);
    let tag = ContextTag::from_bits(7);
    let others = [
        PairInUse { local_tag: tag, ..found },
        PairInUse { peer_tag: tag, ..found },
        PairInUse { ulids: UlidPair::new(found.ulids.peer, found.ulids.local), ..found },
    ];
    for other in others {
        let mut stored = before[0].clone();
        stored.handle_in_use(other);
        assert_eq!(stored, before[0], "{other:?}");
    }
    let mut fork = before[0].clone();
    fork.key.forked_instance = 1;
    fork.handle_in_use(found);
    assert_eq!(fork.locators, before[0].locators);
}

/// The locators have come shortly before the move.
#[test]
fn a_pair_in_use_brings_locators_that_the_file_lacks() {
    let (mut pair, mut before) = moved();
    let entry = pair.entries[0][0].clone();
    let (stored, ulids) = (&mut before[0], entry.ulids.as_locators());
    stored.local_locators = (&[ulids.local]).into();
    stored.peer.locators = (&[ulids.peer]).into();
    stored.peer.listed = 1;
    stored.handle_in_use(in_use(&entry));
    pair.restart_waiting(0, |stored| *stored = before);
    pair.hosts[0].take_over(1, pair.now);
    pair.settle();
    assert_eq!(pair.hosts[0].waiting().refused().len(), 0);
    assert_eq!(pair.entries[0][0].current, entry.current);
    assert!(pair.entries[0][0].peer_locators.contains(&entry.current.pair.peer));
}
