use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Paths in a folder, sorted by name.
pub(crate) fn paths_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let say = || format!("cannot read {}", folder.display());
    let entries = fs::read_dir(folder).with_context(say)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>().with_context(say)?;
    paths.sort();
    Ok(paths)
}

/// Content of a text file.
pub(crate) fn text_of(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
