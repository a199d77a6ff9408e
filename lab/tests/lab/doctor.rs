//! Findings of `moorline doctor` on hosts and on the path between them. Needs root, BPF and a built `moorlined`.

use std::net::Ipv6Addr;

use crate::common::doctor::{ask_doctor, trouble};
use crate::common::{eventually, protected, protected_with, with_ilnp};
use moorline_api::{BlockingClient, Client, Excluded, Pair};
use moorline_doctor::Report;
use moorline_doctor::probe::{Kind, Verdict};
use moorline_lab::netns::Namespace;
use moorline_lab::topology::{host_address, prefix_of};
use moorline_lab::workload::{Sender, TcpOptions, TcpTransfer};

fn both_of_b() -> [Ipv6Addr; 2] {
    [host_address("b", 1), host_address("b", 2)]
}

/// Verdicts of a kind for each pair, with whether an end of the pair is at ISP 1.
fn verdicts(report: &Report, kind: Kind) -> Vec<(bool, Verdict)> {
    let pairs = &report.peer.as_ref().unwrap().pairs;
    assert_eq!(pairs.len(), 4, "{pairs:?}");
    // The third group of these addresses is a1, a2, b1 or b2.
    let is_by_isp1 = |address: Ipv6Addr| address.segments()[2] & 0xf == 1;
    let by_isp1 = |pair: Pair| is_by_isp1(pair.local) || is_by_isp1(pair.peer);
    pairs.iter().map(|row| (by_isp1(row.pair), row.verdicts[&kind].clone())).collect()
}

#[test]
fn nothing_stops_protection_between_two_good_hosts() {
    let Some(hosts) = protected("doctor: good hosts", &["a", "b"], &[]) else { return };
    let report = ask_doctor(&hosts, &both_of_b());
    assert_eq!(trouble(&report), [""; 0], "{report:#?}");
    assert_eq!(report.exit_status(), 0);
    for kind in Kind::ALL {
        for (_, verdict) in verdicts(&report, kind) {
            assert!(matches!(verdict, Verdict::Passes { .. }), "{kind:?}: {verdict:?}");
        }
    }
    for row in &report.peer.unwrap().pairs {
        assert_eq!((row.path_mtu, row.is_black_hole), (Some(1500), false), "{row:?}");
    }
}

#[test]
fn a_router_that_drops_protocol_140_is_found_by_the_pairs_that_use_it() {
    let Some(hosts) = protected("doctor: router and protocol 140", &["a", "b"], &[]) else {
        return;
    };
    let router = hosts.lab.namespace("isp1").unwrap();
    drop_on_forward(router, "meta l4proto 140 drop");
    let report = ask_doctor(&hosts, &both_of_b());
    for (by_isp1, verdict) in verdicts(&report, Kind::Shim6) {
        assert_eq!(verdict == Verdict::Lost, by_isp1, "{verdict:?}");
    }
    assert!(trouble(&report).contains(&"peer-shim6-lost"), "{report:#?}");
}

#[test]
fn a_router_that_refuses_destination_options_is_named() {
    let Some(hosts) = protected("doctor: router and options", &["a", "b"], &[]) else { return };
    let router = hosts.lab.namespace("isp1").unwrap();
    drop_on_forward(router, "exthdr dst exists reject with icmpv6 type admin-prohibited");
    let report = ask_doctor(&hosts, &both_of_b());
    for kind in [Kind::Options8, Kind::Options16] {
        for (by_isp1, verdict) in verdicts(&report, kind) {
            let refused = matches!(&verdict, Verdict::Error { what, .. } if what == "administratively prohibited");
            assert_eq!(refused, by_isp1, "{kind:?}: {verdict:?}");
        }
    }
    assert_eq!(trouble(&report), [""; 0], "{report:#?}");
    assert!(report.findings.iter().any(|finding| finding.code == "peer-options"));
}

