//! The sets and CGAs that the planner makes, and the end of sets.

use super::*;
use crate::temporary::{DatedSet, Lack};

impl Planner {
    pub(super) fn make_groups(&mut self, places: &[Place<'_>]) {
        for place in places {
            if self.groups.iter().all(|group| group.rule != place.rule) {
                let key = place.rule.key().and_then(|name| self.keys.get(name)).cloned();
                self.groups.push(Group::new(place.rule.clone(), self.policy.sec, key));
            }
        }
    }

    /// Removes temporary sets whose time is over, once the planner knows which addresses contexts use.
    pub(super) fn retire_sets(&mut self, view: &HostView, now: Instant, plan: &mut Plan) {
        if !self.is_restored {
            return;
        }
        let there = addresses_of(view);
        let (is_there, is_used) =
            (|one: Locator| there.contains(&one.0), |one: Locator| view.in_use.contains(&one.0));
        let lifetimes = self.policy.lifetimes;
        for group in self.groups.iter_mut().filter(|group| group.rule.temporary) {
            plan.is_changed |= group.retire(&lifetimes, &is_used, &is_there, now);
        }
        let rules = self.policy.rules();
        let is_empty = |group: &Group| group.rule.temporary && group.sets.is_empty();
        self.groups.retain(|group| !is_empty(group) || rules.contains(&group.rule));
        self.next_set.retain(|_, at| *at > now);
    }

    pub(super) fn make_sets(
        &mut self,
        view: &HostView,
        interfaces: &[&Uplink],
        places: &[Place<'_>],
        now: Instant,
        plan: &mut Plan,
    ) {
        for index in 0..self.groups.len() {
            self.make_set_of(index, (view, interfaces), places, now, plan);
            let group = &self.groups[index];
            if let Some(at) = group.poll_timeout(&self.policy.lifetimes, now) {
                be_due_at(&mut self.due, at);
            }
        }
    }

    /// Makes the set of a group. An HBA set gets the prefixes that are known when it is made, and never another one.
    /// So the planner waits a short time for the prefixes of all uplinks. A temporary set is followed by another one.
    fn make_set_of(
        &mut self,
        index: usize,
        (view, interfaces): (&HostView, &[&Uplink]),
        places: &[Place<'_>],
        now: Instant,
        plan: &mut Plan,
    ) {
        let group = &mut self.groups[index];
        let own: Vec<_> = places.iter().filter(|place| place.rule == group.rule).collect();
        let prefixes: Vec<_> =
            own.iter().map(|place| place.prefix).take(moorline_cga::MAX_PREFIXES).collect();
        plan.is_changed |= !own.is_empty() && group.resume(&prefixes, now);
        let (Some(first), Some(lack)) = (own.first(), group.lack(&prefixes, now)) else {
            self.gathering.remove(&group.rule);
            return;
        };
        let earliest = match lack {
            Lack::Prefixes => now + GATHER,
            Lack::Time => now,
        };
        let next = self.next_set.get(&group.rule).copied().unwrap_or(now);
        let earliest = earliest.max(group.sets.last().map_or(now, |_| next));
        let until = *self.gathering.entry(group.rule.clone()).or_insert(earliest);
        let several = own.iter().any(|p| p.interface.ifindex != first.interface.ifindex);
        let is_missing = |one: &&Uplink| {
            self.policy.rule_of(&one.name) == group.rule
                && places.iter().all(|place| place.interface.ifindex != one.ifindex)
        };
        let is_complete = several && !interfaces.iter().any(is_missing) && next <= now;
        if !is_complete && now < until {
            be_due_at(&mut self.due, until);
            return;
        }
        let is_used = |one: Locator| view.in_use.contains(&one.0);
        let there = addresses_of(view);
        let is_there = |one: Locator| there.contains(&one.0);
        let lifetimes = self.policy.lifetimes;
        let is_young = |one: &DatedSet| one.is_any(&is_there) && lifetimes.is_young(one.until, now);
        if !group.make_room(lack, self.is_restored.then_some(&is_used), &is_young) {
            self.warnings.extend(self.is_restored.then(|| no_room(&group.rule)));
            be_due_at(&mut self.due, now + RETRY);
            return;
        }
        let lasts = match group.rule.temporary {
            true => self.policy.lifetimes.begin(&mut self.random, now),
            false => Until::FOREVER,
        };
        match group.make_set(&prefixes, lasts, &mut self.random) {
            Ok(()) => {
                plan.is_changed = true;
                self.gathering.remove(&group.rule);
                self.next_set.insert(group.rule.clone(), now + RETRY);
                let (count, rule) = (prefixes.len(), &group.rule);
                plan.notes.push(Note::News(format!("made a set of {count} addresses ({rule})")));
            }
            Err(error) => {
                self.warnings.push(not_made(&group.rule, error));
                be_due_at(&mut self.due, now + RETRY);
            }
        }
    }

    /// Makes CGAs. A laptop meets many networks, so the CGAs of networks that it has left go when there are many,
    /// except those that contexts use.
    pub(super) fn make_cgas(&mut self, view: &HostView, places: &[Place<'_>], plan: &mut Plan) {
        let in_use: BTreeSet<_> =
            view.in_use.iter().map(|address| Locator(*address).prefix()).collect();
        for group in &mut self.groups {
            let rule = group.rule.clone();
            for place in places.iter().filter(|place| place.rule == rule) {
                match group.make_cga(place.prefix, &mut self.random) {
                    Ok(true) => {
                        plan.is_changed = true;
                        plan.notes.push(Note::News(format!(
                            "{}: made an address for another prefix ({rule})",
                            place.interface.name
                        )));
                    }
                    Ok(false) => {}
                    Err(error) => self.warnings.push(not_made(&rule, error)),
                }
            }
            let is_here =
                |prefix| places.iter().any(|place| place.rule == rule && place.prefix == prefix);
            plan.is_changed |= self.is_restored
                && group.limit_cgas(|prefix| in_use.contains(&prefix) || is_here(prefix));
        }
    }
}

/// All addresses of the host.
fn addresses_of(view: &HostView) -> BTreeSet<Ipv6Addr> {
    let interfaces =
        [&view.uplinks, &view.candidates, &view.left_alone, &view.bare].into_iter().flatten();
    interfaces.flat_map(|one| &one.addresses).map(|own| own.address).collect()
}

fn not_made(rule: &Rule, error: GenerateError) -> String {
    format!("no addresses are made ({rule}): {error}")
}

fn no_room(rule: &Rule) -> String {
    format!(
        "no addresses are made for new prefixes ({rule}): connections use, or may use, all sets of addresses that there can be. New \
         connections in these prefixes do not move."
    )
}

/// Time for which the first start waits for the prefixes of all uplinks. Routers answer a solicitation within half a
/// second (RFC 4861 s6.2.6), and two solicitations may be needed.
pub(super) const GATHER: Duration = Duration::from_secs(2);
