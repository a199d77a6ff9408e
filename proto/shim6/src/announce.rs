use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::{Announcement, LocalProof};
use moorline_types::{Instant, Locator, LocatorPair, Locators, Ulid, UlidPair};
use moorline_wire::{LocatorPreference, LocatorPreferences, Opt};

use crate::consts::{DEFAULT_SEND_TIMEOUT, PREFERENCES_RETRIES_MAX};
use crate::context::{Takes, Told};
use crate::machine::Machine;

/// Extent of a message about ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wording {
    /// All locators and options.
    Whole,
    /// For peers that know no preferences, and that accept no list with signed locators besides the members of an HBA
    /// set.
    Plain,
}

impl Wording {
    /// Wording of a message that has gone out `sent` times before.
    pub(crate) fn after(sent: u32) -> Self {
        if sent <= u32::from(PREFERENCES_RETRIES_MAX) { Self::Whole } else { Self::Plain }
    }
}

/// The information about this host that peers receive.
impl Machine {
    /// Sets the locators that peers are told from now on, and tells the peers of our contexts at once. A proof of the
    /// present generation counts as the known proof.
    ///
    /// `usable` are the addresses that this host can send from. If the ULID is not among them, a context is established
    /// by another locator that the ULID proves. Messages that no address could send leave now.
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

    /// Addresses that this host could send from have gone. If a peer knows none of the others, this function tells it
    /// at once.
    pub fn set_lost(&mut self, lost: &[Locator], now: Instant) {
        let gone = self.usable.iter().filter(|locator| lost.contains(locator));
        let gone: Vec<_> = gone.copied().collect();
        self.usable.retain(|locator| !gone.contains(locator));
        self.tell_all(&[], &gone, now);
    }

    /// Whether this host can tell other locators to peers that know it by this address.
    #[must_use]
    pub fn is_provable(&self, ulid: Ulid) -> bool {
        self.local.as_ref().is_some_and(|proof| proof.announcement_for(ulid).is_some())
    }

