use std::time::Duration;

/// Conditions that the time of a recovery depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The longer Send Timeout of the two hosts.
    pub send_timeout: Duration,
    /// Longest one-way time of a packet.
    pub one_way: Duration,
    /// Longest time between packets that the applications send.
    pub gap: Duration,
    /// Longest time that a report of a data plane takes to its core.
    pub report_delay: Duration,
    /// Number of locator pairs of the context.
    pub pairs: u32,
    /// Number of pairs that work in both directions.
    pub both_ways: u32,
    /// Number of pairs that work in one direction, and in the other: the smaller of the two.
    pub one_direction: u32,
    /// Time for which one of the hosts had been exploring when the paths changed last.
    pub exploring: Duration,
    /// Number of probes in a row that may be lost, with the worst luck that is accepted.
    pub losses: u32,
}

/// Time within which traffic must flow again, from the moment on at which a pair works in each direction.
///
/// RFC 5534 gives no such bound. It follows from the RFC's timers.
///
/// **Detection.** The sender notices unanswered payload a Send Timeout after it left (s4.1). If there is traffic in
/// one direction only and its path breaks, the receiver still owes keepalives for a Keepalive Timeout after the last
/// payload (s6.1), which is the sender's Send Timeout (s5.3). The sender's timer begins only after that. A host in
/// InboundOk also waits for its peer: for a Send Timeout, or for a round of probes if that is longer. So the time is
/// `2 * send_timeout + walk`, a payload interval, and a few one-way delays.
///
/// **Exploration.** A host probes pair by pair: Number of Initial Probes (4) at Initial Probe Timeout (0.5 s), then
/// at intervals that double up to Max Probe Timeout (60 s) (s4.3, s7). If `both_ways` of `pairs` work in both
/// directions, one of `pairs - both_ways + 1` probes in a row takes such a pair, and the peer answers by it at once.
/// Perhaps only different pairs work in the two directions. Then a probe arrives after `pairs - one_direction + 1`
/// probes, and the peer's answers walk its pairs likewise. The peer's walk goes on with each probe that arrives, so
/// the product of the two is enough.
///
/// **Exploration in progress** has become slow: the probes of a walk that began `exploring` ago come at the intervals
/// that the backoff has reached. The walk may also end at a pair that worked a moment before. Then detection and
/// exploration start from the beginning. So both walks count, with a detection after the first.
///
/// **Bad luck.** Each probe, answer or final acknowledgement may be lost `losses` times. Each time the walk comes
/// back to the pair after `pairs` more probes.
#[must_use]
pub fn recovery_bound(conditions: &Conditions) -> Duration {
    let round = walk(0, (conditions.pairs + 1).min(LONGEST_ROUND));
    let detection = conditions.send_timeout * 2
        + conditions.send_timeout.max(round)
        + conditions.gap
        + conditions.one_way * 2
        + conditions.report_delay * 2;
    let probes = probes_needed(conditions);
    let fresh = walk(0, probes);
    let slow = if conditions.exploring.is_zero() {
        Duration::ZERO
    } else {
        detection + walk(probes_within(conditions.exploring), probes)
    };
    // A probe, its answer, its acknowledgement and the first packet; each end also waits for a report.
    let exchange = (conditions.one_way + conditions.report_delay) * 4 + INITIAL_PROBE_TIMEOUT;
    detection + fresh + slow + exchange
}

/// [`recovery_bound`] if a host that sends calls its context protected: another pair has answered lately, and still
/// works.
///
/// **Detection** takes one Send Timeout. Nothing comes back any more, so the timer starts with the first payload
/// after the packets under way.
///
/// **Then** the payload of this host takes the other pair, and so does its first probe, from which the peer learns
/// the pair. Probe, answer and acknowledgement may each be lost `losses` times.
#[must_use]
pub(crate) fn protected_bound(conditions: &Conditions) -> Duration {
    let delays = (conditions.one_way + conditions.report_delay) * 6;
    let detection = conditions.send_timeout + conditions.gap;
    detection + delays + walk(0, 1 + conditions.losses * conditions.pairs)
}

