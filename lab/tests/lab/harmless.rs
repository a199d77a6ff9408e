//! Things that Moorline leaves alone: peers without Moorline, traffic that has not moved, and connections of a killed
//! daemon. Needs root, BPF and a built `moorlined`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::common::{
    daemon_options, endpoint, eventually, is_skipped, protected, two_by_two, two_by_two_open,
};
use moorline_api::EventKind;
use moorline_lab::capture::{Capture, Frame};
use moorline_lab::daemon::{Daemon, DaemonOptions, state_directory};
use moorline_lab::process::Process;
use moorline_lab::workload::{
    Direction, Endpoint, Sender, TcpOptions, TcpTransfer, UdpFlow, UdpOptions,
};
use moorline_lab::{Failure, Lab, Namespace, preflight};
use rustix::process::{Pid, Signal, kill_process};

const SHIM6: u8 = 140;
const UDP: u8 = 17;
const TCP: u8 = 6;

fn next_header(packet: &[u8]) -> u8 {
    packet[6]
}

/// Whether bit P is set in a Shim6 packet (RFC 5533 s5.1): payload, not control.
fn is_payload_header(packet: &[u8]) -> bool {
    next_header(packet) == SHIM6 && packet.get(42).is_some_and(|octet| octet & 0x80 != 0)
}

fn packets(frames: &[Frame]) -> Vec<&[u8]> {
    frames.iter().filter_map(Frame::ipv6).collect()
}

fn transfer(client: Endpoint, server: Endpoint, bytes: u64) {
    let options = TcpOptions { client, server, sender: Sender::Server, bytes, rate: 8_000_000 };
    assert!(TcpTransfer::start(&options).unwrap().finish().unwrap().complete);
}

/// UDP datagrams from A to B by number, as a router of an ISP saw them. Fields that the kernel chooses at random are
/// zeroed: ports, flow label and checksum.
fn datagrams(frames: &[Frame], size: usize) -> BTreeMap<u64, Vec<u8>> {
    let mut found = BTreeMap::new();
    for frame in frames {
        let Some(packet) = frame.ipv6() else { continue };
        if next_header(packet) != UDP || packet.len() < 40 + 8 + size {
            continue;
        }
        let number = u64::from_be_bytes(packet[48..56].try_into().unwrap());
        let mut octets = frame.octets[14..].to_vec();
        octets[1..4].fill(0);
        octets[40..44].fill(0);
        octets[46..48].fill(0);
        found.insert(number, octets);
    }
    found
}

fn capture_udp(lab: &Lab, ends: [Endpoint; 2], before_end: impl FnOnce()) -> Vec<Frame> {
    let directory = lab.directory("isp1").unwrap();
    let capture = Capture::start(lab.namespace("isp1").unwrap(), "a", &directory).unwrap();
    let options = UdpOptions { ends, direction: Direction::OneWay, per_second: 500, size: 1000 };
    let flow = UdpFlow::start(&options).unwrap();
    before_end();
    eventually("datagrams", || flow.arrivals()[0].total() > 400 * 1000);
    flow.finish().unwrap();
    capture.finish().unwrap()
}

#[test]
fn unmoved_datagrams_have_the_octets_they_have_without_moorline() {
    let Some(mut hosts) = protected("unmoved datagrams", &["a", "b"], &["tcpdump"]) else { return };
    let ends = hosts.ends.clone();
    let addresses = ends.clone().map(|end| end.address);
    let mut daemons = std::mem::take(&mut hosts.daemons);
    let with = capture_udp(&hosts.lab, ends, || {
        for daemon in &mut daemons {
            daemon.wait_for(&EventKind::ContextEstablished, Duration::from_secs(10)).unwrap();
        }
    });
    drop(daemons);
    drop(hosts);

    // The same addresses and links, without Moorline.
    let lab = two_by_two("unmoved datagrams", &[]).unwrap();
    let mut plain_ends = [endpoint(&lab, "a", 1), endpoint(&lab, "b", 1)];
    for (end, address) in plain_ends.iter_mut().zip(addresses) {
        end.address = address;
        let prefix = format!("{address}/64");
        end.namespace.ip(&["addr", "add", &prefix, "dev", "isp1", "nodad"]).unwrap();
    }
    let without = capture_udp(&lab, plain_ends, || {});

    assert!(!packets(&with).into_iter().any(is_payload_header), "nothing has moved");
    let (with, without) = (datagrams(&with, 1000), datagrams(&without, 1000));
    let common = with.keys().filter(|number| without.contains_key(number)).count();
    assert!(common >= 300, "{} and {} datagrams", with.len(), without.len());
    for (number, octets) in &with {
        if let Some(plain) = without.get(number) {
            assert_eq!(octets, plain, "datagram {number}");
        }
    }
}

