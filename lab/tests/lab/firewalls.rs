//! Default firewalls, address translators and filters between two hosts: traffic that moves, and findings of the doctor
//! if traffic cannot move. Needs root, BPF and a built `moorlined`.

use std::fs;
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use crate::common::doctor::{ask_doctor, ask_doctor_on, facts, trouble};
use crate::common::{Protected, await_standby, daemon_options, eventually, protected};
use moorline_api::ReadinessState;
use moorline_doctor::{Firewall, fixes, undoing};
use moorline_lab::Failure;
use moorline_lab::daemon::state_directory;
use moorline_lab::topology::host_address;
use moorline_lab::workload::{Direction, Sender, TcpOptions, TcpTransfer};

/// A firewall as on many servers. The firewall accepts established connections, the ICMPv6 that IPv6 needs, and
/// services: here TCP.
const STATEFUL: &str = "table inet filter {
chain input {
type filter hook input priority 0; policy drop;
iif lo accept
ct state established,related accept
ct state invalid drop
icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert, echo-request, packet-too-big } accept
meta l4proto tcp accept
}
}
";

/// Installs the firewall, with a connection tracking that forgets protocol 140 after a second of silence. The default
/// of hosts is 10 minutes.
fn put_up_forgetful_firewall(hosts: &Protected, host: &str) {
    let namespace = hosts.lab.namespace(host).unwrap();
    namespace.nft(STATEFUL).unwrap();
    namespace.sysctl("netfilter/nf_conntrack_generic_timeout", "1").unwrap();
}

/// Runs the commands of `moorline doctor --fix`.
fn open_firewall(hosts: &Protected, host: &str) {
    let fix = fixes(&facts(hosts, host));
    assert!(!fix.commands.is_empty() && fix.by_hand.is_empty(), "{fix:?}");
    run(hosts, host, &fix.commands);
}

fn run(hosts: &Protected, host: &str, commands: &[Vec<String>]) {
    for command in commands {
        let status =
            hosts.lab.namespace(host).unwrap().command(&command[0]).args(&command[1..]).status();
        assert!(status.unwrap().success(), "{command:?}");
    }
}

/// Checks that a transfer goes on when ISP 1 fails, once the standby path has answered. The standby path takes traffic
/// to be checked, and some seconds if I1s cross: the firewall drops an I1 that comes before our own I1 has left, and
/// the peer repeats it after up to 6 s.
fn tcp_survives(hosts: &mut Protected) {
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 60_000_000, rate: 4_000_000 };
    // Traffic for as long as it takes.
    let busy = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    await_standby(&hosts.lab);
    let transfer = TcpTransfer::start(&options).unwrap();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    let ended = moorline_lab::interrupt::wait_for("the end of the transfer", LIMIT, || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{}", hosts.story());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
    assert!(hosts.has_moved_to_isp2(), "{}", hosts.story());
    busy.finish().unwrap();
}

#[test]
fn connections_move_behind_a_default_firewall_at_the_initiator() {
    let Some(mut hosts) = protected("firewall at A", &["a", "b"], &[]) else { return };
    hosts.lab.namespace("a").unwrap().nft(STATEFUL).unwrap();
    tcp_survives(&mut hosts);
}

#[test]
fn connections_move_between_two_firewalls_with_the_rule_that_the_doctor_puts_in() {
    let Some(mut hosts) = protected("firewalls and rules", &["a", "b"], &[]) else { return };
    for host in ["a", "b"] {
        put_up_forgetful_firewall(&hosts, host);
        open_firewall(&hosts, host);
        let report = ask_doctor_on(&hosts, host, &[]);
        assert_eq!((trouble(&report), report.exit_status()), (vec![], 0), "{report:#?}");
    }
    tcp_survives(&mut hosts);
}

#[test]
fn the_doctor_names_each_firewall_and_ends_with_a_failure_until_it_is_opened() {
    let Some(hosts) = protected("firewalls without rules", &["a", "b"], &[]) else { return };
    for host in ["a", "b"] {
        put_up_forgetful_firewall(&hosts, host);
        let closed = || {
            let report = ask_doctor_on(&hosts, host, &[]);
            assert_eq!(
                (trouble(&report), report.exit_status()),
                (vec!["firewall-shim6"], 1),
                "{report:#?}"
            );
            assert!(report.findings[0].evidence[0].starts_with("inet filter input"), "{report:#?}");
        };
        closed();
        open_firewall(&hosts, host);
        assert_eq!(ask_doctor_on(&hosts, host, &[]).exit_status(), 0);
        let Firewall::Ruleset(ruleset) = facts(&hosts, host).firewall else { panic!("unread") };
        run(&hosts, host, &undoing(&ruleset));
        closed();
    }
}

