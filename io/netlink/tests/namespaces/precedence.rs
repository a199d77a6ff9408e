//! Rules of the host's own that stand behind ours.

use crate::harness::{Host, ip, on_host, route_device};
use moorline_netlink::Netlink;
use std::process::Command;

const FAR: &str = "2001:db8:9::9";

/// Where a packet from a prefix of up2 goes that has this besides; "stopped" if nowhere.
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

/// Rules of ours that have packets pass by.
fn passing() -> usize {
    ip("-6 rule").lines().filter(|rule| rule.contains("goto 5604")).count()
}

async fn follow(netlink: &Netlink) {
    netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
    let again = netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
    assert!(!again.is_changed, "once is enough");
}

/// The priorities are those that the kernel gives rules without one before ours are there.
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
        follow(&netlink).await;
        assert_eq!(ways(), ["up2", "stopped", "stopped", "up1"]);
        ip("-6 rule add pref 32000 fwmark 7 unreachable");
        follow(&netlink).await;
        assert_eq!(ways(), ["stopped", "stopped", "stopped", "up1"]);
        ip("-6 rule del pref 32000");
        ip("-6 rule add pref 32765 fwmark 7 unreachable");
        follow(&netlink).await;
        netlink.undo_all().await;
        let left = ip("-6 rule");
        assert_eq!(left.matches("fwmark 0x7 unreachable").count(), 1, "{left}");
        assert!(!left.contains("goto"), "{left}");
    });
}

/// The kernel takes rules with the same priority for the same if one of them names less, or the opposite.
#[test]
fn rules_that_the_kernel_takes_for_the_same_are_all_followed() {
    on_host(async |host: Host| {
        ip("link add tun0 type veth peer name tun1");
        ip("link set tun0 up");
        ip("-6 route add default dev tun0 table 100");
        let netlink = host.netlink();
        let rules = [
            "pref 32001 from 2001:db8:7::/64 lookup 100",
            "pref 32002 to 2001:db8:7::/64 lookup 100",
            "pref 32003 fwmark 7 lookup 100",
            "pref 32004 not fwmark 7 to 2001:db8:7::/64 lookup 100",
            "pref 32005 not fwmark 8 lookup main",
            "pref 32006 lookup 100",
        ];
        for (number, rule) in (1..).zip(rules) {
            ip(&format!("-6 rule add {rule}"));
            follow(&netlink).await;
            assert_eq!(passing(), number, "{}", ip("-6 rule"));
        }
        // Whichever goes, the others stay.
        for left in (0..rules.len()).rev() {
            ip(&format!("-6 rule del {}", rules[left]));
            follow(&netlink).await;
            assert_eq!(passing(), left, "{}", ip("-6 rule"));
        }
        for rule in rules {
            ip(&format!("-6 rule add {rule}"));
        }
        follow(&netlink).await;
        ip("-6 rule del pref 32006");
        follow(&netlink).await;
        assert_eq!(passing(), rules.len() - 1);
        netlink.undo_all().await;
        assert_eq!(ip("-6 rule").matches("goto").count(), 0);
    });
}

/// As wg-quick has it: specific routes first, then everything but what the tunnel itself sends.
#[test]
fn a_vpn_with_rules_of_its_own_takes_all_and_gives_all_back() {
    on_host(async |host: Host| {
        ip("link add tun0 type veth peer name tun1");
        ip("link set tun0 up");
        ip("-6 route add default dev tun0 table 51820");
        let netlink = host.netlink();
        follow(&netlink).await;
        ip("-6 rule add pref 32764 not fwmark 51820 lookup 51820");
        ip("-6 rule add pref 32763 lookup main suppress_prefixlength 0");
        follow(&netlink).await;
        assert_eq!(way(""), "tun0");
        assert_eq!(way("mark 51820"), "up2", "the tunnel itself");
        // A rule for everything is told from others although it names nothing.
        ip("-6 rule add pref 32000 lookup 51820");
        follow(&netlink).await;
        assert_eq!(way("mark 51820"), "tun0");
        ip("-6 rule del pref 32000");
        follow(&netlink).await;
        assert_eq!((way(""), way("mark 51820")), ("tun0".to_owned(), "up2".to_owned()));
        ip("-6 rule del pref 32764");
        ip("-6 rule del pref 32763");
        follow(&netlink).await;
        assert_eq!(route_device(FAR, "2001:db8:2::1"), "up2");
        assert!(!ip("-6 rule").contains("5539:"));
    });
}

#[test]
fn a_rule_of_a_person_is_noticed() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        netlink.ensure_rules(&netlink.view().await.unwrap()).await.unwrap();
        let mut monitor = netlink.monitor().await.unwrap();
        let digest = monitor.view().rules_of_others;
        ip("-6 rule add pref 32000 fwmark 7 unreachable");
        while monitor.next().await.view.rules_of_others == digest {}
        ip("-6 rule del pref 32000");
        while monitor.next().await.view.rules_of_others != digest {}
    });
}
