//! Paths that fail silently.

use core::time::Duration;
use std::collections::BTreeSet;
use std::vec::Vec;

use moorline_datapath::ilnp::{Report, SILENCE, USED_INTERVAL};
use moorline_types::{Ilv, Instant, L64, Rtt};

use super::again::again;
use super::duo::{Duo, is_question};
use super::ilv;
use crate::consts::{
    FAIL_BACK_FORGIVEN, FIRST_FAIL_BACK, LOCATOR_LIFETIME, MAX_FAIL_BACK, PATH_CHECK_INTERVAL,
    SILENT_TRIES,
};
use crate::{Config, Event, LocalLocator, Machine, MoveCause, Validity};

/// Two hosts with two locators each. The hosts know all locators, and prefer none.
pub(super) struct Net {
    pub(super) duo: Duo,
    /// Pairs of locators: nothing passes from the first to the second.
    pub(super) dead: Vec<(L64, L64)>,
}

pub(super) fn second(host: usize) -> L64 {
    L64(0x2001_0db8_00a0_0000 + host as u64)
}

impl Net {
    pub(super) fn new() -> Self {
        let mut duo = Duo::established();
        for host in 0..2 {
            duo.roam(host, &[ilv(host).l64.0, second(host).0]);
            duo.play();
        }
        let mut net = Self { duo, dead: Vec::new() };
        net.run(Duration::from_secs(5));
        net
    }

    /// Cuts all paths of a locator, in both directions.
    pub(super) fn kill(&mut self, locator: L64) {
        let all = [ilv(0).l64, second(0), THIRD, ilv(1).l64, second(1)];
        self.dead.extend(all.iter().flat_map(|other| [(locator, *other), (*other, locator)]));
    }

    /// Runs timers and delivers messages for this time, without a delay on the path.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.duo.now + time;
        loop {
            self.deliver();
            let next =
                (0..2).filter_map(|host| Some((self.duo.machines[host].poll_timeout()?, host)));
            let Some((at, host)) = next.min().filter(|(at, _)| *at <= end) else { break };
            self.duo.now = at.max(self.duo.now);
            self.duo.fire_due(host);
        }
        self.duo.now = end;
    }

    fn deliver(&mut self) {
        loop {
            let mut is_quiet = true;
            for host in 0..2 {
                let packets = self.duo.take(host);
                is_quiet &= packets.is_empty();
                let locator = |packet: &[u8], at: usize| {
                    L64(u64::from_be_bytes(packet[at..at + 8].try_into().unwrap()))
                };
                let passes = |packet: &&Vec<u8>| {
                    !self.dead.contains(&(locator(packet, 8), locator(packet, 24)))
                };
                let arrived: Vec<_> = packets.iter().filter(passes).cloned().collect();
                self.duo.give(1 - host, &arrived);
            }
            if is_quiet {
                break;
            }
        }
    }

    /// Has the host send for this time.
    fn send(&mut self, host: usize, time: Duration) {
        let end = self.duo.now + time;
        while self.duo.now < end {
            let session = self.duo.entry(host).id;
            let report = Report::Used { session, at: self.duo.now };
            self.duo.report(host, report);
            self.run(USED_INTERVAL);
        }
    }

    /// Whether packets of a host arrive.
    fn works(&self, host: usize) -> bool {
        !self.dead.contains(&self.duo.entry(host).wire)
    }
}

#[test]
fn a_session_without_any_path_stands_still_until_a_path_is_back() {
    let mut net = Net::new();
    assert!(!net.duo.session(0).stands_still);
    net.kill(ilv(0).l64);
    net.run(PATH_CHECK_INTERVAL);
    net.send(0, USED_INTERVAL);
    assert!(net.works(0) && !net.duo.session(0).stands_still, "one path is left");
    net.kill(second(0));
    net.run(PATH_CHECK_INTERVAL);
    net.send(0, USED_INTERVAL);
    assert!(net.duo.session(0).stands_still);
    net.dead.clear();
    net.send(0, USED_INTERVAL * 3);
    assert!(net.works(0) && !net.duo.session(0).stands_still);
}

