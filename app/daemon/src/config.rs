use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, bail, ensure};
use moorline_addresses::{AddressMode, PartOfRule};
use moorline_api::{IlnpPolicy, Net};
use moorline_bpf::AttachMode;
use moorline_contexts::Profile;
use moorline_datapath::ilnp::ChecksumMode;
use moorline_ilnp::{Initiate, NonceMode};
use moorline_types::Ulid;
use serde::Deserialize;

mod addresses;
mod congestion;
mod ilnp;
mod mistakes;
mod paths;
mod profile;
mod ranker;
mod triggers;

pub use addresses::{AddressSettings, KeySource, SetSource};
pub use congestion::CongestionConfig;
pub use ilnp::IlnpConfig;
pub use ranker::RankerConfig;
pub use triggers::TriggerConfig;

use addresses::{KeyPart, SetPart};
use ilnp::Switch;
use mistakes::refusal;
use profile::ProfileName;
use triggers::RulePart;

/// Validated configuration: values of the file, else defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// The keys of the file, with their values.
    keys: toml::Table,
    /// Send Timeout of REAP (RFC 5534 s7).
    pub send_timeout: Duration,
    /// Extensions of reachability detection beyond RFC 5534.
    pub profile: Profile,
    /// Rules that say which traffic triggers a context.
    pub triggers: TriggerConfig,
    /// Quiet time after which the host forgets a context that has not moved.
    pub idle: Duration,
    /// Largest number of contexts.
    pub max_contexts: u32,
    /// Largest number of address pairs without a context that the data plane counts.
    pub max_flows: u32,
    /// Interfaces to use; if empty, all interfaces with a global address and a default route.
    pub uplinks: Vec<String>,
    /// Hosts that the daemon probes by each uplink, to find uplinks that carry no packets.
    pub uplink_probes: Vec<Ipv6Addr>,
    /// Generation of addresses that prove themselves.
    pub addresses: AddressSettings,
    /// Rules that prefer or avoid paths.
    pub paths: Vec<moorline_api::PathRule>,
    /// Whether payload uses all pairs of a context at once.
    pub spread: bool,
    /// Reaction to congestion.
    pub congestion: CongestionConfig,
    /// External server that ranks the pairs.
    pub ranker: Option<RankerConfig>,
    /// ILNPv6, if it is on.
    pub ilnp: Option<IlnpConfig>,
    /// Method of attaching the programs.
    pub attach: AttachMode,
    /// Whether the daemon tells TCP to retransmit at once after a move.
    pub tcp_notice: bool,
}

/// Contents of the file. If the file lacks a key, the code that reads the key sets the default.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct File {
    send_timeout: Option<String>,
    profile: ProfileName,
    standby_interval: Option<String>,
    proof_interval: Option<String>,
    suspicion: Option<bool>,
    leave_worse: Option<bool>,
    fail_back: Option<String>,
    trigger_never: bool,
    trigger_bytes: Option<u64>,
    trigger_packets: Option<u32>,
    trigger_age: Option<String>,
    trigger_eui64: bool,
    triggers: Vec<RulePart>,
    paths: Vec<paths::PathPart>,
    spread: bool,
    congestion: congestion::CongestionPart,
    ranker: Option<ranker::RankerPart>,
    idle: Option<String>,
    max_contexts: Option<u32>,
    max_flows: Option<u32>,
    uplinks: Vec<String>,
    uplink_probes: Vec<Ipv6Addr>,
    addresses: Option<AddressMode>,
    temporary: Option<bool>,
    temporary_preferred_lifetime: Option<String>,
    temporary_valid_lifetime: Option<String>,
    sec: Option<u8>,
    keys: BTreeMap<String, KeyPart>,
    sets: BTreeMap<String, SetPart>,
    interfaces: BTreeMap<String, PartOfRule>,
    prefixes: BTreeMap<String, PartOfRule>,
    ilnp: Switch,
    ilnp_policy: Option<IlnpPolicy>,
    ilnp_initiate: Initiate,
    ilnp_nonce: NonceMode,
    ilnp_nonce_bits: Option<u8>,
    ilnp_checksum: ChecksumMode,
    ilnp_icmp_types: Option<[u8; 2]>,
    ilnp_max_sessions: Option<u32>,
    ilnp_max_with_node: Option<u32>,
    ilnp_max_with_locator: Option<u32>,
    ilnp_idle: Option<String>,
    ilnp_peers: Vec<String>,
    ilnp_older_locator_updates: Vec<String>,
    attach: AttachMode,
    tcp_notice: Option<bool>,
}

