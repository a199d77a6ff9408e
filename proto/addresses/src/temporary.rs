//! Sets of temporary addresses (RFC 8981): a set is for new traffic for about a day, and goes after another day.

use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::HbaSet;
use moorline_types::{Instant, Locator};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

use crate::group::Group;
use crate::prefixes::Until;

/// Lifetimes of temporary addresses (RFC 8981 s3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporaryLifetimes {
    /// `TEMP_PREFERRED_LIFETIME`: the longest time for new traffic.
    pub preferred: Duration,
    /// `TEMP_VALID_LIFETIME`: the time for any traffic. A set that contexts use lasts longer.
    pub valid: Duration,
}

/// An HBA set, and the ends of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedSet {
    /// The set.
    pub set: HbaSet,
    /// The ends; only temporary addresses have any.
    pub until: Until,
    /// A number that is added to the generation of the locator lists that peers of these addresses get. So
    /// generations do not reveal that two sets are of one host. It is random for temporary sets, else 0.
    pub added: u32,
    /// Whether the set has to go, even if contexts use it, because there are too many sets.
    pub(crate) is_evicted: bool,
}

/// Reason to make a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// No set has these prefixes.
    Prefixes,
    /// The time of the set is over, or about to be.
    Time,
}

impl Default for TemporaryLifetimes {
    fn default() -> Self {
        Self { preferred: DAY, valid: 2 * DAY }
    }
}

impl TemporaryLifetimes {
    /// The ends of a set that is made now (RFC 8981 s3.4, steps 4 and 5).
    pub(crate) fn begin(&self, random: &mut ChaCha20Rng, now: Instant) -> Until {
        let most = u64::try_from(self.preferred.as_nanos()).unwrap_or(u64::MAX) / 5 * 2;
        // RFC 8981 s3.4: DESYNC_FACTOR is computed anew for each address.
        let desync = Duration::from_nanos(random.next_u64() % most.max(1));
        let preferred = now + self.preferred.saturating_sub(desync);
        Until { preferred: Some(preferred), valid: Some(now + self.valid) }
    }

    /// The ends of a set from disk with these remaining times, by the wall clock. If more remains than a set ever
    /// has, the wall clock was set back and the age of the set is unknown: the set is not for new traffic. If nothing
    /// remains, the clock may have been set forward while contexts used the set: it stays until these are back.
    #[must_use]
    pub fn restored(&self, preferred: Duration, valid: Duration, now: Instant) -> Until {
        let is_sound = preferred <= self.preferred;
        let preferred = if is_sound { preferred } else { Duration::ZERO };
        Until {
            preferred: Some(now + preferred.min(valid)),
            valid: Some(now + valid.max(RESTORING).min(self.valid)),
        }
    }

    /// Whether a set was made a short time ago.
    pub(crate) fn is_young(&self, until: Until, now: Instant) -> bool {
        let age =
            until.valid.map_or(Duration::MAX, |end| self.valid.saturating_sub(end.since(now)));
        age < YOUNG.min(self.valid / 2)
    }

    /// Time by which a set lasts longer each time that contexts use it when it is about to end.
    fn prolongation(&self) -> Duration {
        self.valid / 4
    }
}

impl DatedSet {
    /// Makes a set with these ends.
    #[must_use]
    pub const fn new(set: HbaSet, until: Until) -> Self {
        Self { set, until, added: 0, is_evicted: false }
    }

    /// The set's address in this prefix.
    pub(crate) fn address(&self, prefix: [u8; 8]) -> Option<Locator> {
        self.set.locators().iter().find(|locator| locator.prefix() == prefix).copied()
    }

    fn covers(&self, prefixes: &[[u8; 8]]) -> bool {
        prefixes.iter().all(|prefix| self.address(*prefix).is_some())
    }

    /// Whether the set's addresses are for new traffic for a while.
    fn is_new(&self, now: Instant) -> bool {
        !is_too_late(self.until, now)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.is_evicted || self.until.is_over(now)
    }

    /// Whether this is true for one of the set's addresses.
    pub(crate) fn is_any(&self, is: &impl Fn(Locator) -> bool) -> bool {
        self.set.locators().iter().any(|locator| is(*locator))
    }
}

impl Group {
    /// Goes back to a set that is new enough and has all these prefixes, for example when the host is back in a
    /// network. Returns whether it did.
    pub(crate) fn resume(&mut self, prefixes: &[[u8; 8]], now: Instant) -> bool {
        let serves = |one: &DatedSet| !one.is_evicted && one.is_new(now) && one.covers(prefixes);
        match self.sets.iter().rposition(serves).filter(|at| at + 1 < self.sets.len()) {
            Some(at) if self.rule.temporary => {
                self.sets[at..].rotate_left(1);
                true
            }
            _ => false,
        }
    }

    /// The reason to make a set for these prefixes, if there is one.
    pub(crate) fn lack(&self, prefixes: &[[u8; 8]], now: Instant) -> Option<Lack> {
        match self.sets.last() {
            _ if !self.rule.mode.has_set() => None,
            None => Some(Lack::Prefixes),
            Some(_) if !self.rule.temporary => None,
            Some(last) if !last.covers(prefixes) => Some(Lack::Prefixes),
            Some(last) => (!last.is_new(now)).then_some(Lack::Time),
        }
    }

