use super::{A, B, C, signatures::rsa_key, vectors::file};
use crate::{
    Announcement, Cga, HbaKey, HbaSet, KeyError, LeftOut, LocalAddresses, LocalProof, LocatorClaim,
    LocatorsVerified, PublicKey, RsaKey, Sec, SignError, Signer, generate_cga, generate_hba,
};
use moorline_types::{ContextTag, Locator, Ulid};
use moorline_wire::{I2bis, Message, Opt, Options, consts::MAX_MESSAGE_LEN};
use proptest::{collection::vec as vec_of, prelude::*, sample::subsequence};
use std::{cell::Cell, vec, vec::Vec};

const D: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 4, 0, 0];

fn key() -> RsaKey {
    rsa_key(&file(), "rsa1024")
}

fn public(name: &str) -> PublicKey {
    PublicKey::from_spki(&hex::decode(&file().keys[name].spki).unwrap()).unwrap()
}

fn a_cga(key: &PublicKey, prefix: [u8; 8]) -> Cga {
    generate_cga(prefix, Sec::ZERO, key, &[], [7; 16], 1).unwrap()
}

fn a_set(key: &PublicKey, prefixes: &[[u8; 8]]) -> HbaSet {
    generate_hba(prefixes, Sec::ZERO, &HbaKey::of(key), [7; 16], 1).unwrap()
}

fn plain(last: u8) -> Locator {
    let mut octets = [0x20; 16];
    octets[15] = last;
    Locator::from(octets)
}

/// All addresses of the proofs, followed by others.
fn present(sets: &[HbaSet], cgas: &[Cga], others: &[Locator]) -> Vec<Locator> {
    let members = sets.iter().flat_map(|set| set.locators().to_vec());
    members.chain(cgas.iter().map(Cga::address)).chain(others.iter().copied()).collect()
}

fn proof(
    sets: Vec<HbaSet>,
    cgas: Vec<Cga>,
    others: &[Locator],
    signers: &[&dyn Signer],
) -> LocalProof {
    let present = present(&sets, &cgas, others);
    LocalProof::new(
        5,
        LocalAddresses { present, sets, cgas, ..LocalAddresses::default() },
        signers,
        [1; 32],
    )
}

/// Verifies an announcement like a peer that gets its options in a message.
fn verify(ulid: Ulid, announcement: &Announcement) -> LocatorsVerified {
    let options = Options::from(announcement.options());
    LocatorClaim {
        ulid,
        pds: options.pds().unwrap(),
        list: options.locator_list(),
        signature: options.cga_signature(),
    }
    .verify()
    .unwrap()
}

fn methods(announcement: &Announcement) -> Vec<u8> {
    announcement.list().entries.iter().map(|entry| entry.method.value()).collect()
}

#[test]
fn hba_set_without_a_key_proves_its_members_only() {
    let set = super::a_set(&[A, B], Sec::ZERO);
    let [ulid, other] = [set.locators()[0], set.locators()[1]];
    let proof = proof(vec![set.clone()], vec![], &[plain(1)], &[&key()]);
    let told = proof.announcement_for(ulid.as_ulid()).unwrap();
    assert_eq!(told.pds(), set.pds());
    assert_eq!((methods(told), told.signature()), (vec![1, 1], None));
    assert_eq!(told.list().generation, 5);
    assert!(verify(ulid.as_ulid(), told).locators().contains(&other));
    assert_eq!(proof.locators_for(ulid.as_ulid()), [ulid, other]);
    assert_eq!(proof.left_out_for(ulid.as_ulid()), [(plain(1), LeftOut::NotInSet)]);
    let second = proof.announcement_for(other.as_ulid()).unwrap();
    assert_eq!(second.pds(), set.members()[1].pds());
}

