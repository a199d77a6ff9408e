//! Seeds of random networks that once broke a rule.

use crate::{random_plan, run, trace};

fn sound(seeds: &[u64]) {
    for &seed in seeds {
        let plan = random_plan(seed);
        assert_eq!(run(seed, &plan).violations, [], "seed {seed}\n{}", trace(seed, &plan));
    }
}

/// Checks made a peer with RFC 5534 alone send keepalives, and these hid that payload was lost (decision 121).
#[test]
fn checks_hide_no_failure_from_a_host_whose_peer_knows_none() {
    sound(&[8_800_003_938, 8_800_004_037, 8_800_004_562, 8_800_004_938, 7_700_000_361]);
    sound(&[9_100_001_049, 9_200_015_184, 9_200_017_134, 9_300_010_541]);
}

/// The answer in the last trial of the current pair (decision 059) took longer than the trial.
#[test]
fn a_slow_path_is_not_left_before_the_send_timeout() {
    sound(&[8_800_006_640, 8_800_019_172]);
}

/// R2 went to the sender of any I1 (decision 120). With the last two seeds one host had the context alone for a long
/// time.
#[test]
fn an_i1_that_crosses_another_from_elsewhere_gets_r1() {
    sound(&[7_700_000_480, 8_800_000_660, 9_200_006_659, 8_800_002_595, 9_200_010_987]);
}

/// The pair of the handshake failed when one host had the context. The other host asked for the context by no other
/// pair.
#[test]
fn a_context_that_one_host_waits_for_comes_by_a_pair_that_works() {
    sound(&[9_500_017_811, 9_300_005_199]);
}

/// Payload was lost in one direction, and the receiver took checks of another pair for the end of the loss.
#[test]
fn a_check_of_another_pair_does_not_hide_that_payload_is_lost() {
    sound(&[9_500_018_102]);
}

/// A responder had the context before its peer, whose data plane did not count packets until then.
#[test]
fn nobody_explores_because_the_peer_was_established_later() {
    sound(&[9_200_014_559, 9_200_018_797, 9_400_002_370]);
}

/// The Send Timer of a data plane ran out while the host slept.
#[test]
fn a_host_that_wakes_up_does_not_take_its_sleep_for_silence() {
    sound(&[8_800_002_129]);
}

/// A probe InboundOk reported a check together with probes of the exploration.
#[test]
fn a_report_of_a_check_does_not_keep_an_exploration_from_its_end() {
    sound(&[9_400_000_399]);
}

/// No path was found, so no backoff was reverted. A context went because it was idle. No host heard untouched
/// packets.
#[test]
fn nothing_is_asked_for_that_no_host_can_do() {
    sound(&[8_800_002_274, 8_800_005_017, 9_100_004_266, 9_200_010_554, 9_100_017_405]);
    // Two retransmissions in a row were lost, and each pause is twice as long as the one before.
    sound(&[9_800_005_882]);
}

/// An I2bis that an attacker overheard came again without its ULID-pair option (decision 035).
#[test]
fn an_i2bis_makes_one_context() {
    sound(&[31_415_973_753, 31_416_055_692, 31_416_088_555]);
}

/// The pair of an I2bis failed. The I2bis had been sent again because a message from before the loss arrived
/// (decision 035).
#[test]
fn an_i2bis_leaves_a_pair_that_has_failed() {
    sound(&[43_000_008_086]);
}

/// The pair in its trial had failed in both directions. Payload went back to the preferred pair, and the peer was not
/// told (decision 047).
#[test]
fn a_host_that_goes_back_tells_its_peer_that_the_pair_has_failed() {
    sound(&[43_000_038_092]);
}

/// A core that was killed amid effects died after the deadline of the traffic had been set.
#[test]
fn no_recovery_is_due_from_a_core_that_is_about_to_die() {
    sound(&[321_045_568_506]);
}

/// Routers sent to an address that a host had kept for its connections alone. The host acknowledged probes there, and
/// dropped payload.
#[test]
fn nobody_is_told_that_probes_arrive_where_payload_does_not() {
    sound(&[987_000_001_329, 987_000_001_354, 987_000_003_582]);
}

/// Packets reach an address that is gone as long as the router remembers it.
#[test]
fn traffic_that_goes_on_to_an_address_that_has_gone_has_its_time_once_the_router_forgets_it() {
    sound(&[1_126_000_023_379]);
}

/// A peer that has lost its contexts answers a probe with R1bis. Nobody repeats the R1bis, and the next one came
/// minutes later (decision 095). With the other seed payload had moved to a standby path that had failed too, and the
/// host did not believe the peer at its old locator.
#[test]
fn one_r1bis_is_enough_for_a_peer_that_has_lost_its_contexts() {
    sound(&[1_130_000_913_823, 1_130_000_656_812]);
    // The pair of the first R1bis failed before the host believed it.
    sound(&[2_170_000_112_531, 2_170_000_233_049]);
}

/// A host refused a probe as a repetition, but took it for the answer to an earlier check.
#[test]
fn what_is_refused_moves_no_payload() {
    sound(&[1_130_000_973_201]);
}

/// A host removed the context of a connection whose retransmissions were backed off. Cores now ask for sockets first,
/// as the daemon does.
#[test]
fn a_quiet_connection_keeps_its_context() {
    sound(&[1_130_000_786_608]);
}

/// Two contexts were on the pair that failed. The first one that noticed made the other doubt its standby path, which
/// worked (decision 045).
#[test]
fn contexts_on_one_pair_all_take_their_standby_paths() {
    sound(&[2_150_000_116_732]);
}

/// Keeping a ULID that a run before had kept failed, and then nothing released the ULID.
#[test]
fn what_a_run_before_has_kept_is_released() {
    sound(&[2_310_000_116_321]);
}

/// A stream that had ended made the test expect that a host hears its peer. The host left a pair that worked when the
/// peer had lost its contexts.
#[test]
fn a_stream_that_has_ended_tells_nothing_of_the_peer() {
    sound(&[2_230_000_098_360]);
}

/// A stream without a context lost four retransmissions in a row, or their acknowledgements, by chance.
#[test]
fn streams_may_lose_some_retransmissions_in_a_row() {
    sound(&[2_230_000_450_331]);
}

/// A host that had lost its context got an answer by the ULIDs, and an I2bis by another pair. Then the way back of
/// that pair failed.
#[test]
fn a_context_begins_by_the_pair_that_has_answered() {
    sound(&[2_340_000_080_558]);
}
