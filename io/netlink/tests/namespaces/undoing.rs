use crate::harness::{Host, add_moved, address, assert_state, index, ip, on_host, state};
use moorline_netlink::{AddressSpec, Error, Netlink, Undone};
use moorline_types::{Ulid, UlidPair};

/// Makes a change of each kind.
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
        let report = netlink.undo_all().await;
        assert_clean(&report);
        assert_state(&before);
        let told: Vec<String> = report.iter().map(ToString::to_string).collect();
        for what in [
            "removed rule 5533: from all lookup 5530",
            "removed rule 32765: from 2001:db8:2::/64 lookup 5541",
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
        assert_clean(&netlink.undo_all().await);
        assert_state(&before);
    });
}

#[test]
fn links_that_were_made_and_not_set_up_yet_bear_a_mark() {
    on_host(async |host: Host| {
        let before = state();
        ip("link add moor0 type veth peer name moor1");
        let error = host.netlink().ensure_moor().await.unwrap_err();
        assert!(matches!(error, Error::Conflict(_)), "{error}");
        assert_clean(&host.netlink().undo_all().await);
        assert!(ip("link").contains("moor0"));
        ip("link del moor0");

        ip(MADE);
        host.netlink().ensure_moor().await.unwrap();
        assert_clean(&host.netlink().undo_all().await);
        assert_state(&before);

        ip(MADE);
        let report = host.netlink().undo_all().await;
        assert_clean(&report);
        assert!(!report.is_empty());
        assert_state(&before);
    });
}

/// Makes the state that a run leaves if it is killed while it makes the pair.
const MADE: &str = "link add moor0 group 139 type veth peer name moor1 group 139";

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
        // No change was undone or made twice.
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
        assert!(rules.contains("5545:") && !rules.contains("proto 139"), "{rules}");
        assert_eq!(ip("-6 route show table 5540").lines().count(), 1);
        assert!(!ip("link").contains("moor"));
    });
}
