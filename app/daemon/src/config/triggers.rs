use std::fs;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use moorline_api::Net;
use moorline_datapath::shim6::{TriggerPolicy, TriggerRule, Triggers};
use moorline_types::Prefix;
use moorline_wire::ip6::ICMPV6;
use serde::Deserialize;

use super::File;

/// Trigger rules, with cgroups by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerConfig {
    default: TriggerPolicy,
    /// Rules, each with its cgroup as a path from the root of the cgroup file system.
    rules: Vec<(TriggerRule, Option<PathBuf>)>,
}

/// Entry of `[[triggers]]` in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(super) struct RulePart {
    local: Option<String>,
    peer: Option<String>,
    protocol: Option<Protocol>,
    local_ports: Option<Ports>,
    peer_ports: Option<Ports>,
    cgroup: Option<PathBuf>,
    never: bool,
    bytes: Option<u64>,
    packets: Option<u32>,
    age: Option<String>,
    eui64: Option<bool>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "\"tcp\", \"udp\" or the number of a protocol (0 to 255) is needed")]
enum Protocol {
    Named(Named),
    Number(u8),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Named {
    Tcp,
    Udp,
}

/// Ports: `443`, `"443"` or `"8000-8099"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a port such as 443 or a range such as \"8000-8099\" is needed")]
enum Ports {
    One(u16),
    Text(String),
}

impl TriggerConfig {
    pub(super) fn parse(file: &File) -> anyhow::Result<Self> {
        let usual = TriggerPolicy::default();
        let age = super::span("trigger-age", file.trigger_age.as_ref(), usual.age)?;
        let bytes = file.trigger_bytes.unwrap_or(usual.bytes);
        let packets = file.trigger_packets.unwrap_or(usual.packets);
        let limits = match file.trigger_never {
            true => TriggerPolicy::NEVER,
            false => TriggerPolicy { bytes, packets, age, ..usual },
        };
        let default = TriggerPolicy { eui64: file.trigger_eui64, ..limits };
        let rules = super::rules("triggers", &file.triggers, |part| part.rule(&default))?;
        let mut config = Self { default, rules };
        config.spare(&file.uplink_probes)?;
        Ok(config)
    }

    /// Gives no context to probes of `uplink-probes`, because a probe must never move to another uplink.
    ///
    /// # Errors
    /// There are too many rules.
    pub(crate) fn spare(&mut self, targets: &[Ipv6Addr]) -> anyhow::Result<()> {
        self.rules.splice(0..0, targets.iter().map(|target| (never_asked(*target), None)));
        let rules = self.rules.iter().map(|(rule, _)| rule.clone());
        Triggers::new(self.default, rules.collect()).context("triggers").map(|_| ())
    }

    /// Whether rules name cgroups. The daemon looks these up repeatedly, because the cgroup of a restarted service has
    /// another number.
    #[must_use]
    pub fn has_cgroups(&self) -> bool {
        self.rules.iter().any(|(_, cgroup)| cgroup.is_some())
    }

    /// Returns the current rules. A rule whose cgroup does not exist is skipped.
    #[must_use]
    pub fn now(&self) -> Triggers {
        let root = if self.has_cgroups() { cgroup_root() } else { None };
        let rule = |(rule, path): &(TriggerRule, Option<PathBuf>)| {
            let cgroup = match path {
                None => None,
                Some(path) => Some(cgroup_number(root.as_deref()?, path)?),
            };
            Some(TriggerRule { cgroup, ..rule.clone() })
        };
        let rules = self.rules.iter().filter_map(rule).collect();
        Triggers::new(self.default, rules).unwrap_or_else(|_| self.default.into())
    }
}

/// Makes a rule: ICMPv6 to this target gets no context.
fn never_asked(target: Ipv6Addr) -> TriggerRule {
    TriggerRule {
        peer: Prefix::new(target, 128),
        protocol: Some(ICMPV6),
        ..TriggerRule::any(TriggerPolicy::NEVER)
    }
}

impl RulePart {
    fn rule(&self, default: &TriggerPolicy) -> anyhow::Result<(TriggerRule, Option<PathBuf>)> {
        let rule = TriggerRule {
            local: self.local.as_ref().map_or(Ok(Prefix::ALL), |text| prefix("local", text))?,
            peer: self.peer.as_ref().map_or(Ok(Prefix::ALL), |text| prefix("peer", text))?,
            protocol: self.protocol.map(|protocol| match protocol {
                Protocol::Named(Named::Tcp) => 6,
                Protocol::Named(Named::Udp) => 17,
                Protocol::Number(number) => number,
            }),
            local_ports: self.local_ports.as_ref().map(Ports::range).transpose()?,
            peer_ports: self.peer_ports.as_ref().map(Ports::range).transpose()?,
            cgroup: None,
            policy: self.policy(default)?,
        };
        if let Some(path) = &self.cgroup {
            check_cgroup(path)?;
        }
        Ok((rule, self.cgroup.clone()))
    }

