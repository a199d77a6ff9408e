//! The host's own rules, and how they decide beside ours.

use crate::harness::{Host, ip, on_host, route_device};
use moorline_netlink::Netlink;
use std::process::Command;

const FAR: &str = "2001:db8:9::9";

/// The way of a packet from a prefix of up2 with these further properties; "stopped" if there is none.
fn way(besides: &str) -> String {
    let arguments = format!("-6 route get {FAR} from 2001:db8:2::1 {besides}");
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let mut words = shown.split_whitespace();
    if !output.status.success() || shown.starts_with("unreachable") {
        return "stopped".to_owned();
    }
    words.find(|word| *word == "dev").and_then(|_| words.next()).unwrap().to_owned()
}

async fn follow(netlink: &Netlink) {
    netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
    let again = netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
    assert!(!again.is_changed, "once is enough");
}

/// The rules have the priorities that the kernel assigns to rules without one, before our rules exist.
#[test]
fn a_persons_own_rules_decide_as_they_would_without_ours() {
    on_host(async |host: Host| {
        let rules = [
            ("fwmark 7 unreachable", "mark 7"),
            ("ipproto tcp dport 7999 unreachable", "ipproto tcp dport 7999"),
            ("uidrange 1000-1001 unreachable", "uid 1000"),
            ("to 2001:db8:9::/48 dsfield 8 lookup 100", "tos 8"),
        ];
        ip("-6 route add default via fe80::1 dev up1 table 100");
        for (rule, _) in rules {
            ip(&format!("-6 rule add {rule}"));
        }
        let ways = || rules.map(|(_, besides)| way(besides));
        let netlink = host.netlink();
        follow(&netlink).await;
        assert_eq!(ways(), ["stopped", "stopped", "stopped", "up1"]);
        assert_eq!(way(""), "up2", "all others are led by their source");
        ip("-6 rule del fwmark 7 unreachable");
        assert_eq!(ways(), ["up2", "stopped", "stopped", "up1"]);
        // As our rules exist by now, the kernel puts this rule in front of them all.
        ip("-6 rule add fwmark 7 unreachable");
        assert_eq!(ways(), ["stopped", "stopped", "stopped", "up1"]);
        // A later prefix gets its rule behind the host's rules, too.
        ip("-6 addr add 2001:db8:2:2::1/64 dev up2 nodad");
        follow(&netlink).await;
        let route = ip("-6 rule");
        let at = |text: &str| route.find(text).unwrap_or_else(|| panic!("{route}"));
        assert!(at("uidrange 1000-1001") < at("from 2001:db8:2:2::/64"), "{route}");
        assert!(at("from 2001:db8:2:2::/64") < at("lookup 5532"), "{route}");
        assert!(at("lookup 5532") < at("32766:"), "{route}");
    });
}

/// If a table has no route for a packet, the rules of prefixes decide, as the main table would.
#[test]
fn a_rule_that_finds_nothing_decides_nothing() {
    on_host(async |host: Host| {
        ip("-6 route add 2001:db8:77::/64 dev up1 table 100");
        ip("-6 rule add pref 32000 lookup 100");
        let netlink = host.netlink();
        follow(&netlink).await;
        assert_eq!(way(""), "up2");
        assert_eq!(route_device("2001:db8:77::1", "2001:db8:2::1"), "up1");
    });
}

/// Rules like those of wg-quick: specific routes first, then all packets except those of the tunnel itself.
#[test]
fn a_vpn_with_rules_of_its_own_takes_all_and_gives_all_back() {
    on_host(async |host: Host| {
        ip("link add tun0 type veth peer name tun1");
        ip("link set tun0 up");
        ip("-6 route add default dev tun0 table 51820");
        let netlink = host.netlink();
        let rules = ["not fwmark 51820 lookup 51820", "lookup main suppress_prefixlength 0"];
        // Before our rules exist, and after.
        for _ in 0..2 {
            for rule in rules {
                ip(&format!("-6 rule add {rule}"));
            }
            follow(&netlink).await;
            assert_eq!(way(""), "tun0");
            assert_eq!(way("mark 51820"), "up2", "the tunnel itself");
            for rule in rules {
                ip(&format!("-6 rule del {rule}"));
            }
            assert_eq!(route_device(FAR, "2001:db8:2::1"), "up2");
        }
    });
}