/// Without this event, the TCP of the host would wait for its timer, which has doubled meanwhile.
#[test]
fn a_session_that_stood_still_tells_that_its_own_locators_answer_again() {
    let mut net = Net::new();
    let wire = net.duo.entry(0).wire;
    for locator in [ilv(0).l64, second(0)] {
        net.kill(locator);
    }
    net.run(PATH_CHECK_INTERVAL);
    net.send(0, USED_INTERVAL);
    let session = net.duo.entry(0).id;
    let is_regained = |event: &Event| *event == Event::Regained { session };
    assert!(net.duo.session(0).stands_still && !net.duo.has_event(0, is_regained));
    let (local, remote) = net.duo.entry(0).wire;
    net.dead.retain(|dead| ![(local, remote), (remote, local)].contains(dead));
    net.send(0, USED_INTERVAL * 3);
    assert!(net.works(0) && !net.duo.session(0).stands_still);
    assert_eq!(net.duo.entry(0).wire, wire, "no other pair works, so the session has not moved");
    assert!(net.duo.has_event(0, is_regained));
}

/// Nobody has doubted the session when its path fails. It is on another path after one report of its use.
#[test]
fn a_session_leaves_a_path_that_fails_without_a_word_in_both_directions() {
    for dead in [ilv(0).l64, ilv(1).l64] {
        for sender in 0..2 {
            let mut net = Net::new();
            net.kill(dead);
            net.run(PATH_CHECK_INTERVAL);
            assert!(!net.works(0) && !net.works(1));
            net.send(sender, USED_INTERVAL);
            assert!(net.works(0) && net.works(1), "{dead:?} {sender}");
            let messages = |duo: &Duo| duo.transcript.len();
            let before = (net.duo.entry(0).wire, net.duo.entry(1).wire);
            let sent = messages(&net.duo);
            net.send(sender, USED_INTERVAL * 20);
            assert_eq!((net.duo.entry(0).wire, net.duo.entry(1).wire), before, "it stays there");
            assert!(messages(&net.duo) - sent <= 60, "two messages a question");
        }
    }
}

/// A host that is asked all the time asks nothing itself.
#[test]
fn locators_of_a_session_in_use_do_not_age() {
    for (sender, dead) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut net = Net::new();
        net.send(sender, Duration::from_secs(LOCATOR_LIFETIME.into()) * 2);
        for host in 0..2 {
            let remote = net.duo.session(host).remote;
            let lives = |one: Validity| matches!(one, Validity::Active | Validity::Valid);
            assert!(remote.iter().all(|(_, one)| lives(*one)), "{sender}: {remote:?}");
        }
        net.kill(ilv(dead).l64);
        net.run(PATH_CHECK_INTERVAL);
        net.send(sender, USED_INTERVAL);
        assert!(net.works(0) && net.works(1), "{sender} {dead}");
    }
}

#[test]
fn a_path_that_fails_in_one_direction_is_left_by_both() {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut net = Net::new();
        net.dead.push((ilv(from).l64, ilv(to).l64));
        net.run(PATH_CHECK_INTERVAL);
        net.send(to, USED_INTERVAL);
        assert!(net.works(0) && net.works(1), "{from} to {to}");
    }
}

#[test]
fn a_question_that_is_lost_once_moves_nothing() {
    let mut net = Net::new();
    net.run(PATH_CHECK_INTERVAL);
    let session = net.duo.entry(0).id;
    let report = Report::Used { session, at: net.duo.now };
    net.duo.report(0, report);
    let lost = net.duo.take(0).into_iter().filter(|packet| !is_question(packet));
    assert_eq!(lost.count(), 1, "lost");
    net.run(USED_INTERVAL);
    let first = |event: &Event| matches!(event, Event::Moved { .. });
    assert!(!net.duo.has_event(0, first) && !net.duo.has_event(1, first));
}

