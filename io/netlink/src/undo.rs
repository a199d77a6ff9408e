//! Undoes all changes that have our marks.

use crate::address::{address_row, address_text};
use crate::control::OPTIMISTIC;
use crate::error::Error;
use crate::handle::Netlink;
use crate::labels::{LABEL, label_row, label_text};
use crate::message::Route;
use crate::moor::Link;
use crate::preferred::MAIN_TABLE;
use crate::row::Row;
use crate::settings::is_our_table;
use std::fmt;

/// A change that was undone, or should have been.
#[derive(Debug)]
pub struct Undone {
    /// Name of the change.
    pub what: String,
    /// Whether the change was there. After an error it still is.
    pub removed: Result<bool, Error>,
}

impl Undone {
    /// Whether the change is left behind.
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
    /// Undoes each change, also those of earlier processes, and reports each. Continues after a failure, and can be
    /// called again.
    ///
    /// Rules come first, so that no packet meets a rule whose table is half empty.
    pub async fn undo_all(&self) -> Vec<Undone> {
        let mut report = Vec::new();
        self.undo("rules", self.made_rules(), &mut report);
        self.undo("routes", self.made_routes(), &mut report);
        self.undo("addresses", self.made_addresses(), &mut report);
        self.undo("address labels", self.made_labels(), &mut report);
        self.undo("links", self.made_links(), &mut report);
        match self.lent_controls() {
            Ok(lent) => report.extend(lent.into_iter().map(|ifindex| {
                let what = format!("{OPTIMISTIC} = 1 of interface {ifindex}");
                Undone { what, removed: self.give_back(ifindex) }
            })),
            Err(error) => {
                let what = "system controls".to_owned();
                report.push(Undone { what, removed: Err(error) });
            }
        }
        report
    }

    /// Removes all objects of ours of a kind, and reports each.
    fn undo(&self, kind: &str, made: Result<Vec<Made>, Error>, report: &mut Vec<Undone>) {
        match made {
            Ok(made) => report.extend(made.into_iter().map(|(what, row)| {
                let removed = self.remove(&row, &what);
                // The second link of a pair goes with the first.
                let removed = removed.map(|is_gone| is_gone || row.kind == libc::RTM_NEWLINK);
                Undone { what, removed }
            })),
            Err(error) => report.push(Undone { what: kind.to_owned(), removed: Err(error) }),
        }
    }

    fn made_rules(&self) -> Result<Vec<Made>, Error> {
        let rules = self.rules()?;
        let ours = rules.iter().filter(|rule| rule.is_ours());
        Ok(ours.map(|rule| (rule.to_string(), rule.row())).collect())
    }

    fn made_routes(&self) -> Result<Vec<Made>, Error> {
        let routes = self.our_routes(None)?;
        let is_ours = |route: &&Route| {
            is_our_table(route.table)
                || route.table == MAIN_TABLE && route.destination == Route::DEFAULT
        };
        let ours = routes.iter().filter(is_ours);
        Ok(ours.map(|route| (route.to_string(), route.row())).collect())
    }

    fn made_addresses(&self) -> Result<Vec<Made>, Error> {
        let made = self.our_addresses()?.into_iter();
        Ok(made.map(|one| (address_text(one), address_row(one))).collect())
    }

    fn made_labels(&self) -> Result<Vec<Made>, Error> {
        let made = self.labelled(LABEL)?.into_iter();
        Ok(made.map(|one| (label_text(one), label_row(one, LABEL))).collect())
    }

    fn made_links(&self) -> Result<Vec<Made>, Error> {
        let links = self.pair()?.into_iter().flatten().filter(Link::is_ours);
        Ok(links.map(|link| (format!("link {}", link.name), Link::row(link.ifindex))).collect())
    }
}

/// An object of ours: its name and the message that makes it.
type Made = (String, Row);
