//! Sockets that are bound to an interface or name one, and packets of the size of the MTU. Needs root, BPF, python3 and
//! a built `moorlined`.

use std::time::Duration;

use crate::common::script::Script;
use crate::common::{Protected, is_skipped, prefer, protected, protected_with, with_ilnp};
use moorline_api::EventKind;
use moorline_lab::topology::{HOSTS, host_address};
use moorline_lab::workload::Direction;
use moorline_lab::{Failure, preflight};

fn script(hosts: &Protected, host: &str, arguments: &[&str]) -> Script {
    Script::start(&hosts.lab, host, "bound.py", arguments)
}

/// Pairs of sockets at A and B. Each socket is bound to an interface or not.
const BOUND: [[Option<&str>; 2]; 3] =
    [[Some("isp1"), Some("isp1")], [Some("isp1"), None], [None, Some("isp1")]];

/// Checks that all questions get answers before `leave` moves traffic away from ISP 1, and after the move.
fn goes_on(name: &str, hosts: &mut Protected, leave: impl FnOnce(&mut Protected)) {
    let [a, b] = hosts.ends.clone().map(|end| end.address.to_string());
    let mut scripts = Vec::new();
    for (index, [client, server]) in BOUND.into_iter().enumerate() {
        let port = (7700 + index).to_string();
        let serve = ["serve", &port].into_iter().chain(server).collect::<Vec<_>>();
        let mut server = script(hosts, "b", &serve);
        assert_eq!(server.line(), "ready");
        let ask = ["ask", &a, &b, &port].into_iter().chain(client).collect::<Vec<_>>();
        let mut client = script(hosts, "a", &ask);
        assert_eq!(client.line(), "[]", "{name}, pair {index}: before");
        scripts.push((server, client));
    }
    leave(hosts);
    for daemon in &mut hosts.daemons {
        daemon.wait_for(&EventKind::Moved, Duration::from_secs(20)).unwrap();
    }
    for (index, (_, client)) in scripts.iter_mut().enumerate() {
        let lost = client.step();
        assert_eq!(lost, "[]", "{name}, pair {index}: after\n{}", hosts.story());
    }
}

