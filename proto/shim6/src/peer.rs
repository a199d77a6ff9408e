use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::LocatorClaim;
use moorline_types::{DropReason, FEW_LOCATORS, Locator, Locators, Ulid};
use moorline_wire::{
    ErrorCode, LocatorEntry, LocatorList, LocatorPreference, LocatorPreferences, MessageType,
    Options, VerificationMethod,
};
use serde::{Deserialize, Serialize};

use crate::consts::{DEFAULT_SEND_TIMEOUT, MAX_LOCATORS};
use crate::event::Incoming;
use crate::machine::Machine;

/// The verified data that a peer has sent about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerSet {
    /// Ls(peer): the peer's list in its order, and then the ULID if the list lacks it.
    pub locators: Locators,
    /// Number of locators in the list. Locator Preferences refer to them.
    pub listed: u8,
    /// Number of locators at the begin of the list that a signature proves. The others are members of the ULID's HBA set.
    #[serde(skip)]
    pub signed: u8,
    /// Generation of the list. `None`: the peer has sent no list.
    pub generation: Option<u32>,
    /// Send Timeout of the peer: the time for which this host owes keepalives (RFC 5534 s5.3).
    pub send_timeout: Millis,
    /// The peer's preferences for its locators, in their order. Empty: the peer has stated none.
    pub preferences: Preferences,
    /// Whether the peer has lost its ULID: its list came from another locator and does not name the ULID.
    #[serde(skip)]
    pub has_lost_ulid: bool,
}

/// A peer's preferences for its locators. Few peers state any, so a value without preferences takes one word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<LocatorPreference>", into = "Vec<LocatorPreference>")]
pub struct Preferences(Option<Box<Box<[LocatorPreference]>>>);

impl Preferences {
    /// Whether the peer has stated none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Takes the preferences in the order of the message, or of [`iter`](Self::iter).
    #[must_use]
    pub fn new(all: &[LocatorPreference]) -> Self {
        Self((!all.is_empty()).then(|| Box::new(all.into())))
    }

    /// In the order of the locators.
    pub fn iter(&self) -> impl Iterator<Item = LocatorPreference> + '_ {
        self.0.iter().flat_map(|said| said.iter().copied())
    }

    fn get(&self, index: usize) -> Option<LocatorPreference> {
        self.0.as_ref()?.get(index).copied()
    }
}

/// A duration in milliseconds, the finest unit that a peer can name. It takes a quarter of the room of a `Duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Millis(u32);

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Self(u32::try_from(duration.as_millis()).unwrap_or(u32::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(u64::from(millis.0))
    }
}

impl From<Vec<LocatorPreference>> for Preferences {
    fn from(all: Vec<LocatorPreference>) -> Self {
        Self::new(&all)
    }
}

impl From<Preferences> for Vec<LocatorPreference> {
    fn from(preferences: Preferences) -> Self {
        preferences.iter().collect()
    }
}

impl PeerSet {
    /// A peer that has sent nothing about itself.
    #[must_use]
    pub fn of_ulid(ulid: Ulid) -> Self {
        Self {
            locators: (&[ulid.as_locator()]).into(),
            listed: 0,
            signed: 0,
            generation: None,
            send_timeout: DEFAULT_SEND_TIMEOUT.into(),
            preferences: Preferences::default(),
            has_lost_ulid: false,
        }
    }

    /// The peer's preference for a locator. A ULID that the peer has lost is broken.
    #[must_use]
    pub fn preference_of(&self, locator: Locator) -> LocatorPreference {
        let Some(index) = self.locators.iter().position(|known| *known == locator) else {
            return LocatorPreference::default();
        };
        if self.has_lost_ulid && index + 1 == self.locators.len() {
            return LocatorPreference { flags: LocatorPreference::BROKEN, ..Default::default() };
        }
        self.preferences.get(index).unwrap_or_default()
    }

    /// Whether the peer has stated a preference, or has lost its ULID.
    #[must_use]
    pub fn has_preferences(&self) -> bool {
        !self.preferences.is_empty() || self.has_lost_ulid
    }

    /// The locators in the order in which they are tried. If there are many, the members of the HBA set come before signed
    /// locators: the set is of the prefixes that the peer had first. A list whose order stays is shared, not copied.
    #[must_use]
    pub fn oldest_first(&self) -> Locators {
        if self.signed == 0 || self.locators.len() <= FEW_LOCATORS {
            return self.locators.clone();
        }
        let mut locators = self.locators.to_vec();
        let signed = usize::from(self.signed).min(locators.len());
        locators.rotate_left(signed);
        locators.into()
    }

    fn take_list(
        &mut self,
        list: &LocatorList,
        locators: impl ExactSizeIterator<Item = Locator>,
        ulid: Ulid,
    ) {
        self.generation = Some(list.generation);
        let is_signed = |entry: &&LocatorEntry| entry.method == VerificationMethod::CGA;
        let signed = list.entries.iter().take_while(is_signed).count();
        self.signed = u8::try_from(signed).unwrap_or(u8::MAX);
        self.listed = u8::try_from(locators.len()).unwrap_or(u8::MAX);
        let mut locators: Vec<_> = locators.collect();
        if !locators.contains(&ulid.as_locator()) {
            // The list is full and lacks the ULID, because the prefix of the ULID is gone. The last locator makes room.
            locators.truncate(MAX_LOCATORS - 1);
            locators.push(ulid.as_locator());
        }
        self.locators = locators.into();
    }

