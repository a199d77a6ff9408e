//! The demo in the simulator. The run is over before the view shows it, so the speed of the view is free.

use crate::demo::{Mode, Outcome, Protocol, Report};
use crate::interrupt;
use crate::timeline::{LAG, Lane, MarkKind, Span, View};
use crate::topology::prefix_of;
use moorline_api::Pair;
use moorline_contexts::{EventKind, ReapState};
use moorline_sim::{DemoRun, HostEvent, SAMPLE, demo_scenario};
use std::thread;
use std::time::Duration;

/// Plays the scenario with and without Moorline. The view shows each sample of virtual time for `step` of real time.
pub(crate) fn demo(
    send_timeout: Duration,
    step: Duration,
    view: &mut dyn View,
) -> anyhow::Result<Report> {
    interrupt::install()?;
    let runs = demo_scenario(send_timeout, RATE);
    view.say(
        "Hosts A and B, each with an uplink to ISP 1 and one to ISP 2. B sends a stream to A.",
    );
    view.say("Then ISP 1 dies: it drops every packet and says nothing.");
    let titles = ["With Moorline on both hosts", "The same without Moorline"];
    for (title, run) in titles.into_iter().zip(&runs) {
        view.begin(title, &[Lane { name: "stream".into(), usual_rate: RATE }]);
        replay(run, step, view)?;
        view.end();
    }
    let [with, without] = runs.each_ref().map(outcome);
    Ok(Report::of(&with, &without, Mode::Simulator, Protocol::Shim6, send_timeout))
}

fn replay(run: &DemoRun, step: Duration, view: &mut dyn View) -> anyhow::Result<()> {
    let marks = marks(run);
    let mut marks = marks.iter().peekable();
    let mut end = Duration::ZERO;
    for &octets in &run.samples {
        interrupt::check()?;
        let from = end;
        end += SAMPLE;
        while let Some((at, kind, text)) = marks.next_if(|mark| mark.0 < end) {
            view.mark(*at, *kind, text);
        }
        view.bytes(0, Span { from, to: end }, octets);
        view.advance(end);
        thread::sleep(step);
    }
    for (at, kind, text) in marks {
        view.mark(*at, *kind, text);
    }
    view.advance(end + LAG);
    Ok(())
}

/// The marks for a person, in order: events of the hosts, the cut, and the outcome.
fn marks(run: &DemoRun) -> Vec<(Duration, MarkKind, String)> {
    let mut marks: Vec<_> = run.marks.iter().filter_map(of_host).collect();
    // Each host reports its context. The connection can move once both hosts have one.
    let is_context = |mark: &(Duration, MarkKind, String)| mark.1 == MarkKind::Protected;
    if let Some(last) = marks.iter().rposition(is_context) {
        let at = marks[last].0;
        marks.retain(|mark| !is_context(mark));
        let text = "A and B have a context: the connection can move";
        marks.push((at, MarkKind::Protected, text.to_owned()));
    }
    let cut = "ISP 1 drops every packet and says nothing";
    marks.push((run.cut_at, MarkKind::Cut, cut.to_owned()));
    marks.push(match run.recovery {
        Some(late) => {
            let text = format!("the next byte, {:.3} s after the cut", late.as_secs_f64());
            (run.cut_at + late, MarkKind::Recovered, text)
        }
        None => {
            let waited = run.waited.as_secs_f64();
            let text = format!("not one byte in the {waited:.1} s since the cut; given up");
            (run.cut_at + run.waited, MarkKind::Stalled, text)
        }
    });
    marks.sort_by_key(|mark| mark.0);
    marks
}

fn of_host(mark: &HostEvent) -> Option<(Duration, MarkKind, String)> {
    let host = if mark.host == 0 { "A" } else { "B" };
    let (kind, text) = match mark.event.kind {
        EventKind::Established { .. } => (MarkKind::Protected, String::new()),
        EventKind::StateChanged { to: ReapState::Exploring, .. } => {
            (MarkKind::Detected, format!("{host} hears nothing and probes other address pairs"))
        }
        EventKind::Suspected { hint, .. } => {
            (MarkKind::Detected, format!("{host} suspects the path: {hint}"))
        }
        EventKind::Moved { to, .. } => {
            let [from, to] = [to.local.0, to.peer.0].map(prefix_of);
            (MarkKind::Moved, format!("{host} sends {from} -> {to}"))
        }
        EventKind::Failed { failure } => {
            (MarkKind::Note, format!("{host} has no context: {failure:?}"))
        }
        EventKind::Unreachable { probes } => {
            (MarkKind::Note, format!("{host} has sent {probes} probes in vain"))
        }
        EventKind::Initiated
        | EventKind::Renewed
        | EventKind::Unanswered { .. }
        | EventKind::Congested { .. }
        | EventKind::StateChanged { .. }
        | EventKind::Cleared { .. }
        | EventKind::Removed { .. } => return None,
    };
    Some((mark.at, kind, text))
}

fn outcome(run: &DemoRun) -> Outcome {
    let &DemoRun { survived, bytes_ok, moved, recovery, waited, .. } = run;
    let moved_to = run.moved_to.map(|pair| Pair::new(pair.local.0, pair.peer.0));
    Outcome { survived, bytes_ok, moved, moved_to, recovery, waited }
}

/// Rate limit of the transfer in octets a second.
const RATE: u64 = 2_000_000;

#[cfg(test)]
mod tests;
