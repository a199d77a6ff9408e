use core::net::Ipv6Addr;

use moorline_types::Locator;
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use super::asked::{LOST, WATCHED};
use super::*;
use crate::health::STEADY;

const RTT: Duration = Duration::from_millis(20);
const UPLINK: u32 = 1;

fn pair(link: u16, peer: u16) -> LocatorPair {
    let address = |network, node| Locator(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, node));
    LocatorPair::new(address(link, 1), address(0x100 + peer, peer))
}

/// Peers that are asked by two uplinks. Each uplink loses a part of the questions.
struct Net {
    doubts: Doubts,
    now: Instant,
    peers: u16,
    /// The first of the peers that are asked.
    first: u16,
    /// Whether contexts need all checks themselves.
    is_busy: bool,
    /// Loss of questions, permille, by uplink.
    loss: [u32; 2],
    /// Peers that answer by the second uplink alone.
    liars: BTreeSet<u16>,
    /// Peers that answer by no uplink.
    dead: BTreeSet<u16>,
    rtts: [Duration; 2],
    /// Answer time that is known before.
    usual: Duration,
    rng: ChaCha12Rng,
    answers: Vec<(Instant, Reply)>,
    changes: Vec<(Instant, BTreeSet<u32>)>,
    sent: usize,
}

impl Net {
    fn new(seed: u8, peers: u16) -> Self {
        Self {
            doubts: Doubts::default(),
            now: Instant::from_nanos(1),
            peers,
            first: 0,
            is_busy: false,
            loss: [0; 2],
            liars: BTreeSet::new(),
            dead: BTreeSet::new(),
            rtts: [RTT; 2],
            usual: Duration::ZERO,
            rng: ChaCha12Rng::from_seed([seed; 32]),
            answers: Vec::new(),
            changes: Vec::new(),
            sent: 0,
        }
    }

    /// A context has left the first uplink.
    fn doubt(&mut self) {
        self.doubts.handle_doubt(UPLINK, Some(ContextId(0)), self.now);
        self.begin();
    }

    fn targets(&self) -> Vec<Target> {
        let targets = (self.first..self.first + self.peers).map(|peer| Target {
            context: ContextId(peer.into()),
            peer: peer.into(),
            pairs: [pair(1, peer), pair(2, peer)],
            other: 2,
            usual: self.usual,
        });
        targets.collect()
    }

    /// Begins a doubt that is due, and finds other targets.
    fn begin(&mut self) {
        if self.doubts.poll_doubt(self.now).is_some() {
            self.doubts.begin(UPLINK, self.targets(), self.now);
        }
        if self.doubts.lacks_targets(self.now).is_some() {
            self.doubts.replace(UPLINK, self.targets(), self.now);
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let answer = self.answers.iter().map(|(at, _)| *at).min();
            let next = [self.doubts.poll_timeout(), answer].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            let changed = match self.answers.iter().position(|(at, _)| *at <= self.now) {
                Some(place) => {
                    let (_, reply) = self.answers.remove(place);
                    self.doubts.handle_reply(reply, self.now)
                }
                None => {
                    self.begin();
                    self.ask()
                }
            };
            let failing = self.doubts.failing();
            // An uplink that answers again is a change as well.
            let before = self.changes.last().map(|(_, failing)| failing.clone());
            if changed && before.unwrap_or_default() != failing {
                self.changes.push((self.now, failing));
            }
        }
        self.now = end;
    }

    fn ask(&mut self) -> bool {
        let Self { doubts, now, is_busy, loss, liars, dead, rtts, rng, answers, sent, .. } = self;
        let now = *now;
        let ask = |context: ContextId, pair: LocatorPair| {
            let by = usize::from(pair.local.0.segments()[2] - 1);
            let peer = pair.peer.0.segments()[7];
            *sent += 1;
            if *is_busy {
                return false;
            }
            let is_lost = rng.next_u32() % 1000 < loss[by];
            let is_unanswered = dead.contains(&peer) || by == 0 && liars.contains(&peer);
            if !is_lost && !is_unanswered {
                answers.push((now + rtts[by], Reply { context, pair, at: now }));
            }
            true
        };
        doubts.handle_timeout(ask, now)
    }

