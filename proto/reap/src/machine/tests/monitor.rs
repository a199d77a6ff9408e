//! Beyond the RFC: standby paths, local events, suspicion and failing back, two machines on a network.

use super::net::Net;
use super::*;
use crate::event::FailureHint;
use crate::profile::Profile;

use alloc::boxed::Box;

pub(super) fn config() -> Config {
    Config { profile: Profile::default(), ..Config::default() }
}

pub(super) fn net(config: &Config) -> Net {
    let mut net = Net::new(config, 2, 3);
    net.hosts.iter_mut().for_each(|host| host.payload = Some(ms(50)));
    net
}

fn only(pairs: &'static [(u16, u16)]) -> net::Route {
    Box::new(move |pair| pairs.iter().any(|&(a, b)| pair == ab(a, b) || pair == ba(b, a)))
}

pub(super) fn causes(net: &Net, host: usize) -> Vec<Cause> {
    let moved = |event: &Event| match event {
        Event::Moved { cause, .. } => Some(*cause),
        Event::StateChanged { .. }
        | Event::Unreachable { .. }
        | Event::Suspected { .. }
        | Event::Cleared { .. }
        | Event::Checked { .. }
        | Event::Replied { .. }
        | Event::Answered { .. }
        | Event::Worse { .. }
        | Event::Unanswered { .. } => None,
    };
    net.hosts[host].log.iter().filter_map(|(_, event)| moved(event)).collect()
}

pub(super) fn has(net: &Net, host: usize, is_meant: impl Fn(&Event) -> bool) -> bool {
    net.hosts[host].log.iter().any(|(_, event)| is_meant(event))
}

/// Runs until the host's first move, and says how long after `since`.
pub(super) fn moved_after(net: &mut Net, host: usize, since: Instant) -> Duration {
    net.run_until(ms(60_000), |net| !causes(net, host).is_empty()).expect("moves");
    net.now.since(since)
}

/// One host's data plane has a suspicion, with nothing heard since the cut.
pub(super) fn suspect(net: &mut Net, host: usize, hint: FailureHint) {
    let now = net.now;
    net.hosts[host].machine.handle_suspicion(hint, now, Duration::ZERO, now);
    net.flush(host);
}

#[test]
fn a_disjoint_standby_path_is_checked_once_a_minute_while_traffic_flows() {
    let mut net = net(&config());
    net.run_for(ms(1_000));
    for (host, standby) in [(0, ab(2, 2)), (1, ba(2, 2))] {
        assert_eq!(net.hosts[host].machine.fresh_standby(net.now), Some(standby));
    }
    let sent = net.probes_sent();
    assert_eq!(
        sent, 8,
        "each side asks by the standby path and by the current pair, and answers both"
    );
    net.run_for(ms(600_000));
    assert!((9 * sent..=11 * sent).contains(&net.probes_sent()), "{}", net.probes_sent());
    net.hosts.iter_mut().for_each(|host| host.payload = None);
    net.run_for(ms(61_000));
    let sent = net.probes_sent();
    net.run_for(ms(3_600_000));
    assert_eq!(net.probes_sent(), sent, "no traffic, no checks");
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), None, "so nothing is known of it");
    for host in &net.hosts {
        assert!(!host.log.iter().any(|(_, e)| matches!(e, Event::StateChanged { .. })));
        assert!(host.machine.exploration.is_none());
    }
}

#[test]
fn a_pair_that_does_not_answer_gives_way_to_another_standby() {
    let mut net = net(&config());
    net.route = only(&[(1, 1), (1, 2), (2, 1)]);
    net.run_for(ms(30_000));
    let standby = net.hosts[0].machine.fresh_standby(net.now).expect("one that answers");
    assert!([ab(1, 2), ab(2, 1)].contains(&standby), "{standby}");
}

/// Else a standby path by the uplink of the current pair would be kept, once another uplink was down for a while.
#[test]
fn a_standby_path_that_shares_an_end_gives_way_to_one_that_shares_none_as_soon_as_that_answers() {
    let mut net = net(&config());
    net.route = only(&[(1, 1), (1, 2)]);
    net.run_for(ms(30_000));
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), Some(ab(1, 2)));
    net.route = Box::new(|_| true);
    net.run_for(ms(61_000));
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), Some(ab(2, 2)));
    let sent = net.probes_sent();
    net.run_for(ms(600_000));
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), Some(ab(2, 2)));
    assert!(net.probes_sent() - sent <= 8 * 11, "as many as ever: {}", net.probes_sent() - sent);
}

