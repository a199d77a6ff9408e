use alloc::vec;

use super::*;

fn pair(peer: &str) -> UlidPair {
    UlidPair::new(
        Ulid("2001:db8:a::1".parse().expect("address")),
        Ulid(peer.parse().expect("address")),
    )
}

fn traffic(peer: &str) -> Traffic<'static> {
    Traffic { pair: pair(peer), protocol: 6, ports: Some((40_000, 22)), cgroups: &[1, 7] }
}

fn prefix(address: &str, len: u8) -> Prefix {
    Prefix::new(address.parse().expect("address"), len)
}

/// A rule whose limit tells it from other rules.
fn rule(bytes: u64, change: impl Fn(&mut TriggerRule)) -> TriggerRule {
    let mut rule = TriggerRule::any(TriggerPolicy { bytes, ..TriggerPolicy::default() });
    change(&mut rule);
    rule
}

fn bytes(rules: Vec<TriggerRule>, traffic: &Traffic<'_>) -> Option<u64> {
    let triggers = Triggers::new(TriggerPolicy::default(), rules).expect("few rules");
    triggers.policy(traffic).map(|policy| policy.bytes)
}

#[test]
fn the_longest_prefix_decides_wherever_it_stands() {
    let wide = rule(1, |rule| rule.peer = prefix("2001:db8::", 32));
    let narrow = rule(2, |rule| rule.peer = prefix("2001:db8:c::", 48));
    for rules in [vec![wide.clone(), narrow.clone()], vec![narrow, wide]] {
        assert_eq!(bytes(rules.clone(), &traffic("2001:db8:c::1")), Some(2));
        assert_eq!(bytes(rules.clone(), &traffic("2001:db8:d::1")), Some(1));
        assert_eq!(bytes(rules, &traffic("2001:db9::1")), Some(2048));
    }
}

#[test]
fn cgroup_before_ports_before_protocol_before_prefixes() {
    let rules = vec![
        rule(1, |rule| rule.local = prefix("2001:db8:a::1", 128)),
        rule(2, |rule| rule.peer = prefix("2001:db8:c::1", 128)),
        rule(3, |rule| rule.protocol = Some(6)),
        rule(4, |rule| rule.peer_ports = Some(1..=1023)),
        rule(5, |rule| rule.cgroup = Some(7)),
        rule(6, |rule| rule.cgroup = Some(7)),
    ];
    let mut traffic = traffic("2001:db8:c::1");
    assert_eq!(bytes(rules.clone(), &traffic), Some(5));
    traffic.cgroups = &[1];
    assert_eq!(bytes(rules.clone(), &traffic), Some(4));
    traffic.ports = Some((22, 40_000));
    assert_eq!(bytes(rules.clone(), &traffic), Some(3));
    traffic.protocol = 17;
    assert_eq!(bytes(rules.clone(), &traffic), Some(2));
    traffic.pair = pair("2001:db8:d::1");
    assert_eq!(bytes(rules, &traffic), Some(1));
}

#[test]
fn a_rule_about_ports_is_not_about_packets_without() {
    let rules = vec![
        rule(1, |rule| rule.local_ports = Some(0..=u16::MAX)),
        rule(2, |rule| rule.peer_ports = Some(0..=u16::MAX)),
    ];
    let traffic = Traffic { ports: None, ..traffic("2001:db8:c::1") };
    assert_eq!(bytes(rules, &traffic), Some(2048));
}

#[test]
fn never_and_eui64_peers_are_not_counted() {
    let eui64 = "2001:db8:c::0211:22ff:fe33:4455";
    assert_eq!(bytes(vec![], &traffic(eui64)), None);
    assert_eq!(bytes(vec![rule(9, |rule| rule.policy.eui64 = true)], &traffic(eui64)), Some(9));
    let never = vec![TriggerRule::any(TriggerPolicy::NEVER)];
    assert_eq!(bytes(never, &traffic("2001:db8:c::1")), None);
    let of_age = TriggerPolicy { age: Duration::from_secs(1), ..TriggerPolicy::NEVER };
    assert!(!of_age.is_never());
}

#[test]
fn too_many_rules_are_refused() {
    let rules = |count| vec![TriggerRule::any(TriggerPolicy::NEVER); count];
    assert!(Triggers::new(TriggerPolicy::default(), rules(MAX_TRIGGER_RULES)).is_ok());
    let refused = Triggers::new(TriggerPolicy::default(), rules(MAX_TRIGGER_RULES + 1));
    assert_eq!(refused, Err(TooManyRules(65)));
}

