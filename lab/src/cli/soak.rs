//! `moorline-lab soak`: figures once a minute, and a report at the end.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;

use super::args::SoakArgs;
use super::show;
use crate::interrupt;
use crate::soak::{Report, Soak};

/// Runs a soak. False if a promise was broken, or something took too long.
pub(super) fn soak(args: &SoakArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    interrupt::install()?;
    let obstacles = Soak::obstacles();
    if !obstacles.is_empty() {
        bail!("no soak can run here: {}", obstacles.join("; "));
    }
    let report = args.soak.run(&mut |report| eprintln!("{}", line(report, args.soak.seconds)))?;
    show(out, args.json, &report, text)?;
    Ok(report.broken.is_empty() && report.slow.is_empty())
}

/// One line of progress.
fn line(report: &Report, seconds: u64) -> String {
    let left = Duration::from_secs(seconds.saturating_sub(report.seconds));
    format!(
        "seed {}: {} left; {} packets, {} answers, {} contexts at most, {:.1} MiB, longest turn {:.1} ms, {} cuts survived, \
         broken: {:?}",
        report.seed,
        humantime::format_duration(left),
        report.packets,
        report.heard.values().sum::<u64>(),
        report.most_contexts,
        mib(report.memory_most_octets),
        report.longest_turn_ms,
        report.cuts,
        report.broken
    )
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "seed {}, {} s\n  {} packets to the host\n",
        report.seed, report.seconds, report.packets
    );
    for (kind, count) in &report.heard {
        text += &format!("  {count} times {kind} of the daemon\n");
    }
    text += &format!("  {} of them to who had proved nothing\n", report.unproved);
    text += &format!("  {} packets to locators of third parties\n", report.elsewhere);
    text += &format!(
        "  {} contexts and {} ILNP correspondents at most\n",
        report.most_contexts, report.most_sessions
    );
    text += &format!(
        "  {:.1} MiB of memory before, {:.1} at most\n",
        mib(report.memory_before_octets),
        mib(report.memory_most_octets)
    );
    text += &format!(
        "  {:.1} ms for the longest turn of the event loop, {:.1} ms for the latest status\n",
        report.longest_turn_ms, report.longest_status_ms
    );
    text += &format!(
        "  {} cuts survived, {:.2} s the longest gap of the honest connection\n",
        report.cuts, report.longest_gap_s
    );
    if report.is_debug_build {
        text += "  debug build: no limit for these times\n";
    }
    for broken in &report.broken {
        text += &format!("broken: {broken}\n");
    }
    for slow in &report.slow {
        text += &format!("slow: {slow}\n");
    }
    text
}

fn mib(octets: u64) -> f64 {
    octets as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_left_and_a_text_has_the_seed_and_what_is_broken() {
        let broken = vec!["memory above 40 MiB".to_owned()];
        let report = Report { seed: 7, seconds: 60, packets: 5, broken, ..Report::default() };
        assert!(line(&report, 3660).starts_with("seed 7: 1h left; 5 packets"));
        let text = text(&report);
        assert!(text.starts_with("seed 7, 60 s\n"), "{text}");
        assert!(text.ends_with("broken: memory above 40 MiB\n"), "{text}");
        assert!(!text.contains("debug build"), "{text}");
    }
}
