//! Errors of the configuration: the line, what is wrong, and an example.

use toml::de::{DeTable, DeValue};

/// Says in one line where the file has an error, and adds an example. A common mistake: a duration must be text and not a
/// number.
pub(super) fn refusal(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = error.message();
    let is_of_type = message.starts_with("invalid type") || message.starts_with("wanted string");
    let expected = message.rsplit("expected ").next().unwrap_or_default();
    let example = match is_of_type {
        _ if matches!(expected, "u8" | "u16" | "u32" | "u64" | "usize") => {
            "; write a whole number, without sign, quotes and unit"
        }
        true if message.ends_with("a boolean") => "; write true or false, without quotes",
        true if message.ends_with("a sequence") => {
            "; write a list, for example uplinks = [\"eth0\"]"
        }
        true => "; write it in quotes, for example send-timeout = \"10s\" or ilnp = \"on\"",
        false => "",
    };
    let line = error.span().map(|span| line_at(text, span.start)).unwrap_or_default();
    let message = unknown_name(message).unwrap_or_else(|| format!("{message}{example}"));
    anyhow::anyhow!("{line}{message}")
}

/// The line with the key by which the message of an error begins, for example `ranker.url: ` or `triggers, rule 2: peer: `.
/// If the file lacks the last part, the line of the parts before it. Empty if the file has none of them.
pub(super) fn place_of(text: &str, message: &str) -> String {
    let Ok(table) = DeTable::parse(text) else { return String::new() };
    let root = DeValue::Table(table.into_inner());
    let (mut here, mut found) = (&root, None);
    for part in message.split(": ").flat_map(parts) {
        let (name, rule) = part.split_once(", rule ").unwrap_or((part, ""));
        let Some((key, value)) = here.as_table().and_then(|table| table.get_key_value(name)) else {
            break;
        };
        (here, found) = (value.get_ref(), Some(key.span().start));
        let rule = rule.parse::<usize>().ok().and_then(|rule| rule.checked_sub(1));
        if let (Some(rule), Some(rules)) = (rule, here.as_array())
            && let Some(rule) = rules.get(rule)
        {
            (here, found) = (rule.get_ref(), Some(rule.span().start));
        }
    }
    found.map(|start| line_at(text, start)).unwrap_or_default()
}

/// The names of a path such as `keys.work`. A name in quotes is one, whatever it contains.
fn parts(path: &str) -> Vec<&str> {
    match path.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        Some((name, _)) => vec![name],
        None => path.split('.').collect(),
    }
}

/// Number and text of the line at this place.
fn line_at(text: &str, start: usize) -> String {
    let number = text.get(..start).map_or(0, |before| before.matches('\n').count());
    let line = text.lines().nth(number).map(str::trim);
    line.map(|line| format!("line {}, `{line}`: ", number + 1)).unwrap_or_default()
}

/// A shorter message about an unknown name: instead of all names, those that are nearly the same.
fn unknown_name(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `")?;
    let (name, known) = rest.split_once('`')?;
    let known = known.split('`').skip(1).step_by(2);
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    let mut near: Vec<_> = known.filter(|known| likeness(known) >= LIKE).collect();
    near.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    near.truncate(MOST_NEAR);
    let near = near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    let asked = if near.is_empty() { near } else { format!(" (is it {near}?)") };
    Some(format!("unknown name `{name}`{asked}; docs/configuration.md has all names"))
}

/// Likeness (Jaro-Winkler) from which on a name may be meant.
const LIKE: f64 = 0.85;
/// Number of names that are shown at most.
const MOST_NEAR: usize = 2;
