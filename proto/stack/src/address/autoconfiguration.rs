//! Addresses in the prefixes of advertisements (RFC 4862 s5.5.3), and the link-local one (RFC 4862 s5.3).

use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::with_interface_id;
use moorline_ip::nd::PrefixInformation;
use moorline_types::{Instant, Prefix};

use super::entry::{Entry, in_prefix};
use super::{
    Addresses, LINK_LOCAL, Lifetimes, MAX_AUTOCONFIGURED, Mode, Origin, Output, interface_id,
};
use crate::Drop;
use crate::random::up_to;

/// The advertisement that brings a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Whether its destination is a group: other hosts may have got it too, so they should not all probe at once.
    pub is_multicast: bool,
    /// Whether the link-layer address of the router is known; without it no address is optimistic (RFC 4429 s3.3).
    pub knows_link_layer: bool,
}

/// A prefix in which the interface makes addresses.
#[derive(Clone, Debug)]
pub(super) struct Autoconfigured {
    /// The ends of the prefix, as last advertised.
    pub(super) advertised: Lifetimes,
    /// `DAD_Counter` (RFC 7217 s5).
    dad_counter: u8,
    /// Time of the next stable address after a duplicate.
    retry_at: Option<Instant>,
    /// Whether the tries for a stable address are over.
    is_failed: bool,
    /// Temporary addresses in a row that were duplicates.
    pub(super) temporary_duplicates: u8,
    /// No temporary address is made before this time, unless an advertisement comes.
    pub(super) temporary_after: Option<Instant>,
}

impl Autoconfigured {
    const fn new(advertised: Lifetimes) -> Self {
        Self {
            advertised,
            dad_counter: 0,
            retry_at: None,
            is_failed: false,
            temporary_duplicates: 0,
            temporary_after: None,
        }
    }

    /// Whether there is no stable address, but the state has to stay.
    const fn is_waiting(&self) -> bool {
        self.is_failed || self.retry_at.is_some()
    }

    /// Forgets that stable addresses were duplicates.
    const fn reset_stable(&mut self) {
        if self.is_failed {
            self.dad_counter = 0;
        }
        self.is_failed = false;
        self.retry_at = None;
    }

    /// Forgets failures: the interface has another chance at a link that it attaches to.
    pub(super) const fn reset(&mut self) {
        self.reset_stable();
        self.temporary_duplicates = 0;
        self.temporary_after = None;
    }
}

