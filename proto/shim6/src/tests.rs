use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_cga::{HbaKey, HbaSet, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_types::{
    ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, Ulid, UlidPair,
};
use moorline_wire::{
    I1, I2, LocatorEntry, LocatorList, Message, MessageType, Opt, Options, Packet, R1, R2,
    UpdateAck, UpdateRequest, VerificationMethod,
};

use crate::{
    Config, Context, Event, Failure, Incoming, Machine, R1BIS_LEN, Role, State, Transmit, Used, Via,
};

mod amplification;
mod complaints;
mod confirmed;
mod confusion;
mod duo;
mod forks;
mod many;
mod nonces;
mod plain_lists;
mod preferences;
mod proofs;
mod properties;
mod recovery;
mod reflection;
mod refusals;
mod roaming;
mod room;
mod table;
mod tags;

const NOW: Instant = Instant::from_nanos(1_000_000_000);

impl Machine {
    /// Sets a proof. The usable addresses stay.
    fn set_local(&mut self, proof: &LocalProof, now: Instant) {
        let usable = self.usable.clone();
        self.set_addresses(proof, &usable, now);
    }
}

fn machine(side: u8) -> Machine {
    let mut machine = Machine::new(Config::default(), [side; 32], NOW);
    machine.set_local(&local(side), NOW);
    machine
}

fn local(side: u8) -> LocalProof {
    proof_of(1, alloc::vec![hba_set(side, [1, 2])])
}

/// A proof without a signature.
fn proof_of(generation: u32, sets: Vec<HbaSet>) -> LocalProof {
    let present = sets.iter().flat_map(|set| set.locators().to_vec()).collect();
    LocalProof::new(
        generation,
        LocalAddresses { present, sets, cgas: Vec::new(), ..LocalAddresses::default() },
        &[],
        [0; 32],
    )
}

fn locators(side: u8) -> Vec<Locator> {
    hba_set(side, [1, 2]).locators().to_vec()
}

fn hba_set(side: u8, isps: [u8; 2]) -> HbaSet {
    let prefixes = isps.map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, side]);
    let key = HbaKey::extended_modifier([side; 48]);
    let sec = Sec::new(0).expect("valid");
    generate_hba(&prefixes, sec, &key, [side; 16], 1).expect("Sec 0 takes one try")
}

/// ULIDs as side 1 sees them. Side 2 sees the turned pair.
fn ulids() -> UlidPair {
    UlidPair::new(locators(1)[0].as_ulid(), locators(2)[0].as_ulid())
}

/// The pair of a message. The tests run without REAP, so the current pair is the ULIDs of side 1.
fn way(transmit: &Transmit) -> LocatorPair {
    match transmit.via {
        Via::Pair(locators) | Via::Reply(_, locators) => locators,
        Via::Current(_) => ulids().as_locators(),
    }
}

const fn turned(locators: LocatorPair) -> LocatorPair {
    LocatorPair::new(locators.peer, locators.local)
}

fn came<'a>(packet: &'a Packet<'a>, locators: LocatorPair, now: Instant) -> Incoming<'a> {
    Incoming { packet, locators, now }
}

fn deliver(to: &mut Machine, transmit: &Transmit, now: Instant) -> Result<(), DropReason> {
    let locators = turned(way(transmit));
    let octets = transmit.message.octets();
    let packet = Packet::parse(&octets, locators.peer.0, locators.local.0)?;
    to.handle_message(&came(&packet, locators, now))
}

/// Payload that names this tag, long enough for an R1bis.
fn payload(tag: ContextTag, locators: LocatorPair) -> Used {
    Used { tag, locators, len: R1BIS_LEN }
}

fn sent(machine: &mut Machine) -> Vec<Transmit> {
    core::iter::from_fn(|| machine.poll_transmit()).collect()
}

