//! Our addresses: keys, disk, rules and labels. Which addresses the host should have is decided in [`moorline_addresses`].
//!
//! | module | concern |
//! |---|---|
//! | `keys`, `saved`, `given` | what is on disk |
//! | `views` | what the control API tells |
//! | `effects` | executes what the host wants of addresses |

mod effects;
mod given;
mod keys;
mod saved;
mod views;

use anyhow::Context as _;
use moorline_addresses::{Addressing, HostView, Planner, Rule};
use moorline_cga::{LocalAddresses, LocalProof};
use moorline_types::Prefix;

use crate::clock;
use crate::config::AddressSettings;
use crate::deaf::Deaf;
use crate::shell::seed;
use crate::store::Store;
use keys::Keys;
pub(crate) use saved::{Moment, SavedAddresses};
pub(crate) use views::{AddressViews, evidence_text, has_router};

/// The keys of our addresses, and prefixes and links that people should know of. The host has the plans.
#[derive(Debug)]
pub(crate) struct Addresses {
    keys: Keys,
    pub(crate) deaf: Deaf,
    /// Prefixes that have no routing rule, as there are too many.
    unserved: Vec<Prefix>,
}

impl Addresses {
    /// With the keys and addresses of the last run, if there was one: peers and name servers may know
    /// them. With them come what decides which addresses the host should have, and the proof of none.
    pub(crate) fn open(
        settings: AddressSettings,
        store: &Store,
    ) -> anyhow::Result<(Self, Addressing, LocalProof)> {
        let keys = Keys::open(&settings, &store.keys()?)?;
        let saved = store.load_addresses()?;
        let seed = seed()?;
        let key_of = |rule: &Rule| rule.key().and_then(|name| keys.public().get(name)).cloned();
        let (generation, mut groups) = match saved {
            Some(saved) => {
                let generation = saved.generation;
                let lifetimes = &settings.policy.lifetimes;
                let groups = saved.into_groups(key_of, lifetimes, moment()).with_context(|| {
                    format!("{}: remove it to get new addresses", store.addresses().display())
                })?;
                (generation, groups)
            }
            None => (getrandom::u32().context("randomness of the kernel")?, Vec::new()),
        };
        given::add(&mut groups, &settings, key_of)?;
        let planner = Planner::new(settings.policy, keys.public().clone(), groups, seed);
        let local = planner.announced(&HostView::default());
        // Another generation than any that peers of a run before may know.
        let proof = LocalProof::new(generation.wrapping_add(1), local, &[], seed);
        let addresses = Self { keys, deaf: Deaf::default(), unserved: Vec::new() };
        Ok((addresses, Addressing::new(planner), proof))
    }

    /// Notes which prefixes have no routing rule. Gives a warning if all had one before.
    pub(crate) fn handle_unserved(&mut self, unserved: Vec<Prefix>) -> Option<String> {
        let is_news = self.unserved.is_empty();
        self.unserved = unserved;
        self.too_many_prefixes().filter(|_| is_news)
    }

    /// A proof of these addresses, of the generation after this one. Signs the list if that is wanted.
    fn sign(&self, addresses: LocalAddresses, generation: u32) -> anyhow::Result<LocalProof> {
        // Without randomness there is no blinding, so nothing is signed, and peers know what they know.
        let (seed, generation) = (seed()?, generation.wrapping_add(1));
        Ok(LocalProof::new(generation, addresses, &self.keys.signers(), seed))
    }
}

/// Writes the parameters of all addresses, with the generation that peers know.
fn save(store: &Store, addressing: &Addressing, generation: u32) -> anyhow::Result<()> {
    let saved = SavedAddresses::new(generation, addressing.planner.groups().iter(), moment());
    store.save_addresses(&saved)
}

/// Now.
pub(crate) fn moment() -> Moment {
    Moment { now: clock::now(), unix_s: clock::unix_ms() / 1000 }
}

#[cfg(test)]
mod tests;
