use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use moorline_addr::{parse_prefix, prefix_text};
use moorline_addresses::{AddressMode, DatedSet, Group, Rule, TemporaryLifetimes, Until};
use moorline_cga::{Cga, HbaSet, PublicKey, Sec};
use moorline_types::Instant;
use serde::{Deserialize, Serialize};

/// File of our addresses in the state directory, so that the next run has the same addresses. The file has no secrets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SavedAddresses {
    version: u32,
    /// Generation of the last locator lists.
    pub generation: u32,
    groups: Vec<SavedGroup>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SavedGroup {
    mode: AddressMode,
    key: String,
    set: String,
    #[serde(default, skip_serializing_if = "is_false")]
    temporary: bool,
    sec: u8,
    /// Parameters in hex, the set in use last.
    hba_sets: Vec<String>,
    /// Ends of the temporary sets, in the order of `hba_sets`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hba_ends: Vec<SavedEnds>,
    /// Parameters of the first CGA, in hex.
    cga: Option<String>,
    /// Prefixes with a CGA, and the collision count of that CGA.
    cga_prefixes: BTreeMap<String, u8>,
}

/// Ends of a temporary set, in seconds since 1970.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SavedEnds {
    preferred: u64,
    valid: u64,
    /// Number that is added to the generation of the set's lists.
    #[serde(default)]
    added: u32,
}

/// A moment by both clocks. The monotonic clock starts again at boot, and a person may set the other clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time of the host's clock.
    pub now: Instant,
    /// Seconds since 1970.
    pub unix_s: u64,
}

