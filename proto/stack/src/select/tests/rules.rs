//! The rules one by one, and what no example shows.

use proptest::prelude::*;

use super::*;

//= rfc8504#6.6-1 rfc8504#6.6-2 (test)
//= rfc6724#5-1 (test)
//= rfc4862#5.5.4-2 (test)
#[test]
fn each_rule_for_sources_comes_before_the_next() {
    // RFC 6724 s5. The first of both wins by the rule of its line, and the second by the next rule.
    let to = "2001:db8:1::1";
    let lines = [
        ["2001:db8:1::1 deprecated elsewhere", "2001:db8:1::2 advertised"],
        ["2001:db8:9::2 deprecated elsewhere", "fe80::2 advertised"],
        ["2001:db8:9::2 elsewhere", "2001:db8:1::2 deprecated advertised"],
        ["2001:db8:9::2", "2001:db8:1::2 elsewhere advertised"],
        ["fd00::2 advertised", "2001:db8:1::2"],
        ["2001:db8:9::2", "fd00::2 temporary"],
        ["2001:db8:9::2 temporary", "2001:db8:1::2"],
        ["2001:db8:1::2", "2001:db8:9::2"],
    ];
    for [winner, other] in lines {
        let expected = Some(candidate(winner).address);
        assert_eq!(chosen(to, &[winner, other]), expected, "{winner} against {other}");
        assert_eq!(chosen(to, &[other, winner]), expected, "{winner} against {other}");
    }
    assert_eq!(chosen(to, &["2001:db8:9::3", "2001:db8:9::2"]), Some(address("2001:db8:9::3")));
}

//= rfc6724#5-4 rfc6724#5-5 rfc6724#5-7 (test)
#[test]
fn an_application_can_prefer_public_addresses() {
    // RFC 6724 s5 rule 7.
    let from = candidates(&["2001:db8:1::3 temporary", "2001:db8:1::2"]);
    let source = |privacy| source(&from, address("2001:db8:2::1"), &Policy::default(), privacy);
    assert_eq!(source(Privacy::Temporary), Some(&from[0]));
    assert_eq!(source(Privacy::Public), Some(&from[1]));
}

#[test]
fn the_smallest_scope_that_reaches_the_destination_is_best() {
    // RFC 6724 s5 rule 2.
    let from = ["fe80::2", "fec0::2", "2001:db8::2"];
    for (to, expected) in
        [("ff02::1", "fe80::2"), ("ff05::1", "fec0::2"), ("ff08::1", "2001:db8::2")]
    {
        assert_eq!(chosen(to, &from), Some(address(expected)), "{to}");
    }
    assert_eq!(chosen("ff08::1", &from[..2]), Some(address("fec0::2")), "the largest below");
}

//= rfc6724#4-4 rfc6724#4-6 (test)
#[test]
fn addresses_outside_of_the_candidate_set_are_not_chosen() {
    // RFC 6724 s4.
    assert_eq!(chosen("fe80::1", &["fe80::2 elsewhere"]), None);
    assert_eq!(chosen("ff0e::1", &["2001:db8::2 elsewhere"]), None);
    assert_eq!(chosen("2001:db8::1", &["2001:db8::2 elsewhere"]), Some(address("2001:db8::2")));
    assert_eq!(chosen("2001:db8::1", &["::", "ff02::1", "10.1.2.3"]), None);
    assert_eq!(chosen("10.1.2.4", &["2001:db8::2"]), None);
    assert_eq!(chosen("10.1.2.4", &["10.9.9.9", "10.1.2.3"]), Some(address("10.1.2.3")));
}

//= rfc6724#3.2-1 rfc6724#3.2-2 rfc6724#3.3-1 rfc6724#3.3-2 (test)
#[test]
fn ipv4_addresses_have_scopes_and_are_preferred() {
    // RFC 6724 s3.2.
    let scopes = ["169.254.1.1", "127.0.0.1", "10.0.0.1", "198.51.100.1"].map(address).map(scope);
    assert_eq!(scopes, [Scope::LINK, Scope::LINK, Scope::GLOBAL, Scope::GLOBAL]);
    assert!(!candidate("10.0.0.1 deprecated").is_deprecated());
}

#[test]
fn common_bits_count_up_to_the_prefix_of_the_source() {
    // The example of RFC 6724 s2.2.
    assert_eq!(candidate("fe80::1").common_prefix_len(address("fe80::2")), 64);
    assert_eq!(candidate("2001:db8::1").common_prefix_len(address("2001:db9::1")), 31);
}

