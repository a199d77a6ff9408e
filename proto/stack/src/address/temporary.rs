//! Temporary addresses (RFC 8981).

use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::with_interface_id;
use moorline_types::{Instant, Prefix};
use rand_core::RngCore as _;

use super::autoconfiguration::Autoconfigured;
use super::entry::Entry;
use super::{Addresses, LINK_LOCAL, Lifetimes, Mode, Origin, Output, interface_id};
use crate::random::up_to;

/// Lifetimes of temporary addresses (RFC 8981 s3.8).
//= rfc8981#3.6-3 rfc8981#3.6-4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporaryLifetimes {
    /// `TEMP_PREFERRED_LIFETIME`; smaller than the other one.
    pub preferred: Duration,
    /// `TEMP_VALID_LIFETIME`.
    pub valid: Duration,
}

impl TemporaryLifetimes {
    /// A day, and two.
    pub const DEFAULT: Self = Self { preferred: DAY, valid: Duration::from_secs(2 * 24 * 60 * 60) };
}

impl Addresses {
    /// Makes a temporary address in the prefix, unless there is one for a while yet.
    //= rfc8504#6.4-1
    //= rfc8981#3.4-2 rfc8981#3.4-4 rfc8981#3.4-5 rfc8981#3.4-10 rfc8981#3.5-2
    //= rfc7217#5-2
    pub(super) fn make_temporary(&mut self, prefix: Prefix, delay: Duration, now: Instant) {
        let Some(state) = self.prefixes.get(&prefix) else { return };
        let is_wanted = self.config.mode == Mode::Temporary
            && prefix != LINK_LOCAL
            && state.temporary_duplicates <= TEMP_IDGEN_RETRIES;
        let soon = Some(now + self.regen_advance());
        if !is_wanted || self.newest(prefix).is_some_and(|newest| is_later(newest, soon)) {
            return;
        }
        let advertised = state.advertised;
        let bounds = self.draw_bounds(now);
        let lifetimes = advertised.bounded(bounds);
        // RFC 8981 s3.4, step 5: "A temporary address is created only if this calculated preferred lifetime is greater than
        // REGEN_ADVANCE time units."
        let result = match self.draw_address(prefix) {
            Some(address) if is_later(lifetimes.preferred, soon) => {
                let mut entry = Entry::new(prefix.length(), Origin::Temporary, lifetimes, now);
                entry.bounds = bounds;
                self.put_in(address, entry, delay, now)
            }
            _ => return self.postpone(prefix, now),
        };
        if result.is_err() {
            self.postpone(prefix, now);
        }
        self.count(result);
    }

    /// Makes the temporary addresses that are due (RFC 8981 s3.5).
    //= rfc8981#3.5-1 rfc8981#3.6-1 rfc8981#3.6-2
    pub(super) fn regenerate(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let prefixes = self.prefixes.iter();
        let due = prefixes.filter(|(prefix, state)| is_due(self.regeneration(**prefix, state)));
        let due: alloc::vec::Vec<_> = due.map(|(prefix, _)| *prefix).collect();
        due.into_iter().for_each(|prefix| self.make_temporary(prefix, Duration::ZERO, now));
    }

    /// When the next temporary address of the prefix is due.
    //= rfc8981#3.5-3
    pub(super) fn regeneration(&self, prefix: Prefix, state: &Autoconfigured) -> Option<Instant> {
        let due = self.newest(prefix)?? - self.regen_advance();
        let due = state.temporary_after.map_or(due, |after| due.max(after));
        // If the prefix ends before a new address would be of use, the next advertisement decides.
        let is_of_use = is_later(state.advertised.preferred, Some(due + self.regen_advance()));
        let is_failed = state.temporary_duplicates > TEMP_IDGEN_RETRIES;
        (is_of_use && !is_failed).then_some(due)
    }

