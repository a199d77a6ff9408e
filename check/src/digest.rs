//! A number for each state that is the same for states that differ in nothing that matters.
//!
//! The state is printed with all its tables; random numbers are replaced by the order in which they
//! first occur, points in time by their order at that host.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use moorline_wire::ip6::IP6_LEN;

use crate::world::{Parcel, What, World};

/// The number of a state.
pub(crate) fn of(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut names = Names::default();
    for side in &world.sides {
        let shim6 = format!("{:?}", side.host.shim6());
        let kernel = format!("{:?} {:?}", side.host.routes(), side.kernel);
        let ilnp = format!("{:?} {:?}", side.sessions, side.host.ilnp());
        for text in [without_counters(&shim6), &kernel, without_counters(&ilnp)] {
            names.hash_into(text, side.now.as_nanos(), &mut hasher);
        }
        (side.has_lost_uplink, side.refuses, side.host.awaits_retry()).hash(&mut hasher);
        for session in side.sessions.values() {
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
                // Tags, nonces and reports in words of four octets; most of the rest never changes.
                names.hash_words(octets.get(8..).unwrap_or(&[]), &mut hasher);
            }
            What::Ilnp(packet) => {
                names.hash_words(packet.get(IP6_LEN..).unwrap_or(&[]), &mut hasher);
            }
            What::WithNonce(nonce) => names.hash_words(nonce.octets(), &mut hasher),
            What::Payload(tag) => {
                let tag = tag.map(|tag| names.of(&tag.bits().to_string()));
                tag.hash(&mut hasher);
            }
        }
    }
    world.left.hash(&mut hasher);
    world.is_cut.hash(&mut hasher);
    world.wrong.hash(&mut hasher);
    hasher.finish()
}

/// What the packet is, without what is random in it.
fn kind(parcel: &Parcel) -> (u8, usize) {
    match &parcel.what {
        What::Control(octets) => (octets.get(2).copied().unwrap_or(0), octets.len()),
        What::Ilnp(packet) => (packet.get(IP6_LEN).copied().unwrap_or(0), packet.len()),
        What::Payload(_) | What::WithNonce(_) => (u8::MAX, 0),
    }
}

/// Counters of drops do not bear on what happens.
fn without_counters(text: &str) -> &str {
    let text = text.split("drops: DropCounters").next().unwrap_or(text);
    text.split(", drops: {").next().unwrap_or(text)
}

/// Random numbers in the order in which they were met.
#[derive(Default)]
struct Names(BTreeMap<String, usize>);

impl Names {
    fn of(&mut self, number: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(number.to_owned()).or_insert(next)
    }

    /// Hashes words of four octets by name.
    fn hash_words(&mut self, octets: &[u8], hasher: &mut DefaultHasher) {
        for word in octets.chunks(4) {
            self.of(&format!("{word:?}")).hash(hasher);
        }
    }

    /// Hashes a printed host: words as they are, random numbers by name, times by rank.
    fn hash_into(&mut self, text: &str, now: u64, hasher: &mut DefaultHasher) {
        let tokens = tokens(text);
        let mut times: Vec<u64> = tokens.iter().filter_map(|token| token.time()).collect();
        times.sort_unstable();
        times.dedup();
        let first_to_come = times.partition_point(|&at| at <= now / 1000);
        for token in tokens {
            match token {
                Token::Word(word) => word.hash(hasher),
                Token::Time(0) => 0.hash(hasher),
                Token::Time(at) => {
                    let rank = times.partition_point(|&other| other < at);
                    rank.saturating_sub(first_to_come.saturating_sub(1)).hash(hasher);
                }
                Token::Number(number) if number.len() >= RANDOM_DIGITS => {
                    self.of(number).hash(hasher);
                }
                Token::Number(number) => number.hash(hasher),
            }
        }
    }
}

enum Token<'a> {
    Word(&'a str),
    Number(&'a str),
    /// In microseconds.
    Time(u64),
}

impl Token<'_> {
    const fn time(&self) -> Option<u64> {
        match self {
            Self::Time(0) | Self::Word(_) | Self::Number(_) => None,
            Self::Time(at) => Some(*at),
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            let len = rest.bytes().take_while(|octet| !octet.is_ascii_digit()).count();
            let (word, left) = rest.split_at(len);
            tokens.push(Token::Word(word));
            rest = left;
            continue;
        }
        let (number, left) = rest.split_at(digits);
        if let Some((micros, left)) = time_after(left) {
            let seconds = number.parse::<u64>().unwrap_or(u64::MAX / 1_000_001);
            tokens.push(Token::Time(seconds.saturating_mul(1_000_000).saturating_add(micros)));
            rest = left;
        } else {
            tokens.push(Token::Number(number));
            rest = left;
        }
    }
    tokens
}

/// `.000000s`, as points in time are printed; durations have no such tail of zeros.
fn time_after(text: &str) -> Option<(u64, &str)> {
    let (micros, left) = text.strip_prefix('.')?.split_at_checked(6)?;
    let left = left.strip_prefix('s')?;
    micros.bytes().all(|octet| octet.is_ascii_digit()).then_some(())?;
    Some((micros.parse().ok()?, left))
}

/// Nonces and tags have more; lengths, counts and octets have less.
const RANDOM_DIGITS: usize = 6;
