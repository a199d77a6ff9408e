use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use moorline_addr::parse_prefix;
use moorline_addresses::{AddressMode, AddressPolicy, PartOfRule, Rule};
use moorline_cga::{MAX_SIGNING_BITS, MIN_SIGNING_BITS, Sec};
use serde::Deserialize;

use super::{File, within};

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

impl AddressSettings {
    pub(super) fn parse(file: &File) -> anyhow::Result<Self> {
        let sec = file.sec.unwrap_or(1);
        ensure!(
            sec <= MAX_SEC,
            "sec: {sec} is outside 0 to {MAX_SEC}; more takes minutes and longer: `moorline addr \
             generate` can do it on many machines"
        );
        let mut keys = BTreeMap::from([(DEFAULT.to_owned(), KeySource::Own { bits: KEY_BITS })]);
        for (name, part) in &file.keys {
            check_name("keys", name)?;
            let source = part.source().with_context(|| format!("keys.{name}"))?;
            keys.insert(name.clone(), source);
        }
        let mut sets = BTreeMap::new();
        for (name, SetPart { params, sec }) in &file.sets {
            check_name("sets", name)?;
            let sec = Sec::new(*sec).filter(|sec| sec.is_sha1());
            let sec = sec.with_context(|| format!("sets.{name}: sec is not 0, 1 or 2"))?;
            sets.insert(name.clone(), SetSource { params: params.clone(), sec });
        }
        for (place, part) in file.interfaces.iter().chain(&file.prefixes) {
            check_part(part, &keys).with_context(|| format!("\"{place}\""))?;
        }
        let mut prefixes = BTreeMap::new();
        for (text, part) in &file.prefixes {
            prefixes.insert(parse_prefix(text).context("prefixes")?, part.clone());
        }
        let mode = file.addresses.unwrap_or(AddressMode::HbaCompatible);
        let default = Rule { mode, key: DEFAULT.to_owned(), set: DEFAULT.to_owned() };
        let sec = Sec::new(sec).context("sec")?;
        let interfaces = file.interfaces.clone();
        let policy = AddressPolicy { sec, default, interfaces, prefixes };
        Ok(Self { policy, keys, sets })
    }

    #[cfg(test)]
    pub(crate) fn of(mode: AddressMode) -> Self {
        let file = File { addresses: Some(mode), sec: Some(0), ..File::default() };
        Self::parse(&file).expect("defaults")
    }

    #[cfg(test)]
    pub(crate) fn with_set(mut self, name: &str, params: PathBuf, sec: Sec) -> Self {
        self.sets.insert(name.to_owned(), SetSource { params, sec });
        self
    }
}

impl KeyPart {
    fn source(&self) -> anyhow::Result<KeySource> {
        let Some(file) = &self.file else {
            let bits = self.bits.unwrap_or(KEY_BITS);
            within("bits", bits, &(MIN_SIGNING_BITS..=MAX_SIGNING_BITS))?;
            return Ok(KeySource::Own { bits });
        };
        ensure!(self.bits.is_none(), "bits: the file says how many the key has");
        Ok(KeySource::File(file.clone()))
    }
}

/// The key that a place names has to be there.
fn check_part(part: &PartOfRule, keys: &BTreeMap<String, KeySource>) -> anyhow::Result<()> {
    if let Some(set) = &part.set {
        check_name("set", set)?;
    }
    if let Some(key) = part.key.as_ref().filter(|key| !keys.contains_key(*key)) {
        bail!("key: there is no key \"{key}\"; add a section [keys.{key}]");
    }
    Ok(())
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
