//! Connections outlive an ISP, and nothing else does it but the context.

use std::time::Duration;

use moorline_contexts::Profile;
use moorline_datapath::shim6::TriggerPolicy;
use moorline_protected::world::{IspPlan, Layout, Plan};

use crate::lab::{Lab, SEND_TIMEOUT, config};

/// A network in which delays, rates and the way to the routers follow from a seed.
pub(crate) fn plan(seed: u64) -> Plan {
    let isp = |nth: u64| IspPlan {
        delay: Duration::from_millis(2 + (seed * 7 + nth * 13) % 60),
        rate: 1_500_000 + (seed * 5 + nth * 3) % 11 * 1_000_000,
        ..IspPlan::default()
    };
    let layout = if seed.is_multiple_of(2) { Layout::OneLink } else { Layout::LinkPerIsp };
    Plan { isps: [0, 1].map(isp).to_vec(), layout, ..Plan::default() }
}

/// Cuts ISP 0 amid a transfer, and checks that all octets arrive in order, that the recovery is within the bound of the RFCs'
/// timers, and that each packet went to the router of its source. Returns the time from the cut to the next octets.
pub(crate) fn recover(lab: &mut Lab, cut_at: u64) -> Duration {
    lab.run_until_ready();
    lab.begin_transfer(1_000_000);
    lab.run_until_received(cut_at);
    assert!(lab.is_protected(), "the traffic has a context or session on both hosts");
    let cut_at = lab.world.now();
    lab.world.set_alive(0, false);
    lab.run_until_complete(Duration::from_secs(120));
    let pause = lab.transfer().pause();
    assert!(pause.to > cut_at, "the longest pause comes from the cut: {pause:?}, {cut_at:?}");
    let took = pause.to.since(cut_at);
    assert!(took <= lab.bound(), "{took:?}, bound {:?}", lab.bound());
    assert_eq!(lab.world.filtered(), 0, "packets to the router of another ISP");
    assert!(lab.moved_at(0).is_some_and(|at| at > cut_at), "{}", lab.describe());
    assert!(lab.world.isp(0).swallowed > 0, "the dead ISP had the traffic");
    took
}

#[test]
fn a_connection_survives_the_isp_that_carries_it() {
    for seed in 0..24 {
        let mut lab = Lab::new(&plan(seed), &config(), seed);
        let took = recover(&mut lab, 200_000 + seed * 20_000);
        // A suspicion settles it long before the Send Timeout.
        assert!(took < SEND_TIMEOUT, "seed {seed}: {took:?}");
    }
}

#[test]
fn a_connection_survives_by_the_timers_of_rfc_5534_alone() {
    for seed in 0..8 {
        let mut config = config();
        config.shim6.profile = Profile::RFC;
        let mut lab = Lab::new(&plan(seed), &config, seed);
        let took = recover(&mut lab, 200_000 + seed * 20_000);
        // RFC 5534 s4.1: nothing is noticed before the Send Timeout is over.
        assert!(took >= SEND_TIMEOUT, "seed {seed}: {took:?}");
    }
}

#[test]
fn a_connection_without_a_context_does_not_go_on() {
    let mut config = config();
    config.plane.trigger = TriggerPolicy::NEVER;
    let mut lab = Lab::new(&Plan::default(), &config, 1);
    lab.run_until_ready();
    lab.begin_transfer(1_500_000);
    lab.run_until_received(500_000);
    assert!(!lab.is_protected());
    lab.world.set_alive(0, false);
    lab.run_for(Duration::from_secs(60));
    let before = lab.transfer().received();
    lab.run_for(Duration::from_secs(60));
    assert_eq!(lab.transfer().received(), before);
}

#[test]
fn a_connection_survives_one_isp_after_the_other() {
    let mut lab = Lab::new(&Plan::default(), &config(), 3);
    lab.outlive_one_isp_after_the_other();
}

#[test]
fn equal_seeds_give_equal_frames() {
    let run = |seed| {
        let mut lab = Lab::new(&Plan::default(), &config(), seed);
        let frames = lab.record();
        recover(&mut lab, 400_000);
        frames.take()
    };
    let (first, second, other) = (run(5), run(5), run(6));
    assert!(first.len() > 1000 && first == second);
    assert!(first != other);
}
