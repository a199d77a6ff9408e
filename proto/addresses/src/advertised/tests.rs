use super::*;
use crate::view::tests::prefix;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;

const HOUR: u32 = 3600;
const FOREVER: u32 = u32::MAX;

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000 + seconds * 1_000_000_000)
}

fn information(text: &str, preferred: u32, valid: u32) -> PrefixInformation {
    let lifetimes = Lifetimes { preferred, valid };
    PrefixInformation { prefix: prefix(text), on_link: true, autonomous: true, lifetimes }
}

fn kernel(text: &str, preferred: u32, valid: u32) -> Advertisement {
    Advertisement {
        ifindex: 3,
        origin: Origin::Kernel,
        prefixes: vec![information(text, preferred, valid)],
        honors_zero: false,
    }
}

fn router(address: &str, lifetime: u64, prefixes: &[&str]) -> Advertisement {
    let lifetime = Duration::from_secs(lifetime);
    Advertisement {
        ifindex: 3,
        origin: Origin::Router { address: address.parse().unwrap(), lifetime },
        prefixes: prefixes.iter().map(|text| information(text, HOUR, 2 * HOUR)).collect(),
        honors_zero: false,
    }
}

fn only(table: &AdvertisedPrefixes) -> AdvertisedPrefix {
    let all: Vec<_> = table.prefixes().collect();
    let [only] = all[..] else { panic!("{all:?}") };
    only
}

/// The remaining lifetimes of the only prefix, in seconds.
fn left(table: &AdvertisedPrefixes, now: Instant) -> (u32, u32) {
    let Lifetimes { preferred, valid } = only(table).lifetimes(now);
    (preferred, valid)
}

#[test]
fn a_prefix_is_deprecated_and_then_gone_as_time_passes() {
    let mut table = AdvertisedPrefixes::new();
    assert!(table.handle_advertisement(&kernel("2001:db8:1::/64", 10, 20), at(0)));
    assert_eq!(left(&table, at(4)), (6, 16));
    assert_eq!(table.poll_timeout(at(4)), Some(at(10)));
    table.handle_timeout(at(10));
    assert_eq!(left(&table, at(10)), (0, 10));
    assert_eq!(table.poll_timeout(at(10)), Some(at(20)));
    table.handle_timeout(at(20));
    assert_eq!(table.prefixes().count(), 0);
    assert_eq!(table.poll_timeout(at(20)), None);
}

#[test]
fn a_repetition_prolongs_and_is_no_news() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&kernel("2001:db8:1::/64", 10, 20), at(0));
    assert!(!table.handle_advertisement(&kernel("2001:db8:1::/64", 10, 20), at(9)));
    assert_eq!(left(&table, at(9)), (10, 20));
    let forever = kernel("2001:db8:1::/64", FOREVER, FOREVER);
    assert!(!table.handle_advertisement(&forever, at(9)));
    assert_eq!(left(&table, at(9)), (FOREVER, FOREVER));
    assert_eq!(table.poll_timeout(at(9)), None);
}

#[test]
fn a_prefix_taken_back_is_deprecated_at_once_and_gone_after_two_hours() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&kernel("2001:db8:1::/64", 24 * HOUR, 48 * HOUR), at(0));
    assert!(table.handle_advertisement(&kernel("2001:db8:1::/64", 0, 0), at(100)));
    assert_eq!(left(&table, at(100)), (0, 2 * HOUR));
    // Another withdrawal does not give it two hours more.
    assert!(!table.handle_advertisement(&kernel("2001:db8:1::/64", 0, 0), at(200)));
    assert_eq!(left(&table, at(200)), (0, 2 * HOUR - 100));
    // The prefix is preferred again, which is news.
    assert!(table.handle_advertisement(&kernel("2001:db8:1::/64", HOUR, 3 * HOUR), at(300)));
    assert_eq!(left(&table, at(300)), (HOUR, 3 * HOUR));
}