fn only(machine: &mut Machine) -> Transmit {
    let mut all = sent(machine);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn events(machine: &mut Machine) -> Vec<Event> {
    core::iter::from_fn(|| machine.poll_event()).collect()
}

/// Runs I1, R1 and I2, and leaves the R2 undelivered.
fn until_r2() -> (Machine, Machine, Transmit) {
    let (mut a, mut b) = (machine(1), machine(2));
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    let r1 = only(&mut b);
    deliver(&mut a, &r1, NOW).expect("R1");
    let i2 = only(&mut a);
    deliver(&mut b, &i2, NOW).expect("I2");
    let r2 = only(&mut b);
    (a, b, r2)
}

fn established() -> (Machine, Machine) {
    let (mut a, b, r2) = until_r2();
    deliver(&mut a, &r2, NOW).expect("R2");
    (a, b)
}

//= rfc5533#7.10 (test)
#[test]
fn an_i1_leaves_no_state_at_the_responder() {
    let (mut a, mut b) = (machine(1), machine(2));
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    assert!(matches!(only(&mut b).message, Message::R1(_)));
    assert_eq!(b.contexts().count(), 0);
    assert!(events(&mut b).is_empty());
}

//= rfc5533#7.6-1 rfc5533#7.13-4 rfc5533#7.16-3 (test)
#[test]
fn both_sides_end_with_each_others_tag_and_locators() {
    let (a, b) = established();
    let (at_a, at_b) = (a.contexts().next().expect("a"), b.contexts().next().expect("b"));
    let (of_a, of_b) = (at_a.established().expect("a"), at_b.established().expect("b"));
    assert_eq!(of_a.peer_tag, at_b.local_tag);
    assert_eq!(of_b.peer_tag, at_a.local_tag);
    assert_eq!(of_a.peer.locators, locators(2));
    assert_eq!(of_b.peer.locators, locators(1));
    assert_eq!((of_a.role, of_b.role), (Role::Initiator, Role::Responder));
    assert_eq!(a.poll_timeout(), None);
}

//= rfc5533#5.5-3 rfc5533#5.6-4 rfc5533#5.6-5 rfc5533#7.13 (test)
#[test]
fn an_i2_needs_a_validator_of_ours_that_is_young() {
    let (mut a, mut b) = (machine(1), machine(2));
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    let r1 = only(&mut b);
    deliver(&mut a, &r1, NOW).expect("R1");
    let i2 = only(&mut a);
    let Message::I2(good) = &i2.message else { panic!("{i2:?}") };

    let with = |change: &dyn Fn(&mut I2)| {
        let mut bad = good.clone();
        change(&mut bad);
        Transmit { via: i2.via, message: Message::I2(bad) }
    };
    let other_tag = with(&|i2| i2.initiator_tag = ContextTag::from_bits(7));
    let other_nonce = with(&|i2| i2.responder_nonce ^= 0x10);
    let no_validator = with(&|i2| i2.options = Options::default());
    let short =
        with(&|i2| i2.options = Options::from(alloc::vec![Opt::Validator(alloc::vec![0; 4])]));
    assert_eq!(deliver(&mut b, &other_tag, NOW), Err(DropReason::BadValidator));
    assert_eq!(deliver(&mut b, &other_nonce, NOW), Err(DropReason::StaleNonce));
    assert_eq!(deliver(&mut b, &no_validator, NOW), Err(DropReason::MissingOption));
    assert_eq!(deliver(&mut b, &short, NOW), Err(DropReason::BadValidator));
    let late = NOW + Duration::from_secs(61);
    assert_eq!(deliver(&mut b, &i2, late), Err(DropReason::StaleNonce));
    assert_eq!(b.contexts().count(), 0);
}

//= rfc5533#7.13 (test)
#[test]
fn nothing_of_an_i2_is_parsed_or_verified_before_its_validator() {
    let (_, list, pds, signature) = signed_list();
    let ulid = list.entries[0].locator.as_ulid();
    let pair = LocatorPair::new(ulid.as_locator(), locators(2)[0]);
    let options = alloc::vec![
        Opt::Validator(alloc::vec![0; 16]),
        Opt::LocatorList(list),
        Opt::Pds(pds),
        Opt::CgaSignature(signature),
    ];
    let mut b = machine(2);
    let (r1_nonce, _) = {
        let i1 = I1 {
            initiator_tag: ContextTag::from_bits(1),
            initiator_nonce: 1,
            options: Options::default(),
        };
        deliver(&mut b, &Transmit { via: Via::Pair(pair), message: Message::I1(i1) }, NOW)
            .expect("I1");
        let Message::R1(r1) = only(&mut b).message else { panic!("R1") };
        (r1.responder_nonce, r1)
    };
    let i2 = I2 {
        initiator_tag: ContextTag::from_bits(1),
        initiator_nonce: 2,
        responder_nonce: r1_nonce,
        options: Options::from(options),
    };
    let i2 = Transmit { via: Via::Pair(pair), message: Message::I2(i2) };
    for _ in 0..2 * crate::SIGNATURE_BURST {
        let outcome = deliver(&mut b, &i2, NOW);
        assert_eq!(outcome, Err(DropReason::BadValidator), "no signature was looked at");
    }
    // The answer is the same if the options cannot be decoded.
    let mut octets = i2.message.octets();
    let at = octets.len() - 4;
    octets[24 + 24] = 0xff;
    octets[at] ^= 0xff;
    moorline_wire::fill_checksum(&mut octets);
    let packet = Packet::parse(&octets, pair.local.0, pair.peer.0).expect("a header");
    assert_eq!(b.handle_message(&came(&packet, turned(pair), NOW)), Err(DropReason::BadValidator));
    assert!(sent(&mut b).is_empty());
}

//= rfc5533#7.13-2 (test)
#[test]
fn a_validator_lives_through_one_change_of_secrets() {
    for (seconds, ok) in [(0, true), (29, true), (59, true), (61, false), (600, false)] {
        let (mut a, mut b) = (machine(1), machine(2));
        a.handle_trigger(ulids(), NOW).expect("I1");
        let i1 = only(&mut a);
        deliver(&mut b, &i1, NOW).expect("I1");
        let r1 = only(&mut b);
        deliver(&mut a, &r1, NOW).expect("R1");
        let i2 = only(&mut a);
        let later = NOW + Duration::from_secs(seconds);
        assert_eq!(deliver(&mut b, &i2, later).is_ok(), ok, "after {seconds} s");
    }
}

/// Delivers the R2 of side 2 with changed options, and gives the result at side 1.
fn with_r2_options(change: impl FnOnce(&mut Vec<Opt>)) -> Result<(), DropReason> {
    let (mut a, _, r2) = until_r2();
    let Message::R2(mut message) = r2.message else { panic!("{r2:?}") };
    let mut options: Vec<Opt> = message.options.iter().cloned().collect();
    change(&mut options);
    message.options = Options::from(options);
    deliver(&mut a, &Transmit { via: r2.via, message: Message::R2(message) }, NOW)
}

fn list(options: &mut [Opt]) -> &mut Vec<LocatorEntry> {
    let list = options.iter_mut().find_map(|option| {
        if let Opt::LocatorList(list) = option { Some(&mut list.entries) } else { None }
    });
    list.expect("a locator list")
}

//= rfc5533#7.2-1 rfc5533#7.2-2 rfc5533#7.16-3 (test)
#[test]
fn locators_that_the_parameters_do_not_prove_bring_no_context() {
    let lie = with_r2_options(|options| list(options)[1].locator = locators(3)[1]);
    assert_eq!(lie, Err(DropReason::Unverified));
}

//= rfc5533#7.16-2 (test)
#[test]
fn parameters_must_be_those_of_the_ulid_even_without_a_list() {
    let keep_pds = |options: &mut Vec<Opt>| options.retain(|option| matches!(option, Opt::Pds(_)));
    with_r2_options(keep_pds).expect("the right parameters");
    let other = hba_set(3, [1, 2]).pds().to_vec();
    let lie = with_r2_options(|options| *options = alloc::vec![Opt::Pds(other)]);
    assert_eq!(lie, Err(DropReason::Unverified));
}

#[test]
fn an_hba_under_a_prefix_that_is_not_global_is_no_locator() {
    let odd = with_r2_options(|options| {
        list(options)[1].locator = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into();
    });
    assert_eq!(odd, Err(DropReason::BadAddress));
}

#[test]
fn a_locator_list_without_parameters_is_refused() {
    let (mut a, mut b, r2) = until_r2();
    let Message::R2(mut message) = r2.message else { panic!("{r2:?}") };
    let list = message.options.locator_list().expect("list").clone();
    assert!(list.entries.iter().all(|entry| entry.method == VerificationMethod::HBA));
    message.options = Options::from(alloc::vec![Opt::LocatorList(list)]);
    let bare = Transmit { via: r2.via, message: Message::R2(message) };
    assert_eq!(deliver(&mut a, &bare, NOW), Err(DropReason::MissingOption));
    assert!(sent(&mut b).is_empty());
}

#[test]
fn a_host_without_proof_announces_nothing() {
    let (mut a, mut b) = (machine(1), machine(2));
    a.set_local(&proof_of(2, Vec::new()), NOW);
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    let r1 = only(&mut b);
    deliver(&mut a, &r1, NOW).expect("R1");
    let i2 = only(&mut a);
    deliver(&mut b, &i2, NOW).expect("I2");
    let context = b.contexts().next().expect("made");
    let expected = [ulids().local.as_locator()];
    assert_eq!(context.established().expect("made").peer.locators, expected);
}

//= rfc5533#7.11 rfc5533#7.16 (test)
#[test]
fn answers_with_another_nonce_or_in_another_state_are_dropped() {
    let (mut a, _, r2) = until_r2();
    let Message::R2(mut message) = r2.message.clone() else { panic!("{r2:?}") };
    message.initiator_nonce ^= 1;
    let other = Transmit { via: r2.via, message: Message::R2(message) };
    assert_eq!(deliver(&mut a, &other, NOW), Err(DropReason::Unasked));
    let r1 = R1 { initiator_nonce: 0, responder_nonce: 0, options: Options::default() };
    let r1 = Transmit { via: r2.via, message: Message::R1(r1) };
    assert_eq!(deliver(&mut a, &r1, NOW), Err(DropReason::Unasked));
    deliver(&mut a, &r2, NOW).expect("the real one");
    assert_eq!(deliver(&mut a, &r2, NOW), Err(DropReason::Unasked), "replayed");
    let mut stranger = machine(3);
    assert_eq!(deliver(&mut stranger, &r2, NOW), Err(DropReason::Unasked));
}

//= rfc5533#7.9 rfc5533#7.13-7 (test)
#[test]
fn a_lost_r2_is_given_again_to_the_same_i1_and_i2() {
    let (mut a, mut b, r2) = until_r2();
    let wake = a.poll_timeout().expect("I2 is sent again");
    a.handle_timeout(wake);
    let again = only(&mut a);
    assert!(matches!(again.message, Message::I2(_)));
    deliver(&mut b, &again, wake).expect("I2");
    let second = only(&mut b);
    let options = |one: &Transmit| one.message.options().cloned();
    assert_eq!((second.via, options(&second)), (r2.via, options(&r2)));
    assert_eq!(b.contexts().count(), 1);
    assert_eq!(events(&mut b).len(), 1, "established once");
    deliver(&mut a, &second, wake).expect("R2");

    let tag = b.contexts().next().and_then(|c| c.established()).expect("b").peer_tag;
    let i1 = I1 { initiator_tag: tag, initiator_nonce: 77, options: Options::default() };
    let i1 = Transmit { via: Via::Pair(ulids().as_locators()), message: Message::I1(i1) };
    deliver(&mut b, &i1, wake).expect("I1");
    assert!(matches!(only(&mut b).message, Message::R2(R2 { initiator_nonce: 77, .. })));
}

//= rfc5533#7.9 rfc5533#7.13-7 (test)
#[test]
fn a_peer_that_lost_its_state_makes_the_context_anew() {
    let (_, mut b) = established();
    let old = b.contexts().next().and_then(|c| c.established()).expect("b").peer_tag;
    let mut fresh = Machine::new(Config::default(), [9; 32], NOW);
    fresh.set_local(&local(1), NOW);
    fresh.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut fresh);
    deliver(&mut b, &i1, NOW).expect("I1");
    let r1 = only(&mut b);
    assert!(matches!(r1.message, Message::R1(_)), "the tag is another");
    deliver(&mut fresh, &r1, NOW).expect("R1");
    let i2 = only(&mut fresh);
    deliver(&mut b, &i2, NOW).expect("I2");
    let new = b.contexts().next().and_then(|c| c.established()).expect("b").peer_tag;
    assert_ne!(old, new);
    assert!(events(&mut b).contains(&Event::Renewed { context: ContextId(0) }));
}

