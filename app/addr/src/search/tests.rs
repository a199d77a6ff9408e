use super::*;
use crate::{Request, SetKey};
use moorline_cga::{verify_cga, verify_hba};
use std::fs;

const A: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
const B: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0];

fn run(search: &Search) -> Found {
    search.run(&AtomicBool::new(false), |_| ()).unwrap()
}

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn set(sec: Sec) -> Job {
    Job::new(true, vec![A, B], SetKey::Random([7; 48]), sec, [9; 16]).unwrap()
}

fn request(seed: u8) -> Request {
    Request {
        prefixes: vec![A, B],
        hba: true,
        key: None,
        sec: Sec::ONE,
        start: None,
        seed: Some([seed; 32]),
        shard: Shard::WHOLE,
    }
}

#[test]
fn threads_and_engines_do_not_change_the_result() {
    let search = Search::new(set(Sec::ONE), Shard::WHOLE);
    let first = run(&Search { threads: threads(1), ..search.clone() });
    let Addresses::Hba(made) = &first.addresses else { panic!("not a set") };
    for member in made.members() {
        assert_eq!(verify_hba(member.address(), made.pds()), Ok(()));
        assert_eq!(verify_cga(member.address(), member.pds()), Ok(()));
    }
    assert!(first.tries > first.offset);
    for engine in Engine::available() {
        let again = run(&Search { threads: threads(5), engine, ..search.clone() });
        assert_eq!((again.offset, &again.addresses), (first.offset, &first.addresses));
    }
}

#[test]
fn the_least_of_all_shards_is_the_result_of_the_whole() {
    for seed in 0..8 {
        let whole = run(&request(seed).resolve(None).unwrap());
        let offsets = (0..3).map(|index| {
            let shard = Shard::new(index, 3).unwrap();
            run(&Request { shard, ..request(seed) }.resolve(None).unwrap()).offset
        });
        assert_eq!(offsets.min(), Some(whole.offset), "seed {seed}");
    }
}

#[test]
fn sec_0_is_the_start() {
    let found = run(&Search::new(set(Sec::ZERO), Shard::WHOLE));
    assert_eq!(found.offset, 0);
    assert_eq!(found.addresses.params()[..16], [9; 16]);
}

#[test]
fn an_interrupted_search_goes_on_and_finds_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let expected = run(&request(3).resolve(None).unwrap());
    // The flag is set before the run starts, so each run ends after about one chunk.
    let interrupted = request(3).resolve(Some(&path)).unwrap();
    let error = interrupted.run(&AtomicBool::new(true), |_| ()).unwrap_err();
    assert!(matches!(error, Error::Cancelled { tries: 0 }), "{error}");
    let before = fs::read_to_string(&path).unwrap();
    assert!(before.contains("\"chunks-done\": 0"), "{before}");
    // State of a search that was interrupted later, in the chunk before the last.
    let chunks = expected.offset / interrupted.chunk_tries();
    assert!(chunks > 1);
    let later = before.replace("\"chunks-done\": 0", &format!("\"chunks-done\": {}", chunks - 1));
    fs::write(&path, later).unwrap();
    let search = request(3).resolve(Some(&path)).unwrap();
    assert_eq!(search.tries_before(), (chunks - 1) * search.chunk_tries());
    let found = run(&Search { threads: threads(1), ..search });
    assert_eq!((found.offset, found.addresses), (expected.offset, expected.addresses.clone()));
    assert_eq!(found.tries, 2 * interrupted.chunk_tries());
    // A further run has no work left.
    let again = run(&request(3).resolve(Some(&path)).unwrap());
    assert_eq!((again.offset, again.tries), (expected.offset, 0));
    assert_eq!(again.addresses, expected.addresses);
}

#[test]
fn a_cancelled_search_ends() {
    let search = Search { threads: threads(2), ..Search::new(set(Sec::TWO), Shard::WHOLE) };
    let cancel = AtomicBool::new(false);
    let mut seen = 0;
    let result = search.run(&cancel, |progress| {
        seen += 1;
        assert!((0.0..1.0).contains(&progress.probability));
        cancel.store(true, Ordering::Relaxed);
    });
    // A very fast machine may find the modifier before the search reads the flag.
    if let Err(error) = result {
        assert!(matches!(error, Error::Cancelled { tries } if tries > 0), "{error}");
        assert!(seen > 0);
    }
}

#[test]
fn a_state_that_cannot_be_saved_is_told_before_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none/state");
    let search = Search { state: Some(path.clone()), ..Search::new(set(Sec::TWO), Shard::WHOLE) };
    let error = search.run(&AtomicBool::new(false), |_| ()).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
}
