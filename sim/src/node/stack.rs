//! A host stack in a process with Shim6 beneath it, and the routers of its ISPs on its links.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use moorline_cga::{LocalProof, Sec};
use moorline_contexts::{Contexts, EstablishedView, Event};
use moorline_datapath::shim6::{ContextEntry, TriggerPolicy, Update};
use moorline_host::Sessions;
use moorline_host::model::{contested, difference};
use moorline_ilnp::{Event as SessionEvent, SessionView};
use moorline_ip::{Mac, PacketBuf};
use moorline_protected::world::Router;
use moorline_protected::{Config, Host, News, Saved};
use moorline_stack::address;
use moorline_stack::stack::{Event as StackEvent, WireConfig, WireId};
use moorline_types::{ContextId, DropReason, Instant, Locator, Prefix, UlidPair};

use super::{established, session};
use crate::addresses::prefix_of;
use crate::network::Network;
use crate::plan::{HostPlan, Port};
use crate::workload::End;

/// The host, and for each of its uplinks a wire with the router of the ISP at the other end.
pub(crate) struct StackHost {
    number: usize,
    plan: HostPlan,
    /// The ends of its connections call it, too.
    host: Rc<RefCell<Host>>,
    is_asleep: Rc<Cell<bool>>,
    /// The addresses that the host has saved.
    saved: Saved,
    links: Vec<Link>,
    outputs: VecDeque<Output>,
    /// The contexts of the data plane, as the last outputs have told them.
    told: BTreeMap<ContextId, ContextEntry>,
    /// The addresses for ILNP sessions alone, as the last outputs have told them, each with its uplink.
    guests: BTreeSet<(usize, Ipv6Addr)>,
    advertises_at: Instant,
    /// Number of times in a row that timers have asked for the present moment.
    asked: usize,
    /// Time of the next look at timers, as the queue has it.
    pub(crate) wake: Option<Instant>,
}

/// A wire of the host.
struct Link {
    router: Router,
    has_carrier: bool,
    /// The addresses that the host has or had.
    addresses: Vec<Locator>,
}

/// What a host stack does.
pub(crate) enum Output {
    /// A packet for the network.
    Packet(Vec<u8>),
    /// The host has this address at an uplink.
    Address(usize, Locator),
    /// The host has this address at an uplink for ILNP sessions alone.
    Guest(usize, Ipv6Addr),
    /// The host has such an address no more.
    GuestGone(Ipv6Addr),
    /// The data plane has been told this.
    Update(Update),
    /// Something happened to a context.
    Context(Event),
    /// Something happened to a session.
    Session(SessionEvent),
}

impl StackHost {
    pub(super) fn new(number: usize, plan: &HostPlan, seed: [u8; 32], now: Instant) -> Self {
        let host = new_host(number, plan, Saved::default(), seed, now);
        let link = |uplink| {
            let mut address = [0; 16];
            address[..8].copy_from_slice(&prefix_of(number, uplink, 0));
            let prefix = Prefix::new(Ipv6Addr::from(address), 64);
            let router = Router::of_prefix(uplink, prefix);
            Link { router, has_carrier: true, addresses: Vec::new() }
        };
        Self {
            number,
            plan: plan.clone(),
            host: Rc::new(RefCell::new(host)),
            is_asleep: Rc::default(),
            saved: Saved::default(),
            links: (0..plan.uplinks.len()).map(link).collect(),
            outputs: VecDeque::new(),
            told: BTreeMap::new(),
            guests: BTreeSet::new(),
            advertises_at: now + FIRST_ADVERTISEMENT,
            asked: 0,
            wake: None,
        }
    }

    /// Begins anew with the saved addresses, and nothing else. The ends of connections keep the host before.
    pub(crate) fn reboot(&mut self, seed: [u8; 32], now: Instant) {
        let mut host = new_host(self.number, &self.plan, self.saved.clone(), seed, now);
        for (uplink, link) in self.links.iter_mut().enumerate() {
            link.addresses.clear();
            if !link.has_carrier {
                host.handle_link(wire_of(uplink), false, now);
            }
        }
        self.host = Rc::new(RefCell::new(host));
        self.outputs.clear();
        self.told.clear();
        self.guests.clear();
        self.wake = None;
    }

    /// The sockets of the host, for an end of a workload.
    pub(crate) fn end(&self) -> End {
        End::Stack(Rc::clone(&self.host), Rc::clone(&self.is_asleep))
    }

