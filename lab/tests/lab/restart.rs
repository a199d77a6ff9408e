//! Daemons that are killed and restarted, or hand over as for an upgrade, with a thousand contexts. Needs root, BPF and
//! a built `moorlined`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Ipv6Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::route_monitor::RouteMonitor;
use crate::common::sites::{Chatter, Sites, established};
use crate::common::{
    await_standby, daemon_options, eventually, is_skipped, protected, story, two_by_two,
};
use moorline_api::{BlockingClient, Client, MAX_PAGE, Pair, Scope, SwitchRequest};
use moorline_lab::daemon::{Daemon, DaemonOptions, state_directory};
use moorline_lab::topology::{HOSTS, host_address};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Failure, Lab, preflight};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// Each host has 32 addresses, so two hosts have 1,024 pairs.
const SITES: Sites = Sites(16);

/// Starts some connections beside the datagrams.
fn transfers(lab: &Lab, ours: &[Ipv6Addr], theirs: &[Ipv6Addr]) -> Vec<TcpTransfer> {
    let end =
        |host: &str, address| Endpoint { namespace: lab.namespace(host).unwrap().clone(), address };
    // One connection of every kind: with both ends at ISP 1, with one, with none.
    let last = SITES.addresses() - 1;
    let pairs = [(0, 0), (last, 0), (0, last), (last, last)];
    let start = |(our, their): (usize, usize)| {
        let (client, server) = (end("a", ours[our]), end("b", theirs[their]));
        let sender = if our == 0 { Sender::Server } else { Sender::Client };
        let options = TcpOptions { client, server, sender, bytes: u64::MAX, rate: 200_000 };
        TcpTransfer::start(&options).unwrap()
    };
    pairs.map(start).into()
}

fn bytes_go_on(transfers: &[TcpTransfer], what: &str) {
    for transfer in transfers {
        let now = transfer.arrivals().total();
        eventually(what, || transfer.arrivals().total() > now + 200_000);
    }
}

/// Way in which a daemon ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    HandedOver,
    /// Like `HandedOver`, and the next daemon is of a version with another layout of the tables.
    Upgraded,
}

/// Folders with the Shim6 pins of a host's daemon, one for each layout of the tables.
fn layouts(lab: &Lab, host: &str) -> Vec<PathBuf> {
    let pins = lab.directory(host).unwrap().join("bpf/moorline");
    let found = fs::read_dir(pins).unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        name.starts_with("layout-") && name != "layout-ilnp"
    };
    found.filter(is_ours).collect()
}

/// Renames the pins of a host's daemon, so that they look like pins of another version.
fn make_pins_older(lab: &Lab, host: &str) {
    let ours = layouts(lab, host);
    assert_eq!(ours.len(), 1, "{ours:?}");
    fs::rename(&ours[0], ours[0].with_file_name("layout-0000000000000000")).unwrap();
}

/// Restarts the daemon of a host. The new daemon must have every context at once.
fn again(lab: &Lab, daemons: &mut Vec<Daemon>, host: usize, end: End) {
    let before = established(&daemons[host]);
    let daemon = daemons.remove(host);
    match end {
        End::Killed => daemon.kill().unwrap(),
        End::HandedOver => daemon.hand_over().unwrap(),
        End::Upgraded => {
            daemon.hand_over().unwrap();
            make_pins_older(lab, HOSTS[host]);
        }
    }
    let daemon = Daemon::start(lab, HOSTS[host], &SITES.options(HOSTS[host])).unwrap();
    let after = established(&daemon);
    daemons.insert(host, daemon);
    let lost = before.difference(&after).count();
    assert_eq!(lost, 0, "{end:?}: {lost} of {} contexts\n{}", before.len(), story(daemons));
}

