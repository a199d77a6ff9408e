use super::*;
use insta::assert_snapshot;
use moorline_api::{
    AddressInfo, AddressMode, AddressState, Context, ContextCounts, ContextState, Correspondent,
    DataPlane, Event, EventKind, Excluded, Ilcc, IlnpLocator, IlnpNonces, IlnpPolicy, IlnpStatus,
    InterfaceAddresses, LocatorInfo, LocatorValidity, Pair, Proof, Readiness, ReadinessState,
    ReapState, RemoteLocator, Role, SessionCounts, SessionState, Status, Survival, Uplink,
};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

const START: u64 = 1_763_712_000_000;
const NOW: u64 = START + 11_520_000;

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn locator(text: &str, proof: Proof) -> LocatorInfo {
    let announced = proof == Proof::Hba;
    LocatorInfo { address: address(text), prefix_len: 64, proof, temporary: false, announced }
}

fn a_status() -> Status {
    Status {
        version: "0.1.0".into(),
        pid: 812,
        started_unix_ms: START,
        send_timeout_ms: 15_000,
        data_plane: DataPlane::Tcx,
        uplinks: vec![
            Uplink {
                name: "eth0".into(),
                ifindex: 2,
                carrier: true,
                failing: false,
                silent: false,
                avoided_secs: Some(12),
                mtu: 1500,
                gateway: Some(address("fe80::1")),
                locators: vec![
                    locator("2001:db8:1:0:1c3f:9a01:77e2:4b6d", Proof::Hba),
                    LocatorInfo {
                        temporary: true,
                        ..locator("2001:db8:1:0:3d1c:5e0f:91aa:7c12", Proof::Hba)
                    },
                    locator("2001:db8:1::5", Proof::None),
                ],
            },
            Uplink {
                name: "wwan0".into(),
                ifindex: 3,
                carrier: false,
                failing: false,
                silent: false,
                avoided_secs: None,
                mtu: 1428,
                gateway: None,
                locators: vec![],
            },
        ],
        contexts: ContextCounts {
            establishing: 1,
            established: 12,
            exploring: 1,
            moved: 2,
            waiting: 0,
            no_support: 40,
        },
        survival: vec![
            Survival {
                uplink: "eth0".into(),
                contexts: 5,
                survive: 3,
                others: BTreeMap::from([("untried".into(), 1), ("unanswered".into(), 1)]),
                sessions: 0,
            },
            Survival { uplink: "wwan0".into(), contexts: 1, survive: 1, ..Survival::default() },
        ],
        ilnp: None,
        drops: BTreeMap::from([
            ("bad_nonce".into(), 3),
            ("bad_checksum".into(), 1_234),
            ("truncated".into(), 0),
        ]),
        warnings: vec!["wwan0 has no carrier: nothing can move there".into()],
        excluded: Vec::new(),
        longest_turn_us: 0,
        counted_ms_ago: 0,
        uncounted: 0,
    }
}

fn a_context() -> Context {
    Context {
        id: 7,
        ulid_local: address("2001:db8:1::5"),
        ulid_peer: address("2001:db8:a::9"),
        role: Role::Initiator,
        state: ContextState::Established,
        reap: ReapState::Operational,
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
            answered_ms_ago: Some(20_000),
        }),
        since_unix_ms: NOW - 12_000,
        local_locators: vec![],
        peer_locators: vec![],
        tx_packets: 900,
        tx_bytes: 1_234_567,
        rx_packets: 800,
        rx_bytes: 34_567,
        last_tx_ms_ago: Some(3),
        last_rx_ms_ago: Some(250),
    }
}

fn an_unmoved_context() -> Context {
    Context {
        id: 3,
        ulid_peer: address("2001:db8:c::1"),
        state: ContextState::I1Sent,
        moved: false,
        why: "waiting for the peer's answer".into(),
        readiness: Some(Readiness {
            state: ReadinessState::NotYet,
            reason: Some("establishing".into()),
            why: "the peer has not answered yet".into(),
            remedy: "Wait.".into(),
            standby: None,
            answered_ms_ago: None,
        }),
        since_unix_ms: 0,
        tx_bytes: 2_100,
        rx_bytes: 0,
        last_rx_ms_ago: None,
        ..a_context()
    }
}

#[test]
fn status_of_a_busy_host() {
    assert_snapshot!(status(&a_status(), NOW));
}

