use moorline_api::{ContextCounts, Excluded, IlnpStatus, LocatorInfo, Status, Survival, Uplink};
use moorline_term::units;
use moorline_term::{TitledRow, titled_table};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Formats the overview of the daemon.
#[must_use]
pub fn status(status: &Status, now_unix_ms: u64) -> String {
    let mut text = format!(
        "moorlined {}, pid {}, up {}, data plane {}, send timeout {}\n\n",
        status.version,
        status.pid,
        units::ago(status.started_unix_ms, now_unix_ms),
        status.data_plane,
        units::span(Duration::from_millis(status.send_timeout_ms)),
    );
    text.push_str(&uplinks(&status.uplinks));
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\ncontexts  {}\n{}{}ilnp      {}\ndrops     {}\n",
        context_counts(status.contexts),
        survival(&status.survival),
        counted(status),
        status.ilnp.as_ref().map_or_else(|| "off".to_owned(), ilnp),
        without_ilnp(status)
    );
    for warning in &status.warnings {
        let _ = writeln!(text, "warning   {warning}");
    }
    for Excluded { peer, why } in &status.excluded {
        let _ = writeln!(text, "excluded  {peer} earns no context: {why}");
    }
    text
}

fn uplinks(uplinks: &[Uplink]) -> String {
    if uplinks.is_empty() {
        return "no uplinks: no interface has both a global IPv6 address and a default route\n"
            .to_owned();
    }
    titled_table(&["MTU"], uplinks.iter().map(uplink))
}

fn uplink(uplink: &Uplink) -> TitledRow {
    let of_each = |cell: fn(&LocatorInfo) -> String| super::lines(&uplink.locators, cell);
    vec![
        ("UPLINK", uplink.name.clone()),
        ("LINK", link(uplink)),
        ("MTU", uplink.mtu.to_string()),
        ("GATEWAY", super::or_dash(uplink.gateway)),
        ("LOCATOR", of_each(|own| format!("{}/{}", own.address, own.prefix_len))),
        ("PROOF", of_each(|own| super::proof(&own.proof, own.temporary))),
        ("ANNOUNCED", of_each(|own| super::yes_or_no(own.announced))),
    ]
}

fn link(uplink: &Uplink) -> String {
    match uplink.avoided_secs {
        _ if !uplink.carrier => "down".to_owned(),
        _ if uplink.failing => "fails".to_owned(),
        _ if uplink.silent => "up, no answers".to_owned(),
        Some(secs) => format!("up, not for new connections for {secs} s"),
        None => "up".to_owned(),
    }
}

/// Formats one line for each uplink that contexts or sessions use.
fn survival(all: &[Survival]) -> String {
    let mut text = String::new();
    for (index, one) in all.iter().enumerate() {
        let name = if index == 0 { "failover" } else { "" };
        let Survival { uplink, contexts, survive, others, sessions } = one;
        let mut parts: Vec<String> =
            others.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let of_ilnp = units::counted(*sessions, "ILNP session");
        let told = if *contexts == 0 {
            // ILNP has no standby path whose answers would tell more.
            format!("the loss of {uplink} is untested for {of_ilnp}")
        } else {
            if *sessions > 0 {
                parts.push(format!("{of_ilnp} untested"));
            }
            let rest =
                if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
            let contexts = units::counted(*contexts, "context");
            format!("{survive} of {contexts} can survive the loss of {uplink}{rest}")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<10}{told}");
    }
    text
}

/// Formats what the lines about failover and ILNP lack: contexts and sessions that are not counted, or changes since the last
/// count.
fn counted(status: &Status) -> String {
    let said = match (status.uncounted, status.counted_ms_ago) {
        (0, 0..OLD_MS) => return String::new(),
        (0, ago) => format!("counted {} ago; the next call has new numbers", units::ago(0, ago)),
        (count, _) => format!("contexts and sessions that are not counted yet: {count}"),
    };
    format!("{:<10}{said}\n", "")
}

/// Age in milliseconds from which on counts are told to be old.
const OLD_MS: u64 = 10_000;

fn context_counts(counts: ContextCounts) -> String {
    format!(
        "{} established{}, {} establishing, {} without Shim6",
        counts.established,
        among_them([(counts.moved, "moved"), (counts.exploring, "exploring")]),
        counts.establishing,
        units::counted(counts.no_support, "peer")
    )
}

/// Formats the counts that are not zero, in brackets.
fn among_them<const N: usize>(counts: [(u64, &str); N]) -> String {
    let some = counts.into_iter().filter(|(number, _)| *number > 0);
    let some: Vec<_> = some.map(|(number, name)| format!("{number} {name}")).collect();
    if some.is_empty() { String::new() } else { format!(" ({})", some.join(", ")) }
}

/// Formats the sessions, and below them the refused and failed proposals.
fn ilnp(ilnp: &IlnpStatus) -> String {
    let counts = ilnp.sessions;
    let mut text = format!(
        "{} with {}{}, {} opening, room for {}",
        units::counted(counts.established, "session"),
        units::counted(ilnp.correspondents, "host"),
        among_them([
            (counts.moved, "moved"),
            (counts.awaiting, "not acknowledged"),
            (counts.unreachable, "standing still"),
        ]),
        counts.opening,
        ilnp.max_sessions
    );
    if let Some(policy) = &ilnp.policy {
        let _ = write!(text, ", policy {policy}");
    }
    let some =
        [("drops", &ilnp.drops), ("refused by us", &ilnp.refused), ("went without", &ilnp.classic)];
    for (name, counts) in some.into_iter().filter(|(_, counts)| !counts.is_empty()) {
        let _ = write!(text, "\n          {name}: {}", drops(counts));
    }
    text
}

/// Formats the drops that the part about ILNP does not show.
fn without_ilnp(status: &Status) -> String {
    let of_ilnp = |reason| status.ilnp.as_ref().and_then(|ilnp| ilnp.drops.get(reason)).copied();
    let rest = status.drops.iter().map(|(reason, count)| {
        (reason.clone(), count.saturating_sub(of_ilnp(reason).unwrap_or_default()))
    });
    let rest: BTreeMap<_, _> = rest.collect();
    let is_any = |drops: &BTreeMap<_, u64>| drops.values().any(|count| *count > 0);
    let has_ilnp = status.ilnp.as_ref().is_some_and(|ilnp| is_any(&ilnp.drops));
    if has_ilnp && !is_any(&rest) { "none besides those of ILNP".to_owned() } else { drops(&rest) }
}

fn drops(drops: &BTreeMap<String, u64>) -> String {
    let mut some: Vec<(&String, &u64)> = drops.iter().filter(|(_, count)| **count > 0).collect();
    some.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let parts: Vec<_> = some
        .into_iter()
        .map(|(reason, count)| format!("{reason} {}", units::count(*count)))
        .collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}
