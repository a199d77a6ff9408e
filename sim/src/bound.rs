use std::time::Duration;

/// What the time that recovery may take depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// The longer Send Timeout of the two hosts.
    pub send_timeout: Duration,
    /// Longest time a packet takes one way.
    pub one_way: Duration,
    /// Longest time between packets that the applications send.
    pub gap: Duration,
    /// Longest time that a report of a data plane takes to its core.
    pub report_delay: Duration,
    /// Locator pairs of the context.
    pub pairs: u32,
    /// How many of them work both ways.
    pub both_ways: u32,
    /// How many work from one host to the other, and back: the fewer.
    pub one_direction: u32,
    /// How long one of the hosts had been exploring when the paths got as they are.
    pub exploring: Duration,
    /// Probes in a row that may be lost, with the worst luck that is accepted.
    pub losses: u32,
}

/// Time within which traffic must flow again, from the moment on that some pair works each way.
///
/// RFC 5534 gives no such bound; it follows from its timers.
///
/// **Detection.** Payload that goes unanswered is noticed a Send Timeout after it left (s4.1). With
/// traffic one way only and its forward path broken, the receiver still owes keepalives for a Keepalive
/// Timeout after the last payload that it got (s6.1), which is the sender's Send Timeout (s5.3): the
/// sender's timer begins only then. A host in InboundOk waits for its peer for a Send Timeout too, or for
/// a round of probes if that is longer. So `2 * send_timeout + walk`, and a payload interval and a few
/// one-way delays.
///
/// **Exploration.** A host probes pair by pair: Number of Initial Probes (4) at Initial Probe Timeout
/// (0.5 s), then at intervals that double up to Max Probe Timeout (60 s) (s4.3, s7). If `both_ways` of
/// `pairs` work both ways, one of `pairs - both_ways + 1` probes in a row takes one of these, and the peer
/// answers by it at once. It may be that only different pairs work in the two directions. Then a probe
/// gets there after `pairs - one_direction + 1`, and the peer's answers walk its pairs likewise; the
/// peer's walk goes on with each probe that reaches it, so the product of the two is enough.
///
/// **Exploration that was under way** has grown slow: the probes of a walk that began `exploring` ago
/// come at the intervals that the backoff has reached by then. It may also still settle for a pair that
/// worked a moment before, whereupon detection and exploration start from the beginning. So both walks
/// count, with a detection after the first.
///
/// **Bad luck.** Each probe, answer or final acknowledgement may be lost as often as `losses`; each time
/// the walk comes round to the pair again after `pairs` probes more.
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
    // Probe, answer, acknowledgement, and the first packet; at each end the report of one.
    let exchange = (conditions.one_way + conditions.report_delay) * 4 + INITIAL_PROBE_TIMEOUT;
    detection + fresh + slow + exchange
}

/// The same where a host that sends calls its context protected: another pair has answered lately, and works still.
///
/// **Detection** takes one Send Timeout: nothing comes back any more, so the timer starts with the first payload after
/// what was under way.
///
/// **Then** the payload of this host takes the other pair, and so does its first probe, by which the peer learns of
/// it. Of probe, answer and acknowledgement each may be lost as often as `losses`.
#[must_use]
pub(crate) fn protected_bound(conditions: &Conditions) -> Duration {
    let delays = (conditions.one_way + conditions.report_delay) * 6;
    let detection = conditions.send_timeout + conditions.gap;
    detection + delays + walk(0, 1 + conditions.losses * conditions.pairs)
}

