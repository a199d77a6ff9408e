//! A host with several locators and several correspondents tells them its locators.

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use moorline_datapath::ilnp::Report;
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid, Nonce};
use moorline_wire::ilnp::consts::LOCATOR_UPDATE;
use moorline_wire::ilnp::{LocatorUpdate, Operation};

use super::duo::{Always, Duo, NOW, of_session};
use super::ilv;
use super::updates::update_of;
use crate::{Config, LocalLocator, LocalState, Machine, Socket};
use moorline_wire::ilnp::Control;

/// Packets, each with the number of the correspondent that it is for or from.
type Packets = Vec<(usize, Vec<u8>)>;

/// A host and its correspondents, each with a session.
struct Star {
    host: Machine,
    others: Vec<(Ilv, Machine)>,
}

impl Star {
    fn new(locators: &[L64]) -> Self {
        let others = [OTHERS, OTHERS + 1].map(|number| {
            let ilv = Ilv::new(L64(0x2001_0db8_0200_0000 + (number << 16)), Nid(number));
            (ilv, machine(ilv.nid, &[ilv.l64], number))
        });
        let mut star = Self { host: machine(ilv(0).nid, locators, 1), others: others.into() };
        for at in 0..star.others.len() {
            let pair = IlvPair::new(ilv(0).at(locators[0]), star.others[at].0);
            let ports = (40_000, 7);
            let (protocol, socket, inbound, nonce) = (17, Socket::Connected, false, None);
            let report = Report::Candidate { pair, protocol, ports, socket, inbound, nonce };
            star.host.handle_report(report, NOW);
            star.play();
        }
        star
    }

    /// Delivers packets until nobody has any to send. Returns the packets of the host and the answers.
    fn play(&mut self) -> (Packets, Packets) {
        let (mut told, mut answered) = (Vec::new(), Vec::new());
        let sockets = Always(Socket::Connected);
        loop {
            let before = told.len() + answered.len();
            while let Some(sent) = self.host.poll_transmit() {
                let to = Control::read(&sent.packet).expect("ours").pair.local;
                let at = self.others.iter().position(|(ilv, _)| *ilv == to).expect("there");
                self.others[at].1.handle_control(&sent.packet, NOW);
                self.others[at].1.answer_all(&sockets, NOW);
                told.push((at, sent.packet));
            }
            for (at, (_, other)) in self.others.iter_mut().enumerate() {
                while let Some(sent) = other.poll_transmit() {
                    self.host.handle_control(&sent.packet, NOW);
                    self.host.answer_all(&sockets, NOW);
                    answered.push((at, sent.packet));
                }
            }
            if told.len() + answered.len() == before {
                return (told, answered);
            }
        }
    }
}

fn machine(nid: Nid, locators: &[L64], seed: u64) -> Machine {
    let mut octets = [0; 32];
    octets[..8].copy_from_slice(&seed.to_be_bytes());
    let mut machine = Machine::new(Config::default(), octets, NOW);
    machine.handle_local(&state(nid, locators), NOW);
    machine
}

fn state(nid: Nid, locators: &[L64]) -> LocalState {
    let locators = locators.iter().map(|l64| LocalLocator::new(*l64)).collect();
    LocalState { nids: vec![nid], locators, ..LocalState::default() }
}

/// The nonce that a machine sends in its session with `remote`.
fn nonce_of(machine: &Machine, remote: Nid) -> Nonce {
    let session = machine.sessions(NOW).find(|session| session.pair.remote.nid == remote);
    session.expect("a session").nonces.0
}

fn is_update(packet: &[u8]) -> bool {
    Control::read(packet).expect("ours").message.first() == Some(&LOCATOR_UPDATE)
}

/// Reads a packet that has only a Locator Update and its nonce.
fn update_in(packet: &[u8]) -> (LocatorUpdate, Option<Nonce>) {
    let control = Control::read(packet).expect("ours");
    let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
    (LocatorUpdate::parse(control.message, src, dst).expect("an update"), control.nonce)
}

//= rfc6743#2-5 rfc6743#2-8 rfc6743#2-11 rfc6743#4-1 rfc6743#6-2 rfc6744#7-2 (test)
//= rfc6741#11.1-1 rfc6741#11.1-2 rfc6741#11.1-4 rfc6741#11.1-5 rfc6741#11.1-15 (test)
//= rfc6741#11.1-16 (test)
#[test]
fn every_correspondent_is_told_all_valid_locators_with_the_nonce_of_its_session() {
    let locators = [1, 2, 3].map(|isp| L64(0x2001_0db8_0100_0000 + (isp << 16)));
    let mut star = Star::new(&locators[..2]);
    for valid in [&locators[1..], &locators[..], &locators[2..]] {
        let mut expected: Vec<_> = valid.to_vec();
        star.host.handle_local(&state(ilv(0).nid, valid), NOW);
        let (mut told, mut answered) = star.play();
        // The correspondents ask whether the host is at its new locator.
        for packets in [&mut told, &mut answered] {
            packets.retain(|(_, packet)| is_update(packet));
        }
        expected.sort_unstable();
        let all: Vec<_> = told.iter().map(|(at, _)| *at).collect();
        assert_eq!(all, [0, 1], "each of them once");
        let mut nonces = BTreeSet::new();
        for (at, packet) in &told {
            let (update, nonce) = update_in(packet);
            let mut named: Vec<_> = update.locators.iter().map(|entry| entry.l64).collect();
            named.sort_unstable();
            assert_eq!((update.operation, named), (Operation::ADVERTISEMENT, expected.clone()));
            assert_eq!(nonce, Some(nonce_of(&star.host, star.others[*at].0.nid)));
            nonces.insert(nonce.map(|nonce| nonce.octets().to_vec()));
        }
        assert_eq!(nonces.len(), 2, "to each its own");
        assert_eq!(answered.len(), 2);
        for (at, packet) in &answered {
            let (update, nonce) = update_in(packet);
            assert_eq!(update.operation, Operation::ACKNOWLEDGEMENT);
            assert_eq!(nonce, Some(nonce_of(&star.others[*at].1, ilv(0).nid)));
        }
        for (_, other) in &star.others {
            let session = other.sessions(NOW).next().expect("a session");
            let mut known: Vec<_> = session.remote.iter().map(|(known, _)| known.l64).collect();
            known.sort_unstable();
            assert_eq!(known, expected);
        }
    }
}

//= rfc6743#5-1 (test)
#[test]
fn a_host_where_ilnp_is_off_discards_locator_updates() {
    let mut duo = Duo::established();
    let (from, to, entry) = (duo.ilv(0), duo.ilv(1), duo.entry(0));
    let update = |number| {
        let locators = update_of(&[(from.l64.0, 10), (0x2001_0db8_0007_0000, 20)]);
        of_session(&entry, from, to, Some(number), &locators)
    };
    duo.give(1, &[update(100)]);
    assert_eq!(duo.take(1).len(), 1, "acknowledged while it is on");
    let off = LocalState::default();
    duo.machines[1].handle_local(&off, duo.now);
    let before = duo.drops(1, DropReason::NotOurs);
    duo.give(1, &[update(101)]);
    assert_eq!(duo.drops(1, DropReason::NotOurs), before + 1);
    assert!(duo.take(1).is_empty());
}

/// First identifier of the correspondents.
const OTHERS: u64 = 0x0a00_0000_0100_0000;
