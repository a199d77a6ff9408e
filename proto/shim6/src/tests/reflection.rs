//! Whatever a source sends that has proved nothing, it gets no more back than it has sent, in any second and in all: a
//! property over random sequences of messages, with all timers that they start. Two things come on top: the validator of each answer that
//! has one, and one R2 for a handshake. The I1s of the handshake go out anyway. With validators and IPv6 headers, who
//! has proved nothing gets at most one and a half times what it sent: RFC 5533 s7.10 wants a validator in the answer to
//! an I1 of 16 octets.

use alloc::vec;

use moorline_wire::{I2bis, Keepalive, fill_checksum};
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::*;
use crate::consts::I1_RETRIES_MAX;

/// A message of the attacker, who does not receive the answers and so guesses all tags, nonces and validators.
#[derive(Clone, Debug)]
struct Forged {
    form: u8,
    /// Type to write over the type of the form.
    kind: Option<u8>,
    guess: u32,
    has_source: bool,
    /// Whether the source is the ULID of the pair that this host wants.
    is_ulid: bool,
    /// Time since the message before.
    millis: u64,
}

fn forged() -> impl Strategy<Value = Forged> {
    let kind = prop_oneof![3 => Just(None), 1 => (0..128_u8).prop_map(Some)];
    let rest = (any::<bool>(), any::<bool>(), 0..3000_u64);
    (0..6_u8, kind, any::<u32>(), rest).prop_map(
        |(form, kind, guess, (has_source, is_ulid, millis))| Forged {
            form,
            kind,
            guess,
            has_source,
            is_ulid,
            millis,
        },
    )
}

impl Forged {
    fn octets(&self, source: Locator) -> Vec<u8> {
        let (tag, nonce) = (ContextTag::from_bits(u64::from(self.guess)), self.guess);
        let mut options = vec![];
        if self.has_source {
            options.push(Opt::Source(source));
        }
        if !self.is_ulid {
            let UlidPair { local, peer } = ulids();
            options.push(Opt::UlidPair { sender: peer, receiver: local });
        }
        let validator = Opt::Validator(self.guess.to_be_bytes().repeat(4));
        let is_offer = matches!(self.form, 1 | 2);
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
                packet_tag: tag,
                options,
            }),
            3 => Message::UpdateRequest(UpdateRequest {
                receiver_tag: tag,
                request_nonce: nonce,
                options,
            }),
            _ => Message::Keepalive(Keepalive { receiver_tag: tag, options }),
        };
        let mut octets = message.octets();
        if self.form == 5 {
            octets.truncate(SHORTEST);
            octets[LENGTH_AT] = 0;
            fill_checksum(&mut octets);
        }
        if let Some(kind) = self.kind {
            octets[TYPE_AT] = kind;
            fill_checksum(&mut octets);
        }
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

/// Octets that came in and went out, each with its time.
#[derive(Default)]
struct Ledger(Vec<(Instant, usize, usize)>);

impl Ledger {
    /// How much more went out than came in, in all.
    fn excess(&self) -> usize {
        excess(self.0.iter())
    }

    /// How much more went out than came in, in the worst span of this length.
    fn excess_within(&self, span: Duration) -> usize {
        let begins = self.0.iter().map(|(at, ..)| *at);
        let within = |begin: Instant| {
            let is_in = move |at: Instant| begin <= at && at.since(begin) < span;
            excess(self.0.iter().filter(|(at, ..)| is_in(*at)))
        };
        begins.map(within).max().unwrap_or(0)
    }
}

fn excess<'a>(rows: impl Iterator<Item = &'a (Instant, usize, usize)>) -> usize {
    let sums = rows.fold((0, 0), |(all_in, all_out), (_, i, o)| (all_in + i, all_out + o));
    usize::saturating_sub(sums.1, sums.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn who_has_proved_nothing_gets_no_more_than_it_sent(attack in vec_of(forged(), 1..60)) {
        let mut victim = machine(1);
        victim.handle_trigger(ulids(), NOW).expect("I1");
        sent(&mut victim);
        let (mut now, mut r2s, mut i1s, mut ledger) = (NOW, 0, 0, Ledger::default());
        let (mut packets_in, mut packets_out) = (0, 0);
        for forged in attack.iter().map(Some).chain([None]) {
            now = now + Duration::from_millis(forged.map_or(300_000, |one| one.millis));
            let mut out = run(&mut victim, now);
            if let Some(forged) = forged {
                let ulids = ulids().as_locators();
                let elsewhere = Locator("2001:db8:bad::1".parse().expect("an address"));
                let source = if forged.is_ulid { ulids.peer } else { elsewhere };
                let locators = LocatorPair::new(ulids.local, source);
                let octets = forged.octets(source);
                ledger.0.push((now, octets.len(), 0));
                packets_in += octets.len() + IP6_LEN;
                if let Ok(packet) = Packet::parse(&octets, source.0, ulids.local.0) {
                    let came = came(&packet, locators, now);
                    victim.check(&came).and_then(|()| victim.handle_message(&came)).ok();
                }
                out.extend(run(&mut victim, now));
            }
            for (at, Transmit { message, .. }) in out {
                if !matches!(message.kind(), MessageType::I1 | MessageType::R2) {
                    packets_out += message.octets().len() + IP6_LEN;
                }
                let went_out = message.octets().len();
                match message.kind() {
                    MessageType::I1 => i1s += 1,
                    MessageType::R2 => r2s += 1,
                    MessageType::R1 | MessageType::R1BIS => {
                        ledger.0.push((at, 0, went_out - VALIDATOR_OPTION));
                    }
                    _ => ledger.0.push((at, 0, went_out)),
                }
            }
            prop_assert_eq!(ledger.excess(), 0, "{:?}", ledger.0);
            prop_assert!(2 * packets_out <= 3 * packets_in, "{packets_out} for {packets_in}");
            prop_assert!(r2s <= 1);
            prop_assert!(i1s <= I1_RETRIES_MAX);
        }
        prop_assert_eq!(ledger.excess_within(Duration::from_secs(1)), 0, "{:?}", ledger.0);
    }
}

/// Octets of an IPv6 header.
const IP6_LEN: usize = 40;
/// Octet of the message type.
const TYPE_AT: usize = 2;
/// Length of the shortest control message, and the place of the length in it.
const SHORTEST: usize = 8;
const LENGTH_AT: usize = 1;
/// Option header, validator of 16 octets, padding.
const VALIDATOR_OPTION: usize = (4_usize + 16).next_multiple_of(8);