#[test]
fn unmoved_tcp_carries_no_extra_octet_and_moved_tcp_eight() {
    let Some(mut hosts) = protected("TCP octets", &["a", "b"], &["tcpdump"]) else { return };
    let [client, server] = hosts.ends.clone();
    let capture = |lab: &Lab, isp: &str| {
        let directory = lab.directory(isp).unwrap();
        Capture::start(lab.namespace(isp).unwrap(), "a", &directory).unwrap()
    };
    let (at_isp1, at_isp2) = (capture(&hosts.lab, "isp1"), capture(&hosts.lab, "isp2"));
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 10_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 2_000_000);
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    assert!(transfer.finish().unwrap().complete);

    let unmoved = at_isp1.finish().unwrap();
    let packets_unmoved = packets(&unmoved);
    assert!(packets_unmoved.iter().filter(|p| next_header(p) == TCP).count() > 100);
    assert!(!packets_unmoved.into_iter().any(is_payload_header), "ISP 1 saw unmoved traffic only");

    let moved = at_isp2.finish().unwrap();
    let packets_moved = packets(&moved);
    let payload: Vec<_> = packets_moved.iter().filter(|p| is_payload_header(p)).collect();
    assert!(payload.len() > 100, "ISP 2 saw {} moved packets", payload.len());
    for packet in payload {
        assert_eq!((packet[40], packet[41]), (TCP, 0), "TCP behind 8 octets of header");
    }
    let longest = moved.iter().map(|frame| frame.length).max().unwrap();
    assert!(longest <= 14 + 1500, "{longest} octets in a frame");
    let bare = packets_moved.iter().filter(|packet| next_header(packet) == TCP).count();
    assert_eq!(bare, 0, "nothing takes ISP 2 with the wrong addresses");
}

#[test]
fn a_peer_without_moorline_is_asked_once_and_served_as_ever() {
    let Some(mut hosts) = protected("peer without", &["a"], &["tcpdump"]) else { return };
    let directory = hosts.lab.directory("isp1").unwrap();
    let capture = Capture::start(hosts.lab.namespace("isp1").unwrap(), "a", &directory).unwrap();
    let [client, server] = hosts.ends.clone();
    transfer(client.clone(), server.clone(), 8_000_000);
    let limit = Duration::from_secs(30);
    hosts.daemons[0].wait_for(&EventKind::PeerNoSupport, limit).unwrap();
    let asked = |frames: &[Frame]| {
        packets(frames).into_iter().filter(|packet| next_header(packet) == SHIM6).count()
    };
    let first = capture.finish().unwrap();
    assert!(asked(&first) >= 1, "it was asked");
    assert!(!packets(&first).into_iter().any(is_payload_header));

    let capture = Capture::start(hosts.lab.namespace("isp1").unwrap(), "a", &directory).unwrap();
    transfer(client, server, 4_000_000);
    let second = capture.finish().unwrap();
    assert_eq!(asked(&second), 0, "the answer is remembered");
    assert_eq!(hosts.daemons[0].status().unwrap().contexts.no_support, 1);
}

