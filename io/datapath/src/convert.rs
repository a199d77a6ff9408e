//! Between the core's types and the programs'.

use core::net::Ipv6Addr;
use core::ops::RangeInclusive;
use core::time::Duration;

use moorline_host::datapath::{
    ContextEntry, MAX_TRIGGER_RULES, ReapTimers, TriggerPolicy, TriggerRule, Triggers,
};
use moorline_types::{ContextId, ContextTag, Locator, LocatorPair, Ulid, UlidPair};

use crate::skel::types;

/// Rules in one of the two sets.
pub(crate) const MAX_RULES: u16 = 64;
const _: () = assert!(MAX_RULES as u32 == types::sizes::MAX_RULES.0);
const _: () = assert!(MAX_RULES as usize == MAX_TRIGGER_RULES);

pub(crate) fn address(octets: [u8; 16]) -> types::address {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = octets;
    types::address {
        word: [
            u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        ],
    }
}

pub(crate) fn octets(address: types::address) -> [u8; 16] {
    let mut octets = [0; 16];
    let (upper, lower) = octets.split_at_mut(8);
    upper.copy_from_slice(&address.word[0].to_ne_bytes());
    lower.copy_from_slice(&address.word[1].to_ne_bytes());
    octets
}

pub(crate) fn ulids(pair: UlidPair) -> types::pair {
    types::pair { local: address(pair.local.octets()), peer: address(pair.peer.octets()) }
}

pub(crate) fn ulids_back(pair: types::pair) -> UlidPair {
    UlidPair::new(Ulid::from(octets(pair.local)), Ulid::from(octets(pair.peer)))
}

fn locators(pair: LocatorPair) -> types::pair {
    types::pair { local: address(pair.local.octets()), peer: address(pair.peer.octets()) }
}

fn locators_back(pair: types::pair) -> LocatorPair {
    LocatorPair::new(Locator::from(octets(pair.local)), Locator::from(octets(pair.peer)))
}

pub(crate) fn peer_locator(slot: u32, locator: Locator) -> types::peer_locator {
    types::peer_locator { slot, zero: 0, locator: address(locator.octets()) }
}

/// Saturates: half a millennium is for ever.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 1).min(u64::MAX >> 1)
}

pub(crate) fn context(entry: &ContextEntry, generation: u32) -> types::context {
    let timers = entry.timers.unwrap_or(ReapTimers {
        send: Duration::ZERO,
        keepalive_interval: Duration::ZERO,
        keepalive_timeout: Duration::ZERO,
    });
    types::context {
        lock: types::bpf_spin_lock::default(),
        generation,
        ulids: ulids(entry.ulids),
        locators: locators(entry.locators),
        local_tag: entry.local_tag.bits(),
        peer_tag: entry.peer_tag.bits(),
        send: nanos(timers.send),
        keepalive_interval: nanos(timers.keepalive_interval),
        keepalive_timeout: nanos(timers.keepalive_timeout),
        idle: nanos(entry.idle),
        watch: entry.watch,
        flags: flags(entry),
    }
}

fn flags(entry: &ContextEntry) -> u32 {
    let mut flags = types::context_flags::CONTEXT_LIVE.0;
    if entry.is_moved() {
        flags |= types::context_flags::CONTEXT_MOVED.0;
    }
    if entry.timers.is_some() {
        flags |= types::context_flags::CONTEXT_TIMERS.0;
    }
    flags
}

/// What [`context`] was made from.
pub(crate) fn entry(
    slot: u32,
    context: &types::context,
    peer_locators: Vec<Locator>,
) -> ContextEntry {
    let has_timers = context.flags & types::context_flags::CONTEXT_TIMERS.0 != 0;
    ContextEntry {
        id: ContextId(slot),
        ulids: ulids_back(context.ulids),
        local_tag: ContextTag::from_bits(context.local_tag),
        peer_tag: ContextTag::from_bits(context.peer_tag),
        locators: locators_back(context.locators),
        peer_locators,
        timers: has_timers.then(|| ReapTimers {
            send: Duration::from_nanos(context.send),
            keepalive_interval: Duration::from_nanos(context.keepalive_interval),
            keepalive_timeout: Duration::from_nanos(context.keepalive_timeout),
        }),
        watch: context.watch,
        idle: Duration::from_nanos(context.idle),
    }
}

pub(crate) fn policy(policy: &TriggerPolicy) -> types::policy {
    let mut flags = 0;
    if policy.is_never() {
        flags |= types::policy_flags::POLICY_NEVER.0;
    }
    if policy.eui64 {
        flags |= types::policy_flags::POLICY_EUI64.0;
    }
    types::policy {
        bytes: policy.bytes,
        age: nanos(policy.age),
        idle: nanos(policy.idle),
        packets: policy.packets,
        flags,
    }
}

pub(crate) fn rule(rule: &TriggerRule) -> types::rule {
    let pair = |local: Ipv6Addr, peer: Ipv6Addr| types::pair {
        local: address(local.octets()),
        peer: address(peer.octets()),
    };
    let ports = |range: &Option<RangeInclusive<u16>>| {
        range.as_ref().map_or([0, u16::MAX], |range| [*range.start(), *range.end()])
    };
    let flags = if rule.has_ports() { types::rule_flags::RULE_PORTS.0 } else { 0 };
    types::rule {
        addresses: pair(rule.local.address(), rule.peer.address()),
        mask: pair(rule.local.mask(), rule.peer.mask()),
        cgroup: rule.cgroup.unwrap_or(0),
        local_ports: ports(&rule.local_ports),
        peer_ports: ports(&rule.peer_ports),
        policy: policy(&rule.policy),
        protocol: rule.protocol.map_or(u16::MAX, u16::from),
        flags: u16::try_from(flags).unwrap_or(0),
        zero: 0,
    }
}

/// Of the rules from this index on.
pub(crate) fn settings(triggers: &Triggers, first_rule: u16) -> types::settings {
    let rules = triggers.rules();
    let has_cgroups = rules.iter().any(|rule| rule.cgroup.is_some());
    let flags = if has_cgroups { types::settings_flags::SETTINGS_CGROUPS.0 } else { 0 };
    types::settings {
        trigger: policy(triggers.default_policy()),
        virtual_now: 0,
        first_rule,
        rules: u16::try_from(rules.len()).unwrap_or(0),
        flags,
    }
}
