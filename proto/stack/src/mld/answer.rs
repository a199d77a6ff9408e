//! Queries, and the reports that are due.

use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::mld::{Query, Record, RecordType};
use moorline_types::Instant;

use super::group::Group;
use super::{
    Listener, MIN_ANSWER_INTERVAL, ROBUSTNESS, Transmit, UNSOLICITED_REPORT_INTERVAL, is_reported,
};
use crate::Drop;
use crate::random::up_to;

impl Listener {
    /// Takes a query.
    ///
    /// # Errors
    /// [`Drop::Query`] if the query is about an address that is no group, or about sources of no group.
    pub fn handle_query(&mut self, query: &Query, now: Instant) -> Result<(), Drop> {
        let is_general = query.group.is_unspecified();
        if !is_general && !query.group.is_multicast() || is_general && !query.sources.is_empty() {
            return Err(Drop::Query);
        }
        if self.is_up {
            self.choose_version(query, now);
            // RFC 3810 s8.2.1: in version 1 a host uses only MLDv1, in which the longer query is one of version 1.
            match (self.is_version1(), is_general) {
                (true, _) => self.on_version1_query(query, now),
                (false, true) => self.on_general_query(query, now),
                (false, false) => self.on_specific_query(query, now),
            }
            self.rearm();
        }
        Ok(())
    }

    /// Takes a report of another listener about the group (RFC 2710 s4). Only version 1 has suppression.
    pub fn handle_report(&mut self, group: Ipv6Addr) {
        if !self.is_version1() {
            return;
        }
        if let Some(entry) = self.groups.get_mut(&group).filter(|entry| entry.answer_at.is_some()) {
            entry.answer_at = None;
            entry.is_last_reporter = false;
            self.rearm();
        }
    }

    /// Sends the records of version 2 that are due, and arms the timers anew.
    pub(super) fn send_due(&mut self, now: Instant) {
        let mut records = Vec::new();
        if self.general.take_if(|at| *at <= now).is_some() {
            self.answered = Some(now);
            let groups = self.groups().map(|(group, _)| group).filter(|group| is_reported(*group));
            records.extend(groups.map(|group| Record::new(RecordType::MODE_IS_EXCLUDE, group)));
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        for (group, entry) in &mut self.groups {
            if is_due(entry.answer_at) {
                records.push(entry.answer(*group, now));
            }
            if is_due(entry.change_at) {
                records.push(entry.change(*group));
                entry.changes = entry.changes.saturating_sub(1);
                let again = (entry.changes > 0)
                    .then(|| now + up_to(&mut self.random, UNSOLICITED_REPORT_INTERVAL));
                entry.change_at = again;
            }
        }
        self.groups.retain(|_, entry| entry.listeners > 0 || entry.changes > 0);
        self.pack(records);
        self.rearm();
    }

    /// Sends the reports of version 1 that are due.
    pub(super) fn send_due_version1(&mut self, now: Instant) {
        for (group, entry) in &mut self.groups {
            if entry.answer_at.take_if(|at| *at <= now).is_some() {
                entry.answered = Some(now);
                entry.is_last_reporter = true;
                self.outputs.push_back(Transmit::version1(*group));
            }
        }
        self.rearm();
    }

    //= rfc3810#8.2.1-1 rfc3810#9.12-1
    fn choose_version(&mut self, query: &Query, now: Instant) {
        if !query.is_version1 {
            if !query.interval.is_zero() {
                self.interval = query.interval;
            }
            return;
        }
        if !self.is_version1() {
            // RFC 3810 s8.2.1: "Whenever a host changes its compatibility mode, it cancels all its pending responses".
            self.cancel();
        }
        // RFC 3810 s9.12: Robustness Variable times Query Interval, and Query Response Interval.
        let timeout = self.interval * u32::from(ROBUSTNESS) + query.max_response;
        self.version1_until = Some(now + timeout);
    }

    /// RFC 3810 s6.2, rules 1 and 2.
    //= rfc3810#6.3-1 rfc3810#6.3-2
    fn on_general_query(&mut self, query: &Query, now: Instant) {
        let at = draw(now + up_to(&mut self.random, query.max_response), self.answered);
        let is_sooner = self.general.is_some_and(|pending| pending <= at);
        if !is_sooner && self.groups().any(|(group, _)| is_reported(group)) {
            self.general = Some(at);
        }
    }

    /// RFC 3810 s6.2, rules 1 and 3 to 5.
    fn on_specific_query(&mut self, query: &Query, now: Instant) {
        let Some(entry) = self.groups.get_mut(&query.group).filter(|entry| entry.listeners > 0)
        else {
            return;
        };
        let at = draw(now + up_to(&mut self.random, query.max_response), entry.answered);
        let is_sooner = self.general.is_some_and(|pending| pending <= at);
        if !is_sooner && is_reported(query.group) {
            entry.ask(&query.sources, at);
        }
    }

    /// RFC 2710 s4: each group has its own delay.
    fn on_version1_query(&mut self, query: &Query, now: Instant) {
        let is_asked = |group| query.group.is_unspecified() || query.group == group;
        for (group, entry) in &mut self.groups {
            if is_reported(*group) && is_asked(*group) && is_slower(entry, query, now) {
                let at = now + up_to(&mut self.random, query.max_response);
                entry.answer_at = Some(draw(at, entry.answered));
            }
        }
    }

    /// Puts records into as few reports as have room for them.
    fn pack(&mut self, records: Vec<Record>) {
        let (mut report, mut len) = (Vec::new(), 0);
        for record in records {
            if len + record.wire_len() > MAX_RECORDS_LEN {
                self.outputs.push_back(Transmit::version2(core::mem::take(&mut report)));
                len = 0;
            }
            len += record.wire_len();
            report.push(record);
        }
        if !report.is_empty() {
            self.outputs.push_back(Transmit::version2(report));
        }
    }
}

/// RFC 2710 s4: a running timer is reset "only if the requested Maximum Response Delay is less than the remaining value".
fn is_slower(entry: &Group, query: &Query, now: Instant) -> bool {
    entry.answer_at.is_none_or(|at| query.max_response < at.since(now))
}

/// Time of an answer: the drawn one, but not too soon after the last answer.
fn draw(at: Instant, answered: Option<Instant>) -> Instant {
    answered.map_or(at, |last| at.max(last + MIN_ANSWER_INTERVAL))
}

/// Room for records in octets: a packet of the least MTU has an IPv6 header, a header for Router Alert, and 8 octets of
/// MLD in front of them.
const MAX_RECORDS_LEN: usize = 1280 - 40 - 8 - 8;
/// A record with all the sources that an answer can have needs a report of its own.
const _: () = assert!(20 + 16 * super::MAX_SOURCES <= MAX_RECORDS_LEN);
