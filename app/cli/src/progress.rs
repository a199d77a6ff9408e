//! The bar of a long search.

use crate::render;
use moorline_addr::{Progress, Search};
use moorline_term::Bar;

pub(crate) struct SearchBar(Bar);

impl SearchBar {
    pub(crate) fn new(search: &Search) -> Self {
        let bar = Bar::new("{bar:16} {msg}");
        bar.say(format!("searching on {} threads", search.threads()));
        Self(bar)
    }

    /// A search has no memory: the bar shows how many of a thousand would have ended by now.
    pub(crate) fn show(&self, progress: &Progress) {
        self.0.set(progress.probability);
        self.0.say(render::progress(progress));
    }
}
