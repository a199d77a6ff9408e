//! A peer with ILNPv6 by RFC 6740 to 6744.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_api::{Event, EventKind};
use moorline_lab::Lab;
use moorline_lab::topology::{ISPS, gateway_address, host_address};
use serde_json::{Value, json};

use super::{PORT, goes_on, has_no_faults, leave_to_the_peer, number, told, uplinks};
use crate::common::script::Script;
use crate::common::{Protected, eventually, prefer, with_ilnp};

/// Where the traffic goes that host A sends, from its own address at one ISP to the peer's.
fn pair(from: u16, to: u16) -> Value {
    json!([host_address("a", from), host_address("b", to)])
}

/// Packets without nonce reach the socket from there to there, and are answered.
fn goes_on_bare(hosts: &mut Protected, peer: &mut Script, pair: &Value) {
    eventually("answers to packets without nonce", || {
        let told = told(peer);
        told["bare"].as_u64().unwrap() > 20 && told["last"] == *pair
    });
    check(hosts, peer);
}

/// Returns what the peer says.
fn check(hosts: &mut Protected, peer: &mut Script) -> Value {
    let peer = told(peer);
    assert!(has_no_faults(&peer), "{peer}\n{}", hosts.story());
    peer
}

/// Starts a peer with ILNP by the RFCs in host B, which speaks to a socket of host A.
fn ilnp_peer(lab: &Lab, transport: &str, to: Ipv6Addr) -> Script {
    ilnp_peer_at(lab, transport, to, &uplinks())
}

/// Starts such a peer at these uplinks.
fn ilnp_peer_at(lab: &Lab, transport: &str, to: Ipv6Addr, uplinks: &[String]) -> Script {
    let to = to.to_string();
    let arguments = [transport, PORT, &to, PORT].into_iter();
    let arguments: Vec<_> = arguments.chain(uplinks.iter().map(String::as_str)).collect();
    let mut peer = Script::start(lab, "b", "ilnp_peer.py", &arguments);
    assert_eq!(peer.line(), "ready");
    peer
}

/// The session of host A with a peer of which the test is told, and a socket that sends back what comes.
fn ilnp(test: &str, transport: &str) -> Option<(Script, Script, Protected)> {
    let mut hosts = with_ilnp(test, &["python3"], [Some(""), None])?;
    leave_to_the_peer(&hosts.lab, &[1, 2].map(|isp| host_address("b", isp)));
    let [a, b] = ["a", "b"].map(|host| host_address(host, 1).to_string());
    let udp = ["echo", &a, PORT, &b, PORT];
    let arguments = if transport == "tcp" { &["serve", &a, PORT][..] } else { &udp };
    let mut server = Script::start(&hosts.lab, "a", "raw.py", arguments);
    assert_eq!(server.line(), "ready");
    let mut peer = ilnp_peer(&hosts.lab, transport, host_address("a", 1));
    // Our own handshake is tried for 3.5 s.
    hosts.daemons[0].wait_for(&EventKind::SessionEstablished, Duration::from_secs(60)).unwrap();
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 1));
    Some((server, peer, hosts))
}

fn goes_on_when_either_end_moves(test: &str, transport: &str) {
    let Some((_server, mut peer, mut hosts)) = ilnp(test, transport) else { return };
    peer.ask("move");
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 2));
    hosts.daemons[0].rule(&prefer("isp2")).unwrap();
    goes_on_bare(&mut hosts, &mut peer, &pair(2, 2));
    // RFC 6744 s4: the peer drops packets without nonce from a locator that it has not read of.
    let updates = &told(&mut peer)["updates"];
    assert_eq!(updates[0][0], json!(host_address("a", 1)), "from the old locator first: {updates}");
}

#[test]
fn a_session_with_a_peer_of_rfc_6740_goes_on_when_either_end_moves() {
    goes_on_when_either_end_moves("a peer of RFC 6740", "udp");
}

#[test]
fn a_tcp_connection_with_a_peer_of_rfc_6740_goes_on_when_either_end_moves() {
    goes_on_when_either_end_moves("a peer of RFC 6740 with TCP", "tcp");
}

#[test]
fn a_soft_hand_off_that_the_peer_does_not_acknowledge_stays_at_the_old_locator() {
    let test = "a peer of RFC 6740 that acknowledges nothing";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    peer.ask("deaf");
    hosts.daemons[0].rule(&prefer("isp2")).unwrap();
    eventually("Locator Updates from both locators", || {
        let updates = told(&mut peer)["updates"].clone();
        let came = |isp| {
            let all = updates.as_array().unwrap().iter();
            all.filter(|one| one[0] == json!(host_address("a", isp))).count()
        };
        came(1) > 1 && came(2) > 0
    });
    goes_on(&mut peer, "answers from the old locator");
    assert_eq!(check(&mut hosts, &mut peer)["last"], pair(1, 1));
    peer.ask("hear");
    goes_on_bare(&mut hosts, &mut peer, &pair(2, 1));
}

