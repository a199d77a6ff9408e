//! Uplinks that carry nothing, found by hosts of the operator's choice: each uplink sends them Echo Requests (RFC
//! 4443 s4.1).
//!
//! An uplink fails if [`LOST`] requests in a row get no answer, while another uplink gets answers to requests of the
//! same time. So the hosts themselves have not failed. After the first loss the requests follow each other quickly,
//! and a failure shows within a second. A lossy link rarely loses so many in a row. Before an uplink is used again,
//! it has to answer for a while, which doubles with each failure. If no other uplink works, an answer is enough.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_addresses::{HostView, Uplink};
use moorline_types::Instant;
use rand_chacha::ChaCha12Rng;
use rand_core::{RngCore, SeedableRng};

use crate::effect::Effect;
use crate::host::Host;

/// Asks hosts by each uplink, and keeps the results.
#[derive(Clone)]
pub(crate) struct Health {
    targets: Vec<Ipv6Addr>,
    nonces: ChaCha12Rng,
    uplinks: BTreeMap<u32, Asked>,
}

/// An uplink by which the hosts are asked.
#[derive(Clone, Debug)]
struct Asked {
    source: Ipv6Addr,
    /// Requests without an answer since the last answer, the oldest first.
    waiting: VecDeque<Request>,
    sent: u32,
    asked_at: Option<Instant>,
    /// Time of the next request or the next look at the missing answers.
    next: Instant,
    /// Departure of the first and of the last answered request, without [`FEW`] lost requests in a row between them.
    answered: Option<(Instant, Instant)>,
    /// Longest recent time of an answer.
    slowest: Duration,
    failing: Option<Failing>,
    failures: u32,
    failed_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    nonce: u64,
    at: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    /// Time since which requests are answered again.
    good_since: Option<Instant>,
    /// Whether a request was answered since the failure.
    has_answered: bool,
}

impl Health {
    /// Asks these hosts. Without hosts nothing is asked, and no uplink fails.
    pub(crate) fn new(targets: Vec<Ipv6Addr>, seed: [u8; 32]) -> Self {
        Self { targets, nonces: ChaCha12Rng::from_seed(seed), uplinks: BTreeMap::new() }
    }

    pub(crate) fn has_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// Takes the present uplinks. Returns whether the failing uplinks have changed.
    pub(crate) fn follow(&mut self, view: &HostView, now: Instant) -> bool {
        if self.targets.is_empty() {
            return false;
        }
        let before = self.failing();
        let sources: BTreeMap<u32, Ipv6Addr> = view.uplinks.iter().filter_map(source_of).collect();
        self.uplinks.retain(|ifindex, _| sources.contains_key(ifindex));
        for (ifindex, source) in sources {
            let asked = self.uplinks.entry(ifindex).or_insert_with(|| Asked::new(source, now));
            if asked.source != source {
                asked.source = source;
                asked.waiting.clear();
            }
        }
        self.failing() != before
    }

    /// Uplinks that carry nothing. Empty if no other uplink gets answers: then the hosts may have failed, and no
    /// uplink is better. An uplink whose first answers are not due yet is better than one that fails, and so is one that
    /// has failed and answers again.
    pub(crate) fn failing(&self) -> BTreeSet<u32> {
        let works = |asked: &Asked| asked.failing.is_none() && asked.waiting.len() < MOST_WAITING;
        let has_working = self.uplinks.values().any(works);
        if !has_working && !self.uplinks.values().any(Asked::answers_again) {
            return BTreeSet::new();
        }
        let fails =
            |asked: &Asked| asked.failing.is_some() && (has_working || !asked.answers_again());
        let all = self.uplinks.iter().filter(|(_, asked)| fails(asked));
        all.map(|(ifindex, _)| *ifindex).collect()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.uplinks.values().map(|asked| asked.next).min()
    }

