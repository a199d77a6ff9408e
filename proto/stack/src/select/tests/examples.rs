//! The examples of RFC 6724 s10, in their order.

use super::*;

#[test]
fn sources_by_default() {
    // s10.1. The text has 2001:db8::1 as the result of the first example, which is none of its candidates.
    let examples: [(&str, &[&str], &str); 7] = [
        ("2001:db8:1::1", &["2001:db8:3::1", "fe80::1"], "2001:db8:3::1"),
        ("ff05::1", &["2001:db8:3::1", "fe80::1"], "2001:db8:3::1"),
        ("2001:db8:1::1", &["2001:db8:1::1 deprecated", "2001:db8:2::1"], "2001:db8:1::1"),
        ("fe80::1", &["fe80::2 deprecated", "2001:db8:1::1"], "fe80::2"),
        ("2001:db8:1::1", &["2001:db8:1::2", "2001:db8:3::2"], "2001:db8:1::2"),
        (
            "2002:c633:6401::1",
            &["2002:c633:6401::d5e3:7953:13eb:22e8 temporary", "2001:db8:1::2"],
            "2002:c633:6401::d5e3:7953:13eb:22e8",
        ),
        (
            "2001:db8:1::d5e3:0:0:1",
            &["2001:db8:1::2", "2001:db8:1::d5e3:7953:13eb:22e8 temporary"],
            "2001:db8:1::d5e3:7953:13eb:22e8",
        ),
    ];
    for (to, from, expected) in examples {
        assert_eq!(chosen(to, from), Some(address(expected)), "{to} from {from:?}");
        let backwards: Vec<&str> = from.iter().rev().copied().collect();
        assert_eq!(chosen(to, &backwards), Some(address(expected)), "{to} from {backwards:?}");
    }
}

#[test]
fn without_home_addresses_their_examples_come_to_the_longest_prefix_and_the_smaller_scope() {
    // s10.1, sixth example, and s10.2, fifth example, on a host that is no mobile node.
    let from = ["2001:db8:1::2", "2001:db8:3::2"];
    assert_eq!(chosen("2001:db8:1::1", &from), Some(address("2001:db8:1::2")));
    let from = ["2001:db8:1::2", "2001:db8:3::1", "fe80::2"];
    let expected = pairs(&[("fe80::1", "fe80::2"), ("2001:db8:1::1", "2001:db8:1::2")]);
    let policy = Policy::default();
    assert_eq!(ordered(&policy, &from, &["2001:db8:1::1", "fe80::1"]), expected);
}

type Example = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Checks that the destinations come in the order of the example, from each order of destinations and candidates that
/// rules 1 to 9 decide.
fn check(policy: &Policy, examples: &[Example]) {
    for (from, expected) in examples {
        let mut from = from.to_vec();
        for _ in 0..2 {
            let mut to: Vec<&str> = expected.iter().map(|(to, _)| *to).collect();
            for _ in 0..2 {
                assert_eq!(ordered(policy, &from, &to), pairs(expected), "{to:?} from {from:?}");
                to.reverse();
            }
            from.reverse();
        }
    }
}

#[test]
fn destinations_by_default() {
    // s10.2.
    check(
        &Policy::default(),
        &[
            (
                &["2001:db8:1::2", "fe80::1", "169.254.13.78"],
                &[("2001:db8:1::1", "2001:db8:1::2"), ("198.51.100.121", "169.254.13.78")],
            ),
            (
                &["fe80::1", "198.51.100.117"],
                &[("198.51.100.121", "198.51.100.117"), ("2001:db8:1::1", "fe80::1")],
            ),
            (
                &["2001:db8:1::2", "fe80::1", "10.1.2.4"],
                &[("2001:db8:1::1", "2001:db8:1::2"), ("10.1.2.3", "10.1.2.4")],
            ),
            (
                &["2001:db8:1::2", "fe80::2"],
                &[("fe80::1", "fe80::2"), ("2001:db8:1::1", "2001:db8:1::2")],
            ),
            (
                &["2001:db8:1::2", "fe80::2 deprecated"],
                &[("2001:db8:1::1", "2001:db8:1::2"), ("fe80::1", "fe80::2")],
            ),
            (
                &["2001:db8:1::2", "2001:db8:3f44::2", "fe80::2"],
                &[("2001:db8:1::1", "2001:db8:1::2"), ("2001:db8:3ffe::1", "2001:db8:3f44::2")],
            ),
            (
                &["2002:c633:6401::2", "fe80::2"],
                &[
                    ("2002:c633:6401::1", "2002:c633:6401::2"),
                    ("2001:db8:1::1", "2002:c633:6401::2"),
                ],
            ),
            (
                &["2002:c633:6401::2", "2001:db8:1::2", "fe80::2"],
                &[("2001:db8:1::1", "2001:db8:1::2"), ("2002:c633:6401::1", "2002:c633:6401::2")],
            ),
        ],
    );
}

