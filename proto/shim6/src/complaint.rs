use moorline_types::{ContextId, ContextTag, DropReason};
use moorline_wire::{ErrorCode, ErrorMessage, Message, MessageType, OptionType};

use crate::context::{Context, Established, State};
use crate::event::{Failure, Incoming, Via};
use crate::machine::Machine;

/// Error messages (RFC 5533 s5.14): this host sends them about messages that it does not know, and takes them from
/// peers that do not know its messages.
impl Machine {
    /// Refuses a message of an unknown type, or with an unknown critical option, and sends an Error.
    ///
    /// # Errors
    /// [`UnknownType`](DropReason::UnknownType) and
    /// [`UnknownCriticalOption`](DropReason::UnknownCriticalOption).
    pub fn check(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#12.3
        //= rfc5533#5.15-6 rfc5533#5.15-7 rfc5533#12.3-1
        if !came.packet.kind().is_known() {
            self.complain(came, ErrorCode::UNKNOWN_MESSAGE_TYPE, TYPE_AT);
            return Err(DropReason::UnknownType);
        }
        match came.packet.unknown_critical() {
            None => Ok(()),
            Some(pointer) => {
                self.complain(came, ErrorCode::CRITICAL_OPTION, pointer);
                Err(DropReason::UnknownCriticalOption)
            }
        }
    }

    /// This host knows no checks: sends an Error to the sender of a check, as a host that follows RFC 5533 alone does
    /// (decision 143).
    //= rfc5533#12.3-1
    pub fn refuse_check(&mut self, came: &Incoming<'_>) {
        let mut options = came.packet.options().map_while(Result::ok);
        if let Some(option) = options.find(|option| option.kind == OptionType::CHECK) {
            self.complain(came, ErrorCode::CRITICAL_OPTION, option.offset);
        }
    }

    /// The context and the nonce of a check that an Error refuses. `None`: the Error is about something else.
    ///
    /// # Errors
    /// [`Unasked`](DropReason::Unasked): the Error quotes a probe of no context.
    pub fn refused_check(
        &self,
        came: &Incoming<'_>,
    ) -> Result<Option<(ContextId, u32)>, DropReason> {
        let Message::Error(error) = came.packet.message()? else { return Ok(None) };
        let message = quoted_message(&error.packet);
        let quoted = Quoted::read(message).ok_or(DropReason::Truncated)?;
        if quoted.kind != MessageType::PROBE || error.code != ErrorCode::CRITICAL_OPTION {
            return Ok(None);
        }
        let context = self.by_peer_tag(quoted.tag, came.locators).ok_or(DropReason::Unasked)?;
        let nonce = message.get(PROBE_NONCE_AT..).and_then(<[u8]>::first_chunk);
        let nonce = nonce.ok_or(DropReason::Truncated)?;
        Ok(Some((context.id, u32::from_be_bytes(*nonce))))
    }

    /// Sends an Error, if the limit for its receiver allows. The Error quotes the message only so far that the answer
    /// is no longer than the question, and a question of 8 octets gets no Error. So an attacker cannot make this host send
    /// more to an address than the attacker sent.
    pub(crate) fn complain(&mut self, came: &Incoming<'_>, code: ErrorCode, pointer: u16) {
        let &Incoming { packet, locators, now } = came;
        let context = packet.receiver_tag().and_then(|tag| self.table.by_tag(tag));
        let established = context.and_then(Context::established);
        //= rfc5533#10.4-3
        // If the context does not have the source, the sender gets an R1bis only.
        let is_strange = established.is_some_and(|known| !known.has_locators(locators));
        let octets = packet.octets();
        let is_refused = packet.kind() == MessageType::ERROR || is_strange;
        let is_short = octets.len() <= ERROR_HEADER_LEN;
        if is_refused || is_short || self.take_answer(locators.peer, now).is_err() {
            return;
        }
        let quoted = octets.len().saturating_sub(ERROR_HEADER_LEN);
        let packet = octets.get(..quoted).unwrap_or(octets).to_vec();
        let error = Message::Error(ErrorMessage { code, pointer, packet });
        self.push_transmit(Via::Pair(locators), error);
    }

