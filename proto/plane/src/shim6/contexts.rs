use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use moorline_datapath::shim6::{ContextEntry, MAX_PEER_LOCATORS};
use moorline_index::Deadlines;
use moorline_types::{ContextId, ContextTag, Instant, Locator, LocatorPair, UlidPair};

use crate::reports::Reports;
use crate::shim6::budget::Budget;
use crate::shim6::congestion::Congestion;
use crate::shim6::hint::{Awaited, is_watched};
use crate::shim6::label::Labels;
use crate::shim6::live::{Live, Look};
use crate::shim6::tcp::{Flow, Payload, Segments};

/// All contexts that the core has given to the plane, found by slot, by ULIDs and by tag.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    slots: BTreeMap<ContextId, Slot>,
    by_ulids: BTreeMap<UlidPair, ContextId>,
    by_tag: BTreeMap<ContextTag, ContextId>,
    /// Paths of contexts that have moved, by tag and locators of their packets.
    by_quote: BTreeMap<(ContextTag, LocatorPair), ContextId>,
    /// Earliest times to look at the timers of a context.
    deadlines: Deadlines,
    flows: FlowTables,
    /// Budget of reports that the peer has not shown itself.
    unproven: Budget,
}

/// The plane's knowledge of the flows of all contexts, or of all sessions.
#[derive(Debug, Default)]
pub(crate) struct FlowTables {
    pub(crate) segments: Segments,
    pub(crate) labels: Labels,
}

/// Facts about a packet that is payload of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Length in octets as sockets see the packet.
    pub(crate) octets: usize,
    pub(crate) payload: Payload,
    /// Whether the packet came with the context tag.
    pub(crate) is_tagged: bool,
    pub(crate) has_ce: bool,
    pub(crate) at: Instant,
}

impl Seen {
    /// Whether the sender knows a TCP connection of the context with this tag.
    fn is_acknowledged(&self, local_tag: ContextTag, segments: &mut Segments) -> bool {
        let Payload::Tcp(tcp) = self.payload else { return false };
        segments.is_acknowledged(Flow::new(local_tag, tcp.destination, tcp.source), &tcp)
    }

    /// Whether the datagram has the label of a flow that this host sends.
    fn has_label(&self, local_tag: ContextTag, labels: &mut Labels) -> bool {
        let Payload::Datagram(datagram) = self.payload else { return false };
        let flow = Flow::new(local_tag, datagram.destination, datagram.source);
        labels.on_received(flow, datagram.label)
    }
}

/// Conclusions from a received packet about its sender.
#[derive(Clone, Copy, Debug)]
struct Shown {
    /// The sender is the peer.
    is_proof: bool,
    /// The sender may be the peer, which stops the Send Timer.
    is_sign_of_life: bool,
    /// The packet may be the answer that this host waits for.
    is_answer: bool,
}

/// A context, and the notes of the plane about it.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Decisions of the core; the peer locators are sorted.
    pub(crate) entry: ContextEntry,
    pub(crate) live: Live,
    /// Counters of congestion, if the entry asks for them.
    pub(crate) congestion: Option<Congestion>,
}

impl Slot {
    pub(crate) fn is_peer_locator(&self, locator: Locator) -> bool {
        self.entry.peer_locators.binary_search(&locator).is_ok()
    }

    /// Notes a sent packet. Returns the time to look at the timers, if a period or a wait begins.
    fn on_sent(
        &mut self,
        seen: Seen,
        FlowTables { segments, labels }: &mut FlowTables,
        reports: &mut Reports,
    ) -> Option<Instant> {
        let Self { entry, live, congestion } = self;
        let look = &mut Look { entry, reports, now: seen.at };
        let send = live.on_sent(seen.octets, look);
        if !entry.suspects && congestion.is_none() {
            return send;
        }
        let (mut awaited, mut again) = (None, false);
        match seen.payload {
            Payload::Tcp(tcp) => {
                let flow = Flow::new(entry.local_tag, tcp.source, tcp.destination);
                let span = tcp.span(seen.octets);
                again = span != 0 && segments.note(flow, &tcp, span);
                if let Some(congestion) = congestion {
                    congestion.on_sent(&tcp, flow, span, again, seen.at);
                }
                if span == 0 {
                    return send;
                }
                // Anybody can have a listening socket send a SYN, and the peer does not acknowledge that.
                awaited = (!tcp.is_syn()).then_some(Awaited::Tcp(flow));
            }
            Payload::Cut => return send,
            // In a wait of such a flow, a datagram gives no new information.
            Payload::Datagram(datagram) if is_watched(entry) && live.wait.of_flow().is_none() => {
                let flow = Flow::new(entry.local_tag, datagram.source, datagram.destination);
                awaited = labels.on_sent(flow).then_some(Awaited::Datagrams(flow));
            }
            Payload::Datagram(_) | Payload::Other => {}
        }
        let silence = live.wait.on_sent(awaited, again, look);
        send.into_iter().chain(silence).min()
    }

