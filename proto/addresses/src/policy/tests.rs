use super::*;

/// A policy with this mode everywhere, and with a Sec that needs no search.
pub(crate) fn policy(mode: AddressMode) -> AddressPolicy {
    let name = || "default".to_owned();
    AddressPolicy {
        sec: Sec::ZERO,
        default: Rule { mode, key: name(), set: name(), temporary: false },
        interfaces: BTreeMap::new(),
        prefixes: BTreeMap::new(),
        is_temporary_said: false,
        lifetimes: TemporaryLifetimes::default(),
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
    let expected = |mode, key: &str, set: &str| {
        let (key, set) = (key.to_owned(), set.to_owned());
        Rule { mode, key, set, temporary: false }
    };
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

#[test]
fn temporary_addresses_have_no_key_and_a_kind_that_is_named_for_a_part_stays() {
    let mut policy = policy(AddressMode::HbaCompatible);
    policy.default.temporary = true;
    let part = |mode, temporary| PartOfRule { mode, temporary, ..PartOfRule::default() };
    policy.interfaces.insert("cga".to_owned(), part(Some(AddressMode::Cga), None));
    policy.interfaces.insert("off".to_owned(), part(Some(AddressMode::Off), None));
    policy.interfaces.insert("stable".to_owned(), part(None, Some(false)));
    policy.interfaces.insert("both".to_owned(), part(Some(AddressMode::Hba), Some(true)));
    let of = |name: &str| {
        let rule = policy.rule_of(name);
        (rule.mode, rule.temporary)
    };
    assert_eq!(of("wan0"), (AddressMode::Hba, true));
    assert_eq!(of("cga"), (AddressMode::Cga, false));
    assert_eq!(of("off"), (AddressMode::Off, false));
    assert_eq!(of("stable"), (AddressMode::HbaCompatible, false));
    assert_eq!(of("both"), (AddressMode::Hba, true));
    assert!(!policy.is_managed("off") && policy.is_managed("wan0"));
    policy.interfaces.clear();
    assert!(policy.keys_in_use().is_empty(), "no key is made that nothing uses");
}
