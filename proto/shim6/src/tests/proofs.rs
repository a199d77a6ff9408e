//! Proofs of our locators, in every combination of both sides (RFC 5533 s7.2, s10).

use moorline_cga::{Cga, KeyFile, RsaKey, Signer, generate_cga};

use super::*;
use crate::PeerSet;

/// Proof of the addresses of a side. The first address is the ULID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cga,
    Hba,
    HbaCompatible,
    Plain,
}

/// Anybody can repeat the list of a peer with other methods.
#[test]
fn a_repetition_of_a_list_changes_no_order() {
    let all: Vec<_> = (1..=6).map(|host| locators(host)[0]).collect();
    let ulid = all[5].as_ulid();
    let known = PeerSet {
        locators: all.clone().into(),
        listed: 6,
        signed: 2,
        generation: Some(1),
        ..PeerSet::of_ulid(ulid)
    };
    assert_eq!(known.oldest_first()[..], [&all[2..], &all[..2]].concat());
    for method in [VerificationMethod::HBA, VerificationMethod::CGA] {
        let entries = all.iter().map(|locator| LocatorEntry { locator: *locator, method });
        let list = LocatorList { generation: 1, entries: entries.collect() };
        let same = known.confirmed_by(&list, ulid).expect("the same locators");
        assert_eq!(same.oldest_first(), known.oldest_first());
    }
    let unsigned = PeerSet { signed: 0, ..known };
    assert!(unsigned.oldest_first().is_shared_with(&unsigned.locators));
}

const KINDS: [Kind; 4] = [Kind::Cga, Kind::Hba, Kind::HbaCompatible, Kind::Plain];

fn key() -> RsaKey {
    let file = include_str!("../../../../tests/vectors/cga_hba.json");
    let vectors: serde_json::Value = serde_json::from_str(file).expect("vectors");
    let pem = vectors["keys"]["rsa1024"]["private_pem"].as_str().expect("a key");
    match KeyFile::parse(pem.as_bytes()).expect("a key") {
        KeyFile::Rsa(key) => key,
        KeyFile::AddressOnly(_) => panic!("no private key"),
    }
}

const fn prefix(side: u8, isp: u8) -> [u8; 8] {
    [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, side]
}

fn plain(side: u8, isp: u8) -> Locator {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&prefix(side, isp));
    octets[15] = 0x99;
    Locator::from(octets)
}

fn cga(side: u8, isp: u8) -> Cga {
    let sec = Sec::new(0).expect("valid");
    generate_cga(prefix(side, isp), sec, key().public_key(), &[], [side; 16], 1).expect("one try")
}

fn compatible_set(side: u8) -> HbaSet {
    let prefixes = [1, 2].map(|isp| prefix(side, isp));
    let hba_key = HbaKey::of(key().public_key());
    generate_hba(&prefixes, Sec::new(0).expect("valid"), &hba_key, [side; 16], 1).expect("one try")
}

/// Proof of addresses at ISPs 1 and 2, and of `others`.
pub(super) fn proof(kind: Kind, side: u8, generation: u32, others: &[Locator]) -> LocalProof {
    let (mut sets, mut cgas, mut present) = (Vec::new(), Vec::new(), Vec::new());
    match kind {
        Kind::Cga => cgas = [1, 2].map(|isp| cga(side, isp)).to_vec(),
        Kind::Hba => sets.push(hba_set(side, [1, 2])),
        Kind::HbaCompatible => sets.push(compatible_set(side)),
        Kind::Plain => present.extend([1, 2].map(|isp| plain(side, isp))),
    }
    present.extend(sets.iter().flat_map(|set| set.locators().to_vec()));
    present.extend(cgas.iter().map(Cga::address));
    present.extend(others);
    remade(generation, LocalAddresses { present, sets, cgas, ..LocalAddresses::default() })
}

/// Proof of these addresses.
pub(super) fn remade(generation: u32, addresses: LocalAddresses) -> LocalProof {
    LocalProof::new(generation, addresses, &[&key()], [9; 32])
}

/// Two machines, and a network without losses.
struct Duo {
    machines: [Machine; 2],
    proofs: [LocalProof; 2],
}

impl Duo {
    fn new(kinds: [Kind; 2]) -> Self {
        let proofs = [proof(kinds[0], 1, 5, &[]), proof(kinds[1], 2, 7, &[])];
        let mut machines = [1, 2].map(|seed| Machine::new(Config::default(), [seed; 32], NOW));
        for (machine, proof) in machines.iter_mut().zip(&proofs) {
            machine.set_local(proof, NOW);
        }
        Self { machines, proofs }
    }