    fn is_failing(&self) -> bool {
        self.doubts.failing() == BTreeSet::from([UPLINK])
    }
}

#[test]
fn an_uplink_that_several_peers_do_not_answer_by_fails_within_half_a_second_and_is_used_again_after_a_while()
 {
    for (round_trip, most) in [(1, 440), (20, 440), (80, 500)] {
        let mut net = Net::new(1, 2);
        net.rtts = [Duration::from_millis(round_trip); 2];
        net.loss = [1000, 0];
        let cut = net.now;
        net.doubt();
        net.run(Duration::from_secs(300));
        let [(at, _)] = net.changes[..] else { panic!("{:?}", net.changes) };
        assert!(net.is_failing() && at.since(cut) <= Duration::from_millis(most), "{at:?}");
        net.loss = [0; 2];
        let healed = net.now;
        net.run(Duration::from_secs(60) + WATCHED);
        let [_, (at, _)] = net.changes[..] else { panic!("{:?}", net.changes) };
        assert!(net.doubts.failing().is_empty());
        let took = at.since(healed);
        assert!((STEADY..STEADY + Duration::from_secs(1)).contains(&took), "{took:?}");
        assert_eq!(net.doubts.poll_timeout(), None, "nobody is asked any more");
    }
}

#[test]
fn while_an_uplink_fails_peers_are_asked_four_times_a_second_by_each_uplink() {
    let mut net = Net::new(2, 4);
    net.loss = [1000, 0];
    net.doubt();
    net.run(Duration::from_secs(5));
    let before = net.sent;
    net.run(Duration::from_secs(60));
    assert_eq!(net.sent - before, 2 * 4 * 60);
}

#[test]
fn a_loss_of_five_percent_each_way_is_no_failure_in_an_hour_full_of_doubts() {
    for seed in 0..20 {
        let mut net = Net::new(seed, 2);
        net.loss = [98, 98];
        for _ in 0..3600 {
            net.doubt();
            net.run(Duration::from_secs(1));
        }
        assert_eq!(net.changes, [], "seed {seed}");
        let doubts = 3600 / 10 * 2 * 2 * LOST;
        assert!(net.sent <= doubts, "{} checks", net.sent);
    }
}

/// One peer answers by one uplink alone, or by none.
#[test]
fn one_peer_alone_changes_nothing() {
    for peers in 1..=4 {
        for is_liar in [true, false] {
            let mut net = Net::new(3, peers);
            if is_liar {
                net.liars.insert(0);
            } else {
                net.dead.insert(0);
            }
            for _ in 0..600 {
                net.doubt();
                net.run(Duration::from_secs(1));
            }
            assert_eq!(net.changes, [], "{peers} peers, {is_liar}");
        }
    }
}

/// Two addresses of a peer, or two peers that share a network.
#[test]
fn targets_of_one_peer_count_once() {
    let mut net = Net::new(4, 2);
    net.loss = [1000, 0];
    let target = |address| Target {
        context: ContextId(0),
        peer: 0,
        pairs: [pair(1, address), pair(2, address)],
        other: 2,
        usual: Duration::ZERO,
    };
    net.doubts.begin(UPLINK, [target(0), target(1)].into(), net.now);
    net.run(Duration::from_secs(60));
    assert_eq!((net.changes.len(), net.sent), (0, 0), "nobody is asked in vain");
}

#[test]
fn a_peer_that_answers_by_the_uplink_outweighs_all_others() {
    let mut net = Net::new(5, 4);
    net.liars = BTreeSet::from([0, 1, 2]);
    net.doubt();
    net.run(Duration::from_secs(60));
    assert_eq!(net.changes, []);
}

