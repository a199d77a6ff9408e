//! Rules by source address: no packet leaves through the wrong ISP (RFC 8028).

use crate::error::Error;
use crate::handle::Netlink;
use crate::message::{Action, Port, Route, Rule, Target};
use crate::settings::{
    MAX_PREFIXES, MOVED_PRIORITY, MOVED_TABLE, MOVED_TCP_PRIORITY, MOVED_TCP_TABLE,
    PREFIX_PRIORITY, PREFIX_TABLE, REDIRECTED_PRIORITY, SOCKET_PRIORITY, SPECIFIC_PRIORITY,
    UNBOUND_PRIORITY, UNBOUND_TABLE, slot_of_table,
};
use moorline_addresses::{HostView, MAX_SPECIFIC, Uplink};
use moorline_types::{Prefix, Ulid};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// Result of [`Netlink::ensure_rules`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRules {
    /// Whether a rule or route was changed.
    pub is_changed: bool,
    /// Prefixes of uplinks without a rule, as all tables are in use. Packets from them leave as without us.
    pub unserved: Vec<Prefix>,
}

impl Netlink {
    /// Makes the rules and tables that this view needs, and removes others of ours.
    ///
    /// If the uplink of a prefix is gone, the prefix keeps its rule as long as the host has an address in it. Its
    /// table then has only an unreachable route: an error at once is better than packets that the other ISP drops as
    /// spoofed. This does not apply to the prefix of an interface that is left alone.
    ///
    /// If there are more prefixes than [`MAX_PREFIXES`], the others stay as the kernel has them:
    /// [`SourceRules::unserved`].
    ///
    /// # Errors
    /// The kernel refused a rule or route. Those made before stay, and another call continues.
    pub async fn ensure_rules(&self, view: &HostView) -> Result<SourceRules, Error> {
        self.bring_about(view, None).await
    }

    /// Sets rules and tables for the time in which no daemon follows the changes of the host.
    /// [`Netlink::ensure_rules`] undoes this.
    ///
    /// If the main table sends the packets of a prefix to the same router, the prefix has no rule. Nobody sets
    /// unbound routes then; without the rule, the kernel notes the MTU of a path where sockets without an address
    /// look for it. The table of each other prefix has no stop behind its default routes: if the kernel removes
    /// these, packets go where they would go without us.
    ///
    /// As long as the main table has a preferred route of ours, each prefix has a rule: the main table sends packets of
    /// all prefixes by that route.
    ///
    /// # Errors
    /// The kernel refused a rule or route, or its tables cannot be read.
    pub async fn leave_rules(&self, view: &HostView) -> Result<(), Error> {
        let first = self.first_way(ANY_PEER)?;
        let is_same = |(prefix, uplink): &(Prefix, &Uplink)| {
            let way = uplink.gateway_for(*prefix).map(|route| (uplink.ifindex, route.gateway));
            way.is_some() && way == first
        };
        let rules = self.rules()?;
        let led = led(&rules, &self.routes_of_prefixes(view, &rules)?);
        let is_preferred = !self.our_routes_in(MAIN_TABLE)?.is_empty();
        let same = prefixes(view, &led).into_iter().filter(|one| !is_preferred && is_same(one));
        let left = same.map(|(prefix, _)| prefix).collect();
        self.bring_about(view, Some(&left)).await.map(drop)
    }

    async fn bring_about(&self, view: &HostView, left: Left<'_>) -> Result<SourceRules, Error> {
        let rules = self.rules()?;
        let routes = self.routes_of_prefixes(view, &rules)?;
        // All global addresses of the host, with those of kept ULIDs on our links.
        let rows = self.address_rows()?;
        let held: Vec<_> = rows.iter().filter_map(|row| row.address(libc::IFA_ADDRESS)).collect();
        let plan = plan(view, left, &rules, &routes, &held);
        let is_changed = !plan.is_empty();
        if is_changed {
            self.carry_out(&plan).await?;
        }
        Ok(SourceRules { is_changed, unserved: plan.unserved })
    }

