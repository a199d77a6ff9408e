use moorline_datapath::shim6::Update;
use moorline_reap as reap;
use moorline_shim6::{Incoming, Used};
use moorline_types::{ContextTag, DropReason, Instant, Locator, LocatorPair};
use moorline_wire::{
    Keepalive, Message, MessageType, Opt, OptionType, Options, Packet, PayloadHeader, Probe,
};

use crate::drain::Pace;
use crate::event::Transmit;
use crate::machine::Contexts;

impl Contexts {
    /// Takes a packet of protocol 140 from its Next Header octet on: a control message, or payload with a tag that the
    /// data plane does not know. `locators` holds our address and the peer's address in the IPv6 header.
    pub fn handle_control(&mut self, octets: &[u8], locators: LocatorPair, now: Instant) {
        self.wake_for(octets, locators, now);
        let outcome = self.on_control(octets, locators, now);
        self.count(outcome);
        self.drain_shim6(now);
    }

    /// Takes an ICMPv6 Parameter Problem of code 1 that quotes a packet of ours, from its Shim6 header on. `locators`
    /// are the addresses of the quoted packet, and `source` is the sender of the ICMPv6 message.
    pub fn handle_unrecognized(
        &mut self,
        quoted: &[u8],
        locators: LocatorPair,
        source: Locator,
        now: Instant,
    ) {
        self.wake_for(quoted, locators, now);
        let outcome = if PayloadHeader::is_payload(quoted) {
            self.on_payload_refused(quoted, locators, source, now)
        } else {
            Packet::parse(quoted, locators.local.0, locators.peer.0).and_then(|packet| {
                self.shim6.handle_no_support(&Incoming { packet: &packet, locators, now })
            })
        };
        self.count(outcome);
        self.drain_shim6(now);
    }

    fn on_control(
        &mut self,
        octets: &[u8],
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        if PayloadHeader::is_payload(octets) {
            let header = PayloadHeader::parse(octets)?;
            let used = Used { tag: header.tag, locators, len: octets.len() };
            return self.shim6.handle_payload(used, now);
        }
        let packet = Packet::parse(octets, locators.peer.0, locators.local.0)?;
        let came = Incoming { packet: &packet, locators, now };
        self.shim6.check(&came)?;
        match packet.kind() {
            MessageType::KEEPALIVE | MessageType::PROBE => self.on_reap(&came),
            MessageType::UPDATE_REQUEST | MessageType::UPDATE_ACK => {
                self.shim6.handle_message(&came)?;
                // The message may have brought other locators to probe.
                self.drain_shim6(now);
                self.on_control_heard(&came)
            }
            MessageType::R1BIS => self.on_r1bis(&came),
            MessageType::I2 | MessageType::I2BIS => {
                if let Some(id) = self.shim6.contested(&came)? {
                    self.contest(id, locators, now)?;
                }
                self.shim6.handle_message(&came)
            }
            MessageType::ERROR => self.on_error(&came),
            _ => self.shim6.handle_message(&came),
        }
    }

