use core::fmt;
use core::time::Duration;

use moorline_types::Instant;

/// The secrets of keyed hashes that a responder gives out and keeps nothing of (RFC 5533 s7.10.1): the secret of the current epoch
/// and the secret of the epoch before. A hash is good for one to two epochs.
#[derive(Clone)]
pub struct Secrets {
    lifetime: Duration,
    start: Instant,
    current: [u8; 16],
    previous: [u8; 16],
}

impl Secrets {
    /// Draws the first secrets; `lifetime` is the length of an epoch.
    pub fn new(lifetime: Duration, mut draw: impl FnMut(&mut [u8]), now: Instant) -> Self {
        let mut secrets = Self { lifetime, start: now, current: [0; 16], previous: [0; 16] };
        draw(&mut secrets.current);
        draw(&mut secrets.previous);
        secrets
    }

    /// Begins a new epoch if one is due. Result: epochs that have begun, at most 2: after that many no hash of before is good.
    pub fn rotate(&mut self, mut draw: impl FnMut(&mut [u8]), now: Instant) -> u32 {
        let age = now.since(self.start);
        if age < self.lifetime {
            return 0;
        }
        let was_asleep = age >= self.lifetime * 2;
        self.previous = self.current;
        if was_asleep {
            draw(&mut self.previous);
        }
        draw(&mut self.current);
        self.start = now;
        if was_asleep { 2 } else { 1 }
    }

    /// The secret of the current epoch.
    #[must_use]
    pub const fn current(&self) -> &[u8; 16] {
        &self.current
    }

    /// The secret of the epoch before.
    #[must_use]
    pub const fn previous(&self) -> &[u8; 16] {
        &self.previous
    }
}

/// Numbers for what a responder gives out and keeps nothing of, each with the secret of its epoch (RFC 5533 s7.10.1). Their order is the
/// order in which they were given out. They begin at random, so that they do not tell the uptime.
#[derive(Clone, Debug)]
pub struct Numbered {
    secrets: Secrets,
    /// The next number, and the first ones of the current epoch and of the one before.
    next: u32,
    current_first: u32,
    previous_first: u32,
}

impl Numbered {
    /// The first number of all is `first`.
    #[must_use]
    pub const fn new(secrets: Secrets, first: u32) -> Self {
        Self { secrets, next: first, current_first: first, previous_first: first }
    }

    /// The next number, and the secret for it.
    pub fn give(&mut self, draw: impl FnMut(&mut [u8]), now: Instant) -> (u32, &[u8; 16]) {
        self.rotate(draw, now);
        let number = self.next;
        self.next = number.wrapping_add(1);
        (number, self.secrets.current())
    }

    /// The secret that a number was given out with; `None` if it was not given out in the current epoch or the one before.
    pub fn secret_of(
        &mut self,
        number: u32,
        draw: impl FnMut(&mut [u8]),
        now: Instant,
    ) -> Option<&[u8; 16]> {
        self.rotate(draw, now);
        let is_current = self.age(number)? <= self.next.wrapping_sub(self.current_first);
        Some(if is_current { self.secrets.current() } else { self.secrets.previous() })
    }

    /// The number that was given out last.
    #[must_use]
    pub const fn latest(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Whether of two numbers the first was given out later. The first is one that has a secret; what has none any more is older than it.
    #[must_use]
    pub fn is_newer(&self, number: u32, other: u32) -> bool {
        self.age(other).is_none_or(|age| self.age(number).is_some_and(|newer| newer < age))
    }

    /// One for the number that was given out last, and so on; `None` for one that has no secret.
    fn age(&self, number: u32) -> Option<u32> {
        let age = self.next.wrapping_sub(number);
        (age > 0 && age <= self.next.wrapping_sub(self.previous_first)).then_some(age)
    }

    fn rotate(&mut self, draw: impl FnMut(&mut [u8]), now: Instant) {
        let begun = self.secrets.rotate(draw, now);
        if begun > 0 {
            // Of the epochs slept through there is nothing, and what was given out before is too old.
            self.previous_first = if begun > 1 { self.next } else { self.current_first };
            self.current_first = self.next;
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("start", &self.start).finish_non_exhaustive()
    }
}

/// Whether two hashes are equal, in a time that says nothing of where they differ.
#[must_use]
pub fn equal_in_constant_time(ours: &[u8], theirs: &[u8]) -> bool {
    let difference = ours.iter().zip(theirs).fold(0, |difference, (a, b)| difference | (a ^ b));
    ours.len() == theirs.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(30);

    #[test]
    fn a_secret_is_good_for_its_epoch_and_the_next() {
        let mut drawn = 0;
        let mut draw = |octets: &mut [u8]| {
            drawn += 1;
            octets.fill(drawn);
        };
        let begin = Instant::from_nanos(1);
        let mut secrets = Secrets::new(LIFETIME, &mut draw, begin);
        let first = *secrets.current();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert_eq!(secrets.rotate(&mut draw, at(29)), 0);
        assert_eq!(secrets.current(), &first);
        assert_eq!(secrets.rotate(&mut draw, at(30)), 1);
        assert_eq!((secrets.previous(), secrets.current() != &first), (&first, true));
        let second = *secrets.current();
        assert_eq!(secrets.rotate(&mut draw, at(90)), 2);
        assert!(![first, second].contains(secrets.previous()));
        assert!(![first, second].contains(secrets.current()));
    }

    #[test]
    fn a_number_has_the_secret_of_its_epoch_for_that_and_the_next() {
        let mut drawn = 0;
        let mut draw = |octets: &mut [u8]| {
            drawn += 1;
            octets.fill(drawn);
        };
        let begin = Instant::from_nanos(1);
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut numbers = Numbered::new(Secrets::new(LIFETIME, &mut draw, begin), u32::MAX);
        let before = numbers.latest();
        let (first, secret) = numbers.give(&mut draw, at(29));
        let secret = *secret;
        let (second, other) = numbers.give(&mut draw, at(30));
        assert_eq!((first, second, *other != secret), (u32::MAX, 0, true));
        assert_eq!(numbers.secret_of(first, &mut draw, at(30)), Some(&secret));
        assert_eq!(numbers.secret_of(second.wrapping_add(1), &mut draw, at(30)), None);
        assert_eq!(numbers.secret_of(before, &mut draw, at(30)), None);
        let newer =
            [(second, first), (first, before)].map(|(one, other)| numbers.is_newer(one, other));
        let older =
            [(first, second), (first, first)].map(|(one, other)| numbers.is_newer(one, other));
        assert_eq!((newer, older, numbers.latest()), ([true; 2], [false; 2], second));
        assert_eq!(numbers.secret_of(first, &mut draw, at(60)), None);
        assert!(numbers.is_newer(second, first), "what has no secret is older");
    }

    #[test]
    fn hashes_are_equal_if_all_octets_are() {
        assert!(equal_in_constant_time(&[1, 2], &[1, 2]));
        assert!(!equal_in_constant_time(&[1, 2], &[1, 3]));
        assert!(!equal_in_constant_time(&[1, 2], &[1]));
    }
}
