use moorline_contexts::{Config, Contexts};
use moorline_datapath::ilnp::{self, SessionEntry, Socket};
use moorline_datapath::shim6::{ContextEntry, Report};
use moorline_host::model::{Kernel, OneSocket, Told, local_state, view};
use moorline_host::{Effect, Host, Sessions};
use moorline_ilnp::consts::CHECK_INTERVAL;
use moorline_types::{
    ContextId, ContextTag, IlvPair, Instant, L64, Locator, LocatorPair, Nonce, Ulid, UlidPair,
};
use moorline_wire::ip6::Ip6;

use crate::world::What;

/// A host: the real core, its own clock, and the state of its data planes and its kernel.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    number: u8,
    pub(crate) host: Host,
    pub(crate) now: Instant,
    pub(crate) told: Told,
    speaks_ilnp: bool,
    pub(crate) kernel: Kernel,
    /// Whether the first uplink has no carrier.
    pub(crate) has_lost_uplink: bool,
    /// Whether the kernel refuses the next change of the host.
    pub(crate) refuses: bool,
    /// Last watch for which payload was reported.
    watch_seen: u32,
    /// Number of restarts of the host.
    lives: u8,
    /// Its ULID and that of the other host.
    ulids: UlidPair,
    pub(crate) locators: Vec<Locator>,
}

impl Side {
    pub(crate) fn new(number: u8, speaks_ilnp: bool) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut side = Self {
            number,
            host: new_host(number, 0, speaks_ilnp, now),
            now,
            told: Told::default(),
            speaks_ilnp,
            kernel: Kernel::default(),
            has_lost_uplink: false,
            refuses: false,
            watch_seen: 0,
            lives: 0,
            ulids: UlidPair::new(ulid_of(number), ulid_of(1 - number)),
            locators: local_state(number, 0).usable,
        };
        side.tell_links();
        side
    }

    /// Restarts the host without any state.
    pub(crate) fn forget(&mut self) {
        self.lives += 1;
        self.host = new_host(self.number, self.lives, self.speaks_ilnp, self.now);
        (self.told, self.kernel, self.watch_seen) = (Told::default(), Kernel::default(), 0);
        self.tell_links();
    }

    /// Passes the current links to the host.
    pub(crate) fn tell_links(&mut self) {
        let view = view(&self.locators[usize::from(self.has_lost_uplink)..]);
        self.kernel.follow(&view);
        self.host.set_proof(local_state(self.number, self.lives.into()).proof);
        self.host.doubt_routes();
        self.host.handle_view(view, self.now);
    }

    /// Whether the host can send from this locator and receive at it.
    pub(crate) fn has(&self, locator: Locator) -> bool {
        !self.has_lost_uplink || self.locators.first() != Some(&locator)
    }

    /// Whether kernel and data planes have exactly the entries that contexts and sessions need, or the host waits to
    /// try a change again.
    pub(crate) fn is_in_step(&self) -> bool {
        self.host.awaits_retry()
            || self.kernel.difference(&self.host, self.now).is_none()
                && self.told.difference(&self.host, self.now).is_none()
    }

    /// Whether a pair has both a session and a context that has moved.
    pub(crate) fn has_two_owners(&self) -> bool {
        let mut moved = self.told.contexts.values().filter(|entry| entry.is_moved());
        moved.any(|entry| self.told.sessions.values().any(|one| one.pair.ulids() == entry.ulids))
    }

    pub(crate) fn ulid_pair(&self, peer: &Self) -> UlidPair {
        UlidPair::new(self.locators[0].as_ulid(), peer.locators[0].as_ulid())
    }

    /// The established context of the host.
    pub(crate) fn entry(&self) -> Option<&ContextEntry> {
        self.told.contexts.values().next()
    }

    /// The session of the host with the other host. The host may have sessions with the third party.
    pub(crate) fn session(&self) -> Option<&SessionEntry> {
        self.told.sessions.values().find(|entry| entry.pair.ulids() == self.ulids)
    }

    /// Whether the host has a context in any state, or a session.
    pub(crate) fn has_context(&self) -> bool {
        self.host.shim6().contexts().next().is_some() || self.session().is_some()
    }

    /// Contexts of the host: tags, the pair in use, and the peer's locators of those with which payload can move. And the
    /// session with the other host: nonces, the pair in use, and the peer's locators.
    pub(crate) fn summary(&self) -> (usize, Vec<Summary>, Option<SessionSummary>) {
        let entries = self.told.contexts.values();
        let summary = |entry: &ContextEntry| Summary {
            tags: [entry.local_tag, entry.peer_tag],
            pair: entry.current.pair,
            peer_locators: entry.peer_locators.iter().copied().collect(),
        };
        let session = self.session().map(|entry| SessionSummary {
            nonces: (entry.send_nonce, entry.receive_nonce),
            wire: entry.wire_pair(),
            peer_locators: entry.remote.to_vec(),
        });
        (self.host.shim6().contexts().count(), entries.map(summary).collect(), session)
    }

    /// Reports traffic of a connected socket. The data plane of ILNP sees the traffic first.
    pub(crate) fn note_traffic(&mut self, ulids: UlidPair, inbound: bool, nonce: Option<Nonce>) {
        self.note_candidate(IlvPair::of(ulids), inbound, nonce);
        if !inbound {
            self.report(Report::Trigger { ulids });
        }
    }

    fn note_candidate(&mut self, pair: IlvPair, inbound: bool, nonce: Option<Nonce>) {
        let ports = if self.number == 0 { (40_000, 7) } else { (7, 40_000) };
        let (protocol, socket) = (17, Socket::Connected);
        let report = ilnp::Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
        self.host.handle_ilnp_report(report, self.now);
    }

    /// Handles payload of the third party. The data plane reports payload of no session by the addresses of its packet.
    pub(crate) fn note_foreign(&mut self, pair: IlvPair, nonce: Option<Nonce>) {
        let is_of = |entry: &SessionEntry| match nonce {
            Some(nonce) => entry.pair.nids() == pair.nids() && entry.receive_nonce == Some(nonce),
            None => entry.pair == pair,
        };
        if !self.told.sessions.values().any(is_of) {
            self.note_candidate(pair, true, nonce);
        }
    }

    /// Continues the traffic of a session after a pause so long that the correspondent may be in doubt. Does nothing if
    /// a timer expires earlier.
    pub(crate) fn use_session(&mut self) {
        let later = self.now + CHECK_INTERVAL;
        let is_quiet = self.host.poll_timeout().is_none_or(|at| at > later);
        if let Some(session) = self.session().map(|entry| entry.id).filter(|_| is_quiet) {
            self.now = later;
            self.host.handle_ilnp_report(ilnp::Report::Used { session, at: self.now }, self.now);
        }
    }

    /// Handles payload with a nonce. If no session has the nonce, the data plane reports it to the core.
    pub(crate) fn note_nonce(&mut self, ulids: UlidPair, nonce: Nonce) {
        let is_known = |entry: &&mut SessionEntry| {
            entry.pair.ulids() == ulids && entry.receive_nonce == Some(nonce)
        };
        let known = self.told.sessions.values_mut().find(is_known);
        let Some(entry) = known else { return self.note_traffic(ulids, true, Some(nonce)) };
        if std::mem::take(&mut entry.watch) {
            let report = ilnp::Report::Authenticated { session: entry.id };
            self.host.handle_ilnp_report(report, self.now);
        }
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.host.handle_shim6_report(report, self.now);
    }

    pub(crate) fn control(&mut self, octets: &[u8], locators: LocatorPair) {
        self.host.handle_shim6(octets, locators, self.now);
    }

    /// Advances the clock to the next timer and expires it.
    pub(crate) fn run_out(&mut self) {
        if let Some(at) = self.host.poll_timeout() {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
        }
    }

    /// Handles payload of a context. Reports the payload if the core has asked for a report.
    pub(crate) fn note_payload(&mut self, id: ContextId) {
        let watch = self.told.contexts.get(&id).map_or(0, |entry| entry.watch);
        if watch != 0 && watch != self.watch_seen {
            self.watch_seen = watch;
            self.report(Report::Received { context: id, at: self.now });
        }
    }

    /// Executes the effects of the core. Gives the control packets that it sends, with their locators.
    pub(crate) fn drain(&mut self) -> Vec<(LocatorPair, What)> {
        let mut sent = Vec::new();
        while let Some(effect) = self.host.poll_effect(self.now) {
            let is_of_kernel = matches!(
                effect,
                Effect::Route(_) | Effect::KeepUlid(_) | Effect::ReleaseUlid(_) | Effect::AskRoutes
            );
            let can_fail = is_of_kernel || effect.is_removal();
            if can_fail && std::mem::take(&mut self.refuses) {
                self.host.handle_failed(&effect, self.now);
                continue;
            }
            self.host.handle_done(&effect, self.now);
            let sockets = OneSocket(Socket::Connected);
            if !self.kernel.execute(&effect, &mut self.host, &sockets, self.now)
                && !self.told.execute(&effect)
            {
                sent.extend(packet_of(effect));
            }
        }
        sent
    }
}