/// A round is 60 s, and a host says of its contexts that no pair by another uplink has answered for as long as none is asked.
#[test]
fn an_uplink_that_is_back_is_asked_in_a_tenth_of_a_round() {
    let mut net = net(&config());
    net.run_for(ms(30_000));
    let [ours, theirs] = [A, B].map(|end| [1, 2].map(|number| locator(end, number)));
    let now = net.now;
    net.hosts[0].machine.set_candidates(&ours[..1], theirs, now);
    net.run_for(ms(30_000));
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), Some(ab(1, 2)));
    let now = net.now;
    net.hosts[0].machine.set_candidates(ours, theirs, now);
    net.run_for(ms(7_000));
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), Some(ab(2, 2)));
}

/// Nor does the pair to go back to take the place of a pair by that uplink that shares no end with the current one.
#[test]
fn both_the_preferred_pair_and_a_better_standby_path_are_asked_when_an_uplink_is_back() {
    let mut net = net(&config());
    net.run_for(ms(30_000));
    let [ours, theirs] = [A, B].map(|end| [1, 2].map(|number| locator(end, number)));
    let now = net.now;
    net.hosts[0].machine.set_candidates(&ours[1..], theirs, now);
    net.run_for(ms(30_000));
    let current = net.hosts[0].machine.current_pair();
    assert_eq!((current.local, net.hosts[0].machine.current_pair() == ab(1, 1)), (ours[1], false));
    let shares = |pair: LocatorPair| pair.local == current.local;
    assert!(net.hosts[0].machine.fresh_standby(net.now).is_some_and(shares), "one uplink");
    let now = net.now;
    net.hosts[0].machine.set_candidates(ours, theirs, now);
    net.run_for(ms(7_000));
    assert_eq!(net.hosts[0].machine.current_pair(), current, "it is too early to go back");
    let standby = net.hosts[0].machine.fresh_standby(net.now).expect("one that answers");
    assert!(!shares(standby), "{standby}");
}

#[test]
fn a_peer_that_knows_no_checks_is_asked_ever_more_rarely() {
    let mut net = net(&config());
    net.hosts[1].machine.handle_config(Config::default());
    net.run_for(ms(3_600_000));
    assert_eq!(net.hosts[0].machine.fresh_standby(net.now), None);
    assert!(net.hosts[0].probes_sent < 30, "{}", net.hosts[0].probes_sent);
    assert_eq!(net.states(), [State::Operational; 2]);
    assert_eq!(net.hosts[1].keepalives_sent, 0, "a check is no payload");
    assert!(net.hosts[1].drops.iter().all(|reason| *reason == DropReason::UnknownCriticalOption));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(10_000));
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
}

/// A check makes a peer with RFC 5534 alone send keepalives, by its own pair, for as long as its Keepalive Timeout.
#[test]
fn checks_do_not_keep_payload_on_a_pair_that_loses_it_to_a_peer_that_knows_none() {
    let mut net = net(&config());
    net.hosts[1].machine.handle_config(Config::default());
    net.hosts[1].payload = None;
    net.run_for(ms(20_000));
    net.route = Box::new(|pair| pair != ab(1, 1));
    let cut = net.now;
    for _ in 0..20 {
        suspect(&mut net, 0, FailureHint::Retransmission);
        net.run_for(ms(1_000));
    }
    // The last keepalive comes a Keepalive Timeout after the cut.
    assert!(moved_after(&mut net, 0, cut) <= ms(31_000));
}

#[test]
fn one_trial_in_vain_is_enough_for_a_peer_that_has_shown_no_checks() {
    let mut net = net(&config());
    net.hosts[1].machine.handle_config(Config::default());
    net.hosts[1].payload = None;
    net.run_for(ms(500));
    net.route = Box::new(|pair| pair != ab(1, 1));
    for _ in 0..4 {
        suspect(&mut net, 0, FailureHint::Retransmission);
        net.run_for(ms(1_500));
    }
    let trials = net.hosts[0].log.iter().filter(|(_, e)| matches!(e, Event::Suspected { .. }));
    assert_eq!(trials.count(), 1);
}

