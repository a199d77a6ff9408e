use crate::harness::{Host, add_moved, address, ip, on_host, route_device, sent};
use moorline_addresses::{DefaultRoute, FoundRoute, MovedRoute, NextHop, UnboundPeer};
use moorline_netlink::Netlink;
use moorline_types::{Ulid, UlidPair};
use std::net::UdpSocket;

const FAR: &str = "2001:db8:9::9";

fn pair(local: &str, peer: &str) -> UlidPair {
    UlidPair::new(Ulid(address(local)), Ulid(address(peer)))
}

#[test]
fn seventy_prefixes_have_as_many_rules_as_there_are() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        for number in 0..70 {
            ip(&format!("-6 addr add 2001:db8:f{number:x}::1/64 dev up1 nodad"));
        }
        let mut view = netlink.view().await.unwrap();
        let used = address("2001:db8:f45::1");
        view.in_use.insert(used);
        let rules = netlink.ensure_rules(&view).await.unwrap();
        assert_eq!(rules.unserved.len(), 72 - 64, "up1 and up2 have one each besides");
        assert!(!rules.unserved.iter().any(|prefix| prefix.contains(used)));
        assert!(!netlink.ensure_rules(&view).await.unwrap().is_changed);
        assert_eq!(ip("-6 rule").matches("from 2001:db8:").count(), 64);
    });
}

#[test]
fn packets_leave_by_the_uplink_of_their_source() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        assert_eq!(route_device(FAR, "2001:db8:2::1"), "up1", "the kernel's choice by metric");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert_eq!(route_device(FAR, "2001:db8:1::1"), "up1");
        assert_eq!(route_device(FAR, "2001:db8:2::1"), "up2");
        assert!(ip("-6 route get 2001:db8:9::9 from 2001:db8:2::1").contains("via fe80::2"));
    });
}

/// A prefix has two routers, and the first one dies: the kernel takes the second one, as it does without us.
#[test]
fn the_second_router_of_a_prefix_takes_the_place_of_one_that_does_not_answer() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        ip("-6 route add default via fe80::11 dev up1 metric 1031");
        ip("-6 neigh add fe80::11 lladdr 02:00:00:00:00:11 dev up1");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let route = || ip(&format!("-6 route get {FAR} from 2001:db8:1::1"));
        assert!(route().contains("via fe80::1 "), "{}", route());
        ip("-6 neigh replace fe80::1 dev up1 nud failed");
        assert!(route().contains("via fe80::11 "), "{}", route());
        ip("-6 neigh replace fe80::1 lladdr 02:00:00:00:00:01 dev up1");
        assert!(route().contains("via fe80::1 "), "{}", route());
    });
}

/// The rules of the host for packets from prefixes.
fn prefix_rules() -> Vec<String> {
    let all = ip("-6 rule");
    let mut rules: Vec<_> = all.lines().filter(|rule| rule.contains("from 2001")).collect();
    rules.sort_unstable();
    rules.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_main_table_has_the_prefixes_that_it_serves_as_well() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let view = netlink.view().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        let all = prefix_rules();
        assert_eq!(all.len(), 2);
        netlink.leave_rules(&view).await.unwrap();
        assert_eq!(prefix_rules(), all[1..]);
        assert_eq!(route_device(FAR, "2001:db8:1::1"), "up1");
        assert_eq!(route_device(FAR, "2001:db8:2::1"), "up2");
        assert!(netlink.ensure_rules(&view).await.unwrap().is_changed);
        assert_eq!(prefix_rules(), all);
        // Now the second provider is the host's first choice.
        ip("-6 route add default via fe80::2 dev up2 metric 1");
        let view = netlink.view().await.unwrap();
        netlink.leave_rules(&view).await.unwrap();
        assert_eq!(prefix_rules(), all[..1]);
        // A route of ours ends soon, and packets go by another provider then.
        ip("-6 route del default metric 1");
        let view = netlink.view().await.unwrap();
        let second = view.uplinks.iter().find(|uplink| uplink.name == "up2").unwrap();
        let way = (second.ifindex, DefaultRoute { metric: 1, ..second.default_routes[0] });
        netlink.prefer_route(Some(way)).await.unwrap();
        netlink.leave_rules(&view).await.unwrap();
        assert_eq!(prefix_rules(), all);
        netlink.prefer_route(None).await.unwrap();
        ip("-6 route add default via fe80::2 dev up2 metric 1");
        // The main table may send these packets to either provider, and a rule of others to any.
        ip("-6 route del default metric 1");
        ip("-6 route add default metric 1 nexthop via fe80::1 dev up1 nexthop via fe80::2 dev up2");
        netlink.leave_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert_eq!(prefix_rules(), all);
        ip("-6 route del default metric 1");
        ip("-6 route add default via fe80::2 dev up2 table 77");
        ip("-6 rule add priority 20000 lookup 77");
        netlink.leave_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert_eq!(prefix_rules(), all);
    });
}

