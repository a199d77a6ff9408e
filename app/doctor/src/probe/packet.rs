use std::net::Ipv6Addr;

use moorline_api::Pair;
use moorline_types::ContextTag;
use moorline_wire::ilnp::consts::LOCATOR_UPDATE;
use moorline_wire::ilnp::{Admission, AdmissionFlags, AdmissionTypes, Flow};
use moorline_wire::ip6::{self, DESTINATION_OPTIONS, ICMPV6, IP6_LEN, UDP};
use moorline_wire::{I1, Message, Opt, Options, PROTOCOL as SHIM6, Packet, fill_icmp_checksum};

use super::{Kind, Way};
use crate::icmpv6::{ECHO_REPLY, ECHO_REQUEST};

/// Test: packets, and the number that identifies the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    pub(super) packets: Vec<Vec<u8>>,
    /// Sequence number of the echo request; low half of the nonce of an I1.
    pub(super) sequence: u16,
}

/// Random octets that identify our packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token(pub(super) [u8; 16]);

impl Token {
    fn identifier(self) -> [u8; 2] {
        [self.0[0], self.0[1]]
    }

    /// Returns the nonce of an I1: random bits and the number of the test.
    fn nonce(self, sequence: u16) -> u32 {
        u32::from_be_bytes([self.0[2], self.0[3], 0, 0]) | u32::from(sequence)
    }

    /// Returns the number of the test from the nonce of an I1 or the transaction of a Propose.
    fn sequence_of(self, nonce: [u8; 4]) -> Option<u16> {
        let [t0, t1, s0, s1] = nonce;
        ([t0, t1] == [self.0[2], self.0[3]]).then(|| u16::from_be_bytes([s0, s1]))
    }
}

pub(super) fn test(kind: Kind, way: &Way, token: Token, sequence: u16) -> Test {
    let pair = way.pair;
    let AdmissionTypes { initiator, responder } = types(way);
    let refused = |kind| {
        let message = icmpv6(pair, kind, token, sequence, 64);
        vec![whole(pair, DESTINATION_OPTIONS, &behind_refused_option(&message))]
    };
    let echo = |octets: usize| icmpv6(pair, ECHO_REQUEST, token, sequence, octets);
    let packets = match kind {
        Kind::Plain => vec![whole(pair, ICMPV6, &echo(64))],
        // The second packet is for peers that ignore messages with unknown options.
        Kind::Shim6 => [Options::from_iter([Opt::Source(pair.local.into())]), Options::default()]
            .map(|options| whole(pair, SHIM6, &i1(token, sequence, options)))
            .to_vec(),
        Kind::Options8 => vec![whole(pair, DESTINATION_OPTIONS, &behind_options(8, &echo(64)))],
        Kind::Options16 => vec![whole(pair, DESTINATION_OPTIONS, &behind_options(16, &echo(64)))],
        Kind::Fragments => fragments(pair, token, sequence, &echo(FRAGMENTED)),
        Kind::Size1280 => return sized(1280, pair, token, sequence),
        Kind::Size1500 => return sized(1500, pair, token, sequence),
        Kind::Ilnp => vec![whole(pair, ICMPV6, &propose(way, token, sequence))],
        Kind::LocatorUpdate => refused(LOCATOR_UPDATE),
        Kind::Initiator => refused(initiator),
        Kind::Responder => refused(responder),
    };
    Test { packets, sequence }
}

/// Makes an echo request of this length, including the IPv6 header.
pub(super) fn sized(octets: u32, pair: Pair, token: Token, sequence: u16) -> Test {
    let octets = usize::try_from(octets).unwrap_or(IP6_LEN).saturating_sub(IP6_LEN);
    let echo = icmpv6(pair, ECHO_REQUEST, token, sequence, octets);
    Test { packets: vec![whole(pair, ICMPV6, &echo)], sequence }
}

/// Returns the number of the test that a packet answers.
pub(super) fn answered(
    protocol: u8,
    octets: &[u8],
    responder: Option<u8>,
    token: Token,
) -> Option<u16> {
    match (protocol, octets) {
        (ICMPV6, [ECHO_REPLY, 0, _, _, id0, id1, s0, s1, rest @ ..]) => {
            let is_ours = [*id0, *id1] == token.identifier() && rest.starts_with(&token.0);
            is_ours.then(|| u16::from_be_bytes([*s0, *s1]))
        }
        // The nonce of an R1 is behind 4 octets of header, 2 of checksum, 2 reserved (RFC 5533 s5.5).
        (SHIM6, [_, _, R1, _, _, _, _, _, n0, n1, n2, n3, ..]) => {
            token.sequence_of([*n0, *n1, *n2, *n3])
        }
        // Accept or Refuse: the transaction is behind 16 octets (decision 070).
        (ICMPV6, [kind, ..]) if Some(*kind) == responder => {
            token.sequence_of(*octets.get(TRANSACTION_AT..)?.first_chunk()?)
        }
        _ => None,
    }
}

/// ICMPv6 error and the packet that it quotes.
pub(super) struct Quote<'a> {
    pub(super) kind: u8,
    pub(super) code: u8,
    /// MTU of a Packet Too Big.
    pub(super) mtu: u32,
    packet: &'a [u8],
}

impl<'a> Quote<'a> {
    pub(super) fn read(octets: &'a [u8]) -> Option<Self> {
        let [kind @ 1..=4, code, _, _, m0, m1, m2, m3, packet @ ..] = octets else { return None };
        let mtu = u32::from_be_bytes([*m0, *m1, *m2, *m3]);
        Some(Self { kind: *kind, code: *code, mtu, packet })
    }

