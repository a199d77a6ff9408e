//! Groups that an interface listens to, and the reports about them (RFC 3810 without source filters, RFC 2710).
//!
//! Each change of the groups draws a State Change Report at once, and `ROBUSTNESS` - 1 more of them at random times. Queries draw
//! reports after random times. After a query of version 1 the interface speaks version 1 for a while.
//!
//! | timer | armed by | does |
//! |---|---|---|
//! | Interface Timer | a General Query | reports all groups |
//! | Multicast Address Timer, one for each group | a query about the group; in version 1 also General Queries and joins | reports the group |
//! | Retransmission Timer, one for each group | a change | reports the change again |
//! | Older Version Querier Present | a query of version 1 | goes back to version 2 |
//!
//! The source of a report is the link-local address, or unspecified while there is none (RFC 3590 s4); then
//! [`Listener::handle_link_local`] reports all groups anew.

mod answer;
mod group;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::{ALL_MLDV2_ROUTERS, ALL_NODES, ALL_ROUTERS, Scope, is_solicited_node};
use moorline_ip::mld::{Record, Report};
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use crate::Drop;
use crate::random::up_to;
use group::Group;

/// A report to send, with a hop limit of 1 and a Router Alert option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The message.
    pub report: Report,
    /// Its destination.
    pub destination: Ipv6Addr,
}

/// The listener part of MLD of one interface.
//= rfc8504#5.11-1 rfc8504#5.11-2
//= rfc3810#8.2.1-2
#[derive(Clone, Debug)]
pub struct Listener {
    random: ChaCha20Rng,
    is_up: bool,
    groups: BTreeMap<Ipv6Addr, Group>,
    /// End of Host Compatibility Mode 1; `None` in version 2.
    version1_until: Option<Instant>,
    /// Query Interval of the querier.
    interval: Duration,
    /// Interface Timer.
    general: Option<Instant>,
    /// Time of the last answer to a General Query.
    answered: Option<Instant>,
    outputs: VecDeque<Transmit>,
    next: Option<Instant>,
}

impl Listener {
    /// Creates a listener without groups, whose link is down.
    #[must_use]
    pub const fn new(random: ChaCha20Rng) -> Self {
        Self {
            random,
            is_up: false,
            groups: BTreeMap::new(),
            version1_until: None,
            interval: QUERY_INTERVAL,
            general: None,
            answered: None,
            outputs: VecDeque::new(),
            next: None,
        }
    }

    /// The link goes up or down. When it goes up, the interface reports all groups.
    pub fn handle_link(&mut self, is_up: bool, now: Instant) {
        self.is_up = is_up;
        self.interval = QUERY_INTERVAL;
        self.version1_until = None;
        self.answered = None;
        self.outputs.clear();
        self.cancel();
        self.report_all(now);
    }

    /// The interface has got a link-local address. Routers have ignored reports with an unspecified source, so the
    /// interface reports all groups anew (RFC 3590 s4).
    //= rfc3810#5.2.13-3
    pub fn handle_link_local(&mut self, now: Instant) {
        self.report_all(now);
    }

    /// Listens to a group. Each `join` needs its own [`Listener::leave`].
    ///
    /// # Errors
    /// [`Drop::Malformed`] if the address is no group, and [`Drop::GroupLimit`] at a limit ([`MAX_GROUPS`],
    /// [`MAX_SOLICITED_NODE_GROUPS`]).
    //= rfc3810#4.2-2
    pub fn join(&mut self, group: Ipv6Addr, now: Instant) -> Result<(), Drop> {
        if !group.is_multicast() {
            return Err(Drop::Malformed);
        }
        if !self.groups.contains_key(&group) {
            self.make_room(group)?;
        }
        let entry = self.groups.entry(group).or_default();
        entry.listeners = entry.listeners.saturating_add(1);
        if entry.listeners == 1 && self.is_up && is_reported(group) {
            self.on_change(group, now);
        }
        Ok(())
    }

    /// Takes back one [`Listener::join`]. A group that nobody has joined stays as it is.
    //= rfc3810#4.2-1
    //= rfc4861#7.2.1-3
    pub fn leave(&mut self, group: Ipv6Addr, now: Instant) {
        let Some(entry) = self.groups.get_mut(&group).filter(|entry| entry.listeners > 0) else {
            return;
        };
        entry.listeners -= 1;
        if entry.listeners > 0 {
            return;
        }
        if self.is_up && is_reported(group) {
            self.on_change(group, now);
        } else {
            self.groups.remove(&group);
            self.rearm();
        }
    }

    /// Whether the interface takes packets to this group. All interfaces listen to all nodes (RFC 4291 s2.8).
    //= rfc4861#7.2.1-1
    #[must_use]
    pub fn is_member(&self, group: Ipv6Addr) -> bool {
        group == ALL_NODES
            || group == ALL_NODES_OF_INTERFACE
            || self.groups.get(&group).is_some_and(|entry| entry.listeners > 0)
    }

