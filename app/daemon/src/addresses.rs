//! Our addresses: keys, files, rules and labels. [`moorline_addresses`] decides which addresses the host should have.
//!
//! | module | concern |
//! |---|---|
//! | `keys`, `saved`, `given` | files |
//! | `views` | answers of the control API |
//! | `effects` | execution of the host's effects about addresses |

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
        let saved = store.load_addresses(|saved| {
            let generation = saved.generation;
            Ok((generation, saved.into_groups(key_of, lifetimes, moment())?))
        })?;
        let (mut generation, mut groups) = match saved.value {
            Some(saved) => saved,
            None => (getrandom::u32().context("randomness of the kernel")?, Vec::new()),
        };
        if saved.is_older {
            generation = generation.wrapping_add(GENERATIONS_OF_A_FILE);
        }
        if let Some(damage) = &saved.damage {
            tracing::warn!("{damage}");
        }
        given::add(&mut groups, &settings, key_of)?;
        let planner = Planner::new(settings.policy, keys.public().clone(), groups, seed);
        let local = planner.announced(&HostView::default());
        // Use a generation that no peer of an earlier run knows.
        let proof =
            LocalProof::new(generation.wrapping_add(LocalProof::GENERATIONS), local, &[], seed);
        let addresses =
            Self { keys, deaf: Deaf::default(), unserved: Vec::new(), damage: saved.damage };
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
    store.save_addresses(&saved)
}

/// Returns the current time of both clocks.
pub(crate) fn moment() -> Moment {
    Moment { now: clock::now(), unix_s: clock::unix_ms() / 1000 }
}

/// Serial numbers of locator lists (RFC 5533 s5.15.2) that no run uses between two of its files.
const GENERATIONS_OF_A_FILE: u32 = 1 << 16;

#[cfg(test)]
mod tests;