    /// Notes a received packet. Returns the time to look at the timers, if a period begins.
    fn on_received(
        &mut self,
        seen: Seen,
        flows: &mut FlowTables,
        unproven: &mut Budget,
        reports: &mut Reports,
    ) -> Option<Instant> {
        let local_tag = self.entry.local_tag;
        let Shown { is_proof, is_sign_of_life, is_answer } = self.shown_by(seen, flows);
        let FlowTables { segments, labels } = flows;
        let look = &mut Look { entry: &self.entry, reports, now: seen.at };
        if is_sign_of_life && self.live.is_unanswered() {
            let Live { unproven: since, wait, .. } = &mut self.live;
            if is_proof {
                since.on_proof();
            } else if is_watched(&self.entry) && since.is_due(seen.at) {
                // Only now, and so once a second, compare what TCP acknowledges outside of a wait.
                if seen.is_acknowledged(local_tag, segments) {
                    since.on_proof();
                } else {
                    since.report(wait.usual_wait(), unproven, look);
                }
            }
        }
        if is_sign_of_life {
            self.live.on_sign_of_life();
        }
        if let Some(congestion) = &mut self.congestion {
            congestion.on_received(seen, look);
        }
        if is_answer && let Some(missed) = self.live.on_answer(look) {
            labels.on_missed(missed);
        }
        self.live.on_received(seen.octets, look)
    }

    /// Draws conclusions from a received packet. If another flow has taken the place of the flow that waits, nothing can be compared.
    fn shown_by(&self, seen: Seen, FlowTables { segments, labels }: &mut FlowTables) -> Shown {
        let (wait, tag) = (&self.live.wait, self.entry.local_tag);
        if seen.is_tagged {
            return Shown { is_proof: true, is_sign_of_life: true, is_answer: true };
        }
        if let Some(Awaited::Tcp(flow)) = wait.of_flow()
            && segments.has(flow)
        {
            let is_proof = seen.is_acknowledged(tag, segments);
            return Shown { is_proof, is_sign_of_life: is_proof, is_answer: is_proof };
        }
        let wants_label = is_watched(&self.entry) && wait.wants_label();
        let has_label = wants_label && seen.has_label(tag, labels);
        let can_compare =
            matches!(wait.of_flow(), Some(Awaited::Datagrams(flow)) if labels.knows(flow));
        let is_answer = has_label || !can_compare || seen.is_acknowledged(tag, segments);
        Shown { is_proof: false, is_sign_of_life: true, is_answer }
    }
}

