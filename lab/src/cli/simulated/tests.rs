use super::*;
use crate::timeline::{Silent, Style, Timeline};

fn timeline() -> (Report, String) {
    let mut shown = Vec::new();
    let mut view = Timeline::new(&mut shown, Style::PLAIN);
    let report = demo(Duration::from_secs(2), Duration::ZERO, &mut view).unwrap();
    (report, String::from_utf8(shown).unwrap())
}

#[test]
fn the_stream_survives_with_moorline_and_not_without() {
    let (report, _) = timeline();
    assert!(report.is_success(), "{report:?}");
    assert!(!report.without_moorline_survived, "{report:?}");
    assert_eq!(report.mode, Mode::Simulator);
    let moved = report.moved_ms.unwrap();
    assert!((100..500).contains(&moved), "virtual time, so a fixed one: {report:?}");
    assert!(report.recovery_ms.unwrap() >= moved, "{report:?}");
}

#[test]
fn both_runs_are_drawn_with_what_happened_in_order() {
    let (_, text) = timeline();
    let words = ["With Moorline", "protected", "cut", "detected", "moved", "recovered"];
    let control = ["The same without Moorline", "cut", "stalled"];
    let mut rest = text.as_str();
    for word in words.iter().chain(&control) {
        let Some((_, after)) = rest.split_once(word) else { panic!("no {word:?} in {rest}") };
        rest = after;
    }
}

#[test]
fn a_failure_is_suspected_long_before_the_send_timeout() {
    let moved = |millis| {
        let report = demo(Duration::from_millis(millis), Duration::ZERO, &mut Silent).unwrap();
        report.moved_ms.unwrap()
    };
    assert!(moved(4000) < 500);
    assert_eq!(moved(4000), moved(10_000));
}
