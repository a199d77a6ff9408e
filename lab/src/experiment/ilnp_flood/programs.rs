//! What the programs of a daemon take a packet, as the kernel counts it.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::daemon::Daemon;
use crate::netns::output;
use crate::preflight;

/// Run times are counted as long as this lives. That is a setting of the whole kernel: it is put back.
#[derive(Debug)]
pub(super) struct Counting {
    before: String,
}

impl Counting {
    /// `None` if the kernel does not count, or nobody can read it out.
    pub(super) fn start() -> Option<Self> {
        preflight::find_program(BPFTOOL)?;
        let before = fs::read_to_string(SETTING).ok()?;
        fs::write(SETTING, "1").ok()?;
        Some(Self { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = fs::write(SETTING, &self.before);
    }
}

/// Runs of a daemon's ILNP programs for what comes in, and their nanoseconds.
pub(super) fn ingress(daemon: &Daemon) -> Option<(u64, u64)> {
    let said = output(Command::new(BPFTOOL).args(["-j", "prog", "show"])).ok()?;
    sum(&said, &held_by(daemon.id()))
}

/// Numbers of the programs that a process holds.
fn held_by(pid: u32) -> BTreeSet<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    texts.filter_map(|text| text.lines().find_map(program_id)).collect()
}

fn program_id(line: &str) -> Option<u64> {
    line.strip_prefix("prog_id:")?.trim().parse().ok()
}

fn sum(json: &str, held: &BTreeSet<u64>) -> Option<(u64, u64)> {
    let programs: Vec<Value> = serde_json::from_str(json).ok()?;
    let is_its = |program: &&Value| {
        program["name"].as_str().is_some_and(|name| name.starts_with(INGRESS))
            && program["id"].as_u64().is_some_and(|id| held.contains(&id))
    };
    let number = |program: &Value, name: &str| program[name].as_u64().unwrap_or(0);
    programs
        .iter()
        .filter(is_its)
        .map(|program| (number(program, "run_cnt"), number(program, "run_time_ns")))
        .reduce(|(runs, nanos), one| (runs + one.0, nanos + one.1))
}

const BPFTOOL: &str = "bpftool";
const SETTING: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Names of programs have 15 characters.
const INGRESS: &str = "ilnp_ingress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_daemons_own_programs_for_what_comes_in_count() {
        let json = r#"[
            {"id":7,"name":"ilnp_ingress","run_cnt":5,"run_time_ns":500},
            {"id":8,"name":"ilnp_ingress_l3","run_cnt":2,"run_time_ns":100},
            {"id":9,"name":"ilnp_ingress","run_cnt":9,"run_time_ns":900},
            {"id":10,"name":"ilnp_egress","run_cnt":9,"run_time_ns":900},
            {"id":11,"name":"uplink_ingress"}]"#;
        assert_eq!(sum(json, &BTreeSet::from([7, 8, 10, 11])), Some((7, 600)));
        assert_eq!(sum(json, &BTreeSet::from([10])), None);
        assert_eq!(sum("nonsense", &BTreeSet::from([7])), None);
        assert_eq!(program_id("prog_id:\t118695"), Some(118_695));
        assert_eq!(program_id("prog_type:\t3"), None);
    }
}
