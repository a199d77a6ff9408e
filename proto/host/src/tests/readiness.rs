//! Protected means that another pair has answered, and every context that is not says why.

use super::*;
use crate::{Profile, Readiness, Reason};

impl Pair {
    fn readiness(&self, side: usize) -> Readiness {
        let id = self.hosts[side].contexts().next().expect("a context").id;
        self.hosts[side].readiness(id, self.now).expect("there")
    }

    /// Traffic both ways, for so many seconds.
    fn talk(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.run(Duration::from_secs(1));
            self.traffic();
        }
    }
}

fn default_pair(states: [LocalState; 2]) -> Pair {
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
fn the_rfcs_profile_tries_no_other_pair_and_answers_no_check() {
    let mut pair = Pair::new();
    pair.trigger(0);
    assert_eq!(pair.readiness(0), Readiness::NotYet(Reason::ChecksOff));
    let default = Config { profile: Profile::default(), ..Config::default() };
    let mut pair = Pair::new();
    pair.hosts[0] = Host::new(default, [7; 32], pair.now);
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