#[test]
fn connected_and_specific_routes_stay_in_force() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        ip("-6 route add 2001:db8:7::/48 via fe80::1 dev up1");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert_eq!(route_device("2001:db8:7::7", "2001:db8:2::1"), "up1");
        assert_eq!(route_device("2001:db8:1::5", "2001:db8:2::1"), "up1");
    });
}

/// A look-up for a socket that is bound to an interface, or for a link-local destination, finds neither routes by
/// another interface nor throws.
#[test]
fn what_has_to_leave_by_an_interface_finds_the_neighbours_and_specific_routes_of_that_interface() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        ip("-6 route add 2001:db8:7::/48 via fe80::7 dev up1");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let route = |to: &str| ip(&format!("-6 route get {to} from 2001:db8:1::1 oif up1"));
        for neighbour in ["fe80::5", "2001:db8:1::5"] {
            assert!(!route(neighbour).contains("via"), "{}", route(neighbour));
        }
        assert!(route("2001:db8:7::7").contains("via fe80::7"), "{}", route("2001:db8:7::7"));
        assert!(route(FAR).contains("via fe80::1"), "{}", route(FAR));
        // When a route is removed, its copy is removed too.
        ip("-6 route del 2001:db8:7::/48");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert!(route("2001:db8:7::7").contains("via fe80::1"), "{}", route("2001:db8:7::7"));
        let theirs = ip("-6 route get fe80::5 from 2001:db8:1::1 oif up2");
        assert!(theirs.contains("dev up2") && !theirs.contains("via"), "{theirs}");
    });
}

#[test]
fn a_source_whose_uplink_is_gone_does_not_leave_by_the_other() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let view = netlink.view().await.unwrap();
        netlink.ensure_moor().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        // At once, before any process has noticed: the kernel has removed the routes with the interface.
        netlink.keep_ulid(Ulid(address("2001:db8:2::1"))).await.unwrap();
        ip("link set up2 down");
        assert!(unreachable("2001:db8:2::1"));
        // Later: the prefix is still ours, as a ULID of it is kept.
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert!(unreachable("2001:db8:2::1"));
        // No interface has an address of the prefix any more, so its rule is removed.
        netlink.release_ulid(Ulid(address("2001:db8:2::1"))).await.unwrap();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert!(!ip("-6 rule").contains("2001:db8:2::/64"));
        assert!(!ip("-6 route show table all").contains("table 5541"));
    });
}

fn unreachable(from: &str) -> bool {
    let output = std::process::Command::new("ip")
        .args(["-6", "route", "get", FAR, "from", from])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let refused = text.contains("unreachable") || text.contains("No route to host");
    assert!(refused || text.contains(" dev up"), "{text}");
    refused
}

#[test]
fn a_prefix_keeps_its_table_when_others_come_and_go() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert!(ip("-6 rule").contains("from 2001:db8:2::/64 lookup 5541"));
        ip("-6 addr del 2001:db8:1::1/64 dev up1");
        // An earlier process made the rules, and a new one finds them by their mark.
        let netlink = host.netlink();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let rules = ip("-6 rule");
        assert!(rules.contains("from 2001:db8:2::/64 lookup 5541"), "{rules}");
        assert!(!rules.contains("2001:db8:1::/64"), "{rules}");
        ip("-6 addr add 2001:db8:3::1/64 dev up1 nodad");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        assert!(ip("-6 rule").contains("from 2001:db8:3::/64 lookup 5540"));
        assert_eq!(route_device(FAR, "2001:db8:3::1"), "up1");
    });
}

#[test]
fn another_gateway_takes_the_place_of_the_first() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        ip("-6 route replace default via fe80::99 dev up2 metric 1022");
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let table = ip("-6 route show table 5541");
        assert!(table.contains("default via fe80::99 dev up2"), "{table}");
        assert!(!table.contains("via fe80::2 "), "{table}");
        assert_eq!(table.matches("default").count(), 2, "a way and a stop: {table}");
    });
}

