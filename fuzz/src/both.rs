use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{HostView, Uplink};
use moorline_contexts::{Config, Contexts, LocalState, Removal};
use moorline_datapath::ilnp::{Report, Socket};
use moorline_datapath::shim6;
use moorline_host::{Carriers, Effect, Host, Sessions};
use moorline_types::{ContextId, IlvPair, Instant, LocatorPair, UlidPair};
use moorline_wire::fill_checksum;

use crate::host::local;
use crate::input::Input;
use crate::shared::{OneSocket, polled};

/// Two hosts that speak Shim6 and ILNP, and an attacker on the path who writes the input: steps that deliver, lose, replay and change packets of
/// both protocols, make up traffic and reports of the data planes, lose locators and routers, remove contexts, have effects fail, and let time pass.
///
/// Promises: no panic; a pair of addresses that has a session has no context that has moved; effects that come to an end; no timer in the
/// past. Well formed is an input that leaves a session or an established context on both sides.
pub fn both(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut world = World::new();
    while let Some(step) = input.step() {
        world.step(step, &mut input);
        world.check();
    }
    world.hosts.iter().all(|host| {
        let is_established = host.shim6().contexts().any(|context| context.established.is_some());
        is_established || host.ilnp().is_some_and(|ilnp| ilnp.session_count() > 0)
    })
}

/// A control packet under way.
#[derive(Clone)]
enum Packet {
    Shim6(Vec<u8>, LocatorPair),
    Ilnp(Vec<u8>),
}

