//! Messages of ILNP: those that the state of a node asks for, and all others.

use std::net::Ipv6Addr;

use moorline_types::{Ilv, L64, Nonce};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    Accept, Admission, AdmissionFlags, AdmissionTypes, Confirm, Control, ECHO_MARK, ECHO_REPLY,
    ECHO_REQUEST, Echo, Flow, L64Entry, LocatorUpdate, NonceHeader, Operation, Refusal,
};
use moorline_wire::ip6::{DESTINATION_OPTIONS, ICMPV6, UDP};

use super::actor::{Actor, Ilnp};
use super::dice::Dice;
use super::traffic::{ECHO_PORT, sealed, udp};
use super::wrap::Payload;

/// A message from `ends[0]` to `ends[1]`.
pub(super) fn say(actor: &mut Actor, ends: [Ipv6Addr; 2]) -> Payload {
    let kind = if actor.dice.chance(60) { due(actor) } else { actor.dice.pick(KINDS) };
    let icmp = match kind {
        Kind::Data => return data(actor, ends),
        Kind::Propose => admission(Admission::Propose(flow(&mut actor.dice)), ends),
        Kind::Answer => {
            let answer = answer(actor);
            admission(answer, ends)
        }
        Kind::Confirm => {
            let Some(accept) = actor.ilnp.accept.take() else { return data(actor, ends) };
            actor.has_proved = true;
            let initiator_nonce = actor.ilnp.nonce;
            admission(Admission::Confirm(Confirm { accept, initiator_nonce }), ends)
        }
        Kind::Update => update(actor).emit(ends[0], ends[1]),
        Kind::Acknowledge => {
            let update = actor.ilnp.update.take().unwrap_or_else(|| update(actor));
            update.acknowledgement().emit(ends[0], ends[1])
        }
        Kind::Echo => echo(actor, ends),
    };
    with_nonce(actor, kind, icmp)
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Propose,
    Answer,
    Confirm,
    Update,
    Acknowledge,
    Echo,
}

/// The message that the state of the node asks for.
fn due(actor: &mut Actor) -> Kind {
    let known = &actor.ilnp;
    if known.proposed.is_some() {
        return Kind::Answer;
    }
    if known.accept.is_some() {
        return Kind::Confirm;
    }
    if known.update.is_some() {
        return Kind::Acknowledge;
    }
    if known.echo.is_some() {
        return Kind::Echo;
    }
    actor.dice.pick(&[Kind::Propose, Kind::Data, Kind::Data, Kind::Update])
}

fn flow(dice: &mut Dice) -> Flow {
    let responder_port = if dice.chance(80) { ECHO_PORT } else { dice.port() };
    Flow {
        protocol: dice.pick(&[17, 17, 17, 6, 33]),
        initiator_port: dice.port(),
        responder_port,
        transaction: dice.word(),
        flags: AdmissionFlags(dice.octet() & 0xf),
    }
}

/// Accept or Refuse, mostly for the proposal of the host.
fn answer(actor: &mut Actor) -> Admission {
    let dice = &mut actor.dice;
    // The answer returns the transaction of the host.
    actor.has_proved |= actor.ilnp.proposed.is_some();
    let flow = actor.ilnp.proposed.take().unwrap_or_else(|| flow(dice));
    if dice.chance(15) {
        return Admission::Refuse(flow, dice.pick(Refusal::KNOWN));
    }
    Admission::Accept(Accept {
        flow,
        flags: AdmissionFlags(dice.octet() & 0xf),
        number: dice.word(),
        validator: std::array::from_fn(|_| dice.octet()),
        responder_nonce: actor.ilnp.nonce,
    })
}

fn admission(message: Admission, [from, to]: [Ipv6Addr; 2]) -> Vec<u8> {
    message.emit(AdmissionTypes::default(), from, to)
}

