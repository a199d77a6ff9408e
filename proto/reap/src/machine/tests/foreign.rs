//! Our machine opposite a peer that follows RFC 5534 alone. Two such peers serve as comparison.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use super::net::{Host, Packet};
use super::rfc_peer::RfcPeer;
use super::*;
use crate::event::FailureHint;
use crate::profile::Profile;

enum End {
    Ours(Box<Host>),
    Rfc(Box<RfcPeer>),
}

impl End {
    fn next_time(&self) -> Option<Instant> {
        match self {
            Self::Ours(host) => host.next_time().into_iter().chain(next_doubt(host)).min(),
            Self::Rfc(peer) => peer.next_time(),
        }
    }

    fn wake(&mut self, now: Instant) -> Vec<(LocatorPair, Packet)> {
        match self {
            Self::Ours(host) => {
                host.run_plane(now);
                if next_doubt(host).is_some_and(|at| at <= now) {
                    let since = host.unanswered_since().unwrap();
                    let hint = FailureHint::Retransmission;
                    host.machine.handle_suspicion(hint, since, ms(20), now);
                    host.doubts += 1;
                }
                let payload = host.is_payload_due(now).then(|| host.send_payload(now));
                host.machine.handle_timeout(now);
                let payload = payload.map(|pair| (pair, Packet::Payload));
                payload.into_iter().chain(sent_by(host)).collect()
            }
            Self::Rfc(peer) => {
                peer.wake(now);
                peer.take_transmits()
            }
        }
    }

    fn receive(
        &mut self,
        pair: LocatorPair,
        packet: &Packet,
        now: Instant,
    ) -> Vec<(LocatorPair, Packet)> {
        match self {
            Self::Ours(host) => {
                host.receive(pair, packet, now);
                if host.unanswered_since().is_none() {
                    host.doubts = 0;
                }
                sent_by(host)
            }
            Self::Rfc(peer) => {
                peer.receive(pair, packet, now);
                peer.take_transmits()
            }
        }
    }

    fn payload_received(&self) -> &[Instant] {
        match self {
            Self::Ours(host) => &host.payload_received,
            Self::Rfc(peer) => &peer.payload_received,
        }
    }

    fn send_payload_every(&mut self, interval: Duration) {
        match self {
            Self::Ours(host) => host.payload = Some(interval),
            Self::Rfc(peer) => peer.payload = Some(interval),
        }
    }
}

/// The next TCP retransmission that the data plane reports: 0.3 s after unanswered payload, then after times that
/// double.
fn next_doubt(host: &Host) -> Option<Instant> {
    Some(host.unanswered_since()? + ms(300) * 2u32.pow(host.doubts.min(8)))
}

fn sent_by(host: &mut Host) -> Vec<(LocatorPair, Packet)> {
    if host.machine.question().is_some() {
        host.machine.handle_known(Known::Nothing, host.machine.heard());
    }
    let (transmits, events) = drain(&mut host.machine);
    host.log.extend(events.into_iter().map(|event| (at(0), event)));
    transmits.into_iter().map(|one| (one.pair, Packet::Reap(one.message))).collect()
}

struct Duel {
    now: Instant,
    ends: [End; 2],
    /// Dead pairs from A, and from B: bit i stands for the i-th pair.
    dead: [u8; 2],
    serial: u64,
    flight: BTreeMap<(Instant, u64), (usize, LocatorPair, Packet)>,
}

/// Send Timeouts of A and B.
const SEND_TIMEOUTS: [Duration; 2] = [ms(10_000), ms(3_000)];
const ONE_WAY: Duration = ms(10);

impl Duel {
    /// B follows RFC 5534 alone. A is ours, or follows RFC 5534 alone, too.
    fn new(is_ours: bool, seed: u8) -> Self {
        let [a, b] = SEND_TIMEOUTS;
        let pairs = [ab(1, 1), ab(2, 2), ab(1, 2), ab(2, 1)];
        let first = if is_ours {
            let profile = Profile::default();
            let config = Config { send_timeout: a, profile, ..Config::default() };
            let mut machine = Machine::new(config, ab(1, 1), [seed; 16], at(0));
            machine.handle_keepalive_timeout(b);
            let [ours, theirs] = [A, B].map(|host| [locator(host, 1), locator(host, 2)]);
            machine.set_candidates(ours, theirs, at(0));
            End::Ours(Box::new(Host::new(machine)))
        } else {
            End::Rfc(Box::new(RfcPeer::new(pairs.into(), a, b)))
        };
        let second = RfcPeer::new(pairs.map(turn).into(), b, a);
        let ends = [first, End::Rfc(Box::new(second))];
        Self { now: at(0), ends, dead: [0; 2], serial: 0, flight: BTreeMap::new() }
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let ends = self.ends.iter().filter_map(End::next_time);
            let arrivals = self.flight.keys().next().map(|(at, _)| *at);
            let Some(next) = ends.chain(arrivals).min().filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            for from in 0..2 {
                let sent = self.ends[from].wake(self.now);
                self.send(from, sent);
            }
            while let Some(entry) = self.flight.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to, pair, packet) = entry.remove();
                let sent = self.ends[to].receive(turn(pair), &packet, self.now);
                self.send(to, sent);
            }
        }
        self.now = until;
    }

    fn send(&mut self, from: usize, sent: Vec<(LocatorPair, Packet)>) {
        for (pair, packet) in sent {
            let seen = if from == 0 { pair } else { turn(pair) };
            let second = |l: Locator| usize::from(l == locator(A, 2) || l == locator(B, 2));
            let index = 2 * second(seen.local) + second(seen.peer);
            if self.dead[from] & (1 << index) == 0 {
                self.serial += 1;
                self.flight.insert((self.now + ONE_WAY, self.serial), (1 - from, pair, packet));
            }
        }
    }

    /// Time from `cut` to the end of the last gap in the payload that `to` receives. `None`: the gap has not ended.
    fn recovery(&self, to: usize, cut: Instant) -> Option<Duration> {
        let received = self.ends[to].payload_received();
        let mut last = cut;
        let mut recovered = Duration::ZERO;
        for &at in received.iter().filter(|at| **at > cut) {
            if at.since(last) > ms(400) {
                recovered = at.since(cut);
            }
            last = at;
        }
        (self.now.since(last) <= ms(400)).then_some(recovered)
    }
}

