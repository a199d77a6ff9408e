//! Daemons under attack, and secrets that they must keep. Needs root, BPF and a built `moorlined`.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::common::{daemon_options, eventually, is_skipped, protected, two_by_two};
use moorline_api::EventKind;
use moorline_lab::Failure;
use moorline_lab::capture::{Capture, Frame};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::experiment::{self, Attack, Attacks, Begin, Experiment as _, Watch};
use moorline_lab::topology::HOSTS;
use moorline_lab::workload::{Endpoint, I1Flood, Sender, TcpOptions, TcpTransfer};
use moorline_types::ContextTag;
use moorline_wire::{Message, Packet};

const SHIM6: u8 = 140;

fn endless(client: Endpoint, server: Endpoint) -> TcpTransfer {
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: u64::MAX, rate: 2_000_000 };
    TcpTransfer::start(&options).unwrap()
}

fn silent() -> Failure {
    Failure::Silent { router: "isp1".into() }
}

/// The flood has more I1s than the daemon handles.
#[test]
fn under_a_flood_of_i1_a_context_survives_a_cut_and_the_daemon_answers() {
    let Some(mut hosts) = protected("flood", &HOSTS, &["nft"]) else { return };
    let [client, server] = hosts.ends.clone();
    let transfer = endless(client, server);
    hosts.await_context();
    let victim = hosts.daemons[0].verifiable_address("isp2").unwrap();
    let router = hosts.lab.namespace("isp2").unwrap();
    let flood = I1Flood::start(router, victim, Some(60_000)).unwrap();
    eventually("the flood", || flood.sent() > 60_000);
    hosts.lab.fail(silent()).unwrap();
    let at_cut = flood.sent();
    eventually("the move", || hosts.has_moved_to_isp2());
    let now = transfer.arrivals().total();
    eventually("octets after the cut", || transfer.arrivals().total() > now + 4_000_000);
    let status = hosts.daemons[0].status().unwrap();
    assert_eq!(status.contexts.established, 1, "strangers have made no state");
    assert!(flood.sent() > at_cut, "it went on all the time");
    let (sent, answered) = (flood.sent(), flood.answered().unwrap());
    assert!(0 < answered && answered < sent, "{answered} answers to {sent}");
    flood.finish().unwrap();
    transfer.abandon().unwrap();
}

struct Unwatched;

impl Watch for Unwatched {
    fn stage(&mut self, _: &str) {}
    fn done(&mut self, _: f64) {}
}

/// Two rows, with a short attack at a low rate.
#[test]
fn the_catalogue_has_a_row_for_each_attack_and_the_connection_lives_without_one() {
    let catalogue = Attacks {
        attacks: vec![Attack::Nothing, Attack::I2],
        begin: vec![Begin::Before],
        length: Duration::from_millis(500),
        rate: Some(200),
        ..Attacks::default()
    };
    if is_skipped("attack", &catalogue.obstacles()) {
        return;
    }
    let results = experiment::run(&catalogue, &mut Unwatched).unwrap();
    let [control, i2] = results.points.as_slice() else { panic!("{:?}", results.points) };
    let number = |row: &serde_json::Value, name: &str| {
        row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"))
    };
    for row in [control, i2] {
        for name in ["processor_share", "memory_growth_octets", "gap_s", "entries"] {
            number(row, name);
        }
    }
    assert_eq!((&control["attack"], &i2["attack"]), (&"none".into(), &"i2".into()));
    assert_eq!((number(control, "packets_per_s"), number(control, "entries")), (0.0, 1.0));
    assert!(control["octets_out_per_in"].is_null(), "{control}");
    // A busy machine may look like a failure of the path, and move the connection before the cut.
    assert_ne!(control["outcome"], "not in time", "{control}");
    if control["outcome"] == "recovered" {
        assert!(number(control, "cut_gap_s") > 0.0, "{control}");
    }
    assert!(number(i2, "answers_per_s") > 0.0, "the host hears the attack: {i2}");
    assert!(number(i2, "octets_out_per_in") > 0.0, "{i2}");
    assert!(number(i2, "entries") >= 1.0, "{i2}");
    let table = results.columns.split_whitespace().all(|name| i2.get(name).is_some());
    assert!(table, "{} in {i2}", results.columns);
}

