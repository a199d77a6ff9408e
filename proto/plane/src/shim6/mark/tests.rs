use super::*;

/// The time after so many units.
fn at(units: u64) -> Instant {
    Instant::from_nanos(units << MARK_SHIFT)
}

const SMALL: usize = 100;

/// Marks whose last one came at `1000 + REGULAR` units.
fn regular() -> (Marks, u64) {
    let mut marks = Marks::default();
    for unit in 1001..=1000 + u64::from(REGULAR) {
        assert!(!marks.is_missing(at(unit + 100)), "too few");
        marks.on_mark(at(unit));
    }
    (marks, 1000 + u64::from(REGULAR))
}

#[test]
fn a_packet_with_room_gets_a_mark_once_in_an_interval() {
    let mut marks = Marks::default();
    assert!(!marks.is_due(ROOM + 1, at(1000)));
    let interval = u64::from(INTERVAL);
    let due = [0, 1, interval - 1, interval, 2 * interval - 1, 2 * interval + 5]
        .map(|unit| marks.is_due(ROOM, at(1000 + unit)));
    assert_eq!(due, [true, false, false, true, false, true]);
}

#[test]
fn a_mark_is_missing_from_soon_after_the_last_one_for_some_seconds() {
    let (marks, last) = regular();
    let missing =
        [FRESH, FRESH + 1, LIFE - 1, LIFE].map(|age| marks.is_missing(at(last + u64::from(age))));
    assert_eq!(missing, [false, true, true, false]);
}

#[test]
fn large_packets_between_two_marks_say_that_marks_are_not_regular() {
    let (fresh, late) = (u64::from(FRESH), u64::from(FRESH) + 1);
    for (octets, after, is_broken) in
        [(LARGE + 1, late, true), (LARGE, late, false), (LARGE + 1, fresh, false)]
    {
        let (mut marks, last) = regular();
        marks.on_unmarked(octets, at(last + after));
        assert!(marks.is_missing(at(last + late)), "the packet may be anybody's");
        marks.on_mark(at(last + 2 * late));
        assert_eq!(marks.is_missing(at(last + 4 * late)), !is_broken, "{octets}, {after}");
    }
    // Marks in time are regular whatever else comes.
    let (mut marks, last) = regular();
    marks.on_unmarked(LARGE + 1, at(last + fresh));
    marks.on_mark(at(last + fresh));
    assert!(marks.is_missing(at(last + 2 * fresh + 1)));
}

#[test]
fn a_peer_that_answers_a_doubt_and_sends_no_marks_owes_none() {
    let (mut marks, last) = regular();
    assert!(!marks.on_doubt_answered(), "no payload was refused");
    assert!(marks.is_missing(at(last + 100)));
    marks.on_refused();
    assert!(marks.on_doubt_answered());
    assert!(!marks.is_missing(at(last + 100)));
    // A mark ends what was refused.
    let (mut marks, last) = regular();
    marks.on_refused();
    marks.on_mark(at(last + 1));
    assert!(!marks.on_doubt_answered());
}

#[test]
fn small_packets_break_nothing() {
    let (mut marks, last) = regular();
    marks.on_unmarked(SMALL, at(last + 100));
    marks.on_mark(at(last + 101));
    assert!(marks.is_missing(at(last + 200)));
}