    /// Whether the error quotes this packet. Routers change the hop limit and may change the first word.
    pub(super) fn is_of(&self, sent: &[u8]) -> bool {
        let length = self.packet.len().min(sent.len()).min(MAX_COMPARED);
        length >= IP6_LEN + 16
            && self.packet[4..7] == sent[4..7]
            && self.packet[8..length] == sent[8..length]
    }

    pub(super) fn is_unrecognized_next_header(&self) -> bool {
        (self.kind, self.code) == (4, 1)
    }

    pub(super) fn is_unrecognized_option(&self) -> bool {
        (self.kind, self.code) == (4, 2)
    }

    /// Describes the error (RFC 4443 s3).
    pub(super) fn words(&self) -> String {
        let text = match (self.kind, self.code) {
            (1, 0) => "no route",
            (1, 1) => "administratively prohibited",
            (1, 2) => "beyond scope of source",
            (1, 3) => "address unreachable",
            (1, 4) => "port unreachable",
            (1, 5) => "source address failed policy",
            (1, 6) => "reject route",
            (1, _) => "unreachable",
            (2, _) => return format!("packet too big, MTU {}", self.mtu),
            (3, _) => "time exceeded",
            (4, 1) => "unrecognized next header",
            (4, 2) => "unrecognized option",
            (4, _) => "parameter problem",
            _ => "error",
        };
        text.to_owned()
    }
}

fn whole(pair: Pair, next: u8, payload: &[u8]) -> Vec<u8> {
    ip6::packet(next, pair.local, pair.peer, payload)
}

/// Makes an ICMPv6 message of `octets` octets.
fn icmpv6(pair: Pair, kind: u8, token: Token, sequence: u16, octets: usize) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0];
    message.extend(token.identifier());
    message.extend(sequence.to_be_bytes());
    message.extend(token.0);
    message.resize(octets.max(message.len()), 0);
    fill_icmp_checksum(&mut message, pair.local, pair.peer);
    message
}

/// Returns the source address of our I1 that the peer reports in its R1.
pub(super) fn seen_source(protocol: u8, octets: &[u8], pair: Pair) -> Option<Ipv6Addr> {
    if protocol != SHIM6 {
        return None;
    }
    let packet = Packet::parse(octets, pair.peer, pair.local).ok()?;
    let Ok(Message::R1(r1)) = packet.message() else { return None };
    r1.options.source().map(|locator| locator.0)
}

fn i1(token: Token, sequence: u16, options: Options) -> Vec<u8> {
    let mut tag = [0; 8];
    tag[2..].copy_from_slice(&token.0[4..10]);
    let message = Message::I1(I1 {
        initiator_tag: ContextTag::from_bits(u64::from_be_bytes(tag) >> 1),
        initiator_nonce: token.nonce(sequence),
        options,
    });
    message.octets()
}

/// Makes a Propose for a connection that does not exist, so that the peer refuses it.
fn propose(way: &Way, token: Token, sequence: u16) -> Vec<u8> {
    let flow = Flow {
        protocol: UDP,
        initiator_port: 0,
        responder_port: 0,
        transaction: token.nonce(sequence),
        flags: AdmissionFlags::default(),
    };
    Admission::Propose(flow).emit(types(way), way.pair.local, way.pair.peer)
}

fn types(way: &Way) -> AdmissionTypes {
    let types = way.ilnp.map(|[initiator, responder]| AdmissionTypes { initiator, responder });
    types.unwrap_or_default()
}

/// Puts two headers of destination options before a message. The second header has an option that every host refuses with an
/// error (RFC 8200 s4.2). With a single header, the programs of a peer with ILNP would take the message before the peer's
/// stack.
fn behind_refused_option(message: &[u8]) -> Vec<u8> {
    let mut packet = vec![DESTINATION_OPTIONS, 0, PADN, 4, 0, 0, 0, 0];
    packet.extend([ICMPV6, 0, REFUSED_EXPERIMENT, 4, 0, 0, 0, 0]);
    packet.extend(message);
    packet
}

/// Puts destination options of `octets` octets before a message: one option that every host may skip (RFC 4727 s5.1).
fn behind_options(octets: u8, message: &[u8]) -> Vec<u8> {
    let mut packet = vec![ICMPV6, octets / 8 - 1, EXPERIMENT, octets - 4];
    packet.resize(usize::from(octets), 0);
    packet.extend(message);
    packet
}

fn fragments(pair: Pair, token: Token, sequence: u16, message: &[u8]) -> Vec<Vec<u8>> {
    let (first, second) = message.split_at(FRAGMENTED / 2);
    let fragment = |offset: usize, more: bool, part: &[u8]| {
        let offset = u16::try_from(offset).unwrap_or_default() | u16::from(more);
        let mut payload = vec![ICMPV6, 0];
        payload.extend(offset.to_be_bytes());
        payload.extend(&token.0[10..12]);
        payload.extend(sequence.to_be_bytes());
        payload.extend(part);
        whole(pair, FRAGMENT, &payload)
    };
    vec![fragment(0, true, first), fragment(first.len(), false, second)]
}

const FRAGMENT: u8 = 44;
/// Type of R1 (RFC 5533 s5.3).
const R1: u8 = 2;
/// Option for experiments (RFC 4727 s5.1); a host that does not know it skips it.
const EXPERIMENT: u8 = 0x1e;
/// Option for experiments (RFC 4727 s5.1); a host that does not know it returns an error.
const REFUSED_EXPERIMENT: u8 = 0x9e;
const PADN: u8 = 1;
/// Offset of the transaction in a message of ILNP's handshake.
const TRANSACTION_AT: usize = 16;
/// Octets of a message that is sent in two fragments: each half is a multiple of 8, and the reply fits any link.
const FRAGMENTED: usize = 1216;
/// Octets of a quoted packet that are compared; the octets behind are zeros.
const MAX_COMPARED: usize = 96;