#[test]
fn a_peer_of_rfc_6740_that_begins_anew_with_another_nonce_is_taken_back() {
    let test = "a peer of RFC 6740 that begins anew";
    let Some((_server, peer, mut hosts)) = ilnp(test, "udp") else { return };
    drop(peer);
    let mut peer = ilnp_peer(&hosts.lab, "udp", host_address("a", 1));
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 1));
}

#[test]
fn a_peer_of_rfc_6740_that_begins_anew_after_a_move_of_ours_is_taken_back() {
    let test = "a peer of RFC 6740 that begins anew after a move";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    hosts.daemons[0].rule(&prefer("isp2")).unwrap();
    goes_on_bare(&mut hosts, &mut peer, &pair(2, 1));
    drop(peer);
    let mut peer = ilnp_peer(&hosts.lab, "udp", host_address("a", 2));
    goes_on_bare(&mut hosts, &mut peer, &pair(2, 1));
}

/// Nobody is at the locator of the session any more. The peer has its first locator alone, and another nonce.
#[test]
fn a_peer_of_rfc_6740_that_begins_anew_at_its_first_locator_is_taken_back_when_its_new_one_is_dead()
{
    let test = "a peer of RFC 6740 that begins anew at its first locator";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    peer.ask("move");
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 2));
    drop(peer);
    let [first, _] = uplinks();
    let mut peer = ilnp_peer_at(&hosts.lab, "udp", host_address("a", 1), &[first]);
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 1));
}

/// The kernel of host B takes the place of the peer, and its errors about the nonce get lost. Checksums are whole on the
/// wire, so the kernel drops datagrams whose checksum leaves locators out.
#[test]
fn a_peer_that_comes_back_without_ilnp_and_whose_errors_get_lost_has_classic_ipv6() {
    let test = "a peer of RFC 6740 that comes back without ILNP";
    let Some((_server, peer, mut hosts)) = ilnp(test, "udp") else { return };
    for host in ["a", "b"] {
        let namespace = hosts.lab.namespace(host).unwrap();
        ISPS.iter().for_each(|isp| namespace.switch_off(isp, &["tx"]).unwrap());
    }
    drop(peer);
    let rules = "delete table ip6 peer\n\
                 create table ip6 errors\n\
                 add chain ip6 errors output { type filter hook output priority 0; }\n\
                 add rule ip6 errors output icmpv6 type parameter-problem drop\n";
    hosts.lab.namespace("b").unwrap().nft(rules).unwrap();
    let [a, b] = ["a", "b"].map(|host| host_address(host, 1).to_string());
    let mut client = Script::start(&hosts.lab, "b", "raw.py", &["ask", &b, &a, PORT, PORT]);
    goes_on(&mut client, "answers of classic IPv6");
    assert_eq!(hosts.daemons[0].ilcc().unwrap().correspondents.len(), 0, "{}", hosts.story());
}

#[test]
fn one_forged_nonce_costs_a_session_nothing() {
    let Some((_server, mut peer, mut hosts)) = ilnp("a forged nonce", "udp") else { return };
    let before = hosts.daemons[0].ilcc().unwrap().correspondents.len();
    for _ in 0..3 {
        peer.ask("guess");
        goes_on(&mut peer, "answers after a forged nonce");
    }
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 1));
    assert_eq!(hosts.daemons[0].ilcc().unwrap().correspondents.len(), before);
}

/// RFC 6743 s6.
#[test]
fn a_locator_update_with_a_wrong_nonce_draws_nothing_from_a_session_that_has_moved() {
    let test = "a peer of RFC 6740 whose nonce somebody guesses";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    peer.ask("move");
    goes_on_bare(&mut hosts, &mut peer, &pair(1, 2));
    peer.ask("forge");
    eventually("an acknowledgement", || number(&mut peer, "named") == 2);
    goes_on(&mut peer, "answers afterwards");
    check(&mut hosts, &mut peer);
}

/// A new connection of host A to the second locator of the peer has the nonces of the first connection, and both go on.
fn second_locator_has_the_nonces(hosts: &mut Protected, peer: &mut Script) {
    let [local, remote] = [("a", 1), ("b", 2)].map(|(host, isp)| host_address(host, isp));
    let arguments = ["ask", &local.to_string(), &remote.to_string(), NEXT_PORT];
    let mut client = Script::start(&hosts.lab, "a", "raw.py", &arguments);
    goes_on(&mut client, "answers from the second locator");
    goes_on(peer, "answers to the first connection");
    check(hosts, peer);
    let correspondents = hosts.daemons[0].ilcc().unwrap().correspondents;
    let mut peers: Vec<_> = correspondents.iter().map(|one| one.addresses.peer).collect();
    peers.sort_unstable();
    assert_eq!(peers, [1, 2].map(|isp| host_address("b", isp)));
}