#[test]
fn a_killed_daemon_leaves_connections_alone_and_a_new_one_takes_over() {
    let Some(mut hosts) = protected("kill", &["a", "b"], &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 40_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    let more = |what: &str, octets: u64| {
        let now = transfer.arrivals().total();
        eventually(what, || transfer.arrivals().total() > now + octets);
    };
    more("before the kill", 1_000_000);
    hosts.daemons.remove(0).kill().unwrap();
    more("without a daemon on A", 4_000_000);
    let again = Daemon::start(&hosts.lab, "a", &daemon_options()).unwrap();
    more("with a new daemon on A", 4_000_000);
    hosts.daemons.insert(0, again);
    // The new daemon protects the connections that it found.
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    let ended = moorline_lab::interrupt::wait_for("the end", Duration::from_secs(40), || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{}", hosts.story());
    assert!(transfer.finish().unwrap().complete);
}

#[test]
fn a_moved_connection_goes_on_when_the_daemon_is_killed_and_restarted() {
    let Some(mut hosts) = protected("kill after the move", &["a", "b"], &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 40_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    for daemon in &mut hosts.daemons {
        daemon.wait_for(&EventKind::Moved, Duration::from_secs(10)).unwrap();
    }
    let more = |what: &str, octets: u64| {
        let now = transfer.arrivals().total();
        eventually(what, || transfer.arrivals().total() > now + octets);
    };
    more("after the move", 2_000_000);
    hosts.daemons.remove(0).kill().unwrap();
    more("without a daemon on A", 4_000_000);
    let again = Daemon::start(&hosts.lab, "a", &daemon_options()).unwrap();
    hosts.daemons.insert(0, again);
    more("with a new daemon on A", 4_000_000);
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
}

/// While the next daemon starts, the programs of the earlier run go on to count.
#[test]
fn traffic_that_may_have_no_context_has_none_from_one_run_to_the_next() {
    let Some(lab) = two_by_two("no context", &[]) else { return };
    if is_skipped("no context", &preflight::check_bpf()) {
        return;
    }
    let settings = "trigger-never = true\naddresses = \"off\"\n".to_owned();
    let options = DaemonOptions { settings, ..daemon_options() };
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    let ends = [endpoint(&lab, "a", 1), endpoint(&lab, "b", 1)];
    let direction = Direction::OneWay;
    let flow = UdpFlow::start(&UdpOptions { ends, direction, per_second: 4000, size: 1000 });
    let flow = flow.unwrap();
    let more = || {
        let now = flow.arrivals()[0].total();
        eventually("datagrams", || flow.arrivals()[0].total() > now + 100_000);
    };
    more();
    daemon.hand_over().unwrap();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    more();
    assert_eq!(daemon.contexts().unwrap(), [], "{}", daemon.log());
    flow.finish().unwrap();
}

#[test]
fn a_stopped_daemon_leaves_the_host_as_it_found_it() {
    let Some(lab) = two_by_two("restore", &[]) else { return };
    let host = lab.namespace("a").unwrap();
    let before = picture(host);
    for end in [Daemon::stop, Daemon::down] {
        let daemon = Daemon::start(&lab, "a", &daemon_options()).unwrap();
        daemon.verifiable_address("isp1").unwrap();
        assert_ne!(before, picture(host), "the daemon did something");
        end(daemon).unwrap();
        eventually("the host as before", || before == picture(host));
    }
}

/// Runs a second `moorlined` on host A, with its own control socket and BPF folder. Gives its standard error.
fn second_daemon(lab: &Lab, state: &Path, more: &[&str]) -> String {
    let host = lab.namespace("a").unwrap();
    let mut command = host.command(daemon_options().binary);
    command.arg("--state-dir").arg(state).arg("--socket").arg(state.with_extension("sock"));
    command.args(["--pin-dir", "/sys/fs/bpf/second"]).args(more);
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{state:?} {more:?}: a second daemon");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_second_daemon_touches_nothing_of_the_first() {
    let Some(lab) = two_by_two_open("second daemon", &[]) else { return };
    let first = Daemon::start(&lab, "a", &daemon_options()).unwrap();
    first.verifiable_address("isp1").unwrap();
    let host = lab.namespace("a").unwrap();
    let made = || {
        let commands: [&[&str]; 2] = [&["-6", "rule", "show"], &["-o", "link", "show"]];
        commands.map(|command| settled(&host.ip(command).unwrap()))
    };
    eventually("rules of both uplinks", || made()[0].len() >= 4);
    let before = made();
    let own = state_directory(&lab, "a").unwrap();
    let other = lab.directory("a").unwrap().join("other");
    let pid = format!("(pid {})", first.id());
    for (state, what) in [(&own, "state directory"), (&other, "network namespace")] {
        for more in [&["--config", "/dev/null"][..], &["--reset"]] {
            let said = second_daemon(&lab, state, more);
            assert!(said.contains(what) && said.contains(&pid), "{said}");
            assert!(said.contains("stop that one first"), "{said}");
            assert_eq!(made(), before, "{said}");
        }
    }
    // A daemon in another namespace with another state directory is independent.
    let neighbour = Daemon::start(&lab, "b", &daemon_options()).unwrap();
    // A killed daemon holds no lock.
    first.kill().unwrap();
    Daemon::start(&lab, "a", &daemon_options()).unwrap().stop().unwrap();
    neighbour.stop().unwrap();
}

/// Starts a daemon on A and returns when it has begun to change the host. The start takes some time more.
fn starting(lab: &Lab) -> Process {
    let (host, directory) = (lab.namespace("a").unwrap(), lab.directory("a").unwrap());
    let mut command = host.command(daemon_options().binary);
    command.arg("--socket").arg(directory.join("moorlined.sock"));
    command.arg("--state-dir").arg(state_directory(lab, "a").unwrap());
    // This process has its own /sys, and so its own pins.
    command.args(["--pin-dir", "/sys/fs/bpf/moorline", "--config", "/dev/null"]);
    let daemon = Process::start(&mut command, &directory.join("moorlined.log")).unwrap();
    eventually("a change", || host.ip(&["link", "show"]).unwrap().contains("moor1"));
    daemon
}

#[test]
fn a_daemon_that_is_told_to_stop_while_it_starts_leaves_the_host_as_it_found_it() {
    let Some(lab) = two_by_two_open("restore from the start", &[]) else { return };
    let host = lab.namespace("a").unwrap();
    let before = picture(host);
    for signals in [&[Signal::TERM][..], &[Signal::INT], &[Signal::HUP, Signal::INT]] {
        let mut daemon = starting(&lab);
        let pid = i32::try_from(daemon.id()).ok().and_then(Pid::from_raw).unwrap();
        signals.iter().for_each(|signal| kill_process(pid, *signal).unwrap());
        let mut status = None;
        eventually("the end", || {
            status = daemon.poll().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0), "{signals:?}: {}", daemon.log());
        if signals.contains(&Signal::TERM) {
            assert_ne!(before, picture(host), "all stays in place");
            Daemon::reset(&lab, "a", &daemon_options()).unwrap();
        }
        eventually("the host as before", || before == picture(host));
    }
}

/// All settings that a daemon may change.
fn picture(host: &Namespace) -> ([Vec<String>; 5], BTreeMap<String, String>) {
    let commands: [&[&str]; 5] = [
        &["-o", "link", "show"],
        &["-6", "-o", "addr", "show", "scope", "global"],
        &["-6", "rule", "show"],
        &["-6", "route", "show", "table", "all"],
        &["-6", "neigh", "show", "proxy"],
    ];
    (commands.map(|command| settled(&host.ip(command).unwrap())), controls(host))
}

/// Every system control of the uplinks.
fn controls(host: &Namespace) -> BTreeMap<String, String> {
    let read = || {
        let mut found = BTreeMap::new();
        for isp in ["isp1", "isp2"] {
            for entry in std::fs::read_dir(format!("/proc/sys/net/ipv6/conf/{isp}"))? {
                let path = entry?.path();
                // Some system controls cannot be read before they are set.
                if let Ok(value) = std::fs::read_to_string(&path) {
                    found.insert(path.display().to_string(), value);
                }
            }
        }
        Ok(found)
    };
    host.enter(read).unwrap()
}

/// Sorted lines, without routes that change by themselves.
fn settled(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(|line| line.trim().to_owned()).collect();
    lines.retain(|line| !line.contains("multicast ff00::/8") && !line.contains("fe80::"));
    lines.sort();
    lines
}
