//! Sessions whose questions or answers get lost by the only pair that works (decisions 215 and 222).

use core::time::Duration;
use std::vec::Vec;

use moorline_datapath::ilnp::Report;
use moorline_types::{Instant, L64};
use moorline_wire::ilnp::{Control, LocatorUpdate, Operation};

use super::ilv;
use super::paths::{Net, second};
use crate::consts::{ALL_UNHEARD_TURNS, HEARD_TURNS, PACED_INTERVAL, QUESTION_PAUSE, TURN_PAUSE};
use crate::pace::Window;
use crate::{LocalLocator, MoveCause};

fn locators(host: usize, preferences: [u16; 2]) -> Vec<LocalLocator> {
    let all = [ilv(host).l64, second(host)].into_iter().zip(preferences);
    all.map(|(l64, preference)| LocalLocator { preference, ..LocalLocator::new(l64) }).collect()
}

fn wire(net: &Net, host: usize) -> (L64, L64) {
    net.duo.entry(host).wire
}

fn silent(net: &mut Net, host: usize) {
    let session = net.duo.entry(host).id;
    net.duo.report(host, Report::Silent { session });
}

/// The number of messages that a host has sent by these locators since the transcript had this length.
fn sent_by(net: &Net, from: usize, (local, remote): (L64, L64)) -> usize {
    let by = |packet: &Vec<u8>| {
        // The pair of a message is as its receiver sees it.
        let pair = Control::read(packet).expect("ours").pair;
        (pair.remote.l64, pair.local.l64) == (local, remote)
    };
    net.duo.transcript[from..].iter().filter(|packet| by(packet)).count()
}

/// Two hosts that use their second locators, which die. By the first locators, messages of the second host arrive, and those
/// of the first host get lost. Each locator has answered before.
fn one_is_heard() -> Net {
    let mut net = by_dead_locators();
    net.dead.push((ilv(0).l64, ilv(1).l64));
    net
}

/// Two hosts that use their second locators. Each locator has answered before.
pub(super) fn with_proven_locators() -> Net {
    let mut net = Net::new();
    for host in 0..2 {
        net.duo.place(host, locators(host, [20, 10]));
        net.run(Duration::from_secs(5));
    }
    assert_eq!(wire(&net, 0), (second(0), second(1)));
    net
}

/// Two hosts that use their second locators, which die. Each locator has answered before.
fn by_dead_locators() -> Net {
    let mut net = with_proven_locators();
    net.kill(second(0));
    net.kill(second(1));
    net
}

#[test]
fn questions_keep_the_pace_after_the_correspondent_is_heard_and_go_by_its_pair_between_turns() {
    let mut net = one_is_heard();
    let first = (ilv(0).l64, ilv(1).l64);
    for host in 0..2 {
        silent(&mut net, host);
    }
    net.run(Duration::from_secs(4));
    // From now on nothing arrives at all.
    net.kill(ilv(1).l64);
    let from = net.duo.transcript.len();
    net.run(QUESTION_PAUSE * 2 * 5);
    let fast = sent_by(&net, from, first);
    assert!((5..=8).contains(&fast), "one of two questions goes by this pair: {fast}");
    net.run(QUESTION_PAUSE * 2 * u32::from(HEARD_TURNS));
    let (session, at) = (net.duo.entry(0).id, net.duo.now);
    net.duo.report(0, Report::Used { session, at });
    net.run(TURN_PAUSE);
    let from = net.duo.transcript.len();
    net.run(TURN_PAUSE * 4);
    let slow = sent_by(&net, from, first);
    assert!((4..=6).contains(&slow), "one between two turns: {slow}");
}

/// The second host prefers the ISP that dies. It does not go by its preference once its correspondent has left.
#[test]
fn a_session_that_follows_its_correspondent_off_a_silent_isp_leaves_its_own_locator_at_once() {
    let mut net = Net::new();
    let steps = [(0, [20, 10]), (1, [20, 10]), (1, [10, 20]), (0, [10, 20]), (0, [10, 10])];
    for (host, preferences) in steps {
        net.duo.place(host, locators(host, preferences));
        net.run(Duration::from_secs(5));
    }
    assert_eq!((wire(&net, 0), wire(&net, 1).0), ((ilv(0).l64, ilv(1).l64), ilv(1).l64));
    net.kill(ilv(0).l64);
    net.kill(ilv(1).l64);
    silent(&mut net, 0);
    net.run(QUESTION_PAUSE * 5);
    silent(&mut net, 1);
    net.run(QUESTION_PAUSE * 2);
    assert_eq!(wire(&net, 0), (second(0), second(1)), "the first host has left");
    net.run(QUESTION_PAUSE);
    assert_eq!(wire(&net, 1), (second(1), second(0)), "and so has the second one");
    assert_eq!(net.duo.session(1).moved, Some(MoveCause::Suspicion));
}

