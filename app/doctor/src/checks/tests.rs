use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, Lifetimes, Uplink, UplinkAddress};
use moorline_api::{
    Context, ContextCounts, ContextState, Correspondent, DEAF, DataPlane, Excluded, Ilcc,
    IlnpStatus, LocatorInfo, NO_RULE, ONE_UPLINK, Pair, Proof, REMOVED, ReadinessState, ReapState,
    Role, Status, TABLE_FULL,
};
use moorline_netlink::{HostRule, PREFIX_PRIORITY, Takes};
use moorline_types::Prefix;
use serde_json::json;

use super::examine;
use crate::facts::{Answers, Daemon, Facts, Firewall, Kernel};
use crate::finding::{Report, Severity};
use crate::ways;

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn uplink(name: &str, ifindex: u32, own: &str) -> Uplink {
    let own = UplinkAddress::new(address(own), 64, AddressFlags::default(), Lifetimes::FOREVER);
    Uplink { addresses: vec![own], ..Uplink::new(ifindex, name) }
}

fn told(uplink: &Uplink) -> moorline_api::Uplink {
    let own = uplink.addresses[0];
    moorline_api::Uplink {
        name: uplink.name.clone(),
        ifindex: uplink.ifindex,
        carrier: true,
        failing: false,
        silent: false,
        avoided_secs: None,
        mtu: 1500,
        gateway: None,
        locators: vec![LocatorInfo {
            address: own.address,
            prefix_len: 64,
            proof: Proof::Hba,
            temporary: false,
            announced: true,
        }],
    }
}

fn our_rule(priority: u32, from: Option<Prefix>) -> HostRule {
    HostRule {
        priority,
        from,
        is_ours: true,
        takes: Takes::All,
        suppresses_default: false,
        text: format!("rule {priority}"),
    }
}

/// Host without faults.
fn good() -> Facts {
    let uplinks = vec![uplink("eth0", 2, "2001:db8:1::5"), uplink("eth1", 3, "2001:db8:2::5")];
    let prefix = |uplink: &Uplink| Some(uplink.addresses[0].prefix());
    let status = Status {
        version: "1.0".into(),
        pid: 1,
        started_unix_ms: 0,
        send_timeout_ms: 10_000,
        data_plane: DataPlane::Tcx,
        uplinks: uplinks.iter().map(told).collect(),
        contexts: ContextCounts::default(),
        survival: vec![],
        ilnp: None,
        drops: BTreeMap::new(),
        warnings: Vec::new(),
        excluded: Vec::new(),
        longest_turn_us: 0,
        counted_ms_ago: 0,
        uncounted: 0,
    };
    Facts {
        version: "1.0".into(),
        kernel: Kernel { release: "6.18.2".into(), has_btf: true, has_jit: true },
        daemon: Daemon::Running(Box::new(Answers {
            age: Duration::from_secs(3600),
            status,
            contexts: Vec::new(),
            ilcc: Ilcc::default(),
        })),
        unused: Vec::new(),
        candidates: Vec::new(),
        deaf: Vec::new(),
        deaf_uplinks: BTreeSet::new(),
        rules: vec![
            HostRule { is_ours: false, ..our_rule(0, None) },
            our_rule(5531, None),
            our_rule(PREFIX_PRIORITY, prefix(&uplinks[0])),
            our_rule(PREFIX_PRIORITY, prefix(&uplinks[1])),
            our_rule(PREFIX_PRIORITY, None),
            HostRule { is_ours: false, ..our_rule(32766, None) },
        ],
        uplinks,
        firewall: Firewall::Ruleset(json!({"nftables": []})),
        legacy_tables: Vec::new(),
        is_just_opened: false,
        asked: BTreeMap::new(),
    }
}

/// Returns codes and severities of the findings after a change of the host without faults.
fn after(change: impl FnOnce(&mut Facts)) -> Vec<(String, Severity)> {
    let mut facts = good();
    change(&mut facts);
    examine(&facts).into_iter().map(|finding| (finding.code, finding.severity)).collect()
}

