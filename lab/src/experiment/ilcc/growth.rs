//! Cost of more entries in the cache, without a network: the same host and the same packets.

use std::time::Instant;

use anyhow::Context as _;
use moorline_types::{Ilv, Nonce};
use serde::Serialize;

use super::host::Host;
use super::{PolicyName, STUDIED_ENTRIES};
use crate::experiment::statistics::median;
use crate::experiment::usage::resident;
use crate::hop::{ETHERNET_LEN, Hop};
use crate::interrupt;
use crate::load::ECHO_PORT;
use crate::topology::{HOSTS, SHARED_LINK, shared_address};
use crate::workload::ilnp::{Datagram, made_up};

/// Time of a packet in the network layer, by the number of entries in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// Entries in the cache, which is then full.
    pub entries: usize,
    /// Packet of a correspondent with an entry, in microseconds: median of the means of batches.
    pub known_us: f64,
    /// Packet of a correspondent without an entry: lookup, removal of an old entry, the new entry, machine and data
    /// plane.
    pub new_us: f64,
    /// Packet of a correspondent that has no entry and gets none.
    pub admit_us: f64,
    /// Memory in octets for each entry. `None` if there are too few entries to measure it.
    pub octets_per_entry: Option<f64>,
}

/// Measures from one entry up to `most`.
pub(super) fn measure(most: usize) -> anyhow::Result<Vec<Growth>> {
    let mut sizes = vec![1, 1000, STUDIED_ENTRIES];
    sizes.extend((4..).map(|power| 10_usize.pow(power)).take_while(|size| *size <= most));
    sizes.retain(|size| *size <= most.max(1));
    sizes.into_iter().map(of_size).collect()
}

/// Time of a packet with `entries` entries, divided by the time with one entry: for a known correspondent, and for a
/// new one.
pub(super) fn penalty(growth: &[Growth], entries: usize) -> Option<[f64; 2]> {
    let at = |entries| growth.iter().find(|one| one.entries == entries);
    let (many, one) = (at(entries)?, at(1)?);
    Some([many.known_us / one.known_us, many.new_us / one.new_us])
}

fn of_size(entries: usize) -> anyhow::Result<Growth> {
    let me = Ilv::of(shared_address(HOSTS[1], 0));
    let before = resident("self")?;
    let mut host = Host::new(PolicyName::Open, entries, me, None);
    let mut next = packets(me);
    let step = entries.div_ceil(BATCHES * BATCH);
    let mut known = Vec::new();
    for number in 0..entries {
        if number % LOOK_AROUND == 0 {
            interrupt::check()?;
        }
        let packet = next();
        if number % step == 0 {
            known.push(packet.clone());
        }
        host.receive(&mut packet.clone(), Instant::now());
    }
    let octets = resident("self")?.saturating_sub(before);
    let room = host.entries();
    let mut at = 0;
    let known_us = time(&mut host, || {
        // Use entries in another order than they came, so that caches hold none of their data.
        at = (at + KNOWN_STRIDE) % known.len();
        known[at].clone()
    })?;
    let new_us = time(&mut host, &mut next)?;
    anyhow::ensure!(host.entries() == room, "the cache grew beyond its bound");
    let mut admitting = Host::new(PolicyName::Admit, entries, me, None);
    let admit_us = time(&mut admitting, &mut next)?;
    let is_told = entries >= ENOUGH_TO_TELL;
    let octets_per_entry = is_told.then(|| octets as f64 / entries as f64);
    Ok(Growth { entries, known_us, new_us, admit_us, octets_per_entry })
}

/// Microseconds of the network layer for a packet: the median of the means of batches.
fn time(host: &mut Host, mut next: impl FnMut() -> Vec<u8>) -> anyhow::Result<f64> {
    let mut means = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        interrupt::check()?;
        let mut packets: Vec<_> = (0..BATCH).map(|_| next()).collect();
        let begin = Instant::now();
        for packet in &mut packets {
            host.receive(packet, begin);
        }
        means.push(begin.elapsed().as_secs_f64() * 1e6 / BATCH as f64);
    }
    median(means).context("no batches")
}

/// Packets of made-up correspondents, from the IPv6 header on.
fn packets(to: Ilv) -> impl FnMut() -> Vec<u8> {
    let hop = Hop { interface: SHARED_LINK.into(), own: [0; 6], next: [0; 6] };
    let source = Ilv::of(shared_address(HOSTS[0], 0));
    let (ports, nonce) = ((40_000, ECHO_PORT), Some(Nonce::Short([0; 4])));
    let datagram = Datagram { hop, source, destination: to, ports, nonce };
    let (mut frame, mut vary) = made_up(datagram, 1);
    move || {
        vary(&mut frame);
        frame[ETHERNET_LEN..].to_vec()
    }
}

const BATCHES: usize = 40;
const BATCH: usize = 500;
/// Odd, and large enough to skip neighbors.
const KNOWN_STRIDE: usize = 7919;
const LOOK_AROUND: usize = 10_000;
const ENOUGH_TO_TELL: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_go_up_to_what_was_asked_for() {
        let growth = measure(5000).unwrap();
        let sizes: Vec<_> = growth.iter().map(|one| one.entries).collect();
        assert_eq!(sizes, [1, 1000, 5000]);
        assert!(growth.iter().all(|one| one.known_us > 0.0 && one.octets_per_entry.is_none()));
        assert!(penalty(&growth, 5000).is_some() && penalty(&growth, 6000).is_none());
    }
}
