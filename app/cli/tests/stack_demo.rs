//! `moorline stack demo`: a run that a person reads, and a run that a program reads.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of a test may panic as the test may"
)]

use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
    command.args(["stack", "demo", "--size", "3000000"]).args(arguments).output().expect("a run")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Position of the first event of this kind at this host.
fn position(lines: &[Value], host: &Value, event: &str) -> usize {
    let found = lines.iter().position(|line| line["event"] == event && line["host"] == *host);
    found.unwrap_or_else(|| panic!("no {event} at {host}: {lines:#?}"))
}

#[test]
fn the_connection_survives_and_the_story_is_in_order() {
    let output = demo(&["--json"]);
    assert!(output.status.success(), "{output:?}");
    let lines = lines(&output);
    let (a, nobody) = (Value::from("A"), Value::Null);
    let order = [
        position(&lines, &a, "router_found"),
        position(&lines, &a, "address_ready"),
        position(&lines, &a, "echo_reply"),
        position(&lines, &a, "tcp_connected"),
        position(&lines, &a, "context"),
        position(&lines, &nobody, "isp_died"),
        position(&lines, &a, "moved"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let times: Vec<_> = lines.iter().map(|line| line["at"].as_u64().expect("a time")).collect();
    assert!(times.is_sorted());
    let end = lines.last().expect("an end");
    assert_eq!((&end["survived"], &end["is_equal"]), (&Value::from(true), &Value::from(true)));
    assert_eq!(end["octets"], 3_000_000);
    assert_eq!(end["packets_filtered"], 0);
    assert!(end["packets_lost"].as_u64().is_some_and(|lost| lost > 0));
    // The Send Timeout is 10 s.
    assert!(end["silence_us"].as_u64().is_some_and(|time| time > 0 && time < 10_000_000));
}

#[test]
fn a_run_is_repeated_by_its_seed_and_fits_on_one_screen() {
    let [first, again, other] = ["4", "4", "5"].map(|seed| demo(&["--seed", seed]).stdout);
    assert_eq!(first, again);
    assert_ne!(first, other);
    let text = String::from_utf8(first).expect("text");
    assert!(text.lines().count() <= 40, "{text}");
    assert!(
        text.contains("ISP 1 dies") && text.contains("the one of the octets that A sent"),
        "{text}"
    );
}

#[test]
fn the_pcap_file_has_the_frames_of_host_a() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("demo.pcap");
    let output = demo(&["--pcap", path.to_str().expect("text")]);
    assert!(output.status.success(), "{output:?}");
    let octets = std::fs::read(&path).expect("a file");
    assert_eq!(octets[..4], 0xa1b2_c3d4_u32.to_le_bytes());
    let (mut at, mut sent, mut moved) = (24, 0, 0);
    while let Some(record) = octets.get(at..at + 16) {
        let len = usize::try_from(u32::from_le_bytes(record[8..12].try_into().unwrap())).unwrap();
        let frame = &octets[at + 16..at + 16 + len];
        sent += usize::from(frame[6..12] == [2, 0, 0, 0, 1, 0]);
        // Protocol 140 with the P bit: payload with a payload header (RFC 5533 s5.2).
        moved += usize::from(frame[20] == 140 && frame[56] & 0x80 != 0);
        at += 16 + len;
    }
    assert_eq!(at, octets.len(), "whole records");
    assert!(
        sent > 2000 && moved > 1000,
        "{sent} frames of A, {moved} frames with a payload header"
    );
}

#[test]
fn a_transfer_that_is_too_short_for_a_context_is_an_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moorline"));
    let output = command.args(["stack", "demo", "--size", "100"]).output().expect("a run");
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).expect("text");
    assert!(error.contains("larger --size"), "{error}");
}
