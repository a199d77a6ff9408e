//! Strangers whose connections to this host are real, and whose hosts answer no question.

use core::time::Duration;

use moorline_datapath::ilnp::CANDIDATE_INTERVAL;
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid, Nonce};

use super::ilv;
use super::room::{Server, at, traffic};
use crate::consts::MAX_PROPOSALS;
use crate::trial::Aim;
use crate::{Classic, Event, Why};

/// A site of strangers filled the 1,024 proposals, and everybody else was refused.
#[test]
fn an_honest_peer_is_asked_while_a_hundred_thousand_strangers_of_a_site_answer_nothing() {
    let mut server = Server::new();
    flood(&mut server, stranger_of_a_site);
    assert!(server.machine.drops().any(|(reason, _)| reason == DropReason::TableFull));
    assert!(server.calls(at(9, 1)));
}

#[test]
fn an_honest_peer_is_asked_while_a_hundred_thousand_strangers_of_as_many_sites_answer_nothing() {
    let mut server = Server::new();
    flood(&mut server, stranger_of_any_site);
    assert!(server.machine.proposals.len() <= MAX_PROPOSALS);
    assert!(server.calls(at(9, 1)));
}

/// The correspondent with the lowest address was forgotten when the table was full.
#[test]
fn a_silent_peer_is_remembered_while_strangers_of_a_site_are_silent_as_well() {
    let mut server = Server::new();
    let honest = IlvPair::new(ilv(1), Ilv::new(L64(0x2001_0000_0000_0000), Nid(1)));
    server.machine.handle_report(traffic(honest), server.now);
    for n in 0..8000 {
        server.machine.handle_report(traffic(from_stranger(stranger_of_a_site(n))), server.now);
        if n % 400 == 0 {
            fall_silent(&mut server);
        }
    }
    fall_silent(&mut server);
    assert!(
        server.machine.classic().any(|(cause, count)| cause == Classic::Silent && count > 4096)
    );
    assert!(server.machine.negatives.is_classic(honest.remote, false, server.now));
}

/// A server with more silent correspondents than places asked each of the others again, every ten seconds.
#[test]
fn silent_correspondents_without_a_place_are_asked_once_in_ten_minutes() {
    for (stranger, count) in
        [(stranger_of_a_site as fn(u64) -> Ilv, 6000), (stranger_of_any_site, 12_000)]
    {
        let mut server = Server::new();
        let mut octets = [0; 2];
        for round in 0..40 {
            for n in 0..count {
                server.machine.handle_report(traffic(from_stranger(stranger(n))), server.now);
                // In the first round each is asked, and falls silent before the next ones are.
                if round == 0 && n % 500 == 0 {
                    octets[0] += fall_silent(&mut server);
                }
            }
            octets[usize::from(round > 0)] += fall_silent(&mut server);
            server.now = server.now + CANDIDATE_INTERVAL;
        }
        assert!(octets[0] > 40 * usize::try_from(count).expect("a count"), "{octets:?}");
        assert!(octets[1] < octets[0] / 20, "{octets:?}");
    }
}

#[test]
fn a_peer_is_tried_while_strangers_of_a_site_or_of_all_sites_do_not_answer_theirs() {
    for stranger in [stranger_of_a_site, stranger_of_any_site] {
        let mut server = Server::new();
        let mut begin = |pair| {
            let nonce = Nonce::Short([7; 4]);
            let (why, aim) = (Why::ConnectedHere, Aim::Begin { silence: Classic::Unread, paid: 0 });
            server.machine.begin_trial((pair, pair), why, nonce, aim, server.now);
        };
        (0..2000).for_each(|n| begin(from_stranger(stranger(n))));
        let honest = from_stranger(at(9, 1));
        begin(honest);
        assert!(server.machine.trials.contains_key(&honest));
        assert!(server.machine.trials.len() <= MAX_PROPOSALS);
        assert_eq!(server.machine.trial_timers.len(), server.machine.trials.len());
    }
}

/// A proposal that gave way is told of, as Shim6 may have waited for it.
#[test]
fn the_host_is_told_of_a_correspondent_that_is_asked_no_longer_for_want_of_room() {
    let mut server = Server::new();
    let max = MAX_PROPOSALS as u64;
    for n in 0..=max {
        server.machine.handle_report(traffic(from_stranger(stranger_of_any_site(n))), server.now);
    }
    let given_up: std::vec::Vec<_> = core::iter::from_fn(|| server.machine.poll_event()).collect();
    let [Event::GivenUp { pair }] = given_up[..] else { panic!("{given_up:?}") };
    assert!(!server.machine.is_taken(pair));
}

/// 10,000 connections a second for ten seconds.
fn flood(server: &mut Server, stranger: fn(u64) -> Ilv) {
    for n in 0..100_000 {
        server.machine.handle_report(traffic(from_stranger(stranger(n))), server.now);
        server.now = server.now + Duration::from_micros(100);
        server.machine.handle_timeout(server.now);
        while server.machine.poll_transmit().is_some() {}
        server.drain();
    }
}

/// Nobody answers. Returns the octets of all messages of the server.
fn fall_silent(server: &mut Server) -> usize {
    while let Some(at) = server.machine.poll_timeout() {
        server.now = at;
        server.machine.handle_timeout(at);
    }
    let sent = core::iter::from_fn(|| server.machine.poll_transmit());
    let octets = sent.map(|transmit| transmit.packet.len()).sum();
    server.drain();
    octets
}

fn from_stranger(stranger: Ilv) -> IlvPair {
    IlvPair::new(ilv(1), stranger)
}

/// A host in one of the 65,536 links of one /48.
fn stranger_of_a_site(n: u64) -> Ilv {
    Ilv::new(L64(0x2001_0db8_0200_0000 + n % 0x1_0000), Nid(0x0a00_0000_0200_0000 + n))
}

/// A host in a /48 of its own.
fn stranger_of_any_site(n: u64) -> Ilv {
    Ilv::new(L64(0x2400_0000_0000_0000 + (n << 16)), Nid(0x0a00_0000_0300_0000 + n))
}
