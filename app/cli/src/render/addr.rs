use crate::commands::Generated;
use moorline_addr::{EngineRate, ExtensionView, KeyView, ParamsView, Progress, Verdict};
use moorline_term::titled_table;
use moorline_term::units::{count, span};
use std::path::Path;
use std::time::Duration;

/// Formats generated addresses, with the parameters unless they are in a file.
pub(crate) fn generated(made: &Generated, file: Option<&Path>) -> String {
    let kind = match made.kind {
        "cga" => "CGA: bound to the key",
        "hba" => "HBA set without a key: the addresses prove each other",
        _ => "HBA set with a key: the addresses prove each other, and are CGAs too",
    };
    let mut text = String::new();
    for one in &made.addresses {
        text += &line("address", &one.address.to_string());
    }
    text += &line("kind", kind);
    text += &line("Sec", &made.sec.to_string());
    if made.collision_count > 0 {
        text += &line("collisions", &made.collision_count.to_string());
    }
    match (file, made.addresses.first()) {
        (Some(file), _) => text += &line("parameters", &file.display().to_string()),
        (None, Some(first)) => text += &line("parameters", &format!("hex:{}", first.params)),
        (None, None) => {}
    }
    if let Some(why) = &made.cannot_sign {
        text += &line("note", &format!("no other locators can be signed for it: {why}"));
    }
    let mut search = format!(
        "{} tries in {} on {} ({})",
        count(made.tries),
        short_span(made.seconds),
        if made.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", made.threads) },
        made.engine,
    );
    if made.shard != "0/1" {
        search += &format!(", shard {}, offset {}", made.shard, made.offset);
    }
    text + &line("search", &search)
}

/// Formats the result of a verification, with the reason of a failure.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let Verdict { address, method, sec, step, reason, .. } = verdict;
    let method = method.to_uppercase();
    match (step, reason) {
        (Some(step), Some(reason)) => format!("{address} is not valid: {step}: {reason}\n"),
        _ => format!("{address} is valid: {method}, Sec {sec}\n"),
    }
}

/// Formats parameters field by field.
pub(crate) fn params(view: &ParamsView) -> String {
    let mut text = line("modifier", &view.modifier);
    text += &line("prefix", &view.prefix);
    text += &line("collisions", &view.collision_count.to_string());
    let key = if view.is_real_key {
        in_words(&view.key)
    } else {
        format!("none: {} octets of an HBA set in its place", view.key.octets)
    };
    text += &line("key", &key);
    if view.is_real_key {
        text += &line("SHA-256", &view.key.sha256);
    }
    for extension in &view.extensions {
        text += &match extension {
            ExtensionView::MultiPrefix { prefixes, .. } => line("HBA set", &prefixes.join(" ")),
            ExtensionView::Unknown { number, data } => {
                line("extension", &format!("type {number}: {data}"))
            }
        };
    }
    text += &line("Hash2", &format!("good for Sec {}", view.sec));
    for address in &view.addresses {
        text += &line("address", &address.to_string());
    }
    text
}

/// Formats a public key.
pub(crate) fn key(view: &KeyView) -> String {
    let signs = match &view.cannot_sign {
        None => "yes".to_owned(),
        Some(why) => format!("no: {why}"),
    };
    line("key", &in_words(view)) + &line("SHA-256", &view.sha256) + &line("can sign", &signs)
}

/// Formats the rates of engines, the fastest first.
pub(crate) fn rates(engines: &[EngineRate]) -> String {
    let millions = |rate: f64| format!("{:.1} M", rate / 1e6);
    let rows = engines.iter().map(|engine| {
        vec![
            ("ENGINE", engine.name.to_owned()),
            ("BLOCKS/S", millions(engine.blocks_per_s)),
            ("TRIES/S", millions(engine.tries_per_s)),
        ]
    });
    titled_table(&["BLOCKS/S", "TRIES/S"], rows)
}

/// Formats the text behind the bar. Bar and text fit 80 columns.
pub(crate) fn progress(progress: &Progress) -> String {
    let left = progress.expected_left.map_or_else(|| "?".to_owned(), coarse);
    format!(
        "{:.1} M tries/s, chance so far {:.1} %, {left} left on average",
        progress.tries_per_s / 1e6,
        100.0 * progress.probability,
    )
}

fn in_words(key: &KeyView) -> String {
    match key.bits {
        Some(bits) => format!("{} of {bits} bits", key.algorithm),
        None => key.algorithm.clone(),
    }
}

/// Rounds an estimate, which has no exact fractions.
fn coarse(left: Duration) -> String {
    span(Duration::from_secs(left.as_secs()))
}

fn short_span(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", 1e3 * seconds) } else { format!("{seconds:.1} s") }
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<10}  {value}\n")
}

#[cfg(test)]
mod tests;
