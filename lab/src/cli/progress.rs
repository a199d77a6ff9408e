//! How far an experiment is.

use crate::experiment::Watch;
use moorline_term::Bar;

/// A bar on a terminal. Elsewhere a line for each stage.
pub(super) struct StageBar(Bar);

impl StageBar {
    pub(super) fn new() -> Self {
        Self(Bar::new("{bar:16} {percent:>3} % {elapsed:>4} {msg}"))
    }
}

impl Watch for StageBar {
    fn stage(&mut self, what: &str) {
        if self.0.is_hidden() {
            eprintln!("{what}");
        }
        self.0.say(what);
    }

    fn done(&mut self, part: f64) {
        self.0.set(part);
    }
}
