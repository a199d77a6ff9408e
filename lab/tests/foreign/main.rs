//! Peers that are not ours, made of raw sockets by the RFCs. Needs root, BPF, python3 and a built `moorlined`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::net::Ipv6Addr;
use std::time::Duration;

use common::script::Script;
use common::{
    Protected, daemon_options, eventually, is_skipped, prefer, story, two_by_two, with_ilnp,
};
use moorline_api::EventKind;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::{ISPS, host_address};
use moorline_lab::{Failure, Lab, preflight};
use moorline_sim::{Conditions, recovery_bound};
use serde_json::{Value, json};

const PORT: &str = "7000";
/// In seconds.
const PEER_SEND_TIMEOUT: u64 = 3;

/// The network of the demo; none, said aloud, where a lab cannot run.
fn network(test: &str) -> Option<Lab> {
    let lab = two_by_two(test, &["python3"])?;
    (!is_skipped(test, &preflight::check_bpf())).then_some(lab)
}

/// Each uplink of host B, and its static address there.
fn uplinks() -> [String; 2] {
    [(0, 1), (1, 2)].map(|(index, isp)| format!("{}={}", ISPS[index], host_address("b", isp)))
}

/// What a script says of what happened so far.
fn told(script: &mut Script) -> Value {
    serde_json::from_str(&script.step()).unwrap()
}

fn number(script: &mut Script, name: &str) -> u64 {
    told(script)[name].as_u64().unwrap()
}

/// More answers come than there were before.
fn goes_on(script: &mut Script, what: &str) {
    let before = number(script, "answered");
    eventually(what, || number(script, "answered") > before + 20);
}

/// Has the kernel of host B resolve these addresses for its neighbors and leave all else to the peer that has them.
fn leave_to_the_peer(lab: &Lab, addresses: &[Ipv6Addr]) {
    let set = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let rules = format!(
        "create table ip6 peer\n\
         add chain ip6 peer input {{ type filter hook input priority -10; }}\n\
         add rule ip6 peer input icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept\n\
         add rule ip6 peer input ip6 daddr {{ {set} }} drop\n"
    );
    lab.namespace("b").unwrap().nft(&rules).unwrap();
}

/// Host A, and a peer with Shim6 by the RFCs in host B.
struct Shim6 {
    /// Before the lab, so that they end before it goes.
    daemons: Vec<Daemon>,
    peer: Script,
    client: Script,
    options: DaemonOptions,
    lab: Lab,
}

impl Shim6 {
    /// Starts datagrams to the peer and back, and waits until both hosts know two locators of each other.
    fn start(test: &str, send_timeout: Duration) -> Option<Self> {
        let lab = network(test)?;
        // The peer reads no signatures.
        let settings = "addresses = \"hba\"".to_owned();
        let options = DaemonOptions { send_timeout, settings, ..daemon_options() };
        let [first, second] = uplinks();
        let timeout = PEER_SEND_TIMEOUT.to_string();
        let mut peer =
            Script::start(&lab, "b", "shim6_peer.py", &[PORT, &timeout, &first, &second]);
        let addresses: Vec<Ipv6Addr> = serde_json::from_str(&peer.line()).unwrap();
        for (isp, address) in ISPS.iter().zip(&addresses) {
            let address = format!("{address}/64");
            let add = ["addr", "add", &address, "dev", isp, "nodad"];
            lab.namespace("b").unwrap().ip(&add).unwrap();
        }
        leave_to_the_peer(&lab, &addresses);
        let mut daemon = Daemon::start(&lab, "a", &options).unwrap();
        let ulids = [daemon.verifiable_address("isp1").unwrap(), addresses[0]];
        let [local, remote] = ulids.map(|ulid| ulid.to_string());
        let mut client = Script::start(&lab, "a", "raw.py", &["ask", &local, &remote, PORT]);
        daemon.wait_for(&EventKind::ContextEstablished, Duration::from_secs(60)).unwrap();
        eventually("two locators of each", || {
            daemon.contexts().unwrap()[0].peer_locators.len() == 2
                && told(&mut peer)["locators"].as_array().unwrap().len() == 2
        });
        goes_on(&mut client, "answers of the peer");
        Some(Self { daemons: vec![daemon], peer, client, options, lab })
    }

    /// ISP 1 falls silent, and the datagrams go on by ISP 2.
    fn leave_isp1(&mut self) {
        self.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
        eventually("payload by the other ISP", || number(&mut self.peer, "moved") > 20);
        goes_on(&mut self.client, "answers by the other ISP");
    }

    /// All that the peer has read is by the RFCs, and no Probe Operational without a report of its probes ended its
    /// exploration.
    fn check(&mut self) -> Value {
        let peer = told(&mut self.peer);
        let faults = peer["faults"].as_object().unwrap();
        assert!(faults.values().all(|count| *count == 0), "{peer}\n{}", story(&mut self.daemons));
        assert_eq!(peer["handshakes"], 1, "{peer}");
        peer
    }
}

/// How long payload may stand still by the timers of RFC 5534. One of the two explores after the peer's Send Timeout.
fn promised() -> Duration {
    recovery_bound(&Conditions {
        send_timeout: Duration::from_secs(PEER_SEND_TIMEOUT),
        one_way: Duration::ZERO,
        gap: Duration::from_millis(50),
        report_delay: Duration::ZERO,
        pairs: 4,
        both_ways: 1,
        one_direction: 1,
        exploring: Duration::ZERO,
        losses: 0,
    })
}

