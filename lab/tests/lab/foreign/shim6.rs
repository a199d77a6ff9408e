//! A peer with Shim6 by RFC 5533, 5534 and 5535.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_api::EventKind;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::ISPS;
use moorline_lab::{Failure, Lab};
use moorline_sim::{Conditions, recovery_bound};
use serde_json::{Value, json};

use super::{PORT, goes_on, has_no_faults, leave_to_the_peer, network, number, told, uplinks};
use crate::common::script::Script;
use crate::common::{daemon_options, eventually, story};

/// In seconds.
const PEER_SEND_TIMEOUT: u64 = 3;

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
    /// Starts datagrams to the peer and back, and waits until both hosts know two locators of each other. Host A has
    /// an HBA set, as the peer reads no signatures.
    fn start(test: &str, send_timeout: Duration) -> Option<Self> {
        Self::start_with(test, send_timeout, "hba")
    }

    /// Gives host A addresses of this kind.
    fn start_with(test: &str, send_timeout: Duration, addresses: &str) -> Option<Self> {
        let lab = network(test)?;
        let settings = format!("addresses = \"{addresses}\"");
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
        assert!(has_no_faults(&peer), "{peer}\n{}", story(&mut self.daemons));
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

/// The peer's daemon is gone for a moment while the context is moved. Its kernel answers for it.
#[test]
fn a_context_that_has_moved_outlives_a_peer_whose_daemon_is_gone_for_a_moment() {
    let test = "a peer of RFC 5533 whose daemon is gone";
    let timeout = Duration::from_secs(PEER_SEND_TIMEOUT);
    let Some(mut shim6) = Shim6::start(test, timeout) else { return };
    shim6.leave_isp1();
    shim6.peer.ask("gone");
    eventually("errors of the kernel", || number(&mut shim6.peer, "unknown") > 20);
    shim6.peer.ask("back");
    goes_on(&mut shim6.client, "answers after the daemon is back");
    let moved = number(&mut shim6.peer, "moved");
    eventually("payload by the other ISP", || number(&mut shim6.peer, "moved") > moved + 20);
    shim6.check();
}

/// RFC 5533 s5.14 and s7.2: the pointer shows the verification method.
#[test]
fn a_locator_outside_the_set_of_a_peer_is_answered_with_error_2_and_is_not_taken() {
    let test = "a peer of RFC 5533 with a locator outside its set";
    let timeout = Duration::from_secs(PEER_SEND_TIMEOUT);
    let Some(mut shim6) = Shim6::start(test, timeout) else { return };
    let known = shim6.daemons[0].contexts().unwrap()[0].peer_locators.clone();
    shim6.peer.ask("outside");
    eventually("an Error", || told(&mut shim6.peer)["errors"] != json!([]));
    let peer = shim6.check();
    // Two members of the set come before the locator.
    assert_eq!(peer["errors"], json!([[2, 2]]), "{}", story(&mut shim6.daemons));
    assert_eq!(shim6.daemons[0].contexts().unwrap()[0].peer_locators, known);
    goes_on(&mut shim6.client, "answers after the Error");
}

/// Host A gets another prefix, whose address a signature binds to the set. The peer takes no list with both. Then the
/// address at ISP 2 goes.
fn removes_an_address_after_a_list_that_the_peer_does_not_take(test: &str, word: &str) {
    let timeout = Duration::from_secs(PEER_SEND_TIMEOUT);
    let started = Shim6::start_with(test, timeout, "hba-compatible");
    let Some(mut shim6) = started else { return };
    shim6.peer.ask(word);
    let [stays, goes] = ["isp1", "isp2"].map(|isp| {
        let address = shim6.daemons[0].verifiable_address(isp).unwrap();
        address.to_string()
    });
    let a = shim6.lab.namespace("a").unwrap();
    a.ip(&["addr", "add", "2001:db8:a3::a/64", "dev", "isp1", "nodad"]).unwrap();
    eventually("a list with both", || number(&mut shim6.peer, "mixed") > 0);
    a.ip(&["addr", "del", &format!("{goes}/64"), "dev", "isp2"]).unwrap();
    eventually("the removal at the peer", || told(&mut shim6.peer)["locators"] == json!([stays]));
    goes_on(&mut shim6.client, "answers after the removal");
    shim6.check();
}

#[test]
fn a_peer_that_never_acknowledges_a_list_learns_of_a_removal() {
    let test = "a peer of RFC 5533 that never acknowledges a list";
    removes_an_address_after_a_list_that_the_peer_does_not_take(test, "ignore");
}

#[test]
fn a_peer_that_refuses_a_list_with_error_2_learns_of_a_removal() {
    let test = "a peer of RFC 5533 that refuses a list";
    removes_an_address_after_a_list_that_the_peer_does_not_take(test, "refuse");
}