impl Contexts {
    pub(crate) fn entries(&self) -> impl Iterator<Item = &ContextEntry> + '_ {
        self.slots.values().map(|slot| &slot.entry)
    }

    /// Adds or replaces a context. If the slot has a context with other ULIDs, the caller must have removed it
    /// before.
    pub(crate) fn upsert(&mut self, entry: &ContextEntry, reports: &mut Reports, now: Instant) {
        let id = entry.id;
        let mut entry = entry.clone();
        let mut peers: Vec<_> =
            entry.peer_locators.iter().copied().take(MAX_PEER_LOCATORS).collect();
        peers.sort_unstable();
        entry.peer_locators = peers.into();
        // Of several contexts with the same ULIDs, the ULIDs find the last one that was added.
        if !self.slots.contains_key(&id) {
            self.by_ulids.insert(entry.ulids, id);
        }
        let old_tag = self.slots.get(&id).map(|slot| slot.entry.local_tag);
        if let Some(tag) = old_tag.filter(|&tag| tag != entry.local_tag) {
            self.by_tag.remove(&tag);
        }
        self.by_tag.insert(entry.local_tag, id);
        self.forget_quotes(id);
        for quote in quotes(&entry) {
            self.by_quote.insert(quote, id);
        }
        let (has_timers, has_hints) = (entry.timers.is_some(), is_watched(&entry));
        let old = self.slots.remove(&id);
        let is_other_pair = old.as_ref().is_some_and(|slot| slot.entry.current != entry.current);
        let counted = old.as_ref().and_then(|slot| slot.congestion).filter(|_| !is_other_pair);
        let congestion = entry.congestion.then(|| counted.unwrap_or_default());
        let slot = match old {
            Some(slot) => Slot { entry, congestion, ..slot },
            None => Slot { entry, live: Live::new(now), congestion },
        };
        let slot = self.slots.entry(id).or_insert(slot);
        if is_other_pair {
            slot.live.forget_pair();
        }
        if !has_timers {
            slot.live.on_timers_taken_away();
        }
        if !has_hints {
            slot.live.wait.cancel();
        }
        self.look(id, reports, now);
    }

    fn forget_quotes(&mut self, id: ContextId) {
        let Some(slot) = self.slots.get(&id) else { return };
        for quote in quotes(&slot.entry) {
            if self.by_quote.get(&quote) == Some(&id) {
                self.by_quote.remove(&quote);
            }
        }
    }

    pub(crate) fn remove(&mut self, id: ContextId) -> Option<UlidPair> {
        self.forget_quotes(id);
        let slot = self.slots.remove(&id)?;
        if self.by_ulids.get(&slot.entry.ulids) == Some(&id) {
            self.by_ulids.remove(&slot.entry.ulids);
        }
        if self.by_tag.get(&slot.entry.local_tag) == Some(&id) {
            self.by_tag.remove(&slot.entry.local_tag);
        }
        self.deadlines.set(id.0, None);
        Some(slot.entry.ulids)
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<&Slot> {
        self.slots.get(&id)
    }

    pub(crate) fn on_unreachable(&mut self, id: ContextId, reports: &mut Reports, now: Instant) {
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.live.wait.on_unreachable(Look { entry: &slot.entry, reports, now });
        }
    }

    pub(crate) fn by_ulids(&self, ulids: UlidPair) -> Option<&Slot> {
        self.slots.get(self.by_ulids.get(&ulids)?)
    }

    pub(crate) fn by_tag(&self, tag: ContextTag) -> Option<&Slot> {
        self.slots.get(self.by_tag.get(&tag)?)
    }

    pub(crate) fn by_quote(&self, peer_tag: ContextTag, locators: LocatorPair) -> Option<&Slot> {
        self.slots.get(self.by_quote.get(&(peer_tag, locators))?)
    }

    pub(crate) fn on_sent(&mut self, id: ContextId, seen: Seen, reports: &mut Reports) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let deadline = slot.on_sent(seen, &mut self.flows, reports);
        self.arm_after_packet(id, deadline, seen.at);
    }

    pub(crate) fn on_received(&mut self, id: ContextId, seen: Seen, reports: &mut Reports) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let deadline = slot.on_received(seen, &mut self.flows, &mut self.unproven, reports);
        self.arm_after_packet(id, deadline, seen.at);
    }

    pub(crate) fn on_heard(&mut self, id: ContextId, at: Instant) {
        if let Some(missed) = self.slots.get_mut(&id).and_then(|slot| slot.live.on_heard(at)) {
            self.flows.labels.on_missed(missed);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| at)
    }

    /// Looks at the timers of each context that may have something due, in order of slots.
    pub(crate) fn look_at_due(&mut self, reports: &mut Reports, now: Instant) {
        let mut due = Vec::new();
        while let Some(id) = self.deadlines.pop(now) {
            due.push(ContextId(id));
        }
        due.sort_unstable();
        for id in due {
            self.look(id, reports, now);
        }
    }

    fn look(&mut self, id: ContextId, reports: &mut Reports, now: Instant) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if let Some(deadline) = slot.live.look(&mut Look { entry: &slot.entry, reports, now }) {
            self.arm(id, deadline);
        }
    }

    /// Arms the timers of a context after a packet. If a deadline is armed already, the idle time needs none: the
    /// look at that deadline finds out whether the context is idle.
    fn arm_after_packet(&mut self, id: ContextId, deadline: Option<Instant>, now: Instant) {
        let Some(slot) = self.slots.get(&id) else { return };
        let idle = slot.entry.idle;
        let is_silent = self.deadlines.get(id.0).is_none() && !idle.is_zero();
        if let Some(deadline) = deadline.or(is_silent.then(|| now + idle)) {
            self.arm(id, deadline);
        }
    }

    /// Moves the deadline of a context forward only. A deadline that is too early costs one look; moving it back
    /// would cost each packet.
    fn arm(&mut self, id: ContextId, deadline: Instant) {
        if self.deadlines.get(id.0).is_none_or(|armed| armed > deadline) {
            self.deadlines.set(id.0, Some(deadline));
        }
    }
}

/// The tag and the locators in packets that the host sends with a payload header.
fn quotes(entry: &ContextEntry) -> impl Iterator<Item = (ContextTag, LocatorPair)> {
    let moved = entry.all_paths().filter(|path| path.is_moved());
    moved.map(|path| (entry.peer_tag, path.pair))
}
