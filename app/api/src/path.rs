use crate::open_enum::open_enum;
use crate::types::Pair;
use moorline_types::Prefix;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Answer to `GET /v1/paths`: paths of each context, and the rules in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// Established contexts of this page, by number.
    pub contexts: Vec<ContextPaths>,
    /// Rules in force, the most specific first.
    #[serde(default)]
    pub rules: Vec<PathRule>,
}

/// The pairs of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPaths {
    /// Number of the context.
    pub context: u32,
    /// The addresses that sockets see.
    pub ulids: Pair,
    /// Whether the context stays on its current pair while that pair works.
    pub pinned: bool,
    /// Pairs that payload uses beside the current pair; the packet mark counts them from 1. If a pair does not answer,
    /// its payload uses the current pair. Empty if the context is not spread.
    #[serde(default)]
    pub spread: Vec<Pair>,
    /// Counters since the context took its current pair; none if the data plane does not count for this context.
    pub counters: Option<PathCounters>,
    /// Milliseconds since a packet of the context came in; none before the first since the context took its current
    /// pair, and from a daemon without this field.
    #[serde(default)]
    pub heard_ms_ago: Option<u64>,
    /// All usable pairs: the current pair first, then the others in the order of trial.
    pub paths: Vec<PathInfo>,
}

/// A locator pair of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathInfo {
    /// Our end.
    pub local: Ipv6Addr,
    /// The peer's end.
    pub peer: Ipv6Addr,
    /// Name of the interface by which the pair leaves; none: this host cannot send from the local address now.
    pub uplink: Option<String>,
    /// State of the pair.
    pub state: PathState,
    /// Preference of the rules for the pair.
    #[serde(default)]
    pub preference: Preference,
    /// Milliseconds since the last answer by this pair to a probe of this context; none without an answer.
    pub answered_ms_ago: Option<u64>,
    /// Round-trip time of the last answered check by this pair, in microseconds; none without an answer. The time
    /// contains the time until the daemons of both ends run.
    pub probe_rtt_us: Option<u64>,
}

impl PathInfo {
    /// Returns the two ends.
    #[must_use]
    pub const fn pair(&self) -> Pair {
        Pair { local: self.local, peer: self.peer }
    }
}

/// Congestion and losses on the current pair of a context (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathCounters {
    /// Payload packets received.
    pub received: u64,
    /// Packets received with Congestion Experienced: the path to us is congested.
    pub ce: u64,
    /// TCP segments received with ECN-Echo: the path to the peer was congested.
    pub ece: u64,
    /// TCP segments sent with Congestion Window Reduced: our TCP has slowed down.
    pub cwr: u64,
    /// TCP segments with data sent.
    pub segments: u64,
    /// TCP segments with data that were retransmissions.
    pub retransmissions: u64,
    /// Smoothed round trip time of TCP in microseconds; none if not known.
    pub rtt_us: Option<u64>,
}

/// Contexts or peers of a request or rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All contexts.
    #[default]
    All,
    /// The context of this number.
    Context(u32),
    /// Contexts whose peer has its ULID or a locator in this prefix.
    Peer(Net),
}

/// IPv6 prefix in text form; an address without a length is a prefix of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net(pub Prefix);

/// Body of `POST /v1/paths/switch` and `/v1/paths/pin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchRequest {
    /// Contexts of the request; default: all contexts that can use the pair.
    #[serde(default)]
    pub scope: Scope,
    /// The requested pair. `pin` without a pair pins contexts to their current pairs.
    pub pair: Option<Pair>,
}

/// Body of `POST /v1/paths/unpin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpinRequest {
    /// Contexts of the request.
    #[serde(default)]
    pub scope: Scope,
}

/// Body of `POST /v1/paths/spread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadRequest {
    /// Contexts of the request.
    #[serde(default)]
    pub scope: Scope,
    /// Whether payload takes all pairs at once.
    pub on: bool,
}

