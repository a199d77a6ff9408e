//! What the file looks like.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::plan::{Chance, Port};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration: Option<Text<Span>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) full_length: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) reverts_backoff: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel_failures: Option<Text<Chance>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) kills_amid_effects: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attack: Option<AttackPart>,
    #[serde(default)]
    pub(super) host: Vec<HostPart>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) traffic: Vec<TrafficPart>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) change: Vec<ChangePart>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) flap: Vec<FlapPart>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) renumbering: Vec<RenumberingPart>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct HostPart {
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(super) moorline: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) ilnp: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(super) initiates: bool,
    #[serde(default)]
    pub(super) addresses: AddressesName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) send_timeout: Option<Text<Span>>,
    #[serde(default)]
    pub(super) profile: ProfileName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) report_delay: Option<Text<Span>>,
    #[serde(default)]
    pub(super) uplink: Vec<UplinkPart>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProfileName {
    #[default]
    Default,
    Rfc,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AddressesName {
    #[default]
    Hba,
    Cga,
    HbaCompatible,
    Plain,
}

/// What stands in the uplink itself holds both ways, what stands in `out` and `in` that way.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct UplinkPart {
    pub(super) isp: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jitter: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) loss: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duplication: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reordering: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) out: Option<LinkPart>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub(super) inbound: Option<LinkPart>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct LinkPart {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jitter: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) loss: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duplication: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reordering: Option<Text<Chance>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replay: Option<Text<Chance>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TrafficPart {
    pub(super) from: Text<Port>,
    pub(super) to: Text<Port>,
    pub(super) kind: KindName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) octets: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) both_ways: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KindName {
    Stream,
    Requests,
    Datagrams,
}

/// Which of the keys are needed depends on `what`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ChangePart {
    pub(super) at: Text<Span>,
    pub(super) what: WhatName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uplink: Option<Text<Port>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to_uplink: Option<Text<Port>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) direction: Option<DirectionName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) isp: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to_isp: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WhatName {
    Cut,
    CutPath,
    CarrierDown,
    CarrierUp,
    AddressRemoved,
    AddressAdded,
    IspDown,
    IspUp,
    CutTransit,
    PrefixAdded,
    PrefixWithdrawn,
    Heal,
    HealAll,
    Kill,
    Restart,
    Reboot,
    Suspend,
    Resume,
    CutProtected,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct FlapPart {
    pub(super) what: FaultName,
    pub(super) from: Text<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Text<Span>>,
    pub(super) down: Text<Span>,
    pub(super) up: Text<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uplink: Option<Text<Port>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) direction: Option<DirectionName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) isp: Option<usize>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultName {
    Silent,
    Carrier,
    Address,
    Isp,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DirectionName {
    Both,
    Out,
    In,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RenumberingPart {
    pub(super) uplink: Text<Port>,
    pub(super) at: Text<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overlap: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) every: Option<Text<Span>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Text<Span>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct AttackPart {
    pub(super) interval: Text<Span>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) overhears: bool,
}

/// A value that stands in the file as a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<T>(pub(super) T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// `1m 500ms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(pub(super) Duration);

impl Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = humantime::parse_duration(text);
        parsed.map(Self).map_err(|error| format!("`{text}`: {error}; write for example 500ms"))
    }
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