/// A Locator Update that names own locators, those of the host, or as many as it can.
fn update(actor: &mut Actor) -> LocatorUpdate {
    let dice = &mut actor.dice;
    let own = actor.own.iter().chain(&actor.victim).map(|address| Ilv::of(*address).l64);
    let own: Vec<L64> = own.collect();
    let count = if dice.chance(5) { 255 } else { 1 + dice.below(4) };
    let entry = |_| L64Entry {
        l64: if dice.chance(80) { dice.pick(&own) } else { L64(ELSEWHERE | dice.long() >> 4) },
        preference: u16::from(dice.octet()),
        lifetime: dice.pick(&[0, 1, 3600, 3600, u16::MAX]),
    };
    let locators = (0..count).map(entry).collect();
    LocatorUpdate { operation: Operation::ADVERTISEMENT, locators }
}

/// A reply to the echo request of the host, or a request with its mark.
fn echo(actor: &mut Actor, [from, to]: [Ipv6Addr; 2]) -> Vec<u8> {
    let token = std::array::from_fn(|_| actor.dice.octet());
    let Some(data) = actor.ilnp.echo.take() else { return Echo { token }.emit(from, to) };
    let mut reply = vec![ECHO_REPLY, 0, 0, 0];
    reply.extend(ECHO_MARK);
    reply.extend(data);
    fill_icmp_checksum(&mut reply, from, to);
    reply
}

/// A datagram with the nonce of the node.
fn data(actor: &mut Actor, [from, to]: [Ipv6Addr; 2]) -> Payload {
    let dice = &mut actor.dice;
    let ports = [dice.port(), ECHO_PORT];
    let length = dice.below(600);
    let datagram = udp(ports, &dice.octets(length));
    // RFC 6741 s4.2: the checksum does not cover locators.
    let nowhere = |address| Ilv::of(address).at(L64(0)).address();
    let datagram = sealed(UDP, 6, datagram, [nowhere(from), nowhere(to)]);
    behind_nonce(actor, datagram)
}

/// Locator Updates and echoes carry a nonce, mostly.
fn with_nonce(actor: &mut Actor, kind: Kind, icmp: Vec<u8>) -> Payload {
    let message = Payload { next_header: ICMPV6, octets: icmp };
    let is_bare = matches!(kind, Kind::Propose | Kind::Answer | Kind::Confirm);
    let percent = if is_bare { 5 } else { 85 };
    if actor.dice.chance(percent) { behind_nonce(actor, message) } else { message }
}

/// Puts a Nonce option in front, with the number of updates between hosts with the handshake, or as in the RFC.
fn behind_nonce(actor: &mut Actor, Payload { next_header, octets }: Payload) -> Payload {
    let (dice, known) = (&mut actor.dice, &mut actor.ilnp);
    let mut nonce = known.nonce;
    if dice.chance(10) {
        nonce = Nonce::from_octets(&dice.octets(12)).unwrap_or(nonce);
    }
    known.sequence = known.sequence.wrapping_add(1);
    let sequence = dice.chance(50).then_some(known.sequence);
    let header = NonceHeader { next_header, nonce, sequence }.emit();
    Payload { next_header: DESTINATION_OPTIONS, octets: [header, octets].concat() }
}

/// Takes a packet of the host.
pub(super) fn hear(known: &mut Ilnp, packet: &[u8]) {
    let Ok(control) = Control::read(packet) else { return };
    let (from, to) = (control.pair.remote.address(), control.pair.local.address());
    let message = control.message;
    match Admission::parse(message, AdmissionTypes::default(), from, to) {
        Ok(Admission::Propose(flow)) => known.proposed = Some(flow),
        Ok(Admission::Accept(accept)) => known.accept = Some(accept),
        Ok(Admission::Refuse(..) | Admission::Confirm(_)) => {}
        Err(_) => {
            if let Ok(update) = LocatorUpdate::parse(message, from, to)
                && update.operation == Operation::ADVERTISEMENT
            {
                known.update = Some(update);
            } else if message.starts_with(&[ECHO_REQUEST, 0])
                && message.get(4..8) == Some(&ECHO_MARK)
            {
                known.echo = message.get(8..).map(<[u8]>::to_vec);
            }
        }
    }
}

/// Global unicast locators that no node of the soak has.
pub(super) const ELSEWHERE: u64 = 0x3 << 60;
const KINDS: &[Kind] = &[
    Kind::Data,
    Kind::Propose,
    Kind::Answer,
    Kind::Confirm,
    Kind::Update,
    Kind::Acknowledge,
    Kind::Echo,
];
