//! Holds the repository's markers against the lists, and the page against both.

use std::fs;

use moorline_conformance::{PAGE, Record, repository};

#[test]
fn every_marker_names_a_requirement_or_a_section() {
    let record = Record::read(&repository()).unwrap();
    assert!(record.problems().is_empty(), "{}", record.problems().join("\n"));
}

#[test]
fn the_page_is_what_the_markers_say() {
    let record = Record::read(&repository()).unwrap();
    let page = fs::read_to_string(repository().join(PAGE)).unwrap();
    let is_current = page == record.page();
    assert!(is_current, "{PAGE} is stale: cargo run -p moorline-conformance");
}
