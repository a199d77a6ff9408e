use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Route, Rule};
use std::fmt;

/// Something on the host that is not ours and has one of our numbers or names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What it is.
    pub what: String,
    /// The configuration key to change.
    pub key: &'static str,
}

impl Conflict {
    pub(crate) fn link(name: &str) -> Self {
        Self { what: format!("link {name}"), key: "netlink.link-names" }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, key } = self;
        write!(
            f,
            "{what} is in the way and is not Moorline's: set `{key}` to something that is free, or \
             remove it"
        )
    }
}

impl Netlink {
    /// Looks for rules, routes and links of others where ours are to be. To be called before
    /// the first change.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub async fn conflicts(&self) -> Result<Vec<Conflict>, Error> {
        let settings = &self.settings;
        let mut found = Vec::new();
        for rule in self.rules().await? {
            if rule.protocol != settings.protocol && settings.is_our_priority(rule.priority) {
                found.push(rule_conflict(&rule));
            }
        }
        for route in self.route_rows(None).await?.iter().filter_map(Route::read) {
            if route.protocol != settings.protocol && settings.is_our_table(route.table) {
                let moved = settings.is_moved_table(route.table);
                let key = if moved { "netlink.moved-table" } else { "netlink.prefix-table" };
                found.push(Conflict { what: route.to_string(), key });
            }
        }
        let [name, peer] = settings.link_names.clone();
        let recorded = self.is_recorded(&Record::Link { name: name.clone(), peer: peer.clone() });
        for link in self.pair(&name, &peer).await?.iter().flatten() {
            if !(link.is_marked() || recorded && link.is_veth()) {
                found.push(Conflict::link(&link.name));
            }
        }
        Ok(found)
    }
}

fn rule_conflict(rule: &Rule) -> Conflict {
    Conflict { what: rule.to_string(), key: "netlink.rule-base" }
}
