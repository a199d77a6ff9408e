//! Records of the probes that were sent and received in the running exploration.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use crate::config::{MAX_RECORDS, REPORT_LIFETIME};
use crate::machine::is_of_check;
use crate::message::Report;
use crate::state::State;

/// A sent probe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) pair: LocatorPair,
    pub(crate) nonce: u32,
    /// The Sta field of the probe.
    pub(crate) state: State,
    pub(crate) at: Instant,
    /// Whether the peer has reported the probe.
    pub(crate) is_reported: bool,
}

/// A received probe.
#[derive(Clone, Copy, Debug)]
struct Received {
    report: Report,
    /// Whether the probe came since the last transition to Exploring. Only such probes are reported (RFC 5534 s5.2).
    /// The others stay, so that repetitions are recognized.
    is_current: bool,
}

/// Both lists, the newest first, [`MAX_RECORDS`] each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    sent: VecDeque<Sent>,
    received: VecDeque<Received>,
}

impl Records {
    /// Another exploration begins: earlier reports of the peer say nothing about the paths now. If a switch runs, its
    /// probes stay: those by this pair that have left since this time.
    pub(crate) fn forget_sent(&mut self, switch: Option<(LocatorPair, Instant)>) {
        self.sent
            .retain(|sent| switch.is_some_and(|(pair, at)| sent.pair == pair && sent.at >= at));
    }

    /// From now on a report of a probe by `pair` proves nothing.
    pub(crate) fn forget_sent_by(&mut self, pair: LocatorPair) {
        self.sent.retain(|sent| sent.pair != pair);
    }

    /// The state becomes Exploring: probes received before are not reported any more.
    pub(crate) fn retire_received(&mut self) {
        self.received.iter_mut().for_each(|r| r.is_current = false);
    }

    pub(crate) fn is_nonce_free(&self, nonce: u32) -> bool {
        self.sent.iter().all(|s| s.nonce != nonce)
    }

    /// Keeps a sent probe. If there is no room, the oldest probe of the pair with the most probes goes: forged probes
    /// by one pair draw many answers, and must not push out a question by another pair.
    pub(crate) fn note_sent(&mut self, pair: LocatorPair, nonce: u32, state: State, at: Instant) {
        if self.sent.len() >= MAX_RECORDS {
            let of_pair = |pair| self.sent.iter().filter(|sent| sent.pair == pair).count();
            let all = self.sent.iter().enumerate();
            let oldest = all.max_by_key(|(at, sent)| (of_pair(sent.pair), *at)).map(|(at, _)| at);
            oldest.and_then(|at| self.sent.remove(at));
        }
        self.sent.push_front(Sent { pair, nonce, state, at, is_reported: false });
    }

    pub(crate) fn note_received(&mut self, report: Report) {
        self.received.truncate(MAX_RECORDS - 1);
        self.received.push_front(Received { report, is_current: true });
    }

    pub(crate) fn is_known(&self, report: &Report) -> bool {
        self.received.iter().any(|r| r.report == *report)
    }

