use std::collections::BTreeMap;
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
use profile::ProfileName;
use triggers::RulePart;

/// Validated configuration: the file over the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Send Timeout of REAP (RFC 5534 s7).
    pub send_timeout: Duration,
    /// What reachability detection does beyond RFC 5534.
    pub profile: Profile,
    /// When traffic deserves a context.
    pub triggers: TriggerConfig,
    /// Quiet time after which a context that has not moved is forgotten.
    pub idle: Duration,
    /// Most contexts at a time.
    pub max_contexts: u32,
    /// Address pairs without a context that are counted at a time.
    pub max_flows: u32,
    /// Interfaces to use; empty: all that have a global address and a default route.
    pub uplinks: Vec<String>,
    /// Hosts that are asked by each uplink, to find those that carry nothing.
    pub uplink_probes: Vec<Ipv6Addr>,
    /// Which addresses are made, that prove whose they are.
    pub addresses: AddressSettings,
    /// Which paths are preferred and avoided.
    pub paths: Vec<moorline_api::PathRule>,
    /// Whether payload takes all pairs of a context at once.
    pub spread: bool,
    /// What is made of congestion.
    pub congestion: CongestionConfig,
    /// Who is asked for the order of pairs.
    pub ranker: Option<RankerConfig>,
    /// ILNPv6, if it is on.
    pub ilnp: Option<IlnpConfig>,
    /// How the programs are attached.
    pub attach: AttachMode,
    /// Whether TCP is told to send again at once after a move.
    pub tcp_notice: bool,
}

/// The file as it is written. A key that the file leaves out has its default where the key is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct File {
    send_timeout: Option<String>,
    profile: ProfileName,
    standby_interval: Option<String>,
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
    /// Reads `path`, or the default place if it is there, or takes the defaults.
    ///
    /// # Errors
    /// A file that was asked for and is not there; unknown keys; values out of range.
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
    /// As [`Config::load`].
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text).map_err(|error| with_example(&error))?;
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

    /// Reads the files that the configuration names, and makes none.
    ///
    /// # Errors
    /// One of them cannot be read, or is no key or no parameters.
    pub fn check_files(&self) -> anyhow::Result<()> {
        self.addresses.check_files()
    }

    /// Whether this interface is one to use.
    pub(crate) fn uses(&self, interface: &str) -> bool {
        self.uplinks.is_empty() || self.uplinks.iter().any(|name| name == interface)
    }
}

/// An error of the file, with an example of the right form. Durations are texts, which a number is not.
fn with_example(error: &toml::de::Error) -> anyhow::Error {
    let message = error.message();
    let is_of_type = message.starts_with("invalid type") || message.starts_with("wanted string");
    let example = match is_of_type {
        true if message.ends_with("a boolean") => "write true or false, without quotes",
        true => "write it in quotes, for example send-timeout = \"10s\" or ilnp = \"on\"",
        false => "",
    };
    anyhow::anyhow!("{error}{example}")
}

/// The duration that the file gives, or the default.
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

/// Reads each rule of a list; an error says which one is wrong.
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

