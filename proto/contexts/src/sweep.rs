//! Inputs for all contexts, in slices: an input for a million contexts must not keep packets and requests waiting.
//!
//! The first slice gets an input at once, so a table of [`SLICE`](moorline_shim6::SLICE) contexts knows no other one. Each further slice is due
//! at once, as a timer. In a turn each input that waits gets its next slice, so no input waits for another one. An input
//! that comes again while it waits goes once round the table from its place on, so all contexts get it, however often it
//! comes.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use moorline_index::Round;
use moorline_types::{ContextId, Instant, Locator, LocatorPair, Locators};

use crate::machine::Contexts;

/// Inputs on their way through the table: one of each kind without data, one `RouterLost` at most for each address, and
/// [`MAX_PAIRS_LEFT`] times `PairLeft`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweeps(pub(crate) VecDeque<Sweep>);

#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    input: Input,
    round: Round,
    began: Instant,
}

/// An input for all contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Sweeps {
    /// The place of an input that waits, which waits no longer; the first slot for another input.
    fn take_place(&mut self, input: &Input) -> u32 {
        let at = self.0.iter().position(|sweep| sweep.input == *input);
        at.and_then(|at| self.0.remove(at)).map_or(0, |sweep| sweep.round.place())
    }

    /// The router of these addresses is not known as lost any more.
    pub(crate) fn forget_lost(&mut self, found: &[Locator]) {
        self.0.retain_mut(|sweep| match &mut sweep.input {
            Input::RouterLost(local) => {
                local.retain(|own| !found.contains(own));
                !local.is_empty()
            }
            Input::Refresh | Input::Deprecated | Input::Config | Input::PairLeft(..) => true,
        });
    }

    fn has_room_for_pair(&self) -> bool {
        let is_pair = |sweep: &&Sweep| matches!(sweep.input, Input::PairLeft(..));
        self.0.iter().filter(is_pair).count() < MAX_PAIRS_LEFT
    }
}

impl Contexts {
    /// Gives an input to all contexts. If too many pairs wait, no context learns of another one.
    pub(crate) fn sweep(&mut self, input: Input, now: Instant) {
        let place = self.sweeps.take_place(&input);
        match &input {
            Input::RouterLost(local) => self.sweeps.forget_lost(local),
            Input::PairLeft(..) if !self.sweeps.has_room_for_pair() => return,
            Input::PairLeft(..) | Input::Refresh | Input::Deprecated | Input::Config => {}
        }
        let round = Round::at(place, self.active.len());
        self.sweep_slice(Sweep { input, round, began: now }, now);
    }

    /// Gives each input that waits to its next slice.
    pub(crate) fn go_on_sweeping(&mut self, now: Instant) {
        for _ in 0..self.sweeps.0.len() {
            if let Some(sweep) = self.sweeps.0.pop_front() {
                self.sweep_slice(sweep, now);
            }
        }
    }

    /// When the next slice is due.
    pub(crate) fn next_slice(&self) -> Option<Instant> {
        self.sweeps.0.front().map(|sweep| sweep.began)
    }

    /// Gives an input to a slice. The rest of the sweep waits.
    fn sweep_slice(&mut self, mut sweep: Sweep, now: Instant) {
        for id in self.active.slice(sweep.round.take(self.slice)) {
            self.give(id, &sweep.input, now);
        }
        if !sweep.round.is_over() {
            self.sweeps.0.push_back(sweep);
        }
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

/// Largest number of pairs that wait: those of a second.
const MAX_PAIRS_LEFT: usize = 16;
