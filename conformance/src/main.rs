//! Writes `docs/conformance.md` from the lists and the markers.
#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use moorline_conformance::{PAGE, Record, repository};

fn main() -> anyhow::Result<ExitCode> {
    let root = repository();
    let record = Record::read(&root)?;
    let path = root.join(PAGE);
    fs::write(&path, record.page()).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = std::io::stderr().lock();
    let wrong = [record.problems.clone(), record.gaps()].concat();
    for problem in &wrong {
        writeln!(out, "{problem}")?;
    }
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
