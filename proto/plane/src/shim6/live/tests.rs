use super::*;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use moorline_types::{ContextId, ContextTag, Locator, Path, UlidPair};

/// A step of a context in a row of a table below.
#[derive(Clone, Copy)]
enum Step {
    Sent,
    Received,
    Heard,
    Looked,
    TimersOff,
    TimersOn,
    Watch(u32),
}
use Step::*;

const ID: ContextId = ContextId(7);

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn entry() -> ContextEntry {
    let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|a| Locator(a.parse().unwrap()));
    let ulids = UlidPair::new(a.as_ulid(), b.as_ulid());
    ContextEntry {
        id: ID,
        ulids,
        local_tag: ContextTag::from_bits(1),
        peer_tag: ContextTag::from_bits(2),
        current: Path::of(ulids, ulids.as_locators()),
        peer_locators: vec![b].into(),
        timers: Some(TIMERS),
        watch: 0,
        idle: Duration::ZERO,
        suspects: false,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    }
}

const TIMERS: ReapTimers = ReapTimers {
    send: Duration::from_secs(10),
    keepalive_interval: Duration::from_secs(3),
    keepalive_timeout: Duration::from_secs(10),
};

/// Plays steps, each at a second. Returns the reports, each with its second, and when to look again.
fn play(entry: &mut ContextEntry, steps: &[(u64, Step)]) -> (Vec<(u64, Report)>, Option<Instant>) {
    let mut live = Live::new(at(0));
    let mut reports = Reports::default();
    let mut told = Vec::new();
    let mut next = None;
    for &(second, step) in steps {
        let now = at(second);
        match step {
            Sent => drop(live.on_sent(100, &Look { entry, reports: &mut reports, now })),
            Received => {
                let look = &mut Look { entry, reports: &mut reports, now };
                live.on_sign_of_life();
                let _ = live.on_answer(look);
                let _ = live.on_received(100, look);
            }
            Heard => drop(live.on_heard(now)),
            Looked => next = live.look(&mut Look { entry, reports: &mut reports, now }),
            TimersOff => {
                entry.timers = None;
                live.on_timers_taken_away();
            }
            TimersOn => entry.timers = Some(TIMERS),
            Watch(watch) => entry.watch = watch,
        }
        told.extend(core::iter::from_fn(|| reports.pop()).map(|report| (second, report)));
    }
    (told, next)
}

fn expired(second: u64, since: u64) -> (u64, Report) {
    (second, Report::SendExpired { context: ID, since: at(since) })
}

fn keepalive(second: u64) -> (u64, Report) {
    (second, Report::KeepaliveDue { context: ID })
}

