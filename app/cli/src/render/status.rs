use moorline_api::{ContextCounts, IlnpStatus, Status, Survival, Uplink};
use moorline_term::table;
use moorline_term::units;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The daemon at a glance.
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
        "\ncontexts  {}\n{}ilnp      {}\ndrops     {}\n",
        context_counts(status.contexts),
        survival(&status.survival),
        status.ilnp.as_ref().map_or_else(|| "off".to_owned(), ilnp),
        drops(&without_ilnp(status))
    );
    for warning in &status.warnings {
        let _ = writeln!(text, "warning   {warning}");
    }
    text
}

fn uplinks(uplinks: &[Uplink]) -> String {
    if uplinks.is_empty() {
        return "no uplinks: no interface has both a global IPv6 address and a default route\n"
            .to_owned();
    }
    let header = ["UPLINK", "LINK", "MTU", "GATEWAY", "LOCATOR", "PROOF", "ANNOUNCED"];
    table(&header, &[2], uplinks.iter().flat_map(uplink_rows))
}

/// One row per locator, the interface on the first only.
fn uplink_rows(uplink: &Uplink) -> Vec<Vec<String>> {
    let gateway = uplink.gateway.map_or_else(|| "-".to_owned(), |address| address.to_string());
    let link = if uplink.carrier { "up" } else { "down" };
    let interface = [uplink.name.clone(), link.to_owned(), uplink.mtu.to_string(), gateway];
    let mut rows: Vec<Vec<String>> = uplink
        .locators
        .iter()
        .map(|locator| {
            let announced = if locator.announced { "yes" } else { "no" };
            vec![
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                format!("{}/{}", locator.address, locator.prefix_len),
                locator.proof.to_string(),
                announced.to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        rows.push(vec![String::new(); 7]);
    }
    if let Some(first) = rows.first_mut() {
        first.splice(..interface.len(), interface);
    }
    rows
}

/// A line for each uplink that contexts or sessions use.
fn survival(all: &[Survival]) -> String {
    let mut text = String::new();
    for (index, one) in all.iter().enumerate() {
        let name = if index == 0 { "failover" } else { "" };
        let Survival { uplink, contexts, survive, others, sessions } = one;
        let mut parts: Vec<String> =
            others.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let of_ilnp = format!("{} untested", units::counted(*sessions, "ILNP session"));
        let told = if *contexts == 0 {
            format!("{of_ilnp}: no context uses {uplink}")
        } else {
            if *sessions > 0 {
                parts.push(of_ilnp);
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

fn context_counts(counts: ContextCounts) -> String {
    let mut text = format!("{} established", counts.established);
    let parts = [(counts.moved, "moved"), (counts.exploring, "exploring")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{number} {name}"))
        .collect();
    if !parts.is_empty() {
        let _ = write!(text, " ({})", parts.join(", "));
    }
    let _ = write!(
        text,
        ", {} establishing, {} without Shim6",
        counts.establishing,
        units::counted(counts.no_support, "peer")
    );
    text
}

/// Sessions, and below them what came to nothing.
fn ilnp(ilnp: &IlnpStatus) -> String {
    let counts = ilnp.sessions;
    let mut text = format!(
        "{} with {}",
        units::counted(counts.established, "session"),
        units::counted(ilnp.correspondents, "host")
    );
    let parts = [(counts.moved, "moved"), (counts.awaiting, "not acknowledged")];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(number, name)| format!("{number} {name}")).collect();
    if !parts.is_empty() {
        let _ = write!(text, " ({})", parts.join(", "));
    }
    let _ = write!(text, ", {} opening, room for {}", counts.opening, ilnp.max_sessions);
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

/// The drops that are not in the part about ILNP.
fn without_ilnp(status: &Status) -> BTreeMap<String, u64> {
    let of_ilnp = |reason| status.ilnp.as_ref().and_then(|ilnp| ilnp.drops.get(reason)).copied();
    let rest = status.drops.iter().map(|(reason, count)| {
        (reason.clone(), count.saturating_sub(of_ilnp(reason).unwrap_or_default()))
    });
    rest.collect()
}

fn drops(drops: &BTreeMap<String, u64>) -> String {
    let mut some: Vec<(&String, &u64)> = drops.iter().filter(|(_, count)| **count > 0).collect();
    some.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    if some.is_empty() {
        return "none".to_owned();
    }
    let parts: Vec<String> = some
        .into_iter()
        .map(|(reason, count)| format!("{reason} {}", units::count(*count)))
        .collect();
    parts.join(", ")
}
