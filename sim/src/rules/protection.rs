//! The claim "protected": the peer has the context, and has answered by another pair.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_contexts::{ContextView, Readiness, ReapState};
use moorline_types::{ContextId, ContextTag, Instant, LocatorPair};
use moorline_wire::{Message, MessageType, Packet};

use super::{Rules, name};
use crate::outcome::Rule;

/// Evidence that the peers of a host answer, and have its contexts.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By pair: departure of the last probe that a peer has reported, and arrival of the report.
    by_pair: BTreeMap<(usize, LocatorPair), (Instant, Instant)>,
    /// Nonces of I2s and I2bis.
    seconds: BTreeSet<(usize, u32)>,
    /// Tags of peers that have shown that they have the context.
    confirmed: BTreeSet<(usize, ContextTag)>,
    /// Contexts in I2BIS-SENT, with the time since when.
    renewing: BTreeMap<(usize, ContextId), Instant>,
}

impl Answers {
    /// Notes that a host sends an I2 or I2bis.
    pub(super) fn on_second(&mut self, host: usize, nonce: u32) {
        self.seconds.insert((host, nonce));
    }

    /// Notes that a peer reports a probe that left at `sent`.
    pub(super) fn on_answer(
        &mut self,
        host: usize,
        pair: LocatorPair,
        sent: Instant,
        now: Instant,
    ) {
        let last = self.by_pair.entry((host, pair)).or_insert((sent, now));
        *last = (last.0.max(sent), now);
    }

    /// Time since when a context is in I2BIS-SENT; `None` if it is in another state.
    fn renewing_since(
        &mut self,
        host: usize,
        context: &ContextView,
        now: Instant,
    ) -> Option<Instant> {
        let key = (host, context.id);
        if context.state == "i2bis-sent" {
            return Some(*self.renewing.entry(key).or_insert(now));
        }
        self.renewing.remove(&key);
        None
    }
}

impl Rules {
    /// Notes a control packet that shows that the peer has the context: an R2 for I2 or I2bis, or a packet with our
    /// tag.
    pub(super) fn on_peer_heard(&mut self, host: usize, packet: &Packet<'_>) {
        if packet.kind() == MessageType::R2 {
            let nonce = packet.initiator_nonce();
            let is_for_second =
                nonce.is_some_and(|nonce| self.answers.seconds.contains(&(host, nonce)));
            if let (true, Ok(Message::R2(r2))) = (is_for_second, packet.message()) {
                self.answers.confirmed.insert((host, r2.responder_tag));
            }
        } else if TAGGED.contains(&packet.kind()) {
            let of_host = self.established.iter().filter(|((of, _), _)| *of == host);
            let tag = packet.receiver_tag();
            let mut contexts = of_host.map(|(_, context)| context);
            if let Some(context) = contexts.find(|context| Some(context.local_tag) == tag) {
                self.answers.confirmed.insert((host, context.peer_tag));
            }
        }
    }

    /// Checks the readiness that a host reports for a context. An answer counts for `lifetime`.
    pub(crate) fn on_readiness(
        &mut self,
        host: usize,
        context: &ContextView,
        readiness: Readiness,
        lifetime: Duration,
        now: Instant,
    ) {
        let renewing = self.answers.renewing_since(host, context, now);
        let Readiness::Protected { by, at } = readiness else { return };
        let answer = self.answers.by_pair.get(&(host, by));
        let is_answered = answer.is_some_and(|&(sent, heard)| {
            sent >= at && now.since(sent) <= lifetime && renewing.is_none_or(|since| heard >= since)
        });
        let tags = self.established.get(&(host, context.id));
        let is_confirmed =
            tags.is_some_and(|tags| self.answers.confirmed.contains(&(host, tags.peer_tag)));
        let is_other = context.established.as_ref().is_some_and(|established| {
            established.reap == ReapState::Operational && established.locators != by
        });
        self.check(is_answered && is_confirmed && is_other, Rule::Answered, now, || {
            format!(
                "{}: {} is {}, protected by {by}: answered {is_answered}, confirmed {is_confirmed}, \
                 another pair {is_other}",
                name(host),
                context.ulids,
                context.state
            )
        });
    }
}

/// Messages that a peer sends only if it has the context.
const TAGGED: [MessageType; 4] = [
    MessageType::PROBE,
    MessageType::KEEPALIVE,
    MessageType::UPDATE_REQUEST,
    MessageType::UPDATE_ACK,
];
