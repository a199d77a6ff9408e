//! Checks that all addresses of others are the same on both hosts, and that Moorline's addresses last as long as the
//! kernel's own.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, AddressMode, Planner};
use moorline_host::Host;
use moorline_types::{Instant, Locator};

use super::kernel::{Ends, Held};
use super::world::{LIFETIMES, WITH, WITHOUT, World, links};
use crate::outcome::Rule;

/// A prefix on a link.
type Place = (u32, [u8; 8]);

fn place((ifindex, address): (u32, Ipv6Addr)) -> Place {
    (ifindex, Locator(address).prefix())
}

impl World {
    pub(super) fn compare(&mut self) {
        let with: Vec<_> =
            self.kernels[WITH].addresses().filter(|(at, _)| !self.ours.contains(at)).collect();
        let without: Vec<_> = self.kernels[WITHOUT].addresses().collect();
        if with != without {
            let detail = format!("with Moorline {with:?}, without {without:?}");
            self.violate(Rule::OwnAddresses, detail);
        }
        if self.is_temporary {
            let mut known = self.known();
            known.retain(|_, ends| ends.is_for_new(self.now + LATE));
            self.since.retain(|place, _| known.contains_key(place));
            known.keys().for_each(|place| {
                self.since.entry(*place).or_insert(self.now);
            });
        }
    }

    /// Checks the rules after a time without changes.
    pub(super) fn look(&mut self) {
        let known = self.known();
        self.ends.extend(&known);
        let Some(host) = &self.daemon else { return };
        let Some(planner) = host.addressing().map(|addressing| &addressing.planner) else { return };
        let is_full = planner.warnings().iter().any(|one| one.contains("all sets of addresses"));
        self.full_since = is_full.then(|| self.full_since.unwrap_or(self.now));
        let wrong = self
            .out_of_step(planner, &known)
            .or_else(|| self.lacking(host, planner, &known))
            .or_else(|| self.too_old(planner));
        if let Some(detail) = wrong {
            self.violate(Rule::LifetimesInStep, detail);
        }
    }

    /// The prefixes of the host without Moorline, with their ends.
    fn known(&self) -> BTreeMap<Place, Ends> {
        let mut known = BTreeMap::new();
        for (at, held) in self.kernels[WITHOUT].addresses() {
            let is_public = held.prefix_len == 64 && !held.flags.contains(AddressFlags::TEMPORARY);
            if is_public {
                let ends = known.entry(place(at)).or_insert(held.ends);
                if held.ends == Ends::NEVER {
                    *ends = Ends::NEVER;
                }
            }
        }
        known
    }

