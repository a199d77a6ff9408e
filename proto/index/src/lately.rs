use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher as _;
use core::mem;
use core::time::Duration;

use moorline_types::Instant;
use siphasher::sip::SipHasher13;

/// Remembers keys for a time, in little and bounded memory: a digest of 32 bits for each key.
///
/// The set holds the digests in two generations of 32,768. A generation takes digests for the lifetime of a key, or
/// until three quarters of it are full. So a key is remembered for one to two lifetimes, and for less if very many keys are
/// added in one lifetime. A key that was never added seems to be there once in 250 million questions. The hash is keyed, so
/// nobody can choose keys that push others out.
#[derive(Clone)]
pub struct Lately {
    key: [u8; 16],
    lifetime: Duration,
    /// The young and the old generation; empty while nothing was added.
    generations: [Vec<Bucket>; 2],
    /// When the young generation began.
    began: Instant,
    added: usize,
}

/// Digests; zero: no digest.
type Bucket = [u32; 8];

impl Lately {
    /// Creates an empty set, which takes no memory. Nobody else may know the key.
    #[must_use]
    pub const fn new(key: [u8; 16], lifetime: Duration) -> Self {
        Self {
            key,
            lifetime,
            generations: [Vec::new(), Vec::new()],
            began: Instant::ZERO,
            added: 0,
        }
    }

    /// Adds a key.
    pub fn add(&mut self, key: [u8; 16], now: Instant) {
        if self.generations[0].is_empty()
            || self.added >= CAPACITY / 4 * 3
            || now.since(self.began) >= self.lifetime
        {
            self.turn(now);
        }
        let (at, digest) = self.place(key);
        let Some(bucket) = self.generations[0].get_mut(at) else { return };
        let free = |one: &u32| *one == 0 || *one == digest;
        // If the bucket is full, one of its digests gives way.
        let slot = bucket.iter().position(free).unwrap_or(digest as usize % bucket.len());
        self.added += usize::from(mem::replace(&mut bucket[slot], digest) == 0);
    }

    /// Whether the key was added in the last one or two lifetimes.
    #[must_use]
    pub fn has(&self, key: [u8; 16], now: Instant) -> bool {
        let lifetimes = match now.since(self.began) {
            age if age < self.lifetime => 2,
            age if age < self.lifetime * 2 => 1,
            _ => 0,
        };
        let (at, digest) = self.place(key);
        let mut buckets = self.generations.iter().take(lifetimes).filter_map(|one| one.get(at));
        buckets.any(|bucket| bucket.contains(&digest))
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: [u8; 16]) {
        let (at, digest) = self.place(key);
        let buckets = self.generations.iter_mut().filter_map(|one| one.get_mut(at));
        buckets.flatten().filter(|one| **one == digest).for_each(|one| *one = 0);
    }

    /// The young generation becomes the old one, unless it is as old as the old one may be.
    fn turn(&mut self, now: Instant) {
        let is_over = now.since(self.began) >= self.lifetime * 2;
        let young = mem::replace(&mut self.generations[0], vec![Bucket::default(); BUCKETS]);
        self.generations[1] = if is_over { Vec::new() } else { young };
        (self.began, self.added) = (now, 0);
    }

    fn place(&self, key: [u8; 16]) -> (usize, u32) {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&key);
        let [a, b, c, d, .., high, low] = hasher.finish().to_be_bytes();
        let at = usize::from(u16::from_be_bytes([high, low])) % BUCKETS;
        (at, u32::from_be_bytes([a, b, c, d]).max(1))
    }
}

/// Shows nothing of the key.
impl fmt::Debug for Lately {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lately").finish_non_exhaustive()
    }
}

/// Digests in a generation: 32,768, which take 128 KiB.
const CAPACITY: usize = BUCKETS * 8;
const BUCKETS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(600);

    fn key(n: u32) -> [u8; 16] {
        let mut key = [7; 16];
        key[12..].copy_from_slice(&n.to_be_bytes());
        key
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn keys_are_remembered_for_one_to_two_lifetimes() {
        let mut lately = Lately::new([1; 16], LIFETIME);
        assert!(!lately.has(key(1), at(0)));
        lately.add(key(1), at(5000));
        lately.add(key(2), at(5599));
        assert!(
            [1, 2].iter().all(|n| lately.has(key(*n), at(5600))) && !lately.has(key(3), at(5600))
        );
        lately.add(key(3), at(5600));
        assert!([1, 2, 3].iter().all(|n| lately.has(key(*n), at(6199))));
        assert!(lately.has(key(3), at(6799)));
        assert!([1, 2].iter().all(|n| !lately.has(key(*n), at(6200))));
        assert!(!lately.has(key(3), at(6800)));
        // What is too old does not become young again.
        lately.add(key(4), at(9000));
        assert!(!lately.has(key(3), at(9000)) && lately.has(key(4), at(9000)));
        lately.remove(key(4));
        assert!(!lately.has(key(4), at(9000)));
    }

    #[test]
    fn of_twenty_thousand_keys_nearly_none_is_forgotten_and_of_a_million_the_first_are() {
        let mut lately = Lately::new([1; 16], LIFETIME);
        (0..20_000).for_each(|n| lately.add(key(n), at(1)));
        let kept = (0..20_000).filter(|n| lately.has(key(*n), at(2))).count();
        assert!(kept > 19_000, "{kept}");
        assert_eq!((20_000..100_000).filter(|n| lately.has(key(*n), at(2))).count(), 0);
        (20_000..1_000_000).for_each(|n| lately.add(key(n), at(3)));
        assert!((0..20_000).all(|n| !lately.has(key(n), at(4))));
        assert!(lately.generations.iter().all(|one| one.len() == BUCKETS));
    }
}
