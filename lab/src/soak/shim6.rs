//! Messages of Shim6: those that the state of a node asks for, and all others.

use std::net::Ipv6Addr;

use moorline_types::{ContextTag, Locator, Ulid};
use moorline_wire::{
    ErrorCode, ErrorMessage, I1, I2, I2bis, Keepalive, LocatorEntry, LocatorList,
    LocatorPreference, LocatorPreferences, Message, MessageType, Opt, OptionType, Options, Packet,
    PayloadHeader, Probe, ProbeReport, ProbeState, R1, R1bis, R2, UpdateAck, UpdateRequest,
    VerificationMethod,
};

use super::actor::{Actor, Shim6};
use super::dice::Dice;
use super::wrap::{Payload, mutate, shim6};

/// A message. `others` are options of another node.
pub(super) fn say(actor: &mut Actor, others: &[Opt]) -> Payload {
    let kind = if actor.dice.chance(60) { due(actor) } else { actor.dice.pick(KINDS) };
    let Some(kind) = kind else { return payload(actor) };
    let is_plain = kind == MessageType::I1 && actor.dice.chance(70);
    let options = if is_plain { Options::default() } else { options(actor, kind, others) };
    // Even a changed message may prove the node.
    actor.has_proved |= can_prove(&actor.shim6, kind);
    let message = message(actor, kind, options);
    let mut octets = message.octets();
    if actor.dice.chance(15) {
        mutate(&mut actor.dice, &mut octets);
    }
    shim6(octets)
}

/// The message that the state of the node asks for. `None` for payload.
fn due(actor: &mut Actor) -> Option<MessageType> {
    let known = &actor.shim6;
    if known.i2.is_some() {
        return Some(MessageType::R2);
    }
    if known.i1.is_some() {
        return Some(MessageType::R1);
    }
    if known.request.is_some() {
        return Some(MessageType::UPDATE_ACK);
    }
    if known.r1bis.is_some() && actor.dice.chance(70) {
        return Some(MessageType::I2BIS);
    }
    match (known.peer_tag, &known.r1) {
        (None, Some(_)) => Some(MessageType::I2),
        (None, None) => Some(MessageType::I1),
        (Some(_), _) => actor.dice.pick(OF_CONTEXT),
    }
}

/// Whether a message may return a nonce or validator of the host.
fn can_prove(known: &Shim6, kind: MessageType) -> bool {
    match kind {
        MessageType::R1 => known.i1.is_some(),
        MessageType::R2 => known.i1.is_some() || known.i2.is_some(),
        MessageType::I2 => known.r1.is_some(),
        MessageType::I2BIS => known.r1bis.is_some(),
        _ => false,
    }
}

fn message(actor: &mut Actor, kind: MessageType, options: Options) -> Message {
    let dice = &mut actor.dice;
    let known = &mut actor.shim6;
    // Mostly the numbers that the node knows.
    let guess = dice.chance(15);
    let (tag, nonce) =
        if guess { (random_tag(dice), dice.word()) } else { (known.tag, known.nonce) };
    let peer_tag = known.peer_tag.filter(|_| !guess).unwrap_or_else(|| random_tag(dice));
    match kind {
        MessageType::I1 => Message::I1(I1 { initiator_tag: tag, initiator_nonce: nonce, options }),
        MessageType::R1 => {
            let initiator_nonce = known.i1.take().unwrap_or(nonce);
            Message::R1(R1 { initiator_nonce, responder_nonce: dice.word(), options })
        }
        MessageType::I2 => {
            let responder_nonce = known.r1.as_ref().map_or(nonce, |(nonce, _)| *nonce);
            Message::I2(I2 { initiator_tag: tag, initiator_nonce: nonce, responder_nonce, options })
        }
        MessageType::R2 => {
            let initiator_nonce = known.i2.take().or(known.i1.take()).unwrap_or(nonce);
            Message::R2(R2 { responder_tag: tag, initiator_nonce, options })
        }
        MessageType::R1BIS => {
            let packet_tag = if dice.chance(70) { known.tag } else { random_tag(dice) };
            Message::R1bis(R1bis { packet_tag, responder_nonce: dice.word(), options })
        }
        MessageType::I2BIS => {
            let (packet_tag, responder_nonce) = match &known.r1bis {
                Some((tag, nonce, _)) => (*tag, *nonce),
                None => (peer_tag, nonce),
            };
            Message::I2bis(I2bis {
                initiator_tag: tag,
                initiator_nonce: nonce,
                responder_nonce,
                packet_tag,
                options,
            })
        }
        MessageType::UPDATE_REQUEST => Message::UpdateRequest(UpdateRequest {
            receiver_tag: peer_tag,
            request_nonce: dice.word(),
            options,
        }),
        MessageType::UPDATE_ACK => {
            let request_nonce = known.request.take().unwrap_or(nonce);
            Message::UpdateAck(UpdateAck { receiver_tag: peer_tag, request_nonce, options })
        }
        MessageType::KEEPALIVE => Message::Keepalive(Keepalive { receiver_tag: peer_tag, options }),
        MessageType::PROBE => Message::Probe(probe(actor, peer_tag, options)),
        _ => Message::Error(error(actor)),
    }
}

