//! The scenario of the demo. Needs root. Prints a message if it skips.

use crate::common;
use std::process::Command;
use std::time::Duration;

use moorline_lab::demo::{self, DemoOptions};
use moorline_lab::interrupt::Interrupted;
use moorline_lab::netns;
use moorline_lab::timeline::{MarkKind, Style, Timeline, View};
use moorline_lab::topology::{host_address, prefix_of};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn without_moorline_the_programs_stall() {
    if common::two_by_two("control run", &demo::PROGRAMS).is_none() {
        return;
    }
    let mut shown = Vec::new();
    let mut view = Timeline::new(&mut shown, Style::PLAIN);
    let options =
        DemoOptions { send_timeout: Duration::from_millis(500), ..DemoOptions::default() };
    let outcome = demo::without_moorline(&options, &mut view).unwrap();
    let shown = String::from_utf8(shown).unwrap();
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
    let options = DemoOptions { send_timeout: Duration::from_secs(1), ..DemoOptions::default() };
    let mut shown = Vec::new();
    let mut view = Timeline::new(&mut shown, Style::PLAIN);
    let report = demo::run(&options, &mut view).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    println!("{shown}\n{report}");
    assert!(report.is_success(), "{report}\n{shown}");
    assert!(!report.without_moorline_survived, "{report}");
    let to = report.moved_to.unwrap();
    assert_eq!(prefix_of(to.local), prefix_of(host_address("a", 2)));
    assert_eq!(prefix_of(to.peer), prefix_of(host_address("b", 2)));
    assert!(report.moved_ms.is_some() && report.recovery_ms.is_some(), "{report}");
    assert!(shown.contains("curl's next byte"), "{shown}");
}

#[test]
fn ctrl_c_in_the_middle_of_the_demo_leaves_nothing() {
    if common::two_by_two("demo, ctrl-c", &demo::PROGRAMS).is_none() {
        return;
    }
    let (mut holder, name, daemon) = common::hold("demo::runs_the_demo_until_interrupted");
    let id = i32::try_from(holder.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    assert!(holder.wait().unwrap().success(), "it ended in order");
    assert_eq!(common::namespaces_of(&name), [""; 0]);
    assert!(!common::is_running(&daemon));
    assert!(!common::directory_of(&name).exists());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&name), "{mounts}");
}

/// Not a test: the test above starts and interrupts it.
#[test]
#[ignore = "runs until it is interrupted"]
fn runs_the_demo_until_interrupted() {
    // The Send Timeout is so long that nothing moves before the test has seen enough.
    let options = DemoOptions { send_timeout: Duration::from_secs(30), ..DemoOptions::default() };
    let error = demo::run(&options, &mut TellAtCut).unwrap_err();
    assert!(error.is::<Interrupted>(), "{error:#}");
}

/// Prints, at the cut, the name of the lab and the id of a process in it.
struct TellAtCut;

#[allow(clippy::print_stdout, reason = "how it tells the test that started it")]
impl View for TellAtCut {
    fn mark(&mut self, _at: Duration, kind: MarkKind, _text: &str) {
        if kind == MarkKind::Cut {
            let lab = format!("moor-{}", std::process::id());
            let pids =
                netns::output(Command::new("ip").args(["netns", "pids", &format!("{lab}-a")]));
            let pid = pids.unwrap().lines().next().unwrap().to_owned();
            println!("HOLDING {lab} {pid}");
        }
    }
}
