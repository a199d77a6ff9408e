use moorline_types::Prefix;
use moorline_wire::LocatorPreference;

use super::*;
use crate::{Cause, PathRule, Placed, Preference, Profile, Refusal, Scope};

const ID: ContextId = ContextId(0);
const ALL: Scope = Scope::Peer(Prefix::ALL);

fn established() -> Pair {
    let mut pair = Pair::new();
    pair.trigger(0);
    pair
}

impl Pair {
    /// The pair of our locator at ISP `local` and the peer's locator at ISP `peer`.
    fn way(&self, local: usize, peer: usize) -> LocatorPair {
        LocatorPair::new(self.locators[0][local], self.locators[1][peer])
    }

    fn switch(&mut self, to: LocatorPair) -> Result<Placed, Refusal> {
        let placed = self.hosts[0].switch(ID, to, Cause::Switch, self.now);
        self.settle();
        placed
    }

    fn rules(&mut self, rules: &[PathRule]) {
        self.hosts[0].set_path_rules(rules.to_vec(), self.now);
        self.settle();
    }

    fn current(&self) -> LocatorPair {
        self.entries[0][0].current.pair
    }

    /// The prefix of a host's locator.
    fn uplink(&self, side: usize, isp: usize) -> Prefix {
        Prefix::new(self.locators[side][isp].0, 64)
    }

    fn cut_both(&mut self, way: LocatorPair) {
        self.dead.extend([(way.local, way.peer), (way.peer, way.local)]);
    }
}

fn causes(pair: &Pair) -> Vec<Cause> {
    let cause = |event: &Event| {
        let EventKind::Moved { cause, .. } = event.kind else { return None };
        Some(cause)
    };
    pair.events[0].iter().filter_map(cause).collect()
}

#[test]
fn a_switch_moves_the_payload_of_both_ends_and_the_data_plane_hears_of_nothing_else() {
    let mut pair = established();
    let to = pair.way(1, 1);
    assert_eq!(pair.switch(to), Ok(Placed::Probing));
    assert_eq!(pair.current(), to);
    assert_eq!(pair.entries[1][0].current.pair, LocatorPair::new(to.peer, to.local));
    assert_eq!(causes(&pair), [Cause::Switch]);
    assert_eq!(pair.switch(to), Ok(Placed::Already));
    let view = pair.hosts[0].paths(ID)[0];
    assert_eq!((view.pair, view.is_pending), (to, false));
    assert_eq!(
        (view.answered, view.rtt),
        (Some(pair.now), None),
        "the answer of an exploration is no measurement"
    );
    let explored =
        pair.events[0].iter().any(|event| matches!(event.kind, EventKind::StateChanged { .. }));
    assert!(!explored, "{:?}", pair.events[0]);
}

#[test]
fn a_switch_to_a_pair_that_does_not_answer_is_told_and_moves_nothing() {
    let mut pair = established();
    let (from, to) = (pair.current(), pair.way(1, 0));
    pair.cut_both(to);
    assert_eq!(pair.switch(to), Ok(Placed::Probing));
    assert!(pair.hosts[0].paths(ID).iter().any(|path| path.is_pending && path.pair == to));
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.current(), from);
    let is_told = |event: &Event| matches!(event.kind, EventKind::Unanswered { pair, cause: Cause::Switch } if pair == to);
    assert!(pair.events[0].iter().any(is_told));
}

#[test]
fn pairs_that_are_not_for_the_context_are_refused_with_the_reason_and_without_a_packet() {
    let mut pair = established();
    let (ours, theirs) = (pair.locators[0].clone(), pair.locators[1].clone());
    let locator = |text: &str| Locator(text.parse().expect("an address"));
    let stranger = locator("2001:db8:9::9");
    let ways = LocatorPair::new;
    for (way, refusal) in [
        (ways(stranger, theirs[0]), Refusal::NotOurs(stranger)),
        (ways(theirs[0], ours[0]), Refusal::NotOurs(theirs[0])),
        (ways(ours[0], stranger), Refusal::NotThePeers(stranger)),
        (ways(ours[0], locator("fe80::1")), Refusal::WrongScope(ways(ours[0], locator("fe80::1")))),
        (ways(ours[0], locator("ff02::1")), Refusal::WrongScope(ways(ours[0], locator("ff02::1")))),
        (ways(ours[0], ours[0]), Refusal::WrongScope(ways(ours[0], ours[0]))),
    ] {
        assert_eq!(pair.hosts[0].switch(ID, way, Cause::Switch, pair.now), Err(refusal));
        assert_eq!(pair.hosts[0].poll_transmit(), None, "{refusal}");
    }
    let other = ContextId(7);
    let refused = pair.hosts[0].switch(other, pair.way(1, 1), Cause::Switch, pair.now);
    assert_eq!(refused, Err(Refusal::NoContext(other)));
    let mut local = local_state(0);
    local.usable.remove(1);
    pair.hosts[0].handle_local(&local, pair.now);
    pair.settle();
    assert_eq!(pair.switch(pair.way(1, 1)), Err(Refusal::NotUsable(ours[1])));
}

