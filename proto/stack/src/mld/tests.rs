use super::*;
use alloc::vec;
use moorline_ip::address::solicited_node;
use moorline_ip::mld::{Query, RecordType};
use proptest::prelude::*;
use rand_core::SeedableRng as _;

const SECOND: Duration = Duration::from_secs(1);
const EXCLUDE: RecordType = RecordType::MODE_IS_EXCLUDE;

fn group(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, n)
}

fn start() -> Instant {
    Instant::ZERO + 1000 * SECOND
}

fn listener() -> Listener {
    let mut listener = Listener::new(ChaCha20Rng::seed_from_u64(7));
    listener.handle_link(true, start());
    listener
}

fn general(max_response: Duration) -> Query {
    let interval = Duration::from_secs(125);
    let group = Ipv6Addr::UNSPECIFIED;
    Query { group, max_response, is_version1: false, robustness: 2, interval, sources: vec![] }
}

fn about(group: Ipv6Addr, sources: &[Ipv6Addr]) -> Query {
    Query { group, sources: sources.to_vec(), ..general(SECOND) }
}

fn version1(group: Ipv6Addr, max_response: Duration) -> Query {
    let interval = Duration::ZERO;
    Query { group, max_response, is_version1: true, robustness: 0, interval, sources: vec![] }
}

fn outputs(listener: &mut Listener) -> Vec<Transmit> {
    core::iter::from_fn(|| listener.poll_output()).collect()
}

fn records(listener: &mut Listener) -> Vec<Record> {
    let mut records = vec![];
    for transmit in outputs(listener) {
        assert_eq!(transmit.destination, ALL_MLDV2_ROUTERS);
        let Report::Version2(report) = transmit.report else { panic!("{transmit:?}") };
        assert!(!report.is_empty());
        records.extend(report);
    }
    records
}

/// Runs all timers up to then; returns the reports with their times.
fn run(listener: &mut Listener, until: Instant) -> Vec<(Instant, Transmit)> {
    let mut sent = vec![];
    while let Some(at) = listener.poll_timeout().filter(|at| *at <= until) {
        listener.handle_timeout(at);
        assert!(listener.poll_timeout().is_none_or(|next| next > at), "a timer that is due stays");
        sent.extend(outputs(listener).into_iter().map(|transmit| (at, transmit)));
    }
    sent
}

fn quiet(groups: &[Ipv6Addr]) -> Listener {
    let mut listener = listener();
    for group in groups {
        listener.join(*group, start()).expect("room");
    }
    run(&mut listener, start() + 10 * SECOND);
    outputs(&mut listener);
    assert_eq!(listener.poll_timeout(), None);
    listener
}

fn version2(records: Vec<Record>) -> Transmit {
    Transmit { report: Report::Version2(records), destination: ALL_MLDV2_ROUTERS }
}

// RFC 3810 s6.1.
//= rfc3810#9.1-1 rfc3810#9.1-2 (test)
#[test]
fn a_change_is_reported_at_once_and_once_more() {
    let mut listener = listener();
    for (kind, is_join) in
        [(RecordType::CHANGE_TO_EXCLUDE, true), (RecordType::CHANGE_TO_INCLUDE, false)]
    {
        if is_join {
            listener.join(group(1), start()).expect("room");
        } else {
            listener.leave(group(1), start());
        }
        assert_eq!(listener.is_member(group(1)), is_join);
        let change = version2(vec![Record::new(kind, group(1))]);
        assert_eq!(outputs(&mut listener), core::slice::from_ref(&change));
        let again = run(&mut listener, start() + 100 * SECOND);
        let [(at, transmit)] = again.as_slice() else { panic!("{again:?}") };
        assert!(*at <= start() + SECOND && *at > start());
        assert_eq!(transmit, &change);
    }
    assert_eq!(listener.groups.len(), 0);
}

#[test]
fn a_new_change_ends_the_reports_of_the_change_before() {
    let mut listener = listener();
    listener.join(group(1), start()).expect("room");
    listener.leave(group(1), start());
    outputs(&mut listener);
    let again = run(&mut listener, start() + 10 * SECOND);
    let last = Record::new(RecordType::CHANGE_TO_INCLUDE, group(1));
    let sent: Vec<_> = again.into_iter().map(|(_, transmit)| transmit).collect();
    assert_eq!(sent, [version2(vec![last])]);
}

