//! Contexts that one side has lost, and control messages as signs of life.

use moorline_shim6::{ANSWER_BURST, I2_RETRIES_MAX};
use moorline_types::{DropReason, Path, Prefix};
use moorline_wire::{Message, Opt, Options, R1bis};

use super::*;
use crate::Profile;
use crate::{PathRule, Preference, Scope};

impl Pair {
    /// Moves the context of both sides to their second locators.
    pub(super) fn moved() -> Self {
        let mut pair = Self::new();
        pair.trigger(0);
        let (a, b) = (pair.locators[0].clone(), pair.locators[1].clone());
        for (x, y) in [(a[0], b[0]), (a[0], b[1]), (a[1], b[0])] {
            pair.dead.extend([(x, y), (y, x)]);
        }
        pair.send_expired(0);
        pair.run(Duration::from_secs(4));
        assert!(pair.entries.iter().all(|entries| entries[0].is_moved()));
        pair
    }

    /// A side and its data plane start again without state.
    pub(super) fn lose(&mut self, side: usize) {
        let mut config = Config::default();
        config.shim6.send_timeout = Duration::from_secs(2);
        self.hosts[side] = Contexts::new(config, [0x5e; 32], self.now);
        let local = local_state(u8::try_from(side).expect("two sides"));
        self.hosts[side].handle_local(&local, self.now);
        self.entries[side].clear();
        self.events[side].clear();
    }

    /// Payload of `side` reaches the core of the other side.
    fn payload(&mut self, side: usize) {
        let entry = &self.entries[side][0];
        let octets = payload(entry.peer_tag);
        let seen = LocatorPair::new(entry.current.pair.peer, entry.current.pair.local);
        self.hosts[1 - side].handle_control(&octets, seen, self.now);
        self.settle();
    }
}

#[test]
fn moved_payload_brings_a_lost_context_back_on_the_pair_it_uses() {
    let mut pair = Pair::moved();
    let before = pair.entries[0][0].clone();
    pair.lose(1);
    pair.payload(0);
    assert_eq!(pair.hosts[1].drops().of(DropReason::UnknownTag), 1, "that packet is lost");
    let (here, there) = (&pair.entries[0][0], &pair.entries[1][0]);
    assert_eq!(here.peer_tag, there.local_tag);
    assert_ne!(here.peer_tag, before.peer_tag, "a new tag");
    assert_eq!(here.local_tag, before.local_tag);
    assert_eq!(there.peer_tag, here.local_tag);
    assert_eq!((here.current.pair, there.ulids), (before.current.pair, pair.ulids(1)));
    assert_eq!(
        there.current.pair,
        LocatorPair::new(here.current.pair.peer, here.current.pair.local)
    );
    assert!(pair.events[1].iter().any(|event| matches!(event.kind, EventKind::Established { .. })));
}

/// A keepalive is shorter than an R1bis.
#[test]
fn a_probe_brings_it_back_too_and_a_keepalive_does_not() {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.lose(1);
    let context = pair.entries[0][0].id;
    pair.hosts[0].handle_report(Report::KeepaliveDue { context }, pair.now);
    pair.settle();
    assert_eq!(pair.hosts[1].drops().of(DropReason::UnknownTag), 1);
    assert!(pair.entries[1].is_empty());
    pair.send_expired(0);
    assert_eq!(pair.entries[0][0].peer_tag, pair.entries[1][0].local_tag);
    pair.run(Duration::from_secs(30));
    assert!(pair.entries.iter().all(|entries| entries[0].timers.is_some()), "operational");
}

/// An R1bis for the context of side 0, forged by an attacker who knows tag and locators.
fn forged(pair: &Pair) -> Vec<u8> {
    let packet_tag = pair.entries[0][0].peer_tag;
    let options = Options::from(Vec::from([Opt::Validator(Vec::from([0; 16]))]));
    Message::R1bis(R1bis { packet_tag, responder_nonce: 1, options }).octets()
}

#[test]
fn an_r1bis_that_answers_nothing_is_refused() {
    let mut pair = Pair::new();
    pair.trigger(0);
    let octets = forged(&pair);
    let ulids = pair.ulids(0).as_locators();
    let hand = |pair: &mut Pair, locators| {
        pair.hosts[0].handle_control(&octets, locators, pair.now);
        pair.hosts[0].contexts().next().expect("there").state
    };
    assert_eq!(hand(&mut pair, ulids), "established", "nothing with a tag was sent");
    assert_eq!(pair.hosts[0].drops().of(DropReason::Disbelieved), 1);
    let context = pair.entries[0][0].id;
    pair.hosts[0].handle_report(Report::KeepaliveDue { context }, pair.now);
    pair.settle();
    pair.now = pair.now + Duration::from_secs(31);
    assert_eq!(hand(&mut pair, ulids), "established", "too long ago");
    pair.hosts[0].handle_report(Report::KeepaliveDue { context }, pair.now);
    pair.settle();
    assert_eq!(hand(&mut pair, ulids), "i2bis-sent");
}

