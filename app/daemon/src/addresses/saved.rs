use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use moorline_addr::{parse_prefix, prefix_text};
use moorline_addresses::{AddressMode, Group, Rule};
use moorline_cga::{Cga, HbaSet, PublicKey, Sec};
use serde::{Deserialize, Serialize};

/// What the state directory keeps of our addresses, so that they are the same at the next start.
/// Nothing in it is secret.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct SavedAddresses {
    version: u32,
    /// Of the last locator lists.
    pub generation: u32,
    groups: Vec<SavedGroup>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SavedGroup {
    mode: AddressMode,
    key: String,
    set: String,
    sec: u8,
    /// Parameters in hex, the set in use last.
    hba_sets: Vec<String>,
    /// Parameters of the first CGA, in hex.
    cga: Option<String>,
    /// Prefixes with a CGA, and its collision count.
    cga_prefixes: BTreeMap<String, u8>,
}

impl SavedAddresses {
    pub(crate) fn new<'a>(generation: u32, groups: impl Iterator<Item = &'a Group>) -> Self {
        let groups = groups.map(SavedGroup::new).collect();
        Self { version: VERSION, generation, groups }
    }

    /// The groups, with the keys that the configuration has for them now.
    ///
    /// A group whose key is another one by now is left out: nobody could sign for its addresses.
    pub(crate) fn into_groups(
        self,
        key_of: impl Fn(&Rule) -> Option<PublicKey>,
    ) -> anyhow::Result<Vec<Group>> {
        ensure!(self.version == VERSION, "it is of version {}, not {VERSION}", self.version);
        let mut groups = Vec::new();
        for saved in self.groups {
            let group = saved.into_group(&key_of)?;
            if is_of_its_key(&group) {
                groups.push(group);
            } else {
                tracing::warn!(
                    key = group.rule.key,
                    "another key than the addresses were made with: new ones will be made"
                );
            }
        }
        Ok(groups)
    }
}

impl SavedGroup {
    fn new(group: &Group) -> Self {
        Self {
            mode: group.rule.mode,
            key: group.rule.key.clone(),
            set: group.rule.set.clone(),
            sec: group.sec.value(),
            hba_sets: group.sets.iter().map(|set| hex::encode(set.pds())).collect(),
            cga: group.base.as_ref().map(|cga| hex::encode(cga.pds())),
            cga_prefixes: group
                .cgas
                .iter()
                .map(|(prefix, count)| (prefix_text(*prefix), *count))
                .collect(),
        }
    }

    fn into_group(self, key_of: &impl Fn(&Rule) -> Option<PublicKey>) -> anyhow::Result<Group> {
        let sec = Sec::new(self.sec).context("sec")?;
        let rule = Rule { mode: self.mode, key: self.key, set: self.set };
        let key = key_of(&rule);
        let mut group = Group::new(rule, sec, key);
        for text in self.hba_sets {
            let pds = hex::decode(text).context("hba-sets")?;
            group.sets.push(HbaSet::from_pds(&pds, sec).context("hba-sets")?);
        }
        if let Some(text) = self.cga {
            let pds = hex::decode(text).context("cga")?;
            group.base = Some(Cga::from_pds(&pds, group.cga_sec()).context("cga")?);
        }
        for (text, count) in self.cga_prefixes {
            group.cgas.insert(parse_prefix(&text).context("cga-prefixes")?, count);
        }
        Ok(group)
    }
}

/// Whether the parameters of a group have the key that goes by its name now; true if there is none.
fn is_of_its_key(group: &Group) -> bool {
    let Some(key) = &group.key else { return true };
    let in_sets = group.sets.iter().filter_map(HbaSet::public_key);
    let in_cga = group.base.iter().map(|cga| cga.public_key().clone());
    in_sets.chain(in_cga).all(|one| one == *key)
}

const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_addr::generate_key;
    use moorline_addresses::AddressMode;
    use moorline_cga::Signer as _;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng as _;

    fn group(key: &PublicKey) -> Group {
        let rule = Rule {
            mode: AddressMode::HbaCompatible,
            key: "default".to_owned(),
            set: "default".to_owned(),
        };
        let mut random = ChaCha20Rng::from_seed([1; 32]);
        let mut group = Group::new(rule, Sec::ZERO, Some(key.clone()));
        group.make_set(&[[0x20; 8], [0x21; 8]], &mut random).unwrap();
        group.make_cga([0x22; 8], &mut random).unwrap();
        group
    }

    #[test]
    fn the_same_addresses_come_back() {
        let key = generate_key(1024).unwrap().public_key().clone();
        let mut group = group(&key);
        group.collide(group.address([0x20; 8]).unwrap());
        group.collide(group.address([0x22; 8]).unwrap());
        let text = serde_json::to_string(&SavedAddresses::new(7, [&group].into_iter())).unwrap();
        assert!(
            text.contains(
                r#""groups":[{"mode":"hba-compatible","key":"default","set":"default","sec":0,"#
            ),
            "{text}"
        );
        let saved: SavedAddresses = serde_json::from_str(&text).unwrap();
        assert_eq!(saved.generation, 7);
        let groups = saved.into_groups(|_| Some(key.clone())).unwrap();
        for prefix in [[0x20; 8], [0x21; 8], [0x22; 8]] {
            assert_eq!(groups[0].address(prefix), group.address(prefix));
        }
        assert_eq!(groups[0].sets.len(), 2, "the set before the collision can still be a ULID's");
    }

    #[test]
    fn addresses_of_another_key_do_not_come_back_and_damage_is_told() {
        let [key, other] = [1, 2].map(|_| generate_key(1024).unwrap().public_key().clone());
        let saved = || SavedAddresses::new(7, [&group(&key)].into_iter());
        assert!(saved().into_groups(|_| Some(other.clone())).unwrap().is_empty());
        let mut damaged = saved();
        damaged.groups[0].hba_sets[0].truncate(60);
        let error = damaged.into_groups(|_| Some(key.clone())).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "hba-sets: the public key is not a DER SubjectPublicKeyInfo"
        );
    }
}