//= rfc5533#7.12-2 rfc5533#7.8 (test)
#[test]
fn i2_falls_back_to_i1_and_in_the_end_gives_up() {
    let (mut a, _, _) = until_r2();
    events(&mut a);
    let mut kinds = Vec::new();
    let mut last = NOW;
    while let Some(wake) = a.poll_timeout().filter(|_| a.contexts().next().is_some()) {
        assert!(wake > last, "backs off");
        last = wake;
        a.handle_timeout(wake);
        kinds.extend(sent(&mut a).into_iter().map(|t| matches!(t.message, Message::I2(_))));
    }
    assert_eq!(kinds, [true, true, false, false, false, false], "2 I2, then 4 I1");
    let failed =
        Event::Failed { context: ContextId(0), ulids: ulids(), failure: Failure::NoAnswer };
    assert_eq!(events(&mut a), [failed]);
    assert!(last.since(NOW) > Duration::from_secs(4));
}

//= rfc5533#7.8 rfc5533#14 (test)
#[test]
fn retransmission_times_lie_between_half_and_one_and_a_half_of_the_nominal() {
    for seed in 1..=50u8 {
        let mut a = Machine::new(Config::default(), [seed; 32], NOW);
        a.handle_trigger(ulids(), NOW).expect("I1");
        let mut last = NOW;
        for doubled in 0..5 {
            let wake = a.poll_timeout().expect("armed");
            let nominal = Duration::from_secs(4 << doubled);
            let waited = wake.since(last);
            assert!(waited >= nominal / 2 && waited <= nominal * 3 / 2, "{waited:?}");
            a.handle_timeout(wake);
            last = wake;
        }
        assert_eq!(a.contexts().count(), 0);
    }
}

