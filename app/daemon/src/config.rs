use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, bail, ensure};
use moorline_datapath::AttachMode;
use moorline_host::datapath::TriggerPolicy;
use serde::Deserialize;

/// Validated configuration: the file over the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Send Timeout of REAP (RFC 5534 s7).
    pub send_timeout: Duration,
    /// When traffic deserves a context.
    pub trigger: TriggerPolicy,
    /// Quiet time after which a context that has not moved is forgotten.
    pub idle: Duration,
    /// Most contexts at a time.
    pub max_contexts: u32,
    /// Interfaces to use; empty: all that have a global address and a default route.
    pub uplinks: Vec<String>,
    /// Where provable addresses come from.
    pub addresses: AddressMode,
    /// How the programs are attached.
    pub attach: AttachMode,
}

/// Where provable addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressMode {
    /// An HBA set over the prefixes of all uplinks is made and put on them.
    Hba,
    /// No address is made. Contexts then have no locator to move to.
    Off,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct File {
    send_timeout: String,
    trigger_bytes: u64,
    trigger_age: String,
    idle: String,
    max_contexts: u32,
    uplinks: Vec<String>,
    addresses: AddressMode,
    attach: Attach,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Attach {
    Auto,
    Tcx,
    Tc,
}

impl Default for File {
    fn default() -> Self {
        Self {
            // The least that RFC 5534 s7 recommends.
            send_timeout: "10s".to_owned(),
            trigger_bytes: 2048,
            trigger_age: "60s".to_owned(),
            idle: "5m".to_owned(),
            max_contexts: 65_536,
            uplinks: Vec::new(),
            addresses: AddressMode::Hba,
            attach: Attach::Auto,
        }
    }
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

    fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let send_timeout = duration("send-timeout", &file.send_timeout)?;
        ensure!(
            SEND_TIMEOUT.contains(&send_timeout),
            "send-timeout: {} is outside 200ms to 100s",
            file.send_timeout
        );
        ensure!(
            (1..=1 << 24).contains(&file.max_contexts),
            "max-contexts: {} is outside 1 to {}",
            file.max_contexts,
            1 << 24
        );
        let age = duration("trigger-age", &file.trigger_age)?;
        Ok(Self {
            send_timeout,
            trigger: TriggerPolicy { bytes: file.trigger_bytes, age, ..TriggerPolicy::default() },
            idle: duration("idle", &file.idle)?,
            max_contexts: file.max_contexts,
            uplinks: file.uplinks,
            addresses: file.addresses,
            attach: match file.attach {
                Attach::Auto => AttachMode::Auto,
                Attach::Tcx => AttachMode::Tcx,
                Attach::Tc => AttachMode::Tc,
            },
        })
    }
}

fn duration(key: &str, text: &str) -> anyhow::Result<Duration> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => bail!("{key}: must be more than zero"),
        Err(error) => bail!("{key}: \"{text}\" is no duration ({error}); write for example \"2s\""),
    }
}

/// Read if it is there and no other file is named.
const DEFAULT_PLACE: &str = "/etc/moorline/moorlined.toml";
/// Design: any Send Timeout from 200 ms up; RFC 5534 s7 recommends at most 100 s.
//= rfc5534#7-2
const SEND_TIMEOUT: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::parse("").expect("defaults");
        assert_eq!(config.send_timeout, Duration::from_secs(10));
        assert_eq!(config.trigger, TriggerPolicy::default());
        assert_eq!(config.addresses, AddressMode::Hba);
    }

    #[test]
    fn keys_are_taken() {
        let text = "send-timeout = \"250ms\"\nuplinks = [\"eth0\"]\naddresses = \"off\"";
        let config = Config::parse(text).expect("valid");
        assert_eq!(config.send_timeout, Duration::from_millis(250));
        assert_eq!(config.uplinks, ["eth0"]);
        assert_eq!(config.addresses, AddressMode::Off);
    }

    #[test]
    fn mistakes_name_the_key() {
        for (text, part) in [
            ("send_timeout = \"1s\"", "send_timeout"),
            ("send-timeout = \"1ms\"", "send-timeout"),
            ("send-timeout = \"soon\"", "send-timeout"),
            ("idle = \"0s\"", "idle"),
            ("max-contexts = 0", "max-contexts"),
            ("addresses = \"magic\"", "addresses"),
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