struct World {
    hosts: [Host; 2],
    locals: [LocalState; 2],
    /// To be delivered to each.
    waiting: [VecDeque<Packet>; 2],
    seen: Vec<(usize, Packet)>,
    /// Whether kernel and data planes refuse what they are told.
    fails: bool,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let locals = [1, 2].map(local);
        let hosts = [0, 1].map(|side| new_host(side, &locals[side], now));
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self { hosts, locals, waiting, seen: Vec::new(), fails: false, now }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        let side = usize::from(step >> 7);
        match step % 8 {
            0 => self.traffic(side, input.octet()),
            1 | 2 => {
                if let Some(packet) = self.waiting[side].pop_front() {
                    self.give(side, packet);
                }
            }
            3 => drop(self.waiting[side].pop_front()),
            4 => self.replay_changed(input),
            5 => self.now = self.now + Duration::from_millis(u64::from(input.word())),
            6 => self.report(side, input.octet()),
            _ => self.change(side, input.octet()),
        }
        self.settle();
        for host in &mut self.hosts {
            host.handle_timeout(self.now);
        }
        self.settle();
    }

    fn pair(&self, side: usize, which: u8) -> UlidPair {
        let ulid = |side: usize, bit: u8| {
            self.locals[side].usable[usize::from(which >> bit & 1)].as_ulid()
        };
        UlidPair::new(ulid(side, 0), ulid(1 - side, 1))
    }

    /// Both planes of a host see traffic of a pair, or one does.
    fn traffic(&mut self, side: usize, which: u8) {
        let ulids = self.pair(side, which);
        if which & 4 == 0 {
            let report = Report::Candidate {
                pair: IlvPair::of(ulids),
                protocol: 6,
                ports: (1, 2),
                socket: if which & 16 == 0 { Socket::Connected } else { Socket::Unconnected },
                inbound: which & 32 != 0,
                nonce: None,
            };
            self.hosts[side].handle_ilnp_report(report, self.now);
        }
        if which & 8 == 0 {
            let report = shim6::Report::Trigger { ulids };
            self.hosts[side].handle_shim6_report(report, self.now);
        }
    }

    fn give(&mut self, side: usize, packet: Packet) {
        match packet {
            Packet::Shim6(octets, locators) => {
                self.hosts[side].handle_shim6(&octets, locators, self.now);
            }
            Packet::Ilnp(packet) => self.hosts[side].handle_ilnp(&packet, self.now),
        }
    }

    fn replay_changed(&mut self, input: &mut Input<'_>) {
        let (which, at) = (usize::from(input.octet()), usize::from(input.octet()));
        let change = input.octet();
        let Some((side, packet)) = self.seen.get(which % self.seen.len().max(1)).cloned() else {
            return;
        };
        let changed = match packet {
            Packet::Shim6(mut octets, locators) => {
                let at = at % octets.len();
                octets[at] ^= change;
                fill_checksum(&mut octets);
                Packet::Shim6(octets, locators)
            }
            Packet::Ilnp(mut packet) => {
                let at = at % packet.len();
                packet[at] ^= change;
                Packet::Ilnp(packet)
            }
        };
        self.give(side, changed);
    }

    fn report(&mut self, side: usize, kind: u8) {
        let context = ContextId(u32::from(kind >> 4));
        let now = self.now;
        let report = match kind % 3 {
            0 => shim6::Report::SendExpired { context, since: now },
            1 => shim6::Report::Received { context, at: now },
            _ => shim6::Report::KeepaliveDue { context },
        };
        self.hosts[side].handle_shim6_report(report, now);
    }

    /// A locator goes or is back, a router is lost, a context goes, or effects fail from now on or no longer.
    fn change(&mut self, side: usize, which: u8) {
        if which & 0xf0 == 0xf0 {
            self.fails = !self.fails;
            return;
        }
        if which & 0xf0 == 0xe0 {
            self.hosts[side].handle_router_lost(u32::from(which & 3), self.now);
            return;
        }
        if which & 1 == 1 {
            self.hosts[side].shim6_mut().remove(ContextId(0), Removal::Requested);
            return;
        }
        let mut local = self.locals[side].clone();
        if which & 2 == 2 {
            local.usable.remove(usize::from(which >> 2 & 1));
        }
        tell(&mut self.hosts[side], &local, self.now);
    }

    fn settle(&mut self) {
        for side in 0..2 {
            loop {
                let (host, now) = (&mut self.hosts[side], self.now);
                let effects = polled(MOST, || host.poll_effect(now));
                if effects.is_empty() {
                    break;
                }
                effects.into_iter().for_each(|effect| self.execute(side, effect));
            }
        }
    }

    fn execute(&mut self, side: usize, effect: Effect) {
        let packet = match effect {
            Effect::SendShim6 { transmit, .. } => {
                let LocatorPair { local, peer } = transmit.locators;
                Packet::Shim6(transmit.octets, LocatorPair::new(peer, local))
            }
            Effect::SendIlnp { transmit, .. } => Packet::Ilnp(transmit.packet),
            Effect::AskSockets(questions) => {
                let socket = OneSocket(Socket::Connected);
                for question in questions {
                    self.hosts[side].answer(question, &socket, self.now);
                }
                return;
            }
            Effect::AskUsage(question) => {
                let contexts = self.hosts[side].shim6_mut();
                return contexts.handle_usage(question.context, true, self.now);
            }
            Effect::AskRoutes => return self.hosts[side].handle_routes(&[], self.now),
            of_host @ (Effect::UpdateContext(_)
            | Effect::UpdateSession(_)
            | Effect::SetNode(_)
            | Effect::Route(_)
            | Effect::GiveUpNeighbors { .. }
            | Effect::FlushCachedRoutes
            | Effect::KeepUlid(_)
            | Effect::ReleaseUlid(_)
            | Effect::FollowRules
            | Effect::AddSessionAddress(_)
            | Effect::RemoveSessionAddress(_)
            | Effect::Introduce { .. }
            | Effect::NotifyTcp { .. }
            | Effect::TellContext(_)
            | Effect::TellSession(_)) => {
                if self.fails {
                    self.hosts[side].handle_failed(&of_host, self.now);
                }
                return;
            }
        };
        if self.seen.len() < MAX_SEEN {
            self.seen.push((1 - side, packet.clone()));
        }
        self.waiting[1 - side].push_back(packet);
    }

    fn check(&self) {
        for host in &self.hosts {
            for context in host.shim6().contexts() {
                let current = context.established.as_ref().map(|view| view.locators);
                let has_moved = current.is_some_and(|now| now != context.ulids.as_locators());
                let pair = IlvPair::of(context.ulids);
                let has_session = host.ilnp().is_some_and(|ilnp| ilnp.has_session(pair));
                assert!(!(has_moved && has_session), "{pair:?} has two owners");
            }
            let next = host.poll_timeout();
            assert!(next.is_none_or(|at| at > self.now), "a timer in the past: {next:?}");
        }
    }
}

fn new_host(side: usize, local: &LocalState, now: Instant) -> Host {
    let seed = [u8::try_from(side).expect("two") + 1; 32];
    let mut config = Config::default();
    config.shim6.max_contexts = 16;
    let sessions = moorline_ilnp::Config { max_sessions: 16, ..Default::default() };
    let sessions = Sessions::new(sessions, seed, now);
    let mut host = Host::new(Contexts::new(config, seed, now), Some(sessions));
    tell(&mut host, local, now);
    host
}

fn tell(host: &mut Host, local: &LocalState, now: Instant) {
    let uplinks = local.usable.iter().map(|own| {
        let isp = own.0.segments()[2];
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, isp);
        Uplink::new(u32::from(isp), format!("isp{isp}")).reached(router, [own.0])
    });
    let view = HostView { uplinks: uplinks.collect(), ..HostView::default() };
    let all: BTreeSet<_> = view.uplinks.iter().map(|uplink| uplink.ifindex).collect();
    host.handle_view(view, now);
    host.set_takes_moved(all.clone());
    let carriers = Carriers { shim6: all.clone(), ilnp: all };
    host.handle_ready(local.proof.clone(), carriers, now);
    host.follow(now);
}

/// Packets kept for replay.
const MAX_SEEN: usize = 64;
/// More than any step brings.
const MOST: usize = 1000;
