use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::files::text_of;

/// Requirements of one RFC, as in `conformance/rfcNNNN.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RequirementList {
    /// Number of the RFC.
    pub rfc: u32,
    /// Title of the RFC.
    pub title: String,
    /// Number of upper-case key words in the text of each section that has any.
    keywords: BTreeMap<String, usize>,
    /// Sections whose key words have no entries, because they bind somebody else, such as routers.
    #[serde(default)]
    pub left_out: BTreeMap<String, LeftOut>,
    /// Heading of each section.
    pub sections: BTreeMap<String, String>,
    /// Requirements in the order of the text.
    #[serde(rename = "requirement")]
    pub requirements: Vec<Requirement>,
}

/// A section whose key words have no entries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LeftOut {
    /// Number of key words in the text of the section.
    pub keywords: usize,
    /// Reason why they have no entries.
    pub reason: String,
}

/// A requirement: a key word of an RFC and its subject.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Requirement {
    /// Section and ordinal, as in `7.13-2`.
    pub id: String,
    /// The key word.
    pub level: String,
    /// A paraphrase.
    pub says: String,
    /// Reason why no code fulfils the requirement. `None` if code does.
    pub not_done: Option<String>,
    /// A note for the reader.
    pub note: Option<String>,
}

/// Key words of RFC 2119, as the RFCs write them.
const LEVELS: [&str; 8] = [
    "MUST",
    "MUST NOT",
    "SHOULD",
    "SHOULD NOT",
    "RECOMMENDED",
    "NOT RECOMMENDED",
    "MAY",
    "OPTIONAL",
];

impl Requirement {
    /// The section of the requirement.
    #[must_use]
    pub fn section(&self) -> &str {
        self.id.rsplit_once('-').map_or("", |(section, _)| section)
    }

    /// Whether the level is MUST or MUST NOT.
    #[must_use]
    pub fn is_must(&self) -> bool {
        self.level.starts_with("MUST")
    }
}

impl RequirementList {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let list =
            Self::parse(&text_of(path)?).with_context(|| format!("in {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        ensure!(name == list.marker_name(), "{} is about RFC {}", path.display(), list.rfc);
        Ok(list)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let list: Self = toml::from_str(text)?;
        list.check()?;
        Ok(list)
    }

    /// Name of the RFC in markers.
    #[must_use]
    pub fn marker_name(&self) -> String {
        format!("rfc{}", self.rfc)
    }

    /// Checks that ordinals count from 1 without a gap, and that every key word of the text has an entry.
    fn check(&self) -> anyhow::Result<()> {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for requirement in &self.requirements {
            let section = requirement.section();
            let level = requirement.level.as_str();
            ensure!(LEVELS.contains(&level), "{}: {level} is no key word", requirement.id);
            ensure!(self.sections.contains_key(section), "{}: no such section", requirement.id);
            let ordinal = seen.entry(section).or_default();
            *ordinal += 1;
            let expected = format!("{section}-{ordinal}");
            ensure!(
                requirement.id == expected,
                "{} stands where {expected} should",
                requirement.id
            );
        }
        for (section, &count) in &self.keywords {
            let listed = seen.remove(section.as_str()).unwrap_or(0);
            ensure!(listed == count, "section {section} has {count} key words, {listed} listed");
        }
        ensure!(seen.is_empty(), "no key words are counted in {:?}", seen.keys());
        for section in self.left_out.keys() {
            ensure!(self.sections.contains_key(section), "{section}: no such section");
            ensure!(!self.keywords.contains_key(section), "{section} is left out and has entries");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
        rfc = 9999
        title = "Example"
        keywords = { "1.2" = 2 }
        sections = { "1" = "One", "1.2" = "One and two", "1.10" = "One and ten" }
        requirement = [
            { id = "1.2-1", level = "MUST", says = "Do." },
            { id = "1.2-2", level = "SHOULD NOT", says = "Do not.", not-done = "We do." },
        ]
    "#;

    fn error(text: &str) -> String {
        RequirementList::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_list_that_fits_its_counts_is_taken() {
        let list = RequirementList::parse(LIST).unwrap();
        assert_eq!(list.marker_name(), "rfc9999");
        assert!(list.requirements[0].is_must() && !list.requirements[1].is_must());
        assert_eq!(list.requirements[1].section(), "1.2");
    }

    #[test]
    fn a_key_word_without_an_entry_is_an_error() {
        let text = LIST.replace(r#""1.2" = 2"#, r#""1.2" = 3"#);
        assert_eq!(error(&text), "section 1.2 has 3 key words, 2 listed");
    }

    #[test]
    fn an_entry_that_nobody_counted_is_an_error() {
        let text = LIST.replace(r#""1.2" = 2"#, "");
        assert_eq!(error(&text), r#"no key words are counted in ["1.2"]"#);
    }

    #[test]
    fn a_word_that_is_no_key_word_is_an_error() {
        let text = LIST.replace("SHOULD NOT", "OUGHT");
        assert_eq!(error(&text), "1.2-2: OUGHT is no key word");
    }

    #[test]
    fn ordinals_leave_no_hole() {
        let text = LIST.replace("1.2-2", "1.2-3");
        assert_eq!(error(&text), "1.2-3 stands where 1.2-2 should");
    }

    #[test]
    fn a_section_is_left_out_or_has_entries() {
        let left_out = |section: &str| {
            let line =
                format!(r#"left-out."{section}" = {{ keywords = 4, reason = "For routers." }}"#);
            LIST.replace("requirement =", &format!("{line}\n        requirement ="))
        };
        let list = RequirementList::parse(&left_out("1.10")).unwrap();
        assert_eq!(list.left_out["1.10"].keywords, 4);
        assert_eq!(error(&left_out("1.2")), "1.2 is left out and has entries");
        assert_eq!(error(&left_out("1.3")), "1.3: no such section");
    }

    #[test]
    fn a_section_that_is_not_there_is_an_error() {
        let text = LIST.replace("1.2-2", "1.3-1");
        assert_eq!(error(&text), "1.3-1: no such section");
    }
}