#[test]
fn there_is_no_last_trial_for_answers_that_would_come_too_late() {
    let config = Config { send_timeout: ms(40), ..config() };
    let mut net = net(&config);
    net.run_for(ms(5_000));
    let machine = &mut net.hosts[0].machine;
    assert!(machine.has_current_answered());
    assert_eq!(machine.timers().expect("Operational").send, ms(40), "a round trip takes 20 ms");
    // The data plane was told of a shorter time before.
    machine.handle_send_expired(net.now, net.now + ms(30));
    assert_eq!(machine.state(), State::Operational);
    machine.handle_timeout(net.now + ms(40));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn a_local_event_moves_at_once_and_the_peer_as_soon_as_it_hears_of_it() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = only(&[(2, 1), (2, 2)]);
    let event = net.now;
    net.hosts[0].machine.set_candidates([locator(A, 2)], [locator(B, 1), locator(B, 2)], event);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(2, 2), "no probe has answered yet");
    net.flush(0);
    assert_eq!(causes(&net, 0), [Cause::LocatorGone]);
    assert_eq!(moved_after(&mut net, 1, event), ms(10), "one way");
    net.run_for(ms(30));
    assert!(net.is_connected());
    assert_eq!(causes(&net, 1), [Cause::ProbeExploring]);
}

#[test]
fn a_lost_router_moves_to_a_standby_path_with_another_local_address_only() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    net.hosts[0].machine.handle_local_failure(now);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(2, 2));
    // One local address: the standby path shares it.
    let mut alone = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    alone.set_candidates([locator(A, 1)], [locator(B, 1), locator(B, 2)], at(0));
    let verified = Known::Verified { at: at(1), rtt: ms(5) };
    alone.handle_payload(at(1), at(1));
    assert_eq!(alone.question(), Some(ab(1, 2)));
    alone.handle_known(verified, at(1));
    assert_eq!(alone.fresh_standby(at(2)), Some(ab(1, 2)));
    alone.handle_local_failure(at(2));
    assert_eq!(alone.current_pair(), ab(1, 1));
    assert_eq!(alone.state(), State::Exploring);
}

#[test]
fn a_deprecated_address_is_left_gently() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    net.hosts[0].machine.handle_deprecated(&[locator(A, 1)], now);
    net.flush(0);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(2, 2));
    assert_eq!(causes(&net, 0), [Cause::Deprecated]);
    net.run_for(ms(300_000));
    assert_eq!(net.states(), [State::Operational; 2]);
    assert_eq!(net.pairs()[0], ab(2, 2), "not gone back to, though it works");
    assert!(!has(&net, 0, |e| matches!(e, Event::StateChanged { .. })));
    let standby = net.hosts[0].machine.fresh_standby(net.now).expect("another");
    assert_eq!(standby, ab(2, 1), "the deprecated one comes last");
    let now = net.now;
    net.hosts[0].machine.handle_deprecated(&[], now);
    net.run_for(ms(100_000));
    assert_eq!(net.pairs()[0], ab(1, 1));
}

#[test]
fn a_stale_standby_path_is_probed_before_it_is_used() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.hosts.iter_mut().for_each(|host| host.payload = None);
    net.run_for(ms(200_000));
    let now = net.now;
    net.hosts[0].machine.set_candidates([locator(A, 2)], [locator(B, 1), locator(B, 2)], now);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(1, 1));
    assert_eq!(net.hosts[0].machine.state(), State::Exploring);
}

/// Standby paths and nothing else: the Send Timeout is the detector.
fn standby() -> Config {
    Config { profile: Profile { suspects: false, ..Profile::default() }, ..Config::default() }
}

//= rfc5534#6.4 (test)
#[test]
fn a_send_timeout_moves_payload_to_the_standby_path_before_any_answer() {
    for both_ways in [true, false] {
        let mut net = net(&standby());
        net.hosts[1].payload = Some(ms(50)).filter(|_| both_ways);
        // Until the first keepalive.
        net.run_for(ms(8_000));
        net.route = only(&[(2, 2)]);
        let arrived = net.hosts[1].payload_received.len();
        net.run_for(ms(10));
        let in_flight = net.hosts[1].payload_received.len() - arrived;
        let now = net.now;
        moved_after(&mut net, 0, now);
        assert_eq!(net.hosts[0].machine.state(), State::Exploring, "as RFC 5534 s6.4 has it");
        assert_eq!(net.hosts[0].machine.current_pair(), ab(2, 2));
        assert!(net.hosts[0].machine.was_peer_at(locator(B, 1)), "nothing has come from elsewhere");
        assert_eq!(causes(&net, 0), [Cause::SendTimeout]);
        let is_back = |net: &Net| net.hosts[1].payload_received.len() > arrived + in_flight;
        let took = net.run_until(ms(1_000), is_back).expect("payload arrives");
        assert!(took <= ms(50 + 10), "the next payload, one way: {took:?}");
        net.run_for(ms(60));
        assert!(net.is_connected(), "{both_ways}: {:?}", net.states());
        net.run_for(ms(20_000));
        assert!(net.is_connected() && causes(&net, 0).len() == 1);
    }
}

