use core::fmt;
use core::time::Duration;

use moorline_types::{DropReason, Instant};
use rand_core::RngCore;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// Makes and checks the validators that keep a responder stateless (RFC 5533 s7.10.1). A validator is a keyed
/// hash over the responder's message, which comes back.
///
/// Each validator has a number, in the order in which they are made. The first number is random, so that
/// numbers do not reveal the uptime. The number tells the epoch, and so the secret. Validators of the current
/// epoch and of the one before are valid (decision 004), so a validator is valid for one to two epochs.
#[derive(Clone)]
pub struct Validators {
    /// Length of an epoch, and start of the current one.
    lifetime: Duration,
    start: Instant,
    /// Secrets of the current epoch and of the one before.
    current: [u8; 16],
    previous: [u8; 16],
    /// Next number, and the first numbers of the current epoch and of the one before.
    next: u32,
    current_first: u32,
    previous_first: u32,
}

impl Validators {
    /// Creates validators with a random first number and random secrets. `lifetime` is the length of an
    /// epoch.
    pub fn new(lifetime: Duration, rng: &mut impl RngCore, now: Instant) -> Self {
        let first = rng.next_u32();
        let (mut current, mut previous) = ([0; 16], [0; 16]);
        rng.fill_bytes(&mut current);
        rng.fill_bytes(&mut previous);
        Self {
            lifetime,
            start: now,
            current,
            previous,
            next: first,
            current_first: first,
            previous_first: first,
        }
    }

    /// Returns the next number, and its validator over the octets that `hash` adds.
    pub fn make(
        &mut self,
        rng: &mut impl RngCore,
        now: Instant,
        hash: impl FnOnce(u32, &mut SipHasher24),
    ) -> (u32, [u8; 16]) {
        self.rotate(rng, now);
        let number = self.next;
        self.next = number.wrapping_add(1);
        (number, validator(&self.current, number, hash))
    }

    /// Checks a validator that comes back with its number.
    ///
    /// # Errors
    /// [`StaleNonce`](DropReason::StaleNonce): the number is of neither the current epoch nor the one before.
    /// [`BadValidator`](DropReason::BadValidator): the validator is wrong.
    pub fn check(
        &mut self,
        (number, theirs): (u32, &[u8]),
        rng: &mut impl RngCore,
        now: Instant,
        hash: impl FnOnce(u32, &mut SipHasher24),
    ) -> Result<(), DropReason> {
        self.rotate(rng, now);
        let age = self.age(number).ok_or(DropReason::StaleNonce)?;
        let is_current = age <= self.next.wrapping_sub(self.current_first);
        let secret = if is_current { &self.current } else { &self.previous };
        let is_ours = equal_in_constant_time(&validator(secret, number, hash), theirs);
        if is_ours { Ok(()) } else { Err(DropReason::BadValidator) }
    }

    /// The last number that was made.
    #[must_use]
    pub const fn latest(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Whether `number`, which must be valid, was made later than `other`. A number that is no longer valid
    /// is older.
    #[must_use]
    pub fn is_newer(&self, number: u32, other: u32) -> bool {
        self.age(other).is_none_or(|age| self.age(number).is_some_and(|newer| newer < age))
    }

    /// Age of a number: 1 for the last one that was made, and so on; `None` if the number has no secret.
    fn age(&self, number: u32) -> Option<u32> {
        let age = self.next.wrapping_sub(number);
        (age > 0 && age <= self.next.wrapping_sub(self.previous_first)).then_some(age)
    }

    /// Begins a new epoch if one is due. If more than one is due, no earlier validator stays valid.
    fn rotate(&mut self, rng: &mut impl RngCore, now: Instant) {
        let age = now.since(self.start);
        if age < self.lifetime {
            return;
        }
        self.previous = self.current;
        self.previous_first = self.current_first;
        if age >= self.lifetime * 2 {
            rng.fill_bytes(&mut self.previous);
            // The host has slept through whole epochs, so all earlier validators are too old.
            self.previous_first = self.next;
        }
        rng.fill_bytes(&mut self.current);
        self.current_first = self.next;
        self.start = now;
    }
}

fn validator(secret: &[u8; 16], number: u32, hash: impl FnOnce(u32, &mut SipHasher24)) -> [u8; 16] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hash(number, &mut hasher);
    hasher.finish128().as_bytes()
}

