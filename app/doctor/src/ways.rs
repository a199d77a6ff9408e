use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use moorline_addresses::Uplink;
use moorline_api::Pair;

use crate::facts::{Answers, Facts};
use crate::probe::{MAX_WAYS, Way};

/// Returns the pairs to test with a peer: the given addresses, and further locators of contexts and sessions with that peer.
#[must_use]
pub fn ways(facts: &Facts, given: &[Ipv6Addr]) -> Vec<Way> {
    let answers = facts.answers();
    let peers = peer_locators(answers, given);
    let mut found = Vec::new();
    for uplink in facts.uplinks.iter().filter(|uplink| uplink.carrier) {
        for local in our_locators(answers, uplink) {
            found.extend(peers.iter().map(|peer| way(answers, Pair::new(local, *peer), uplink)));
        }
    }
    found.truncate(MAX_WAYS);
    found
}

/// Returns the announced addresses of an uplink. If there are none, or no daemon runs, returns one address of each prefix.
fn our_locators(answers: Option<&Answers>, uplink: &Uplink) -> Vec<Ipv6Addr> {
    let told = answers.into_iter().flat_map(|all| &all.status.uplinks);
    let announced: Vec<_> = told
        .filter(|one| one.ifindex == uplink.ifindex)
        .flat_map(|one| &one.locators)
        .filter(|locator| locator.announced && uplink.has(locator.address))
        .map(|locator| locator.address)
        .collect();
    if !announced.is_empty() {
        return announced;
    }
    let mut prefixes = BTreeSet::new();
    let usable = uplink.addresses.iter().filter(|own| own.preferred);
    usable.filter(|own| prefixes.insert(own.prefix())).map(|own| own.address).collect()
}

fn peer_locators(answers: Option<&Answers>, given: &[Ipv6Addr]) -> BTreeSet<Ipv6Addr> {
    let mut found: BTreeSet<_> = given.iter().copied().collect();
    for context in answers.into_iter().flat_map(|all| &all.contexts) {
        let is_of_peer = given.contains(&context.ulid_peer)
            || context.peer_locators.iter().any(|locator| given.contains(locator));
        if is_of_peer {
            found.insert(context.ulid_peer);
            found.extend(&context.peer_locators);
        }
    }
    for session in answers.into_iter().flat_map(|all| &all.ilcc.correspondents) {
        let ends = [session.addresses.peer, session.via.peer];
        if ends.iter().any(|end| given.contains(end)) {
            found.extend(ends);
        }
    }
    found
}

fn way(answers: Option<&Answers>, pair: Pair, uplink: &Uplink) -> Way {
    let mut contexts = answers.into_iter().flat_map(|all| &all.contexts);
    let mut sessions = answers.into_iter().flat_map(|all| &all.ilcc.correspondents);
    let session = sessions.find(|session| session.addresses == pair);
    Way {
        pair,
        ifindex: uplink.ifindex,
        mtu: uplink.mtu,
        has_moved: session.is_some_and(|session| session.moved)
            || contexts.any(|context| context.moved && context.ulids() == pair),
        has_session: session.is_some(),
        ilnp: answers.and_then(|all| all.status.ilnp.as_ref()).map(|ilnp| ilnp.icmp_types),
    }
}