impl Addresses {
    /// Takes the Prefix Information options of an advertisement.
    ///
    /// # Errors
    /// The reason why the first of the refused options is refused: [`Drop::AdvertisementValue`] if RFC 4862 s5.5.3 ignores the option: the prefix is link-local, multicast, or has not 64 bits,
    /// or the preferred lifetime is greater than the valid lifetime. [`Drop::PrefixLimit`] at a limit.
    //= rfc8504#6.3-1
    //= rfc4862#5.5-2
    pub fn handle_prefixes<'a>(
        &mut self,
        options: impl IntoIterator<Item = &'a PrefixInformation>,
        cause: Cause,
        now: Instant,
    ) -> Result<(), Drop> {
        let mut result = Ok(());
        for information in options {
            result = result.and(self.handle_prefix(information, cause, now));
        }
        self.prune(now);
        result
    }

    fn handle_prefix(
        &mut self,
        information: &PrefixInformation,
        cause: Cause,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 4862 s5.5.3 a: "If the Autonomous flag is not set, silently ignore the Prefix Information option."
        if !information.autonomous || self.is_disabled || !self.is_up {
            return Ok(());
        }
        check(information)?;
        self.knows_router |= cause.knows_link_layer;
        if !self.config.makes_global {
            return Ok(());
        }
        let delay = if cause.is_multicast { self.config.dad_delay } else { Duration::ZERO };
        self.on_prefix(information, delay, now)
    }

    /// Makes room for the addresses of a new prefix, if there is none: the addresses of one prefix go that `is_kept` does not
    /// keep. Returns whether there was no room.
    pub fn make_room(&mut self, prefix: Prefix, is_kept: impl Fn(Prefix) -> bool) -> bool {
        let count = self.prefixes.keys().filter(|one| **one != LINK_LOCAL).count();
        let made = self.entries.values().filter(|entry| entry.origin.is_autoconfigured()).count();
        let has_room = count < MAX_PREFIXES && made < MAX_AUTOCONFIGURED;
        if has_room || self.prefixes.contains_key(&prefix) {
            return false;
        }
        let mut known = self.prefixes.keys().copied();
        let Some(victim) = known.find(|one| *one != LINK_LOCAL && !is_kept(*one)) else {
            return true;
        };
        let addresses: alloc::vec::Vec<_> = self
            .in_prefix(victim)
            .filter(|(_, entry)| entry.origin.is_autoconfigured())
            .map(|(address, _)| address)
            .collect();
        addresses.into_iter().for_each(|address| self.take_out(address));
        self.prefixes.remove(&victim);
        self.drops.count(Drop::PrefixLimit);
        true
    }

    //= rfc8981#3.4-1
    //= rfc4862#5.4.2-3
    fn on_prefix(
        &mut self,
        information: &PrefixInformation,
        delay: Duration,
        now: Instant,
    ) -> Result<(), Drop> {
        let PrefixInformation { prefix, preferred, valid, .. } = *information;
        let advertised = Lifetimes::from_now(preferred, valid, now);
        if let Some(state) = self.prefixes.get_mut(&prefix) {
            state.advertised = advertised;
            self.renew(information, now);
        } else if valid.is_zero() {
            return Ok(());
        } else if self.prefixes.keys().filter(|one| **one != LINK_LOCAL).count() >= MAX_PREFIXES {
            return Err(Drop::PrefixLimit);
        } else {
            self.prefixes.insert(prefix, Autoconfigured::new(advertised));
        }
        self.make_stable(prefix, Origin::Autoconfigured, delay, now)?;
        self.make_temporary(prefix, delay, now);
        Ok(())
    }

    /// Makes the link-local address, if there is none.
    pub(super) fn make_link_local(&mut self, now: Instant) {
        self.prefixes.entry(LINK_LOCAL).or_insert(Autoconfigured::new(Lifetimes::FOREVER));
        let result = self.make_stable(LINK_LOCAL, Origin::LinkLocal, self.config.dad_delay, now);
        self.count(result);
    }

    /// Makes a stable address in the prefix, unless there is one, or the next try has its time, or the tries are over.
    //= rfc7217#5-3
    fn make_stable(
        &mut self,
        prefix: Prefix,
        origin: Origin,
        delay: Duration,
        now: Instant,
    ) -> Result<(), Drop> {
        let Some(state) = self.prefixes.get(&prefix) else { return Ok(()) };
        let lifetimes = state.advertised;
        let is_there = self.in_prefix(prefix).any(|(_, entry)| entry.origin == origin);
        if is_there || state.is_waiting() || !lifetimes.is_valid(now) {
            return Ok(());
        }
        let Some(address) = self.find_stable(prefix) else {
            self.fail(prefix);
            return Ok(());
        };
        if self.entries.contains_key(&address) {
            return Ok(());
        }
        let entry = Entry::new(prefix.length(), origin, lifetimes, now);
        self.put_in(address, entry, delay, now)
    }

    /// The next stable address that can be tried. RFC 7217 s5: a reserved identifier, or one that is in use, counts as a
    /// duplicate.
    //= rfc8504#6.3-2
    //= rfc7217#5-1 rfc7217#5-16 rfc7217#5-17 rfc7217#6-7
    fn find_stable(&mut self, prefix: Prefix) -> Option<Ipv6Addr> {
        let Self { config, secret, entries, prefixes, .. } = self;
        let state = prefixes.get_mut(&prefix)?;
        if config.mode == Mode::Eui64 {
            // The caller may have given this address. Then it is not made again.
            return Some(with_interface_id(prefix.address(), config.mac.eui64()));
        }
        while state.dad_counter <= IDGEN_RETRIES {
            let id = interface_id::stable(prefix, config.mac, state.dad_counter, secret);
            let address = with_interface_id(prefix.address(), id);
            if !interface_id::is_reserved(id) && !entries.contains_key(&address) {
                return Some(address);
            }
            state.dad_counter += 1;
        }
        None
    }

    //= rfc7217#5-11 rfc7217#6-1 rfc7217#6-2 rfc7217#6-4
    //= rfc4862#5.4.5-4
    pub(super) fn on_stable_duplicate(&mut self, address: Ipv6Addr, now: Instant) {
        let prefix = Prefix::new(address, 64);
        if self.config.mode == Mode::Eui64 {
            // RFC 4862 s5.4.5: "IP operation on the interface SHOULD be disabled", as two nodes have the same MAC address.
            return if prefix == LINK_LOCAL { self.disable() } else { self.fail(prefix) };
        }
        let Some(state) = self.prefixes.get_mut(&prefix) else { return };
        state.dad_counter += 1;
        // RFC 7217 s6: "hosts MUST limit the number of tentative addresses that are tried".
        if state.dad_counter > IDGEN_RETRIES {
            self.fail(prefix);
        } else {
            state.retry_at = Some(now + up_to(&mut self.random, IDGEN_DELAY));
        }
    }

    /// Tries the next stable addresses that are due.
    pub(super) fn retry(&mut self, now: Instant) {
        let mut due = alloc::vec::Vec::new();
        for (prefix, state) in &mut self.prefixes {
            if state.retry_at.take_if(|at| *at <= now).is_some() {
                due.push(*prefix);
            }
        }
        for prefix in due {
            let is_link_local = prefix == LINK_LOCAL;
            let origin = if is_link_local { Origin::LinkLocal } else { Origin::Autoconfigured };
            let result = self.make_stable(prefix, origin, Duration::ZERO, now);
            self.count(result);
        }
    }

    /// Sets the ends of the addresses in a prefix that was advertised again (RFC 4862 s5.5.3 e).
    fn renew(&mut self, information: &PrefixInformation, now: Instant) {
        let in_prefix = self.entries.iter_mut().filter(|(address, entry)| {
            entry.origin.is_autoconfigured() && information.prefix.contains(**address)
        });
        for (address, entry) in in_prefix {
            let PrefixInformation { preferred, valid, .. } = *information;
            let mut renewed = Lifetimes::from_now(preferred, valid, now);
            renewed.valid = renew_valid(entry.lifetimes.valid, valid, renewed.valid, now);
            entry.lifetimes = renewed.bounded(entry.bounds);
            self.outputs.extend(entry.update_deprecation(*address, now));
        }
    }

    /// Removes prefixes without addresses, and arms the timers anew.
    pub(super) fn prune(&mut self, now: Instant) {
        let entries = &self.entries;
        self.prefixes.retain(|prefix, state| {
            if !state.advertised.is_valid(now) {
                state.reset_stable();
            }
            let mut here = in_prefix(entries, *prefix);
            state.is_waiting() || here.any(|(_, entry)| entry.origin.is_autoconfigured())
        });
        self.rearm();
    }

    pub(super) fn timers_of(
        &self,
        prefix: Prefix,
        state: &Autoconfigured,
    ) -> impl Iterator<Item = Instant> + use<> {
        let end = state.advertised.valid.filter(|_| state.is_waiting());
        [state.retry_at, end, self.regeneration(prefix, state)].into_iter().flatten()
    }

    pub(super) fn count(&mut self, result: Result<(), Drop>) {
        if let Err(reason) = result {
            self.drops.count(reason);
        }
    }

    fn fail(&mut self, prefix: Prefix) {
        if let Some(state) = self.prefixes.get_mut(&prefix) {
            state.is_failed = true;
            self.outputs.push_back(Output::Failed(prefix));
        }
    }
}

