//! Solicitations and timers of an entry.

use alloc::vec::Vec;

use moorline_ip::Mac;
use moorline_types::Instant;

use super::entry::{Context, Entry, Link, Reach};
use super::{MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT, Output, PROBE_INTERVAL, State};
use crate::Drop;

/// Future of an entry after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// Address resolution has failed.
    Failed,
}

impl Entry {
    /// Asks an unreachable router whether it is back.
    //= rfc4191#3.5-1 rfc4191#3.5-3
    pub(super) fn on_probe(&mut self, context: &mut Context<'_>) {
        let is_unreachable = self.state(context.now) == State::Unreachable;
        let is_due = self.solicited.is_none_or(|at| context.now.since(at) >= PROBE_INTERVAL);
        if is_unreachable && is_due {
            let timer = self.timer;
            self.solicit(None, context);
            self.timer = timer;
        }
    }

    /// Asks for the link-layer address of a router without a packet for it.
    pub(super) fn on_question(&mut self, context: &mut Context<'_>) {
        if let Link::Incomplete { sent: sent @ 0, .. } = &mut self.link {
            *sent = 1;
            self.solicit(None, context);
        }
    }

    /// Asks a neighbor that has never answered whether it exists.
    pub(super) fn on_verify(&mut self, context: &mut Context<'_>) {
        let Link::Known { mac, reach: Reach::Stale | Reach::Delay } = self.link else { return };
        let is_early = self.next_solicitation(context).is_some_and(|at| context.now < at);
        if !self.is_proven && !is_early && context.budget.take(context.now) {
            self.probe(mac, 1, context);
        }
    }

    /// Does what is due at the time of the timer.
    //= rfc4861#7.2.2-10
    pub(super) fn on_timer(&mut self, context: &mut Context<'_>) -> Fate {
        self.timer = self.next_solicitation(context).filter(|earliest| context.now < *earliest);
        if self.timer.is_some() {
            return Fate::Stays;
        }
        match &mut self.link {
            Link::Incomplete { sent, .. } if *sent < MAX_MULTICAST_SOLICIT => {
                *sent += 1;
                self.solicit(None, context);
            }
            Link::Incomplete { .. } => return Fate::Failed,
            Link::Known { mac, reach } => {
                let (mac, reach) = (*mac, *reach);
                self.on_reach_timer(mac, reach, context);
            }
        }
        Fate::Stays
    }

    //= rfc8504#5.4-4
    //= rfc4861#7.3.3-2
    fn on_reach_timer(&mut self, mac: Mac, reach: Reach, context: &mut Context<'_>) {
        match reach {
            Reach::Reachable { .. } | Reach::Stale => {}
            Reach::Delay => self.probe(mac, 1, context),
            Reach::Probe { sent } if sent < MAX_UNICAST_SOLICIT => {
                self.probe(mac, sent + 1, context)
            }
            // RFC 7048 s3: in place of deletion, UNREACHABLE.
            Reach::Probe { .. } => {
                let (neighbor, packets) = (context.neighbor, Vec::new());
                context.outputs.push_back(Output::Unreachable { neighbor, packets });
                self.solicit_all(1, context);
            }
            Reach::Unreachable { sent, is_used: true } => {
                self.solicit_all(sent.saturating_add(1), context)
            }
            // RFC 7048 s3: without packets, "it is RECOMMENDED to stop the retransmits".
            Reach::Unreachable { is_used: false, .. } => {}
        }
    }

    fn probe(&mut self, mac: Mac, sent: u8, context: &mut Context<'_>) {
        self.enter(Reach::Probe { sent }, None);
        self.solicit(Some(mac), context);
    }

    /// Asks the solicited-node group for an unreachable neighbor.
    fn solicit_all(&mut self, sent: u32, context: &mut Context<'_>) {
        self.enter(Reach::Unreachable { sent, is_used: false }, None);
        self.solicit(None, context);
        self.timer = Some(context.now + context.times.backoff(sent));
    }

    pub(super) fn solicit(&mut self, to: Option<Mac>, context: &mut Context<'_>) {
        // Neighbors that have answered before are as many as entries, and ask rarely: only the unknown ones have a budget.
        if self.is_incomplete() && !context.budget.take(context.now) {
            context.drops.count(Drop::SolicitationRate);
            self.timer = Some(context.now + context.times.retrans());
            return;
        }
        let (target, source_hint) = (context.neighbor, self.source_hint);
        context.outputs.push_back(Output::Solicit { target, source_hint, to });
        self.solicited = Some(context.now);
        self.timer = self.next_solicitation(context);
    }

    /// Earliest time for another solicitation.
    //= rfc4861#7.2.2-11 rfc4861#7.3.3-3
    fn next_solicitation(&self, context: &Context<'_>) -> Option<Instant> {
        // RFC 4861 s7.3.3: "A node MUST NOT send Neighbor Solicitations to the same neighbor more frequently than once every
        // RetransTimer milliseconds."
        self.solicited.map(|at| at + context.times.retrans())
    }
}
