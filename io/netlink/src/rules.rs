//! Source-address rules: a packet never leaves through the wrong ISP (RFC 8028).

use crate::error::Error;
use crate::handle::Netlink;
use crate::journal::Record;
use crate::message::{Action, Carried, Port, Route, Rule, Target};
use crate::settings::{Settings, UNBOUND_PRIORITY};
use crate::view::MAX_SPECIFIC;
use moorline_addresses::{HostView, Uplink};
use moorline_types::{Prefix, Ulid};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv6Addr;

/// Result of [`Netlink::ensure_rules`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRules {
    /// Whether a rule or route was changed.
    pub is_changed: bool,
    /// Prefixes of uplinks without a rule, as there are no more tables. Packets from them leave as without us.
    pub unserved: Vec<Prefix>,
}

impl Netlink {
    /// Makes rules and tables what this view asks for, and no more.
    ///
    /// A prefix whose uplink is gone keeps its rule as long as the host has an address in it, with
    /// nothing but an unreachable route in its table: better an error at once than packets that the
    /// other ISP drops as spoofed. Not so if it is the prefix of an interface that is left alone.
    ///
    /// If there are more prefixes than [`Settings::PREFIXES`], the rest stays as the kernel has it: [`SourceRules::unserved`].
    ///
    /// # Errors
    /// The kernel refused a rule or route; those made before stay, and calling again goes on.
    pub async fn ensure_rules(&self, view: &HostView) -> Result<SourceRules, Error> {
        self.bring_about(view, &Following::Daemon).await
    }

    /// Rules and tables for the time in which no daemon follows the changes of the host. [`Netlink::ensure_rules`] takes this back.
    ///
    /// A prefix whose packets the main table sends to the same router has no rule: the kernel notes the MTU of a path where sockets
    /// without an address look for it, as nobody sets unbound routes. The table of another prefix has no stop behind its way out: if
    /// the kernel takes the way, packets go where they would go without us.
    ///
    /// # Errors
    /// The kernel refused a rule or route, or its tables cannot be read.
    pub async fn leave_rules(&self, view: &HostView) -> Result<(), Error> {
        let first = self.first_way(ANY_PEER).await?;
        let is_same = |(prefix, uplink): &(Prefix, &Uplink)| {
            let way = uplink.gateway_for(*prefix).map(|route| (uplink.ifindex, route.gateway));
            way.is_some() && way == first
        };
        let left = prefixes(view).into_iter().filter(is_same).map(|(prefix, _)| prefix).collect();
        self.bring_about(view, &Following::Nobody { left }).await.map(drop)
    }

    async fn bring_about(
        &self,
        view: &HostView,
        following: &Following,
    ) -> Result<SourceRules, Error> {
        let rules = self.rules().await?;
        let routes = self.routes_of_prefixes(view, &rules).await?;
        let held = self.held_addresses().await?;
        let plan = plan(&self.settings, view, following, &rules, &routes, &|prefix| {
            held.iter().any(|address| prefix.contains(*address))
        });
        let is_changed = !plan.is_empty();
        if is_changed {
            self.carry_out(&plan).await?;
        }
        Ok(SourceRules { is_changed, unserved: plan.unserved })
    }

    async fn carry_out(&self, plan: &Plan) -> Result<(), Error> {
        let Settings { rule_base: base, protocol, .. } = *self.settings;
        self.record(Record::Rules { base, protocol })?;
        for table in &plan.tables {
            self.record(Record::Table { table: *table, protocol })?;
        }
        // A throw has no interface that could be gone, and there may be many of them.
        let (throws, ways): (Vec<Route>, Vec<Route>) =
            plan.set_routes.iter().cloned().partition(|route| route.target == Target::Throw);
        self.replace_routes(&throws).await?;
        let mut replaced: BTreeSet<_> = throws.iter().map(Route::place).collect();
        for route in &ways {
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
        self.delete_routes(&left.cloned().collect::<Vec<_>>()).await?;
        if plan.is_addition() {
            // The kernel has the sockets of a table look again if the table has a new route.
            return Ok(());
        }
        self.flush_cached_routes().await
    }

    /// Our routes in the tables that prefixes have or may be given. The routes of moved pairs, which may be very many, are not read.
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
    /// Prefixes that stay as the kernel has them.
    unserved: Vec<Prefix>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.set_routes.is_empty()
            && self.add_rules.is_empty()
            && self.delete_rules.is_empty()
            && self.delete_routes.is_empty()
    }

