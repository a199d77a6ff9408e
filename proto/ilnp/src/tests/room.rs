//! Admission to a cache with little room left, and the sessions that give way.

use alloc::sync::Arc;
use std::vec;
use std::vec::Vec;

use moorline_types::{Ilv, IlvPair, Instant, L64, Nid};
use moorline_wire::ilnp::Refusal;

use super::duo::{Always, NOW};
use super::ilv;
use crate::consts::IDLE_TIMEOUT;
use crate::{
    Admit, Cause, Config, Event, LocalLocator, LocalState, Machine, SessionSnapshot, Socket,
};
use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_datapath::ilnp::{Report, Update};
use moorline_index::Class;

/// The control API shows sessions page by page.
#[test]
fn the_sessions_behind_a_slot_follow_in_order() {
    let mut server = Server::new();
    assert!((0..ROOM as u64).all(|n| server.calls(at(n, n))));
    let all: Vec<_> = server.machine.sessions(NOW).map(|one| one.id).collect();
    let mut seen = Vec::new();
    while let Some(next) = server.machine.sessions_after(seen.last().copied(), NOW).next() {
        seen.push(next.id);
    }
    assert_eq!((seen.len(), &seen), (ROOM, &all));
}

/// A server whose socket takes packets from anybody.
struct Server {
    machine: Machine,
    updates: Vec<Update>,
    events: Vec<Event>,
    now: Instant,
}

impl Server {
    fn new() -> Self {
        let policy = Admit { max_with_locator: SHARE, ..Admit::of(ROOM) };
        let config = Config { policy: Arc::new(policy), max_sessions: ROOM, ..Config::default() };
        let machine = host(config, ilv(1), 1);
        Self { machine, updates: Vec::new(), events: Vec::new(), now: NOW }
    }

    /// A host with a connected socket begins. Returns whether both have the session then.
    fn is_called_by(&mut self, guest: Ilv) -> bool {
        let mut caller = host(Config::default(), guest, 2);
        let pair = IlvPair::new(guest, ilv(1));
        caller.handle_report(traffic(pair), self.now);
        self.play(&mut caller);
        self.machine.has_session(pair.reversed()) && caller.has_session(pair)
    }

    /// A connected socket of the server begins. Returns whether both have the session then.
    fn calls(&mut self, callee: Ilv) -> bool {
        let mut other = host(Config::default(), callee, 3);
        let pair = IlvPair::new(ilv(1), callee);
        self.machine.handle_report(traffic(pair), self.now);
        self.play(&mut other);
        self.machine.has_session(pair) && other.has_session(pair.reversed())
    }

    fn play(&mut self, other: &mut Machine) {
        let sockets = Always(Socket::Unconnected);
        loop {
            self.drain();
            let there: Vec<_> = core::iter::from_fn(|| self.machine.poll_transmit()).collect();
            let here: Vec<_> = core::iter::from_fn(|| other.poll_transmit()).collect();
            if there.is_empty() && here.is_empty() {
                return;
            }
            for sent in there {
                other.handle_control(&sent.packet, self.now);
                other.answer_all(&sockets, self.now);
            }
            for sent in here {
                self.machine.handle_control(&sent.packet, self.now);
                self.machine.answer_all(&sockets, self.now);
            }
        }
    }

    fn drain(&mut self) {
        self.updates.extend(core::iter::from_fn(|| self.machine.poll_update()));
        self.events.extend(core::iter::from_fn(|| self.machine.poll_event()));
    }

    fn class(&self, remote: Ilv) -> Option<Class> {
        let cache = &self.machine.ilcc;
        cache.find_pair(IlvPair::new(ilv(1), remote)).and_then(|id| cache.class(id))
    }

    /// Correspondents of the sessions that gave way.
    fn evicted(&self) -> Vec<Ilv> {
        let mut evicted = Vec::new();
        for event in &self.events {
            if let Event::Forgotten { pair, cause: Cause::Evicted, .. } = event {
                evicted.push(pair.remote);
            }
        }
        evicted
    }
}

#[test]
fn made_up_identifiers_of_one_prefix_leave_room_for_other_prefixes() {
    let mut server = Server::new();
    let taken = (0..100).filter(|n| server.is_called_by(at(0, *n))).count();
    assert_eq!((taken, server.machine.session_count()), (SHARE, SHARE));
    assert_eq!(server.machine.refused().collect::<Vec<_>>(), [(Refusal::RESOURCES, 97)]);
    assert!(server.is_called_by(at(1, 0)));
    assert!(server.calls(at(0, 50)), "ours are none of theirs");
    assert!(
        server.is_called_by(at(0, 0)),
        "one that began anew takes the place of its old session"
    );
    server.now = server.now + IDLE_TIMEOUT;
    server.machine.handle_timeout(server.now);
    server.machine.answer_all(&Always(Socket::None), server.now);
    assert!(server.is_called_by(at(0, 60)), "the others are gone");
}