fn answers(facts: &mut Facts) -> &mut Answers {
    match &mut facts.daemon {
        Daemon::Running(answers) => answers,
        Daemon::NotRunning(_) | Daemon::NoPermission(_) | Daemon::Broken(_) => unreachable!(),
    }
}

fn one(code: &str, severity: Severity) -> Vec<(String, Severity)> {
    vec![(code.to_owned(), severity)]
}

use Severity::{NotSeen, Note, StopsProtection as Stops, Warning};

#[test]
fn a_fault_of_a_daemon_that_has_just_started_may_be_its_start() {
    let start = ("daemon-just-started".to_owned(), Note);
    let fault = |age, rules| {
        after(|facts| {
            answers(facts).age = Duration::from_secs(age);
            facts.rules = rules;
        })
    };
    assert!(fault(5, vec![]).contains(&start));
    assert!(!fault(60, vec![]).contains(&start));
    assert_eq!(fault(5, good().rules), []);
}

#[test]
fn a_good_host_has_no_findings() {
    assert_eq!(examine(&good()), []);
    assert_eq!(Report::new(Vec::new(), None).exit_status(), 0);
}

#[test]
fn the_kernel_is_looked_at() {
    let kernel = |release: &str| {
        let release = release.to_owned();
        after(move |facts| facts.kernel.release = release)
    };
    assert_eq!(kernel("5.15.0-91-generic"), one("kernel-old", Stops));
    assert_eq!(kernel("6.0.1"), one("kernel-old", Stops));
    assert_eq!(kernel("6.1.0-18-amd64"), []);
    assert_eq!(kernel("7.0-rc1"), []);
    assert_eq!(after(|facts| facts.kernel.has_btf = false), one("kernel-no-btf", Stops));
    assert_eq!(after(|facts| facts.kernel.has_jit = false), one("kernel-no-jit", Warning));
}

#[test]
fn the_daemon_is_looked_at() {
    let daemon = |daemon| after(move |facts| facts.daemon = daemon);
    assert_eq!(daemon(Daemon::NotRunning("x".into())), one("daemon-not-running", Stops));
    assert_eq!(daemon(Daemon::NoPermission("x".into())), one("daemon-no-permission", NotSeen));
    assert_eq!(daemon(Daemon::Broken("x".into())), one("daemon-broken", Stops));
    let other = after(|facts| answers(facts).status.version = "0.9".into());
    assert_eq!(other, one("daemon-version", Warning));
}

#[test]
fn fewer_than_two_uplinks_are_told_once() {
    let warning = format!("only one uplink: {ONE_UPLINK}. See to it.");
    let found = after(|facts| {
        facts.uplinks.truncate(1);
        facts.candidates.push("eth1".into());
        answers(facts).status.warnings.push(warning);
    });
    assert_eq!(found, one("one-uplink", Stops));
    let split = after(|facts| {
        facts.uplinks.truncate(1);
        let [router, other] = ["fe80::66", "fe80::77"].map(|router| router.parse().unwrap());
        let address = "2001:db8:2::7".parse().unwrap();
        let one = facts.uplinks.remove(0).reached(router, []).reached(other, [address]);
        facts.uplinks.push(one);
    });
    assert_eq!(split, one("one-uplink", Warning), "of two routers one can fail");
    let full = format!("{TABLE_FULL}: 5 of 5");
    let found = after(|facts| answers(facts).status.warnings.push(full));
    assert_eq!(found, one("contexts-full", Stops));
    let found = after(|facts| answers(facts).status.warnings.push("look".into()));
    assert_eq!(found, one("daemon-warning", Warning));
}

#[test]
fn links_without_carrier_and_narrow_ones_are_told() {
    let found = after(|facts| facts.uplinks[0].carrier = false);
    assert_eq!(found, one("no-carrier", Warning));
    let narrow = |mtu| after(|facts| facts.uplinks[1].mtu = mtu);
    assert_eq!(narrow(1288), []);
    assert_eq!(narrow(1287), one("small-mtu", Warning));
    assert_eq!(narrow(1280), one("small-mtu", Warning), "connections move there");
    assert_eq!(narrow(1279), one("small-mtu", Stops));
}

