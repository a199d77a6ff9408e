use super::*;

fn table(table: u32) -> Record {
    Record::Table { table, protocol: 139 }
}

fn records() -> Vec<Record> {
    vec![
        Record::Rules { base: 5530, protocol: 139 },
        table(5530),
        Record::Link { name: "moor0".into(), peer: "moor1".into() },
        Record::Address { ifindex: 3, address: "2001:db8::1".parse().unwrap(), prefix_len: 64 },
    ]
}

#[test]
fn changes_are_on_disk_as_soon_as_recorded_and_gone_when_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/journal.json");
    let mut journal = Journal::open(&path).unwrap();
    for record in records() {
        journal.record(record).unwrap();
        assert_eq!(Journal::open(&path).unwrap().changes(), journal.changes());
    }
    assert_eq!(journal.changes(), records());
    for record in records() {
        journal.forget(&record).unwrap();
    }
    assert!(!path.exists(), "an empty journal leaves no file");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn a_change_recorded_twice_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path().join("journal.json")).unwrap();
    journal.record(table(5530)).unwrap();
    journal.record(table(5530)).unwrap();
    assert_eq!(journal.changes().len(), 1);
}

#[test]
fn changes_of_another_boot_or_namespace_are_left_out() {
    for key in ["boot", "namespace"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.json");
        Journal::open(&path).unwrap().record(table(5530)).unwrap();
        let mut document: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        document[key] = "another".into();
        fs::write(&path, document.to_string()).unwrap();
        assert!(Journal::open(&path).unwrap().changes().is_empty(), "{key}");
    }
}

#[test]
fn what_is_no_journal_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.json");
    for text in ["", "{", "[]", r#"{"version":1}"#] {
        fs::write(&path, text).unwrap();
        let error = Journal::open(&path).unwrap_err();
        assert!(matches!(error, Error::JournalMalformed { .. }), "{text}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.json");
    let mut document = Document::here();
    document.version = VERSION + 1;
    fs::write(&path, serde_json::to_vec(&document).unwrap()).unwrap();
    assert!(matches!(Journal::open(&path), Err(Error::JournalMalformed { .. })));
}

#[test]
fn what_cannot_be_written_is_not_taken_for_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let blocker = folder.path().join("file");
    fs::write(&blocker, "").unwrap();
    let mut journal = Journal { path: blocker.join("journal.json"), document: Document::here() };
    assert!(matches!(journal.record(table(5530)), Err(Error::JournalUnwritable { .. })));
    assert!(journal.changes().is_empty());
}
