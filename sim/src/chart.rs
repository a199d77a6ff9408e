use std::fmt;
use std::time::Duration;

use crate::outcome::Violation;
use crate::plan::{Port, host_name};

/// The events of a run in order. [`Display`](std::fmt::Display) draws them as a message sequence chart.
///
/// The chart has a column for each host, and the numbers of the uplinks at both ends of an arrow. The text of the
/// event is on the right:
///
/// ```text
///                A           B
///      0.000000  |1-------1->|  I1
///      8.125000  |==========>|  ==== cut A1 both ways
///      9.500000  |1----x     |  Probe Exploring sent 77aa0be5  CUT OFF
///      9.998000  *           |  A: StateChanged { .. }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    hosts: usize,
    moments: Vec<Moment>,
    violations: Vec<Violation>,
}

/// An event in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at: Duration,
    pub(crate) kind: MomentKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MomentKind {
    /// A packet left.
    Message(Way),
    /// A host did or saw something.
    Note { host: usize },
    /// The network changed.
    Change,
}

/// The path of a packet, and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) from: Port,
    pub(crate) to: Port,
    pub(crate) fate: Fate,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The packet arrives, once or more often.
    Arrives,
    /// The packet is lost at random.
    Lost,
    /// No path carries the packet.
    CutOff,
}

impl Trace {
    pub(crate) fn new(hosts: usize, moments: Vec<Moment>, violations: Vec<Violation>) -> Self {
        Self { hosts, moments, violations }
    }

    /// The chart for renderers of Mermaid, as in Markdown viewers.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut chart = String::from("sequenceDiagram\n");
        for host in 0..self.hosts {
            chart.push_str(&format!("    participant {}\n", host_name(host)));
        }
        let first = host_name(0);
        let last = host_name(self.hosts.saturating_sub(1));
        for Moment { at, kind, text } in &self.moments {
            let at = format!("{:.6} s", at.as_secs_f64());
            let text = plain(text);
            chart.push_str(&match kind {
                MomentKind::Message(Way { from, to, fate }) => {
                    let arrow = if *fate == Fate::Arrives { "->>" } else { "-x" };
                    let [a, b] = [from, to].map(|port| host_name(port.host));
                    format!("    {a}{arrow}{b}: {at} {from} to {to} {text}\n")
                }
                MomentKind::Note { host } => {
                    format!("    Note over {}: {at} {text}\n", host_name(*host))
                }
                MomentKind::Change => format!("    Note over {first},{last}: {at} {text}\n"),
            });
        }
        for violation in &self.violations {
            let text = plain(&violation.to_string());
            chart.push_str(&format!("    Note over {first},{last}: VIOLATION {text}\n"));
        }
        chart
    }

    fn row(&self, kind: MomentKind) -> String {
        let width = self.hosts.saturating_sub(1) * COLUMN + 1;
        let fill = if kind == MomentKind::Change { '=' } else { ' ' };
        let mut row: Vec<char> =
            (0..width).map(|x| if x % COLUMN == 0 { '|' } else { fill }).collect();
        match kind {
            MomentKind::Message(way) => draw_arrow(&mut row, way),
            MomentKind::Note { host } => put(&mut row, host * COLUMN, '*'),
            MomentKind::Change => {}
        }
        row.into_iter().collect()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = (0..self.hosts).map(|host| host_name(host).to_string()).collect();
        writeln!(f, "{:INDENT$}{}", "", names.join(&" ".repeat(COLUMN - 1)))?;
        for Moment { at, kind, text } in &self.moments {
            let row = self.row(*kind);
            writeln!(f, "{:>6}.{:06}  {row}  {text}", at.as_secs(), at.subsec_micros())?;
        }
        self.violations.iter().try_for_each(|violation| writeln!(f, "VIOLATION {violation}"))
    }
}