    /// Sets the preferences for our locators that peers are told from now on. A locator that is not named is an
    /// ordinary one. A change costs an Update Request for each context. Peers that know no preferences, such as
    /// LinShim6, ignore messages with them, so they go only where they are needed.
    pub fn set_preferences(&mut self, preferences: &[(Locator, LocatorPreference)], now: Instant) {
        let mut new = preferences.to_vec();
        // A locator that was named before becomes ordinary explicitly, because peers keep the earlier preferences of a
        // list.
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

    /// An earlier run of this host has told preferences of these locators. From now on each of them is ordinary, unless
    /// it is named.
    pub fn succeed_to_preferences(&mut self, locators: &[Locator]) {
        for &locator in locators {
            let place = self.preferences.binary_search_by_key(&locator, |&(named, _)| named);
            if let Err(place) = place {
                self.preferences.insert(place, (locator, LocatorPreference::default()));
            }
        }
    }

    /// Changes our Send Timeout, and tells the peers (RFC 5534 s5.3).
    //= rfc5534#5.3-1
    pub fn set_send_timeout(&mut self, send_timeout: Duration, now: Instant) {
        if self.config.send_timeout != send_timeout {
            self.config.send_timeout = send_timeout;
            self.edition = self.edition.wrapping_add(1);
            self.update_all(now);
        }
    }

    /// Ls(local) of a context, the locators that its peer may see and use: all locators that the ULID proves, and
    /// always the ULID itself.
    pub(crate) fn locators_for(&self, ulid: Ulid) -> Locators {
        let proof = self.local.as_ref();
        proof.map_or_else(|| (&[ulid.as_locator()]).into(), |proof| proof.locators_for(ulid))
    }

    /// Ls(local) of a context whose peer takes this list.
    pub(crate) fn locators_that(&self, takes: Takes, ulid: Ulid) -> Locators {
        let is_plain = takes == Takes::Plain;
        let plain = is_plain.then(|| self.local.as_ref()?.plain_locators_for(ulid)).flatten();
        plain.unwrap_or_else(|| self.locators_for(ulid))
    }

    /// Whether there is a plain list, for peers that do not take the whole list.
    pub(crate) fn has_plain(&self, ulid: Ulid) -> bool {
        let plain = |proof: &LocalProof| proof.plain_announcement_for(ulid).is_some();
        self.local.as_ref().is_some_and(plain)
    }

    /// The content of a message sent now.
    pub(crate) fn telling(&self, ulid: Ulid) -> Told {
        Told { locators: self.locators_for(ulid), edition: self.edition }
    }

    /// The content that the peer knows if the message with `told` may have been a [plain](Wording::Plain) one. If the
    /// plain message said less, the result is outdated.
    pub(crate) fn plain(&self, told: Told, ulid: Ulid) -> Told {
        let is_some = |option: &Opt| matches!(option, Opt::LocatorPreferences(_));
        if self.has_plain(ulid) {
            let locators = self.locators_that(Takes::Plain, ulid);
            return Told { locators, ..told }.outdated();
        }
        if self.options_for(ulid, Wording::Whole, Takes::All).iter().any(is_some) {
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

    /// The pair of the first message between two ULIDs: the ULIDs themselves. If this host cannot send from its ULID,
    /// another locator that the ULID proves takes its place.
    pub(crate) fn first_pair(&self, ulids: UlidPair) -> LocatorPair {
        let pair = ulids.as_locators();
        if self.usable.is_empty() || self.usable.contains(&pair.local) {
            return pair;
        }
        let proved = self.locators_for(ulids.local);
        let other = proved.iter().find(|locator| self.usable.contains(locator));
        other.map_or(pair, |&local| LocatorPair { local, ..pair })
    }

    /// The list that a message in this wording has, for a peer that takes these lists. Two different lists have
    /// different generations, and a later list for a peer has a later one.
    fn announcement(&self, ulid: Ulid, wording: Wording, takes: Takes) -> Option<&Announcement> {
        let proof = self.local.as_ref()?;
        let is_again = takes.is_after_plain();
        let plain = match (wording, is_again) {
            (Wording::Whole, _) => None,
            (Wording::Plain, false) => proof.plain_announcement_for(ulid),
            (Wording::Plain, true) => proof.plain_announcement_again_for(ulid),
        };
        let whole = || {
            if is_again { proof.announcement_again_for(ulid) } else { proof.announcement_for(ulid) }
        };
        plain.or_else(whole)
    }

    /// The options of I2, I2bis, R2 and Update Request for our locators and Send Timeout. `takes`: the lists that the
    /// peer takes, as far as is known.
    //= rfc5533#7.6-1 rfc5534#5.3-2
    pub(crate) fn options_for(&self, ulid: Ulid, wording: Wording, takes: Takes) -> Vec<Opt> {
        let mut options = Vec::new();
        let is_whole = wording == Wording::Whole;
        if let Some(told) = self.announcement(ulid, wording, takes) {
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
    // "A node ... MUST" tell a Send Timeout other than the default. After a change the node also tells the default.
    //= rfc5534#5.3-1
    fn timeout_options(&self) -> Vec<Opt> {
        let send_timeout = self.config.send_timeout;
        let mut options = Vec::new();
        if send_timeout != DEFAULT_SEND_TIMEOUT || self.edition > 0 {
            let whole = send_timeout.as_secs() + u64::from(send_timeout.subsec_nanos() > 0);
            options.push(Opt::KeepaliveTimeout(u16::try_from(whole).unwrap_or(u16::MAX)));
        }
        // LinShim6 drops messages with options that it does not know. So this option goes out only if it says more than
        // the other one.
        if send_timeout.subsec_nanos() > 0 {
            let millis = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
            options.push(Opt::SendTimeoutMillis(millis));
        }
        options
    }
}
