//! Correspondents without the handshake that the DNS names (decision 142).

use core::time::Duration;
use std::vec::Vec;

use moorline_types::{IlvPair, L64};

use super::nonces::unrecognized;
use super::{Plain, is_echo};
use crate::consts::{NEGATIVE_LIFETIME, PROPOSAL_TRIES, REFUSAL_LIFETIME, TRIAL_TRIES};
use crate::tests::duo::Duo;
use crate::tests::ilv;
use crate::{Classic, Config, Event, Initiate, Socket, State, Why};

/// Two hosts: the first one initiates sessions by the DNS.
fn by_dns() -> Duo {
    Duo::with(&Config { initiate: Initiate::Dns, ..Config::default() }, 1)
}

/// The DNS names the second host for a minute.
fn name(duo: &mut Duo, l64s: &[L64]) {
    let until = duo.now + MINUTE;
    duo.machines[0].handle_hint(ilv(1).nid, l64s, until, duo.now);
}

/// Sends traffic to a node that does not answer. Returns the numbers of proposals and Echo Requests, and the
/// remembered cause.
fn asked(duo: &mut Duo) -> (usize, usize, Option<Classic>) {
    let before: Vec<_> = duo.machines[0].classic().collect();
    duo.traffic(Socket::Connected);
    let mut packets = duo.take(0);
    while duo.machines[0].is_taken(IlvPair::new(ilv(0), ilv(1))) {
        duo.fire(0);
        packets.extend(duo.take(0));
    }
    let echoes = packets.iter().filter(|packet| is_echo(packet)).count();
    let cause = duo.machines[0].classic().find(|count| !before.contains(count));
    (packets.len() - echoes, echoes, cause.map(|(cause, _)| cause))
}

/// One node has two names, each with its own L64 record.
#[test]
fn a_second_name_of_a_node_takes_nothing_from_the_first() {
    for records in [[ilv(1).l64, L64(1)], [L64(1), ilv(1).l64]] {
        let mut duo = by_dns();
        records.iter().for_each(|l64| name(&mut duo, &[*l64]));
        assert_eq!(
            asked(&mut duo),
            (PROPOSAL_TRIES as usize, TRIAL_TRIES as usize, Some(Classic::Silent))
        );
    }
}

//= rfc6742#2.1 rfc6744#6-7 (test)
#[test]
fn a_correspondent_that_the_dns_names_has_a_session_without_having_begun() {
    let mut duo = by_dns();
    name(&mut duo, &[L64(1), ilv(1).l64]);
    duo.traffic(Socket::Connected);
    assert_eq!(duo.take(0).len(), 1, "the handshake goes first");
    let mut echo = Vec::new();
    while echo.is_empty() {
        duo.fire(0);
        echo = duo.take(0);
        echo.retain(|packet| is_echo(packet));
    }
    assert!(duo.updates[0].is_empty(), "until it answers its traffic is classic IPv6");
    let peer = Plain::new();
    let answer = peer.answer(&echo[0]).expect("an answer");
    duo.give(0, &[answer]);
    let session = duo.session(0);
    assert_eq!((session.state, session.why), (State::Established, Why::ConnectedHere));
    assert_eq!(duo.entry(0).receive_nonce.expect("one").octets(), peer.nonce);
}

#[test]
fn only_a_nid_and_an_l64_record_for_the_address_and_the_setting_initiate() {
    let tries = (PROPOSAL_TRIES as usize, 0, Some(Classic::Silent));
    let mut duo = Duo::new();
    name(&mut duo, &[ilv(1).l64]);
    assert_eq!(asked(&mut duo), tries, "the setting is off");
    for l64s in [&[][..], &[ilv(0).l64]] {
        let mut duo = by_dns();
        name(&mut duo, l64s);
        assert_eq!(asked(&mut duo), tries, "{l64s:?}");
    }
    let mut duo = by_dns();
    name(&mut duo, &[ilv(1).l64]);
    duo.now = duo.now + MINUTE;
    assert_eq!(asked(&mut duo), tries, "the records are old");
    // The node has spoken: that hint is good for longer, but the records are not.
    let mut duo = by_dns();
    name(&mut duo, &[ilv(1).l64]);
    duo.machines[0].has_spoken(IlvPair::new(ilv(0), ilv(1)), duo.now);
    duo.now = duo.now + MINUTE;
    assert_eq!(asked(&mut duo), tries, "the node has spoken");
}

#[test]
fn an_unconnected_socket_initiates_nothing() {
    let mut duo = by_dns();
    name(&mut duo, &[ilv(1).l64]);
    duo.traffic(Socket::Unconnected);
    assert_eq!(duo.alone(0, MINUTE), 0);
}

#[test]
fn a_silent_correspondent_that_the_dns_names_is_asked_again_soon_whatever_is_forged() {
    let both = (PROPOSAL_TRIES as usize, TRIAL_TRIES as usize, Some(Classic::Silent));
    let mut duo = by_dns();
    name(&mut duo, &[ilv(1).l64]);
    assert_eq!(asked(&mut duo), both);
    assert_eq!(asked(&mut duo), (0, 0, None), "not all the time");
    duo.now = duo.now + REFUSAL_LIFETIME;
    // A nonce in the name of the node does not make the following silence a proof.
    duo.traffic(Socket::Connected);
    duo.take(0);
    Plain::new().report(&mut duo, Socket::Connected);
    assert_eq!(asked(&mut duo).2, Some(Classic::Silent));
    duo.now = duo.now + REFUSAL_LIFETIME;
    assert_eq!(asked(&mut duo), both);
}

#[test]
fn a_correspondent_that_refuses_the_nonce_is_left_alone_though_the_dns_names_it() {
    let mut duo = by_dns();
    name(&mut duo, &[ilv(1).l64]);
    duo.traffic(Socket::Connected);
    while duo.machines[0].is_taken(IlvPair::new(ilv(0), ilv(1))) {
        for packet in duo.take(0).iter().filter(|packet| is_echo(packet)) {
            duo.give(0, &[unrecognized(packet)]);
        }
        if duo.machines[0].poll_timeout().is_some() {
            duo.fire(0);
        }
    }
    let is_refused =
        |event: &Event| matches!(event, Event::Classic { cause: Classic::NoSupport, .. });
    assert!(duo.has_event(0, is_refused));
    duo.now = duo.now + REFUSAL_LIFETIME;
    name(&mut duo, &[ilv(1).l64]);
    assert_eq!(asked(&mut duo), (0, 0, None));
    duo.now = duo.now + NEGATIVE_LIFETIME;
    assert_eq!(asked(&mut duo).0, PROPOSAL_TRIES as usize);
}

const MINUTE: Duration = Duration::from_secs(60);
