use std::time::Duration;

use moorline_contexts::{Cause, Event, EventKind, Failure, Profile, ReapState};

use crate::plan::{
    Chance, Change, Direction, Kind, Link, Pace, Plan, Port, Uplink, What, Workload,
};
use crate::{Outcome, SAMPLE, run, trace};

const CUT: Duration = Duration::from_secs(8);
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

#[test]
fn silent_death_of_an_isp_at_either_end() {
    let cut = |host| What::Cut { uplink: port(host, 0), direction: Direction::Both };
    for cuts in [vec![cut(0)], vec![cut(1)], vec![cut(0), cut(1)]] {
        each_recovers(&cuts, silent_bound());
    }
}

#[test]
fn death_in_one_direction() {
    for host in 0..2 {
        for direction in [Direction::Out, Direction::In] {
            each_recovers(&[What::Cut { uplink: port(host, 0), direction }], silent_bound());
        }
        let path = What::CutPath { uplink: port(host, 0), to_uplink: port(1 - host, 0) };
        each_recovers(&[path], silent_bound());
    }
}

#[test]
fn what_the_host_sees_itself() {
    for what in
        [What::CarrierDown { uplink: port(0, 0) }, What::AddressRemoved { uplink: port(0, 0) }]
    {
        // The sender moves at once. Its peer moves once it has noticed the failure or been told.
        each_recovers(&[what], silent_bound());
        let is_move = |event: &Event| matches!(event.kind, EventKind::Moved { .. });
        let moved = first(&run(1, &rfc(plan(stream(), &[what]))), is_move);
        assert!(moved - CUT <= Duration::from_millis(20), "one round trip: {:?}", moved - CUT);
        assert_eq!(
            first(&run(1, &plan(stream(), &[what])), is_move),
            CUT,
            "a standby path is known"
        );
    }
}

/// If the sender sees the event itself, only the packets in flight are lost. The other direction takes one more round
/// trip.
#[test]
fn with_a_standby_a_local_event_is_hardly_felt() {
    let pace = Pace { octets: 300, interval: Duration::from_millis(10) };
    for what in
        [What::CarrierDown { uplink: port(0, 0) }, What::AddressRemoved { uplink: port(0, 0) }]
    {
        for (kind, most) in [
            (Kind::Datagrams { pace, both_ways: false }, 20),
            (Kind::Datagrams { pace, both_ways: true }, 30),
            (Kind::Requests { pace }, 40),
        ] {
            for seed in 0..4 {
                let outcome = sound(seed, &plan(kind, &[what]));
                let late = next_octet(&outcome).expect("it goes on");
                assert!(late <= Duration::from_millis(most), "{kind:?} {what:?}: {late:?}");
                let moved = |event: &Event| {
                    matches!(event.kind, EventKind::Moved { cause: Cause::LocatorGone, .. })
                };
                assert_eq!(first(&outcome, moved), CUT);
            }
        }
    }
}

/// A path comes and goes. Each return to it takes longer than the one before, and no connection is lost.
#[test]
fn a_path_that_comes_and_goes_is_not_followed_each_time() {
    let mut plan = Plan { duration: Duration::from_secs(3600), ..plan(stream(), &[]) };
    for minute in 1..59 {
        let at = Duration::from_secs(60 * minute);
        plan.changes.push(Change { at, what: What::CarrierDown { uplink: port(0, 0) } });
        let at = at + Duration::from_secs(2);
        plan.changes.push(Change { at, what: What::CarrierUp { uplink: port(0, 0) } });
    }
    let outcome = sound(1, &plan);
    let is_return =
        |event: &Event| matches!(event.kind, EventKind::Moved { cause: Cause::FailBack, .. });
    let of_a = outcome.events.iter().filter(|told| told.host == 0 && is_return(&told.event));
    assert!((1..=10).contains(&of_a.count()), "{:?}", outcome.events);
}

#[test]
fn only_one_pair_is_left_each_way_and_they_differ() {
    // A reaches B from uplink 2 to 1, and B reaches A from 2 to 1: unidirectional paths (RFC 5534 s4.1).
    let mut cuts = Vec::new();
    for host in 0..2 {
        for (from, to) in [(0, 0), (0, 1), (1, 1)] {
            cuts.push(What::CutPath { uplink: port(host, from), to_uplink: port(1 - host, to) });
        }
    }
    each_recovers(&cuts, Duration::from_secs(30));
}

