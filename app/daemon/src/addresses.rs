//! Our addresses: what proves them, and what peers are told of them. Which the host should have is decided in
//! [`moorline_addresses`].
//!
//! | module | concern |
//! |---|---|
//! | `keys`, `saved`, `given` | what is on disk |
//! | `views` | what the control API tells |
//! | `follow` | carries the plan out |

mod follow;
mod given;
mod keys;
mod saved;
mod views;

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::Context as _;
use moorline_addresses::{
    Action, AdvertisedPrefixes, Advertisement, HostView, Plan, Planner, RETRY, Rule, Seen, Uplink,
};
use moorline_cga::LocalProof;
use moorline_types::{Instant, Locator, Prefix};

use crate::config::AddressSettings;
use crate::deaf::Deaf;
use crate::store::Store;
use keys::Keys;
pub(crate) use saved::SavedAddresses;

/// Our side of every context.
#[derive(Debug)]
pub(crate) struct Addresses {
    planner: Planner,
    keys: Keys,
    pub(crate) advertised: AdvertisedPrefixes,
    pub(crate) deaf: Deaf,
    proof: LocalProof,
    /// The parameters differ from those on disk.
    is_unsaved: bool,
    /// Why they could not be written.
    trouble: Option<String>,
    /// Why the host is not as it should be.
    not_followed: Option<String>,
    /// When to look again, whatever happens.
    due: Option<Instant>,
    /// Prefixes that have no routing rule, as there are too many.
    unserved: Vec<Prefix>,
}

impl Addresses {
    /// With the keys and addresses of the last run, if there was one: peers and name servers may know
    /// them.
    pub(crate) fn open(settings: AddressSettings, store: &Store) -> anyhow::Result<Self> {
        let keys = Keys::open(&settings, &store.keys()?)?;
        let saved = store.load_addresses()?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).context("randomness of the kernel")?;
        let key_of = |rule: &Rule| rule.key().and_then(|name| keys.public().get(name)).cloned();
        let (generation, mut groups) = match saved {
            Some(saved) => {
                let generation = saved.generation;
                let groups = saved.into_groups(key_of).with_context(|| {
                    format!("{}: remove it to get new addresses", store.addresses().display())
                })?;
                (generation, groups)
            }
            None => (getrandom::u32().context("randomness of the kernel")?, Vec::new()),
        };
        given::add(&mut groups, &settings, key_of)?;
        let planner = Planner::new(settings.policy, keys.public().clone(), groups, seed);
        let local = planner.announced(&HostView::default());
        Ok(Self {
            planner,
            keys,
            advertised: AdvertisedPrefixes::new(),
            deaf: Deaf::default(),
            // Another one than any that peers of a run before may know.
            proof: LocalProof::new(generation.wrapping_add(1), local, &[], seed),
            is_unsaved: false,
            trouble: None,
            not_followed: None,
            due: None,
            unserved: Vec::new(),
        })
    }

    /// A router, or the kernel on its behalf, has said something.
    pub(crate) fn handle_advertisement(&mut self, said: &Advertisement, now: Instant) {
        self.advertised.handle_advertisement(said, now);
        // What it says comes in several parts, from the kernel and from the router.
        self.look_again(now + SETTLE);
    }

    /// Interfaces were down, if only for a moment: the kernel has taken addresses of ours from them.
    pub(crate) fn handle_interfaces_down(&mut self, down: &BTreeSet<u32>) {
        self.planner.on_interfaces_down(down);
    }

    /// The host was brought in step with what is known, or could not be: then it is tried again.
    pub(crate) fn handle_followed(&mut self, failure: Option<String>, now: Instant) {
        if let Some(text) = &failure {
            if self.not_followed != failure {
                tracing::warn!("{text}");
            }
            self.look_again(now + RETRY);
        }
        self.not_followed = failure;
    }

    /// Notes which prefixes have no routing rule. Gives a warning if all had one before.
    pub(crate) fn handle_unserved(&mut self, unserved: Vec<Prefix>) -> Option<String> {
        let is_news = self.unserved.is_empty();
        self.unserved = unserved;
        self.too_many_prefixes().filter(|_| is_news)
    }

    /// The contexts of the run before are back, or given up: from now on [`HostView::in_use`] has all ULIDs.
    pub(crate) fn on_restored(&mut self) {
        self.planner.on_restored();
    }

    /// When [`Addresses::plan`] is due, if nothing happens before.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let advertised = self.advertised.poll_timeout(now);
        [self.due, self.planner.poll_timeout(), advertised].into_iter().flatten().min()
    }

    /// What is to be done now. New parameters are on disk when this comes back; if they could not be
    /// written no address is added.
    fn plan(&mut self, view: &HostView, at: Instant, store: &Store, now: Instant) -> Plan {
        self.due = self.deaf.again().map(|after| now + after);
        self.advertised.handle_timeout(now);
        let interfaces = || view.uplinks.iter().chain(&view.candidates);
        let is_there = |ifindex: u32| {
            interfaces().any(|one| one.ifindex == ifindex) || self.deaf.contains(ifindex)
        };
        self.advertised.retain_interfaces(is_there);
        let advertised: Vec<_> = self.advertised.prefixes().collect();
        let mut plan = self.planner.plan(&Seen { view, at, advertised: &advertised }, now);
        self.is_unsaved |= plan.is_changed;
        if !self.save_if_needed(store, self.proof.generation(), now) {
            plan.actions.retain(|action| !matches!(action, Action::Add { .. }));
        }
        plan
    }

    fn save_if_needed(&mut self, store: &Store, generation: u32, now: Instant) -> bool {
        if !self.is_unsaved {
            return true;
        }
        let saved = SavedAddresses::new(generation, self.planner.groups().iter());
        match store.save_addresses(&saved) {
            Ok(()) => {
                (self.is_unsaved, self.trouble) = (false, None);
                true
            }
            Err(error) => {
                let text = format!("new addresses wait until they can be kept: {error:#}");
                if self.trouble.as_ref() != Some(&text) {
                    tracing::warn!("{text}");
                }
                self.trouble = Some(text);
                self.look_again(now + RETRY);
                false
            }
        }
    }

    fn look_again(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Fills in which routers advertise the prefixes of an uplink.
    fn tell_advertisers(&self, uplink: &mut Uplink) {
        let prefixes = self.advertised.prefixes().filter(|one| one.ifindex == uplink.ifindex);
        let advertisers = prefixes.flat_map(|one| {
            let routers = self.advertised.routers_of(one.ifindex, one.prefix);
            routers.map(move |router| (one.prefix, router))
        });
        uplink.advertisers = advertisers.collect();
    }

    /// The proof of our addresses. Signs a list that is new.
    fn local_proof(&mut self, view: &HostView, store: &Store, now: Instant) -> LocalProof {
        let local = self.planner.announced(view);
        if local != *self.proof.addresses() {
            let mut seed = [0; 32];
            // Without randomness there is no blinding, so nothing is signed, and peers know what they
            // know. The kernel has had it since it was asked first.
            if getrandom::fill(&mut seed).is_ok() {
                let generation = self.proof.generation().wrapping_add(1);
                self.is_unsaved = true;
                self.save_if_needed(store, generation, now);
                self.proof = LocalProof::new(generation, local, &self.keys.signers(), seed);
            }
        }
        self.proof.clone()
    }

    fn is_announced(&self, address: Ipv6Addr) -> bool {
        self.proof.addresses().present.contains(&Locator(address))
    }
}

/// Advertisements that come together are looked at together.
const SETTLE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