#[test]
fn status_of_a_host_with_ilnp() {
    let drops = BTreeMap::from([("bad_nonce".into(), 3), ("wrong_locators".into(), 1)]);
    let ilnp = IlnpStatus {
        policy: Some(IlnpPolicy::Admit),
        icmp_types: [200, 201],
        correspondents: 2,
        sessions: SessionCounts {
            established: 3,
            opening: 1,
            moved: 1,
            awaiting: 1,
            unreachable: 1,
        },
        max_sessions: 65_536,
        locators: vec!["2001:0db8:0001:0000".into()],
        identifiers: 1,
        drops,
        refused: BTreeMap::from([("no socket".into(), 4)]),
        classic: BTreeMap::from([("no answer".into(), 40)]),
    };
    let busy = Status { uplinks: Vec::new(), ilnp: Some(ilnp), ..a_status() };
    assert_snapshot!(status(&busy, NOW));
}

#[test]
fn old_counts_and_missing_ones_are_told() {
    let told = |counted_ms_ago, uncounted| {
        let text = status(&Status { counted_ms_ago, uncounted, ..a_status() }, NOW);
        text.lines().find(|line| line.contains("count")).map(|line| line.trim().to_owned())
    };
    assert_eq!(told(9_999, 0), None);
    assert_eq!(
        told(60_000, 0).as_deref(),
        Some("counted 1 min ago; the next call has new numbers")
    );
    let missing = Some("contexts and sessions that are not counted yet: 7");
    assert_eq!(told(60_000, 7).as_deref(), missing);
}

#[test]
fn drops_of_ilnp_alone_are_not_told_as_none() {
    let drops = BTreeMap::from([("bad_nonce".into(), 3)]);
    let ilnp = IlnpStatus { drops: drops.clone(), ..IlnpStatus::default() };
    let told = status(&Status { ilnp: Some(ilnp), drops, ..a_status() }, NOW);
    assert!(told.contains("\ndrops     none besides those of ILNP\n"), "{told}");
}

#[test]
fn one_thing_is_not_told_as_several_and_no_context_is_not_counted() {
    let sessions = SessionCounts { established: 1, ..SessionCounts::default() };
    let of_ilnp = |uplink: &str, sessions| Survival {
        uplink: uplink.into(),
        sessions,
        ..Survival::default()
    };
    let told = status(
        &Status {
            contexts: ContextCounts { no_support: 1, ..ContextCounts::default() },
            survival: vec![of_ilnp("eth0", 1), of_ilnp("wwan0", 2)],
            ilnp: Some(IlnpStatus { correspondents: 1, sessions, ..IlnpStatus::default() }),
            ..a_status()
        },
        NOW,
    );
    for line in [
        "failover  the loss of eth0 is untested for 1 ILNP session\n",
        "          the loss of wwan0 is untested for 2 ILNP sessions\n",
        "ilnp      1 session with 1 host,",
        ", 1 peer without Shim6\n",
    ] {
        assert!(told.contains(line), "{line}{told}");
    }
}

#[test]
fn an_uplink_by_which_nobody_answers_is_told_from_one_that_fails() {
    let told = |silent, failing| {
        let mut busy = a_status();
        (busy.uplinks[0].silent, busy.uplinks[0].failing) = (silent, failing);
        let text = status(&busy, NOW);
        ["up, no answers", "fails"].map(|cell| text.contains(cell))
    };
    assert_eq!(told(false, false), [false, false]);
    assert_eq!(told(true, false), [true, false]);
    assert_eq!(told(true, true), [false, true]);
}

#[test]
fn status_of_a_host_without_uplinks() {
    let bare = Status {
        uplinks: vec![],
        contexts: ContextCounts::default(),
        drops: BTreeMap::new(),
        warnings: vec![],
        excluded: vec![],
        ..a_status()
    };
    assert_snapshot!(status(&bare, NOW));
}

/// Pair without a context.
fn no_context() -> Context {
    Context {
        id: u32::MAX,
        ulid_peer: address("2001:db8:d::1"),
        state: ContextState::NoSupport,
        why: "peer has no Shim6; plain IPv6, tried again in 9m 12s".into(),
        readiness: None,
        ..an_unmoved_context()
    }
}

#[test]
fn contexts_in_order_of_their_numbers() {
    let all = [no_context(), a_context(), an_unmoved_context()];
    assert_snapshot!(contexts(&all, &a_status(), NOW));
}

#[test]
fn many_peers_without_a_context_do_not_hide_the_others() {
    let mut all = vec![no_context(); 400];
    all.push(a_context());
    let text = contexts(&all, &a_status(), NOW);
    assert_eq!(text.matches("2001:db8:d::1").count(), 20, "{text}");
    assert!(text.contains("\n380 peers more without a context: "), "{text}");
}