    /// Asks the hosts that are due. Returns the requests to send, and whether the failing uplinks have changed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> (Vec<Effect>, bool) {
        let before = self.failing();
        let answers = |asked: &Asked| asked.failing.is_none() || asked.answers_again();
        let working = self.uplinks.iter().filter(|(_, asked)| answers(asked));
        let working: Vec<_> =
            working.filter_map(|(ifindex, asked)| Some((*ifindex, asked.answered?))).collect();
        let mut effects = Vec::new();
        for (ifindex, asked) in &mut self.uplinks {
            if asked.next > now {
                continue;
            }
            let at = asked.doubted_at();
            let answered_then =
                |(first, last): (Instant, Instant)| at.is_some_and(|at| first <= at && at <= last);
            let has_other =
                working.iter().any(|(other, span)| other != ifindex && answered_then(*span));
            asked.judge(has_other, now);
            if let Some(next) = asked.rests_until(now) {
                asked.next = next;
                continue;
            }
            let nonce = self.nonces.next_u64();
            let turn = usize::try_from(asked.sent).unwrap_or(0) % self.targets.len();
            let Some(target) = self.targets.get(turn) else { continue };
            asked.ask(nonce, now);
            effects.push(Effect::AskTarget {
                ifindex: *ifindex,
                source: asked.source,
                target: *target,
                nonce,
            });
        }
        (effects, self.failing() != before)
    }

    /// Takes the answer of a host. An answer to no request of its uplink changes nothing. Returns whether the failing
    /// uplinks have changed.
    pub(crate) fn handle_answer(
        &mut self,
        local: Ipv6Addr,
        from: Ipv6Addr,
        nonce: u64,
        now: Instant,
    ) -> bool {
        if !self.targets.contains(&from) {
            return false;
        }
        let before = self.failing();
        let asked = self.uplinks.values_mut().find(|asked| asked.source == local);
        if let Some(asked) = asked {
            asked.handle_answer(nonce, now);
        }
        self.failing() != before
    }
}

impl Asked {
    const fn new(source: Ipv6Addr, now: Instant) -> Self {
        Self {
            source,
            waiting: VecDeque::new(),
            sent: 0,
            asked_at: None,
            next: now,
            answered: None,
            slowest: Duration::ZERO,
            failing: None,
            failures: 0,
            failed_at: None,
        }
    }

    /// Whether the uplink has failed and has had an answer since, not for long enough yet. If answers get lost now and
    /// then, this does not change.
    fn answers_again(&self) -> bool {
        self.failing.is_some_and(|failing| failing.has_answered)
    }

    fn due(&self) -> Duration {
        self.answered.map_or(LONGEST, |_| (self.slowest * 2 + MARGIN).min(LONGEST))
    }

    /// Number of requests whose answer is overdue.
    fn lost(&self, now: Instant) -> usize {
        self.waiting.iter().filter(|request| now.since(request.at) >= self.due()).count()
    }

    /// Departure of an unanswered request that left after the answer to the first one was due. If a host failed while
    /// the first request was under way, it answered no request of this time by another uplink either.
    fn doubted_at(&self) -> Option<Instant> {
        let first = self.waiting.front()?.at;
        let mut sent = self.waiting.iter().map(|request| request.at);
        sent.find(|at| at.since(first) >= self.due())
    }

    /// Decides whether the uplink fails, or has answered for long enough to be used again.
    fn judge(&mut self, has_other: bool, now: Instant) {
        let lost = self.lost(now);
        let steady = STEADY * (1 << self.failures.saturating_sub(1).min(MOST_DOUBLED));
        match &mut self.failing {
            None if lost >= LOST && has_other => {
                let is_again = self.failed_at.is_some_and(|at| now.since(at) < REMEMBERED);
                self.failures = if is_again { self.failures.saturating_add(1) } else { 1 };
                (self.failing, self.failed_at) = (Some(Failing::default()), Some(now));
            }
            Some(failing) if lost >= FEW => failing.good_since = None,
            Some(Failing { good_since: Some(since), .. }) if now.since(*since) >= steady => {
                (self.failing, self.failed_at) = (None, Some(now));
            }
            _ => {}
        }
    }