/// The command `moorline` in the namespace of host A, with the directories of its daemon.
fn moorline(hosts: &Protected, words: &[&str]) -> Command {
    let program = daemon_options().binary.with_file_name("moorline");
    assert!(program.is_file(), "build the workspace first: {}", program.display());
    let directory = hosts.lab.directory("a").unwrap();
    let mut command = hosts.lab.namespace("a").unwrap().command(program);
    command.arg("--socket").arg(directory.join("moorlined.sock")).args(words);
    if words == ["down"] {
        command.arg("--state-dir").arg(state_directory(&hosts.lab, "a").unwrap());
        command.arg("--pin-dir").arg(directory.join("bpf/moorline"));
    }
    command
}

fn ruleset(hosts: &Protected) -> String {
    let nft = hosts.lab.namespace("a").unwrap().command("nft").args(["list", "ruleset"]).output();
    String::from_utf8(nft.unwrap().stdout).unwrap()
}

#[test]
fn down_closes_the_firewall_after_the_daemon_has_gone_and_does_not_stop_where_nobody_takes_what_it_says()
 {
    let Some(mut hosts) = protected("firewall and down", &["a"], &[]) else { return };
    hosts.lab.namespace("a").unwrap().nft(STATEFUL).unwrap();
    let before = ruleset(&hosts);
    let opened = moorline(&hosts, &["doctor", "--fix", "--yes"]).output().unwrap();
    let opened_to = ruleset(&hosts);
    assert!(before.contains("policy drop") && opened_to != before, "{opened:?}");

    // The daemon runs and does not answer.
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    let aside = socket.with_extension("aside");
    fs::rename(&socket, &aside).unwrap();
    let refused = moorline(&hosts, &["down"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert_eq!(ruleset(&hosts), opened_to, "{refused:?}");
    fs::rename(&aside, &socket).unwrap();

    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = moorline(&hosts, &["down"]).stdout(full).output().unwrap();
    assert_eq!(ruleset(&hosts), before, "{ended:?}");
    let log = hosts.daemons.remove(0).hand_over();
    assert!(log.is_ok(), "the daemon ends with success: {log:?}");
    let pins = hosts.lab.directory("a").unwrap().join("bpf/moorline");
    let left: Vec<_> = fs::read_dir(pins).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // No rule is left to remove.
    let again = moorline(&hosts, &["down"]).output().unwrap();
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.success() && !said.contains("firewall"), "{again:?}");
}

#[test]
fn a_translator_on_the_second_path_is_named_with_the_address_that_the_peer_sees() {
    let Some(hosts) = protected("NAT66", &["a", "b"], &[]) else { return };
    // The router translates the source of packets of A to one of its own addresses.
    let [a, b, c, d, ..] = host_address("a", 2).segments();
    let seen = Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0x99);
    let script = format!(
        "table ip6 nat {{\nchain post {{\ntype nat hook postrouting priority 100;\niifname \"a\" snat to {seen}\n}}\n}}\n"
    );
    hosts.lab.namespace("isp2").unwrap().nft(&script).unwrap();
    let report = ask_doctor(&hosts, &[host_address("b", 1), host_address("b", 2)]);
    assert!(trouble(&report).contains(&"peer-nat66"), "{report:#?}");
    assert_eq!(report.exit_status(), 1, "{report:#?}");
    let named = report.findings.iter().find(|finding| finding.code == "peer-nat66").unwrap();
    let text = format!("the peer saw {seen}");
    assert!(named.evidence.iter().all(|evidence| evidence.ends_with(&text)), "{named:#?}");
}

#[test]
fn a_context_whose_second_isp_drops_protocol_140_is_not_protected_and_says_so() {
    let Some(mut hosts) = protected("ISP 2 drops 140", &["a", "b"], &[]) else { return };
    let filter = "table ip6 quiet {\nchain out {\ntype filter hook forward priority 0\nmeta l4proto 140 drop\n}\n}\n";
    hosts.lab.namespace("isp2").unwrap().nft(filter).unwrap();
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    let reason = |hosts: &Protected| {
        let contexts = hosts.daemons[0].contexts().unwrap();
        let readiness = contexts[0].readiness.clone().unwrap();
        (readiness.state, readiness.reason)
    };
    let unanswered = (ReadinessState::Cannot, Some("unanswered".to_owned()));
    let limit = Duration::from_secs(120);
    let told = moorline_lab::interrupt::wait_for("no pair to answer", limit, || {
        assert_ne!(reason(&hosts).0, ReadinessState::Protected);
        Ok((reason(&hosts) == unanswered).then_some(()))
    });
    assert!(told.is_ok(), "{:?}\n{}", reason(&hosts), hosts.story());
    let survival = &hosts.daemons[0].status().unwrap().survival[0];
    assert_eq!((survival.uplink.as_str(), survival.contexts, survival.survive), ("isp1", 1, 0));
    for (peers, code) in
        [(vec![], "failover-unanswered"), (vec![hosts.ends[1].address], "peer-one-pair")]
    {
        let report = ask_doctor(&hosts, &peers);
        assert!(trouble(&report).contains(&code), "{report:#?}");
        assert_eq!(report.exit_status(), 1, "{report:#?}");
    }
    flow.finish().unwrap();
}

/// A generous limit, because the machine may be busy. A failed test should still say why it failed.
const LIMIT: Duration = Duration::from_secs(30);