#[test]
fn a_thousand_contexts_outlive_their_daemons_and_move_afterwards() {
    let mut reasons = preflight::check(&[]);
    reasons.extend(preflight::check_bpf());
    if is_skipped("a thousand contexts", &reasons) {
        return;
    }
    let lab = Lab::build(SITES.topology()).unwrap();
    let mut daemons: Vec<_> =
        HOSTS.iter().map(|host| Daemon::start(&lab, host, &SITES.options(host)).unwrap()).collect();
    let [ours, theirs] = [0, 1].map(|host: usize| SITES.addresses_of(&daemons[host]));
    let transfers = transfers(&lab, &ours, &theirs);
    let chatter = Chatter::start(&lab, &ours, &theirs);
    for daemon in &daemons {
        eventually("contexts", || established(daemon).len() == SITES.addresses().pow(2));
    }
    chatter.goes_on("before");

    again(&lab, &mut daemons, 0, End::Killed);
    again(&lab, &mut daemons, 1, End::HandedOver);
    chatter.goes_on("after the restarts");
    bytes_go_on(&transfers, "after the restarts");

    // The new daemons protect the contexts that they found.
    lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    chatter.goes_on("after the cut");
    bytes_go_on(&transfers, "after the cut");
    let moved = daemons[0].status().unwrap().contexts.moved;
    assert!(moved >= 700, "three of four pairs have an end at ISP 1: {moved} have moved");

    again(&lab, &mut daemons, 0, End::HandedOver);
    again(&lab, &mut daemons, 1, End::Killed);
    chatter.goes_on("moved, after the restarts");
    bytes_go_on(&transfers, "moved, after the restarts");
    again(&lab, &mut daemons, 0, End::Upgraded);
    let left = layouts(&lab, HOSTS[0]);
    assert!(left.len() == 1 && !left[0].ends_with("layout-0000000000000000"), "{left:?}");
    chatter.goes_on("moved, after an upgrade");
    bytes_go_on(&transfers, "moved, after an upgrade");
    chatter.finish();
    // The transfers check octets as they arrive.
    for transfer in transfers {
        transfer.abandon().unwrap();
    }
}

/// A file of contexts as an earlier run on A writes it. Each context has its own peer and sends by `sends_by`.
fn contexts_file(count: u32, sends_by: u16) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let [one, two] = [1, 2].map(|isp| host_address("a", isp));
    let current = host_address("a", sends_by);
    let context = |id: u32| {
        let [a, b, c, d] = (id + 1).to_be_bytes();
        let tag = format!("[0,0,{a},{b},{c},{d}]");
        let peer = format!("{PEERS}{:x}::{:x}", id >> 16, id & 0xffff);
        format!(
            r#"{{"id":{id},"key":{{"ulids":{{"local":"{one}","peer":"{peer}"}},"forked_instance":0}},
            "local_tag":{tag},"peer_tag":{tag},"locators":{{"local":"{current}","peer":"{peer}"}},
            "local_locators":["{one}","{two}"],"peer":{{"locators":["{peer}"],"listed":0,"generation":null,
            "send_timeout":60000,"preferences":[]}},"told_preferences":false,"role":"Initiator"}}"#
        )
    };
    let contexts: Vec<_> = (0..count).map(context).collect();
    format!(r#"{{"boot_id":"{}","contexts":[{}]}}"#, boot.trim(), contexts.join(","))
}

/// A file of up to 2 MiB is taken over before READY=1. If each pair of contexts cost a step, the start would take longer
/// than the lab waits.
#[test]
fn thousands_of_contexts_of_the_run_before_are_there_when_the_daemon_answers() {
    let Some(lab) = two_by_two("a file of contexts", &[]) else { return };
    if is_skipped("a file of contexts", &preflight::check_bpf()) {
        return;
    }
    let settings = "addresses = \"off\"\n".to_owned();
    let options = DaemonOptions::new(MINUTE, settings).unwrap();
    Daemon::start(&lab, "a", &options).unwrap().hand_over().unwrap();
    let file = state_directory(&lab, "a").unwrap().join("contexts.json");
    // In the second run, the tables have more contexts than the file.
    for count in [4096, 2048] {
        fs::write(&file, contexts_file(count, 1)).unwrap();
        let daemon = Daemon::start(&lab, "a", &options).unwrap();
        let known = daemon.status().unwrap().contexts.established;
        assert_eq!(known, u64::from(count), "{}", daemon.log());
        daemon.hand_over().unwrap();
    }
}

