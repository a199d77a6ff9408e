use super::table::table;
use super::units::{count, span};
use crate::commands::Generated;
use moorline_addr::{EngineRate, ExtensionView, KeyView, ParamsView, Progress, Verdict};
use std::path::Path;
use std::time::Duration;

/// Made addresses, with the parameters unless a file has them.
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

/// Valid or not, and why not.
pub(crate) fn verdict(verdict: &Verdict) -> String {
    let Verdict { address, method, sec, step, reason, .. } = verdict;
    let method = method.to_uppercase();
    match (step, reason) {
        (Some(step), Some(reason)) => format!("{address} is not valid: {step}: {reason}\n"),
        _ => format!("{address} is valid: {method}, Sec {sec}\n"),
    }
}

/// Parameters field by field.
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

/// A public key.
pub(crate) fn key(view: &KeyView) -> String {
    let signs = match &view.cannot_sign {
        None => "yes".to_owned(),
        Some(why) => format!("no: {why}"),
    };
    line("key", &in_words(view)) + &line("SHA-256", &view.sha256) + &line("can sign", &signs)
}

/// Rates of engines, fastest first.
pub(crate) fn rates(engines: &[EngineRate]) -> String {
    let millions = |rate: f64| format!("{:.1} M", rate / 1e6);
    let rows = engines.iter().map(|engine| {
        vec![engine.name.to_owned(), millions(engine.blocks_per_s), millions(engine.tries_per_s)]
    });
    table(&["ENGINE", "BLOCKS/S", "TRIES/S"], &[1, 2], rows)
}

/// What stands behind the bar.
pub(crate) fn progress(progress: &Progress) -> String {
    let left = progress.expected_left.map_or_else(|| "?".to_owned(), coarse);
    format!(
        "{:.1} M tries/s, {:.1} % of searches are over by now, {left} more on average",
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

/// Without the fractions that nobody can know.
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
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn a_long_search_says_what_can_be_known() {
        let shown = progress(&Progress {
            tries: 1 << 31,
            tries_per_s: 94_250_000.0,
            probability: 0.3935,
            expected_left: Some(Duration::from_millis(45_570)),
        });
        let expected = "94.2 M tries/s, 39.4 % of searches are over by now, 45 s more on average";
        assert_eq!(shown, expected);
    }

    #[test]
    fn rates_are_a_table() {
        let rate =
            |name, blocks_per_s| EngineRate { name, blocks_per_s, tries_per_s: blocks_per_s / 2.0 };
        assert_snapshot!(rates(&[rate("AVX-512", 188.8e6), rate("portable", 24.2e6)]), @r"
        ENGINE    BLOCKS/S  TRIES/S
        AVX-512    188.8 M   94.4 M
        portable    24.2 M   12.1 M
        ");
    }

    #[test]
    fn a_verdict_is_one_sentence() {
        let valid = Verdict {
            address: "2001:db8:1::1".parse().unwrap(),
            method: "hba",
            sec: 1,
            valid: true,
            step: None,
            reason: None,
        };
        assert_eq!(verdict(&valid), "2001:db8:1::1 is valid: HBA, Sec 1\n");
        let reason = Some("Hash2 has too few zero bits".to_owned());
        let wrong = Verdict { valid: false, step: Some("hash 2"), reason, ..valid };
        let expected = "2001:db8:1::1 is not valid: hash 2: Hash2 has too few zero bits\n";
        assert_eq!(verdict(&wrong), expected);
    }

    #[test]
    fn an_address_of_a_shard_says_which() {
        let made = Generated {
            kind: "hba",
            sec: 1,
            collision_count: 1,
            addresses: vec![crate::commands::GeneratedAddress {
                address: "2001:db8:1::1".parse().unwrap(),
                params: "0102".to_owned(),
            }],
            cannot_sign: None,
            start: "00".repeat(16),
            offset: 70_000,
            shard: "1/4".to_owned(),
            tries: 70_001,
            seconds: 0.0012,
            threads: 1,
            engine: "AVX2",
        };
        assert_snapshot!(generated(&made, None), @r"
        address     2001:db8:1::1
        kind        HBA set without a key: the addresses prove each other
        Sec         1
        collisions  1
        parameters  hex:0102
        search      70 k tries in 1.2 ms on 1 thread (AVX2), shard 1/4, offset 70000
        ");
    }
}
