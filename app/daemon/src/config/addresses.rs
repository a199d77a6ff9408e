use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use moorline_addr::parse_prefix;
use moorline_cga::Sec;
use serde::{Deserialize, Serialize};

/// Where provable addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressMode {
    /// CGAs (RFC 3972): each list of locators is signed.
    Cga,
    /// An HBA set without a key (RFC 5535) over the prefixes of the first start, and no other.
    Hba,
    /// An HBA set that has a key, too: nothing is signed before a prefix comes that is not in it.
    HbaCompatible,
    /// The addresses that are there, which prove nothing.
    Off,
}

impl AddressMode {
    /// Whether its addresses are bound to a key.
    #[must_use]
    pub const fn has_key(self) -> bool {
        matches!(self, Self::Cga | Self::HbaCompatible)
    }

    /// Whether its addresses are an HBA set, as long as the prefixes are those it was made for.
    #[must_use]
    pub const fn has_set(self) -> bool {
        matches!(self, Self::Hba | Self::HbaCompatible)
    }
}

impl fmt::Display for AddressMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cga => "cga",
            Self::Hba => "hba",
            Self::HbaCompatible => "hba-compatible",
            Self::Off => "off",
        })
    }
}

/// Which addresses are made, for each interface and prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Sec of addresses that are made.
    pub sec: Sec,
    /// Keys by name; one that nothing names is not made.
    pub keys: BTreeMap<String, KeySource>,
    /// Sets by name that were made elsewhere.
    pub sets: BTreeMap<String, SetSource>,
    default: Rule,
    interfaces: BTreeMap<String, PartOfRule>,
    prefixes: BTreeMap<[u8; 8], PartOfRule>,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The state directory; made there at the first start, with so many bits.
    Own {
        /// Of the modulus.
        bits: u32,
    },
    /// A file that is there.
    File(PathBuf),
}

/// Parameters that `moorline addr generate` has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSource {
    /// The file.
    pub params: PathBuf,
    /// Sec that they were made for.
    pub sec: Sec,
}