    fn is_hasty(&self, now: Instant) -> bool {
        let is_in_doubt = self.lost(now) > 0 && self.waiting.len() < MOST_WAITING;
        self.failing.is_none() && is_in_doubt
    }

    /// Time of the next request, if that is later than now.
    fn rests_until(&self, now: Instant) -> Option<Instant> {
        let next = self.asked_at? + CALM;
        (next > now && !self.is_hasty(now)).then_some(next)
    }

    fn ask(&mut self, nonce: u64, now: Instant) {
        let is_hasty = self.is_hasty(now);
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Request { nonce, at: now });
        self.sent = self.sent.wrapping_add(1);
        self.asked_at = Some(now);
        // The next look comes when the answer is due, or sooner.
        self.next = now + if is_hasty { HASTY } else { self.due().min(CALM) };
    }

    fn handle_answer(&mut self, nonce: u64, now: Instant) {
        let Some(at) = self.waiting.iter().position(|request| request.nonce == nonce) else {
            return;
        };
        let Some(request) = self.waiting.drain(..=at).next_back() else { return };
        let took = now.since(request.at);
        // Some later answers make a slow one forgotten.
        self.slowest = took.max(self.slowest - self.slowest / 8);
        let first = self.answered.filter(|_| at < FEW).map_or(request.at, |(first, _)| first);
        self.answered = Some((first, request.at));
        if let Some(failing) = &mut self.failing {
            failing.good_since.get_or_insert(now);
            failing.has_answered = true;
        }
    }
}

/// Uplinks that carry nothing.
impl Host {
    /// Has each uplink ask these hosts. They should not be peers of contexts, because moved payload shows nothing
    /// about an uplink.
    #[must_use]
    pub fn with_targets(mut self, targets: Vec<Ipv6Addr>, seed: [u8; 32]) -> Self {
        self.health = Health::new(targets, seed);
        self
    }

    /// Takes an Echo Reply to an address of this host. Its data may be the nonce of an [`Effect::AskTarget`].
    pub fn handle_echo(&mut self, local: Ipv6Addr, from: Ipv6Addr, nonce: u64, now: Instant) {
        if self.health.handle_answer(local, from, nonce, now) {
            self.on_health(now);
        }
    }
}

impl fmt::Debug for Health {
    /// The state of the generator would reveal the next nonces, so it is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("uplinks", &self.uplinks).finish_non_exhaustive()
    }
}

/// The source address of an uplink's requests.
fn source_of(uplink: &Uplink) -> Option<(u32, Ipv6Addr)> {
    let own = uplink.addresses.iter().find(|own| own.preferred && uplink.carrier)?;
    Some((uplink.ifindex, own.address))
}

/// Interval between requests.
pub(crate) const CALM: Duration = Duration::from_millis(250);
/// Interval between requests after a loss.
pub(crate) const HASTY: Duration = Duration::from_millis(60);
/// Number of requests in a row without an answer that are a failure. At a loss of 5 % each way, chance loses 7 in a
/// row once in some 12 million.
const LOST: usize = 7;
/// Number of unanswered requests that are remembered: more than leave in haste within [`LONGEST`]. If so many in a
/// row are unanswered and no other uplink works, the hosts have failed, and the haste ends.
const MOST_WAITING: usize = 32;
/// Number of requests in a row without an answer after which an uplink no longer counts as answering again.
pub(crate) const FEW: usize = 3;
/// Time that is added to twice the longest answer time. After that an answer is due.
pub(crate) const MARGIN: Duration = Duration::from_millis(50);
/// Time after which an answer is due at the latest.
pub(crate) const LONGEST: Duration = Duration::from_secs(1);
/// Time for which a failed uplink has to answer before it is used again.
pub(crate) const STEADY: Duration = Duration::from_secs(5);
/// Number of times that [`STEADY`] doubles at most: to 160 s.
pub(crate) const MOST_DOUBLED: u32 = 5;
/// Time after which a failure is forgotten.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(1800);

#[cfg(test)]
pub(crate) mod tests;
