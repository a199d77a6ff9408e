//! Duplicate Address Detection (RFC 4862 s5.4, RFC 7527, RFC 4429).

use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::solicited_node;
use moorline_types::Instant;
use rand_core::RngCore as _;

use super::{Addresses, Origin, Output, State};
use crate::Drop;
use crate::random::up_to;

/// State of detection of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detection {
    /// The link is down.
    Down,
    /// The solicited-node group is not joined yet.
    Delayed { at: Instant },
    /// A probe was sent.
    Probing {
        /// Time of the next probe, or of the end.
        at: Instant,
        /// Probes to send.
        left: u8,
        /// Whether the link has sent a probe back since the last one.
        is_looped: bool,
    },
    /// No other node has the address.
    Unique,
}

/// Reaction to a Neighbor Solicitation for an address of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Answer, with this value of the O flag.
    Answer {
        /// Whether the advertisement overrides other link-layer addresses. RFC 4429 s3.3: not for an optimistic address.
        overrides: bool,
    },
    /// Do nothing more.
    Ignore,
}

impl Detection {
    pub(super) const fn poll_timeout(self) -> Option<Instant> {
        match self {
            Self::Delayed { at } | Self::Probing { at, .. } => Some(at),
            Self::Down | Self::Unique => None,
        }
    }
}

impl Addresses {
    /// Takes a valid Neighbor Solicitation for this target.
    ///
    /// # Errors
    /// [`Drop::NotOurs`] if the interface has not this address.
    //= rfc4429#3.3-7 rfc4429#3.3-9 rfc4429#3.3-10
    //= rfc7527#4.2-3
    //= rfc4862#5.4.3-1
    //= rfc4861#7.2.3-1
    pub fn handle_solicitation(
        &mut self,
        target: Ipv6Addr,
        is_source_unspecified: bool,
        nonce: Option<&[u8]>,
        now: Instant,
    ) -> Result<Reply, Drop> {
        let state = self.state(target).ok_or(Drop::NotOurs)?;
        let is_own = self.is_own_probe(target, nonce);
        match (state, is_source_unspecified) {
            // RFC 4862 s5.4.3: "the solicitation's sender is performing address resolution on the target; the solicitation
            // should be silently ignored."
            (State::Tentative, false) => Ok(Reply::Ignore),
            (State::Optimistic, false) => Ok(Reply::Answer { overrides: false }),
            // RFC 7527 s4.2: "If a match is found, the node [...] MUST drop the received message."
            (_, true) if is_own => {
                self.note_loop(target);
                Ok(Reply::Ignore)
            }
            (State::Tentative | State::Optimistic, true) => {
                self.on_duplicate(target, now);
                Ok(Reply::Ignore)
            }
            (State::Preferred | State::Deprecated, _) => Ok(Reply::Answer { overrides: true }),
        }
    }

    /// Takes a valid Neighbor Advertisement for this target (RFC 4862 s5.4.4). Returns whether the target is an
    /// address of the interface: then the advertisement is not for the neighbor cache.
    pub fn handle_advertisement(&mut self, target: Ipv6Addr, now: Instant) -> bool {
        let Some(state) = self.state(target) else { return false };
        if matches!(state, State::Tentative | State::Optimistic) {
            self.on_duplicate(target, now);
        }
        true
    }

    /// Begins detection after a random time up to `delay`.
    //= rfc8504#6.3-4
    //= rfc4429#3.1-1 rfc4429#3.1-2 rfc4429#3.2-5 rfc4429#3.3-1 rfc4429#3.3-2 rfc4429#3.3-5
    //= rfc4862#5.4.2-2
    pub(super) fn detect(&mut self, address: Ipv6Addr, delay: Duration, now: Instant) {
        let is_on = self.is_up && !self.is_disabled;
        let Some(entry) = self.entries.get_mut(&address).filter(|_| is_on) else { return };
        let is_wanted = self.config.optimistic || entry.may_be_optimistic;
        entry.is_optimistic = is_wanted && self.knows_router && entry.origin != Origin::Manual;
        // RFC 4429 s3.3: "The host SHOULD NOT delay before sending Neighbor Solicitation messages."
        let is_at_once = entry.is_optimistic || self.config.dad_transmits == 0;
        let delay = if is_at_once { Duration::ZERO } else { delay };
        let at = now + up_to(&mut self.random, delay);
        entry.detection = Detection::Delayed { at };
        if entry.is_optimistic {
            self.outputs.push_back(Output::Optimistic(address));
        }
        if at <= now {
            self.on_detection_timeout(address, now);
        }
    }

    /// Ends detections: the link is down. What is assigned stays assigned.
    pub(super) fn stop_detection(&mut self) {
        for entry in self.entries.values_mut().filter(|one| one.detection != Detection::Unique) {
            entry.detection = Detection::Down;
        }
    }

    pub(super) fn handle_detection_timeout(&mut self, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let due = self.entries.iter().filter(|(_, entry)| is_due(entry.detection.poll_timeout()));
        let due: Vec<_> = due.map(|(address, _)| *address).collect();
        due.into_iter().for_each(|address| self.on_detection_timeout(address, now));
    }

