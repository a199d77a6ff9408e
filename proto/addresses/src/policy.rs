use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use moorline_cga::Sec;
use moorline_types::named_enum;
use serde::{Deserialize, Serialize};

use crate::temporary::TemporaryLifetimes;

named_enum! {
    /// Kind of addresses that the host makes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum AddressMode {
        /// CGAs (RFC 3972): each list of locators is signed.
        Cga => "cga",
        /// An HBA set without a key (RFC 5535) over the prefixes of the first start alone.
        Hba => "hba",
        /// An HBA set that also has a key: nothing is signed before a prefix comes that is not in the set.
        HbaCompatible => "hba-compatible",
        /// No addresses are made. The existing addresses prove nothing.
        Off => "off",
    }
}

impl AddressMode {
    /// Whether the addresses are bound to a key.
    #[must_use]
    pub const fn has_key(self) -> bool {
        matches!(self, Self::Cga | Self::HbaCompatible)
    }

    /// Whether the addresses are an HBA set, as long as the prefixes are those of the set.
    #[must_use]
    pub const fn has_set(self) -> bool {
        matches!(self, Self::Hba | Self::HbaCompatible)
    }
}

/// Kind of the addresses that are made, by interface and prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Sec of new addresses.
    pub sec: Sec,
    /// The rule without other settings.
    pub default: Rule,
    /// Parts of rules by name of an interface.
    pub interfaces: BTreeMap<String, PartOfRule>,
    /// Parts of rules by prefix of 64 bits.
    pub prefixes: BTreeMap<[u8; 8], PartOfRule>,
    /// Whether the configuration says for all interfaces if their addresses are temporary.
    pub is_temporary_said: bool,
    /// Lifetimes of temporary addresses.
    pub lifetimes: TemporaryLifetimes,
}

/// Rule for the address of a prefix on an interface. Addresses with the same rule belong together: an HBA set has the
/// prefixes of all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Kind of addresses.
    pub mode: AddressMode,
    /// Name of the key, if the mode has one.
    pub key: String,
    /// Name of the set.
    pub set: String,
    /// Whether sets are replaced with time (RFC 8981). Such a set has no key: a key would reveal that two sets are of
    /// one host.
    pub temporary: bool,
}

/// The part of a rule that a configuration gives for an interface or a prefix: `None` leaves the setting of the rule
/// before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartOfRule {
    /// See [`Rule::mode`].
    #[serde(rename = "addresses")]
    pub mode: Option<AddressMode>,
    /// See [`Rule::key`].
    pub key: Option<String>,
    /// See [`Rule::set`].
    pub set: Option<String>,
    /// See [`Rule::temporary`].
    pub temporary: Option<bool>,
}

impl AddressPolicy {
    /// The rule for a prefix on an interface. The part for the prefix overrides the part for the interface, and that
    /// overrides the default.
    #[must_use]
    pub fn rule(&self, interface: &str, prefix: [u8; 8]) -> Rule {
        let rule = self.part_of(interface);
        self.prefixes.get(&prefix).map_or(rule.clone(), |part| part.over(&rule)).resolved()
    }

    /// The rule for an interface, without parts for prefixes.
    #[must_use]
    pub fn rule_of(&self, interface: &str) -> Rule {
        self.part_of(interface).resolved()
    }

    fn part_of(&self, interface: &str) -> Rule {
        let part = self.interfaces.get(interface);
        part.map_or_else(|| self.default.clone(), |part| part.over(&self.default))
    }

    /// Whether addresses may be made on an interface.
    #[must_use]
    pub fn is_managed(&self, interface: &str) -> bool {
        let rule = self.part_of(interface);
        let modes = self.prefixes.values().map(|part| part.over(&rule).mode);
        modes.chain([rule.mode]).any(|mode| mode != AddressMode::Off)
    }

    /// Whether the configuration names a kind of addresses for this interface or prefix.
    pub(crate) fn is_named(&self, interface: &str, prefix: [u8; 8]) -> bool {
        self.parts(interface, prefix).any(|part| part.mode.is_some())
    }

    /// Whether the configuration says if addresses on this interface or in this prefix are temporary.
    pub(crate) fn is_temporary_said(&self, interface: &str, prefix: [u8; 8]) -> bool {
        self.is_temporary_said || self.parts(interface, prefix).any(|part| part.temporary.is_some())
    }

    fn parts(&self, interface: &str, prefix: [u8; 8]) -> impl Iterator<Item = &PartOfRule> {
        [self.interfaces.get(interface), self.prefixes.get(&prefix)].into_iter().flatten()
    }

    /// All possible rules.
    #[must_use]
    pub fn rules(&self) -> BTreeSet<Rule> {
        let interfaces = self.interfaces.values().map(|part| part.over(&self.default));
        let mut rules: BTreeSet<Rule> = interfaces.chain([self.default.clone()]).collect();
        let of_prefix =
            |part: &PartOfRule| rules.iter().map(|rule| part.over(rule)).collect::<Vec<_>>();
        let by_prefix: Vec<Rule> = self.prefixes.values().flat_map(of_prefix).collect();
        rules.extend(by_prefix);
        rules.into_iter().map(Rule::resolved).collect()
    }

    /// Names of the keys that a rule needs.
    #[must_use]
    pub fn keys_in_use(&self) -> BTreeSet<String> {
        self.rules().iter().filter_map(|rule| rule.key().map(ToOwned::to_owned)).collect()
    }
}

impl Rule {
    /// The name of the key, if the mode has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.mode.has_key().then_some(&*self.key)
    }

    /// The rule in force. Temporary addresses need sets without a key, and exist only where addresses are made.
    fn resolved(mut self) -> Self {
        self.temporary &= self.mode != AddressMode::Off;
        if self.temporary {
            self.mode = AddressMode::Hba;
        }
        self
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let temporary = if self.temporary { "temporary " } else { "" };
        write!(f, "{temporary}{} \"{}\"", self.mode, self.set)
    }
}

impl PartOfRule {
    fn over(&self, rule: &Rule) -> Rule {
        Rule {
            mode: self.mode.unwrap_or(rule.mode),
            key: self.key.clone().unwrap_or_else(|| rule.key.clone()),
            set: self.set.clone().unwrap_or_else(|| rule.set.clone()),
            // If a part of the host has its own kind of addresses, that kind overrides temporary addresses.
            temporary: self.temporary.unwrap_or(rule.temporary && self.mode.is_none()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
