//! The protocol that owns a pair: two hosts that speak both protocols, and a network that delivers all packets or
//! none.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_contexts::{self as shim6, Contexts, LocalState, Removal, Waiting};
use moorline_datapath::ilnp::{Report, Socket, Update as SessionUpdate};
use moorline_datapath::shim6::{Report as TrafficReport, Update};
use moorline_ilnp as ilnp;
use moorline_types::{DropReason, Ilv, IlvPair, Instant, LocatorPair, Ulid, UlidPair};
use moorline_wire::{MessageType, Packet};

use crate::model::{OneSocket, local_state, view};
use crate::{Effect, Host, Protocol, Sessions};

mod links;
mod star;
mod uplinks;

struct Duo {
    hosts: Vec<Host>,
    locals: Vec<LocalState>,
    now: Instant,
    /// Whether ICMPv6 of ILNP gets through.
    carries_ilnp: bool,
    /// Whether protocol 140 gets through.
    carries_shim6: bool,
    /// Effects of the hosts for data planes and people, in order.
    effects: [Vec<Effect>; 2],
}

impl Duo {
    fn new() -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let locals: Vec<_> = (0..2).map(|side| local_state(side, 1)).collect();
        let hosts = (0..2).map(|side| host(side, &locals[usize::from(side)], now)).collect();
        let effects = [Vec::new(), Vec::new()];
        let mut duo = Self { hosts, locals, now, carries_ilnp: true, carries_shim6: true, effects };
        duo.settle();
        duo
    }

    fn pair(&self, side: usize) -> UlidPair {
        let ulid = |side: usize| self.locals[side].usable[0].as_ulid();
        UlidPair::new(ulid(side), ulid(1 - side))
    }

    /// Reports traffic between the first addresses to the data planes of a host.
    fn traffic(&mut self, side: usize) {
        self.traffic_of(side, self.pair(side));
    }

    /// Reports traffic of a pair to the data planes of a host.
    fn traffic_of(&mut self, side: usize, pair: UlidPair) {
        let (now, ports) = (self.now, (40_000, 7));
        self.hosts[side].handle_ilnp_report(
            Report::Candidate {
                pair: IlvPair::of(pair),
                protocol: 6,
                ports,
                socket: Socket::Connected,
                inbound: false,
                nonce: None,
            },
            now,
        );
        self.hosts[side].handle_shim6_report(TrafficReport::Trigger { ulids: pair }, now);
    }

    /// Executes effects until the hosts have no more.
    fn settle(&mut self) {
        let mut under_way = VecDeque::new();
        loop {
            for side in 0..2 {
                while let Some(effect) = self.hosts[side].poll_effect(self.now) {
                    let host = &mut self.hosts[side];
                    host.handle_done(&effect, self.now);
                    if let Effect::AskSockets(questions) = effect {
                        for question in questions {
                            host.answer(question, &OneSocket(Socket::Connected), self.now);
                        }
                        continue;
                    } else if effect == Effect::AskOffloads {
                        host.set_takes_moved(host.carriers().shim6.clone());
                    }
                    under_way.push_back((side, effect.clone()));
                    self.effects[side].push(effect);
                }
            }
            let Some((side, effect)) = under_way.pop_front() else { return };
            self.deliver(1 - side, &effect);
        }
    }

    fn deliver(&mut self, to: usize, effect: &Effect) {
        if let Effect::SendShim6 { transmit, .. } = effect
            && self.carries_shim6
        {
            let LocatorPair { local, peer } = transmit.locators;
            let seen = LocatorPair::new(peer, local);
            self.hosts[to].handle_shim6(&transmit.octets, seen, self.now);
        }
        if let Effect::SendIlnp { transmit, .. } = effect
            && self.carries_ilnp
        {
            self.hosts[to].handle_ilnp(&transmit.packet, self.now);
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.settle();
            let next = self.hosts.iter().filter_map(Host::poll_timeout).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            self.hosts.iter_mut().for_each(|host| host.handle_timeout(self.now));
        }
        self.now = end;
    }

    fn has_context(&self, side: usize) -> bool {
        self.hosts[side].shim6().contexts().any(|context| context.established.is_some())
    }

    fn has_session(&self, side: usize) -> bool {
        self.hosts[side].ilnp().is_some_and(|ilnp| ilnp.has_session(IlvPair::of(self.pair(side))))
    }

    /// Types of the Shim6 messages that a host has sent.
    fn sent(&self, side: usize) -> Vec<MessageType> {
        let kind = |effect: &Effect| {
            let Effect::SendShim6 { transmit, .. } = effect else { return None };
            let shim6::Transmit { locators, octets } = transmit;
            let packet = Packet::parse(octets, locators.local.0, locators.peer.0);
            Some(packet.expect("ours").kind())
        };
        self.effects[side].iter().filter_map(kind).collect()
    }

    /// Restores a context of the first host that was stored when its payload used the second addresses.
    fn restore_moved(&mut self) {
        self.restart_moved();
        self.hosts[0].shim6_mut().take_over(1, self.now);
        self.settle();
    }

    /// Restarts the first host with such a context, which waits to be taken over.
    fn restart_moved(&mut self) {
        self.carries_ilnp = false;
        self.traffic(0);
        self.run(GIVES_UP);
        let mut stored: Vec<_> = self.hosts[0].shim6().snapshot().collect();
        let second = |side: usize| self.locals[side].usable[1];
        stored[0].locators = LocatorPair::new(second(0), second(1));
        self.hosts[0] = host(0, &self.locals[0], self.now);
        self.hosts[0].handle_waiting(Waiting::new(stored, [0; 16]));
        self.settle();
        self.carries_ilnp = true;
    }
}