/// Shows nothing of the secrets.
impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Validators");
        shown.field("start", &self.start).field("next", &self.next).finish_non_exhaustive()
    }
}

/// Whether two hashes are equal. The time does not depend on where they differ.
fn equal_in_constant_time(ours: &[u8], theirs: &[u8]) -> bool {
    let difference = ours.iter().zip(theirs).fold(0, |difference, (a, b)| difference | (a ^ b));
    ours.len() == theirs.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher as _;

    const LIFETIME: Duration = Duration::from_secs(30);

    /// A generator that returns another octet each time.
    struct Drawn(u8);

    impl RngCore for Drawn {
        fn next_u32(&mut self) -> u32 {
            u32::MAX
        }

        fn next_u64(&mut self) -> u64 {
            0
        }

        fn fill_bytes(&mut self, octets: &mut [u8]) {
            self.0 += 1;
            octets.fill(self.0);
        }
    }

    #[test]
    fn a_secret_is_good_for_its_epoch_and_the_next() {
        let mut draw = Drawn(0);
        let begin = Instant::from_nanos(1);
        let mut secrets = Validators::new(LIFETIME, &mut draw, begin);
        let first = secrets.current;
        let at = |seconds| begin + Duration::from_secs(seconds);
        secrets.rotate(&mut draw, at(29));
        assert_eq!(secrets.current, first);
        secrets.rotate(&mut draw, at(30));
        assert_eq!((secrets.previous, secrets.current != first), (first, true));
        let second = secrets.current;
        secrets.rotate(&mut draw, at(90));
        assert!(![first, second].contains(&secrets.previous));
        assert!(![first, second].contains(&secrets.current));
    }

    #[test]
    fn a_validator_is_good_for_the_epoch_of_its_number_and_the_next() {
        let mut draw = Drawn(0);
        let begin = Instant::from_nanos(1);
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut numbers = Validators::new(LIFETIME, &mut draw, begin);
        let before = numbers.latest();
        let hash = |number: u32, hasher: &mut SipHasher24| hasher.write_u32(number);
        let (first, validator) = numbers.make(&mut draw, at(29), hash);
        let (second, other) = numbers.make(&mut draw, at(30), hash);
        assert_eq!((first, second, other != validator), (u32::MAX, 0, true));
        let mut check = |numbers: &mut Validators, number, seconds| {
            numbers.check((number, &validator), &mut draw, at(seconds), hash)
        };
        assert_eq!(check(&mut numbers, first, 30), Ok(()));
        assert_eq!(check(&mut numbers, second, 30), Err(DropReason::BadValidator));
        for never in [second.wrapping_add(1), before] {
            assert_eq!(check(&mut numbers, never, 30), Err(DropReason::StaleNonce));
        }
        let newer =
            [(second, first), (first, before)].map(|(one, other)| numbers.is_newer(one, other));
        let older =
            [(first, second), (first, first)].map(|(one, other)| numbers.is_newer(one, other));
        assert_eq!((newer, older, numbers.latest()), ([true; 2], [false; 2], second));
        assert_eq!(check(&mut numbers, first, 60), Err(DropReason::StaleNonce));
        assert!(numbers.is_newer(second, first), "what has no secret is older");
    }

    #[test]
    fn hashes_are_equal_if_all_octets_are() {
        assert!(equal_in_constant_time(&[1, 2], &[1, 2]));
        assert!(!equal_in_constant_time(&[1, 2], &[1, 3]));
        assert!(!equal_in_constant_time(&[1, 2], &[1]));
    }
}
