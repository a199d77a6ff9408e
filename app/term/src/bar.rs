use indicatif::{ProgressBar, ProgressStyle};

/// Progress bar of a long command, on the standard error of a terminal. Dropping the bar removes it from the screen.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Makes a bar with this template of `indicatif`.
    #[must_use]
    pub fn new(template: &str) -> Self {
        // `indicatif` draws on the standard error, and only if the standard error is a terminal.
        let bar = ProgressBar::new(STEPS);
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Whether there is no terminal to draw on.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// Shows `text` beside the bar.
    pub fn say(&self, text: impl Into<String>) {
        self.0.set_message(text.into());
        self.0.tick();
    }

    /// Sets the completed part, from 0 to 1.
    pub fn set(&self, part: f64) {
        let steps = (0..=STEPS).rfind(|step| *step as f64 <= part * STEPS as f64);
        self.0.set_position(steps.unwrap_or(0));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const STEPS: u64 = 1000;