//= rfc3810#4.2-1 (test)
//= rfc4861#7.2.1-3 (test)
#[test]
fn joins_are_counted() {
    let mut listener = quiet(&[group(1)]);
    listener.join(group(1), start()).expect("room");
    assert_eq!(listener.groups().collect::<Vec<_>>(), [(group(1), 2)]);
    listener.leave(group(1), start());
    assert!(listener.is_member(group(1)) && outputs(&mut listener).is_empty());
    listener.leave(group(1), start());
    assert!(!listener.is_member(group(1)));
    assert_eq!(records(&mut listener).len(), 1);
    listener.leave(group(1), start());
    listener.leave(group(9), start());
    assert!(outputs(&mut listener).is_empty());
    let unicast = "2001:db8::1".parse().expect("address");
    assert_eq!(listener.join(unicast, start()), Err(Drop::Malformed));
}

// RFC 3810 s6: all nodes and the scopes 0 and 1 draw no messages, in both versions.
#[test]
fn some_groups_are_never_reported() {
    let mute =
        ["ff02::1", "ff01::1", "ff01::7", "ff00::7"].map(|text| text.parse().expect("group"));
    let mut listener = listener();
    for is_version1 in [false, true] {
        if is_version1 {
            listener
                .handle_query(&version1(Ipv6Addr::UNSPECIFIED, SECOND), start())
                .expect("query");
        }
        for group in mute {
            listener.join(group, start()).expect("room");
            listener.handle_query(&about(group, &[]), start()).expect("query");
        }
        listener.handle_query(&general(SECOND), start()).expect("query");
        listener.handle_link_local(start());
        assert_eq!(run(&mut listener, start() + 50 * SECOND), []);
        mute.iter().for_each(|group| listener.leave(*group, start()));
        assert!(outputs(&mut listener).is_empty());
    }
    assert!(listener.is_member(mute[0]) && listener.is_member(mute[1]));
    assert!(!listener.is_member(mute[2]));
}

// RFC 3810 s6.2, rules 1 and 2; s6.3, case 1.
//= rfc8504#5.11-1 (test)
//= rfc3810#6.3-1 rfc3810#6.3-2 (test)
#[test]
fn a_general_query_draws_one_report_of_all_groups_after_a_random_time() {
    let mut listener = quiet(&[group(1), group(2)]);
    let now = start() + 20 * SECOND;
    for _ in 0..50 {
        listener.handle_query(&general(10 * SECOND), now).expect("query");
    }
    assert!(outputs(&mut listener).is_empty());
    let sent = run(&mut listener, now + 100 * SECOND);
    let [(at, transmit)] = sent.as_slice() else { panic!("{sent:?}") };
    // The soonest of 50 draws.
    assert!(*at > now && *at < now + SECOND);
    let all = [1, 2].map(|n| Record::new(EXCLUDE, group(n))).to_vec();
    assert_eq!(transmit, &version2(all));
    let mut nothing = self::listener();
    nothing.handle_query(&general(SECOND), start()).expect("query");
    assert_eq!(nothing.poll_timeout(), None);
}

// RFC 3810 s6.2, rule 1 for a specific query.
#[test]
fn an_answer_about_all_groups_that_is_sooner_takes_the_place_of_an_answer_about_one() {
    let mut listener = quiet(&[group(1)]);
    let now = start() + 20 * SECOND;
    listener.handle_query(&general(Duration::ZERO), now).expect("query");
    listener.handle_query(&about(group(1), &[]), now).expect("query");
    assert_eq!(run(&mut listener, now + 10 * SECOND).len(), 1);
}

