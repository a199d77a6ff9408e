//! Our addresses: keys, files, rules and labels. [`moorline_addresses`] decides which addresses the host should have.
//!
//! | module | concern |
//! |---|---|
//! | `keys`, `given` | files; `moorline-state` has the file of addresses |
//! | `views` | answers of the control API |
//! | `effects` | execution of the host's effects about addresses |

mod effects;
mod given;
mod keys;
mod views;

use anyhow::Context as _;
use moorline_addresses::{Addressing, HostView, Planner, Rule};
use moorline_cga::{LocalAddresses, LocalProof};
use moorline_state::{Moment, SavedAddresses};
use moorline_types::Prefix;

use crate::clock;
use crate::config::AddressSettings;
use crate::deaf::Deaf;
use crate::shell::seed;
use crate::store::Store;
use keys::Keys;
pub(crate) use views::{AddressViews, has_router, told_of};

/// Keys of our addresses, and the prefixes and links of warnings. `Host` has the plans of addresses.
#[derive(Debug)]
pub(crate) struct Addresses {
    keys: Keys,
    pub(crate) deaf: Deaf,
    /// Prefixes without a routing rule, because the host has too many prefixes.
    unserved: Vec<Prefix>,
    /// A sentence on a damaged file of the last run.
    damage: Option<String>,
}

impl Addresses {
    /// Loads keys and addresses of the last run, which peers and name servers may know. Returns also the planner of
    /// addresses, and a proof of an empty list.
    pub(crate) fn open(
        settings: AddressSettings,
        store: &Store,
    ) -> anyhow::Result<(Self, Addressing, LocalProof)> {
        let keys = Keys::open(&settings, &store.keys()?)?;
        let seed = seed()?;
        let key_of = |rule: &Rule| rule.key().and_then(|name| keys.public().get(name)).cloned();
        let lifetimes = &settings.policy.lifetimes;
        let kept = store.folder().load_groups(key_of, lifetimes, moment())?;
        let generation = match kept.generation {
            Some(generation) => generation,
            None => getrandom::u32().context("randomness of the kernel")?,
        };
        if let Some(damage) = &kept.damage {
            tracing::warn!("{damage}");
        }
        let mut groups = kept.groups;
        given::add(&mut groups, &settings, key_of)?;
        let planner = Planner::new(settings.policy, keys.public().clone(), groups, seed);
        let local = planner.announced(&HostView::default());
        let proof = LocalProof::new(generation, local, &[], seed);
        let addresses =
            Self { keys, deaf: Deaf::default(), unserved: Vec::new(), damage: kept.damage };
        Ok((addresses, Addressing::new(planner), proof))
    }

    /// Stores the prefixes without a routing rule. Returns a warning if all prefixes had a rule before.
    pub(crate) fn handle_unserved(&mut self, unserved: Vec<Prefix>) -> Option<String> {
        let is_news = self.unserved.is_empty();
        self.unserved = unserved;
        self.too_many_prefixes().filter(|_| is_news)
    }

    /// Makes a proof of these addresses with the generations after those of `generation`, and signs the list if needed.
    fn sign(&self, addresses: LocalAddresses, generation: u32) -> anyhow::Result<LocalProof> {
        // Blinding needs random octets. Without them nothing is signed, and peers keep the last list.
        let (seed, generation) = (seed()?, generation.wrapping_add(LocalProof::GENERATIONS));
        Ok(LocalProof::new(generation, addresses, &self.keys.signers(), seed))
    }
}

/// Writes the parameters of all addresses, and the generation that peers know.
fn save(store: &Store, addressing: &Addressing, generation: u32) -> anyhow::Result<()> {
    let saved = SavedAddresses::new(generation, addressing.planner.groups().iter(), moment());
    store.folder().save_addresses(&saved)
}

/// Returns the current time of both clocks.
pub(crate) fn moment() -> Moment {
    Moment { now: clock::now(), unix_s: clock::unix_ms() / 1000 }
}

#[cfg(test)]
mod tests;
