mod candidates;
mod fragments;
mod inbound;
mod outbound;
mod silence;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::convert::Infallible;

use moorline_datapath as datapath;
use moorline_datapath::ilnp::{
    ChecksumMode, MAX_SESSIONS, Report, SessionEntry, Sockets, USED_INTERVAL, Update, Wanted,
};
use moorline_index::{Class, Ilcc};
use moorline_types::{DropCounters, DropReason, IlvPair, Instant, Nid, SessionId};
use moorline_wire::ilnp::AdmissionTypes;

use crate::reports::Reports;
use crate::shim6::budget::Budget;
use crate::shim6::contexts::FlowTables;
use crate::{Inbound, Outbound};
use candidates::{Looks, Origin};
use fragments::Fragments;
use silence::{Seen, Silence};

/// Settings of a [`Plane`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kinds of sockets whose packets without a session are reported.
    pub wanted: Wanted,
    /// Largest number of sessions: as many as the machine has.
    pub max_sessions: usize,
    /// ICMPv6 types of the handshake messages.
    pub types: AdmissionTypes,
    /// Checksum of packets that have a nonce and no session.
    pub checksum: ChecksumMode,
    /// Largest packet in octets of a path whose MTU [`Sockets::path_mtu`] does not know.
    pub mtu: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            wanted: Wanted::Connected,
            max_sessions: MAX_SESSIONS,
            types: AdmissionTypes::default(),
            checksum: ChecksumMode::NidOnly,
            mtu: 1500,
        }
    }
}

/// User-space data plane of ILNP: executes the decisions of the machine for each packet of the host.
///
/// **Outbound.** The addresses find the session. The plane replaces the locators of the sockets by the locators of
/// the session, corrects the transport checksum by a delta, and puts the nonce in if the packet needs it. If the
/// nonce is useful and not necessary, a packet that would be too long with it goes without. Too long means longer
/// than every path takes; if all packets have the nonce for good, it means longer than our uplink takes.
///
/// **Inbound.** A nonce finds its session, wherever the packet comes from (RFC 6741 s5.4). The plane takes the nonce
/// out and puts the locators of the sockets back. Without a nonce, a packet finds the session that has its addresses,
/// and a TCP segment finds the session that has its socket. The plane drops a packet with a wrong nonce. It also
/// drops a packet without a nonce from a locator that the correspondent never named (RFC 6744 s4). If such a packet
/// claims no socket of the session, it belongs to another node with the same identifier, and passes.
///
/// **Errors of routers** quote packets as they were on the wire. For a session that has moved, the plane puts the
/// addresses of the socket back into the quote. If the quoted packet has a nonce, the plane also reduces the MTU by
/// the nonce.
///
/// **No session.** The plane reports packets of sockets that the policy asks for, each pair of addresses once in a
/// while. A packet whose nonce belongs to no session is delivered as classic IPv6 (decision 071).
#[derive(Debug)]
pub struct Plane {
    settings: Settings,
    /// Identifiers of this host.
    nids: BTreeSet<Nid>,
    pub(super) sessions: Ilcc<Flow>,
    /// Slots of `sessions`, by the ids that the machine uses.
    slots: BTreeMap<SessionId, SessionId>,
    reported: BTreeMap<IlvPair, Instant>,
    /// Budget of reports about pairs without a session.
    candidates: Budget,
    /// Time of the last look for the socket of a stranger without a nonce.
    looked: Option<Instant>,
    looks: Looks,
    fragments: Fragments,
    flows: FlowTables,
    reports: Reports<Report>,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) entry: SessionEntry,
    used: Option<Instant>,
    silence: Silence,
    /// Whether a packet with our nonce has left since the correspondent has had the session. From then on, packets
    /// that we send without a nonce have the checksum of the session.
    has_sent: bool,
    /// Whether a packet with the nonce of the correspondent has come. From then on, packets that come without a nonce
    /// have the checksum of the session.
    has_come: bool,
}

impl Plane {
    /// Creates a plane without sessions. `key` is a random key for its tables.
    #[must_use]
    pub fn new(settings: Settings, key: [u8; 16]) -> Self {
        let sessions = Ilcc::new(settings.max_sessions, key);
        Self {
            settings,
            nids: BTreeSet::new(),
            sessions,
            slots: BTreeMap::new(),
            reported: BTreeMap::new(),
            candidates: Budget::default(),
            looked: None,
            looks: Looks::default(),
            fragments: Fragments::default(),
            flows: FlowTables::default(),
            reports: Reports::default(),
        }
    }