/// Gives the first of two locators of the host this preference.
fn prefer_first(net: &mut Net, preference: u16) {
    let locators = [(ilv(0).l64, preference), (second(0), 20)]
        .map(|(l64, preference)| LocalLocator { preference, ..LocalLocator::new(l64) });
    net.duo.place(0, locators.into());
    net.run(Duration::from_secs(5));
}

/// The preferred uplink of the host fails, and the session leaves it.
fn without_preferred() -> Net {
    let mut net = Net::new();
    prefer_first(&mut net, 10);
    net.kill(ilv(0).l64);
    net.run(PATH_CHECK_INTERVAL);
    net.send(0, USED_INTERVAL);
    assert_eq!(net.duo.entry(0).wire.0, second(0));
    net
}

#[test]
fn a_move_has_its_cause_and_the_locators_before() {
    let mut net = without_preferred();
    net.dead.clear();
    until_back(&mut net);
    let events = core::mem::take(&mut net.duo.events[0]);
    let moved = events.iter().filter_map(|event| {
        let Event::Moved { from, wire, cause, .. } = *event else { return None };
        Some((from.local.l64, wire.local.l64, cause))
    });
    let (first, second) = (ilv(0).l64, second(0));
    let expected = [(first, second, MoveCause::Suspicion), (second, first, MoveCause::FailBack)];
    assert_eq!(moved.collect::<Vec<_>>(), expected);
    assert_eq!(net.duo.session(0).moved, Some(MoveCause::FailBack));
}

/// Time for which the host uses the session before the session is back at the preferred uplink.
fn until_back(net: &mut Net) -> Duration {
    let begun = net.duo.now;
    while net.duo.entry(0).wire.0 != ilv(0).l64 {
        net.send(0, USED_INTERVAL);
        assert!(net.duo.now.since(begun) <= MAX_FAIL_BACK * 2);
    }
    net.duo.now.since(begun)
}

#[test]
fn no_preference_leads_back_to_a_path_that_has_failed_until_the_locators_change() {
    let mut net = without_preferred();
    net.send(0, FIRST_FAIL_BACK * 4);
    assert_eq!(net.duo.entry(0).wire.0, second(0), "the path is still dead");
    moves(&mut net);
    prefer_first(&mut net, 11);
    assert_eq!(moves(&mut net), [ilv(0).l64, second(0)], "the session tries it, in vain");
}

#[test]
fn a_preferred_path_that_works_again_is_gone_back_to_each_time_after_a_longer_pause() {
    let mut net = without_preferred();
    let mut pause = FIRST_FAIL_BACK;
    for _ in 0..8 {
        net.dead.clear();
        let back = until_back(&mut net);
        assert!(
            (pause - USED_INTERVAL * 2..=pause + USED_INTERVAL * 2).contains(&back),
            "{back:?}"
        );
        assert_eq!(net.duo.entry(1).wire.1, ilv(0).l64, "the correspondent follows");
        pause = (pause * 2).min(MAX_FAIL_BACK);
        net.kill(ilv(0).l64);
        net.send(0, USED_INTERVAL * 2);
        assert_eq!(net.duo.entry(0).wire.0, second(0));
    }
}

#[test]
fn a_path_that_works_again_and_is_not_preferred_is_not_gone_back_to() {
    let mut net = Net::new();
    net.kill(ilv(0).l64);
    net.run(PATH_CHECK_INTERVAL);
    net.send(0, USED_INTERVAL);
    net.dead.clear();
    let before = net.duo.entry(0).wire;
    net.send(0, FIRST_FAIL_BACK * 4);
    assert_eq!(net.duo.entry(0).wire, before);
}

/// The questions get lost while the path works.
#[test]
fn lost_questions_move_nothing_unless_all_are_lost_and_then_not_for_good() {
    for lost in 1..=SILENT_TRIES {
        let mut net = Net::new();
        prefer_first(&mut net, 10);
        // The first use after a change of links asks at standby locators as well.
        net.send(0, USED_INTERVAL);
        net.run(PATH_CHECK_INTERVAL);
        let session = net.duo.entry(0).id;
        let report = Report::Used { session, at: net.duo.now };
        net.duo.report(0, report);
        for nth in 1..=lost {
            assert_eq!(net.duo.take(0).len(), 1);
            if nth < lost {
                net.duo.fire(0);
            }
        }
        net.run(USED_INTERVAL);
        let has_moved = net.duo.entry(0).wire.0 != ilv(0).l64;
        assert_eq!(has_moved, lost == SILENT_TRIES);
        assert!(until_back(&mut net) <= FIRST_FAIL_BACK + USED_INTERVAL);
    }
}

