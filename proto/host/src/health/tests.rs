use alloc::string::ToString;

use super::*;

/// Round trip of an answer.
const RTT: Duration = Duration::from_millis(20);

/// Round-trip times of the two uplinks, milliseconds.
const ROUND_TRIPS: [[u64; 2]; 5] = [[20, 20], [1, 300], [300, 1], [5, 60], [800, 700]];

pub(crate) fn address(link: u16, node: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, link, 0, 0, 0, 0, node)
}

pub(crate) fn uplink(number: u16, metric: u32) -> Uplink {
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
    let mut uplink =
        Uplink::new(number.into(), number.to_string()).reached(router, [address(number, 1)]);
    uplink.default_routes[0].metric = metric;
    uplink
}

pub(crate) fn two(metrics: [u32; 2]) -> HostView {
    let uplinks = [uplink(1, metrics[0]), uplink(2, metrics[1])];
    HostView { uplinks: uplinks.into(), ..HostView::default() }
}

/// A host whose uplinks lose a part of the requests.
struct Net {
    health: Health,
    now: Instant,
    /// Loss of requests, permille, by uplink.
    loss: [u32; 2],
    rtts: [Duration; 2],
    /// Longest time that chance adds to a round trip.
    jitter: Duration,
    /// Requests wait until this time.
    held_until: Instant,
    rng: ChaCha12Rng,
    answers: Vec<(Instant, Ipv6Addr, Ipv6Addr, u64)>,
    changes: Vec<(Instant, BTreeSet<u32>)>,
    sent: usize,
}

impl Net {
    fn new(seed: u8) -> Self {
        let mut health = Health::new([address(9, 1), address(9, 2)].into(), [seed; 32]);
        let now = Instant::from_nanos(1);
        assert!(!health.follow(&two([1024; 2]), now));
        let rng = ChaCha12Rng::from_seed([seed ^ 0xff; 32]);
        let (loss, rtts) = ([0; 2], [RTT; 2]);
        let (answers, changes, sent) = (Vec::new(), Vec::new(), 0);
        let (jitter, held_until) = (Duration::ZERO, now);
        Self { health, now, loss, rtts, jitter, held_until, rng, answers, changes, sent }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self.health.poll_timeout().expect("uplinks");
            let answer = self.answers.iter().map(|(at, ..)| *at).min();
            let at = answer.map_or(next, |answer| answer.min(next));
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            let changed = match self.answers.iter().position(|(at, ..)| *at <= self.now) {
                Some(place) => {
                    let (_, local, from, nonce) = self.answers.remove(place);
                    self.health.handle_answer(local, from, nonce, self.now)
                }
                None => self.ask(),
            };
            if changed {
                self.changes.push((self.now, self.health.failing()));
            }
        }
        self.now = end;
    }

    fn ask(&mut self) -> bool {
        let (effects, changed) = self.health.handle_timeout(self.now);
        self.sent += effects.len();
        for effect in effects {
            let Effect::AskTarget { ifindex, source, target, nonce } = effect else {
                panic!("{effect:?}")
            };
            let place = usize::try_from(ifindex - 1).expect("an uplink");
            if self.rng.next_u32() % 1000 >= self.loss[place] {
                let late = self.jitter * (self.rng.next_u32() % 1000) / 1000;
                let left = self.now.max(self.held_until);
                self.answers.push((left + self.rtts[place] + late, source, target, nonce));
            }
        }
        changed
    }
}

#[test]
fn an_uplink_that_carries_nothing_is_found_within_a_second_and_used_again_after_a_while() {
    for offset in [0, 60, 120, 180, 240] {
        let mut net = Net::new(1);
        net.run(Duration::from_millis(10_000 + offset));
        assert_eq!(net.changes, []);
        net.loss = [1000, 0];
        let cut = net.now;
        net.run(Duration::from_secs(60));
        let [(at, failing)] = &net.changes[..] else { panic!("{:?}", net.changes) };
        assert_eq!(*failing, BTreeSet::from([1]));
        assert!(at.since(cut) < Duration::from_millis(900), "{:?}", at.since(cut));
        net.loss = [0; 2];
        let healed = net.now;
        net.run(Duration::from_secs(60));
        let (at, failing) = net.changes.last().expect("back");
        assert!(failing.is_empty() && net.changes.len() == 2);
        let took = at.since(healed);
        assert!((STEADY..STEADY + Duration::from_secs(1)).contains(&took), "{took:?}");
    }
}

