use super::table::table;
use super::units;
use moorline_api::{Context, ContextState};

/// A table of contexts, by number.
#[must_use]
pub fn contexts(contexts: &[Context], now_unix_ms: u64) -> String {
    if contexts.is_empty() {
        return "no contexts: one is made when a peer and this host have exchanged 2 kB\n"
            .to_owned();
    }
    let header =
        ["ID", "LOCAL, PEER", "NOW VIA", "STATE", "SINCE", "WHY", "SENT", "RECEIVED", "LAST HEARD"];
    let mut sorted: Vec<&Context> = contexts.iter().collect();
    sorted.sort_by_key(|context| context.id);
    table(&header, &[0, 6, 7], sorted.into_iter().map(|context| row(context, now_unix_ms)))
}

fn row(context: &Context, now_unix_ms: u64) -> Vec<String> {
    let via = if context.moved {
        format!("{}\n{}", context.locator_local, context.locator_peer)
    } else {
        "the same".to_owned()
    };
    let heard = context
        .last_rx_ms_ago
        .map_or_else(|| "never".to_owned(), |ms| format!("{} ago", units::ago(0, ms)));
    // What is not established has no such time, and a pair without a context no number.
    let since = match context.since_unix_ms {
        0 => "-".to_owned(),
        since => units::ago(since, now_unix_ms),
    };
    let id = match context.id {
        u32::MAX => "-".to_owned(),
        id => id.to_string(),
    };
    vec![
        id,
        format!("{}\n{}", context.ulid_local, context.ulid_peer),
        via,
        state(context),
        since,
        context.why.clone(),
        units::octets(context.tx_bytes),
        units::octets(context.rx_bytes),
        heard,
    ]
}

/// Reachability is worth a word only once there is a context.
fn state(context: &Context) -> String {
    if context.state == ContextState::Established {
        context.reap.to_string()
    } else {
        context.state.to_string()
    }
}