#[test]
fn a_lifetime_that_was_short_before_is_not_made_longer_by_the_two_hours() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&kernel("2001:db8:1::/64", HOUR, HOUR), at(0));
    table.handle_advertisement(&kernel("2001:db8:1::/64", 0, 0), at(0));
    assert_eq!(left(&table, at(0)), (0, HOUR));
    table.handle_advertisement(&kernel("2001:db8:1::/64", 10, HOUR + 10), at(0));
    assert_eq!(left(&table, at(0)), (10, HOUR + 10));
}

#[test]
fn where_short_lifetimes_are_honoured_a_prefix_is_gone_when_the_router_says_so() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&kernel("2001:db8:1::/64", 24 * HOUR, 48 * HOUR), at(0));
    let honoured = |preferred, valid| Advertisement {
        honors_zero: true,
        ..kernel("2001:db8:1::/64", preferred, valid)
    };
    assert!(table.handle_advertisement(&honoured(0, 30), at(1)));
    assert_eq!(left(&table, at(1)), (0, 30));
    assert!(table.handle_advertisement(&honoured(0, 0), at(2)));
    assert_eq!(table.prefixes().count(), 0);
}

#[test]
fn renumbering_has_both_prefixes_for_a_while() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&kernel("2001:db8:1::/64", HOUR, 2 * HOUR), at(0));
    table.handle_advertisement(&kernel("2001:db8:2::/64", HOUR, 2 * HOUR), at(10));
    table.handle_advertisement(&kernel("2001:db8:1::/64", 0, 2 * HOUR), at(10));
    let preferred: Vec<_> = table
        .prefixes()
        .map(|one| (one.prefix.to_string(), one.lifetimes(at(10)).preferred > 0))
        .collect();
    assert_eq!(preferred, [("2001:db8:1::/64".into(), false), ("2001:db8:2::/64".into(), true)]);
}

#[test]
fn what_makes_no_addresses_is_not_kept() {
    let mut table = AdvertisedPrefixes::new();
    for text in ["fe80::/64", "::/0", "::/64", "ff02::/64", "::1/128", "2001:db8::1/128"] {
        assert!(!table.handle_advertisement(&kernel(text, HOUR, HOUR), at(0)), "{text}");
    }
    assert!(
        !table.handle_advertisement(&kernel("2001:db8:1::/64", 2, 1), at(0)),
        "preferred > valid"
    );
    assert!(!table.handle_advertisement(&kernel("2001:db8:1::/64", 0, 0), at(0)), "unknown, gone");
    assert_eq!(table.prefixes().count(), 0);
}

/// RFC 4862 s5.5.3 a.
#[test]
fn what_is_said_of_the_link_alone_ends_no_address() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&kernel("2001:db8:1::/64", HOUR, 2 * HOUR), at(0));
    for (valid, on_link) in [(HOUR, true), (0, false), (FOREVER, true)] {
        let mut said = kernel("2001:db8:1::/64", 0, valid);
        said.prefixes[0].autonomous = false;
        table.handle_advertisement(&said, at(10));
        assert_eq!(left(&table, at(10)), (HOUR - 10, 2 * HOUR - 10));
        assert_eq!((only(&table).autonomous, only(&table).on_link), (true, on_link));
    }
    // No addresses are made in the prefix: it lasts as its routers say.
    table.handle_timeout(at(7200));
    for (valid, count) in [(HOUR, 1), (60, 1), (0, 0)] {
        let mut said = kernel("2001:db8:1::/64", 0, valid);
        said.prefixes[0].autonomous = false;
        table.handle_advertisement(&said, at(7200));
        let there: Vec<_> = table.prefixes().map(|one| one.lifetimes(at(7200)).valid).collect();
        assert_eq!(there, [valid][..count]);
    }
    // The routers want addresses in it again.
    let mut said = kernel("2001:db8:1::/64", 0, HOUR);
    said.prefixes[0].autonomous = false;
    table.handle_advertisement(&said, at(7300));
    assert!(table.handle_advertisement(&kernel("2001:db8:1::/64", 30, 60), at(7300)));
    assert_eq!(left(&table, at(7300)), (30, 60));
}