    /// RFC 8981 s3.4, step 7: another identifier, up to `TEMP_IDGEN_RETRIES` times.
    //= rfc8981#3.4-8 rfc8981#3.4-9
    pub(super) fn on_temporary_duplicate(&mut self, address: Ipv6Addr, now: Instant) {
        let prefix = Prefix::new(address, 64);
        let Some(state) = self.prefixes.get_mut(&prefix) else { return };
        state.temporary_duplicates += 1;
        if state.temporary_duplicates > TEMP_IDGEN_RETRIES {
            self.outputs.push_back(Output::Failed(prefix));
        } else {
            self.make_temporary(prefix, Duration::ZERO, now);
        }
    }

    pub(super) fn on_temporary_ready(&mut self, address: Ipv6Addr) {
        if let Some(state) = self.prefixes.get_mut(&Prefix::new(address, 64)) {
            state.temporary_duplicates = 0;
        }
    }

    /// The latest end for new connections among the temporary addresses of the prefix; `None` if there are none.
    fn newest(&self, prefix: Prefix) -> Option<Option<Instant>> {
        let in_prefix = self.in_prefix(prefix);
        let temporary = in_prefix.filter(|(_, entry)| entry.origin == Origin::Temporary);
        let ends = temporary.map(|(_, entry)| entry.lifetimes.preferred);
        ends.reduce(|one, other| if is_later(one, other) { one } else { other })
    }

    /// The ends that an address made now never outlives. RFC 8981 s3.4, step 4: `DESYNC_FACTOR` is computed for each address.
    //= rfc8981#3.4-3 rfc8981#3.8-1 rfc8981#3.8-2
    pub(super) fn draw_bounds(&mut self, now: Instant) -> Lifetimes {
        let TemporaryLifetimes { preferred, valid } = self.config.temporary;
        // RFC 8981 s3.8: "TEMP_PREFERRED_LIFETIME value MUST be smaller than the TEMP_VALID_LIFETIME value".
        let preferred = preferred.min(valid.saturating_sub(Duration::from_secs(1)));
        // RFC 8981 s3.8: DESYNC_FACTOR "MUST be smaller than (TEMP_PREFERRED_LIFETIME - REGEN_ADVANCE)".
        let most = preferred.saturating_sub(self.regen_advance() + Duration::from_secs(1));
        let desync = up_to(&mut self.random, (preferred / 5 * 2).min(most));
        Lifetimes::from_now(preferred.saturating_sub(desync), valid, now)
    }

    //= rfc8981#3.3.1-1 rfc8981#3.4-6
    pub(super) fn draw_address(&mut self, prefix: Prefix) -> Option<Ipv6Addr> {
        let Self { random, entries, .. } = self;
        (0..DRAWS).find_map(|_| {
            let id = random.next_u64().to_be_bytes();
            let address = with_interface_id(prefix.address(), id);
            let is_good = !interface_id::is_reserved(id) && !entries.contains_key(&address);
            is_good.then_some(address)
        })
    }

    /// No address could be made: the next try has to wait.
    fn postpone(&mut self, prefix: Prefix, now: Instant) {
        if let Some(state) = self.prefixes.get_mut(&prefix) {
            state.temporary_after = Some(now + POSTPONED);
        }
    }

    /// RFC 8981 s3.8: 2 + (`TEMP_IDGEN_RETRIES` * `DupAddrDetectTransmits` * `RetransTimer` / 1000) seconds.
    //= rfc8981#3.5-4
    pub(super) fn regen_advance(&self) -> Duration {
        let probes = u32::from(TEMP_IDGEN_RETRIES) * u32::from(self.config.dad_transmits);
        Duration::from_secs(2) + self.retrans_timer * probes
    }
}

/// Whether an end is later than another one; `None` is never.
fn is_later(one: Option<Instant>, other: Option<Instant>) -> bool {
    match (one, other) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(one), Some(other)) => one > other,
    }
}

/// RFC 8981 s3.8. Not configurable.
pub(super) const TEMP_IDGEN_RETRIES: u8 = 3;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time until the next try if there was no room for a temporary address.
pub(super) const POSTPONED: Duration = Duration::from_secs(60);
/// Identifiers that are drawn at a time, of which one will be good.
const DRAWS: u8 = 4;
