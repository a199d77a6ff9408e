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

use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_addresses::{Action, Addressing, HostView, Plan, Planner, RETRY, Rule};
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
    pub(crate) plans: Addressing,
    keys: Keys,
    pub(crate) deaf: Deaf,
    proof: LocalProof,
    /// The parameters differ from those on disk.
    is_unsaved: bool,
    /// Why they could not be written.
    trouble: Option<String>,
    /// Why the host is not as it should be.
    not_followed: Option<String>,
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
            plans: Addressing::new(planner),
            keys,
            deaf: Deaf::default(),
            // Another one than any that peers of a run before may know.
            proof: LocalProof::new(generation.wrapping_add(1), local, &[], seed),
            is_unsaved: false,
            trouble: None,
            not_followed: None,
            unserved: Vec::new(),
        })
    }

    /// The host was brought in step with what is known, or could not be: then it is tried again.
    pub(crate) fn handle_followed(&mut self, failure: Option<String>, now: Instant) {
        if let Some(text) = &failure {
            if self.not_followed != failure {
                tracing::warn!("{text}");
            }
            self.plans.look_again(now + RETRY);
        }
        self.not_followed = failure;
    }

    /// Notes which prefixes have no routing rule. Gives a warning if all had one before.
    pub(crate) fn handle_unserved(&mut self, unserved: Vec<Prefix>) -> Option<String> {
        let is_news = self.unserved.is_empty();
        self.unserved = unserved;
        self.too_many_prefixes().filter(|_| is_news)
    }

    /// What is to be done now. New parameters are on disk when this comes back; if they could not be
    /// written no address is added.
    fn plan(&mut self, view: &HostView, at: Instant, store: &Store, now: Instant) -> Plan {
        let mut plan = self.plans.plan(view, at, now);
        if let Some(after) = self.deaf.again() {
            self.plans.look_again(now + after);
        }
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
        let saved = SavedAddresses::new(generation, self.plans.planner().groups().iter());
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
                self.plans.look_again(now + RETRY);
                false
            }
        }
    }

    /// The proof of our addresses. Signs a list that is new.
    fn local_proof(&mut self, view: &HostView, store: &Store, now: Instant) -> LocalProof {
        let local = self.plans.planner().announced(view);
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

#[cfg(test)]
mod tests;
