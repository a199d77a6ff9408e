use anyhow::{Context as _, bail};
use moorline_addr::read_params;
use moorline_addresses::{AddressMode, DatedSet, Group, Rule, Until};
use moorline_cga::{Cga, HbaSet, PublicKey};

use crate::config::{AddressSettings, SetSource};

/// Adds a group for each rule that names a set of the configuration, whose parameters come from a file.
///
/// `groups` are the groups of the last run. If a group has the same parameters, it stays unchanged.
pub(super) fn add(
    groups: &mut Vec<Group>,
    settings: &AddressSettings,
    key_of: impl Fn(&Rule) -> Option<PublicKey>,
) -> anyhow::Result<()> {
    for (name, source) in &settings.sets {
        for rule in settings.policy.rules().into_iter().filter(|rule| rule.set == *name) {
            if rule.mode == AddressMode::Off {
                continue;
            }
            let key = key_of(&rule);
            let given = read(source, rule, key).with_context(|| format!("sets.{name}"))?;
            match groups.iter_mut().find(|group| group.rule == given.rule) {
                Some(known) if is_from(known, &given) => {}
                Some(known) => *known = given,
                None => groups.push(given),
            }
        }
    }
    Ok(())
}

fn read(source: &SetSource, rule: Rule, key: Option<PublicKey>) -> anyhow::Result<Group> {
    let path = source.params.display();
    let params = read_params(&source.params)?;
    let mut group = Group::new(rule, source.sec, key);
    let (mode, its_key) = if let Ok(set) = HbaSet::from_pds(&params, source.sec) {
        let key = set.public_key();
        group.sets.push(DatedSet::new(set, Until::FOREVER));
        let with_key = key.is_some();
        (if with_key { AddressMode::HbaCompatible } else { AddressMode::Hba }, key)
    } else {
        let cga = Cga::from_pds(&params, source.sec)
            .with_context(|| format!("{path} proves no address with sec = {}", source.sec))?;
        let key = cga.public_key().clone();
        group.base = Some(cga);
        (AddressMode::Cga, Some(key))
    };
    if mode != group.rule.mode {
        bail!("{path} is for addresses = \"{mode}\", not \"{}\"", group.rule.mode);
    }
    if its_key.is_some() && its_key != group.key {
        bail!("{path} has another key than \"{}\"", group.rule.key);
    }
    Ok(group)
}

fn is_from(known: &Group, given: &Group) -> bool {
    match given.rule.mode {
        AddressMode::Cga => known.base == given.base,
        AddressMode::Hba | AddressMode::HbaCompatible => known.sets.first() == given.sets.first(),
        AddressMode::Off => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_addr::{generate_key, write_public};
    use moorline_cga::{HbaKey, Sec, Signer as _, generate_cga, generate_hba};
    use std::path::PathBuf;

    fn with(params: &[u8], mode: AddressMode, key: &PublicKey) -> anyhow::Result<Vec<Group>> {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("params");
        write_public(&path, params).unwrap();
        let settings = AddressSettings::of(mode).with_set("default", path, Sec::ZERO);
        let mut groups = Vec::new();
        add(&mut groups, &settings, |rule| rule.key().map(|_| key.clone()))?;
        Ok(groups)
    }

    #[test]
    fn sets_and_cgas_from_elsewhere_are_used_as_they_are() {
        let key = generate_key(1024).unwrap().public_key().clone();
        let prefixes = [[0x20; 8], [0x21; 8]];
        let set = generate_hba(&prefixes, Sec::ZERO, &HbaKey::of(&key), [5; 16], 1).unwrap();
        let groups = with(set.pds(), AddressMode::HbaCompatible, &key).unwrap();
        assert_eq!(groups[0].address([0x21; 8]), Some(set.locators()[1]));

        let cga = generate_cga([0x20; 8], Sec::ZERO, &key, &[], [5; 16], 1).unwrap();
        let groups = with(cga.pds(), AddressMode::Cga, &key).unwrap();
        assert_eq!(groups[0].base, Some(cga));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let [key, other] = [1, 2].map(|_| generate_key(1024).unwrap().public_key().clone());
        let cga = generate_cga([0x20; 8], Sec::ZERO, &key, &[], [5; 16], 1).unwrap();
        let said = |params: &[u8], mode, key: &PublicKey| {
            format!("{:#}", with(params, mode, key).unwrap_err())
        };
        let text = said(cga.pds(), AddressMode::HbaCompatible, &key);
        assert!(text.starts_with("sets.default: "), "{text}");
        assert!(text.ends_with("is for addresses = \"cga\", not \"hba-compatible\""), "{text}");
        let text = said(cga.pds(), AddressMode::Cga, &other);
        assert!(text.ends_with("has another key than \"default\""), "{text}");
        let text = said(b"hello", AddressMode::Cga, &key);
        assert!(text.contains("proves no address with sec = 0"), "{text}");
    }

    #[test]
    fn what_became_of_a_set_in_the_last_run_goes_on() {
        let key = generate_key(1024).unwrap().public_key().clone();
        let set = generate_hba(&[[0x20; 8]], Sec::ZERO, &HbaKey::of(&key), [5; 16], 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("params");
        write_public(&path, set.pds()).unwrap();
        let settings =
            AddressSettings::of(AddressMode::HbaCompatible).with_set("default", path, Sec::ZERO);
        let mut groups = Vec::new();
        let key_of = |rule: &Rule| rule.key().map(|_| key.clone());
        add(&mut groups, &settings, key_of).unwrap();
        groups[0].collide(set.locators()[0]);
        let after = groups[0].address([0x20; 8]);
        add(&mut groups, &settings, key_of).unwrap();
        assert_eq!((groups.len(), groups[0].address([0x20; 8])), (1, after));
    }
}
