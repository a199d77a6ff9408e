//! Whatever a source sends that has proved nothing, it gets no more back than it has sent, in any second and in all: a
//! property over random sequences of messages of all types and many lengths, with all timers that they start. Two things come on
//! top: the validator of each R1, and one R2 for a handshake. The I1s of the handshake go out anyway, also if payload of a made-up source has made
//! the host want the context. An attacker who knows the tags of a context, because it is the peer, gets no more at
//! addresses that are not locators of the peer. With validators and IPv6 headers, who
//! has proved nothing gets at most one and a half times what it sent: RFC 5533 s7.10 wants a validator in the answer to
//! an I1 of 16 octets.

use alloc::vec;

use moorline_wire::{I2bis, Keepalive, R1bis, fill_checksum};
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::*;
use crate::consts::I1_RETRIES_MAX;

/// State of the host when the attack begins.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// The host wants a context with the ULID.
    Wanted,
    /// The host has the context.
    Established,
}

/// An act of the attacker.
#[derive(Clone, Debug)]
struct Act {
    /// Number of the source: 0 is the ULID of the peer, others are made up.
    source: u8,
    /// The message. `None`: payload, which makes the host want a context with the source.
    forged: Option<Forged>,
    /// Time since the act before.
    millis: u64,
}

/// A message of the attacker, who does not receive the answers and so guesses all nonces and validators, and most tags.
#[derive(Clone, Debug)]
struct Forged {
    form: u8,
    /// Type to write over the type of the form.
    kind: Option<u8>,
    /// Units of 8 octets behind the form, as an option that nobody knows and nobody has to know.
    padding: u8,
    guess: u32,
    has_source: bool,
    /// Whether the message is about the ULIDs of the peer and not about its addresses.
    names_ulids: bool,
    /// Whether the attacker knows the tags of the context.
    knows_tags: bool,
}

