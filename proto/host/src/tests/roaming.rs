//! Update Requests that find no way.

use super::*;

/// A pair of which side 1 knows the first locator of side 0 and no other, and nothing that side 0 sends arrives.
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

/// The pairs that the next `count` Update Requests of side 0 take.
fn ways(pair: &mut Pair, count: usize) -> Vec<LocatorPair> {
    let mut ways = Vec::new();
    while ways.len() < count {
        while let Some(transmit) = pair.hosts[0].poll_transmit() {
            let LocatorPair { local, peer } = transmit.locators;
            let packet = moorline_wire::Packet::parse(&transmit.octets, local.0, peer.0);
            let kind = packet.expect("ours").kind();
            if kind == moorline_wire::MessageType::UPDATE_REQUEST {
                ways.push(transmit.locators);
            }
        }
        pair.now = pair.now.max(pair.hosts[0].poll_timeout().expect("a timer").0);
        pair.hosts[0].handle_timeout(pair.now);
    }
    ways
}

#[test]
fn while_the_peer_knows_a_locator_that_is_left_the_others_come_after_it() {
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
    let in_turn = [known[0], strange[0], strange[1], known[1], known[0]];
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
