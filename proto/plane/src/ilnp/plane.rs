use crate::reports::Reports;
use crate::{Inbound, Outbound};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::convert::Infallible;

use moorline_datapath as datapath;
use moorline_types::{DropCounters, DropReason, IlvPair, Instant, Nid, Nonce, SessionId};
use moorline_wire::ilnp::{
    AdmissionTypes, ChecksumDelta, NONCE_OPTION, NonceHeader, OptionsHeader,
};

use super::packet::{Ip6, fix, write_addresses};
use super::quote::Quote;
use super::whence::Whence;
use moorline_datapath::ilnp::{
    CANDIDATE_INTERVAL, LOOK_INTERVAL, LOST_INTERVAL, ROOM_IN_TCP, USED_INTERVAL,
};
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry, Sockets, Update};
use moorline_datapath::ilnp::{MAX_SESSIONS, Socket, Wanted};
use moorline_index::{Class, Ilcc};
use moorline_wire::ilnp::{Control, NONCE_AT};
use moorline_wire::ip6::{MIN_MTU, TCP, UDP, Upper};

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

    //= rfc6744#1-1 rfc6744#6-1 rfc6744#6-3 rfc6744#6-4 rfc6744#7-1 rfc6744#3-1
    //= rfc6741#11.1-9 rfc6741#11.1-10
    fn on_outbound(&mut self, packet: &mut Vec<u8>, at: At<'_>) -> Result<Outbound, DropReason> {
        let Some(ip6) = Ip6::read(packet) else { return Ok(Outbound::Pass) };
        let pair = IlvPair::new(ip6.source, ip6.destination);
        let mut upper = ip6.upper(packet);
        let is_discovery = upper.icmp(packet).is_some_and(is_neighbour_discovery);
        if is_discovery {
            return Ok(Outbound::Pass);
        }
        // What the machine sends has all that it needs.
        if ip6.may_be_control() && Control::is_of_sessions(packet, self.settings.types) {
            if let Some(nonce) = ip6.nonce(packet) {
                self.note_control_sent(pair, nonce);
            }
            return Ok(Outbound::Pass);
        }
        let Some(slot) = self.sessions.find_pair(pair) else {
            self.consider(pair, &upper, (Origin::Here, None), at);
            return Ok(Outbound::Pass);
        };
        self.note_used(slot, at.now);
        let Some(flow) = self.sessions.get(slot) else { return Ok(Outbound::Pass) };
        let Flow { entry, has_sent, has_come, .. } = flow;
        let wire = entry.wire_pair();
        let full = ChecksumDelta::new(pair.l64s(), wire.l64s());
        let delta = match entry.checksum {
            ChecksumMode::Full => full,
            ChecksumMode::NidOnly => ChecksumDelta::to_nid_only(pair.l64s()),
        };
        let is_unclear = wire != pair && !(entry.maps_tcp && upper.is_within_tcp(packet));
        // By its session's own addresses a packet is known without it, but for what routers and hosts report.
        let kind = upper.icmp(packet);
        let needs_nonce = is_unclear || kind.is_some_and(|kind| !is_echo(kind));
        // An echo is like a datagram, but correspondents may expect a nonce with all of ICMPv6.
        let is_tried = needs_nonce || kind.is_some();
        let mut has_nonce = false;
        // A correspondent that may not have the session yet gets classic IPv6, unless it may have seen the nonce from another
        // locator: with a nonce it takes the packet either way. One whose nonce has come has the session, also if the core, which
        // would say so, has stopped.
        let is_unsure = entry.confirming && wire == pair && !has_come;
        let may_have = !is_unsure || *has_sent;
        if may_have && (entry.attach || is_tried || is_unsure) {
            let header = NonceHeader { next_header: 0, nonce: entry.send_nonce, sequence: None };
            // Its sender knows the MTU of the path, and of the nonce only if its route leaves room for that.
            // That does on paths that take more than the least: no MTU is smaller than that.
            // What is lost without the nonce is tried with it: routers say if the path takes less.
            let is_room_known = is_tried || entry.always && packet.len() > usize::from(MIN_MTU);
            // A segment that was cut for a route without room goes without: see `ROOM_IN_TCP`.
            let room = if is_tried || upper.protocol != TCP { 0 } else { ROOM_IN_TCP as usize };
            let is_segment_whole = packet.len() + room > self.settings.mtu;
            let most = if is_room_known && !is_segment_whole { usize::MAX } else { MIN_MTU.into() };
            match ip6.insert(packet, header, most.min(self.settings.mtu), &mut upper) {
                Err(reason) if needs_nonce => return Err(reason),
                inserted => has_nonce = inserted.is_ok(),
            }
        }
        if has_nonce || wire != pair || *has_sent {
            fix(&upper, packet, delta, full);
        }
        write_addresses(packet, wire);
        if has_nonce {
            self.note_nonce_sent(slot);
        }
        Ok(Outbound::Send { source: wire.local.address() })
    }

    /// The correspondent learns from this packet that what follows has the checksum of the session.
    fn note_nonce_sent(&mut self, slot: SessionId) {
        if let Some(flow) = self.sessions.get_mut(slot) {
            flow.has_sent = true;
        }
    }

    /// A message of the machine, from whatever locator: the correspondent finds its session by the same two identifiers and
    /// the nonce.
    fn note_control_sent(&mut self, pair: IlvPair, nonce: Nonce) {
        let (local, remote) = pair.nids();
        let is_of = |slot: &SessionId| {
            self.sessions.get(*slot).is_some_and(|flow| flow.entry.send_nonce == nonce)
        };
        let told: Vec<_> = self.sessions.between(local, remote).filter(is_of).collect();
        told.into_iter().for_each(|slot| self.note_nonce_sent(slot));
    }

    fn on_inbound(&mut self, packet: &mut Vec<u8>, at: At<'_>) -> Result<Inbound, DropReason> {
        let Some(ip6) = Ip6::read(packet) else {
            let is_error = Ip6::read_from_link(packet)
                .is_some_and(|ip6| self.translate_error(packet, &ip6, at.sockets));
            return Ok(if is_error { Inbound::Deliver } else { Inbound::Pass });
        };
        let is_for_us = || self.nids.contains(&ip6.destination.nid);
        if ip6.has_extensions() && !is_for_us() {
            return Ok(Inbound::Pass);
        }
        // An error about a nonce is not for the sockets, which sent none and would give up.
        let is_about_nonce = || {
            let quoted = Control::quoted_by_parameter_problem(packet);
            quoted.is_some_and(|quoted| quoted.get(NONCE_AT as usize) == Some(&NONCE_OPTION))
        };
        let pair = IlvPair::new(ip6.destination, ip6.source);
        if ip6.may_be_control()
            && (Control::is_for_sessions(packet, self.settings.types) || is_about_nonce())
        {
            return match Control::is_bare_update(packet) {
                _ if !is_for_us() => Ok(Inbound::Pass),
                true => Err(DropReason::MissingOption),
                false => {
                    if let Some(nonce) = ip6.nonce(packet) {
                        self.note_nonce_came(pair, nonce);
                    }
                    Ok(Inbound::Up)
                }
            };
        }
        let shown = ip6.chain(packet)?.and_then(|chain| {
            let options = chain.options?;
            Some((options, chain.options_at, options.nonce?))
        });
        match shown {
            Some(shown) => self.on_nonce(packet, (ip6, pair), shown, at),
            None if self.translate_error(packet, &ip6, at.sockets) => Ok(Inbound::Deliver),
            None => self.on_plain(packet, (ip6, pair), at),
        }
    }

    fn note_nonce_came(&mut self, pair: IlvPair, nonce: Nonce) {
        let (local, remote) = pair.nids();
        let found = self.sessions.find_nonce(local, remote, nonce);
        if let Some(flow) = found.and_then(|slot| self.sessions.get_mut(slot)) {
            flow.has_come = true;
        }
    }

    /// Whether it is an error of a router about a packet of a session that has moved or showed a nonce, which is one about
    /// the socket's packet now.
    fn translate_error(&self, packet: &mut Vec<u8>, ip6: &Ip6, sockets: &dyn Sockets) -> bool {
        let Some(quote) = Quote::read(packet, ip6) else { return false };
        let (local, remote) = quote.pair.nids();
        let all = self.sessions.between(local, remote).filter_map(|slot| self.sessions.get(slot));
        let Some(flow) = all.into_iter().find(|flow| quote.is_of(&flow.entry, sockets)) else {
            return false;
        };
        quote.translate(packet, flow.entry.pair);
        true
    }

    /// RFC 6741 s5.4: "lookups in the ILCC MUST use the <remote Identifier, Nonce> tuple".
    //= rfc6744#3-1
    //= rfc6741#5.4-1 rfc6741#11.1-12
    fn on_nonce(
        &mut self,
        packet: &mut Vec<u8>,
        (ip6, pair): (Ip6, IlvPair),
        (options, options_at, nonce): (OptionsHeader, usize, Nonce),
        at: At<'_>,
    ) -> Result<Inbound, DropReason> {
        let mut upper = Ip6::upper_behind(packet, &options, options_at);
        let (local, remote) = pair.nids();
        let found = self.sessions.find_nonce(local, remote, nonce);
        let found = found.map(|slot| self.sibling_of(slot, (pair, nonce), &upper, at.sockets));
        // Of a stranger, whom a flood is made of, this look says that there is nothing more to look for.
        let is_between = found.is_some() || self.sessions.between(local, remote).next().is_some();
        let found = found.or_else(|| is_between.then(|| self.learn(pair, nonce))?);
        if let Some(slot) = found {
            self.note_used(slot, at.now);
            ip6.strip(packet, &options, options_at, &mut upper);
            self.deliver(packet, (ip6, &upper), slot, true, at.now);
            return Ok(Inbound::Deliver);
        }
        // Of a session it would be a forgery; of a stranger it is a first packet.
        let is_forged = || match self.whence(packet, pair, &upper, at.sockets) {
            Whence::Session(_) | Whence::Claimed | Whence::Nowhere => true,
            // A correspondent that has begun anew has other connections.
            Whence::Named => !matches!(upper.protocol, TCP | UDP),
            Whence::Elsewhere => false,
        };
        let is_forged = is_between && (self.sessions.find_pair(pair).is_some() || is_forged());
        if is_forged {
            if self.has_lost(pair, at.now) {
                self.consider(pair, &upper.reversed(), (Origin::Lost, Some(nonce)), at);
            }
            return Err(DropReason::BadNonce);
        }
        self.consider(pair, &upper.reversed(), (Origin::Stranger, Some(nonce)), at);
        ip6.strip(packet, &options, options_at, &mut upper);
        if self.settings.checksum == ChecksumMode::NidOnly {
            let delta = ChecksumDelta::to_nid_only(pair.l64s()).inverse();
            fix(&upper, packet, delta, ChecksumDelta::default());
        }
        Ok(Inbound::Deliver)
    }

    /// Whether nothing but wrong nonces has come on a session for [`LOST_INTERVAL`]. The next time is as much later at least.
    fn has_lost(&mut self, pair: IlvPair, now: Instant) -> bool {
        let slot = self.sessions.find_pair(pair);
        let Some(flow) = slot.and_then(|slot| self.sessions.get_mut(slot)) else { return false };
        let has_lost = now.since(*flow.heard.get_or_insert(now)) >= LOST_INTERVAL;
        if has_lost {
            flow.heard = Some(now);
        }
        has_lost
    }

    /// The first nonce of a correspondent that we have offered ours, from where we have offered it.
    fn learn(&mut self, pair: IlvPair, nonce: Nonce) -> Option<SessionId> {
        let slot = self.sessions.find_pair(pair)?;
        let (_, None) = self.sessions.key(slot)? else { return None };
        let id = self.sessions.get(slot)?.entry.id;
        if !self.reports.push(Report::Learned { session: id, nonce }) {
            return None;
        }
        self.sessions.set_nonce(slot, nonce);
        Some(slot)
    }

    //= rfc6744#7-3
    //= rfc6741#5.4-2 rfc6741#11.1-11
    fn on_plain(
        &mut self,
        packet: &mut [u8],
        (ip6, pair): (Ip6, IlvPair),
        at: At<'_>,
    ) -> Result<Inbound, DropReason> {
        let upper = ip6.upper(packet);
        let kind = upper.icmp(packet);
        if kind.is_some_and(is_neighbour_discovery) {
            return Ok(Inbound::Pass);
        }
        let exact = self.sessions.find_pair(pair);
        // Who has not shown its nonce is still sending classic IPv6.
        let shown = exact.filter(|slot| {
            self.sessions.key(*slot).is_some_and(|(_, nonce)| nonce.is_some())
                && self.sessions.get(*slot).is_some_and(|flow| flow.has_come)
        });
        if kind.is_some_and(|kind| !is_echo(kind))
            && let Some(slot) = shown
        {
            // Of one that has lost the session, it may be: then it is asked.
            self.note_used(slot, at.now);
            // RFC 6744 s7: "MUST be discarded as forgeries".
            return Err(DropReason::MissingOption);
        }
        let slot = match shown {
            Some(slot) => Some(slot),
            None => match self.whence(packet, pair, &upper, at.sockets) {
                Whence::Session(slot) => Some(slot),
                Whence::Nowhere => return Err(DropReason::WrongLocators),
                Whence::Named | Whence::Claimed | Whence::Elsewhere => None,
            },
        };
        let Some(slot) = slot else {
            if exact.is_none() {
                self.consider(pair, &upper.reversed(), (Origin::Stranger, None), at);
            }
            return Ok(Inbound::Pass);
        };
        self.note_used(slot, at.now);
        self.deliver(packet, (ip6, &upper), slot, false, at.now);
        Ok(Inbound::Deliver)
    }

    /// Puts back what the sockets have.
    fn deliver(
        &mut self,
        packet: &mut [u8],
        (ip6, upper): (Ip6, &Upper),
        slot: SessionId,
        authenticated: bool,
        now: Instant,
    ) {
        let Some(flow) = self.sessions.get_mut(slot) else { return };
        flow.heard = Some(now);
        flow.has_come |= authenticated;
        let entry = &mut flow.entry;
        // The nonce of one that is told ours by a Confirm alone answers that.
        let has_sent = flow.has_sent || entry.confirming;
        let to = entry.pair.reversed();
        let full = ChecksumDelta::new([ip6.source.l64, ip6.destination.l64], to.l64s());
        let delta = match entry.checksum {
            ChecksumMode::Full => full,
            ChecksumMode::NidOnly => ChecksumDelta::to_nid_only(to.l64s()).inverse(),
        };
        if authenticated && entry.watch && has_sent {
            entry.watch = !self.reports.push(Report::Authenticated { session: entry.id });
        }
        fix(upper, packet, delta, full);
        write_addresses(packet, to);
    }

    /// Reports traffic without a session, if the policy wants to hear of its socket.
    fn consider(
        &mut self,
        pair: IlvPair,
        upper: &Upper,
        (origin, nonce): (Origin, Option<Nonce>),
        At { sockets, now }: At<'_>,
    ) {
        let is_recent = |at: &Instant| now.since(*at) < CANDIDATE_INTERVAL;
        if nonce.is_none() && self.reported.get(&pair).is_some_and(is_recent) {
            return;
        }
        if origin == Origin::Stranger && !self.may_look(now) {
            return;
        }
        let protocol = upper.protocol;
        let ports = upper.ports.unwrap_or_default();
        let socket = sockets.kind(pair, protocol, ports);
        // A correspondent that has begun anew may not have the socket yet.
        let is_wanted = self.settings.wanted == Wanted::All
            || socket == Socket::Connected
            || origin == Origin::Lost;
        let inbound = origin != Origin::Here;
        let report = Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
        if !is_wanted || !self.reports.push(report) {
            return;
        }
        if self.reported.len() >= MAX_REPORTED {
            self.reported.retain(|_, at| is_recent(at));
            if self.reported.len() >= MAX_REPORTED {
                self.reported.clear();
            }
        }
        self.reported.insert(pair, now);
    }

    /// A look for a socket costs more than all else that is done for a packet of a stranger, and finds one that is
    /// wanted for nearly none: what connected sockets send is seen on the way out (decision 082).
    fn may_look(&mut self, now: Instant) -> bool {
        if self.settings.wanted == Wanted::All {
            return true;
        }
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK_INTERVAL) {
            return false;
        }
        self.looked = Some(now);
        true
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

/// Who sent a packet without a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A socket of this host.
    Here,
    /// A correspondent that may have lost the session that we have.
    Lost,
    /// Anybody.
    Stranger,
}

/// Router Solicitation to Redirect (RFC 4861 s4): of the link, whatever the addresses.
fn is_neighbour_discovery(kind: u8) -> bool {
    (133..=137).contains(&kind)
}

/// Echo request and reply (RFC 4443 s4): no control messages, as they say nothing of the session.
fn is_echo(kind: u8) -> bool {
    matches!(kind, 128 | 129)
}

/// Pairs that were reported of late: 4,096.
const MAX_REPORTED: usize = 4096;

#[cfg(test)]
mod tests;
