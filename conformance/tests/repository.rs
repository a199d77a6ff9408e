//! Holds the repository's markers against the lists, and the page against both.

use std::fs;

use moorline_conformance::{PAGE, Record, repository};

#[test]
fn every_marker_names_a_requirement_or_a_section() {
    let record = Record::read(&repository()).unwrap();
    assert!(record.problems().is_empty(), "{}", record.problems().join("\n"));
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

/// Links such as [`a_test`](../proto/reap/src/machine/tests.rs).
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
