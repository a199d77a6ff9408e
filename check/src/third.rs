//! A third party off the path: it sends any message with any source address, and receives at its own address only.
//!
//! The third party knows all that is public: the forms of messages, and the locators of the hosts with their proofs. It
//! guesses tags and nonces. Its only secrets are what a host has sent to the third party's own addresses.

mod ilnp;

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use moorline_types::{ContextTag, Ilv, Locator, LocatorPair};
use moorline_wire::{
    ErrorCode, ErrorMessage, I1, I2, I2bis, Keepalive, Message, Opt, OptionType, Options, Packet,
    Probe, ProbeReport, ProbeState, R1, R1bis, R2, UpdateAck, UpdateRequest,
};

use crate::world::{Action, Bounds, What, World};
pub(crate) use ilnp::Heard;
pub use ilnp::IlnpForm;

/// A packet of the third party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Forgery {
    /// The host that gets the packet.
    pub to: usize,
    /// Source address.
    pub source: Source,
    /// Content.
    pub form: Form,
}

/// Source address of a packet of the third party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The ULID of the other host.
    Ulid,
    /// The second locator of the other host.
    Locator,
    /// The third party's own address.
    Own,
    /// The identifier of the other host's ULID at the third party's own locator: an address of the third party, too.
    /// Only messages of ILNP have this source.
    Identifier,
}

/// Content of a packet of the third party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the messages")]
pub enum Form {
    I1,
    R1,
    I2,
    R2,
    R1bis,
    I2bis,
    UpdateRequest,
    UpdateAck,
    Keepalive,
    Check,
    /// A probe of a host in this state.
    Probe(ProbeState),
    Error,
    Payload,
    MovedPayload,
    /// A message of ILNP.
    Ilnp(IlnpForm),
}

impl Form {
    const ALL: [Self; 16] = [
        Self::I1,
        Self::R1,
        Self::I2,
        Self::R2,
        Self::R1bis,
        Self::I2bis,
        Self::UpdateRequest,
        Self::UpdateAck,
        Self::Keepalive,
        Self::Check,
        Self::Probe(ProbeState::Operational),
        Self::Probe(ProbeState::Exploring),
        Self::Probe(ProbeState::InboundOk),
        Self::Error,
        Self::Payload,
        Self::MovedPayload,
    ];
}

impl Forgery {
    /// All packets of the third party: in a world with ILNP those of ILNP, in other worlds those of Shim6.
    pub(crate) fn all(ilnp: bool) -> impl Iterator<Item = Self> {
        let sources = [Source::Ulid, Source::Locator, Source::Own, Source::Identifier];
        let forms = if ilnp { IlnpForm::ALL.map(Form::Ilnp).to_vec() } else { Form::ALL.to_vec() };
        let has_source = move |source: &Source| ilnp || *source != Source::Identifier;
        let sources = sources.into_iter().filter(has_source);
        let ways = (0..2).flat_map(move |to| sources.clone().map(move |source| (to, source)));
        ways.flat_map(move |(to, source)| {
            forms.clone().into_iter().map(move |form| Self { to, source, form })
        })
    }
}

/// Whether the third party receives at this address.
pub(crate) fn is_own(address: Locator) -> bool {
    Ilv::of(address.0).l64 == Ilv::of(OWN.0).l64
}

/// Content of an R1 that a host has sent to the third party's own address.
#[derive(Clone, Debug)]
pub(crate) struct Learnt {
    responder_nonce: u32,
    validator: Vec<u8>,
}

impl Learnt {
    /// Reads a packet of a host. `None` if the packet is no R1.
    pub(crate) fn of(octets: &[u8], pair: LocatorPair) -> Option<Self> {
        let packet = Packet::parse(octets, pair.local.0, pair.peer.0).ok()?;
        let validator = packet.raw_option(OptionType::RESPONDER_VALIDATOR)?.to_vec();
        Some(Self { responder_nonce: packet.responder_nonce()?, validator })
    }
}

impl World {
    /// The addresses and the content of a packet of the third party.
    pub(crate) fn forge(&self, forgery: Forgery) -> (LocatorPair, What) {
        if let Form::Ilnp(form) = forgery.form {
            return self.forge_ilnp(forgery, form);
        }
        let [to, other] = [forgery.to, 1 - forgery.to].map(|n| &self.sides[n].locators);
        let source = match forgery.source {
            Source::Ulid => other[0],
            Source::Locator => other[1],
            Source::Own | Source::Identifier => OWN,
        };
        let pair = LocatorPair::new(source, to[usize::from(self.left.at_second)]);
        let moved = (forgery.form == Form::MovedPayload).then_some(TAG);
        let message = self.forged_message(forgery, pair);
        (pair, message.map_or(What::Payload(moved), |message| What::Control(message.octets())))
    }