#[test]
fn a_pinned_context_is_moved_by_its_failure_alone() {
    let mut pair = established();
    let (home, away) = (pair.current(), pair.way(1, 1));
    assert_eq!(pair.hosts[0].pin(ID, pair.now), Ok(home));
    assert_eq!(pair.switch(away), Err(Refusal::Pinned(home)));
    pair.rules(&[PathRule {
        scope: ALL,
        local: pair.uplink(0, 1),
        peer: Prefix::ALL,
        preference: Preference::Prefer,
    }]);
    assert_eq!(pair.current(), home, "no rule moves it");
    for peer in 0..2 {
        pair.cut_both(pair.way(0, peer));
    }
    pair.send_expired(0);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.current().local, away.local, "REAP does");
    assert_eq!(pair.hosts[0].pinned(ID), Some(home));
    pair.dead.clear();
    assert!(pair.hosts[0].unpin(ID, pair.now));
    assert!(!pair.hosts[0].unpin(ID, pair.now));
}

#[test]
fn what_a_pin_kept_from_happening_happens_when_it_is_taken_back() {
    let mut pair = established();
    pair.hosts[0].pin(ID, pair.now).expect("established");
    let (local, peer) = (pair.uplink(0, 1), Prefix::ALL);
    pair.rules(&[PathRule { scope: ALL, local, peer, preference: Preference::Prefer }]);
    assert!(pair.hosts[0].unpin(ID, pair.now));
    pair.settle();
    assert_eq!(pair.current(), pair.way(1, 0));
}

#[test]
fn a_rule_for_a_context_is_not_for_the_next_one_with_its_number() {
    let mut pair = established();
    let (scope, local) = (Scope::Context(ID), pair.uplink(0, 1));
    pair.rules(&[PathRule { scope, local, peer: Prefix::ALL, preference: Preference::Prefer }]);
    assert_eq!(pair.current(), pair.way(1, 0));
    for side in 0..2 {
        pair.hosts[side].handle_not_taken(ID, pair.now);
    }
    pair.settle();
    assert!(pair.entries[0].is_empty());
    pair.run(Duration::from_secs(600));
    pair.trigger(0);
    assert_eq!(pair.entries[0][0].id, ID);
    assert_eq!(pair.current(), pair.way(0, 0));
    assert_eq!(pair.hosts[0].preference(ID, pair.way(1, 0)), Preference::Neutral);
}

#[test]
fn new_contexts_and_those_that_are_there_go_where_the_rules_prefer() {
    for is_there in [false, true] {
        let mut pair = Pair::new();
        if is_there {
            pair.trigger(0);
        }
        pair.rules(&[PathRule {
            scope: ALL,
            local: pair.uplink(0, 1),
            peer: Prefix::ALL,
            preference: Preference::Prefer,
        }]);
        if !is_there {
            pair.trigger(0);
        }
        assert_eq!(pair.current(), pair.way(1, 0), "as little is changed as the rule needs");
        assert_eq!(causes(&pair), [Cause::Preferred]);
    }
}

#[test]
fn of_several_rules_the_most_specific_decides() {
    let mut pair = established();
    let rule = |scope, local, preference| PathRule { scope, local, peer: Prefix::ALL, preference };
    let peer = Prefix::new(pair.locators[1][0].0, 48);
    let (first, second) = (pair.uplink(0, 0), pair.uplink(0, 1));
    pair.rules(&[
        rule(ALL, second, Preference::Avoid),
        rule(Scope::Context(ID), second, Preference::Neutral),
        rule(Scope::Peer(peer), second, Preference::Prefer),
        rule(ALL, Prefix::ALL, Preference::Avoid),
    ]);
    let way = pair.way(1, 0);
    assert_eq!(pair.hosts[0].preference(ID, way), Preference::Neutral);
    pair.rules(&[
        rule(ALL, second, Preference::Avoid),
        rule(Scope::Peer(peer), second, Preference::Prefer),
    ]);
    assert_eq!(pair.hosts[0].preference(ID, way), Preference::Prefer);
    pair.rules(&[rule(ALL, first, Preference::Avoid)]);
    assert_eq!(pair.current().local, pair.locators[0][1]);
    pair.rules(&[]);
    assert_eq!(pair.hosts[0].preference(ID, way), Preference::Neutral);
}

