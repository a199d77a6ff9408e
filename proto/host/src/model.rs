//! A model of the kernel and data planes under a [`Host`]: routes of moved pairs, ULIDs that have left their uplinks,
//! sockets, contexts and sessions. Executors without a kernel use it: the simulator, the model checker and the
//! fuzzer. The model outlives the host, as the kernel outlives the daemon.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_addresses::{FoundRoute, HostView, MovedRoute, NextHop, RouteStep, Uplink};
use moorline_cga::{HbaKey, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_contexts::LocalState;
use moorline_datapath::ilnp::{self, SessionEntry, Socket, Sockets};
use moorline_datapath::shim6::{self, ContextEntry};
use moorline_types::{ContextId, IlvPair, Instant, Locator, SessionId, Ulid, UlidPair};

use crate::Host;
use crate::effect::Effect;

/// Sockets that give the same answer for all packets.
#[derive(Clone, Copy, Debug)]
pub struct OneSocket(pub Socket);

impl Sockets for OneSocket {
    fn kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        self.0
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        self.0 == Socket::Connected
    }
}

/// Routes and addresses that a host has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    routes: BTreeMap<UlidPair, MovedRoute>,
    kept: BTreeSet<Ulid>,
}

impl Kernel {
    /// Executes an effect, and answers the host if the effect is a question. Returns false if the effect is not about
    /// routes, ULIDs or sockets.
    pub fn execute(
        &mut self,
        effect: &Effect,
        host: &mut Host,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> bool {
        if let Effect::Route(step) = effect {
            self.change_routes(step);
        } else if let Effect::KeepUlid(ulid) = effect {
            self.kept.insert(*ulid);
        } else if let Effect::ReleaseUlid(ulid) = effect {
            self.kept.remove(ulid);
        } else if *effect == Effect::AskRoutes {
            host.handle_routes(&self.routes(), now);
        } else if *effect == Effect::AskOffloads {
            host.set_takes_moved(host.carriers().shim6.clone());
        } else if let Effect::AskSockets(questions) = effect {
            questions.iter().for_each(|question| host.answer(*question, sockets, now));
        } else {
            return false;
        }
        true
    }

    fn change_routes(&mut self, step: &RouteStep) {
        for route in step.routes() {
            match step {
                RouteStep::Add(_) => {
                    // Direct routes that exist stay.
                    let before = self.routes.get(&route.ulids);
                    let (direct, own) = before.map_or((None, None), |old| (old.direct, old.own));
                    self.routes.insert(route.ulids, MovedRoute { direct, own, ..*route });
                }
                RouteStep::Remove(_) => {
                    self.routes.remove(&route.ulids);
                }
                RouteStep::LeadDirectly(_) => self.change(route, |there| {
                    (there.direct, there.own) = (route.direct, route.own);
                }),
                RouteStep::LeadByMoor(_) => self.change(route, |there| there.direct = None),
                RouteStep::RemoveTcp(_) => self.change(route, |there| there.bare_tcp_mtu = None),
            }
        }
    }

    fn change(&mut self, route: &MovedRoute, change: impl FnOnce(&mut MovedRoute)) {
        if let Some(there) = self.routes.get_mut(&route.ulids) {
            change(there);
        }
    }

    /// Follows a change of the links: routes by a link that is gone or has no carrier go.
    pub fn follow(&mut self, view: &HostView) {
        let is_there = |hop: &NextHop| view.uplink(hop.ifindex).is_some_and(|one| one.carrier);
        for route in self.routes.values_mut() {
            route.direct = route.direct.filter(is_there);
            route.own = route.own.filter(is_there);
        }
    }

    /// Describes how routes and ULIDs differ from those that the contexts and sessions of a host need; `None` if they
    /// do not differ. A host that [awaits a retry](Host::awaits_retry) may differ.
    #[must_use]
    pub fn difference(&self, host: &Host, now: Instant) -> Option<String> {
        let sessions = host.ilnp().into_iter().flat_map(|ilnp| ilnp.sessions(now));
        let sessions = sessions.filter(|session| session.wire != session.pair);
        let sessions = sessions.map(|session| session.pair.ulids());
        let moved: BTreeSet<_> = moved(host).chain(sessions).collect();
        let (kept, needed) = (&self.kept, host.ulids_to_keep());
        let is_routed = moved.iter().eq(self.routes.keys());
        (!is_routed || *kept != needed).then(|| {
            let routed = self.routed();
            format!("moved {moved:?}, routed {routed:?}; kept {kept:?}, needed {needed:?}")
        })
    }

    /// All routes, for changes that no host asks for.
    pub fn routes_mut(&mut self) -> impl Iterator<Item = &mut MovedRoute> {
        self.routes.values_mut()
    }

    /// All routes.
    #[must_use]
    pub fn routes(&self) -> Vec<FoundRoute> {
        let found =
            |route: &MovedRoute| FoundRoute { route: *route, has_direct: route.direct.is_some() };
        self.routes.values().map(found).collect()
    }

    /// Pairs that have a route.
    #[must_use]
    pub fn routed(&self) -> BTreeSet<UlidPair> {
        self.routes.keys().copied().collect()
    }

    /// The route of a pair, if it has one.
    #[must_use]
    pub fn route(&self, ulids: UlidPair) -> Option<&MovedRoute> {
        self.routes.get(&ulids)
    }

    /// ULIDs that are addresses of the host, although no uplink has them.
    #[must_use]
    pub const fn kept(&self) -> &BTreeSet<Ulid> {
        &self.kept
    }
}

/// Contexts and sessions that a host has told its data planes.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Contexts.
    pub contexts: BTreeMap<ContextId, ContextEntry>,
    /// Sessions.
    pub sessions: BTreeMap<SessionId, SessionEntry>,
}