    async fn carry_out(&self, plan: &Plan) -> Result<(), Error> {
        // A throw has no interface that could be gone, and there may be many throws.
        let (throws, ways): (Vec<Route>, Vec<Route>) =
            plan.set_routes.iter().cloned().partition(|route| route.target == Target::Throw);
        self.replace_routes(&throws).await?;
        let mut replaced: BTreeSet<_> = throws.iter().map(Route::place).collect();
        for route in &ways {
            // If the interface went down after the view was read, the stop behind the route takes effect.
            let is_gone = [libc::ENODEV, libc::ENETDOWN];
            let action = format_args!("set {route}");
            if self.change(&route.row(), NLM_F_CREATE | NLM_F_REPLACE, &is_gone, action)? {
                replaced.insert(route.place());
            }
        }
        for rule in &plan.add_rules {
            self.add_rule(rule)?;
        }
        if let Some(rule) = &plan.put_behind {
            self.remove(&rule.row(), rule)?;
            self.add_rule(rule)?;
        }
        for rule in &plan.delete_rules {
            self.remove(&rule.row(), rule)?;
        }
        // A route that was replaced is gone already. To remove it would remove its successor: the kernel compares the
        // gateway only if the request names one.
        let left = plan.delete_routes.iter().filter(|route| !replaced.contains(&route.place()));
        self.delete_routes(&left.cloned().collect::<Vec<_>>()).await?;
        if plan.is_addition() {
            // If a table gets a new route, the kernel makes the sockets of that table look up again.
            return Ok(());
        }
        self.flush_cached_routes().await
    }

    fn add_rule(&self, rule: &Rule) -> Result<(), Error> {
        let (flags, action) = (NLM_F_CREATE | NLM_F_EXCL, format_args!("add {rule}"));
        self.change(&rule.row(), flags, &[libc::EEXIST], action).map(drop)
    }

    /// Our routes in the tables that prefixes have or may get. The routes of moved pairs, which may be very many, are
    /// not read.
    fn routes_of_prefixes(&self, view: &HostView, rules: &[Rule]) -> Result<Vec<Route>, Error> {
        let used = rules.iter().filter_map(slot_of);
        let new = u32::try_from(prefixes(view, &Led::new()).len()).unwrap_or(u32::MAX);
        let slots = used.max().map_or(0, |slot| slot + 1).saturating_add(new);
        let mut routes = Vec::new();
        for slot in 0..slots.min(MAX_PREFIXES) {
            routes.extend(self.our_routes_in(PREFIX_TABLE + slot)?);
        }
        Ok(routes)
    }
}

/// Prefixes that are left to the main table while no daemon follows the changes of the host. The rules of the others
/// stay.
type Left<'a> = Option<&'a BTreeSet<Prefix>>;

/// The changes to make, in the order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    set_routes: Vec<Route>,
    add_rules: Vec<Rule>,
    /// The rule for sockets without an address, if a rule of a prefix would come behind it.
    put_behind: Option<Rule>,
    delete_rules: Vec<Rule>,
    delete_routes: Vec<Route>,
    /// Prefixes that stay as the kernel has them.
    unserved: Vec<Prefix>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.set_routes.is_empty()
            && self.add_rules.is_empty()
            && self.put_behind.is_none()
            && self.delete_rules.is_empty()
            && self.delete_routes.is_empty()
    }

    /// Whether the plan only adds routes to destinations other than the default.
    fn is_addition(&self) -> bool {
        self.add_rules.is_empty()
            && self.put_behind.is_none()
            && self.delete_rules.is_empty()
            && self.delete_routes.is_empty()
            && self.set_routes.iter().all(|route| route.destination.length() > 0)
    }
}

