use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::{Control, address};
use crate::args::PingArgs;
use crate::commands::block_on;
use crate::commands::stack::protocol::{Echo, EchoOutcome, Request, read_line, write_line};

/// Sends Echo Requests. Ends with 1 if nobody answers.
pub(in super::super) fn ping(args: &PingArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let answered = block_on(run(args, out))?;
    if !args.show.json {
        let lost = 100 - 100 * answered / usize::from(args.count);
        writeln!(out, "{} sent, {answered} answered, {lost} % lost", args.count)?;
    }
    Ok(if answered > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the number of requests with an answer.
async fn run(args: &PingArgs, out: &mut dyn Write) -> anyhow::Result<usize> {
    let path = &args.show.control.control;
    let to = address(path, &args.to).await?;
    let (control, _) = Control::request(path, &Request::Ping).await?;
    let Control { mut reader, mut writer } = control;
    let send = async {
        for seq in 1..=args.count {
            write_line(&mut writer, &Echo { to, seq, size: args.size }).await?;
            let last = seq == args.count;
            tokio::time::sleep(if last { args.wait } else { args.interval }).await;
        }
        anyhow::Ok(())
    };
    let mut answered = BTreeSet::new();
    let receive = async {
        let mut left = usize::from(args.count);
        while left > 0 {
            let outcome: EchoOutcome =
                read_line(&mut reader).await?.context("the host has ended")?;
            let is_new = note(&mut answered, &outcome);
            left -= usize::from(is_new && !to.is_multicast());
            tell(args, &outcome, out)?;
        }
        anyhow::Ok(())
    };
    // All outcomes are there, or the time is over.
    tokio::select! {
        result = send => result?,
        result = receive => result?,
    }
    Ok(answered.len())
}

/// Notes the outcome. Returns whether the request has none before.
fn note(answered: &mut BTreeSet<u16>, outcome: &EchoOutcome) -> bool {
    match outcome {
        EchoOutcome::Reply { seq, .. } => answered.insert(*seq),
        EchoOutcome::Error { .. } | EchoOutcome::Unsent { .. } => true,
    }
}

fn tell(args: &PingArgs, outcome: &EchoOutcome, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.show.json {
        writeln!(out, "{}", json!(outcome))?;
    } else {
        writeln!(out, "{}", text(outcome))?;
    }
    Ok(out.flush()?)
}

fn text(outcome: &EchoOutcome) -> String {
    match outcome {
        EchoOutcome::Reply { from, seq, size, hop_limit, rtt_us } => {
            let (ms, us) = (rtt_us / 1000, rtt_us % 1000);
            format!("{size} octets from {from}: seq {seq}, hop limit {hop_limit}, {ms}.{us:03} ms")
        }
        EchoOutcome::Error { from, seq, error } => format!("error from {from}: seq {seq}, {error}"),
        EchoOutcome::Unsent { seq, error } => format!("not sent: seq {seq}, {error}"),
    }
}
