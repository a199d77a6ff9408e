use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use moorline_addr::{parse_prefix, read_key, read_params};
use moorline_addresses::{AddressMode, AddressPolicy, PartOfRule, Rule, TemporaryLifetimes};
use moorline_cga::{MAX_SIGNING_BITS, MIN_SIGNING_BITS, Sec};
use serde::Deserialize;

use super::{File, span, within};

/// Generation of addresses, and the sources of their keys and sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSettings {
    /// Kind of addresses for each interface and prefix.
    pub policy: AddressPolicy,
    /// Keys by name. The daemon makes only keys that a rule names.
    pub keys: BTreeMap<String, KeySource>,
    /// Sets from files, by name.
    pub sets: BTreeMap<String, SetSource>,
}

/// Source of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// Key in the state directory, which the daemon makes at the first start.
    Own {
        /// Bits of the modulus.
        bits: u32,
    },
    /// Existing key file.
    File(PathBuf),
}

/// Parameters from `moorline addr generate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSource {
    /// The file.
    pub params: PathBuf,
    /// Sec of the parameters.
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
        for (section, parts) in [("interfaces", &file.interfaces), ("prefixes", &file.prefixes)] {
            for (place, part) in parts {
                check_part(part, &keys).with_context(|| format!("{section}: \"{place}\""))?;
            }
        }
        let mut prefixes = BTreeMap::new();
        for (text, part) in &file.prefixes {
            prefixes.insert(
                parse_prefix(text).with_context(|| format!("prefixes: \"{text}\""))?,
                part.clone(),
            );
        }
        check_temporary(file.temporary, file.addresses)?;
        let mode = file.addresses.unwrap_or(AddressMode::HbaCompatible);
        let name = || DEFAULT.to_owned();
        let default =
            Rule { mode, key: name(), set: name(), temporary: file.temporary == Some(true) };
        let sec = Sec::new(sec).context("sec")?;
        let interfaces = file.interfaces.clone();
        let policy = AddressPolicy {
            sec,
            default,
            interfaces,
            prefixes,
            is_temporary_said: file.temporary.is_some(),
            lifetimes: temporary_lifetimes(file)?,
        };
        for Rule { set, .. } in policy.rules().into_iter().filter(|rule| rule.temporary) {
            let is_given = sets.contains_key(&set);
            ensure!(
                !is_given,
                "sets.{set}: it was made elsewhere and stays, and temporary addresses are made anew: set temporary = false, or \
                 another `set`, where these addresses are"
            );
        }
        Ok(Self { policy, keys, sets })
    }

    pub(super) fn check_files(&self) -> anyhow::Result<()> {
        for name in self.policy.keys_in_use() {
            if let Some(KeySource::File(path)) = self.keys.get(&name) {
                read_key(path).with_context(|| format!("key \"{name}\""))?;
            }
        }
        let used: BTreeSet<_> = self.policy.rules().into_iter().map(|rule| rule.set).collect();
        for (name, source) in self.sets.iter().filter(|(name, _)| used.contains(*name)) {
            read_params(&source.params).with_context(|| format!("sets.{name}"))?;
        }
        Ok(())
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

/// Parses the lifetimes of temporary addresses (RFC 8981 s3.8).
fn temporary_lifetimes(file: &File) -> anyhow::Result<TemporaryLifetimes> {
    let default = TemporaryLifetimes::default();
    let key = "temporary-preferred-lifetime";
    let preferred = span(key, file.temporary_preferred_lifetime.as_ref(), default.preferred)?;
    ensure!(
        preferred >= LEAST_PREFERRED,
        "{key}: {} is less than {}",
        humantime::format_duration(preferred),
        humantime::format_duration(LEAST_PREFERRED)
    );
    let key = "temporary-valid-lifetime";
    let valid = span(key, file.temporary_valid_lifetime.as_ref(), default.valid)?;
    // RFC 8981 s3.8: the preferred lifetime MUST be smaller.
    ensure!(
        (preferred + Duration::from_secs(1)..=MOST_VALID).contains(&valid),
        "{key}: {} is outside what temporary-preferred-lifetime says ({}) to {}",
        humantime::format_duration(valid),
        humantime::format_duration(preferred),
        humantime::format_duration(MOST_VALID)
    );
    Ok(TemporaryLifetimes { preferred, valid })
}

/// Checks the mode of temporary addresses, which have no key.
fn check_temporary(temporary: Option<bool>, mode: Option<AddressMode>) -> anyhow::Result<()> {
    if let (Some(true), Some(mode)) = (temporary, mode.filter(|mode| *mode != AddressMode::Hba)) {
        bail!(
            "temporary: with `temporary = true` addresses are HBA sets without a key, and not \"{mode}\"; leave `addresses` \
             out, or set temporary = false"
        );
    }
    Ok(())
}

/// Checks that the key of a rule exists.
fn check_part(part: &PartOfRule, keys: &BTreeMap<String, KeySource>) -> anyhow::Result<()> {
    check_temporary(part.temporary, part.mode)?;
    if let Some(set) = &part.set {
        check_name("set", set)?;
    }
    if let Some(key) = part.key.as_ref().filter(|key| !keys.contains_key(*key)) {
        bail!("key: there is no key \"{key}\"; add a section [keys.{key}]");
    }
    Ok(())
}

/// Checks a name, which becomes part of a file name.
fn check_name(what: &str, name: &str) -> anyhow::Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure!(
        !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_fine),
        "{what}: \"{name}\" is no name; use letters, digits, - and _"
    );
    Ok(())
}

/// Default name of key and set.
const DEFAULT: &str = "default";
/// Bits of a new key.
const KEY_BITS: u32 = 2048;
/// Largest Sec of addresses that the daemon makes; a search with Sec 2 takes minutes.
const MAX_SEC: u8 = 1;
const MAX_NAME: usize = 64;
/// Smallest preferred lifetime. A shorter one leaves no time between `REGEN_ADVANCE` and the largest `DESYNC_FACTOR` (RFC
/// 8981 s3.8).
const LEAST_PREFERRED: Duration = Duration::from_secs(20);
const MOST_VALID: Duration = Duration::from_secs(30 * 24 * 60 * 60);