/// A prefix that comes later gives a CGA of the same key. It is signed for, and each of the three addresses
/// can be the ULID.
//= rfc5533#5.6-10 (test)
#[test]
fn later_prefix_is_proved_by_signature() {
    let key = key();
    let set = a_set(key.public_key(), &[A, B]);
    let later = a_cga(key.public_key(), C);
    let proof = proof(vec![set.clone()], vec![later.clone()], &[], &[&key]);
    for &ulid in set.locators() {
        let told = proof.announcement_for(ulid.as_ulid()).unwrap();
        assert_eq!(methods(told), [2, 1, 1]);
        let verified = verify(ulid.as_ulid(), told);
        assert!(verified.locators().contains(&later.address()));
        assert_eq!(proof.left_out_for(ulid.as_ulid()), []);
    }
    let ulid = later.address().as_ulid();
    let told = proof.announcement_for(ulid).unwrap();
    assert_eq!(methods(told), [2, 2, 2]);
    assert_eq!(told.pds(), later.pds());
    assert!(verify(ulid, told).locators().contains(&set.locators()[1]));
    let ulid_first = [&[later.address()], set.locators()].concat();
    assert_eq!(proof.locators_for(ulid), ulid_first);
}

#[test]
fn address_that_proves_nothing_is_announced_to_nobody() {
    let key = key();
    let set = a_set(key.public_key(), &[A]);
    let proof = proof(vec![set.clone()], vec![], &[plain(1)], &[&key]);
    let ulid = plain(1).as_ulid();
    assert_eq!(proof.announcement_for(ulid), None);
    assert_eq!(proof.locators_for(ulid), [plain(1)]);
    assert_eq!(proof.left_out_for(ulid), [(set.locators()[0], LeftOut::NoProof)]);
    let empty = LocalProof::default();
    assert_eq!((empty.announcement_for(ulid), empty.left_out_for(ulid)), (None, vec![]));
}

#[test]
fn what_is_missing_to_sign_is_told() {
    let key = key();
    let short = KeyError::TooShort { bits: 512 };
    for (public, signers, why) in [
        (key.public_key().clone(), &[][..], LeftOut::NoSigner),
        (public("rsa2048"), &[&key as &dyn Signer], LeftOut::NoSigner),
        (public("p256"), &[&key], LeftOut::Key(KeyError::NotRsa)),
        (public("rfc3972-rsa512"), &[&key], LeftOut::Key(short)),
    ] {
        let set = a_set(&public, &[A, B]);
        let cga = a_cga(&public, C);
        let proof = proof(vec![set.clone()], vec![cga.clone()], &[], signers);
        let by_set = set.locators()[0].as_ulid();
        let told = proof.announcement_for(by_set).unwrap();
        assert_eq!((methods(told), told.signature()), (vec![1, 1], None));
        assert_eq!(proof.left_out_for(by_set), [(cga.address(), why)]);
        verify(by_set, told);
        // A list that contains a CGA needs a signature.
        let ulid = cga.address().as_ulid();
        assert_eq!(proof.announcement_for(ulid), None);
        let all = set.locators().iter().map(|&locator| (locator, why));
        assert_eq!(proof.left_out_for(ulid), all.collect::<Vec<_>>());
    }
}

#[test]
fn address_that_is_gone_is_no_locator_and_can_still_be_the_ulid() {
    let key = key();
    let set = a_set(key.public_key(), &[A, B]);
    let cga = a_cga(key.public_key(), C);
    let [gone, here] = [set.locators()[0], set.locators()[1]];
    let addresses = LocalAddresses {
        present: vec![here, plain(1)],
        sets: vec![set.clone()],
        cgas: vec![cga.clone()],
        ..LocalAddresses::default()
    };
    let proof = LocalProof::new(6, addresses, &[&key], [1; 32]);
    for ulid in [gone, cga.address()].map(Locator::as_ulid) {
        let told = proof.announcement_for(ulid).unwrap();
        let verified = verify(ulid, told);
        assert!(told.list().entries.iter().all(|entry| entry.locator != ulid.as_locator()));
        assert!([here, plain(1)].iter().all(|one| verified.locators().contains(one)));
        assert_eq!(proof.locators_for(ulid).last(), Some(&ulid.as_locator()));
    }
}

