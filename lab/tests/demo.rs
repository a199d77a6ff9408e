//! The demo's scenario. Needs root; says so when it skips.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::time::Duration;

use moorline_lab::demo;
use moorline_lab::timeline::{Style, Timeline};

#[test]
fn without_moorline_the_programs_stall() {
    if common::two_by_two("control run", &demo::PROGRAMS).is_none() {
        return;
    }
    let mut view = Timeline::new(Vec::new(), Style::PLAIN);
    let outcome = demo::without_moorline(Duration::from_millis(500), &mut view).unwrap();
    let shown = String::from_utf8(view.into_inner()).unwrap();
    println!("{shown}");
    assert!(!outcome.survived && !outcome.bytes_ok);
    assert_eq!((outcome.recovery, outcome.moved), (None, None));
    assert!(shown.contains("ISP 1 drops every packet") && shown.contains("stalled"), "{shown}");
}
