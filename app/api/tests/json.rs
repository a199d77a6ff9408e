//! Fixes the JSON of version 1: a change that is not an addition breaks clients.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use moorline_api::{
    AddressInfo, AddressMode, AddressState, Context, ContextCounts, ContextState, DataPlane, Event,
    EventKind, EventsQuery, Excluded, InterfaceAddresses, LocatorInfo, Pair, Proof, Readiness,
    ReadinessState, ReapState, Role, Status, Survival, Uplink,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::Ipv6Addr;

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn status() -> Status {
    Status {
        version: "0.1.0".into(),
        pid: 812,
        started_unix_ms: 1_700_000_000_123,
        send_timeout_ms: 15_000,
        data_plane: DataPlane::Tc,
        uplinks: vec![Uplink {
            name: "eth0".into(),
            ifindex: 2,
            carrier: true,
            failing: false,
            silent: false,
            avoided_secs: Some(12),
            mtu: 1500,
            gateway: Some(address("fe80::1")),
            locators: vec![LocatorInfo {
                address: address("2001:db8:1::5"),
                prefix_len: 64,
                proof: Proof::Hba,
                temporary: false,
                announced: true,
            }],
        }],
        contexts: ContextCounts {
            establishing: 1,
            established: 2,
            exploring: 3,
            moved: 4,
            waiting: 6,
            no_support: 5,
        },
        survival: vec![Survival {
            uplink: "eth0".into(),
            contexts: 3,
            survive: 2,
            others: BTreeMap::from([("unanswered".into(), 1)]),
            sessions: 0,
        }],
        ilnp: None,
        drops: BTreeMap::from([("bad_nonce".into(), 6)]),
        warnings: vec!["one uplink only: plug in another".into()],
        excluded: vec![Excluded {
            peer: address("2001:db8:9::9"),
            why: "trigger-never = true".into(),
        }],
        longest_turn_us: 900,
        counted_ms_ago: 4000,
        uncounted: 0,
    }
}

fn status_json() -> Value {
    json!({
        "version": "0.1.0", "pid": 812, "started_unix_ms": 1_700_000_000_123_u64,
        "send_timeout_ms": 15000, "data_plane": "tc",
        "uplinks": [{
            "name": "eth0", "ifindex": 2, "carrier": true, "failing": false, "silent": false, "avoided_secs": 12,
            "mtu": 1500, "gateway": "fe80::1",
            "locators": [
                {"address": "2001:db8:1::5", "prefix_len": 64, "proof": "hba", "temporary": false, "announced": true}
            ]
        }],
        "contexts":
            {"establishing": 1, "established": 2, "exploring": 3, "moved": 4, "waiting": 6, "no_support": 5},
        "survival": [{
            "uplink": "eth0", "contexts": 3, "survive": 2, "others": {"unanswered": 1}, "sessions": 0
        }],
        "drops": {"bad_nonce": 6},
        "warnings": ["one uplink only: plug in another"],
        "excluded": [{"peer": "2001:db8:9::9", "why": "trigger-never = true"}],
        "longest_turn_us": 900, "counted_ms_ago": 4000, "uncounted": 0
    })
}

fn context() -> Context {
    Context {
        id: 7,
        ulid_local: address("2001:db8:1::5"),
        ulid_peer: address("2001:db8:a::9"),
        role: Role::Initiator,
        state: ContextState::Established,
        reap: ReapState::InboundOk,
        locator_local: address("2001:db8:2::5"),
        locator_peer: address("2001:db8:b::9"),
        moved: true,
        why: "send timeout".into(),
        readiness: Some(Readiness {
            state: ReadinessState::Protected,
            reason: None,
            why: "another pair has answered".into(),
            remedy: String::new(),
            standby: Some(Pair::new(address("2001:db8:1::5"), address("2001:db8:a::9"))),
            answered_ms_ago: Some(1_000),
        }),
        since_unix_ms: 1_700_000_000_456,
        local_locators: vec![address("2001:db8:1::5"), address("2001:db8:2::5")],
        peer_locators: vec![address("2001:db8:a::9")],
        tx_packets: 1,
        tx_bytes: 2,
        rx_packets: 3,
        rx_bytes: 4,
        last_tx_ms_ago: Some(5),
        last_rx_ms_ago: None,
    }
}

fn context_json() -> Value {
    json!({
        "id": 7, "ulid_local": "2001:db8:1::5", "ulid_peer": "2001:db8:a::9",
        "role": "initiator", "state": "established", "reap": "inbound-ok",
        "locator_local": "2001:db8:2::5", "locator_peer": "2001:db8:b::9",
        "moved": true, "why": "send timeout", "since_unix_ms": 1_700_000_000_456_u64,
        "readiness": {
            "state": "protected", "why": "another pair has answered", "remedy": "",
            "standby": {"local": "2001:db8:1::5", "peer": "2001:db8:a::9"}, "answered_ms_ago": 1_000
        },
        "local_locators": ["2001:db8:1::5", "2001:db8:2::5"],
        "peer_locators": ["2001:db8:a::9"],
        "tx_packets": 1, "tx_bytes": 2, "rx_packets": 3, "rx_bytes": 4,
        "last_tx_ms_ago": 5, "last_rx_ms_ago": null
    })
}

