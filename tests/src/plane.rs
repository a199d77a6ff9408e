//! Vectors of the data plane contract, and the player for `proto/plane`.

mod case;
mod play;

pub use case::{Case, Check, CountersText, Hook, Input, PathCountersText, Step};
pub use play::play;

/// The cases of every vector file, those first that come first by file name.
///
/// # Panics
/// If the folder or a file cannot be read: the tests would pass without having tested anything.
#[must_use]
pub fn cases() -> Vec<(String, Case)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/plane");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("tests/vectors/plane is in the repository")
        .map(|entry| entry.expect("readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("readable file");
        let file: Vec<Case> =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        cases.extend(file.into_iter().map(|case| (name.clone(), case)));
    }
    cases
}
