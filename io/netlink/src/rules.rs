//! Source-address rules: a packet never leaves through the wrong ISP (RFC 8028).

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Action, Port, Route, Rule, Target};
use crate::settings::Settings;
use crate::view::{HostView, Prefix, Uplink};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv6Addr;

impl Netlink {
    /// Makes rules and tables what this view asks for, and no more.
    ///
    /// A prefix whose uplink is gone keeps its rule as long as the host has an address in it, with
    /// nothing but an unreachable route in its table: better an error at once than packets that the
    /// other ISP drops as spoofed. Not so if it is the prefix of an interface that is left alone.
    ///
    /// True if something was changed.
    ///
    /// # Errors
    /// The kernel refused a rule or route; those made before stay, and calling again goes on.
    pub async fn ensure_rules(&self, view: &HostView) -> Result<bool, Error> {
        let rules = self.rules().await?;
        let routes = self.routes_of_prefixes(view, &rules).await?;
        let held = self.held_addresses().await?;
        let plan = plan(&self.settings, view, &rules, &routes, &|prefix| {
            held.iter().any(|address| prefix.contains(*address))
        })?;
        if plan.is_empty() {
            return Ok(false);
        }
        let Settings { rule_base: base, protocol, .. } = *self.settings;
        self.record(Record::Rules { base, protocol })?;
        for table in &plan.tables {
            self.record(Record::Table { table: *table, protocol })?;
        }
        let mut replaced = BTreeSet::new();
        for route in &plan.set_routes {
            match self.replace_route(route).await {
                Ok(()) => {
                    replaced.insert(route.place());
                }
                // The interface went down since the view was taken: the stop behind the route holds.
                Err(Error::Refused { action, source }) if is_gone(&source) => {
                    tracing::debug!(action, error = %source, "uplink is gone");
                }
                Err(error) => return Err(error),
            }
        }
        for rule in &plan.add_rules {
            self.add_rule(rule).await?;
        }
        for rule in &plan.delete_rules {
            self.delete_rule(rule).await?;
        }
        // What had the place of another is gone. To remove it would remove that one: the kernel looks at the
        // gateway only if one is named.
        let left = plan.delete_routes.iter().filter(|route| !replaced.contains(&route.place()));
        for route in left {
            self.delete_route(route).await?;
        }
        self.flush_cached_routes().await?;
        Ok(true)
    }

    /// Our routes in the tables that prefixes have or may be given. Those of moved pairs may be very many.
    async fn routes_of_prefixes(
        &self,
        view: &HostView,
        rules: &[Rule],
    ) -> Result<Vec<Route>, Error> {
        let used = rules.iter().filter_map(|rule| self.settings.slot_of_priority(rule.priority));
        let new = u32::try_from(prefixes(view).len()).unwrap_or(u32::MAX);
        let slots = used.max().map_or(0, |slot| slot + 1).saturating_add(new);
        let mut routes = Vec::new();
        for slot in 0..slots.min(Settings::PREFIXES) {
            routes.extend(self.our_routes_in(self.settings.table_of(slot)).await?);
        }
        Ok(routes)
    }

    /// All global addresses of the host, on our links too: those of ULIDs that are kept.
    async fn held_addresses(&self) -> Result<Vec<Ipv6Addr>, Error> {
        let rows = self.address_rows().await?;
        Ok(rows.iter().filter_map(|row| row.address(libc::IFA_ADDRESS)).collect())
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENETDOWN))
}

/// What has to change, in the order of its fields.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    tables: BTreeSet<u32>,
    set_routes: Vec<Route>,
    add_rules: Vec<Rule>,
    delete_rules: Vec<Rule>,
    delete_routes: Vec<Route>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.set_routes.is_empty()
            && self.add_rules.is_empty()
            && self.delete_rules.is_empty()
            && self.delete_routes.is_empty()
    }
}

fn plan(
    settings: &Settings,
    view: &HostView,
    rules: &[Rule],
    routes: &[Route],
    is_held: &dyn Fn(Prefix) -> bool,
) -> Result<Plan, Error> {
    let ours = |rule: &&Rule| {
        rule.protocol == settings.protocol && settings.is_our_priority(rule.priority)
    };
    let present: BTreeSet<Rule> = rules.iter().filter(ours).cloned().collect();
    let is_others = |prefix: Prefix| {
        let mut others = view.left_alone.iter().flat_map(|one| &one.addresses);
        others.any(|own| prefix.contains(own.address))
    };
    let is_held = |prefix: Prefix| !is_others(prefix) && is_held(prefix);
    let slots = assign_slots(settings, &prefixes(view), &present, &is_held)?;

    let moved = rule(settings, settings.moved_priority(), None, settings.moved_table, false);
    let mut wanted_rules = BTreeSet::from([
        Rule {
            priority: settings.moved_tcp_priority(),
            carries: Some(TCP),
            action: Action::Lookup { table: settings.moved_tcp_table(), suppress_default: false },
            ..moved.clone()
        },
        moved,
        rule(settings, settings.specific_priority(), None, MAIN_TABLE, true),
    ]);
    for uplink in &view.uplinks {
        wanted_rules.extend(socket_rules(settings, uplink));
        wanted_rules.insert(redirected_rule(settings, uplink));
    }
    let mut wanted_routes = BTreeSet::new();
    for (slot, (prefix, uplink)) in &slots {
        let table = settings.table_of(*slot);
        let priority = settings.prefix_priority(*slot);
        wanted_rules.insert(rule(settings, priority, Some(*prefix), table, false));
        wanted_routes.extend(table_routes(settings, table, *prefix, *uplink));
    }
    let current: BTreeSet<Route> =
        routes.iter().filter(|route| !settings.is_moved_table(route.table)).copied().collect();
    Ok(Plan {
        tables: slots.keys().map(|slot| settings.table_of(*slot)).collect(),
        set_routes: wanted_routes.difference(&current).copied().collect(),
        add_rules: wanted_rules.difference(&present).cloned().collect(),
        delete_rules: present.difference(&wanted_rules).cloned().collect(),
        delete_routes: current.difference(&wanted_routes).copied().collect(),
    })
}

