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
    fn hashes_are_equal_if_all_octets_are() {
        assert!(equal_in_constant_time(&[1, 2], &[1, 2]));
        assert!(!equal_in_constant_time(&[1, 2], &[1, 3]));
        assert!(!equal_in_constant_time(&[1, 2], &[1]));
    }
}