/// The correspondent has given its locators a lifetime of a minute and has sent nothing since.
#[test]
fn no_question_goes_to_a_locator_that_has_aged() {
    let mut net = Net::new();
    let locators = [ilv(1).l64, second(1)].map(|l64| LocalLocator {
        lifetime: 60,
        preference: 20,
        ..LocalLocator::new(l64)
    });
    net.duo.place(1, locators.into());
    net.run(Duration::from_secs(61));
    net.kill(ilv(1).l64);
    net.kill(second(1));
    let before = net.duo.transcript.len();
    net.send(0, USED_INTERVAL);
    let used = net.duo.entry(0).wire.1;
    let asked =
        net.duo.transcript[before..].iter().filter(|packet| packet[32..40] == octets(ilv(1)));
    let to: BTreeSet<_> =
        asked.map(|packet| L64(u64::from_be_bytes(packet[24..32].try_into().unwrap()))).collect();
    assert_eq!(to, BTreeSet::from([used]));
}

fn octets(of: Ilv) -> [u8; 8] {
    of.address().octets()[8..].try_into().unwrap()
}

/// The path between the preferred locators fails. Then the correspondent moves elsewhere, and comes back.
#[test]
fn a_correspondent_that_comes_back_to_a_locator_is_followed_whatever_failed_before() {
    let mut net = Net::new();
    net.duo.roam(1, &[ilv(1).l64.0]);
    prefer_first(&mut net, 10);
    net.kill(ilv(0).l64);
    net.run(PATH_CHECK_INTERVAL);
    net.send(0, USED_INTERVAL * 3);
    assert_eq!(net.duo.entry(0).wire, (second(0), ilv(1).l64));
    net.dead.clear();
    for there in [AWAY, ilv(1).l64] {
        net.duo.roam(1, &[there.0]);
        net.run(Duration::from_secs(5));
        assert_eq!(net.duo.entry(0).wire.1, there);
    }
}

/// The first host has three locators, each preferred to the next, and the second has two.
fn with_preferences() -> Net {
    let mut net = Net::new();
    let prefer = |l64, preference| LocalLocator { preference, ..LocalLocator::new(l64) };
    let locators = [prefer(ilv(0).l64, 10), prefer(second(0), 20), prefer(THIRD, 30)];
    net.duo.place(0, locators.into());
    net.run(Duration::from_secs(5));
    net.duo.place(1, [prefer(ilv(1).l64, 10), prefer(second(1), 20)].into());
    net.run(PATH_CHECK_INTERVAL);
    for host in 0..2 {
        net.send(host, USED_INTERVAL);
        assert_eq!(net.duo.entry(host).wire, (ilv(host).l64, ilv(1 - host).l64));
    }
    net
}

/// The locators of the first host that its session has moved to since the last call.
fn moves(net: &mut Net) -> Vec<L64> {
    let events = core::mem::take(&mut net.duo.events[0]);
    let local = |event: &Event| {
        let Event::Moved { wire, .. } = event else { return None };
        Some(wire.local.l64)
    };
    events.iter().filter_map(local).collect()
}

#[test]
fn no_path_that_has_failed_is_gone_back_to_when_the_next_one_fails() {
    let mut net = with_preferences();
    moves(&mut net);
    let chain = [ilv(0).l64, second(0), THIRD];
    for pair in chain.windows(2) {
        net.kill(pair[0]);
        net.send(0, USED_INTERVAL * 3);
        assert_eq!(moves(&mut net), [pair[1]]);
    }
    // The first path works again, and the second does not.
    net.dead.retain(|&(from, to)| from == second(0) || to == second(0));
    assert!(until_back(&mut net) <= FIRST_FAIL_BACK * 2 + USED_INTERVAL);
    assert_eq!(moves(&mut net), [ilv(0).l64]);
}

