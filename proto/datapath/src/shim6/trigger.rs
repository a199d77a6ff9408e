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
    /// Time since the first packet of a pair that is still in use; [`Duration::MAX`]: no limit.
    pub age: Duration,
    /// Time after which the plane forgets an unused pair.
    pub idle: Duration,
    /// Whether traffic counts if the identifier of the peer was made from a link-layer address. Such an address is
    /// neither HBA nor CGA, so its host hardly speaks Shim6.
    pub eui64: bool,
}

impl TriggerPolicy {
    /// Policy by which no traffic deserves a context: only peers begin contexts.
    pub const NEVER: Self = Self {
        bytes: u64::MAX,
        packets: u32::MAX,
        age: Duration::MAX,
        idle: Duration::from_secs(120),
        eui64: false,
    };

    /// Whether no limit can be reached. A plane does not even count such traffic.
    #[must_use]
    pub const fn is_never(&self) -> bool {
        self.bytes == u64::MAX
            && self.packets == u32::MAX
            && self.age.as_nanos() == Duration::MAX.as_nanos()
    }

    fn counts(&self, traffic: &Traffic<'_>) -> bool {
        !self.is_never() && (self.eui64 || !is_eui64(traffic.pair.peer))
    }
}

impl Default for TriggerPolicy {
    /// 2 KB or 60 s, as in LinShim6; idle 120 s; no peers with EUI-64 identifiers.
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

/// A policy for some of the traffic. The rule applies if all conditions that it has hold.
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
    /// Id of a cgroup (version 2): the socket of the packet belongs to it or to one beneath. For a received packet,
    /// the socket is the one that last sent from the destination port.
    pub cgroup: Option<u64>,
    /// Policy for the traffic of this rule.
    pub policy: TriggerPolicy,
}

impl TriggerRule {
    /// A rule for all traffic, with this policy.
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

    /// Whether the rule has conditions on ports.
    #[must_use]
    pub const fn has_ports(&self) -> bool {
        self.local_ports.is_some() || self.peer_ports.is_some()
    }

    /// Whether the rule has no condition but a prefix of peers.
    fn is_about_peers_alone(&self) -> bool {
        let all = Self { peer: self.peer, ..Self::any(self.policy) };
        *self == all
    }

    fn is_about(&self, traffic: &Traffic<'_>) -> bool {
        let is_in = |cgroup: u64| traffic.cgroups.contains(&cgroup);
        self.may_be_about(traffic) && self.cgroup.is_none_or(is_in)
    }

    /// Whether the rule is about the traffic, if the cgroup is that of the rule.
    fn may_be_about(&self, traffic: &Traffic<'_>) -> bool {
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
    }

    /// Rank of the rule: a greater one is more specific.
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

/// Properties of a packet that rules compare.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Addresses of the packet.
    pub pair: UlidPair,
    /// Upper layer.
    pub protocol: u8,
    /// Local and peer port, if the protocol is TCP or UDP and the packet has them.
    pub ports: Option<(u16, u16)>,
    /// Known cgroups of its socket, from the root on.
    pub cgroups: &'a [u64],
}

/// The trigger policy of a host. The most specific rule that fits a packet decides; if none fits, the default
/// decides.
///
/// A rule with a cgroup is more specific than one with ports, ports than a protocol, a protocol than a longer prefix
/// of the peer, and that than a longer local prefix. Of equal rules, the first in the list decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    default: TriggerPolicy,
    /// The rules, the most specific first.
    rules: Vec<TriggerRule>,
}

/// Reason why traffic earns no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion<'a> {
    /// This rule says never.
    Rule(&'a TriggerRule),
    /// No rule matches the traffic, and the default is never.
    Default,
    /// The peer's identifier was made from a link-layer address ([`TriggerPolicy::eui64`]).
    Eui64,
}

/// Error: more rules than a data plane takes. Contains their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} trigger rules are more than {MAX_TRIGGER_RULES}")]
pub struct TooManyRules(pub usize);

impl Triggers {
    /// Creates a policy, with the rules in order of precedence.
    ///
    /// # Errors
    /// There are more rules than [`MAX_TRIGGER_RULES`].
    pub fn new(default: TriggerPolicy, mut rules: Vec<TriggerRule>) -> Result<Self, TooManyRules> {
        if rules.len() > MAX_TRIGGER_RULES {
            return Err(TooManyRules(rules.len()));
        }
        rules.sort_by_key(|rule| core::cmp::Reverse(rule.rank()));
        Ok(Self { default, rules })
    }

    /// Policy for packets that no rule fits.
    #[must_use]
    pub const fn default_policy(&self) -> &TriggerPolicy {
        &self.default
    }

    /// The rules, the most specific first: the first one that fits decides.
    #[must_use]
    pub fn rules(&self) -> &[TriggerRule] {
        &self.rules
    }

    /// The policy for a packet; `None` if the packet is not counted.
    #[must_use]
    pub fn policy(&self, traffic: &Traffic<'_>) -> Option<&TriggerPolicy> {
        let rule = self.rules.iter().find(|rule| rule.is_about(traffic));
        let policy = rule.map_or(&self.default, |rule| &rule.policy);
        policy.counts(traffic).then_some(policy)
    }

    /// Why a packet is not to be counted; `None` if it is. Without known cgroups, `None` also if a rule for a cgroup
    /// may count the packet.
    #[must_use]
    pub fn exclusion(&self, traffic: &Traffic<'_>) -> Option<Exclusion<'_>> {
        let may_count = |rule: &TriggerRule| {
            rule.cgroup.is_some() && rule.may_be_about(traffic) && rule.policy.counts(traffic)
        };
        if traffic.cgroups.is_empty() && self.rules.iter().any(may_count) {
            return None;
        }
        let rule = self.rules.iter().find(|rule| rule.is_about(traffic));
        let never = |policy: &TriggerPolicy| policy.is_never();
        match rule {
            Some(rule) if never(&rule.policy) => Some(Exclusion::Rule(rule)),
            None if never(&self.default) => Some(Exclusion::Default),
            Some(_) | None => self.policy(traffic).is_none().then_some(Exclusion::Eui64),
        }
    }
}

impl Triggers {
    /// Why no traffic with this peer is counted, whatever its protocol, ports, cgroup and local address; `None` if some
    /// traffic may be.
    #[must_use]
    pub fn exclusion_of(&self, peer: Ulid) -> Option<Exclusion<'_>> {
        let never = |policy: &TriggerPolicy, why| match policy.is_never() {
            true => Some(why),
            false => (!policy.eui64 && is_eui64(peer)).then_some(Exclusion::Eui64),
        };
        for rule in self.rules.iter().filter(|rule| rule.peer.contains(peer.0)) {
            let why = never(&rule.policy, Exclusion::Rule(rule));
            if why.is_none() || rule.is_about_peers_alone() {
                return why;
            }
        }
        never(&self.default, Exclusion::Default)
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

/// Largest number of rules of a data plane, which compares each packet without a context with all of them. Not
/// configurable.
pub const MAX_TRIGGER_RULES: usize = 64;

#[cfg(test)]
mod tests;