    /// Whether there is nothing in it but routes to some destinations.
    fn is_addition(&self) -> bool {
        self.add_rules.is_empty()
            && self.delete_rules.is_empty()
            && self.delete_routes.is_empty()
            && self.set_routes.iter().all(|route| route.destination.length() > 0)
    }
}

fn plan(
    settings: &Settings,
    view: &HostView,
    following: &Following,
    rules: &[Rule],
    routes: &[Route],
    is_held: &dyn Fn(Prefix) -> bool,
) -> Plan {
    let ours = |rule: &&Rule| {
        let is_of_base = settings.is_our_priority(rule.priority);
        rule.protocol == settings.protocol && (is_of_base || rule.priority == UNBOUND_PRIORITY)
    };
    let present: BTreeSet<Rule> = rules.iter().filter(ours).cloned().collect();
    let is_others = |prefix: Prefix| {
        let mut others = view.left_alone.iter().flat_map(|one| &one.addresses);
        others.any(|own| prefix.contains(own.address))
    };
    let is_held = |prefix| !following.leaves(prefix) && !is_others(prefix) && is_held(prefix);
    let mut wanted = prefixes(view);
    wanted.retain(|prefix, _| !following.leaves(*prefix));
    let (slots, unserved) = assign_slots(settings, view, &wanted, &present, &is_held);

    let moved = rule(settings, settings.moved_priority(), None, settings.moved_table, false);
    let mut wanted_rules = BTreeSet::from([
        Rule {
            priority: settings.moved_tcp_priority(),
            carries: Some(Carried::This(TCP)),
            action: Action::Lookup { table: settings.moved_tcp_table(), suppress_default: false },
            ..moved.clone()
        },
        Rule {
            priority: UNBOUND_PRIORITY,
            carries: Some(Carried::AllBut(TCP)),
            action: Action::Lookup { table: settings.unbound_table(), suppress_default: false },
            ..moved.clone()
        },
        moved,
        specific_rule(settings, view),
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
        wanted_routes.extend(table_routes(settings, table, *prefix, *uplink, following));
        wanted_routes.extend(specific_routes(settings, table, view, *uplink));
    }
    let current: BTreeSet<Route> =
        routes.iter().filter(|route| !settings.is_moved_table(route.table)).cloned().collect();
    Plan {
        tables: slots.keys().map(|slot| settings.table_of(*slot)).collect(),
        set_routes: wanted_routes.difference(&current).cloned().collect(),
        add_rules: wanted_rules.difference(&present).cloned().collect(),
        delete_rules: present.difference(&wanted_rules).cloned().collect(),
        delete_routes: current.difference(&wanted_routes).cloned().collect(),
        unserved,
    }
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
    (!uplink.carrier, metric(uplink), uplink.ifindex)
}

fn metric(uplink: &Uplink) -> u32 {
    uplink.default_routes.first().map_or(u32::MAX, |route| route.metric)
}

type Slots<'a> = BTreeMap<u32, (Prefix, Option<&'a Uplink>)>;

/// Gives each prefix a slot, as long as there are some, and the prefixes that have none. A prefix keeps the slot that it
/// has; a new one takes the lowest free one.
fn assign_slots<'a>(
    settings: &Settings,
    view: &HostView,
    wanted: &BTreeMap<Prefix, &'a Uplink>,
    present: &BTreeSet<Rule>,
    is_held: &dyn Fn(Prefix) -> bool,
) -> (Slots<'a>, Vec<Prefix>) {
    let mut before = BTreeMap::new();
    for rule in present {
        let slot = settings.slot_of_priority(rule.priority);
        let Some((prefix, slot)) = rule.from.zip(slot) else { continue };
        if wanted.contains_key(&prefix) || is_held(prefix) {
            before.entry(prefix).or_insert(slot);
        }
    }
    let mut served = in_order(view, wanted, before.keys().copied());
    let unserved = served.split_off(served.len().min(SLOTS));
    before.retain(|prefix, _| !unserved.contains(prefix));
    let mut free: BTreeSet<u32> = (0..Settings::PREFIXES).collect();
    free.retain(|slot| before.values().all(|taken| taken != slot));
    let mut slots = Slots::new();
    for prefix in served {
        let slot = before.get(&prefix).copied().or_else(|| free.pop_first());
        slots.extend(slot.map(|slot| (slot, (prefix, wanted.get(&prefix).copied()))));
    }
    (slots, unserved)
}