#[test]
fn an_uplink_fails_no_more_while_peers_answer_by_no_uplink() {
    let mut net = Net::new(6, 2);
    net.loss = [1000, 0];
    net.doubt();
    net.run(Duration::from_secs(5));
    assert!(net.is_failing());
    net.loss = [1000; 2];
    net.run(Duration::from_secs(5));
    assert!(!net.is_failing(), "perhaps it is the peers");
    net.loss = [1000, 0];
    net.run(Duration::from_secs(1));
    assert!(net.is_failing());
    // Contexts go, so nobody can be asked.
    let deaf = |net: &mut Net| net.doubts.handle_timeout(|_, _| false, net.now);
    for _ in 0..600 {
        net.now = net.now + Duration::from_millis(100);
        deaf(&mut net);
        if net.doubts.lacks_targets(net.now) == Some(UPLINK) {
            net.doubts.replace(UPLINK, Vec::new(), net.now);
        }
    }
    deaf(&mut net);
    assert!(net.doubts.failing().is_empty());
}

#[test]
fn an_uplink_that_fails_again_and_again_is_used_ever_more_rarely() {
    let mut net = Net::new(7, 2);
    for _ in 0..60 {
        for loss in [1000, 0] {
            net.loss[0] = loss;
            for _ in 0..15 {
                net.doubt();
                net.run(Duration::from_secs(1));
            }
        }
    }
    // The uplink answers for 15 s each time: longer than 5 s and 10 s, shorter than 20 s.
    assert_eq!(net.changes.len(), 5, "{:?}", net.changes);
}

/// The slow uplink is a satellite link, and the other one a cable.
#[test]
fn an_uplink_that_is_slow_is_found_out_once_at_most() {
    let mut net = Net::new(8, 2);
    net.rtts[0] = Duration::from_millis(400);
    for _ in 0..600 {
        net.doubt();
        net.run(Duration::from_secs(1));
    }
    assert!(net.changes.len() <= 2 && !net.is_failing(), "{:?}", net.changes);
    let mut known = Net::new(8, 2);
    (known.rtts[0], known.usual) = (net.rtts[0], net.rtts[0]);
    for _ in 0..600 {
        known.doubt();
        known.run(Duration::from_secs(1));
    }
    assert_eq!(known.changes, [], "checks have shown how slow it is");
}

#[test]
fn two_peers_that_are_unreachable_at_once_are_a_doubt_and_one_is_none() {
    let mut doubts = Doubts::default();
    let (now, later) =
        (Instant::from_nanos(1), Instant::from_nanos(1) + Duration::from_millis(900));
    let network = |number| BTreeSet::from([[0x2001, 0xdb8, number]]);
    assert!(!doubts.handle_unreachable(UPLINK, network(1), now));
    assert!(!doubts.handle_unreachable(UPLINK, network(1), later), "the same peer");
    assert!(!doubts.handle_unreachable(2, network(2), later), "another uplink");
    assert!(doubts.handle_unreachable(UPLINK, network(2), later));
    assert!(!doubts.handle_unreachable(UPLINK, network(3), later + TOGETHER));
}

#[test]
fn an_uplink_whose_router_is_lost_fails_for_a_while() {
    let mut doubts = Doubts::default();
    let now = Instant::from_nanos(1);
    assert!(doubts.handle_router_lost(UPLINK, now));
    assert!(!doubts.handle_router_lost(UPLINK, now + HELD / 2), "the kernel goes on looking");
    let until = doubts.poll_timeout().expect("an end");
    assert_eq!(until, now + HELD / 2 + HELD);
    assert!(!doubts.handle_timeout(|_, _| false, now + HELD));
    assert!(doubts.handle_timeout(|_, _| false, until) && doubts.failing().is_empty());
    doubts.handle_router_lost(UPLINK, until);
    doubts.follow(|ifindex| ifindex != UPLINK);
    assert!(doubts.failing().is_empty(), "it is gone");
}