/// Both uplinks hold all packets for a while, and a second later one of them is cut.
#[test]
fn a_delay_that_is_over_does_not_put_off_the_finding_of_a_cut() {
    for (seed, offset) in (60..).zip([0, 60, 120, 180, 240]) {
        for held in [100, 300, 600, 1_200] {
            let mut net = Net::new(seed);
            net.rtts = [Duration::from_millis(10); 2];
            net.run(Duration::from_millis(10_000 + offset));
            net.held_until = net.now + Duration::from_millis(held);
            net.run(Duration::from_millis(held + 1_000));
            assert_eq!(net.changes, [], "{held} ms");
            net.loss = [1000, 0];
            let cut = net.now;
            net.run(Duration::from_secs(5));
            let [(at, failing)] = &net.changes[..] else { panic!("{:?}", net.changes) };
            assert_eq!(*failing, BTreeSet::from([1]));
            let took = at.since(cut);
            assert!(took < Duration::from_millis(900), "{took:?} after {held} ms, {offset}");
        }
    }
}

/// The queue of one uplink fills, and empties again.
#[test]
fn an_uplink_that_gets_slower_and_faster_does_not_fail() {
    for seed in 70..80 {
        let mut net = Net::new(seed);
        net.run(Duration::from_secs(10));
        for _ in 0..5 {
            let up = (1..=40).chain([40; 100]);
            for step in up.chain((0..20).rev().map(|step| 2 * step)).chain([0; 100]) {
                net.rtts[0] = RTT + Duration::from_millis(20) * step;
                net.run(Duration::from_millis(40));
            }
        }
        assert_eq!(net.changes, [], "seed {seed}");
    }
}

#[test]
fn a_loss_of_five_percent_and_answers_of_uneven_times_are_no_failure_in_an_hour() {
    for (seed, jitter) in (80..).zip([10, 50, 100, 200, 300, 400, 800]) {
        let mut net = Net::new(seed);
        net.rtts = [Duration::from_millis(5), RTT];
        net.jitter = Duration::from_millis(jitter);
        net.loss = [98, 98];
        net.run(Duration::from_secs(3600));
        assert_eq!(net.changes, [], "{jitter} ms");
        assert!(net.sent < 2 * 3600 * 6, "{} requests at {jitter} ms", net.sent);
    }
}

#[test]
fn uplinks_by_which_nobody_answers_are_silent_and_do_not_fail() {
    let mut net = Net::new(3);
    net.run(Duration::from_secs(10));
    assert!(net.health.silent().is_empty());
    net.loss = [1000; 2];
    net.run(Duration::from_secs(10));
    assert_eq!(
        (net.health.silent(), net.health.failing()),
        (BTreeSet::from([1, 2]), BTreeSet::new())
    );
    net.loss = [1000, 0];
    net.run(Duration::from_secs(10));
    assert_eq!(
        (net.health.silent(), net.health.failing()),
        (BTreeSet::from([1]), BTreeSet::from([1]))
    );
}

/// The second uplink dies while the first one has to answer for a while, after a failure of its own.
#[test]
fn an_uplink_that_answers_again_is_better_than_one_that_has_just_failed() {
    for after in [300, 1_000, 4_000] {
        let mut net = Net::new(2);
        net.run(Duration::from_secs(10));
        for loss in [[1000, 0], [0; 2]] {
            net.loss = loss;
            net.run(Duration::from_millis(after + 1_000));
        }
        assert_eq!(net.health.failing(), BTreeSet::from([1]));
        net.loss = [0, 1000];
        let cut = net.now;
        net.run(Duration::from_secs(60));
        let (at, failing) = net.changes.last().expect("a failure");
        assert_eq!(*failing, BTreeSet::from([2]), "{:?}", net.changes);
        assert!(at.since(cut) < Duration::from_millis(900), "{:?}", at.since(cut));
    }
}

/// Both uplinks have failed. The first one answers now and then, and the second one never.
#[test]
fn an_uplink_that_answers_now_and_then_stays_better_than_one_that_never_does() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        net.run(Duration::from_secs(10));
        for (loss, seconds) in [([1000, 0], 5), ([0; 2], 2), ([0, 1000], 2)] {
            net.loss = loss;
            net.run(Duration::from_secs(seconds));
        }
        assert_eq!(net.health.failing(), BTreeSet::from([2]), "seed {seed}");
        let changes = net.changes.len();
        net.loss = [700, 1000];
        net.run(Duration::from_secs(300));
        assert_eq!(net.changes.len(), changes, "seed {seed}: {:?}", net.changes);
    }
}