/// Body of `POST /v1/paths/rules`, and an entry of [`Paths::rules`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathRule {
    /// Contexts or peers of the rule.
    #[serde(default)]
    pub scope: Scope,
    /// Our end: name of an uplink, an address or a prefix; none: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The peer's end: an address or a prefix; none: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Net>,
    /// Preference for such pairs; `neutral` removes a rule.
    pub preference: Preference,
    /// Whether the daemon tells peers by locator preferences (RFC 5533 s5.15.3).
    #[serde(default)]
    pub tell_peer: bool,
    /// Origin of the rule: `configuration` or the requester; empty in requests.
    #[serde(default)]
    pub origin: String,
}

/// Answer to each `POST`: the result for each context of the request. A request reaches one page of its contexts
/// ([`NumbersQuery`](crate::NumbersQuery)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathAnswer {
    /// Results, in order of the contexts' numbers; may be empty for rules.
    pub outcomes: Vec<PathOutcome>,
    /// Number of the last context of this page if there are contexts behind it: `after` of the request for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// Result of a request for one context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathOutcome {
    /// Number of the context.
    pub context: u32,
    /// The addresses that sockets see.
    pub ulids: Pair,
    /// Pair to which the context sends now.
    pub current: Pair,
    /// Result as a keyword.
    pub result: PathResult,
    /// Result as one sentence for a person.
    pub text: String,
}

open_enum! {
    /// State of a pair.
    PathState {
        /// Payload uses the pair.
        Current = "current",
        /// The pair has answered a probe recently.
        Answered = "answered",
        /// The host probes the pair.
        Probing = "probing",
        /// Both locators have a proof; the pair has not been probed, or did not answer.
        Untried = "untried",
        /// The host cannot send from its locator now: link, route or address is gone.
        Unusable = "unusable",
    }
}

open_enum! {
    /// Preference of the rules for a pair.
    #[derive(Default)]
    Preference {
        /// Use the pair rather than others.
        Prefer = "prefer",
        /// No preference.
        #[default]
        Neutral = "neutral",
        /// Use the pair only if no other pair works.
        Avoid = "avoid",
    }
}

open_enum! {
    /// Result of a request.
    PathResult {
        /// Payload uses the pair from now on.
        Moved = "moved",
        /// Payload uses the pair already.
        Unchanged = "unchanged",
        /// The host probes the pair; payload moves after the answer.
        Waiting = "waiting",
        /// The pair did not answer; payload stays on its pair.
        Unanswered = "unanswered",
        /// The daemon refused the request: the text says why and what to do.
        Refused = "refused",
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.length() {
            128 => self.0.address().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, len) = text.split_once('/').unwrap_or((text, "128"));
        let parsed = address.parse().ok().zip(len.parse().ok().filter(|len| *len <= 128));
        parsed.map(|(address, len)| Self(Prefix::new(address, len))).ok_or_else(|| {
            format!("\"{text}\" is no address and no prefix; write 2001:db8::1 or 2001:db8::/32")
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Context(id) => id.fmt(f),
            Self::Peer(net) => net.fmt(f),
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    /// Parses `all`, the number of a context, an address or a prefix.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let number = text.strip_prefix('#').unwrap_or(text);
        if let Ok(id) = number.parse() {
            return Ok(Self::Context(id));
        }
        text.parse().map(Self::Peer).map_err(|error| {
            format!("{error}; or the number of a context (`moorline contexts`), or all")
        })
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

as_text!(Net);
as_text!(Scope);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_numbers_addresses_prefixes_or_all() {
        let net = |text: &str| text.parse().map(Scope::Peer);
        for (text, scope) in [
            ("all", Ok(Scope::All)),
            ("7", Ok(Scope::Context(7))),
            ("#7", Ok(Scope::Context(7))),
            ("2001:db8::1", net("2001:db8::1/128")),
            ("2001:db8::1/32", net("2001:db8::/32")),
            ("::/0", net("::/0")),
        ] {
            assert_eq!(text.parse::<Scope>(), scope, "{text}");
        }
        for text in ["", "isp1", "2001:db8::/129", "192.0.2.1", "-1"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
        let scope: Scope = serde_json::from_str("\"2001:db8::9/32\"").expect("a prefix");
        assert_eq!(serde_json::to_string(&scope).expect("text"), "\"2001:db8::/32\"");
    }
}
