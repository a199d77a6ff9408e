//! Daemons under attack, and secrets that they must keep. Needs root, BPF and a built `moorlined`.

mod soak;

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
use serde_json::Value;

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

/// Rows of the catalogue with a short attack. `None` if the catalogue cannot run here.
fn rows(attacks: &[Attack], begin: Begin, rate: Option<u64>) -> Option<Vec<Value>> {
    let length = Duration::from_millis(500);
    let (attacks, begin) = (attacks.to_vec(), vec![begin]);
    let catalogue = Attacks { attacks, begin, length, rate, ..Attacks::default() };
    if is_skipped("attack", &catalogue.obstacles()) {
        return None;
    }
    let results = experiment::run(&catalogue, &mut Unwatched).unwrap();
    assert_eq!(results.points.len(), catalogue.attacks.len());
    for (row, attack) in results.points.iter().zip(&catalogue.attacks) {
        assert_eq!(row["attack"], attack.name());
        let has_all = results.columns.split_whitespace().all(|name| row.get(name).is_some());
        assert!(has_all, "{} in {row}", results.columns);
        for name in ["processor_share", "memory_growth_octets", "gap_s", "entries"] {
            number(row, name);
        }
        // A busy machine may look like a failure of the path, and move the connection before the cut.
        assert_ne!(row["outcome"], "not in time", "{row}");
        assert_ne!(row["outcome"], "not protected", "{row}");
    }
    Some(results.points)
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"))
}

#[test]
fn the_catalogue_has_a_row_for_each_attack_and_the_connection_lives_without_one() {
    let attacks = [Attack::Nothing, Attack::I2];
    let Some(rows) = rows(&attacks, Begin::Before, Some(200)) else { return };
    let [control, i2] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((number(control, "packets_per_s"), number(control, "entries")), (0.0, 1.0));
    assert!(control["octets_out_per_in"].is_null(), "{control}");
    if control["outcome"] == "recovered" {
        assert!(number(control, "cut_gap_s") > 0.0, "{control}");
    }
    assert!(number(i2, "answers_per_s") > 0.0, "the host hears the attack: {i2}");
    assert!(number(i2, "octets_out_per_in") > 0.0, "{i2}");
    assert!(number(i2, "entries") >= 1.0, "{i2}");
}

#[test]
fn a_connection_that_begins_during_an_attack_has_a_row_with_its_context() {
    let attacks = [Attack::I1, Attack::Messages];
    let Some(rows) = rows(&attacks, Begin::During, None) else { return };
    for row in &rows {
        assert_eq!(row["begin"], "during");
        assert!(number(row, "packets_per_s") > 0.0, "{row}");
        assert!(number(row, "protected_s") < 1.0, "{row}");
    }
}

#[test]
fn messages_of_contexts_from_strangers_make_no_context_and_draw_nothing() {
    let attacks = [Attack::Keepalives, Attack::Errors];
    let Some(rows) = rows(&attacks, Begin::Before, Some(5_000)) else { return };
    for row in &rows {
        assert_eq!(number(row, "entries"), 1.0, "{row}");
        assert_eq!(number(row, "answers_per_s"), 0.0, "too short for an R1bis: {row}");
    }
}

#[test]
fn forked_instances_of_one_address_have_its_share_of_the_table() {
    let Some(rows) = rows(&[Attack::Forks], Begin::Before, None) else { return };
    let entries = number(&rows[0], "entries");
    assert!(1.0 < entries && entries < 65_536.0 / 4.0, "{}", rows[0]);
}

#[test]
fn strangers_whose_datagrams_a_service_answers_get_less_of_shim6_than_they_send() {
    let attacks = [Attack::Echoed, Attack::Wanted];
    let Some(rows) = rows(&attacks, Begin::Before, None) else { return };
    for row in &rows {
        assert!(number(row, "entries") > 1.0, "the host wants contexts: {row}");
        assert!(number(row, "octets_out_per_in") <= 1.0, "{row}");
    }
}

#[test]
fn who_sends_in_the_name_of_both_hosts_does_not_keep_a_connection_on_a_dead_path() {
    let attacks = [Attack::Ports, Attack::UlidsIlnp, Attack::PortsIlnp];
    let Some(rows) = rows(&attacks, Begin::Before, None) else { return };
    for row in &rows {
        assert!(number(row, "packets_per_s") > 0.0, "{row}");
        assert!(row["octets_out_per_in"].is_null(), "{row}");
    }
}

#[test]
fn locator_updates_draw_questions_alone_to_a_third_party() {
    let Some(rows) = rows(&[Attack::ThirdParty], Begin::Before, None) else { return };
    let drawn = number(&rows[0], "octets_out_per_in");
    assert!(0.0 < drawn && drawn <= 3.0, "{}", rows[0]);
}

/// The neighbor cache of the kernel has some 1,000 entries for all namespaces, and other tests need some: so there are few
/// routers.
#[test]
fn a_user_with_idle_connections_and_made_up_routers_leave_status_and_failover() {
    let attacks = [Attack::Connections, Attack::Prefixes];
    let Some(mut all) = rows(&attacks, Begin::Before, None) else { return };
    all.extend(rows(&[Attack::Routers], Begin::Before, Some(20)).unwrap());
    for row in &all {
        assert!(number(row, "packets_per_s") > 0.0, "{row}");
    }
}

/// The attacker has to know the connection.
#[test]
fn an_attack_that_needs_a_connection_has_no_row_before_one() {
    let begin = vec![Begin::During];
    let catalogue = Attacks { attacks: vec![Attack::Ports], begin, ..Attacks::default() };
    let error = experiment::run(&catalogue, &mut Unwatched).unwrap_err();
    assert!(error.to_string().contains("nothing to measure"), "{error:#}");
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