#[test]
fn a_table_of_very_many_contexts_says_how_many_more_there_are() {
    let state = ContextState::Established;
    let mut all: Vec<_> =
        (0..1200).map(|id| Context { id, state: state.clone(), ..an_unmoved_context() }).collect();
    all.push(no_context());
    let state = ContextState::I1Sent;
    all.extend((1200..1250).map(|id| Context { id, state: state.clone(), ..an_unmoved_context() }));
    let text = contexts(&all, &a_status(), NOW);
    assert!(text.contains("\n200 contexts more: `moorline contexts --json` lists all."), "{text}");
    assert!(text.contains("\n30 contexts more establishing: "), "{text}");
    assert_eq!(text.matches("peer has no Shim6").count(), 1, "{text}");
}

#[test]
fn no_contexts_says_when_there_will_be_some() {
    assert_snapshot!(contexts(&[], &a_status(), NOW));
}

#[test]
fn connections_without_a_context_are_told_of_with_and_without_a_table() {
    let excluded = vec![Excluded {
        peer: address("2001:db8:9::9"),
        why: "the rule of [[triggers]] for peer-ports 443".into(),
    }];
    let sessions = SessionCounts { established: 1, opening: 1, ..SessionCounts::default() };
    let ilnp = Some(IlnpStatus { sessions, ..IlnpStatus::default() });
    let has = Status { excluded, ilnp, ..a_status() };
    let line = "  2001:db8:9::9: the rule of [[triggers]] for peer-ports 443\n";
    for all in [&[][..], &[no_context()]] {
        let text = contexts(all, &has, NOW);
        assert_eq!(text.starts_with("no contexts: "), all.is_empty(), "{text}");
        assert!(text.contains(line) && text.contains("\n2 ILNP sessions with peers"), "{text}");
        assert!(!text.contains("unless"), "the peers are named: {text}");
    }
    let without = contexts(&[no_context()], &a_status(), NOW);
    assert!(!without.contains("earn no context") && !without.contains("ILNP"), "{without}");
    let told = status(&has, NOW);
    let line =
        "excluded  2001:db8:9::9 earns no context: the rule of [[triggers]] for peer-ports 443\n";
    assert!(told.ends_with(line), "{told}");
}

#[test]
fn events_of_a_move() {
    let ulids = Pair::new(address("2001:db8:1::5"), address("2001:db8:a::9"));
    let to = Pair::new(address("2001:db8:2::5"), address("2001:db8:b::9"));
    let of = |seq, kind| Event {
        context: Some(7),
        ulids: Some(ulids),
        ..Event::new(seq, START + seq * 1_111, 0, kind)
    };
    let list = [
        Event::new(1, START, 0, EventKind::DaemonStarted),
        Event { reason: Some("eth0".into()), ..Event::new(2, START, 0, EventKind::UplinkUp) },
        of(3, EventKind::ContextEstablished),
        Event { reason: Some("send timeout".into()), ..of(4, EventKind::Exploring) },
        Event { from: Some(ulids), to: Some(to), ..of(5, EventKind::Moved) },
        Event { from: Some(to), to: Some(ulids), ..of(6, EventKind::Moved) },
        of(7, EventKind::Other("path-control".into())),
    ];
    assert_snapshot!(list.iter().map(event).collect::<String>());
}

fn own(text: &str, proof: Proof, state: AddressState, left: Option<(u32, u32)>) -> AddressInfo {
    let is_ours = proof != Proof::None;
    AddressInfo {
        address: address(text),
        prefix_len: 64,
        proof,
        sec: is_ours.then_some(1),
        collision_count: is_ours.then_some(0),
        key: is_ours.then(|| "default".to_owned()),
        set: is_ours.then(|| "default".to_owned()),
        params: is_ours.then(|| "00ff".to_owned()),
        temporary: false,
        announced: is_ours && state == AddressState::Preferred,
        state,
        preferred_s: left.map(|(preferred, _)| preferred),
        valid_s: left.map(|(_, valid)| valid),
    }
}

#[test]
fn addresses_of_two_uplinks() {
    let left = Some((1795, 3595));
    let interface = |name: &str, ifindex, mode, addresses| InterfaceAddresses {
        interface: name.into(),
        ifindex,
        mode,
        addresses,
    };
    let interfaces = [
        interface(
            "eth0",
            2,
            AddressMode::HbaCompatible,
            vec![
                own("2001:db8:1::5", Proof::None, AddressState::Preferred, None),
                own(
                    "2001:db8:1:0:24b6:3c1a:77e2:4b6d",
                    Proof::HbaCompatible,
                    AddressState::Preferred,
                    left,
                ),
                AddressInfo {
                    temporary: true,
                    key: None,
                    ..own(
                        "2001:db8:1:0:3d1c:5e0f:91aa:7c12",
                        Proof::Hba,
                        AddressState::Preferred,
                        left,
                    )
                },
                own("2001:db8:7:0:2c3f:9a01:8e2:b6d", Proof::Cga, AddressState::Tentative, None),
            ],
        ),
        interface(
            "wwan0",
            3,
            AddressMode::Off,
            vec![own("2001:db8:2::77", Proof::None, AddressState::Deprecated, Some((0, 86_400)))],
        ),
        interface("wlan0", 4, AddressMode::Cga, vec![]),
    ];
    assert_snapshot!(addresses(&interfaces));
}

