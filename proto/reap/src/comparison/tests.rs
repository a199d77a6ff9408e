use super::*;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use moorline_types::Locator;

const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Outcome of a comparison, and the number of checks it sends. The arguments give the numbers of the checks that get
/// lost on the current pair and on the other one.
fn outcome(
    purpose: Purpose,
    (current, other): (&[u16], &[u16]),
    (current_rtt, other_rtt): (u64, u64),
) -> (Outcome, u16) {
    let address = |host| Locator::from(Ipv6Addr::new(0x2001, 0xdb8, host, 0, 0, 0, 0, 1));
    let pair = LocatorPair::new(address(2), address(4));
    let mut comparison = Comparison::new(pair, purpose, ms(1000), NOW);
    let (mut now, mut sent) = (NOW, 0);
    loop {
        match comparison.step(None, now) {
            Step::Wait => now = comparison.next,
            Step::Check => {
                sent += 1;
                for (is_current, lost, rtt) in
                    [(true, current, current_rtt), (false, other, other_rtt)]
                {
                    if !lost.contains(&sent) {
                        comparison.note(is_current, now, ms(rtt));
                    }
                }
            }
            Step::End(outcome) => return (outcome, sent),
        }
    }
}

const FOUR: &[u16] = &[2, 7, 11, 18];
const FOURTEEN: &[u16] = &[2, 7, 11, 18, 22, 27, 31, 38, 42, 47, 51, 58, 62, 67];

#[test]
fn fourteen_of_eighty_are_much_worse_than_none_and_thirteen_are_not() {
    let (purpose, rtts) = (Purpose::Leave, (20, 20));
    assert_eq!(outcome(purpose, (FOURTEEN, &[]), rtts), (Outcome::Leave(Cause::Lossy), 80));
    assert_eq!(outcome(purpose, (&FOURTEEN[..13], &[]), rtts), (Outcome::Stay, 80));
    assert_eq!(outcome(purpose, (&FOUR[..1], &[]), rtts), (Outcome::Stay, 20), "ends early");
    assert_eq!(outcome(purpose, (&FOUR[..2], &[]), rtts), (Outcome::Stay, 40));
    assert_eq!(outcome(purpose, (FOURTEEN, &[30]), rtts), (Outcome::Stay, 80));
    assert_eq!(outcome(purpose, (FOURTEEN, FOUR), rtts), (Outcome::Stay, 20), "both lose");
    let many: Vec<u16> = (1..=14).collect();
    let left = Outcome::Leave(Cause::Lossy);
    assert_eq!(outcome(purpose, (&many, &[]), rtts), (left, 20), "a part is enough");
    assert_eq!(outcome(purpose, (&many, &[3]), rtts), (Outcome::Stay, 80));
    let all: Vec<u16> = (1..=40).collect();
    assert_eq!(outcome(purpose, (&all, &all), rtts), (Outcome::Unknown, 10), "no path at all");
}

#[test]
fn four_times_as_slow_and_200_ms_is_much_worse() {
    let purpose = Purpose::Leave;
    assert_eq!(outcome(purpose, (&[], &[]), (281, 20)), (Outcome::Leave(Cause::Slow), 80));
    assert_eq!(outcome(purpose, (&[], &[]), (280, 20)), (Outcome::Stay, 20));
    assert_eq!(
        outcome(purpose, (&[], FOUR), (600, 20)),
        (Outcome::Stay, 20),
        "the other one loses"
    );
    assert_eq!(outcome(purpose, (&[], &[]), (20, 600)), (Outcome::Stay, 20));
}

#[test]
fn a_pair_is_returned_to_if_it_loses_hardly_more_and_is_not_half_as_slow_as_one_that_is_left() {
    let purpose = Purpose::Return;
    assert_eq!(outcome(purpose, (&[], &[]), (20, 20)), (Outcome::Return, 60));
    assert_eq!(outcome(purpose, (&[], &[3, 33, 45]), (20, 20)), (Outcome::Return, 60));
    assert_eq!(outcome(purpose, (&[], &[3, 33, 35]), (20, 20)), (Outcome::Stay, 40));
    assert_eq!(outcome(purpose, (&[], &FOUR[..2]), (20, 20)), (Outcome::Stay, 20));
    assert_eq!(outcome(purpose, (&[], &[]), (20, 140)), (Outcome::Return, 60));
    assert_eq!(outcome(purpose, (&[], &[]), (20, 141)), (Outcome::Stay, 20));
}

#[test]
fn a_pair_that_had_failed_is_gone_back_to_after_twenty_checks() {
    let purpose = Purpose::FailBack;
    assert_eq!(outcome(purpose, (&[], &[]), (20, 20)), (Outcome::Return, 20));
    assert_eq!(outcome(purpose, (&[], &FOUR[..1]), (20, 20)), (Outcome::Return, 20));
    assert_eq!(outcome(purpose, (&[], &FOUR[..2]), (20, 20)), (Outcome::Stay, 20));
    assert_eq!(outcome(purpose, (FOUR, &FOURTEEN[..4]), (20, 20)), (Outcome::Return, 20), "alike");
    assert_eq!(outcome(purpose, (&[], &[]), (20, 141)), (Outcome::Stay, 20));
}