impl Told {
    /// Executes an effect. Returns false if the effect neither adds nor removes a context or session.
    pub fn execute(&mut self, effect: &Effect) -> bool {
        if let Effect::UpdateContext(shim6::Update::Upsert(entry)) = effect {
            self.contexts.insert(entry.id, entry.clone());
        } else if let Effect::UpdateContext(shim6::Update::Remove { context }) = effect {
            self.contexts.remove(context);
        } else if let Effect::UpdateSession(ilnp::Update::Upsert(entry)) = effect {
            self.sessions.insert(entry.id, entry.clone());
        } else if let Effect::UpdateSession(ilnp::Update::Remove { session }) = effect {
            self.sessions.remove(session);
        } else {
            return false;
        }
        true
    }

    /// Describes how the data planes differ from a host: see [`difference`].
    #[must_use]
    pub fn difference(&self, host: &Host, now: Instant) -> Option<String> {
        difference(host, self.contexts.values(), self.sessions.values(), now)
    }
}

/// Describes how data planes differ from a host; `None` if they do not differ. Contexts come in the order of their
/// slots. A host that [awaits a retry](Host::awaits_retry) may differ.
pub fn difference<'a>(
    host: &Host,
    contexts: impl Iterator<Item = &'a ContextEntry>,
    sessions: impl Iterator<Item = &'a SessionEntry>,
    now: Instant,
) -> Option<String> {
    let essence = |entry: &ContextEntry| {
        (entry.id, entry.ulids, entry.current, entry.local_tag, entry.peer_tag)
    };
    let known = || host.shim6().entries().map(|entry| essence(&entry));
    let told: Vec<_> = contexts.map(essence).collect();
    let known_sessions = host.ilnp().into_iter().flat_map(|ilnp| ilnp.sessions(now));
    let known_sessions: BTreeSet<_> =
        known_sessions.map(|one| (one.id, one.pair, one.wire)).collect();
    let told_sessions: BTreeSet<_> =
        sessions.map(|entry| (entry.id, entry.pair, entry.wire_pair())).collect();
    (!known().eq(told.iter().copied()) || known_sessions != told_sessions).then(|| {
        let known: Vec<_> = known().collect();
        format!(
            "contexts {known:?}, told {told:?}; sessions {known_sessions:?}, told {told_sessions:?}"
        )
    })
}

/// A pair that has both a session and a moved context. No host has such a pair (decision 071).
#[must_use]
pub fn contested(host: &Host) -> Option<UlidPair> {
    let ilnp = host.ilnp()?;
    moved(host).find(|pair| ilnp.has_session(IlvPair::of(*pair)))
}

/// Pairs whose contexts have moved.
fn moved(host: &Host) -> impl Iterator<Item = UlidPair> + '_ {
    host.shim6().entries().filter(ContextEntry::is_moved).map(|entry| entry.ulids)
}

/// Makes two addresses for the host with this number, an HBA set under prefixes of two ISPs, and the proof of them.
///
/// # Panics
/// Never: with Sec 0 the first try makes a set.
#[must_use]
pub fn local_state(number: u8, generation: u32) -> LocalState {
    let prefixes = [1, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa + number]);
    let key = HbaKey::extended_modifier([number; 48]);
    let set =
        generate_hba(&prefixes, Sec::ZERO, &key, [number; 16], 1).expect("Sec 0 takes one try");
    let usable = set.locators().to_vec();
    let addresses = LocalAddresses {
        present: usable.clone(),
        sets: vec![set],
        cgas: Vec::new(),
        ..LocalAddresses::default()
    };
    LocalState { proof: LocalProof::new(generation, addresses, &[], [0; 32]), usable }
}

/// Makes a view with an uplink for each of these addresses. The uplink has the number of the ISP in [`local_state`].
#[must_use]
pub fn view(usable: &[Locator]) -> HostView {
    let uplinks = usable.iter().map(|own| {
        let isp = own.0.segments()[2];
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, isp);
        Uplink::new(isp.into(), format!("isp{isp}")).reached(router, [own.0])
    });
    HostView { uplinks: uplinks.collect(), ..HostView::default() }
}