#[test]
fn a_router_that_is_heard_of_takes_the_place_of_a_way_without() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let ensure =
            async || netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap().is_changed;
        let ways = || {
            let table = ip("-6 route show table 5541");
            let ways = table.lines().filter(|route| route.contains("default"));
            ways.map(|route| route.replace(" pref medium", "\n")).collect::<String>()
        };
        ip("-6 route del default dev up2");
        ip("-6 route add default dev up2 metric 1022");
        assert!(ensure().await);
        assert!(ways().starts_with("default dev up2 "), "{}", ways());
        ip("-6 route del default dev up2");
        ip("-6 route add default via fe80::2 dev up2 metric 1022");
        assert!(ensure().await);
        assert!(ways().starts_with("default via fe80::2 dev up2 "), "{}", ways());
        assert_eq!(ways().lines().count(), 2, "a way and a stop: {}", ways());
        assert!(!ensure().await);
    });
}

#[test]
fn ensuring_twice_changes_nothing() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        let view = netlink.view().await.unwrap();
        let links = netlink.ensure_moor().await.unwrap();
        assert!(netlink.ensure_rules(&view).await.unwrap().is_changed);
        let before = crate::harness::state();
        assert_eq!(netlink.ensure_moor().await.unwrap(), links);
        assert!(!netlink.ensure_rules(&view).await.unwrap().is_changed);
        crate::harness::assert_state(&before);
    });
}

#[test]
fn routes_of_moved_pairs_stay_when_rules_change() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        add_moved(&netlink, pair("2001:db8:1::1", FAR), 1400).await;
        let moved = ip("-6 route show table 5530");
        assert!(netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap().is_changed);
        ip("-6 addr del 2001:db8:2::1/64 dev up2");
        assert!(netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap().is_changed);
        assert_eq!(ip("-6 route show table 5530"), moved);
    });
}

/// The link by which the packets of a connected socket leave, by the counters of the links. The kernel sends a few
/// packets of its own (multicast listener reports), but not as many.
fn device(socket: &UdpSocket) -> &'static str {
    const PACKETS: u64 = 200;
    let before = LINKS.map(sent);
    for _ in 0..PACKETS {
        socket.send(b"x").unwrap();
    }
    let taken: Vec<&str> = LINKS
        .into_iter()
        .zip(before)
        .filter(|(l, n)| sent(l) - n >= PACKETS)
        .map(|(l, _)| l)
        .collect();
    let [link] = taken[..] else { panic!("{taken:?}") };
    link
}

const LINKS: [&str; 3] = ["up1", "up2", "moor0"];

#[test]
fn a_connected_socket_follows_its_pair_to_moor0_and_back_at_once() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let socket = UdpSocket::bind("[2001:db8:1::1]:0").unwrap();
        socket.connect((FAR, 9)).unwrap();
        let other = UdpSocket::bind("[2001:db8:1::1]:0").unwrap();
        other.connect(("2001:db8:9::10", 9)).unwrap();
        assert_eq!((device(&socket), device(&other)), ("up1", "up1"));
        assert_eq!(rustix::net::sockopt::ipv6_mtu(&socket).unwrap(), 1500);

        add_moved(&netlink, pair("2001:db8:1::1", FAR), 1392).await;
        assert_eq!((device(&socket), device(&other)), ("moor0", "up1"));
        assert_eq!(rustix::net::sockopt::ipv6_mtu(&socket).unwrap(), 1392);

        add_moved(&netlink, pair("2001:db8:1::1", FAR), 1272).await;
        assert_eq!(device(&socket), "moor0");
        assert_eq!(rustix::net::sockopt::ipv6_mtu(&socket).unwrap(), 1272);

        let ulids = pair("2001:db8:1::1", FAR);
        let moved = MovedRoute { ulids, mtu: 1272, bare_tcp_mtu: None, direct: None, own: None };
        assert!(netlink.remove_moved(&[moved]).await.unwrap());
        assert_eq!(device(&socket), "up1");
        assert!(!netlink.remove_moved(&[moved]).await.unwrap());
    });
}

