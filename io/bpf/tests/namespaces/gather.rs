//! Segments of a moved connection are merged before the stack sees them.

use moorline_bpf::AttachMode;
use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;

use super::net::{Namespace, Net, address};
use super::{Host, ID, can_run, connect, settings, transfer};

/// Number of received IPv6 packets.
fn received(namespace: &Namespace) -> u64 {
    let counters = namespace.sh("cat /proc/net/snmp6");
    let line = counters.lines().find(|line| line.starts_with("Ip6InReceives")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn segments_are_put_together(attach: AttachMode, tag: &str) {
    let net = Net::new(tag);
    let (mut client, mut server) = connect(&net);
    let [a, b] = ["a", "b"].map(|end| {
        let mut host = Host::new(&net, end, &settings(attach));
        Net::route_over_moor(&host.namespace, address(host.end, 1), address(host.peer, 1));
        let entry = host.entry(2);
        host.upsert(entry);
        host
    });
    // The packets still come from the uplink: others are not let in.
    net.b.sh("nft add table inet t");
    net.b.sh("nft add chain inet t in \"{ type filter hook input priority 0; policy drop; }\"");
    net.b.sh("nft add rule inet t in iifname up2 accept");
    let before = received(&net.b);
    transfer(&mut client, &mut server, 3_000_000);
    let seen = received(&net.b) - before;
    let sent = a.plane.counters(ID).unwrap().tx_packets;
    let came = b.plane.counters(ID).unwrap().rx_packets;
    assert!(came > 3_000_000 / 1440 && came <= sent, "{came} of {sent}");
    assert!(seen < came / 2, "{seen} for {came}");
    for host in [&a, &b] {
        assert_eq!(host.plane.drops().unwrap(), [], "{}", host.end);
    }
}

#[test]
fn segments_are_put_together_with_tcx() {
    if can_run("segments_are_put_together_with_tcx") {
        segments_are_put_together(AttachMode::Auto, "gx");
    }
}

#[test]
fn segments_are_put_together_with_classic_tc() {
    if can_run("segments_are_put_together_with_classic_tc") {
        segments_are_put_together(AttachMode::Tc, "gt");
    }
}