/// The uplink of new connections, if the kernel prefers the uplink with this place.
fn taken(net: &Net, used: usize) -> usize {
    let is_failing =
        |place: usize| net.health.failing().contains(&u32::try_from(place + 1).expect("small"));
    if is_failing(used) { 1 - used } else { used }
}

/// Two uplinks that have answered. `damped` has failed and answers again, not for long enough yet.
fn two_of_which_one_is_damped(seed: u8, damped: Option<usize>) -> Net {
    let mut net = Net::new(seed);
    net.run(Duration::from_secs(10));
    if let Some(damped) = damped {
        net.loss[damped] = 1000;
        net.run(Duration::from_secs(3));
        net.loss[damped] = 0;
        net.run(Duration::from_secs(2));
        assert_eq!(net.health.failing().len(), 1);
    }
    net
}

/// Both uplinks die, at once or one after the other, and one of them heals.
#[test]
fn of_two_dead_uplinks_the_one_that_heals_is_taken_within_a_second() {
    let orders = [[0, 1], [1, 0]];
    for (seed, pause) in (0..).zip([0, 300, 1_000, 8_000]) {
        for dead_for in [1_000, 3_000, 20_130] {
            for damped in [None, Some(0), Some(1)] {
                for (order, healed, used) in orders.into_iter().flat_map(|order| {
                    orders.into_iter().flatten().zip([0, 0, 1, 1]).map(move |(h, u)| (order, h, u))
                }) {
                    let mut net = two_of_which_one_is_damped(seed, damped);
                    for place in order {
                        net.loss[place] = 1000;
                        net.run(Duration::from_millis(pause));
                    }
                    net.run(Duration::from_millis(dead_for));
                    net.loss[healed] = 0;
                    let case = (pause, dead_for, damped, order, healed, used);
                    net.run(Duration::from_secs(1));
                    assert_eq!(taken(&net, used), healed, "{case:?} {:?}", net.changes);
                    for _ in 0..300 {
                        net.run(Duration::from_millis(100));
                        assert_eq!(taken(&net, used), healed, "{case:?} {:?}", net.changes);
                    }
                }
            }
        }
    }
}

/// Both uplinks have been found dead and damped, so both have answered since. One of them heals.
#[test]
fn an_uplink_that_answered_before_it_died_again_is_no_better_than_one_that_answers() {
    for healed in [0, 1] {
        let mut net = two_of_which_one_is_damped(9, Some(healed));
        for loss in [[0, 1000], [0; 2], [1000; 2]] {
            net.loss = loss;
            if healed == 1 {
                net.loss.reverse();
            }
            net.run(Duration::from_secs(1));
        }
        assert!(net.health.uplinks.values().all(Asked::answers_again), "{:?}", net.changes);
        net.loss[healed] = 0;
        net.run(Duration::from_secs(1));
        assert_eq!([0, 1].map(|used| taken(&net, used)), [healed; 2], "{:?}", net.changes);
    }
}

/// A loss of 50 % in one direction, and in both.
#[test]
fn an_uplink_that_loses_half_of_its_packets_is_better_than_a_dead_one() {
    for loss in [500, 750] {
        for seed in 20..40 {
            let mut net = Net::new(seed);
            net.loss[1] = loss;
            net.run(Duration::from_secs(20));
            net.loss[0] = 1000;
            net.run(Duration::from_secs(4));
            assert_eq!(taken(&net, 0), 1, "{loss} {seed} {:?}", net.changes);
            let changes = net.changes.len();
            net.run(Duration::from_secs(60));
            assert_eq!(net.changes.len(), changes, "{loss} {seed} {:?}", net.changes);
        }
    }
}

/// Changes and seconds in which each uplink fails, in an hour at these losses.
fn hour(seed: u8, loss: [u32; 2]) -> (usize, [u32; 2]) {
    let mut net = Net::new(seed);
    net.loss = loss;
    let mut failing = [0; 2];
    for _ in 0..3600 {
        net.run(Duration::from_secs(1));
        for (place, ifindex) in [1, 2].into_iter().enumerate() {
            failing[place] += u32::from(net.health.failing().contains(&ifindex));
        }
    }
    (net.changes.len(), failing)
}