/// Returns what the peer says in the end.
fn leaves_a_silent_isp(test: &str, send_timeout: Duration) -> Option<Value> {
    let mut shim6 = Shim6::start(test, send_timeout)?;
    eventually("a check that the peer refuses", || number(&mut shim6.peer, "refused") > 0);
    shim6.leave_isp1();
    let peer = shim6.check();
    let client = told(&mut shim6.client);
    let silence = client["longest"].as_f64().unwrap();
    assert!(silence < promised().as_secs_f64(), "{client}\n{peer}");
    Some(peer)
}

#[test]
fn a_context_with_a_peer_of_rfc_5533_leaves_an_isp_that_falls_silent() {
    leaves_a_silent_isp("a peer of RFC 5533", Duration::from_secs(PEER_SEND_TIMEOUT));
}

#[test]
fn the_exploration_of_a_peer_with_the_shorter_send_timeout_finds_the_other_isp() {
    let test = "a peer of RFC 5533, which explores first";
    let Some(peer) = leaves_a_silent_isp(test, Duration::from_secs(15)) else { return };
    assert!(peer["explorations"].as_u64().unwrap() > 0, "{peer}");
}

#[test]
fn a_context_that_has_moved_with_a_peer_of_rfc_5533_outlives_a_daemon_that_is_killed() {
    let test = "a peer of RFC 5533, and a daemon that is killed";
    let Some(mut shim6) = Shim6::start(test, Duration::from_secs(PEER_SEND_TIMEOUT)) else {
        return;
    };
    shim6.leave_isp1();
    shim6.daemons.remove(0).kill().unwrap();
    goes_on(&mut shim6.client, "answers without a daemon");
    shim6.daemons.push(Daemon::start(&shim6.lab, "a", &shim6.options).unwrap());
    let contexts = shim6.daemons[0].contexts().unwrap();
    assert!(contexts.iter().all(|one| one.moved) && contexts.len() == 1, "{contexts:?}");
    goes_on(&mut shim6.client, "answers after the restart");
    shim6.check();
}

/// Where the traffic goes that host A sends, from its own address at one ISP to the peer's.
fn pair(from: u16, to: u16) -> Value {
    json!([host_address("a", from), host_address("b", to)])
}

/// Datagrams without nonce reach the socket from there to there, and are answered.
fn goes_on_bare(hosts: &mut Protected, peer: &mut Script, pair: &Value) {
    eventually("answers to datagrams without nonce", || {
        let told = told(peer);
        told["bare"].as_u64().unwrap() > 20 && told["last"] == *pair
    });
    let peer = told(peer);
    let faults = peer["faults"].as_object().unwrap();
    assert!(faults.values().all(|count| *count == 0), "{peer}\n{}", hosts.story());
}

/// Starts a peer with ILNP by the RFCs in host B, which speaks to a socket of host A.
fn ilnp_peer(lab: &Lab) -> Script {
    let [first, second] = uplinks();
    let a = host_address("a", 1).to_string();
    let arguments = [PORT, &a, PORT, &first, &second];
    let mut peer = Script::start(lab, "b", "ilnp_peer.py", &arguments);
    assert_eq!(peer.line(), "ready");
    peer
}

/// The session of host A with a peer of which the test is told, and a socket that sends back what comes.
fn ilnp(test: &str) -> Option<(Script, Script, Protected)> {
    let mut hosts = with_ilnp(test, &["python3"], [Some(""), None])?;
    leave_to_the_peer(&hosts.lab, &[1, 2].map(|isp| host_address("b", isp)));
    let [a, b] = ["a", "b"].map(|host| host_address(host, 1).to_string());
    let mut server = Script::start(&hosts.lab, "a", "raw.py", &["echo", &a, PORT, &b, PORT]);
    assert_eq!(server.line(), "ready");
    let mut peer = ilnp_peer(&hosts.lab);
    // Our own handshake is tried for 3.5 s.
    hosts.daemons[0].wait_for(&EventKind::SessionEstablished, Duration::from_secs(60)).unwrap();
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 1));
    Some((server, peer, hosts))
}

#[test]
fn a_session_with_a_peer_of_rfc_6740_goes_on_when_either_end_moves() {
    let Some((_server, mut peer, mut hosts)) = ilnp("a peer of RFC 6740") else { return };
    peer.ask("move");
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 2));
    hosts.daemons[0].rule(&prefer("isp2")).unwrap();
    goes_on_bare(&mut hosts, &mut peer, &pair(2, 2));
    // RFC 6744 s4: the peer drops packets without nonce from a locator that it has not read of.
    let updates = &told(&mut peer)["updates"];
    assert_eq!(updates[0][0], json!(host_address("a", 1)), "from the old locator first: {updates}");
}

#[test]
fn a_peer_of_rfc_6740_that_begins_anew_with_another_nonce_is_taken_back() {
    let test = "a peer of RFC 6740 that begins anew";
    let Some((_server, peer, mut hosts)) = ilnp(test) else { return };
    drop(peer);
    let mut peer = ilnp_peer(&hosts.lab);
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 1));
}
