//! Hosts that speak ILNP beside Shim6, in random networks.

use crate::random_plan::plan_of_both_protocols;
use crate::{HostEvent, random_mixed_plan, run, run_many, trace};

#[test]
fn no_rule_is_broken_where_hosts_speak_both_protocols() {
    let total = run_many(
        0..SEEDS,
        |seed| run(seed, &random_mixed_plan(seed)),
        |_, outcome| outcome.violations.is_empty(),
    );
    if let Some(seed) = total.first_failing {
        panic!("{total:?}\n{}", trace(seed, &random_mixed_plan(seed)));
    }
    assert!(total.recovered > 0 && total.seeds == SEEDS, "{total:?}");
}

#[test]
fn there_are_sessions_and_contexts_in_the_same_runs() {
    let is_established = |told: &HostEvent| {
        matches!(told.event.kind, moorline_contexts::EventKind::Established { .. })
    };
    let mut runs = 0;
    run_many(
        0..200,
        |seed| run(seed, &random_mixed_plan(seed)),
        |_, outcome| {
            runs += u32::from(outcome.sessions > 0 && outcome.events.iter().any(is_established));
            true
        },
    );
    assert!(runs > 5, "{runs}");
}

fn sound(seeds: &[u64]) {
    for &seed in seeds {
        let plan = plan_of_both_protocols(seed);
        assert_eq!(run(seed, &plan).violations, [], "seed {seed}\n{}", trace(seed, &plan));
    }
}

/// An answer that proved a standby locator of the peer had the session go by the locator of ours to which an earlier
/// Locator Update had come, and which was dead.
#[test]
fn an_answer_from_a_standby_locator_moves_no_session_to_a_dead_locator() {
    let seed = 521_294_494_053;
    let plan = random_mixed_plan(seed);
    assert_eq!(run(seed, &plan).violations, [], "{}", trace(seed, &plan));
}

/// A Confirm of a handshake that had lost against another arrived again, and replaced the session.
#[test]
fn an_old_confirm_takes_the_place_of_no_session() {
    sound(&[5691, 5891]);
}

/// The peer had lost a session that had moved, and took its packets for traffic between the addresses on the wire.
#[test]
fn addresses_for_sessions_alone_have_no_contexts() {
    sound(&[3326]);
}

/// A host restarted during a handshake, and the other host repeated a Confirm that nobody could read.
#[test]
fn a_handshake_begins_anew_with_a_host_that_has_forgotten_it() {
    sound(&[9_500_000_934, 9_500_007_759, 9_500_016_056, 9_800_000_086, 9_800_009_257]);
    // The proposal crossed a repeated Confirm, which was read.
    sound(&[9_931_011_619]);
}

/// The same as in `found.rs`: an I1 had waited for ILNP, and the two crossed.
#[test]
fn a_context_that_one_host_waits_for_comes_by_a_pair_that_works() {
    sound(&[9_500_015_451, 9_800_003_534]);
}

/// An I1 waited for ILNP while its sender sent another one: R1 had the nonce of the first.
#[test]
fn of_several_i1s_that_wait_the_last_one_is_answered() {
    sound(&[9_910_006_363, 9_910_015_967]);
}

/// One host had the session that the other gave up for a context which moved, and each dropped the packets of the
/// other.
#[test]
fn a_session_that_the_peer_has_given_up_goes_for_its_context() {
    sound(&[2_320_000_038_073]);
    // A session that is not agreed on yet does not go for a context that both hosts have.
    sound(&[2_350_000_025_956]);
}

/// A report of the first packet with a nonce came after the Confirm, and the host proposed a session that it already
/// had.
#[test]
fn a_late_report_begins_no_session_anew() {
    sound(&[9_910_003_267]);
}

/// A new Propose overtook a repeated Confirm. The Confirm of the new handshake was refused, because its Accept was
/// older than the session (decision 070).
#[test]
fn a_confirm_by_a_later_accept_takes_the_place_of_a_session() {
    sound(&[42_000_085_382]);
}

/// The attacker repeated checks behind the cut that had stopped them, so payload moved to a path that was cut.
#[test]
fn nothing_is_asked_for_of_a_context_that_came_about_while_an_attacker_overheard() {
    sound(&[42_000_039_075]);
}

/// A host that had restarted asked for contexts with the addresses of a session that had moved.
#[test]
fn a_lost_session_that_had_moved_gives_rise_to_an_i1_that_nobody_answers() {
    sound(&[42_000_119_440, 42_000_165_921]);
}

/// Addresses of sessions outlived a reboot in the model of the kernel, and the host took them for its own.
#[test]
fn a_kernel_that_begins_anew_has_no_addresses_of_sessions() {
    sound(&[48_000_014_222, 48_000_019_720]);
}

/// A session was restored after the address of its sockets was gone. Nothing kept that address, as a ULID of a
/// context is kept.
#[test]
fn a_session_that_comes_after_its_address_has_gone_keeps_that_address() {
    sound(&[577_170_602_309]);
}

/// A daemon was killed right after its Confirm. Its peer waited for the acknowledgement of the first Locator Update
/// in vain, and ended the session, but the data plane of the killed daemon went on with it.
#[test]
fn a_session_in_use_outlives_a_daemon_that_is_killed_after_its_confirm() {
    sound(&[612_345_029_083]);
    // That data plane had not been told that the peer had the session, and sent classic IPv6.
    sound(&[951_000_006_480]);
}

/// A Locator Update was repeated to another locator, and its receiver moved there. Nothing left that locator.
#[test]
fn a_repeated_locator_update_moves_no_session_to_a_locator_that_is_dead() {
    sound(&[9_905_921]);
}

/// Two Locator Updates of a host with ILNP by the RFCs alone came in the wrong order, or one came again much later
/// (decision 181). A session that had begun anew did not know the locator of its sockets.
#[test]
fn an_older_locator_update_of_a_host_without_numbers_is_no_failure_of_the_product() {
    for seed in [491, 429_394_572_894, 9_203_791] {
        let plan = random_mixed_plan(seed);
        assert!(plan.hosts.iter().any(|host| host.plain_ilnp), "seed {seed}");
        assert_eq!(run(seed, &plan).violations, [], "seed {seed}\n{}", trace(seed, &plan));
    }
}

const SEEDS: u64 = 1000;
