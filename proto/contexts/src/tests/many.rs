//! Many contexts that lose the same path, and quiet contexts.

use super::*;
use crate::TimerKind;

/// A host with a context to each of many peers, all by its first ISP.
struct Site {
    host: Contexts,
    peers: Vec<Contexts>,
    locators: Vec<Locator>,
    /// Index of the peer by each of its addresses.
    homes: alloc::collections::BTreeMap<Locator, usize>,
    now: Instant,
}

impl Site {
    fn new(count: u16, config: &Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let local = local_state(0);
        let mut host = Contexts::new(config.clone(), [7; 32], now);
        host.handle_local(&local, now);
        let mut site = Self {
            host,
            peers: Vec::new(),
            locators: local.usable.clone(),
            homes: alloc::collections::BTreeMap::new(),
            now,
        };
        for n in 0..count {
            let state = peer_state(n);
            let mut seed = [9; 32];
            seed[..2].copy_from_slice(&n.to_be_bytes());
            let mut peer = Contexts::new(config.clone(), seed, now);
            peer.handle_local(&state, now);
            site.homes.extend(state.usable.iter().map(|l| (*l, usize::from(n))));
            site.peers.push(peer);
            let ulids = UlidPair::new(site.locators[0].as_ulid(), state.usable[0].as_ulid());
            site.host.handle_report(Report::Trigger { ulids }, now);
            site.settle(&|_| true);
        }
        site
    }

    /// Gives the inputs that wait to all contexts. Returns the number of turns.
    fn walk(&mut self) -> usize {
        let mut turns = 0;
        while self.host.next_slice().is_some() {
            self.host.handle_timeout(self.now);
            turns += 1;
        }
        turns
    }

    /// Number of contexts with this Send Timeout. The last trial takes a second of the Send Timeout.
    fn with_send_timeout(&self, seconds: u64) -> usize {
        let wanted = Duration::from_secs(seconds - 1)..=Duration::from_secs(seconds);
        let ids = self.host.active.slice(0..u32::MAX);
        let timers = ids.iter().filter_map(|id| self.host.active.get(id)?.reap.timers());
        timers.filter(|timers| wanted.contains(&timers.send)).count()
    }

    /// Delivers the packets for which `passes` holds. Returns the number of probes that the host has sent.
    fn settle(&mut self, passes: &dyn Fn(Locator) -> bool) -> usize {
        let mut probes = 0;
        loop {
            let mut is_over = true;
            while let Some(transmit) = self.host.poll_transmit() {
                is_over = false;
                let LocatorPair { local, peer } = transmit.locators;
                let packet = moorline_wire::Packet::parse(&transmit.octets, local.0, peer.0);
                let kind = packet.expect("ours").kind();
                probes += usize::from(kind == MessageType::PROBE);
                if let (true, Some(&home)) = (passes(local), self.homes.get(&peer)) {
                    let seen = LocatorPair::new(peer, local);
                    self.peers[home].handle_control(&transmit.octets, seen, self.now);
                }
            }
            for peer in &mut self.peers {
                while let Some(transmit) = peer.poll_transmit() {
                    is_over = false;
                    let LocatorPair { local, peer } = transmit.locators;
                    if passes(peer) {
                        let seen = LocatorPair::new(peer, local);
                        self.host.handle_control(&transmit.octets, seen, self.now);
                    }
                }
                while peer.poll_datapath().is_some() || peer.poll_event().is_some() {}
            }
            while self.host.poll_datapath().is_some() {}
            if is_over {
                return probes;
            }
        }
    }
}

fn peer_state(n: u16) -> LocalState {
    let [high, low] = n.to_be_bytes();
    let prefixes = [1u8, 2].map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0x80 | isp, 0, high, low]);
    let key = HbaKey::extended_modifier([5; 48]);
    let set = generate_hba(&prefixes, Sec::new(0).expect("valid"), &key, [1; 16], 1);
    state_of(set.expect("Sec 0"))
}

/// A site whose first ISP is gone, and the number of probes that left at once.
fn site_without_isp(config: &Config, passes: &dyn Fn(Locator) -> bool) -> (Site, usize) {
    let mut site = Site::new(100, config);
    while site.host.poll_event().is_some() {}
    let mut left = local_state(0);
    left.usable.remove(0);
    site.host.handle_local(&left, site.now);
    let probes = site.settle(passes);
    (site, probes)
}

