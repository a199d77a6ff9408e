use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Finds another program of Moorline. A program in the folder of this program comes before programs on PATH.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    find(name, own.as_deref(), env::var_os("PATH").as_deref())
}

fn find(name: &str, own: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let on_path = path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    beside
        .into_iter()
        .chain::<Vec<_>>(on_path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir};

    #[test]
    fn a_program_beside_comes_first_then_the_path_then_none() {
        let dir = tempfile::tempdir().unwrap();
        let [beside, first, second] = ["beside", "first", "second"].map(|name| {
            let folder = dir.path().join(name);
            create_dir(&folder).unwrap();
            folder
        });
        let own = beside.join("moorline");
        let path = env::join_paths([&first, &second]).unwrap();
        let found = || find("moorlined", Some(&own), Some(&path));

        assert_eq!(found(), None);
        File::create(second.join("moorlined")).unwrap();
        assert_eq!(found(), Some(second.join("moorlined")));
        File::create(beside.join("moorlined")).unwrap();
        assert_eq!(found(), Some(beside.join("moorlined")));
        assert_eq!(find("moorlined", None, None), None);
    }
}