#[test]
fn an_uplink_whose_addresses_prove_nothing_is_told() {
    let unproved = |announced| {
        after(|facts| {
            let own = &mut answers(facts).status.uplinks[0].locators[0];
            (own.proof, own.announced) = (Proof::None, announced);
        })
    };
    assert_eq!(unproved(false), one("unprovable", Stops));
    assert_eq!(unproved(true), [], "the key of another uplink signs it, and the daemon says so");
}

#[test]
fn an_uplink_without_a_proof_has_the_advice_of_the_daemon_about_it() {
    let mut facts = good();
    let (first, told) = (facts.uplinks[0].name.clone(), answers(&mut facts));
    told.status.uplinks.iter_mut().for_each(|one| {
        (one.locators[0].proof, one.locators[0].announced) = (Proof::None, false);
    });
    let advice = format!("{first}: 2001:db8::1, {REMOVED} by a person: `ip -6 addr replace`");
    told.status.warnings.push(advice.clone());
    let found = examine(&facts);
    let codes: Vec<_> = found.iter().map(|one| &*one.code).collect();
    assert_eq!(codes, ["unprovable"; 2], "the advice is not there twice");
    assert_eq!(found[0].remedy, advice);
    assert!(found[1].remedy.contains("hba-compatible"), "nothing is said of the other uplink");
}

#[test]
fn temporary_addresses_that_new_connections_take_are_told_of() {
    let newer = "2001:db8:1::6";
    let mut facts = good();
    let link = &mut facts.uplinks[0].addresses;
    link.push(UplinkAddress { address: address(newer), ..link[0] });
    link[0].preferred = false;
    let told = &mut answers(&mut facts).status.uplinks[0].locators;
    told[0].temporary = true;
    let found = after(|changed| *changed = facts.clone());
    assert_eq!(found, [], "a deprecated address is for older connections");
    let told = &mut answers(&mut facts).status.uplinks[0].locators;
    told.push(LocatorInfo { address: address(newer), ..told[0].clone() });
    let found = examine(&facts);
    assert_eq!((found.len(), found[0].code.as_str()), (1, "temporary"));
    assert_eq!(found[0].evidence, [format!("eth0: {newer}")]);
}

#[test]
fn an_uplink_that_carries_nothing_has_a_remedy_and_no_empty_words() {
    let mut facts = good();
    let status = &mut answers(&mut facts).status;
    status.uplinks[1].failing = true;
    status.warnings = ["eth1 carries nothing: its router does not answer", "eth11: no prefix"]
        .map(ToOwned::to_owned)
        .into();
    let [failing, other] = &examine(&facts)[..] else { panic!() };
    assert_eq!((failing.code.as_str(), failing.severity), ("uplink-failing", Warning));
    assert!(failing.remedy.contains("router or the ISP"), "{}", failing.remedy);
    assert_eq!((other.code.as_str(), other.remedy.as_str()), ("daemon-warning", ""));
}

#[test]
fn rules_that_lack_or_come_before_ours_are_told() {
    assert_eq!(after(|facts| facts.rules.truncate(1)), one("rule-missing", Stops));
    assert_eq!(after(|facts| drop(facts.rules.remove(3))), one("rule-missing", Stops));
    let foreign = |change: fn(&mut HostRule)| {
        let mut rule = HostRule { is_ours: false, ..our_rule(100, None) };
        change(&mut rule);
        after(move |facts| facts.rules.push(rule))
    };
    assert_eq!(foreign(|_| {}), one("foreign-rule", Stops));
    for (takes, severity) in
        [(Takes::Some, Note), (Takes::Forwarded, Note), (Takes::AllBut, Warning)]
    {
        let found = after(|facts| {
            let rule = HostRule { is_ours: false, takes, ..our_rule(100, None) };
            facts.rules.push(rule);
        });
        assert_eq!(found, one("foreign-rule", severity), "{takes:?}");
    }
    assert_eq!(foreign(|rule| rule.suppresses_default = true), []);
    assert_eq!(foreign(|rule| rule.priority = 32765), one("foreign-rule", Warning));
    assert_eq!(foreign(|rule| rule.priority = 32767), []);
    let elsewhere = |rule: &mut HostRule| {
        rule.from = Some(Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 0), 64));
    };
    assert_eq!(foreign(elsewhere), []);
}

