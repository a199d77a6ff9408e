//! Run time of the daemon's programs, as the kernel counts it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::daemon::Daemon;
use crate::netns::output;
use crate::{interrupt, preflight, sweep};

/// Makes the kernel count run times while the value lives. The setting is kernel-wide, and a drop restores it. A lock
/// makes a second process wait, because it would take the changed setting for the original. A file keeps the original,
/// so that the guardian of a lab can restore it after a crash.
#[derive(Debug)]
pub(super) struct Counting {
    before: String,
    /// Holds the lock.
    _setting: File,
}

impl Counting {
    /// Starts the count. `None` if the kernel cannot count, or bpftool is missing.
    pub(super) fn start() -> Option<Self> {
        preflight::find_program(BPFTOOL)?;
        let setting = File::open(SETTING).ok()?;
        let lock = || Ok(setting.try_lock().is_ok().then_some(()));
        interrupt::wait_for("others who count run times", WAIT_LIMIT, lock).ok()?;
        let before = fs::read_to_string(sweep::KEPT_SETTING);
        let before = before.or_else(|_| fs::read_to_string(SETTING)).ok()?;
        fs::write(sweep::KEPT_SETTING, &before).ok()?;
        let counting = Self { before, _setting: setting };
        fs::write(SETTING, "1").ok()?;
        Some(counting)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if fs::write(SETTING, &self.before).is_ok() {
            let _ = fs::remove_file(sweep::KEPT_SETTING);
        }
    }
}

/// Runs of programs and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) count: u64,
    pub(super) nanos: u64,
}

impl Runs {
    /// A single run.
    pub(super) fn one(time: Duration) -> Self {
        Self { count: 1, nanos: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, nanos: self.nanos + other.nanos }
    }

    /// The runs after `before`.
    pub(super) fn since(self, before: Self) -> Self {
        let count = self.count.saturating_sub(before.count);
        Self { count, nanos: self.nanos.saturating_sub(before.nanos) }
    }

    /// Mean nanoseconds of a run. `None` without a run.
    pub(super) fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.nanos as f64 / self.count as f64)
    }
}

/// A daemon's ILNP programs of one kind.
#[derive(Debug)]
pub(super) struct Programs {
    /// Files in `fdinfo` with the counters, one for each program.
    files: Vec<PathBuf>,
}

impl Programs {
    /// Programs whose names begin with `name`: [`INGRESS`] or [`EGRESS`]. `None` if the kernel does not count.
    pub(super) fn of(daemon: &Daemon, name: &str) -> Option<Self> {
        let said = output(Command::new(BPFTOOL).args(["-j", "prog", "show"])).ok()?;
        let own = named(&said, name)?;
        let files = fs::read_dir(format!("/proc/{}/fdinfo", daemon.id())).ok()?;
        // The descriptor of a link shows the program's id, too, but has no counters.
        let is_own = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap_or_default();
            runs(&text).and(number(&text, "prog_id")).is_some_and(|id| own.contains(&id))
        };
        let files: Vec<_> = files.flatten().map(|file| file.path()).filter(is_own).collect();
        (!files.is_empty()).then_some(Self { files })
    }

    /// Runs so far.
    pub(super) fn runs(&self) -> Option<Runs> {
        let of = |path: &PathBuf| runs(&fs::read_to_string(path).ok()?);
        let each = self.files.iter().map(of).collect::<Option<Vec<_>>>()?;
        each.into_iter().reduce(Runs::plus)
    }
}

/// Ids of the programs whose names begin with `name`.
fn named(json: &str, name: &str) -> Option<BTreeSet<u64>> {
    let programs: Vec<Value> = serde_json::from_str(json).ok()?;
    let is_one =
        |program: &&Value| program["name"].as_str().is_some_and(|its| its.starts_with(name));
    Some(programs.iter().filter(is_one).filter_map(|program| program["id"].as_u64()).collect())
}

/// Parses the counters of a file in `fdinfo`.
fn runs(text: &str) -> Option<Runs> {
    Some(Runs { count: number(text, "run_cnt")?, nanos: number(text, "run_time_ns")? })
}

fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

const BPFTOOL: &str = "bpftool";
/// The setting that makes the kernel count. `sweep.sh` names the setting, too.
const SETTING: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Longer than the few minutes of an experiment.
const WAIT_LIMIT: Duration = Duration::from_secs(600);
/// Names of the programs for incoming packets begin with this.
pub(super) const INGRESS: &str = "ilnp_ingress";
/// Names of the programs for outgoing packets begin with this. Names of programs have at most 15 characters.
pub(super) const EGRESS: &str = "ilnp_egress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_their_runs_read_from_descriptors() {
        let json = r#"[{"id":7,"name":"ilnp_ingress"},{"id":8,"name":"ilnp_ingress_l3"},
            {"id":10,"name":"ilnp_egress"},{"id":11,"name":"uplink_ingress"},{"id":12}]"#;
        assert_eq!(named(json, INGRESS), Some(BTreeSet::from([7, 8])));
        assert_eq!(named(json, EGRESS), Some(BTreeSet::from([10])));
        assert_eq!(named("nonsense", INGRESS), None);
        let text = "pos:\t0\nprog_id:\t118695\nrun_time_ns:\t600\nrun_cnt:\t4\n";
        assert_eq!(number(text, "prog_id"), Some(118_695));
        let all = runs(text).unwrap();
        assert_eq!(all.mean(), Some(150.0));
        let since = |before| all.plus(all).since(before).mean();
        assert_eq!((since(all), since(all.plus(all))), (Some(150.0), None));
        assert_eq!(runs("prog_type:\t3\n"), None);
    }

    #[test]
    fn what_a_killed_one_has_set_is_put_back_by_the_guardian_or_the_next_one() {
        let start = || {
            let counting = Counting::start()?;
            let before = counting.before.clone();
            // If a process is killed, it runs no drop, and its lock ends.
            counting._setting.unlock().unwrap();
            std::mem::forget(counting);
            assert_eq!(fs::read_to_string(SETTING).unwrap().trim(), "1");
            Some(before)
        };
        let Some(before) = start() else { return eprintln!("SKIPPED: the kernel does not count") };
        drop(sweep::Guardian::start(&sweep::directory(&sweep::next_name()), &[]).unwrap());
        assert_eq!(fs::read_to_string(SETTING).unwrap(), before);
        start().unwrap();
        drop(Counting::start().unwrap());
        assert_eq!(fs::read_to_string(SETTING).unwrap(), before);
        assert!(!std::path::Path::new(sweep::KEPT_SETTING).exists());
    }
}