    /// Whether a list without a signature takes locators away. Any host that was on the path once can have made such a
    /// list (decision 096).
    pub(crate) fn is_shortened_unsigned_by(&self, list: &LocatorList, ulid: Ulid) -> bool {
        let claim = LocatorClaim { ulid, pds: &[], list: Some(list), signature: None };
        let is_named = |known| list.entries.iter().any(|entry| entry.locator == known);
        let mut listed = self.locators.iter().take(usize::from(self.listed));
        !claim.needs_signature() && !listed.all(|known| is_named(*known))
    }

    /// The set after a repetition of the list. `None`: the locators differ from the verified list of this generation.
    /// Nobody has verified the methods of the repetition.
    pub(crate) fn confirmed_by(&self, list: &LocatorList, ulid: Ulid) -> Option<Self> {
        let mut same = self.clone();
        same.take_list(list, list.entries.iter().map(|entry| entry.locator), ulid);
        same.signed = self.signed;
        (same.locators == self.locators).then_some(same)
    }

    /// Takes preferences over. On error gives the code of the Error to send (RFC 5533 s10.4).
    pub(crate) fn prefer(&mut self, preferences: &LocatorPreferences) -> Result<(), ErrorCode> {
        //= rfc5533#10.4
        if self.generation != Some(preferences.generation) {
            return Err(ErrorCode::GENERATION);
        }
        if preferences.iter().len() != usize::from(self.listed) {
            return Err(ErrorCode::LOCATOR_COUNT);
        }
        let all: Vec<_> = preferences.iter().take(self.locators.len()).collect();
        self.preferences = Preferences::new(&all);
        Ok(())
    }
}

impl Machine {
    /// Reads and verifies the locator list and parameters of a peer (RFC 5533 s7.2). Cheap checks come first. A
    /// signature comes last, and only as often as the limit for its source allows.
    pub(crate) fn verify_peer(
        &mut self,
        ulid: Ulid,
        options: &Options,
        came: &Incoming<'_>,
    ) -> Result<PeerSet, DropReason> {
        let mut peer = PeerSet::of_ulid(ulid);
        peer.send_timeout = peer_send_timeout(options).unwrap_or(peer.send_timeout);
        let list = options.locator_list();
        let pds = match (options.pds(), list) {
            (Some(pds), _) => pds.to_vec(),
            (None, Some(_)) => {
                self.parameters.recall(ulid).ok_or(DropReason::MissingOption)?.to_vec()
            }
            (None, None) => return Ok(peer),
        };
        // An HBA can be made under any prefix. An address that is not global unicast is no locator.
        let entries = list.map_or(&[][..], |list| &list.entries);
        let wrong = entries.iter().position(|entry| !entry.locator.is_global_unicast());
        if wrong.is_some() {
            self.complain_of_list(came, None, wrong);
            return Err(DropReason::BadAddress);
        }
        //= rfc5533#7.13
        //= rfc5533#7.2-1 rfc5533#7.2-2 rfc5533#7.13-3 rfc5533#7.13-4 rfc5533#7.13-6 rfc5533#7.13-8
        //= rfc5533#7.16-2 rfc5533#7.16-3 rfc5533#7.20-3 rfc5533#7.20-5 rfc5533#7.20-7
        //= rfc5533#7.20-9 rfc5533#10.4-4
        // A claim without a list still tells whether the parameters belong to the ULID.
        let claim = LocatorClaim { ulid, pds: &pds, list, signature: options.cga_signature() };
        let verified = match claim.check() {
            Ok(hashes) => {
                if hashes.needs_signature() {
                    self.signatures.take(came.locators.peer.prefix(), came.now)?;
                }
                hashes.verify_signature()
            }
            Err(error) => Err(error),
        };
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => {
                // RFC 5533 s10.4: parameters that do not belong to ULID(peer) are "silently discarded".
                let is_of_ulid = LocatorClaim { list: None, ..claim }.check().is_ok();
                let failed = claim.unverified(error).filter(|_| is_of_ulid);
                self.complain_of_list(came, claim.inconsistent_method(error), failed);
                return Err(error.into());
            }
        };
        self.parameters.remember(&verified);
        if let Some(list) = list {
            peer.take_list(list, verified.locators().iter().copied(), ulid);
            let is_named = list.entries.iter().any(|entry| entry.locator == ulid.as_locator());
            peer.has_lost_ulid = !is_named && came.locators.peer != ulid.as_locator();
        }
        Ok(peer)
    }
}

impl Machine {
    /// Sends an Error of code 2. A method that does not match the parameters causes the Error in any message with the
    /// list (s7.2). A list that cannot be verified causes it in an Update Request (s10.4), and in an R2, of which s7.16
    /// does not say what becomes. The pointer is then the method of the locator at `failed`.
    //= rfc5533#7.2
    //= rfc5533#7.2-5
    fn complain_of_list(
        &mut self,
        came: &Incoming<'_>,
        inconsistent: Option<usize>,
        failed: Option<usize>,
    ) {
        //= rfc5533#10.4
        let failed = failed.filter(|_| {
            matches!(came.packet.kind(), MessageType::UPDATE_REQUEST | MessageType::R2)
        });
        if let Some(index) = inconsistent.or(failed)
            && let Some(pointer) = came.packet.verification_method_offset(index)
        {
            self.complain(came, ErrorCode::VERIFICATION_METHOD, pointer);
        }
    }
}

/// Send Timeout of the peer (RFC 5534 s5.3). The private option for fractions of a second takes precedence.
pub(crate) fn peer_send_timeout(options: &Options) -> Option<Millis> {
    //= rfc5534#5.3
    //= rfc5534#5.3-4
    match (options.send_timeout_millis(), options.keepalive_timeout()) {
        (Some(millis), _) if millis > 0 => Some(Millis(millis)),
        (_, Some(seconds)) if seconds > 0 => Some(Millis(u32::from(seconds) * 1000)),
        _ => None,
    }
}