#[test]
fn bound_sockets_of_a_context_go_on_by_another_provider() {
    let name = "bound sockets, Shim6";
    if is_skipped(name, &preflight::check(&["python3"])) {
        return;
    }
    let Some(mut hosts) = protected_with(name, [String::new(), String::new()]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    drop(flow.finish());
    goes_on(name, &mut hosts, |hosts| {
        hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    });
}

#[test]
fn bound_sockets_of_a_session_go_on_by_another_provider() {
    let name = "bound sockets, ILNP";
    if is_skipped(name, &preflight::check(&["python3"])) {
        return;
    }
    let Some(mut hosts) = with_ilnp(name, &[], [Some(""); 2]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_session();
    drop(flow.finish());
    goes_on(name, &mut hosts, leave_isp1);
}

/// Makes both hosts prefer the second ISP.
fn leave_isp1(hosts: &mut Protected) {
    for daemon in &hosts.daemons {
        daemon.rule(&prefer("isp2")).unwrap();
    }
}

/// Ports and kinds of servers: for all interfaces, for one, and for one without a stated source of its answers.
const SERVERS: [(&str, &[&str]); 3] =
    [("7700", &[]), ("7701", &["isp1"]), ("7702", &["isp1", "plain"])];

/// If a socket has no address when it looks up its route, it leaves room for a header like all others, after its first
/// packet without room.
fn leave_room_without_an_address(name: &str, hosts: &mut Protected) {
    let [a, b] = hosts.ends.clone().map(|end| end.address.to_string());
    let mut servers = Vec::new();
    for (port, kind) in SERVERS {
        let mut server = script(hosts, "b", &[&["serve", port], kind].concat());
        assert_eq!(server.line(), "ready");
        servers.push(server);
    }
    let ask = |hosts: &mut Protected| {
        for (port, kind) in SERVERS {
            let mut client = script(hosts, "a", &["unbound", &a, &b, port]);
            assert_eq!(client.line(), "[]", "{name}, {kind:?}\n{}", hosts.story());
        }
    };
    ask(hosts);
    leave_isp1(hosts);
    for daemon in &mut hosts.daemons {
        daemon.wait_for(&EventKind::Moved, Duration::from_secs(20)).unwrap();
    }
    ask(hosts);
    let routes = hosts.lab.namespace("a").unwrap().ip(&["-6", "route", "show", "table", "5532"]);
    let routes = routes.unwrap();
    assert!(routes.lines().count() == 2 && routes.contains(&b), "{routes}");
}

#[test]
fn sockets_without_an_address_leave_room_for_the_header_of_a_context() {
    let name = "unbound sockets, Shim6";
    if is_skipped(name, &preflight::check(&["python3"])) {
        return;
    }
    let Some(mut hosts) = protected_with(name, [String::new(), String::new()]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    leave_room_without_an_address(name, &mut hosts);
    drop(flow.finish());
}

#[test]
fn sockets_without_an_address_leave_room_for_the_nonce_of_a_session() {
    let name = "unbound sockets, ILNP";
    if is_skipped(name, &preflight::check(&["python3"])) {
        return;
    }
    let Some(mut hosts) = with_ilnp(name, &[], [Some(""); 2]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_session();
    leave_room_without_an_address(name, &mut hosts);
    drop(flow.finish());
}

/// The peer has no Moorline, and the path has a smaller MTU than the uplink. The sockets behave as without Moorline.
#[test]
fn sockets_without_an_address_learn_the_mtu_of_the_path_to_any_peer() {
    let name = "unbound sockets, path MTU";
    let Some(mut hosts) = protected(name, &["a"], &["python3"]) else { return };
    narrow(&hosts, "isp1", "b", "1400");
    narrow(&hosts, "b", "isp1", "1400");
    let [a, b] = hosts.ends.clone().map(|end| end.address.to_string());
    let mut server = script(&hosts, "b", &["serve", "7700"]);
    assert_eq!(server.line(), "ready");
    let mut client = script(&hosts, "a", &["unbound", &a, &b, "7700"]);
    assert_eq!(client.line(), "[]", "{}", hosts.story());
    // The MTU of the path becomes smaller again.
    narrow(&hosts, "b", "isp1", "1300");
    narrow(&hosts, "isp1", "b", "1300");
    let mut client = script(&hosts, "a", &["unbound", &a, &b, "7700"]);
    assert_eq!(client.line(), "[]", "{}", hosts.story());
    let routes = || {
        let host = hosts.lab.namespace("a").unwrap();
        host.ip(&["-6", "route", "show", "table", "5532"]).unwrap()
    };
    assert!(routes().contains("mtu 1300"), "{}", routes());
    hosts.daemons.remove(0).hand_over().unwrap();
    assert_eq!(routes(), "", "nobody would follow the default routes of the host");
    // The rules of a stopped daemon stay, except the rule of the prefix that the main table also serves.
    narrow(&hosts, "b", "isp1", "1280");
    narrow(&hosts, "isp1", "b", "1280");
    let mut client = script(&hosts, "a", &["unbound", &a, &b, "7700"]);
    assert_eq!(client.line(), "[]", "{}", hosts.story());
}

/// The kernel notes the MTU at the default route of the socket, and treats the note as a separate route.
#[test]
fn an_mtu_that_is_noted_at_a_default_route_leads_no_source_to_the_wrong_provider() {
    let name = "unbound TCP, path MTU, other provider";
    let Some(mut hosts) = protected(name, &["a"], &["python3"]) else { return };
    narrow(&hosts, "isp1", "b", "1400");
    narrow(&hosts, "b", "isp1", "1400");
    let far = hosts.lab.namespace("b").unwrap();
    let way = far.ip(&["-6", "route", "show", "default", "dev", "isp1"]).unwrap();
    let way: Vec<_> = way.split_whitespace().take_while(|part| *part != "pref").collect();
    // Hide from B's TCP that its own link is narrow.
    let change = ["-6", "route", "change"].into_iter().chain(way);
    let change = change.chain(["dev", "isp1", "advmss", "1440"]);
    far.ip(&change.collect::<Vec<_>>()).unwrap();
    let [a, b] = hosts.ends.clone().map(|end| end.address.to_string());
    let mut server = script(&hosts, "b", &["serve", "7700"]);
    assert_eq!(server.line(), "ready");
    let check = |hosts: &mut Protected| {
        let mut client = script(hosts, "a", &["narrow", &a, &b, "7700"]);
        assert_eq!(client.line(), "[]", "{}", hosts.story());
        let ip = |arguments: &[&str]| hosts.lab.namespace("a").unwrap().ip(arguments).unwrap();
        let noted = ip(&["-6", "route", "show", "cache"]);
        assert!(noted.contains(&b) && noted.contains("mtu 1400"), "nothing is tried: {noted}");
        let other = host_address("a", 2).to_string();
        let route = ip(&["-6", "route", "get", &b, "from", &other]);
        assert!(route.contains("dev isp2"), "{route}");
    };
    check(&mut hosts);
    hosts.daemons.remove(0).hand_over().unwrap();
    hosts.lab.namespace("a").unwrap().ip(&["-6", "route", "flush", "cache"]).unwrap();
    check(&mut hosts);
}

fn narrow(hosts: &Protected, node: &str, interface: &str, mtu: &str) {
    let node = hosts.lab.namespace(node).unwrap();
    node.ip(&["link", "set", "dev", interface, "mtu", mtu]).unwrap();
}

/// Checks that sockets of all kinds, and echo replies, learn the MTU of a path that is narrower than the uplink.
fn learns_the_mtu_of_the_path(name: &str, hosts: &mut Protected) {
    let [a, b] = hosts.ends.clone().map(|end| end.address.to_string());
    leave_isp1(hosts);
    for daemon in &mut hosts.daemons {
        daemon.wait_for(&EventKind::Moved, Duration::from_secs(20)).unwrap();
    }
    let mut servers = HOSTS.map(|host| script(hosts, host, &["serve", "7700"]));
    for server in &mut servers {
        assert_eq!(server.line(), "ready");
    }
    for mtu in ["1500", "1400", "1280"] {
        // The uplink of `a` keeps its MTU of 1,500 octets.
        narrow(hosts, "isp2", "b", mtu);
        narrow(hosts, "b", "isp2", mtu);
        for (host, arguments) in [
            ("a", &["narrow", &a, &b, "7700", "isp1"] as &[_]),
            ("a", &["narrow", &a, &b, "7700"]),
            ("a", &["unbound", &a, &b, "7700"]),
            ("b", &["narrow", &b, &a, "7700"]),
        ] {
            let mut script = script(hosts, host, arguments);
            assert_eq!(script.line(), "[]", "{name}, {mtu}, {arguments:?}\n{}", hosts.story());
        }
    }
}

#[test]
fn all_sockets_learn_the_mtu_of_the_path_of_a_context() {
    let name = "path MTU after a move, Shim6";
    if is_skipped(name, &preflight::check(&["python3"])) {
        return;
    }
    let Some(mut hosts) = protected_with(name, [String::new(), String::new()]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    learns_the_mtu_of_the_path(name, &mut hosts);
    drop(flow.finish());
}

#[test]
fn all_sockets_learn_the_mtu_of_the_path_of_a_session() {
    let name = "path MTU after a move, ILNP";
    if is_skipped(name, &preflight::check(&["python3"])) {
        return;
    }
    let Some(mut hosts) = with_ilnp(name, &[], [Some(""); 2]) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_session();
    learns_the_mtu_of_the_path(name, &mut hosts);
    drop(flow.finish());
}

/// The kernel itself sends echo replies. Each has the size of its request, in fragments or in one packet.
#[test]
fn echoes_of_all_sizes_have_their_replies_in_a_session() {
    for nonce in ["", "ilnp-nonce = \"always\""] {
        let name = format!("echoes of all sizes, {nonce:?}");
        if is_skipped(&name, &preflight::check(&["python3"])) {
            return;
        }
        let Some(mut hosts) = with_ilnp(&name, &[], [Some(nonce); 2]) else { return };
        let flow = hosts.datagrams(Direction::BothWays);
        hosts.await_session();
        let [a, b] = hosts.ends.clone().map(|end| end.address.to_string());
        let mut ping = script(&hosts, "a", &["ping", &a, &b]);
        assert_eq!(ping.line(), "[]", "{name}\n{}", hosts.story());
        drop(flow.finish());
    }
}