fn plan(
    view: &HostView,
    left: Left<'_>,
    rules: &[Rule],
    routes: &[Route],
    held: &[Ipv6Addr],
) -> Plan {
    let present: BTreeSet<Rule> = rules.iter().filter(|rule| rule.is_ours()).cloned().collect();
    let is_left = |prefix: &Prefix| left.is_some_and(|left| left.contains(prefix));
    let is_others = |prefix: &Prefix| {
        let mut others = view.left_alone.iter().flat_map(|one| &one.addresses);
        others.any(|own| prefix.contains(own.address))
    };
    let is_held = |prefix: &Prefix| {
        let is_ours = !is_left(prefix) && !is_others(prefix);
        is_ours && held.iter().any(|address| prefix.contains(*address))
    };
    let mut wanted = prefixes(view, &led(rules, routes));
    wanted.retain(|prefix, _| !is_left(prefix));
    let (slots, unserved) = assign_slots(view, &wanted, &present, &is_held);

    let unbound =
        Rule { carries: Some(TCP), is_inverted: true, ..look_up(UNBOUND_PRIORITY, UNBOUND_TABLE) };
    let mut wanted_rules = BTreeSet::from([
        Rule { carries: Some(TCP), ..look_up(MOVED_TCP_PRIORITY, MOVED_TCP_TABLE) },
        look_up(MOVED_PRIORITY, MOVED_TABLE),
        specific_rule(view),
        unbound.clone(),
    ]);
    for uplink in &view.uplinks {
        wanted_rules.extend(socket_rules(uplink));
        wanted_rules.insert(redirected_rule(uplink));
    }
    let mut wanted_routes = BTreeSet::new();
    for (slot, (prefix, uplink)) in &slots {
        let table = PREFIX_TABLE + *slot;
        let rule = look_up(PREFIX_PRIORITY, table);
        wanted_rules.insert(Rule { from: Some(*prefix), ..rule });
        wanted_routes.extend(table_routes(table, *prefix, *uplink, left.is_none()));
        wanted_routes.extend(specific_routes(table, view, *uplink));
    }
    let current: BTreeSet<Route> = routes.iter().cloned().collect();
    let mut add_rules: Vec<_> = wanted_rules.difference(&present).cloned().collect();
    add_rules.sort_by_key(|rule| (rule.priority, rule.from.is_none()));
    // A killed process may have left a rule behind it.
    let of_prefix = |rule: &Rule| rule.is_ours() && rule.from.is_some();
    let mut behind = rules.iter().skip_while(|rule| **rule != unbound).skip(1).chain(&add_rules);
    let is_behind = present.contains(&unbound) && behind.any(of_prefix);
    Plan {
        set_routes: wanted_routes.difference(&current).cloned().collect(),
        put_behind: is_behind.then_some(unbound),
        add_rules,
        delete_rules: present.difference(&wanted_rules).cloned().collect(),
        delete_routes: current.difference(&wanted_routes).cloned().collect(),
        unserved,
    }
}

fn slot_of(rule: &Rule) -> Option<u32> {
    match rule.action {
        Action::Lookup { table, .. } => slot_of_table(table),
        Action::Goto(_) | Action::Nop => None,
    }
}

/// Indices of the uplinks to which the tables of prefixes lead now.
type Led = BTreeMap<Prefix, u32>;

fn led(rules: &[Rule], routes: &[Route]) -> Led {
    let way = |rule: &Rule| {
        let (prefix, slot) = rule.from.zip(slot_of(rule))?;
        let of_table = |route: &&Route| route.table == PREFIX_TABLE + slot;
        let ways = routes.iter().filter(of_table).filter(|route| route.destination.length() == 0);
        let mut ways = ways.filter_map(|route| match route.target {
            Target::Device { ifindex, .. } => Some(ifindex),
            Target::Multipath(_) | Target::Unreachable | Target::Throw => None,
        });
        Some((prefix, ways.next()?))
    };
    rules.iter().filter(|rule| rule.is_ours()).filter_map(way).collect()
}

