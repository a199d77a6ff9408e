//! `moorline-lab` as people and scripts run it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn lab(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moorline-lab"));
    command.args(line.split(' ')).stdin(Stdio::null());
    command
}

fn stdout(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_list_says_what_there_is() {
    let json = stdout(&lab("list --json").output().unwrap());
    let list: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&Value::from("addr-cost")), "{json}");
    let text = stdout(&lab("list").output().unwrap());
    assert!(text.starts_with("EXPERIMENT") && text.contains("\naddr-cost "), "{text}");
}

#[test]
fn a_run_prints_one_object_and_writes_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let line = "run addr-cost --secs 0 --trials 2 --threads 1 --sizes 2,3 --size-trials 1";
    let output = lab(line).arg("--json").arg("--out").arg(&out).output().unwrap();
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&json["experiment"], &json["parameters"]["trials"]),
        (&"addr-cost".into(), &2.into())
    );
    assert_eq!(json["points"].as_array().unwrap().len(), 2 + 4);
    let written = std::fs::read_to_string(out.join("addr-cost.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json);
    assert!(std::fs::read_to_string(out.join("addr-cost.svg")).unwrap().starts_with("<svg "));
    let stages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stages.lines().count(),
        6,
        "a line for each stage where there is no terminal: {stages}"
    );
}

#[test]
fn ctrl_c_ends_a_run_at_once_with_nothing_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut command = lab("run addr-cost --secs 2 --sec-2-trials 1000 --sizes none");
    command.arg("--out").arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first stage begins after the signal handlers are installed.
    assert!(said.next().unwrap().unwrap().contains("Sec 2"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let last = said.last().unwrap().unwrap();
    assert_eq!(last, "moorline-lab: interrupted; nothing was written");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn a_folder_that_takes_no_files_is_told_before_the_run() {
    let output = lab("run addr-cost --secs 2 --out /dev/null/results").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "moorline-lab: cannot make /dev/null/results: Not a directory (os error 20)\n"
    );
}

#[test]
fn a_send_timeout_that_no_daemon_takes_is_refused_before_anything_is_built() {
    for (span, part) in [("2", "for example 500ms"), ("1ms", "200ms"), ("3min", "100s")] {
        let output = lab(&format!("demo --send-timeout {span}")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{span}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn the_simulated_demo_in_json_is_one_object_and_a_success() {
    let output = lab("demo --simulated --json --send-timeout 500ms").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{report}");
    assert_eq!(
        (&report["survived"], &report["bytes_ok"]),
        (&Value::from(true), &Value::from(true))
    );
    assert_eq!(report["without_moorline_survived"], Value::from(false));
    assert_eq!(report["send_timeout_ms"], Value::from(500));
}
