//! Room in the table of contexts while strangers fill it.

use alloc::vec;

use super::*;
use crate::Key;
use crate::consts::{HALF_OPEN_SHARE, MAX_NEGATIVES, MAX_WITHOUT_ROOM, NO_ROOM_HOLDDOWN_TIME};

const MAX: u32 = 64;
const HALF_OPEN: usize = (MAX / HALF_OPEN_SHARE) as usize;

fn small(side: u8) -> Machine {
    sized(side, MAX)
}

fn sized(side: u8, max_contexts: u32) -> Machine {
    let config = Config { max_contexts, ..Config::default() };
    let mut machine = Machine::new(config, [side; 32], NOW);
    machine.set_local(&local(side), NOW);
    machine
}

/// A peer of side 1 that nobody knows, in a /48 of its own.
fn stranger(n: u32) -> UlidPair {
    let peer = 0x2a00 << 112 | u128::from(n) << 80 | 1;
    UlidPair::new(ulids().local, Ipv6Addr::from(peer).into())
}

fn half_open(machine: &Machine) -> usize {
    machine.contexts().filter(|context| context.established().is_none()).count()
}

/// Lets strangers trigger contexts, none of which is ever answered.
fn flood(machine: &mut Machine, strangers: core::ops::Range<u32>, now: &mut Instant) {
    for n in strangers {
        *now = *now + Duration::from_micros(500);
        machine.handle_timeout(*now);
        machine.handle_trigger(stranger(n), *now).expect("room");
        assert!(half_open(machine) <= HALF_OPEN, "at {n}");
        sent(machine);
        events(machine);
    }
}

/// Brings an I2 of a stranger to a machine: the answer to R1 shows only that the stranger has its address.
fn offer(to: &mut Machine, n: u32, now: Instant) -> Result<(), DropReason> {
    offer_of(to, Key::of(stranger(n)), n, now)
}

fn offer_of(to: &mut Machine, key: Key, tag: u32, now: Instant) -> Result<(), DropReason> {
    let via = turned(key.ulids.as_locators());
    let initiator_tag = ContextTag::from_bits(tag.into());
    let mut options: Vec<_> = key.options(key.ulids.as_locators()).collect();
    let i1 = I1 { initiator_tag, initiator_nonce: 1, options: options.clone().into() };
    deliver(to, &Transmit { via: Via::Pair(via), message: Message::I1(i1) }, now)?;
    let Message::R1(r1) = only(to).message else { panic!("R1") };
    options.push(Opt::Validator(r1.options.validator().expect("validator").to_vec()));
    let i2 = I2 {
        initiator_tag,
        initiator_nonce: 2,
        responder_nonce: r1.responder_nonce,
        options: options.into(),
    };
    let outcome = deliver(to, &Transmit { via: Via::Pair(via), message: Message::I2(i2) }, now);
    sent(to);
    outcome
}

fn has(machine: &Machine, pair: UlidPair) -> bool {
    machine.contexts().any(|context| context.key.ulids == pair)
}

/// Issue 18: two datagrams from each of 70,000 made-up sources.
#[test]
fn handshakes_that_nobody_answers_push_out_each_other_alone() {
    let (mut a, mut b) = (small(1), machine(2));
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    let mut now = NOW;
    // The answers of the peer come while the flood goes on.
    flood(&mut a, 0..10, &mut now);
    deliver(&mut b, &i1, now).expect("I1");
    deliver(&mut a, &only(&mut b), now).expect("R1");
    let i2 = only(&mut a);
    flood(&mut a, 10..5_000, &mut now);
    deliver(&mut b, &i2, now).expect("I2");
    deliver(&mut a, &only(&mut b), now).expect("R2: a peer that has answered R1 waits longer");
    events(&mut a);
    flood(&mut a, 5_000..70_000, &mut now);
    let kept = a.contexts().find(|context| context.key.ulids == ulids()).expect("kept");
    assert_eq!(kept.state(), State::Established);
    assert_eq!(a.contexts().count(), HALF_OPEN + 1);
    assert!(a.negatives().count() <= MAX_NEGATIVES);
}

/// Strangers connect to a server here, answer its I1, and end no handshake.
#[test]
fn peers_that_answer_i1_and_nothing_more_leave_others_the_time_to_answer() {
    let (mut a, mut b) = (small(1), machine(2));
    let answer = |a: &mut Machine, n| {
        a.handle_trigger(stranger(n), NOW).expect("room");
        let Message::I1(i1) = only(a).message else { panic!("I1") };
        let options = alloc::vec![Opt::Validator(alloc::vec![1; 32])].into();
        let r1 = R1 { initiator_nonce: i1.initiator_nonce, responder_nonce: n, options };
        let via = Via::Pair(turned(stranger(n).as_locators()));
        deliver(a, &Transmit { via, message: Message::R1(r1) }, NOW).expect("R1");
        sent(a);
        events(a);
    };
    (0..100).for_each(|n| answer(&mut a, n));
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    (100..110).for_each(|n| answer(&mut a, n));
    deliver(&mut a, &only(&mut b), NOW).expect("R1");
    assert!(has(&a, ulids()));
}

