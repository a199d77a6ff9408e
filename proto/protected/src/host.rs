use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_addresses::{Addressing, Group, Note, Planner};
use moorline_cga::{LocalAddresses, LocalProof};
use moorline_contexts::{self as shim6, Contexts};
use moorline_host::model::Kernel;
use moorline_host::{Effect, Host as Protocols, SessionAddress, Sessions};
use moorline_ilnp as ilnp;
use moorline_ip::PacketBuf;
use moorline_plane::{Planes, Report, ilnp as ilnp_plane, shim6::Plane};
use moorline_stack::address;
use moorline_stack::stack::{Event, Stack, WireConfig, WireId};
use moorline_types::{ContextId, Instant, Locator, SessionId, UlidPair};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use crate::config::Config;
use crate::view;

/// An IPv6 host whose connections survive when an ISP fails.
///
/// After each input, poll [`Host::poll_frame`], [`Host::poll_event`] and [`Host::poll_news`] until they return `None`; then wait
/// for the next input, or until [`Host::poll_timeout`].
pub struct Host {
    pub(crate) stack: Stack,
    pub(crate) planes: Planes,
    pub(crate) protocols: Protocols,
    /// Answers the questions of the protocols about routes. The stack finds the next hop of a packet by its source, so it
    /// needs none of these routes.
    pub(crate) routes: Kernel,
    /// Addresses that the plane takes for the host's own.
    pub(crate) locals: BTreeSet<Locator>,
    /// ULIDs of the contexts that the plane has.
    pub(crate) ulids: BTreeMap<ContextId, UlidPair>,
    /// Addresses, as sockets see them, of the sessions that the plane has.
    pub(crate) sessions: BTreeMap<SessionId, UlidPair>,
    /// Addresses of the host that another node has, until the planner has replaced them or no session needs them, each with
    /// the length of its prefix. The planner makes at most three for each prefix.
    pub(crate) duplicates: BTreeMap<(WireId, Ipv6Addr), u8>,
    /// Routers that Neighbor Unreachability Detection has given up. The stack bounds the number of routers.
    pub(crate) silent: BTreeSet<(WireId, Ipv6Addr)>,
    pub(crate) saving: Saving,
    pub(crate) random: ChaCha20Rng,
    pub(crate) is_view_due: bool,
    /// Whether the last call of [`Self::settle`] came to its bound.
    has_more: bool,
    events: VecDeque<Event>,
    news: VecDeque<News>,
}

/// The addresses of a host, from which another run makes the same ones.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// Generation of the last locator list (RFC 5533 s5.15.2). A run takes later ones only.
    pub generation: u32,
    /// Parameters of the addresses.
    pub groups: Vec<Group>,
}

/// Whether the caller saves addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saving {
    /// The caller saves nothing.
    Never,
    /// All is saved, or the caller is saving it.
    Idle,
    /// The caller has to save.
    Due,
}

/// News about contexts, sessions and addresses, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Something happened to a context.
    Context(shim6::Event),
    /// Something happened to a session.
    Session {
        /// The addresses that sockets see; `None` if the session is gone already.
        ulids: Option<UlidPair>,
        /// What happened.
        event: ilnp::Event,
    },
    /// Something happened to the addresses that the host makes.
    Address(Note),
}

