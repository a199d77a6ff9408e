//! Messages of ILNP of the third party.

use moorline_types::{Ilv, IlvPair, Locator, LocatorPair, Nonce};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    Accept, Admission, AdmissionFlags, AdmissionTypes, Chain, Confirm, Control, Echo, Flow,
    L64Entry, LocatorUpdate, NONCE_AT, NonceHeader, Operation, PARAMETER_PROBLEM, Refusal,
    UNRECOGNIZED_OPTION,
};
use moorline_wire::ip6::{self, DESTINATION_OPTIONS, ICMPV6, IP6_LEN, Ip6};

use super::{Forgery, GUESS, OWN, Source};
use crate::world::{What, World};

/// Content of a packet of ILNP of the third party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IlnpForm {
    /// Proposes a session.
    Propose,
    /// Accepts a proposal.
    Accept,
    /// Refuses a proposal.
    Refuse,
    /// Confirms the last Accept that the third party has got from the host.
    Confirm,
    /// A Locator Update with a nonce, which names the third party's locator.
    Update,
    /// A Locator Update without a nonce.
    BareUpdate,
    /// The acknowledgement of a Locator Update with the locator of the sender's ULID.
    Acknowledgement,
    /// A question at a locator.
    EchoRequest,
    /// The answer to a question at a locator.
    EchoReply,
    /// The error that says that a nonce is not known.
    Unknown,
    /// Payload without a nonce.
    Payload,
    /// Payload with a nonce.
    WithNonce,
    /// The last message of the other host to an address of the third party, passed on.
    Relayed,
    /// The last message of this host to an address of the third party, sent back.
    Reflected,
}

impl IlnpForm {
    pub(crate) const ALL: [Self; 14] = [
        Self::Propose,
        Self::Accept,
        Self::Refuse,
        Self::Confirm,
        Self::Update,
        Self::BareUpdate,
        Self::Acknowledgement,
        Self::EchoRequest,
        Self::EchoReply,
        Self::Unknown,
        Self::Payload,
        Self::WithNonce,
        Self::Relayed,
        Self::Reflected,
    ];
}

/// Messages of ILNP that a host has sent to addresses of the third party.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    accept: Option<Accept>,
    /// The last nonce in these messages.
    pub(crate) nonce: Option<Nonce>,
    /// The last message.
    pub(crate) last: Option<Vec<u8>>,
}

impl Heard {
    /// Takes a packet of a host.
    pub(crate) fn take(&mut self, packet: &[u8]) {
        let Ok(control) = Control::read(packet) else { return };
        let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
        let admission = Admission::parse(control.message, AdmissionTypes::default(), src, dst);
        if let Ok(Admission::Accept(accept)) = admission {
            (self.accept, self.nonce) = (Some(accept), Some(accept.responder_nonce));
        }
        self.nonce = control.nonce.or(self.nonce);
        self.last = Some(packet.to_vec());
    }

    /// Whether the host has accepted a session.
    pub(crate) const fn is_accepted(&self) -> bool {
        self.accept.is_some()
    }
}

impl World {
    /// The addresses and the content of a packet of ILNP of the third party.
    pub(super) fn forge_ilnp(&self, forgery: Forgery, form: IlnpForm) -> (LocatorPair, What) {
        let pair = self.pair_of(forgery);
        let addresses =
            LocatorPair::new(Locator(pair.local.address()), Locator(pair.remote.address()));
        let nonce = (form == IlnpForm::WithNonce).then(|| self.guessed_nonce(forgery.to));
        let packet = self.forged_packet(forgery.to, form, pair);
        let what = packet.map_or(What::Foreign(nonce), What::Ilnp);
        (addresses, what)
    }

    /// Source and destination. An identifier is the same at all locators.
    fn pair_of(&self, forgery: Forgery) -> IlvPair {
        let [to, other] = [forgery.to, 1 - forgery.to].map(|n| &self.sides[n].locators);
        let at = |all: &[Locator], nth: usize| Ilv::of(all[0].0).at(Ilv::of(all[nth].0).l64);
        let own = Ilv::of(OWN.0);
        let source = match forgery.source {
            Source::Ulid => at(other, 0),
            Source::Locator => at(other, 1),
            Source::Own => own,
            Source::Identifier => at(other, 0).at(own.l64),
        };
        IlvPair::new(source, at(to, usize::from(self.left.at_second)))
    }

    /// The nonce that the other host has told the third party, or a guess.
    fn guessed_nonce(&self, to: usize) -> Nonce {
        self.heard[1 - to].nonce.unwrap_or(WRONG)
    }