/// [`recovery_bound`] if one of the hosts has lost the context and the other sends by it (RFC 5533 s7.5).
///
/// **The host that has lost the context notices.** If payload has moved to a pair that works in both directions
/// (`is_answered`), the host answers it with R1bis at once. Otherwise the sender notices a Send Timeout after its
/// payload, and probes. A probe with an unknown tag is answered with R1bis as well. The answer goes back by the pair
/// of the question, so only a pair that works in both directions helps: one of `pairs - both_ways + 1` probes takes
/// it.
///
/// **The other host asks.** If R1bis comes from another locator than the payload's destination, the host asks the
/// peer at that destination whether it still has the context (decision 095). If no answer comes for 10 s, the host
/// believes the next R1bis, which the next probe causes.
///
/// **The context recovers** by R1bis, I2bis and R2. If I2bis or R2 is lost, I2bis goes out again after I2bis_TIMEOUT,
/// which doubles and is up to half as long again (RFC 5533 s7.19).
///
/// **After that** the bound of other contexts holds, but an exploration in progress is older by this time.
#[must_use]
pub fn loss_bound(conditions: &Conditions, is_answered: bool) -> Duration {
    let delays = (conditions.one_way + conditions.report_delay) * 4;
    let again: Duration = (0..conditions.losses.min(I2BIS_RETRIES_MAX))
        .map(|times| I2BIS_TIMEOUT * (1 << times) * 3 / 2)
        .sum();
    let exchange = delays + again;
    let first = if is_answered {
        conditions.gap * (1 + conditions.losses) + exchange
    } else {
        let detection = conditions.send_timeout + conditions.gap + delays;
        let others = conditions.pairs.saturating_sub(conditions.both_ways);
        let probes = others + 1 + conditions.losses * conditions.pairs;
        detection
            + walk(probes_within(conditions.exploring), probes)
            + CONTEST
            + walk(0, 1 + conditions.losses * conditions.pairs)
            + delays
            + exchange
    };
    let is_exploring = !is_answered || !conditions.exploring.is_zero();
    let exploring = if is_exploring { conditions.exploring + first } else { Duration::ZERO };
    first + recovery_bound(&Conditions { exploring, ..*conditions })
}

/// [`recovery_bound`] if no pair is left that both ends know, and one end has locators that the other does not know.
///
/// **That end tells the other.** Update Requests go from its new locators to the known locators of the peer, one pair
/// after the other, at the intervals of probes, each up to half as long again (RFC 5533 s14). The first one leaves
/// when there is an address to send it from. Each one, and its acknowledgement, may be lost `losses` times.
///
/// **After that** both explore. One of them has a pair to probe for the first time.
#[must_use]
pub(crate) fn roaming_bound(conditions: &Conditions) -> Duration {
    let exchange = (conditions.one_way + conditions.report_delay) * 4;
    let tries = conditions.pairs * (1 + conditions.losses);
    let told = exchange + walk(probes_within(conditions.exploring), tries) * 3 / 2;
    let exploring = conditions.exploring + told;
    told + recovery_bound(&Conditions { exploring, ..*conditions })
}

/// Time from the end of a silence to the retransmission of a stream that arrives. The first one comes after the
/// length of the silence at the latest, and may be lost `losses` times. Each later one waits for twice as long.
pub(crate) fn backoff_bound(silence: Duration, losses: u32) -> Duration {
    (0..=losses).map(|nth| silence.saturating_mul(1 << nth.min(16)).min(MAX_BACKOFF)).sum()
}

/// Number of probes in a row of which one restores the traffic.
fn probes_needed(conditions: &Conditions) -> u32 {
    let until = |good: u32| conditions.pairs.saturating_sub(good) + 1;
    let first = if conditions.both_ways > 0 {
        until(conditions.both_ways)
    } else {
        until(conditions.one_direction) * until(conditions.one_direction)
    };
    first + conditions.losses * conditions.pairs
}

/// Time that `count` probes take, after `sent` probes.
fn walk(sent: u32, count: u32) -> Duration {
    (sent + 1..=sent + count).map(probe_timeout).sum()
}

/// Time between a probe and the next one, after `sent` probes.
fn probe_timeout(sent: u32) -> Duration {
    let doublings = (sent + 1).saturating_sub(INITIAL_PROBES);
    INITIAL_PROBE_TIMEOUT.saturating_mul(1 << doublings.min(16)).min(MAX_PROBE_TIMEOUT)
}