/// The waits before each repetition of a message of this kind, until the machine sends another message or fails.
fn waits(a: &mut Machine, kind: MessageType) -> Vec<Duration> {
    let (mut waits, mut last) = (Vec::new(), NOW);
    loop {
        let wake = a.poll_timeout().expect("armed");
        a.handle_timeout(wake);
        waits.push(wake.since(last));
        last = wake;
        if only(a).message.kind() != kind {
            return waits;
        }
    }
}

//= rfc5533#7.12-1 rfc5533#7.19-1 rfc5533#14 (test)
#[test]
fn i2_and_i2bis_are_sent_again_with_backoff_and_at_random_times() {
    let mut seen = alloc::collections::BTreeSet::new();
    for seed in 3..=50u8 {
        let (mut a, mut b) = (Machine::new(Config::default(), [seed; 32], NOW), machine(2));
        a.set_local(&local(1), NOW);
        a.handle_trigger(ulids(), NOW).expect("I1");
        deliver(&mut b, &only(&mut a), NOW).expect("I1");
        deliver(&mut a, &only(&mut b), NOW).expect("R1");
        let i2 = only(&mut a);
        deliver(&mut b, &i2, NOW).expect("I2");
        let mut recovering = a.clone();
        deliver(&mut recovering, &only(&mut b), NOW).expect("R2");
        let tag = b.contexts().next().expect("b").local_tag;
        let (locators, mut fresh) = (ulids().as_locators(), machine(3));
        let lost = fresh.handle_payload(payload(tag, turned(locators)), NOW);
        assert_eq!(lost, Err(DropReason::UnknownTag));
        deliver(&mut recovering, &only(&mut fresh), NOW).expect("R1bis");
        assert_eq!(only(&mut recovering).message.kind(), MessageType::I2BIS);
        let i2bis = waits(&mut recovering, MessageType::I2BIS);
        let i2 = waits(&mut a, MessageType::I2);
        for waits in [&i2, &i2bis] {
            assert_eq!(waits.len(), 3, "twice again, then an I1");
            for (doubled, wait) in waits.iter().enumerate() {
                let nominal = Duration::from_secs(4 << doubled);
                assert!(*wait >= nominal / 2 && *wait <= nominal * 3 / 2, "{waits:?}");
            }
        }
        seen.extend([i2, i2bis]);
    }
    assert!(seen.len() > 90, "no two alike, but by chance");
}

