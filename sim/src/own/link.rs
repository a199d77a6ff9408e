//! A link, its router, and the router's advertisements.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{Lifetimes, PrefixInformation};
use moorline_types::Prefix;

use crate::rng::Rng;

/// The router of a link, and the contents of its advertisements.
#[derive(Clone, Debug)]
pub(super) struct Router {
    pub(super) ifindex: u32,
    /// Time between two unsolicited advertisements.
    pub(super) interval: Duration,
    /// Time for which the router is a default router; zero if it is none.
    pub(super) lifetime: Duration,
    pub(super) prefixes: Vec<PrefixInformation>,
    /// Whether the router sends nothing.
    pub(super) is_silent: bool,
    given: u16,
}

impl Router {
    pub(super) fn new(ifindex: u32, rng: &mut Rng) -> Self {
        let interval = Duration::from_secs(rng.pick(&INTERVALS).unwrap_or(30));
        let lifetime = interval * 3;
        let mut router =
            Self { ifindex, interval, lifetime, prefixes: Vec::new(), is_silent: false, given: 0 };
        router.add_prefix(rng);
        router
    }

    /// Makes a random change.
    pub(super) fn change(&mut self, rng: &mut Rng) -> &'static str {
        match rng.below(9) {
            0 => {
                self.add_prefix(rng);
                "gives a prefix more"
            }
            1 => {
                self.each_old(|lifetimes| lifetimes.preferred = 0);
                self.add_prefix(rng);
                "renumbers: the old prefixes are deprecated"
            }
            2 => {
                let valid = rng.pick(&[0, 60, 7200]).unwrap_or(0);
                self.each_old(|lifetimes| *lifetimes = Lifetimes { preferred: 0, valid });
                self.add_prefix(rng);
                "renumbers: the old prefixes end"
            }
            3 => {
                if self.prefixes.len() > 1 {
                    self.prefixes.remove(0);
                }
                "forgets a prefix"
            }
            4 => {
                let lifetimes = lifetimes(self.interval, rng);
                self.each_old(|old| *old = lifetimes);
                "gives other lifetimes"
            }
            5 => {
                self.lifetime =
                    if self.lifetime.is_zero() { self.interval * 3 } else { Duration::ZERO };
                "is a default router no more, or again"
            }
            6 => {
                self.is_silent = !self.is_silent;
                "falls silent, or speaks again"
            }
            7 => {
                for one in &mut self.prefixes {
                    one.autonomous = !one.autonomous;
                }
                "has hosts make no addresses, or again"
            }
            // Hosts remove the prefixes from their list of on-link prefixes (RFC 4861), and keep the addresses (RFC
            // 4862 s5.5.3 a).
            _ => {
                for one in &mut self.prefixes {
                    (one.autonomous, one.lifetimes) = (false, Lifetimes { preferred: 0, valid: 0 });
                }
                "takes prefixes off the link, and no addresses"
            }
        }
    }

    fn each_old(&mut self, change: impl Fn(&mut Lifetimes)) {
        self.prefixes.iter_mut().for_each(|one| change(&mut one.lifetimes));
    }

    fn add_prefix(&mut self, rng: &mut Rng) {
        self.given += 1;
        let site = u16::try_from(self.ifindex).unwrap_or(0);
        let prefix = Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, site, self.given, 0, 0, 0, 0), 64);
        let lifetimes = lifetimes(self.interval, rng);
        self.prefixes.push(PrefixInformation {
            prefix,
            on_link: true,
            autonomous: true,
            lifetimes,
        });
        if self.prefixes.len() > MAX_PREFIXES {
            self.prefixes.remove(0);
        }
    }
}

/// Lifetimes that are longer than the interval of advertisements.
fn lifetimes(interval: Duration, rng: &mut Rng) -> Lifetimes {
    let least = u32::try_from(interval.as_secs()).unwrap_or(u32::MAX) * 2;
    let valid =
        rng.pick(&[least, 3600, 7200, 86_400, 2_592_000, u32::MAX]).unwrap_or(least).max(least);
    let preferred = rng.pick(&[valid, valid / 2, least / 2]).unwrap_or(valid);
    Lifetimes { preferred: preferred.min(valid), valid }
}

/// Seconds between unsolicited advertisements (RFC 4861 s6.2.1).
const INTERVALS: [u64; 4] = [10, 30, 200, 600];
const MAX_PREFIXES: usize = 4;