#[test]
fn a_peer_that_is_heard_by_the_standby_path_is_not_at_the_pair_that_failed() {
    let mut net = net(&standby());
    net.run_for(ms(8_000));
    // Probes come by the standby path, and answers to them do not arrive.
    net.route = Box::new(|pair| pair == ba(2, 2));
    let now = net.now;
    moved_after(&mut net, 0, now);
    let heard = |net: &Net| net.hosts[0].machine.state() == State::InboundOk;
    net.run_until(ms(60_000), heard).expect("a probe of the peer's");
    let machine = &net.hosts[0].machine;
    assert!(machine.was_peer_at(locator(B, 2)) && !machine.was_peer_at(locator(B, 1)));
}

#[test]
fn a_standby_path_that_has_failed_as_well_is_left_by_the_exploration() {
    let mut net = net(&standby());
    net.run_for(ms(5_000));
    net.route = only(&[(2, 1)]);
    let now = net.now;
    moved_after(&mut net, 0, now);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(2, 2), "known to have worked");
    assert!(net.run_until(ms(5_000), Net::is_connected).is_some());
    assert_eq!(net.pairs(), [ab(2, 1), ba(1, 2)]);
}

#[test]
fn without_a_fresh_standby_a_send_timeout_moves_nothing() {
    let mut net = net(&standby());
    net.run_for(ms(5_000));
    net.hosts.iter_mut().for_each(|host| host.payload = None);
    net.run_for(ms(200_000));
    let now = net.now;
    net.hosts[0].machine.handle_send_expired(now, now);
    assert_eq!(net.hosts[0].machine.state(), State::Exploring);
    assert_eq!(net.hosts[0].machine.current_pair(), ab(1, 1));
}

#[test]
fn after_a_silent_cut_a_suspicion_moves_both_within_the_bound() {
    for delay in [ms(1), ms(10), ms(100)] {
        let mut net = net(&config());
        net.delay = delay;
        net.run_for(ms(5_000));
        net.route = only(&[(2, 2)]);
        net.run_for(delay);
        let since = net.now;
        suspect(&mut net, 0, FailureHint::Retransmission);
        let took = moved_after(&mut net, 0, since);
        let rtt = delay * 2;
        assert!(took >= rtt, "not before an answer could have come: {took:?}");
        let queue = (rtt * 10).min(ms(400));
        assert!(took <= (rtt * 3 / 2 + ms(11)).max(ms(20)) + queue, "{took:?} at {rtt:?}");
        assert_eq!(causes(&net, 0), [Cause::Suspicion]);
        assert_eq!(moved_after(&mut net, 1, since), took + delay);
        net.run_for(delay * 4);
        assert!(net.is_connected());
    }
}

#[test]
fn a_check_is_waited_for_by_how_long_answers_usually_take() {
    for (hint, quiet, usual, due) in [
        (FailureHint::Silence, 0, 0, 240),
        (FailureHint::Silence, 0, 44, 240),
        (FailureHint::Silence, 0, 150, 300),
        (FailureHint::Silence, 0, 420, 1_000),
        (FailureHint::Retransmission, 0, 400, 240),
        (FailureHint::Retransmission, 30_000, 150, 300),
        (FailureHint::Retransmission, 30_000, 1_100, 1_000),
        (FailureHint::Unreachable, 30_000, 1_100, 40),
    ] {
        let mut net = net(&config());
        net.run_for(ms(1_000));
        net.hosts.iter_mut().for_each(|host| host.payload = None);
        net.run_for(ms(quiet));
        let since = net.now;
        // However long the data plane has kept its doubts to itself.
        net.run_for(ms(900));
        let now = net.now;
        let machine = &mut net.hosts[0].machine;
        machine.handle_suspicion(hint, since, ms(usual), now);
        let trial = machine.monitor.as_ref().and_then(|monitor| monitor.trial()).expect("a trial");
        assert_eq!(trial.due.since(now), ms(due), "{hint:?} {quiet} {usual}");
        assert!(
            trial.gap * 20 >= trial.due.since(now) || hint == FailureHint::Unreachable,
            "no burst"
        );
        let last = now + trial.gap * 7;
        assert!(last < trial.due, "the last check has time to be answered");
    }
}