/// State of a context that no stranger may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    tags: [ContextTag; 2],
    pair: LocatorPair,
    peer_locators: Vec<Locator>,
}

/// State of a session that no stranger may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSummary {
    nonces: (Nonce, Option<Nonce>),
    wire: IlvPair,
    peer_locators: Vec<L64>,
}

/// The control packet that an effect sends, with its addresses.
fn packet_of(effect: Effect) -> Option<(LocatorPair, What)> {
    if let Effect::SendShim6 { transmit, .. } = effect {
        return Some((transmit.locators, What::Control(transmit.octets)));
    }
    let Effect::SendIlnp { transmit, .. } = effect else { return None };
    Some((addresses_of(&transmit.packet), What::Ilnp(transmit.packet)))
}

/// Source and destination of an IPv6 packet of a host.
fn addresses_of(packet: &[u8]) -> LocatorPair {
    let header = Ip6::read(packet).expect("a host sends whole packets");
    LocatorPair::new(Locator(header.source), Locator(header.destination))
}

fn ulid_of(number: u8) -> Ulid {
    local_state(number, 0).usable[0].as_ulid()
}

fn new_host(number: u8, life: u8, speaks_ilnp: bool, now: Instant) -> Host {
    let mut seed = [0; 32];
    (seed[0], seed[1]) = (number, life);
    // Worlds are copied at each step, so tables are small.
    let mut config = Config::default();
    config.shim6.max_contexts = MAX_ENTRIES;
    let of_sessions =
        moorline_ilnp::Config { max_sessions: MAX_ENTRIES as usize, ..Default::default() };
    let sessions = speaks_ilnp.then(|| Sessions::new(of_sessions, seed, now));
    Host::new(Contexts::new(config, seed, now), sessions)
}

/// Limit of contexts, and of sessions, of a host.
const MAX_ENTRIES: u32 = 64;
