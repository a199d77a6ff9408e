//! The bar of a long search, on the standard error of a terminal.

use crate::render;
use indicatif::{ProgressBar, ProgressStyle};
use moorline_addr::{Progress, Search};

pub(crate) struct SearchBar(ProgressBar);

impl SearchBar {
    pub(crate) fn new(search: &Search) -> Self {
        // Draws on the standard error, and only if that is a terminal.
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{bar:16} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(format!("searching on {} threads", search.threads()));
        bar.tick();
        Self(bar)
    }

    /// A search has no memory: the bar shows how many of a thousand would have ended by now.
    pub(crate) fn show(&self, progress: &Progress) {
        let steps = (0..STEPS).rfind(|step| *step as f64 <= progress.probability * STEPS as f64);
        self.0.set_position(steps.unwrap_or(0));
        self.0.set_message(render::progress(progress));
    }
}

impl Drop for SearchBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const STEPS: u64 = 1000;
