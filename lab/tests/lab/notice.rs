//! Notices to TCP after a move, which stay inside the host. Needs root, BPF and a built `moorlined`.

use std::net::Ipv6Addr;

use crate::common::{Protected, eventually, protected, protected_with};
use moorline_lab::Failure;
use moorline_lab::capture::{Capture, Frame};
use moorline_lab::workload::{Sender, TcpOptions, TcpTransfer};

/// Octets of the Ethernet header. The loopback interface has one, too.
const ETHERNET: usize = 14;

/// Type and code of Destination Unreachable, no route.
const UNREACHABLE: [u8; 2] = [1, 0];
const TOO_BIG: [u8; 2] = [2, 0];

/// Type and code of an ICMPv6 error about TCP to `peer` that the host sends to itself. `None` for any other packet.
fn notice(frame: &Frame, ulid: Ipv6Addr, peer: Ipv6Addr) -> Option<[u8; 2]> {
    let packet = frame.octets.get(ETHERNET..ETHERNET + 108)?;
    let (ip, message) = packet.split_at(40);
    let quoted = &message[8..48];
    let is_notice = ip[6] == 58
        && ip[8..24] == ulid.octets()
        && ip[24..40] == ulid.octets()
        && quoted[6] == 6
        && quoted[8..24] == ulid.octets()
        && quoted[24..40] == peer.octets();
    is_notice.then(|| [message[0], message[1]])
}

/// A transfer from server to client that has begun and has a context.
fn transfer(hosts: &mut Protected) -> TcpTransfer {
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Server, bytes: 12_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    transfer
}

/// Notices on the loopback interface of the sending host, and notices that leave the host, while a transfer survives a
/// silent cut. `None` if the test is skipped.
fn notices(settings: &str) -> Option<[Vec<[u8; 2]>; 2]> {
    let mut hosts = protected_with("notices to TCP", [settings.to_owned(), settings.to_owned()])?;
    let [peer, ulid] = hosts.ends.clone().map(|end| end.address);
    let transfer = transfer(&mut hosts);
    let host = hosts.lab.namespace("b").unwrap().clone();
    let directory = hosts.lab.directory("b").unwrap();
    let start = |interface| Capture::start(&host, interface, &directory).unwrap();
    let (inside, outside) = (start("lo"), start("isp2"));
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    eventually("the end of the transfer", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{settings}\n{}", hosts.story());
    assert!(hosts.has_moved_to_isp2(), "{settings}: nothing moved\n{}", hosts.story());
    Some([inside, outside].map(|capture| {
        let frames = capture.finish().unwrap();
        frames.iter().filter_map(|frame| notice(frame, ulid, peer)).collect()
    }))
}

//= rfc5534#4.2-1 (test)
#[test]
fn tcp_that_waits_is_told_of_a_move_inside_the_host() {
    // With profile `rfc` the Send Timeout detects the failure, and TCP has backed off by then.
    let Some([inside, outside]) = notices("profile = \"rfc\"") else { return };
    assert!(inside.contains(&UNREACHABLE), "TCP was not told to take back its doubled timer");
    assert!(outside.is_empty(), "a notice left the host");
}

/// Before its timer has expired, TCP has no backoff to revert.
#[test]
fn tcp_whose_segments_have_become_too_long_is_told_so() {
    let Some([inside, outside]) = notices("") else { return };
    assert!(inside.contains(&TOO_BIG), "TCP was not told of the payload header");
    assert!(outside.is_empty(), "a notice left the host");
}

#[test]
fn tcp_is_told_nothing_where_that_is_switched_off() {
    let Some([inside, _]) = notices("profile = \"rfc\"\ntcp-notice = false") else { return };
    assert!(inside.is_empty());
}

/// The route tells TCP of the MTU, so TCP makes no segment that is too long.
#[test]
fn segments_fit_the_smaller_mtu_of_the_new_path_from_the_first() {
    let Some(mut hosts) = protected("a smaller MTU", &["a", "b"], &[]) else { return };
    let host = hosts.lab.namespace("b").unwrap().clone();
    host.ip(&["link", "set", "isp2", "mtu", "1400"]).unwrap();
    let transfer = transfer(&mut hosts);
    let directory = hosts.lab.directory("b").unwrap();
    let moved = Capture::start(&host, "moor1", &directory).unwrap();
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    eventually("the end of the transfer", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
    let frames = moved.finish().unwrap();
    let longest = frames.iter().filter_map(Frame::ipv6).map(<[u8]>::len).max();
    // The payload header takes 8 octets.
    assert_eq!(longest, Some(1392));
}
