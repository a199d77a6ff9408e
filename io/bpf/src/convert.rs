//! Conversion between the types of the core and those of the programs.

use core::net::Ipv6Addr;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::sync::Arc;

use moorline_datapath::shim6::{
    ContextEntry, MAX_PATHS, MAX_PEER_LOCATORS, MAX_TRIGGER_RULES, PairInUse, PathCounters,
    PathMark, ReapTimers, TriggerPolicy, TriggerRule, Triggers,
};
use moorline_types::{
    ContextId, ContextTag, Encapsulation, Locator, LocatorPair, Path, Ulid, UlidPair,
};

use crate::plain::Plain as _;
use crate::skel::types;

/// Number of rules in one of the two sets.
pub(crate) const MAX_RULES: u16 = 64;
const _: () = assert!(MAX_RULES as u32 == types::sizes::MAX_RULES.0);
const _: () = assert!(MAX_RULES as usize == MAX_TRIGGER_RULES);

/// Number of peer locators for which a context has room.
pub(crate) const INLINE_PEERS: usize = types::sizes::INLINE_PEERS.0 as usize;
/// Number of further peer locators of a context.
pub(crate) const MORE_PEERS: usize = types::sizes::MORE_PEERS.0 as usize;
/// Flag of the context that sends packets between its ULIDs.
#[expect(clippy::cast_possible_truncation, reason = "flags have 16 bits")]
pub(crate) const SENDS: u16 = types::context_flags::CONTEXT_SENDS.0 as u16;
const _: () = assert!(SENDS as u32 == types::context_flags::CONTEXT_SENDS.0);
const _: () = assert!(types::sizes::MAX_PATHS.0 as usize == MAX_PATHS);
// There is room for all peer locators and for a current one that is not among them.
const _: () = assert!(INLINE_PEERS + MORE_PEERS > MAX_PEER_LOCATORS);

pub(crate) fn address(octets: [u8; 16]) -> types::address {
    types::address::from_octets(&octets).unwrap_or_default()
}

pub(crate) fn octets(address: types::address) -> [u8; 16] {
    address.as_octets().first_chunk().copied().unwrap_or_default()
}

pub(crate) fn ulids(pair: UlidPair) -> types::pair {
    types::pair { local: address(pair.local.octets()), peer: address(pair.peer.octets()) }
}

pub(crate) fn ulids_back(pair: types::pair) -> UlidPair {
    UlidPair::new(Ulid::from(octets(pair.local)), Ulid::from(octets(pair.peer)))
}

pub(crate) fn locator_back(address: types::address) -> Locator {
    Locator::from(octets(address))
}

/// Nanoseconds, saturated: half a millennium stands for ever.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 1).min(u64::MAX >> 1)
}

/// Microseconds, rounded up: a timer must not expire early.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

pub(crate) fn is_live(context: &types::context) -> bool {
    has(context, types::context_flags::CONTEXT_LIVE)
}

fn has(context: &types::context, flag: types::context_flags) -> bool {
    u32::from(context.flags) & flag.0 != 0
}

/// Locators of the peer other than its ULID, the current one first.
fn other_peers(entry: &ContextEntry) -> Vec<Locator> {
    let ulid = entry.ulids.peer.as_locator();
    let current = entry.current.pair.peer;
    let mut peers = Vec::with_capacity(entry.peer_locators.len() + 1);
    if current != ulid {
        peers.push(current);
    }
    let others = entry.peer_locators.iter().copied();
    peers.extend(others.filter(|&locator| locator != ulid && locator != current));
    peers
}

/// Peer locators that do not fit the context.
pub(crate) fn peers_beyond(entry: &ContextEntry) -> Vec<Locator> {
    other_peers(entry).into_iter().skip(INLINE_PEERS).collect()
}

/// Converts a context, without its paths.
pub(crate) fn context(entry: &ContextEntry, generation: u32) -> types::context {
    let timers = entry.timers.unwrap_or(ReapTimers {
        send: Duration::ZERO,
        keepalive_interval: Duration::ZERO,
        keepalive_timeout: Duration::ZERO,
    });
    let others = other_peers(entry);
    let mut peers = [types::address::default(); INLINE_PEERS];
    for (to, locator) in peers.iter_mut().zip(&others) {
        *to = address(locator.octets());
    }
    types::context {
        lock: types::bpf_spin_lock::default(),
        generation,
        ulids: ulids(entry.ulids),
        local_locator: address(entry.current.pair.local.octets()),
        peers,
        local_tag: entry.local_tag.bits(),
        peer_tag: entry.peer_tag.bits(),
        send: micros(timers.send),
        keepalive_interval: micros(timers.keepalive_interval),
        keepalive_timeout: micros(timers.keepalive_timeout),
        idle: millis(entry.idle),
        watch: entry.watch,
        flags: flags(entry),
        peer_count: u8::try_from(others.len()).unwrap_or(u8::MAX),
        path_count: 0,
    }
}

fn flags(entry: &ContextEntry) -> u16 {
    let ulid = entry.ulids.peer.as_locator();
    let current = entry.current.pair.peer;
    let is_accepted = |locator| entry.peer_locators.contains(&locator);
    let all = [
        (types::context_flags::CONTEXT_LIVE, true),
        (types::context_flags::CONTEXT_MOVED, is_moved(entry.current)),
        (types::context_flags::CONTEXT_TIMERS, entry.timers.is_some()),
        (types::context_flags::CONTEXT_AT_ULID, current == ulid),
        (types::context_flags::CONTEXT_FROM_ULID, is_accepted(ulid)),
        (types::context_flags::CONTEXT_NOT_FROM_FIRST, current != ulid && !is_accepted(current)),
        (types::context_flags::CONTEXT_SUSPECTS, entry.suspects),
        (types::context_flags::CONTEXT_CONGESTION, entry.congestion),
        (types::context_flags::CONTEXT_SPREAD, entry.spread),
    ];
    let set = all.into_iter().filter(|(_, is_set)| *is_set);
    let bits = set.fold(0, |bits, (flag, _)| bits | flag.0);
    u16::try_from(bits).unwrap_or(u16::MAX)
}