#[test]
fn no_interfaces_says_what_one_is() {
    assert_eq!(addresses(&[]), "no uplinks: no interface has a default route for IPv6\n");
}

#[test]
fn a_report_of_the_doctor() {
    use moorline_doctor::probe::{Kind, PairReport, PeerReport, Verdict};
    use moorline_doctor::{Finding, Report, Severity};
    let passes = || Verdict::Passes { rtt_us: 300 };
    let from = address("2001:db8:ff::1");
    let refused = || Verdict::Error { from, what: "administratively prohibited".into(), mtu: None };
    let row = |local: &str, shim6: Verdict, options: Verdict, mtu| PairReport {
        pair: Pair::new(address(local), address("2001:db8:b1::b")),
        verdicts: BTreeMap::from([
            (Kind::Plain, passes()),
            (Kind::Shim6, shim6),
            (Kind::Options8, options.clone()),
            (Kind::Options16, options),
        ]),
        path_mtu: mtu,
        is_black_hole: mtu.is_some(),
    };
    let pairs = vec![
        row("2001:db8:a1::a", Verdict::Lost, refused(), None),
        row("2001:db8:a2::a", Verdict::NoShim6, passes(), Some(1400)),
    ];
    let finding = |code: &str, severity, what: &str| Finding {
        code: code.into(),
        severity,
        what: what.into(),
        evidence: vec!["inet filter in handle 6: shim6 drop".into()],
        remedy: "Accept it before that.".into(),
    };
    let report = Report::new(
        vec![
            finding("a", Severity::Note, "something to know"),
            finding("b", Severity::StopsProtection, "the firewall drops protocol 140"),
        ],
        Some(PeerReport { peer: "example.org".into(), pairs }),
    );
    assert_snapshot!(doctor(&report));
}

fn an_ilcc() -> Ilcc {
    let remote = |l64: &str, validity, lifetime_s| RemoteLocator {
        l64: l64.into(),
        preference: 100,
        lifetime_s,
        validity,
    };
    Ilcc {
        on: true,
        policy: Some(IlnpPolicy::Admit),
        max_sessions: 65_536,
        locators: vec![IlnpLocator {
            l64: "2001:0db8:00a2:0000".into(),
            uplink: Some("wwan0".into()),
            preference: 100,
            lifetime_s: 3600,
        }],
        correspondents: vec![Correspondent {
            session: 3,
            addresses: Pair::new(address("2001:db8:a1::a"), address("2001:db8:b1::b")),
            local_nid: "0000:0000:0000:000a".into(),
            remote_nid: "0000:0000:0000:000b".into(),
            via: Pair::new(address("2001:db8:a2::a"), address("2001:db8:b1::b")),
            moved: true,
            move_cause: Some("suspicion".into()),
            state: SessionState::Established,
            why: "agreed, proposed here".into(),
            locators: vec![
                remote("2001:0db8:00b1:0000", LocatorValidity::Active, Some(3599)),
                remote("2001:0db8:00b2:0000", LocatorValidity::Valid, None),
            ],
            nonces: Some(IlnpNonces { sent: "8f3a0011".into(), received: None }),
            awaits_acknowledgement: true,
            readiness: Some(Readiness {
                state: ReadinessState::NotYet,
                reason: Some("unacknowledged".into()),
                why: "the correspondent has not acknowledged our locators".into(),
                remedy: "A firewall may drop ICMPv6 type 156.".into(),
                standby: None,
                answered_ms_ago: None,
            }),
            last_used_s_ago: 4,
        }],
    }
}

#[test]
fn correspondents_are_a_table_and_nonces_are_hidden_from_who_may_not_know_them() {
    let shown = ilcc(&an_ilcc());
    let parts = [
        "policy admit, 1 of 65536",
        "wwan0",
        "2001:db8:a2::a",
        "updating",
        "suspicion",
        "8f3a0011",
        "not yet",
    ];
    for part in parts {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    assert!(shown.contains("2001:0db8:00b1:0000 100 (active, 3599 s)"), "{shown}");
    let mut hidden = an_ilcc();
    hidden.correspondents[0].nonces = None;
    assert!(ilcc(&hidden).contains("hidden"));
    hidden.correspondents.clear();
    assert!(ilcc(&hidden).contains("no correspondents"));
    assert!(ilcc(&Ilcc::default()).contains("ilnp = \"on\""));
    assert!(!format!("{:?}", an_ilcc()).contains("8f3a0011"), "nonces are not for logs");
}