/// The owner of a /60 had sixteen prefixes, and so all places for guests.
#[test]
fn prefixes_of_one_site_share_its_room() {
    let mut server = Server::new();
    let link = |n: u64| Ilv { l64: L64(at(0, n).l64.0 + n), ..at(0, n) };
    let taken = (0..16).filter(|n| server.is_called_by(link(*n))).count();
    assert_eq!(taken, 2 * SHARE, "a /56 has two shares");
    assert!(server.is_called_by(at(1, 0)));
}

#[test]
fn a_connected_socket_has_the_place_of_the_eldest_guest_that_is_not_in_use() {
    let mut server = Server::new();
    let guests: Vec<_> = (0..ROOM as u64).map(|n| at(n / 3, n)).collect();
    assert!(guests.iter().all(|guest| server.is_called_by(*guest)));
    assert!(!server.is_called_by(at(9, 0)), "no guest goes for another");
    let eldest = server.machine.ilcc.find_pair(IlvPair::new(ilv(1), guests[0]));
    let report = Report::Used { session: eldest.expect("there"), at: NOW + USED_INTERVAL };
    server.machine.handle_report(report, NOW + USED_INTERVAL);
    server.updates.clear();
    assert!(server.calls(at(9, 1)));
    assert_eq!((server.evicted(), server.class(guests[0])), (vec![guests[1]], Some(Class::Guest)));
    let [Update::Remove { session }, Update::Upsert(entry), ..] = &server.updates[..] else {
        panic!("{:?}", server.updates)
    };
    assert_eq!((entry.id, entry.pair.remote), (*session, at(9, 1)), "the plane had room for it");
    assert_eq!(server.machine.session_count(), ROOM);
}

#[test]
fn no_session_of_ours_goes_for_a_guest() {
    let mut server = Server::new();
    let ours: Vec<_> = (1..ROOM as u64).map(|n| at(7, n)).collect();
    assert!(ours.iter().all(|callee| server.calls(*callee)));
    assert!(server.is_called_by(at(0, 0)));
    assert!(!server.is_called_by(at(1, 0)));
    assert!(server.calls(at(7, 0)));
    assert_eq!(server.evicted(), [at(0, 0)]);
    assert!(!server.is_called_by(at(0, 0)) && !server.calls(at(7, 50)), "there is no guest left");
    assert!(ours.iter().all(|callee| server.class(*callee) == Some(Class::Proven)));
}

#[test]
fn a_guest_is_one_no_longer_when_a_connected_socket_has_its_addresses() {
    let mut server = Server::new();
    assert!((0..3).all(|n| server.is_called_by(at(0, n))));
    server.now = server.now + IDLE_TIMEOUT;
    server.machine.handle_timeout(server.now);
    server.machine.answer_all(&Always(Socket::Connected), server.now);
    assert!((0..3).all(|n| server.class(at(0, n)) == Some(Class::Proven)));
    assert!((3..6).all(|n| server.is_called_by(at(0, n))));
    assert!(!server.is_called_by(at(0, 6)));
}

#[test]
fn a_guest_is_one_in_the_next_run_too() {
    let mut server = Server::new();
    assert!(server.is_called_by(at(0, 0)) && server.calls(at(0, 1)));
    let sessions: Vec<SessionSnapshot> = server.machine.snapshot().collect();
    let mut next = Server::new();
    for session in sessions {
        next.machine.restore(session, NOW).expect("a session");
    }
    let classes = [0, 1].map(|n| next.class(at(0, n)));
    assert_eq!(classes, [Some(Class::Guest), Some(Class::Proven)]);
}

fn host(config: Config, me: Ilv, seed: u8) -> Machine {
    let mut machine = Machine::new(config, [seed; 32], NOW);
    let locators = vec![LocalLocator::new(me.l64)];
    machine
        .handle_local(&LocalState { nids: vec![me.nid], locators, ..LocalState::default() }, NOW);
    machine
}

fn traffic(pair: IlvPair) -> Report {
    let socket = Socket::Connected;
    let (protocol, ports) = (17, (40_000, 7));
    Report::Candidate { pair, protocol, ports, socket, inbound: false, nonce: None }
}

/// Address of a host at one of several locators.
fn at(locator: u64, host: u64) -> Ilv {
    Ilv::new(L64(0x2001_0db8_0100_0000 + (locator << 16)), Nid(0x0a00_0000_0100_0000 + host))
}

/// Largest number of sessions of the server.
const ROOM: usize = 8;
/// Largest number of guests at one locator.
const SHARE: usize = 3;