    /// Returns the limits of the rule; if the rule has no limit, the default limits.
    fn policy(&self, default: &TriggerPolicy) -> anyhow::Result<TriggerPolicy> {
        let age = self.age.as_deref().map(|age| super::duration("age", age)).transpose()?;
        let has_limits = self.bytes.is_some() || self.packets.is_some() || age.is_some();
        ensure!(!self.never || !has_limits, "never: there are limits beside it");
        let mut policy = TriggerPolicy { eui64: self.eui64.unwrap_or(default.eui64), ..*default };
        if self.never || has_limits {
            policy.bytes = self.bytes.unwrap_or(u64::MAX);
            policy.packets = self.packets.unwrap_or(u32::MAX);
            policy.age = age.unwrap_or(Duration::MAX);
        }
        Ok(policy)
    }
}

impl Ports {
    fn range(&self) -> anyhow::Result<RangeInclusive<u16>> {
        let text = match self {
            Self::One(port) => return Ok(*port..=*port),
            Self::Text(text) => text,
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
            _ => bail!("\"{text}\" is no port and no range; write 443 or \"8000-8099\""),
        }
    }
}

fn prefix(key: &str, text: &str) -> anyhow::Result<Prefix> {
    super::net(key, text).map(|Net(prefix)| prefix)
}

fn check_cgroup(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    ensure!(path.is_absolute(), "cgroup: {shown} does not begin with /, the root of all cgroups");
    ensure!(
        path.components().count() <= MAX_CGROUP_LEVELS,
        "cgroup: {shown} lies deeper than {} levels",
        MAX_CGROUP_LEVELS - 1
    );
    Ok(())
}

/// Returns the mount point of the cgroup2 file system.
fn cgroup_root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let path = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(path))
    })
}

fn cgroup_number(root: &Path, path: &Path) -> Option<u64> {
    let path = root.join(path.strip_prefix("/").ok()?);
    // The number of a cgroup is the inode number of its folder.
    fs::metadata(path).ok().map(|folder| folder.ino())
}

/// Largest depth of a cgroup that data planes check, including the root.
const MAX_CGROUP_LEVELS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> anyhow::Result<TriggerConfig> {
        super::super::Config::parse(text).map(|config| config.triggers)
    }

    fn triggers(text: &str) -> Triggers {
        config(text).expect("valid").now()
    }

    #[test]
    fn the_default_has_no_rules() {
        assert_eq!(triggers(""), TriggerPolicy::default().into());
        let text =
            "trigger-bytes = 1\ntrigger-packets = 2\ntrigger-age = \"3s\"\ntrigger-eui64 = true";
        let expected = TriggerPolicy {
            bytes: 1,
            packets: 2,
            age: Duration::from_secs(3),
            eui64: true,
            ..TriggerPolicy::default()
        };
        assert_eq!(triggers(text), expected.into());
        assert_eq!(triggers("trigger-never = true"), TriggerPolicy::NEVER.into());
    }

    /// A configuration that is read again names other hosts, and the daemon goes on with those of its start.
    #[test]
    fn hosts_that_are_asked_get_no_context_whatever_the_file_says_now() {
        let [old, new] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().unwrap());
        let mut config = config(&format!("uplink-probes = [\"{new}\"]")).expect("valid");
        config.spare(&[old]).expect("room");
        let peers: Vec<_> = config.now().rules().iter().map(|rule| rule.peer).collect();
        assert_eq!(peers.len(), 2);
        assert!([old, new].iter().all(|one| peers.contains(&Prefix::new(*one, 128))), "{peers:?}");
        config.spare(&[old; 64]).expect_err("too many rules");
    }

    #[test]
    fn rules_name_what_they_are_about_and_their_limits() {
        let triggers = triggers(
            r#"
            [[triggers]]
            peer = "2001:db8:5::/48"
            eui64 = true
            [[triggers]]
            protocol = "tcp"
            local-ports = 22
            peer-ports = "1024-65535"
            packets = 1
            [[triggers]]
            local = "2001:db8::1"
            protocol = 132
            never = true
            "#,
        );
        // The most specific rule comes first.
        let [ports, protocol, peer] = triggers.rules() else { panic!("{triggers:?}") };
        assert_eq!((ports.protocol, ports.local_ports.clone()), (Some(6), Some(22..=22)));
        assert_eq!(ports.peer_ports, Some(1024..=65535));
        assert_eq!(ports.policy, TriggerPolicy { packets: 1, ..TriggerPolicy::NEVER });
        assert_eq!((protocol.protocol, protocol.local.length()), (Some(132), 128));
        assert!(protocol.policy.is_never());
        assert_eq!(peer.peer.length(), 48);
        assert_eq!(peer.policy, TriggerPolicy { eui64: true, ..TriggerPolicy::default() });
    }

    #[test]
    fn a_cgroup_that_is_not_there_has_no_rule_yet() {
        let config = config("[[triggers]]\ncgroup = \"/no/such.service\"\nnever = true");
        let config = config.expect("valid");
        assert!(config.has_cgroups());
        assert_eq!(config.now().rules(), []);
        let folder = tempfile::tempdir().expect("folder");
        fs::create_dir(folder.path().join("x.slice")).expect("folder");
        let expected = fs::metadata(folder.path().join("x.slice")).expect("there").ino();
        assert_eq!(cgroup_number(folder.path(), Path::new("/x.slice")), Some(expected));
        assert_eq!(cgroup_number(folder.path(), Path::new("/y.slice")), None);
    }

    #[test]
    fn mistakes_name_the_rule_and_the_key() {
        for (rule, part) in [
            ("peer = \"2001:db8::/129\"", "peer"),
            ("local = \"here\"", "local"),
            ("peer-ports = \"9-1\"", "9-1"),
            ("peer-ports = \"http\"", "http"),
            ("never = true\nbytes = 1", "never"),
            ("age = \"soon\"", "age"),
            ("cgroup = \"system.slice\"", "cgroup"),
            ("cgroup = \"/a/b/c/d/e/f/g/h\"", "deeper"),
        ] {
            let error = config(&format!("[[triggers]]\nbytes = 1\n[[triggers]]\n{rule}"));
            let error = format!("{:#}", error.expect_err(rule));
            assert!(error.contains(part) && error.contains("rule 2"), "{rule}: {error}");
        }
        let many = config(&"[[triggers]]\nnever = true\n".repeat(65));
        assert!(format!("{:#}", many.expect_err("too many")).contains("65"));
    }
}
