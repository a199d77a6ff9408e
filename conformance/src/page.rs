use std::collections::BTreeSet;

use crate::list::{LeftOut, Requirement, RequirementList};
use crate::marker::Place;
use crate::record::{Entry, Record, Rfc};

const HEAD: &str = "\
# Conformance record

Every MUST, SHOULD and MAY of the RFCs that Moorline implements, with the code that does it and the
tests that show it, or the reason why not. Made by `cargo run -p moorline-conformance` from the lists in
`conformance/` and from markers such as `//= rfc5533#7.13-3` in code and tests: change those, not this
page. Key words of sections that bind somebody else, such as routers, are left out, which the section then says. RFC 8200 and
RFC 8201 have no upper-case key words; their lists have the lower-case ones that bind a host. The tests fail when a MUST has neither code and test nor a reason, when anything else has neither code
nor a reason, when a marker names nothing, and when this page is not what the markers say. The wording is
ours; the RFCs decide.
";

/// The whole page.
pub(crate) fn render(record: &Record) -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n| RFC | key words | done, with a test | done | reason why not | open |\n|---|--:|--:|--:|--:|--:|\n",
    );
    for rfc in &record.rfcs {
        let RequirementList { rfc: number, title, requirements, .. } = &rfc.list;
        let [tested, done, reasoned, open] = counts(rfc);
        page += &format!(
            "| [{number} {title}](#rfc-{number}) | {} | {tested} | {done} | {reasoned} | {open} |\n",
            requirements.len()
        );
    }
    for rfc in &record.rfcs {
        render_rfc(&mut page, rfc);
    }
    page
}

/// Numbers of requirements: fulfilled and tested, fulfilled, not fulfilled for a reason, and open.
fn counts(rfc: &Rfc) -> [usize; 4] {
    let mut counts = [0; 4];
    for requirement in &rfc.list.requirements {
        let column = match rfc.shown(requirement) {
            _ if requirement.not_done.is_some() => 2,
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => 3,
        };
        counts[column] += 1;
    }
    counts
}

fn render_rfc(page: &mut String, rfc: &Rfc) {
    let list = &rfc.list;
    *page += &format!(
        "\n## RFC {0}\n\n[{1}](https://www.rfc-editor.org/rfc/rfc{0})\n",
        list.rfc, list.title
    );
    let mut sections: Vec<_> = list.sections.iter().collect();
    sections.sort_by_key(|(number, _)| order(number));
    for (number, heading) in sections {
        let requirements: Vec<_> =
            list.requirements.iter().filter(|one| one.section() == number).collect();
        let whole = rfc.entries.get(number);
        let left_out = list.left_out.get(number);
        if requirements.is_empty() && whole.is_none() && left_out.is_none() {
            continue;
        }
        *page += &format!(
            "\n### {} s{number} {heading}\n\n| | level | what | code | tests |\n|---|---|---|---|---|\n",
            list.rfc
        );
        if let Some(LeftOut { keywords, reason }) = left_out {
            let text = format!("{keywords} key words. **Left out:** {reason}");
            *page += &row(number, "", &text, whole);
        } else if whole.is_some() {
            *page += &row(number, "", "The section", whole);
        }
        for requirement in requirements {
            let Requirement { id, level, .. } = requirement;
            *page += &row(id, level, &text(requirement), rfc.entries.get(id));
        }
    }
}

fn row(id: &str, level: &str, what: &str, entry: Option<&Entry>) -> String {
    let (code, tests) =
        entry.map(|entry| (links(&entry.code), links(&entry.tests))).unwrap_or_default();
    format!("| {id} | {level} | {what} | {code} | {tests} |\n")
}

fn text(requirement: &Requirement) -> String {
    let mut text = requirement.says.clone();
    if let Some(reason) = &requirement.not_done {
        text += &format!(" **Not done:** {reason}");
    }
    if let Some(note) = &requirement.note {
        text += &format!(" *{note}*");
    }
    text.replace('|', "\\|")
}

fn links(places: &BTreeSet<Place>) -> String {
    let links = places.iter().map(|Place { file, item }| format!("[`{item}`](../{file})"));
    links.collect::<Vec<_>>().join(", ")
}

/// Sort key of a section: `7.10` comes after `7.9`.
fn order(number: &str) -> Vec<u32> {
    number.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}
