mod candidates;
mod inbound;
mod outbound;
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
use crate::{Inbound, Outbound};
use candidates::Origin;

/// Settings of a [`Plane`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which packets without a session are reported.
    pub wanted: Wanted,
    /// Sessions: as many as the machine's.
    pub max_sessions: usize,
    /// ICMPv6 types of the handshake.
    pub types: AdmissionTypes,
    /// Of packets that have a nonce and no session.
    pub checksum: ChecksumMode,
    /// Largest packet in octets.
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

/// The data plane of ILNP in user space: executes what the machine decided, for each packet of the host.
///
/// **Outbound.** The addresses find the session. Its locators replace those of the sockets, the transport's
/// checksum follows by a delta, and the nonce goes in where it has to. Where it is of use and not necessary, a packet
/// goes without that would be larger with it than its path may take: than any path does, or, if all packets have it for
/// good, than ours.
///
/// **Inbound.** A nonce finds its session, wherever the packet comes from (RFC 6741 s5.4); it comes out, and the
/// locators that the sockets have go back in. Without one, addresses that are a session's own find it, and
/// a TCP segment finds it by its socket. A wrong nonce is a drop, and so is none from a locator that the correspondent never
/// named (RFC 6744 s4); but from there, what claims no socket of the session is another node's, with the same identifier.
///
/// **Errors of routers** quote packets as they were on the wire. Those of sessions that have moved get the addresses back that
/// the sockets have; an MTU, for a packet with a nonce, is one without it.
///
/// **Neither.** Packets of sockets that the policy wants to hear of are reported, each pair of addresses
/// at times. A packet with a nonce that nobody agreed to is delivered as classic IPv6 (decision 071).
#[derive(Debug)]
pub struct Plane {
    settings: Settings,
    /// Of this host.
    nids: BTreeSet<Nid>,
    pub(super) sessions: Ilcc<Flow>,
    /// By slots of the machine: ours.
    slots: BTreeMap<SessionId, SessionId>,
    reported: BTreeMap<IlvPair, Instant>,
    /// When a socket was last looked for on behalf of a stranger.
    looked: Option<Instant>,
    reports: Reports<Report>,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) entry: SessionEntry,
    used: Option<Instant>,
    /// When a packet of the correspondent came in.
    heard: Option<Instant>,
    /// Whether a packet with our nonce has gone out since the correspondent has had the session. From then on what we
    /// send without a nonce has the checksum of the session.
    has_sent: bool,
    /// Whether a packet with the nonce of the correspondent has come: the same for what comes.
    has_come: bool,
}

impl Plane {
    /// A plane without sessions, and with a drawn key for its tables.
    #[must_use]
    pub fn new(settings: Settings, key: [u8; 16]) -> Self {
        let sessions = Ilcc::new(settings.max_sessions, key);
        Self {
            settings,
            nids: BTreeSet::new(),
            sessions,
            slots: BTreeMap::new(),
            reported: BTreeMap::new(),
            looked: None,
            reports: Reports::default(),
        }
    }

    /// Tells the identifiers of this host, those that only sessions still have among them. Options and control messages in
    /// packets for any other are left alone: those are forwarded.
    pub fn set_nids(&mut self, nids: BTreeSet<Nid>) {
        self.nids = nids;
    }

    /// What the machine has decided.
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

    /// A packet that a socket sends, from its IPv6 header on.
    pub fn handle_outbound(
        &mut self,
        packet: &mut Vec<u8>,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> Outbound {
        let fate = self.on_outbound(packet, At { sockets, now });
        self.reports.fate(fate, Outbound::Drop)
    }

    /// A packet from the network, from its IPv6 header on.
    pub fn handle_inbound(
        &mut self,
        packet: &mut Vec<u8>,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> Inbound {
        let fate = self.on_inbound(packet, At { sockets, now });
        self.reports.fate(fate, Inbound::Drop)
    }

    /// The next report to the machine; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_report(&mut self) -> Option<Report> {
        self.reports.pop()
    }

    /// What was dropped, by reason.
    #[must_use]
    pub const fn drops(&self) -> &DropCounters {
        &self.reports.drops
    }

    /// The sessions that the machine has told of.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionEntry> + '_ {
        self.slots.values().filter_map(|slot| Some(&self.sessions.get(*slot)?.entry))
    }

    /// Sessions.
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
                heard: None,
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

/// The sockets of the host and the time, as a packet meets them.
#[derive(Clone, Copy)]
struct At<'a> {
    sockets: &'a dyn Sockets,
    now: Instant,
}

/// Router Solicitation to Redirect (RFC 4861 s4): of the link, whatever the addresses.
fn is_neighbour_discovery(kind: u8) -> bool {
    (133..=137).contains(&kind)
}

/// Echo request and reply (RFC 4443 s4): no control messages, as they say nothing of the session.
fn is_echo(kind: u8) -> bool {
    matches!(kind, 128 | 129)
}
