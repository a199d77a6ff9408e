use serde_json::json;

use super::*;

/// Makes a chain of the hook input that ends with a drop, and one more rule.
fn input(family: &str, table: &str, chain: &str) -> Value {
    let place = json!({"family": family, "table": table});
    let mut base = place.clone();
    base["name"] = chain.into();
    base["hook"] = "input".into();
    base["policy"] = "drop".into();
    json!({"nftables": [{"chain": base}]})
}

fn opened(ruleset: &Value) -> Vec<Closed> {
    let found: BTreeSet<_> =
        firewall::closed(ruleset, &["wan0", "wan1"], None).into_iter().collect();
    found.into_iter().collect()
}

#[test]
fn the_rule_goes_to_the_top_of_the_chain_that_drops() {
    let found = opened(&input("inet", "filter", "input"));
    assert_eq!(found.len(), 1, "once for all uplinks: {found:?}");
    let expected = "insert rule inet filter input meta l4proto 140 accept comment \"moorline\"";
    assert_eq!(nft(&found[0], None), ["nft", expected]);
    let found = opened(&input("ip6", "filter", "INPUT"));
    let expected = "ip6tables -I INPUT -p 140 -m comment --comment moorline -j ACCEPT";
    assert_eq!(ip6tables(&found[0], None)[0].join(" "), expected);
}

#[test]
fn what_accepts_needs_nothing() {
    let mut ruleset = input("inet", "filter", "input");
    let accept = json!({"rule": {
        "family": "inet", "table": "filter", "chain": "input", "handle": 7, "comment": "moorline",
        "expr": [
            {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": 140}},
            {"accept": null}
        ]
    }});
    ruleset["nftables"].as_array_mut().unwrap().push(accept);
    // A foreign rule with the same comment.
    let other = json!({"rule": {
        "family": "inet", "table": "filter", "chain": "input", "handle": 8, "comment": "moorline",
        "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}},
            {"accept": null}
        ]
    }});
    ruleset["nftables"].as_array_mut().unwrap().push(other);
    assert_eq!(opened(&ruleset), []);
    let undone = undoing(&ruleset);
    assert_eq!(undone.len(), 1);
    assert_eq!(undone[0].join(" "), "nft delete rule inet filter input handle 7");
    assert_eq!(undoing(&input("inet", "filter", "input")), Vec::<Vec<String>>::new());
}