// RFC 3810 s6.2, rules 3 to 5; s6.3, cases 2 and 3.
#[test]
fn a_query_about_sources_draws_them_until_a_query_about_the_group_comes() {
    let [a, b] = ["2001:db8::a", "2001:db8::b"].map(|text| text.parse().expect("address"));
    let include = |sources: &[Ipv6Addr]| Record {
        kind: RecordType::MODE_IS_INCLUDE,
        group: group(1),
        sources: sources.to_vec(),
    };
    let all = Record::new(EXCLUDE, group(1));
    let cases: [(&[&[Ipv6Addr]], Record); 6] = [
        (&[&[]], all.clone()),
        (&[&[a]], include(&[a])),
        (&[&[b], &[a]], include(&[a, b])),
        (&[&[a], &[]], all.clone()),
        (&[&[], &[a]], all.clone()),
        (&[&[a], &[], &[b]], all),
    ];
    for (queries, expected) in cases {
        let mut listener = quiet(&[group(1)]);
        let now = start() + 20 * SECOND;
        for sources in queries {
            listener.handle_query(&about(group(1), sources), now).expect("query");
            listener.handle_query(&about(group(2), sources), now).expect("query");
        }
        let sent = run(&mut listener, now + SECOND);
        let sent: Vec<_> = sent.into_iter().map(|(_, transmit)| transmit).collect();
        assert_eq!(sent, [version2(vec![expected])], "{queries:?}");
    }
}

