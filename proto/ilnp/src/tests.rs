//! Tests of machines alone, message by message. Whole hosts are in the simulator (`sim/src/tests/ilnp`).

mod advertise;
mod again;
mod crossed;
mod drawn;
mod duo;
mod handshake;
mod heard;
mod known;
mod lossy;
mod lost;
mod neighbor;
mod overlap;
mod pace;
mod paths;
mod places;
mod plain;
mod question;
mod reflection;
mod room;
mod shown;
mod third;
mod updates;

use alloc::sync::Arc;
use core::time::Duration;
use std::vec::Vec;

use duo::{Duo, NOW, control, of_session};
use moorline_datapath::ilnp::Update;
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid, Nonce};
use moorline_wire::ilnp::{
    Admission, AdmissionFlags, AdmissionTypes, Flow, L64Entry, LocatorUpdate, Operation,
};

use crate::consts::{
    ALL_ANSWERS_BURST, ALL_ANSWERS_INTERVAL, ANSWER_BURST, IDLE_TIMEOUT, PROPOSAL_TRIES,
};
use crate::{
    Admit, Cause, Classic, Config, Event, LocalLocator, NonceLen, NonceMode, Socket, State,
};

#[test]
fn a_quiet_session_is_forgotten_unless_a_socket_has_it() {
    let mut duo = Duo::established();
    duo.sockets[0] = Socket::None;
    duo.alone(0, IDLE_TIMEOUT * 2);
    duo.alone(1, IDLE_TIMEOUT * 2);
    assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [0, 1]);
    assert!(duo.has_event(0, |event| matches!(event, Event::Forgotten { cause: Cause::Idle, .. })));
}

#[test]
fn a_session_that_has_moved_is_not_displaced_by_who_has_its_address_now() {
    let mut duo = Duo::established();
    duo.roam(0, &[0x2001_0db8_0005_0000]);
    duo.play();
    assert_eq!(duo.session(1).wire.remote.l64, L64(0x2001_0db8_0005_0000));
    // Another host gets the old locator, has the same identifier, and agrees on a session.
    let mut other = Duo::new();
    other.traffic(Socket::Connected);
    let propose = other.take(0);
    duo.give(1, &propose);
    other.give(0, &duo.take(1));
    assert_eq!(other.machines[0].session_count(), 0, "refused");
    assert_eq!(duo.session(1).wire.remote.l64, L64(0x2001_0db8_0005_0000));
}

/// The old session of the host takes no room from the new one.
#[test]
fn one_that_began_anew_takes_the_place_of_its_old_session() {
    let policy = Admit { max_with_node: 1, ..Admit::of(1) };
    let config =
        Config { policy: Arc::new(policy), max_sessions: 1, max_with_node: 1, ..Config::default() };
    let mut duo = Duo::with(&config, 1);
    duo.traffic(Socket::Connected);
    duo.play();
    let mut anew = Duo::seeded(99);
    anew.traffic(Socket::Connected);
    let propose = anew.take(0);
    duo.machines[0] = anew.machines.remove(0);
    duo.give(1, &propose);
    duo.play();
    assert_eq!(Some(duo.entry(0).send_nonce), duo.entry(1).receive_nonce);
    assert!(
        duo.has_event(1, |event| matches!(event, Event::Forgotten { cause: Cause::Replaced, .. }))
    );
}

//= rfc6744#6-8 rfc6744#7-10 (test)
#[test]
fn nonces_differ_from_draw_to_draw_and_from_seed_to_seed_in_every_bit() {
    for nonce_len in [NonceLen::Short, NonceLen::Long] {
        let config = Config { nonce_len, ..Config::default() };
        let mut machines = Vec::new();
        for seed in [5, 6] {
            machines.append(&mut Duo::with(&config, seed).machines);
        }
        let draws = machines.iter_mut().flat_map(|machine| {
            (0..DRAWS).map(|_| machine.draw_nonce().octets().to_vec()).collect::<Vec<_>>()
        });
        let draws: Vec<_> = draws.collect();
        let different: std::collections::BTreeSet<_> = draws.iter().collect();
        assert_eq!(different.len(), draws.len());
        for bit in 0..draws[0].len() * 8 {
            let set = draws.iter().filter(|octets| octets[bit / 8] >> (bit % 8) & 1 == 1).count();
            let third = draws.len() / 3;
            assert!((third..=2 * third).contains(&set), "bit {bit}: {set}");
        }
    }
}

/// Number of nonces that each machine draws: no two of so few are alike.
const DRAWS: usize = 100;

#[test]
fn equal_seeds_and_inputs_give_equal_octets() {
    let transcript = |seed| {
        let mut duo = Duo::seeded(seed);
        duo.traffic(Socket::Connected);
        duo.play();
        duo.roam(1, &[0x2001_0db8_0005_0000]);
        duo.play();
        duo.transcript
    };
    assert_eq!(transcript(5), transcript(5));
    assert_ne!(transcript(5), transcript(6));
}

#[test]
fn a_data_plane_is_told_of_every_session_and_its_end() {
    let mut duo = Duo::established();
    let updates = duo.updates[0].iter().filter(|update| matches!(update, Update::Upsert(_)));
    assert!(updates.count() >= 2);
    duo.sockets[0] = Socket::None;
    duo.alone(0, IDLE_TIMEOUT * 2);
    assert!(matches!(duo.updates[0].last(), Some(Update::Remove { .. })));
}

fn ilv(host: usize) -> Ilv {
    Ilv::new(
        L64(0x2001_0db8_0001_0000 + ((host as u64) << 16)),
        Nid(0x0a00_0000_0000_0001 + host as u64),
    )
}

#[test]
fn an_entry_is_small() {
    assert!(
        size_of::<crate::session::Session>() <= 200,
        "{}",
        size_of::<crate::session::Session>()
    );
    const { assert!(moorline_index::Ilcc::<crate::session::Session>::ENTRY_OCTETS <= 272) };
}
