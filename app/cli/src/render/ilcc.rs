use super::{cause, contexts};
use moorline_api::{Correspondent, Ilcc, RemoteLocator};
use moorline_term::units;
use moorline_term::{TitledRow, table, titled_table};

/// Formats our locators, and a table of correspondents by number.
#[must_use]
pub fn ilcc(ilcc: &Ilcc) -> String {
    if !ilcc.on {
        return "ILNP is off: `ilnp = \"on\"` in the configuration of moorlined turns it on\n"
            .to_owned();
    }
    let policy = ilcc.policy.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
    let mut text = format!(
        "policy {policy}, {} of {} entries\n\n",
        ilcc.correspondents.len(),
        ilcc.max_sessions
    );
    let own = ilcc.locators.iter().map(|own| {
        vec![
            own.l64.clone(),
            super::or_dash(own.uplink.as_ref()),
            own.preference.to_string(),
            seconds(u64::from(own.lifetime_s)),
        ]
    });
    text += &table(&["OUR LOCATOR", "UPLINK", "PREFERENCE", "LIFETIME"], &[2, 3], own);
    text.push('\n');
    if ilcc.correspondents.is_empty() {
        text +=
            "no correspondents: one is asked for a session when a connected socket sends to it\n";
        return text;
    }
    text += &titled_table(&["ID"], ilcc.correspondents.iter().map(row));
    text += &contexts::reasons(ilcc.correspondents.iter().filter_map(|one| one.readiness.as_ref()));
    text + &cause::meanings(ilcc.correspondents.iter().filter_map(|one| one.move_cause.as_deref()))
}

fn row(one: &Correspondent) -> TitledRow {
    let nonces = one.nonces.as_ref().map_or_else(
        || "hidden".to_owned(),
        |nonces| format!("{}\n{}", nonces.sent, nonces.received.as_deref().unwrap_or("not yet")),
    );
    let state = match one.awaits_acknowledgement {
        true => format!("{}\nupdating", one.state),
        false => one.state.to_string(),
    };
    let via = if one.moved { super::ends(one.via) } else { "the same".to_owned() };
    vec![
        ("ID", one.session.to_string()),
        ("OUR, THEIR IDENTIFIER", format!("{}\n{}", one.local_nid, one.remote_nid)),
        ("SOCKETS SEE", super::ends(one.addresses)),
        ("NOW VIA", via),
        ("STATE", state),
        ("FAILOVER", contexts::failover(one.readiness.as_ref())),
        ("WHY", super::or_dash(one.move_cause.as_ref())),
        ("ADMITTED", one.why.clone()),
        ("THEIR LOCATORS", super::lines(&one.locators, locator)),
        ("NONCES", nonces),
        ("LAST USED", format!("{} ago", units::ago(0, one.last_used_s_ago.saturating_mul(1000)))),
    ]
}

fn locator(one: &RemoteLocator) -> String {
    let left = one.lifetime_s.map_or_else(String::new, |left| format!(", {}", seconds(left)));
    format!("{} {} ({}{left})", one.l64, one.preference, one.validity)
}

fn seconds(count: u64) -> String {
    format!("{count} s")
}
