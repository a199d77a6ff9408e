//! Moved traffic whose routes lead to the uplink by which it leaves.

use moorline_datapath::Plane as _;
use std::net::{SocketAddrV6, UdpSocket};
use std::time::Duration;

use moorline_bpf::AttachMode;

use super::capture::Capture;
use super::net::{Namespace, Net, address};
use super::{Host, can_run, check_moved, connect, settings, transfer};

/// Number of datagrams, more than the number of processors that may learn the next hop by them.
const DATAGRAMS: u8 = 50;

/// Both hosts, moved to ISP 2.
fn moved(net: &Net, attach: AttachMode) -> [Host; 2] {
    ["a", "b"].map(|end| {
        let mut host = Host::new(net, end, &settings(attach));
        Net::route_over_moor(&host.namespace, address(host.end, 1), address(host.peer, 1));
        let entry = host.entry(2);
        host.upsert(entry);
        host
    })
}

fn lead_directly(host: &Host) {
    let (local, peer) = (address(host.end, 1), address(host.peer, 1));
    let router = host.namespace.sh("ip -6 route show table 102 default");
    let router = router.split_whitespace().nth(2).unwrap();
    let direct = format!("{peer} from {local} via {router} dev up2 onlink metric 1");
    host.namespace.sh(&format!("ip -6 route add {direct} table 900 mtu 1492"));
}

fn sent_by_moor0(host: &Namespace) -> u64 {
    host.sh("cat /sys/class/net/moor0/statistics/tx_packets").trim().parse().unwrap()
}

#[test]
fn datagrams_are_the_same_by_either_way() {
    if !can_run("datagrams_are_the_same_by_either_way") {
        return;
    }
    let net = Net::new("di");
    let [a, b] = moved(&net, AttachMode::Auto);
    let there = SocketAddrV6::new(address("b", 1), 9, 0, 0);
    let to = b.namespace.run(|| UdpSocket::bind(there).unwrap());
    to.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let here = SocketAddrV6::new(address("a", 1), 0, 0, 0);
    let from = a.namespace.run(|| UdpSocket::bind(here).unwrap());
    from.connect(there).unwrap();
    let send = || {
        let capture = Capture::begin_shim6(&net.r, "a2", DATAGRAMS.into());
        let mut octets = [0; 1500];
        for number in 0..DATAGRAMS {
            from.send(&[number; 1444]).unwrap();
            let received = to.recv(&mut octets).unwrap();
            assert_eq!(octets[..received], [number; 1444]);
        }
        capture.all()
    };

    let by_moor = send();
    assert_eq!(sent_by_moor0(&a.namespace), 0, "they leave its egress for the uplink");
    lead_directly(&a);
    net.r.sh("ip link set a1 down");
    assert_eq!(send(), by_moor);
    for host in [&a, &b] {
        assert_eq!(host.plane.drops().unwrap(), [], "{}", host.end);
    }
}

fn super_packets_are_segmented(attach: AttachMode, tag: &str) {
    let net = Net::new(tag);
    // This happens before there are routes: later changes affect the tables from which the route of the socket came.
    let (mut client, mut server) = connect(&net);
    let hosts = moved(&net, attach);
    hosts.iter().for_each(lead_directly);
    net.r.sh("ip link set a1 down; ip link set b1 down");
    let before = hosts.each_ref().map(|host| sent_by_moor0(&host.namespace));
    let capture = Capture::begin(&net.r, "a2");
    transfer(&mut client, &mut server, 3_000_000);
    transfer(&mut server, &mut client, 3_000_000);
    let packets = capture.end();
    check_moved(&packets, "a", "b");
    check_moved(&packets, "b", "a");
    for (host, before) in hosts.iter().zip(before) {
        assert!(sent_by_moor0(&host.namespace) > before, "{} has segmented nothing", host.end);
        assert_eq!(host.plane.drops().unwrap(), [], "{}", host.end);
    }
}

#[test]
fn super_packets_are_segmented_on_their_direct_way_with_tcx() {
    if can_run("super_packets_are_segmented_on_their_direct_way_with_tcx") {
        super_packets_are_segmented(AttachMode::Auto, "dx");
    }
}

#[test]
fn super_packets_are_segmented_on_their_direct_way_with_classic_tc() {
    if can_run("super_packets_are_segmented_on_their_direct_way_with_classic_tc") {
        super_packets_are_segmented(AttachMode::Tc, "dt");
    }
}