/// Prefixes of the uplinks, each with the uplink for it. Any node on a link can advertise a prefix of another link.
fn prefixes<'a>(view: &'a HostView, led: &Led) -> BTreeMap<Prefix, &'a Uplink> {
    let mut found: BTreeMap<Prefix, &Uplink> = BTreeMap::new();
    for uplink in &view.uplinks {
        let own: BTreeSet<Prefix> = uplink.addresses.iter().map(|own| own.prefix()).collect();
        let inside = |one: &Prefix| own.iter().any(|other| other != one && other.covers(*one));
        for prefix in own.iter().filter(|one| one.length() > 0 && !inside(one)) {
            let entry = found.entry(*prefix).or_insert(uplink);
            let led = led.get(prefix).copied();
            if rank(uplink, led) < rank(entry, led) {
                *entry = uplink;
            }
        }
    }
    found
}

/// Rank of an uplink for a prefix, the lowest first: with a carrier, then the metric of the kernel, then the uplink
/// that the table leads to so far.
fn rank(uplink: &Uplink, led: Option<u32>) -> (bool, u32, bool, u32) {
    (!uplink.carrier, metric(uplink), led != Some(uplink.ifindex), uplink.ifindex)
}

fn metric(uplink: &Uplink) -> u32 {
    uplink.default_routes.first().map_or(u32::MAX, |route| route.metric)
}

type Slots<'a> = BTreeMap<u32, (Prefix, Option<&'a Uplink>)>;

/// Assigns slots to prefixes, as long as there are any. Also returns the prefixes without a slot. A prefix keeps its
/// slot; a new prefix gets the lowest free slot.
fn assign_slots<'a>(
    view: &HostView,
    wanted: &BTreeMap<Prefix, &'a Uplink>,
    present: &BTreeSet<Rule>,
    is_held: &dyn Fn(&Prefix) -> bool,
) -> (Slots<'a>, Vec<Prefix>) {
    let mut before = BTreeMap::new();
    for rule in present {
        let Some((prefix, slot)) = rule.from.zip(slot_of(rule)) else { continue };
        if wanted.contains_key(&prefix) || is_held(&prefix) {
            before.entry(prefix).or_insert(slot);
        }
    }
    let mut served = in_order(view, wanted, before.keys().copied());
    let unserved = served.split_off(served.len().min(SLOTS));
    before.retain(|prefix, _| !unserved.contains(prefix));
    let mut free: BTreeSet<u32> = (0..MAX_PREFIXES).collect();
    free.retain(|slot| before.values().all(|taken| taken != slot));
    let mut slots = Slots::new();
    for prefix in served {
        let slot = before.get(&prefix).copied().or_else(|| free.pop_first());
        slots.extend(slot.map(|slot| (slot, (prefix, wanted.get(&prefix).copied()))));
    }
    (slots, unserved)
}

/// Orders prefixes by their need for a rule. Prefixes of addresses in use come first, then one prefix of each uplink
/// in turn, in the order of the kernel's metrics. Prefixes without an uplink come last.
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

/// Default routes of the uplink for the prefix, with a stop behind them: if the kernel removes the routes with the
/// interface, the look-up must not continue to the other ISP. If one of two routers is gone, the kernel takes the
/// other one.
fn table_routes(
    table: u32,
    prefix: Prefix,
    uplink: Option<&Uplink>,
    has_stop: bool,
) -> impl Iterator<Item = Route> {
    let gateways = |uplink: &Uplink| {
        let routes = uplink.gateways_for(prefix);
        let mut seen = BTreeSet::new();
        let gateways = routes.into_iter().map(|route| route.gateway);
        gateways
            .filter(move |gateway| seen.insert(*gateway))
            .take(MAX_ROUTERS)
            .map(|gateway| (uplink.ifindex, gateway))
            .collect()
    };
    let ways: Vec<_> = uplink.map(gateways).unwrap_or_default();
    let ways = (Route::METRIC..).zip(ways).map(move |(metric, (ifindex, gateway))| {
        let target = Target::Device { ifindex, gateway };
        Route { metric, ..Route::new(table, Route::DEFAULT, target) }
    });
    let stop = Route::new(table, Route::DEFAULT, Target::Unreachable);
    ways.chain(has_stop.then_some(Route { metric: u32::MAX, ..stop }))
}