#[test]
fn a_handshake_that_made_room_may_begin_again_soon() {
    let mut a = small(1);
    let mut now = NOW;
    flood(&mut a, 0..16, &mut now);
    a.handle_trigger(stranger(16), now).expect("room");
    let eldest = |one: &Event| matches!(one, Event::Failed { ulids, failure: Failure::NoRoom, .. } if *ulids == stranger(0));
    assert!(events(&mut a).iter().any(eldest));
    now = now + NO_ROOM_HOLDDOWN_TIME;
    a.handle_timeout(now);
    assert!(events(&mut a).contains(&Event::HolddownOver { ulids: stranger(0) }));
    a.handle_trigger(stranger(0), now).expect("room");
    assert!(has(&a, stranger(0)));
}

/// Pairs that may be tried again.
fn over(machine: &mut Machine) -> Vec<UlidPair> {
    sent(machine);
    let pair = |one| if let Event::HolddownOver { ulids } = one { Some(ulids) } else { None };
    events(machine).into_iter().filter_map(pair).collect()
}

#[test]
fn each_handshake_that_made_room_may_begin_again_and_at_most_1_000_in_a_second() {
    let mut a = small(1);
    a.handle_trigger(ulids(), NOW).expect("I1");
    let mut now = NOW;
    // 2,000 evictions a second, many more than the marks of failures.
    flood(&mut a, 0..7_000, &mut now);
    assert!(now < NOW + NO_ROOM_HOLDDOWN_TIME);
    let (mut tried, mut most) = (Vec::new(), 0);
    for _ in 0..20 {
        now = now + Duration::from_millis(500);
        a.handle_timeout(now);
        let again = over(&mut a);
        most = most.max(again.len());
        tried.extend(again);
        if now < NOW + NO_ROOM_HOLDDOWN_TIME {
            assert!(tried.is_empty(), "4 s at the earliest");
        }
    }
    assert_eq!(tried.first(), Some(&ulids()));
    let others = (0..).map(stranger).take(7_000 - HALF_OPEN);
    assert!(tried.iter().skip(1).copied().eq(others), "{} pairs", tried.len());
    assert_eq!(most, 500);
}

#[test]
fn a_pair_without_room_for_its_mark_may_begin_again_at_once() {
    let mut a = small(1);
    for n in (0..).take(MAX_WITHOUT_ROOM + HALF_OPEN) {
        a.handle_trigger(stranger(n), NOW).expect("room");
        assert_eq!(over(&mut a), []);
    }
    a.handle_trigger(ulids(), NOW).expect("room");
    assert_eq!(over(&mut a), [stranger(0)]);
    assert!(a.negatives().count() <= MAX_NEGATIVES);
}

#[test]
fn a_mark_of_a_failure_that_is_pushed_out_lets_its_pair_begin_again() {
    let mut a = small(1);
    let mut fail = |n| {
        a.handle_trigger(stranger(n), NOW).expect("room");
        let id = a.contexts().next().expect("made").id;
        a.give_up(id, Failure::NoAnswer, NOW);
        over(&mut a)
    };
    assert!((0..).take(MAX_NEGATIVES).all(|n| fail(n).is_empty()));
    assert_eq!(fail(1 << 16), [stranger(0)]);
}

#[test]
fn contexts_that_strangers_make_and_never_use_give_way() {
    let mut a = small(1);
    // Contexts that payload uses, from I2s like those of the flood.
    for n in 0..20 {
        offer(&mut a, n, NOW).expect("I2");
        let id = a.contexts().find(|one| one.key.ulids == stranger(n)).expect("made").id;
        a.handle_traffic(id);
    }
    for n in 100..1_000 {
        let now = NOW + Duration::from_millis(n.into());
        offer(&mut a, n, now).expect("I2");
        assert!(a.contexts().count() <= MAX as usize);
    }
    assert!((0..20).all(|n| has(&a, stranger(n))), "contexts with traffic stay");
    assert!((956..1_000).all(|n| has(&a, stranger(n))), "the eldest of the others have gone");
    let evicted = events(&mut a).into_iter().filter(|one| matches!(one, Event::Evicted { .. }));
    assert_eq!(evicted.count(), 900 - 44);
    // Traffic of this host gets a context, and so does a peer whose traffic follows.
    a.handle_trigger(ulids(), NOW + Duration::from_secs(2)).expect("room");
    assert!(has(&a, ulids()));
}

