use std::fmt::Write as _;
use std::time::Duration;

use moorline_api::{ContextPaths, PathAnswer, PathInfo, PathRule, PathState, Paths, Preference};
use moorline_term::units;
use moorline_term::{TitledRow, titled_table};

/// Formats the pairs of every context, and the rules.
#[must_use]
pub fn paths(paths: &Paths) -> String {
    let mut text = String::new();
    if paths.contexts.is_empty() {
        text.push_str("no established contexts\n");
    }
    for context in &paths.contexts {
        text.push_str(&of_context(context));
    }
    if !paths.rules.is_empty() {
        text.push_str("\nRULES\n");
        text.push_str(&titled_table(&[], paths.rules.iter().map(rule)));
    }
    text
}

/// Formats the result of a request, one line per context.
#[must_use]
pub fn path_answer(answer: &PathAnswer) -> String {
    let mut text = String::new();
    for outcome in &answer.outcomes {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "#{:<4} {}: {} ({})",
            outcome.context, outcome.ulids, outcome.text, outcome.result
        );
    }
    if answer.outcomes.is_empty() {
        text.push_str("in force until the daemon stops; `moorline path list` shows it\n");
    }
    text
}

fn of_context(context: &ContextPaths) -> String {
    let pinned = if context.pinned { ", pinned" } else { "" };
    let mut text = format!("#{} {}{pinned}\n", context.context, context.ulids);
    let rows = context.paths.iter().map(|one| path(one, context.heard_ms_ago));
    text.push_str(&titled_table(&[], rows));
    for (index, pair) in (1..).zip(&context.spread) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  mark {index}: {pair}");
    }
    if let Some(counters) = &context.counters {
        let _ = writeln!(
            text,
            "  {} CE in {} received, {} ECE, {} CWR, {} retransmissions in {} segments",
            counters.ce,
            units::count(counters.received),
            counters.ece,
            counters.cwr,
            counters.retransmissions,
            units::count(counters.segments)
        );
    }
    text
}

/// Makes the row of a pair. `heard_ms_ago`: when a packet of the context last came in since its last move. The peer
/// sends it by its own pair, which is the pair in use unless one direction has failed.
fn path(path: &PathInfo, heard_ms_ago: Option<u64>) -> TitledRow {
    let heard = heard_ms_ago.filter(|_| path.state == PathState::Current);
    let heard = [path.answered_ms_ago, heard].into_iter().flatten().min();
    let heard = heard.map(|ms| format!("{} ago", units::ago(0, ms)));
    let rtt = path.probe_rtt_us.map(|us| match Duration::from_micros(us) {
        short if us < 10_000 => format!("{:.1} ms", short.as_secs_f64() * 1000.0),
        long => units::span(long),
    });
    let preference = Some(&path.preference).filter(|one| **one != Preference::Neutral);
    vec![
        ("  OURS", format!("  {}", path.local)),
        ("THE PEER'S", path.peer.to_string()),
        ("BY", super::or_dash(path.uplink.as_ref())),
        ("STATE", path.state.to_string()),
        ("PREFERENCE", preference.map(ToString::to_string).unwrap_or_default()),
        ("HEARD", heard.unwrap_or_else(|| "never".to_owned())),
        ("RTT", rtt.unwrap_or_default()),
    ]
}

fn rule(rule: &PathRule) -> TitledRow {
    let any = || "any".to_owned();
    vec![
        ("FOR", rule.scope.to_string()),
        ("OURS", rule.local.clone().unwrap_or_else(any)),
        ("THE PEER'S", rule.peer.map_or_else(any, |peer| peer.to_string())),
        ("PREFERENCE", rule.preference.to_string()),
        ("PEERS TOLD", super::yes_or_no(rule.tell_peer)),
        ("FROM", rule.origin.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_api::{Pair, PathOutcome, PathResult, Scope};

    fn address(text: &str) -> std::net::Ipv6Addr {
        text.parse().expect("an address")
    }

    #[test]
    fn pairs_and_rules_stand_in_columns() {
        let info = |local, state, preference, answered_ms_ago| PathInfo {
            local: address(local),
            peer: address("2001:db8:a::9"),
            uplink: Some("eth0".into()),
            state,
            preference,
            answered_ms_ago,
            probe_rtt_us: answered_ms_ago.map(|_| 1_234),
        };
        let text = paths(&Paths {
            contexts: vec![ContextPaths {
                context: 3,
                ulids: Pair::new(address("2001:db8:1::5"), address("2001:db8:a::9")),
                pinned: true,
                spread: vec![Pair::new(address("2001:db8:2::5"), address("2001:db8:a::9"))],
                counters: Some(moorline_api::PathCounters {
                    received: 9,
                    ce: 3,
                    ..Default::default()
                }),
                heard_ms_ago: Some(10),
                paths: vec![
                    info("2001:db8:1::5", PathState::Current, Preference::Neutral, Some(2_000)),
                    info("2001:db8:2::5", PathState::Untried, Preference::Avoid, None),
                ],
            }],
            rules: vec![PathRule {
                scope: Scope::All,
                local: Some("wwan0".into()),
                peer: None,
                preference: Preference::Avoid,
                tell_peer: true,
                origin: "configuration".into(),
            }],
        });
        insta::assert_snapshot!(text, @r"
        #3 2001:db8:1::5 -> 2001:db8:a::9, pinned
          OURS           THE PEER'S     BY    STATE    PREFERENCE  HEARD      RTT
          2001:db8:1::5  2001:db8:a::9  eth0  current              10 ms ago  1.2 ms
          2001:db8:2::5  2001:db8:a::9  eth0  untried  avoid       never
          mark 1: 2001:db8:2::5 -> 2001:db8:a::9
          3 CE in 9 received, 0 ECE, 0 CWR, 0 retransmissions in 0 segments

        RULES
        FOR  OURS   THE PEER'S  PREFERENCE  PEERS TOLD  FROM
        all  wwan0  any         avoid       yes         configuration
        ");
    }

    #[test]
    fn answers_are_a_line_for_each_context() {
        let pair = Pair::new(address("2001:db8:1::5"), address("2001:db8:a::9"));
        let outcome = PathOutcome {
            context: 3,
            ulids: pair,
            current: pair,
            result: PathResult::Unanswered,
            text: "2001:db8:2::5 -> 2001:db8:a::9 did not answer; nothing has moved".into(),
        };
        insta::assert_snapshot!(path_answer(&PathAnswer { outcomes: vec![outcome], next: None }), @"#3    2001:db8:1::5 -> 2001:db8:a::9: 2001:db8:2::5 -> 2001:db8:a::9 did not answer; nothing has moved (unanswered)");
        assert!(path_answer(&PathAnswer::default()).contains("until the daemon stops"));
    }
}
