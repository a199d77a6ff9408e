//! Undoing: what the journal has, then whatever else bears our marks.

use crate::address::IFA_PROTO;
use crate::control::OPTIMISTIC;
use crate::control::solicit_for_kernel;
use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::settings::{UNBOUND_PRIORITY, is_priority_from};
use std::collections::BTreeSet;
use std::fmt;

/// One thing that was undone, or should have been.
#[derive(Debug)]
pub struct Undone {
    /// The thing.
    pub what: String,
    /// How it went.
    pub outcome: Outcome,
}

/// How undoing one thing went.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is gone.
    Removed,
    /// It was gone before.
    AlreadyGone,
    /// It is still there, and still in the journal.
    Failed(Error),
}

impl Undone {
    /// Whether something is left behind.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    fn new(what: impl fmt::Display, result: Result<bool, Error>) -> Self {
        let outcome = match result {
            Ok(true) => Outcome::Removed,
            Ok(false) => Outcome::AlreadyGone,
            Err(error) => Outcome::Failed(error),
        };
        Self { what: what.to_string(), outcome }
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.outcome {
            Outcome::Removed => write!(f, "removed {what}"),
            Outcome::AlreadyGone => write!(f, "{what} was gone already"),
            Outcome::Failed(error) => write!(f, "left {what} behind: {error}"),
        }
    }
}

impl Netlink {
    /// Takes back every change, those of earlier processes included, and tells of each. Goes on
    /// after a failure; can be called again.
    ///
    /// Rules go first, so that no packet meets a rule whose table is half empty.
    pub async fn undo_all(&self) -> Vec<Undone> {
        let mut report = Vec::new();
        let rules = settle(self.undo_rules().await, "rules", &mut report);
        let routes = settle(self.undo_routes().await, "routes", &mut report);
        let addresses = settle(self.undo_addresses().await, "addresses", &mut report);
        settle(self.undo_labels().await, "address labels", &mut report);
        let links = settle(self.undo_links().await, "links", &mut report);
        let controls = settle(Ok(self.undo_controls().await), "system controls", &mut report);
        let forgotten = self.forget_all(|change| match change {
            Record::Rules { .. } => rules,
            Record::Table { .. } => routes,
            Record::Address { .. } => addresses,
            Record::Link { .. } => links,
            Record::Control { .. } => controls,
        });
        if let Err(error) = forgotten {
            let what = "the journal of changes".to_owned();
            report.push(Undone { what, outcome: Outcome::Failed(error.into()) });
        }
        report
    }

    async fn undo_rules(&self) -> Result<Vec<Undone>, Error> {
        let mut ranges = BTreeSet::from([(self.settings.rule_base, self.settings.protocol)]);
        for change in self.changes() {
            if let Record::Rules { base, protocol } = change {
                ranges.insert((base, protocol));
            }
        }
        let mut report = Vec::new();
        for rule in self.rules().await? {
            let ours = ranges.iter().any(|(base, protocol)| {
                let is_of_base = is_priority_from(*base, rule.priority);
                rule.protocol == *protocol && (is_of_base || rule.priority == UNBOUND_PRIORITY)
            });
            if ours {
                let done = self.delete_rule(&rule).await;
                report.push(Undone::new(rule, done));
            }
        }
        Ok(report)
    }

    async fn undo_routes(&self) -> Result<Vec<Undone>, Error> {
        let mut tables = BTreeSet::new();
        let mut protocols = BTreeSet::from([self.settings.protocol]);
        for change in self.changes() {
            if let Record::Table { table, protocol } = change {
                tables.insert((table, protocol));
                protocols.insert(protocol);
            }
        }
        let mut report = Vec::new();
        for protocol in protocols {
            for route in self.routes_of(protocol).await? {
                let marked =
                    protocol == self.settings.protocol && self.settings.is_our_table(route.table);
                if marked || tables.contains(&(route.table, protocol)) {
                    report.push(Undone::new(&route, self.delete_route(&route).await));
                }
            }
        }
        Ok(report)
    }

    async fn undo_addresses(&self) -> Result<Vec<Undone>, Error> {
        let mut report = Vec::new();
        for change in self.changes() {
            let Record::Address { ifindex, address, prefix_len } = change else { continue };
            let what = format!("address {address} on interface {ifindex}");
            let done = self.delete_address(ifindex, address, prefix_len).await;
            report.push(Undone::new(what, done));
        }
        for row in self.address_rows().await? {
            let ours = row.u8(IFA_PROTO) == Some(self.settings.protocol);
            let Some(address) = row.address(libc::IFA_ADDRESS).filter(|_| ours) else { continue };
            let ifindex = row.header_u32(4);
            let what = format!("address {address} on interface {ifindex}");
            let done = self.delete_address(ifindex, address, row.byte(1)).await;
            report.push(Undone::new(what, done));
        }
        Ok(report)
    }

    /// They bear our mark, so the journal does not have them.
    async fn undo_labels(&self) -> Result<Vec<Undone>, Error> {
        let mut report = Vec::new();
        for (ifindex, address) in self.labels().await? {
            let what = format!("label of {address} on interface {ifindex}");
            report.push(Undone::new(what, self.delete_label(ifindex, address).await));
        }
        Ok(report)
    }

    /// Last: from here on the kernel makes addresses of its own again.
    async fn undo_controls(&self) -> Vec<Undone> {
        let mut report = Vec::new();
        let mut interfaces = BTreeSet::new();
        for change in self.changes() {
            let Record::Control { ifindex, ref control, ref ours, .. } = change else { continue };
            let what = format!("{control} = {ours} of interface {ifindex}");
            let done = self.restore_control(&change).await;
            if matches!(done, Ok(true)) && control != OPTIMISTIC {
                interfaces.insert(ifindex);
            }
            report.push(Undone::new(what, done));
        }
        interfaces.into_iter().for_each(solicit_for_kernel);
        report
    }

    async fn undo_links(&self) -> Result<Vec<Undone>, Error> {
        let mut report = Vec::new();
        let changes = self.changes();
        let recorded = |name: &str| {
            changes.iter().any(|change| {
                matches!(change, Record::Link { name: one, peer } if one == name || peer == name)
            })
        };
        for link in self.links().await? {
            let named = self.settings.is_our_link(&link.name) && link.is_marked();
            if named || recorded(&link.name) && link.is_veth() {
                // The second of the pair goes with the first.
                let gone = self.delete_link(&link).await.map(|_| true);
                report.push(Undone::new(format!("link {}", link.name), gone));
            }
        }
        Ok(report)
    }
}

/// Adds what a step did to the report; true if nothing of its kind is left behind.
fn settle(step: Result<Vec<Undone>, Error>, kind: &'static str, report: &mut Vec<Undone>) -> bool {
    match step {
        Ok(done) => {
            let complete = !done.iter().any(Undone::is_failure);
            report.extend(done);
            complete
        }
        Err(error) => {
            report.push(Undone { what: kind.to_owned(), outcome: Outcome::Failed(error) });
            false
        }
    }
}