    /// Takes an Error. The machine believes it only if it quotes a message of ours that waits for its answer, with tag
    /// and nonce. In that case the machine does not send the message again.
    pub(crate) fn on_error(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        let &Incoming { packet, locators, now } = came;
        let Message::Error(error) = packet.message()? else { return Err(DropReason::UnknownType) };
        let quoted = Quoted::read(quoted_message(&error.packet)).ok_or(DropReason::Truncated)?;
        let context = match quoted.kind {
            MessageType::UPDATE_REQUEST => self.by_peer_tag(quoted.tag, locators),
            MessageType::I1 | MessageType::I2 | MessageType::I2BIS => {
                let waiting = self.table.by_nonce(quoted.nonce, locators);
                waiting.filter(|context| context.local_tag == quoted.tag)
            }
            _ => None,
        };
        let context = context.ok_or(DropReason::Unasked)?;
        let id = context.id;
        let awaits_ack = |settled: &Established| {
            settled.update.as_ref().is_some_and(|update| update.nonce == quoted.nonce)
        };
        match (quoted.kind, context.state()) {
            (MessageType::I1, State::I1Sent) | (MessageType::I2, State::I2Sent) => {
                self.fail(id, Failure::NoSupport, now);
            }
            // An attacker on the path can forge both the R1bis and this Error. A peer that has the context shows so
            // before the I2bis is sent again (decisions 154 and 165).
            (MessageType::I2BIS, State::I2bisSent) if !context.is_renewal_late() => {
                return Err(DropReason::Disbelieved);
            }
            (MessageType::I2BIS, State::I2bisSent) => {
                let asked = context.handshake().cloned();
                self.start_anew(id, &asked.ok_or(DropReason::BadNonce)?, now);
            }
            (MessageType::UPDATE_REQUEST, State::Established)
                if context.established().is_some_and(awaits_ack) =>
            {
                self.on_update_refused(id, now);
            }
            _ => return Err(DropReason::BadNonce),
        }
        Ok(())
    }
}

/// The message that an Error quotes. By RFC 5533 s5.14 an Error quotes the invoking packet, and s12.4 reads the
/// addresses of that packet. Some implementations, and this one, quote the message alone. Both forms are understood:
/// Next Header of a control message (59) does not look like version 6.
//= rfc5533#5.14
fn quoted_message(quoted: &[u8]) -> &[u8] {
    match quoted.first() {
        Some(first) if first >> 4 == 6 => quoted.get(IPV6_HEADER_LEN..).unwrap_or_default(),
        _ => quoted,
    }
}

/// The start of a quoted message, which tells a message of ours from a forged one. I1, I2, I2bis and Update Request
/// have tag and nonce in the same place.
struct Quoted {
    kind: MessageType,
    tag: ContextTag,
    nonce: u32,
}

impl Quoted {
    fn read(octets: &[u8]) -> Option<Self> {
        let &[_, _, kind, _, _, _, t0, t1, t2, t3, t4, t5, n0, n1, n2, n3] =
            octets.first_chunk::<16>()?;
        Some(Self {
            kind: MessageType::new(kind),
            tag: ContextTag::from_octets([t0, t1, t2, t3, t4, t5]),
            nonce: u32::from_be_bytes([n0, n1, n2, n3]),
        })
    }
}

/// Octets of an IPv6 header.
const IPV6_HEADER_LEN: usize = 40;
/// Octets of an Error before the quoted packet.
const ERROR_HEADER_LEN: usize = 8;
/// Offset of the first Probe Nonce in a Probe, behind the header and two addresses.
const PROBE_NONCE_AT: usize = 48;
/// Offset of the Type in a control message.
const TYPE_AT: u16 = 2;