#[test]
fn a_total_outage_ends_when_anything_works_again() {
    for kind in kinds() {
        let mut plan = rfc(plan(kind, &[What::CarrierDown { uplink: port(0, 0) }]));
        for (at, what) in [
            (CUT, What::Cut { uplink: port(0, 1), direction: Direction::Both }),
            (CUT + Duration::from_secs(30), What::Heal { uplink: port(0, 1) }),
        ] {
            plan.changes.push(Change { at, what });
        }
        let outcome = sound(1, &plan);
        assert!(outcome.recovered >= 1, "{kind:?} {outcome:?}");
        assert!(outcome.unrecoverable >= 1, "{kind:?} {outcome:?}");
        assert!(has(&outcome, |event| matches!(event.kind, EventKind::Moved { .. })), "{kind:?}");
    }
}

#[test]
fn nothing_fails_and_nothing_moves() {
    for kind in kinds() {
        let outcome = sound(1, &Plan { duration: Duration::from_secs(120), ..plan(kind, &[]) });
        let is_quiet = |event: &Event| {
            matches!(event.kind, EventKind::Initiated | EventKind::Established { .. })
        };
        assert!(outcome.events.iter().all(|e| is_quiet(&e.event)), "{:?}", outcome.events);
        assert!(has(&outcome, |event| matches!(event.kind, EventKind::Established { .. })));
        assert_eq!(outcome.drops, [[], []]);
    }
}

#[test]
fn a_peer_without_moorline_gets_plain_ipv6_and_is_remembered() {
    for plain in 0..2 {
        for kind in kinds() {
            let mut plan = plan(kind, &[]);
            plan.hosts[plain].moorline = false;
            let outcome = sound(1, &plan);
            let events: Vec<_> = outcome.events.iter().map(|e| (e.host, e.event.kind)).collect();
            assert!(outcome.workloads[0].octets[0] > 1000, "{kind:?}");
            // Packets of the peer alone trigger nothing, because anybody can send them.
            if plain == 0 && matches!(kind, Kind::Datagrams { both_ways: false, .. }) {
                assert_eq!(events, []);
                continue;
            }
            let initiator = 1 - plain;
            assert!(
                matches!(
                    events[..],
                    [
                        (a, EventKind::Initiated),
                        (b, EventKind::Failed { failure: Failure::NoSupport })
                    ] if (a, b) == (initiator, initiator)
                ),
                "{events:?}"
            );
        }
    }
}

#[test]
fn without_moorline_the_same_failure_is_the_end() {
    for kind in kinds() {
        let cut = What::Cut { uplink: port(0, 0), direction: Direction::Both };
        let mut plan = plan(kind, &[cut]);
        plan.hosts.iter_mut().for_each(|host| host.moorline = false);
        let outcome = sound(1, &plan);
        assert!(outcome.recovered == 0 && outcome.unrecoverable >= 1, "{outcome:?}");
        assert!(next_octet(&outcome).is_none());
    }
}

/// Nobody tells a data plane without a core that an address is gone. The next core tells it before it sends a packet.
#[test]
fn a_data_plane_without_a_core_goes_on_with_the_addresses_that_it_was_told_of() {
    for host in 0..2 {
        let cut = What::Cut { uplink: port(host, 0), direction: Direction::Both };
        let mut plan = plan(stream(), &[cut]);
        let rest = [
            (50, What::Kill { host }),
            (52, What::PrefixWithdrawn { uplink: port(host, 1) }),
            (54, What::HealAll {}),
            (56, What::Restart { host }),
        ];
        plan.changes.extend(rest.map(|(at, what)| Change { at: Duration::from_secs(at), what }));
        let has_moved = |event: &Event| matches!(event.kind, EventKind::Moved { .. });
        for seed in 0..4 {
            let outcome = sound(seed, &plan);
            assert!(first(&outcome, has_moved) < Duration::from_secs(50));
        }
    }
}

#[test]
fn a_core_that_is_killed_goes_on_with_its_contexts() {
    for host in 0..2 {
        for kind in kinds() {
            let cut = What::Cut { uplink: port(0, 0), direction: Direction::Both };
            let mut plan = plan(kind, &[cut]);
            for (at, what) in [(4400, What::Restart { host }), (4000, What::Kill { host })] {
                plan.changes.insert(0, Change { at: Duration::from_millis(at), what });
            }
            let outcome = sound(1, &plan);
            assert!(outcome.recovered >= 1, "{kind:?} {outcome:?}");
            let late = next_octet(&outcome).expect("it goes on");
            assert!(late < silent_bound(), "{kind:?}: {late:?}");
        }
    }
}

#[test]
fn bad_links_lose_no_octet() {
    let bad = Link {
        jitter: Duration::from_millis(30),
        loss: Chance::percent(3),
        duplication: Chance::percent(5),
        reordering: Chance::percent(5),
        replay: Chance::percent(5),
        ..Link::clean(Duration::from_millis(5))
    };
    let cut = What::Cut { uplink: port(0, 0), direction: Direction::Both };
    let pace = Pace { octets: 5000, interval: Duration::from_millis(100) };
    let mut plan = plan(Kind::Stream { bytes: 600_000, pace: Some(pace) }, &[cut]);
    plan.hosts
        .iter_mut()
        .for_each(|host| host.uplinks = [0, 1].map(|isp| Uplink::symmetric(isp, bad)).into());
    for seed in 0..8 {
        let outcome = sound(seed, &plan);
        assert_eq!(outcome.workloads[0].intact, Some(true), "seed {seed}");
        assert_eq!(outcome.workloads[0].octets, [600_000, 0]);
    }
}