/// The current pairs differ, and that of the peer fails: what has come in by the other one says nothing of it.
#[test]
fn a_peer_whose_own_pair_has_failed_is_told_by_ours_which_stays() {
    for is_suspected in [true, false] {
        let mut net = net(&config());
        net.run_for(ms(5_000));
        let now = net.now;
        net.hosts[0].machine.move_to(ab(2, 2), Cause::Switch, now);
        net.run_for(ms(2_000));
        assert_eq!(net.pairs(), [ab(2, 2), ba(1, 1)]);
        net.route = only(&[(2, 2)]);
        net.run_for(ms(20));
        if is_suspected {
            suspect(&mut net, 0, FailureHint::Silence);
        }
        let within = if is_suspected { ms(300) } else { ms(15_100) };
        let is_told = |net: &Net| net.pairs()[1] == ba(2, 2);
        assert!(net.run_until(within, is_told).is_some(), "{:?}", net.pairs());
        net.run_for(ms(100));
        assert!(net.is_connected());
        assert!(
            causes(&net, 0).iter().all(|cause| *cause == Cause::Switch),
            "{:?}",
            causes(&net, 0)
        );
    }
}

#[test]
fn the_last_trial_keeps_payload_where_it_is_if_the_pair_answers() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let send = net.hosts[0].machine.timers().expect("Operational").send;
    assert_eq!(send, ms(14_000));
    let now = net.now;
    let sent = net.hosts[0].probes_sent;
    net.hosts[0].machine.handle_send_expired(now, now + send);
    net.flush(0);
    net.run_for(ms(16_000));
    assert!((2..=16).contains(&(net.hosts[0].probes_sent - sent)), "checks, and no exploration");
    assert!(causes(&net, 0).is_empty());
    assert!(!has(&net, 0, |event| matches!(event, Event::StateChanged { .. })));
}

//= rfc5534#6.4 (test)
#[test]
fn after_a_last_trial_without_answers_exploration_begins_when_the_send_timeout_is_over() {
    for standby_works in [true, false] {
        let mut net = net(&config());
        // Nobody waits for an answer, so that nothing is suspected.
        net.hosts[1].payload = None;
        net.run_for(ms(8_000));
        net.route = if standby_works { only(&[(2, 2)]) } else { only(&[(2, 1)]) };
        let starts = |net: &Net| has(net, 0, |event| matches!(event, Event::StateChanged { .. }));
        net.run_until(ms(16_000), starts).expect("explores");
        let took = net.now.since(net.hosts[0].machine.heard());
        assert!((ms(15_000)..=ms(15_050)).contains(&took), "{took:?}");
        assert_eq!(causes(&net, 0), [Cause::SendTimeout], "{standby_works}");
        assert!(net.run_until(ms(5_000), Net::is_connected).is_some());
    }
}

#[test]
fn a_peer_that_answers_no_checks_is_given_the_whole_send_timeout_without_any() {
    let mut net = net(&config());
    net.route = Box::new(|pair| pair == ab(1, 1) || pair == ba(1, 1));
    net.hosts[1].machine.handle_config(Config::default());
    net.run_for(ms(5_000));
    let machine = &mut net.hosts[0].machine;
    assert_eq!(machine.timers().expect("Operational").send, ms(15_000));
    machine.handle_send_expired(net.now, net.now + ms(15_000));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn a_host_without_room_for_checks_explores_when_the_send_timeout_is_over() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    let machine = &mut net.hosts[0].machine;
    machine.handle_send_expired(now, now + ms(14_000));
    machine.handle_checks_refused(now + ms(14_000));
    assert_eq!(machine.poll_timeout().map(|(at, _)| at), Some(now + ms(15_000)));
    machine.handle_timeout(now + ms(15_000));
    assert_eq!(machine.state(), State::Exploring);
}