/// Number of contexts that explore.
fn exploring(host: &Contexts) -> usize {
    let ids = host.active.slice(0..u32::MAX);
    let states = ids.iter().filter_map(|id| Some(host.active.get(id)?.reap.state()));
    states.filter(|state| *state != crate::ReapState::Operational).count()
}

#[test]
fn an_input_for_all_contexts_reaches_one_slice_of_them_in_a_turn() {
    let mut without_isp = local_state(0);
    let lost = [without_isp.usable.remove(0)];
    type Input<'a> = &'a dyn Fn(&mut Contexts, Instant);
    let inputs: [Input<'_>; 3] = [
        &|host, now| host.handle_local(&without_isp, now),
        &|host, now| host.handle_lost(&lost, now),
        &|host, now| host.handle_router_lost(&lost, now),
    ];
    for input in inputs {
        let mut site = Site::new(20, &Config::default());
        site.host.slice = 8;
        input(&mut site.host, site.now);
        assert_eq!(exploring(&site.host), 8);
        for expected in [16, 20] {
            assert!(site.host.poll_timeout().is_some_and(|(at, _)| at <= site.now));
            site.host.handle_timeout(site.now);
            assert_eq!(exploring(&site.host), expected);
        }
        assert_eq!(site.host.next_slice(), None);
    }
}

/// The Send Timeout changes twice, and the address of a slice that knows of its end comes back.
#[test]
fn an_input_that_begins_anew_takes_the_place_of_its_earlier_walk() {
    let mut site = Site::new(20, &Config::default());
    site.host.slice = 8;
    let mut without_isp = local_state(0);
    without_isp.usable.remove(0);
    for local in [&without_isp, &local_state(0)] {
        site.host.handle_local(local, site.now);
    }
    for seconds in [20, 30] {
        site.host.set_send_timeout(Duration::from_secs(seconds), site.now);
    }
    assert_eq!(site.walk(), 2, "the last slice and the first one, of both inputs");
    site.settle(&|_| true);
    assert_eq!(site.with_send_timeout(30), 20);
}

/// The Send Timeout changes as often as a slice gets it.
#[test]
fn changes_that_come_faster_than_a_walk_ends_reach_all_contexts() {
    let mut site = Site::new(20, &Config::default());
    site.host.slice = 8;
    for seconds in [40, 50, 60] {
        site.host.set_send_timeout(Duration::from_secs(seconds), site.now);
    }
    assert_eq!(site.with_send_timeout(60), 4, "the last slice");
    assert_eq!(site.with_send_timeout(50), 8);
    assert_eq!(site.walk(), 2);
    assert_eq!(site.with_send_timeout(60), 20);
}

/// The pairs from our first address to a peer of each of these numbers.
fn pairs_left(site: &Site, peers: core::ops::Range<u16>) -> Vec<crate::sweep::Input> {
    let input = |n| {
        let peer = peer_state(n).usable;
        let pair = LocatorPair::new(site.locators[0], peer[0]);
        crate::sweep::Input::PairLeft(pair, (&*peer).into())
    };
    peers.map(input).collect()
}

#[test]
fn an_address_that_goes_waits_for_no_other_input() {
    let mut site = Site::new(20, &Config::default());
    site.host.slice = 8;
    for input in pairs_left(&site, 0..3) {
        site.host.sweep(input, site.now);
    }
    site.host.handle_lost(&[site.locators[0]], site.now);
    for expected in [8, 16, 20] {
        assert_eq!(exploring(&site.host), expected);
        site.host.handle_timeout(site.now);
    }
    assert_eq!(site.host.next_slice(), None);
}

#[test]
fn contexts_stay_on_an_address_whose_router_answers_again_before_they_learn_of_its_loss() {
    let mut site = Site::new(20, &Config::default());
    site.host.slice = 8;
    let own = site.locators.clone();
    site.host.handle_router_lost(&own, site.now);
    site.host.handle_router_found(&own[1..]);
    site.host.handle_timeout(site.now);
    assert_eq!(exploring(&site.host), 16, "the router of the first address does not answer");
    site.host.handle_router_found(&own[..1]);
    assert_eq!(site.walk(), 0);
    assert_eq!(exploring(&site.host), 16);
}