    /// Keepalive and Probe: the tag finds the context, and the locators must belong to it (RFC 5533 s12.4).
    fn on_reap(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let &Incoming { packet, locators, now } = came;
        let id = self.shim6.addressed(came)?;
        // The packet may be the first sign that the peer knows this locator.
        self.drain_shim6(now);
        self.hint(id, now);
        let active = self.active.get_mut(&id).ok_or(DropReason::Gone)?;
        let waiting = active.reap.last_waiting();
        if let Message::Probe(probe) = packet.message()? {
            let Probe { state, sent, received, .. } = probe;
            let asked = self.contests.asked(id);
            let is_answer = asked.is_some_and(|asked| active.reap.reports_since(&received, asked));
            let lost = self.shim6.recovers_since(id);
            let is_kept = lost.is_some_and(|since| active.reap.reports_since(&received, since));
            let probe = reap::Probe { state, sent, received };
            let is_check = packet.raw_option(OptionType::CHECK).is_some();
            let taken = if is_check {
                active.reap.handle_probe(locators, &probe, now)
            } else {
                active.reap.handle_plain_probe(locators, &probe, now)
            };
            if let Err(reason) = taken {
                if reason == DropReason::UnknownCriticalOption {
                    self.shim6.refuse_check(came);
                }
                return Err(reason);
            }
            if is_answer {
                self.contests.end(id);
            }
            if is_kept {
                self.shim6.handle_kept(id, now);
                self.drain_shim6(now);
            }
        } else {
            active.reap.handle_keepalive(now)?;
            // The peer gets payload of this host.
            self.shim6.handle_traffic(id);
        }
        // Checks of other pairs say nothing about the pair that payload takes.
        let active = self.active.get(&id).ok_or(DropReason::Gone)?;
        if active.reap.heard() == now {
            self.updates.push_back(Update::Heard { context: id, at: now });
        }
        self.drain_reap_by(id, Pace::Answer(waiting), now);
        self.send_waiting(now);
        Ok(())
    }

    /// An Error about a check comes from a peer that knows no checks. Other Errors are about establishment messages.
    fn on_error(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let Some((id, nonce)) = self.shim6.refused_check(came)? else {
            return self.shim6.handle_message(came);
        };
        let active = self.active.get_mut(&id).ok_or(DropReason::Gone)?;
        active.reap.handle_check_refused(nonce, came.now)?;
        self.drain_reap(id, came.now);
        Ok(())
    }

    //= rfc5534#6.1
    // "Shim6 control messages other than the Keepalive and Probe messages are treated the same".
    fn on_control_heard(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let &Incoming { packet, locators, now } = came;
        let tag = packet.receiver_tag().ok_or(DropReason::Truncated)?;
        let Some(id) = self.shim6.by_tag(tag).map(|context| context.id) else { return Ok(()) };
        let Some(active) = self.active.get_mut(&id) else { return Ok(()) };
        active.reap.handle_control(now);
        if packet.kind() == MessageType::UPDATE_ACK {
            self.contests.end(id);
            let request = self.notes.get_mut(&id).and_then(|notes| notes.request.take());
            let asked = request.zip(packet.request_nonce());
            if asked.is_some_and(|(request, nonce)| request.is_proven_by(nonce, locators)) {
                active.reap.handle_answered(locators, now);
            }
        }
        self.updates.push_back(Update::Heard { context: id, at: now });
        self.drain_reap(id, now);
        Ok(())
    }

    /// The host believes an R1bis only if it has sent a packet that the R1bis can answer. Otherwise an attacker who
    /// knows the tags could make this host give up a context that nobody uses.
    fn on_r1bis(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let &Incoming { packet, locators, now } = came;
        let tag = packet.packet_tag().ok_or(DropReason::Truncated)?;
        let context = self.shim6.by_peer_tag(tag, locators).ok_or(DropReason::UnknownTag)?;
        let active = self.active.get(&context.id).ok_or(DropReason::NotEstablished)?;
        if !active.expects_r1bis(context.key.ulids, locators, now) {
            return Err(DropReason::Disbelieved);
        }
        let id = context.id;
        self.contest_r1bis(id, locators, now)?;
        self.shim6.handle_message(came)?;
        self.on_peer_lost(id, now);
        Ok(())
    }
}

pub(crate) fn emit(locators: LocatorPair, message: &Message) -> Transmit {
    Transmit { locators, octets: message.octets() }
}

pub(crate) fn reap_message(receiver_tag: ContextTag, message: reap::Message) -> Message {
    match message {
        reap::Message::Keepalive => {
            Message::Keepalive(Keepalive { receiver_tag, options: Options::default() })
        }
        reap::Message::Probe(probe) => {
            let options = probe.is_check().then_some(Opt::Check).into_iter().collect();
            let reap::Probe { state, sent, received } = probe;
            Message::Probe(Probe { receiver_tag, state, sent, received, options })
        }
    }
}
