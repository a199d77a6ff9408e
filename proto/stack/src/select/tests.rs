use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use moorline_types::Prefix;

use super::*;

mod examples;
mod rules;

/// Reads an IPv6 or IPv4 address.
fn address(text: &str) -> Ipv6Addr {
    match text.parse().expect("address") {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Reads an address of the host and what is said of it: `deprecated`, `temporary`, `elsewhere` (on another wire), `advertised` (by the
/// next hop). Prefixes have 64 bits, or 24 bits for IPv4.
fn candidate(text: &str) -> SourceCandidate {
    let mut words = text.split(' ');
    let address = address(words.next().expect("address"));
    let words: Vec<&str> = words.collect();
    let is = |word| words.contains(&word);
    SourceCandidate {
        address,
        wire: u32::from(is("elsewhere")),
        is_deprecated: is("deprecated"),
        is_temporary: is("temporary"),
        prefix_len: if is_ipv4(address) { 96 + 24 } else { 64 },
        is_on_outgoing_wire: !is("elsewhere"),
        is_from_next_hop: is("advertised"),
    }
}

fn candidates(texts: &[&str]) -> Vec<SourceCandidate> {
    texts.iter().map(|text| candidate(text)).collect()
}

fn chosen(to: &str, from: &[&str]) -> Option<Ipv6Addr> {
    let (from, policy) = (candidates(from), Policy::default());
    source(&from, address(to), &policy, Privacy::default()).map(|found| found.address)
}

/// The table of RFC 6724 s2.1 with rows added or replaced.
fn policy(changed: &[(&str, u32, u32)]) -> Policy {
    let changed = changed.iter().map(|&(text, precedence, label)| {
        let (prefix, length) = text.split_once('/').expect("prefix");
        let prefix = Prefix::new(address(prefix), length.parse().expect("length"));
        PolicyRow { prefix, precedence, label }
    });
    Policy::new(changed.chain(Policy::default().rows().iter().copied()).collect())
}

/// The destinations in their order, with their sources.
fn ordered(policy: &Policy, from: &[&str], to: &[&str]) -> Vec<(Ipv6Addr, Option<Ipv6Addr>)> {
    let from = candidates(from);
    let destination = |text: &&str| {
        let address = address(text);
        let source = source(&from, address, policy, Privacy::default()).copied();
        Destination { address, source, is_reachable: true, is_encapsulated: false }
    };
    let mut destinations: Vec<Destination> = to.iter().map(destination).collect();
    order(&mut destinations, policy);
    destinations
        .iter()
        .map(|found| (found.address, found.source.map(|from| from.address)))
        .collect()
}

fn pairs(texts: &[(&str, &str)]) -> Vec<(Ipv6Addr, Option<Ipv6Addr>)> {
    texts.iter().map(|(to, from)| (address(to), Some(address(from)))).collect()
}