/// The prefixes, those first that need a rule most: those of addresses in use, then one of each uplink in turn, the
/// kernel's choice of the uplinks first. Prefixes without an uplink come last.
fn in_order(
    view: &HostView,
    wanted: &BTreeMap<Prefix, &Uplink>,
    before: impl Iterator<Item = Prefix>,
) -> Vec<Prefix> {
    let mut turns: BTreeMap<u32, u32> = BTreeMap::new();
    let mut place = |prefix: Prefix| {
        let is_in_use = view.in_use.iter().any(|address| prefix.contains(*address));
        let uplink = wanted.get(&prefix).map(|uplink| {
            let turn = turns.entry(uplink.ifindex).or_default();
            *turn += 1;
            (*turn, metric(uplink), uplink.ifindex)
        });
        (!is_in_use, uplink.is_none(), uplink)
    };
    let all: BTreeSet<Prefix> = wanted.keys().copied().chain(before).collect();
    let mut all: Vec<_> = all.into_iter().map(|prefix| (place(prefix), prefix)).collect();
    all.sort();
    all.into_iter().map(|(_, prefix)| prefix).collect()
}

/// Who follows the changes of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Following {
    /// The daemon does.
    Daemon,
    /// The daemon has ended, and its rules stay, but for those of the prefixes that are left to the main table.
    Nobody { left: BTreeSet<Prefix> },
}

impl Following {
    fn leaves(&self, prefix: Prefix) -> bool {
        match self {
            Self::Daemon => false,
            Self::Nobody { left } => left.contains(&prefix),
        }
    }
}

/// The default route of the uplink, and behind it a stop: should the kernel take the first away with
/// the interface, the lookup must not go on to the other ISP.
fn table_routes(
    settings: &Settings,
    table: u32,
    prefix: Prefix,
    uplink: Option<&Uplink>,
    following: &Following,
) -> Vec<Route> {
    let stop = Route {
        table,
        destination: Route::DEFAULT,
        source: None,
        metric: u32::MAX,
        target: Target::Unreachable,
        preferred_source: None,
        expires: None,
        mtu: None,
        protocol: settings.protocol,
    };
    let way = uplink.and_then(|uplink| {
        let gateway = uplink.gateway_for(prefix)?.gateway;
        let target = Target::Device { ifindex: uplink.ifindex, gateway };
        Some(Route { metric: Route::METRIC, target, ..stop })
    });
    let has_stop = *following == Following::Daemon;
    way.into_iter().chain(has_stop.then_some(stop)).collect()
}

/// Connected and specific routes of the main table come before the default route of a prefix: those by the uplink itself as copies,
/// so that sockets that are bound to it find them, and the others as throws, so that the look-up goes on at the main table.
///
/// A rule that looks into the main table and passes over default routes (`suppress_prefixlength`) is not enough. Where the kernel
/// has noted the MTU of a path at a default route, such a rule takes this note for a specific route, and all prefixes leave by that
/// uplink (decision 126).
fn specific_routes(
    settings: &Settings,
    table: u32,
    view: &HostView,
    uplink: Option<&Uplink>,
) -> impl Iterator<Item = Route> {
    let known = if has_too_many(view) { None } else { Some(&view.specific) };
    let ours = uplink.map(|uplink| uplink.ifindex);
    let mut routes = BTreeMap::new();
    for one in known.into_iter().flatten() {
        let own = one.way.filter(|(ifindex, _)| Some(*ifindex) == ours);
        let route = Route {
            table,
            destination: one.destination,
            source: one.source,
            metric: one.metric,
            target: own
                .map_or(Target::Throw, |(ifindex, gateway)| Target::Device { ifindex, gateway }),
            preferred_source: None,
            expires: None,
            mtu: one.mtu.filter(|_| own.is_some()),
            protocol: settings.protocol,
        };
        let entry = routes.entry(route.place()).or_insert_with(|| route.clone());
        if own.is_some() {
            *entry = route;
        }
    }
    routes.into_values()
}

/// The look-up goes on here for packets that are not to be looked up among moved pairs. On a router, which has too many routes to
/// follow, the rule looks up specific routes.
fn specific_rule(settings: &Settings, view: &HostView) -> Rule {
    let priority = settings.specific_priority();
    let look_up = rule(settings, priority, None, MAIN_TABLE, true);
    if has_too_many(view) { look_up } else { Rule { action: Action::Nop, ..look_up } }
}

fn has_too_many(view: &HostView) -> bool {
    view.specific.len() > MAX_SPECIFIC
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

/// An address that no route but a default route is likely to lead to: the subnet-router anycast address of all global unicast
/// addresses.
const ANY_PEER: Ulid = Ulid(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0));
const SLOTS: usize = Settings::PREFIXES as usize;
/// Protocol number.
const TCP: u8 = 6;
const MAIN_TABLE: u32 = libc::RT_TABLE_MAIN as u32;

#[cfg(test)]
mod tests;
