use std::vec::Vec;

use alloc::sync::Arc;
use moorline_types::{ContextId, ContextTag, Locator, Path, UlidPair};

use super::*;
use crate::reports::Reports;

const MS: u64 = 1_000_000;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(10_000 * MS + millis * MS)
}

fn entry() -> ContextEntry {
    let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|a| Locator(a.parse().unwrap()));
    let ulids = UlidPair::new(a.as_ulid(), b.as_ulid());
    ContextEntry {
        id: ContextId(7),
        ulids,
        local_tag: ContextTag::from_bits(1),
        peer_tag: ContextTag::from_bits(2),
        current: Path::of(ulids, ulids.as_locators()),
        peer_locators: (&[b]).into(),
        timers: Some(moorline_datapath::shim6::ReapTimers {
            send: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(3),
            keepalive_timeout: Duration::ZERO,
        }),
        watch: 0,
        idle: Duration::ZERO,
        suspects: true,
        congestion: false,
        paths: Arc::default(),
        spread: false,
    }
}

/// Sends a datagram every `gap` until `until`, each answered after half of the gap. Looks at the timers every
/// millisecond.
fn talk(wait: &mut Wait, reports: &mut Reports, gap: u64, from: u64, until: u64) -> u32 {
    let entry = entry();
    let mut count = 0;
    for now in from..until {
        if now % gap == 0 {
            wait.on_sent(None, false, &mut Look { entry: &entry, reports, now: at(now) });
        } else if now % gap == gap / 2 {
            wait.on_received(at(now));
        }
        wait.look(&mut Look { entry: &entry, reports, now: at(now) });
        while reports.pop().is_some() {
            count += 1;
        }
    }
    count
}

#[test]
fn fifty_packets_a_second_both_ways_are_missed_within_150_ms() {
    let (mut wait, mut reports) = (Wait::default(), Reports::default());
    assert_eq!(talk(&mut wait, &mut reports, 20, 0, 5_000), 0);
    let entry = entry();
    // From now on nothing is received, while packets go on being sent.
    let told = (5_000..6_000).find(|&now| {
        if now % 20 == 0 {
            wait.on_sent(
                None,
                false,
                &mut Look { entry: &entry, reports: &mut reports, now: at(now) },
            );
        }
        wait.look(&mut Look { entry: &entry, reports: &mut reports, now: at(now) });
        reports.pop().is_some()
    });
    assert!(told.is_some_and(|told| (5_100..=5_150).contains(&told)), "{told:?}");
}

#[test]
fn a_context_that_begins_amid_a_burst_of_answers_makes_no_mistake() {
    let (mut wait, mut reports, entry) = (Wait::default(), Reports::default(), entry());
    for now in 0..5 {
        wait.on_sent(
            None,
            false,
            &mut Look { entry: &entry, reports: &mut reports, now: at(now * 2) },
        );
        wait.on_received(at(now * 2 + 1));
    }
    wait.on_sent(None, false, &mut Look { entry: &entry, reports: &mut reports, now: at(10) });
    let mut usual_of = |wait: &mut Wait, now| {
        wait.look(&mut Look { entry: &entry, reports: &mut reports, now: at(now) });
        let Some(Report::Suspected { usual, .. }) = reports.pop() else { panic!("no doubt") };
        usual
    };
    assert!(usual_of(&mut wait, 310) < Duration::from_millis(10));
    wait.on_received(at(310));
    assert_eq!(wait.mistakes, 0);
    wait.on_sent(
        None,
        false,
        &mut Look { entry: &entry, reports: &mut Reports::default(), now: at(311) },
    );
    let usual = usual_of(&mut wait, 311 + 620);
    assert!((300..310).contains(&usual.as_millis()), "the round trip is known now: {usual:?}");
}

#[test]
fn a_flow_that_pauses_now_and_then_is_doubted_less_and_less() {
    let (mut wait, mut reports) = (Wait::default(), Reports::default());
    let mut told = Vec::new();
    let mut now = 0;
    for _ in 0..40 {
        let count = talk(&mut wait, &mut reports, 20, now, now + 300);
        // One answer takes a second, which is too long to be usual.
        let entry = entry();
        wait.on_sent(
            None,
            false,
            &mut Look { entry: &entry, reports: &mut reports, now: at(now + 300) },
        );
        let paused = (now + 300..now + 1_400).fold(0, |sum, now| {
            wait.look(&mut Look { entry: &entry, reports: &mut reports, now: at(now) });
            sum + u32::from(reports.pop().is_some())
        });
        wait.on_received(at(now + 1_400));
        told.push(count + paused);
        now += 1_400;
    }
    assert_eq!(told[0], 1);
    assert!(told.iter().sum::<u32>() < 10, "{told:?}");
}

#[test]
fn mistakes_are_forgotten_with_time() {
    let (mut wait, mut reports) = (Wait::default(), Reports::default());
    wait.mistakes = 3;
    talk(&mut wait, &mut reports, 20, 0, 30_000);
    assert_eq!(wait.mistakes, 0);
}

#[test]
fn a_report_that_found_no_room_is_tried_again() {
    let (mut wait, mut reports) = (Wait::default(), Reports::default());
    talk(&mut wait, &mut reports, 20, 0, 200);
    let entry = entry();
    wait.on_sent(None, false, &mut Look { entry: &entry, reports: &mut reports, now: at(200) });
    while reports.push(Report::KeepaliveDue { context: entry.id }) {}
    let due = wait.look(&mut Look { entry: &entry, reports: &mut reports, now: at(400) });
    assert_eq!(due, Some(at(400) + REPORT_RETRY));
    while reports.pop().is_some() {}
    wait.look(&mut Look { entry: &entry, reports: &mut reports, now: at(500) });
    assert!(matches!(reports.pop(), Some(Report::Suspected { hint: FailureHint::Silence, .. })));
}