/// A signer that counts its signatures, and fails if told to.
struct Stub {
    key: PublicKey,
    length: usize,
    count: Cell<usize>,
    fails: bool,
}

impl Stub {
    fn new(key: PublicKey) -> Self {
        let length = key.rsa_bits().unwrap() as usize / 8;
        Self { key, length, count: Cell::new(0), fails: false }
    }
}

impl Signer for Stub {
    fn public_key(&self) -> &PublicKey {
        &self.key
    }

    fn sign(&self, _octets: &[u8], _blinding: [u8; 32]) -> Result<Vec<u8>, SignError> {
        self.count.set(self.count.get() + 1);
        if self.fails { Err(SignError::Faulty) } else { Ok(vec![0x55; self.length]) }
    }
}

#[test]
fn each_list_of_each_generation_is_signed_once() {
    let stub = Stub::new(public("rsa1024"));
    let set = a_set(&stub.key, &[A, B, C]);
    let cgas: Vec<_> = (10..20).map(|n| a_cga(&stub.key, [n; 8])).collect();
    let proof = proof(vec![set], cgas, &[plain(1)], &[&stub]);
    // One signature for the ULIDs of the set, one for their list after a plain one, and one for the CGAs.
    assert_eq!(stub.count.get(), 3);
    assert_eq!(proof.addresses().cgas.len(), 10);
    assert_eq!(proof.generation(), 5);
}

#[test]
fn signature_that_came_out_wrong_is_not_sent() {
    let stub = Stub { fails: true, ..Stub::new(public("rsa1024")) };
    let set = a_set(&stub.key, &[A, B]);
    let ulid = set.locators()[0].as_ulid();
    let proof = proof(vec![set], vec![], &[plain(1)], &[&stub]);
    assert_eq!(methods(proof.announcement_for(ulid).unwrap()), [1, 1]);
    let why = LeftOut::Sign(SignError::Faulty);
    assert_eq!(proof.left_out_for(ulid), [(plain(1), why)]);
}

/// A peer accepts 32 locators, and a message has 1240 octets: with a key of 4096 bits there is room for three
/// locators.
#[test]
fn what_has_no_room_is_left_out() {
    let others: Vec<_> = (0..40).map(plain).collect();
    let key_4096 = {
        let mut spki = hex::decode("30820222300d06092a864886f70d01010105000382020f00").unwrap();
        spki.extend(hex::decode("3082020a0282020100").unwrap());
        spki.extend([0xff; 512]);
        spki.extend([2, 3, 1, 0, 1]);
        PublicKey::from_spki(&spki).unwrap()
    };
    assert_eq!(key_4096.rsa_bits(), Ok(4096));
    for (key, as_cga, beside_a_set) in
        [(public("rsa1024"), 32, 30), (public("rsa2048"), 32, 29), (key_4096, 3, 0)]
    {
        let stub = Stub::new(key);
        let cga = a_cga(&stub.key, A);
        let as_cga_told = proof(vec![], vec![cga.clone()], &others, &[&stub]);
        let told = as_cga_told.announcement_for(cga.address().as_ulid()).unwrap();
        assert_eq!(methods(told), vec![2; as_cga]);
        assert!(fits(told));
        let left_out = as_cga_told.left_out_for(cga.address().as_ulid());
        assert_eq!(left_out.len(), 41 - as_cga);
        assert_eq!(left_out.last(), Some(&(plain(39), LeftOut::NoRoom)));

        let set = a_set(&stub.key, &[B, C]);
        let ulid = set.locators()[0].as_ulid();
        let by_set = proof(vec![set], vec![], &others, &[&stub]);
        let told = by_set.announcement_for(ulid).unwrap();
        assert_eq!(methods(told), [vec![2; beside_a_set], vec![1, 1]].concat());
        assert!(fits(told));
        assert_eq!(by_set.left_out_for(ulid).len(), 40 - beside_a_set);
    }
}