/// The first doubt is false. The uplink dies soon after the answer, and all contexts leave it in that moment.
#[test]
fn a_doubt_that_comes_soon_after_another_one_is_taken_up_later() {
    let mut net = Net::new(9, 2);
    net.doubt();
    net.run(Duration::from_secs(1));
    net.loss = [1000, 0];
    net.doubt();
    net.run(QUIET);
    assert!(net.is_failing());
}

#[test]
fn an_answer_to_a_later_question_settles_a_doubt() {
    let mut net = Net::new(9, 2);
    net.doubt();
    net.run(RTT / 2);
    net.doubt();
    net.run(RTT);
    let left = Reply { context: ContextId(0), pair: pair(1, 0), at: net.now };
    assert!(net.doubts.poll_timeout().is_some(), "the uplink may have failed since the question");
    net.doubts.begin(UPLINK, net.targets(), net.now);
    net.doubts.handle_reply(left, net.now);
    assert_eq!(net.doubts.poll_timeout(), None);
}

#[test]
fn time_in_which_nobody_can_be_asked_does_not_count_but_ends() {
    let mut net = Net::new(10, 2);
    (net.loss, net.is_busy) = ([1000, 0], true);
    net.doubt();
    net.run(Duration::from_secs(20));
    net.is_busy = false;
    net.run(Duration::from_secs(1));
    assert!(net.is_failing());
    let mut net = Net::new(10, 2);
    net.is_busy = true;
    net.doubt();
    net.run(Duration::from_secs(70));
    assert_eq!(net.doubts.poll_timeout(), None);
}

/// The first two peers are switched off while the uplink fails.
#[test]
fn other_peers_are_asked_where_those_that_are_asked_answer_no_more() {
    let mut net = Net::new(11, 2);
    net.loss = [1000, 0];
    net.doubt();
    net.run(Duration::from_secs(5));
    net.dead = BTreeSet::from([0, 1]);
    net.run(Duration::from_secs(10));
    assert!(!net.is_failing());
    net.first = 2;
    net.run(Duration::from_secs(3));
    assert!(net.is_failing());
}

#[test]
fn an_uplink_of_which_nothing_is_known_any_more_is_forgotten() {
    let mut net = Net::new(12, 2);
    net.loss = [1000, 0];
    net.doubt();
    net.run(Duration::from_secs(5));
    net.dead = BTreeSet::from([0, 1]);
    net.run(Duration::from_secs(70) + WATCHED);
    assert_eq!(net.doubts.poll_timeout(), None, "nobody is asked for ever");
}

/// The queue of a mobile network is full.
#[test]
fn an_uplink_whose_answers_take_longer_than_a_second_is_found_out_once_at_most() {
    let mut net = Net::new(13, 2);
    net.rtts[0] = Duration::from_millis(1600);
    for _ in 0..600 {
        net.doubt();
        net.run(Duration::from_secs(1));
    }
    assert!(net.changes.len() <= 2 && !net.is_failing(), "{:?}", net.changes);
}

/// Contexts have left the uplink, and do not go back before they know it better. So no context raises a doubt.
#[test]
fn an_uplink_that_fails_again_soon_is_found_out_without_a_doubt_of_a_context() {
    for liars in [0, 1] {
        let mut net = Net::new(14, 3);
        net.loss = [1000, 0];
        net.doubt();
        net.run(Duration::from_secs(15));
        net.loss = [0, 0];
        net.run(Duration::from_secs(10));
        assert_eq!(net.changes.len(), 2, "used again");
        net.liars = (0..liars).collect();
        let before = net.sent;
        net.run(Duration::from_secs(40));
        assert_eq!(net.changes.len(), 2, "one peer changes nothing");
        let most = 40 / 2 * 2 + usize::from(liars) * 4 * 3 * 2 * LOST;
        assert!(net.sent - before <= most + 2, "{}", net.sent - before);
        net.loss = [1000, 0];
        net.run(Duration::from_secs(14));
        assert!(net.is_failing(), "{liars} liars");
    }
}