/// The same where one of the two has lost the context and the other one sends by it (RFC 5533 s7.5).
///
/// **It notices.** Payload that has moved to a pair that works both ways (`is_answered`) is answered with R1bis
/// at once. Otherwise the sender notices a Send Timeout after its payload, and probes; a probe with a tag
/// that the peer does not know is answered with R1bis as well. The answer goes back by the pair of the
/// question, so only a pair that works both ways is of use: one of `pairs - both_ways + 1` probes takes it.
///
/// **It asks** the peer where payload goes whether it still has the context, if R1bis comes from another locator (decision 095), and
/// believes the R1bis that the next probe draws when no answer has come for 10 s.
///
/// **It recovers** by R1bis, I2bis and R2. If one of the last two is lost, I2bis goes out again after
/// I2bis_TIMEOUT, which doubles and is up to half as long again (RFC 5533 s7.19).
///
/// **From then on** it is as with any context, except that an exploration under way is older by all that.
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

/// The same where no pair is left that both ends know, and one end has locators to tell the other of.
///
/// **It tells.** Update Requests go from its new locators to those of the peer that it knows, one pair after the
/// other, at the intervals of probes, each of them up to half as long again (RFC 5533 s14); the first leaves when there
/// is an address to send it from. Each one, and its acknowledgement, may be lost as often as `losses`.
///
/// **From then on** both explore, one of them for the first time with a pair to probe.
#[must_use]
pub(crate) fn roaming_bound(conditions: &Conditions) -> Duration {
    let exchange = (conditions.one_way + conditions.report_delay) * 4;
    let tries = conditions.pairs * (1 + conditions.losses);
    let told = exchange + walk(probes_within(conditions.exploring), tries) * 3 / 2;
    let exploring = conditions.exploring + told;
    told + recovery_bound(&Conditions { exploring, ..*conditions })
}

/// Time from the end of a silence to the retransmission of a stream that arrives. The first one comes after as long again as the
/// silence was, at most, and may be lost as often as `losses`: each one after it waits for twice as long.
pub(crate) fn backoff_bound(silence: Duration, losses: u32) -> Duration {
    (0..=losses).map(|nth| silence.saturating_mul(1 << nth.min(16)).min(MAX_BACKOFF)).sum()
}

/// Probes in a row of which one brings the two together.
fn probes_needed(conditions: &Conditions) -> u32 {
    let until = |good: u32| conditions.pairs.saturating_sub(good) + 1;
    let first = if conditions.both_ways > 0 {
        until(conditions.both_ways)
    } else {
        until(conditions.one_direction) * until(conditions.one_direction)
    };
    first + conditions.losses * conditions.pairs
}

/// Time that `count` probes take from the one on that comes after `sent`.
fn walk(sent: u32, count: u32) -> Duration {
    (sent + 1..=sent + count).map(probe_timeout).sum()
}

/// Time between a probe and the next one, after `sent` of them.
fn probe_timeout(sent: u32) -> Duration {
    let doublings = (sent + 1).saturating_sub(INITIAL_PROBES);
    INITIAL_PROBE_TIMEOUT.saturating_mul(1 << doublings.min(16)).min(MAX_PROBE_TIMEOUT)
}

/// How many probes may have left in this time: jitter cuts each interval by up to a quarter.
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

// Written down again here and not taken from the machines: a wrong value there must be found.

/// No retransmission of a stream waits longer.
const MAX_BACKOFF: Duration = Duration::from_secs(65);
/// Initial Probe Timeout (RFC 5534 s7).
const INITIAL_PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Number of Initial Probes (RFC 5534 s7).
const INITIAL_PROBES: u32 = 4;
/// Max Probe Timeout (RFC 5534 s4.3).
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a peer is waited for whose context somebody else claims: a choice of `moorline-contexts`.
const CONTEST: Duration = Duration::from_secs(10);
/// Nominal time until an I2bis is sent again (RFC 5533 s14).
const I2BIS_TIMEOUT: Duration = Duration::from_secs(4);
/// How often it is sent again (RFC 5533 s14).
const I2BIS_RETRIES_MAX: u32 = 2;
/// Probes that InboundOk is given time for, however short the Send Timeout: a choice of
/// `moorline-reap`.
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
        // A Send Timeout, a probe, 10 s, and all of the other bound as if it had been exploring since: probes are a minute apart by then.
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