#[test]
fn a_rule_for_an_address_that_peers_are_not_told_of_stops_nothing() {
    let from = |own: &str, length| {
        let own = Prefix::new(address(own), length);
        let rule = HostRule { is_ours: false, ..our_rule(5000, Some(own)) };
        after(|facts| facts.rules.push(rule))
    };
    assert_eq!(from("2001:db8:1::77", 128), one("foreign-rule", Note));
    assert_eq!(from("2001:db8:1::5", 128), one("foreign-rule", Stops));
    assert_eq!(from("2001:db8:1::", 64), one("foreign-rule", Stops));
    let behind = HostRule {
        is_ours: false,
        ..our_rule(32765, Some(Prefix::new(address("2001:db8:1::5"), 128)))
    };
    let found = after(|facts| facts.rules.push(behind));
    assert_eq!(found, one("foreign-rule", Note), "what has moved comes first");
    let own = HostRule {
        is_ours: false,
        ..our_rule(5000, Some(Prefix::new(address("2001:db8:1::77"), 128)))
    };
    // A connection with this address has moved.
    let in_use = after(|facts| {
        facts.rules.push(own);
        let context = json!({
            "id": 1, "ulid_local": "2001:db8:1::77", "ulid_peer": "2001:db8:9::9", "role": "initiator",
            "state": "established", "reap": "operational", "locator_local": "2001:db8:2::5",
            "locator_peer": "2001:db8:9::9", "moved": true, "why": "", "since_unix_ms": 0,
        });
        answers(facts).contexts.push(serde_json::from_value(context).unwrap());
    });
    assert_eq!(in_use, one("foreign-rule", Stops));
}

#[test]
fn a_host_that_forwards_and_so_hears_no_router_is_told() {
    // Addresses and routes set by hand need no router.
    let by_hand = |facts: &mut Facts| {
        facts.deaf_uplinks = BTreeSet::from([2]);
        facts.uplinks[0].addresses[0].flags = AddressFlags::PERMANENT;
    };
    assert_eq!(after(by_hand), []);
    let of_router = |facts: &mut Facts| {
        facts.deaf_uplinks = BTreeSet::from([2]);
        facts.uplinks[0].addresses[0].flags = AddressFlags::default();
    };
    assert_eq!(after(of_router), one("router-advertisements", Warning));
    let told_so = after(|facts| {
        of_router(facts);
        facts.deaf_uplinks.clear();
    });
    assert_eq!(told_so, []);
}

#[test]
fn an_interface_that_is_no_uplink_because_the_host_forwards_is_told_with_the_line_to_type() {
    let lifetimes = Lifetimes { preferred: 1800, valid: 3600 };
    let own = UplinkAddress::new("2001:db8:9::5".parse().unwrap(), 64, AddressFlags(0), lifetimes);
    let link = |has_dynamic| Uplink {
        addresses: if has_dynamic { vec![own] } else { Vec::new() },
        ..Uplink::new(4, "wan0")
    };
    assert_eq!(after(|facts| facts.deaf = vec![link(false)]), [], "a bridge of containers, say");
    let mut facts = good();
    facts.deaf = vec![link(true)];
    let findings = examine(&facts);
    let [found] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((found.code.as_str(), found.severity), ("router-advertisements", Warning));
    assert_eq!(found.evidence, ["net.ipv6.conf.wan0.forwarding = 1, accept_ra = 1"]);
    assert!(found.remedy.contains("sysctl -w net.ipv6.conf.wan0.accept_ra=2"), "{found:?}");
    // The daemon has heard a router there: only one finding reports it.
    let heard = after(|facts| {
        facts.deaf = vec![link(false)];
        let Daemon::Running(answers) = &mut facts.daemon else { panic!() };
        answers.status.warnings.push(format!("wan0 is {DEAF}, and so on"));
    });
    assert_eq!(heard, one("router-advertisements", Warning));
}