#[test]
fn each_path_that_has_failed_is_asked_again() {
    let mut net = with_preferences();
    for dead in [ilv(0).l64, second(0)] {
        net.kill(dead);
        net.send(0, USED_INTERVAL * 3);
    }
    net.dead.retain(|&(from, to)| from == ilv(0).l64 || to == ilv(0).l64);
    net.send(0, FIRST_FAIL_BACK * 3);
    assert_eq!(net.duo.entry(0).wire.0, second(0), "the best of those that work");
}

/// Of two locators at each end, the preferred ones fail together.
#[test]
fn no_pair_that_has_brought_no_answer_is_used_because_another_pair_has() {
    let mut net = with_preferences();
    moves(&mut net);
    let dead = [ilv(0).l64, ilv(1).l64];
    dead.into_iter().for_each(|locator| net.kill(locator));
    net.send(0, USED_INTERVAL * 3);
    assert_eq!(net.duo.entry(0).wire, (second(0), second(1)));
    assert_eq!(moves(&mut net).len(), 1);
}

#[test]
fn a_failure_is_forgiven_after_hours_without_another() {
    let mut net = with_preferences();
    let mut failure = |calm: Duration| {
        net.run(calm);
        net.kill(ilv(0).l64);
        net.send(0, USED_INTERVAL * 3);
        assert_eq!(net.duo.entry(0).wire.0, second(0));
        net.dead.clear();
        until_back(&mut net)
    };
    for nth in 0..4 {
        assert!(failure(Duration::ZERO) >= FIRST_FAIL_BACK * (1 << nth) - USED_INTERVAL * 4);
    }
    // The next pause would be sixteen minutes.
    let back = failure(FAIL_BACK_FORGIVEN * 2);
    assert!(back <= FIRST_FAIL_BACK * 4 + USED_INTERVAL, "{back:?}");
    assert!(failure(FAIL_BACK_FORGIVEN * 13) <= FIRST_FAIL_BACK + USED_INTERVAL);
}

/// Replaces the first host's machine by one that restores its session, with the locators that it had.
fn restart(net: &mut Net, locators: &[LocalLocator]) {
    let snapshots: Vec<_> = net.duo.machines[0].snapshot().collect();
    let mut machine = Machine::new(Config::default(), [77; 32], net.duo.now);
    for snapshot in snapshots {
        machine.restore(snapshot, net.duo.now).expect("a session");
    }
    let moved = net.duo.session(0).moved;
    net.duo.machines[0] = machine;
    assert_eq!(net.duo.session(0).moved, moved, "the cause is kept");
    net.duo.place(0, locators.into());
}

/// Seconds until packets of the first host arrive, while both hosts send.
fn until_works(net: &mut Net) -> u64 {
    let is_back = |net: &mut Net, _: &u64| {
        net.run(Duration::from_secs(1));
        net.works(0)
    };
    let reports = |net: &mut Net| {
        for host in 0..2 {
            let (session, at) = (net.duo.entry(host).id, net.duo.now);
            net.duo.report(host, Report::Used { session, at });
        }
    };
    (1..120)
        .find(|second| {
            if second % USED_INTERVAL.as_secs() == 1 {
                reports(net);
            }
            is_back(net, second)
        })
        .expect("the session works")
}

/// A data plane says that nothing comes any more, 500 ms after the packet that got no answer.
#[test]
fn a_session_that_falls_silent_uses_another_path_within_two_seconds() {
    let mut net = quiet_lately();
    let since = net.duo.now;
    net.kill(ilv(0).l64);
    net.run(SILENCE);
    assert!(!net.works(0));
    is_back_within_two_seconds(&mut net, since);
}

/// The data plane reports silence.
fn is_back_within_two_seconds(net: &mut Net, since: Instant) {
    let session = net.duo.entry(0).id;
    net.duo.report(0, Report::Silent { session });
    while !net.works(0) {
        net.run(Duration::from_millis(10));
        let late = net.duo.now.since(since);
        assert!(late <= Duration::from_secs(2), "{late:?}");
    }
}