#[test]
fn a_router_alone_is_not_believed_and_does_not_overrule_the_kernel() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&router("fe80::1", 1800, &["2001:db8:1::/64"]), at(0));
    assert!(!only(&table).accepted);
    assert!(table.handle_advertisement(&kernel("2001:db8:1::/64", 10, 20), at(0)));
    assert!(only(&table).accepted);
    table.handle_advertisement(&router("fe80::2", 1800, &["2001:db8:1::/64"]), at(1));
    assert_eq!(left(&table, at(1)), (9, 19));
}

#[test]
fn routers_of_a_prefix_are_those_that_advertise_it_and_are_default_routers() {
    let mut table = AdvertisedPrefixes::new();
    let of = |table: &AdvertisedPrefixes, text: &str| -> Vec<String> {
        table.routers_of(3, prefix(text)).map(|address| address.to_string()).collect()
    };
    table.handle_advertisement(&router("fe80::1", 1800, &["2001:db8:1::/64"]), at(0));
    table.handle_advertisement(&router("fe80::2", 1800, &["2001:db8:2::/48"]), at(0));
    assert_eq!(of(&table, "2001:db8:1::/64"), ["fe80::1"]);
    assert_eq!(of(&table, "2001:db8:2::/64"), ["fe80::2"]);
    assert_eq!(table.routers_of(4, prefix("2001:db8:1::/64")).count(), 0, "another link");
    // A message may name only a part of the prefixes.
    assert!(!table.handle_advertisement(&router("fe80::1", 1800, &[]), at(1)));
    assert_eq!(of(&table, "2001:db8:1::/64"), ["fe80::1"]);
    // With lifetime 0 the router is no default router any more, whatever it advertises.
    assert!(table.handle_advertisement(&router("fe80::1", 0, &["2001:db8:1::/64"]), at(2)));
    assert_eq!(of(&table, "2001:db8:1::/64"), [""; 0]);
    table.handle_timeout(at(1800));
    assert_eq!(of(&table, "2001:db8:2::/64"), [""; 0]);
}

#[test]
fn a_withdrawn_prefix_has_no_routers() {
    let mut table = AdvertisedPrefixes::new();
    table.handle_advertisement(&router("fe80::1", 1800, &["2001:db8:1::/64"]), at(0));
    let mut withdrawal = router("fe80::1", 1800, &["2001:db8:1::/64"]);
    withdrawal.prefixes[0].lifetimes = Lifetimes { preferred: 0, valid: 0 };
    assert!(table.handle_advertisement(&withdrawal, at(1)));
    assert_eq!(table.routers_of(3, prefix("2001:db8:1::/64")).count(), 0);
}

#[test]
fn a_flood_of_prefixes_and_routers_stays_within_bounds_on_its_own_link() {
    let mut table = AdvertisedPrefixes::new();
    for i in 0..100 {
        let prefix = format!("2001:db8:{i:x}::/64");
        table.handle_advertisement(&router(&format!("fe80::{i:x}"), 1800, &[&prefix]), at(0));
        table.handle_advertisement(&kernel(&prefix, HOUR, HOUR), at(0));
    }
    assert_eq!(table.prefixes().count(), MAX_PREFIXES);
    assert_eq!(table.routers.len(), MAX_ROUTERS);
    let elsewhere = Advertisement { ifindex: 4, ..kernel("2001:db8:ff::/64", HOUR, HOUR) };
    assert!(table.handle_advertisement(&elsewhere, at(0)));
    table.retain_interfaces(|ifindex| ifindex == 4);
    assert_eq!(only(&table).ifindex, 4);
}