impl Host {
    /// Creates a host without wires. All that is random comes from the seed: it must be secret and never used before, as context
    /// tags come from it, too. The host makes new addresses, and nobody saves them.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        Self::create(config, Saved::default(), seed, now)
    }

    /// As [`Self::new`], with the addresses of the last run. The host uses no address before the caller has saved its parameters: see
    /// [`Self::poll_save`].
    #[must_use]
    pub fn with_saved(config: Config, saved: Saved, seed: [u8; 32], now: Instant) -> Self {
        Self { saving: Saving::Idle, ..Self::create(config, saved, seed, now) }
    }

    fn create(config: Config, saved: Saved, seed: [u8; 32], now: Instant) -> Self {
        let mut random = ChaCha20Rng::from_seed(seed);
        // No peer of an earlier run knows this generation.
        let generation = match saved.groups.is_empty() {
            true => random.next_u32(),
            false => saved.generation.wrapping_add(LocalProof::GENERATIONS),
        };
        let policy = config.policy();
        let mut stack = config.stack;
        stack.intercepts = true;
        let planner = Planner::new(policy, BTreeMap::new(), saved.groups, fork(&mut random));
        let proof = LocalProof::new(generation, LocalAddresses::default(), &[], fork(&mut random));
        let contexts = Contexts::new(config.shim6, fork(&mut random), now);
        let stack = Stack::new(stack, fork(&mut random), now);
        let ilnp = config.ilnp.map(|ilnp| sessions(ilnp, &mut random, now));
        let (sessions, ilnp) = ilnp.unzip();
        let mut protocols =
            Protocols::new(contexts, sessions).with_addressing(Addressing::new(planner), proof);
        // There are no contexts of a run before: connections end with their program.
        protocols.handle_restored(BTreeSet::new(), now);
        Self {
            stack,
            planes: Planes { shim6: Plane::new(config.plane), ilnp },
            protocols,
            routes: Kernel::default(),
            locals: BTreeSet::new(),
            ulids: BTreeMap::new(),
            sessions: BTreeMap::new(),
            duplicates: BTreeMap::new(),
            silent: BTreeSet::new(),
            saving: Saving::Never,
            random,
            is_view_due: false,
            has_more: false,
            events: VecDeque::new(),
            news: VecDeque::new(),
        }
    }

    /// The host after a restart of its program, without wires: nothing is left but the addresses, and nobody saves them.
    pub(crate) fn next_run(&self, config: Config, seed: [u8; 32], now: Instant) -> Self {
        Self::create(config, self.addresses_to_save(), seed, now)
    }

    fn addresses_to_save(&self) -> Saved {
        let addressing = self.protocols.addressing();
        let groups = addressing.map(|one| one.planner.groups().to_vec()).unwrap_or_default();
        Saved { generation: self.protocols.proof().generation(), groups }
    }

    /// Adds a wire. Its link is up. The stack makes no global addresses on it, whatever the settings say.
    pub fn add_wire(&mut self, config: WireConfig, now: Instant) -> WireId {
        let addressing = address::Config { makes_global: false, ..config.addressing };
        let id = self.stack.add_wire(WireConfig { addressing, ..config }, now);
        self.is_view_due = true;
        self.settle(now);
        id
    }

    /// Takes the state of a link: up or down.
    pub fn handle_link(&mut self, wire: WireId, is_up: bool, now: Instant) {
        self.stack.handle_link(wire, is_up, now);
        self.is_view_due = true;
        self.settle(now);
    }

    /// Takes a frame of a wire.
    pub fn handle_frame(&mut self, wire: WireId, frame: PacketBuf, now: Instant) {
        let said = self
            .stack
            .wires()
            .find(|known| known.id() == wire)
            .and_then(|wire| view::advertisement(&wire, &frame));
        self.stack.handle_frame(wire, frame, now);
        if let Some(said) = said {
            self.on_advertisement(said, now);
        }
        self.settle(now);
    }

    /// Does what is due. Call it when [`Host::poll_timeout`] says so.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.stack.poll_timeout()) {
            self.stack.handle_timeout(now);
        }
        if is_due(self.planes.shim6.poll_timeout()) {
            self.planes.shim6.handle_timeout(now);
        }
        if is_due(self.protocols.poll_timeout()) {
            self.protocols.handle_timeout(now);
        }
        self.settle(now);
    }

    /// The time of the next [`Host::handle_timeout`]. The answer can change with each input.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.has_more {
            return Some(Instant::ZERO);
        }
        let plane = self.planes.shim6.poll_timeout();
        let all = [self.stack.poll_timeout(), plane, self.protocols.poll_timeout()];
        all.into_iter().flatten().min()
    }

    /// The next frame to send, with its Ethernet header.
    #[must_use]
    pub fn poll_frame(&mut self) -> Option<(WireId, PacketBuf)> {
        self.stack.poll_frame()
    }

    /// The next event of the stack.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next news. If nobody asks, the host keeps the last [`MAX_NEWS`].
    #[must_use]
    pub fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Whether [`Self::poll_save`] has addresses to save.
    #[must_use]
    pub fn has_unsaved(&self) -> bool {
        self.saving == Saving::Due
    }

    /// The addresses that the caller has to save now, if there are any that are not saved. The answer of the caller is
    /// [`Self::handle_saved`], before the next call.
    #[must_use]
    pub fn poll_save(&mut self) -> Option<Saved> {
        if self.saving != Saving::Due {
            return None;
        }
        self.saving = Saving::Idle;
        Some(self.addresses_to_save())
    }

    /// Takes the word that the addresses of the last [`Self::poll_save`] are saved. Without it the host asks again in a while.
    pub fn handle_saved(&mut self, now: Instant) {
        // If other ones have come meanwhile, those are not saved.
        if self.saving == Saving::Idle {
            self.protocols.handle_done(&Effect::SaveAddresses, now);
            self.is_view_due = true;
            self.settle(now);
        }
    }

    /// The stack, to look at.
    #[must_use]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The protocols, to look at: contexts, addresses, and what the host has seen of its links.
    #[must_use]
    pub const fn protocols(&self) -> &Protocols {
        &self.protocols
    }

    /// The data planes, to look at: counters and drops.
    #[must_use]
    pub const fn planes(&self) -> &Planes {
        &self.planes
    }

    /// Ends all sessions of ILNP, and tells the correspondents. Otherwise those would go on with checksums that only a session
    /// explains.
    pub fn end_sessions(&mut self, now: Instant) {
        if let Some(sessions) = self.protocols.ilnp_mut() {
            sessions.handle_end();
        }
        self.settle(now);
    }

    /// Calls a function of the stack, such as a call on a socket, and does what follows from it.
    pub fn with_stack<T>(&mut self, now: Instant, call: impl FnOnce(&mut Stack) -> T) -> T {
        let result = call(&mut self.stack);
        self.settle(now);
        result
    }

    pub(crate) fn tell(&mut self, news: News) {
        if self.news.len() == MAX_NEWS {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }

    /// Carries out all that the parts want of each other. Each input ends with it.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.has_more = false;
        for _ in 0..MAX_ROUNDS {
            let has_moved = self.move_packets(now);
            let has_followed = self.follow_stack(now);
            let has_reported = self.take_reports(now);
            if !(has_moved | has_followed | has_reported | self.execute_all(now)) {
                return;
            }
        }
        self.has_more = true;
    }

    /// Takes the events of the stack, and gives the protocols a new view if the links have changed.
    fn follow_stack(&mut self, now: Instant) -> bool {
        while let Some(event) = self.stack.poll_event() {
            self.is_view_due |= view::is_about_links(&event);
            if let Event::AddressDuplicate(wire, address) = event {
                self.on_duplicate(wire, address);
            }
            self.on_router(&event, now);
            self.events.push_back(event);
        }
        self.find_routers(now);
        if !core::mem::take(&mut self.is_view_due) {
            return false;
        }
        let view = view::view(&self.stack, &self.duplicates, now);
        self.protocols.handle_view(view, now);
        self.follow_mtus();
        true
    }

    /// Notes an address that another node has, if the protocols have chosen it.
    fn on_duplicate(&mut self, wire: WireId, address: Ipv6Addr) {
        let addressing = self.protocols.addressing();
        let is_planned = addressing.is_some_and(|one| one.planner.member(address).is_some());
        if is_planned {
            self.duplicates.insert((wire, address), PREFIX_LEN);
        } else if self.protocols.is_session_address(address) {
            self.duplicates.insert((wire, address), SessionAddress::PREFIX_LEN);
        }
    }

    fn take_reports(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(report) = self.planes.poll_report() {
            match report {
                Report::Shim6(report) => self.protocols.handle_shim6_report(report, now),
                Report::Ilnp(report) => self.protocols.handle_ilnp_report(report, now),
            }
            is_any = true;
        }
        is_any
    }
}

/// The sessions of ILNP, and their data plane.
fn sessions(
    config: ilnp::Config,
    random: &mut ChaCha20Rng,
    now: Instant,
) -> (Sessions, ilnp_plane::Plane) {
    let settings = ilnp_plane::Settings {
        wanted: config.policy.wanted(),
        max_sessions: config.max_sessions,
        types: config.types,
        checksum: config.checksum,
        ..ilnp_plane::Settings::default()
    };
    let mut key = [0; 16];
    random.fill_bytes(&mut key);
    (Sessions::new(config, fork(random), now), ilnp_plane::Plane::new(settings, key))
}

/// A seed from a generator.
pub(crate) fn fork(random: &mut ChaCha20Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    random.fill_bytes(&mut seed);
    seed
}

/// Largest number of rounds in which the parts answer each other for one input. Then other inputs have their turn. Not configurable.
const MAX_ROUNDS: usize = 64;
/// Length of the prefix of an address that the planner makes.
pub(crate) const PREFIX_LEN: u8 = 64;
/// Number of news that wait for [`Host::poll_news`]. Not configurable.
pub const MAX_NEWS: usize = 1024;
