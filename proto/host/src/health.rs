//! Uplinks that carry nothing, found by hosts of the operator's choice: each uplink sends them Echo Requests (RFC
//! 4443 s4.1).
//!
//! A lost request *tells* if another uplink, the witness, got an answer to a request of the same moment: then the hosts
//! have not failed. An uplink fails if [`LOST`] lost requests in a row tell, and more than twice as many as the witness
//! itself has lately lost in a row. So a witness that loses half of its requests shows that an uplink is dead, and two
//! such uplinks show nothing about each other. After the first loss the requests follow each other quickly, and a
//! failure shows within a second. If no uplink gets answers for a while, the haste ends, and the next answer by any
//! uplink begins it anew. Before an uplink is used again, it has to answer for a while, which doubles with each
//! failure. If no other uplink works, an answer is enough, until lost requests tell again.

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
    /// Requests since the last answer by any uplink.
    unheard: usize,
    /// The last [`MOST_WAITING`] answered requests, the oldest first.
    answered: VecDeque<Answered>,
    /// Largest recent number of lost requests in a row that told, in units of 1 / [`FADING`].
    longest_run: usize,
    /// Time that answers take at present ([`Asked::usual_time`]).
    usual: Duration,
    failing: Option<Failing>,
    failures: u32,
    failed_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    nonce: u64,
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    /// Departure of the request.
    at: Instant,
    took: Duration,
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
        let works = |asked: &Asked| asked.failing.is_none() && !asked.is_silent();
        let has_working = self.uplinks.values().any(works);
        if !has_working && !self.uplinks.values().any(Asked::answers_again) {
            return BTreeSet::new();
        }
        let fails =
            |asked: &Asked| asked.failing.is_some() && (has_working || !asked.answers_again());
        let all = self.uplinks.iter().filter(|(_, asked)| fails(asked));
        all.map(|(ifindex, _)| *ifindex).collect()
    }

    /// Whether an uplink has failed, and is not used again. The answer says whether it answers again, not for long enough
    /// yet.
    pub(crate) fn failed(&self, ifindex: u32) -> Option<bool> {
        let asked = self.uplinks.get(&ifindex)?;
        asked.failing.map(|failing| failing.has_answered)
    }

    /// Uplinks by which no host has answered for some seconds, whatever other uplinks do.
    pub(crate) fn silent(&self) -> BTreeSet<u32> {
        let silent = self.uplinks.iter().filter(|(_, asked)| asked.is_silent());
        silent.map(|(ifindex, _)| *ifindex).collect()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.uplinks.values().map(|asked| asked.next).min()
    }

    /// Asks the hosts that are due. Returns the requests to send, and whether the failing uplinks have changed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> (Vec<Effect>, bool) {
        let before = self.failing();
        let due = self.uplinks.iter().filter(|(_, asked)| asked.next <= now);
        let due: Vec<_> =
            due.map(|(ifindex, asked)| (*ifindex, self.is_worse(*ifindex, asked, now))).collect();
        let is_sure = |asked: &Asked| asked.failing.is_none() && asked.lost(now) == 0;
        let has_sure = self.uplinks.values().any(is_sure);
        let mut effects = Vec::new();
        for (ifindex, is_worse) in due {
            let Some(asked) = self.uplinks.get_mut(&ifindex) else { continue };
            asked.judge(is_worse, now);
            let is_hasty = asked.is_hasty(has_sure, now);
            if let Some(next) = asked.rests_until(is_hasty, now) {
                asked.next = next;
                continue;
            }
            let nonce = self.nonces.next_u64();
            let turn = usize::try_from(asked.sent).unwrap_or(0) % self.targets.len();
            let Some(target) = self.targets.get(turn) else { continue };
            asked.ask(nonce, is_hasty, now);
            let (source, target) = (asked.source, *target);
            effects.push(Effect::AskTarget { ifindex, source, target, nonce });
        }
        (effects, self.failing() != before)
    }

    /// Uplinks other than this one.
    fn others(&self, ifindex: u32) -> impl Iterator<Item = &Asked> {
        self.uplinks.iter().filter(move |(other, _)| **other != ifindex).map(|(_, other)| other)
    }

    /// Whether so many lost requests in a row of an uplink tell that the uplink is worse than the witness.
    fn is_worse(&self, ifindex: u32, asked: &Asked, now: Instant) -> bool {
        self.others(ifindex).any(|witness| {
            let tells =
                |request: &&Request| asked.is_lost(request, now) && witness.has_answer_of(request);
            asked.waiting.iter().filter(tells).count() >= witness.patience()
        })
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
        let of_source = self.uplinks.iter().find(|(_, asked)| asked.source == local);
        let Some((&ifindex, asked)) = of_source else { return false };
        let Some(place) = asked.waiting.iter().position(|one| one.nonce == nonce) else {
            return false;
        };
        let before = self.failing();
        let tells = |one: &&Request| self.others(ifindex).any(|other| other.has_answer_of(one));
        let run = asked.waiting.iter().take(place).filter(tells).count();
        if let Some(asked) = self.uplinks.get_mut(&ifindex) {
            asked.on_answer(place, run, now);
        }
        self.uplinks.values_mut().for_each(|asked| asked.on_life(now));
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
            unheard: 0,
            answered: VecDeque::new(),
            longest_run: 0,
            usual: Duration::ZERO,
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
        let longest = if self.answered.is_empty() { LONGEST } else { self.usual * 2 + MARGIN };
        longest.min(LONGEST)
    }

    /// Whether the answer to a request is overdue.
    fn is_lost(&self, request: &Request, now: Instant) -> bool {
        now.since(request.at) >= self.due()
    }

    /// Number of requests whose answer is overdue.
    fn lost(&self, now: Instant) -> usize {
        self.waiting.iter().filter(|request| self.is_lost(request, now)).count()
    }

    /// Whether this uplink got an answer to a request that left at the moment of the other uplink's request.
    fn has_answer_of(&self, request: &Request) -> bool {
        let first = self.answered.partition_point(|one| one.at + MOMENT < request.at);
        self.answered.get(first).is_some_and(|one| one.at <= request.at + MOMENT)
    }

    /// Time that answers take at present: the median of the last [`RECENT`] answers, or the longest of the last
    /// [`LATEST`], whichever is longer. So a delay that is over is soon forgotten, and a delay that grows is not taken
    /// for a loss. Answers count only if their requests left [`CALM`] apart, because a short stop holds many requests in
    /// haste.
    fn usual_time(&self) -> Duration {
        let mut later = None;
        let is_apart = |one: &&Answered| {
            let is_apart = later.is_none_or(|at| one.at + CALM <= at);
            later = if is_apart { Some(one.at) } else { later };
            is_apart
        };
        let apart = self.answered.iter().rev().filter(is_apart);
        let mut took: Vec<_> = apart.take(RECENT).map(|one| one.took).collect();
        let latest = took.iter().take(LATEST).max().copied();
        took.sort_unstable();
        took.get(took.len() / 2).copied().max(latest).unwrap_or_default()
    }

    /// Whether the uplink has lost so many requests in a row that it is no better than others.
    fn is_silent(&self) -> bool {
        self.waiting.len() >= MOST_SILENT
    }

    /// Number of lost requests in a row, told by this uplink, that are a failure of another uplink.
    fn patience(&self) -> usize {
        (2 * self.longest_run / FADING + 1).clamp(LOST, MOST_LOST)
    }

    /// Decides whether the uplink fails, or has answered for long enough to be used again.
    fn judge(&mut self, is_worse: bool, now: Instant) {
        let lost = self.lost(now);
        let steady = STEADY * (1 << self.failures.saturating_sub(1).min(MOST_DOUBLED));
        match &mut self.failing {
            None if is_worse => {
                let is_again = self.failed_at.is_some_and(|at| now.since(at) < REMEMBERED);
                self.failures = if is_again { self.failures.saturating_add(1) } else { 1 };
                (self.failing, self.failed_at) = (Some(Failing::default()), Some(now));
            }
            Some(failing) if is_worse => *failing = Failing::default(),
            Some(failing) if lost >= FEW => failing.good_since = None,
            Some(Failing { good_since: Some(since), .. }) if now.since(*since) >= steady => {
                (self.failing, self.failed_at) = (None, Some(now));
            }
            _ => {}
        }
    }

    /// Whether the requests follow each other quickly. The losses of an uplink that has failed matter only if it
    /// answers again, and no other uplink is sure.
    fn is_hasty(&self, has_sure: bool, now: Instant) -> bool {
        let matters = self.failing.is_none() || self.answers_again() && !has_sure;
        matters && self.unheard < MOST_HASTY && self.lost(now) > 0
    }

    /// Time of the next request, if that is later than now.
    fn rests_until(&self, is_hasty: bool, now: Instant) -> Option<Instant> {
        let next = self.asked_at? + CALM;
        (next > now && !is_hasty).then_some(next)
    }

    fn ask(&mut self, nonce: u64, is_hasty: bool, now: Instant) {
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Request { nonce, at: now });
        self.sent = self.sent.wrapping_add(1);
        self.unheard = self.unheard.saturating_add(1);
        self.asked_at = Some(now);
        // The next look comes when the answer is due, or sooner.
        self.next = now + if is_hasty { HASTY } else { self.due().min(CALM) };
    }

    /// Handles the answer to the waiting request at this place. `run`: number of lost requests before it that told.
    fn on_answer(&mut self, place: usize, run: usize, now: Instant) {
        let Some(request) = self.waiting.drain(..=place).next_back() else { return };
        let Request { at, .. } = request;
        if self.answered.len() >= MOST_WAITING {
            self.answered.pop_front();
        }
        self.answered.push_back(Answered { at, took: now.since(at) });
        self.usual = self.usual_time();
        // Requests that were lost in a failure do not show how many the uplink loses otherwise.
        let run = if self.failing.is_some_and(|one| !one.has_answered) { 0 } else { run };
        self.longest_run =
            (run * FADING).max(self.longest_run.saturating_sub(self.longest_run.div_ceil(FADING)));
        if let Some(failing) = &mut self.failing {
            failing.good_since.get_or_insert(now);
            failing.has_answered = true;
        }
    }

    /// Handles an answer by any uplink: the hosts answer. If nobody has answered for a while, the next request leaves
    /// soon.
    fn on_life(&mut self, now: Instant) {
        if self.unheard >= MOST_HASTY {
            let soon = self.asked_at.map_or(now, |at| (at + HASTY).max(now));
            self.next = self.next.min(soon);
        }
        self.unheard = 0;
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
/// Number of lost requests in a row that are a failure, if the witness has lost few. At a loss of 5 % each way, chance
/// loses 7 in a row once in some 12 million.
const LOST: usize = 7;
/// Number of lost requests in a row that are a failure whatever the witness has lost.
const MOST_LOST: usize = 24;
/// Number of answers after which about a third of the longest run is left.
const FADING: usize = 256;
/// Time between two requests of the same moment, at most. In each moment there is a request of a calm uplink.
const MOMENT: Duration = CALM.checked_div(2).expect("not zero");
/// Number of requests after which the haste ends if no uplink gets answers: more than leave in haste within
/// [`LONGEST`].
const MOST_HASTY: usize = 32;
/// Number of requests without an answer after which an uplink is no better than others. Without any answers it takes 4 s.
const MOST_SILENT: usize = 40;
/// Number of unanswered requests, and of answered ones, that are remembered.
const MOST_WAITING: usize = 2 * MOST_HASTY;
/// Number of requests in a row without an answer after which an uplink no longer counts as answering again.
pub(crate) const FEW: usize = 3;
/// Number of answers of which the median counts.
const RECENT: usize = 15;
/// Number of last answers of which the longest time counts.
const LATEST: usize = 2;
/// Time that is added to twice the usual time of answers. After that an answer is due.
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
