//! Progress of an experiment.

use crate::experiment::Watch;
use moorline_term::Bar;

/// A bar on a terminal, with the estimated time left. Elsewhere, a line for each stage.
pub(super) fn bar() -> Bar {
    Bar::new("{bar:16} {percent:>3} % {elapsed:>4}, {eta} left: {msg}")
}

impl Watch for Bar {
    fn stage(&mut self, what: &str) {
        if self.is_hidden() {
            eprintln!("{what}");
        }
        self.say(what);
    }

    fn done(&mut self, part: f64) {
        self.set(part);
    }
}