/// Copies of connected and specific routes of the main table, which come before the default route of a prefix. A
/// route by the uplink itself is copied, so that sockets that are bound to the uplink find it. Another route becomes
/// a throw, so that the look-up continues at the main table. Hosts on a link without a carrier are reached by the
/// router of the prefix, and so is the destination of a detour.
///
/// A rule that looks into the main table and ignores default routes (`suppress_prefixlength`) does not suffice. If
/// the kernel has noted the MTU of a path at a default route, such a rule takes the note for a specific route, and
/// all prefixes leave by that uplink (decision 126).
fn specific_routes(
    table: u32,
    view: &HostView,
    uplink: Option<&Uplink>,
) -> impl Iterator<Item = Route> {
    let known = (!has_too_many(view)).then_some(&view.specific);
    let for_all: BTreeSet<_> = view.specific_for_all().collect();
    let ours = uplink.map(|uplink| uplink.ifindex);
    let mut routes = BTreeMap::new();
    for one in known.into_iter().flatten() {
        let own = one.way.filter(|(ifindex, _)| Some(*ifindex) == ours);
        if own.is_none() && !for_all.contains(one) {
            continue;
        }
        let target =
            own.map_or(Target::Throw, |(ifindex, gateway)| Target::Device { ifindex, gateway });
        let route = Route {
            source: one.source,
            metric: one.metric,
            mtu: one.mtu.filter(|_| own.is_some()),
            ..Route::new(table, one.destination, target)
        };
        let entry = routes.entry(route.place()).or_insert_with(|| route.clone());
        if own.is_some() {
            *entry = route;
        }
    }
    routes.into_values()
}

/// The rule at which the look-up continues for packets that must not be looked up among moved pairs. If the host is a
/// router with too many routes to follow, the rule looks up specific routes.
fn specific_rule(view: &HostView) -> Rule {
    let look_up = Action::Lookup { table: MAIN_TABLE, suppress_default: true };
    Rule::new(SPECIFIC_PRIORITY, if has_too_many(view) { look_up } else { Action::Nop })
}

fn has_too_many(view: &HostView) -> bool {
    view.specific.len() > MAX_SPECIFIC
}

/// A rule for all packets that looks into a table.
const fn look_up(priority: u32, table: u32) -> Rule {
    Rule::new(priority, Action::Lookup { table, suppress_default: false })
}

/// Rules that lead sockets to the tables of moved pairs if they are bound to an uplink or name one for a packet
/// (`IPV6_PKTINFO`), like all other sockets: otherwise their packets leave no room for a header. The kernel also
/// names the uplink for echo replies. A look-up for a socket has a port or an ICMPv6 type; a look-up for our programs
/// has neither.
fn socket_rules(uplink: &Uplink) -> [Rule; 2] {
    [Port::Source, Port::Destination].map(|port| Rule {
        output: Some(uplink.name.clone()),
        port: Some(port),
        ..Rule::new(SOCKET_PRIORITY, Action::Goto(MOVED_TCP_PRIORITY))
    })
}

/// Rule for packets that the programs send out of an uplink, by another route look-up. These packets have the
/// addresses on the wire, which may be the ULIDs of another context that has moved, or of this one before its move.
/// The look-up must not lead to `moor0` again.
fn redirected_rule(uplink: &Uplink) -> Rule {
    Rule {
        output: Some(uplink.name.clone()),
        ..Rule::new(REDIRECTED_PRIORITY, Action::Goto(SPECIFIC_PRIORITY))
    }
}

/// An address to which hardly any route but a default route leads: the subnet-router anycast address of all global
/// unicast addresses.
const ANY_PEER: Ulid = Ulid(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0));
const SLOTS: usize = MAX_PREFIXES as usize;
/// Largest number of routers in the table of one prefix.
const MAX_ROUTERS: usize = 4;
/// Protocol number of TCP.
const TCP: u8 = 6;
const MAIN_TABLE: u32 = libc::RT_TABLE_MAIN as u32;

#[cfg(test)]
mod tests;
