//! Resources that a process uses, from `/proc`.

use std::fmt::Display;
use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Resident memory in octets of a process: a number, or `self`.
///
/// # Errors
/// There is no such process.
pub(crate) fn resident(process: impl Display) -> anyhow::Result<u64> {
    let status = read(process, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kib.context("no VmRSS")? * 1024)
}

/// Processor time of a process, of all its threads, in user and kernel mode, in steps of 10 ms.
///
/// # Errors
/// There is no such process.
pub(super) fn processor_time(process: impl Display) -> anyhow::Result<Duration> {
    let stat = read(process, "stat")?;
    // proc_pid_stat(5): the name of the program may have spaces; `utime` and `stime` are fields 14 and 15.
    let (_, behind_name) = stat.rsplit_once(')').context("stat without a name")?;
    let ticks = behind_name.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    let ticks = ticks.sum::<Result<u32, _>>().context("times in stat")?;
    Ok(TICK * ticks)
}

fn read(process: impl Display, file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/{process}/{file}");
    fs::read_to_string(&path).with_context(|| path.clone())
}

/// Unit of times in `stat`: `USER_HZ` is 100 on all processors.
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn a_process_that_works_and_remembers_uses_more() {
        let before = (processor_time("self").unwrap(), resident("self").unwrap());
        let memory = black_box(vec![1_u8; 64 << 20]);
        while processor_time("self").unwrap() < before.0 + 2 * TICK {
            black_box(memory.iter().map(|&octet| u64::from(octet)).sum::<u64>());
        }
        assert!(resident("self").unwrap() > before.1 + (32 << 20));
        assert!(resident("no process").is_err() && processor_time("no process").is_err());
    }
}