/// A search looks at eight slots here.
#[test]
fn each_search_for_witnesses_looks_at_as_many_slots() {
    let config = Config { profile: crate::Profile::default(), ..Config::default() };
    let mut site = Site::new(9, &config);
    site.host.slice = 1;
    let ids = site.host.active.slice(0..9);
    for id in &ids {
        site.host.change(*id, site.now, |reap| reap.handle_known_checks());
    }
    for (first, unseen) in [(None, 8), (None, 7), (Some(ids[6]), 6), (Some(ids[5]), 9)] {
        let witnesses = site.host.witnesses(first);
        let mut found: Vec<_> = witnesses.iter().map(|witness| witness.context).collect();
        found.sort();
        let expected = ids.iter().filter(|id| id.0 != unseen || first == Some(**id));
        assert!(found.iter().eq(expected), "{unseen}: {found:?}");
    }
}

#[test]
fn the_inputs_that_wait_are_bounded() {
    let mut site = Site::new(20, &Config::default());
    site.host.slice = 8;
    let own = site.locators.clone();
    let lost: [&[Locator]; 4] = [&own[..1], &own, &own[1..], &own[1..]];
    for input in pairs_left(&site, 0..40).into_iter().chain(pairs_left(&site, 0..5)) {
        site.host.sweep(input, site.now);
    }
    assert_eq!(site.host.sweeps.0.len(), 16);
    for lost in lost {
        site.host.handle_router_lost(lost, site.now);
    }
    assert_eq!(site.host.sweeps.0.len(), 18, "one for each address");
    site.host.handle_lost(&own[..1], site.now);
    assert_eq!(site.host.sweeps.0.len(), 19);
}

/// The control API shows contexts page by page.
#[test]
fn the_contexts_behind_a_slot_follow_in_order() {
    let site = Site::new(9, &Config::default());
    let all: Vec<_> = site.host.contexts().map(|context| context.id).collect();
    assert_eq!(all.len(), 9);
    for after in 0..=all.len() {
        let slot = after.checked_sub(1).map(|last| all[last]);
        assert!(
            site.host
                .contexts_after(slot)
                .map(|context| context.id)
                .eq(all[after..].iter().copied())
        );
        assert!(site.host.established_after(slot).eq(all[after..].iter().copied()));
    }
    assert_eq!(site.host.contexts_after(Some(ContextId(u32::MAX))).count(), 0);
}

#[test]
fn contexts_that_lose_a_path_together_share_a_bounded_pace() {
    //= rfc5534#4.3 (test)
    let config = Config { probes_per_second: 50, probe_burst: 20, ..Config::default() };
    let (mut site, mut probes) = site_without_isp(&config, &|_| false);
    assert_eq!(probes, 20, "the burst");
    let start = site.now;
    while site.now.since(start) < Duration::from_secs(3) {
        let (at, _) = site.host.poll_timeout().expect("some wait");
        assert!(at > site.now);
        site.now = at;
        site.host.handle_timeout(site.now);
        probes += site.settle(&|_| false);
        let elapsed = site.now.since(start).as_secs_f64();
        assert!(probes as f64 <= 20.0 + 50.0 * elapsed + 1.0, "{probes} probes in {elapsed} s");
    }
    assert!(probes >= 150, "{probes}: a host that gets no answers goes on asking");
}

/// Each peer sends a keepalive. Returns the number of probes that the host sends then.
fn probes_after_keepalives(site: &mut Site) -> usize {
    let mut probes = 0;
    for n in 0..site.peers.len() {
        let context = site.peers[n].contexts().next().expect("there").id;
        site.peers[n].handle_report(Report::KeepaliveDue { context }, site.now);
        while let Some(transmit) = site.peers[n].poll_transmit() {
            let LocatorPair { local, peer } = transmit.locators;
            site.host.handle_control(&transmit.octets, LocatorPair::new(peer, local), site.now);
        }
        probes += site.settle(&|_| false);
    }
    probes
}

#[test]
fn a_message_of_the_peer_pays_for_what_it_draws_and_not_for_a_probe_that_waits() {
    let config = Config { probes_per_second: 1, probe_burst: 5, ..Config::default() };
    let (mut site, probes) = site_without_isp(&config, &|_| false);
    assert_eq!(probes, 5, "the burst");
    assert_eq!(probes_after_keepalives(&mut site), 100, "one for each first sign of life");
    for _ in 0..3 {
        site.now = site.now + Duration::from_millis(600);
        site.host.handle_timeout(site.now);
        let in_turn = site.settle(&|_| false);
        assert!(in_turn <= 1, "{in_turn}");
        assert!(probes_after_keepalives(&mut site) <= 1, "the others wait for their turn");
    }
}

