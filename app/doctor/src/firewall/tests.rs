use serde_json::{Value, json};

use super::examine;
use crate::finding::{Finding, Severity};

/// Chain: name, hook and policy, rules.
type Chain<'a> = (&'a str, Option<(&'a str, &'a str)>, &'a [Value]);

/// Makes a ruleset from chains of family inet, in the format of nft 1.0.6.
fn table(chains: &[Chain<'_>]) -> Value {
    let mut objects = vec![json!({"metainfo": {"json_schema_version": 1}})];
    for (name, base, rules) in chains {
        let mut chain = json!({"family": "inet", "table": "filter", "name": name, "handle": 1});
        if let Some((hook, policy)) = base {
            chain["hook"] = json!(hook);
            chain["policy"] = json!(policy);
        }
        objects.push(json!({ "chain": chain }));
        for (handle, expr) in rules.iter().enumerate() {
            let rule = json!({"family": "inet", "table": "filter", "chain": name, "handle": handle + 5, "expr": expr});
            objects.push(json!({ "rule": rule }));
        }
    }
    json!({ "nftables": objects })
}

fn accept_known() -> Value {
    let states = json!({"set": [["invalid", {"drop": null}], ["established", {"accept": null}], ["related", {"accept": null}]]});
    json!([{"vmap": {"key": {"ct": {"key": "state"}}, "data": states}}])
}

fn l4proto(protocol: Value, verdict: &str) -> Value {
    json!([{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": protocol}}, {verdict: null}])
}

fn from_prefix(verdict: &str) -> Value {
    let left = json!({"payload": {"protocol": "ip6", "field": "saddr"}});
    let right = json!({"prefix": {"addr": "2001:db8::", "len": 32}});
    json!([{"match": {"op": "==", "left": left, "right": right}}, {"counter": {"packets": 0}}, {verdict: null}])
}

fn brief(findings: &[Finding]) -> Vec<(&str, Severity, &str)> {
    let end = |one: &Finding| one.evidence[0].find(':').unwrap();
    findings
        .iter()
        .map(|one| (one.code.as_str(), one.severity, &one.evidence[0][..end(one)]))
        .collect()
}

fn input(policy: &str, rules: &[Value]) -> Vec<Finding> {
    examine(&table(&[("in", Some(("input", policy)), rules)]), &["eth0", "eth1"], None)
}

#[test]
fn an_empty_ruleset_and_one_that_accepts_are_fine() {
    assert_eq!(examine(&json!({"nftables": []}), &["eth0"], None), []);
    assert_eq!(input("accept", &[accept_known()]), []);
    assert_eq!(input("drop", &[accept_known(), l4proto(json!("shim6"), "accept")]), []);
    assert_eq!(input("drop", &[accept_known(), l4proto(json!({"set": [6, 140]}), "accept")]), []);
}

#[test]
fn a_rule_that_drops_protocol_140_is_named_by_its_handle() {
    for (protocol, verdict) in [(json!("shim6"), "drop"), (json!(140), "reject")] {
        let found = input("accept", &[l4proto(json!("tcp"), "drop"), l4proto(protocol, verdict)]);
        let expected = ("firewall-shim6", Severity::StopsProtection, "inet filter in handle 6");
        assert_eq!(brief(&found), [expected]);
    }
}

#[test]
fn a_policy_that_drops_what_begins_stops_protection_where_answers_pass() {
    let found = input("drop", &[accept_known(), l4proto(json!({"set": ["tcp", "udp"]}), "accept")]);
    assert_eq!(brief(&found), [("firewall-shim6", Severity::StopsProtection, "inet filter in")]);
    assert!(found[0].what.contains("begins something new"), "{}", found[0].what);
}

#[test]
fn a_policy_that_drops_all_stops_protection_and_path_mtu_discovery() {
    let found = input("drop", &[]);
    let place = "inet filter in";
    assert_eq!(
        brief(&found),
        [
            ("firewall-shim6", Severity::StopsProtection, place),
            ("firewall-packet-too-big", Severity::Warning, place),
            ("firewall-notice", Severity::Warning, place),
        ]
    );
}

#[test]
fn notices_to_tcp_need_the_loopback_interface_or_what_is_related() {
    let codes = |rules: &[Value]| {
        let found = input("drop", rules);
        found.iter().any(|finding| finding.code == "firewall-notice")
    };
    let from_lo = json!([
        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}},
        {"accept": null},
    ]);
    let too_big = json!([
        {"match": {"op": "==", "left": {"payload": {"protocol": "icmpv6", "field": "type"}}, "right": "packet-too-big"}},
        {"accept": null},
    ]);
    assert!(codes(&[too_big]));
    assert!(!codes(&[from_lo]) && !codes(&[accept_known()]));
}

#[test]
fn what_depends_on_addresses_is_uncertain() {
    let found = input("accept", &[from_prefix("drop")]);
    let place = "inet filter in handle 5";
    assert_eq!(found.len(), 3);
    assert_eq!(brief(&found)[0], ("firewall-shim6", Severity::Warning, place));
    // An earlier rule may have accepted the packet.
    let found = input("drop", &[from_prefix("accept")]);
    assert_eq!(brief(&found)[0], ("firewall-shim6", Severity::Warning, "inet filter in"));
}

#[test]
fn jumps_are_followed_and_come_back() {
    let jump = json!([{"jump": {"target": "more"}}]);
    let chains: [Chain<'_>; 2] = [
        ("out", Some(("output", "accept")), &[jump.clone(), l4proto(json!("shim6"), "drop")]),
        ("more", None, &[l4proto(json!("tcp"), "drop"), l4proto(json!("shim6"), "return")]),
    ];
    let expected = ("firewall-shim6", Severity::StopsProtection, "inet filter out handle 6");
    assert_eq!(brief(&examine(&table(&chains), &["eth0"], None)), [expected]);
    let chains: [Chain<'_>; 2] = [
        ("out", Some(("output", "accept")), &[jump, l4proto(json!("shim6"), "drop")]),
        ("more", None, &[l4proto(json!("shim6"), "accept")]),
    ];
    assert_eq!(examine(&table(&chains), &["eth0"], None), []);
}

#[test]
fn a_chain_that_jumps_to_itself_ends() {
    let jump = json!([{"jump": {"target": "in"}}]);
    assert_eq!(input("accept", &[jump]), []);
}

#[test]
fn rules_for_other_interfaces_say_nothing_of_uplinks() {
    let on = |interface: &str| json!([{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": interface}}, {"drop": null}]);
    assert_eq!(input("accept", &[on("wlan0"), on("docker*")]), []);
    let found = input("accept", &[on("eth1")]);
    let place = "inet filter in handle 5";
    assert_eq!(brief(&found)[0], ("firewall-shim6", Severity::StopsProtection, place));
    assert!(found[0].what.ends_with("eth1"), "{}", found[0].what);
}

#[test]
fn the_reverse_path_check_of_firewalld_is_told_for_what_it_is() {
    let fib = json!({"fib": {"result": "oif", "flags": ["saddr", "mark", "iif"]}});
    let expr = json!([
        {"match": {"op": "==", "left": {"meta": {"key": "nfproto"}}, "right": "ipv6"}},
        {"match": {"op": "==", "left": fib, "right": false}},
        {"drop": null},
    ]);
    let ruleset = table(&[("pre", Some(("prerouting", "accept")), &[expr])]);
    let found = examine(&ruleset, &["eth0"], None);
    assert!(!found.is_empty());
    assert!(found.iter().all(|finding| finding.code == "firewall-reverse-path"));
}

#[test]
fn rules_of_ip6tables_count_and_those_for_ipv4_do_not() {
    let mut ruleset = table(&[(
        "INPUT",
        Some(("input", "accept")),
        &[json!([
            {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "shim6"}},
            {"counter": {"packets": 0, "bytes": 0}},
            {"xt": {"type": "target", "name": "REJECT"}},
        ])],
    )]);
    let found = examine(&ruleset, &["eth0"], None);
    let expected = ("firewall-shim6", Severity::StopsProtection, "inet filter INPUT handle 5");
    assert_eq!(brief(&found), [expected]);
    for object in ruleset["nftables"].as_array_mut().unwrap() {
        for kind in ["chain", "rule"] {
            if object.get(kind).is_some() {
                object[kind]["family"] = json!("ip");
            }
        }
    }
    assert_eq!(examine(&ruleset, &["eth0"], None), []);
}

#[test]
fn what_is_no_ruleset_breaks_nothing() {
    for odd in
        [json!(null), json!({"nftables": [1, {"rule": {"expr": [[], "x", {}]}}, {"chain": 3}]})]
    {
        assert_eq!(examine(&odd, &["eth0"], None), []);
    }
}

/// Returns the findings about ILNP messages that pass an output chain.
fn ilnp(policy: &str, rules: &[Value]) -> Vec<Finding> {
    let rules = table(&[("out", Some(("output", policy)), rules)]);
    examine(&rules, &["eth0"], Some([200, 201]))
}

fn matching(left: Value, right: Value) -> Value {
    json!([{"match": {"op": "==", "left": left, "right": right}}, {"drop": null}])
}

#[test]
fn rules_that_drop_messages_of_ilnp_are_named_by_type() {
    let kind = || json!({"payload": {"protocol": "icmpv6", "field": "type"}});
    let found = ilnp("accept", &[matching(kind(), json!({"set": [156, 201]}))]);
    let stops = ("firewall-ilnp", Severity::StopsProtection, "inet filter out handle 5");
    assert_eq!(brief(&found), [stops, stops]);
    assert!(found[0].what.contains("type 201") && found[1].what.contains("type 156"), "{found:?}");
    // Connection tracking does not know these types.
    let state = json!({"ct": {"key": "state"}});
    assert_eq!(ilnp("accept", &[matching(state, json!("invalid"))]).len(), 3);
    assert_eq!(ilnp("accept", &[matching(kind(), json!(202))]), []);
    let off = table(&[("out", Some(("output", "accept")), &[matching(kind(), json!(200))])]);
    assert_eq!(examine(&off, &["eth0"], None), []);
}

#[test]
fn a_rule_about_destination_options_drops_locator_updates_alone() {
    for left in [
        json!({"exthdr": {"name": "dst"}}),
        json!({"payload": {"protocol": "ip6", "field": "nexthdr"}}),
    ] {
        let right = if left["exthdr"].is_null() { json!("ipv6-opts") } else { json!(true) };
        let found = ilnp("accept", &[matching(left, right)]);
        assert_eq!(brief(&found).len(), 1, "{found:?}");
        assert!(
            found[0].what.contains("type 156") && found[0].remedy.contains("options"),
            "{found:?}"
        );
    }
    let absent = json!({"exthdr": {"name": "frag"}});
    assert_eq!(ilnp("accept", &[matching(absent, json!(true))]), []);
}

#[test]
fn what_comes_in_for_ilnp_is_taken_before_the_firewall() {
    let kind = json!({"payload": {"protocol": "icmpv6", "field": "type"}});
    let rules = [matching(kind, json!({"range": [150, 210]}))];
    let rules = table(&[("in", Some(("input", "accept")), &rules)]);
    assert_eq!(examine(&rules, &["eth0"], Some([200, 201])), []);
}

#[test]
fn a_rule_that_drops_on_two_uplinks_is_named_once_for_both() {
    let found = input("accept", &[l4proto(json!(140), "drop")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].what, "the firewall drops protocol 140 into eth0, eth1");
}
