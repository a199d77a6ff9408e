use moorline_api::Event;
use moorline_term::units;
use std::fmt::Write;

/// Formats an event in one line: time, kind, context or session, pairs, reason.
#[must_use]
pub fn event(event: &Event) -> String {
    let session = event.session.map(|id| format!("s{id}"));
    let context = event.context.map(|id| format!("#{id}")).or(session).unwrap_or_default();
    let mut line =
        format!("{}  {:<19} {context:<5}", units::timestamp(event.at_unix_ms), event.kind);
    // Writing to a String cannot fail.
    if let Some(ulids) = event.ulids {
        let _ = write!(line, " {ulids}");
    }
    if let Some(from) = event.from.filter(|from| Some(*from) != event.ulids) {
        let _ = write!(line, " from {from}");
    }
    if let Some(to) = event.to {
        let _ = write!(line, " now via {to}");
    }
    if let Some(reason) = &event.reason {
        let _ = write!(line, " ({reason})");
    }
    format!("{}\n", line.trim_end())
}