    /// A packet with a control message. `None` for payload.
    fn forged_packet(&self, to: usize, form: IlnpForm, pair: IlvPair) -> Option<Vec<u8>> {
        let (src, dst) = (pair.local.address(), pair.remote.address());
        let nonce = self.guessed_nonce(to);
        let nonce = NonceHeader { next_header: ICMPV6, nonce, sequence: Some(NUMBER) }.emit();
        let with_nonce = |message: &[u8]| {
            ip6::packet(DESTINATION_OPTIONS, src, dst, &[&nonce, message].concat())
        };
        let bare = |message: &[u8]| ip6::packet(ICMPV6, src, dst, message);
        let admission =
            |message: Admission| bare(&message.emit(AdmissionTypes::default(), src, dst));
        let accept = self.heard[to].accept.unwrap_or(GUESSED);
        let update = naming(Operation::ADVERTISEMENT, OWN).emit(src, dst);
        let told = self.sides[to].locators[0];
        let acknowledgement = naming(Operation::ACKNOWLEDGEMENT, told).emit(src, dst);
        let echo = Echo { token: [7; 8] };
        Some(match form {
            IlnpForm::Propose => admission(Admission::Propose(GUESSED.flow)),
            IlnpForm::Accept => admission(Admission::Accept(GUESSED)),
            IlnpForm::Refuse => admission(Admission::Refuse(GUESSED.flow, Refusal::POLICY)),
            IlnpForm::Confirm => {
                admission(Admission::Confirm(Confirm { accept, initiator_nonce: WRONG }))
            }
            IlnpForm::Update => with_nonce(&update),
            IlnpForm::BareUpdate => bare(&update),
            IlnpForm::Acknowledgement => with_nonce(&acknowledgement),
            IlnpForm::EchoRequest => with_nonce(&echo.emit(src, dst)),
            IlnpForm::EchoReply => with_nonce(&echo.emit_reply(src, dst)),
            IlnpForm::Unknown => {
                bare(&error_about(&ip6::packet(DESTINATION_OPTIONS, dst, src, &nonce), pair))
            }
            IlnpForm::Relayed => sent_on(self.heard[1 - to].last.as_deref(), pair),
            IlnpForm::Reflected => sent_on(self.heard[to].last.as_deref(), pair),
            IlnpForm::Payload | IlnpForm::WithNonce => return None,
        })
    }
}

/// A Locator Update with the locator of this address.
fn naming(operation: Operation, address: Locator) -> LocatorUpdate {
    let entry = L64Entry { preference: 0, l64: Ilv::of(address.0).l64, lifetime: 60 };
    LocatorUpdate { operation, locators: vec![entry] }
}

/// The error of a host that does not know the nonce of this packet.
fn error_about(quoted: &[u8], pair: IlvPair) -> Vec<u8> {
    let mut message = vec![PARAMETER_PROBLEM, UNRECOGNIZED_OPTION, 0, 0];
    message.extend(NONCE_AT.to_be_bytes());
    message.extend(quoted);
    fill_icmp_checksum(&mut message, pair.local.address(), pair.remote.address());
    message
}

/// A packet with other addresses, and so with another checksum. Without a packet, an empty message.
fn sent_on(packet: Option<&[u8]>, pair: IlvPair) -> Vec<u8> {
    let (src, dst) = (pair.local.address(), pair.remote.address());
    let header = packet.and_then(|packet| Some((packet, Ip6::read(packet)?)));
    let Some((packet, header)) = header else { return ip6::packet(ICMPV6, src, dst, &[]) };
    let mut payload = packet[IP6_LEN..].to_vec();
    let message = Chain::read(packet, &header).ok().and_then(|chain| chain.icmp_at);
    if let Some(message) = message.and_then(|at| payload.get_mut(at - IP6_LEN..)) {
        fill_icmp_checksum(message, src, dst);
    }
    ip6::packet(header.next_header, src, dst, &payload)
}

const WRONG: Nonce = Nonce::Short([0x5a; 4]);
/// Larger than all numbers of Locator Updates in the worlds.
const NUMBER: u32 = 1000;
const GUESSED: Accept = Accept {
    flow: Flow {
        protocol: 17,
        initiator_port: 40_000,
        responder_port: 7,
        transaction: GUESS,
        flags: AdmissionFlags::CONNECTED,
    },
    flags: AdmissionFlags::CONNECTED,
    number: 1,
    validator: [7; 16],
    responder_nonce: WRONG,
};
