use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::list::Requirement;
use crate::marker::Place;
use crate::record::{Entry, Record, Rfc};

const HEAD: &str = "\
# Conformance record

Every MUST, SHOULD and MAY of the RFCs that Moorline implements, with the code that does it and the
tests that show it, or the reason why not. Made by `cargo run -p moorline-conformance` from the lists in
`conformance/` and from markers such as `//= rfc5533#7.13-3` in code and tests: change those, not this
page. The tests fail when a MUST has neither code and test nor a reason, when anything else has neither code
nor a reason, when a marker names nothing, and when this page is not what the markers say. The wording is
ours; the RFCs decide.
";

/// The whole page.
pub(crate) fn render(record: &Record) -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n| RFC | key words | done, with a test | done | reason why not | open |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for rfc in record.rfcs() {
        let list = &rfc.list;
        let [tested, done, reasoned, open] = counts(rfc);
        line(
            &mut page,
            &format!(
                "| [{0} {1}](#rfc-{0}) | {2} | {tested} | {done} | {reasoned} | {open} |",
                list.rfc,
                list.title,
                list.requirements.len()
            ),
        );
    }
    for rfc in record.rfcs() {
        render_rfc(&mut page, rfc);
    }
    page
}

/// How many requirements are done and tested, done, not done for a reason, and open.
fn counts(rfc: &Rfc) -> [usize; 4] {
    let mut counts = [0; 4];
    for requirement in &rfc.list.requirements {
        let column = match rfc.entry(&requirement.id) {
            _ if requirement.not_done.is_some() => 2,
            Some(entry) if entry.code.is_empty() => 3,
            Some(entry) if entry.tests.is_empty() => 1,
            Some(_) => 0,
            None => 3,
        };
        counts[column] += 1;
    }
    counts
}

fn render_rfc(page: &mut String, rfc: &Rfc) {
    let list = &rfc.list;
    line(page, &format!("\n## RFC {}\n", list.rfc));
    line(page, &format!("[{}](https://www.rfc-editor.org/rfc/rfc{})", list.title, list.rfc));
    let mut sections: Vec<_> = list.sections.iter().collect();
    sections.sort_by_key(|(number, _)| order(number));
    for (number, heading) in sections {
        let requirements: Vec<_> =
            list.requirements.iter().filter(|one| one.section() == number).collect();
        let whole = rfc.entry(number);
        if requirements.is_empty() && whole.is_none() {
            continue;
        }
        line(page, &format!("\n### {} s{number} {heading}\n", list.rfc));
        line(page, "| | level | what | code | tests |\n|---|---|---|---|---|");
        if let Some(entry) = whole {
            line(page, &row(number, "", "The section", Some(entry)));
        }
        for requirement in requirements {
            let Requirement { id, level, .. } = requirement;
            line(page, &row(id, level, &text(requirement), rfc.entry(id)));
        }
    }
}

fn row(id: &str, level: &str, what: &str, entry: Option<&Entry>) -> String {
    let (code, tests) =
        entry.map(|entry| (links(&entry.code), links(&entry.tests))).unwrap_or_default();
    format!("| {id} | {level} | {what} | {code} | {tests} |")
}

fn text(requirement: &Requirement) -> String {
    let mut text = requirement.says.clone();
    if let Some(reason) = &requirement.not_done {
        let _ = write!(text, " **Not done:** {reason}");
    }
    if let Some(note) = &requirement.note {
        let _ = write!(text, " *{note}*");
    }
    text.replace('|', "\\|")
}

fn links(places: &BTreeSet<Place>) -> String {
    let links = places.iter().map(|Place { file, item }| format!("[`{item}`](../{file})"));
    links.collect::<Vec<_>>().join(", ")
}

/// `7.10` comes behind `7.9`.
fn order(number: &str) -> Vec<u32> {
    number.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

fn line(page: &mut String, text: &str) {
    page.push_str(text);
    page.push('\n');
}