/// RFC 6744 s4 ties the nonces to the two identifiers.
#[test]
fn a_new_connection_to_a_second_locator_of_the_peer_has_the_nonces_of_the_first() {
    let test = "a second locator of a peer of RFC 6740";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    peer.ask("name");
    eventually("an acknowledgement", || number(&mut peer, "named") == 2);
    second_locator_has_the_nonces(&mut hosts, &mut peer);
}

/// An Echo Request without a nonce shows whose locator it is: another host may have the same identifier.
#[test]
fn a_new_connection_to_a_locator_that_the_peer_has_not_named_has_the_nonces_of_the_first() {
    let test = "a second locator that a peer of RFC 6740 has not named";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    peer.ask("open");
    second_locator_has_the_nonces(&mut hosts, &mut peer);
    assert_eq!(number(&mut peer, "named"), 0);
}

/// Has the kernel of host B send from its second address by the second ISP, as the first one drops such packets.
fn reach_the_second_isp(lab: &Lab) {
    let [address, router] =
        [host_address("b", 2), gateway_address("b", 2)].map(|one| one.to_string());
    let host = lab.namespace("b").unwrap();
    host.ip(&["-6", "rule", "add", "from", &address, "lookup", "100"]).unwrap();
    let route = ["-6", "route", "add", "default", "via", &router, "dev", ISPS[1], "table", "100"];
    host.ip(&route).unwrap();
}

/// RFC 6744 s4: a nonce that comes shows nothing of whether the peer reads the nonce of host A.
#[test]
fn a_peer_that_never_shows_our_nonce_has_no_session_and_classic_ipv6() {
    let test = "a peer of RFC 6740 that shows no nonce of ours";
    let Some(mut hosts) = with_ilnp(test, &["python3"], [Some(""), None]) else { return };
    leave_to_the_peer(&hosts.lab, &[host_address("b", 1)]);
    reach_the_second_isp(&hosts.lab);
    let [a, b, second] =
        [("a", 1), ("b", 1), ("b", 2)].map(|(host, isp)| host_address(host, isp).to_string());
    let echo = |host, arguments: &[&str]| {
        let mut server = Script::start(&hosts.lab, host, "raw.py", arguments);
        assert_eq!(server.line(), "ready");
        server
    };
    let _servers = [
        echo("a", &["echo", &a, PORT, &b, PORT]),
        echo("b", &["echo", &second, PORT, &a, NEXT_PORT]),
    ];
    let mut client =
        Script::start(&hosts.lab, "a", "raw.py", &["ask", &a, &second, PORT, NEXT_PORT]);
    goes_on(&mut client, "answers of the kernel of host B");
    let mut peer = ilnp_peer(&hosts.lab, "mute", host_address("a", 1));
    let daemon = &mut hosts.daemons[0];
    eventually("the end of the questions", || {
        let is_end = |event: &Event| event.reason.as_deref() == Some("no answer to the nonce");
        daemon.events().iter().any(is_end)
    });
    assert!(number(&mut peer, "asked") >= TRIAL_TRIES);
    let before = number(&mut peer, "classic");
    eventually("answers by classic IPv6", || number(&mut peer, "classic") > before + 20);
    goes_on(&mut client, "answers of the kernel of host B");
    check(&mut hosts, &mut peer);
    assert_eq!(hosts.daemons[0].ilcc().unwrap().correspondents.len(), 0, "{}", hosts.story());
    let is_begun = |event: &Event| event.kind == EventKind::SessionEstablished;
    assert!(!hosts.daemons[0].events().iter().any(is_begun), "{}", hosts.story());
}

/// RFC 8200 s4.1 allows these headers. The answers show that the datagrams reached the socket.
#[test]
fn the_nonce_is_found_behind_other_headers_and_in_fragments() {
    let test = "a peer of RFC 6740 with other headers";
    let Some((_server, mut peer, mut hosts)) = ilnp(test, "udp") else { return };
    for is_moved in [false, true] {
        if is_moved {
            peer.ask("move");
            eventually("the new locator", || told(&mut peer)["last"] == pair(1, 2));
        }
        for form in ["hop-by-hop", "second", "fragments"] {
            peer.ask(form);
            eventually(form, || number(&mut peer, "shaped") > 20);
            check(&mut hosts, &mut peer);
        }
    }
}

/// Number of times that host A asks a correspondent whether it reads the nonce of host A (decision 146).
const TRIAL_TRIES: u64 = 3;
/// The port behind [`PORT`].
const NEXT_PORT: &str = "7001";