#[test]
fn a_preferred_pair_that_does_not_answer_is_left_alone_for_a_while() {
    let mut pair = established();
    pair.cut_both(pair.way(1, 0));
    let rule = PathRule {
        scope: ALL,
        local: pair.uplink(0, 1),
        peer: pair.uplink(1, 0),
        preference: Preference::Prefer,
    };
    pair.rules(&[rule]);
    pair.run(Duration::from_secs(10));
    let asked = |pair: &Pair| {
        let unanswered = |event: &&Event| matches!(event.kind, EventKind::Unanswered { .. });
        pair.events[0].iter().filter(unanswered).count()
    };
    assert_eq!(asked(&pair), 1);
    let mut local = local_state(0);
    local.usable.reverse();
    pair.hosts[0].handle_local(&local, pair.now);
    pair.settle();
    pair.run(Duration::from_secs(10));
    assert_eq!(asked(&pair), 1, "not again at once");
}

#[test]
fn a_spread_context_takes_every_pair_that_answers_and_no_other() {
    let mut pair = Pair::adaptive();
    pair.cut_both(pair.way(1, 0));
    pair.hosts[0].set_spread(ID, true, pair.now).expect("established");
    pair.drain(0);
    assert!(pair.entries[0][0].paths.iter().all(|path| path.pair == pair.way(0, 0)), "not yet");
    pair.settle();
    pair.run(Duration::from_secs(5));
    let entry = &pair.entries[0][0];
    let (stand_in, paths) = (pair.way(0, 0), entry.paths.iter().map(|path| path.pair));
    let mut paths: Vec<_> = paths.collect();
    assert_eq!(paths[0], pair.way(1, 1), "what shares no end first");
    paths.retain(|path| *path != stand_in);
    assert_eq!(paths, [pair.way(1, 1), pair.way(0, 1)], "the dead one is not used");
    assert!(entry.spread && entry.is_moved());
    assert_eq!(pair.hosts[0].spread(ID).map(|paths| paths.len()), Some(3));
    pair.hosts[0].set_spread(ID, false, pair.now).expect("established");
    pair.settle();
    assert_eq!(pair.entries[0][0].paths.len(), 0);
    assert_eq!(pair.hosts[0].spread(ID), None);
}

#[test]
fn a_spread_context_with_too_many_pairs_takes_those_that_share_the_fewest_ends() {
    let state = |side: u8| {
        let prefixes = [1u8, 2, 3, 4, 5, 6, 7];
        let prefixes = prefixes.map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa + side]);
        let key = HbaKey::extended_modifier([side; 48]);
        state_of(generate_hba(&prefixes, Sec::new(0).unwrap(), &key, [side; 16], 1).unwrap())
    };
    let config = Config { profile: Profile::default(), ..Config::default() };
    let mut pair = Pair::with_config([state(0), state(1)], &config);
    pair.trigger(0);
    pair.traffic();
    pair.hosts[0].set_spread(ID, true, pair.now).expect("established");
    pair.settle();
    pair.run(Duration::from_secs(5));
    let (current, mut paths) = (pair.current(), pair.hosts[0].spread(ID).expect("spread"));
    // A path that has not answered yet is the current pair.
    paths.retain(|path| *path != current);
    assert!(paths.len() > 15, "{paths:?}");
    assert!(paths.iter().all(|path| path.shared_ends(current) == 0), "{paths:?}");
}

#[test]
fn a_ranking_from_outside_is_an_order_and_nothing_else() {
    let mut pair = established();
    let stranger = Locator("2001:db8:9::9".parse().expect("an address"));
    let lies = [LocatorPair::new(stranger, stranger), pair.way(1, 0), pair.way(1, 0)];
    pair.hosts[0].set_ranking(ID, &lies, pair.now);
    pair.settle();
    assert_eq!(pair.current(), pair.way(0, 0), "nothing moves");
    // Both pairs share one end with the failed pair. The ranked pair is tried first.
    pair.cut_both(pair.way(0, 0));
    pair.cut_both(pair.way(1, 1));
    pair.send_expired(0);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.current(), pair.way(1, 0));
}

/// A switch moves the peer's direction as well. The peer's fail-back moves it home, unless this host has told the peer
/// that it prefers another locator.
#[test]
fn a_peer_goes_home_after_a_switch_unless_it_was_told_of_something_better() {
    for is_told in [false, true] {
        let mut pair = Pair::adaptive();
        let away = pair.way(1, 1);
        if is_told {
            let [first, second] = [pair.locators[0][0], pair.locators[0][1]];
            let worse = LocatorPreference { flags: 0, priority: Some(9), weight: None };
            let said = [(first, worse), (second, LocatorPreference::default())];
            pair.hosts[0].set_preferences(&said, pair.now);
            pair.settle();
        }
        assert_eq!(pair.switch(away), Ok(Placed::Probing));
        let back = LocatorPair::new(away.peer, away.local);
        assert_eq!(pair.entries[1][0].current.pair, back, "taken along");
        for _ in 0..80 {
            pair.traffic();
            pair.run(Duration::from_secs(1));
        }
        assert_eq!(pair.current(), away, "where it was put");
        assert_eq!(pair.entries[1][0].current.pair == back, is_told, "{is_told}");
    }
}
