use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::files::paths_in;
use crate::list::{Requirement, RequirementList};
use crate::marker::{Marker, Markers, Place};
use crate::page;

/// Requirements joined with markers.
#[derive(Debug)]
pub struct Record {
    /// RFCs in the order of their numbers.
    pub rfcs: Vec<Rfc>,
    /// Markers that name no entry or contradict a list.
    pub problems: Vec<String>,
}

/// An RFC with its markers.
#[derive(Debug)]
pub struct Rfc {
    /// Requirements of the RFC.
    pub list: RequirementList,
    /// Markers by requirement or section.
    pub entries: BTreeMap<String, Entry>,
}

/// Code and tests of a requirement.
#[derive(Debug, Default)]
pub struct Entry {
    /// Code that fulfils the requirement.
    pub code: BTreeSet<Place>,
    /// Tests that show the requirement.
    pub tests: BTreeSet<Place>,
}

impl Record {
    /// Reads the lists and all sources of the repository.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let is_list = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("rfc") && name.ends_with(".toml")
        };
        let paths = paths_in(&root.join("conformance"))?.into_iter().filter(is_list);
        let lists = paths.map(|path| RequirementList::read(&path));
        Ok(Self::new(lists.collect::<Result<_, _>>()?, Markers::read(root)?))
    }

    pub(crate) fn new(lists: Vec<RequirementList>, markers: Markers) -> Self {
        let rfcs = lists.into_iter().map(|list| Rfc { list, entries: BTreeMap::new() }).collect();
        let mut record = Self { rfcs, problems: markers.problems };
        for marker in markers.found {
            if let Err(problem) = record.add(marker) {
                record.problems.push(problem);
            }
        }
        record
    }

    fn add(&mut self, marker: Marker) -> Result<(), String> {
        let Marker { rfc, id, place, is_test } = marker;
        let unknown = || format!("{}: {} names no requirement: {rfc}#{id}", place.file, place.item);
        let mut rfcs = self.rfcs.iter_mut();
        let known = rfcs.find(|known| known.list.marker_name() == rfc).ok_or_else(unknown)?;
        match known.list.requirements.iter().find(|one| one.id == id) {
            Some(Requirement { not_done: Some(_), .. }) if !is_test => {
                return Err(format!(
                    "{}: {} does {rfc}#{id}, which the list calls not done",
                    place.file, place.item
                ));
            }
            Some(_) => {}
            None if known.list.sections.contains_key(&id) => {}
            None => return Err(unknown()),
        }
        let entry = known.entries.entry(id).or_default();
        let places = if is_test { &mut entry.tests } else { &mut entry.code };
        places.insert(place);
        Ok(())
    }

    /// Gaps: each MUST without code or without a test, and each other requirement without code, unless there is a
    /// reason.
    #[must_use]
    pub fn gaps(&self) -> Vec<String> {
        self.rfcs.iter().flat_map(Rfc::gaps).collect()
    }

    /// The page of the record.
    #[must_use]
    pub fn page(&self) -> String {
        page::render(self)
    }
}

impl Rfc {
    /// Whether a requirement has code, and whether it has a test.
    pub(crate) fn shown(&self, requirement: &Requirement) -> (bool, bool) {
        let entry = self.entries.get(&requirement.id);
        entry.map_or((false, false), |one| (!one.code.is_empty(), !one.tests.is_empty()))
    }

    fn gaps(&self) -> impl Iterator<Item = String> + '_ {
        let missing = |requirement: &Requirement| match self.shown(requirement) {
            _ if requirement.not_done.is_some() => None,
            (false, false) => Some("code, test or reason"),
            (false, true) => Some("code"),
            (true, false) if requirement.is_must() => Some("test"),
            (true, _) => None,
        };
        self.list.requirements.iter().filter_map(move |requirement| {
            let what = missing(requirement)?;
            let Requirement { id, level, says, .. } = requirement;
            Some(format!("{}#{id} ({level}) has no {what}: {says}", self.list.marker_name()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        rfc = 1
        title = "Example"
        keywords = { "2" = 3 }
        sections = { "2" = "Two", "3" = "Three" }
        requirement = [
            { id = "2-1", level = "MUST", says = "Do." },
            { id = "2-2", level = "MAY", says = "Perhaps." },
            { id = "2-3", level = "MUST NOT", says = "Never.", not-done = "Not ours." },
        ]
    "#;

    fn record(source: &str) -> Record {
        let mut markers = Markers::default();
        markers.read_source("a.rs", source);
        Record::new(vec![RequirementList::parse(LIST).unwrap()], markers)
    }

    const CODE: &str = "//= rfc1#2-1 rfc1#2-2\nfn code() {}\n";

    #[test]
    fn a_must_wants_code_and_a_test() {
        assert_eq!(record("").gaps().len(), 2);
        assert_eq!(record(CODE).gaps(), ["rfc1#2-1 (MUST) has no test: Do."]);
        let test = "//= rfc1#2-1 (test)\n#[test]\nfn shows() {}\n";
        assert!(record(test).gaps()[0].starts_with("rfc1#2-1 (MUST) has no code"));
        let both = record(&format!("{CODE}{test}"));
        assert!(both.gaps().is_empty() && both.problems.is_empty());
        assert!(both.page().contains("[`shows`](../a.rs)"));
    }

    #[test]
    fn a_marker_may_name_a_section_and_nothing_else() {
        assert!(record("//= rfc1#3\nfn code() {}\n").problems.is_empty());
        for name in ["rfc1#4", "rfc1#2-4", "rfc2#2-1"] {
            let record = record(&format!("//= {name}\nfn code() {{}}\n"));
            assert_eq!(record.problems, [format!("a.rs: code names no requirement: {name}")]);
        }
    }

    #[test]
    fn code_for_what_is_called_not_done_is_a_contradiction() {
        assert_eq!(record("//= rfc1#2-3\nfn code() {}\n").problems.len(), 1);
        let test = "//= rfc1#2-3 (test)\n#[test]\nfn shows() {}\n";
        assert!(record(test).problems.is_empty());
    }
}