/// A daemon with thousands of contexts answers no request with more than a page, whatever the request says.
#[test]
fn no_answer_of_a_daemon_with_thousands_of_contexts_is_longer_than_a_page() {
    let Some(lab) = two_by_two("a page of contexts", &[]) else { return };
    if is_skipped("a page of contexts", &preflight::check_bpf()) {
        return;
    }
    let settings = "addresses = \"off\"\n".to_owned();
    let options = DaemonOptions::new(MINUTE, settings).unwrap();
    Daemon::start(&lab, "a", &options).unwrap().hand_over().unwrap();
    let count = u32::try_from(2 * MAX_PAGE + 1).unwrap();
    let file = state_directory(&lab, "a").unwrap().join("contexts.json");
    fs::write(file, contexts_file(count, 1)).unwrap();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    let socket = lab.directory("a").unwrap().join("moorlined.sock");
    let ask = |request: &str, body: &str| answer(&socket, request, body);

    for query in ["", "?limit=100000"] {
        let contexts = ask(&format!("GET /v1/contexts{query}"), "");
        assert_eq!(contexts.as_array().unwrap().len(), MAX_PAGE);
        let paths = ask(&format!("GET /v1/paths{query}"), "");
        assert_eq!(paths["contexts"].as_array().unwrap().len(), MAX_PAGE);
        let unpinned = ask(&format!("POST /v1/paths/unpin{query}"), r#"{"scope":"all"}"#);
        assert_eq!(unpinned["outcomes"].as_array().unwrap().len(), MAX_PAGE);
        assert_eq!(unpinned["next"], MAX_PAGE - 1);
    }
    let last = format!("POST /v1/paths/unpin?after={}", 2 * MAX_PAGE - 1);
    let last = ask(&last, r#"{"scope":"all"}"#);
    assert_eq!((last["outcomes"].as_array().unwrap().len(), last.get("next")), (1, None));

    let client = BlockingClient::new(Client::new(&socket)).unwrap();
    assert_eq!(client.contexts().unwrap().len(), count as usize);
    let pair = |at: u16, peer: &str| Pair::new(host_address("a", at), peer.parse().unwrap());
    let switch = |pair| client.switch(&SwitchRequest { scope: Scope::All, pair: Some(pair) });
    // The context that has the pair is on the third page of all contexts.
    let peer = format!("{PEERS}0::{:x}", 2 * MAX_PAGE);
    let switched = switch(pair(1, &peer)).unwrap();
    assert_eq!(switched.outcomes.iter().map(|one| one.context).collect::<Vec<_>>(), [count - 1]);
    switch(pair(1, "2001:db8::1")).unwrap_err();
    daemon.hand_over().unwrap();
}

/// The body of the daemon's answer.
fn answer(socket: &Path, request: &str, body: &str) -> serde_json::Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(stream, "{request} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// A larger file is taken over after READY=1, in slices.
#[test]
fn many_contexts_of_the_run_before_come_while_the_daemon_answers_and_none_is_lost() {
    let Some(lab) = two_by_two("a large file of contexts", &[]) else { return };
    if is_skipped("a large file of contexts", &preflight::check_bpf()) {
        return;
    }
    let settings = "addresses = \"off\"\n".to_owned();
    let options = DaemonOptions::new(MINUTE, settings).unwrap();
    Daemon::start(&lab, "a", &options).unwrap().hand_over().unwrap();
    let state = state_directory(&lab, "a").unwrap();
    let count = 24_576;
    fs::write(state.join("contexts.json"), contexts_file(count, 2)).unwrap();
    // The first daemons end in the middle: while a thread reads the file, and between slices.
    Daemon::start(&lab, "a", &options).unwrap().hand_over().unwrap();
    Daemon::start(&lab, "a", &options).unwrap().kill().unwrap();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    eventually("the first slice", || daemon.status().unwrap().contexts.established > 0);
    daemon.hand_over().unwrap();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    let is_told = |told: &[String]| told.iter().any(|warning| warning.contains("run before"));
    eventually("all contexts", || {
        let status = daemon.status().unwrap();
        let is_told = is_told(&status.warnings);
        let there = status.contexts.established;
        let is_all = there == u64::from(count);
        assert!(is_all || is_told, "{there} contexts, and none is to come\n{}", daemon.log());
        is_all
    });
    eventually("the end of the takeover", || !is_told(&daemon.status().unwrap().warnings));
    assert_eq!(daemon.status().unwrap().contexts.moved, u64::from(count), "{}", daemon.log());
    daemon.hand_over().unwrap();
}

/// Adds contexts whose peers do not exist to the file that a daemon has written.
fn add_contexts(file: &Path, count: u64) {
    let text = fs::read_to_string(file).unwrap();
    let (json, _) = text.split_once("\nsha256 ").unwrap();
    let mut saved: serde_json::Value = serde_json::from_str(json).unwrap();
    let all = saved["contexts"]["all"].as_array_mut().unwrap();
    let next = all.iter().filter_map(|one| one["id"].as_u64()).max().unwrap() + 1;
    all.extend((next..next + count).map(|id| {
        let peer = format!("{PEERS}{:x}::{:x}", id >> 16, id & 0xffff);
        serde_json::json!({"id": id, "peer": [peer], "tags": format!("{id:012x}{id:012x}")})
    }));
    fs::write(file, saved.to_string()).unwrap();
}

#[test]
fn a_connection_leaves_an_isp_that_dies_while_contexts_are_taken_over() {
    let Some(mut hosts) = protected("a cut in a takeover", &HOSTS, &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: u64::MAX, rate: 200_000 };
    let transfers = [TcpTransfer::start(&options).unwrap()];
    hosts.await_context();
    await_standby(&hosts.lab);
    hosts.daemons.remove(0).hand_over().unwrap();
    let count = 49_152;
    add_contexts(&state_directory(&hosts.lab, "a").unwrap().join("contexts.json"), count);
    let daemon = Daemon::start(&hosts.lab, "a", &daemon_options()).unwrap();
    let is_going_on = || {
        let warnings = daemon.status().unwrap().warnings;
        warnings.iter().any(|warning| warning.contains("run before"))
    };
    assert!(is_going_on(), "{}", daemon.log());
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    bytes_go_on(&transfers, "octets after the cut");
    eventually("the end of the takeover", || !is_going_on());
    assert_eq!(daemon.status().unwrap().contexts.established, count + 1, "{}", daemon.log());
    bytes_go_on(&transfers, "octets after the takeover");
    daemon.hand_over().unwrap();
    for transfer in transfers {
        transfer.abandon().unwrap();
    }
}

/// Each change of a route makes every socket of the host look up its route again, and the daemon does not answer
/// meanwhile.
#[test]
fn of_what_has_moved_a_restart_changes_no_route() {
    let name = "restart with moved contexts";
    let Some(lab) = two_by_two(name, &[]) else { return };
    if is_skipped(name, &preflight::check_bpf()) {
        return;
    }
    let count = 1024;
    let settings = "addresses = \"off\"\n".to_owned();
    let options = DaemonOptions::new(MINUTE, settings).unwrap();
    Daemon::start(&lab, "a", &options).unwrap().hand_over().unwrap();
    let file = state_directory(&lab, "a").unwrap().join("contexts.json");
    fs::write(&file, contexts_file(count, 2)).unwrap();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    let host = lab.namespace("a").unwrap();
    let routes = || {
        let all = host.ip(&["-6", "route", "show", "table", "all"]).unwrap();
        all.lines().filter(|line| line.contains(PEERS)).count()
    };
    // Routes of each context: by `moor0`, by the uplink, and for bound sockets.
    eventually("routes", || routes() == 3 * count as usize);
    daemon.hand_over().unwrap();
    let monitor = RouteMonitor::start(&lab, "a");
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    assert_eq!(daemon.status().unwrap().contexts.moved, u64::from(count), "{}", daemon.log());
    let told = monitor.told_until_now();
    let changed = told.lines().filter(|line| line.contains(PEERS)).count();
    assert_eq!(changed, 0, "routes were changed\n{}", daemon.log());
    daemon.hand_over().unwrap();
}

/// A small file system in memory, in place of a folder.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: PathBuf) -> Self {
        fs::create_dir_all(&place).unwrap();
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), Some(c"size=1m,mode=700")).unwrap();
        Self(place)
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// A daemon that cannot write goes on with the state of the earlier run, and follows changes: all of its changes bear
/// marks.
#[test]
fn a_daemon_goes_on_with_a_full_disk() {
    let name = "restart with a full disk";
    let Some(lab) = two_by_two(name, &[]) else { return };
    if is_skipped(name, &preflight::check_bpf()) {
        return;
    }
    let disk = SmallDisk::mount(state_directory(&lab, "a").unwrap());
    let options = DaemonOptions::new(MINUTE, "").unwrap();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    let host = lab.namespace("a").unwrap();
    let addresses = || {
        let shown = host.ip(&["-6", "-o", "addr", "show", "scope", "global"]).unwrap();
        let words = shown.lines().filter_map(|line| line.split_whitespace().nth(3));
        words.map(ToOwned::to_owned).collect::<BTreeSet<_>>()
    };
    eventually("addresses of both uplinks", || addresses().len() >= 4);
    daemon.hand_over().unwrap();
    disk.fill();
    host.ip(&["addr", "add", "2001:db8:a7::a/64", "dev", "isp1", "nodad"]).unwrap();
    let before = addresses();
    let daemon = Daemon::start(&lab, "a", &options).unwrap();
    assert!(addresses().is_superset(&before), "{before:?}, and now {:?}", addresses());
    let has_rule = || host.ip(&["-6", "rule"]).unwrap().contains("from 2001:db8:a7::/64");
    eventually("the rule of the new prefix", has_rule);
    disk.make_room();
    eventually("no warning", || daemon.status().unwrap().warnings.is_empty());
    daemon.hand_over().unwrap();
}

/// Prefix of the addresses of peers that do not exist.
const PEERS: &str = "2001:db8:ffff:";
/// Send Timeout of contexts whose peers do not exist.
const MINUTE: Duration = Duration::from_secs(60);
