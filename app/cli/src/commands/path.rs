use std::io::Write;
use std::process::ExitCode;

use moorline_api::{
    BlockingClient, Pair, PathAnswer, PathResult, PathRule, Preference, SpreadRequest,
    SwitchRequest, UnpinRequest,
};

use super::{client, show};
use crate::args::{Args, PathCommand, RuleArgs};
use crate::render;

pub(crate) fn path(
    args: &Args,
    command: &PathCommand,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let client = client(args)?;
    let (answer, json) = match command {
        PathCommand::List(format) => {
            return show(out, format.json, &client.paths()?, render::paths);
        }
        PathCommand::Switch(switch) => {
            let pair = Some(Pair::new(switch.local, switch.peer));
            (client.switch(&SwitchRequest { scope: switch.scope.scope, pair })?, switch.scope.json)
        }
        PathCommand::Pin(pin) => {
            let pair = pin.local.zip(pin.peer).map(|(local, peer)| Pair::new(local, peer));
            (client.pin(&SwitchRequest { scope: pin.scope.scope, pair })?, pin.scope.json)
        }
        PathCommand::Unpin(scope) => {
            (client.unpin(&UnpinRequest { scope: scope.scope })?, scope.json)
        }
        PathCommand::Spread(args) => {
            let request = SpreadRequest { scope: args.scope.scope, on: args.on };
            (client.spread(&request)?, args.scope.json)
        }
        PathCommand::Prefer(args) => (rule(&client, args, Preference::Prefer)?, args.scope.json),
        PathCommand::Avoid(args) => (rule(&client, args, Preference::Avoid)?, args.scope.json),
        PathCommand::Neutral(args) => (rule(&client, args, Preference::Neutral)?, args.scope.json),
    };
    show(out, json, &answer, render::path_answer)?;
    Ok(if is_done(&answer) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn rule(
    client: &BlockingClient,
    args: &RuleArgs,
    preference: Preference,
) -> anyhow::Result<PathAnswer> {
    Ok(client.rule(&PathRule {
        scope: args.scope.scope,
        local: Some(args.local.clone()).filter(|local| local != "any"),
        peer: args.peer,
        preference,
        tell_peer: args.tell_peer,
        origin: String::new(),
    })?)
}

/// Whether every context uses the requested pair, or waits for its answer.
fn is_done(answer: &PathAnswer) -> bool {
    let failed = [PathResult::Refused, PathResult::Unanswered];
    answer.outcomes.iter().all(|outcome| !failed.contains(&outcome.result))
}
