//! The chart: bars in columns of equal time, marks by number below them.

use std::time::Duration;

use super::{Lane, MarkKind, Span, Style};

/// Data of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Chart {
    lanes: Vec<Row>,
    marks: Vec<Mark>,
    /// Time before which the columns are complete.
    pub(super) settled: Duration,
    /// Whether the run has ended, so that all columns are complete.
    pub(super) is_over: bool,
}

#[derive(Clone, Debug)]
struct Row {
    lane: Lane,
    /// Octets in each [`CELL`] of time.
    cells: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Mark {
    at: Duration,
    kind: MarkKind,
    text: String,
}

impl Chart {
    pub(super) fn new(lanes: &[Lane]) -> Self {
        let row = |lane: &Lane| Row { lane: lane.clone(), cells: Vec::new() };
        Self { lanes: lanes.iter().map(row).collect(), ..Self::default() }
    }

    /// Spreads bytes over the cells that `span` touches, by overlap.
    pub(super) fn add(&mut self, lane: usize, span: Span, bytes: u64) {
        let Some(row) = self.lanes.get_mut(lane) else { return };
        let (first, last) = (cell_of(span.from), cell_of(span.to));
        if first >= last {
            row.add(last, bytes as f64);
            return;
        }
        let length = (span.to - span.from).as_secs_f64();
        for cell in first..=last {
            let from = span.from.max(start_of(cell));
            let to = span.to.min(start_of(cell + 1));
            let share = to.saturating_sub(from).as_secs_f64() / length;
            row.add(cell, bytes as f64 * share);
        }
    }

    /// Adds a mark. Keeps marks in order of time, whatever their order of arrival.
    pub(super) fn mark(&mut self, at: Duration, kind: MarkKind, text: &str) {
        let place = self.marks.partition_point(|mark| mark.at <= at);
        self.marks.insert(place, Mark { at, kind, text: text.to_owned() });
    }

    /// Marks from index `first` on that are older than `horizon`, as plain lines.
    pub(super) fn marks_between(&self, first: usize, horizon: Duration) -> Vec<(Duration, String)> {
        let settled = self.marks.iter().skip(first).take_while(|mark| mark.at < horizon);
        settled.map(|mark| (mark.at, mark.line("--"))).collect()
    }

    /// A plain line with the rates of all lanes between two times.
    pub(super) fn rates(&self, from: Duration, to: Duration) -> String {
        let mut line = format!("    {:>6.2} s ", to.as_secs_f64());
        for row in &self.lanes {
            let rate = row.rate(cell_of(from), cell_of(to));
            let bar = "#".repeat(steps(rate, row.lane.usual_rate, PLAIN_BAR));
            line.push_str(&format!(
                " {:<7}{:>11}  {bar:<PLAIN_BAR$}",
                row.lane.name,
                human(rate, "/s")
            ));
        }
        line.trim_end().to_owned()
    }

    /// The whole chart, each row at most `style.width` columns wide.
    pub(super) fn rows(&self, style: Style) -> Vec<String> {
        let columns = style.width.saturating_sub(LABEL + 1).max(1);
        let cells = cell_of(self.settled);
        let mut per_column = FINEST;
        while cells.div_ceil(per_column) > columns {
            per_column += 1;
        }
        let mut rows: Vec<_> = self.lanes.iter().map(|row| self.bar(row, per_column)).collect();
        rows.push(self.axis(per_column));
        rows.push(self.numbers(per_column, columns));
        rows.push(String::new());
        for (index, mark) in self.marks.iter().enumerate() {
            let line: String = mark.line(&label(index)).chars().take(style.width).collect();
            let colour = if style.colour { mark.kind.colour() } else { "" };
            let end = if colour.is_empty() { "" } else { "\x1b[0m" };
            rows.push(format!("{colour}{line}{end}"));
        }
        rows
    }

    fn bar(&self, row: &Row, per_column: usize) -> String {
        let settled = cell_of(self.settled);
        let whole = settled / per_column;
        let number = if self.is_over {
            human(row.cells.iter().sum::<f64>(), "")
        } else {
            human(row.rate(settled.saturating_sub(FINEST), settled), "/s")
        };
        let mut line = format!(" {:<7}{number:>11}  ", row.lane.name);
        for column in 0..whole {
            let rate = row.rate(column * per_column, (column + 1) * per_column);
            line.push(LEVELS[steps(rate, row.lane.usual_rate, LEVELS.len() - 1)]);
        }
        line
    }

