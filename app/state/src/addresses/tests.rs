use moorline_types::Instant;

use super::*;
use crate::Moment;

const AT: Moment = Moment { now: Instant::ZERO, unix_s: 0 };

fn save(files: &Folder, generation: u32) {
    files.save_addresses(&SavedAddresses::new(generation, std::iter::empty(), AT)).unwrap();
}

/// The generation of the file that is taken, and whether a person is told of damage.
fn load(files: &Folder) -> (Option<u32>, bool) {
    let loaded = files.load_addresses(|saved| Ok(saved.generation)).unwrap();
    assert!(!loaded.is_older || loaded.damage.is_some());
    (loaded.value, loaded.damage.is_some())
}

#[test]
fn a_file_of_addresses_with_any_wrong_octet_gives_way_to_the_file_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::open(folder.path()).unwrap();
    save(&files, 1);
    save(&files, 2);
    let whole = fs::read(files.place(ADDRESSES)).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(files.place(ADDRESSES), damaged).unwrap();
        assert_eq!(load(&files), (Some(1), true), "octet {at}");
        assert_eq!(load(&files), (Some(1), false), "and at the next start, octet {at}");
    }
    save(&files, 3);
    assert_eq!(load(&files), (Some(3), false), "it is written anew");
    fs::write(files.place(ADDRESSES), "{").unwrap();
    assert_eq!(load(&files), (Some(1), true), "what was damaged is not kept as the file before");
}

#[test]
fn a_file_before_that_cannot_be_read_now_is_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::open(folder.path()).unwrap();
    save(&files, 1);
    save(&files, 2);
    fs::write(files.place(ADDRESSES), "{").unwrap();
    let (before, away) = (files.place(BEFORE), folder.path().join("away"));
    fs::rename(&before, &away).unwrap();
    fs::create_dir(&before).unwrap();
    let loaded = files.load_addresses(|_| Ok(()));
    assert!(loaded.is_err(), "the start fails: {loaded:?}");
    fs::remove_dir(&before).unwrap();
    fs::rename(&away, &before).unwrap();
    assert_eq!(load(&files), (Some(1), true), "and the next start finds all as it was");
}

#[test]
fn without_a_whole_file_there_are_no_addresses_and_a_removed_one_comes_not_back() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::open(folder.path()).unwrap();
    assert_eq!(load(&files), (None, false));
    fs::write(files.place(ADDRESSES), "{").unwrap();
    assert_eq!(load(&files), (None, true));
    save(&files, 1);
    save(&files, 2);
    fs::remove_file(files.place(ADDRESSES)).unwrap();
    assert_eq!(load(&files), (None, false));
    save(&files, 3);
    fs::write(files.place(ADDRESSES), "{").unwrap();
    assert_eq!(load(&files), (None, true), "addresses from before the removal");
}

/// A save that was under way when its host ended meets the saves of the next host.
#[test]
fn of_two_saves_at_once_each_leaves_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::open(folder.path()).unwrap();
    save(&files, 0);
    let saves = |first: u32| {
        let files = &files;
        move || (first..first + 100).for_each(|generation| save(files, generation))
    };
    std::thread::scope(|scope| {
        let writers = [1000, 2000].map(|first| scope.spawn(saves(first)));
        while writers.iter().any(|writer| !writer.is_finished()) {
            let (generation, is_damaged) = load(&files);
            assert!(generation.is_some() && !is_damaged);
        }
    });
    assert!(matches!(load(&files), (Some(1099 | 2099), false)));
    // The file before is a whole one, too.
    fs::write(files.place(ADDRESSES), "{").unwrap();
    assert!(matches!(load(&files), (Some(1000..), true)));
    let left = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(left.count(), 3, "the file, the one before and the damaged one");
}

/// A folder in place of the file stands for all errors that say nothing of the contents.
#[test]
fn a_file_that_cannot_be_read_now_is_not_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::open(folder.path()).unwrap();
    save(&files, 1);
    save(&files, 2);
    let moved = folder.path().join("moved");
    fs::rename(files.place(ADDRESSES), &moved).unwrap();
    fs::create_dir(files.place(ADDRESSES)).unwrap();
    files.load_addresses(|saved| Ok(saved.generation)).unwrap_err();
    fs::remove_dir(files.place(ADDRESSES)).unwrap();
    fs::rename(&moved, files.place(ADDRESSES)).unwrap();
    assert_eq!(load(&files), (Some(2), false));
    let lost = |number: Errno| anyhow::Error::new(io::Error::from(number)).context("addresses");
    assert_eq!([Errno::IO, Errno::MFILE].map(|number| is_of_process(&lost(number))), [false, true]);
}

#[test]
fn files_of_earlier_versions_have_no_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::open(folder.path()).unwrap();
    let saved = SavedAddresses::new(7, std::iter::empty(), AT);
    fs::write(files.place(ADDRESSES), serde_json::to_vec(&saved).unwrap()).unwrap();
    assert_eq!(load(&files), (Some(7), false));
}
