//! Evidence that the rules take from control messages.

use moorline_types::{Instant, LocatorPair};
use moorline_wire::{Message, MessageType, Opt, OptionType, Packet, Probe, ProbeState};

use super::{Rules, name};
use crate::outcome::Rule;

impl Rules {
    /// Checks a control packet of a core.
    pub(crate) fn on_control_sent(
        &mut self,
        host: usize,
        octets: &[u8],
        locators: LocatorPair,
        now: Instant,
    ) {
        let level = self.allowances.on_sent(host, now);
        self.check(level.is_ok(), Rule::ControlBound, now, || {
            format!("{}: {:.1} packets above the bound", name(host), level.unwrap_or_else(|e| e))
        });
        let Ok(packet) = Packet::parse(octets, locators.local.0, locators.peer.0) else { return };
        let is_stateless = STATELESS.contains(&packet.kind());
        let is_answer = is_stateless && self.asked.contains(&(host, locators));
        let is_verified = is_answer || self.is_verified(host, locators.peer);
        self.check(is_verified, Rule::VerifiedLocator, now, || {
            format!("{} sends {:?} by {locators}", name(host), packet.kind())
        });
        let sent = probe(&packet);
        if let Some(probe) = &sent {
            self.check(is_well_formed(probe), Rule::ProbeForm, now, || {
                format!("{} sends {probe:?}", name(host))
            });
        }
        for own in sent.into_iter().flat_map(|probe| probe.sent) {
            if LocatorPair::new(own.src, own.dst) == locators {
                self.probes.insert((host, locators, own.nonce), now);
            }
        }
        if let Some(nonce) = packet.initiator_nonce().filter(|_| ASKS.contains(&packet.kind())) {
            self.probes.insert((host, locators, nonce), now);
            if packet.kind() != MessageType::I1 {
                self.answers.on_second(host, nonce);
            }
        }
        if let Some(nonce) = request_nonce(&packet, MessageType::UPDATE_REQUEST) {
            self.probes.insert((host, locators, nonce), now);
        }
        if is_stateless && let Some((nonce, validator)) = validator(&packet) {
            self.validators.insert((host, nonce, validator));
        }
    }

    /// Notes a control packet that a core gets, or payload for which its data plane knows no context.
    pub(crate) fn on_control_received(
        &mut self,
        host: usize,
        octets: &[u8],
        locators: LocatorPair,
        now: Instant,
    ) {
        self.allowances.on_received(host);
        self.asked.insert((host, locators));
        let Ok(packet) = Packet::parse(octets, locators.peer.0, locators.local.0) else { return };
        let answers = [MessageType::R1, MessageType::R2].contains(&packet.kind());
        let nonce = packet.initiator_nonce().filter(|_| answers);
        let nonce = nonce.or(request_nonce(&packet, MessageType::UPDATE_ACK));
        let is_answer =
            nonce.is_some_and(|nonce| self.probes.contains_key(&(host, locators, nonce)));
        if is_answer || self.is_echo(host, &packet) {
            self.probed.insert((host, locators));
        }
        self.on_peer_heard(host, &packet);
        for report in probe(&packet).into_iter().flat_map(|probe| probe.received) {
            let pair = LocatorPair::new(report.src, report.dst);
            if let Some(&sent) = self.probes.get(&(host, pair, report.nonce)) {
                self.probed.insert((host, pair));
                self.answers.on_answer(host, pair, sent, now);
            }
        }
    }

    /// Checks a new context that a host has after this control packet.
    pub(crate) fn on_new_context(
        &mut self,
        host: usize,
        octets: &[u8],
        locators: LocatorPair,
        now: Instant,
    ) {
        let packet = Packet::parse(octets, locators.peer.0, locators.local.0).ok();
        let second = packet.filter(|packet| SECOND.contains(&packet.kind()));
        let is_valid = second.is_some_and(|packet| self.is_echo(host, &packet));
        self.check(is_valid, Rule::ValidI2, now, || {
            format!("{} made a context without a valid I2", name(host))
        });
    }

    /// Whether the packet has a validator that this host has made.
    fn is_echo(&self, host: usize, packet: &Packet<'_>) -> bool {
        validator(packet)
            .is_some_and(|(nonce, octets)| self.validators.contains(&(host, nonce, octets)))
    }
}

/// Answers that leave no state.
const STATELESS: [MessageType; 3] = [MessageType::R1, MessageType::R1BIS, MessageType::ERROR];
/// Messages that an answer must quote.
const ASKS: [MessageType; 3] = [MessageType::I1, MessageType::I2, MessageType::I2BIS];
/// Messages that make a context at the responder.
const SECOND: [MessageType; 2] = [MessageType::I2, MessageType::I2BIS];

fn validator(packet: &Packet<'_>) -> Option<(u32, Vec<u8>)> {
    let validator = packet.raw_option(OptionType::RESPONDER_VALIDATOR)?;
    Some((packet.responder_nonce()?, validator.to_vec()))
}

/// The nonce of an Update Request or of its acknowledgement: they show as much as a probe and its report.
fn request_nonce(packet: &Packet<'_>, kind: MessageType) -> Option<u32> {
    packet.request_nonce().filter(|_| packet.kind() == kind)
}

/// Whether a probe has the form of RFC 5534 s5.2. A private extension must have the critical option that a peer
/// heeds.
fn is_well_formed(probe: &Probe) -> bool {
    let asks = probe.state == ProbeState::Operational && probe.received.is_empty();
    let is_check = probe.sent.first().is_some_and(|own| asks && CHECKS.contains(&own.data));
    let is_marked = probe.options.iter().any(|option| *option == Opt::Check);
    is_check == is_marked && (probe.state != ProbeState::InboundOk || !probe.received.is_empty())
}

/// Probe Data of checks (decision 046). The value is not taken from the machines.
const CHECKS: [u32; 2] = [0x4d6f_6f72, 0x4d6f_6f52];

fn probe(packet: &Packet<'_>) -> Option<Probe> {
    // Other messages would cost as much to decode, and there are many.
    let message = (packet.kind() == MessageType::PROBE).then(|| packet.message())?;
    let Ok(Message::Probe(probe)) = message else { return None };
    Some(probe)
}
