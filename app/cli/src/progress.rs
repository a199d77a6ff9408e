//! The bar of a long search or an experiment, on the standard error of a terminal.

use crate::render;
use indicatif::{ProgressBar, ProgressStyle};
use moorline_addr::{Progress, Search};
use moorline_lab::experiment::Watch;

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
        self.0.set_position(steps(progress.probability));
        self.0.set_message(render::progress(progress));
    }
}

impl Drop for SearchBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// How far an experiment is. Where there is no terminal, a line for each stage.
pub(crate) struct StageBar(ProgressBar);

impl StageBar {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template("{bar:16} {percent:>3} % {elapsed:>4} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }
}

impl Watch for StageBar {
    fn stage(&mut self, what: &str) {
        if self.0.is_hidden() {
            eprintln!("{what}");
        }
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    fn done(&mut self, part: f64) {
        self.0.set_position(steps(part));
    }
}

impl Drop for StageBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn steps(part: f64) -> u64 {
    (0..=STEPS).rfind(|step| *step as f64 <= part * STEPS as f64).unwrap_or(0)
}

const STEPS: u64 = 1000;