/// Narrows the link of ISP 1's router to B to 1400 octets. Gives the path MTU, whether larger packets are lost
/// silently, and the doctor's report. `None` if the test is skipped.
fn narrow(test: &str, is_silent: bool) -> Option<(u32, bool, Report)> {
    let hosts = protected(test, &["a", "b"], &[])?;
    let router = hosts.lab.namespace("isp1").unwrap();
    router.ip(&["link", "set", "dev", "b", "mtu", "1400"]).unwrap();
    if is_silent {
        chain(router, "ip6 quiet", "output", "icmpv6 type packet-too-big drop");
    }
    let report = ask_doctor(&hosts, &both_of_b());
    let pairs = &report.peer.as_ref().unwrap().pairs;
    let is_direct =
        |pair: Pair| pair.local.segments()[2] & 0xf == 1 && pair.peer == host_address("b", 1);
    let row = pairs.iter().find(|row| is_direct(row.pair)).unwrap();
    Some((row.path_mtu.unwrap(), row.is_black_hole, report))
}

#[test]
fn the_mtu_of_a_narrow_path_is_what_its_router_says() {
    let Some((mtu, is_black_hole, report)) = narrow("doctor: path MTU", false) else { return };
    assert_eq!((mtu, is_black_hole), (1400, false), "{report:#?}");
    assert_eq!(trouble(&report), [""; 0], "{report:#?}");
}

#[test]
fn a_narrow_path_whose_router_keeps_silent_is_measured() {
    let Some((mtu, is_black_hole, report)) = narrow("doctor: black hole", true) else { return };
    assert!((1392..=1400).contains(&mtu) && is_black_hole, "{report:#?}");
    assert!(trouble(&report).contains(&"peer-black-hole"), "{report:#?}");
}

#[test]
fn a_rule_of_the_hosts_own_firewall_is_named() {
    let Some(hosts) = protected("doctor: own firewall", &["a"], &[]) else { return };
    let host = hosts.lab.namespace("a").unwrap();
    chain(host, "inet mine", "output", "meta l4proto 140 drop");
    let report = ask_doctor(&hosts, &[]);
    assert_eq!(
        (trouble(&report), report.exit_status()),
        (vec!["firewall-shim6"], 1),
        "{report:#?}"
    );
    assert!(report.findings[0].evidence[0].starts_with("inet mine out handle "), "{report:#?}");
}

#[test]
fn one_uplink_and_rules_of_others_are_found() {
    let Some(hosts) = protected("doctor: one uplink", &["a"], &[]) else { return };
    let host = hosts.lab.namespace("a").unwrap();
    host.ip(&["-6", "rule", "add", "priority", "100", "lookup", "main"]).unwrap();
    host.ip(&["link", "set", "isp2", "down"]).unwrap();
    let report = ask_doctor(&hosts, &[]);
    let mut found = trouble(&report);
    found.retain(|code| *code != "daemon-warning");
    assert_eq!(found, ["one-uplink", "foreign-rule"], "{report:#?}");
}

#[test]
fn an_uplink_that_moorlined_may_not_use_is_none() {
    let settings = ["uplinks = [\"isp1\"]\n".to_owned(), String::new()];
    let Some(hosts) = protected_with("doctor: one of two uplinks", settings) else { return };
    let report = ask_doctor(&hosts, &both_of_b());
    assert!(trouble(&report).contains(&"one-uplink"), "{report:#?}");
    let finding = report.findings.iter().find(|one| one.code == "one-uplink").unwrap();
    let said = "isp2 could be one, and `uplinks` in moorlined.toml lacks it";
    assert_eq!(finding.evidence, [said], "{report:#?}");
    let ours = &report.peer.as_ref().unwrap().pairs;
    assert!(ours.iter().all(|row| prefix_of(row.pair.local) == prefix_of(host_address("a", 1))));
}