#[test]
fn what_earns_no_context_is_told_with_the_rule_that_says_so() {
    let never = |change: fn(&mut TriggerRule)| {
        let mut rule = TriggerRule::any(TriggerPolicy::NEVER);
        change(&mut rule);
        rule
    };
    let rules = vec![never(|rule| rule.peer_ports = Some(22..=22))];
    let triggers = Triggers::new(TriggerPolicy::default(), rules.clone()).expect("few rules");
    let mut ssh = traffic("2001:db8:c::1");
    assert_eq!(triggers.exclusion(&ssh), Some(Exclusion::Rule(&rules[0])));
    ssh.ports = Some((40_000, 80));
    assert_eq!(triggers.exclusion(&ssh), None);
    let made_of_mac = traffic("2001:db8:c:0:200:ff:fe00:1");
    let open = Triggers::from(TriggerPolicy::default());
    assert_eq!(open.exclusion(&made_of_mac), Some(Exclusion::Eui64));
    let closed = Triggers::from(TriggerPolicy::NEVER);
    assert_eq!(closed.exclusion(&ssh), Some(Exclusion::Default));
}

#[test]
fn of_traffic_without_a_known_cgroup_nobody_says_that_it_is_excluded_if_a_rule_for_a_cgroup_asks() {
    let of_cgroup = |policy, peer_ports| TriggerRule {
        cgroup: Some(7),
        peer_ports,
        ..TriggerRule::any(policy)
    };
    let exclusion = |rule: TriggerRule, traffic: &Traffic<'_>| {
        let triggers = Triggers::new(TriggerPolicy::NEVER, vec![rule]).expect("one rule");
        triggers.exclusion(traffic).map(|why| why == Exclusion::Default)
    };
    let unknown = |peer| Traffic { cgroups: &[], ..traffic(peer) };
    let mut ssh = unknown("2001:db8:c::1");
    assert_eq!(exclusion(of_cgroup(TriggerPolicy::default(), None), &ssh), None);
    let other_port = of_cgroup(TriggerPolicy::default(), Some(80..=80));
    assert_eq!(exclusion(other_port, &ssh), Some(true), "a rule about other traffic");
    assert_eq!(exclusion(of_cgroup(TriggerPolicy::NEVER, None), &ssh), Some(true));
    let made_of_mac = unknown("2001:db8:c:0:200:ff:fe00:1");
    let asks = of_cgroup(TriggerPolicy::default(), None);
    assert_eq!(exclusion(asks.clone(), &made_of_mac), Some(true), "the rule asks no such peer");
    ssh.cgroups = &[8];
    assert_eq!(exclusion(asks, &ssh), Some(true), "the cgroup is known");
}

#[test]
fn a_peer_is_excluded_if_no_traffic_with_it_counts() {
    let peer = |text: &str| Ulid(text.parse().expect("address"));
    let (one, made_of_mac) = (peer("2001:db8:c::1"), peer("2001:db8:c:0:200:ff:fe00:1"));
    let never = |change: fn(&mut TriggerRule)| {
        let mut rule = TriggerRule::any(TriggerPolicy::NEVER);
        rule.peer = prefix("2001:db8:c::", 48);
        change(&mut rule);
        rule
    };
    let asks = rule(1, |rule| rule.peer_ports = Some(22..=22));
    let why = |default, rules: &[TriggerRule], peer| {
        let triggers = Triggers::new(default, rules.to_vec()).expect("few rules");
        triggers.exclusion_of(peer).map(|why| match why {
            Exclusion::Rule(_) => "rule",
            Exclusion::Default => "default",
            Exclusion::Eui64 => "eui64",
        })
    };
    let open = TriggerPolicy::default();
    assert_eq!(why(open, &[], one), None);
    assert_eq!(why(open, &[], made_of_mac), Some("eui64"));
    assert_eq!(why(TriggerPolicy { eui64: true, ..open }, &[], made_of_mac), None);
    assert_eq!(why(TriggerPolicy::NEVER, &[], one), Some("default"));
    let all = [never(|_| {})];
    assert_eq!(why(open, &all, one), Some("rule"));
    assert_eq!(why(open, &all, peer("2001:db8:d::1")), None, "another prefix");
    assert_eq!(why(open, &[never(|rule| rule.protocol = Some(17))], one), None, "TCP counts");
    assert_eq!(why(open, &[all[0].clone(), asks.clone()], one), None, "the narrower rule asks");
    assert_eq!(why(TriggerPolicy::NEVER, &[asks], one), None, "port 22 counts");
}