    fn established(kinds: [Kind; 2]) -> Self {
        let mut duo = Self::new(kinds);
        let ulids = duo.ulids();
        duo.machines[0].handle_trigger(ulids, NOW).expect("I1");
        duo.settle();
        duo
    }

    fn ulids(&self) -> UlidPair {
        let ulid = |side: usize| self.proofs[side].addresses().present[0].as_ulid();
        UlidPair::new(ulid(0), ulid(1))
    }

    /// Delivers messages until none is under way. Gives their number.
    fn settle(&mut self) -> usize {
        let mut delivered = 0;
        loop {
            let before = delivered;
            for side in 0..2 {
                for transmit in sent(&mut self.machines[side]) {
                    let out = match (transmit.via, side) {
                        (Via::Pair(locators) | Via::Reply(_, locators), _) => locators,
                        (Via::Current(_), 0) => self.ulids().as_locators(),
                        (Via::Current(_), _) => turned(self.ulids().as_locators()),
                    };
                    let octets = transmit.message.octets();
                    assert!(transmit.message.fits());
                    let packet = Packet::parse(&octets, out.local.0, out.peer.0).expect("ours");
                    let peer = &mut self.machines[1 - side];
                    peer.handle_message(&came(&packet, turned(out), NOW)).expect("taken");
                    delivered += 1;
                }
            }
            if delivered == before {
                return delivered;
            }
        }
    }

    fn tell(&mut self, side: usize, proof: LocalProof) {
        self.machines[side].set_local(&proof, NOW);
        self.proofs[side] = proof;
    }

    fn of(&self, side: usize) -> &crate::Established {
        let context = self.machines[side].contexts().next().expect("a context");
        context.established().expect("established")
    }

    /// Checks that both sides know all locators that the ULID of the other side proves, including the ULID.
    fn check(&self) {
        for (side, ulid) in [self.ulids().local, self.ulids().peer].into_iter().enumerate() {
            let expected = self.proofs[side].locators_for(ulid);
            assert_eq!(self.of(side).local_locators, expected, "what side {side} has told");
            let mut known = self.of(1 - side).peer.locators.to_vec();
            assert!(known.contains(&ulid.as_locator()), "the ULID always");
            let mut expected = expected.to_vec();
            known.sort();
            expected.sort();
            assert_eq!(known, expected, "what is known of side {side}");
        }
    }
}

#[test]
fn every_combination_of_proofs_makes_a_context() {
    for here in KINDS {
        for there in KINDS {
            let duo = Duo::established([here, there]);
            duo.check();
            for (side, kind) in [here, there].into_iter().enumerate() {
                let count = if kind == Kind::Plain { 1 } else { 2 };
                assert_eq!(duo.of(side).local_locators.len(), count, "{kind:?}");
            }
        }
    }
}

#[test]
fn a_later_locator_is_signed_announced_and_verified() {
    for here in [Kind::Cga, Kind::HbaCompatible] {
        for there in KINDS {
            let mut duo = Duo::established([here, there]);
            let later = cga(1, 3).address();
            duo.tell(0, proof(here, 1, 6, &[later]));
            assert_eq!(duo.of(0).local_locators.len(), 2, "not before it is acknowledged");
            assert_eq!(duo.settle(), 2, "request and acknowledgement");
            duo.check();
            assert!(duo.of(1).peer.locators.contains(&later));
            assert_eq!(duo.of(1).peer.generation, Some(6));
            assert!(
                events(&mut duo.machines[0]).contains(&Event::Announced { context: ContextId(0) })
            );
        }
    }
}

#[test]
fn a_later_locator_goes_to_the_peers_of_all_contexts() {
    let mut duo = Duo::established([Kind::HbaCompatible, Kind::Hba]);
    let second = duo.proofs[1].addresses().present[1].as_ulid();
    let ulids = UlidPair::new(duo.ulids().local, second);
    duo.machines[0].handle_trigger(ulids, NOW).expect("I1");
    duo.settle();
    duo.tell(0, proof(Kind::HbaCompatible, 1, 6, &[plain(1, 3)]));
    let requests = sent(&mut duo.machines[0]);
    let of: Vec<_> = requests.iter().map(|request| request.via).collect();
    assert_eq!(of, [Via::Current(ContextId(0)), Via::Current(ContextId(1))]);
}

#[test]
fn what_an_hba_cannot_sign_for_is_not_announced() {
    let mut duo = Duo::established([Kind::Hba, Kind::Cga]);
    duo.tell(0, proof(Kind::Hba, 1, 6, &[plain(1, 3)]));
    assert_eq!(duo.settle(), 0);
    duo.check();
}