/// How the address of a prefix on an interface is made. Addresses with the same rule belong together:
/// an HBA set has the prefixes of all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// What kind it is.
    pub mode: AddressMode,
    /// Name of its key, if the mode has one.
    pub key: String,
    /// Name of its set.
    pub set: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct PartOfRule {
    addresses: Option<AddressMode>,
    key: Option<String>,
    set: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct KeyPart {
    file: Option<PathBuf>,
    bits: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SetPart {
    params: PathBuf,
    sec: u8,
}

/// What the file says of addresses.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) mode: AddressMode,
    pub(super) sec: u8,
    pub(super) keys: BTreeMap<String, KeyPart>,
    pub(super) sets: BTreeMap<String, SetPart>,
    pub(super) interfaces: BTreeMap<String, PartOfRule>,
    pub(super) prefixes: BTreeMap<String, PartOfRule>,
}

impl AddressPolicy {
    pub(super) fn parse(parts: Parts) -> anyhow::Result<Self> {
        ensure!(
            parts.sec <= MAX_SEC,
            "sec: {} is outside 0 to {MAX_SEC}; more takes minutes and longer: `moorline addr \
             generate` can do it on many machines",
            parts.sec
        );
        let mut keys = BTreeMap::from([(DEFAULT.to_owned(), KeySource::Own { bits: KEY_BITS })]);
        for (name, part) in parts.keys {
            check_name("keys", &name)?;
            let source = part.source().with_context(|| format!("keys.{name}"))?;
            keys.insert(name, source);
        }
        let mut sets = BTreeMap::new();
        for (name, SetPart { params, sec }) in parts.sets {
            check_name("sets", &name)?;
            let sec = Sec::new(sec).filter(|sec| sec.is_sha1());
            let sec = sec.with_context(|| format!("sets.{name}: sec is not 0, 1 or 2"))?;
            sets.insert(name, SetSource { params, sec });
        }
        for (place, part) in parts.interfaces.iter().chain(&parts.prefixes) {
            part.check(&keys).with_context(|| format!("\"{place}\""))?;
        }
        let mut prefixes = BTreeMap::new();
        for (text, part) in parts.prefixes {
            prefixes.insert(parse_prefix(&text).context("prefixes")?, part);
        }
        let default = Rule { mode: parts.mode, key: DEFAULT.to_owned(), set: DEFAULT.to_owned() };
        let sec = Sec::new(parts.sec).context("sec")?;
        Ok(Self { sec, keys, sets, default, interfaces: parts.interfaces, prefixes })
    }

    /// The rule for a prefix on an interface: what is said of the prefix counts before what is said
    /// of the interface, and that before what is said of all.
    #[must_use]
    pub fn rule(&self, interface: &str, prefix: [u8; 8]) -> Rule {
        let rule = self.rule_of(interface);
        self.prefixes.get(&prefix).map_or(rule.clone(), |part| part.over(&rule))
    }

    /// The rule for an interface, whatever its prefixes.
    #[must_use]
    pub fn rule_of(&self, interface: &str) -> Rule {
        let part = self.interfaces.get(interface);
        part.map_or_else(|| self.default.clone(), |part| part.over(&self.default))
    }

    /// Whether addresses may be made on an interface.
    #[must_use]
    pub fn is_managed(&self, interface: &str) -> bool {
        let rule = self.rule_of(interface);
        let modes = self.prefixes.values().map(|part| part.over(&rule).mode);
        modes.chain([rule.mode]).any(|mode| mode != AddressMode::Off)
    }

    /// Every rule that there can be.
    #[must_use]
    pub fn rules(&self) -> BTreeSet<Rule> {
        let interfaces = self.interfaces.values().map(|part| part.over(&self.default));
        let mut rules: BTreeSet<Rule> = interfaces.chain([self.default.clone()]).collect();
        let of_prefix =
            |part: &PartOfRule| rules.iter().map(|rule| part.over(rule)).collect::<Vec<_>>();
        let by_prefix: Vec<Rule> = self.prefixes.values().flat_map(of_prefix).collect();
        rules.extend(by_prefix);
        rules
    }

    /// Names of the keys that some rule needs.
    #[must_use]
    pub fn keys_in_use(&self) -> BTreeSet<String> {
        self.rules().iter().filter_map(|rule| rule.key().map(ToOwned::to_owned)).collect()
    }

    #[cfg(test)]
    pub(crate) fn of(mode: AddressMode) -> Self {
        let (keys, sets, interfaces, prefixes) = Default::default();
        Self::parse(Parts { mode, sec: 0, keys, sets, interfaces, prefixes }).expect("defaults")
    }

    #[cfg(test)]
    pub(crate) fn with_set(mut self, name: &str, params: PathBuf, sec: Sec) -> Self {
        self.sets.insert(name.to_owned(), SetSource { params, sec });
        self
    }

    #[cfg(test)]
    pub(crate) fn with_interface(mut self, name: &str, mode: AddressMode, set: &str) -> Self {
        let part = PartOfRule { addresses: Some(mode), key: None, set: Some(set.to_owned()) };
        self.interfaces.insert(name.to_owned(), part);
        self
    }
}

impl Rule {
    /// The name of its key, if the mode has one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.mode.has_key().then_some(&*self.key)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.mode, self.set)
    }
}

impl PartOfRule {
    fn over(&self, rule: &Rule) -> Rule {
        Rule {
            mode: self.addresses.unwrap_or(rule.mode),
            key: self.key.clone().unwrap_or_else(|| rule.key.clone()),
            set: self.set.clone().unwrap_or_else(|| rule.set.clone()),
        }
    }

    fn check(&self, keys: &BTreeMap<String, KeySource>) -> anyhow::Result<()> {
        if let Some(set) = &self.set {
            check_name("set", set)?;
        }
        if let Some(key) = self.key.as_ref().filter(|key| !keys.contains_key(*key)) {
            bail!("key: there is no key \"{key}\"; add a section [keys.{key}]");
        }
        Ok(())
    }
}

impl KeyPart {
    fn source(self) -> anyhow::Result<KeySource> {
        match (self.file, self.bits) {
            (Some(_), Some(_)) => bail!("bits: the file says how many the key has"),
            (Some(file), None) => Ok(KeySource::File(file)),
            (None, bits) => {
                let bits = bits.unwrap_or(KEY_BITS);
                let range = moorline_cga::MIN_SIGNING_BITS..=moorline_cga::MAX_SIGNING_BITS;
                ensure!(
                    range.contains(&bits),
                    "bits: {bits} is outside {} to {}",
                    range.start(),
                    range.end()
                );
                Ok(KeySource::Own { bits })
            }
        }
    }
}

/// Names are parts of file names.
fn check_name(what: &str, name: &str) -> anyhow::Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure!(
        !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_fine),
        "{what}: \"{name}\" is no name; use letters, digits, - and _"
    );
    Ok(())
}

/// Key and set where nothing else is said.
const DEFAULT: &str = "default";
/// Bits of a key that is made.
const KEY_BITS: u32 = 2048;
/// The daemon has no minutes for a search.
const MAX_SEC: u8 = 1;
const MAX_NAME: usize = 64;
