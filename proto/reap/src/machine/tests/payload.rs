//! Probes for payload that leaves in vain (decision 180).

use super::*;

/// A machine that has explored in vain for five minutes. Its peer has a third locator, which has never answered.
fn in_vain(profile: crate::Profile) -> Machine {
    let config = Config { profile, ..Config::default() };
    let mut machine = Machine::new(config, ab(1, 1), [1; 16], at(0));
    let peers = [1, 2, 3].map(|isp| locator(B, isp));
    machine.set_candidates([locator(A, 1), locator(A, 2)], peers, at(0));
    machine.handle_local_failure(at(0));
    assert_eq!(machine.state(), State::Exploring);
    drain(&mut machine);
    run(&mut machine, at(300_000));
    machine
}

/// The data plane reports payload at these intervals for a minute. Gives the pairs of probes that follow at once.
fn probes_for_payload(machine: &mut Machine, every: usize) -> Vec<(Instant, LocatorPair)> {
    let mut log = Vec::new();
    for now in (300_000..360_000).step_by(every).map(at) {
        run(machine, now);
        machine.handle_send_expired(now - ms(1_000), now);
        let probes = drain(machine).0;
        assert!(probes.len() <= 1, "one for each report: {probes:?}");
        log.extend(probes.into_iter().map(|probe| (now, probe.pair)));
    }
    log
}

#[test]
fn payload_in_vain_has_the_pairs_of_locators_that_have_answered_probed_each_few_seconds() {
    let mut machine = in_vain(crate::Profile::default());
    assert_eq!(machine.timers().expect("for payload").send, ms(1_000));
    let log = probes_for_payload(&mut machine, 1_000);
    for pair in [ab(1, 1), ab(2, 1)] {
        let times: Vec<_> = log.iter().filter(|one| one.1 == pair).map(|one| one.0).collect();
        assert!(times.len() >= 12, "{pair}: {log:?}");
        assert!(times.windows(2).all(|two| two[1].since(two[0]) <= ms(5_000)), "{log:?}");
    }
    assert!(log.iter().all(|(_, pair)| pair.peer == locator(B, 1)), "{log:?}");
    assert!(log.windows(2).all(|two| two[1].0.since(two[0].0) >= ms(1_000)));
}

#[test]
fn a_packet_now_and_then_has_pairs_of_both_kinds_probed() {
    let mut machine = in_vain(crate::Profile::default());
    let mut asked = Vec::new();
    for now in (300_000..600_000).step_by(30_000).map(at) {
        run(&mut machine, now - ms(1));
        machine.handle_send_expired(now - ms(1_000), now);
        asked.extend(drain(&mut machine).0.into_iter().map(|probe| probe.pair));
    }
    assert!(asked.contains(&ab(1, 1)) && asked.contains(&ab(2, 1)), "{asked:?}");
}

/// The standby path that had answered before the failure is dead as well, and packets leave seldom.
#[test]
fn a_standby_path_has_every_second_probe_for_payload_and_others_the_rest() {
    let mut machine = in_vain(crate::Profile::default());
    let standby = ab(2, 2);
    machine.explore().worked[1] = Some(standby);
    let log = probes_for_payload(&mut machine, 8_000);
    let of_standby = log.iter().filter(|one| one.1 == standby).count();
    assert!(log.len() >= 6 && of_standby.abs_diff(log.len() - of_standby) <= 1, "{log:?}");
}

#[test]
fn probes_are_never_more_than_payload_and_never_faster_than_one_a_second() {
    let mut machine = in_vain(crate::Profile::default());
    assert!(probes_for_payload(&mut machine, 20_000).len() <= 3);
    let mut machine = in_vain(crate::Profile::default());
    let log = probes_for_payload(&mut machine, 10);
    assert!(log.windows(2).all(|two| two[1].0.since(two[0].0) >= ms(1_000)), "{log:?}");
    assert!(!log.is_empty());
}

#[test]
fn without_payload_or_by_the_rfc_alone_the_pace_is_that_of_the_rfc() {
    let mut machine = in_vain(crate::Profile::default());
    assert!(run(&mut machine, at(600_000)).len() <= 7, "a minute apart");
    let mut machine = in_vain(crate::Profile::RFC);
    assert_eq!(machine.timers(), None);
    assert_eq!(probes_for_payload(&mut machine, 1_000), []);
}
