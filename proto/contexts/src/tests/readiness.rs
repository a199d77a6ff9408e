//! A context is protected if another pair has answered. Every other context gives its reason.

use moorline_datapath::shim6::FailureHint;

use super::*;
use crate::{Profile, Readiness, Reason, Transmit};

impl Pair {
    fn readiness(&self, side: usize) -> Readiness {
        let id = self.hosts[side].contexts().next().expect("a context").id;
        self.hosts[side].readiness(id, self.now).expect("there")
    }

    /// Traffic both ways for this number of seconds.
    pub(super) fn talk(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.run(Duration::from_secs(1));
            self.traffic();
        }
    }
}

pub(super) fn default_pair(states: [LocalState; 2]) -> Pair {
    let config = Config { profile: Profile::default(), ..Config::default() };
    Pair::with_config(states, &config)
}

#[test]
fn a_context_is_protected_once_another_pair_has_answered_and_while_that_is_fresh() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    pair.trigger(0);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Untried));
    pair.traffic();
    for side in 0..2 {
        let by = LocatorPair::new(pair.locators[side][1], pair.locators[1 - side][1]);
        assert_eq!(pair.readiness(side), Readiness::Protected { by, at: pair.now });
    }
    pair.run(Duration::from_secs(121));
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Stale), "no traffic, no check");
    pair.traffic();
    assert!(matches!(pair.readiness(0), Readiness::Protected { .. }));
}

#[test]
fn pairs_that_do_not_answer_are_not_protection() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    pair.trigger(0);
    let (ours, theirs) = (pair.locators[0].clone(), pair.locators[1].clone());
    for (ours, theirs) in ours.iter().flat_map(|&a| theirs.iter().map(move |&b| (a, b))) {
        if (ours, theirs) != (pair.locators[0][0], pair.locators[1][0]) {
            pair.dead.extend([(ours, theirs), (theirs, ours)]);
        }
    }
    pair.traffic();
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Untried), "not given up yet");
    pair.talk(8);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Trying));
    pair.talk(60);
    assert_eq!(pair.readiness(0), Readiness::Cannot(Reason::Unanswered));
}

#[test]
fn a_context_whose_probes_are_not_answered_says_so_until_one_is() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    pair.trigger(0);
    pair.talk(2);
    let (ours, theirs) = (pair.locators[0].clone(), pair.locators[1].clone());
    for (ours, theirs) in ours.iter().flat_map(|&a| theirs.iter().map(move |&b| (a, b))) {
        pair.dead.extend([(ours, theirs), (theirs, ours)]);
    }
    let report = Report::SendExpired { context: ContextId(0), since: pair.now };
    pair.run(Duration::from_secs(15));
    pair.hosts[0].handle_report(report, pair.now);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Exploring), "a moment");
    pair.run(Duration::from_secs(20));
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Unreachable));
    pair.dead.clear();
    pair.run(Duration::from_secs(90));
    assert_ne!(pair.readiness(0), Readiness::NotYet(Reason::Unreachable));
}

#[test]
fn the_rfcs_profile_tries_no_other_pair_and_answers_no_check() {
    let mut pair = Pair::new();
    pair.trigger(0);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::ChecksOff));
    let default = Config { profile: Profile::default(), ..Config::default() };
    let mut pair = Pair::new();
    pair.hosts[0] = Contexts::new(default, [7; 32], pair.now);
    pair.hosts[0].handle_local(&local_state(0), pair.now);
    pair.trigger(0);
    pair.traffic();
    pair.talk(8);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::PeerMute));
}

#[test]
fn a_single_pair_is_told_with_the_end_that_lacks_another() {
    let alone = |side| {
        let mut state = local_state(side);
        state.usable.truncate(1);
        state
    };
    let unproven = |side| LocalState { proof: Default::default(), ..alone(side) };
    let reason = |states| {
        let mut pair = default_pair(states);
        pair.trigger(0);
        pair.readiness(0)
    };
    assert_eq!(reason([unproven(0), unproven(1)]), Readiness::Cannot(Reason::OwnUnproven));
    assert_eq!(reason([alone(0), unproven(1)]), Readiness::Cannot(Reason::PeerUnproven));
}

#[test]
fn a_context_that_is_not_established_says_how_far_it_is() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    let (a, b) = (pair.locators[0][0], pair.locators[1][0]);
    pair.dead.extend([(a, b), (b, a)]);
    pair.trigger(0);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Establishing));
    assert_eq!(
        Readiness::of_failure(moorline_shim6::Failure::NoSupport),
        Readiness::Cannot(Reason::NoSupport)
    );
}

impl Pair {
    /// Takes all messages that a side sends, without delivery.
    fn taken(&mut self, side: usize) -> Vec<Transmit> {
        core::iter::from_fn(|| self.hosts[side].poll_transmit()).collect()
    }

    fn deliver(&mut self, to: usize, transmits: &[Transmit]) {
        for transmit in transmits {
            let LocatorPair { local, peer } = transmit.locators;
            let seen = LocatorPair::new(peer, local);
            self.hosts[to].handle_control(&transmit.octets, seen, self.now);
        }
    }
}