/// A verified list of another host that does not contain the ULID says that the ULID is broken.
#[test]
fn the_ulid_has_room_wherever_it_stands() {
    let stub = Stub::new(public("rsa1024"));
    let cga = a_cga(&stub.key, A);
    let others = (0..40).map(plain);
    let present: Vec<_> = others.chain([cga.address()]).collect();
    let addresses = LocalAddresses {
        present,
        sets: vec![],
        cgas: vec![cga.clone()],
        ..LocalAddresses::default()
    };
    let proof = LocalProof::new(5, addresses, &[&stub], [1; 32]);
    let told = proof.announcement_for(cga.address().as_ulid()).unwrap();
    assert_eq!(told.list().entries.len(), 32);
    assert!(told.list().entries.iter().any(|entry| entry.locator == cga.address()));
}

/// Whether an announcement fits into the longest message, with all options that usually go with it.
fn fits(announcement: &Announcement) -> bool {
    let mut options = vec![Opt::Validator(vec![0; 16])];
    options.extend(announcement.options());
    options.extend([Opt::KeepaliveTimeout(15), Opt::SendTimeoutMillis(200)]);
    let tag = ContextTag::from_bits(7);
    let message = Message::I2bis(I2bis {
        initiator_tag: tag,
        initiator_nonce: 0,
        responder_nonce: 0,
        packet_tag: tag,
        options: options.into(),
    });
    let octets = message.octets();
    message.fits() && octets.len() <= MAX_MESSAGE_LEN
}