#[test]
fn a_pair_that_answers_stays_and_the_next_suspicion_has_to_wait() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let mut trials = 0;
    let sent = net.probes_sent();
    for _ in 0..6_000 {
        suspect(&mut net, 0, FailureHint::Silence);
        net.run_for(ms(10));
        trials =
            net.hosts[0].log.iter().filter(|(_, e)| matches!(e, Event::Suspected { .. })).count();
    }
    assert!((5..=12).contains(&trials), "{trials} in a minute");
    assert!(net.probes_sent() - sent <= trials * 22 + 22, "{}", net.probes_sent() - sent);
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    assert!(has(&net, 0, |e| matches!(e, Event::Cleared { hint: FailureHint::Silence, .. })));
    assert!(!has(&net, 0, |e| matches!(e, Event::StateChanged { .. })));
}

#[test]
fn a_suspicion_in_the_quiet_time_is_taken_up_after_it_unless_something_came() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(30));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(20));
    suspect(&mut net, 0, FailureHint::Retransmission);
    let now = net.now;
    assert!(moved_after(&mut net, 0, now) <= ms(520));
    assert_eq!(causes(&net, 0), [Cause::Suspicion]);
}

//= rfc5534#8-1 (test)
#[test]
fn an_icmpv6_error_has_the_current_pair_checked_and_no_other() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let sent = net.hosts[0].probes_sent;
    suspect(&mut net, 0, FailureHint::Unreachable);
    net.run_for(ms(100));
    assert!((1..=8).contains(&(net.hosts[0].probes_sent - sent)));
    assert!(has(&net, 0, |e| matches!(e, Event::Cleared { .. })), "made up");
    assert_eq!(net.states(), [State::Operational; 2]);
    assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)]);
    net.route = only(&[(2, 2)]);
    net.run_for(ms(300));
    suspect(&mut net, 0, FailureHint::Unreachable);
    net.run_for(ms(100));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    assert!(net.is_connected());
}

/// An old probe, say, that somebody on the path repeats with what is under way now.
#[test]
fn a_probe_that_is_refused_answers_no_check() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let (now, machine) = (net.now, &mut net.hosts[0].machine);
    machine.handle_suspicion(FailureHint::Retransmission, now, Duration::ZERO, now);
    let check = drain(machine).0.into_iter().find_map(|transmit| match transmit.message {
        Message::Probe(probe) if transmit.pair != ab(1, 1) => Some(probe.sent[0]),
        Message::Keepalive | Message::Probe(_) => None,
    });
    let check = check.expect("another pair is tried");
    let from_elsewhere = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: 0 };
    let (sent, received) = ([from_elsewhere].into(), [check].into());
    let probe = Probe { state: State::Exploring, sent, received };
    let result = machine.handle_probe(ab(1, 1), &probe, now + ms(300));
    assert_eq!(result, Err(DropReason::WrongLocators));
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(1, 1)));
    assert_eq!(drain(machine).1, []);
}

#[test]
fn when_nothing_answers_exploration_begins_long_before_the_send_timeout() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = only(&[(2, 1)]);
    net.run_for(ms(20));
    suspect(&mut net, 0, FailureHint::Silence);
    let took = net.run_until(ms(10_000), Net::is_connected).expect("found");
    assert!(took < ms(2_000), "{took:?}");
    assert_eq!(net.pairs(), [ab(2, 1), ba(1, 2)]);
}

#[test]
fn traffic_goes_back_when_its_first_pair_has_worked_for_a_while() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(30));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(60_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    net.route = Box::new(|_| true);
    let mended = net.now;
    net.run_for(ms(29_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)], "not yet");
    net.run_until(ms(100_000), |net| net.pairs() == [ab(1, 1), ba(1, 1)]).expect("both are back");
    assert!(net.now.since(mended) < ms(110_000));
    for host in 0..2 {
        assert_eq!(causes(&net, host).last(), Some(&Cause::FailBack));
    }
    assert_eq!(net.states(), [State::Operational; 2]);
}