// The bound MAX_SOURCES.
#[test]
fn too_many_sources_draw_an_answer_about_all() {
    let sources: Vec<_> = (0..=64_u128).map(Ipv6Addr::from).collect();
    for (asked, expected) in [(&sources[..MAX_SOURCES], MAX_SOURCES), (&sources[..], 0)] {
        let mut listener = quiet(&[group(1)]);
        listener.handle_query(&about(group(1), asked), start()).expect("query");
        listener.handle_timeout(start() + SECOND);
        let records = records(&mut listener);
        assert_eq!(records.iter().map(|one| one.sources.len()).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_query_that_is_about_no_group_is_refused() {
    let mut listener = quiet(&[group(1)]);
    let unicast = "2001:db8::a".parse().expect("address");
    let no_group = Query { sources: vec![unicast], ..general(SECOND) };
    for query in [about(unicast, &[]), no_group] {
        assert_eq!(listener.handle_query(&query, start()), Err(Drop::Query));
    }
    assert_eq!(listener.poll_timeout(), None);
}

// The bounds MAX_GROUPS and MAX_SOLICITED_NODE_GROUPS.
//= rfc3810#4.2-2 (test)
#[test]
fn groups_are_bounded_and_solicited_node_groups_apart() {
    let mut listener = listener();
    let solicited = |n: u128| solicited_node(Ipv6Addr::from_bits(n));
    for n in 0..64_u16 {
        listener.join(group(n), start()).expect("room");
        listener.join(solicited(n.into()), start()).expect("room");
    }
    assert_eq!(listener.join(group(64), start()), Err(Drop::GroupLimit));
    assert_eq!(listener.join(solicited(64), start()), Err(Drop::GroupLimit));
    assert!(!listener.is_member(group(64)));
    listener.join(group(0), start()).expect("a group that is there already");
    // A group that was left gives way, though its change is not reported often enough yet.
    listener.leave(group(1), start());
    listener.join(group(64), start()).expect("room");
    assert_eq!(listener.groups().count(), 128);
    assert_eq!(listener.groups.len(), 128);
}

#[test]
fn reports_fit_the_least_mtu() {
    let groups: Vec<_> = (0..64).map(group).collect();
    let mut listener = quiet(&groups);
    listener.handle_link(true, start());
    let sent = outputs(&mut listener);
    assert_eq!(sent.len(), 2);
    for transmit in sent {
        let mut out = vec![];
        transmit.report.emit(Ipv6Addr::UNSPECIFIED, transmit.destination, &mut out);
        assert!(out.len() + 48 <= 1280);
    }
}

//= rfc3810#5.2.13-3 (test)
#[test]
fn all_groups_are_reported_anew_when_the_link_goes_up_or_a_link_local_address_comes() {
    let mut listener = quiet(&[group(1)]);
    listener.handle_query(&version1(Ipv6Addr::UNSPECIFIED, SECOND), start()).expect("query");
    listener.handle_link(false, start());
    assert_eq!(listener.poll_timeout(), None);
    listener.join(group(2), start()).expect("room");
    listener.handle_query(&general(SECOND), start()).expect("query");
    assert!(outputs(&mut listener).is_empty() && listener.poll_timeout().is_none());
    let all = [1, 2].map(|n| Record::new(RecordType::CHANGE_TO_EXCLUDE, group(n)));
    listener.handle_link(true, start());
    assert_eq!(records(&mut listener), all);
    listener.handle_link_local(start());
    assert_eq!(records(&mut listener), all);
    listener.handle_link(false, start());
    listener.leave(group(2), start());
    assert_eq!((outputs(&mut listener), listener.groups.len()), (vec![], 1));
}

// RFC 3810 s8.2.1, s9.12.
//= rfc8504#5.11-2 (test)
//= rfc3810#8.2.1-1 rfc3810#8.2.1-2 rfc3810#9.12-1 (test)
#[test]
fn a_query_of_version_1_changes_the_version_for_a_while() {
    let mut listener = quiet(&[group(1)]);
    let now = start() + 100 * SECOND;
    listener.handle_query(&Query { interval: 60 * SECOND, ..general(SECOND) }, now).expect("query");
    listener.handle_query(&version1(group(1), 10 * SECOND), now).expect("query");
    assert!(listener.is_version1());
    // The answer to the query of version 2 is cancelled.
    let sent = run(&mut listener, now + 129 * SECOND);
    let [(at, transmit)] = sent.as_slice() else { panic!("{sent:?}") };
    assert!(*at <= now + 10 * SECOND);
    assert_eq!(transmit, &Transmit { report: Report::Version1(group(1)), destination: group(1) });
    assert_eq!(listener.poll_timeout(), Some(now + 130 * SECOND));
    listener.handle_timeout(now + 130 * SECOND);
    assert!(!listener.is_version1());
    listener.leave(group(1), now + 130 * SECOND);
    assert_eq!(records(&mut listener), [Record::new(RecordType::CHANGE_TO_INCLUDE, group(1))]);
}

fn in_version1(groups: &[Ipv6Addr]) -> Listener {
    let mut listener = quiet(groups);
    listener.handle_query(&version1(group(99), SECOND), start()).expect("query");
    listener
}

// RFC 2710 s5: the transitions of a node.
#[test]
fn version_1_reports_and_says_done_if_the_last_report_was_ours() {
    let report = Transmit { report: Report::Version1(group(1)), destination: group(1) };
    let done = Transmit { report: Report::Done(group(1)), destination: ALL_ROUTERS };
    for (is_suppressed, expected) in [(false, vec![done]), (true, vec![])] {
        let mut listener = in_version1(&[]);
        listener.join(group(1), start()).expect("room");
        assert_eq!(outputs(&mut listener), core::slice::from_ref(&report));
        if is_suppressed {
            listener.handle_report(group(1));
        }
        let again = run(&mut listener, start() + 10 * SECOND);
        assert_eq!(again.len(), usize::from(!is_suppressed));
        // A report in Idle Listener state changes nothing.
        listener.handle_report(group(1));
        listener.leave(group(1), start() + 10 * SECOND);
        assert_eq!(outputs(&mut listener), expected);
        assert_eq!(listener.groups.len(), 0);
    }
}

#[test]
fn a_report_of_version_1_suppresses_only_in_version_1() {
    let mut listener = quiet(&[group(1)]);
    listener.handle_query(&about(group(1), &[]), start()).expect("query");
    listener.handle_report(group(1));
    assert_eq!(run(&mut listener, start() + SECOND).len(), 1);
}

// RFC 2710 s4: each group has its own time, and a running timer only becomes shorter.
#[test]
fn a_general_query_of_version_1_starts_a_timer_for_each_group() {
    let groups = [group(1), group(2), group(3)];
    let mut listener = in_version1(&groups);
    let times = |listener: &Listener| -> Vec<_> {
        listener.groups.values().map(|entry| entry.answer_at).collect()
    };
    let all = version1(Ipv6Addr::UNSPECIFIED, 100 * SECOND);
    listener.handle_query(&all, start()).expect("query");
    let before = times(&listener);
    assert!(before.iter().all(Option::is_some) && before[0] != before[1]);
    listener.handle_query(&all, start()).expect("query");
    assert_eq!(times(&listener), before);
    // A query of version 2 is one of version 1 now.
    listener.handle_query(&about(group(2), &[]), start()).expect("query");
    let after = times(&listener);
    assert!(after[1] <= Some(start() + SECOND) && after[1] < before[1]);
    assert_eq!((after[0], after[2]), (before[0], before[2]));
}

// The bound MIN_ANSWER_INTERVAL.
#[test]
fn a_flood_of_queries_draws_ten_answers_a_second() {
    type Case = (Query, bool);
    let none = Duration::ZERO;
    let specific = Query { max_response: none, ..about(group(1), &[]) };
    let cases: [Case; 4] = [
        (general(none), false),
        (specific, false),
        (version1(Ipv6Addr::UNSPECIFIED, none), true),
        (version1(group(1), none), true),
    ];
    for (query, is_version1) in cases {
        let mut listener = quiet(&[group(1)]);
        if is_version1 {
            listener.handle_query(&version1(group(99), none), start()).expect("query");
        }
        let mut count = 0;
        for milli in 0..1000 {
            let now = start() + 20 * SECOND + Duration::from_millis(milli);
            listener.handle_query(&query, now).expect("query");
            listener.handle_timeout(now);
            count += outputs(&mut listener).len();
        }
        assert_eq!(count, 10, "{query:?}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Join(u16),
    Leave(u16),
    General(bool, u64),
    About(u16, u8),
    Report(u16),
    Link(bool),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..5_u16).prop_map(Op::Join),
        (0..5_u16).prop_map(Op::Leave),
        (any::<bool>(), 0..10_000_u64)
            .prop_map(|(is_version1, millis)| Op::General(is_version1, millis)),
        (0..5_u16, 0..80_u8).prop_map(|(group, sources)| Op::About(group, sources)),
        (0..5_u16).prop_map(Op::Report),
        any::<bool>().prop_map(Op::Link),
        (0..300_000_u64).prop_map(Op::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // A router that hears all reports knows what the host listens to, once all timers are over.
    #[test]
    fn reports_agree_with_the_groups(ops in proptest::collection::vec(op(), 0..60)) {
        let mut listener = listener();
        let (mut now, mut joins, mut is_up) = (start(), [0_u32; 5], true);
        for op in ops {
            match op {
                Op::Join(n) => {
                    listener.join(group(n), now).expect("room");
                    joins[usize::from(n)] += 1;
                }
                Op::Leave(n) => {
                    listener.leave(group(n), now);
                    joins[usize::from(n)] = joins[usize::from(n)].saturating_sub(1);
                }
                Op::General(is_version1, millis) => {
                    let millis = Duration::from_millis(millis);
                    let query = if is_version1 { version1(Ipv6Addr::UNSPECIFIED, millis) } else { general(millis) };
                    listener.handle_query(&query, now).expect("query");
                }
                Op::About(n, count) => {
                    let sources: Vec<_> = (0..u128::from(count)).map(Ipv6Addr::from).collect();
                    listener.handle_query(&about(group(n), &sources), now).expect("query");
                }
                Op::Report(n) => listener.handle_report(group(n)),
                Op::Link(up) => {
                    listener.handle_link(up, now);
                    is_up = up;
                }
                Op::Wait(millis) => {
                    now = now + Duration::from_millis(millis);
                    run(&mut listener, now);
                }
            }
            for n in 0..5_u16 {
                prop_assert_eq!(listener.is_member(group(n)), joins[usize::from(n)] > 0);
            }
            let sent = outputs(&mut listener);
            prop_assert!(is_up || sent.is_empty());
        }
        now = now + Duration::from_secs(100_000);
        run(&mut listener, now);
        prop_assert_eq!(listener.poll_timeout(), None);
        prop_assert!(listener.groups.values().all(|entry| entry.listeners > 0));
        listener.handle_link(true, now);
        let reported: Vec<_> = records(&mut listener).iter().map(|record| record.group).collect();
        let joined: Vec<_> = listener.groups().map(|(group, _)| group).collect();
        prop_assert_eq!(reported, joined);
    }
}