    /// Takes the word that nothing runs on the host, or that it is awake.
    pub(crate) fn set_asleep(&self, is_asleep: bool) {
        self.is_asleep.set(is_asleep);
    }

    /// Takes the state of the links.
    pub(super) fn follow_links(&mut self, network: &Network, now: Instant) {
        for (uplink, link) in self.links.iter_mut().enumerate() {
            let has_carrier = network.has_carrier(Port { host: self.number, uplink });
            if has_carrier != link.has_carrier {
                link.has_carrier = has_carrier;
                self.host.borrow_mut().handle_link(wire_of(uplink), has_carrier, now);
            }
        }
    }

    /// Takes a packet of the network.
    pub(crate) fn handle_packet(&mut self, uplink: usize, octets: &[u8], now: Instant) {
        if let Some(link) = self.links.get_mut(uplink) {
            link.router.deliver(PacketBuf::copy_of(octets));
        }
        self.carry(now);
    }

    /// Serves the timers of the host, and has the routers advertise from time to time.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.advertises_at <= now {
            self.advertises_at = now + BETWEEN_ADVERTISEMENTS;
            self.links.iter_mut().for_each(|link| link.router.advertise());
        }
        let mut host = self.host.borrow_mut();
        if host.poll_timeout().is_some_and(|at| at <= now) {
            host.handle_timeout(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Instant {
        let host = self.host.borrow().poll_timeout();
        host.map_or(self.advertises_at, |at| at.min(self.advertises_at))
    }

    /// Number of times in a row that timers, which have just been served, have asked for the present moment.
    pub(crate) fn asked_again(&mut self, now: Instant) -> usize {
        self.asked = if self.poll_timeout() > now { 0 } else { self.asked + 1 };
        self.asked
    }

    /// What the host does next.
    pub(crate) fn poll_output(&mut self, now: Instant) -> Option<Output> {
        if self.outputs.is_empty() {
            self.carry(now);
            self.look();
            for link in &mut self.links {
                let packets = std::iter::from_fn(|| link.router.poll_packet());
                self.outputs.extend(packets.map(|packet| Output::Packet(packet.to_vec())));
            }
        }
        self.outputs.pop_front()
    }

    /// Carries frames between the host and its routers until there are none. A link without a carrier loses them.
    fn carry(&mut self, now: Instant) {
        let mut host = self.host.borrow_mut();
        let mut is_any = true;
        while std::mem::take(&mut is_any) {
            while let Some(saved) = host.poll_save() {
                self.saved = saved;
                host.handle_saved(now);
            }
            while let Some((wire, frame)) = host.poll_frame() {
                let link = self.links.get_mut(wire.0 as usize);
                if let Some(link) = link.filter(|link| link.has_carrier) {
                    link.router.handle_frame(&frame);
                }
                is_any = true;
            }
            for (uplink, link) in self.links.iter_mut().enumerate() {
                while let Some(frame) = link.router.poll_frame() {
                    if link.has_carrier {
                        host.handle_frame(wire_of(uplink), frame, now);
                    }
                    is_any = true;
                }
            }
        }
    }

    /// Notes what has changed in the host. Addresses come before all that has them.
    fn look(&mut self) {
        let mut host = self.host.borrow_mut();
        while let Some(event) = host.poll_event() {
            if let StackEvent::AddressReady(wire, address) = event
                && !address.is_unicast_link_local()
                && !host.protocols().is_session_address(address)
                && let Some(link) = self.links.get_mut(wire.0 as usize)
            {
                let locator = Locator(address);
                link.addresses.retain(|known| *known != locator);
                link.addresses.push(locator);
                self.outputs.push_back(Output::Address(wire.0 as usize, locator));
            }
        }
        let guests = guests_of(&host);
        let gone = self.guests.difference(&guests).map(|(_, address)| Output::GuestGone(*address));
        let new = guests.difference(&self.guests).map(|(uplink, one)| Output::Guest(*uplink, *one));
        self.outputs.extend(gone.chain(new));
        self.guests = guests;
        let present: BTreeMap<_, _> =
            host.planes().shim6.contexts().map(|entry| (entry.id, entry.clone())).collect();
        if present != self.told {
            let gone = self.told.keys().filter(|id| !present.contains_key(id));
            let removed = gone.map(|context| Update::Remove { context: *context });
            let changed = present.iter().filter(|(id, entry)| self.told.get(id) != Some(entry));
            let upserts = changed.map(|(_, entry)| Update::Upsert(entry.clone()));
            self.outputs.extend(removed.chain(upserts).map(Output::Update));
            self.told = present;
        }
        while let Some(news) = host.poll_news() {
            match news {
                News::Context(event) => self.outputs.push_back(Output::Context(event)),
                News::Session { event, .. } => self.outputs.push_back(Output::Session(event)),
                News::Address(_) => {}
            }
        }
    }

    /// What is wrong in the host: a pair with two owners, or a data plane with other contexts than the protocols.
    pub(crate) fn fault(&self, now: Instant) -> Option<String> {
        let host = self.host.borrow();
        let (protocols, planes) = (host.protocols(), host.planes());
        let sessions = planes.ilnp.iter().flat_map(|plane| plane.sessions());
        contested(protocols)
            .map(|pair| pair.to_string())
            .or_else(|| difference(protocols, planes.shim6.contexts(), sessions, now))
    }

    /// Looks at the contexts of the host.
    pub(crate) fn with_contexts<T>(&self, look: impl FnOnce(&Contexts) -> T) -> T {
        look(self.host.borrow().protocols().shim6())
    }

    pub(super) fn proof(&self) -> LocalProof {
        self.host.borrow().protocols().proof().clone()
    }

    pub(super) fn newest(&self, uplink: usize) -> Option<Locator> {
        self.links.get(uplink)?.addresses.last().copied()
    }

    pub(super) fn established(&self, ulids: UlidPair) -> Option<EstablishedView> {
        established(self.host.borrow().protocols(), ulids)
    }

    pub(super) fn session(&self, ulids: UlidPair, now: Instant) -> Option<SessionView> {
        session(self.host.borrow().protocols(), ulids, now)
    }

    /// Drops of contexts, sessions and data planes.
    pub(crate) fn drops(&self) -> Vec<(DropReason, u64)> {
        let host = self.host.borrow();
        let (protocols, planes) = (host.protocols(), host.planes());
        let of_shim6 = protocols.shim6().drops().iter().chain(planes.shim6.drops().iter());
        let sessions = protocols.ilnp().into_iter().flat_map(Sessions::drops);
        let of_ilnp = sessions.chain(planes.ilnp.iter().flat_map(|plane| plane.drops().iter()));
        // A repeated Confirm may be for another session than the one that a later handshake has made.
        of_shim6.chain(of_ilnp.filter(|drop| drop.0 != DropReason::BadValidator)).collect()
    }
}

impl fmt::Debug for StackHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StackHost").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The addresses of a host for ILNP sessions alone, each with its uplink.
fn guests_of(host: &Host) -> BTreeSet<(usize, Ipv6Addr)> {
    let wires = host.stack().wires().flat_map(|wire| {
        let uplink = wire.id().0 as usize;
        wire.addresses().map(|own| (uplink, own.address)).collect::<Vec<_>>()
    });
    wires.filter(|(_, address)| host.protocols().is_session_address(*address)).collect()
}

fn new_host(number: usize, plan: &HostPlan, saved: Saved, seed: [u8; 32], now: Instant) -> Host {
    let mut host = Host::with_saved(config(plan), saved, seed, now);
    for uplink in 0..plan.uplinks.len() {
        let mac = Mac([2, 0, 0, 1, octet(number), octet(uplink)]);
        let addressing = address::Config::new(mac);
        host.add_wire(WireConfig { mtu: MTU, addressing, ip4: None }, now);
    }
    host
}

fn config(plan: &HostPlan) -> Config {
    let mut config = Config { sec: Sec::ZERO, ..Config::default() };
    config.shim6.shim6.send_timeout = plan.send_timeout;
    config.shim6.profile = plan.profile;
    config.ilnp = plan.ilnp.then(moorline_ilnp::Config::default);
    if !plan.initiates {
        config.plane.trigger = TriggerPolicy::NEVER;
    }
    config
}

fn wire_of(uplink: usize) -> WireId {
    WireId(u32::try_from(uplink).unwrap_or(u32::MAX))
}

fn octet(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// MTU of the links.
const MTU: u32 = 1500;
/// Time of the first advertisements of the routers.
const FIRST_ADVERTISEMENT: Duration = Duration::from_millis(300);
const BETWEEN_ADVERTISEMENTS: Duration = Duration::from_secs(30);