//= rfc5533#7.8 (test)
#[test]
fn no_support_is_believed_only_for_an_i1_of_ours() {
    let mut a = machine(1);
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    let quote = |message: &Message, a: &mut Machine| {
        let octets = message.octets();
        let LocatorPair { local, peer } = way(&i1);
        let packet = Packet::parse(&octets, local.0, peer.0).expect("well formed");
        a.handle_no_support(&came(&packet, way(&i1), NOW))
    };
    let Message::I1(mut forged) = i1.message.clone() else { panic!("{i1:?}") };
    forged.initiator_nonce ^= 1;
    assert_eq!(quote(&Message::I1(forged), &mut a), Err(DropReason::BadNonce));
    assert_eq!(a.contexts().count(), 1);
    quote(&i1.message, &mut a).expect("ours");
    assert_eq!(a.contexts().count(), 0);
    let (_, failure, until) = a.negatives().next().expect("remembered");
    assert_eq!(failure, Failure::NoSupport);
    assert_eq!(until, NOW + Duration::from_secs(600));
    a.handle_trigger(ulids(), NOW).expect("held down");
    assert!(sent(&mut a).is_empty());
    a.handle_timeout(until);
    assert!(events(&mut a).contains(&Event::HolddownOver { ulids: ulids() }));
}