fn event() -> Event {
    let pair = |a, b| Some(Pair::new(address(a), address(b)));
    Event {
        context: Some(7),
        ulids: pair("2001:db8:1::5", "2001:db8:a::9"),
        from: pair("2001:db8:1::5", "2001:db8:a::9"),
        to: pair("2001:db8:2::5", "2001:db8:b::9"),
        reason: Some("send timeout".into()),
        ..Event::new(12, 1_700_000_000_789, 55_000_000_001, EventKind::Moved)
    }
}

fn event_json() -> Value {
    let ulids = json!({"local": "2001:db8:1::5", "peer": "2001:db8:a::9"});
    json!({
        "seq": 12, "at_unix_ms": 1_700_000_000_789_u64, "at_ns": 55_000_000_001_u64,
        "kind": "moved", "context": 7, "ulids": ulids, "from": ulids,
        "to": {"local": "2001:db8:2::5", "peer": "2001:db8:b::9"}, "reason": "send timeout"
    })
}

fn assert_both_ways<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T, text: Value) {
    assert_eq!(serde_json::to_value(&value).unwrap(), text);
    assert_eq!(serde_json::from_value::<T>(text).unwrap(), value);
}

fn addresses() -> InterfaceAddresses {
    InterfaceAddresses {
        interface: "eth0".into(),
        ifindex: 2,
        mode: AddressMode::HbaCompatible,
        addresses: vec![AddressInfo {
            address: address("2001:db8:1::5"),
            prefix_len: 64,
            proof: Proof::Cga,
            sec: Some(1),
            collision_count: Some(0),
            key: Some("default".into()),
            set: Some("default".into()),
            params: Some("00ff".into()),
            temporary: false,
            state: AddressState::Preferred,
            preferred_s: Some(1800),
            valid_s: None,
            announced: true,
        }],
    }
}

fn addresses_json() -> Value {
    json!({
        "interface": "eth0", "ifindex": 2, "mode": "hba-compatible",
        "addresses": [{
            "address": "2001:db8:1::5", "prefix_len": 64, "proof": "cga", "sec": 1,
            "collision_count": 0, "key": "default", "set": "default", "params": "00ff", "temporary": false,
            "state": "preferred", "preferred_s": 1800, "valid_s": null, "announced": true
        }]
    })
}

#[test]
fn every_type_has_the_json_of_version_1() {
    assert_both_ways(addresses(), addresses_json());
    assert_both_ways(status(), status_json());
    assert_both_ways(context(), context_json());
    assert_both_ways(event(), event_json());
    let bare = Event::new(1, 2, 3, EventKind::DaemonStarted);
    assert_both_ways(
        bare,
        json!({"seq": 1, "at_unix_ms": 2, "at_ns": 3, "kind": "daemon-started"}),
    );
}

#[test]
fn fields_of_a_newer_daemon_are_ignored() {
    for (mut text, read) in [
        (
            status_json(),
            (|text| serde_json::from_value::<Status>(text).is_ok()) as fn(Value) -> bool,
        ),
        (context_json(), |text| serde_json::from_value::<Context>(text).is_ok()),
        (event_json(), |text| serde_json::from_value::<Event>(text).is_ok()),
    ] {
        text["from_the_future"] = json!({"a": [1]});
        assert!(read(text.clone()), "{text}");
    }
}

#[test]
fn values_of_a_newer_daemon_are_kept_as_they_came() {
    let mut text = event_json();
    text["kind"] = json!("path-control");
    let event: Event = serde_json::from_value(text.clone()).unwrap();
    assert_eq!(event.kind, EventKind::Other("path-control".into()));
    assert_eq!(serde_json::to_value(&event).unwrap(), text);

    let mut text = status_json();
    text["data_plane"] = json!("xdp");
    let status: Status = serde_json::from_value(text).unwrap();
    assert_eq!(status.data_plane.to_string(), "xdp");
}

#[test]
fn no_known_value_reads_as_other() {
    for kind in EventKind::KNOWN {
        assert_eq!(&EventKind::from(kind.as_str().to_owned()), kind);
    }
    for state in ContextState::KNOWN {
        assert_eq!(&ContextState::from(state.to_string()), state);
    }
}

#[test]
fn a_daemon_may_leave_out_what_has_a_default() {
    let text = json!({
        "version": "0.1.0", "pid": 1, "started_unix_ms": 2, "send_timeout_ms": 3,
        "data_plane": "user"
    });
    let status: Status = serde_json::from_value(text).unwrap();
    assert_eq!(status.contexts, ContextCounts::default());
    assert!(status.uplinks.is_empty() && status.warnings.is_empty());
}

#[test]
fn queries_of_events_have_the_path_of_version_1() {
    let path = |since, follow| EventsQuery { since, follow }.to_path();
    assert_eq!(path(None, None), "/v1/events");
    assert_eq!(path(Some(4), None), "/v1/events?since=4");
    assert_eq!(path(Some(0), Some(false)), "/v1/events?since=0&follow=false");
    assert_eq!(path(None, Some(true)), "/v1/events?follow=true");
}