/// A probe, with reports of the probes that the node has received, or made-up ones.
fn probe(actor: &mut Actor, receiver_tag: ContextTag, options: Options) -> Probe {
    let dice = &mut actor.dice;
    let state = dice.pick(&[ProbeState::Operational, ProbeState::Exploring, ProbeState::InboundOk]);
    let (own, victim) = (actor.own[0], actor.victim[actor.isp]);
    let sent = (0..=dice.below(3)).map(|_| ProbeReport {
        src: Locator(own),
        dst: Locator(victim),
        nonce: dice.word(),
        data: 0,
    });
    let sent = sent.collect();
    let mut received: Vec<_> = actor.shim6.probes.iter().rev().copied().collect();
    if dice.chance(10) {
        received.resize_with(dice.below(15), || ProbeReport {
            src: Locator(victim),
            dst: Locator(own),
            nonce: dice.word(),
            data: dice.word(),
        });
    }
    Probe { receiver_tag, state, sent, received, options }
}

fn error(actor: &mut Actor) -> ErrorMessage {
    let dice = &mut actor.dice;
    let length = dice.below(200);
    let packet = match actor.shim6.last.as_slice() {
        [] => dice.octets(length),
        last => last.to_vec(),
    };
    ErrorMessage { code: dice.pick(ErrorCode::KNOWN), pointer: u16::from(dice.octet()), packet }
}

/// A payload header with a packet behind it.
fn payload(actor: &mut Actor) -> Payload {
    let dice = &mut actor.dice;
    let tag = actor.shim6.peer_tag.filter(|_| dice.chance(80));
    let tag = tag.unwrap_or_else(|| random_tag(dice));
    let next_header = dice.pick(&[59, 17, 6, 58, 60, 140]);
    let length = if dice.chance(30) { 0 } else { dice.below(1000) };
    let header = PayloadHeader { next_header, tag };
    shim6([&header.emit()[..], &dice.octets(length)].concat())
}

/// Options: those that the message needs, sometimes too many or wrong ones.
fn options(actor: &mut Actor, kind: MessageType, others: &[Opt]) -> Options {
    let dice = &mut actor.dice;
    let mut options = Vec::new();
    let validator = match kind {
        MessageType::I2 => actor.shim6.r1.as_ref().map(|(_, validator)| validator.clone()),
        MessageType::I2BIS => actor.shim6.r1bis.as_ref().map(|(.., validator)| validator.clone()),
        MessageType::R1 | MessageType::R1BIS => Some(dice.octets(16)),
        _ => None,
    };
    options.extend(validator.map(Opt::Validator));
    let carries_locators = matches!(
        kind,
        MessageType::I2 | MessageType::I2BIS | MessageType::R2 | MessageType::UPDATE_REQUEST
    );
    if carries_locators {
        match dice.below(10) {
            0..5 => options.extend(actor.told.iter().cloned()),
            5 => options.extend(others.iter().cloned()),
            6 => options.push(huge_list(dice)),
            _ => {}
        }
    }
    if kind == MessageType::PROBE && dice.chance(50) {
        options.push(Opt::Check);
    }
    if dice.chance(25) {
        let ends = [actor.own[0], actor.victim[actor.isp]];
        options.extend((0..=dice.below(3)).map(|_| any_option(dice, ends)));
    }
    options.into()
}