impl SavedAddresses {
    /// Takes down the parameters of these groups.
    pub fn new<'a>(generation: u32, groups: impl Iterator<Item = &'a Group>, at: Moment) -> Self {
        let groups = groups.map(|group| SavedGroup::new(group, at)).collect();
        Self { version: VERSION, generation, groups }
    }

    /// Makes the groups, with the current keys of the configuration.
    ///
    /// If the key of a group has changed, the group is skipped: no key could sign for its addresses.
    ///
    /// # Errors
    /// The file has another version, or parameters that are none.
    pub fn into_groups(
        self,
        key_of: impl Fn(&Rule) -> Option<PublicKey>,
        lifetimes: &TemporaryLifetimes,
        at: Moment,
    ) -> anyhow::Result<Vec<Group>> {
        ensure!(self.version == VERSION, "it is of version {}, not {VERSION}", self.version);
        let mut groups = Vec::new();
        for saved in self.groups {
            let group = saved.into_group(&key_of, lifetimes, at)?;
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
    fn new(group: &Group, at: Moment) -> Self {
        let dated = group.sets.iter().filter(|_| group.rule.temporary);
        Self {
            mode: group.rule.mode,
            key: group.rule.key.clone(),
            set: group.rule.set.clone(),
            temporary: group.rule.temporary,
            sec: group.sec.value(),
            hba_sets: group.sets.iter().map(|one| hex::encode(one.set.pds())).collect(),
            hba_ends: dated.map(|one| SavedEnds::of(one, at)).collect(),
            cga: group.base.as_ref().map(|cga| hex::encode(cga.pds())),
            cga_prefixes: group
                .cgas
                .iter()
                .map(|(prefix, count)| (prefix_text(*prefix), *count))
                .collect(),
        }
    }

    fn into_group(
        self,
        key_of: &impl Fn(&Rule) -> Option<PublicKey>,
        lifetimes: &TemporaryLifetimes,
        at: Moment,
    ) -> anyhow::Result<Group> {
        let sec = Sec::new(self.sec).context("sec")?;
        let temporary = self.temporary;
        let rule = Rule { mode: self.mode, key: self.key, set: self.set, temporary };
        let key = key_of(&rule);
        let mut group = Group::new(rule, sec, key);
        let ends = match temporary {
            true => self.hba_ends.iter().map(|one| (one.until(lifetimes, at), one.added)).collect(),
            false => vec![(Until::FOREVER, 0); self.hba_sets.len()],
        };
        ensure!(ends.len() == self.hba_sets.len(), "hba-ends: each set has one end");
        for (text, (until, added)) in self.hba_sets.into_iter().zip(ends) {
            let pds = hex::decode(text).context("hba-sets")?;
            let set = HbaSet::from_pds(&pds, sec).context("hba-sets")?;
            let mut dated = DatedSet::new(set, until);
            dated.added = added;
            group.sets.push(dated);
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

impl SavedEnds {
    fn of(one: &DatedSet, at: Moment) -> Self {
        let end = |until: Option<Instant>| {
            let left = until.map_or(u64::MAX, |until| until.since(at.now).as_secs());
            at.unix_s.saturating_add(left)
        };
        let Until { preferred, valid } = one.until;
        Self { preferred: end(preferred), valid: end(valid), added: one.added }
    }

    fn until(self, lifetimes: &TemporaryLifetimes, at: Moment) -> Until {
        let left = |end: u64| Duration::from_secs(end.saturating_sub(at.unix_s));
        lifetimes.restored(left(self.preferred), left(self.valid), at.now)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Whether the parameters of a group have the current key of its name; true without a key.
fn is_of_its_key(group: &Group) -> bool {
    let Some(key) = &group.key else { return true };
    let in_sets = group.sets.iter().filter_map(|one| one.set.public_key());
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
            temporary: false,
        };
        let mut random = ChaCha20Rng::from_seed([1; 32]);
        let mut group = Group::new(rule, Sec::ZERO, Some(key.clone()));
        group.make_set(&[[0x20; 8], [0x21; 8]], Until::FOREVER, &mut random).unwrap();
        group.make_cga([0x22; 8], &mut random).unwrap();
        group
    }

    fn at(seconds: u64, unix_s: u64) -> Moment {
        Moment { now: Instant::ZERO + Duration::from_secs(seconds), unix_s }
    }

    fn into_groups(
        saved: SavedAddresses,
        key: Option<&PublicKey>,
        at: Moment,
    ) -> anyhow::Result<Vec<Group>> {
        saved.into_groups(|_| key.cloned(), &TemporaryLifetimes::default(), at)
    }

    #[test]
    fn temporary_sets_age_over_a_boot_and_one_whose_age_nobody_knows_is_deprecated() {
        let rule = Rule {
            mode: AddressMode::Hba,
            key: "default".to_owned(),
            set: "default".to_owned(),
            temporary: true,
        };
        let mut group = Group::new(rule, Sec::ZERO, None);
        let made = at(1000, 1_000_000);
        let end = |after: u64| Some(made.now + Duration::from_secs(after));
        let until = Until { preferred: end(50_000), valid: end(150_000) };
        let mut random = ChaCha20Rng::from_seed([1; 32]);
        group.make_set(&[[0x20; 8]], until, &mut random).unwrap();
        let text =
            serde_json::to_string(&SavedAddresses::new(7, [&group].into_iter(), made)).unwrap();
        let left = |at: Moment| {
            let groups = into_groups(serde_json::from_str(&text).unwrap(), None, at).unwrap();
            assert_eq!((groups.len(), &groups[0].rule), (1, &group.rule));
            assert_eq!(groups[0].sets[0].set, group.sets[0].set);
            assert_eq!(groups[0].sets[0].added, group.sets[0].added);
            let Until { preferred, valid } = groups[0].sets[0].until;
            [preferred, valid].map(|end| end.unwrap().since(at.now).as_secs())
        };
        assert_eq!(left(at(9, 1_010_000)), [40_000, 140_000]);
        assert_eq!(
            left(at(9, 2_000_000)),
            [0, 3600],
            "the host was off for long, or somebody set the clock"
        );
        assert_eq!(left(at(9, 60)), [0, 2 * 86_400], "the clock begins at 1970");
    }

    #[test]
    fn the_same_addresses_come_back() {
        let key = generate_key(1024).unwrap().public_key().clone();
        let mut group = group(&key);
        group.collide(group.address([0x20; 8]).unwrap());
        group.collide(group.address([0x22; 8]).unwrap());
        let text =
            serde_json::to_string(&SavedAddresses::new(7, [&group].into_iter(), at(1000, 0)))
                .unwrap();
        assert!(
            text.contains(
                r#""groups":[{"mode":"hba-compatible","key":"default","set":"default","sec":0,"#
            ),
            "{text}"
        );
        let saved: SavedAddresses = serde_json::from_str(&text).unwrap();
        assert_eq!(saved.generation, 7);
        let groups = into_groups(saved, Some(&key), at(9, 0)).unwrap();
        for prefix in [[0x20; 8], [0x21; 8], [0x22; 8]] {
            assert_eq!(groups[0].address(prefix), group.address(prefix));
        }
        assert_eq!(groups[0].sets.len(), 2, "the set before the collision can still be a ULID's");
    }

    #[test]
    fn addresses_of_another_key_do_not_come_back_and_damage_is_told() {
        let [key, other] = [1, 2].map(|_| generate_key(1024).unwrap().public_key().clone());
        let saved = || SavedAddresses::new(7, [&group(&key)].into_iter(), at(1000, 0));
        assert!(into_groups(saved(), Some(&other), at(9, 0)).unwrap().is_empty());
        let mut damaged = saved();
        damaged.groups[0].hba_sets[0].truncate(60);
        let error = into_groups(damaged, Some(&key), at(9, 0)).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "hba-sets: the public key is not a DER SubjectPublicKeyInfo"
        );
    }
}