#[test]
fn a_peer_that_comes_by_itself_ends_the_holddown() {
    let (mut a, mut b) = (machine(1), machine(2));
    b.handle_trigger(UlidPair::new(ulids().peer, ulids().local), NOW).expect("I1");
    let mut now = NOW;
    while b.contexts().next().is_some() {
        now = b.poll_timeout().expect("armed");
        b.handle_timeout(now);
    }
    sent(&mut b);
    assert_eq!(b.negatives().count(), 1);
    a.handle_trigger(ulids(), now).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, now).expect("I1");
    let r1 = only(&mut b);
    deliver(&mut a, &r1, now).expect("R1");
    let i2 = only(&mut a);
    deliver(&mut b, &i2, now).expect("I2");
    assert_eq!(b.negatives().count(), 0);
}

#[test]
fn odd_addresses_are_refused() {
    let mut a = machine(1);
    for odd in ["ff02::1", "::", "::1", "fe80::1"] {
        let odd: Ipv6Addr = odd.parse().expect("an address");
        let pair = UlidPair::new(ulids().local, odd.into());
        assert_eq!(a.handle_trigger(pair, NOW), Err(DropReason::BadAddress));
    }
}

#[test]
fn late_payload_in_i2_sent_repeats_the_i2() {
    let (mut a, _, _) = until_r2();
    let tag = a.contexts().next().expect("a").local_tag;
    assert_eq!(
        a.handle_payload(payload(tag, ulids().as_locators()), NOW),
        Err(DropReason::NotEstablished)
    );
    assert!(matches!(only(&mut a).message, Message::I2(_)));
    assert_eq!(
        a.handle_payload(payload(ContextTag::from_bits(1), ulids().as_locators()), NOW),
        Err(DropReason::UnknownTag)
    );
}

/// An Update Request of side 1 to side 2 with its locators in reverse order, in a list of this generation.
fn turned_list(b: &Machine, generation: u32) -> Transmit {
    let context = b.contexts().next().expect("b");
    let method = VerificationMethod::HBA;
    let entries = locators(1).into_iter().rev().map(|locator| LocatorEntry { locator, method });
    let list = LocatorList { generation, entries: entries.collect() };
    let pds = hba_set(1, [1, 2]).pds().to_vec();
    let request = UpdateRequest {
        receiver_tag: context.local_tag,
        request_nonce: 99,
        options: Options::from(alloc::vec![Opt::LocatorList(list), Opt::Pds(pds)]),
    };
    let via = Via::Pair(ulids().as_locators());
    Transmit { via, message: Message::UpdateRequest(request) }
}