/// Losses of requests in permille, each with the most changes in an hour.
#[test]
fn uplinks_that_lose_many_packets_do_not_flap() {
    for (loss, most) in [
        ([0, 500], 10),
        ([0, 750], 10),
        ([200; 2], 2),
        ([360; 2], 20),
        ([500; 2], 40),
        ([750; 2], 40),
    ] {
        for seed in 40..50 {
            let (changes, failing) = hour(seed, loss);
            assert!(changes <= most, "{changes} changes at {loss:?}, seed {seed}");
            if loss[0] == 0 {
                assert!(failing[0] == 0 && failing[1] > 3000, "{failing:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn an_uplink_that_has_never_answered_or_is_slow_is_found_as_well() {
    for rtts in ROUND_TRIPS {
        let [_, other] = rtts.map(Duration::from_millis);
        for before in [0, 20] {
            let mut net = Net::new(7);
            net.rtts = rtts.map(Duration::from_millis);
            net.run(Duration::from_secs(before));
            net.loss = [1000, 0];
            net.run(other + Duration::from_secs(4));
            assert_eq!(net.health.failing(), BTreeSet::from([1]), "{rtts:?} after {before} s");
        }
    }
}

#[test]
fn hosts_that_never_answer_are_asked_four_times_a_second() {
    for rtts in ROUND_TRIPS {
        for before in [0, 20] {
            let mut net = Net::new(8);
            net.rtts = rtts.map(Duration::from_millis);
            net.run(Duration::from_secs(before));
            net.loss = [1000; 2];
            net.run(Duration::from_secs(10));
            let sent = net.sent;
            net.run(Duration::from_secs(60));
            assert!(net.sent - sent <= 2 * 4 * 60 + 2, "{} for {rtts:?}", net.sent - sent);
        }
    }
}

#[test]
fn a_loss_of_five_percent_each_way_is_no_failure_in_an_hour() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        // Loss of request or answer: 1 - 0.95 * 0.95.
        net.loss = [98, 98];
        net.run(Duration::from_secs(3600));
        assert_eq!(net.changes, [], "seed {seed}");
        assert!(net.sent < 2 * 3600 * 6, "{} requests", net.sent);
    }
}

#[test]
fn an_uplink_that_fails_again_and_again_is_used_ever_more_rarely() {
    let mut net = Net::new(3);
    net.run(Duration::from_secs(5));
    for _ in 0..60 {
        for loss in [1000, 0] {
            net.loss[0] = loss;
            net.run(Duration::from_secs(15));
        }
    }
    // The uplink answers for 15 s each time: longer than 5 s and 10 s, shorter than 20 s.
    assert_eq!(net.changes.len(), 5, "{:?}", net.changes);
}

#[test]
fn no_uplink_fails_if_the_hosts_do_and_answers_of_strangers_count_for_nothing() {
    for (number, rtts) in (0..).zip(ROUND_TRIPS) {
        for offset in 0..20 {
            let mut net = Net::new(offset);
            net.rtts = rtts.map(Duration::from_millis);
            net.loss = [20; 2];
            net.run(Duration::from_millis(5000 + 17 * u64::from(offset)));
            for silent in [200, 500, 1_000, 3_000, 60_000] {
                // The hosts fail: requests under way to them get no answer.
                (net.loss, net.answers) = ([1000; 2], Vec::new());
                net.run(Duration::from_millis(silent));
                net.loss = [20; 2];
                net.run(Duration::from_millis(20_000 + 13 * u64::from(offset)));
            }
            assert_eq!(net.changes, [], "{rtts:?}, {number}, {offset}");
        }
    }

    let mut net = Net::new(6);
    net.run(Duration::from_secs(5));
    net.loss = [1000, 0];
    net.run(Duration::from_secs(5));
    assert_eq!(net.health.failing(), BTreeSet::from([1]));
    net.loss = [1000; 2];
    net.run(Duration::from_secs(5));
    assert!(net.health.failing().is_empty(), "nobody answers any more");
    net.loss = [1000, 0];
    net.run(Duration::from_secs(1));
    assert_eq!(net.health.failing(), BTreeSet::from([1]));

    let mut net = Net::new(5);
    net.run(Duration::from_secs(5));
    net.loss = [1000, 0];
    for nonce in 0..600 {
        net.run(Duration::from_millis(100));
        for from in [address(9, 1), address(7, 7)] {
            net.health.handle_answer(address(1, 1), from, nonce, net.now);
        }
    }
    assert_eq!(net.health.failing(), BTreeSet::from([1]), "nonces are not guessed");
    // The uplink has another source address, and fails as before.
    let mut renumbered = two([1024; 2]);
    renumbered.uplinks[0].addresses[0].address = address(3, 1);
    assert!(!net.health.follow(&renumbered, net.now));
    assert_eq!(net.health.failing(), BTreeSet::from([1]));
    let gone = HostView { uplinks: [uplink(2, 1024)].into(), ..HostView::default() };
    assert!(net.health.follow(&gone, net.now) && net.health.failing().is_empty());
}
