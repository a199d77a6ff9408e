use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::LocalProof;
use moorline_types::{Instant, Locator, LocatorPair, Locators, Ulid, UlidPair};
use moorline_wire::{LocatorPreference, LocatorPreferences, Opt};

use crate::consts::{DEFAULT_SEND_TIMEOUT, PREFERENCES_RETRIES_MAX};
use crate::context::{Takes, Told};
use crate::machine::Machine;

/// How much a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// All there is.
    Whole,
    /// What peers take that know no preferences, and no list with signed locators besides those of an HBA set.
    Plain,
}

impl Wording {
    /// Of a message that went out so often before.
    pub(crate) fn after(sent: u32) -> Self {
        if sent <= u32::from(PREFERENCES_RETRIES_MAX) { Self::Whole } else { Self::Plain }
    }
}

/// What peers are told of us.
impl Machine {
    /// What to tell peers about ourselves from now on, and those of our contexts at once: a proof of
    /// the present generation is taken for the one that is there.
    ///
    /// And the addresses that can be sent from: where the ULID is not one of them, a context is established by another that the ULID proves. What could not be sent
    /// while there was no address to send it from is sent now.
    pub fn set_addresses(&mut self, proof: &LocalProof, usable: &[Locator], now: Instant) {
        let is_new = |locator: &&Locator| !self.usable.contains(locator);
        let gained: Vec<_> = usable.iter().filter(is_new).copied().collect();
        let lost = self.usable.iter().filter(|locator| !usable.contains(locator));
        let lost: Vec<_> = lost.copied().collect();
        self.usable = usable.to_vec();
        let is_known =
            self.local.as_ref().is_some_and(|known| known.generation() == proof.generation());
        if !is_known {
            self.local = Some(proof.clone());
        }
        if !gained.is_empty() {
            self.resume_handshakes(now);
        }
        if !is_known {
            self.mark_retold();
        }
        if !is_known || !gained.is_empty() || !lost.is_empty() {
            self.tell_all(&gained, &lost, now);
        }
    }

    /// Addresses that can be sent from have gone. A peer that knows none of the others is told of them at once.
    pub fn set_lost(&mut self, lost: &[Locator], now: Instant) {
        let gone = self.usable.iter().filter(|locator| lost.contains(locator));
        let gone: Vec<_> = gone.copied().collect();
        self.usable.retain(|locator| !gone.contains(locator));
        self.tell_all(&[], &gone, now);
    }

    /// Whether peers that know us by this address can be told others.
    #[must_use]
    pub fn is_provable(&self, ulid: Ulid) -> bool {
        self.local.as_ref().is_some_and(|proof| proof.announcement_for(ulid).is_some())
    }

    /// What to tell peers about our locators from now on; locators that are not named are as any
    /// other. Costs an Update Request for each context, and peers that know no preferences, such as
    /// LinShim6, ignore messages with them: only where they are needed.
    pub fn set_preferences(&mut self, preferences: &[(Locator, LocatorPreference)], now: Instant) {
        let mut new = preferences.to_vec();
        // What was named before is called ordinary: peers keep what they were told of a list.
        for (locator, _) in &self.preferences {
            if !new.iter().any(|(named, _)| named == locator) {
                new.push((*locator, LocatorPreference::default()));
            }
        }
        new.sort_unstable_by_key(|(locator, _)| *locator);
        if self.preferences != new {
            self.preferences = new;
            self.edition = self.edition.wrapping_add(1);
            self.update_all(now);
        }
    }

    /// Whether peers may have been told preferences.
    #[must_use]
    pub fn has_told_preferences(&self) -> bool {
        !self.preferences.is_empty()
    }

    /// An earlier run of this host has told preferences of these locators: those that are not named are called
    /// ordinary from now on.
    pub fn succeed_to_preferences(&mut self, locators: &[Locator]) {
        for &locator in locators {
            let place = self.preferences.binary_search_by_key(&locator, |&(named, _)| named);
            if let Err(place) = place {
                self.preferences.insert(place, (locator, LocatorPreference::default()));
            }
        }
    }

    /// Our Send Timeout from now on; peers are told (RFC 5534 s5.3).
    //= rfc5534#5.3-1
    pub fn set_send_timeout(&mut self, send_timeout: Duration, now: Instant) {
        if self.config.send_timeout != send_timeout {
            self.config.send_timeout = send_timeout;
            self.edition = self.edition.wrapping_add(1);
            self.update_all(now);
        }
    }