impl Config {
    /// Reads `path`. Without `path`, reads the default file if it exists, and else uses the defaults.
    ///
    /// # Errors
    /// The file of `path` does not exist, a key is unknown, or a value is out of range.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let (place, asked) = match path {
            Some(path) => (path.to_owned(), true),
            None => (PathBuf::from(DEFAULT_PLACE), false),
        };
        let text = match fs::read_to_string(&place) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !asked => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("configuration {}", place.display()));
            }
        };
        Self::parse(&text).with_context(|| format!("configuration {}", place.display()))
    }

    /// Reads the contents of a file.
    ///
    /// # Errors
    /// A key is unknown, or a value is out of range.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file = toml::from_str(text).map_err(|error| refusal(text, &error))?;
        let keys = toml::from_str(text).map_err(|error| refusal(text, &error))?;
        Self::of_file(file, keys).map_err(|error| {
            let message = format!("{error:#}");
            anyhow::anyhow!("{}{message}", mistakes::place_of(text, &message))
        })
    }

    /// Checks the values. An error begins with the key, as [`mistakes::place_of`] reads it.
    fn of_file(file: File, keys: toml::Table) -> anyhow::Result<Self> {
        let send_timeout = span("send-timeout", file.send_timeout.as_ref(), LEAST_RECOMMENDED)?;
        ensure!(
            SEND_TIMEOUT.contains(&send_timeout),
            "send-timeout: {} is outside 200ms to 100s",
            humantime::format_duration(send_timeout)
        );
        let is_host = |target: &Ipv6Addr| Ulid(*target).is_global_unicast();
        if let Some(target) = file.uplink_probes.iter().find(|target| !is_host(target)) {
            bail!("uplink-probes: {target} is no global unicast address");
        }
        let probes = file.uplink_probes.len();
        ensure!(
            probes <= MAX_PROBES,
            "uplink-probes: {probes} addresses, and {MAX_PROBES} are the most"
        );
        let (max_contexts, max_flows) = (file.max_contexts, file.max_flows);
        Ok(Self {
            keys,
            send_timeout,
            profile: profile::parse(&file)?,
            triggers: TriggerConfig::parse(&file)?,
            idle: span("idle", file.idle.as_ref(), IDLE)?,
            max_contexts: within("max-contexts", max_contexts.unwrap_or(65_536), &MAX_CONTEXTS)?,
            max_flows: within("max-flows", max_flows.unwrap_or(65_536), &MAX_FLOWS)?,
            addresses: AddressSettings::parse(&file)?,
            paths: paths::parse(&file.paths)?,
            spread: file.spread,
            congestion: file.congestion.parse()?,
            ranker: file.ranker.as_ref().map(ranker::RankerPart::parse).transpose()?,
            ilnp: ilnp::parse(&file)?,
            attach: file.attach,
            tcp_notice: file.tcp_notice.unwrap_or(true),
            uplinks: file.uplinks,
            uplink_probes: file.uplink_probes,
        })
    }

    /// Checks the files that the configuration names, and makes no file.
    ///
    /// # Errors
    /// A file cannot be read, or has no key or parameters.
    pub fn check_files(&self) -> anyhow::Result<()> {
        self.addresses.check_files()
    }

    /// Keys whose values differ in the newer configuration, and that apply at a start alone.
    pub(crate) fn waiting(&self, newer: &Self) -> BTreeSet<String> {
        let all = self.keys.keys().chain(newer.keys.keys());
        let other = all.filter(|key| self.keys.get(*key) != newer.keys.get(*key));
        other.filter(|key| *key != "paths" && !key.starts_with("trigger")).cloned().collect()
    }

    /// Whether the configuration allows this interface.
    pub(crate) fn uses(&self, interface: &str) -> bool {
        self.uplinks.is_empty() || self.uplinks.iter().any(|name| name == interface)
    }
}

/// Parses a duration of the file, or returns the default.
fn span(key: &str, text: Option<&String>, default: Duration) -> anyhow::Result<Duration> {
    text.map_or(Ok(default), |text| duration(key, text))
}

fn duration(key: &str, text: &str) -> anyhow::Result<Duration> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => bail!("{key}: must be more than zero"),
        Err(error) => bail!("{key}: \"{text}\" is no duration ({error}); write for example \"2s\""),
    }
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> anyhow::Result<T> {
    let (least, most) = (range.start(), range.end());
    ensure!(range.contains(&value), "{key}: {value} is outside {least} to {most}");
    Ok(value)
}

/// Parses each rule of a list; an error names the number of the rule.
fn rules<Part, T>(
    list: &str,
    parts: &[Part],
    read: impl Fn(&Part) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let numbered = (1..).zip(parts);
    numbered.map(|(at, part)| read(part).with_context(|| format!("{list}, rule {at}"))).collect()
}

fn net(key: &str, text: &str) -> anyhow::Result<Net> {
    text.parse().map_err(|error| anyhow::anyhow!("{key}: {error}"))
}

/// Smallest Send Timeout that RFC 5534 s7 recommends.
const LEAST_RECOMMENDED: Duration = Duration::from_secs(10);
/// Default quiet time after which the host forgets contexts and sessions.
const IDLE: Duration = Duration::from_secs(300);
/// Largest number of hosts to probe.
const MAX_PROBES: usize = 8;
const MAX_CONTEXTS: RangeInclusive<u32> = 1..=1 << 24;
/// Limits of `max-flows`. A smaller table would evict active traffic; an entry takes 144 octets.
const MAX_FLOWS: RangeInclusive<u32> = 1024..=1 << 24;
/// Default configuration file, read if it exists.
const DEFAULT_PLACE: &str = "/etc/moorline/moorlined.toml";
/// Limits of the Send Timeout: from 200 ms by design; RFC 5534 s7 recommends at most 100 s.
//= rfc5534#7-2
const SEND_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(100);

#[cfg(test)]
mod tests;
