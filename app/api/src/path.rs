use crate::open_enum::open_enum;
use crate::types::Pair;
use moorline_types::Prefix;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Answer to `GET /v1/paths`: where each context can send, and the rules in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paths {
    /// Established contexts, by number.
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
    /// Whether it stays where it is while that works.
    pub pinned: bool,
    /// Pairs that payload takes besides the current one, as the packet mark counts them from 1; the
    /// current pair stands in for those that do not answer. Empty if the context is not spread.
    #[serde(default)]
    pub spread: Vec<Pair>,
    /// What was counted since the context took its current pair; none where nothing is counted.
    pub counters: Option<PathCounters>,
    /// Every pair that can be tried, the current one first, the others in the order of trying.
    pub paths: Vec<PathInfo>,
}

/// A locator pair of a context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathInfo {
    /// Our end.
    pub local: Ipv6Addr,
    /// The peer's end.
    pub peer: Ipv6Addr,
    /// Name of the interface that it leaves by; none: our address cannot be sent from now.
    pub uplink: Option<String>,
    /// What is known of it.
    pub state: PathState,
    /// What rules say of it.
    #[serde(default)]
    pub preference: Preference,
    /// Milliseconds since it last answered a probe of ours on this context; none if it has not.
    pub answered_ms_ago: Option<u64>,
    /// Round-trip time of the last check by it, in microseconds; none if no check has been answered.
    pub probe_rtt_us: Option<u64>,
}

impl PathInfo {
    /// The two ends.
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
    /// Those with Congestion Experienced: the way to us is congested.
    pub ce: u64,
    /// TCP segments received with ECN-Echo: the way to the peer was congested.
    pub ece: u64,
    /// TCP segments sent with Congestion Window Reduced: our TCP has slowed down.
    pub cwr: u64,
    /// TCP segments with data sent.
    pub segments: u64,
    /// Those that had been sent before.
    pub retransmissions: u64,
    /// Smoothed round trip time of TCP in microseconds; none if not known.
    pub rtt_us: Option<u64>,
}

/// What contexts or peers a request or rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// The context of this number.
    Context(u32),
    /// Contexts whose peer's ULID, or one of its locators, is in this prefix.
    Peer(Net),
}

/// An IPv6 prefix as people write it: an address stands for the prefix of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net(pub Prefix);

/// Body of `POST /v1/paths/switch` and `/v1/paths/pin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchRequest {
    /// Which contexts; without it all that can use the pair.
    #[serde(default)]
    pub scope: Scope,
    /// Our end and the peer's. `pin` without a pair: wherever they are.
    pub pair: Option<Pair>,
}

/// Body of `POST /v1/paths/unpin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpinRequest {
    /// Which contexts.
    #[serde(default)]
    pub scope: Scope,
}

/// Body of `POST /v1/paths/spread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadRequest {
    /// Which contexts.
    #[serde(default)]
    pub scope: Scope,
    /// Whether payload takes all pairs at once.
    pub on: bool,
}

/// Body of `POST /v1/paths/rules`, and an entry of [`Paths::rules`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathRule {
    /// To whom it applies.
    #[serde(default)]
    pub scope: Scope,
    /// Our end: name of an uplink, an address or a prefix; none: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The peer's end: an address or a prefix; none: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Net>,
    /// What to think of such pairs; `neutral` takes a rule back.
    pub preference: Preference,
    /// Whether peers are told by locator preferences (RFC 5533 s5.15.3).
    #[serde(default)]
    pub tell_peer: bool,
    /// Where it comes from: `configuration` or who asked; empty in requests.
    #[serde(default)]
    pub origin: String,
}

/// Answer to each `POST`: what came of it, for each context it was about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathAnswer {
    /// In order of their numbers; may be empty for rules.
    pub outcomes: Vec<PathOutcome>,
}

/// What came of a request for one context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathOutcome {
    /// The context.
    pub context: u32,
    /// The addresses that sockets see.
    pub ulids: Pair,
    /// Where it sends now.
    pub current: Pair,
    /// In a word.
    pub result: PathResult,
    /// One sentence for a person.
    pub text: String,
}

open_enum! {
    /// What is known of a pair.
    PathState {
        /// Payload takes it.
        Current = "current",
        /// It has answered a probe lately.
        Answered = "answered",
        /// It is being probed.
        Probing = "probing",
        /// Both ends are proven to belong to their hosts; it has not been probed, or did not answer.
        Untried = "untried",
        /// Our end cannot be sent from now: link, route or address is gone.
        Unusable = "unusable",
    }
}

open_enum! {
    /// What rules say of a pair.
    #[derive(Default)]
    Preference {
        /// Rather than others.
        Prefer = "prefer",
        /// Nothing.
        #[default]
        Neutral = "neutral",
        /// Only when no other works.
        Avoid = "avoid",
    }
}

open_enum! {
    /// What came of a request.
    PathResult {
        /// Payload takes the pair from now on.
        Moved = "moved",
        /// It was there already.
        Unchanged = "unchanged",
        /// The pair is being probed; payload moves once it has answered.
        Waiting = "waiting",
        /// The pair did not answer; payload stays where it was.
        Unanswered = "unanswered",
        /// Not done: the text says why and what to do.
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

    /// `all`, the number of a context, an address or a prefix.
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
