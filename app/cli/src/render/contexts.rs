use super::cause;
use moorline_api::{
    Context, ContextState, Excluded, IlnpStatus, Readiness, ReadinessState, Status,
};
use moorline_term::units;
use moorline_term::{TitledRow, titled_table};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Formats a table of contexts, by number, and of peers without one: 1,000 established contexts, 20 others, and 20
/// peers. Behind the table come the connections without a context: peers that the configuration excludes, and ILNP
/// sessions.
#[must_use]
pub fn contexts(contexts: &[Context], status: &Status, now_unix_ms: u64) -> String {
    let others = excluded(&status.excluded) + &sessions(status.ilnp.as_ref());
    if contexts.is_empty() {
        return no_contexts(!status.excluded.is_empty()) + &others;
    }
    let mut shown: Vec<&Context> = contexts.iter().collect();
    shown.sort_by_key(|context| context.id);
    let mut counts = BTreeMap::new();
    shown.retain(|context| {
        let kind = Kind::of(context);
        let count: &mut usize = counts.entry(kind).or_default();
        *count += 1;
        *count <= kind.most()
    });
    let more: String = counts.into_iter().map(|(kind, count)| kind.more(count)).collect();
    let reasons = reasons(shown.iter().filter_map(|context| context.readiness.as_ref()))
        + &cause::meanings(shown.iter().map(|context| context.why.as_str()));
    let rows = shown.into_iter().map(|context| row(context, now_unix_ms));
    titled_table(&["ID", "SENT", "RECEIVED"], rows) + &more + &reasons + &others
}

/// The kinds of rows, each of which leaves room for the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Established,
    /// The handshake is not over.
    Establishing,
    WithoutContext,
}

impl Kind {
    fn of(context: &Context) -> Self {
        if context.id == NO_ID {
            Self::WithoutContext
        } else if context.state == ContextState::Established {
            Self::Established
        } else {
            Self::Establishing
        }
    }

    /// Number of rows that the table shows.
    const fn most(self) -> usize {
        match self {
            Self::Established => 1000,
            Self::Establishing | Self::WithoutContext => 20,
        }
    }

    /// Formats a line about the rows that the table leaves out, of this many.
    fn more(self, count: usize) -> String {
        let count = count.saturating_sub(self.most()) as u64;
        if count == 0 {
            return String::new();
        }
        let told = match self {
            Self::Established => format!("{} more", units::counted(count, "context")),
            Self::Establishing => format!("{} more establishing", units::counted(count, "context")),
            Self::WithoutContext => {
                format!("{} more without a context", units::counted(count, "peer"))
            }
        };
        format!("\n{told}: `moorline contexts --json` lists all.\n")
    }
}

fn no_contexts(is_any_excluded: bool) -> String {
    let unless = if is_any_excluded {
        ""
    } else {
        ", unless `[[triggers]]` or `trigger-never` in moorlined.toml exclude the peer"
    };
    format!("no contexts: one is made when a peer and this host have exchanged 2 kB{unless}\n")
}

fn excluded(excluded: &[Excluded]) -> String {
    if excluded.is_empty() {
        return String::new();
    }
    let mut text = "\nThe configuration excludes peers, which earn no context:\n".to_owned();
    for Excluded { peer, why } in excluded {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {peer}: {why}");
    }
    text
}

/// Formats a line about ILNP sessions, which take the place of contexts.
fn sessions(ilnp: Option<&IlnpStatus>) -> String {
    let count = ilnp.map_or(0, |ilnp| ilnp.sessions.established + ilnp.sessions.opening);
    if count == 0 {
        return String::new();
    }
    let count = units::counted(count, "ILNP session");
    format!("\n{count} with peers that need no context: see `moorline ilcc`\n")
}

/// Formats the readiness in a few words.
pub(super) fn failover(readiness: Option<&Readiness>) -> String {
    let Some(readiness) = readiness else { return "-".to_owned() };
    let state = match &readiness.state {
        ReadinessState::Protected => "protected",
        ReadinessState::NotYet => "not yet",
        ReadinessState::Cannot => "cannot",
        ReadinessState::Other(other) => other,
    };
    let more = match (&readiness.reason, readiness.answered_ms_ago) {
        (Some(reason), _) => reason.clone(),
        (None, Some(ms)) => format!("{} ago", units::ago(0, ms)),
        (None, None) => String::new(),
    };
    format!("{state}\n{more}")
}

/// Explains each reason of the table once.
pub(super) fn reasons<'a>(all: impl Iterator<Item = &'a Readiness>) -> String {
    let named = all.filter_map(|one| Some((one.reason.as_ref()?, (&one.why, &one.remedy))));
    let named: BTreeMap<_, _> = named.collect();
    let mut text = String::new();
    for (reason, (why, remedy)) in named {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{reason}: {why}.\n  > {remedy}\n");
    }
    text
}

fn row(context: &Context, now_unix_ms: u64) -> TitledRow {
    let via = if context.moved { super::ends(context.locators()) } else { "the same".to_owned() };
    let heard = context
        .last_rx_ms_ago
        .map_or_else(|| "never".to_owned(), |ms| format!("{} ago", units::ago(0, ms)));
    // A context that is not established has no such time, and a pair without a context has no number.
    let since = Some(context.since_unix_ms).filter(|since| *since != 0);
    let id = Some(context.id).filter(|id| *id != NO_ID);
    vec![
        ("ID", super::or_dash(id)),
        ("LOCAL, PEER", super::ends(context.ulids())),
        ("NOW VIA", via),
        ("STATE", state(context)),
        ("FAILOVER", failover(context.readiness.as_ref())),
        ("SINCE", super::or_dash(since.map(|since| units::ago(since, now_unix_ms)))),
        ("WHY", context.why.clone()),
        ("SENT", units::octets(context.tx_bytes)),
        ("RECEIVED", units::octets(context.rx_bytes)),
        ("LAST HEARD", heard),
    ]
}

/// Formats the state; the state of reachability appears only for established contexts.
fn state(context: &Context) -> String {
    if context.state == ContextState::Established {
        context.reap.to_string()
    } else {
        context.state.to_string()
    }
}

/// Number of a pair of addresses without a context.
const NO_ID: u32 = u32::MAX;
