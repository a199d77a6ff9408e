use super::*;
use crate::{Cause, CongestionPolicy};

const ID: ContextId = ContextId(0);
const POLICY: CongestionPolicy = CongestionPolicy {
    threshold: 10,
    window: Duration::from_secs(5),
    hold: Duration::from_secs(10),
};

fn established(policy: Option<CongestionPolicy>) -> Pair {
    let mut pair = Pair::new();
    pair.hosts[0].set_congestion_policy(policy);
    pair.trigger(0);
    pair
}

impl Pair {
    fn congest(&mut self, ce: u32, ece: u32) {
        let report = Report::Congested { context: ID, at: self.now, ce, ece };
        self.hosts[0].handle_report(report, self.now);
        self.settle();
    }

    /// Reports congestion without a pause for `time`. Returns how often the context moved because of it.
    fn congest_for(&mut self, time: Duration) -> usize {
        let (end, before) = (self.now + time, self.left_it());
        while self.now < end {
            self.congest(0, 20);
            self.run(Duration::from_millis(100));
        }
        self.left_it() - before
    }

    fn left_it(&self) -> usize {
        let is_move =
            |event: &&Event| matches!(event.kind, EventKind::Moved { cause: Cause::Congested, .. });
        self.events[0].iter().filter(is_move).count()
    }
}

fn told(pair: &Pair) -> Vec<(u32, u32)> {
    let counts = |event: &Event| {
        if let EventKind::Congested { ce, ece, .. } = event.kind { Some((ce, ece)) } else { None }
    };
    pair.events[0].iter().filter_map(counts).collect()
}

#[test]
fn congestion_is_told_once_a_second_with_all_that_was_seen_and_moves_nothing_by_itself() {
    let mut pair = established(None);
    let before = pair.entries[0][0].current.pair;
    for _ in 0..10 {
        pair.congest(3, 1);
        pair.run(Duration::from_millis(100));
    }
    pair.congest(0, 1);
    assert_eq!(told(&pair), [(3, 1), (27, 10)]);
    pair.congest_for(Duration::from_secs(60));
    assert_eq!(pair.entries[0][0].current.pair, before);
    assert_eq!(pair.left_it(), 0);
}

#[test]
fn the_policy_leaves_a_congested_pair_for_one_that_shares_nothing_with_it() {
    let mut pair = established(Some(POLICY));
    pair.congest(0, 9);
    pair.run(Duration::from_secs(6));
    pair.congest(0, 9);
    assert_eq!(pair.left_it(), 0, "not as many within the window");
    pair.congest(1, 0);
    assert_eq!(pair.left_it(), 1);
    let disjoint = LocatorPair::new(pair.locators[0][1], pair.locators[1][1]);
    assert_eq!(pair.entries[0][0].current.pair, disjoint);
}

#[test]
fn a_policy_that_flaps_is_damped() {
    let mut pair = established(Some(POLICY));
    // The context is held for 10, 20, 40, 80, 160 and 320 s.
    assert!(pair.congest_for(Duration::from_secs(310)) <= 6);
    assert!(pair.congest_for(Duration::from_secs(3600)) <= 5);
}

#[test]
fn a_pinned_context_stays_and_an_alternative_that_does_not_answer_is_not_taken() {
    let mut pair = established(Some(POLICY));
    pair.hosts[0].pin(ID, pair.now).expect("established");
    assert_eq!(pair.congest_for(Duration::from_secs(5)), 0);
    pair.hosts[0].unpin(ID, pair.now);
    for local in [0, 1] {
        for peer in [0, 1] {
            if (local, peer) != (0, 0) {
                let (local, peer) = (pair.locators[0][local], pair.locators[1][peer]);
                pair.dead.extend([(local, peer), (peer, local)]);
            }
        }
    }
    assert_eq!(pair.congest_for(Duration::from_secs(30)), 0);
    assert!(pair.events[0].iter().any(|event| matches!(event.kind, EventKind::Unanswered { .. })));
}

#[test]
fn reports_of_contexts_that_have_gone_are_counted_and_nothing_else() {
    let mut pair = established(Some(POLICY));
    let report = Report::Congested { context: ContextId(9), at: pair.now, ce: 99, ece: 0 };
    pair.hosts[0].handle_report(report, pair.now);
    assert_eq!(pair.hosts[0].drops().iter().count(), 1);
    assert_eq!(pair.left_it(), 0);
}