#[test]
fn a_trace_shows_the_messages_in_order() {
    let cut = What::Cut { uplink: port(0, 0), direction: Direction::Both };
    let pace = Pace { octets: 3000, interval: Duration::from_millis(50) };
    let bulk = Kind::Stream { bytes: u64::MAX, pace: Some(pace) };
    let trace = trace(1, &plan(bulk, &[cut])).to_string();
    let mut rest = trace.as_str();
    for line in [
        "  |1-------1->|  payload from now on: TCP port 5000",
        "  |1-------1->|  I1\n",
        "  |===========|  ==== cut A1 both ways\n",
        "  CUT OFF\n",
        "A: Suspected",
        "  |2-------2->|  Probe Exploring sent ",
        "  |<-2-------2|  Probe InboundOk sent ",
        "  |2-------2->|  Probe Operational sent ",
        "  |2-------2->|  payload from now on: TCP port 5000",
    ] {
        let at = rest.find(line).unwrap_or_else(|| panic!("{line} is not in\n{trace}"));
        rest = &rest[at + line.len()..];
    }
}

/// Plays each kind of traffic alone, so that packets of one kind do not hide the failure of another.
fn each_recovers(changes: &[What], bound: Duration) {
    for kind in kinds() {
        for seed in 0..4 {
            let plan = plan(kind, changes);
            let outcome = sound(seed, &plan);
            let late = next_octet(&outcome);
            let is_in_time = late.is_some_and(|late| late < bound);
            assert!(
                is_in_time,
                "{changes:?} {kind:?} seed {seed}: {late:?}\n{}",
                trace(seed, &plan)
            );
            let is_back = |event: &Event| {
                matches!(event.kind, EventKind::StateChanged { to: ReapState::Operational, .. })
            };
            assert!(has(&outcome, is_back), "{kind:?} seed {seed}");
        }
    }
}

/// Bound of a silent failure: detection at the receiver of one-way traffic, four probes, and a retransmission timeout
/// that has grown to the length of the silence.
const fn silent_bound() -> Duration {
    Duration::from_millis(2 * (2 * 2000 + 4 * 500))
}

fn sound(seed: u64, plan: &Plan) -> Outcome {
    let outcome = run(seed, plan);
    assert_eq!(outcome.violations, [], "seed {seed}\n{}", trace(seed, plan));
    outcome
}

/// Time from the cut to the end of the silence; `None` if no packet has come since.
fn next_octet(outcome: &Outcome) -> Option<Duration> {
    let workload = &outcome.workloads[0];
    let last = SAMPLE * u32::try_from(workload.samples.len()).expect("small");
    let pause = workload.longest_pause?;
    (last + SAMPLE * 20 > outcome.duration).then(|| pause.to.saturating_sub(CUT))
}

fn first(outcome: &Outcome, is_it: impl Fn(&Event) -> bool) -> Duration {
    outcome.events.iter().find(|e| is_it(&e.event)).expect("it happens").at
}

fn has(outcome: &Outcome, is_it: impl Fn(&Event) -> bool) -> bool {
    outcome.events.iter().any(|e| is_it(&e.event))
}

fn plan(kind: Kind, changes: &[What]) -> Plan {
    let workload =
        Workload { from: port(0, 0), to: port(1, 0), start: Duration::ZERO, until: None, kind };
    Plan {
        workloads: vec![workload],
        changes: changes.iter().map(|&what| Change { at: CUT, what }).collect(),
        ..Plan::pair(SEND_TIMEOUT)
    }
}

/// The plan with hosts of RFC 5534 alone.
fn rfc(mut plan: Plan) -> Plan {
    plan.hosts.iter_mut().for_each(|host| host.profile = Profile::RFC);
    plan
}

fn kinds() -> [Kind; 4] {
    let pace = Pace { octets: 300, interval: Duration::from_millis(50) };
    [
        stream(),
        Kind::Requests { pace },
        Kind::Datagrams { pace, both_ways: false },
        Kind::Datagrams { pace, both_ways: true },
    ]
}

fn stream() -> Kind {
    let pace = Pace { octets: 1000, interval: Duration::from_millis(50) };
    Kind::Stream { bytes: u64::MAX, pace: Some(pace) }
}

fn port(host: usize, uplink: usize) -> Port {
    Port { host, uplink }
}