#[test]
fn a_table_full_of_traffic_refuses_others() {
    let mut a = small(1);
    for n in 0..MAX {
        offer(&mut a, n, NOW).expect("I2");
        let id = a.contexts().find(|one| one.key.ulids == stranger(n)).expect("made").id;
        a.handle_traffic(id);
    }
    assert_eq!(offer(&mut a, 99, NOW), Err(DropReason::TableFull));
    assert_eq!(a.handle_trigger(ulids(), NOW), Err(DropReason::TableFull));
    a.remove(ContextId(1)).expect("there");
    // The data plane does not report the pair again before it is told so.
    let later = NOW + NO_ROOM_HOLDDOWN_TIME;
    a.handle_timeout(later);
    assert_eq!(over(&mut a), [ulids()]);
    a.handle_trigger(ulids(), later).expect("the slot is free again");
    assert_eq!(a.context(ContextId(1)).expect("reused").state(), State::I1Sent);
}

/// Issue 18: 16,384 contexts of one address, and 65,536 of 64 prefixes.
#[test]
fn a_site_does_not_fill_the_table_by_its_prefixes_addresses_and_forks() {
    let share = 1024 / crate::consts::PREFIX_SHARE as usize;
    let peer = |n: u128| UlidPair::new(ulids().local, Ipv6Addr::from(0x2a00 << 112 | n).into());
    let taken = |key: &dyn Fn(u32) -> Key| {
        let mut a = sized(1, 1024);
        let outcomes =
            (1..1500).map(|n| offer_of(&mut a, key(n), n, NOW + Duration::from_millis(n.into())));
        let refused = outcomes.filter_map(Result::err).collect::<Vec<_>>();
        assert!(refused.iter().all(|reason| *reason == DropReason::TableFull), "{refused:?}");
        assert!(!events(&mut a).iter().any(|one| matches!(one, Event::Evicted { .. })));
        // A host of another site still has room.
        offer(&mut a, 7 << 16, NOW + Duration::from_secs(2)).expect("room");
        a.contexts().count() - 1
    };
    // A count may be some entries too high.
    let is_about = |taken: usize, room: usize| (room - room / 16..=room).contains(&taken);
    let one = peer(1);
    assert!(is_about(taken(&|n| Key { ulids: one, forked_instance: n }), share / 4));
    assert!(is_about(taken(&|n| Key::of(peer(n.into()))), share));
    let of_links = |n: u32| Key::of(peer(u128::from(n % 8) << 64 | u128::from(n)));
    assert!(is_about(taken(&of_links), 2 * share));
    assert!(is_about(taken(&|n| Key::of(peer(u128::from(n) << 64))), 4 * share));
}

#[test]
fn a_context_that_goes_leaves_its_share() {
    let mut a = small(1);
    let key = |forked_instance| Key { ulids: stranger(1), forked_instance };
    let made = (0..9).filter(|&n| offer_of(&mut a, key(n), n, NOW).is_ok()).count();
    assert_eq!(made, crate::consts::MIN_PREFIX_SHARE as usize / 4);
    let first = a.by_key(key(0)).expect("there").id;
    a.remove(first);
    offer_of(&mut a, key(8), 8, NOW).expect("room");
}

/// Lets traffic trigger a context with a peer that answers I1 and I2.
fn agree(with: &mut Machine, pair: UlidPair, tag: u16) -> Result<(), DropReason> {
    with.handle_trigger(pair, NOW)?;
    let via = Via::Pair(turned(pair.as_locators()));
    let Message::I1(I1 { initiator_nonce, .. }) = only(with).message else { panic!("I1") };
    let options = vec![Opt::Validator(vec![7; 16])].into();
    let message = Message::R1(R1 { initiator_nonce, responder_nonce: 1, options });
    deliver(with, &Transmit { via, message }, NOW)?;
    let Message::I2(I2 { initiator_nonce, .. }) = only(with).message else { panic!("I2") };
    let (responder_tag, options) = (ContextTag::from_bits(tag.into()), Options::default());
    let message = Message::R2(R2 { responder_tag, initiator_nonce, options });
    deliver(with, &Transmit { via, message }, NOW)
}

/// Hosts of one link connect to a server here, which sends I1 then, and the hosts answer.
#[test]
fn one_link_does_not_fill_the_table_by_contexts_that_this_host_begins() {
    let neighbor = |n: u16| {
        let peer = Ipv6Addr::new(0x2a00, 1, 2, 3, 0, 0, 0, n);
        UlidPair::new(ulids().local, peer.into())
    };
    let mut a = sized(1, 256);
    let agreed = (1..300).filter(|&n| agree(&mut a, neighbor(n), n).is_ok());
    assert_eq!(agreed.count(), 128, "half of the table");
    for n in 0..100_u16 {
        agree(&mut a, stranger(n.into()), 1000 + n).expect("hosts of other sites have the rest");
    }
}
