//! Locators that appear during a connection, with a signature as proof.

use moorline_cga::{Cga, KeyFile, RsaKey, Signer, generate_cga};

use super::*;

fn key() -> RsaKey {
    let file = include_str!("../../../../tests/vectors/cga_hba.json");
    let vectors: serde_json::Value = serde_json::from_str(file).expect("vectors");
    let pem = vectors["keys"]["rsa1024"]["private_pem"].as_str().expect("a key");
    match KeyFile::parse(pem.as_bytes()).expect("a key") {
        KeyFile::Rsa(key) => key,
        KeyFile::AddressOnly(_) => panic!("no private key"),
    }
}

const fn prefix(isp: u8) -> [u8; 8] {
    [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa]
}

/// A CGA-compatible set at ISP 1, with or without a CGA of the same key at ISP 3.
fn compatible(generation: u32, has_later: bool) -> LocalState {
    let sec = Sec::new(0).expect("valid");
    let key = key();
    let set = generate_hba(&[prefix(1)], sec, &HbaKey::of(key.public_key()), [1; 16], 1);
    let sets = Vec::from([set.expect("one try")]);
    let later = generate_cga(prefix(3), sec, key.public_key(), &[], [2; 16], 1).expect("one try");
    let cgas: Vec<Cga> = Some(later).filter(|_| has_later).into_iter().collect();
    let present: Vec<_> =
        sets[0].locators().iter().copied().chain(cgas.iter().map(Cga::address)).collect();
    let addresses =
        LocalAddresses { present: present.clone(), sets, cgas, ..LocalAddresses::default() };
    LocalState { proof: LocalProof::new(generation, addresses, &[&key], [3; 32]), usable: present }
}

#[test]
fn a_later_locator_carries_the_traffic_when_the_first_path_dies() {
    let mut pair = Pair::with([compatible(1, false), local_state(1)]);
    pair.trigger(0);
    pair.tell(0, &compatible(2, true));
    pair.settle();
    let later = pair.locators[0][1];
    for side in 0..2 {
        assert_eq!(pair.hosts[side].drops().iter().count(), 0);
    }
    assert!(pair.entries[1][0].peer_locators.contains(&later), "verified");
    assert!(!pair.entries[1][0].is_moved(), "not used before it is needed and probed");
    let ulid = pair.locators[0][0];
    for &other in &pair.locators[1] {
        pair.dead.extend([(ulid, other), (other, ulid)]);
    }
    pair.send_expired(0);
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.entries[0][0].current.pair.local, later);
    assert_eq!(pair.entries[1][0].current.pair.peer, later);
}

#[test]
fn a_locator_is_not_sent_from_before_the_peer_can_verify_it() {
    let mut pair = Pair::with([compatible(1, false), local_state(1)]);
    pair.trigger(0);
    let ulid = pair.locators[0][0];
    for &other in &pair.locators[1].clone() {
        pair.dead.extend([(ulid, other), (other, ulid)]);
    }
    pair.tell(0, &compatible(2, true));
    let later = pair.locators[0][1];
    pair.settle();
    pair.send_expired(0);
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.entries[0][0].current.pair.local, ulid, "nothing else is known to the peer");
    assert!(!pair.entries[1][0].peer_locators.contains(&later));
}