#[test]
fn a_connection_that_begins_during_an_attack_has_a_row_with_its_context() {
    let catalogue = Attacks {
        attacks: vec![Attack::I1],
        begin: vec![Begin::During],
        length: Duration::from_millis(500),
        ..Attacks::default()
    };
    if is_skipped("attack", &catalogue.obstacles()) {
        return;
    }
    let results = experiment::run(&catalogue, &mut Unwatched).unwrap();
    let [row] = results.points.as_slice() else { panic!("{:?}", results.points) };
    assert_eq!((&row["attack"], &row["begin"]), (&"i1".into(), &"during".into()));
    assert!(row["packets_per_s"].as_f64().unwrap() > 0.0, "{row}");
    assert!(row["protected_s"].as_f64().is_some(), "{row}");
    assert_ne!(row["outcome"], "not in time", "{row}");
}

#[test]
fn a_daemon_that_answers_has_four_capabilities_and_gets_no_more() {
    let Some(lab) = two_by_two("capabilities", &[]) else { return };
    let daemon = Daemon::start(&lab, "a", &daemon_options()).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
    };
    // NET_ADMIN, NET_RAW, PERFMON and BPF in linux/capability.h.
    let four: u64 = [12, 13, 38, 39].into_iter().map(|bit| 1_u64 << bit).sum();
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(field(set), four, "{set}");
    }
    assert_eq!((field("CapInh"), field("CapAmb")), (0, 0));
    assert_eq!(field("NoNewPrivs"), 1);
}

/// Tags and nonces in the messages and payload headers of a capture.
fn secrets(frames: &[Frame]) -> (BTreeSet<ContextTag>, BTreeSet<u32>) {
    let (mut tags, mut nonces) = (BTreeSet::new(), BTreeSet::new());
    for packet in frames.iter().filter_map(Frame::ipv6).filter(|packet| packet[6] == SHIM6) {
        let address = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into();
        let octets = &packet[40..];
        if octets[2] & 0x80 != 0 {
            // A payload header: the tag is behind Next Header, length and bit P.
            let tag: [u8; 6] = octets[2..8].try_into().unwrap();
            tags.insert(ContextTag::from_octets(tag));
            continue;
        }
        let parsed = Packet::parse(octets, address(8), address(24)).unwrap();
        tags.extend(parsed.sender_tag().into_iter().chain(parsed.receiver_tag()));
        let of_message =
            [parsed.initiator_nonce(), parsed.responder_nonce(), parsed.request_nonce()];
        nonces.extend(of_message.into_iter().flatten());
        if let Ok(Message::Probe(probe)) = parsed.message() {
            nonces.extend(probe.sent.iter().chain(&probe.received).map(|report| report.nonce));
        }
    }
    (tags, nonces)
}

#[test]
fn logs_at_debug_level_hold_no_tag_and_no_nonce() {
    let Some(lab) = two_by_two("logs", &["tcpdump"]) else { return };
    let options = DaemonOptions { log: Some("debug"), ..daemon_options() };
    let start = |host: &str| Daemon::start(&lab, host, &options).unwrap();
    let mut daemons = HOSTS.map(start);
    let captures = ["isp1", "isp2"].map(|isp| {
        let directory = lab.directory(isp).unwrap();
        Capture::start(lab.namespace(isp).unwrap(), "a", &directory).unwrap()
    });
    let [client, server] = [0, 1].map(|index: usize| Endpoint {
        namespace: lab.namespace(HOSTS[index]).unwrap().clone(),
        address: daemons[index].verifiable_address("isp1").unwrap(),
    });
    let transfer = endless(client, server);
    let limit = Duration::from_secs(20);
    for daemon in &mut daemons {
        daemon.wait_for(&EventKind::ContextEstablished, limit).unwrap();
    }
    lab.fail(silent()).unwrap();
    for daemon in &mut daemons {
        daemon.wait_for(&EventKind::Moved, limit).unwrap();
    }
    let now = transfer.arrivals().total();
    eventually("octets", || transfer.arrivals().total() > now + 100_000);
    transfer.abandon().unwrap();
    let frames: Vec<_> = captures.into_iter().flat_map(|one| one.finish().unwrap()).collect();
    let (tags, nonces) = secrets(&frames);
    assert!(tags.len() >= 2 && nonces.len() >= 4, "{tags:?}, {} nonces", nonces.len());
    for daemon in &daemons {
        let log = daemon.log().to_lowercase();
        assert!(log.contains("debug") && log.contains("moved"), "{log}");
        for tag in &tags {
            let octets = tag.octets().map(|octet| format!("{octet:02x}"));
            for text in [octets.concat(), octets.join(":"), tag.bits().to_string()] {
                assert!(!log.contains(&text), "tag {text} in {log}");
            }
        }
        // A small number may appear in a log for another reason.
        for nonce in nonces.iter().filter(|nonce| **nonce > 10_000_000) {
            for text in [nonce.to_string(), format!("{nonce:08x}")] {
                assert!(!log.contains(&text), "nonce {text} in {log}");
            }
        }
    }
}
