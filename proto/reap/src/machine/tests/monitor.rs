//! Parts beyond the RFC: standby paths and local events. Two machines on a network.

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

pub(super) fn only(pairs: &'static [(u16, u16)]) -> net::Route {
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
        | Event::Missed { .. }
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

/// Runs until the host's first move, and gives its time after `since`.
pub(super) fn moved_after(net: &mut Net, host: usize, since: Instant) -> Duration {
    net.run_until(ms(60_000), |net| !causes(net, host).is_empty()).expect("moves");
    net.now.since(since)
}

/// The data plane of one host reports a suspicion. Nothing has been heard since this moment.
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

/// Without this rule, a standby path by the uplink of the current pair would stay after another uplink was down for a
/// while.
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

/// A round is 60 s. Until a pair by another uplink is asked, the host says of its contexts that no such pair has
/// answered.
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

/// The preferred pair must not take the check of a disjoint pair by the same uplink.
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

/// A check makes a peer that follows RFC 5534 alone send keepalives by its own pair, for its Keepalive Timeout.
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
    // The last keepalive comes one Keepalive Timeout after the cut.
    assert!(moved_after(&mut net, 0, cut) <= ms(31_000));
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
    // With one local address the standby path shares this address.
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

/// A profile with standby paths and without trials: the Send Timeout is the detector.
pub(super) fn standby() -> Config {
    Config { profile: Profile { suspects: false, ..Profile::default() }, ..Config::default() }
}

//= rfc5534#6.4 (test)
#[test]
fn a_send_timeout_moves_payload_to_the_standby_path_before_any_answer() {
    for both_ways in [true, false] {
        let mut net = net(&standby());
        net.hosts[1].payload = Some(ms(50)).filter(|_| both_ways);
        // Wait until the first keepalive.
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
    // Probes come by the standby path. Answers to them do not arrive.
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
fn the_rfcs_machine_suspects_nothing_and_keeps_no_standby() {
    let mut net = net(&Config::default());
    net.run_for(ms(5_000));
    suspect(&mut net, 0, FailureHint::Retransmission);
    net.run_for(ms(600_000));
    assert_eq!(net.probes_sent(), 0);
    assert!(net.hosts.iter().all(|host| host.machine.monitor.is_none()));
}