#[test]
fn prefixes_beyond_those_with_a_rule_are_one_finding_and_no_lost_rule() {
    let mut facts = good();
    let of = |number: u32| Prefix::new(address(&format!("2001:db8:f{number:x}::")), 64);
    facts.rules.extend((0..62).map(|number| our_rule(5542 + number, Some(of(number)))));
    assert_eq!(examine(&facts), []);
    for last in ["1", "2"] {
        let mut own = facts.uplinks[1].addresses[0];
        own.address = address(&format!("2001:db8:ee{last}::1"));
        facts.uplinks[1].addresses.push(own);
    }
    answers(&mut facts).status.warnings.push(format!("2001:db8:ee1::/64 {NO_RULE}, and so on"));
    let findings = examine(&facts);
    let [found] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((found.code.as_str(), found.severity), ("too-many-prefixes", Warning));
    assert_eq!(found.evidence.len(), 2);
    let name = &facts.uplinks[1].name;
    assert_eq!(
        found.evidence[0],
        format!("no rule sends packets from 2001:db8:ee1::/64 out of {name}")
    );
}

#[test]
fn a_firewall_that_could_not_be_read_is_no_good_news() {
    let unread = after(|facts| facts.firewall = Firewall::Unread("not root".into()));
    assert_eq!(unread, one("firewall-unread", NotSeen));
    assert_eq!(after(|facts| facts.firewall = Firewall::NoProgram), one("firewall-unread", Note));
    let legacy = after(|facts| facts.legacy_tables.push("filter".into()));
    assert_eq!(legacy, one("firewall-legacy", NotSeen));
}

fn peer_in(state: ContextState) -> Context {
    Context {
        id: 1,
        ulid_local: address("2001:db8:1::5"),
        ulid_peer: address("2001:db8:9::9"),
        role: Role::Initiator,
        state,
        reap: ReapState::Operational,
        locator_local: address("2001:db8:1::5"),
        locator_peer: address("2001:db8:9::9"),
        moved: false,
        why: String::new(),
        readiness: None,
        since_unix_ms: 0,
        local_locators: Vec::new(),
        peer_locators: Vec::new(),
        tx_packets: 0,
        tx_bytes: 0,
        rx_packets: 0,
        rx_bytes: 0,
        last_tx_ms_ago: None,
        last_rx_ms_ago: None,
    }
}

#[test]
fn peers_that_the_daemon_gave_up_are_told() {
    let given_up = |state| after(move |facts| answers(facts).contexts.push(peer_in(state)));
    assert_eq!(given_up(ContextState::NoSupport), one("peer-without", Note));
    assert_eq!(given_up(ContextState::EFailed), one("peer-silent", Warning));
    assert_eq!(given_up(ContextState::Established), []);
    let excluded = after(|facts| {
        let why = "trigger-never = true".to_owned();
        let peer = Ipv6Addr::LOCALHOST;
        answers(facts).status.excluded.push(Excluded { peer, why });
    });
    assert_eq!(excluded, one("peer-excluded", Note));
    let mut facts = good();
    answers(&mut facts).contexts.push(peer_in(ContextState::NoSupport));
    let found = &examine(&facts)[0].what;
    assert_eq!(found, "1 peer has no Moorline: connections to it cannot move");
}