#[test]
fn answers_let_those_that_wait_go() {
    //= rfc5534#4.3 (test)
    let config = Config { probes_per_second: 1, probe_burst: 5, ..Config::default() };
    let dead = local_state(0).usable[0];
    let (mut site, probes) = site_without_isp(&config, &move |locator| locator != dead);
    let moves = core::iter::from_fn(|| site.host.poll_event())
        .filter(|event| matches!(event.kind, EventKind::Moved { .. }));
    assert_eq!(moves.count(), 100, "5 at once, and each answer brings two more");
    assert_eq!(probes, 200, "one each, and one to end it: what waited too long is not sent");
}

#[test]
fn who_leaves_a_pair_tries_first_what_worked_for_others() {
    // Side 1 has one address of each of four ISPs. Only one pair works.
    let isps = |side: u8, count: u8| {
        let prefixes: Vec<_> =
            (1..=count).map(|isp| [0x20, 0x01, 0x0d, 0xb8, 0, isp, 0, 0xa + side]).collect();
        let key = HbaKey::extended_modifier([side; 48]);
        let sec = Sec::new(0).expect("valid");
        state_of(generate_hba(&prefixes, sec, &key, [side; 16], 1).expect("Sec 0"))
    };
    let mut pair = Pair::with([isps(0, 4), isps(1, 4)]);
    pair.trigger(0);
    let ulids = pair.ulids(0);
    let fork = pair.hosts[0].fork(ulids, pair.now).expect("room");
    pair.settle();
    let working = (pair.locators[0][3], pair.locators[1][2]);
    for &a in &pair.locators[0].clone() {
        for &b in &pair.locators[1].clone() {
            if (a, b) != working {
                pair.dead.extend([(a, b), (b, a)]);
            }
        }
    }
    let first = ContextId(0);
    let expire = |pair: &mut Pair, context| {
        let since = pair.now;
        pair.now = pair.now + Duration::from_secs(2);
        pair.hosts[0].handle_report(Report::SendExpired { context, since }, pair.now);
        pair.settle();
    };
    expire(&mut pair, first);
    let expected = LocatorPair::new(working.0, working.1);
    let current = |pair: &Pair| {
        pair.entries[0].iter().find(|entry| entry.id == first).map(|entry| entry.current.pair)
    };
    for _ in 0..300 {
        pair.run(Duration::from_secs(1));
        if current(&pair) == Some(expected) {
            break;
        }
    }
    assert_eq!(current(&pair), Some(expected));
    pair.events[0].clear();
    expire(&mut pair, fork);
    let moved = pair.events[0].iter().any(|event| {
        event.context == fork
            && matches!(event.kind, EventKind::Moved { to, .. } if to.local == working.0)
    });
    assert!(moved, "with its first probe: {:?}", pair.events[0]);
}

#[test]
fn a_quiet_context_stays_while_something_uses_it() {
    //= rfc5533#9-1 rfc5533#9-2 (test)
    let mut pair = Pair::new();
    let config = Config { asks_before_removal: true, ..Config::default() };
    pair.hosts[0] = Contexts::new(config.clone(), [3; 32], pair.now);
    pair.hosts[0].handle_local(&local_state(0), pair.now);
    pair.trigger(0);
    let context = pair.entries[0][0].id;
    let since = pair.now;
    pair.hosts[0].handle_report(Report::Idle { context, since }, pair.now);
    let question = pair.hosts[0].poll_question().expect("asked");
    assert_eq!((question.context, question.ulids, question.since), (context, pair.ulids(0), since));
    assert!(pair.hosts[0].poll_question().is_none());
    pair.hosts[0].handle_usage(context, true, pair.now);
    let (again, kind) = pair.hosts[0].poll_timeout().expect("asks again");
    assert_eq!((again, kind), (pair.now + config.idle, TimerKind::Idle));
    pair.run(config.idle);
    assert_eq!(pair.entries[0].len(), 1, "no answer is no reason to forget it");
    assert_eq!(pair.hosts[0].poll_question().map(|q| q.context), Some(context));
    pair.hosts[0].handle_usage(context, false, pair.now);
    pair.settle();
    assert!(pair.entries[0].is_empty());
    assert!(pair.hosts[0].poll_timeout().is_none());
    pair.hosts[0].handle_usage(context, false, pair.now);
    assert!(pair.hosts[0].poll_event().is_none(), "an answer to nothing");
}
