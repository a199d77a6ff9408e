//! Times at which lost messages are sent again.

use core::time::Duration;
use std::vec::Vec;

use super::duo::Duo;
use crate::Socket;
use crate::consts::FIRST_RETRANSMISSION;

const ONE_WAY: Duration = ms(20);
const ELSEWHERE: [u64; 2] = [0x2001_0db8_00aa_0000, 0x2001_0db8_00ab_0000];

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn established_over(one_way: Duration) -> Duo {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    duo.play_over(one_way);
    duo
}

/// Changes the locators of a host and loses this many of its transmissions. Returns the pause after each.
fn lose(duo: &mut Duo, host: usize, elsewhere: u64, times: usize) -> Vec<Duration> {
    duo.roam(host, &[elsewhere]);
    pauses(duo, host, times)
}

fn pauses(duo: &mut Duo, host: usize, times: usize) -> Vec<Duration> {
    let pause = |_| {
        assert_eq!(duo.take(host).len(), 1);
        let before = duo.now;
        duo.fire(host);
        duo.now.since(before)
    };
    (0..times).map(pause).collect()
}

#[test]
fn a_lost_locator_update_is_sent_again_after_the_timeout_of_rfc_6298_and_then_twice_that() {
    let mut duo = established_over(ONE_WAY);
    // The Accept and the first Locator Update have given two measurements: 40 + 4 * 15 ms.
    assert_eq!(lose(&mut duo, 0, ELSEWHERE[0], 3), [ms(100), ms(200), ms(400)]);
    // The other host has one measurement, the acknowledgement: 40 + 4 * 20 ms.
    let mut duo = established_over(ONE_WAY);
    assert_eq!(lose(&mut duo, 1, ELSEWHERE[0], 2), [ms(120), ms(240)]);
}

#[test]
fn what_was_sent_again_is_no_sample() {
    let mut duo = established_over(ONE_WAY);
    lose(&mut duo, 0, ELSEWHERE[0], 1);
    duo.play_over(ms(300));
    assert_eq!(lose(&mut duo, 0, ELSEWHERE[1], 1), [ms(100)], "as before");
    duo.play_over(ONE_WAY);
    // An answer to the first transmission gives a measurement: 40 + 4 * 11.25 ms.
    duo.roam(0, &[ELSEWHERE[0]]);
    duo.play_over(ONE_WAY);
    assert_eq!(lose(&mut duo, 0, ELSEWHERE[1], 1), [ms(85)]);
}

#[test]
fn a_path_that_answers_after_many_times_only_is_measured_anew() {
    let mut duo = established_over(ONE_WAY);
    lose(&mut duo, 0, ELSEWHERE[0], 3);
    duo.play_over(ONE_WAY);
    assert_eq!(lose(&mut duo, 0, ELSEWHERE[1], 2), [FIRST_RETRANSMISSION, ms(1000)]);
}

#[test]
fn without_a_sample_the_first_time_is_500_ms() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    assert_eq!(pauses(&mut duo, 0, 1), [FIRST_RETRANSMISSION], "nothing is known of a stranger");
    let propose = duo.take(0);
    duo.now = duo.now + ONE_WAY;
    duo.give(1, &propose);
    let accept = duo.take(1);
    duo.now = duo.now + ONE_WAY;
    duo.give(0, &accept);
    // The Accept may be the answer to the first Propose.
    assert_eq!(pauses(&mut duo, 0, 2), [FIRST_RETRANSMISSION, ms(1000)]);
}

#[test]
fn a_confirm_is_sent_again_when_the_accept_says_and_no_sooner_than_it_can_be_answered() {
    for (round_trip, pause) in [(1, 50), (40, 120), (600, 1800), (5000, 2000)] {
        let mut duo = Duo::new();
        duo.traffic(Socket::Connected);
        let propose = duo.take(0);
        duo.give(1, &propose);
        let accept = duo.take(1);
        duo.now = duo.now + ms(round_trip);
        duo.give(0, &accept);
        assert_eq!(pauses(&mut duo, 0, 2), [ms(pause), ms(2 * pause)], "{round_trip} ms");
    }
}