    //= rfc7527#3.1-1
    //= rfc4862#5.4.2-1
    fn on_detection_timeout(&mut self, address: Ipv6Addr, now: Instant) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        match entry.detection {
            Detection::Delayed { .. } => {
                self.join(address);
                match self.config.dad_transmits {
                    0 => self.assign(address),
                    probes => self.probe(address, probes, now),
                }
            }
            Detection::Probing { left: 0, is_looped: false, .. } => self.assign(address),
            // RFC 7527 s4.1: "the interface continues with another MAX_MULTICAST_SOLICIT number of NS(DAD) messages".
            Detection::Probing { left: 0, is_looped: true, .. } => {
                self.probe(address, MAX_MULTICAST_SOLICIT, now);
            }
            Detection::Probing { left, .. } => self.probe(address, left, now),
            Detection::Down | Detection::Unique => {}
        }
    }

    /// RFC 4862 s5.4.2: the interface joins the group of the address before its first probe.
    //= rfc4429#3.3-4
    //= rfc4862#5.4.2-1
    //= rfc4861#7.2.1-1 rfc4861#7.2.1-2 rfc4861#7.2.1-3
    fn join(&mut self, address: Ipv6Addr) {
        let entry = self.entries.get_mut(&address).filter(|entry| !entry.is_joined);
        if let Some(entry) = entry {
            entry.is_joined = true;
            self.outputs.push_back(Output::Join(solicited_node(address)));
        }
    }

    /// Sends the first of `probes` probes.
    //= rfc7527#4.1-1 rfc7527#4.1-2
    fn probe(&mut self, address: Ipv6Addr, probes: u8, now: Instant) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        // RFC 7527 s4.1: "each Enhanced DAD probe uses a different nonce."
        let nonce = self.config.dad_nonce.then(|| {
            let mut nonce = [0; 6];
            self.random.fill_bytes(&mut nonce);
            nonce
        });
        if entry.nonces.len() >= MAX_NONCES {
            entry.nonces.remove(0);
        }
        entry.nonces.extend(nonce);
        let at = now + self.retrans_timer;
        entry.detection = Detection::Probing { at, left: probes - 1, is_looped: false };
        self.outputs.push_back(Output::Probe { target: address, nonce });
    }

    fn assign(&mut self, address: Ipv6Addr) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        entry.detection = Detection::Unique;
        let (origin, state) = (entry.origin, entry.state());
        self.outputs.push_back(Output::Ready(address));
        if state == State::Deprecated {
            self.outputs.push_back(Output::Deprecated(address));
        }
        if origin == Origin::Temporary {
            self.on_temporary_ready(address);
        }
    }

    /// Whether the solicitation is a probe of this interface that the link has sent back.
    //= rfc8504#6.3-6
    fn is_own_probe(&self, target: Ipv6Addr, nonce: Option<&[u8]>) -> bool {
        let (Some(entry), Some(nonce)) = (self.entries.get(&target), nonce) else { return false };
        entry.nonces.iter().any(|own| own == nonce)
    }

    fn note_loop(&mut self, address: Ipv6Addr) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        if let Detection::Probing { is_looped, .. } = &mut entry.detection {
            *is_looped = true;
        }
    }

    /// Another node has the address (RFC 4862 s5.4.5).
    //= rfc4429#3.3-8
    //= rfc7527#4.2-4
    //= rfc4862#5.4.5-1
    fn on_duplicate(&mut self, address: Ipv6Addr, now: Instant) {
        let Some(entry) = self.entries.get(&address) else { return };
        // RFC 4862 s5.4 is for addresses whose detection goes on. While the link is down, no message can come.
        if entry.detection == Detection::Down {
            return;
        }
        let origin = entry.origin;
        self.outputs.push_back(Output::Duplicate(address));
        self.take_out(address);
        match origin {
            Origin::LinkLocal | Origin::Autoconfigured => self.on_stable_duplicate(address, now),
            Origin::Temporary => self.on_temporary_duplicate(address, now),
            Origin::Generated | Origin::Manual => {}
        }
        self.prune(now);
    }

    /// Stops IPv6 on the interface. Addresses of the caller stay for the next time that the link goes up.
    //= rfc4862#5.4.5-3
    pub(super) fn disable(&mut self) {
        self.is_disabled = true;
        for (address, entry) in &mut self.entries {
            if core::mem::take(&mut entry.is_joined) {
                self.outputs.push_back(Output::Leave(solicited_node(*address)));
            }
            if entry.state().is_assigned() {
                self.outputs.push_back(Output::Removed(*address));
            }
            entry.detection = Detection::Down;
        }
        self.entries.retain(|_, entry| !entry.origin.is_autoconfigured());
        self.prefixes.clear();
        self.outputs.push_back(Output::Disabled);
    }
}

/// RFC 4861 s10. Not configurable.
pub(super) const MAX_MULTICAST_SOLICIT: u8 = 3;
/// Number of nonces that are kept for an address, so that a probe that comes back late is known. Not configurable.
pub(super) const MAX_NONCES: usize = 8;