#[test]
fn a_ulid_that_proves_nothing_announces_nothing_else() {
    let mut duo = Duo::established([Kind::Plain, Kind::HbaCompatible]);
    duo.tell(0, proof(Kind::Plain, 1, 6, &[plain(1, 3)]));
    assert_eq!(duo.settle(), 0);
    assert_eq!(duo.of(1).peer.locators, [plain(1, 1)]);
}

#[test]
fn a_proof_of_the_same_generation_is_the_same_proof() {
    let mut duo = Duo::established([Kind::Cga, Kind::Hba]);
    duo.machines[0].set_local(&proof(Kind::Cga, 1, 5, &[plain(1, 3)]), NOW);
    assert_eq!(duo.settle(), 0);
}

#[test]
fn a_set_that_changes_in_the_handshake_is_told_after_it() {
    for early in [false, true] {
        let mut duo = Duo::new([Kind::HbaCompatible, Kind::Cga]);
        let ulids = duo.ulids();
        duo.machines[0].handle_trigger(ulids, NOW).expect("I1");
        let i1 = only(&mut duo.machines[0]);
        deliver(&mut duo.machines[1], &i1, NOW).expect("I1");
        let r1 = only(&mut duo.machines[1]);
        deliver(&mut duo.machines[0], &r1, NOW).expect("R1");
        let i2 = only(&mut duo.machines[0]);
        if early {
            duo.tell(0, proof(Kind::HbaCompatible, 1, 6, &[plain(1, 3)]));
        }
        deliver(&mut duo.machines[1], &i2, NOW).expect("I2");
        duo.tell(1, proof(Kind::Cga, 2, 8, &[plain(2, 3)]));
        duo.settle();
        duo.check();
    }
}

#[test]
fn a_list_without_the_ulid_leaves_the_ulid_in_use() {
    let mut duo = Duo::established([Kind::Cga, Kind::Hba]);
    let ulid = duo.ulids().local.as_locator();
    let cgas = alloc::vec![cga(1, 1), cga(1, 2)];
    let present = alloc::vec![plain(1, 3)];
    let gone = LocalProof::new(
        6,
        LocalAddresses { present, sets: Vec::new(), cgas, ..LocalAddresses::default() },
        &[&key() as &dyn Signer],
        [9; 32],
    );
    duo.machines[0].set_local(&gone, NOW);
    duo.settle();
    assert_eq!(duo.of(1).peer.locators, [plain(1, 3), ulid]);
    assert_eq!(duo.of(0).local_locators, [plain(1, 3), ulid]);
}

/// An attacker with a CGA has overheard the peer's tag, and signs a list that contains the peer's locator. No message
/// has come from that locator.
#[test]
fn a_list_with_locators_of_another_peer_ends_no_context_of_that_peer() {
    let mut duo = Duo::established([Kind::Hba, Kind::Cga]);
    let before: Vec<_> = duo.machines[0].contexts().map(|context| context.id).collect();
    let tag = duo.machines[0].contexts().next().and_then(Context::established);
    let tag = tag.expect("established").peer_tag;
    let victim = cga(2, 1).address();
    let told = proof(Kind::Cga, 3, 9, &[victim]);
    let own = UlidPair::new(duo.ulids().local, cga(3, 1).address().as_ulid());
    let via = Via::Pair(turned(own.as_locators()));
    let answer = |machine: &mut Machine, message: Message| {
        deliver(machine, &Transmit { via, message }, NOW).expect("taken");
        sent(machine).pop().expect("an answer").message
    };
    let machine = &mut duo.machines[0];
    sent(machine);
    let i1 = I1 { initiator_tag: tag, initiator_nonce: 1, options: Options::default() };
    let Message::R1(r1) = answer(machine, Message::I1(i1)) else { panic!("R1") };
    let validator = Opt::Validator(r1.options.validator().expect("validator").to_vec());
    let announced = told.announcement_for(own.peer).expect("of the list").options();
    let i2 = I2 {
        initiator_tag: tag,
        initiator_nonce: 2,
        responder_nonce: r1.responder_nonce,
        options: [validator].into_iter().chain(announced).collect(),
    };
    let answered = answer(machine, Message::I2(i2));
    assert!(matches!(answered, Message::R2(_)), "{answered:?}");
    let lists = |machine: &Machine| {
        machine
            .contexts()
            .filter(|context| {
                context.established().is_some_and(|known| known.peer.locators.contains(&victim))
            })
            .count()
    };
    assert_eq!(lists(machine), 2, "the locator is in its list, too");
    let there: Vec<_> = machine.contexts().map(|context| context.id).collect();
    assert!(before.iter().all(|id| there.contains(id)), "{there:?}");
}