//= rfc5533#7.18 (test)
#[test]
fn a_peer_that_has_lost_the_context_protects_nothing_until_it_has_answered_anew() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    pair.trigger(0);
    pair.traffic();
    assert!(matches!(pair.readiness(0), Readiness::Protected { .. }));
    pair.now = pair.now + Duration::from_secs(5);
    let config = Config { profile: Profile::default(), ..Config::default() };
    pair.hosts[1] = Contexts::new(config, [7; 32], pair.now);
    pair.hosts[1].handle_local(&local_state(1), pair.now);
    pair.entries[1].clear();
    pair.hosts[0].set_send_timeout(Duration::from_secs(7), pair.now);
    let request = pair.taken(0);
    pair.deliver(1, &request);
    let r1bis = pair.taken(1);
    pair.deliver(0, &r1bis);
    let i2bis = pair.taken(0);
    assert_eq!(pair.hosts[0].contexts().next().expect("there").state, "i2bis-sent");
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Renewing));
    let (at, _) = pair.hosts[0].poll_timeout().expect("I2bis is sent again");
    pair.now = pair.now.max(at);
    pair.hosts[0].handle_timeout(pair.now);
    pair.taken(0);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Unrenewed));
    pair.deliver(1, &i2bis);
    pair.settle();
    assert_eq!(pair.hosts[0].contexts().next().expect("there").state, "established");
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Untried));
    pair.traffic();
    let now = pair.now;
    assert!(matches!(pair.readiness(0), Readiness::Protected { at, .. } if at == now));
}

/// An answer to one context counts for others with the same peer. The answer does not show that the peer has the other
/// contexts.
#[test]
fn an_answer_to_another_context_is_no_protection_before_the_peer_has_this_one() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    pair.trigger(0);
    pair.traffic();
    let ulids = pair.ulids(0);
    let fork = pair.hosts[0].fork(ulids, pair.now).expect("room");
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        let messages = pair.taken(from);
        pair.deliver(to, &messages);
    }
    assert_eq!(pair.taken(1).len(), 1, "the R2, which is lost");
    let fork_of = |pair: &Pair, side: usize| {
        let fork = pair.hosts[side].contexts().find(|context| context.forked_instance != 0);
        let fork = fork.expect("a fork");
        pair.hosts[side].readiness(fork.id, pair.now).expect("there")
    };
    assert_eq!(pair.hosts[0].context(fork).expect("there").state, "i2-sent");
    assert_eq!(fork_of(&pair, 1), Readiness::NotYet(Reason::Untried));
    pair.drain(1);
    let context = pair.entries[1].iter().map(|entry| entry.id).max().expect("two");
    pair.hosts[1].handle_report(Report::Received { context, at: pair.now }, pair.now);
    pair.taken(1);
    assert_eq!(fork_of(&pair, 1), Readiness::NotYet(Reason::Unconfirmed));
    pair.run(Duration::from_secs(8));
    assert_eq!(pair.hosts[0].context(fork).expect("there").state, "established");
    pair.traffic();
    assert!(matches!(fork_of(&pair, 0), Readiness::Protected { .. }));
    assert!(matches!(fork_of(&pair, 1), Readiness::Protected { .. }));
}

/// Both sides begin at the same moment, and a firewall drops the messages of one side. The other side has the context
/// first, and gets no answer to its checks.
#[test]
fn a_peer_that_has_the_context_later_is_checked_with_the_next_traffic() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    let [ours, theirs] = [0, 1].map(|side| pair.locators[side][0]);
    for side in 0..2 {
        let ulids = pair.ulids(side);
        pair.hosts[side].handle_report(Report::Trigger { ulids }, pair.now);
    }
    assert_eq!(pair.taken(1).len(), 1, "the I1 that is lost");
    for (from, to) in [(0, 1), (1, 0)] {
        let messages = pair.taken(from);
        pair.deliver(to, &messages);
    }
    pair.dead.insert((theirs, ours));
    let state_of =
        |pair: &Pair, side: usize| pair.hosts[side].contexts().next().expect("one").state;
    pair.talk(6);
    assert_eq!([0, 1].map(|side| state_of(&pair, side)), ["established", "i1-sent"]);
    assert!(matches!(pair.readiness(0), Readiness::NotYet(_)));
    pair.dead.clear();
    while state_of(&pair, 1) == "i1-sent" {
        pair.run(Duration::from_millis(100));
    }
    // The checks of the other side show that it has the context.
    pair.traffic();
    pair.traffic();
    assert!(matches!(pair.readiness(0), Readiness::Protected { at, .. } if at == pair.now));
}