/// Runs payload from these ends, cuts the dead pairs after `before`, and gives the time until payload flows again in
/// all its directions.
fn recovery(is_ours: bool, senders: &[usize], dead: [u8; 2], before: Duration) -> Duration {
    let mut duel = Duel::new(is_ours, 7);
    for &sender in senders {
        duel.ends[sender].send_payload_every(ms(100));
    }
    duel.run_for(before);
    duel.dead = dead;
    let cut = duel.now;
    duel.run_for(ms(60_000));
    if let (true, End::Rfc(peer)) = (is_ours, &duel.ends[1]) {
        assert_eq!(peer.dropped, 0, "a message that RFC 5534 does not allow: {dead:?}");
    }
    let took = senders.iter().map(|sender| duel.recovery(1 - sender, cut));
    took.map(|took| took.unwrap_or(Duration::MAX)).max().unwrap()
}

/// The longest recovery, over different moments of failure.
fn longest(is_ours: bool, senders: &[usize], dead: [u8; 2], times: &[u64]) -> Duration {
    let took = times.iter().map(|before| recovery(is_ours, senders, dead, ms(*before)));
    took.max().unwrap()
}

const SENDERS: [&[usize]; 3] = [&[0, 1], &[0], &[1]];

/// A past fault: checks ended the exploration of such a peer, or stopped its Send Timer. Recovery then took 6.6 s
/// instead of 3.6 s, and sometimes longer.
#[test]
fn payload_with_an_rfc_peer_recovers_as_soon_as_between_two_of_them() {
    let times: Vec<_> = (1..50).map(|step| step * 130).collect();
    // Dead: the pair alone, one of the two uplinks, all pairs but the disjoint one; both ways or one way.
    for dead in [[1, 1], [3, 3], [5, 5], [7, 7], [1, 0], [3, 0], [5, 0], [0, 1], [0, 5]] {
        for senders in SENDERS {
            let [ours, rfc] = [true, false].map(|ours| longest(ours, senders, dead, &times));
            assert!(ours <= rfc, "{senders:?} {dead:?}: {ours:?}, and two RFC peers {rfc:?}");
        }
    }
}

/// Our machine and the RFC peer walk their pairs in other orders than two RFC peers do. That takes some probes more or
/// less.
#[test]
fn each_combination_of_dead_pairs_is_survived_with_an_rfc_peer() {
    for forward in 0..15 {
        for backward in 0..15 {
            for senders in SENDERS {
                let dead = [forward, backward];
                let [ours, rfc] =
                    [true, false].map(|is_ours| longest(is_ours, senders, dead, &[2_500]));
                let most = rfc.saturating_add(ms(2_500));
                assert!(ours <= most, "{senders:?} {dead:?}: {ours:?}, and two RFC peers {rfc:?}");
                assert!(ours <= ms(30_000), "{senders:?} {dead:?}: {ours:?}");
            }
        }
    }
}

#[test]
fn an_rfc_peer_never_explores_while_nothing_fails() {
    let times = [130, 250, 600_000].map(ms);
    for (senders, time) in SENDERS.into_iter().flat_map(|one| times.map(|time| (one, time))) {
        let mut duel = Duel::new(true, 7);
        for &sender in senders {
            duel.ends[sender].send_payload_every(ms(100));
        }
        duel.run_for(time);
        // From here on neither end has anything to send.
        for end in &mut duel.ends {
            match end {
                End::Ours(host) => host.payload = None,
                End::Rfc(peer) => peer.payload = None,
            }
        }
        duel.run_for(ms(600_000));
        let End::Rfc(peer) = &duel.ends[1] else { unreachable!() };
        assert_eq!((peer.explorations, peer.dropped), (0, 0));
    }
}
