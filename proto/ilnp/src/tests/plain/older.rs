//! Correspondents that send Locator Updates in the older form (decision 152).

use core::net::Ipv6Addr;
use std::vec::Vec;

use moorline_types::{DropReason, Ilv, L64, Prefix};

use super::{Plain, message, octets, packet};
use crate::Config;
use crate::tests::duo::Duo;
use crate::tests::ilv;

const NEW: L64 = L64(0x2001_0db8_0007_0000);

/// A peer at the second host has a session. `older_updates` says whether the first host knows that the peer sends the
/// older form.
fn in_session(older_updates: &[Prefix]) -> (Duo, Plain) {
    let config = Config { older_updates: older_updates.to_vec(), ..Config::default() };
    let mut duo = Duo::with(&config, 1);
    let peer = Plain::in_session(&mut duo);
    (duo, peer)
}

/// A Locator Update in the older form from `from` that names `l64`: octets as in the capture of the St Andrews
/// kernel.
fn older(from: Ilv, l64: L64, nonce: [u8; 4]) -> Vec<u8> {
    let mut message = [&[156, 0, 0, 0, 1, 1, 0, 0][..], &l64.0.to_be_bytes()].concat();
    message.extend([10, 0, 0, 0, 30, 0, 0, 0]);
    let sum = sum_over_identifiers(from.address(), &message);
    message[2..4].copy_from_slice(&sum);
    let [a, b, c, d] = nonce;
    let payload = [&[58, 0, 0x8b, 4, a, b, c, d], &message[..]].concat();
    packet(&octets(from.address()), &octets(ilv(0).address()), 60, &payload)
}

/// The checksum of a message between this peer and the first host, as if all locators were zero.
fn sum_over_identifiers(peer: Ipv6Addr, message: &[u8]) -> [u8; 2] {
    let identifiers = [octets(peer), octets(ilv(0).address())].map(|all| all[8..].to_vec());
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let all = [&identifiers.concat()[..], &[0, 0, 0, 24, 0, 0, 0, 58], &message].concat();
    let mut sum: u32 = all.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap()).to_be_bytes()
}

#[test]
fn a_peer_that_sends_the_older_form_is_followed_and_answered_in_it() {
    for listed in [Prefix::new(ilv(1).address(), 128), Prefix::new(ilv(1).address(), 48)] {
        let (mut duo, peer) = in_session(&[listed]);
        let update = older(peer.at, NEW, peer.nonce);
        duo.give(0, core::slice::from_ref(&update));
        let answers = duo.take(0);
        let [ref answer, ref asked] = answers[..] else {
            panic!("an acknowledgement: {answers:?}")
        };
        duo.give(0, &[peer.answer(asked).expect("an answer from there")]);
        assert_eq!(duo.session(0).wire.remote.l64, NEW);
        assert_eq!(duo.session(0).remote.len(), 1);
        let mut expected = message(&update).to_vec();
        expected[5] = 2;
        let sum = sum_over_identifiers(peer.at.address(), &expected);
        expected[2..4].copy_from_slice(&sum);
        assert_eq!(message(answer), expected);
        assert_eq!(answer.len(), update.len(), "no answer is longer than its question");
        // The peer has moved, and moves again: the form depends on its identity and not on its locator.
        duo.give(0, &[older(peer.at.at(NEW), peer.at.l64, peer.nonce)]);
        peer.play(&mut duo);
        assert_eq!(duo.session(0).wire.remote, peer.at);
    }
}

#[test]
fn the_older_form_is_refused_of_all_others() {
    for listed in [&[][..], &[Prefix::new(ilv(0).address(), 48)]] {
        let (mut duo, peer) = in_session(listed);
        duo.give(0, &[older(peer.at, NEW, peer.nonce)]);
        assert_eq!(duo.session(0).wire.remote, peer.at, "{listed:?}");
        assert_eq!(duo.drops(0, DropReason::BadLength), 1);
        assert!(duo.take(0).is_empty());
    }
}

#[test]
fn the_older_form_needs_the_nonce_and_its_checksum_as_any_other() {
    let (mut duo, peer) = in_session(&[Prefix::new(ilv(1).address(), 128)]);
    let mut bad = older(peer.at, NEW, peer.nonce);
    bad[50] ^= 1;
    duo.give(0, &[older(peer.at, NEW, [7; 4]), bad]);
    assert_eq!(duo.drops(0, DropReason::BadNonce), 1);
    assert_eq!(duo.drops(0, DropReason::BadChecksum), 1);
    assert_eq!(duo.session(0).wire.remote, peer.at);
}
