//! Scenarios on a network of independent routers and hosts with default settings. Scenarios that `moorline lab run rough`
//! measures must end as they should. The tests do not check times.

use crate::common;
use std::time::Duration;

use moorline_lab::preflight;
use moorline_lab::rough::scenario::Scenario;
use moorline_lab::rough::trial::{self, Outcome};

/// Runs a scenario with Moorline. `None` if a lab cannot run here.
fn run(scenario: Scenario, patience: Duration) -> Option<Outcome> {
    let mut reasons = preflight::check(&["radvd", "python3"]);
    reasons.extend(preflight::check_bpf());
    if common::is_skipped(scenario.name(), &reasons) {
        return None;
    }
    Some(trial::run(scenario, true, patience).unwrap())
}

/// Whether right answers came at the end.
fn recovered(outcome: &Outcome) -> bool {
    outcome.seen.iter().all(|seen| seen.gap.is_some())
}

/// Checks that every program gets right answers in the end, that a new connection succeeds, and that payload has moved for
/// the cause of the scenario.
fn goes_on(scenario: Scenario) {
    if let Some(outcome) = answers_come(scenario) {
        assert!(outcome.connects, "no new connection\n{}", outcome.story);
    }
}

/// Checks the same of a scenario without a server for new connections.
fn goes_on_without_tcp(scenario: Scenario) {
    answers_come(scenario);
}

fn answers_come(scenario: Scenario) -> Option<Outcome> {
    let outcome = run(scenario, LIMIT)?;
    assert!(recovered(&outcome), "{:?}\n{}", outcome.seen, outcome.story);
    assert!(outcome.has_cause, "no move for {:?}\n{}", scenario.plan().cause, outcome.story);
    Some(outcome)
}

/// Checks that the daemon does not claim protection on a network without a second path.
fn claims_nothing(scenario: Scenario) {
    let Some(outcome) = run(scenario, Duration::ZERO) else { return };
    assert!(!recovered(&outcome) && !outcome.is_protected, "{:?}\n{}", outcome.seen, outcome.story);
    assert!(outcome.seen.iter().all(|seen| seen.damaged == 0), "{:?}", outcome.seen);
}

/// The connection itself ends, as the other host has no Moorline.
fn connects_anew(scenario: Scenario) {
    let Some(outcome) = run(scenario, LIMIT) else { return };
    assert!(outcome.connects, "no new connection\n{}", outcome.story);
}

/// Checks that the scenario ends as it does without Moorline: the host has lost its default routes.
fn ends_as_without(scenario: Scenario) {
    let Some(with) = run(scenario, Duration::ZERO) else { return };
    let without = trial::run(scenario, false, Duration::ZERO).unwrap();
    let end = |one: &Outcome| (recovered(one), one.connects);
    assert_eq!(end(&with), end(&without), "{:?}\n{}", with.seen, with.story);
    assert!(with.seen.iter().all(|seen| seen.damaged == 0), "{:?}", with.seen);
}

/// Makes a test of each scenario: its name, its check, its scenario. A scenario without a test does not compile.
macro_rules! tests {
    ($($name:ident: $check:ident($scenario:ident);)*) => {
        $(
            #[test]
            fn $name() {
                $check(Scenario::$scenario);
            }
        )*
        const _: fn(Scenario) = |scenario| match scenario {
            $(Scenario::$scenario)|* => {}
        };
    };
}

tests! {
    a_silent_cut_is_survived: goes_on(SilentCut);
    a_silent_cut_is_survived_by_sessions: goes_on(IlnpCut);
    a_silent_cut_is_survived_with_static_addresses: goes_on(StaticCut);
    a_silent_cut_is_survived_by_sockets_bound_to_a_device: goes_on(BoundToDevice);
    a_silent_cut_is_survived_by_a_server_that_answers_from_where_it_was_asked:
        goes_on_without_tcp(PacketInfo);
    a_silent_cut_is_survived_by_a_connection_with_an_outdated_temporary_address:
        goes_on(TemporaryCut);
    new_connections_to_a_host_without_moorline_survive_a_silent_cut: connects_anew(PlainCut);
    a_path_that_loses_packets_is_left: goes_on(Lossy);
    a_flap_of_a_link_is_survived: goes_on(LinkFlap);
    a_flap_of_a_link_is_survived_by_the_addresses_of_the_kernel: goes_on(LinkFlapOwn);
    a_link_that_goes_is_survived: goes_on(LinkDown);
    a_link_that_comes_after_the_only_one_has_gone_is_moved_to: goes_on(Roaming);
    a_link_that_comes_after_the_only_one_has_gone_is_moved_to_over_a_long_way: goes_on(RoamingFar);
    connections_outlive_a_daemon_that_is_started_again: goes_on(Restart);
    connections_that_have_moved_outlive_a_daemon_that_is_started_again: goes_on(RestartMoved);
    another_prefix_of_the_only_isp_is_survived: goes_on(Renumbering);
    addresses_of_the_kernel_outlive_short_lifetimes: goes_on(ShortLifetimes);
    forwarding_that_is_switched_on_costs_what_it_costs_without_moorline:
        ends_as_without(ForwardingOn);
    a_host_that_forwards_has_its_uplinks: goes_on(ForwardingHost);
    a_firewall_with_state_at_one_end_lets_moved_packets_in: goes_on(FirewallOne);
    firewalls_with_state_at_both_ends_let_moved_packets_in: goes_on(FirewallBoth);
    addresses_from_dhcpv6_have_no_second_path: claims_nothing(ManagedCut);
    an_isp_that_translates_addresses_is_no_second_path: claims_nothing(Nat66);
    an_isp_that_drops_protocol_140_is_no_second_path: claims_nothing(Drops140);
    full_size_packets_find_their_way_through_a_smaller_mtu: goes_on(Pppoe);
    connections_outlive_a_daemon_that_comes_and_goes: goes_on(InstallRemove);
    full_size_datagrams_and_fragments_pass_under_ilnp: goes_on(IlnpFullSize);
    an_address_from_dhcpv6_is_left_alone: goes_on(ManagedAddress);
    a_peer_without_moorline_is_served_as_ever: goes_on(PlainPeer);
    a_peer_without_moorline_survives_a_flap_as_ever: goes_on(PlainFlap);
}

/// A generous limit, because the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
