use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use moorline_types::{Prefix, Ulid, UlidPair};

/// When traffic deserves a context (RFC 5533 leaves the heuristic open): as soon as one of the three limits is
/// reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerPolicy {
    /// Octets of IPv6 packets, both directions; [`u64::MAX`]: no limit.
    pub bytes: u64,
    /// Packets, both directions; [`u32::MAX`]: no limit.
    pub packets: u32,
    /// Time since the first packet, if it is still in use; [`Duration::MAX`]: no limit.
    pub age: Duration,
    /// A pair unused for this long is forgotten.
    pub idle: Duration,
    /// Whether peers with an identifier made from a link-layer address are tried too: such an address is neither
    /// HBA nor CGA, so its host hardly speaks Shim6.
    pub eui64: bool,
}

impl TriggerPolicy {
    /// No traffic does: contexts are there for peers that begin them.
    pub const NEVER: Self = Self {
        bytes: u64::MAX,
        packets: u32::MAX,
        age: Duration::MAX,
        idle: Duration::from_secs(120),
        eui64: false,
    };

    /// Whether no limit can be reached. Such traffic is not even counted.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        self.bytes == u64::MAX
            && self.packets == u32::MAX
            && self.age.as_nanos() == Duration::MAX.as_nanos()
    }
}

impl Default for TriggerPolicy {
    /// 2 KB or 60 s, as LinShim6; idle 120 s; no peers with EUI-64 identifiers.
    fn default() -> Self {
        Self {
            bytes: 2048,
            packets: u32::MAX,
            age: Duration::from_secs(60),
            idle: Duration::from_secs(120),
            eui64: false,
        }
    }
}

/// Another policy for some of the traffic. All conditions that are there must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRule {
    /// Local addresses.
    pub local: Prefix,
    /// Peer addresses.
    pub peer: Prefix,
    /// Upper layer.
    pub protocol: Option<u8>,
    /// Local ports of TCP or UDP.
    pub local_ports: Option<RangeInclusive<u16>>,
    /// Peer ports of TCP or UDP.
    pub peer_ports: Option<RangeInclusive<u16>>,
    /// Number of a cgroup (version 2): the socket that sends belongs to it or to one beneath. Of a packet received,
    /// the socket that sent last from the port it comes to.
    pub cgroup: Option<u64>,
    /// What holds for this traffic.
    pub policy: TriggerPolicy,
}

impl TriggerRule {
    /// A rule for all traffic.
    #[must_use]
    pub const fn any(policy: TriggerPolicy) -> Self {
        Self {
            local: Prefix::ALL,
            peer: Prefix::ALL,
            protocol: None,
            local_ports: None,
            peer_ports: None,
            cgroup: None,
            policy,
        }
    }

    /// Whether it is about ports.
    #[must_use]
    pub const fn has_ports(&self) -> bool {
        self.local_ports.is_some() || self.peer_ports.is_some()
    }

    fn is_about(&self, traffic: &Traffic<'_>) -> bool {
        let fits = |range: &Option<RangeInclusive<u16>>, port: fn((u16, u16)) -> u16| {
            range
                .as_ref()
                .is_none_or(|range| traffic.ports.is_some_and(|ports| range.contains(&port(ports))))
        };
        self.local.contains(traffic.pair.local.0)
            && self.peer.contains(traffic.pair.peer.0)
            && self.protocol.is_none_or(|protocol| protocol == traffic.protocol)
            && fits(&self.local_ports, |(local, _)| local)
            && fits(&self.peer_ports, |(_, peer)| peer)
            && self.cgroup.is_none_or(|cgroup| traffic.cgroups.contains(&cgroup))
    }

    /// Greater is more specific.
    fn rank(&self) -> (bool, bool, bool, u8, u8) {
        (
            self.cgroup.is_some(),
            self.has_ports(),
            self.protocol.is_some(),
            self.peer.length(),
            self.local.length(),
        )
    }
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Its addresses.
    pub pair: UlidPair,
    /// Upper layer.
    pub protocol: u8,
    /// Local and peer port, if it is TCP or UDP and the packet has them.
    pub ports: Option<(u16, u16)>,
    /// Cgroups that its socket is in, from the root on, as far as that is known.
    pub cgroups: &'a [u64],
}

/// The whole policy: the most specific rule that a packet meets decides, and the default where there is none.
///
/// A cgroup is more specific than ports, these than a protocol, that than the longest prefix of the peer, and that
/// than the longest local prefix; of equals, the first in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    default: TriggerPolicy,
    /// The most specific first.
    rules: Vec<TriggerRule>,
}

/// Why traffic earns no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion<'a> {
    /// This rule says never.
    Rule(&'a TriggerRule),
    /// No rule is about the traffic, and the default is never.
    Default,
    /// The peer's identifier was made from a link-layer address ([`TriggerPolicy::eui64`]).
    Eui64,
}

/// More rules than a data plane takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} trigger rules are more than {MAX_TRIGGER_RULES}")]
pub struct TooManyRules(pub usize);

impl Triggers {
    /// Puts the rules in order.
    ///
    /// # Errors
    /// More than [`MAX_TRIGGER_RULES`].
    pub fn new(default: TriggerPolicy, mut rules: Vec<TriggerRule>) -> Result<Self, TooManyRules> {
        if rules.len() > MAX_TRIGGER_RULES {
            return Err(TooManyRules(rules.len()));
        }
        rules.sort_by_key(|rule| core::cmp::Reverse(rule.rank()));
        Ok(Self { default, rules })
    }

    /// What holds where no rule does.
    #[must_use]
    pub const fn default_policy(&self) -> &TriggerPolicy {
        &self.default
    }

    /// The rules, the most specific first: the first that is met decides.
    #[must_use]
    pub fn rules(&self) -> &[TriggerRule] {
        &self.rules
    }

    /// The policy for a packet; `None` if it is not to be counted.
    #[must_use]
    pub fn policy(&self, traffic: &Traffic<'_>) -> Option<&TriggerPolicy> {
        let rule = self.rules.iter().find(|rule| rule.is_about(traffic));
        let policy = rule.map_or(&self.default, |rule| &rule.policy);
        let counts = !policy.is_never() && (policy.eui64 || !is_eui64(traffic.pair.peer));
        counts.then_some(policy)
    }

    /// Why a packet is not to be counted; `None` if it is.
    #[must_use]
    pub fn exclusion(&self, traffic: &Traffic<'_>) -> Option<Exclusion<'_>> {
        let rule = self.rules.iter().find(|rule| rule.is_about(traffic));
        let never = |policy: &TriggerPolicy| policy.is_never();
        match rule {
            Some(rule) if never(&rule.policy) => Some(Exclusion::Rule(rule)),
            None if never(&self.default) => Some(Exclusion::Default),
            Some(_) | None => self.policy(traffic).is_none().then_some(Exclusion::Eui64),
        }
    }
}

impl From<TriggerPolicy> for Triggers {
    fn from(default: TriggerPolicy) -> Self {
        Self { default, rules: Vec::new() }
    }
}

/// Whether the interface identifier was made from a link-layer address (RFC 4291 appendix A).
#[must_use]
pub fn is_eui64(address: Ulid) -> bool {
    let [_, _, _, upper, lower, ..] = address.interface_id();
    [upper, lower] == [0xff, 0xfe]
}

/// Rules that a data plane takes: each packet without a context is held against all of them. Not configurable.
pub const MAX_TRIGGER_RULES: usize = 64;

#[cfg(test)]
mod tests;
