use super::args::DemoArgs;
use super::simulated;
use crate::demo::{self, Protocol, Report};
use crate::timeline::{Silent, Style, Timeline, View};
use anyhow::ensure;
use std::io::Write;
use std::time::Duration;

/// Runs the demo in namespaces if the machine allows it, else in the simulator.
pub(super) fn demo(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let report = if args.json {
        play(args, &mut Silent)?
    } else {
        play(args, &mut Timeline::new(&mut *out, Style::of_stdout()))?
    };
    super::show(out, args.json, &report, Report::to_string)?;
    Ok(report.is_success())
}

fn play(args: &DemoArgs, view: &mut dyn View) -> anyhow::Result<Report> {
    let is_shim6 = args.options.protocol == Protocol::Shim6;
    ensure!(is_shim6 || !args.simulated, "the simulator plays the demo with shim6 only");
    if args.simulated {
        return simulated(args, view);
    }
    let obstacles = demo::obstacles();
    if !obstacles.is_empty() {
        // Written to standard error and not to the view, so that a person sees it with --json, too.
        eprintln!("The demo cannot run for real here: {}.", obstacles.join("; "));
        ensure!(is_shim6, "and the simulator plays it with shim6 only");
        eprintln!("The same scenario in the simulator instead, in virtual time:");
        return simulated(args, view);
    }
    demo::run(&args.options, view)
}

fn simulated(args: &DemoArgs, view: &mut dyn View) -> anyhow::Result<Report> {
    // At a terminal, show the run at four times its speed.
    let is_watched = !args.json && Style::of_stdout().live;
    let step = if is_watched { Duration::from_millis(25) } else { Duration::ZERO };
    simulated::demo(args.options.send_timeout, step, view)
}
