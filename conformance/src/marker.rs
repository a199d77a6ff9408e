use std::path::Path;

use crate::files::{paths_in, text_of};
use crate::item::{self, Kind};

/// Folders with markers. This crate is left out, because its sources contain examples of markers.
const FOLDERS: [&str; 8] = ["proto", "bpf", "io", "app", "sim", "lab", "fuzz", "tests"];
/// Extensions of source files.
const SOURCES: [&str; 3] = ["rs", "c", "h"];
const PREFIX: &str = "//= ";
const TEST: &str = "(test)";

/// A reference to a requirement or section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The RFC as in the marker, such as `rfc5533`.
    pub rfc: String,
    /// Requirement or section, such as `7.13-2` or `7.13`.
    pub id: String,
    /// Item of the marker.
    pub place: Place,
    /// Whether the marker names a test, and not code.
    pub is_test: bool,
}

/// An item of a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path of the file from the root of the repository.
    pub file: String,
    /// Name of the item.
    pub item: String,
}

/// Markers of all sources, and the problems of malformed ones.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    pub(crate) found: Vec<Marker>,
    pub(crate) problems: Vec<String>,
}

impl Markers {
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut markers = Self::default();
        for folder in FOLDERS {
            markers.walk(root, &root.join(folder))?;
        }
        Ok(markers)
    }

    fn walk(&mut self, root: &Path, folder: &Path) -> anyhow::Result<()> {
        for path in paths_in(folder)? {
            let is_source =
                path.extension().is_some_and(|kind| SOURCES.iter().any(|one| kind == *one));
            if path.is_dir() && !path.ends_with("target") {
                self.walk(root, &path)?;
            } else if is_source {
                let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                self.read_source(&file, &text_of(&path)?);
            }
        }
        Ok(())
    }

    pub(crate) fn read_source(&mut self, file: &str, text: &str) {
        if !text.contains(PREFIX) {
            return;
        }
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if let Some(names) = line.trim_start().strip_prefix(PREFIX)
                && let Err(problem) = self.read_marker(file, &lines, at, names)
            {
                self.problems.push(format!("{file}:{}: {problem}", at + 1));
            }
        }
    }

    fn read_marker(
        &mut self,
        file: &str,
        lines: &[&str],
        at: usize,
        names: &str,
    ) -> Result<(), String> {
        let names = names.trim_end();
        let (names, is_test) =
            names.strip_suffix(TEST).map_or((names, false), |names| (names.trim_end(), true));
        let item = item::around(lines, at).ok_or("no item below this marker or around it")?;
        if is_test && item.kind != Kind::Test {
            return Err(format!("{} is no test that runs", item.name));
        }
        let place = Place { file: file.to_owned(), item: item.name.to_owned() };
        for name in names.split_whitespace() {
            let (rfc, id) = name
                .split_once('#')
                .ok_or_else(|| format!("\"{name}\" is not of the form rfcNNNN#section-ordinal"))?;
            let (rfc, id) = (rfc.to_owned(), id.to_owned());
            self.found.push(Marker { rfc, id, place: place.clone(), is_test });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Markers {
        let mut markers = Markers::default();
        markers.read_source("a.rs", text);
        markers
    }

    #[test]
    fn one_marker_may_name_several() {
        let markers = read("//= rfc1#2-3 rfc1#2.1\nfn here() {}\n");
        let place = Place { file: "a.rs".into(), item: "here".into() };
        let names: Vec<_> = markers.found.iter().map(|m| (m.rfc.as_str(), m.id.as_str())).collect();
        assert_eq!(names, [("rfc1", "2-3"), ("rfc1", "2.1")]);
        assert!(markers.found.iter().all(|marker| marker.place == place && !marker.is_test));
    }

    #[test]
    fn a_test_marker_has_to_be_at_a_test() {
        let good = read("//= rfc1#2-3 (test)\n#[test]\nfn shows() {}\n");
        assert!(good.found[0].is_test && good.found[0].id == "2-3");
        let bad = read("\n//= rfc1#2-3 (test)\nfn helper() {}\n");
        assert!(bad.found.is_empty());
        assert_eq!(bad.problems, ["a.rs:2: helper is no test that runs"]);
    }

    #[test]
    fn a_marker_that_cannot_be_read_is_a_problem() {
        assert_eq!(read("//= 5533\nfn a() {}").problems.len(), 1);
        assert_eq!(read("//= rfc1#1-1\nuse a;").problems.len(), 1);
    }
}
