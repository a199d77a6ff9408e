//! Connections survive with a daemon on both hosts. Needs root, BPF and a built `moorlined`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use common::{Protected, eventually, protected};
use moorline_lab::Failure;
use moorline_lab::workload::{Direction, Sender, TcpOptions, TcpTransfer};

fn silent() -> Failure {
    Failure::Silent { router: "isp1".into() }
}

fn one_way(from: &str) -> Failure {
    Failure::OneWay { router: "isp1".into(), from: from.into() }
}

fn carrier(node: &str) -> Failure {
    Failure::CarrierDown { node: node.into(), interface: "isp1".into() }
}

/// A transfer that is hit by a failure brings every byte; false if the test is skipped.
fn tcp_survives(sender: Sender, failure: Failure) -> bool {
    let name = format!("TCP, {sender:?} sends, {failure:?}");
    let Some(mut hosts) = protected(&name, &["a", "b"], &[]) else { return false };
    let [client, server] = hosts.ends.clone();
    let options = TcpOptions { client, server, sender, bytes: 12_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    let _fault = hosts.lab.fail(failure).unwrap();
    let before = transfer.arrivals().total();
    let ended = moorline_lab::interrupt::wait_for("the end of the transfer", LIMIT, || {
        Ok(transfer.is_finished().then_some(()))
    });
    let after = transfer.arrivals().total();
    assert!(ended.is_ok(), "{name}: {before} octets, then {after}\n{}", hosts.story());
    assert!(transfer.finish().unwrap().complete, "{name}\n{}", hosts.story());
    assert!(hosts.has_moved_to_isp2(), "{name}: nothing moved\n{}", hosts.story());
    true
}

/// Datagrams that are sent after the failure arrive once the context has moved; false if the test is
/// skipped.
fn udp_survives(direction: Direction, failure: Failure) -> bool {
    let name = format!("UDP, {direction:?}, {failure:?}");
    let Some(mut hosts) = protected(&name, &["a", "b"], &[]) else { return false };
    let flow = hosts.datagrams(direction);
    hosts.await_context();
    let totals = || flow.arrivals().iter().map(|way| way.total()).collect::<Vec<_>>();
    eventually("datagrams", || totals().iter().all(|&total| total > 10 * 600));
    // The kernel knows at once that a carrier is gone: then not one datagram need be lost.
    let is_silent = matches!(failure, Failure::Silent { .. });
    let _fault = hosts.lab.fail(failure).unwrap();
    let moved = moorline_lab::interrupt::wait_for("a move to ISP 2", LIMIT, || {
        Ok(hosts.has_moved_to_isp2().then_some(()))
    });
    assert!(moved.is_ok(), "{name}\n{}", hosts.story());
    let before = totals();
    let goes_on = moorline_lab::interrupt::wait_for("datagrams after the move", LIMIT, || {
        Ok(totals().iter().zip(&before).all(|(now, then)| *now > then + 100 * 600).then_some(()))
    });
    assert!(goes_on.is_ok(), "{name}: {before:?}, then {:?}\n{}", totals(), hosts.story());
    for way in flow.finish().unwrap() {
        assert_eq!((way.damaged, way.duplicates), (0, 0), "{name}: {way:?}");
        assert!(!is_silent || way.sent > way.received, "{name}: nothing was lost? {way:?}");
    }
    true
}

#[test]
fn tcp_survives_a_silent_failure_when_the_client_sends() {
    let _ran = tcp_survives(Sender::Client, silent());
}

#[test]
fn tcp_survives_a_silent_failure_when_the_server_sends() {
    let _ran = tcp_survives(Sender::Server, silent());
}

#[test]
fn tcp_survives_losing_one_direction_whichever_it_is_and_whoever_sends() {
    for sender in [Sender::Client, Sender::Server] {
        for from in ["a", "b"] {
            if !tcp_survives(sender, one_way(from)) {
                return;
            }
        }
    }
}

//= rfc5534#3.2-2 (test)
#[test]
fn tcp_survives_losing_the_carrier_on_either_side_whoever_sends() {
    for sender in [Sender::Client, Sender::Server] {
        for node in ["a", "b"] {
            if !tcp_survives(sender, carrier(node)) {
                return;
            }
        }
    }
}

/// The ULID stays usable for its connections when the address has gone from the uplink.
//= rfc5534#3.1-1 (test)
#[test]
fn tcp_survives_losing_its_address() {
    let Some(mut hosts) = protected("address removed", &["a", "b"], &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let address = client.address;
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 12_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    let (node, interface) = ("a".into(), "isp1".into());
    let _fault = hosts.lab.fail(Failure::AddressRemoved { node, interface, address }).unwrap();
    let ended = moorline_lab::interrupt::wait_for("the end of the transfer", LIMIT, || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{} octets\n{}", transfer.arrivals().total(), hosts.story());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
}

#[test]
fn udp_one_way_survives_every_failure() {
    for failure in [silent(), one_way("a"), carrier("a"), carrier("b")] {
        if !udp_survives(Direction::OneWay, failure) {
            return;
        }
    }
}

#[test]
fn udp_both_ways_survives_every_failure() {
    for failure in [silent(), carrier("a"), carrier("b")] {
        if !udp_survives(Direction::BothWays, failure) {
            return;
        }
    }
}

/// One direction may go on where it is, so only the other one loses datagrams.
#[test]
fn udp_both_ways_survives_losing_one_direction() {
    let Some(hosts) = protected("UDP both ways, one-way failure", &["a", "b"], &[]) else {
        return;
    };
    let mut hosts: Protected = hosts;
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    let from_a = flow.arrivals()[0].clone();
    let from_b = flow.arrivals()[1].clone();
    eventually("datagrams", || from_a.total().min(from_b.total()) > 10 * 600);
    let _fault = hosts.lab.fail(one_way("a")).unwrap();
    let then = (from_a.total(), from_b.total());
    let goes_on = moorline_lab::interrupt::wait_for("datagrams both ways", LIMIT, || {
        let more = |now: u64, then: u64| now > then + 200 * 600;
        Ok((more(from_a.total(), then.0) && more(from_b.total(), then.1)).then_some(()))
    });
    assert!(goes_on.is_ok(), "{}", hosts.story());
    for way in flow.finish().unwrap() {
        assert_eq!((way.damaged, way.duplicates), (0, 0), "{way:?}");
    }
}

/// A generous limit: the machine may be busy, and a test that fails should say why.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// Links that a host's own tools remove or put down, as they do with links that they do not know.
#[test]
fn connections_move_and_go_on_though_somebody_removes_the_links_of_moorline() {
    let name = "no links";
    let Some(mut hosts) = protected(name, &["a", "b"], &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let (bytes, rate) = (400_000_000, 4_000_000);
    let options = TcpOptions { client, server, sender: Sender::Client, bytes, rate };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    let goes_on = |hosts: &mut Protected, when: &str| {
        let before = transfer.arrivals().total();
        let ended = moorline_lab::interrupt::wait_for("octets", LIMIT, || {
            Ok((transfer.arrivals().total() > before + 4_000_000).then_some(()))
        });
        assert!(ended.is_ok(), "{when}\n{}", hosts.story());
    };
    let host = hosts.lab.namespace("a").unwrap().clone();
    // Index and names of the link, if it is up.
    let up = |link: &str| host.ip(&["-o", "link", "show", "up", "dev", link]).unwrap_or_default();
    let remove = |link: &str| {
        let before = ["moor0", "moor1"].map(&up);
        assert!(before.iter().all(|text| !text.is_empty()));
        host.ip(&["link", "del", link]).unwrap();
        eventually("other links", || {
            let now = ["moor0", "moor1"].map(&up);
            now.iter().zip(&before).all(|(now, before)| !now.is_empty() && now != before)
        });
    };
    remove("moor0");
    goes_on(&mut hosts, "before the move");
    let _fault = hosts.lab.fail(silent()).unwrap();
    eventually("a move to ISP 2", || hosts.has_moved_to_isp2());
    goes_on(&mut hosts, "after the move");
    remove("moor1");
    goes_on(&mut hosts, "without the links of the move");
    host.ip(&["link", "set", "moor0", "down"]).unwrap();
    eventually("the link", || !up("moor0").is_empty());
    goes_on(&mut hosts, "with a link that was down");
}