fn host(seed: u8, local: &LocalState, now: Instant) -> Host {
    let contexts = Contexts::new(shim6::Config::default(), [seed + 1; 32], now);
    let sessions = Sessions::new(ilnp::Config::default(), [seed + 1; 32], now);
    let mut host = Host::new(contexts, Some(sessions));
    tell(&mut host, local, now);
    host
}

/// Gives a host its links.
pub(crate) fn tell(host: &mut Host, local: &LocalState, now: Instant) {
    host.set_proof(local.proof.clone());
    host.handle_view(view(&local.usable), now);
}

/// Longer than the time for which ILNP asks a silent peer.
const GIVES_UP: Duration = Duration::from_secs(30);

#[test]
fn a_pair_that_earns_both_has_a_session_and_no_context() {
    let mut duo = Duo::new();
    duo.traffic(0);
    duo.traffic(1);
    duo.run(GIVES_UP);
    for side in 0..2 {
        assert!(duo.has_session(side) && !duo.has_context(side));
        assert_eq!(duo.sent(side), []);
    }
}

#[test]
fn traffic_that_earns_a_context_waits_for_the_answer_to_ilnp_and_has_its_context_without_one() {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    duo.traffic(0);
    duo.settle();
    assert_eq!(duo.sent(0), []);
    duo.run(GIVES_UP);
    assert!(duo.has_context(0) && duo.has_context(1));
    assert!(!duo.has_session(0) && !duo.has_session(1));
}

#[test]
fn an_i1_that_comes_while_ilnp_asks_is_answered_when_it_has_given_up() {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    let pair = duo.pair(1);
    duo.traffic(0);
    duo.settle();
    // The peer knows no ILNP, and begins. Only the first of its messages arrives.
    duo.hosts[1].shim6_mut().handle_report(TrafficReport::Trigger { ulids: pair }, duo.now);
    duo.settle();
    assert_eq!((duo.sent(0), duo.sent(1)), (vec![], vec![MessageType::I1]));
    duo.carries_shim6 = false;
    duo.run(GIVES_UP);
    assert_eq!(duo.sent(0).first(), Some(&MessageType::R1));
}