    /// The axis: seconds at readable distances.
    fn axis(&self, per_column: usize) -> String {
        let per_second = CELLS_PER_SECOND as f64 / per_column as f64;
        let step = [1_u16, 2, 5, 10, 20, 50, 100]
            .into_iter()
            .find(|&step| per_second * f64::from(step) >= AXIS_GAP)
            .unwrap_or(200);
        let mut line = " ".repeat(LABEL);
        let columns = cell_of(self.settled) / per_column;
        for second in (0..).step_by(usize::from(step)) {
            let column = second * CELLS_PER_SECOND / per_column;
            if column + AXIS_LABEL > columns {
                break;
            }
            let gap = (LABEL + column).saturating_sub(line.chars().count());
            line.push_str(&" ".repeat(gap));
            line.push_str(&format!("{second} s"));
        }
        line
    }

    fn numbers(&self, per_column: usize, columns: usize) -> String {
        let mut line = " ".repeat(LABEL).chars().collect::<Vec<_>>();
        for (index, mark) in self.marks.iter().enumerate() {
            let label = label(index);
            let column = cell_of(mark.at) / per_column;
            // A mark too close to the one before moves to the right. The list below has the exact times.
            let place = (LABEL + column).max(line.len());
            if place + label.len() > LABEL + columns {
                break;
            }
            line.resize(place, ' ');
            line.extend(label.chars());
        }
        line.into_iter().collect::<String>().trim_end().to_owned()
    }
}

impl Row {
    fn add(&mut self, cell: usize, bytes: f64) {
        if cell >= self.cells.len() {
            self.cells.resize(cell + 1, 0.0);
        }
        self.cells[cell] += bytes;
    }

    /// Octets a second over these cells.
    fn rate(&self, from: usize, to: usize) -> f64 {
        let cells = self.cells.iter().skip(from).take(to.saturating_sub(from));
        let seconds = CELL.as_secs_f64() * to.saturating_sub(from).max(1) as f64;
        cells.fold(0.0, |sum, cell| sum + cell) / seconds
    }
}

impl Mark {
    fn line(&self, number: &str) -> String {
        format!(" {number:>2} {:>6.2} s  {:<9}  {}", self.at.as_secs_f64(), self.kind, self.text)
    }
}

/// Scales a rate to steps from 0 to `most`. The usual rate has three quarters of them, and a rate above zero at least
/// one.
fn steps(rate: f64, usual: u64, most: usize) -> usize {
    if rate <= 0.0 {
        return 0;
    }
    let full = usual.max(1) as f64 / 0.75;
    (1..most).take_while(|&step| rate > full * step as f64 / most as f64).count() + 1
}

/// Label of a mark: one character as long as the characters last, because labels may stand side by side.
fn label(index: usize) -> String {
    let digits = "123456789abcdefghijklmnopqrstuvwxyz";
    digits.get(index..=index).map_or_else(|| (index + 1).to_string(), str::to_owned)
}

fn human(octets: f64, per: &str) -> String {
    if octets >= 999_500.0 {
        format!("{:.1} MB{per}", octets / 1e6)
    } else {
        format!("{:.0} kB{per}", octets / 1e3)
    }
}

fn cell_of(at: Duration) -> usize {
    usize::try_from(at.as_micros() / CELL.as_micros()).unwrap_or(usize::MAX)
}

fn start_of(cell: usize) -> Duration {
    CELL * u32::try_from(cell).unwrap_or(u32::MAX)
}

/// Columns of a label of the axis.
const AXIS_LABEL: usize = 5;
const CELLS_PER_SECOND: usize = 20;
/// Least distance between labels of the axis, in columns.
const AXIS_GAP: f64 = 8.0;
/// Resolution of the chart in time.
const CELL: Duration = Duration::from_millis(50);
/// Least number of cells in a column: 200 ms.
const FINEST: usize = 4;
/// Columns in front of the bars.
const LABEL: usize = 21;
/// Longest bar in a plain line.
const PLAIN_BAR: usize = 16;
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
