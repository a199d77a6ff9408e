use super::*;

/// This mode everywhere, without a search.
pub(crate) fn policy(mode: AddressMode) -> AddressPolicy {
    let name = || "default".to_owned();
    AddressPolicy {
        sec: Sec::ZERO,
        default: Rule { mode, key: name(), set: name() },
        interfaces: BTreeMap::new(),
        prefixes: BTreeMap::new(),
    }
}

#[test]
fn what_is_said_of_a_prefix_counts_before_what_is_said_of_its_interface() {
    let mut policy = policy(AddressMode::Cga);
    let part = |mode| PartOfRule { mode: Some(mode), ..PartOfRule::default() };
    let prefix = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0];
    let servers = PartOfRule { set: Some("servers".to_owned()), ..part(AddressMode::Hba) };
    let work = PartOfRule { key: Some("work".to_owned()), ..part(AddressMode::HbaCompatible) };
    policy.interfaces.insert("eth0".to_owned(), servers);
    policy.interfaces.insert("eth1".to_owned(), part(AddressMode::Off));
    policy.prefixes.insert(prefix, work);
    let expected =
        |mode, key: &str, set: &str| Rule { mode, key: key.to_owned(), set: set.to_owned() };
    assert_eq!(policy.rule("eth9", [0; 8]), expected(AddressMode::Cga, "default", "default"));
    assert_eq!(policy.rule("eth0", [0; 8]), expected(AddressMode::Hba, "default", "servers"));
    assert_eq!(
        policy.rule("eth0", prefix),
        expected(AddressMode::HbaCompatible, "work", "servers")
    );
    assert_eq!(policy.rule_of("eth1").mode, AddressMode::Off);
    assert!(policy.is_managed("eth1"), "for the one prefix");
    assert_eq!(policy.keys_in_use().into_iter().collect::<Vec<_>>(), ["default", "work"]);
}

#[test]
fn without_a_mode_that_has_a_key_no_key_is_in_use() {
    assert!(policy(AddressMode::Hba).keys_in_use().is_empty());
    assert!(!policy(AddressMode::Off).is_managed("eth0"));
}