//= rfc6724#2.1-2 rfc6724#6-1 (test)
#[test]
fn the_longest_row_of_the_table_counts() {
    // RFC 6724 s2.1.
    let policy = Policy::default();
    let lookup = |text| policy.precedence(address(text));
    let expected = [50, 40, 35, 30, 5, 3, 1, 1, 1];
    let addresses = [
        "::1",
        "2001:db8::1",
        "10.0.0.1",
        "2002::1",
        "2001::1",
        "fd00::1",
        "::2",
        "fec0::1",
        "3ffe::1",
    ];
    assert_eq!(addresses.map(lookup), expected);
    let empty = Policy::new(Vec::new());
    assert_eq!(empty.precedence(address("::1")), 0);
    assert!(empty.has_equal_labels(address("::1"), address("fd00::1")));
}

/// A destination and its source; the words `unreachable` and `tunnel` are about the destination.
fn destination(to: &str, from: Option<&str>) -> Destination {
    let (text, words) = to.split_once(' ').unwrap_or((to, ""));
    Destination {
        address: address(text),
        source: from.map(candidate),
        is_reachable: !words.contains("unreachable"),
        is_encapsulated: words.contains("tunnel"),
    }
}

//= rfc8504#6.6-1 (test)
//= rfc6724#6-2 rfc6724#6-3 (test)
#[test]
fn each_rule_for_destinations_comes_before_the_next() {
    // RFC 6724 s6. The first of both wins by the rule of its line, and the second by the next rule.
    let lines = [
        [("2001:db8::1", Some("fe80::2")), ("2001:db8::1 unreachable", Some("2001:db8::2"))],
        [("2001:db8::1", Some("fe80::2")), ("2001:db8::1", None)],
        [("2001:db8::1", Some("2001:db8::2 deprecated")), ("2001:db8::1", Some("fe80::2"))],
        [("fd00::1", Some("2001:db8::2")), ("fd00::1", Some("fd00::2 deprecated"))],
        [("fd00::1", Some("fd00::2")), ("2001:db8::1", Some("fd00::2"))],
        [("2001:db8::1 tunnel", Some("2001:db8::2")), ("fd00::1", Some("fd00::2"))],
        [("2001:db8::1", Some("2001:db8::2")), ("fe80::1 tunnel", Some("fe80::2"))],
        [("fe80::1", Some("fe80:0:0:1::2")), ("2001:db8::1", Some("2001:db8::2"))],
        [("2001:db8::1", Some("2001:db8::2")), ("2001:db9::1", Some("2001:db8::2"))],
    ];
    for line in lines {
        let [winner, other] = line.map(|(to, from)| destination(to, from));
        for mut both in [[winner, other], [other, winner]] {
            order(&mut both, &Policy::default());
            assert_eq!(both, [winner, other]);
        }
    }
    let same = ["2001:db8::1", "2001:db8::2"].map(|to| destination(to, Some("2001:db8::9")));
    let mut both = same;
    order(&mut both, &Policy::default());
    assert_eq!(both, same, "rule 10");
}

#[test]
fn families_keep_their_places_where_only_the_prefix_differs() {
    let policy = policy(&[("::ffff:0:0/96", 40, 4)]);
    let from = ["2001:db8::9", "10.1.2.9"];
    let to = ["2001:db9::1", "10.9.9.1", "2001:db8::1", "10.1.2.1"];
    let found: Vec<Ipv6Addr> = ordered(&policy, &from, &to).into_iter().map(|(to, _)| to).collect();
    assert_eq!(found, ["2001:db8::1", "10.1.2.1", "2001:db9::1", "10.9.9.1"].map(address));
}

const ADDRESSES: [&str; 9] = [
    "2001:db8::1",
    "2001:db8:1::1",
    "2001:db9::1",
    "fe80::1",
    "fd00::1",
    "10.1.2.3",
    "10.1.9.3",
    "169.254.1.1",
    "2002::1",
];

prop_compose! {
    fn any_destination()(
        to in prop::sample::select(&ADDRESSES[..]),
        from in prop::option::of(prop::sample::select(&ADDRESSES[..])),
        words in prop::sample::select(&["", " tunnel", " unreachable"][..]),
        is_deprecated: bool,
    ) -> Destination {
        let to = std::format!("{to}{words}");
        let mut found = destination(&to, from);
        if let Some(source) = &mut found.source {
            source.is_deprecated = is_deprecated;
        }
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_two_of_a_family_come_in_the_order_that_they_have_alone(
        all in prop::collection::vec(any_destination(), 0..40),
        equal_precedence: bool,
    ) {
        let precedence = if equal_precedence { 40 } else { 35 };
        let policy = policy(&[("::ffff:0:0/96", precedence, 4)]);
        let mut sorted = all.clone();
        order(&mut sorted, &policy);
        let mut rest = all;
        for (n, a) in sorted.iter().enumerate() {
            let found = rest.iter().position(|other| other == a);
            prop_assert!(found.is_some(), "an invented destination");
            rest.remove(found.expect("checked"));
            for b in &sorted[n..] {
                let mut pair = [*a, *b];
                order(&mut pair, &policy);
                prop_assert_eq!(pair, [*a, *b]);
            }
        }
        prop_assert!(rest.is_empty());
    }
}
