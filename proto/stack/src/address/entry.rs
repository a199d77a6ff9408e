use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::nd::FOREVER;
use moorline_types::{Instant, Prefix};

use super::{Detection, Output};

/// How an address has come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The link-local address that the interface has made.
    LinkLocal,
    /// Made in a prefix of an advertisement.
    Autoconfigured,
    /// A temporary address (RFC 8981).
    Temporary,
    /// Given by the caller, made by a hash function: an HBA or CGA.
    Generated,
    /// Given by the caller.
    Manual,
}

/// State of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Detection has not ended: the address is not assigned.
    Tentative,
    /// Detection has not ended, but the address can be used (RFC 4429).
    Optimistic,
    /// Assigned, for all connections.
    Preferred,
    /// Assigned, but not for new connections.
    Deprecated,
}

/// Ends of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// End of its use for new connections; `None` if that has no end.
    pub preferred: Option<Instant>,
    /// End of the address; `None` if it has no end.
    pub valid: Option<Instant>,
}

/// An address, with all that source selection and users want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix.
    pub prefix_len: u8,
    /// How it has come to be.
    pub origin: Origin,
    /// Its state.
    pub state: State,
    /// Its ends.
    pub lifetimes: Lifetimes,
    /// Time when it was added.
    pub created: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) prefix_len: u8,
    pub(super) origin: Origin,
    pub(super) lifetimes: Lifetimes,
    created: Instant,
    /// The ends that a temporary address never outlives.
    pub(super) bounds: Lifetimes,
    is_deprecated: bool,
    pub(super) detection: Detection,
    pub(super) is_optimistic: bool,
    /// Whether the caller wants the address to be optimistic whatever the settings say.
    pub(super) may_be_optimistic: bool,
    /// Whether the solicited-node group is joined.
    pub(super) is_joined: bool,
    /// Nonces of the last probes.
    pub(super) nonces: Vec<[u8; 6]>,
}

impl Origin {
    /// Whether the interface has made the address itself.
    #[must_use]
    pub const fn is_autoconfigured(self) -> bool {
        matches!(self, Self::LinkLocal | Self::Autoconfigured | Self::Temporary)
    }
}

impl State {
    /// Whether packets to and from the address are in order.
    //= rfc4862#5.5.4-1
    #[must_use]
    pub const fn is_assigned(self) -> bool {
        !matches!(self, Self::Tentative)
    }
}

impl Lifetimes {
    /// No ends.
    pub const FOREVER: Self = Self { preferred: None, valid: None };

    /// The ends that these times have if they begin now. [`FOREVER`] has none.
    #[must_use]
    pub fn from_now(preferred: Duration, valid: Duration, now: Instant) -> Self {
        let end = |time: Duration| (time != FOREVER).then(|| now + time);
        Self { preferred: end(preferred), valid: end(valid) }
    }

    /// Whether the address can still be used.
    #[must_use]
    pub fn is_valid(&self, now: Instant) -> bool {
        self.valid.is_none_or(|end| end > now)
    }

    /// Whether the address is for new connections.
    #[must_use]
    pub fn is_preferred(&self, now: Instant) -> bool {
        self.preferred.is_none_or(|end| end > now)
    }

    /// The earlier ends of both.
    pub(super) fn bounded(self, bounds: Self) -> Self {
        Self {
            preferred: earlier(self.preferred, bounds.preferred),
            valid: earlier(self.valid, bounds.valid),
        }
    }
}

impl Address {
    /// Whether the address is a temporary one (RFC 6724 s5, rule 7).
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self.origin, Origin::Temporary)
    }
}

impl Entry {
    pub(super) fn new(prefix_len: u8, origin: Origin, lifetimes: Lifetimes, now: Instant) -> Self {
        Self {
            prefix_len,
            origin,
            lifetimes,
            created: now,
            bounds: Lifetimes::FOREVER,
            is_deprecated: !lifetimes.is_preferred(now),
            detection: Detection::Down,
            is_optimistic: false,
            may_be_optimistic: false,
            is_joined: false,
            nonces: Vec::new(),
        }
    }

    //= rfc4429#3.3-6
    pub(super) const fn state(&self) -> State {
        match self.detection {
            Detection::Unique if self.is_deprecated => State::Deprecated,
            Detection::Unique => State::Preferred,
            Detection::Delayed { .. } | Detection::Probing { .. } if self.is_optimistic => {
                State::Optimistic
            }
            Detection::Down | Detection::Delayed { .. } | Detection::Probing { .. } => {
                State::Tentative
            }
        }
    }

    pub(super) const fn describe(&self, address: Ipv6Addr) -> Address {
        // While it is probed, too, a deprecated address is not for new connections.
        let state = match (self.state(), self.is_deprecated) {
            (State::Optimistic, true) => State::Deprecated,
            (state, _) => state,
        };
        Address {
            address,
            prefix_len: self.prefix_len,
            origin: self.origin,
            state,
            lifetimes: self.lifetimes,
            created: self.created,
        }
    }

    /// Makes the address deprecated or preferred by the time. Returns the change if the address is unique.
    pub(super) fn update_deprecation(&mut self, address: Ipv6Addr, now: Instant) -> Option<Output> {
        let is_deprecated = !self.lifetimes.is_preferred(now);
        let is_changed =
            core::mem::replace(&mut self.is_deprecated, is_deprecated) != is_deprecated;
        let change = match self.state() {
            State::Deprecated => Output::Deprecated(address),
            State::Preferred => Output::Preferred(address),
            State::Tentative | State::Optimistic => return None,
        };
        is_changed.then_some(change)
    }

    pub(super) fn timers(&self) -> impl Iterator<Item = Instant> + use<> {
        let preferred = self.lifetimes.preferred.filter(|_| !self.is_deprecated);
        [self.detection.poll_timeout(), preferred, self.lifetimes.valid].into_iter().flatten()
    }
}

/// The earlier of two ends, of which `None` is never.
pub(super) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// The addresses of this prefix.
pub(super) fn in_prefix(
    entries: &BTreeMap<Ipv6Addr, Entry>,
    prefix: Prefix,
) -> impl Iterator<Item = (Ipv6Addr, &Entry)> {
    let last = Ipv6Addr::from_bits(prefix.address().to_bits() | !prefix.mask().to_bits());
    entries.range(prefix.address()..=last).map(|(address, entry)| (*address, entry))
}