#[test]
fn moved_payload_is_answered_by_the_pair_it_takes_and_no_other() {
    let mut pair = Pair::moved();
    pair.now = pair.now + Duration::from_secs(60);
    let octets = forged(&pair);
    let ulids = pair.ulids(0).as_locators();
    pair.hosts[0].handle_control(&octets, ulids, pair.now);
    assert_eq!(pair.hosts[0].drops().of(DropReason::Disbelieved), 1);
    let current = pair.entries[0][0].current.pair;
    pair.hosts[0].handle_control(&octets, current, pair.now);
    assert_eq!(pair.hosts[0].contexts().next().expect("there").state, "i2bis-sent");
}

/// Only a host that has the context answers a check of the context.
#[test]
fn a_peer_that_answers_a_check_after_a_forged_r1bis_has_the_context() {
    for delay in [0, 10] {
        it_has_the_context_after(Duration::from_millis(delay));
    }
}

fn it_has_the_context_after(delay: Duration) {
    let config = Config { profile: Profile::default(), ..Config::default() };
    let mut pair = Pair::with_config([local_state(0), local_state(1)], &config);
    pair.delay = delay;
    pair.trigger(0);
    let ContextEntry { id, peer_tag, current, .. } = pair.entries[0][0].clone();
    let state = |pair: &Pair| pair.hosts[0].contexts().next().expect("there").state;
    let payload_comes = |pair: &mut Pair| {
        pair.now = pair.now + Duration::from_secs(1);
        pair.hosts[0].handle_report(Report::Received { context: id, at: pair.now }, pair.now);
        pair.settle();
    };
    payload_comes(&mut pair);
    let octets = forged(&pair);
    pair.hosts[0].handle_control(&octets, current.pair, pair.now);
    pair.settle();
    assert_eq!(state(&pair), "i2bis-sent", "the peer refuses the I2bis");
    payload_comes(&mut pair);
    assert_eq!(state(&pair), "established");
    assert_eq!((pair.entries[0][0].peer_tag, pair.entries[0][0].current), (peer_tag, current));
}

#[test]
fn a_context_that_cannot_be_recovered_leaves_the_data_plane_and_comes_back() {
    let mut pair = Pair::moved();
    pair.now = pair.now + Duration::from_secs(60);
    let (octets, current) = (forged(&pair), pair.entries[0][0].current.pair);
    pair.hosts[0].handle_control(&octets, current, pair.now);
    // The peer has the context and refuses the I2bis, because it has not sent that R1bis.
    let mut i2bis = 0;
    while pair.hosts[0].contexts().next().expect("there").state == "i2bis-sent" {
        while let Some(transmit) = pair.hosts[0].poll_transmit() {
            i2bis += u8::from(transmit.octets[2] == 6);
            let seen = LocatorPair::new(transmit.locators.peer, transmit.locators.local);
            pair.hosts[1].handle_control(&transmit.octets, seen, pair.now);
        }
        let (at, _) = pair.hosts[0].poll_timeout().expect("a timer");
        pair.now = at;
        pair.hosts[0].handle_timeout(at);
    }
    assert_eq!(i2bis, 1 + I2_RETRIES_MAX);
    pair.drain(0);
    assert!(pair.entries[0].is_empty(), "no CT(peer) in I1-SENT");
    pair.settle();
    assert_eq!(pair.entries[0][0].peer_tag, pair.entries[1][0].local_tag, "by I1 and R2");
    assert_eq!(pair.entries[0][0].current.pair, current, "on the pair that works");
}

#[test]
fn a_rule_for_a_context_ends_with_it_where_it_does_not_come_back() {
    let mut pair = Pair::moved();
    let ContextEntry { id, current: Path { pair: current, .. }, .. } = pair.entries[0][0].clone();
    let rule = PathRule {
        scope: Scope::Context(id),
        local: Prefix::ALL,
        peer: Prefix::new(current.peer.0, 128),
        preference: Preference::Avoid,
    };
    pair.now = pair.now + Duration::from_secs(60);
    let octets = forged(&pair);
    pair.hosts[0].set_path_rules([rule].into(), pair.now);
    pair.settle();
    pair.hosts[0].handle_control(&octets, current, pair.now);
    pair.dead.extend([(current.local, current.peer), (current.peer, current.local)]);
    pair.run(Duration::from_secs(600));
    assert!(pair.entries[0].is_empty());
    let is_failed =
        |event: &Event| matches!(event.kind, EventKind::Failed { .. }) && event.context == id;
    assert!(pair.events[0].iter().any(is_failed));
    pair.dead.clear();
    pair.trigger(0);
    assert_eq!(pair.entries[0][0].id, id);
    assert_eq!(pair.hosts[0].preference(id, current), Preference::Neutral);
}

