use crate::harness::{Host, add_moved, address, assert_state, index, ip, on_host, state};
use moorline_netlink::{AddressSpec, Netlink, Undone};
use moorline_types::{Ulid, UlidPair};
use serde_json::json;

/// Every kind of change there is.
async fn change_everything(netlink: &Netlink) {
    let view = netlink.view().await.unwrap();
    netlink.ensure_moor().await.unwrap();
    netlink.ensure_rules(&view).await.unwrap();
    let ulid = Ulid(address("2001:db8:1::1"));
    let pair = UlidPair::new(ulid, Ulid(address("2001:db8:9::9")));
    add_moved(netlink, pair, 1492).await;
    netlink.keep_ulid(ulid).await.unwrap();
    for (name, own) in [("up1", "2001:db8:1::77"), ("up2", "2001:db8:2::77")] {
        let spec = AddressSpec { detect_duplicates: false, ..AddressSpec::new(address(own), 64) };
        assert!(netlink.add_address_with(index(&view, name), spec).await.unwrap());
    }
}

fn assert_clean(report: &[Undone]) {
    let left: Vec<String> =
        report.iter().filter(|one| one.is_failure()).map(ToString::to_string).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn undoing_leaves_the_host_as_it_was() {
    on_host(async |host: Host| {
        let before = state();
        let netlink = host.netlink();
        change_everything(&netlink).await;
        assert_ne!(state(), before);
        assert!(host.has_journal());
        let report = netlink.undo_all().await;
        assert_clean(&report);
        assert_state(&before);
        assert!(!host.has_journal());
        let told: Vec<String> = report.iter().map(ToString::to_string).collect();
        for what in [
            "removed rule 5533: from all lookup 5530",
            "removed rule 5541: from 2001:db8:2::/64 lookup 5541",
            "removed route to 2001:db8:9::9/128 from 2001:db8:1::1/128 in table 5530",
            "removed link moor0",
        ] {
            assert!(told.iter().any(|line| line == what), "{what}: {told:#?}");
        }
        assert!(netlink.undo_all().await.is_empty(), "nothing is left to undo");
    });
}

#[test]
fn after_a_crash_another_process_undoes_everything() {
    on_host(async |host: Host| {
        let before = state();
        let netlink = host.netlink();
        change_everything(&netlink).await;
        drop(netlink);
        let netlink = host.netlink();
        assert!(!netlink.changes().is_empty());
        assert_clean(&netlink.undo_all().await);
        assert_state(&before);
        assert!(!host.has_journal());
    });
}

#[test]
fn without_the_journal_the_marks_are_enough() {
    on_host(async |host: Host| {
        let before = state();
        let netlink = host.netlink();
        change_everything(&netlink).await;
        drop(netlink);
        std::fs::remove_file(host.folder.path().join("journal.json")).unwrap();
        assert_clean(&host.netlink().undo_all().await);
        assert_state(&before);
    });
}

#[test]
fn what_a_version_with_other_numbers_has_made_the_journal_still_finds() {
    on_host(async |host: Host| {
        let before = state();
        ip("link add a0 type veth peer name a1");
        ip("-6 rule add priority 103 lookup 1000 protocol 200");
        ip("-6 rule add priority 111 from 2001:db8:2::/64 lookup 2001 protocol 200");
        ip("-6 route add default via fe80::2 dev up2 table 2001 proto 200");
        ip("-6 route add unreachable 2001:db8:9::9 from 2001:db8:1::1 table 1000 proto 200");
        ip("-6 addr add 2001:db8:2::77/128 dev up2 nodad");
        let ifindex = index(&host.netlink().view().await.unwrap(), "up2");
        host.write_journal(&[
            json!({ "kind": "link", "name": "a0", "peer": "a1" }),
            json!({ "kind": "rules", "base": 100, "protocol": 200 }),
            json!({ "kind": "table", "table": 1000, "protocol": 200 }),
            json!({ "kind": "table", "table": 2001, "protocol": 200 }),
            json!({ "kind": "address", "ifindex": ifindex, "address": "2001:db8:2::77", "prefix_len": 128 }),
        ]);
        let report = host.netlink().undo_all().await;
        assert_clean(&report);
        assert!(report.len() >= 7, "{report:?}");
        assert_state(&before);
        assert!(!host.has_journal());
    });
}

#[test]
fn a_restarted_daemon_takes_over_what_it_finds() {
    on_host(async |host: Host| {
        let before = state();
        let netlink = host.netlink();
        change_everything(&netlink).await;
        let changed = state();
        drop(netlink);
        let netlink = host.netlink();
        change_everything(&netlink).await;
        // Nothing was removed or made twice.
        assert_state(&changed);
        assert_clean(&netlink.undo_all().await);
        assert_state(&before);
    });
}

#[test]
fn what_others_have_changed_meanwhile_is_left_alone() {
    on_host(async |host: Host| {
        let netlink = host.netlink();
        change_everything(&netlink).await;
        ip("link del up2");
        ip("-6 rule del pref 5531");
        ip("-6 addr del 2001:db8:1::77/64 dev up1");
        ip("-6 rule add pref 5545 from 2001:db8:6::/64 lookup 5545");
        ip("-6 route add 2001:db8:6::/64 dev up1 table 5540");
        assert_clean(&netlink.undo_all().await);
        let rules = ip("-6 rule");
        assert!(rules.contains("5545:") && !rules.contains("5540:"), "{rules}");
        assert_eq!(ip("-6 route show table 5540").lines().count(), 1);
        assert!(!ip("link").contains("moor"));
        assert!(!host.has_journal());
    });
}