/// A peer that has sent another I1 has forgotten the nonce of the first one. So has a peer that has restarted.
#[test]
fn of_several_i1s_that_come_while_ilnp_asks_the_newest_is_answered() {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    let pair = duo.pair(1);
    duo.traffic(0);
    for seed in [1, 9] {
        duo.hosts[1] = host(seed, &duo.locals[1], duo.now);
        duo.hosts[1].shim6_mut().handle_report(TrafficReport::Trigger { ulids: pair }, duo.now);
        duo.settle();
    }
    duo.run(GIVES_UP);
    assert_eq!(duo.sent(0).first(), Some(&MessageType::R1));
    let established = duo.sent(1).into_iter().take(3).collect::<Vec<_>>();
    assert_eq!(established, [MessageType::I1, MessageType::I1, MessageType::I2]);
    assert!(duo.has_context(0) && duo.has_context(1));
}

#[test]
fn what_waits_for_a_question_from_a_lost_locator_waits_no_longer_than_the_question() {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    duo.traffic(0);
    duo.settle();
    assert!(duo.hosts[0].has_waiting());
    let now = duo.now;
    duo.hosts[0].handle_view(view(&duo.locals[0].usable[1..]), now);
    duo.run(GIVES_UP);
    assert!(!duo.hosts[0].has_waiting() && duo.has_context(0));
}

/// After a restart, a data plane of the peer has taken a moved session's traffic for its own.
#[test]
fn an_i1_for_an_address_that_the_host_has_for_sessions_alone_gets_no_answer() {
    let mut duo = Duo::new();
    let [first, second] = [0, 1].map(|n| Ilv::of(duo.locals[0].usable[n].0));
    let guest = Ulid(first.at(second.l64).address());
    let from = duo.pair(1).local;
    for (to, answers) in [(guest, 0), (Ulid(second.address()), 1)] {
        let ulids = UlidPair::new(from, to);
        duo.hosts[1].shim6_mut().handle_report(TrafficReport::Trigger { ulids }, duo.now);
        duo.carries_ilnp = false;
        duo.settle();
        assert_eq!(
            duo.sent(1).last(),
            Some(&if answers == 0 { MessageType::I1 } else { MessageType::I2 })
        );
        assert_eq!(duo.sent(0).iter().filter(|kind| **kind == MessageType::R1).count(), answers);
    }
}

/// Routers remember the host by an address that its uplinks do not have any more.
#[test]
fn a_message_to_an_address_without_payload_counts_for_nothing() {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    let second = duo.locals[0].usable[1];
    duo.hosts[0].handle_view(view(&[second]), duo.now);
    duo.settle();
    let ulids = duo.pair(1);
    duo.hosts[1].handle_shim6_report(TrafficReport::Trigger { ulids }, duo.now);
    duo.hosts[1].shim6_mut().handle_report(TrafficReport::Trigger { ulids }, duo.now);
    duo.settle();
    assert_eq!(duo.sent(1), [MessageType::I1]);
    assert_eq!(duo.sent(0), []);
    let drops: Vec<_> = duo.hosts[0].shim6().drops().iter().collect();
    assert_eq!(drops, [(DropReason::NotOurs, 1)]);
}

/// A data plane that refuses its addresses may have some of them.
#[test]
fn messages_count_again_where_the_data_plane_may_have_the_address() {
    let mut duo = Duo::new();
    let [first, second] = [0, 1].map(|n| duo.locals[0].usable[n]);
    duo.hosts[0].handle_view(view(&[second]), duo.now);
    duo.settle();
    assert!(!duo.hosts[0].takes_payload_at(first) && duo.hosts[0].takes_payload_at(second));
    duo.hosts[0].handle_view(view(&[first, second]), duo.now);
    while let Some(effect) = duo.hosts[0].poll_effect(duo.now) {
        if let Effect::SetLocals(_) = effect {
            duo.hosts[0].handle_failed(&effect, duo.now);
        } else {
            duo.hosts[0].handle_done(&effect, duo.now);
        }
    }
    assert!(duo.hosts[0].takes_payload_at(first));
    duo.run(Duration::from_secs(12));
    let told = |effect: &Effect| matches!(effect, Effect::SetLocals(own) if own.len() == 2);
    assert!(duo.effects[0].iter().any(told), "it is tried again");
}