/// Two contexts with one peer, by different ISPs. Each has the pair of the other as its standby path.
#[test]
fn what_answered_before_another_context_left_the_isp_is_no_protection() {
    for comes_back in [true, false] {
        let mut pair = default_pair([local_state(0), local_state(1)]);
        pair.trigger(0);
        let [one, other] = [0, 1].map(|side| pair.locators[side][1].as_ulid());
        let ulids = UlidPair::new(one, other);
        pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
        pair.settle();
        pair.talk(3);
        let id = |pair: &Pair| {
            let mut contexts = pair.hosts[0].contexts();
            contexts.find(|context| context.ulids == ulids).expect("a context").id
        };
        let second = |pair: &Pair| pair.hosts[0].readiness(id(pair), pair.now).expect("there");
        assert!(matches!(second(&pair), Readiness::Protected { .. }));
        let gone = pair.locators[0][0];
        for theirs in pair.locators[1].clone() {
            pair.dead.extend([(gone, theirs), (theirs, gone)]);
        }
        let context = pair.entries[0].iter().find(|entry| entry.ulids != ulids).expect("first").id;
        let since = pair.now;
        let (hint, usual) = (FailureHint::Retransmission, Duration::ZERO);
        let report = Report::Suspected { context, hint, since, usual };
        pair.hosts[0].handle_report(report, pair.now);
        pair.run(Duration::from_millis(100));
        let moved = pair.entries[0].iter().find(|entry| entry.id == context).expect("there");
        assert!(moved.is_moved(), "nothing is tried");
        assert_eq!(second(&pair), Readiness::NotYet(Reason::Untried));
        if comes_back {
            pair.dead.clear();
        }
        pair.talk(5);
        assert_eq!(matches!(second(&pair), Readiness::Protected { .. }), comes_back);
    }
}

impl Pair {
    /// Lets host 0 send its next due message. If the message is an I1, host 1 receives it. An I2 or I2bis is lost.
    fn shake_in_vain(&mut self) {
        let (at, _) = self.hosts[0].poll_timeout().expect("a timer");
        self.now = self.now.max(at);
        self.hosts[0].handle_timeout(self.now);
        self.answer_i1();
    }

    fn answer_i1(&mut self) {
        let sent = self.taken(0);
        let state = self.hosts[0].contexts().next().map(|context| context.state);
        if state == Some("i1-sent") {
            self.deliver(1, &sent);
            let r1 = self.taken(1);
            self.deliver(0, &r1);
            self.taken(0);
        }
    }
}

#[test]
fn an_i1_that_is_sent_again_in_vain_is_unanswered_and_a_young_one_is_not() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    let ulids = pair.ulids(0);
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    let mut seen = Vec::new();
    loop {
        let Some(id) = pair.hosts[0].contexts().next().map(|context| context.id) else { break };
        seen.push(pair.hosts[0].readiness(id, pair.now).expect("there"));
        pair.taken(0);
        let (at, _) = pair.hosts[0].poll_timeout().expect("a timer");
        pair.now = pair.now.max(at);
        pair.hosts[0].handle_timeout(pair.now);
    }
    seen.dedup();
    let not_yet = [Reason::Establishing, Reason::NoAnswer].map(Readiness::NotYet);
    assert_eq!(seen, not_yet);
}

#[test]
fn a_handshake_that_stays_half_open_says_so_until_it_is_given_up_and_a_young_one_does_not() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    let ulids = pair.ulids(0);
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    pair.answer_i1();
    assert_eq!(pair.hosts[0].contexts().next().expect("there").state, "i2-sent");
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Establishing), "young");
    let mut anew = 0;
    loop {
        pair.shake_in_vain();
        let Some(context) = pair.hosts[0].contexts().next() else { break };
        let (id, state) = (context.id, context.state);
        let readiness = pair.hosts[0].readiness(id, pair.now);
        assert_eq!(readiness, Some(Readiness::NotYet(Reason::HalfOpen)), "{state}");
        anew += 1;
    }
    assert!(anew > 3, "I1 was sent anew, more than once: {anew}");
}

#[test]
fn a_peer_whose_locators_cannot_be_verified_is_the_reason_until_its_r2_is_taken() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    let ulids = pair.ulids(0);
    pair.hosts[0].handle_report(Report::Trigger { ulids }, pair.now);
    let request = next_of(&mut pair, 0, MessageType::I1);
    pair.deliver(1, &[request]);
    let answer = next_of(&mut pair, 1, MessageType::R1);
    pair.deliver(0, &[answer]);
    let request = next_of(&mut pair, 0, MessageType::I2);
    pair.deliver(1, &[request]);
    let answer = next_of(&mut pair, 1, MessageType::R2);
    let mut lie = answer;
    let named = local_state(1).usable[1].octets();
    let at = lie.octets.windows(16).position(|part| part == named).expect("a list");
    lie.octets[at + 15] ^= 1;
    moorline_wire::fill_checksum(&mut lie.octets);
    pair.deliver(0, &[lie]);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Unverified));
    pair.shake_in_vain();
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::Unverified), "also after more I2s");
    let request = next_of(&mut pair, 0, MessageType::I2);
    pair.deliver(1, &[request]);
    let answer = next_of(&mut pair, 1, MessageType::R2);
    pair.deliver(0, &[answer]);
    assert_ne!(pair.readiness(0), Readiness::NotYet(Reason::Unverified));
}
