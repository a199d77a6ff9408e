use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_ip::mld::{Record, RecordType};
use moorline_types::Instant;

use super::MAX_SOURCES;

/// State of a group that somebody listens to, or that was left and whose change is not reported often enough yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Number of joins; zero if the group was left.
    pub(super) listeners: u32,
    /// Multicast Address Timer.
    pub(super) answer_at: Option<Instant>,
    /// Sources of the pending answer; empty if the answer is about all sources.
    sources: BTreeSet<Ipv6Addr>,
    /// Time of the last answer.
    pub(super) answered: Option<Instant>,
    /// Retransmission Timer.
    pub(super) change_at: Option<Instant>,
    /// Filter Mode Retransmission Counter: State Change Reports that are not sent yet.
    pub(super) changes: u8,
    /// Version 1: whether the last report on the link was ours (RFC 2710 s5).
    pub(super) is_last_reporter: bool,
}

impl Group {
    pub(super) fn cancel(&mut self) {
        self.answer_at = None;
        self.sources.clear();
        self.change_at = None;
        self.changes = 0;
    }

    /// Notes a query of version 2 about the group, whose answer is due then (RFC 3810 s6.2, rules 3 to 5).
    pub(super) fn ask(&mut self, sources: &[Ipv6Addr], at: Instant) {
        let is_about_all = self.answer_at.is_some() && self.sources.is_empty();
        if is_about_all || sources.is_empty() {
            self.sources.clear();
        } else {
            self.sources.extend(sources.iter().take(MAX_SOURCES + 1));
        }
        if self.sources.len() > MAX_SOURCES {
            self.sources.clear();
        }
        self.answer_at = Some(self.answer_at.map_or(at, |pending| pending.min(at)));
    }

    /// The Current State Record for the pending answer, which is answered with it.
    pub(super) fn answer(&mut self, group: Ipv6Addr, now: Instant) -> Record {
        self.answer_at = None;
        self.answered = Some(now);
        let sources: Vec<_> = core::mem::take(&mut self.sources).into_iter().collect();
        if sources.is_empty() {
            return Record::new(RecordType::MODE_IS_EXCLUDE, group);
        }
        // RFC 3810 s6.3: EXCLUDE (A) answers a query about B with IS_IN (B-A), and A is empty.
        Record { kind: RecordType::MODE_IS_INCLUDE, group, sources }
    }

    /// The Filter Mode Change Record.
    pub(super) const fn change(&self, group: Ipv6Addr) -> Record {
        let is_left = self.listeners == 0;
        let kind =
            if is_left { RecordType::CHANGE_TO_INCLUDE } else { RecordType::CHANGE_TO_EXCLUDE };
        Record::new(kind, group)
    }
}
