//! Pairs that payload may take besides the current one, at the same time. The machine checks each pair while the host
//! wants it, and gives the pair to the data plane only while the peer answers.

use alloc::vec::Vec;
use core::time::Duration;
use moorline_types::{Instant, LocatorPair};

use super::Machine;
use crate::monitor::Check;

/// Time between the checks of a pair that payload takes besides the current one: 1 s. Not configurable.
pub const PATH_INTERVAL: Duration = Duration::from_secs(1);
/// Unanswered checks after which payload does not take such a pair any more: 3. Not configurable.
pub const PATH_MISSES: u8 = 3;

/// The pairs that the host wants besides the current one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parallel {
    pairs: Vec<Path>,
    /// When the next checks are due.
    pub(super) next: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    pair: LocatorPair,
    is_proven: bool,
    /// Checks since the last answer.
    misses: u8,
}

impl Machine {
    /// Sets the pairs that payload takes besides the current one, in this order. A pair is used once the peer has
    /// answered a check by it (decision 046), and while the peer keeps answering. Empty: payload takes the current pair
    /// only. A pair that is no candidate is never used. The machine keeps what it knows about pairs that were in the
    /// list before.
    pub fn handle_paths(&mut self, pairs: &[LocatorPair], now: Instant) {
        let known = self.parallel().map(|parallel| parallel.pairs.clone()).unwrap_or_default();
        if known.iter().map(|path| &path.pair).eq(pairs) {
            return;
        }
        let path = |&pair: &LocatorPair| {
            let before = known.iter().find(|path| path.pair == pair).copied();
            before.unwrap_or(Path { pair, is_proven: false, misses: 0 })
        };
        let pairs: Vec<_> = pairs.iter().map(path).collect();
        let parallel = (!pairs.is_empty()).then_some(Parallel { pairs, next: now });
        self.change_extra(|extra| extra.parallel = parallel);
        self.on_paths_timeout(now);
    }

    /// The wanted pairs, in order. The current pair stands in for each wanted pair that does not work.
    #[must_use]
    pub fn paths(&self) -> Vec<LocatorPair> {
        let Some(parallel) = self.parallel() else { return Vec::new() };
        let is_good = |path: &Path| path.is_proven && self.is_candidate(path.pair);
        let pairs = parallel.pairs.iter();
        pairs.map(|path| if is_good(path) { path.pair } else { self.current() }).collect()
    }

    pub(super) fn parallel(&self) -> Option<&Parallel> {
        self.extra.as_ref()?.parallel.as_ref()
    }

    pub(super) fn on_paths_timeout(&mut self, now: Instant) {
        let mut asked = Vec::new();
        let (current, candidates) = (self.current(), self.candidates_of_paths());
        self.change_extra(|extra| {
            let Some(parallel) = &mut extra.parallel else { return };
            parallel.next = now + PATH_INTERVAL;
            for path in parallel.pairs.iter_mut().filter(|path| path.pair != current) {
                path.misses = path.misses.saturating_add(1);
                path.is_proven &= path.misses <= PATH_MISSES;
                if candidates.contains(&path.pair) {
                    asked.push(path.pair);
                }
            }
        });
        let is_mute = self.monitor.as_ref().is_some_and(|monitor| monitor.is_mute());
        if self.state == crate::State::Operational && !is_mute {
            for pair in asked {
                self.send_check(pair, now);
            }
        }
        self.tidy_monitor(now);
    }

    pub(super) fn on_path_answered(&mut self, check: Check) {
        if self.parallel().is_none() {
            return;
        }
        self.change_extra(|extra| {
            let paths = extra.parallel.iter_mut().flat_map(|parallel| &mut parallel.pairs);
            for path in paths.filter(|path| path.pair == check.pair) {
                (path.is_proven, path.misses) = (true, 0);
            }
        });
    }

    fn candidates_of_paths(&self) -> Vec<LocatorPair> {
        let pairs = self.parallel().into_iter().flat_map(|parallel| &parallel.pairs);
        pairs.map(|path| path.pair).filter(|pair| self.is_candidate(*pair)).collect()
    }
}