#[test]
fn a_direct_route_is_preferred_and_goes_with_its_uplink() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let view = netlink.view().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        let socket = UdpSocket::bind("[2001:db8:1::1]:0").unwrap();
        socket.connect((FAR, 9)).unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let hop = view.uplink_of(address("2001:db8:2::1")).unwrap();
        let direct = hop.next_hop(address("2001:db8:2::1"));
        assert_eq!(direct.unwrap().gateway, address("fe80::2"));
        let moved = MovedRoute { ulids, mtu: 1392, bare_tcp_mtu: None, direct, own: None };
        netlink.add_all_moved(&[moved]).await.unwrap();
        assert_eq!(device(&socket), "moor0");
        netlink.lead_directly(&[moved]).await.unwrap();
        assert_eq!(device(&socket), "up2");
        assert_eq!(rustix::net::sockopt::ipv6_mtu(&socket).unwrap(), 1392);
        assert!(ip(&format!("-6 route get {FAR} from 2001:db8:1::1")).contains("via fe80::2"));

        // The uplink gets another router.
        ip("-6 neigh add fe80::3 lladdr 02:00:00:00:00:03 dev up2");
        ip("-6 route add default via fe80::3 dev up2 metric 1");
        let view = netlink.view().await.unwrap();
        let hop = view.uplink_of(address("2001:db8:2::1")).unwrap();
        let direct = hop.next_hop(address("2001:db8:2::1"));
        let moved = MovedRoute { direct, ..moved };
        netlink.lead_directly(&[moved]).await.unwrap();
        let shown = ip("-6 route show table 5530 dev up2");
        assert!(shown.contains("via fe80::3") && shown.lines().count() == 1, "{shown}");

        assert!(netlink.lead_by_moor(&[moved]).await.unwrap());
        assert_eq!(device(&socket), "moor0");
        assert!(!netlink.lead_by_moor(&[moved]).await.unwrap());
        netlink.lead_directly(&[moved]).await.unwrap();
        assert_eq!(device(&socket), "up2");
        ip("link set up2 down");
        assert_eq!(device(&socket), "moor0");
        ip("link set up2 up");
        netlink.remove_moved(&[moved]).await.unwrap();
        assert_eq!(device(&socket), "up1");
    });
}

#[test]
fn tcp_that_goes_without_a_header_keeps_the_whole_mtu() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let view = netlink.view().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let moved =
            MovedRoute { ulids, mtu: 1392, bare_tcp_mtu: Some(1400), direct: None, own: None };
        netlink.add_all_moved(&[moved]).await.unwrap();
        let route = |protocol: &str| {
            ip(&format!("-6 route get {FAR} from 2001:db8:1::1 ipproto {protocol}"))
        };
        let leads_to = |device: &str| {
            for (protocol, mtu) in [("tcp", "mtu 1400"), ("udp", "mtu 1392")] {
                let route = route(protocol);
                assert!(route.contains(device) && route.contains(mtu), "{route}");
            }
        };
        leads_to("dev moor0");
        let hop = view.uplinks[1].next_hop(address("2001:db8:2::1"));
        let moved = MovedRoute { direct: hop, ..moved };
        netlink.lead_directly(&[moved]).await.unwrap();
        leads_to("dev up2");
        assert!(netlink.lead_by_moor(&[moved]).await.unwrap());
        leads_to("dev moor0");
        netlink.lead_directly(&[moved]).await.unwrap();
        assert!(netlink.remove_moved(&[moved]).await.unwrap());
        assert!(["tcp", "udp"].iter().all(|protocol| route(protocol).contains("dev up1")));
    });
}

#[test]
fn direct_routes_whose_mtu_the_kernel_has_changed_are_found_and_removed() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let view = netlink.view().await.unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let direct = view.uplinks[1].next_hop(address("2001:db8:2::1"));
        let own = view.uplinks[0].next_hop(address("2001:db8:1::1"));
        let moved = MovedRoute { ulids, mtu: 1492, bare_tcp_mtu: Some(1500), direct, own };
        netlink.add_all_moved(&[moved]).await.unwrap();
        netlink.lead_directly(&[moved]).await.unwrap();
        let found = netlink.moved().await.unwrap();
        assert_eq!(found, [FoundRoute { route: moved, has_direct: true }]);

        ip("link set up2 mtu 1400");
        let found = netlink.moved().await.unwrap();
        let route = MovedRoute { direct: None, ..moved };
        assert_eq!(found, [FoundRoute { route, has_direct: true }]);
        assert!(netlink.lead_by_moor(&[route]).await.unwrap());
        let found = netlink.moved().await.unwrap();
        assert_eq!(found, [FoundRoute { route, has_direct: false }]);

        netlink.lead_directly(&[moved]).await.unwrap();
        assert!(netlink.remove_moved(&[route]).await.unwrap());
        assert_eq!(netlink.moved().await.unwrap(), []);
    });
}