/// Largest number of probes that leave in this time: jitter cuts each interval by up to a quarter.
fn probes_within(time: Duration) -> u32 {
    let mut left = time;
    let mut sent = 1;
    loop {
        let interval = probe_timeout(sent) * 3 / 4;
        match left.checked_sub(interval) {
            Some(rest) => left = rest,
            None => return sent,
        }
        sent += 1;
    }
}

// These values are not taken from the machines, so that a wrong value there is found.

/// Longest pause between retransmissions of a stream.
const MAX_BACKOFF: Duration = Duration::from_secs(65);
/// Initial Probe Timeout (RFC 5534 s7).
const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of Initial Probes (RFC 5534 s7).
const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout (RFC 5534 s4.3).
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which a host waits for a peer whose context another node claims: a choice of `moorline-contexts`.
const CONTEST: Duration = Duration::from_secs(10);
/// Nominal time until an I2bis is repeated (RFC 5533 s14).
const I2BIS_TIMEOUT: Duration = Duration::from_secs(4);
/// Number of times that an I2bis is repeated (RFC 5533 s14).
const I2BIS_RETRIES_MAX: u32 = 2;
/// Number of probes that InboundOk has time for, however short the Send Timeout is: a choice of `moorline-reap`.
const LONGEST_ROUND: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions() -> Conditions {
        Conditions {
            send_timeout: Duration::from_secs(15),
            one_way: Duration::from_millis(50),
            gap: Duration::from_millis(100),
            report_delay: Duration::ZERO,
            pairs: 4,
            both_ways: 4,
            one_direction: 4,
            exploring: Duration::ZERO,
            losses: 0,
        }
    }

    #[test]
    fn with_every_other_pair_working_it_is_little_more_than_detection() {
        let bound = recovery_bound(&conditions());
        // Twice 15 s, InboundOk's 15 s, one probe interval, and delays.
        assert!(bound > Duration::from_secs(45) && bound < Duration::from_secs(47), "{bound:?}");
    }

    #[test]
    fn fewer_pairs_and_longer_exploration_take_longer() {
        let all = recovery_bound(&conditions());
        let one = recovery_bound(&Conditions { both_ways: 1, ..conditions() });
        let slow = Conditions { exploring: Duration::from_secs(60), ..conditions() };
        assert_eq!(one - all, Duration::from_millis(500 + 500 + 1000));
        assert!(recovery_bound(&slow) > all + Duration::from_secs(32));
    }

    #[test]
    fn a_context_that_one_side_has_lost_takes_one_more_round() {
        let kept = recovery_bound(&conditions());
        let [answered, unanswered] = [true, false].map(|is_so| loss_bound(&conditions(), is_so));
        // An interval of the payload and two round trips.
        assert_eq!(answered - kept, Duration::from_millis(100 + 200));
        // A Send Timeout, a probe, 10 s, and the whole other bound with an exploration since then, whose probes are a
        // minute apart.
        assert!(unanswered > kept * 2 + CONTEST && unanswered < kept * 4, "{unanswered:?}");
        let unlucky = Conditions { losses: 1, ..conditions() };
        assert!(loss_bound(&unlucky, true) >= recovery_bound(&unlucky) + I2BIS_TIMEOUT);
    }

    #[test]
    fn a_retransmission_that_is_lost_comes_again_after_twice_as_long() {
        let bound = |silence, losses| backoff_bound(Duration::from_secs(silence), losses);
        assert_eq!([bound(4, 0), bound(4, 2)], [4, 4 + 8 + 16].map(Duration::from_secs));
        assert_eq!(bound(20, 3), Duration::from_secs(20 + 40 + 65 + 65));
    }

    #[test]
    fn backoff_ends_at_max_probe_timeout() {
        // Cut by a quarter: 0.375 three times, then 0.75, 1.5, 3, 6, 12, 24.
        assert_eq!(probes_within(Duration::from_millis(374)), 1);
        assert_eq!(probes_within(Duration::from_millis(375 * 3)), 4);
        assert_eq!(walk(100, 2), Duration::from_secs(120));
    }
}