#[test]
fn a_context_that_has_not_moved_makes_room_for_a_session() {
    let mut duo = Duo::new();
    duo.carries_ilnp = false;
    duo.traffic(0);
    duo.run(GIVES_UP);
    assert!(duo.has_context(0) && duo.has_context(1));
    duo.carries_ilnp = true;
    // ILNP has forgotten the silence by then.
    duo.now = duo.now + Duration::from_secs(3600);
    duo.traffic(0);
    duo.run(Duration::from_secs(1));
    for side in 0..2 {
        assert!(duo.has_session(side) && !duo.has_context(side), "{side}");
        let is_rearmed =
            |effect: &Effect| matches!(effect, Effect::UpdateContext(Update::Rearm { .. }));
        let is_removed = |effect: &Effect| {
            let removal = |event: &shim6::Event| {
                matches!(event.kind, shim6::EventKind::Removed { removal: Removal::Requested })
            };
            matches!(effect, Effect::TellContext(event) if removal(event))
        };
        assert!(duo.effects[side].iter().any(is_rearmed));
        assert!(duo.effects[side].iter().any(is_removed));
    }
}

#[test]
fn a_pair_that_shim6_has_moved_has_neither_traffic_nor_sockets_for_ilnp() {
    let mut duo = Duo::new();
    duo.restore_moved();
    let pair = duo.pair(0);
    assert!(duo.hosts[0].has_moved(pair));
    // The host asks nobody, and refuses the peer that asks.
    let sent = |duo: &Duo| {
        let is_ilnp = |effect: &&Effect| matches!(effect, Effect::SendIlnp { .. });
        duo.effects[0].iter().filter(is_ilnp).count()
    };
    let before = sent(&duo);
    duo.traffic(0);
    duo.settle();
    assert_eq!(sent(&duo), before);
    duo.now = duo.now + Duration::from_secs(3600);
    duo.traffic(1);
    duo.settle();
    assert_eq!(sent(&duo), before + 1, "a refusal");
    assert!(!duo.has_session(0) && !duo.has_session(1));
    let is_update =
        |effect: &Effect| matches!(effect, Effect::UpdateSession(SessionUpdate::Upsert(_)));
    assert!(!duo.effects.iter().flatten().any(is_update));
    // Once the pair is back at its own addresses, ILNP may have it.
    let id = duo.hosts[0].shim6().contexts().next().expect("a context").id;
    duo.hosts[0].shim6_mut().remove(id, Removal::Requested);
    duo.settle();
    assert!(!duo.hosts[0].has_moved(pair));
}

#[test]
fn a_pair_that_waits_as_moved_is_left_alone_by_ilnp() {
    let mut duo = Duo::new();
    duo.restart_moved();
    let sent = |duo: &Duo| {
        let is_ilnp = |effect: &&Effect| matches!(effect, Effect::SendIlnp { .. });
        duo.effects[0].iter().filter(is_ilnp).count()
    };
    let before = sent(&duo);
    duo.now = duo.now + Duration::from_secs(3600);
    duo.traffic(1);
    duo.settle();
    assert_eq!(sent(&duo), before + 1, "a refusal");
    assert!(duo.hosts[0].has_moved(duo.pair(0)) && !duo.has_context(0), "it still waits");
    duo.traffic(0);
    duo.settle();
    assert_eq!(sent(&duo), before + 1, "the host asks nobody");
    assert!(!duo.has_session(0) && !duo.has_session(1));
    assert!(duo.has_context(0), "the trigger has taken it over");
}