/// Sets unbound routes as the daemon does.
async fn set_unbound(netlink: &Netlink, ulids: UlidPair) -> Vec<(Ulid, u32)> {
    let Some(path_mtu) = netlink.path_mtu(ulids, None).await.unwrap() else { return Vec::new() };
    netlink.set_unbound(&[UnboundPeer { peer: ulids.peer, path_mtu, before: None }]).await.unwrap()
}

#[test]
fn sockets_without_an_address_leave_room_for_one_peer_and_go_where_they_went() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let view = netlink.view().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let moved = MovedRoute { ulids, mtu: 1392, bare_tcp_mtu: None, direct: None, own: None };
        netlink.add_all_moved(&[moved]).await.unwrap();
        let route = |to: &str| ip(&format!("-6 route get {to}"));
        let before = route(FAR);
        assert!(before.contains("dev up1") && !before.contains("mtu"), "{before}");
        let connected = UdpSocket::bind("[::]:0").unwrap();
        connected.connect((FAR, 9)).unwrap();
        let mtu = || {
            connected.send(b"x").unwrap();
            rustix::net::sockopt::ipv6_mtu(&connected).unwrap()
        };
        assert_eq!(mtu(), 1500);

        let set = set_unbound(&netlink, ulids).await;
        assert_eq!(set, [(ulids.peer, 1392)]);
        assert_eq!(mtu(), 1392, "it looks its route up again");
        let udp = format!("{FAR} ipproto udp");
        assert!(["dev up1", "mtu 1392"].iter().all(|part| route(&udp).contains(part)));
        assert!(route(&format!("{FAR} oif up2")).contains("dev up2"));
        let away = [
            format!("{FAR} ipproto tcp"),
            format!("{FAR} from 2001:db8:2::1"),
            "2001:db8:9::8".to_owned(),
        ];
        for other in &away {
            assert!(!route(other).contains("mtu"), "{}", route(other));
        }
        // Rules of others for all packets that leave the host come first.
        ip("-6 rule add priority 20000 lookup 77");
        ip("-6 route add default dev up2 table 77");
        assert!(!route(&udp).contains("mtu"), "{}", route(&udp));
        ip("-6 rule del priority 20000");
        // The owner of unbound routes removes those to peers to which another route leads.
        ip("-6 route add 2001:db8:9::/48 via fe80::2 dev up2");
        netlink.remove_unbound(|peer| *peer == ulids.peer).await.unwrap();
        assert_eq!(set_unbound(&netlink, ulids).await, []);
        assert!(!route(&udp).contains("mtu"), "{}", route(&udp));
        ip("-6 route del 2001:db8:9::/48");
        set_unbound(&netlink, ulids).await;
        // The router of the first provider is gone. As without us, packets without a source go to the second one.
        ip("link set up1 down");
        assert!(route(&udp).contains("dev up2"), "{}", route(&udp));

        netlink.remove_unbound(|peer| *peer == ulids.peer).await.unwrap();
        let table = || ip("-6 route show table 5532");
        assert_eq!(table(), "");
        set_unbound(&netlink, ulids).await;
        assert_eq!(table().lines().count(), 1);
        assert!(table().contains("expires"), "{}", table());
        netlink.remove_unbound(|_| true).await.unwrap();
        assert_eq!(table(), "");
    });
}

#[test]
fn a_default_route_that_names_the_source_names_it_to_sockets_that_leave_room() {
    on_host(async |host: Host| {
        ip("-6 addr add 2001:db8:1::7/64 dev up1 nodad");
        ip("-6 route del default dev up1");
        ip("-6 route add default via fe80::1 dev up1 metric 1021 src 2001:db8:1::7");
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let view = netlink.view().await.unwrap();
        netlink.ensure_rules(&view).await.unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let moved = MovedRoute { ulids, mtu: 1392, bare_tcp_mtu: None, direct: None, own: None };
        netlink.add_all_moved(&[moved]).await.unwrap();
        set_unbound(&netlink, ulids).await;
        let route = ip(&format!("-6 route get {FAR}"));
        assert!(
            ["src 2001:db8:1::7", "mtu 1392"].iter().all(|part| route.contains(part)),
            "{route}"
        );
    });
}

