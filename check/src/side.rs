use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use moorline_addresses::{HostView, Uplink};
use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_contexts::{Config, Contexts, LocalState};
use moorline_datapath::ilnp::{self, SessionEntry, Socket};
use moorline_datapath::shim6::{ContextEntry, Report, Update};
use moorline_host::model::{Kernel, OneSocket};
use moorline_host::{Effect, Host, Sessions};
use moorline_ilnp::consts::CHECK_INTERVAL;
use moorline_types::{
    ContextId, IlvPair, Instant, Locator, LocatorPair, Nonce, SessionId, UlidPair,
};
use moorline_wire::ip6::Ip6;

use crate::world::What;

/// A host: the real core, a clock of its own, what its data plane was told, and what its kernel holds.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    number: usize,
    pub(crate) host: Host,
    pub(crate) now: Instant,
    pub(crate) entries: BTreeMap<ContextId, ContextEntry>,
    pub(crate) sessions: BTreeMap<SessionId, SessionEntry>,
    speaks_ilnp: bool,
    pub(crate) kernel: Kernel,
    /// The first uplink has no carrier.
    pub(crate) has_lost_uplink: bool,
    /// The kernel refuses the next change that the host wants.
    pub(crate) refuses: bool,
    /// Last watch that was answered.
    watch_seen: u32,
    /// How often it has begun anew.
    lives: u8,
    pub(crate) locators: Vec<Locator>,
}

impl Side {
    pub(crate) fn new(number: usize, speaks_ilnp: bool) -> Self {
        let mut side = Self::begin(number, 0, speaks_ilnp, Instant::from_nanos(1_000_000_000));
        side.tell_links();
        side
    }

    fn begin(number: usize, lives: u8, speaks_ilnp: bool, now: Instant) -> Self {
        Self {
            number,
            host: new_host(number, lives, speaks_ilnp, now),
            now,
            entries: BTreeMap::new(),
            sessions: BTreeMap::new(),
            speaks_ilnp,
            kernel: Kernel::default(),
            has_lost_uplink: false,
            refuses: false,
            watch_seen: 0,
            lives,
            locators: local_state(number, 0).usable,
        }
    }

    /// It begins anew, and knows nothing of what was before.
    pub(crate) fn forget(&mut self) {
        let Self { has_lost_uplink, refuses, .. } = *self;
        let begun = Self::begin(self.number, self.lives + 1, self.speaks_ilnp, self.now);
        *self = Self { has_lost_uplink, refuses, ..begun };
        self.tell_links();
    }

    /// The links are as they are now.
    pub(crate) fn tell_links(&mut self) {
        let lost = usize::from(self.has_lost_uplink);
        let uplinks = self.locators.iter().enumerate().skip(lost).map(|(number, own)| {
            let ifindex = u32::try_from(number + 1).unwrap_or(0);
            let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
            Uplink::new(ifindex, format!("isp{ifindex}")).reached(router, [own.0])
        });
        let view = HostView { uplinks: uplinks.collect(), ..HostView::default() };
        self.kernel.follow(&view);
        self.host.set_proof(local_state(self.number, u32::from(self.lives)).proof);
        self.host.doubt_routes();
        self.host.handle_view(view, self.now);
    }

    /// Whether the host can send from this locator, and receive there.
    pub(crate) fn has(&self, locator: Locator) -> bool {
        !self.has_lost_uplink || self.locators.first() != Some(&locator)
    }

    /// Whether kernel and data planes have what contexts and sessions need, and nothing else, or something is to be tried again.
    pub(crate) fn is_in_step(&self) -> bool {
        let moved = self.entries.values().filter(|entry| entry.is_moved()).map(|entry| entry.ulids);
        let of_sessions = self.sessions.values().filter(|entry| entry.wire_pair() != entry.pair);
        let moved = moved.chain(of_sessions.map(|entry| entry.pair.ulids()));
        let contexts = self.host.shim6().entries().map(|entry| entry.id);
        let sessions = self.host.ilnp().into_iter().flat_map(|ilnp| ilnp.sessions(self.now));
        self.host.awaits_retry()
            || moved.collect::<BTreeSet<_>>() == self.kernel.routed()
                && self.host.ulids_to_keep() == *self.kernel.kept()
                && contexts.collect::<BTreeSet<_>>() == self.entries.keys().copied().collect()
                && sessions.map(|session| session.id).collect::<BTreeSet<_>>()
                    == self.sessions.keys().copied().collect()
    }

    /// Whether a pair has a session, and a context that has moved.
    pub(crate) fn has_two_owners(&self) -> bool {
        let mut moved = self.entries.values().filter(|entry| entry.is_moved());
        moved.any(|entry| self.sessions.values().any(|one| one.pair.ulids() == entry.ulids))
    }

    pub(crate) fn ulid_pair(&self, peer: &Self) -> UlidPair {
        UlidPair::new(self.locators[0].as_ulid(), peer.locators[0].as_ulid())
    }