#[test]
fn a_peer_that_is_asked_about_and_excluded_is_not_protected() {
    let excluded = |peer: &str| Excluded { peer: address(peer), why: "trigger-never".to_owned() };
    let (peer, beside, other) = ("2001:db8:9::9", "2001:db8:9::a", "2001:db8:8::8");
    let found = |connected: &[&str], asked: &[(&str, bool)]| {
        after(|facts| {
            answers(facts).status.excluded = connected.iter().map(|peer| excluded(peer)).collect();
            let of = asked.iter();
            let of = of.map(|(peer, is)| (address(peer), is.then(|| excluded(peer))));
            facts.asked = of.collect();
        })
    };
    let [stops, warning, note] =
        [Stops, Warning, Note].map(|severity| ("peer-excluded".to_owned(), severity));
    assert_eq!(found(&[peer, other], &[(peer, true)]), [stops.clone(), note.clone()]);
    let of_two = found(&[peer], &[(peer, true), (beside, true)]);
    assert_eq!(of_two, [stops.clone(), warning.clone()]);
    assert_eq!(found(&[peer], &[(peer, false)]), [stops], "a rule about its ports");
    assert_eq!(found(&[], &[(peer, true)]), [warning], "the peer may begin a context");
    assert_eq!(found(&[other], &[(peer, false)]), [note]);
}

/// Returns the findings about a context with this readiness.
fn with_readiness(state: ReadinessState, reason: &str) -> Vec<(String, Severity)> {
    after(|facts| add_context(facts, &state, reason))
}

fn add_context(facts: &mut Facts, state: &ReadinessState, reason: &str) {
    let peer = "2001:db8:9::9";
    let context: Context = serde_json::from_value(json!({
        "id": 1, "ulid_local": "2001:db8:1::5", "ulid_peer": peer, "role": "initiator",
        "state": "established", "reap": "operational", "locator_local": "2001:db8:1::5",
        "locator_peer": peer, "moved": false, "why": "", "since_unix_ms": 0,
        "readiness": {"state": state, "reason": reason, "why": "as it is", "remedy": "Do."},
    }))
    .unwrap();
    answers(facts).contexts.push(context);
}

#[test]
fn what_nobody_answered_before_the_firewall_was_opened_is_no_present_fault() {
    let opened = |reason| {
        after(|facts| {
            facts.is_just_opened = true;
            add_context(facts, &ReadinessState::Cannot, reason);
        })
    };
    assert_eq!(opened("unanswered"), one("failover-unanswered", Note));
    assert_eq!(opened("one-pair"), one("failover-one-pair", Stops), "no firewall is the reason");
    let mut facts = good();
    facts.is_just_opened = true;
    add_context(&mut facts, &ReadinessState::Cannot, "unanswered");
    let found = &examine(&facts)[0];
    assert_eq!(found.what, "1 connection not tried again yet, since the firewall was opened");
}

#[test]
fn contexts_that_cannot_move_stop_protection_and_those_that_are_not_tried_yet_do_not() {
    let cannot = |reason| with_readiness(ReadinessState::Cannot, reason);
    assert_eq!(cannot("unanswered"), one("failover-unanswered", Stops));
    assert_eq!(cannot("peer-unproven"), one("failover-peer-unproven", Stops));
    let not_yet = |reason| with_readiness(ReadinessState::NotYet, reason);
    assert_eq!(not_yet("untried"), one("failover-untried", Note));
    assert_eq!(not_yet("half-open"), one("failover-half-open", Stops));
    assert_eq!(not_yet("unverified"), one("failover-unverified", Stops));
    assert_eq!(not_yet("unrenewed"), one("failover-unrenewed", Stops));
    assert_eq!(not_yet("unreachable"), one("failover-unreachable", Stops));
    assert_eq!(not_yet("establishing"), one("failover-establishing", Note), "it is young");
    assert_eq!(not_yet("no-answer"), one("failover-no-answer", Warning), "as of a silent peer");
    assert_eq!(not_yet("peer-mute"), one("failover-peer-mute", Warning));
    assert_eq!(not_yet("unconfirmed"), one("failover-unconfirmed", Warning));
    assert_eq!(not_yet("same-uplink"), one("failover-same-uplink", Stops));
    assert_eq!(not_yet("uplink-fails"), one("failover-uplink-fails", Stops));
    assert_eq!(with_readiness(ReadinessState::Protected, ""), []);
    assert_eq!(with_readiness(ReadinessState::Protected, "peer-one-address"), []);
}

