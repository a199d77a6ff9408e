//! Congestion, external controllers, and several paths at the same time. Needs root, BPF, a built `moorlined`, python3,
//! curl and jq.

use crate::common;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{Protected, eventually, protected_with};
use moorline_api::{BlockingClient, Client, EventKind, Pair};
use moorline_lab::workload::{Direction, UdpFlow, UdpOptions};
use moorline_lab::{Failure, preflight};

const WATCH: &str = "[congestion]\nwatch = true\n";

/// A child process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two hosts with a context. `None` if a lab or the programs cannot run here.
fn hosts(test: &str, settings: &str) -> Option<Protected> {
    if common::is_skipped(test, &preflight::check(&["python3", "curl", "jq"])) {
        return None;
    }
    let mut hosts = protected_with(test, [settings.to_owned(), String::new()])?;
    let options = UdpOptions {
        ends: hosts.ends.clone(),
        direction: Direction::BothWays,
        per_second: 100,
        size: 600,
    };
    let flow = UdpFlow::start(&options).unwrap();
    hosts.await_context();
    flow.finish().unwrap();
    Some(hosts)
}

fn client(hosts: &Protected) -> BlockingClient {
    BlockingClient::new(Client::new(hosts.lab.directory("a").unwrap().join("moorlined.sock")))
        .unwrap()
}

fn python(hosts: &Protected, host: &str, arguments: &[String]) -> Command {
    let mut command = hosts.lab.namespace(host).unwrap().command("python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/marked.py")).args(arguments);
    command
}

fn words(words: &[&dyn ToString]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

/// Every connection is root's. The daemon reserves no places for other users.
#[test]
fn idle_connections_to_the_control_socket_leave_descriptors_to_the_daemon() {
    let Some(mut hosts) = hosts("idle connections", "") else { return };
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    let mut idle: Vec<_> = (0..400).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut answer = String::new();
    idle.last_mut().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("close some"), "{answer}");
    // Routes, probes and rewritten tables all need descriptors.
    let flow = UdpFlow::start(&UdpOptions {
        ends: hosts.ends.clone(),
        direction: Direction::BothWays,
        per_second: 100,
        size: 600,
    });
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    hosts.daemons[1].wait_for(&EventKind::Moved, LIMIT).unwrap();
    drop(idle);
    eventually("an answer", || hosts.daemons[0].contexts().is_ok_and(|all| all[0].moved));
    flow.unwrap().finish().unwrap();
}

/// Sends marked datagrams from b to a for half a minute.
fn congest(hosts: &Protected) -> Running {
    let [a, b] = &hosts.ends;
    let ce = 3;
    let arguments = words(&[&"send", &b.address, &a.address, &6000, &ce, &"9000:0"]);
    Running(python(hosts, "b", &arguments).spawn().unwrap())
}

#[test]
fn controllers_in_python_and_in_shell_leave_a_congested_pair() {
    let Some(mut hosts) = hosts("controllers", WATCH) else { return };
    let control = client(&hosts);
    let place = |hosts: &Protected| hosts.daemons[0].contexts().unwrap().remove(0).locators();
    let home = place(&hosts);
    let _marked = congest(&hosts);
    let told = hosts.daemons[0].wait_for(&EventKind::Congested, LIMIT).unwrap();
    assert_eq!(told.to, Some(home));
    assert!(told.reason.is_some_and(|reason| reason.starts_with("ce=")));
    let counters = control.paths().unwrap().contexts[0].counters.unwrap();
    assert!(counters.ce > 0 && counters.ce <= counters.received, "{counters:?}");
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples");
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    let mut before = home;
    let in_python = ["python3", "leave-congestion.py", "--once", "--hold", "0", "--socket"];
    for (program, arguments) in [("python3", &in_python[1..]), ("sh", &["leave-congestion.sh"])] {
        let mut command = Command::new(program);
        command.current_dir(examples).args(arguments).arg(&socket);
        let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut status = None;
        eventually(&format!("{program} to move the context"), || {
            status = child.0.try_wait().unwrap();
            status.is_some()
        });
        let mut said = String::new();
        child.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.unwrap().success(), "{program}: {said}");
        assert!(said.contains("congested: ") && said.contains("sends to "), "{said}");
        let now = place(&hosts);
        assert!(now.local != before.local && now.peer != before.peer, "{before} {now}");
        before = now;
    }
    assert_eq!(before, home, "there and back");
}

/// The packet mark of a pair.
fn mark_of(paths: &[Pair], is_meant: impl Fn(&Pair) -> bool) -> usize {
    paths.iter().position(is_meant).unwrap() + 1
}

#[test]
fn two_flows_of_one_address_pair_take_two_isps_at_once_by_their_marks() {
    let Some(hosts) = hosts("spread", "spread = true\n") else { return };
    let control = client(&hosts);
    let address = |host: usize, isp| hosts.daemons[host].verifiable_address(isp).unwrap();
    let (first, second) = (address(0, "isp1"), address(0, "isp2"));
    let spread = || control.paths().unwrap().contexts.remove(0).spread;
    let current = control.paths().unwrap().contexts[0].paths[0].pair();
    eventually("all paths to answer", || {
        let paths = spread();
        paths.len() == 3 && !paths.contains(&current)
    });
    let paths = spread();
    let by = |local| mark_of(&paths, |pair| pair.local == local && *pair != current);
    let (one, two) = (by(first), by(second));
    let [a, b] = &hosts.ends;
    let (count, ports) = (400, [9001, 9002]);
    let arguments = words(&[&"receive", &b.address, &count, &ports[0], &ports[1]]);
    let mut receiver = python(&hosts, "b", &arguments);
    let mut receiver = Running(receiver.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(receiver.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let sent_by = |interface: &str| {
        let command = hosts.lab.namespace("a").unwrap().command("cat");
        let mut command = command;
        let place = format!("/sys/class/net/{interface}/statistics/tx_bytes");
        let output = command.arg(place).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()
    };
    let before = [sent_by("isp1"), sent_by("isp2")];
    let flows = [format!("{}:{one}", ports[0]), format!("{}:{two}", ports[1])];
    let arguments = words(&[&"send", &a.address, &b.address, &count, &0, &flows[0], &flows[1]]);
    assert!(python(&hosts, "a", &arguments).status().unwrap().success());
    let after = [sent_by("isp1"), sent_by("isp2")];
    let came: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(came, serde_json::json!({"came": [count, count], "damaged": 0}));
    for (isp, (before, after)) in before.into_iter().zip(after).enumerate() {
        let sent = after - before;
        assert!((400_000..600_000).contains(&sent), "isp{}: {sent} octets", isp + 1);
    }
}

#[test]
fn the_examples_are_programs() {
    for name in ["leave-congestion.py", "leave-congestion.sh"] {
        let place = format!("{}/../docs/examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(place).unwrap().permissions());
        assert_eq!(mode & 0o111, 0o111, "{name} can be run");
    }
}

const LIMIT: Duration = Duration::from_secs(10);