/// The prefixes of the uplinks, each with the uplink for it.
fn prefixes(view: &HostView) -> BTreeMap<Prefix, &Uplink> {
    let mut found: BTreeMap<Prefix, &Uplink> = BTreeMap::new();
    for uplink in &view.uplinks {
        let own: BTreeSet<Prefix> = uplink.addresses.iter().map(|own| own.prefix()).collect();
        let inside = |one: &Prefix| own.iter().any(|other| other != one && other.covers(*one));
        for prefix in own.iter().filter(|one| one.length() > 0 && !inside(one)) {
            let entry = found.entry(*prefix).or_insert(uplink);
            if rank(uplink) < rank(entry) {
                *entry = uplink;
            }
        }
    }
    found
}

/// Which uplink is the better of two on the same link: one that works, then the kernel's choice.
fn rank(uplink: &Uplink) -> (bool, u32, u32) {
    let metric = uplink.default_routes.first().map_or(u32::MAX, |route| route.metric);
    (!uplink.carrier, metric, uplink.ifindex)
}

type Slots<'a> = BTreeMap<u32, (Prefix, Option<&'a Uplink>)>;

/// Prefixes keep the slot they have; new ones take the lowest free one.
fn assign_slots<'a>(
    settings: &Settings,
    wanted: &BTreeMap<Prefix, &'a Uplink>,
    present: &BTreeSet<Rule>,
    is_held: &dyn Fn(Prefix) -> bool,
) -> Result<Slots<'a>, Error> {
    let mut slots = Slots::new();
    let mut placed = BTreeSet::new();
    for rule in present {
        let (Some(slot), Some(prefix)) = (settings.slot_of_priority(rule.priority), rule.from)
        else {
            continue;
        };
        let uplink = wanted.get(&prefix).copied();
        if (uplink.is_some() || is_held(prefix)) && placed.insert(prefix) {
            slots.insert(slot, (prefix, uplink));
        }
    }
    for (prefix, uplink) in wanted.iter().filter(|(prefix, _)| !placed.contains(prefix)) {
        let free = (0..Settings::PREFIXES).find(|slot| !slots.contains_key(slot));
        let slot = free.ok_or(Error::TooManyPrefixes { cap: Settings::PREFIXES })?;
        slots.insert(slot, (*prefix, Some(uplink)));
    }
    Ok(slots)
}

/// The default route of the uplink, and behind it a stop: should the kernel take the first away with
/// the interface, the lookup must not go on to the other ISP.
fn table_routes(
    settings: &Settings,
    table: u32,
    prefix: Prefix,
    uplink: Option<&Uplink>,
) -> Vec<Route> {
    let stop = Route {
        table,
        destination: Route::DEFAULT,
        source: None,
        metric: u32::MAX,
        target: Target::Unreachable,
        mtu: None,
        protocol: settings.protocol,
    };
    let way = uplink.and_then(|uplink| {
        let gateway = uplink.gateway_for(prefix)?.gateway;
        let target = Target::Device { ifindex: uplink.ifindex, gateway };
        Some(Route { metric: Route::METRIC, target, ..stop })
    });
    way.into_iter().chain([stop]).collect()
}

fn rule(
    settings: &Settings,
    priority: u32,
    from: Option<Prefix>,
    table: u32,
    suppress_default: bool,
) -> Rule {
    let action = Action::Lookup { table, suppress_default };
    Rule {
        priority,
        from,
        output: None,
        carries: None,
        port: None,
        action,
        protocol: settings.protocol,
    }
}

/// Send sockets that are bound to an uplink, or that name one for a packet (`IPV6_PKTINFO`), to the tables of moved pairs,
/// as all other sockets: otherwise their packets leave no room for a header. The kernel names the uplink for echo replies,
/// too. A look-up for a socket has a port or a type of ICMPv6; a look-up for our programs has neither.
fn socket_rules(settings: &Settings, uplink: &Uplink) -> [Rule; 2] {
    [Port::Source, Port::Destination].map(|port| Rule {
        priority: settings.socket_priority(),
        port: Some(port),
        action: Action::Goto(settings.moved_tcp_priority()),
        ..redirected_rule(settings, uplink)
    })
}

/// The programs send packets out of an uplink by way of another route lookup. Their addresses are those
/// on the wire: if these are the ULIDs of another context that has moved, or of this one before it has,
/// the lookup must not lead to `moor0` again.
fn redirected_rule(settings: &Settings, uplink: &Uplink) -> Rule {
    Rule {
        priority: settings.redirected_priority(),
        from: None,
        output: Some(uplink.name.clone()),
        carries: None,
        port: None,
        action: Action::Goto(settings.specific_priority()),
        protocol: settings.protocol,
    }
}

/// Protocol number.
const TCP: u8 = 6;
const MAIN_TABLE: u32 = libc::RT_TABLE_MAIN as u32;

#[cfg(test)]
mod tests;