fn forged() -> impl Strategy<Value = Forged> {
    let kind = prop_oneof![3 => Just(None), 1 => (0..128_u8).prop_map(Some)];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let padding = prop_oneof![2 => Just(0), 1 => 1..9_u8];
    (0..=PAYLOAD, kind, padding, any::<u32>(), flags).prop_map(
        |(form, kind, padding, guess, (has_source, names_ulids, knows_tags))| Forged {
            form,
            kind,
            padding,
            guess,
            has_source,
            names_ulids,
            knows_tags,
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let forged = prop_oneof![6 => forged().prop_map(Some), 1 => Just(None)];
    (0..4_u8, forged, 0..3000_u64).prop_map(|(source, forged, millis)| Act {
        source,
        forged,
        millis,
    })
}

/// Tags of the context of the host, if it has one.
#[derive(Clone, Copy, Debug)]
struct Tags {
    local: ContextTag,
    peer: ContextTag,
}

impl Forged {
    /// The tags that it has. From the ULID, which is a locator of the peer, it has no known tags.
    fn tags(&self, source: Locator, tags: Option<Tags>) -> Tags {
        let is_ulid = source == ulids().peer.as_locator();
        let guess = ContextTag::from_bits(u64::from(self.guess));
        let known = tags.filter(|_| self.knows_tags && !is_ulid);
        known.unwrap_or(Tags { local: guess, peer: guess })
    }

    /// Gives it to the victim. Returns its octets behind the IPv6 header.
    fn give(&self, victim: &mut Machine, locators: LocatorPair, tags: Tags, now: Instant) -> usize {
        if self.form == PAYLOAD {
            let len = SHORTEST * (1 + usize::from(self.padding));
            victim.handle_payload(Used { tag: tags.local, locators, len }, now).ok();
            return len;
        }
        let octets = self.octets(locators.peer, tags);
        if let Ok(packet) = Packet::parse(&octets, locators.peer.0, locators.local.0) {
            let came = came(&packet, locators, now);
            let is_reap = matches!(packet.kind(), MessageType::KEEPALIVE | MessageType::PROBE);
            let outcome = victim.check(&came).and_then(|()| match is_reap {
                true => victim.addressed(&came).map(drop),
                false => victim.handle_message(&came),
            });
            outcome.ok();
        }
        octets.len()
    }

    /// Its octets behind the IPv6 header.
    fn octets(&self, source: Locator, tags: Tags) -> Vec<u8> {
        let is_ulid = source == ulids().peer.as_locator();
        let Tags { local: to_us, peer: tag } = tags;
        let nonce = self.guess;
        let mut options = vec![];
        if self.has_source {
            options.push(Opt::Source(source));
        }
        if self.names_ulids && !is_ulid {
            let UlidPair { local, peer } = ulids();
            options.push(Opt::UlidPair { sender: peer, receiver: local });
        }
        let validator = Opt::Validator(self.guess.to_be_bytes().repeat(4));
        let is_offer = matches!(self.form, 1 | 2 | 6);
        let options: Options = options.into_iter().chain(is_offer.then_some(validator)).collect();
        let message = match self.form {
            0 => Message::I1(I1 { initiator_tag: tag, initiator_nonce: nonce, options }),
            1 => Message::I2(I2 {
                initiator_tag: tag,
                initiator_nonce: nonce,
                responder_nonce: nonce,
                options,
            }),
            2 => Message::I2bis(I2bis {
                initiator_tag: tag,
                initiator_nonce: nonce,
                responder_nonce: nonce,
                packet_tag: to_us,
                options,
            }),
            3 => Message::UpdateRequest(UpdateRequest {
                receiver_tag: to_us,
                request_nonce: nonce,
                options,
            }),
            6 => Message::R1bis(R1bis { packet_tag: tag, responder_nonce: nonce, options }),
            7 => {
                Message::UpdateAck(UpdateAck { receiver_tag: to_us, request_nonce: nonce, options })
            }
            _ => Message::Keepalive(Keepalive { receiver_tag: to_us, options }),
        };
        let mut octets = message.octets();
        if self.form == 5 {
            octets.truncate(SHORTEST);
            octets[LENGTH_AT] = 0;
            fill_checksum(&mut octets);
        }
        if let Some(contents) = (8 * self.padding).checked_sub(OPTION_HEADER) {
            octets.extend([0xff, 0xfe, 0, contents]);
            octets.extend(alloc::vec![0; usize::from(contents)]);
            octets[LENGTH_AT] += self.padding;
        }
        octets[TYPE_AT] = self.kind.unwrap_or(octets[TYPE_AT]);
        fill_checksum(&mut octets);
        octets
    }
}

/// Runs the timers up to this time. Returns all messages since the last call, each with its time.
fn run(machine: &mut Machine, until: Instant) -> Vec<(Instant, Transmit)> {
    let mut all = vec![];
    while let Some(at) = machine.poll_timeout().filter(|at| *at <= until) {
        machine.handle_timeout(at);
        all.extend(sent(machine).into_iter().map(|one| (at, one)));
    }
    all.extend(sent(machine).into_iter().map(|one| (until, one)));
    all
}

/// Octets that came in and went out of one source, each with its time, and the messages of handshakes.
#[derive(Clone, Debug, Default)]
struct Ledger {
    rows: Vec<(Instant, usize, usize)>,
    packets_in: usize,
    packets_out: usize,
    handshakes: usize,
    i1s: usize,
    r2s: usize,
}

impl Ledger {
    fn came_in(&mut self, at: Instant, octets: usize) {
        self.rows.push((at, octets, 0));
        self.packets_in += octets + IP6_LEN;
    }

    fn went_out(&mut self, at: Instant, message: &Message) {
        let octets = message.octets().len();
        match message.kind() {
            MessageType::I1 => self.i1s += 1,
            MessageType::R2 => self.r2s += 1,
            kind => {
                let free = if kind == MessageType::R1 { VALIDATOR_OPTION } else { 0 };
                self.rows.push((at, 0, octets - free));
                self.packets_out += octets + IP6_LEN;
            }
        }
    }

    /// How much more went out than came in, in all.
    fn excess(&self) -> usize {
        excess(self.rows.iter())
    }

    /// How much more went out than came in, in the worst span of this length.
    fn excess_within(&self, span: Duration) -> usize {
        let begins = self.rows.iter().map(|(at, ..)| *at);
        let within = |begin: Instant| {
            let is_in = move |at: Instant| begin <= at && at.since(begin) < span;
            excess(self.rows.iter().filter(|(at, ..)| is_in(*at)))
        };
        begins.map(within).max().unwrap_or(0)
    }
}

fn excess<'a>(rows: impl Iterator<Item = &'a (Instant, usize, usize)>) -> usize {
    let sums = rows.fold((0, 0), |(all_in, all_out), (_, i, o)| (all_in + i, all_out + o));
    usize::saturating_sub(sums.1, sums.0)
}

/// A host under attack, and a ledger of each source.
struct Attacked {
    victim: Machine,
    tags: Option<Tags>,
    now: Instant,
    ledgers: [Ledger; 4],
}

impl Attacked {
    fn new(before: Before) -> Self {
        let mut ledgers: [Ledger; 4] = Default::default();
        let (mut victim, tags, now) = match before {
            Before::Wanted => {
                let mut victim = machine(1);
                victim.handle_trigger(ulids(), NOW).expect("I1");
                ledgers[0].handshakes = 1;
                (victim, None, NOW)
            }
            Before::Established => {
                let duo = duo::Duo::established();
                let tags = Tags { local: duo.context(0).local_tag, peer: duo.of_side(0).peer_tag };
                let [victim, _] = duo.machines;
                (victim, Some(tags), duo.now)
            }
        };
        sent(&mut victim);
        Self { victim, tags, now, ledgers }
    }

    /// Runs the timers for this time.
    fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.note();
    }

    /// Runs the timers that are due, and notes what goes to the sources.
    fn note(&mut self) {
        for (at, transmit) in run(&mut self.victim, self.now) {
            let to = way(&transmit).peer;
            if let Some(nth) = (0..4).find(|nth| address(*nth) == to) {
                self.ledgers[usize::from(nth)].went_out(at, &transmit.message);
            }
        }
    }

    fn take(&mut self, act: &Act) {
        let source = address(act.source);
        let locators = LocatorPair::new(ulids().local.as_locator(), source);
        let ledger = &mut self.ledgers[usize::from(act.source)];
        match &act.forged {
            Some(forged) => {
                let tags = forged.tags(source, self.tags);
                let octets = forged.give(&mut self.victim, locators, tags, self.now);
                ledger.came_in(self.now, octets);
            }
            None => {
                let before = self.victim.contexts().count();
                let ulids = UlidPair::new(locators.local.as_ulid(), source.as_ulid());
                self.victim.handle_trigger(ulids, self.now).ok();
                ledger.handshakes += self.victim.contexts().count() - before;
            }
        }
        self.note();
    }
}

