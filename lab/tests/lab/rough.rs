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

/// Checks that every program gets right answers in the end, and that a new connection succeeds.
fn goes_on(scenario: Scenario) {
    let Some(outcome) = run(scenario, LIMIT) else { return };
    assert!(recovered(&outcome), "{:?}\n{}", outcome.seen, outcome.story);
    assert!(outcome.connects, "no new connection\n{}", outcome.story);
}

/// Checks that the daemon does not claim protection on a network without a second path.
fn claims_nothing(scenario: Scenario) {
    let Some(outcome) = run(scenario, Duration::ZERO) else { return };
    assert!(!recovered(&outcome) && !outcome.is_protected, "{:?}\n{}", outcome.seen, outcome.story);
    assert!(outcome.seen.iter().all(|seen| seen.damaged == 0), "{:?}", outcome.seen);
}

#[test]
fn a_silent_cut_is_survived() {
    goes_on(Scenario::SilentCut);
}

/// The connection itself ends, as the other host has no Moorline.
#[test]
fn new_connections_to_a_host_without_moorline_survive_a_silent_cut() {
    let Some(outcome) = run(Scenario::PlainCut, LIMIT) else { return };
    assert!(outcome.connects, "no new connection\n{}", outcome.story);
}

#[test]
fn a_path_that_loses_packets_goes_on() {
    goes_on(Scenario::Lossy);
}

#[test]
fn a_silent_cut_is_survived_by_a_connection_with_an_outdated_temporary_address() {
    goes_on(Scenario::TemporaryCut);
}

#[test]
fn a_silent_cut_is_survived_with_static_addresses() {
    goes_on(Scenario::StaticCut);
}

#[test]
fn a_flap_of_a_link_is_survived() {
    goes_on(Scenario::LinkFlap);
}

#[test]
fn a_flap_of_a_link_is_survived_by_the_addresses_of_the_kernel() {
    goes_on(Scenario::LinkFlapOwn);
}

#[test]
fn a_link_that_goes_is_survived() {
    goes_on(Scenario::LinkDown);
}

#[test]
fn a_link_that_comes_after_the_only_one_has_gone_is_moved_to() {
    goes_on(Scenario::Roaming);
}

#[test]
fn connections_outlive_a_daemon_that_is_started_again() {
    goes_on(Scenario::Restart);
}

#[test]
fn connections_that_have_moved_outlive_a_daemon_that_is_started_again() {
    goes_on(Scenario::RestartMoved);
}

#[test]
fn another_prefix_of_the_only_isp_is_survived() {
    goes_on(Scenario::Renumbering);
}

#[test]
fn addresses_of_the_kernel_outlive_short_lifetimes() {
    goes_on(Scenario::ShortLifetimes);
}

#[test]
fn a_host_that_forwards_has_its_uplinks() {
    goes_on(Scenario::ForwardingHost);
}

#[test]
fn a_firewall_with_state_at_one_end_lets_moved_packets_in() {
    goes_on(Scenario::FirewallOne);
}

#[test]
fn firewalls_with_state_at_both_ends_let_moved_packets_in() {
    goes_on(Scenario::FirewallBoth);
}

#[test]
fn an_isp_that_translates_addresses_is_no_second_path() {
    claims_nothing(Scenario::Nat66);
}

#[test]
fn an_isp_that_drops_protocol_140_is_no_second_path() {
    claims_nothing(Scenario::Drops140);
}

#[test]
fn full_size_packets_find_their_way_through_a_smaller_mtu() {
    goes_on(Scenario::Pppoe);
}

#[test]
fn connections_outlive_a_daemon_that_comes_and_goes() {
    goes_on(Scenario::InstallRemove);
}

#[test]
fn full_size_datagrams_and_fragments_pass_under_ilnp() {
    goes_on(Scenario::IlnpFullSize);
}

#[test]
fn an_address_from_dhcpv6_is_left_alone() {
    goes_on(Scenario::ManagedAddress);
}

#[test]
fn a_peer_without_moorline_is_served_as_ever() {
    goes_on(Scenario::PlainPeer);
}

#[test]
fn a_peer_without_moorline_survives_a_flap_as_ever() {
    goes_on(Scenario::PlainFlap);
}

/// A generous limit, because the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
