//! Inputs for all contexts, in slices: an input for a million contexts must not keep packets and requests waiting.
//!
//! The first slice gets an input at once, so a table of [`SLICE`](moorline_shim6::SLICE) contexts knows no other one. Each further slice is due
//! at once, as a timer. An input that begins anew takes the place of its earlier walk, because it brings each context up
//! to date with the machine.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use moorline_types::{ContextId, Instant, Locator, LocatorPair, Locators};

use crate::machine::Contexts;

/// Inputs on their way through the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweeps(VecDeque<Sweep>);

#[derive(Clone, Debug)]
struct Sweep {
    input: Input,
    /// First slot of the next slice.
    next: ContextId,
    began: Instant,
}

/// An input for all contexts.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// Our usable addresses, routes or rules have changed.
    Refresh,
    /// Our deprecated addresses have changed.
    Deprecated,
    /// The configuration of REAP has changed.
    Config,
    /// The router of these addresses does not answer.
    RouterLost(Vec<Locator>),
    /// A context with the peer that has these locators has left this pair.
    PairLeft(LocatorPair, Locators),
}

impl Contexts {
    /// Gives an input to all contexts.
    pub(crate) fn sweep(&mut self, input: Input, now: Instant) {
        let kind = mem::discriminant(&input);
        if matches!(input, Input::Refresh | Input::Deprecated | Input::Config) {
            self.sweeps.0.retain(|sweep| mem::discriminant(&sweep.input) != kind);
        }
        let sweep = Sweep { input, next: ContextId(0), began: now };
        if let Some(rest) = self.sweep_slice(sweep, now) {
            self.sweeps.0.push_back(rest);
        }
    }

    /// Gives the input that has waited longest to the next slice.
    pub(crate) fn go_on_sweeping(&mut self, now: Instant) {
        if let Some(sweep) = self.sweeps.0.pop_front()
            && let Some(rest) = self.sweep_slice(sweep, now)
        {
            self.sweeps.0.push_front(rest);
        }
    }

    /// When the next slice is due.
    pub(crate) fn next_slice(&self) -> Option<Instant> {
        self.sweeps.0.front().map(|sweep| sweep.began)
    }

    /// Gives an input to a slice. Returns what is left of the sweep.
    fn sweep_slice(&mut self, sweep: Sweep, now: Instant) -> Option<Sweep> {
        let (ids, next) = self.active.slice(sweep.next, self.slice);
        for id in ids {
            self.give(id, &sweep.input, now);
        }
        next.map(|next| Sweep { next, ..sweep })
    }

    fn give(&mut self, id: ContextId, input: &Input, now: Instant) {
        match input {
            Input::Refresh => self.refresh_candidates(id, now),
            Input::Deprecated => {
                if let Some(active) = self.active.get_mut(&id) {
                    active.reap.handle_deprecated(&self.deprecated, now);
                    self.drain_reap(id, now);
                }
            }
            Input::Config => {
                let config = Arc::clone(&self.reap_config);
                self.change(id, now, |reap| reap.handle_config(config));
            }
            Input::RouterLost(local) => {
                let current = self.active.get(&id).map(|active| active.reap.current_pair());
                if current.is_some_and(|current| local.contains(&current.local)) {
                    self.change(id, now, |reap| reap.handle_local_failure(now));
                }
            }
            Input::PairLeft(pair, peer) => self.suspect_standby(id, *pair, peer, now),
        }
    }
}
