//! The daemon: its start, and the execution of its effects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{
    Action, AddressFlags, AddressPolicy, Addressing, Group, Lifetimes, Planner, Rule as AddressRule,
};
use moorline_cga::{LocalProof, Sec, Signer as _};
use moorline_contexts::{self as shim6, Contexts};
use moorline_host::{Effect, Host};
use moorline_types::{Instant, Prefix};

use super::{Event, Fault, LENGTH, LIFETIMES, WITH, World};
use crate::addresses::signer_of;
use crate::own::kernel::{Ends, Held, PUBLIC, address_in};
use crate::plan::Chance;

impl World {
    pub(super) fn start(&mut self) {
        if self.daemon.is_some() {
            return;
        }
        self.note(|| "the daemon starts".to_owned());
        let name = || "default".to_owned();
        let policy = AddressPolicy {
            sec: Sec::ZERO,
            default: AddressRule {
                mode: self.mode,
                key: name(),
                set: name(),
                temporary: self.is_temporary,
            },
            interfaces: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            is_temporary_said: true,
            lifetimes: LIFETIMES,
        };
        let keys = BTreeMap::from([(name(), signer_of(0).public_key().clone())]);
        // The groups come from disk: prefixes that were given up are tried again.
        let groups = self.saved.iter().cloned().map(|saved| {
            let Group { rule, sec, key, sets, base, cgas, .. } = saved;
            let mut group = Group::new(rule, sec, key);
            (group.sets, group.base, group.cgas) = (sets, base, cgas);
            group
        });
        let groups = groups.collect();
        let planner = Planner::new(policy, keys, groups, self.rng.seed());
        let contexts = Contexts::new(shim6::Config::default(), self.rng.seed(), self.now);
        let addressing = Addressing::new(planner);
        let mut host = Host::new(contexts, None).with_addressing(addressing, LocalProof::default());
        host.handle_restored(BTreeSet::new(), self.now);
        host.handle_view(self.kernels[WITH].view(self.now), self.now);
        self.daemon = Some(host);
        self.taken.clear();
        self.found.clone_from(&self.ours);
        self.unsettle(Duration::from_secs(20));
        self.execute_all();
    }

    pub(super) fn execute_all(&mut self) {
        while let Some(effect) = self.daemon.as_mut().and_then(|host| host.poll_effect(self.now)) {
            let is_done = !self.is_refused(&effect) && self.execute(&effect);
            let Some(host) = &mut self.daemon else { return };
            if is_done {
                host.handle_done(&effect, self.now);
            } else {
                host.handle_failed(&effect, self.now);
                self.unsettle(Duration::from_secs(90));
            }
            self.dies_after = self.dies_after.map(|left| left.saturating_sub(1));
            if self.dies_after == Some(0) {
                self.kill();
            }
        }
    }

    /// Whether this effect fails: at random the disk is full, or the kernel refuses.
    fn is_refused(&mut self, effect: &Effect) -> bool {
        let can_be = matches!(
            effect,
            Effect::FollowRules
                | Effect::SaveAddresses
                | Effect::ChangeAddress(_)
                | Effect::Attach { .. }
        );
        can_be && self.rng.is(Chance::percent(2))
    }

    /// Executes an effect. Returns false if the kernel refuses.
    fn execute(&mut self, effect: &Effect) -> bool {
        let Some(host) = &mut self.daemon else { return false };
        if let Effect::ChangeAddress(action) = effect {
            return self.change_address(*action);
        } else if *effect == Effect::SaveAddresses {
            let groups = host.addressing().map(|one| one.planner.groups());
            self.saved = groups.unwrap_or_default().to_vec();
        } else if let Effect::Sign(addresses) = effect {
            let generation = host.proof().generation() + LocalProof::GENERATIONS;
            host.set_proof(LocalProof::new(generation, addresses.clone(), &[], [0; 32]));
        }
        true
    }

    /// Changes an address. Returns false if the kernel refuses.
    fn change_address(&mut self, action: Action) -> bool {
        if !matches!(action, Action::Solicit { .. }) {
            self.note(|| format!("Moorline: {action:?}"));
        }
        match action {
            Action::Solicit { ifindex } => {
                self.solicit(ifindex);
                true
            }
            Action::Add { ifindex, address, preferred } => {
                let is_endless = self.fault == Some(Fault::AddsForever);
                let preferred = if is_endless { u32::MAX } else { preferred };
                let lifetimes = Lifetimes { preferred, valid: u32::MAX };
                self.add(ifindex, address, Ends::of(lifetimes, self.now))
            }
            Action::SetLifetimes { ifindex, address, lifetimes }
                if self.fault == Some(Fault::PrefersForLong) =>
            {
                let for_long = Lifetimes { preferred: lifetimes.valid, ..lifetimes };
                let ends = Ends::of(for_long, self.now);
                self.kernels[WITH].change(ifindex, address, |held| held.ends = ends)
            }
            Action::SetLifetimes { .. }
                if self.fault == Some(Fault::SetsLifetimesOnce)
                    && self.now > Instant::ZERO + LENGTH / 8 =>
            {
                true
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => {
                let ends = Ends::of(lifetimes, self.now);
                let is_there = self.kernels[WITH].change(ifindex, address, |held| held.ends = ends);
                self.notice();
                is_there
            }
            Action::Remove { ifindex, address } => {
                let is_there = self.kernels[WITH].unset(ifindex, address);
                self.notice();
                is_there
            }
        }
    }

    fn add(&mut self, ifindex: u32, address: Ipv6Addr, ends: Ends) -> bool {
        if self.fault == Some(Fault::AddsNoMore) && self.now > Instant::ZERO + LENGTH / 8 {
            return true;
        }
        if !self.kernels[WITH].is_up(ifindex) {
            return false;
        }
        if self.fault == Some(Fault::RemovesOthers) {
            let prefix = Prefix::new(address, 64);
            self.kernels[WITH].unset(ifindex, address_in(prefix, PUBLIC));
        }
        let flags = AddressFlags(AddressFlags::TENTATIVE.0 | AddressFlags::OPTIMISTIC.0);
        let held = Held { prefix_len: 64, is_made: false, flags, ends };
        self.kernels[WITH].set(ifindex, address, held);
        self.ours.insert((ifindex, address));
        self.born.entry(address).or_insert(self.now);
        self.found.remove(&(ifindex, address));
        let is_duplicate = self.rng.is(Chance::percent(2));
        let late = self.rng.between(Duration::from_secs(1), Duration::from_secs(2));
        self.queue.push(self.now + late, Event::Detected { ifindex, address, is_duplicate });
        self.notice();
        self.unsettle(Duration::from_secs(8));
        true
    }
}
