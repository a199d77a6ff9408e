//! Another host gets the ULID of a peer that has moved.

use crate::control;

use super::*;

/// A host whose only address is one that the second host has left. The newcomer follows the protocol.
struct Newcomer {
    host: Contexts,
    /// Whether the second host is gone for good.
    is_alone: bool,
}

impl Newcomer {
    fn new(pair: &mut Pair) -> Self {
        let ulid = pair.ulids(1).local.as_locator();
        let mut host = Contexts::new(Config::default(), [0x77; 32], pair.now);
        let local = LocalState { proof: LocalProof::default(), usable: [ulid].into() };
        host.handle_local(&local, pair.now);
        host.handle_report(Report::Trigger { ulids: pair.ulids(1) }, pair.now);
        // The two hosts use other paths now. The first path works for the newcomer.
        pair.dead.clear();
        Self { host, is_alone: false }
    }

    /// Lets the three hosts talk, and lets time pass.
    fn run(&mut self, pair: &mut Pair, duration: Duration) {
        let end = pair.now + duration;
        loop {
            self.settle(pair);
            let timers = [&pair.hosts[0], &pair.hosts[1], &self.host].map(Contexts::poll_timeout);
            let next = timers.iter().flatten().map(|(at, _)| *at).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            pair.now = pair.now.max(next);
            for host in pair.hosts.iter_mut().chain([&mut self.host]) {
                host.handle_timeout(pair.now);
            }
        }
        pair.now = end;
    }

    fn settle(&mut self, pair: &mut Pair) {
        let ulid = pair.ulids(1).local.as_locator();
        loop {
            let mut is_done = true;
            for side in 0..2 {
                pair.drain(side);
            }
            while self.host.poll_datapath().is_some() || self.host.poll_event().is_some() {}
            let senders = pair.hosts.iter_mut().chain([&mut self.host]);
            let sent: Vec<_> =
                senders.flat_map(|host| core::iter::from_fn(|| host.poll_transmit())).collect();
            for transmit in sent {
                is_done = false;
                let seen = LocatorPair::new(transmit.locators.peer, transmit.locators.local);
                let to = if seen.local == ulid {
                    &mut self.host
                } else if pair.locators[0].contains(&seen.local) {
                    &mut pair.hosts[0]
                } else if self.is_alone {
                    continue;
                } else {
                    &mut pair.hosts[1]
                };
                to.handle_control(&transmit.octets, seen, pair.now);
            }
            if is_done {
                return;
            }
        }
    }
}

#[test]
fn a_context_that_has_moved_is_not_for_who_has_the_ulid_of_its_peer_now() {
    let mut pair = Pair::moved();
    let before = pair.entries[0][0].clone();
    let mut newcomer = Newcomer::new(&mut pair);
    newcomer.run(&mut pair, Duration::from_secs(120));
    let after = &pair.entries[0][0];
    assert_eq!((after.peer_tag, after.current.pair), (before.peer_tag, before.current.pair));
    assert!(pair.hosts[0].drops().of(DropReason::Disbelieved) > 0, "it has tried");
    assert!(!pair.events[0].iter().any(|event| matches!(event.kind, EventKind::Renewed)));
}

#[test]
fn when_the_peer_is_gone_it_is() {
    let mut pair = Pair::moved();
    let before = pair.entries[0][0].clone();
    let mut newcomer = Newcomer::new(&mut pair);
    newcomer.is_alone = true;
    newcomer.run(&mut pair, Duration::from_secs(9));
    assert_eq!(pair.entries[0][0].peer_tag, before.peer_tag);
    newcomer.run(&mut pair, Duration::from_secs(120));
    assert_ne!(pair.entries[0][0].peer_tag, before.peer_tag);
    assert_eq!(newcomer.host.contexts().count(), 1);
}

/// Nobody repeats an R1bis, and the next probe that gets through may be minutes away.
#[test]
fn one_r1bis_is_enough_for_a_peer_that_has_lost_the_context() {
    let mut pair = Pair::moved();
    pair.lose(1);
    // Only one of the four pairs works, and payload takes another one.
    let (a, b) = (pair.locators[0].clone(), pair.locators[1].clone());
    let is_dead = |x, y| (x, y) != (a[0], b[0]);
    let dead = a.iter().flat_map(|&x| b.iter().map(move |&y| (x, y)));
    let dead = dead.filter(|&(x, y)| is_dead(x, y)).flat_map(|(x, y)| [(x, y), (y, x)]);
    pair.dead = dead.collect();
    pair.send_expired(0);
    while pair.hosts[0].drops().of(DropReason::Disbelieved) == 0 {
        pair.run(Duration::from_millis(10));
    }
    pair.run(Duration::from_millis(9_900));
    assert!(pair.entries[1].is_empty(), "it waits for an answer to its question");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.entries[0][0].peer_tag, pair.entries[1][0].local_tag);
}

#[test]
fn payload_between_the_ulids_does_not_answer_for_a_peer_that_has_lost_the_context() {
    let mut pair = Pair::moved();
    pair.lose(1);
    let peer = pair.entries[0][0].current.pair.peer;
    let locals = pair.locators[0].iter();
    pair.dead = locals.flat_map(|&local| [(local, peer), (peer, local)]).collect();
    pair.send_expired(0);
    for _ in 0..60 {
        pair.run(Duration::from_millis(500));
        let (context, at) = (pair.entries[0][0].id, pair.now);
        pair.hosts[0].handle_report(Report::Received { context, at }, at);
        pair.settle();
    }
    assert_eq!(pair.entries[0][0].peer_tag, pair.entries[1][0].local_tag);
}

/// The network, or an attacker on the path, delivers an old message again.
#[test]
fn what_was_sent_before_does_not_answer_for_a_peer_that_is_gone() {
    let report = |pair: LocatorPair, nonce| moorline_reap::Report {
        src: pair.local,
        dst: pair.peer,
        nonce,
        data: 0,
    };
    for is_probe in [false, true] {
        let mut pair = Pair::moved();
        let before = pair.entries[0][0].clone();
        let way = LocatorPair::new(before.current.pair.peer, before.current.pair.local);
        let message = match is_probe {
            true => moorline_reap::Message::Probe(moorline_reap::Probe {
                state: moorline_reap::State::Exploring,
                sent: [report(way, 7)].into(),
                received: [report(before.current.pair, 8)].into(),
            }),
            false => moorline_reap::Message::Keepalive,
        };
        let old = control::emit(way, &control::reap_message(before.local_tag, message));
        let mut newcomer = Newcomer::new(&mut pair);
        newcomer.is_alone = true;
        for _ in 0..120 {
            newcomer.run(&mut pair, Duration::from_secs(1));
            let now = pair.now;
            pair.hosts[0].handle_control(&old.octets, before.current.pair, now);
        }
        assert_ne!(pair.entries[0][0].peer_tag, before.peer_tag, "a probe: {is_probe}");
    }
}