/// The first Locator Update of the run gets lost, and the answer to the second one may be to either.
#[test]
fn a_session_of_a_run_before_uses_another_path_within_two_seconds() {
    let mut net = quiet_lately();
    again(&mut net.duo);
    net.duo.roam(0, &[ilv(0).l64.0, second(0).0]);
    assert_eq!(net.duo.take(0).len(), 1, "the Locator Update that gets lost");
    net.run(Duration::from_secs(4));
    let since = net.duo.now;
    net.kill(ilv(0).l64);
    net.run(SILENCE);
    assert!(!net.works(0));
    is_back_within_two_seconds(&mut net, since);
}

/// The ISP in use at both ends fails: in both directions, or in one.
#[test]
fn a_session_leaves_an_isp_that_both_ends_use_within_three_seconds() {
    for from in [&[0, 1][..], &[0], &[1]] {
        for sender in 0..2 {
            let mut net = quiet_lately();
            let since = net.duo.now;
            let used = net.duo.entry(0).wire;
            for host in from {
                let ends = [0, 1].map(|host| [ilv(host).l64, second(host)]);
                let pairs = ends[*host].map(|own| ends[1 - *host].map(|to| (own, to)));
                let is_cut = |(own, to): &(L64, L64)| {
                    [used.0, used.1].iter().any(|cut| [own, to].contains(&cut))
                };
                net.dead.extend(pairs.into_iter().flatten().filter(is_cut));
            }
            net.run(SILENCE);
            let session = net.duo.entry(sender).id;
            net.duo.report(sender, Report::Silent { session });
            while !(net.works(0) && net.works(1)) {
                net.run(Duration::from_millis(10));
                let late = net.duo.now.since(since);
                assert!(late <= Duration::from_millis(2500), "{from:?} {sender}: {late:?}");
            }
        }
    }
}

/// The locators of the first host's Locator Updates after silence, with the time of each since the first one.
fn asked_in_silence(net: &mut Net) -> Vec<(u64, (L64, L64))> {
    let session = net.duo.entry(0).id;
    net.duo.report(0, Report::Silent { session });
    let begun = net.duo.now;
    let mut asked = Vec::new();
    while net.duo.now.since(begun) < Duration::from_secs(2) {
        let locator = |packet: &[u8], at: usize| {
            L64(u64::from_be_bytes(packet[at..at + 8].try_into().unwrap()))
        };
        let millis = u64::try_from(net.duo.now.since(begun).as_millis()).unwrap();
        let sent = net.duo.take(0).into_iter().filter(|packet| !is_question(packet));
        asked.extend(sent.map(|packet| (millis, (locator(&packet, 8), locator(&packet, 24)))));
        net.duo.fire(0);
    }
    asked
}

/// A question by another pair is no retransmission, so it waits for one pause and not for the doubled one. Beside the turns,
/// questions go by the pair whose locators the correspondent has used (decision 222).
#[test]
fn a_question_tries_the_pair_that_shares_no_locator_first_and_all_pairs_within_two_seconds() {
    let mut net = quiet_lately();
    let (local, remote) = net.duo.entry(0).wire;
    let other = |host: usize, used| if used == second(host) { ilv(host).l64 } else { second(host) };
    let others = (other(0, local), other(1, remote));
    let used = (local, remote);
    let known = (local, others.1);
    let expected = [
        (0, used),
        (200, used),
        (600, used),
        (1400, others),
        (1600, known),
        (1600, (others.0, remote)),
        (1800, known),
        (1800, known),
    ];
    assert_eq!(asked_in_silence(&mut net), expected);
}