#[test]
fn a_moved_connection_whose_peer_is_mute_has_no_path() {
    let mut facts = good();
    add_context(&mut facts, &ReadinessState::NotYet, "peer-mute");
    answers(&mut facts).contexts[0].moved = true;
    let found = examine(&facts);
    assert_eq!((found[0].code.as_str(), found[0].severity), ("failover-peer-mute", Stops));
}

#[test]
fn the_exit_status_tells_the_worst() {
    let status = |change: fn(&mut Facts)| {
        let mut facts = good();
        change(&mut facts);
        Report::new(examine(&facts), None).exit_status()
    };
    assert_eq!(status(|facts| facts.kernel.has_jit = false), 0);
    assert_eq!(status(|facts| facts.firewall = Firewall::Unread(String::new())), 2);
    assert_eq!(status(|facts| facts.uplinks[0].mtu = 1000), 1);
}

/// Returns the findings after a change of a host with ILNP.
fn with_ilnp(change: impl FnOnce(&mut Facts, &mut IlnpStatus)) -> Vec<(String, Severity)> {
    let mut ilnp = IlnpStatus {
        icmp_types: [200, 201],
        max_sessions: 10,
        locators: vec!["2001:0db8:0001:0000".into(), "2001:0db8:0002:0000".into()],
        identifiers: 2,
        ..IlnpStatus::default()
    };
    after(|facts| {
        change(facts, &mut ilnp);
        answers(facts).status.ilnp = Some(ilnp);
    })
}

#[test]
fn what_keeps_sessions_of_ilnp_from_moving_is_told() {
    assert_eq!(with_ilnp(|_, _| {}), []);
    let without = with_ilnp(|_, ilnp| {
        ilnp.identifiers = 0;
        ilnp.locators.clear();
    });
    assert_eq!(without, one("ilnp-identifier", Stops));
    let group = with_ilnp(|facts, _| {
        facts.uplinks[0].addresses[0].address = address("2001:db8:1::100:0:0:5");
    });
    assert_eq!(group, one("ilnp-identifier", Warning));
    assert_eq!(with_ilnp(|_, ilnp| ilnp.locators.truncate(1)), one("ilnp-locators", Stops));
    assert_eq!(with_ilnp(|_, ilnp| ilnp.locators.clear()), one("ilnp-locators", Stops));
    assert_eq!(with_ilnp(|_, ilnp| ilnp.sessions.established = 10), one("ilnp-full", Warning));
    assert_eq!(
        with_ilnp(|_, ilnp| ilnp.sessions.awaiting = 1),
        one("ilnp-unacknowledged", Warning)
    );
    let dropped =
        |count| with_ilnp(move |_, ilnp| ilnp.drops = [("wrong_locators".into(), count)].into());
    assert_eq!((dropped(9), dropped(10)), (vec![], one("ilnp-drops", Note)));
}

#[test]
fn pairs_of_ilnp_sessions_are_tried_as_such() {
    let mut facts = good();
    let peer = address("2001:db8:b::9");
    let ours = facts.uplinks[0].addresses[0].address;
    let session: Correspondent = serde_json::from_value(json!({
        "session": 1, "addresses": {"local": ours, "peer": peer}, "local_nid": "", "remote_nid": "",
        "via": {"local": ours, "peer": "2001:db8:c::9"}, "moved": true, "state": "established",
        "why": "", "last_used_s_ago": 0,
    }))
    .unwrap();
    answers(&mut facts).ilcc.correspondents.push(session);
    answers(&mut facts).status.ilnp =
        Some(IlnpStatus { icmp_types: [200, 201], ..IlnpStatus::default() });
    let ways = ways(&facts, &[peer]);
    assert_eq!(ways.len(), 4, "the peer's other locator, too: {ways:?}");
    for way in ways {
        let is_its = way.pair == Pair::new(ours, peer);
        assert_eq!((way.has_moved, way.has_session), (is_its, is_its), "{way:?}");
        assert_eq!(way.ilnp, Some([200, 201]));
    }
}