/// Nothing arrives at the first host. Its payload has left in vain once.
#[test]
fn before_anything_is_heard_some_turns_keep_the_pace_and_every_second_question_goes_by_a_known_pair()
 {
    let mut net = by_dead_locators();
    net.kill(ilv(1).l64);
    silent(&mut net, 0);
    net.run(Duration::from_secs(2));
    let first = (ilv(0).l64, ilv(1).l64);
    let from = net.duo.transcript.len();
    net.run(QUESTION_PAUSE * 2 * 6);
    let fast = sent_by(&net, from, first);
    assert!((6..=9).contains(&fast), "one of two questions goes by this pair: {fast}");
    net.run(QUESTION_PAUSE * 2 * u32::from(HEARD_TURNS));
    let from = net.duo.transcript.len();
    net.run(TURN_PAUSE * 3);
    let slow = sent_by(&net, from, first);
    assert!(slow <= 1, "one of four turns: {slow}");
}

/// The first host has left its silent pair. Its Locator Updates get lost from then on.
#[test]
fn the_pair_that_has_answered_takes_every_second_locator_update_until_the_correspondent_knows_the_move()
 {
    let mut net = by_dead_locators();
    silent(&mut net, 0);
    let first = (ilv(0).l64, ilv(1).l64);
    while wire(&net, 0) != first {
        for host in 0..2 {
            let pair = |packet: &Vec<u8>| Control::read(packet).expect("ours").pair;
            let mut packets = net.duo.take(host);
            packets.retain(|packet| [0, 1].map(ilv).contains(&pair(packet).local));
            packets.retain(|packet| [0, 1].map(ilv).contains(&pair(packet).remote));
            net.duo.give(1 - host, &packets);
        }
        net.duo.fire(0);
    }
    net.kill(ilv(0).l64);
    let from = net.duo.transcript.len();
    net.run(QUESTION_PAUSE * 2 * 5);
    let told = sent_by(&net, from, first);
    assert!((5..=8).contains(&told), "one of two Locator Updates goes by this pair: {told}");
}

/// The second host has nothing to send by itself, and its acknowledgements get lost.
#[test]
fn a_host_that_is_asked_by_another_pair_asks_by_that_pair_itself() {
    let mut net = by_dead_locators();
    let (first, back) = ((ilv(0).l64, ilv(1).l64), (ilv(1).l64, ilv(0).l64));
    net.dead.push(back);
    silent(&mut net, 0);
    let from = net.duo.transcript.len();
    net.run(Duration::from_secs(5));
    assert!(sent_by(&net, from, first) > 0, "the first host asks");
    let questions = net.duo.transcript[from..].iter().filter(|packet| {
        let control = Control::read(packet).expect("ours");
        let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
        let update = LocatorUpdate::parse(control.message, src, dst);
        (control.pair.remote.l64, control.pair.local.l64) == back
            && update.is_ok_and(|update| update.operation == Operation::ADVERTISEMENT)
    });
    assert!(questions.count() > 5);
}

/// Other sessions have taken all turns of each interval.
#[test]
fn a_session_for_which_no_turn_is_left_does_not_keep_the_pace_unheard() {
    let mut net = by_dead_locators();
    net.kill(ilv(1).l64);
    silent(&mut net, 0);
    // The intervals begin between two turns.
    net.run(Duration::from_millis(2005));
    let from = net.duo.transcript.len();
    for _ in 0..240 {
        let (now, turns) = (net.duo.now, &mut net.duo.machines[0].unheard_turns);
        while turns.take(ALL_UNHEARD_TURNS, now) {}
        net.run(Duration::from_millis(10));
    }
    let slow = sent_by(&net, from, (ilv(0).l64, ilv(1).l64));
    assert!(slow <= 1, "one of four turns: {slow}");
}

/// A correspondent that is gone may have many sessions in use, and all correspondents may be gone.
#[test]
fn all_sessions_together_have_few_turns_that_keep_the_pace_unheard() {
    let mut window = Window::default();
    let begin = Instant::from_nanos(1_000_000_000);
    let asked = (0..1000).map(|nth| begin + Duration::from_millis(nth));
    let taken = asked.filter(|now| window.take(ALL_UNHEARD_TURNS, *now)).count();
    let intervals = usize::try_from(1000 / PACED_INTERVAL.as_millis()).expect("ten");
    assert_eq!(taken, ALL_UNHEARD_TURNS * intervals);
}