//= rfc5533#10.4 (test)
#[test]
fn a_newer_list_is_verified_taken_and_acknowledged() {
    let (_, mut b) = established();
    events(&mut b);
    let context = b.contexts().next().expect("b").id;
    let request = turned_list(&b, 2);
    deliver(&mut b, &request, NOW).expect("newer");
    let taken = b.contexts().next().and_then(|c| c.established()).expect("b");
    assert_eq!(taken.peer.locators, [locators(1)[1], locators(1)[0]]);
    assert_eq!(events(&mut b), [Event::Renewed { context }, Event::Confirmed { context }]);
    assert!(matches!(
        only(&mut b).message,
        Message::UpdateAck(UpdateAck { request_nonce: 99, .. })
    ));
    deliver(&mut b, &request, NOW).expect("repeated: the acknowledgement was lost");
    assert!(matches!(only(&mut b).message, Message::UpdateAck(_)));
    assert!(events(&mut b).is_empty());
}

#[test]
fn an_old_list_does_not_come_back() {
    let (_, mut b) = established();
    for old in [0, u32::MAX, 1u32.wrapping_sub(1 << 31)] {
        let request = turned_list(&b, old);
        assert_eq!(deliver(&mut b, &request, NOW), Err(DropReason::Replayed), "{old}");
    }
    let known = b.contexts().next().and_then(|c| c.established()).expect("b");
    assert_eq!(known.peer.locators, locators(1));
    let is_r1bis = |transmit: &Transmit| matches!(transmit.message, Message::R1bis(_));
    assert!(sent(&mut b).iter().all(is_r1bis), "not acknowledged, the peer is to prove its own");
}

//= rfc5533#7.2-1 rfc5533#10.4-2 (test)
#[test]
fn an_update_from_a_strange_locator_or_that_proves_nothing_changes_nothing() {
    let (_, mut b) = established();
    let Transmit { message, .. } = turned_list(&b, 2);
    let strange = LocatorPair::new(locators(3)[0], locators(2)[0]);
    let strange = Transmit { via: Via::Pair(strange), message: message.clone() };
    assert_eq!(deliver(&mut b, &strange, NOW), Err(DropReason::WrongLocators));
    let Message::UpdateRequest(mut request) = message else { panic!("a request") };
    let mut options: Vec<Opt> = request.options.iter().cloned().collect();
    list(&mut options)[0].locator = locators(3)[0];
    request.options = Options::from(options);
    let via = Via::Pair(ulids().as_locators());
    let lie = Transmit { via, message: Message::UpdateRequest(request) };
    assert_eq!(deliver(&mut b, &lie, NOW), Err(DropReason::Unverified));
    let known = b.contexts().next().and_then(|c| c.established()).expect("b");
    assert_eq!(known.peer.locators, locators(1));
}

/// The signed list of the vectors: ULID, list, parameters and signature of another implementation.
fn signed_list() -> (Ulid, LocatorList, Vec<u8>, Vec<u8>) {
    let file = include_str!("../../../tests/vectors/cga_hba.json");
    let vectors: serde_json::Value = serde_json::from_str(file).expect("vectors");
    let vector = &vectors["signature"][0];
    let octets = |field: &str| hex::decode(vector[field].as_str().expect("hex")).expect("hex");
    let contents = octets("locator_list_contents");
    let address =
        |at: usize| Locator::from(<[u8; 16]>::try_from(&contents[at..at + 16]).expect("16"));
    let entries: Vec<_> = [12, 28, 44]
        .into_iter()
        .map(|at| LocatorEntry { locator: address(at), method: VerificationMethod::CGA })
        .collect();
    let ulid = entries[0].locator.as_ulid();
    (ulid, LocatorList { generation: 0, entries }, octets("pds"), octets("signature"))
}

