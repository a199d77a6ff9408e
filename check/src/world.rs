use std::collections::BTreeSet;

use moorline_datapath::shim6::Report;
use moorline_types::{ContextTag, Ilv, IlvPair, L64, Locator, LocatorPair, Nonce};
use moorline_wire::ilnp::Control;
use moorline_wire::{MessageType, OptionType, Packet, PayloadHeader};

use crate::digest;
use crate::side::Side;
use crate::third::{self, Forgery, Heard, Learnt};

/// Greatest number of each action. The search tries all orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Packets that are lost.
    pub losses: u8,
    /// Packets that arrive and stay in flight.
    pub duplicates: u8,
    /// Timers that expire, of both hosts together.
    pub timeouts: u8,
    /// Triggers of a context by traffic, by host.
    pub triggers: [u8; 2],
    /// Payload packets, of both hosts together.
    pub payloads: u8,
    /// Send Timers that expire.
    pub alarms: u8,
    /// Failures of the path between the ULIDs, in both directions.
    pub cuts: u8,
    /// Restarts of a host without state.
    pub lapses: u8,
    /// Changes of the carrier of the first host's first uplink.
    pub links: u8,
    /// Changes that the kernel of the first host refuses.
    pub refusals: u8,
    /// Packets of a third party that knows no secret of the hosts: of ILNP if the hosts speak it, otherwise of Shim6.
    pub forgeries: u8,
    /// Whether packets of the third party go to the second locator of a host, and not to its ULID.
    pub at_second: bool,
    /// Whether both hosts speak ILNP beside Shim6.
    pub ilnp: bool,
    /// Whether the Send Timers run out at the end of the world. By the answer to its probe, a host learns of a tag that its
    /// peer does not know.
    pub probes: bool,
}

impl Bounds {
    /// The remaining number of an action. `None` if the action has no bound.
    const fn of(&mut self, action: Action) -> Option<&mut u8> {
        Some(match action {
            Action::Deliver(_) => return None,
            Action::Lose(_) => &mut self.losses,
            Action::Duplicate(_) => &mut self.duplicates,
            Action::Timeout(_) => &mut self.timeouts,
            Action::Trigger(n) => &mut self.triggers[n],
            Action::Payload(_) => &mut self.payloads,
            Action::Alarm(_) => &mut self.alarms,
            Action::Cut => &mut self.cuts,
            Action::Forget(_) => &mut self.lapses,
            Action::Link => &mut self.links,
            Action::Refuse => &mut self.refusals,
            Action::Forge(_) => &mut self.forgeries,
        })
    }
}

/// A step of the world. A packet is named by its index in the list of packets in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A packet arrives.
    Deliver(usize),
    /// A packet is lost.
    Lose(usize),
    /// A packet arrives, and will arrive once more.
    Duplicate(usize),
    /// The next timer of a host expires.
    Timeout(usize),
    /// Traffic of a host triggers a context.
    Trigger(usize),
    /// A socket of a host sends payload.
    Payload(usize),
    /// A host has had no answer for a Send Timeout.
    Alarm(usize),
    /// The path between the ULIDs fails.
    Cut,
    /// A host restarts without state.
    Forget(usize),
    /// The first uplink of the first host goes down, or comes up.
    Link,
    /// The kernel of the first host refuses the next change.
    Refuse,
    /// A packet of a third party arrives.
    Forge(Forgery),
}

/// Two hosts and the packets in flight between them.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) sides: [Side; 2],
    pub(crate) wire: Vec<Parcel>,
    pub(crate) left: Bounds,
    pub(crate) is_cut: bool,
    /// Validators that each host has sent, with their destination.
    validators: BTreeSet<(usize, Locator, Vec<u8>)>,
    /// Messages with secrets from each host to the third party's own address.
    pub(crate) learnt: [Option<Learnt>; 2],
    /// Messages of ILNP of each host to addresses of the third party.
    pub(crate) heard: [Heard; 2],
    /// Whether the third party has sent a packet.
    pub(crate) is_attacked: bool,
    /// Locators of the peer at which messages of ILNP of each host have arrived.
    asked: [BTreeSet<L64>; 2],
    /// Locators of `asked` after which a packet of the peer with a nonce has arrived.
    answered: [BTreeSet<L64>; 2],
    /// Pairs by which the other host has received a probe, or a message that serves as one.
    reached: BTreeSet<(usize, LocatorPair)>,
    /// Properties violated on the way to this state.
    pub(crate) wrong: BTreeSet<&'static str>,
    pub(crate) digest: u64,
}