    /// The groups that were joined, with the number of joins.
    pub fn groups(&self) -> impl Iterator<Item = (Ipv6Addr, u32)> + '_ {
        let joined = self.groups.iter().filter(|(_, entry)| entry.listeners > 0);
        joined.map(|(group, entry)| (*group, entry.listeners))
    }

    /// Whether the interface is in Host Compatibility Mode 1 (RFC 3810 s8.2.1).
    #[must_use]
    pub const fn is_version1(&self) -> bool {
        self.version1_until.is_some()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.version1_until.is_some_and(|until| until <= now) {
            self.version1_until = None;
            self.cancel();
        }
        if self.is_version1() {
            self.send_due_version1(now);
        } else {
            self.send_due(now);
        }
    }

    /// Time of the next [`Listener::handle_timeout`].
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The next report; `None` until another call changes that.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Transmit> {
        self.outputs.pop_front()
    }

    /// Reports all groups as if they had been joined now.
    fn report_all(&mut self, now: Instant) {
        if !self.is_up {
            return;
        }
        let groups: Vec<_> = self.groups().map(|(group, _)| group).collect();
        let groups = groups.into_iter().filter(|group| is_reported(*group));
        if self.is_version1() {
            groups.for_each(|group| self.on_change_version1(group, now));
        } else {
            groups.for_each(|group| self.schedule_change(group, now));
            self.send_due(now);
        }
    }

    /// Somebody has joined the group first or left it last.
    fn on_change(&mut self, group: Ipv6Addr, now: Instant) {
        if self.is_version1() {
            self.on_change_version1(group, now);
        } else {
            // RFC 3810 s6.1: "A change of per-interface state causes the node to immediately transmit a State Change Report".
            self.schedule_change(group, now);
            self.send_due(now);
        }
    }

    fn schedule_change(&mut self, group: Ipv6Addr, now: Instant) {
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.changes = ROBUSTNESS;
            entry.change_at = Some(now);
        }
    }

    fn on_change_version1(&mut self, group: Ipv6Addr, now: Instant) {
        let Some(entry) = self.groups.get_mut(&group) else { return };
        if entry.listeners > 0 {
            // RFC 2710 s4: the first report is repeated after a time up to Unsolicited Report Interval.
            entry.is_last_reporter = true;
            entry.answer_at = Some(now + up_to(&mut self.random, VERSION1_REPORT_INTERVAL));
            self.outputs.push_back(Transmit::version1(group));
        } else {
            // RFC 2710 s4: "If the node's most recent Report message was suppressed [...] it MAY send nothing".
            if entry.is_last_reporter {
                self.outputs.push_back(Transmit::done(group));
            }
            self.groups.remove(&group);
        }
        self.rearm();
    }

    /// Ends all timers, and with them the groups that were left.
    fn cancel(&mut self) {
        self.general = None;
        self.groups.retain(|_, entry| entry.listeners > 0);
        self.groups.values_mut().for_each(Group::cancel);
        self.rearm();
    }

    /// Finds room for a group. A group that was left gives way; then its change is reported less often.
    fn make_room(&mut self, group: Ipv6Addr) -> Result<(), Drop> {
        let kind = is_solicited_node(group);
        let limit = if kind { MAX_SOLICITED_NODE_GROUPS } else { MAX_GROUPS };
        let is_same = |one: &Ipv6Addr| is_solicited_node(*one) == kind;
        if self.groups.keys().filter(|one| is_same(one)).count() < limit {
            return Ok(());
        }
        let mut left =
            self.groups.iter().filter(|(one, entry)| is_same(one) && entry.listeners == 0);
        let left = left.next().map(|(one, _)| *one).ok_or(Drop::GroupLimit)?;
        self.groups.remove(&left);
        Ok(())
    }

    fn rearm(&mut self) {
        let timers = self.groups.values().flat_map(|entry| [entry.answer_at, entry.change_at]);
        self.next = timers.chain([self.general, self.version1_until]).flatten().min();
    }
}

impl Transmit {
    fn version2(records: Vec<Record>) -> Self {
        Self { report: Report::Version2(records), destination: ALL_MLDV2_ROUTERS }
    }

    const fn version1(group: Ipv6Addr) -> Self {
        Self { report: Report::Version1(group), destination: group }
    }

    const fn done(group: Ipv6Addr) -> Self {
        Self { report: Report::Done(group), destination: ALL_ROUTERS }
    }
}

/// RFC 3810 s6: "No MLD messages are ever sent regarding neither the link-scope all-nodes multicast address, nor any multicast
/// address of scope 0 (reserved) or 1 (node-local)."
fn is_reported(group: Ipv6Addr) -> bool {
    group != ALL_NODES && Scope::of(group) >= Scope::LINK
}

/// Largest number of groups but solicited-node groups. Not configurable.
pub const MAX_GROUPS: usize = 64;
/// Largest number of solicited-node groups. They are apart because Router Advertisements bring them, and no router may
/// keep applications from their groups. Not configurable.
pub const MAX_SOLICITED_NODE_GROUPS: usize = 64;
/// Largest number of sources that a pending answer has. If queries ask for more, the answer is about all sources. Not
/// configurable.
pub const MAX_SOURCES: usize = 64;
/// Shortest time between two answers about the same thing. Without it each query with a Maximum Response Delay of zero would
/// draw reports at once. Not configurable.
pub const MIN_ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// Robustness Variable (RFC 3810 s9.1). Not configurable.
//= rfc3810#9.1-1 rfc3810#9.1-2
const ROBUSTNESS: u8 = 2;
/// Query Interval (RFC 3810 s9.2), until a querier states another one.
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
/// Unsolicited Report Interval (RFC 3810 s9.11). Not configurable.
const UNSOLICITED_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Unsolicited Report Interval of version 1 (RFC 2710 s7.10). Not configurable.
const VERSION1_REPORT_INTERVAL: Duration = Duration::from_secs(10);
const ALL_NODES_OF_INTERFACE: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);

#[cfg(test)]
mod tests;
