//! Findings about failover, from the readiness that the daemon reports for each context.

use std::collections::{BTreeMap, BTreeSet};

use moorline_api::{
    Context, ContextState, Pair, Proof, Readiness, ReadinessState, SAME_UPLINK, UPLINK_FAILS,
};

use crate::facts::Facts;
use crate::finding::{Finding, Severity};

/// Returns a finding for each reason why contexts are not protected. Other findings cover peers without a context.
pub(super) fn contexts(facts: &Facts) -> Vec<Finding> {
    let Some(answers) = facts.answers() else { return Vec::new() };
    let has_context = |context: &&Context| {
        !matches!(context.state, ContextState::EFailed | ContextState::NoSupport)
    };
    let of_contexts = answers.contexts.iter().filter(has_context);
    let of_contexts =
        of_contexts.filter_map(|context| Some((context.readiness.as_ref()?, context.ulids())));
    let of_sessions = answers.ilcc.correspondents.iter();
    let of_sessions =
        of_sessions.filter_map(|session| Some((session.readiness.as_ref()?, session.addresses)));
    // A moved context has lost its first pair, so it may have no other pair.
    let moved = answers.contexts.iter().filter(|context| context.moved);
    let moved: BTreeSet<_> = moved.map(Context::ulids).collect();
    let mut locators = answers.status.uplinks.iter().flat_map(|uplink| &uplink.locators);
    let has_proof = locators.any(|own| own.proof != Proof::None);
    let mut by_reason: BTreeMap<&str, (&Readiness, Vec<Pair>)> = BTreeMap::new();
    for (readiness, pair) in of_contexts.chain(of_sessions) {
        if let Some(reason) = &readiness.reason
            && readiness.state != ReadinessState::Protected
        {
            by_reason.entry(reason).or_insert((readiness, Vec::new())).1.push(pair);
        }
    }
    by_reason
        .into_iter()
        .map(|(reason, (readiness, pairs))| {
            let is_older = facts.is_just_opened && FIREWALL_REASONS.contains(&reason);
            let has_moved = pairs.iter().any(|pair| moved.contains(pair));
            finding(reason, readiness, &pairs, (is_older, has_moved, has_proof))
        })
        .collect()
}

/// Makes the finding of a reason. `is_older`: the firewall of this host was closed when the daemon found the reason.
/// `has_moved`: one of the pairs has moved. `has_proof`: the host has addresses that prove themselves, which new connections
/// use.
fn finding(
    reason: &str,
    readiness: &Readiness,
    pairs: &[Pair],
    (is_older, has_moved, has_proof): (bool, bool, bool),
) -> Finding {
    let cannot = readiness.state == ReadinessState::Cannot;
    let severity = match reason {
        _ if is_older => Severity::Note,
        "own-unproven" if has_proof => Severity::Warning,
        _ if cannot => Severity::StopsProtection,
        SAME_UPLINK | UPLINK_FAILS | "half-open" | "unverified" | "unrenewed" | "unreachable" => {
            Severity::StopsProtection
        }
        "peer-mute" if has_moved => Severity::StopsProtection,
        "peer-mute" | "unconfirmed" | "no-answer" => Severity::Warning,
        _ => Severity::Note,
    };
    let (count, noun) = match pairs.len() {
        1 => (1, "connection"),
        count => (count, "connections"),
    };
    let (what, remedy) = if is_older {
        let what = format!("{count} {noun} not tried again yet, since the firewall was opened");
        (what, TRIED_LATER.to_owned())
    } else {
        let verdict = if cannot { "cannot move" } else { "not protected yet" };
        (format!("{count} {noun} {verdict}: {}", readiness.why), readiness.remedy.clone())
    };
    Finding::new(&format!("failover-{reason}"), severity, what)
        .remedy(remedy)
        .shown_by_some(pairs.iter())
}

/// Reasons that a closed firewall of this host can cause, because no answer arrives.
const FIREWALL_REASONS: [&str; 7] =
    ["half-open", "unrenewed", "no-answer", "peer-mute", "trying", "unanswered", "unacknowledged"];
const TRIED_LATER: &str = "The daemon tries again what was not answered, ever more rarely. `moorline doctor PEER` as root tries each \
                           pair now; `moorline doctor` again tells what the daemon has found since.";