    /// Pair, nonce and time of each sent probe.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (LocatorPair, u32, Instant)> + '_ {
        self.sent.iter().map(|sent| (sent.pair, sent.nonce, sent.at))
    }

    /// Whether [`confirm`](Self::confirm) would find the sent probe that `report` is about, for the first time.
    pub(crate) fn awaits(&self, report: &Report, now: Instant) -> bool {
        self.sent.iter().any(|sent| !sent.is_reported && sent.is_meant(report, now))
    }

    /// Marks the sent probe that `report` is about. `None` if there is no such probe, or if it is older than
    /// [`REPORT_LIFETIME`].
    pub(crate) fn confirm(&mut self, report: &Report, now: Instant) -> Option<Sent> {
        let sent = self.sent.iter_mut().find(|sent| sent.is_meant(report, now))?;
        sent.is_reported = true;
        Some(*sent)
    }

    /// Whether the peer has reported a probe of this exploration that went by `pair`.
    pub(crate) fn is_proven(&self, pair: LocatorPair) -> bool {
        self.sent.iter().any(|s| s.pair == pair && s.is_reported)
    }

    pub(crate) fn last_sent(&self) -> Option<&Sent> {
        self.sent.front()
    }

    /// When the last probe by `pair` left.
    pub(crate) fn last_sent_by(&self, pair: LocatorPair) -> Option<Instant> {
        self.sent.iter().find(|s| s.pair == pair).map(|s| s.at)
    }

    /// Time since the last reported probe by `pair` left.
    pub(crate) fn age_of_last_by(&self, pair: LocatorPair, now: Instant) -> Option<Duration> {
        let reported = self.sent.iter().find(|sent| sent.pair == pair && sent.is_reported);
        reported.map(|sent| now.since(sent.at))
    }

    /// Up to `limit` sent probes: the last one, then those that the peer has not reported. In InboundOk the nonce of a
    /// probe by another pair stays on that pair, because a host that knows the nonce can answer the probe (decision
    /// 153).
    pub(crate) fn sent_reports(&self, limit: usize) -> Vec<Report> {
        let Some(last) = self.sent.front() else { return Vec::new() };
        let earlier = self.sent.iter().skip(1);
        let earlier = earlier.filter(|sent| {
            !sent.is_reported && (sent.pair == last.pair || last.state == State::Exploring)
        });
        [last].into_iter().chain(earlier).take(limit).map(Sent::report).collect()
    }

    /// Whether [`received_reports`](Self::received_reports) gives any.
    pub(crate) fn has_report(&self) -> bool {
        self.received.iter().any(|received| received.is_current)
    }

    /// The pair of the last received probe that can be reported, as this host sees the pair.
    pub(crate) fn last_heard_by(&self) -> Option<LocatorPair> {
        let last = self.received.iter().find(|one| one.is_current)?.report;
        Some(LocatorPair::new(last.dst, last.src))
    }

    /// Up to `limit` received probes, for a probe by `pair`. A check by another pair is left out where there is
    /// something else to report, because a host that knows the nonce of the check can vouch for a move (decision 153).
    pub(crate) fn received_reports(&self, limit: usize, pair: LocatorPair) -> Vec<Report> {
        let all = || self.received.iter().filter(|one| one.is_current).map(|one| one.report);
        let is_elsewhere = |report: &Report| {
            is_of_check(report.data) && LocatorPair::new(report.dst, report.src) != pair
        };
        let mut reports: Vec<_> = all().filter(|one| !is_elsewhere(one)).take(limit).collect();
        if reports.is_empty() {
            reports = all().take(limit).collect();
        }
        reports
    }
}

impl Sent {
    /// Whether the report is about this probe, and not too late.
    fn is_meant(&self, report: &Report, now: Instant) -> bool {
        self.nonce == report.nonce
            && LocatorPair::new(report.src, report.dst) == self.pair
            && now.since(self.at) <= REPORT_LIFETIME
    }

    fn report(&self) -> Report {
        Report { src: self.pair.local, dst: self.pair.peer, nonce: self.nonce, data: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_types::Locator;

    #[test]
    fn many_probes_by_one_pair_push_out_none_by_another() {
        let [asked, other] = [1, 2].map(|isp| {
            let locator = |host| {
                Locator::from(core::net::Ipv6Addr::new(0x2001, 0xdb8, isp, 0, 0, 0, 0, host))
            };
            LocatorPair::new(locator(1), locator(2))
        });
        let mut records = Records::default();
        records.note_sent(asked, 7, State::InboundOk, Instant::ZERO);
        for nonce in 100..200 {
            records.note_sent(other, nonce, State::InboundOk, Instant::ZERO);
        }
        assert_eq!(records.sent().count(), MAX_RECORDS);
        let nonces: Vec<_> = records.sent().map(|(_, nonce, _)| nonce).collect();
        assert!(nonces.contains(&7) && nonces.contains(&199) && !nonces.contains(&100));
    }
}
