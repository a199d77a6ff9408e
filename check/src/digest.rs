//! Digest of a state. States that differ only in irrelevant details have the same digest.
//!
//! The digest is a hash over the printed state with all its tables. The order of first occurrence replaces random
//! numbers. The order of times at a host replaces the times themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use moorline_wire::ip6::IP6_LEN;

use crate::world::{Parcel, What, World};

/// The digest of a state.
pub(crate) fn of(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut names = Names::default();
    for side in &world.sides {
        let shim6 = format!("{:?}", side.host.shim6());
        let kernel = format!("{:?} {:?}", side.host.routes(), side.kernel);
        let ilnp = format!("{:?} {:?}", side.told.sessions, side.host.ilnp());
        for text in [without_counters(&shim6), &kernel, without_counters(&ilnp)] {
            names.hash_into(text, side.now.as_nanos(), &mut hasher);
        }
        (side.has_lost_uplink, side.refuses, side.host.awaits_retry()).hash(&mut hasher);
        for session in side.told.sessions.values() {
            for nonce in [Some(session.send_nonce), session.receive_nonce].into_iter().flatten() {
                names.hash_words(nonce.octets(), &mut hasher);
            }
        }
        for context in side.host.shim6().snapshot() {
            names.of(&context.local_tag.bits().to_string()).hash(&mut hasher);
            names.of(&context.peer_tag.bits().to_string()).hash(&mut hasher);
        }
    }
    let mut wire: Vec<&Parcel> = world.wire.iter().collect();
    wire.sort_by_key(|parcel| (parcel.from, parcel.pair, kind(parcel)));
    for parcel in wire {
        (parcel.from, parcel.pair, kind(parcel)).hash(&mut hasher);
        match &parcel.what {
            What::Control(octets) => {
                // Tags, nonces and reports are words of four octets. Most other octets never change.
                names.hash_words(octets.get(8..).unwrap_or(&[]), &mut hasher);
            }
            What::Ilnp(packet) => {
                names.hash_words(packet.get(IP6_LEN..).unwrap_or(&[]), &mut hasher);
            }
            What::Foreign(nonce) => nonce.hash(&mut hasher),
            What::WithNonce(nonce) => names.hash_words(nonce.octets(), &mut hasher),
            What::Payload(tag) => {
                let tag = tag.map(|tag| names.of(&tag.bits().to_string()));
                tag.hash(&mut hasher);
            }
        }
    }
    world.learnt.each_ref().map(Option::is_some).hash(&mut hasher);
    for heard in &world.heard {
        heard.is_accepted().hash(&mut hasher);
        heard.nonce.into_iter().for_each(|nonce| names.hash_words(nonce.octets(), &mut hasher));
        let last = heard.last.as_deref().unwrap_or_default();
        names.hash_words(last.get(IP6_LEN..).unwrap_or(&[]), &mut hasher);
    }
    world.is_attacked.hash(&mut hasher);
    world.left.hash(&mut hasher);
    world.is_cut.hash(&mut hasher);
    world.wrong.hash(&mut hasher);
    hasher.finish()
}

/// Type and length of a packet, without its random parts.
fn kind(parcel: &Parcel) -> (u8, usize) {
    match &parcel.what {
        What::Control(octets) => (octets.get(2).copied().unwrap_or(0), octets.len()),
        What::Ilnp(packet) => (packet.get(IP6_LEN).copied().unwrap_or(0), packet.len()),
        What::Payload(_) | What::WithNonce(_) | What::Foreign(_) => (u8::MAX, 0),
    }
}

/// Cuts the counters of drops, because they have no effect on later states.
fn without_counters(text: &str) -> &str {
    let text = text.split("drops: DropCounters").next().unwrap_or(text);
    text.split(", drops: {").next().unwrap_or(text)
}

/// Names of random numbers: their order of first occurrence.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn of(&mut self, number: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(number.to_owned()).or_insert(next)
    }

    /// Hashes words of four octets by their names.
    fn hash_words(&mut self, octets: &[u8], hasher: &mut DefaultHasher) {
        for word in octets.chunks(4) {
            self.of(&format!("{word:?}")).hash(hasher);
        }
    }

    /// Hashes a printed host: words as they are, random numbers by name, times by rank.
    fn hash_into(&mut self, text: &str, now: u64, hasher: &mut DefaultHasher) {
        let pieces = pieces(text);
        let times = pieces.windows(4).filter_map(time).filter(|at| *at > 0);
        let times: Vec<u64> = times.collect::<BTreeSet<_>>().into_iter().collect();
        let first_to_come = times.partition_point(|&at| at <= now / 1000);
        let mut rest = &pieces[..];
        while let [piece, left @ ..] = rest {
            if let Some(at) = time(rest) {
                let rank = times.partition_point(|&other| other < at);
                let rank = rank.saturating_sub(first_to_come.saturating_sub(1));
                (at > 0).then_some(rank).hash(hasher);
                rest = &rest[3..];
                continue;
            }
            if piece.len() >= RANDOM_DIGITS && piece.starts_with(|c: char| c.is_ascii_digit()) {
                self.of(piece).hash(hasher);
            } else {
                piece.hash(hasher);
            }
            rest = left;
        }
    }
}

/// Splits a text into runs of digits and the text between them.
fn pieces(text: &str) -> Vec<&str> {
    let is_alike = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
    let pieces = text.as_bytes().chunk_by(is_alike);
    pieces.filter_map(|piece| std::str::from_utf8(piece).ok()).collect()
}

/// The point in time at the start of these pieces, in microseconds: `1.000000s`. Durations print fewer zeros.
fn time(pieces: &[&str]) -> Option<u64> {
    let [seconds, ".", micros, unit, ..] = pieces else { return None };
    let micros =
        micros.parse::<u64>().ok().filter(|_| micros.len() == 6 && unit.starts_with('s'))?;
    let seconds = seconds.parse::<u64>().unwrap_or(u64::MAX / 1_000_001);
    Some(seconds.saturating_mul(1_000_000).saturating_add(micros))
}

/// Nonces and tags have at least this many digits. Lengths, counts and octets have fewer.
const RANDOM_DIGITS: usize = 6;