/// The least Send Timeout that RFC 5534 s7 recommends.
const LEAST_RECOMMENDED: Duration = Duration::from_secs(10);
/// Quiet time after which contexts and sessions are forgotten, unless the file says otherwise.
const IDLE: Duration = Duration::from_secs(300);
/// Hosts that are asked by each uplink.
const MAX_PROBES: usize = 8;
const MAX_CONTEXTS: RangeInclusive<u32> = 1..=1 << 24;
/// Fewer would forget traffic that goes on; each takes 128 octets.
const MAX_FLOWS: RangeInclusive<u32> = 1024..=1 << 24;
/// Read if it is there and no other file is named.
const DEFAULT_PLACE: &str = "/etc/moorline/moorlined.toml";
/// Design: any Send Timeout from 200 ms up; RFC 5534 s7 recommends at most 100 s.
//= rfc5534#7-2
const SEND_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(100);

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_addresses::Rule;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("").expect("defaults");
        assert_eq!(config.send_timeout, Duration::from_secs(10));
        assert!(config.tcp_notice);
        assert_eq!(config.addresses.policy.rule_of("eth0").mode, AddressMode::HbaCompatible);
    }

    #[test]
    fn keys_are_taken() {
        let text = "send-timeout = \"250ms\"\nuplinks = [\"eth0\"]\naddresses = \"off\"\ntcp-notice = false";
        let config = Config::parse(text).expect("valid");
        assert_eq!(config.send_timeout, Duration::from_millis(250));
        assert_eq!(config.uplinks, ["eth0"]);
        assert!(!config.tcp_notice);
        assert_eq!(config.addresses.policy.rule_of("eth0").mode, AddressMode::Off);
    }

    #[test]
    fn ilnp_is_off_unless_it_is_asked_for() {
        assert!(Config::parse("ilnp-nonce = \"always\"").expect("valid").ilnp.is_none());
        let text = "ilnp = \"on\"\nilnp-policy = \"open\"\nilnp-nonce-bits = 96\nilnp-icmp-types = [210, 211]";
        let ilnp = Config::parse(text).expect("valid").ilnp.expect("on");
        assert_eq!((ilnp.policy, ilnp.machine.types.responder), (IlnpPolicy::Open, 211));
        assert_eq!(ilnp.machine.nonce_len, moorline_ilnp::NonceLen::Long);
    }

    #[cfg(feature = "dns")]
    #[test]
    fn peers_without_the_handshake_are_asked_if_the_dns_is_to_say_so() {
        let initiate = |text: &str| {
            let config = Config::parse(&format!("ilnp = \"on\"\n{text}")).expect("valid");
            config.ilnp.expect("on").machine.initiate
        };
        let peers = "ilnp-peers = [\"b.example\"]\n";
        assert_eq!(initiate(peers), Initiate::Handshake);
        assert_eq!(initiate(&format!("{peers}ilnp-initiate = \"dns\"")), Initiate::Dns);
    }

    #[test]
    fn guests_of_a_locator_are_a_share_of_the_sessions_unless_it_is_said() {
        let limit = |text: &str| {
            let config = Config::parse(&format!("ilnp = \"on\"\n{text}")).expect("valid");
            let policy = format!("{:?}", config.ilnp.expect("on").machine.policy);
            policy.split_once("max_with_locator: ").expect("a bound").1.to_owned()
        };
        assert_eq!([limit(""), limit("ilnp-max-sessions = 1600")], ["4096 }", "100 }"]);
        assert_eq!(limit("ilnp-max-sessions = 1600\nilnp-max-with-locator = 7"), "7 }");
    }

    #[test]
    fn what_is_said_of_an_interface_and_a_prefix_is_taken() {
        let text = r#"
            addresses = "cga"
            [keys.work]
            file = "/etc/moorline/work.pem"
            [interfaces.eth0]
            addresses = "hba"
            set = "servers"
            [prefixes."2001:db8:1::/64"]
            addresses = "hba-compatible"
            key = "work"
        "#;
        let policy = Config::parse(text).expect("valid").addresses.policy;
        let expected = |mode, key: &str, set: &str| {
            let (key, set) = (key.to_owned(), set.to_owned());
            Rule { mode, key, set, temporary: false }
        };
        let prefix = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0];
        assert_eq!(policy.rule_of("eth9"), expected(AddressMode::Cga, "default", "default"));
        assert_eq!(policy.rule_of("eth0"), expected(AddressMode::Hba, "default", "servers"));
        assert_eq!(
            policy.rule("eth0", prefix),
            expected(AddressMode::HbaCompatible, "work", "servers")
        );
    }

    #[test]
    fn temporary_addresses_last_as_rfc_8981_says_unless_the_file_does() {
        let of = |text: &str| Config::parse(text).expect("valid").addresses.policy;
        assert!(!of("").rule_of("eth0").temporary && !of("").is_temporary_said);
        let said = of("temporary = false");
        assert!(!said.rule_of("eth0").temporary && said.is_temporary_said);
        let policy = of("temporary = true\n[interfaces.dmz0]\ntemporary = false");
        let kinds = ["eth0", "dmz0"].map(|name| policy.rule_of(name).mode);
        assert_eq!(kinds, [AddressMode::Hba, AddressMode::HbaCompatible]);
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!((policy.lifetimes.preferred, policy.lifetimes.valid), (hours(24), hours(48)));
        let policy = of("temporary = true\ntemporary-preferred-lifetime = \"1h\"");
        assert_eq!((policy.lifetimes.preferred, policy.lifetimes.valid), (hours(1), hours(48)));
    }

    #[test]
    fn a_value_of_another_type_comes_with_an_example() {
        for text in ["ilnp = true", "send-timeout = 10"] {
            let error = format!("{:#}", Config::parse(text).expect_err(text));
            assert!(error.contains(text), "{error}");
            assert!(error.ends_with("send-timeout = \"10s\" or ilnp = \"on\""), "{error}");
        }
    }

    #[test]
    fn files_that_are_named_and_not_there_are_told() {
        let check = |text: &str| Config::parse(text).expect("valid").check_files();
        check("").expect("no file is named");
        let key = "[keys.default]\nfile = \"/none/such.pem\"\n";
        let error = format!("{:#}", check(key).expect_err("no key"));
        assert!(error.contains("key \"default\"") && error.contains("/none/such.pem"), "{error}");
        check(&format!("addresses = \"hba\"\n{key}")).expect("nothing uses the key");
        let set = "[sets.default]\nparams = \"/none/params\"\nsec = 1";
        let error = format!("{:#}", check(set).expect_err("no parameters"));
        assert!(error.contains("sets.default") && error.contains("/none/params"), "{error}");
    }

    #[test]
    fn mistakes_name_the_key() {
        for (text, part) in [
            ("send_timeout = \"1s\"", "send_timeout"),
            ("send-timeout = \"1ms\"", "send-timeout"),
            ("send-timeout = \"soon\"", "send-timeout"),
            ("idle = \"0s\"", "idle"),
            ("profile = \"fast\"", "profile"),
            ("standby-interval = \"never\"", "\"off\" to switch it off"),
            ("standby-interval = \"1s\"", "standby-interval"),
            ("fail-back = \"off\"", "\"never\" to switch it off"),
            ("fail-back = \"0s\"", "fail-back"),
            ("leave-worse = \"no\"", "write true or false, without quotes"),
            ("send-timeout = 10", "send-timeout = \"10s\""),
            ("max-contexts = 0", "max-contexts"),
            ("max-flows = 0", "max-flows"),
            ("addresses = \"magic\"", "addresses"),
            ("temporary = true\naddresses = \"cga\"", "temporary"),
            ("[interfaces.eth0]\ntemporary = true\naddresses = \"off\"", "temporary"),
            ("temporary-preferred-lifetime = \"1s\"", "temporary-preferred-lifetime"),
            ("temporary-valid-lifetime = \"1h\"", "temporary-valid-lifetime"),
            ("temporary = true\n[sets.default]\nparams = \"/y\"\nsec = 1", "sets.default"),
            ("sec = 2", "sec"),
            ("[sets.a]\nparams = \"/y\"\nsec = 3", "sets.a"),
            ("[sets.a]\nparams = \"/y\"", "sec"),
            ("[interfaces.eth0]\nkey = \"work\"", "[keys.work]"),
            ("[interfaces.eth0]\nset = \"a/b\"", "a/b"),
            ("[keys.\"../x\"]\nbits = 2048", "../x"),
            ("[keys.x]\nbits = 512", "keys.x"),
            ("[keys.x]\nbits = 2048\nfile = \"/y\"", "bits"),
            ("ilnp = \"maybe\"", "ilnp"),
            ("ilnp-policy = \"maybe\"", "ilnp-policy"),
            ("ilnp-nonce-bits = 64", "ilnp-nonce-bits"),
            ("ilnp-icmp-types = [200, 200]", "ilnp-icmp-types"),
            ("ilnp-icmp-types = [128, 201]", "ilnp-icmp-types"),
            ("ilnp-max-sessions = 0", "ilnp-max-sessions"),
            ("ilnp-max-with-node = 17", "ilnp-max-with-node"),
            ("ilnp-max-with-locator = 0", "ilnp-max-with-locator"),
            ("ilnp-idle = \"never\"", "ilnp-idle"),
            ("ilnp-peers = [\"a..b\"]", "ilnp-peers"),
            ("ilnp-older-locator-updates = [\"host\"]", "write 2001:db8::1 or 2001:db8::/32"),
            ("ilnp-initiate = \"always\"", "ilnp-initiate"),
            ("ilnp-initiate = \"dns\"", "for example ilnp-peers = [\"host2.example.com\"]"),
            ("uplink-probes = [\"fe80::1\"]", "uplink-probes"),
            ("uplink-probes = [\"example.com\"]", "uplink-probes"),
            ("[prefixes.\"2001:db8::/48\"]\nset = \"a\"", "2001:db8::/48"),
        ] {
            let error = format!("{:#}", Config::parse(text).expect_err(text));
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_was_asked_for_must_be_there() {
        let error = Config::load(Some(Path::new("/nonexistent/moorlined.toml"))).expect_err("gone");
        assert!(format!("{error:#}").contains("/nonexistent/moorlined.toml"));
    }
}