/// A list of as many locators as a message can hold, or more.
fn huge_list(dice: &mut Dice) -> Opt {
    if dice.chance(20) {
        // Methods for 255 locators, and no locator.
        let contents = [&[0, 0, 0, 1, 255][..], &dice.octets(255)].concat();
        return Opt::Unknown { kind: OptionType::LOCATOR_LIST, critical: false, contents };
    }
    let method = dice.pick(&[VerificationMethod::HBA, VerificationMethod::CGA]);
    let entry = |_| {
        let address = Ipv6Addr::from(u128::from(dice.long()) << 64 | u128::from(dice.long()));
        LocatorEntry { locator: Locator(address), method }
    };
    Opt::LocatorList(LocatorList { generation: 9, entries: (0..32).map(entry).collect() })
}

fn any_option(dice: &mut Dice, [own, victim]: [Ipv6Addr; 2]) -> Opt {
    match dice.below(9) {
        0 => Opt::UlidPair { sender: Ulid(own), receiver: Ulid(victim) },
        1 => Opt::UlidPair { sender: Ulid(victim), receiver: Ulid(own) },
        2 => Opt::ForkedInstance(dice.word()),
        3 => Opt::KeepaliveTimeout(u16::from(dice.octet())),
        4 => Opt::SendTimeoutMillis(dice.word()),
        5 => Opt::Source(Locator(own)),
        6 => Opt::Check,
        7 => {
            let one = LocatorPreference {
                flags: dice.octet(),
                priority: Some(dice.octet()),
                weight: Some(dice.octet()),
            };
            let all = vec![one; dice.below(33)];
            Opt::LocatorPreferences(LocatorPreferences::new(dice.word() & 3, &all))
        }
        _ => {
            let kind = OptionType::new(u16::from(dice.octet()));
            let length = dice.below(64);
            Opt::Unknown { kind, critical: dice.chance(30), contents: dice.octets(length) }
        }
    }
}

fn random_tag(dice: &mut Dice) -> ContextTag {
    ContextTag::from_bits(dice.long())
}

/// Takes a message of the host.
pub(super) fn hear(known: &mut Shim6, octets: &[u8], [from, to]: [Ipv6Addr; 2]) {
    let Ok(packet) = Packet::parse(octets, from, to) else { return };
    known.last = packet.octets().to_vec();
    let Ok(message) = packet.message() else { return };
    match message {
        Message::I1(m) => {
            known.i1 = Some(m.initiator_nonce);
            known.peer_tag = Some(m.initiator_tag);
        }
        Message::R1(m) => {
            let validator = m.options.validator().unwrap_or_default();
            known.r1 = Some((m.responder_nonce, validator.to_vec()));
        }
        Message::I2(m) => {
            known.i2 = Some(m.initiator_nonce);
            known.peer_tag = Some(m.initiator_tag);
        }
        Message::I2bis(m) => known.i2 = Some(m.initiator_nonce),
        Message::R2(m) => {
            known.peer_tag = Some(m.responder_tag);
            (known.r1, known.r1bis) = (None, None);
        }
        Message::R1bis(m) => {
            let validator = m.options.validator().unwrap_or_default();
            known.r1bis = Some((m.packet_tag, m.responder_nonce, validator.to_vec()));
        }
        Message::UpdateRequest(m) => known.request = Some(m.request_nonce),
        Message::Probe(m) => {
            known.probes.extend(m.sent);
            let old = known.probes.len().saturating_sub(REPORTS);
            drop(known.probes.drain(..old));
        }
        Message::UpdateAck(_) | Message::Keepalive(_) | Message::Error(_) => {}
    }
}

/// Probes that a node remembers, and reports.
const REPORTS: usize = 5;
/// All messages. `None` is payload.
const KINDS: &[Option<MessageType>] = &[
    Some(MessageType::I1),
    Some(MessageType::R1),
    Some(MessageType::I2),
    Some(MessageType::R2),
    Some(MessageType::R1BIS),
    Some(MessageType::I2BIS),
    Some(MessageType::UPDATE_REQUEST),
    Some(MessageType::UPDATE_ACK),
    Some(MessageType::KEEPALIVE),
    Some(MessageType::PROBE),
    Some(MessageType::ERROR),
    None,
];
/// Messages of a peer with a context.
const OF_CONTEXT: &[Option<MessageType>] = &[
    Some(MessageType::UPDATE_REQUEST),
    Some(MessageType::KEEPALIVE),
    Some(MessageType::PROBE),
    Some(MessageType::PROBE),
    None,
    None,
];