    /// Time when the results of [`Group::lack`] and [`Group::retire`] may change.
    pub(crate) fn poll_timeout(
        &self,
        lifetimes: &TemporaryLifetimes,
        now: Instant,
    ) -> Option<Instant> {
        let renewed = self.sets.last().and_then(|one| one.until.preferred);
        let renewed = renewed.map(|until| until - REGEN_ADVANCE);
        let ends = self.sets.iter().filter_map(|one| one.until.valid);
        let ends = ends.flat_map(|end| [end - lifetimes.prolongation() / 2, end]);
        ends.chain(renewed).filter(|at| *at > now).min()
    }

    /// Removes temporary sets whose time is over. A set that contexts use lasts longer, and a set with addresses on
    /// an interface stays. Returns whether anything has changed.
    pub(crate) fn retire(
        &mut self,
        lifetimes: &TemporaryLifetimes,
        is_used: &impl Fn(Locator) -> bool,
        is_there: &impl Fn(Locator) -> bool,
        now: Instant,
    ) -> bool {
        let (before, mut is_changed) = (self.sets.len(), false);
        let prolongation = lifetimes.prolongation();
        for one in self.sets.iter_mut().filter(|one| !one.is_evicted && one.is_any(is_used)) {
            if one.until.valid.is_some_and(|end| end <= now + prolongation / 2) {
                one.until.valid = Some(now + prolongation);
                is_changed = true;
            }
        }
        self.sets.retain(|one| !one.is_over(now) || one.is_any(is_there));
        is_changed || self.sets.len() != before
    }

    /// Finds room for one more set. Unused sets go before sets that contexts use. A used set goes only for
    /// [`Lack::Time`]. A set that `is_young` names does not go for [`Lack::Prefixes`], because connections without a
    /// context may use it. If `is_used` is `None`, uses are unknown and no set goes.
    pub(crate) fn make_room(
        &mut self,
        lack: Lack,
        is_used: Option<&impl Fn(Locator) -> bool>,
        is_young: &impl Fn(&DatedSet) -> bool,
    ) -> bool {
        if !self.rule.temporary {
            return true;
        }
        let kept: Vec<usize> =
            (0..self.sets.len()).filter(|at| !self.sets[*at].is_evicted).collect();
        let is_kept = |one: &DatedSet| {
            let is_of_use = is_used.is_none_or(|is_used| one.is_any(is_used));
            is_of_use || lack == Lack::Prefixes && is_young(one)
        };
        let (used, mut to_go): (Vec<usize>, Vec<usize>) = kept
            .iter()
            .take(kept.len().saturating_sub(1))
            .partition(|at| is_kept(&self.sets[**at]));
        to_go.extend(used.into_iter().filter(|_| lack == Lack::Time && is_used.is_some()));
        let excess = (kept.len() + 1).saturating_sub(MAX_SETS);
        if to_go.len() < excess || self.sets.len() >= MAX_WITH_EVICTED {
            return false;
        }
        to_go[..excess].iter().for_each(|at| self.sets[*at].is_evicted = true);
        true
    }

    /// The older sets, whose addresses are not for new traffic any more.
    pub(crate) fn former(&self) -> impl Iterator<Item = &DatedSet> {
        self.sets.iter().rev().skip(1)
    }

    /// The ends of an address of this group, whatever its prefix; `None` if the time of its set is over.
    pub(crate) fn until(&self, address: Locator, now: Instant) -> Option<Until> {
        if !self.rule.temporary {
            return Some(Until::FOREVER);
        }
        let of = self.sets.iter().find(|one| one.set.locators().contains(&address));
        of.filter(|one| !one.is_over(now)).map(|one| one.until)
    }
}

/// Whether a new address would have no more than `REGEN_ADVANCE` left for new traffic (RFC 8981 s3.4, step 5).
pub(crate) fn is_too_late(until: Until, now: Instant) -> bool {
    until.preferred.is_some_and(|until| until <= now + REGEN_ADVANCE)
}

/// Smallest remaining time of a set from disk: by then the contexts of the run before are back.
const RESTORING: Duration = Duration::from_secs(60 * 60);
/// Time for which new prefixes displace no set with addresses on an interface.
const YOUNG: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Seconds by RFC 8981 s3.8: 2 + (`TEMP_IDGEN_RETRIES` * `DupAddrDetectTransmits` * `RetransTimer` / 1000). Not
/// configurable.
const REGEN_ADVANCE: Duration = Duration::from_secs(5);
/// Largest number of sets of a group. With the default times of RFC 8981 there are four: one for new traffic, and
/// three that are valid. On an interface with 16 addresses (`max_addresses`) the kernel makes none, and ours count.
pub(crate) const MAX_SETS: usize = 5;
/// Largest number of sets, with evicted ones whose addresses still exist, and before duplicates bring more: two for
/// each set.
pub(crate) const MAX_WITH_EVICTED: usize = 2 * MAX_SETS;