/// A context of side 2 with the signer of the vectors, and a function that makes an Update Request of the signer.
fn context_with_signer() -> (Machine, UlidPair, impl Fn(&Machine, Vec<Opt>) -> Transmit) {
    let (ulid, ..) = signed_list();
    let seen_by_signer = UlidPair::new(ulid, ulids().peer);
    let (mut a, mut b) = (Machine::new(Config::default(), [5; 32], NOW), machine(2));
    a.handle_trigger(seen_by_signer, NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    let r1 = only(&mut b);
    deliver(&mut a, &r1, NOW).expect("R1");
    let i2 = only(&mut a);
    deliver(&mut b, &i2, NOW).expect("I2");
    let _ = (sent(&mut b), events(&mut b));
    let request = move |b: &Machine, options: Vec<Opt>| {
        let receiver_tag = b.contexts().next().expect("b").local_tag;
        let options = Options::from(options);
        let request = UpdateRequest { receiver_tag, request_nonce: 7, options };
        let via = Via::Pair(seen_by_signer.as_locators());
        Transmit { via, message: Message::UpdateRequest(request) }
    };
    (b, seen_by_signer, request)
}

#[test]
fn a_signed_list_is_taken_whatever_its_addresses() {
    let (_, list, pds, signature) = signed_list();
    let (mut b, _, request) = context_with_signer();
    let expected: Vec<_> = list.entries.iter().map(|entry| entry.locator).collect();
    let options = alloc::vec![Opt::LocatorList(list), Opt::Pds(pds), Opt::CgaSignature(signature)];
    let request = request(&b, options);
    deliver(&mut b, &request, NOW).expect("signed");
    let known = b.contexts().next().and_then(|c| c.established()).expect("b");
    assert_eq!(known.peer.locators, expected);
}

#[test]
fn a_wrong_signature_changes_nothing_and_verifications_are_limited() {
    let (_, list, pds, mut signature) = signed_list();
    let (mut b, _, request) = context_with_signer();
    signature[0] ^= 1;
    let options = alloc::vec![Opt::LocatorList(list), Opt::Pds(pds), Opt::CgaSignature(signature)];
    let forged = request(&b, options);
    for _ in 0..crate::SIGNATURE_BURST {
        assert_eq!(deliver(&mut b, &forged, NOW), Err(DropReason::Unverified));
    }
    assert_eq!(deliver(&mut b, &forged, NOW), Err(DropReason::RateLimited));
    let known = b.contexts().next().and_then(|c| c.established()).expect("b");
    assert_eq!(known.peer.locators.len(), 1);
}

#[test]
fn parameters_once_verified_serve_messages_without() {
    let (_, list, pds, signature) = signed_list();
    let (mut b, _, request) = context_with_signer();
    let bare = alloc::vec![Opt::LocatorList(list), Opt::CgaSignature(signature)];
    let without = request(&b, bare.clone());
    assert_eq!(deliver(&mut b, &without, NOW), Err(DropReason::MissingOption));
    let only_pds = request(&b, alloc::vec![Opt::Pds(pds)]);
    deliver(&mut b, &only_pds, NOW).expect("parameters of the ULID");
    sent(&mut b);
    deliver(&mut b, &without, NOW).expect("remembered");
    assert!(matches!(only(&mut b).message, Message::UpdateAck(_)));
}

#[test]
fn an_overheard_i2_without_its_list_takes_no_locators_away() {
    let (mut a, mut b) = (machine(1), machine(2));
    a.handle_trigger(ulids(), NOW).expect("I1");
    let i1 = only(&mut a);
    deliver(&mut b, &i1, NOW).expect("I1");
    let r1 = only(&mut b);
    deliver(&mut a, &r1, NOW).expect("R1");
    let i2 = only(&mut a);
    deliver(&mut b, &i2, NOW).expect("I2");
    let Message::I2(mut stripped) = i2.message.clone() else { panic!("{i2:?}") };
    let validator = stripped.options.validator().expect("validator").to_vec();
    stripped.options = Options::from(alloc::vec![Opt::Validator(validator)]);
    let stripped = Transmit { via: i2.via, message: Message::I2(stripped) };
    let _ = (sent(&mut b), events(&mut b));
    deliver(&mut b, &stripped, NOW).expect("answered like the I2 it once was");
    assert!(matches!(only(&mut b).message, Message::R2(_)));
    assert!(events(&mut b).is_empty());
    let known = b.contexts().next().and_then(|c| c.established()).expect("b");
    assert_eq!(known.peer.locators, locators(1));
}