//= rfc5534#6.4 (test)
#[test]
fn send_timer() {
    // Steps, reports, when to look again.
    type Row = (&'static [(u64, Step)], Vec<(u64, Report)>, Option<u64>);
    let rows: Vec<Row> = vec![
        (&[(1, Sent), (10, Looked)], vec![], Some(11)),
        (&[(1, Sent), (11, Looked)], vec![expired(11, 1)], None),
        // The Send Timer counts from the first unanswered packet, not from the last.
        (&[(1, Sent), (9, Sent), (11, Looked)], vec![expired(11, 1)], None),
        // One report for each period.
        (&[(1, Sent), (11, Looked), (30, Looked)], vec![expired(11, 1)], None),
        (&[(1, Sent), (11, Looked), (12, Sent), (21, Looked)], vec![expired(11, 1)], Some(22)),
        (
            &[(1, Sent), (11, Looked), (12, Sent), (22, Looked)],
            vec![expired(11, 1), expired(22, 12)],
            None,
        ),
        (&[(1, Sent), (2, Heard), (11, Looked)], vec![], None),
        (&[(1, Sent), (1, Heard), (11, Looked)], vec![expired(11, 1)], None),
        (&[(1, Sent), (2, Heard), (3, Sent), (12, Looked)], vec![], Some(13)),
        (&[(1, Sent), (2, TimersOff), (3, TimersOn), (20, Looked)], vec![], None),
        (&[(1, TimersOff), (2, Sent), (3, TimersOn), (20, Looked)], vec![], None),
        (&[(1, TimersOff), (2, TimersOn), (3, Sent), (13, Looked)], vec![expired(13, 3)], None),
    ];
    for (index, (steps, reports, next)) in rows.into_iter().enumerate() {
        assert_eq!(play(&mut entry(), steps), (reports, next.map(at)), "row {index}");
    }
    // Received payload answers the sent payload; later a keepalive is due.
    let (reports, _) = play(&mut entry(), &[(1, Sent), (2, Received), (5, Looked), (11, Looked)]);
    assert!(reports.iter().all(|(_, report)| *report == Report::KeepaliveDue { context: ID }));
}

//= rfc5534#4.1-3 rfc5534#6.1-2 (test)
#[test]
fn keepalive_timer() {
    type Row = (&'static [(u64, Step)], Vec<(u64, Report)>, Option<u64>);
    let rows: Vec<Row> = vec![
        (&[(1, Received), (3, Looked)], vec![], Some(4)),
        (&[(1, Received), (4, Looked)], vec![keepalive(4)], Some(7)),
        (&[(1, Received), (3, Received), (4, Looked)], vec![keepalive(4)], Some(7)),
        (&[(1, Received), (2, Sent), (3, Looked), (20, Looked)], vec![expired(20, 2)], None),
        // One keepalive for each look, and the rhythm stays.
        (&[(1, Received), (8, Looked)], vec![keepalive(8)], Some(10)),
        // The last keepalive is at 10, within the timeout; 13 is behind the timeout, and new payload starts a new
        // period.
        (
            &[(1, Received), (4, Looked), (7, Looked), (10, Looked), (13, Looked), (30, Looked)],
            vec![keepalive(4), keepalive(7), keepalive(10)],
            None,
        ),
        (
            &[(1, Received), (10, Looked), (13, Looked), (20, Received), (22, Looked)],
            vec![keepalive(10)],
            Some(23),
        ),
        // While payload keeps coming, keepalives go on.
        (
            &[(1, Received), (4, Looked), (6, Received), (7, Looked), (10, Received), (10, Looked)],
            vec![keepalive(4), keepalive(7), keepalive(10)],
            Some(13),
        ),
        (&[(1, Received), (2, TimersOff), (3, TimersOn), (20, Looked)], vec![], None),
    ];
    for (index, (steps, reports, next)) in rows.into_iter().enumerate() {
        assert_eq!(play(&mut entry(), steps), (reports, next.map(at)), "row {index}");
    }
    let mut without = entry();
    without.timers = Some(ReapTimers { keepalive_timeout: Duration::ZERO, ..TIMERS });
    assert_eq!(play(&mut without, &[(1, Received), (20, Looked)]), (vec![], None));
}

//= rfc5533#9-2 (test)
#[test]
fn idle_is_told_once_for_each_last_packet() {
    let idle = |second, since| (second, Report::Idle { context: ID, since: at(since) });
    let mut quiet = ContextEntry { idle: Duration::from_secs(60), timers: None, ..entry() };
    let (reports, next) =
        play(&mut quiet, &[(59, Looked), (60, Looked), (61, Looked), (500, Looked)]);
    // A context that begins at time zero has no packet at time zero.
    assert_eq!((reports, next), (vec![idle(60, 0)], None));
    let (reports, next) = play(
        &mut quiet,
        &[
            (5, Sent),
            (9, Received),
            (68, Looked),
            (69, Looked),
            (70, Sent),
            (129, Looked),
            (130, Looked),
        ],
    );
    assert_eq!((reports, next), (vec![idle(69, 9), idle(130, 70)], None));
    let (_, next) = play(&mut quiet, &[(5, Sent), (9, Received), (68, Looked)]);
    assert_eq!(next, Some(at(69)));
}

#[test]
fn watched_payload_is_told_once_for_each_value() {
    let received = |second| (second, Report::Received { context: ID, at: at(second) });
    let steps =
        [(1, Received), (2, Watch(5)), (3, Sent), (4, Received), (5, Received), (6, Watch(0))];
    let (reports, _) = play(&mut entry(), &steps);
    assert_eq!(reports, vec![received(4)]);
    let steps = [(1, Watch(5)), (2, Received), (3, Watch(6)), (4, Received), (5, Received)];
    let (reports, _) = play(&mut entry(), &steps);
    assert_eq!(reports, vec![received(2), received(4)]);
}

#[test]
fn a_report_without_room_is_tried_again() {
    let entry = entry();
    let mut live = Live::new(at(1));
    let mut reports = Reports::default();
    while reports.push(Report::KeepaliveDue { context: ContextId(0) }) {}
    let _ = live.on_sent(100, &Look { entry: &entry, reports: &mut reports, now: at(1) });
    let retry = at(11) + REPORT_RETRY;
    assert_eq!(
        live.look(&mut Look { entry: &entry, reports: &mut reports, now: at(11) }),
        Some(retry)
    );
    while reports.pop().is_some() {}
    assert_eq!(live.look(&mut Look { entry: &entry, reports: &mut reports, now: retry }), None);
    assert_eq!(reports.pop(), Some(Report::SendExpired { context: ID, since: at(1) }));
    assert_eq!(reports.drops.of(moorline_types::DropReason::ReportLost), 2);
}