#[test]
fn a_policy_can_prefer_ipv4() {
    // s10.3.
    check(
        &policy(&[("::ffff:0:0/96", 100, 4)]),
        &[
            (
                &["2001:db8::2", "fe80::1", "169.254.13.78"],
                &[("2001:db8::1", "2001:db8::2"), ("198.51.100.121", "169.254.13.78")],
            ),
            (
                &["fe80::1", "198.51.100.117"],
                &[("198.51.100.121", "198.51.100.117"), ("2001:db8::1", "fe80::1")],
            ),
            (
                &["2001:db8::2", "fe80::1", "10.1.2.4"],
                &[("10.1.2.3", "10.1.2.4"), ("2001:db8::1", "2001:db8::2")],
            ),
        ],
    );
}

#[test]
fn a_policy_can_put_link_local_addresses_behind() {
    // s10.4.
    check(
        &policy(&[("fe80::/10", 33, 1)]),
        &[
            (
                &["2001:db8::2", "fe80::2"],
                &[("2001:db8::1", "2001:db8::2"), ("fe80::1", "fe80::2")],
            ),
            (
                &["2001:db8::2 deprecated", "fe80::2"],
                &[("fe80::1", "fe80::2"), ("2001:db8::1", "2001:db8::2")],
            ),
        ],
    );
}

const SITE_A: &[&str] = &["2001:db8:1aaa::a", "2001:db8:70aa::a", "fe80::a"];

#[test]
fn a_policy_can_keep_an_expensive_provider_for_its_purpose() {
    // s10.5.
    check(
        &Policy::default(),
        &[
            (
                SITE_A,
                &[
                    ("2001:db8:70bb::b", "2001:db8:70aa::a"),
                    ("2001:db8:1bbb::b", "2001:db8:1aaa::a"),
                ],
            ),
            (
                SITE_A,
                &[
                    ("2001:db8:1ccc::c", "2001:db8:1aaa::a"),
                    ("2001:db8:6ccc::c", "2001:db8:70aa::a"),
                ],
            ),
        ],
    );
    check(
        &policy(&[("2001:db8:1aaa::/48", 43, 6), ("2001:db8:1bbb::/48", 43, 6)]),
        &[
            (
                SITE_A,
                &[
                    ("2001:db8:1bbb::b", "2001:db8:1aaa::a"),
                    ("2001:db8:70bb::b", "2001:db8:70aa::a"),
                ],
            ),
            (
                SITE_A,
                &[
                    ("2001:db8:6ccc::c", "2001:db8:70aa::a"),
                    ("2001:db8:1ccc::c", "2001:db8:70aa::a"),
                ],
            ),
        ],
    );
}

const ULA: &[&str] = &["2001:db8:1::1", "fd11:1111:1111:1::1"];

#[test]
fn a_policy_can_prefer_the_local_addresses_of_the_site() {
    // s10.6.
    let foreign: Example = (
        ULA,
        &[("2001:db8:2::2", "2001:db8:1::1"), ("fd22:2222:2222:2::2", "fd11:1111:1111:1::1")],
    );
    check(&Policy::default(), &[foreign]);
    let own: Example = (
        ULA,
        &[("fd11:1111:1111:2::2", "fd11:1111:1111:1::1"), ("2001:db8:2::2", "2001:db8:1::1")],
    );
    check(&policy(&[("fd11:1111:1111::/48", 45, 14)]), &[foreign, own]);
    // The text has ff00:1, which is no address.
    assert_eq!(chosen("ff00::1", ULA), Some(address("2001:db8:1::1")));
}

#[test]
fn a_policy_can_prefer_6to4_inside_the_site() {
    // s10.7.
    check(
        &Policy::default(),
        &[(
            &["2002:c633:6401::2", "10.1.2.3"],
            &[("203.0.113.1", "10.1.2.3"), ("2001:db8:1::1", "2002:c633:6401::2")],
        )],
    );
    check(
        &policy(&[("2002:c633:6401::/48", 45, 14)]),
        &[(
            &["2002:c633:6401:1::1", "10.1.2.3"],
            &[("2002:c633:6401:2::2", "2002:c633:6401:1::1"), ("203.0.113.1", "10.1.2.3")],
        )],
    );
}