/// Whatever goes by, the rule is the reason why there is no context.
#[test]
fn a_peer_that_a_rule_excludes_is_named_with_the_rule_while_megabytes_go_by() {
    let rule = "[[triggers]]\npeer = \"2001:db8::/32\"\nnever = true\n";
    let settings = [rule.to_owned(), "trigger-never = true\n".to_owned()];
    let Some(hosts) = protected_with("an excluded peer", settings) else { return };
    let [client, server] = hosts.ends.clone();
    let peer = server.address;
    let options =
        TcpOptions { client, server, sender: Sender::Client, bytes: u64::MAX, rate: 50_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    eventually("megabytes", || transfer.arrivals().total() > 20_000_000);
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    let daemon = BlockingClient::new(Client::new(socket)).unwrap();
    let why = "the rule of [[triggers]] for peer 2001:db8::/32".to_owned();
    // An answer may be that of the last look at the sockets, from before the connection.
    let expected = [Excluded { peer, why: why.clone() }];
    eventually("the peer's name", || daemon.status().unwrap().excluded == expected);
    assert_eq!(daemon.contexts().unwrap(), []);
    let report = ask_doctor(&hosts, &[]);
    let found = report.findings.iter().find(|finding| finding.code == "peer-excluded");
    let shown = format!("{peer}: {why}");
    assert!(found.is_some_and(|finding| finding.evidence.contains(&shown)), "{report:?}");
}

#[test]
fn a_peer_without_moorline_is_told_from_one_that_is_not_reached() {
    let Some(hosts) = protected("doctor: peer without", &["a"], &[]) else { return };
    let report = ask_doctor(&hosts, &[host_address("b", 1)]);
    assert!(trouble(&report).contains(&"peer-without"), "{report:#?}");
    let pairs = &report.peer.as_ref().unwrap().pairs;
    assert!(pairs.iter().any(|row| row.verdicts[&Kind::Shim6] == Verdict::NoShim6), "{pairs:?}");
    let report = ask_doctor(&hosts, &["2001:db8:b1::dead".parse().unwrap()]);
    assert!(trouble(&report).contains(&"peer-unreachable"), "{report:#?}");
}

#[test]
fn sessions_of_ilnp_begin_and_move_between_two_good_hosts() {
    let Some(hosts) = with_ilnp("doctor: ILNP", &[], [Some(""); 2]) else { return };
    let report = ask_doctor(&hosts, &both_of_b());
    for kind in Kind::OF_ILNP {
        for (_, verdict) in verdicts(&report, kind) {
            assert!(matches!(verdict, Verdict::Passes { .. }), "{kind:?}: {verdict:?}");
        }
    }
    let codes = |report: &Report| -> Vec<_> {
        report.findings.iter().map(|finding| finding.code.clone()).collect()
    };
    let about_ilnp = |code: &String| code.contains("ilnp");
    assert_eq!(codes(&report).into_iter().find(about_ilnp), None, "{report:#?}");
    // B has kept no session.
    let b = hosts.daemons[1].status().unwrap().ilnp.unwrap();
    assert_eq!((b.correspondents, b.refused["no socket"]), (0, 4), "{b:?}");
    chain(hosts.lab.namespace("a").unwrap(), "inet mine", "output", "icmpv6 type 156-200 drop");
    let report = ask_doctor(&hosts, &[]);
    let named = report.findings.iter().filter(|finding| finding.code == "firewall-ilnp");
    let named: Vec<_> = named.map(|finding| &finding.what).collect();
    assert!(named.len() == 2 && named[0].contains("type 200") && named[1].contains("type 156"));
}

#[test]
fn a_router_that_drops_locator_updates_is_found_by_the_pairs_that_use_it() {
    let name = "doctor: router and Locator Updates";
    let Some(hosts) = with_ilnp(name, &[], [Some(""); 2]) else { return };
    drop_on_forward(hosts.lab.namespace("isp1").unwrap(), "icmpv6 type 156 drop");
    let report = ask_doctor(&hosts, &both_of_b());
    for (by_isp1, verdict) in verdicts(&report, Kind::LocatorUpdate) {
        assert_eq!(verdict == Verdict::Lost, by_isp1, "{verdict:?}");
    }
    assert!(trouble(&report).contains(&"peer-ilnp-lost"), "{report:#?}");
}

#[test]
fn a_peer_without_ilnp_is_told_from_a_way_that_drops_it() {
    let Some(hosts) = with_ilnp("doctor: peer without ILNP", &[], [Some(""), None]) else { return };
    let report = ask_doctor(&hosts, &[host_address("b", 1)]);
    let pairs = &report.peer.as_ref().unwrap().pairs;
    assert!(pairs.iter().all(|row| row.verdicts[&Kind::Ilnp] == Verdict::NoIlnp), "{pairs:?}");
    assert!(report.findings.iter().any(|finding| finding.code == "peer-without-ilnp"));
}

fn drop_on_forward(router: &Namespace, rule: &str) {
    chain(router, "ip6 doctor", "forward", rule);
}

/// Adds a table with a chain of one rule.
fn chain(at: &Namespace, table: &str, hook: &str, rule: &str) {
    let base = format!("type filter hook {hook} priority 0");
    at.nft(&format!("table {table} {{\nchain out {{\n{base}\n{rule}\n}}\n}}\n")).unwrap();
}