/// One sample of a round trip of 160 ms. The retransmission timeout has a margin of twice that, so its pauses would add up to
/// 3.4 s.
#[test]
fn three_questions_about_silence_take_seven_round_trips_without_a_margin_for_late_answers() {
    let mut net = quiet_lately();
    let (id, used) = (net.duo.entry(0).id, net.duo.entry(0).wire);
    let session = net.duo.machines[0].ilcc.get_mut(id).unwrap();
    session.rtt = Rtt::default();
    session.rtt.observe(Duration::from_millis(160));
    let asked = asked_in_silence(&mut net);
    assert_eq!(asked[..3], [(0, used), (240, used), (720, used)]);
    assert_eq!(asked[3].0, 1680);
}

/// The first of two locators of the first host fails, and the second host prefers its first locator.
#[test]
fn a_preferred_locator_that_was_left_with_a_failed_one_is_gone_back_to() {
    let mut net = with_preferences();
    moves(&mut net);
    net.kill(ilv(0).l64);
    net.send(0, USED_INTERVAL);
    assert_eq!(net.duo.entry(0).wire, (second(0), second(1)), "no locator of the failed pair");
    net.send(0, FIRST_FAIL_BACK * 2);
    assert_eq!(net.duo.entry(0).wire, (second(0), ilv(1).l64));
    assert_eq!(moves(&mut net), [second(0); 2]);
}

/// Questions have been answered lately, so no report of use asks again.
fn quiet_lately() -> Net {
    let mut net = Net::new();
    net.send(0, USED_INTERVAL);
    net.run(Duration::from_secs(1));
    net
}

/// A queue has just filled when the report comes: answers by the pair in use, which is dead until then, come 450 ms late.
/// The other pair answers at once. The session stays.
fn outlives_a_queue(mut net: Net, report: Report) {
    let wire = net.duo.entry(0).wire;
    net.duo.report(0, report);
    net.run(Duration::from_millis(450));
    net.dead.clear();
    net.run(Duration::from_secs(5));
    assert_eq!(net.duo.entry(0).wire, wire);
    assert!(net.duo.session(0).moved.is_none());
}

#[test]
fn a_question_about_silence_outlives_a_queue_that_has_just_filled() {
    let mut net = quiet_lately();
    let entry = net.duo.entry(0);
    net.kill(entry.wire.0);
    net.run(SILENCE);
    outlives_a_queue(net, Report::Silent { session: entry.id });
}

/// The question about a session in use needs no silence.
#[test]
fn a_question_about_use_outlives_a_queue_that_has_just_filled() {
    let mut net = quiet_lately();
    net.run(PATH_CHECK_INTERVAL);
    let (entry, at) = (net.duo.entry(0), net.duo.now);
    net.kill(entry.wire.0);
    outlives_a_queue(net, Report::Used { session: entry.id, at });
}

/// The host starts again in the outage of its locator in use, and the correspondent leads it to the other one.
#[test]
fn locator_updates_that_were_lost_before_lead_back_to_no_locator_that_fails() {
    let locators = [ilv(0).l64, second(0)].map(LocalLocator::new);
    let mut net = Net::new();
    net.duo.place(0, locators.into());
    net.send(0, USED_INTERVAL);
    net.kill(ilv(0).l64);
    restart(&mut net, &locators);
    let (mine, theirs) = (net.duo.entry(0).id, net.duo.entry(1).id);
    net.duo.report(0, Report::Used { session: mine, at: net.duo.now });
    net.run(Duration::from_millis(500));
    net.duo.report(1, Report::Silent { session: theirs });
    let until = net.duo.now + Duration::from_secs(10);
    while net.duo.entry(0).wire.0 != second(0) {
        net.run(Duration::from_millis(50));
        assert!(net.duo.now < until, "still by the locator that fails");
    }
    for _ in 0..200 {
        net.run(Duration::from_millis(50));
        assert_eq!(net.duo.entry(0).wire.0, second(0));
    }
}

