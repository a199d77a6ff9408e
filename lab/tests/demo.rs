//! The demo's scenario. Needs root; says so when it skips.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::time::Duration;

use moorline_lab::demo::{self, DemoOptions};
use moorline_lab::timeline::{Style, Timeline};
use moorline_lab::topology::{Prefix, host_address};

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

#[test]
fn with_moorline_the_programs_survive_with_every_byte() {
    if common::two_by_two("demo", &demo::PROGRAMS).is_none() {
        return;
    }
    let options = DemoOptions {
        moorlined: common::daemon_options().binary,
        send_timeout: Duration::from_secs(1),
    };
    let mut view = Timeline::new(Vec::new(), Style::PLAIN);
    let report = demo::run(&options, &mut view).unwrap();
    let shown = String::from_utf8(view.into_inner()).unwrap();
    println!("{shown}\n{report}");
    assert!(report.is_success(), "{report}\n{shown}");
    assert!(!report.without_moorline_survived, "{report}");
    let to = report.moved_to.unwrap();
    assert_eq!(Prefix::of(to.local), Prefix::of(host_address("a", 2)));
    assert_eq!(Prefix::of(to.peer), Prefix::of(host_address("b", 2)));
    assert!(report.moved_ms.is_some() && report.recovery_ms.is_some(), "{report}");
}