#[test]
fn an_unbound_route_takes_no_more_than_the_host_says_of_the_way() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let set = async || set_unbound(&netlink, ulids).await;
        assert_eq!(set().await, [], "the kernel knows of no other MTU");
        add_moved(&netlink, ulids, 1392).await;
        ip("-6 route replace default via fe80::1 dev up1 metric 1021 mtu 1350");
        assert_eq!(set().await, [(ulids.peer, 1350)]);
        // The MTU that a router advertises for the link.
        std::fs::write("/proc/sys/net/ipv6/conf/up1/mtu", "1320").unwrap();
        assert_eq!(set().await, [(ulids.peer, 1320)]);

        netlink.remove_unbound(|_| true).await.unwrap();
        // Unbound routes copy only default routes: neither other routes nor the rules of others.
        ip("-6 route add 2001:db8:9::/48 via fe80::2 dev up2");
        assert_eq!(set().await, []);
        ip("-6 route del 2001:db8:9::/48");
        ip("-6 rule add priority 20000 lookup 77");
        ip("-6 route add default dev up2 table 77");
        assert_eq!(set().await, []);
        ip("-6 rule del priority 20000");
        assert_eq!(set().await, [(ulids.peer, 1320)]);
    });
}

#[test]
fn an_unbound_route_spreads_flows_as_the_multipath_route_of_the_host_does() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let hops = "nexthop via fe80::1 dev up1 weight 5 nexthop via fe80::2 dev up2 weight 2";
        ip(&format!("-6 route add default metric 1 {hops}"));
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let ulids = pair("2001:db8:1::1", FAR);
        let set = async || set_unbound(&netlink, ulids).await;
        // The kernel's choice also depends on ports.
        std::fs::write("/proc/sys/net/ipv6/fib_multipath_hash_policy", "1").unwrap();
        let way = |port: u16| {
            let route = ip(&format!("-6 route get {FAR} ipproto udp sport {port} dport 9"));
            let mtu = route.contains("mtu 1392");
            (if route.contains("dev up1") { "up1" } else { "up2" }, mtu)
        };
        let ways = || (1..40).map(way).collect::<Vec<_>>();
        let before = ways();
        let by = |device| before.iter().filter(|way| **way == (device, false)).count();
        assert!(by("up1") > by("up2") && by("up2") > 0, "{before:?}");
        add_moved(&netlink, ulids, 1392).await;
        // The second time, the unbound route itself is the kernel's choice.
        for _ in 0..2 {
            assert_eq!(set().await, [(ulids.peer, 1392)]);
            let after = ways();
            assert!(after.iter().zip(&before).all(|(after, way)| *after == (way.0, true)));
        }
        // The result does not depend on the next hop that the kernel chooses for a peer.
        let peers: Vec<_> = (1..20).map(|n| format!("2001:db8:9::{n:x}")).collect();
        for peer in &peers {
            let ulids = pair("2001:db8:1::1", peer);
            add_moved(&netlink, ulids, 1392).await;
            assert_eq!(set_unbound(&netlink, ulids).await, [(ulids.peer, 1392)], "{peer}");
        }
        ip("link set up1 down");
        assert!(ways().iter().all(|way| *way == ("up2", true)), "{:?}", ways());
        netlink.remove_unbound(|_| true).await.unwrap();
        for _ in 0..2 {
            assert_eq!(set().await, [(ulids.peer, 1392)], "one next hop is dead");
        }
        assert!(ways().iter().all(|way| *way == ("up2", true)), "{:?}", ways());
        netlink.remove_unbound(|peer| *peer == ulids.peer).await.unwrap();
        assert_eq!(ip("-6 route show table 5532"), "");
        set().await;
        netlink.remove_unbound(|_| true).await.unwrap();
        assert_eq!(ip("-6 route show table 5532"), "");
    });
}