/// RFC 4862 s5.5.3, steps b to d.
//= rfc4862#5.5.3-1 rfc4862#5.5.3-2 rfc4862#5.5.3-3
//= rfc4861#4.6.2-5 rfc4861#4.6.2-10
fn check(information: &PrefixInformation) -> Result<(), Drop> {
    let PrefixInformation { prefix, preferred, valid, .. } = *information;
    let address = prefix.address();
    let is_bad = address.is_unicast_link_local()
        || preferred > valid
        // "If the sum of the prefix length and interface identifier length does not equal 128 bits, the Prefix Information
        // option MUST be ignored."
        || prefix.length() != 64
        // The prefix of the unspecified address, of the loopback address, and of IPv4.
        || address.is_multicast()
        || address.is_unspecified();
    if is_bad { Err(Drop::AdvertisementValue) } else { Ok(()) }
}

/// The new end of an address whose prefix is advertised with this valid lifetime, which ends at `advertised`. No advertisement
/// is authenticated here.
fn renew_valid(
    current: Option<Instant>,
    valid: Duration,
    advertised: Option<Instant>,
    now: Instant,
) -> Option<Instant> {
    let remaining = current.map_or(Duration::MAX, |end| end.since(now));
    if valid > TWO_HOURS || valid > remaining {
        return advertised;
    }
    if remaining <= TWO_HOURS { current } else { Some(now + TWO_HOURS) }
}

/// Shortest time to which an advertisement can shorten the life of an address (RFC 4862 s5.5.3 e). Not configurable.
pub const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
/// Largest number of prefixes in which the interface makes addresses, besides the link-local one. Not configurable.
pub const MAX_PREFIXES: usize = 32;
/// RFC 7217 s7. Not configurable.
//= rfc7217#6-3
pub(super) const IDGEN_RETRIES: u8 = 3;
/// RFC 7217 s7. Not configurable.
pub(super) const IDGEN_DELAY: Duration = Duration::from_secs(1);