#[test]
fn strange_payload_is_answered_within_the_limit_of_its_source() {
    let mut pair = Pair::new();
    let locators = pair.ulids(0).as_locators();
    for n in 0..2 * ANSWER_BURST {
        let octets = payload(ContextTag::from_bits(u64::from(n)));
        pair.hosts[0].handle_control(&octets, locators, pair.now);
    }
    let sent = core::iter::from_fn(|| pair.hosts[0].poll_transmit()).count();
    assert_eq!(sent, ANSWER_BURST as usize);
    let drops = pair.hosts[0].drops();
    assert_eq!(drops.of(DropReason::UnknownTag), u64::from(ANSWER_BURST));
    assert_eq!(drops.of(DropReason::RateLimited), u64::from(ANSWER_BURST));
    assert_eq!(pair.hosts[0].contexts().count(), 0);
}

#[test]
fn an_update_request_is_payload_to_the_timers_of_both_sides() {
    //= rfc5534#6.1 rfc5534#6.2 (test)
    let mut pair = Pair::new();
    pair.trigger(0);
    let heard = pair.heard;
    let locators = &pair.locators[0];
    let preference = moorline_wire::LocatorPreference { priority: Some(1), ..Default::default() };
    let preferences = [(locators[1], preference)];
    pair.hosts[0].set_preferences(&preferences, pair.now);
    pair.settle();
    assert!(pair.heard[0] > heard[0] && pair.heard[1] > heard[1]);
    // The message is lost, so the Send Timer that it started runs out.
    let ulids = pair.ulids(0).as_locators();
    pair.dead.extend([(ulids.local, ulids.peer), (ulids.peer, ulids.local)]);
    pair.hosts[0].set_preferences(&[], pair.now);
    pair.settle();
    pair.run(Duration::from_millis(2_100));
    let explored = |event: &Event| matches!(event.kind, EventKind::StateChanged { .. });
    assert!(pair.events[0].iter().any(explored), "{:?}", pair.events[0]);
}

#[test]
fn a_peer_that_calls_the_locator_in_use_broken_is_sent_to_another() {
    //= rfc5533#10.4 (test)
    let mut pair = Pair::new();
    pair.trigger(0);
    let broken = moorline_wire::LocatorPreference { flags: 1, ..Default::default() };
    let preferences = [(pair.locators[1][0], broken)];
    pair.hosts[1].set_preferences(&preferences, pair.now);
    pair.settle();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.entries[0][0].current.pair.peer, pair.locators[1][1]);
    assert_eq!(pair.entries[0][0].peer_locators.len(), 2, "it may still be sent from");
}

//= rfc5534#5.3-1 rfc5534#5.3-4 (test)
#[test]
fn another_send_timeout_is_told_and_kept_to() {
    //= rfc5534#5.3 (test)
    let mut pair = Pair::new();
    pair.trigger(0);
    pair.hosts[0].set_send_timeout(Duration::from_secs(12), pair.now);
    pair.settle();
    assert_eq!(pair.entries[0][0].timers.expect("runs").send, Duration::from_secs(12));
    let timers = pair.entries[1][0].timers.expect("runs");
    assert_eq!(timers.keepalive_timeout, Duration::from_secs(12));
    assert_eq!(timers.send, Duration::from_secs(2), "its own is left alone");
}

#[test]
fn a_ulid_that_cannot_be_sent_from_gets_its_context_by_another_locator() {
    //= rfc5533#7.7 (test)
    let mut pair = Pair::new();
    let ulids = pair.ulids(0);
    let mut local = local_state(0);
    local.usable.remove(0);
    pair.hosts[0].handle_local(&local, pair.now);
    for &other in &pair.locators[1].clone() {
        pair.dead.extend([(pair.locators[0][0], other), (other, pair.locators[0][0])]);
    }
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    pair.settle();
    let expected = LocatorPair::new(pair.locators[0][1], pair.locators[1][0]);
    assert_eq!((pair.entries[0][0].ulids, pair.entries[0][0].current.pair), (ulids, expected));
    let turned = LocatorPair::new(expected.peer, expected.local);
    assert_eq!(pair.entries[1][0].current.pair, turned);
    assert_eq!(pair.entries[1][0].ulids, pair.ulids(1));
}

#[test]
fn forks_have_paths_of_their_own_and_leave_the_first_context_alone() {
    //= rfc5533#4.2 (test)
    let mut pair = Pair::new();
    pair.trigger(0);
    let ulids = pair.ulids(0);
    let fork = pair.hosts[0].fork(ulids, pair.now).expect("room");
    pair.settle();
    for host in &pair.hosts {
        let contexts: Vec<_> = host.contexts().collect();
        assert_eq!(contexts.len(), 2);
        assert!(contexts.iter().all(|context| context.established.is_some()));
        assert_ne!(contexts[0].forked_instance, contexts[1].forked_instance);
    }
    for side in 0..2 {
        let [of_fork, first] = &pair.entries[side][..] else { panic!("{:?}", pair.entries[side]) };
        assert_eq!(of_fork.ulids, first.ulids);
        assert_ne!(of_fork.local_tag, first.local_tag);
        assert_eq!(first.id, ContextId(0), "the last to come is found by the ULIDs");
    }
    pair.hosts[0].remove(fork, crate::Removal::Requested);
    pair.settle();
    assert_eq!(pair.entries[0].len(), 1, "the first one is still there");
}
