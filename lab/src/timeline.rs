//! A run as a person sees it: throughput over time, and marks of events.
//!
//! A scenario passes typed samples to a [`View`] and knows nothing of terminals. So runs in namespaces (real time) and
//! in the simulator (virtual time) look the same. On a terminal, [`Timeline`] redraws a chart in place. Elsewhere,
//! [`Timeline`] prints plain lines as they come, and the chart at the end. [`Silent`] draws nothing.
//!
//! ```text
//!  curl       160.0 MB  ▆▆▆▆▆▆▆▆▆▆··········██▆▆▆▆▆▆▆▆▆▆
//!  iperf3     160.1 MB  ▆▆▆▆▆▆▆▆▆▆··········██▆▆▆▆▆▆▆▆▆▆
//!                       0 s       2 s       4 s       6 s
//!                       1         2         34
//!  1   0.02 s  protected  both hosts have a context
//!  2   2.00 s  cut        ISP 1 drops every packet and says nothing
//! ```

mod chart;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use chart::Chart;

use crate::named::named;

/// Receives the samples of a scenario. A method that an implementation leaves out shows nothing. Times are relative to
/// the start of the run.
pub trait View {
    /// A run starts.
    fn begin(&mut self, _title: &str, _lanes: &[Lane]) {}
    /// Bytes arrived on a lane (its index in `lanes`), evenly over `span`.
    fn bytes(&mut self, _lane: usize, _span: Span, _bytes: u64) {}
    /// An event occurred.
    fn mark(&mut self, _at: Duration, _kind: MarkKind, _text: &str) {}
    /// Time has advanced to `now`. Later calls report nothing older than [`LAG`] before `now`.
    fn advance(&mut self, _now: Duration) {}
    /// The run has ended.
    fn end(&mut self) {}
    /// A line between runs.
    fn say(&mut self, _line: &str) {}
}

/// One row of the chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Name, at most 8 characters to keep the rows aligned.
    pub name: String,
    /// Usual rate in octets a second. The chart shows this rate as a bar of three quarters.
    pub usual_rate: u64,
}

/// A span of time, possibly empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub from: Duration,
    /// End.
    pub to: Duration,
}

named! {
    /// Kind of an event.
    pub enum MarkKind {
        /// A context protects the traffic.
        Protected = "protected",
        /// The network was broken.
        Cut = "cut",
        /// A host detected that no packet comes back.
        Detected = "detected",
        /// Traffic uses another pair of locators.
        Moved = "moved",
        /// The application received its first byte after the cut.
        Recovered = "recovered",
        /// No byte arrives any more.
        Stalled = "stalled",
        /// Any other event.
        Note = "note",
    }
}

impl MarkKind {
    const fn colour(self) -> &'static str {
        match self {
            Self::Cut | Self::Stalled => "\x1b[31m",
            Self::Detected => "\x1b[33m",
            Self::Protected | Self::Moved | Self::Recovered => "\x1b[32m",
            Self::Note => "",
        }
    }
}

/// A view that shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl View for Silent {}

/// Settings of a [`Timeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Redraws in place instead of appending lines.
    pub live: bool,
    /// Uses colours.
    pub colour: bool,
    /// Width in columns.
    pub width: usize,
}

impl Style {
    /// Style of output other than a terminal.
    pub const PLAIN: Self = Self { live: false, colour: false, width: 80 };

    /// The style for standard output: width of the terminal, and colours unless `NO_COLOR` is set.
    #[must_use]
    pub fn of_stdout() -> Self {
        let stdout = io::stdout();
        if !stdout.is_terminal() || std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Self::PLAIN;
        }
        let width = rustix::termios::tcgetwinsize(&stdout)
            .map_or(Self::PLAIN.width, |size| usize::from(size.ws_col))
            .clamp(MIN_WIDTH, MAX_WIDTH);
        Self { live: true, colour: std::env::var_os("NO_COLOR").is_none(), width }
    }
}

/// Draws on a terminal or in a file. Write errors are ignored, so that the scenario goes on.
#[derive(Debug)]
pub struct Timeline<W: Write> {
    out: W,
    style: Style,
    chart: Chart,
    progress: Progress,
}

/// Progress of the drawing.
#[derive(Debug, Default)]
struct Progress {
    /// Latest time passed to [`View::advance`].
    told: Duration,
    /// Time of the last drawing.
    redrawn: Duration,
    /// Lines of the chart on the screen. The next drawing overwrites these lines.
    drawn: usize,
    /// Time up to which plain lines are printed.
    printed: Duration,
    printed_marks: usize,
}

impl<W: Write> Timeline<W> {
    /// A view that writes to `out`.
    #[must_use]
    pub fn new(out: W, style: Style) -> Self {
        Self { out, style, chart: Chart::default(), progress: Progress::default() }
    }

    fn redraw(&mut self) {
        let rows = self.chart.rows(self.style);
        if self.progress.drawn > 0 {
            let _ = write!(self.out, "\x1b[{}A\x1b[J", self.progress.drawn);
        }
        for row in &rows {
            let _ = writeln!(self.out, "{row}");
        }
        self.progress.drawn = rows.len();
        let _ = self.out.flush();
    }

    /// Prints plain lines for all events and bytes before `horizon`, in order of time.
    fn print_until(&mut self, horizon: Duration) {
        let marks = self.chart.marks_between(self.progress.printed_marks, horizon);
        self.progress.printed_marks += marks.len();
        let mut marks = marks.into_iter().peekable();
        loop {
            let next = self.progress.printed + PLAIN_STEP;
            while let Some((_, line)) = marks.next_if(|(at, _)| *at < next) {
                let _ = writeln!(self.out, "{line}");
            }
            if next > horizon {
                break;
            }
            let line = self.chart.rates(self.progress.printed, next);
            let _ = writeln!(self.out, "{line}");
            self.progress.printed = next;
        }
        let _ = self.out.flush();
    }
}

impl<W: Write> View for Timeline<W> {
    fn begin(&mut self, title: &str, lanes: &[Lane]) {
        self.say("");
        self.say(title);
        self.say("");
        self.chart = Chart::new(lanes);
        self.progress = Progress::default();
    }

    fn bytes(&mut self, lane: usize, span: Span, bytes: u64) {
        self.chart.add(lane, span, bytes);
    }

    fn mark(&mut self, at: Duration, kind: MarkKind, text: &str) {
        self.chart.mark(at, kind, text);
    }

    fn advance(&mut self, now: Duration) {
        let settled = now.saturating_sub(LAG);
        self.chart.settled = settled;
        self.progress.told = now;
        if !self.style.live {
            self.print_until(settled);
        } else if now.saturating_sub(self.progress.redrawn) >= LIVE_STEP {
            self.progress.redrawn = now;
            self.redraw();
        }
    }

    fn end(&mut self) {
        (self.chart.settled, self.chart.is_over) = (self.progress.told, true);
        if self.style.live {
            self.redraw();
            self.progress.drawn = 0;
        } else {
            self.print_until(self.progress.told);
            self.say("");
            for row in self.chart.rows(self.style) {
                self.say(&row);
            }
        }
        self.say("");
    }

    fn say(&mut self, line: &str) {
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
    }
}

/// Greatest delay of a report: an event may be reported this long after it occurred.
pub const LAG: Duration = Duration::from_millis(300);
/// Interval of plain lines.
const PLAIN_STEP: Duration = Duration::from_millis(500);
/// Interval of drawings on a terminal.
const LIVE_STEP: Duration = Duration::from_millis(100);
const MIN_WIDTH: usize = 60;
const MAX_WIDTH: usize = 140;

#[cfg(test)]
mod tests;