    /// The context of its traffic, if it is established.
    pub(crate) fn entry(&self) -> Option<&ContextEntry> {
        self.entries.values().next()
    }

    /// The session of its traffic.
    pub(crate) fn session(&self) -> Option<&SessionEntry> {
        self.sessions.values().next()
    }

    /// A context, whatever its state, or a session.
    pub(crate) fn has_context(&self) -> bool {
        self.host.shim6().contexts().next().is_some() || self.session().is_some()
    }

    /// Traffic of a connected socket. The data plane of ILNP sees it first.
    pub(crate) fn note_traffic(&mut self, ulids: UlidPair, inbound: bool, nonce: Option<Nonce>) {
        let ports = if self.number == 0 { (40_000, 7) } else { (7, 40_000) };
        let report = ilnp::Report::Candidate {
            pair: IlvPair::of(ulids),
            protocol: 17,
            ports,
            socket: Socket::Connected,
            inbound,
            nonce,
        };
        self.host.handle_ilnp_report(report, self.now);
        if !inbound {
            self.report(Report::Trigger { ulids });
        }
    }

    /// The traffic of a session goes on, after so long that its correspondent may be in doubt, if no timer runs out before.
    pub(crate) fn use_session(&mut self) {
        let later = self.now + CHECK_INTERVAL;
        let is_quiet = self.host.poll_timeout().is_none_or(|at| at > later);
        if let Some(session) = self.session().map(|entry| entry.id).filter(|_| is_quiet) {
            self.now = later;
            self.host.handle_ilnp_report(ilnp::Report::Used { session, at: self.now }, self.now);
        }
    }

    /// Payload with a nonce came in. The core hears of one that no session has.
    pub(crate) fn note_nonce(&mut self, ulids: UlidPair, nonce: Nonce) {
        let is_known = |entry: &&mut SessionEntry| {
            entry.pair.ulids() == ulids && entry.receive_nonce == Some(nonce)
        };
        let known = self.sessions.values_mut().find(is_known);
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

    /// The clock goes on to the next timer, which runs out.
    pub(crate) fn run_out(&mut self) {
        if let Some(at) = self.host.poll_timeout() {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
        }
    }

    /// Payload of this context came in: told to the core if it asked for that.
    pub(crate) fn note_payload(&mut self, id: ContextId) {
        let watch = self.entries.get(&id).map_or(0, |entry| entry.watch);
        if watch != 0 && watch != self.watch_seen {
            self.watch_seen = watch;
            self.report(Report::Received { context: id, at: self.now });
        }
    }

    /// Executes what the core wants: control packets are given back, with their locators.
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
            if !self.kernel.execute(&effect, &mut self.host, &sockets, self.now) {
                self.execute(effect, &mut sent);
            }
        }
        sent
    }

    fn execute(&mut self, effect: Effect, sent: &mut Vec<(LocatorPair, What)>) {
        if let Effect::SendShim6 { transmit, .. } = effect {
            sent.push((transmit.locators, What::Control(transmit.octets)));
        } else if let Effect::SendIlnp { transmit, .. } = effect {
            let pair = addresses_of(&transmit.packet);
            sent.push((pair, What::Ilnp(transmit.packet)));
        } else if let Effect::UpdateContext(Update::Upsert(entry)) = effect {
            self.entries.insert(entry.id, entry);
        } else if let Effect::UpdateContext(Update::Remove { context }) = effect {
            self.entries.remove(&context);
        } else if let Effect::UpdateSession(ilnp::Update::Upsert(entry)) = effect {
            self.sessions.insert(entry.id, entry);
        } else if let Effect::UpdateSession(ilnp::Update::Remove { session }) = effect {
            self.sessions.remove(&session);
        }
    }
}

/// Source and destination of an IPv6 packet of a host.
fn addresses_of(packet: &[u8]) -> LocatorPair {
    let header = Ip6::read(packet).expect("a host sends whole packets");
    LocatorPair::new(Locator(header.source), Locator(header.destination))
}

fn new_host(number: usize, life: u8, speaks_ilnp: bool, now: Instant) -> Host {
    let seed = seed(number, life);
    let sessions = speaks_ilnp.then(|| Sessions::new(moorline_ilnp::Config::default(), seed, now));
    Host::new(Contexts::new(Config::default(), seed, now), sessions)
}

fn seed(number: usize, life: u8) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[0] = u8::try_from(number).unwrap_or(u8::MAX);
    seed[1] = life;
    seed
}

fn local_state(number: usize, generation: u32) -> LocalState {
    let host = u8::try_from(number).unwrap_or(u8::MAX);
    let prefixes = [1, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa + host]);
    let key = HbaKey::extended_modifier([host; 48]);
    let set = generate_hba(&prefixes, Sec::ZERO, &key, [host; 16], 1).expect("Sec 0 takes one try");
    let present = set.locators().to_vec();
    let addresses = LocalAddresses { present: present.clone(), sets: vec![set], cgas: Vec::new() };
    LocalState { proof: LocalProof::new(generation, addresses, &[], [0; 32]), usable: present }
}