prop_compose! {
    /// Sets and CGAs of up to three keys, some of which can sign, and any selection of the addresses as
    /// present.
    fn any_addresses()(
        sets in vec_of((0usize..4, subsequence(vec![A, B, C], 1..=3)), 0..3),
        cgas in vec_of((0usize..3, prop::sample::select(vec![A, B, C, D])), 0..4),
        others in 0u8..4,
        absent in any::<prop::sample::Index>(),
        some_absent in any::<bool>(),
    ) -> LocalAddresses {
        let keys = [key().public_key().clone(), public("rsa2048"), public("p256")];
        let sets: Vec<_> = sets
            .into_iter()
            .map(|(at, prefixes)| match keys.get(at) {
                Some(key) => a_set(key, &prefixes),
                None => super::a_set(&prefixes, Sec::ZERO),
            })
            .collect();
        let cgas: Vec<_> =
            cgas.into_iter().map(|(at, prefix)| a_cga(&keys[at], prefix)).collect();
        let others: Vec<_> = (0..others).map(plain).collect();
        let mut present = present(&sets, &cgas, &others);
        if some_absent && !present.is_empty() {
            present.remove(absent.index(present.len()));
        }
        LocalAddresses { present, sets, cgas, ..LocalAddresses::default() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    //= rfc5533#5.6-8 rfc5533#5.6-9 rfc5533#5.7-3 rfc5533#5.9-5 (test)
    #[test]
    fn whatever_is_announced_verifies_and_the_rest_is_accounted_for(addresses in any_addresses()) {
        let signer = key();
        let proof = LocalProof::new(9, addresses.clone(), &[&signer], [3; 32]);
        let all = present(&addresses.sets, &addresses.cgas, &addresses.present);
        for ulid in all.into_iter().map(Locator::as_ulid) {
            let mut accounted = proof.locators_for(ulid).to_vec();
            prop_assert!(accounted.contains(&ulid.as_locator()));
            check_generations(&proof, ulid);
            if let Some(told) = proof.announcement_for(ulid) {
                let verified = verify(ulid, told);
                prop_assert!(fits(told));
                prop_assert_eq!(verified.locators().len(), told.list().entries.len());
            }
            accounted.extend(proof.left_out_for(ulid).into_iter().map(|(locator, _)| locator));
            for locator in &addresses.present {
                prop_assert!(accounted.contains(locator));
            }
        }
    }
}

/// Checks the lists that a peer may get after each other: different ones have different generations, and all of them
/// come before the next proof.
fn check_generations(proof: &LocalProof, ulid: Ulid) {
    let others = [
        proof.plain_announcement_for(ulid),
        proof.announcement_again_for(ulid),
        proof.plain_announcement_again_for(ulid),
    ];
    let lists = proof.announcement_for(ulid).into_iter().chain(others.into_iter().flatten());
    let lists: Vec<_> = lists.map(Announcement::list).collect();
    let Some(first) = lists.first() else { return };
    for (place, list) in lists.iter().enumerate() {
        assert!(list.generation - proof.generation() < LocalProof::GENERATIONS);
        let earlier = lists[..place].iter().filter(|one| one.generation == list.generation);
        assert!(earlier.into_iter().all(|one| one == list));
    }
    assert_eq!(first.generation, proof.generation());
    if let [whole, plain, again, plain_again] = lists[..] {
        assert!(whole.entries == again.entries && plain.entries == plain_again.entries);
    }
    for told in [proof.announcement_again_for(ulid), proof.plain_announcement_again_for(ulid)] {
        told.map(|told| verify(ulid, told));
    }
}

/// A signature would reveal to the peers of one address the other addresses.
#[test]
fn no_signature_tells_of_a_temporary_address() {
    let key = key();
    let stable = a_set(key.public_key(), &[A, B]);
    let cga = a_cga(key.public_key(), C);
    let without_key = HbaKey::extended_modifier([3; 48]);
    let set = generate_hba(&[A, B], Sec::ZERO, &without_key, [6; 16], 1).unwrap();
    let (sets, cgas) = (vec![stable.clone(), set.clone()], vec![cga.clone()]);
    let present = present(&sets, &cgas, &[]);
    let temporary = set.locators().iter().map(|one| (*one, u32::MAX)).collect();
    let addresses = LocalAddresses { present, sets, cgas, temporary };
    let proof = LocalProof::new(5, addresses, &[&key], [1; 32]);
    for ulid in [stable.locators()[0], cga.address()].map(Locator::as_ulid) {
        let locators = proof.locators_for(ulid);
        assert!(set.locators().iter().all(|one| !locators.contains(one)));
        assert!(proof.left_out_for(ulid).is_empty());
    }
    let ulid = set.locators()[0].as_ulid();
    assert_eq!(methods(proof.announcement_for(ulid).unwrap()), [1, 1], "its own set is told of");
    let generation =
        |one: Locator| proof.announcement_for(one.as_ulid()).map(|told| told.list().generation);
    assert_eq!(generation(cga.address()), Some(5));
    assert_eq!(generation(set.locators()[0]), Some(4), "5 and what is added, modulo 2^32");
}

#[test]
fn lists_lack_an_address_that_they_have_no_room_for() {
    let stub = Stub::new(public("rsa1024"));
    let cgas: Vec<_> = (1..=60).map(|n| a_cga(&stub.key, [n; 8])).collect();
    let ulids: Vec<_> = cgas.iter().map(Cga::address).collect();
    let proof = proof(vec![], cgas, &[], &[&stub]);
    let (first, last) = (ulids[0], ulids[59]);
    assert!(proof.left_out_for(first.as_ulid()).contains(&(last, LeftOut::NoRoom)));
    assert!(proof.locators_for(last.as_ulid()).contains(&last), "its own list names it");
    assert!(proof.lists(first) && !proof.lacks_room(first));
    assert!(proof.lacks_room(last));
    assert!(!proof.lists(plain(1)));
}