/// Payload goes one way after a pause, in which the first pair has worked for long enough, and the current one has failed in both directions.
fn resumed_on_a_pair_that_has_failed(deprecated: &[Locator]) -> Net {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(30));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(60_000));
    net.route = Box::new(|_| true);
    let has_home_answered = |net: &Net| {
        let past = net.hosts[0].machine.monitor.as_ref().and_then(|monitor| monitor.past());
        past.is_some_and(|past| past.home_since.is_some())
    };
    net.run_until(ms(70_000), has_home_answered).expect("the preferred pair is asked");
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
    net.hosts.iter_mut().for_each(|host| host.payload = None);
    net.run_for(ms(130_000));
    net.route = only(&[(1, 1)]);
    let now = net.now;
    net.hosts[0].machine.handle_deprecated(deprecated, now);
    net.hosts[1].machine.handle_preferred(None, now);
    net.hosts[0].payload = Some(ms(50));
    suspect(&mut net, 0, FailureHint::Silence);
    net
}

/// A gentle move tells the peer nothing, so the peer would stay on the pair that has failed until it has payload to send.
#[test]
fn traffic_does_not_go_back_gently_in_a_trial() {
    for deprecated in [&[][..], &[locator(A, 2)]] {
        let mut net = resumed_on_a_pair_that_has_failed(deprecated);
        net.run_for(ms(3_000));
        assert_eq!(net.pairs(), [ab(1, 1), ba(1, 1)], "{deprecated:?}");
        assert!(net.is_connected());
    }
}

#[test]
fn what_others_know_counts_for_one_interval_of_this_context() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_preferred(Some(ab(1, 2)), at(0));
    let interval = machine.round_interval();
    assert_eq!(interval, Duration::from_secs(10), "away from home");
    let mut rounds = 0;
    let mut now = at(1);
    while now < at(100_000) {
        machine.handle_payload(now, now);
        if machine.question().is_some() {
            machine.handle_known(Known::Verified { at: at(0), rtt: ms(5) }, now);
            rounds += 1;
        }
        drain(&mut machine);
        let next = machine.poll_timeout().map_or(now + interval, |(at, _)| at);
        now = next.max(now + ms(1));
        machine.handle_timeout(now);
    }
    assert!(rounds <= 30, "{rounds} in 100 s");
}

#[test]
fn a_pair_that_flaps_is_gone_back_to_ever_more_slowly() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    for _ in 0..60 {
        net.route = only(&[(2, 2)]);
        net.run_for(ms(30));
        let failed = |net: &Net, host: usize| net.hosts[host].machine.current_pair().local;
        for host in 0..2 {
            if [locator(A, 1), locator(B, 1)].contains(&failed(&net, host)) {
                suspect(&mut net, host, FailureHint::Retransmission);
            }
        }
        net.run_for(ms(5_000));
        net.route = Box::new(|_| true);
        net.run_for(ms(55_000));
    }
    let returns = causes(&net, 0).iter().filter(|cause| **cause == Cause::FailBack).count();
    assert!((1..=8).contains(&returns), "{returns} in an hour");
}

#[test]
fn without_fail_back_traffic_stays_where_it_is() {
    let profile = Profile { fail_back: Duration::ZERO, ..Profile::default() };
    let mut net = net(&Config { profile, ..Config::default() });
    net.run_for(ms(5_000));
    net.route = only(&[(2, 2)]);
    net.run_for(ms(30));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(1_000));
    net.route = Box::new(|_| true);
    net.run_for(ms(600_000));
    assert_eq!(net.pairs(), [ab(2, 2), ba(2, 2)]);
}

#[test]
fn the_rfcs_machine_suspects_nothing_and_keeps_no_standby() {
    let mut net = net(&Config::default());
    net.run_for(ms(5_000));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(600_000));
    assert_eq!(net.probes_sent(), 0);
    assert!(net.hosts.iter().all(|host| host.machine.monitor.is_none()));
}

#[test]
fn checks_are_answered_with_their_own_words_within_a_limit() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    let check = |nonce| Report { src: locator(B, 2), dst: locator(A, 2), nonce, data: CHECK };
    let mut deliver = |nonce, pair| {
        let sent = [check(nonce)];
        let probe = Probe { state: State::Operational, sent: sent.into(), received: Vec::new() };
        machine.handle_probe(pair, &probe, at(1)).map(|()| only_probe(&mut machine))
    };
    let (pair, answer) = deliver(7, ab(2, 2)).expect("answered");
    assert_eq!(pair, ab(2, 2), "by the pair it came by");
    assert_eq!((answer.state, &answer.received[..]), (State::Operational, &[check(7)][..]));
    assert_ne!(answer.sent[0].data, CHECK, "an answer asks for nothing");
    assert_eq!(deliver(8, ab(1, 1)).unwrap_err(), DropReason::WrongLocators);
    let answered = (0..100).filter(|&nonce| deliver(nonce, ab(2, 2)).is_ok()).count();
    assert_eq!(answered, 19, "20 in a second");
}

