//! Update Requests that find no path.

use moorline_datapath::shim6::FailureHint;

use super::readiness::default_pair;
use super::*;

/// A pair of hosts. Side 1 knows only the first locator of side 0, and nothing from side 0 arrives.
fn cut_off() -> Pair {
    let mut first = local_state(0);
    let mut addresses = first.proof.addresses().clone();
    addresses.present.truncate(1);
    first.proof = LocalProof::new(1, addresses, &[], [0; 32]);
    first.usable.truncate(1);
    let mut pair = Pair::with([first, local_state(1)]);
    pair.trigger(0);
    let all = local_state(0).usable;
    let theirs = pair.locators[1].clone();
    pair.dead.extend(all.iter().flat_map(|&own| theirs.iter().map(move |&peer| (own, peer))));
    pair
}

fn told(usable: &[Locator]) -> LocalState {
    let addresses = local_state(0).proof.addresses().clone();
    LocalState { proof: LocalProof::new(2, addresses, &[], [0; 32]), usable: usable.to_vec() }
}

/// The pairs of the next `count` Update Requests of side 0.
fn ways(pair: &mut Pair, count: usize) -> Vec<LocatorPair> {
    let next = |_| next_of(pair, 0, MessageType::UPDATE_REQUEST).locators;
    (0..count).map(next).collect()
}

#[test]
fn locators_that_the_peer_knows_and_others_take_turns() {
    let mut pair = cut_off();
    let own = local_state(0).usable;
    let peers = pair.locators[1].clone();
    pair.hosts[0].handle_local(&told(&own), pair.now);
    assert_eq!(ways(&mut pair, 1), [LocatorPair::new(own[0], peers[0])], "the current one");
    let context = pair.entries[0][0].id;
    let since = pair.now;
    pair.now = pair.now + Duration::from_secs(2);
    pair.hosts[0].handle_report(Report::SendExpired { context, since }, pair.now);
    let known = [1, 0].map(|peer| LocatorPair::new(own[0], peers[peer]));
    let strange = [0, 1].map(|peer| LocatorPair::new(own[1], peers[peer]));
    let in_turn = [known[1], strange[1], known[0], strange[0], known[1]];
    assert_eq!(ways(&mut pair, 5), in_turn);
}

#[test]
fn all_pairs_go_on_having_their_turn_however_long_it_takes() {
    let mut pair = cut_off();
    let own = local_state(0).usable[1];
    pair.hosts[0].handle_local(&told(&[own]), pair.now);
    let all: Vec<_> = ways(&mut pair, 600);
    let peers = pair.locators[1].clone();
    for (at, way) in all.iter().enumerate() {
        assert_eq!(*way, LocatorPair::new(own, peers[at % 2]), "the {at}th");
    }
}

/// Side 0 has one address, which side 1 does not know, and has sent `requests` Update Requests for it. Only the last
/// request arrives, and of the answers only the acknowledgement. Returns the current pair of side 0 after that, and the
/// pair of the last request.
fn acknowledged(requests: usize) -> [LocatorPair; 2] {
    let mut pair = cut_off();
    let own = local_state(0).usable[1];
    pair.hosts[0].handle_local(&told(&[own]), pair.now);
    let mut sent = None;
    for _ in 0..requests {
        sent = Some(next_of(&mut pair, 0, MessageType::UPDATE_REQUEST));
    }
    let request = sent.expect("a request");
    let way = request.locators;
    let back = LocatorPair::new(way.peer, way.local);
    pair.hosts[1].handle_control(&request.octets, back, pair.now);
    let answer = next_of(&mut pair, 1, MessageType::UPDATE_ACK);
    assert_eq!(answer.locators, back);
    pair.hosts[0].handle_control(&answer.octets, way, pair.now);
    pair.drain(0);
    [pair.entries[0][0].current.pair, way]
}

#[test]
fn payload_goes_by_the_pair_that_an_acknowledgement_proves() {
    let [current, way] = acknowledged(1);
    assert_eq!(current, way);
}

#[test]
fn the_acknowledgement_of_a_request_that_went_by_several_pairs_proves_none() {
    let [current, way] = acknowledged(2);
    assert_ne!(current, way);
}

/// Otherwise the peer would send to the lost address until it hears nothing for a Send Timeout.
#[test]
fn a_ulid_that_a_list_does_not_name_any_more_is_left_at_once() {
    let mut pair = cut_off();
    let own = local_state(0).usable[1];
    let mut addresses = local_state(0).proof.addresses().clone();
    addresses.present = Vec::from([own]);
    let proof = LocalProof::new(2, addresses, &[], [0; 32]);
    pair.hosts[0].handle_local(&LocalState { proof, usable: Vec::from([own]) }, pair.now);
    let heard = pair.now;
    prove_list(&mut pair);
    let probe = next_of(&mut pair, 1, MessageType::PROBE);
    assert_eq!((probe.locators.peer, pair.now), (own, heard));
}

/// The ISP of the ULID fails, and the peer loses that address.
#[test]
fn a_ulid_that_is_listed_again_is_gone_back_to() {
    let mut pair = default_pair([local_state(0), local_state(1)]);
    pair.trigger(0);
    pair.talk(3);
    let own = local_state(0).usable;
    for theirs in pair.locators[1].clone() {
        pair.dead.extend([(own[0], theirs), (theirs, own[0])]);
    }
    let report = Report::Suspected {
        context: pair.entries[0][0].id,
        hint: FailureHint::Retransmission,
        since: pair.now,
        usual: Duration::ZERO,
    };
    pair.hosts[0].handle_report(report, pair.now);
    pair.run(Duration::from_millis(100));
    let told = |generation, present: &[Locator]| {
        let mut addresses = local_state(0).proof.addresses().clone();
        addresses.present = present.to_vec();
        let proof = LocalProof::new(generation, addresses, &[], [0; 32]);
        LocalState { proof, usable: present.to_vec() }
    };
    let ulids = pair.ulids(1).as_locators();
    assert_eq!(pair.entries[1][0].current.pair.peer, own[1]);
    pair.tell(0, &told(2, &own[1..]));
    pair.settle();
    pair.dead.clear();
    pair.tell(0, &told(3, &own));
    pair.settle();
    pair.talk(120);
    assert_eq!(pair.entries[1][0].current.pair, ulids);
}