/// Whether congestion of the context is counted.
pub(crate) fn has_congestion(context: &types::context) -> bool {
    has(context, types::context_flags::CONTEXT_CONGESTION)
}

pub(crate) fn path(path: Path) -> types::path {
    let LocatorPair { local, peer } = path.pair;
    let [local, peer] = [local, peer].map(|locator| address(locator.octets()));
    types::path { locators: types::pair { local, peer } }
}

pub(crate) fn path_back(ulids: UlidPair, path: &types::path) -> Path {
    let types::pair { local, peer } = path.locators;
    Path::of(ulids, LocatorPair::new(locator_back(local), locator_back(peer)))
}

/// Whether the programs change packets of a path. They know only addresses, and insert a payload header if these are
/// not the ULIDs.
fn is_moved(path: Path) -> bool {
    match path.encapsulation {
        Encapsulation::None => false,
        Encapsulation::PayloadHeader => true,
    }
}

/// Converts counters. Zero nanoseconds mean that the round trip time is not known.
pub(crate) fn path_counters(congestion: &types::congestion) -> PathCounters {
    PathCounters {
        received: congestion.received,
        ce: congestion.ce,
        ece: congestion.ece,
        cwr: congestion.cwr,
        segments: congestion.segments,
        retransmissions: congestion.retransmissions,
        rtt: (congestion.srtt != 0).then(|| Duration::from_nanos(congestion.srtt)),
    }
}

/// The current path.
pub(crate) fn current(context: &types::context) -> Path {
    let at_ulid = has(context, types::context_flags::CONTEXT_AT_ULID);
    let peer = if at_ulid { context.ulids.peer } else { context.peers[0] };
    let pair = LocatorPair::new(locator_back(context.local_locator), locator_back(peer));
    Path::of(ulids_back(context.ulids), pair)
}

/// The pair by which payload of the context leaves. `None` if the peer has withdrawn its locator, or if payload may take
/// the ULIDs as a makeshift: the core explores, and so sends no keepalives. Nor does the core for a peer with a Keepalive
/// Timeout of 0.
pub(crate) fn pair_in_use(context: &types::context) -> Option<PairInUse> {
    let current = current(context);
    let may_explore = context.keepalive_timeout == 0;
    let is_withdrawn = has(context, types::context_flags::CONTEXT_NOT_FROM_FIRST);
    (!is_withdrawn && (is_moved(current) || !may_explore)).then(|| PairInUse {
        ulids: ulids_back(context.ulids),
        local_tag: ContextTag::from_bits(context.local_tag),
        peer_tag: ContextTag::from_bits(context.peer_tag),
        pair: current.pair,
    })
}

/// Converts a context back to the entry from which [`context`] made it. `more` are the peer locators that did not fit
/// the context. The peer locators of the result are sorted.
pub(crate) fn entry(
    slot: u32,
    context: &types::context,
    more: Vec<Locator>,
    paths: Arc<[Path]>,
) -> ContextEntry {
    let ulids = ulids_back(context.ulids);
    let inline = context.peers.map(locator_back).into_iter().take(context.peer_count.into());
    let mut peers: Vec<Locator> = inline.chain(more).collect();
    if has(context, types::context_flags::CONTEXT_NOT_FROM_FIRST) {
        peers.remove(0);
    }
    if has(context, types::context_flags::CONTEXT_FROM_ULID) {
        peers.push(ulids.peer.as_locator());
    }
    peers.sort_unstable();
    let micros = |micros: u32| Duration::from_micros(micros.into());
    let has_timers = has(context, types::context_flags::CONTEXT_TIMERS);
    ContextEntry {
        id: ContextId(slot),
        ulids,
        local_tag: ContextTag::from_bits(context.local_tag),
        peer_tag: ContextTag::from_bits(context.peer_tag),
        current: current(context),
        peer_locators: peers.into(),
        timers: has_timers.then(|| ReapTimers {
            send: micros(context.send),
            keepalive_interval: micros(context.keepalive_interval),
            keepalive_timeout: micros(context.keepalive_timeout),
        }),
        watch: context.watch,
        idle: Duration::from_millis(context.idle.into()),
        suspects: has(context, types::context_flags::CONTEXT_SUSPECTS),
        congestion: has_congestion(context),
        paths,
        spread: has(context, types::context_flags::CONTEXT_SPREAD),
    }
}

pub(crate) fn with_path_mark(old: &types::settings, mark: PathMark) -> types::settings {
    let shift = mark.mask.trailing_zeros() % u32::BITS;
    types::settings { path_mask: mark.mask, path_shift: shift, ..*old }
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

/// Settings that put the rules from this index on in force.
pub(crate) fn settings(
    triggers: &Triggers,
    first_rule: u16,
    old: &types::settings,
) -> types::settings {
    let rules = triggers.rules();
    let has_cgroups = rules.iter().any(|rule| rule.cgroup.is_some());
    let flags = if has_cgroups { types::settings_flags::SETTINGS_CGROUPS.0 } else { 0 };
    types::settings {
        trigger: policy(triggers.default_policy()),
        first_rule,
        rules: u16::try_from(rules.len()).unwrap_or(0),
        flags,
        ..*old
    }
}
