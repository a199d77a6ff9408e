use std::fmt::Write as _;

use moorline_dns::Found;

use moorline_term::table;

/// Formats the records of a name.
#[must_use]
pub fn found(found: &Found) -> String {
    if found.nids.is_empty() {
        return format!("{} has no NID record: it speaks no ILNP\n", found.name);
    }
    let mut text = format!("{} speaks ILNP; good for {} s\n\n", found.name, found.ttl.as_secs());
    let nids = found.nids.iter().map(|one| vec![one.nid.to_string(), one.preference.to_string()]);
    text.push_str(&table(&["IDENTIFIER", "PREFERENCE"], &[1], nids));
    text.push('\n');
    if found.locators.is_empty() {
        text.push_str("It has no locator: it is nowhere now.\n");
    } else {
        let locators = found.locators.iter().map(|one| {
            let preference = match one.preferences {
                (preference, None) => preference.to_string(),
                (of_pointer, Some(preference)) => format!("{of_pointer}/{preference}"),
            };
            vec![one.l64.to_string(), preference, super::or_dash(one.via.as_ref())]
        });
        text.push_str(&table(&["LOCATOR", "PREFERENCE", "VIA"], &[1], locators));
    }
    if found.left_out > 0 {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\n{} records were malformed or of no use.", found.left_out);
    }
    text
}