/// Draws `|1-------1->|`, or half of it if the packet is lost.
fn draw_arrow(row: &mut [char], Way { from, to, fate }: Way) {
    let [start, end] = [from, to].map(|port| port.host * COLUMN);
    let (left, right) = (start.min(end), start.max(end));
    let is_rightward = start < end;
    let half = left.midpoint(right);
    let drawn = match (fate, is_rightward) {
        (Fate::Arrives, _) => left + 1..right,
        (_, true) => left + 1..half,
        (_, false) => half + 1..right,
    };
    for x in drawn.filter(|x| x % COLUMN != 0) {
        put(row, x, '-');
    }
    let [leaves, arrives] = [from, to].map(|port| digit(port.uplink));
    put(row, if is_rightward { start + 1 } else { start.saturating_sub(1) }, leaves);
    match (fate, is_rightward) {
        (Fate::Arrives, true) => {
            put(row, end.saturating_sub(1), '>');
            put(row, end.saturating_sub(3), arrives);
        }
        (Fate::Arrives, false) => {
            put(row, end + 1, '<');
            put(row, end + 3, arrives);
        }
        (Fate::Lost | Fate::CutOff, _) => put(row, half, 'x'),
    }
}

fn put(row: &mut [char], at: usize, what: char) {
    if let Some(place) = row.get_mut(at) {
        *place = what;
    }
}

fn digit(uplink: usize) -> char {
    u32::try_from(uplink + 1).ok().and_then(|n| char::from_digit(n, 36)).unwrap_or('+')
}

/// The text without the characters of Mermaid's syntax.
fn plain(text: &str) -> String {
    text.replace(['#', ';', '{', '}', '<', '>', '\n'], " ")
}

/// Characters from one lifeline to the next.
const COLUMN: usize = 12;
/// Characters for the time.
const INDENT: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Rule;

    const fn port(host: usize, uplink: usize) -> Port {
        Port { host, uplink }
    }

    fn trace() -> Trace {
        let moment = |millis, kind, text: &str| Moment {
            at: Duration::from_millis(millis),
            kind,
            text: text.into(),
        };
        let message = |from, to, fate| MomentKind::Message(Way { from, to, fate });
        let moments = vec![
            moment(0, message(port(0, 0), port(1, 1), Fate::Arrives), "I1"),
            moment(1, message(port(2, 0), port(0, 1), Fate::Arrives), "R1"),
            moment(8000, MomentKind::Change, "==== cut A1 both ways"),
            moment(8500, message(port(0, 0), port(1, 0), Fate::CutOff), "Probe  CUT OFF"),
            moment(8501, message(port(1, 0), port(0, 0), Fate::Lost), "Probe  LOST"),
            moment(12_345_678, MomentKind::Note { host: 1 }, "B: Moved { .. }"),
        ];
        let violation =
            Violation { at: Duration::from_secs(9), rule: Rule::Recovery, detail: "late".into() };
        Trace::new(3, moments, vec![violation])
    }

    #[test]
    fn a_chart_has_a_column_for_each_host() {
        let expected = "               A           B           C\n     \
             0.000000  |1-------2->|           |  I1\n     \
             0.001000  |<-2--------|----------1|  R1\n     \
             8.000000  |===========|===========|  ==== cut A1 both ways\n     \
             8.500000  |1----x     |           |  Probe  CUT OFF\n     \
             8.501000  |     x----1|           |  Probe  LOST\n \
             12345.678000  |           *           |  B: Moved { .. }\n\
             VIOLATION (2) Recovery at 9.000000 s: late\n";
        assert_eq!(trace().to_string(), expected);
    }

    #[test]
    fn mermaid_has_the_same_moments_and_none_of_its_own_signs() {
        let chart = trace().mermaid();
        assert_eq!(chart.lines().count(), 1 + 3 + 6 + 1, "{chart}");
        for line in [
            "    A->>B: 0.000000 s A1 to B2 I1",
            "    A-xB: 8.500000 s A1 to B1 Probe  CUT OFF",
            "    Note over A,C: 8.000000 s ==== cut A1 both ways",
            "    Note over B: 12345.678000 s B: Moved   ..  ",
        ] {
            assert!(chart.lines().any(|of_chart| of_chart == line), "{line}\n{chart}");
        }
    }
}
