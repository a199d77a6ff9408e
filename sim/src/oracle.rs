use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use moorline_host::DropCounters;
use moorline_types::{DropReason, Instant};
use moorline_wire::{Message, MessageType, Packet};

use crate::outcome::Violation;

/// Watches a run from outside and notes what must not happen.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// Probes that a host sent: host, source, destination, nonce.
    probes: BTreeSet<(usize, Ipv6Addr, Ipv6Addr, u32)>,
    /// Pairs that a host was told its probes got through on.
    proven: BTreeSet<(usize, Ipv6Addr, Ipv6Addr)>,
    pub(crate) violations: Vec<Violation>,
}

impl Oracle {
    pub(crate) fn violation(&mut self, now: Instant, what: String) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(Violation { at: now.since(Instant::ZERO), what });
        }
    }

    pub(crate) fn on_control_sent(
        &mut self,
        host: usize,
        octets: &[u8],
        way: (Ipv6Addr, Ipv6Addr),
    ) {
        for own in probe(octets, way).into_iter().flat_map(|probe| probe.sent) {
            if (own.src.0, own.dst.0) == way {
                self.probes.insert((host, own.src.0, own.dst.0, own.nonce));
            }
        }
    }

    pub(crate) fn on_control_received(
        &mut self,
        host: usize,
        octets: &[u8],
        way: (Ipv6Addr, Ipv6Addr),
    ) {
        for report in probe(octets, way).into_iter().flat_map(|probe| probe.received) {
            let key = (host, report.src.0, report.dst.0, report.nonce);
            if self.probes.contains(&key) {
                self.proven.insert((host, report.src.0, report.dst.0));
            }
        }
    }

    /// Payload leaves with a payload header.
    pub(crate) fn on_moved_payload(
        &mut self,
        host: usize,
        way: (Ipv6Addr, Ipv6Addr),
        ulids: (Ipv6Addr, Ipv6Addr),
        now: Instant,
    ) {
        if way == ulids {
            self.violation(now, format!("host {host}: payload header on the ULID pair"));
        }
        if !self.proven.contains(&(host, way.0, way.1)) {
            self.violation(now, format!("host {host}: payload on the unproven pair {way:?}"));
        }
    }

    /// In a network without attackers packets are dropped for few reasons.
    pub(crate) fn on_drops(&mut self, host: usize, who: &str, drops: &DropCounters, now: Instant) {
        for (reason, count) in drops.iter() {
            if !is_explained(reason) {
                self.violation(now, format!("host {host}: {who} dropped {count} for {reason}"));
            }
        }
    }
}

fn probe(
    octets: &[u8],
    (source, destination): (Ipv6Addr, Ipv6Addr),
) -> Option<moorline_wire::Probe> {
    let packet = Packet::parse(octets, source, destination).ok()?;
    if packet.kind() != MessageType::PROBE {
        return None;
    }
    let Message::Probe(probe) = packet.message().ok()? else { return None };
    Some(probe)
}

/// Loss, delay, repetition, and addresses that go away under way explain these.
fn is_explained(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::UnexpectedState
            | DropReason::UnknownTag
            | DropReason::WrongLocators
            | DropReason::BadNonce
            | DropReason::StaleNonce
            | DropReason::Replayed
            | DropReason::RateLimited
            | DropReason::NotOurs
            | DropReason::NoUplink
    )
}

/// More would only repeat themselves.
const MOST_VIOLATIONS: usize = 16;
