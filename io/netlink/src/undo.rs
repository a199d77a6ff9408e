//! Undoing: what the journal has, then whatever else bears our marks.

use crate::address::{IFA_PROTO, address_row, address_text};
use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::labels::{label_row, label_text};
use crate::moor::Link;
use crate::row::Row;
use crate::settings::{LINK_NAMES, PROTOCOL, RULE_BASE, is_our_table, is_priority_from};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One thing that was undone, or should have been.
#[derive(Debug)]
pub struct Undone {
    /// The thing.
    pub what: String,
    /// Whether it was there. After an error it still is, and is still in the journal.
    pub removed: Result<bool, Error>,
}

impl Undone {
    /// Whether something is left behind.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        self.removed.is_err()
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.removed {
            Ok(true) => write!(f, "removed {what}"),
            Ok(false) => write!(f, "{what} was gone already"),
            Err(error) => write!(f, "left {what} behind: {error}"),
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
        let rules = self.undo("rules", self.made_rules(), &mut report);
        let routes = self.undo("routes", self.made_routes(), &mut report);
        let addresses = self.undo("addresses", self.made_addresses(), &mut report);
        self.undo("address labels", self.made_labels(), &mut report);
        let links = self.undo("links", self.made_links(), &mut report);
        // Last: from here on the kernel makes addresses of its own again.
        let mut controls = true;
        for (change, restored) in self.put_back_controls() {
            let Record::Control { ifindex, control, ours, .. } = change else { continue };
            controls &= restored.is_ok();
            let what = format!("{control} = {ours} of interface {ifindex}");
            report.push(Undone { what, removed: restored });
        }
        let forgotten = self.journal().forget_all(|change| match change {
            Record::Rules { .. } => rules,
            Record::Table { .. } => routes,
            Record::Address { .. } => addresses,
            Record::Link { .. } => links,
            Record::Control { .. } => controls,
        });
        if let Err(error) = forgotten {
            let what = "the journal of changes".to_owned();
            report.push(Undone { what, removed: Err(error) });
        }
        report
    }

    /// Removes all that we have made of a kind, and reports each. True if nothing of the kind is left behind.
    fn undo(&self, kind: &str, made: Result<Vec<Made>, Error>, report: &mut Vec<Undone>) -> bool {
        let before = report.len();
        match made {
            Ok(made) => report.extend(made.into_iter().map(|(what, row)| {
                let removed = self.remove(&row, &what);
                // The second of a pair goes with the first.
                let removed = removed.map(|is_gone| is_gone || row.kind == libc::RTM_NEWLINK);
                Undone { what, removed }
            })),
            Err(error) => report.push(Undone { what: kind.to_owned(), removed: Err(error) }),
        }
        !report[before..].iter().any(Undone::is_failure)
    }

    fn made_rules(&self) -> Result<Vec<Made>, Error> {
        let mut ranges = BTreeSet::from([(RULE_BASE, PROTOCOL)]);
        ranges.extend(self.changes().into_iter().filter_map(|change| {
            let Record::Rules { base, protocol } = change else { return None };
            Some((base, protocol))
        }));
        let mut rules = self.rules()?;
        rules.retain(|rule| {
            ranges.iter().any(|(base, protocol)| {
                rule.protocol == *protocol && is_priority_from(*base, rule.priority)
            })
        });
        Ok(rules.iter().map(|rule| (rule.to_string(), rule.row())).collect())
    }

    fn made_routes(&self) -> Result<Vec<Made>, Error> {
        let mut tables: BTreeMap<u8, BTreeSet<u32>> = BTreeMap::from([(PROTOCOL, BTreeSet::new())]);
        for change in self.changes() {
            if let Record::Table { table, protocol } = change {
                tables.entry(protocol).or_default().insert(table);
            }
        }
        let mut made = Vec::new();
        for (protocol, tables) in tables {
            let mut routes = self.routes_of(protocol, None)?;
            routes.retain(|route| {
                tables.contains(&route.table) || protocol == PROTOCOL && is_our_table(route.table)
            });
            made.extend(routes.iter().map(|route| (route.to_string(), route.row())));
        }
        Ok(made)
    }

    fn made_addresses(&self) -> Result<Vec<Made>, Error> {
        let mut made = BTreeSet::new();
        made.extend(self.changes().into_iter().filter_map(|change| {
            let Record::Address { ifindex, address, prefix_len } = change else { return None };
            Some((ifindex, address, prefix_len))
        }));
        let rows = self.address_rows()?;
        let marked = rows.iter().filter(|row| row.u8(IFA_PROTO) == Some(PROTOCOL));
        made.extend(marked.filter_map(|row| {
            Some((row.header_u32(4), row.address(libc::IFA_ADDRESS)?, row.byte(1)))
        }));
        Ok(made.into_iter().map(|one| (address_text(one), address_row(one))).collect())
    }

    /// They bear our mark, so the journal does not have them.
    fn made_labels(&self) -> Result<Vec<Made>, Error> {
        Ok(self.labels()?.into_iter().map(|one| (label_text(one), label_row(one))).collect())
    }

    fn made_links(&self) -> Result<Vec<Made>, Error> {
        let changes = self.changes();
        let is_recorded = |name: &String| {
            changes.iter().any(|change| {
                matches!(change, Record::Link { name: one, peer } if one == name || peer == name)
            })
        };
        let mut links = self.links()?;
        links.retain(|link| {
            LINK_NAMES.contains(&link.name.as_str()) && link.is_marked()
                || is_recorded(&link.name) && link.is_veth()
        });
        let thing = |link: Link| (format!("link {}", link.name), Link::row(link.ifindex));
        Ok(links.into_iter().map(thing).collect())
    }
}

/// Something that we have made: its name and the message that makes it.
type Made = (String, Row);