/// A packet in flight: its sender, the sender's pair, and its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parcel {
    pub(crate) from: usize,
    pub(crate) pair: LocatorPair,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Control(Vec<u8>),
    /// An ICMPv6 message of ILNP, with its IPv6 header.
    Ilnp(Vec<u8>),
    /// Payload of sockets, with a tag if it has moved.
    Payload(Option<ContextTag>),
    /// Payload of a session, with its nonce.
    WithNonce(Nonce),
    /// Payload of the third party, with a nonce or without.
    Foreign(Option<Nonce>),
}

impl World {
    /// Names of the properties that hold in every state.
    pub const PROPERTIES: [&'static str; 9] = [
        "no state before a valid I2",
        "nothing goes to a locator that the peer has not proved",
        "payload moves only to a pair by which a probe or its like arrived",
        "moved payload finds the context it was sent on, or none",
        "one context for one pair of ULIDs",
        "the kernel has the routes and ULIDs that contexts need",
        "a pair has a session or a context that has moved",
        "a packet without secrets changes no context and no session",
        "payload of a session goes to a locator after an answer with the nonce",
    ];

    /// Two hosts that have just started.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let mut world = Self {
            sides: [0, 1].map(|n| Side::new(n, bounds.ilnp)),
            wire: Vec::new(),
            left: bounds,
            is_cut: false,
            validators: BTreeSet::new(),
            learnt: [None, None],
            heard: Default::default(),
            is_attacked: false,
            asked: Default::default(),
            answered: Default::default(),
            reached: BTreeSet::new(),
            wrong: BTreeSet::new(),
            digest: 0,
        };
        world.settle();
        world.digest = digest::of(&world);
        world
    }

    /// The possible next actions.
    pub fn actions(&self) -> impl Iterator<Item = Action> + '_ {
        let parcels = (0..self.wire.len())
            .flat_map(|n| [Action::Deliver(n), Action::Lose(n), Action::Duplicate(n)]);
        let sides = (0..2).flat_map(|n| {
            [
                Action::Timeout(n),
                Action::Trigger(n),
                Action::Payload(n),
                Action::Alarm(n),
                Action::Forget(n),
            ]
        });
        let others = [Action::Cut, Action::Link, Action::Refuse];
        let forged = Forgery::all(self.left.ilnp).map(Action::Forge);
        parcels.chain(sides).chain(others).chain(forged).filter(|action| self.may(*action))
    }

    fn may(&self, action: Action) -> bool {
        let mut left = self.left;
        let is_left = left.of(action).is_none_or(|left| *left > 0);
        is_left
            && match action {
                Action::Timeout(n) => self.sides[n].host.poll_timeout().is_some(),
                Action::Trigger(n) => !self.sides[n].has_context(),
                Action::Alarm(n) => {
                    self.sides[n].entry().is_some_and(|entry| entry.timers.is_some())
                }
                Action::Forget(n) => self.sides[n].has_context(),
                Action::Refuse => !self.sides[0].refuses,
                Action::Deliver(_) | Action::Lose(_) | Action::Duplicate(_) => true,
                Action::Payload(_) | Action::Cut | Action::Link | Action::Forge(_) => true,
            }
    }

    /// The world after an action.
    #[must_use]
    pub fn after(&self, action: Action) -> Self {
        let mut world = self.clone();
        world.take(action);
        world.digest = digest::of(&world);
        world
    }

    pub(crate) fn take(&mut self, action: Action) {
        if let Some(left) = self.left.of(action) {
            *left -= 1;
        }
        match action {
            Action::Deliver(n) => {
                let parcel = self.wire.remove(n);
                self.deliver(&parcel);
            }
            Action::Lose(n) => drop(self.wire.remove(n)),
            Action::Duplicate(n) => self.deliver(&self.wire[n].clone()),
            Action::Timeout(n) => self.sides[n].run_out(),
            Action::Trigger(n) => self.trigger(n),
            Action::Payload(n) => self.send_payload(n),
            Action::Alarm(n) => self.alarm(n),
            Action::Cut => {
                self.is_cut = true;
                self.drop_dead();
            }
            Action::Link => {
                self.sides[0].has_lost_uplink ^= true;
                self.drop_dead();
                self.sides[0].tell_links();
            }
            Action::Refuse => self.sides[0].refuses = true,
            Action::Forget(n) => self.sides[n].forget(),
            Action::Forge(forgery) => return self.deliver_forged(forgery),
        }
        self.settle();
    }

    pub(crate) fn trigger(&mut self, n: usize) {
        let ulids = self.sides[n].ulid_pair(&self.sides[1 - n]);
        self.sides[n].note_traffic(ulids, false, None);
    }

    pub(crate) fn alarm(&mut self, n: usize) {
        let since = self.sides[n].now;
        if let Some(context) = self.sides[n].entry().map(|entry| entry.id) {
            self.sides[n].report(Report::SendExpired { context, since });
        }
    }

    pub(crate) fn send_payload(&mut self, n: usize) {
        let ulids = self.sides[n].ulid_pair(&self.sides[1 - n]).as_locators();
        if let Some(entry) = self.sides[n].session().filter(|entry| entry.attach) {
            let what = What::WithNonce(entry.send_nonce);
            let pair = entry.wire_pair().ulids().as_locators();
            return self.send(Parcel { from: n, pair, what });
        }
        let (pair, tag) = match self.sides[n].entry() {
            Some(entry) if entry.is_moved() => (entry.current.pair, Some(entry.peer_tag)),
            Some(_) | None => (ulids, None),
        };
        self.send(Parcel { from: n, pair, what: What::Payload(tag) });
    }

    /// Whether packets of a pair are lost.
    pub(crate) fn is_dead(&self, pair: LocatorPair) -> bool {
        let first = |n: usize| self.sides[n].locators[0];
        let ends = [pair.local, pair.peer];
        let is_cut = self.is_cut && ends.contains(&first(0)) && ends.contains(&first(1));
        is_cut || ends.iter().any(|end| !self.sides[0].has(*end))
    }

    fn drop_dead(&mut self) {
        let is_dead = |parcel: &Parcel| self.is_dead(parcel.pair);
        self.wire = self.wire.iter().filter(|parcel| !is_dead(parcel)).cloned().collect();
    }

    fn send(&mut self, parcel: Parcel) {
        if !self.is_dead(parcel.pair) {
            self.wire.push(parcel);
        }
    }

    pub(crate) fn deliver(&mut self, parcel: &Parcel) {
        let to = 1 - parcel.from;
        let pair = parcel.pair.reversed();
        match &parcel.what {
            What::Control(octets) => self.deliver_control(parcel, to, octets, pair),
            What::Ilnp(packet) => {
                self.note_answer(
                    parcel,
                    Control::read(packet).is_ok_and(|one| one.nonce.is_some()),
                );
                let now = self.sides[to].now;
                self.sides[to].host.handle_ilnp(packet, now);
            }
            What::Foreign(nonce) => self.sides[to].note_foreign(ilvs_of(pair), *nonce),
            What::WithNonce(nonce) => {
                self.note_answer(parcel, true);
                let ulids = self.sides[to].ulid_pair(&self.sides[parcel.from]);
                self.sides[to].note_nonce(ulids, *nonce);
            }
            What::Payload(None) => {
                if let Some(id) = self.sides[to].entry().map(|entry| entry.id) {
                    self.sides[to].note_payload(id);
                }
            }
            What::Payload(Some(tag)) => self.deliver_moved(parcel.from, *tag, pair),
        }
    }

    /// Notes that a packet of ILNP has arrived. A packet with a nonce answers all that has arrived before.
    fn note_answer(&mut self, parcel: &Parcel, has_nonce: bool) {
        let (from, to) = (parcel.from, 1 - parcel.from);
        self.asked[from].insert(Ilv::of(parcel.pair.peer.0).l64);
        if has_nonce {
            self.answered[to].extend(&self.asked[to]);
        }
    }

    fn deliver_control(&mut self, parcel: &Parcel, to: usize, octets: &[u8], pair: LocatorPair) {
        let before = self.sides[to].host.shim6().contexts().count();
        self.sides[to].control(octets, pair);
        let after = self.sides[to].host.shim6().contexts().count();
        let Ok(packet) = Packet::parse(octets, pair.peer.0, pair.local.0) else { return };
        if REACH.contains(&packet.kind()) {
            self.reached.insert((parcel.from, parcel.pair));
        }
        let echo = packet.raw_option(OptionType::RESPONDER_VALIDATOR).map(<[u8]>::to_vec);
        let is_second = [MessageType::I2, MessageType::I2BIS].contains(&packet.kind());
        let is_valid = is_second
            && echo.is_some_and(|octets| self.validators.contains(&(to, pair.peer, octets)));
        self.hold(after <= before || is_valid, Self::PROPERTIES[0]);
    }

    /// Delivers a packet of the third party.
    fn deliver_forged(&mut self, forgery: Forgery) {
        self.is_attacked = true;
        let (pair, what) = self.forge(forgery);
        let before = self.sides[forgery.to].summary();
        let reached = (self.reached.clone(), self.asked.clone(), self.answered.clone());
        self.deliver(&Parcel { from: 1 - forgery.to, pair, what });
        (self.reached, self.asked, self.answered) = reached;
        self.settle();
        self.hold(self.sides[forgery.to].summary() == before, Self::PROPERTIES[7]);
    }

    /// Handles moved payload like a data plane: the tag finds the context, or the core gets the packet.
    fn deliver_moved(&mut self, from: usize, tag: ContextTag, pair: LocatorPair) {
        let to = 1 - from;
        let of_tag = |entry: &&moorline_datapath::shim6::ContextEntry| entry.local_tag == tag;
        let Some(entry) = self.sides[to].told.contexts.values().find(of_tag).cloned() else {
            let header = PayloadHeader { next_header: 59, tag };
            // As long as data of TCP, so it may draw R1bis.
            self.sides[to].control(&[&header.emit()[..], &[0; 32]].concat(), pair);
            return;
        };
        let ulids = self.sides[to].ulid_pair(&self.sides[from]);
        self.hold(entry.ulids == ulids, Self::PROPERTIES[3]);
        if entry.peer_locators.contains(&pair.peer) {
            self.sides[to].note_payload(entry.id);
        }
    }

    /// Executes the effects of both cores, and checks them.
    pub(crate) fn settle(&mut self) {
        for n in 0..2 {
            for (pair, what) in self.sides[n].drain() {
                if third::is_own(pair.peer) {
                    if let What::Control(octets) = &what {
                        self.learnt[n] = Learnt::of(octets, pair).or(self.learnt[n].take());
                    } else if let What::Ilnp(packet) = &what {
                        self.heard[n].take(packet);
                    }
                    continue;
                }
                // ILNP proves no locators.
                let is_proved = self.sides[1 - n].locators.contains(&pair.peer)
                    || matches!(what, What::Ilnp(_));
                self.hold(is_proved, Self::PROPERTIES[1]);
                if let What::Control(octets) = &what
                    && let Ok(packet) = Packet::parse(octets, pair.local.0, pair.peer.0)
                    && [MessageType::R1, MessageType::R1BIS].contains(&packet.kind())
                    && let Some(octets) = packet.raw_option(OptionType::RESPONDER_VALIDATOR)
                {
                    self.validators.insert((n, pair.peer, octets.to_vec()));
                }
                self.send(Parcel { from: n, pair, what });
            }
            self.look_at_entries(n);
        }
    }

    fn look_at_entries(&mut self, n: usize) {
        let peers = &self.sides[1 - n].locators;
        let entries = &self.sides[n].told.contexts;
        let is_proved =
            entries.values().all(|entry| entry.peer_locators.iter().all(|l| peers.contains(l)));
        let is_reached = entries
            .values()
            .all(|entry| !entry.is_moved() || self.reached.contains(&(n, entry.current.pair)));
        let is_one = self.sides[n].host.shim6().contexts().count() <= 1 && entries.len() <= 1;
        self.hold(is_proved, Self::PROPERTIES[1]);
        self.hold(is_reached, Self::PROPERTIES[2]);
        self.hold(is_one, Self::PROPERTIES[4]);
        self.hold(self.sides[n].is_in_step(), Self::PROPERTIES[5]);
        self.hold(!self.sides[n].has_two_owners(), Self::PROPERTIES[6]);
        let session = self.sides[n].session();
        let is_answered = session.is_none_or(|entry| {
            entry.wire.1 == entry.pair.remote.l64 || self.answered[n].contains(&entry.wire.1)
        });
        self.hold(is_answered, Self::PROPERTIES[8]);
    }

    /// Forgets all validators, as if every R1 had come from another host.
    #[cfg(test)]
    pub(crate) fn forget_validators(&mut self) {
        self.validators.clear();
    }

    /// Whether the property with this index has held so far.
    pub(crate) fn holds(&self, number: usize) -> bool {
        !self.wrong.contains(Self::PROPERTIES[number])
    }

    fn hold(&mut self, holds: bool, property: &'static str) {
        if !holds {
            self.wrong.insert(property);
        }
    }
}

fn ilvs_of(pair: LocatorPair) -> IlvPair {
    IlvPair::new(Ilv::of(pair.local.0), Ilv::of(pair.peer.0))
}

/// Messages whose arrival shows that a pair works, because the answer repeats their nonce or validator.
const REACH: [MessageType; 7] = [
    MessageType::UPDATE_REQUEST,
    MessageType::PROBE,
    MessageType::I1,
    MessageType::R1,
    MessageType::I2,
    MessageType::R1BIS,
    MessageType::I2BIS,
];