/// The uplink fails again this time after new connections have it again.
#[test]
fn an_uplink_that_fails_again_at_once_is_found_out_within_three_seconds() {
    for pause in [0, 1, 2, 4, 9] {
        let mut net = Net::new(15, 2);
        net.loss = [1000, 0];
        net.doubt();
        net.run(Duration::from_secs(15));
        net.loss = [0, 0];
        net.run(Duration::from_millis(5600));
        assert!(!net.is_failing(), "used again");
        net.run(Duration::from_secs(pause));
        net.loss = [1000, 0];
        net.run(Duration::from_secs(3));
        assert!(net.is_failing(), "{pause} s");
    }
}

/// The uplink works for 18 s each time. All contexts stay away from it after the first failure.
#[test]
fn a_flapping_uplink_is_found_out_each_time_and_is_used_ever_more_rarely() {
    let mut net = Net::new(16, 2);
    net.doubt();
    for flap in 0..8 {
        net.loss = [1000, 0];
        let cut = net.now;
        net.run(Duration::from_secs(10));
        let at = net.changes.last().map_or(Instant::ZERO, |(at, _)| *at);
        assert!(net.is_failing() && at.since(cut) <= Duration::from_secs(3), "{flap}: {at:?}");
        net.loss = [0, 0];
        net.run(Duration::from_secs(18));
    }
    // The uplink has to answer for 5 s, then 10 s, then 20 s.
    assert_eq!(net.changes.len(), 5, "{:?}", net.changes);
    net.run(Duration::from_secs(5));
    assert!(!net.is_failing());
}

/// Both uplinks are dead when the doubt comes, and the other one heals.
#[test]
fn an_uplink_fails_soon_after_the_other_one_has_healed() {
    for dead_for in [100, 400, 1_000, 2_300, 9_000, 40_000] {
        let mut net = Net::new(17, 2);
        net.loss = [1000; 2];
        net.doubt();
        net.run(Duration::from_millis(dead_for));
        assert!(!net.is_failing());
        net.loss = [1000, 0];
        net.run(Duration::from_millis(1_200));
        assert!(net.is_failing(), "{dead_for} ms");
    }
}

/// Nobody answers, and contexts doubt again and again. Each of the bursts, 10 s apart, asks each peer four times by both
/// uplinks; between them a peer is asked each half second.
#[test]
fn peers_that_never_answer_are_asked_rarely_and_not_for_ever() {
    let mut net = Net::new(18, 4);
    net.loss = [1000; 2];
    for _ in 0..70 {
        net.doubts.handle_doubt(UPLINK, Some(ContextId(0)), net.now);
        net.run(Duration::from_secs(1));
    }
    assert!(net.sent <= 7 * (4 * 4 * 2) + 70 * (2 * 2), "{}", net.sent);
    net.run(Duration::from_secs(80));
    assert_eq!(net.doubts.poll_timeout(), None);
}

/// The other uplink loses half of the packets of one direction, or of both.
#[test]
fn an_uplink_that_loses_half_of_its_packets_shows_that_another_one_is_dead() {
    for (loss, within) in [(500, 5), (750, 20)] {
        for seed in 20..40 {
            let mut net = Net::new(seed, 4);
            net.loss = [1000, loss];
            net.doubt();
            net.run(Duration::from_secs(within));
            assert!(net.is_failing(), "{loss}, seed {seed}");
        }
    }
}

/// The uplink has failed and answers again, then it dies again.
#[test]
fn an_uplink_that_answers_again_and_dies_again_answers_no_more() {
    for peers in [1, 2] {
        let mut net = Net::new(19, 2);
        net.loss = [1000, 0];
        net.doubt();
        net.run(Duration::from_secs(3));
        net.loss = [0; 2];
        net.run(Duration::from_secs(2));
        assert_eq!(net.doubts.answering_again(), BTreeSet::from([UPLINK]));
        net.liars = (0..peers).collect();
        net.run(Duration::from_millis(1_500));
        assert_eq!(net.doubts.answering_again().is_empty(), peers > 1);
    }
}
