//! Plans as TOML: the forms of values, and the defaults of a file.

use std::time::Duration;

use moorline_contexts::Profile;
use serde::{Deserialize, Deserializer, Serialize};

use super::text::host_number;
use super::{Link, Pace, Plan, Uplink, host_name};

/// A plan that cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The text is no TOML, or has keys or values without a meaning. The message has line and column.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// The plan contradicts itself, or a value is out of range.
    #[error("{place}: {problem}")]
    Invalid {
        /// Place of the error, for example `traffic 2`, counted from one on.
        place: String,
        /// Description of the error, and of its remedy.
        problem: String,
    },
}

impl Plan {
    /// Reads a plan from TOML. `docs/simulator.md` has every key.
    ///
    /// # Errors
    /// Unknown keys, values without a meaning, hosts, uplinks and ISPs that do not exist.
    pub fn from_toml(text: &str) -> Result<Self, PlanError> {
        let plan: Self = toml::from_str(text)?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as TOML. [`Plan::from_toml`] reads the same plan from it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

/// An uplink in a file. The uplink's own values are for both directions, and those in `out` and `in` for one
/// direction.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct UplinkForm<L> {
    #[serde(with = "from_one")]
    isp: usize,
    #[serde(flatten)]
    both: Option<L>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<L>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    inbound: Option<L>,
}

impl From<Uplink> for UplinkForm<Link> {
    fn from(Uplink { isp, out, inbound }: Uplink) -> Self {
        if out == inbound {
            return Self { isp, both: Some(out), out: None, inbound: None };
        }
        Self { isp, both: None, out: Some(out), inbound: Some(inbound) }
    }
}

impl TryFrom<UplinkForm<toml::Table>> for Uplink {
    type Error = String;

    fn try_from(form: UplinkForm<toml::Table>) -> Result<Self, String> {
        let UplinkForm { isp, both, out, inbound } = form;
        let link = |own: Option<toml::Table>| {
            let mut keys = both.clone().unwrap_or_default();
            keys.extend(own.unwrap_or_default());
            keys.try_into::<Link>().map_err(|error| error.message().to_owned())
        };
        Ok(Self { isp, out: link(out)?, inbound: link(inbound)? })
    }
}

/// A value that a file has as a string.
pub(super) trait Text: Sized {
    fn text(&self) -> String;
    fn of(text: &str) -> Result<Self, String>;
}

/// A time, for example `1m 500ms`.
impl Text for Duration {
    fn text(&self) -> String {
        humantime::format_duration(*self).to_string()
    }

    fn of(text: &str) -> Result<Self, String> {
        let parsed = humantime::parse_duration(text);
        parsed.map_err(|error| format!("`{text}`: {error}; write for example 500ms"))
    }
}

impl Text for Profile {
    fn text(&self) -> String {
        if *self == Self::RFC { "rfc" } else { "default" }.to_owned()
    }

    fn of(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self::default()),
            "rfc" => Ok(Self::RFC),
            _ => Err(format!("`{text}` is no profile; write `default` or `rfc`")),
        }
    }
}

/// The index of a host, as its letter.
impl Text for usize {
    fn text(&self) -> String {
        host_name(*self).to_string()
    }

    fn of(text: &str) -> Result<Self, String> {
        host_number(text).ok_or_else(|| format!("`{text}` is no host; write A for the first"))
    }
}

/// An optional value: `None` is left out.
impl<T: Text> Text for Option<T> {
    fn text(&self) -> String {
        self.as_ref().map(T::text).unwrap_or_default()
    }

    fn of(text: &str) -> Result<Self, String> {
        T::of(text).map(Some)
    }
}

/// Conversion for serde: see [`Text`].
pub(super) mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Text;

    pub(in crate::plan) fn serialize<T: Text, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&value.text())
    }

    pub(in crate::plan) fn deserialize<'de, T: Text, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        T::of(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Numbers of ISPs, which a file counts from 1 on.
pub(super) mod from_one {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(in crate::plan) fn serialize<S: Serializer>(
        number: &usize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (number + 1).serialize(serializer)
    }

    pub(in crate::plan) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<usize, D::Error> {
        let number = usize::deserialize(deserializer)?.checked_sub(1);
        number.ok_or_else(|| de::Error::custom("ISPs are numbered from 1 on"))
    }
}

/// Reads `octets` and `interval`, which go together.
pub(super) fn pace_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Pace>, D::Error> {
    #[derive(Deserialize)]
    struct Parts {
        octets: Option<usize>,
        #[serde(with = "as_text", default)]
        interval: Option<Duration>,
    }
    match Parts::deserialize(deserializer)? {
        Parts { octets: Some(octets), interval: Some(interval) } => {
            Ok(Some(Pace { octets, interval }))
        }
        Parts { octets: None, interval: None } => Ok(None),
        _ => Err(serde::de::Error::custom("`octets` and `interval` go together")),
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) const fn is_true(value: &bool) -> bool {
    *value
}

/// Octets of a stream without a number in the file.
pub(super) const fn endless() -> u64 {
    u64::MAX
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) const fn is_endless(bytes: &u64) -> bool {
    *bytes == endless()
}

/// Duration of a plan without one in the file.
pub(super) const fn usual_duration() -> Duration {
    Duration::from_secs(600)
}

/// Delay of an uplink without one in the file.
pub(super) const fn usual_delay() -> Duration {
    Duration::from_millis(5)
}

#[cfg(test)]
mod tests;