/// The address of a source.
fn address(nth: u8) -> Locator {
    match nth {
        0 => ulids().peer.as_locator(),
        _ => Locator(Ipv6Addr::new(0x2001, 0xdb8, 0xbad, nth.into(), 0, 0, 0, 1)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_has_proved_nothing_gets_no_more_than_it_sent(
        before in prop_oneof![Just(Before::Wanted), Just(Before::Established)],
        attack in vec_of(act(), 1..60),
    ) {
        let mut attacked = Attacked::new(before);
        for act in attack.iter().map(Some).chain([None]) {
            attacked.pass(act.map_or(300_000, |one| one.millis));
            if let Some(act) = act {
                attacked.take(act);
            }
            for ledger in &attacked.ledgers {
                prop_assert_eq!(ledger.excess(), 0, "{:?}", ledger);
                prop_assert!(2 * ledger.packets_out <= 3 * ledger.packets_in, "{:?}", ledger);
                prop_assert!(ledger.r2s <= ledger.handshakes, "{:?}", ledger);
                prop_assert!(ledger.i1s <= ledger.handshakes * (1 + usize::from(I1_RETRIES_MAX)));
            }
        }
        for ledger in &attacked.ledgers {
            prop_assert_eq!(ledger.excess_within(Duration::from_secs(1)), 0, "{:?}", ledger);
        }
    }
}

/// The form of payload. The forms before it are control messages.
const PAYLOAD: u8 = 8;
/// Octets of an IPv6 header.
const IP6_LEN: usize = 40;
/// Octet of the message type.
const TYPE_AT: usize = 2;
/// Length of the shortest control message, and the place of the length in it.
const SHORTEST: usize = 8;
const LENGTH_AT: usize = 1;
/// Octets of Type and Length of an option.
const OPTION_HEADER: u8 = 4;
/// Option header, validator of 16 octets, padding.
const VALIDATOR_OPTION: usize = (4_usize + 16).next_multiple_of(8);
