//! Checks the markers of the repository against the lists, and the page against both.

use std::fs;
use std::path::{Path, PathBuf};

use moorline_conformance::{PAGE, Record, repository};
use moorline_types::DropReason;

#[test]
fn every_marker_names_a_requirement_or_a_section() {
    let record = Record::read(&repository()).unwrap();
    assert!(record.problems.is_empty(), "{}", record.problems.join("\n"));
}

#[test]
fn every_must_has_code_and_test_or_a_reason_and_the_rest_code_or_a_reason() {
    let record = Record::read(&repository()).unwrap();
    assert!(record.gaps().is_empty(), "{}", record.gaps().join("\n"));
}

#[test]
fn the_page_is_what_the_markers_say() {
    let record = Record::read(&repository()).unwrap();
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    let is_current = page == record.page();
    assert!(is_current, "{PAGE} is stale: cargo run -p moorline-conformance");
}

/// Checks links such as [`a_test`](../proto/reap/src/machine/tests.rs).
#[test]
fn every_test_that_the_security_page_names_is_there() {
    let docs = repository().join("docs");
    let page = fs::read_to_string(docs.join("security.md")).unwrap();
    let mut links = 0;
    for link in page.split("[`").skip(1) {
        let (name, rest) = link.split_once("`](").unwrap();
        let (file, _) = rest.split_once(')').unwrap();
        let source = fs::read_to_string(docs.join(file)).unwrap_or_default();
        let is_there = source.contains(&format!("fn {name}("));
        assert!(is_there, "docs/security.md names {name}, which is not in {file}");
        links += 1;
    }
    assert!(links > 40);
}

/// In each table of the page, the last column names the tests.
#[test]
fn every_row_of_the_security_page_names_a_test() {
    let page = fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let without: Vec<_> = rows_without_a_test(&page).collect();
    assert!(without.is_empty(), "rows of docs/security.md without a test:\n{}", without.join("\n"));
    assert_eq!(rows_without_a_test("| threat | defence | [`elsewhere`](a.rs) | |").count(), 1);
    assert_eq!(rows_without_a_test("| threat | defence | [`a_test`](a.rs) (in both) |").count(), 0);
}

fn rows_without_a_test(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter(|line| {
        let is_head = line.ends_with("| tests |") || line.starts_with("|---");
        line.starts_with('|') && !is_head
    });
    rows.filter(|row| {
        let cells = row.trim_end().trim_end_matches('|');
        !cells.rsplit('|').next().is_some_and(|last| last.contains("[`"))
    })
}

#[test]
fn the_page_of_drops_names_each_reason_once() {
    let page = fs::read_to_string(repository().join("docs/drops.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut named: Vec<_> = rows.map(|(reason, _)| reason).collect();
    named.sort_unstable();
    let mut all: Vec<_> = DropReason::ALL.iter().map(|reason| reason.as_str()).collect();
    all.sort_unstable();
    assert_eq!(named, all);
}

#[test]
fn every_link_to_a_file_finds_it() {
    let mut links = 0;
    let mut broken = Vec::new();
    for page in pages_under(&repository()) {
        let text = fs::read_to_string(&page).unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target)
        {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            if !page.with_file_name(file).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(links > 300, "{links}");
}

/// Markdown files of the repository, except in build folders.
fn pages_under(directory: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let (name, path) = (entry.file_name(), entry.path());
        if entry.file_type().expect("its type").is_dir() {
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                pages.extend(pages_under(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}