    fn ours(&self) -> impl Iterator<Item = ((u32, Ipv6Addr), Held)> + '_ {
        self.kernels[WITH].addresses().filter(|(at, _)| self.ours.contains(at))
    }

    /// An address of Moorline that does not end with its prefix, if there is one.
    fn out_of_step(&self, planner: &Planner, known: &BTreeMap<Place, Ends>) -> Option<String> {
        let is_usable = |held: &Held| !held.flags.contains(AddressFlags::DAD_FAILED);
        let judged =
            self.ours().filter(|(at, held)| is_usable(held) && !self.hidden.contains(&place(*at)));
        let is_in_step = |(at, held): &((u32, Ipv6Addr), Held)| {
            let member = planner.member(at.1);
            // A former address, which another one has replaced, may last less long than its prefix.
            let is_former = member.is_some_and(|member| member.is_former);
            // The daemon sets the valid lifetime once the address is known to be no duplicate. A daemon that is
            // killed before leaves the address unchanged.
            if held.flags.contains(AddressFlags::TENTATIVE) {
                let prefix = self.ends.get(&place(*at)).map(|ends| ends.preferred);
                return prefix.is_some_and(|until| self.is_no_later(held.ends.preferred, until));
            }
            if let Some(ends) = known.get(&place(*at)).filter(|_| self.is_temporary) {
                return self.is_no_later(held.ends.preferred, ends.preferred)
                    && self.is_no_later(held.ends.valid, ends.valid);
            }
            if let Some(ends) = known.get(&place(*at)).filter(|_| !is_former) {
                return held.ends.distance(*ends, self.now).is_some_and(|apart| apart <= CLOSE);
            }
            let ends = self.ends.get(&place(*at));
            ends.is_some_and(|ends| self.is_no_later(held.ends.valid, ends.valid))
                || self.is_left(at, held)
        };
        let ((ifindex, address), held) = judged.into_iter().find(|one| !is_in_step(one))?;
        let ends = self.ends.get(&place((ifindex, address)));
        Some(format!("{address} on wan{ifindex} ends at {:?}, the prefix at {ends:?}", held.ends))
    }

    /// A prefix in which Moorline has no address, if there is one.
    fn lacking(
        &self,
        host: &Host,
        planner: &Planner,
        known: &BTreeMap<Place, Ends>,
    ) -> Option<String> {
        // A set has the prefixes that it was made with, and no others.
        if self.mode == AddressMode::Hba && !self.is_temporary {
            return None;
        }
        let groups = planner.groups();
        let in_view = links(host.view());
        // Young sets do not give way to new prefixes.
        if self.full_since.is_some_and(|since| self.now.since(since) < YOUNG + LATE) {
            return None;
        }
        let is_wanted = |(at, ends): &(&Place, &Ends)| {
            let lasts = ends.valid.is_none_or(|until| until > self.now + Duration::from_secs(10));
            let is_there_for_long = |since: &Instant| *since + LATE <= self.now;
            if self.is_temporary && !self.since.get(at).is_some_and(is_there_for_long) {
                return false;
            }
            let is_given_up = groups.iter().any(|group| group.is_given_up(at.1));
            in_view.contains(&at.0) && lasts && !self.taken.contains(*at) && !is_given_up
        };
        let is_for_new = |held: &Held| held.ends.is_for_new(self.now);
        let has = |at: &Place| {
            let is_enough = |held: &Held| !self.is_temporary || is_for_new(held);
            self.ours().any(|(own, held)| place(own) == *at && is_enough(&held))
        };
        let ((ifindex, prefix), _) = known.iter().filter(is_wanted).find(|(at, _)| !has(at))?;
        Some(format!("no address of Moorline in {prefix:02x?} on wan{ifindex}"))
    }

    /// A temporary address that is used for longer than RFC 8981 allows, or too many sets.
    fn too_old(&self, planner: &Planner) -> Option<String> {
        let sets = planner.groups().iter().map(|group| group.sets.len()).max().unwrap_or(0);
        if sets > MOST_SETS {
            return Some(format!("{sets} sets"));
        }
        let is_young = |(at, held): &((u32, Ipv6Addr), Held)| {
            let born = self.born.get(&at.1).copied().unwrap_or(self.now);
            let is_settled = !held.flags.contains(AddressFlags::TENTATIVE);
            self.is_no_later(held.ends.preferred, Some(born + LIFETIMES.preferred))
                && (!is_settled
                    || self.is_no_later(held.ends.valid, Some(born + LIFETIMES.valid))
                    || self.is_left(at, held))
        };
        let is_usable = |held: &Held| !held.flags.contains(AddressFlags::DAD_FAILED);
        let mut judged = self.ours().filter(|(_, held)| self.is_temporary && is_usable(held));
        let ((ifindex, address), held) = judged.find(|one| !is_young(one))?;
        let born = self.born.get(&address);
        Some(format!("{address} on wan{ifindex}, since {born:?}, ends at {:?}", held.ends))
    }

    /// Whether a killed run has left this address, which goes soon.
    fn is_left(&self, at: &(u32, Ipv6Addr), held: &Held) -> bool {
        let goes_soon = held.ends.valid.is_some_and(|until| until <= self.now + LEFT);
        goes_soon && self.found.contains(at)
    }

    fn is_no_later(&self, ours: Option<Instant>, prefix: Option<Instant>) -> bool {
        let (Some(ours), Some(prefix)) = (ours, prefix) else { return prefix.is_none() };
        ours.max(self.now) <= prefix.max(self.now) + CLOSE
    }
}

/// The kernel and Moorline count whole seconds, and Moorline ignores differences of up to 3 s.
const CLOSE: Duration = Duration::from_secs(5);
/// Smallest age of a temporary set that gives way to another.
const YOUNG: Duration = Duration::from_secs(60 * 60);
/// Time within which a new set exists for a new prefix.
const LATE: Duration = Duration::from_secs(30);
/// Largest number of sets: those in use, those whose addresses are about to be removed, and two for duplicates of the
/// last one.
const MOST_SETS: usize = 12;
/// Longest time for which an address of a killed run stays after it was found.
const LEFT: Duration = Duration::from_secs(2 * 60 * 60);