    /// Sets the identifiers of this host, with those that only sessions still have. The plane ignores options and
    /// control messages in packets for other identifiers: the host forwards these packets.
    pub fn set_nids(&mut self, nids: BTreeSet<Nid>) {
        self.nids = nids;
    }

    /// Applies a decision of the machine.
    pub fn handle_update(&mut self, update: &Update) {
        match update {
            Update::Upsert(entry) => self.upsert(entry),
            Update::Remove { session } => {
                if let Some(slot) = self.slots.remove(session) {
                    self.sessions.remove(slot);
                }
            }
        }
    }

    /// Handles a packet that a socket sends, from its IPv6 header on.
    pub fn handle_outbound(
        &mut self,
        packet: &mut Vec<u8>,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> Outbound {
        let fate = self.on_outbound(packet, At { sockets, now });
        self.reports.fate(fate, Outbound::Drop)
    }

    /// Handles a packet from the network, from its IPv6 header on.
    pub fn handle_inbound(
        &mut self,
        packet: &mut Vec<u8>,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> Inbound {
        let fate = self.on_inbound(packet, At { sockets, now });
        self.reports.fate(fate, Inbound::Drop)
    }

    /// Returns the next report to the machine; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop()
    }

    /// Dropped packets by reason.
    #[must_use]
    pub const fn drops(&self) -> &DropCounters {
        &self.reports.drops
    }

    /// The sessions that the machine has given to the plane.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionEntry> + '_ {
        self.slots.values().filter_map(|slot| Some(&self.sessions.get(*slot)?.entry))
    }

    /// Number of sessions.
    #[must_use]
    pub const fn session_count(&self) -> usize {
        self.sessions.len()
    }

    fn upsert(&mut self, entry: &SessionEntry) {
        let slot = self.slots.get(&entry.id).copied();
        let same = slot
            .filter(|slot| self.sessions.key(*slot).is_some_and(|(pair, _)| pair == entry.pair));
        let Some(slot) = same else {
            if let Some(old) = slot {
                self.sessions.remove(old);
            }
            let flow = Flow {
                entry: entry.clone(),
                used: None,
                silence: Silence::default(),
                has_sent: entry.has_told(),
                has_come: entry.settled,
            };
            let (slot, evicted) =
                self.sessions.insert(entry.pair, entry.receive_nonce, Class::Proven, flow);
            if let Some(evicted) = evicted {
                self.slots.remove(&evicted.value.entry.id);
            }
            self.slots.insert(entry.id, slot);
            return;
        };
        if let Some(nonce) = entry.receive_nonce {
            self.sessions.set_nonce(slot, nonce);
        }
        if let Some(flow) = self.sessions.get_mut(slot) {
            flow.entry = entry.clone();
        }
    }

    fn note_sent(&mut self, slot: SessionId, sent: Seen, now: Instant) {
        self.note_used(slot, now);
        let Some(flow) = self.sessions.get_mut(slot) else { return };
        if flow.silence.on_sent(&flow.entry, sent, &mut self.flows, now) {
            self.reports.push(Report::Silent { session: flow.entry.id });
        }
    }

    fn note_used(&mut self, slot: SessionId, now: Instant) {
        let Some(flow) = self.sessions.get_mut(slot) else { return };
        if flow.used.is_none_or(|used| now.since(used) >= USED_INTERVAL) {
            flow.used = Some(now);
            self.reports.push(Report::Used { session: flow.entry.id, at: now });
        }
    }
}

impl datapath::Plane for Plane {
    type Update = Update;
    type Report = Report;
    type Error = Infallible;

    fn apply(&mut self, update: &Update, _now: Instant) -> Result<(), Infallible> {
        self.handle_update(update);
        Ok(())
    }

    fn poll_report(&mut self) -> Result<Option<Report>, Infallible> {
        Ok(self.reports.pop())
    }

    fn drops(&self) -> Result<Vec<(DropReason, u64)>, Infallible> {
        Ok(self.drops().iter().collect())
    }
}

/// The sockets of the host, and the time when a packet meets them.
#[derive(Clone, Copy)]
struct At<'a> {
    sockets: &'a dyn Sockets,
    now: Instant,
}

/// Whether an ICMPv6 type is Neighbour Discovery (RFC 4861 s4), which belongs to the link whatever its addresses are.
fn is_neighbour_discovery(kind: u8) -> bool {
    (133..=137).contains(&kind)
}

/// Whether an ICMPv6 type is an echo request or reply (RFC 4443 s4). These are no control messages, as they say
/// nothing about the session.
fn is_echo(kind: u8) -> bool {
    matches!(kind, 128 | 129)
}