    fn forged_message(
        &self,
        Forgery { to, form, .. }: Forgery,
        pair: LocatorPair,
    ) -> Option<Message> {
        let ulids = [1 - to, to].map(|n| self.sides[n].locators[0].as_ulid());
        let ulids = Opt::UlidPair { sender: ulids[0], receiver: ulids[1] };
        let learnt = self.learnt[to].clone();
        let Learnt { responder_nonce, validator } =
            learnt.unwrap_or(Learnt { responder_nonce: GUESS, validator: vec![7; 16] });
        let validator = Opt::Validator(validator);
        let proof = || PROOFS[1 - to].iter().cloned();
        let offer = || proof().chain([validator.clone(), ulids.clone()]).collect();
        let (nonce, none) = (GUESS, Options::default());
        Some(match form {
            Form::Payload | Form::MovedPayload | Form::Ilnp(_) => return None,
            Form::I1 => Message::I1(I1 {
                initiator_tag: TAG,
                initiator_nonce: nonce,
                options: vec![ulids].into(),
            }),
            Form::R1 => Message::R1(R1 {
                initiator_nonce: nonce,
                responder_nonce,
                options: vec![validator].into(),
            }),
            Form::I2 => Message::I2(I2 {
                initiator_tag: TAG,
                initiator_nonce: nonce,
                responder_nonce,
                options: offer(),
            }),
            Form::R2 => Message::R2(R2 {
                responder_tag: TAG,
                initiator_nonce: nonce,
                options: proof().collect(),
            }),
            Form::R1bis => Message::R1bis(R1bis {
                packet_tag: TAG,
                responder_nonce,
                options: vec![validator].into(),
            }),
            Form::I2bis => Message::I2bis(I2bis {
                initiator_tag: TAG,
                initiator_nonce: nonce,
                responder_nonce,
                packet_tag: TAG,
                options: offer(),
            }),
            Form::UpdateRequest => Message::UpdateRequest(UpdateRequest {
                receiver_tag: TAG,
                request_nonce: nonce,
                options: proof().collect(),
            }),
            Form::UpdateAck => Message::UpdateAck(UpdateAck {
                receiver_tag: TAG,
                request_nonce: nonce,
                options: none,
            }),
            Form::Keepalive => Message::Keepalive(Keepalive { receiver_tag: TAG, options: none }),
            Form::Check => probe(ProbeState::Operational, pair, vec![Opt::Check].into()),
            Form::Probe(state) => probe(state, pair, none),
            Form::Error => Message::Error(ErrorMessage {
                code: ErrorCode::UNKNOWN_MESSAGE_TYPE,
                pointer: 2,
                packet: probe(ProbeState::Exploring, pair.reversed(), none).octets(),
            }),
        })
    }
}

/// A probe by a pair, with a report of a probe of the receiver by the same pair.
fn probe(state: ProbeState, pair: LocatorPair, options: Options) -> Message {
    let report = |pair: LocatorPair| {
        vec![ProbeReport { src: pair.local, dst: pair.peer, nonce: GUESS, data: GUESS }]
    };
    let (sent, received) = (report(pair), report(pair.reversed()));
    Message::Probe(Probe { receiver_tag: TAG, state, sent, received, options })
}

/// Options of the I2 of each host, without the validator: its locators and their proof.
static PROOFS: LazyLock<[Vec<Opt>; 2]> = LazyLock::new(|| {
    [0, 1].map(|n| {
        let mut world = World::new(Bounds { triggers: [1, 1], ..Bounds::default() });
        world.take(Action::Trigger(n));
        (0..2).for_each(|_| world.take(Action::Deliver(0)));
        let What::Control(octets) = &world.wire[0].what else { panic!("an I2 is a message") };
        let pair = world.wire[0].pair;
        let packet = Packet::parse(octets, pair.local.0, pair.peer.0).expect("an I2");
        let message = packet.message().expect("an I2");
        let options = message.options().expect("options of an I2").iter();
        let is_proof = |option: &&Opt| option.kind() != OptionType::RESPONDER_VALIDATOR;
        options.filter(is_proof).cloned().collect()
    })
});

/// Address of the third party.
pub(crate) const OWN: Locator = Locator(Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 1));
const TAG: ContextTag = ContextTag::from_bits(0x5a5a_5a5a_5a5a);
const GUESS: u32 = 0x5a5a_5a5a;