/// A Locator Update has gone unanswered for so long that its pauses are long, and payload has come meanwhile.
#[test]
fn silence_has_a_waiting_locator_update_sent_again_soon() {
    let mut net = Net::new();
    net.kill(ilv(0).l64);
    net.kill(second(0));
    net.duo.place(0, [ilv(0).l64].map(LocalLocator::new).into());
    net.run(Duration::from_secs(20));
    let due = |net: &Net| net.duo.machines[0].poll_timeout().unwrap().since(net.duo.now);
    net.run(Duration::from_millis(10));
    let session = net.duo.entry(0).id;
    assert!(due(&net) > Duration::from_secs(1), "{:?}", due(&net));
    net.duo.report(0, Report::Silent { session });
    assert!(due(&net) <= Duration::from_millis(500), "{:?}", due(&net));
}

/// The first ISP has failed, the session has moved to the second one, and all paths fail for a while. The daemon starts
/// again in that time.
#[test]
fn a_host_that_restarts_in_an_outage_uses_the_path_that_answers_as_soon_as_it_is_back() {
    let equal = [ilv(0).l64, second(0)].map(LocalLocator::new);
    let mut preferred = equal;
    preferred[1].preference = 20;
    preferred[0].preference = 10;
    for (locators, name) in [(equal, "equal"), (preferred, "preferred")] {
        for outage in [2, 5, 10, 20, 45, 70] {
            let mut net = Net::new();
            net.duo.place(0, locators.into());
            net.run(Duration::from_secs(5));
            net.kill(ilv(0).l64);
            net.send(0, USED_INTERVAL * 3);
            assert!(net.works(0) && net.duo.entry(0).wire.0 == second(0));
            let one_dead = net.dead.clone();
            net.kill(second(0));
            restart(&mut net, &locators);
            net.send(0, Duration::from_secs(outage));
            net.dead = one_dead;
            let after = until_works(&mut net);
            assert!(after <= 3, "{name}, {outage} s: {after} s");
            net.run(Duration::from_secs(1));
            for _ in 0..20 {
                net.send(0, USED_INTERVAL);
                assert!(net.works(0), "{name}, {outage} s: back on the path that fails");
            }
        }
    }
}

/// The second host names a locator while a question of the first one goes by pairs that all fail.
#[test]
fn a_locator_that_is_named_while_a_question_is_out_gets_its_turn() {
    for preference in [0, 10, 50] {
        let mut net = Net::new();
        for locator in [ilv(1).l64, second(1)] {
            net.kill(locator);
        }
        net.run(PATH_CHECK_INTERVAL);
        let (session, at) = (net.duo.entry(0).id, net.duo.now);
        net.duo.report(0, Report::Used { session, at });
        net.run(Duration::from_millis(100));
        let all = [(ilv(1).l64, 10), (second(1), 10), (AWAY, preference)];
        let named = |(l64, preference)| LocalLocator { preference, ..LocalLocator::new(l64) };
        net.duo.place(1, all.map(named).into());
        let update = net.duo.take(1);
        net.duo.give(0, &update);
        let after = until_works(&mut net);
        assert!(after <= 6, "preference {preference}: {after} s");
        assert_eq!(net.duo.entry(0).wire.1, AWAY);
    }
}

/// A third locator of the first host.
const THIRD: L64 = L64(0x2001_0db8_00c0_0000);

/// A locator of the second host in another network.
const AWAY: L64 = L64(0x2001_0db8_00b0_0000);

/// No report of use is necessary.
#[test]
fn a_session_leaves_a_locator_whose_router_does_not_answer_at_once() {
    let mut net = Net::new();
    net.kill(ilv(0).l64);
    let now = net.duo.now;
    net.duo.machines[0].handle_router_lost(&[second(0)], now);
    net.run(Duration::from_secs(2));
    assert!(!net.works(0), "another locator");
    let now = net.duo.now;
    net.duo.machines[0].handle_router_lost(&[ilv(0).l64], now);
    net.run(Duration::from_secs(2));
    assert!(net.works(0) && net.works(1));
}

#[test]
fn the_correspondent_of_a_quiet_session_is_not_asked_because_of_a_router() {
    let mut net = Net::new();
    net.run(USED_INTERVAL * 2);
    let now = net.duo.now;
    net.duo.machines[0].handle_router_lost(&[ilv(0).l64], now);
    assert_eq!(net.duo.take(0).len(), 0);
}
