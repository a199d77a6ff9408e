use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use moorline_addr::parse_prefix;
use moorline_addresses::{AddressMode, AddressPolicy, PartOfRule, Rule};
use moorline_cga::Sec;
use serde::{Deserialize, Serialize};

/// Which addresses are made, and where their keys and sets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSettings {
    /// Which addresses are made, for each interface and prefix.
    pub policy: AddressPolicy,
    /// Keys by name; one that nothing names is not made.
    pub keys: BTreeMap<String, KeySource>,
    /// Sets by name that were made elsewhere.
    pub sets: BTreeMap<String, SetSource>,
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

/// An address mode, as files write it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct ModeName(#[serde(with = "Names")] pub(crate) AddressMode);

#[derive(Serialize, Deserialize)]
#[serde(remote = "AddressMode", rename_all = "kebab-case")]
enum Names {
    Cga,
    Hba,
    HbaCompatible,
    Off,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct PlacePart {
    addresses: Option<ModeName>,
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
    pub(super) mode: ModeName,
    pub(super) sec: u8,
    pub(super) keys: BTreeMap<String, KeyPart>,
    pub(super) sets: BTreeMap<String, SetPart>,
    pub(super) interfaces: BTreeMap<String, PlacePart>,
    pub(super) prefixes: BTreeMap<String, PlacePart>,
}

impl AddressSettings {
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
            prefixes.insert(parse_prefix(&text).context("prefixes")?, part.into());
        }
        let interfaces = parts.interfaces.into_iter().map(|(name, part)| (name, part.into()));
        let default = Rule { mode: parts.mode.0, key: DEFAULT.to_owned(), set: DEFAULT.to_owned() };
        let sec = Sec::new(parts.sec).context("sec")?;
        let policy = AddressPolicy { sec, default, interfaces: interfaces.collect(), prefixes };
        Ok(Self { policy, keys, sets })
    }

    #[cfg(test)]
    pub(crate) fn of(mode: AddressMode) -> Self {
        let (keys, sets, interfaces, prefixes) = Default::default();
        Self::parse(Parts { mode: ModeName(mode), sec: 0, keys, sets, interfaces, prefixes })
            .expect("defaults")
    }

    #[cfg(test)]
    pub(crate) fn with_set(mut self, name: &str, params: PathBuf, sec: Sec) -> Self {
        self.sets.insert(name.to_owned(), SetSource { params, sec });
        self
    }
}

impl PlacePart {
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

impl From<PlacePart> for PartOfRule {
    fn from(PlacePart { addresses, key, set }: PlacePart) -> Self {
        Self { mode: addresses.map(|ModeName(mode)| mode), key, set }
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