#[test]
fn answers_to_checks_that_were_not_sent_prove_nothing() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_payload(at(1), at(1));
    machine.handle_known(Known::Nothing, at(1));
    let sent: Vec<_> = drain(&mut machine).0;
    let Message::Probe(check) = &sent[0].message else { panic!("{sent:?}") };
    let right = check.sent[0];
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 5, data: 0 };
    let mut answer = |report: Report, now| {
        let (sent, received) = ([own], [report]);
        let probe =
            Probe { state: State::Operational, sent: sent.into(), received: received.into() };
        let outcome = machine.handle_probe(ab(2, 2), &probe, now);
        (outcome, machine.fresh_standby(now), machine.current_pair())
    };
    let made_up = Report { nonce: right.nonce ^ 1, ..right };
    assert_eq!(answer(made_up, at(2)), (Err(DropReason::BadNonce), None, ab(1, 1)));
    let other_pair = Report { src: locator(A, 1), ..right };
    assert_eq!(answer(other_pair, at(2)), (Err(DropReason::BadNonce), None, ab(1, 1)));
    assert_eq!(answer(right, at(3)), (Ok(()), Some(ab(2, 2)), ab(1, 1)), "proven, not moved to");
    assert_eq!(answer(right, at(4)).0, Err(DropReason::BadNonce), "once");
}

#[test]
fn a_report_of_a_check_in_an_exploration_is_no_answer_to_checks() {
    let mut machine = Machine::new(config(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine.handle_payload(at(1), at(1));
    machine.handle_known(Known::Nothing, at(1));
    let checks = drain(&mut machine).0;
    let check =
        checks.iter().find(|check| check.pair == ab(1, 1)).expect("one of the current pair");
    let Message::Probe(check) = &check.message else { panic!("{check:?}") };
    deliver(&mut machine, ba(1, 1), State::InboundOk, 0xb0b, &check.sent, at(300)).unwrap();
    assert_eq!(machine.heard(), at(300));
    assert!(!machine.has_current_answered());
}

/// A peer that was not in Operational has taken a check for a probe, and reports it beside those of the exploration.
#[test]
fn a_late_report_of_a_check_in_a_probe_inbound_ok_ends_the_exploration() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    net.route = Box::new(|_| false);
    let machine = &mut net.hosts[0].machine;
    let now = net.now;
    machine.handle_suspicion(FailureHint::Silence, now, Duration::ZERO, now);
    let mut check = None;
    while let Some(Transmit { pair, message: Message::Probe(probe) }) = machine.poll_transmit() {
        check = probe.sent.first().copied().filter(|_| pair == ab(2, 2)).or(check);
    }
    machine.handle_local_failure(now);
    assert_eq!(machine.state(), State::Exploring);
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: 0 };
    let received = [check.expect("a check of the standby path")];
    let probe = Probe { state: State::InboundOk, sent: [own].into(), received: received.into() };
    machine.handle_probe(ab(2, 2), &probe, now + ms(10)).expect("taken");
    assert_eq!((machine.state(), machine.current_pair()), (State::Operational, ab(2, 2)));
}

/// The peer hears our payload, and does not know that its own is lost.
#[test]
fn a_check_of_another_pair_does_not_keep_an_exploration_from_the_peer() {
    let mut net = net(&config());
    net.run_for(ms(5_000));
    let now = net.now;
    let machine = &mut net.hosts[0].machine;
    machine.handle_local_failure(now);
    assert_eq!(machine.state(), State::Exploring);
    drain(machine);
    let own = Report { src: locator(B, 2), dst: locator(A, 2), nonce: 7, data: CHECK };
    let check = Probe { state: State::Operational, sent: [own].into(), received: Vec::new() };
    machine.handle_probe(ab(2, 2), &check, now + ms(10)).expect("taken");
    assert_eq!(machine.state(), State::Exploring);
    let (transmits, _) = drain(machine);
    let [Transmit { pair, message: Message::Probe(probe) }] = &transmits[..] else {
        panic!("{transmits:?}")
    };
    assert_eq!((*pair, probe.state), (ab(2, 2), State::Exploring));
    assert_eq!(probe.received, [own]);
}