#[test]
fn routes_of_many_pairs_are_set_and_removed_whatever_becomes_of_some() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        let view = netlink.view().await.unwrap();
        let hop = view.uplinks[1].next_hop(address("2001:db8:2::1")).unwrap();
        let route = |i: u16| {
            let nowhere = NextHop { ifindex: 999, ..hop };
            let direct = Some(if i % 50 == 7 { nowhere } else { hop });
            let ulids = pair("2001:db8:1::1", &format!("2001:db8:9:{i:x}::1"));
            MovedRoute { ulids, mtu: 1392, bare_tcp_mtu: None, direct, own: None }
        };
        let moved: Vec<_> = (0..200).map(route).collect();
        let count =
            |device: &str| ip(&format!("-6 route show table 5530 dev {device}")).lines().count();
        netlink.add_all_moved(&moved).await.unwrap();
        let error = netlink.lead_directly(&moved).await.unwrap_err();
        assert!(error.to_string().contains("2001:db8:9:7::1"), "{error}");
        assert_eq!((count("up2"), count("moor0")), (196, 200));
        assert!(netlink.lead_by_moor(&moved).await.unwrap());
        assert_eq!((count("up2"), count("moor0")), (0, 200));
        assert!(!netlink.lead_by_moor(&moved).await.unwrap());
        assert!(netlink.remove_moved(&moved[..150]).await.unwrap());
        assert_eq!(count("moor0"), 50);
    });
}

#[test]
fn a_specific_route_of_the_host_does_not_keep_a_moved_pair() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        ip("-6 route add 2001:db8:9::/48 via fe80::2 dev up2");
        netlink.ensure_moor().await.unwrap();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let socket = UdpSocket::bind("[2001:db8:1::1]:0").unwrap();
        socket.connect((FAR, 9)).unwrap();
        assert_eq!(device(&socket), "up2");
        add_moved(&netlink, pair("2001:db8:1::1", FAR), 1492).await;
        assert_eq!(device(&socket), "moor0");
    });
}

#[test]
fn what_has_to_leave_by_an_uplink_does_not_go_to_moor0_again() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        add_moved(&netlink, pair("2001:db8:1::1", FAR), 1392).await;
        assert_eq!(route_device(FAR, "2001:db8:1::1"), "moor0");
        // The look-up that `bpf_redirect_neigh` makes.
        let redirected = || ip(&format!("-6 route get {FAR} from 2001:db8:1::1 oif up1"));
        assert!(redirected().contains("via fe80::1 dev up1"), "{}", redirected());
        // The look-up for a socket that names the uplink for a packet.
        let named =
            ip(&format!("-6 route get {FAR} from 2001:db8:1::1 oif up1 ipproto udp dport 9"));
        assert!(named.contains("dev moor0") && named.contains("mtu 1392"), "{named}");
        ip("-6 rule del pref 5531 oif up1");
        assert!(redirected().contains("dev moor0"), "why the rule is there: {}", redirected());
    });
}

#[test]
fn moved_pairs_are_found_again_after_a_restart() {
    on_host(async |host: Host| {
        let view = host.netlink().view().await.unwrap();
        let hop = view.uplinks[1].next_hop(address("2001:db8:2::1")).unwrap();
        let moved: Vec<MovedRoute> = (1..=40u16)
            .map(|i| {
                let peer = Ulid(std::net::Ipv6Addr::new(0x2001, 0xdb8, 9, i, 0, 0, 0, 1));
                let ulids = UlidPair::new(Ulid(address("2001:db8:1::1")), peer);
                let direct = (i % 4 == 0).then_some(hop);
                let path_mtu = 1300 + u32::from(i);
                let bare_tcp_mtu = (i % 2 == 0).then_some(path_mtu);
                MovedRoute { ulids, mtu: path_mtu - 8, bare_tcp_mtu, direct, own: None }
            })
            .collect();
        let netlink = host.netlink();
        netlink.ensure_moor().await.unwrap();
        netlink.add_all_moved(&moved).await.unwrap();
        netlink.lead_directly(&moved).await.unwrap();
        drop(netlink);

        let netlink = host.netlink();
        let mut found = netlink.moved().await.unwrap();
        found.sort_by_key(|found| found.route.ulids);
        let has_direct = |route: MovedRoute| route.direct.is_some();
        let moved_found =
            moved.iter().map(|route| FoundRoute { route: *route, has_direct: has_direct(*route) });
        assert_eq!(found, moved_found.collect::<Vec<_>>());
        assert!(netlink.remove_moved(&[moved[3]]).await.unwrap());
        assert_eq!(netlink.moved().await.unwrap().len(), 39);
        assert_eq!(ip("-6 route show table 5530 dev up2").lines().count(), 9);
        assert_eq!(ip("-6 route show table 5531").lines().count(), 19 + 9);
    });
}