    /// Ls(local) of a context, what its peer may be sent from and to: all that the ULID proves, and
    /// always the ULID itself.
    pub(crate) fn locators_for(&self, ulid: Ulid) -> Locators {
        let proof = self.local.as_ref();
        proof.map_or_else(|| (&[ulid.as_locator()]).into(), |proof| proof.locators_for(ulid))
    }

    /// The same of a context whose peer takes this.
    pub(crate) fn locators_that(&self, takes: Takes, ulid: Ulid) -> Locators {
        let is_plain = takes == Takes::Plain;
        let plain = is_plain.then(|| self.local.as_ref()?.plain_locators_for(ulid)).flatten();
        plain.unwrap_or_else(|| self.locators_for(ulid))
    }

    /// Whether there is a list for peers that do not take the whole one.
    pub(crate) fn has_plain(&self, ulid: Ulid) -> bool {
        let plain = |proof: &LocalProof| proof.plain_announcement_for(ulid).is_some();
        self.local.as_ref().is_some_and(plain)
    }

    /// What the options of a message sent now tell.
    pub(crate) fn telling(&self, ulid: Ulid) -> Told {
        Told { locators: self.locators_for(ulid), edition: self.edition }
    }

    /// The same if the message that told it may have been a [plain](Wording::Plain) one: then there is more to tell.
    pub(crate) fn plain(&self, told: Told, ulid: Ulid) -> Told {
        let is_some = |option: &Opt| matches!(option, Opt::LocatorPreferences(_));
        if self.has_plain(ulid) {
            let locators = self.locators_that(Takes::Plain, ulid);
            return Told { locators, ..told }.outdated();
        }
        if self.options_for(ulid, Wording::Whole).iter().any(is_some) {
            told.outdated()
        } else {
            told
        }
    }

    /// Whether the ULID is an address of this host.
    pub(crate) fn is_ours(&self, ulid: Ulid) -> bool {
        let is_present =
            |proof: &LocalProof| proof.addresses().present.contains(&ulid.as_locator());
        self.local.as_ref().is_some_and(is_present) || self.is_provable(ulid)
    }

    /// The pair that the first message between two ULIDs takes: they themselves, or if ours cannot be
    /// sent from, another locator that it proves.
    pub(crate) fn first_pair(&self, ulids: UlidPair) -> LocatorPair {
        let pair = ulids.as_locators();
        if self.usable.is_empty() || self.usable.contains(&pair.local) {
            return pair;
        }
        let proved = self.locators_for(ulids.local);
        let other = proved.iter().find(|locator| self.usable.contains(locator));
        other.map_or(pair, |&local| LocatorPair { local, ..pair })
    }

    /// The options of I2, I2bis, R2 and Update Request that tell our locators and Send Timeout.
    //= rfc5533#7.6-1 rfc5534#5.3-2
    pub(crate) fn options_for(&self, ulid: Ulid, wording: Wording) -> Vec<Opt> {
        let mut options = Vec::new();
        let is_whole = wording == Wording::Whole;
        let told = self.local.as_ref().and_then(|proof| {
            let plain = proof.plain_announcement_for(ulid).filter(|_| !is_whole);
            plain.or(proof.announcement_for(ulid))
        });
        if let Some(told) = told {
            options = told.options();
            let list = told.list();
            let of = |locator| {
                let known = self.preferences.iter().find(|(known, _)| *known == locator);
                known.map(|(_, preference)| *preference)
            };
            let preferences: Vec<_> = list.entries.iter().map(|e| of(e.locator)).collect();
            if is_whole && preferences.iter().any(Option::is_some) {
                //= rfc5533#10.1
                let all: Vec<_> = preferences.iter().map(|p| p.unwrap_or_default()).collect();
                let preferences = LocatorPreferences::new(list.generation, &all);
                options.push(Opt::LocatorPreferences(preferences));
            }
        }
        options.extend(self.timeout_options());
        options
    }

    //= rfc5534#5.3
    // "A node ... MUST" tell a Send Timeout other than the default; and that it is again the default.
    //= rfc5534#5.3-1
    fn timeout_options(&self) -> Vec<Opt> {
        let send_timeout = self.config.send_timeout;
        let mut options = Vec::new();
        if send_timeout != DEFAULT_SEND_TIMEOUT || self.edition > 0 {
            let whole = send_timeout.as_secs() + u64::from(send_timeout.subsec_nanos() > 0);
            options.push(Opt::KeepaliveTimeout(u16::try_from(whole).unwrap_or(u16::MAX)));
        }
        // LinShim6 drops messages with options it does not know: only when it says more.
        if send_timeout.subsec_nanos() > 0 {
            let millis = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
            options.push(Opt::SendTimeoutMillis(millis));
        }
        options
    }
}