#[test]
fn answers_to_other_checks_do_not_count() {
    let address = |host| Locator::from(Ipv6Addr::new(0x2001, 0xdb8, host, 0, 0, 0, 0, 1));
    let pair = LocatorPair::new(address(2), address(4));
    let mut comparison = Comparison::new(pair, Purpose::Leave, ms(1000), NOW);
    assert_eq!(comparison.step(None, NOW), Step::Check);
    comparison.note(true, NOW + ms(1), ms(20));
    assert_eq!((comparison.by_current.answered, comparison.by_current.least), (0, None));
}

#[test]
fn after_a_failure_four_more_of_twenty_are_worse_and_nothing_is_decided_before_forty_count() {
    let (purpose, rtts, left) = (Purpose::AfterFailure, (20, 20), Outcome::Leave(Cause::Lossy));
    assert_eq!(outcome(purpose, (FOUR, &[]), rtts), (left, 20));
    assert_eq!(outcome(purpose, (&FOUR[..3], &[]), rtts), (Outcome::Undecided, 100), "in doubt");
    assert_eq!(outcome(purpose, (&[], &[]), rtts), (Outcome::Stay, 40));
    assert_eq!(outcome(purpose, (FOUR, FOUR), rtts), (Outcome::Stay, 40), "alike");
    assert_eq!(outcome(purpose, (&FOURTEEN[..5], &[]), rtts), (left, 20));
    assert_eq!(outcome(purpose, (&[2, 7, 11, 22, 27], &[]), rtts), (left, 40));
}

/// Of a pair that loses 15 % one way, one in a hundred comparisons loses at most seven of a hundred checks.
#[test]
fn after_a_failure_six_more_of_a_hundred_are_worse_and_five_decide_nothing() {
    let (purpose, rtts) = (Purpose::AfterFailure, (20, 20));
    let six = [2, 12, 32, 62, 82, 92];
    assert_eq!(outcome(purpose, (&six, &[]), rtts), (Outcome::Leave(Cause::Lossy), 100));
    assert_eq!(outcome(purpose, (&six[..5], &[]), rtts), (Outcome::Undecided, 100));
    assert_eq!(outcome(purpose, (&six, &[7]), rtts), (Outcome::Undecided, 100));
    let all: Vec<u16> = (1..=20).collect();
    assert_eq!(outcome(purpose, (&[], &all), rtts), (Outcome::Undecided, 20), "silent again");
    assert_eq!(outcome(Purpose::Leave, (&[], &all), rtts), (Outcome::Stay, 20));
}

/// A silence of the other pair is a failure. A comparison in which it falls says as much as one without it.
#[test]
fn checks_that_leave_while_the_other_pair_is_silent_do_not_count() {
    let silence: Vec<u16> = (3..=9).collect();
    let (rtts, left) = ((20, 20), Outcome::Leave(Cause::Lossy));
    let lossy = [1, 11, 13, 18];
    assert_eq!(outcome(Purpose::AfterFailure, (&lossy, &silence), rtts), (left, 20));
    let with_silence = [&silence[..], &lossy].concat();
    assert_eq!(outcome(Purpose::AfterFailure, (&with_silence, &silence), rtts), (left, 20), "both");
    assert_eq!(outcome(Purpose::AfterFailure, (&[], &silence), rtts), (Outcome::Stay, 60));
    let three = [3, 4, 5, 9];
    assert_eq!(outcome(Purpose::AfterFailure, (&lossy, &three), rtts), (Outcome::Stay, 40));
    let most: Vec<u16> = (1..=14).collect();
    assert_eq!(outcome(Purpose::Leave, (FOURTEEN, &most), rtts), (Outcome::Stay, 20), "no pair");
    assert_eq!(outcome(Purpose::Return, (&[], &silence), rtts), (Outcome::Stay, 20), "it counts");
}

#[test]
fn checks_that_the_machine_has_forgotten_do_not_count_as_lost() {
    let address = |host| Locator::from(Ipv6Addr::new(0x2001, 0xdb8, host, 0, 0, 0, 0, 1));
    let pair = LocatorPair::new(address(2), address(4));
    let mut comparison = Comparison::new(pair, Purpose::AfterFailure, ms(1000), NOW);
    let mut now = NOW;
    let outcome = loop {
        match comparison.step(None, now) {
            Step::Wait => now = comparison.next,
            Step::Check => {
                comparison.note(false, now, ms(20));
                comparison.forget(now);
            }
            Step::End(outcome) => break outcome,
        }
    };
    assert_eq!(outcome, Outcome::Undecided, "no check counts");
}
