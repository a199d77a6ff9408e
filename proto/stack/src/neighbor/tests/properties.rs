//! Random events.

use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Send(u8),
    Solicitation(u8, u8),
    Advertisement(u8, Option<u8>, &'static str),
    Router(u8, Option<u8>),
    Progress(u8),
    Probe(u8),
    Times(u16, u16),
    Wait(u16),
}

fn op() -> impl Strategy<Value = Op> {
    let (who, mac) = (0..4_u8, 0..2_u8);
    let flags = prop::sample::select(std::vec!["", "R", "S", "O", "SO", "RSO"]);
    let some = prop::option::of(mac.clone());
    prop_oneof![
        4 => who.clone().prop_map(Op::Send),
        1 => (who.clone(), mac).prop_map(|(who, mac)| Op::Solicitation(who, mac)),
        2 => (who.clone(), some.clone(), flags).prop_map(|(a, b, c)| Op::Advertisement(a, b, c)),
        1 => (who.clone(), some).prop_map(|(who, mac)| Op::Router(who, mac)),
        1 => who.clone().prop_map(Op::Progress),
        1 => who.prop_map(Op::Probe),
        1 => (any::<u16>(), 0..8_000_u16).prop_map(|(a, b)| Op::Times(a, b)),
        5 => any::<u16>().prop_map(Op::Wait),
    ]
}

fn apply(neighbors: &mut Neighbors, op: &Op, now: Instant) {
    let who = |n: u8| peer(n.into());
    let mac = |n: u8| if n == 0 { MAC } else { OTHER_MAC };
    // A refusal changes nothing that the properties are about.
    let _refused = match *op {
        Op::Send(n) => neighbors.send(who(n), packet(n), now).err(),
        Op::Solicitation(n, m) => neighbors.handle_solicitation(who(n), mac(m), now).err(),
        Op::Advertisement(n, m, flags) => {
            neighbors.handle_advertisement(&advertisement(who(n), flags), m.map(mac), now).err()
        }
        Op::Router(n, m) => neighbors.handle_router(who(n), m.map(mac), now).err(),
        Op::Progress(n) => {
            neighbors.confirm(who(n), now);
            None
        }
        Op::Probe(n) => {
            neighbors.probe(who(n), now);
            None
        }
        Op::Times(reachable, retrans) => {
            neighbors.set_times(millis(reachable.into()), millis(retrans.into()));
            None
        }
        Op::Wait(_) => None,
    };
}

/// Plays the events, and returns the outputs with their times and the time between solicitations then.
fn play(ops: &[Op]) -> Vec<(Instant, Duration, Output)> {
    let mut neighbors = neighbors();
    let (mut now, mut all) = (at(0), Vec::new());
    for op in ops {
        let until = if let Op::Wait(time) = op { now + millis((*time).into()) } else { now };
        while let Some(next) = neighbors.poll_timeout().filter(|next| *next <= until) {
            now = now.max(next);
            neighbors.handle_timeout(now);
            let retrans = neighbors.times.retrans();
            all.extend(outputs(&mut neighbors).into_iter().map(|found| (now, retrans, found)));
        }
        now = until;
        apply(&mut neighbors, op, now);
        let retrans = neighbors.times.retrans();
        all.extend(outputs(&mut neighbors).into_iter().map(|found| (now, retrans, found)));
        neighbors.table.check();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// RFC 4861 s7.3.3: a node solicits each neighbor at most once in RetransTimer. If a router changes the time in between, the
    /// shorter one holds.
    //= rfc4861#7.2.2-11 rfc4861#7.3.3-3 (test)
    #[test]
    fn no_neighbor_is_solicited_too_often(ops in prop::collection::vec(op(), 1..200)) {
        let mut last: BTreeMap<Ipv6Addr, (Instant, Duration)> = BTreeMap::new();
        for (now, retrans, output) in play(&ops) {
            if let Output::Solicit { target, .. } = output
                && let Some((before, then)) = last.insert(target, (now, retrans))
            {
                prop_assert!(now.since(before) >= retrans.min(then), "{target} {before:?} {now:?}");
            }
        }
    }

    #[test]
    fn each_packet_is_sent_or_counted(ops in prop::collection::vec(op(), 1..200)) {
        let sent = ops.iter().filter(|op| matches!(op, Op::Send(_))).count();
        let mut neighbors = neighbors();
        let (mut now, mut seen) = (at(0), 0);
        // At the end each resolution has the time to fail.
        for op in ops.iter().chain(&[const { Op::Wait(u16::MAX) }; 4]) {
            if let Op::Wait(time) = op {
                now = now + millis((*time).into());
            }
            apply(&mut neighbors, op, now);
            neighbors.handle_timeout(now);
            let found = outputs(&mut neighbors);
            seen += found.iter().filter(|found| matches!(found, Output::Send { .. })).count();
        }
        let drops = [Drop::NeighborQueue, Drop::NeighborUnreachable].map(|drop| neighbors.drops().of(drop));
        let lost: u64 = drops.iter().sum();
        prop_assert_eq!(sent, seen + usize::try_from(lost).expect("small"));
    }

    #[test]
    fn equal_seeds_and_inputs_give_equal_outputs(ops in prop::collection::vec(op(), 1..100)) {
        prop_assert_eq!(play(&ops), play(&ops));
    }
}
