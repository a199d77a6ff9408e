//! Processors of hosts and threads.

use std::fs::File;
use std::io::Write as _;

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::netns::join;

/// A processor for each of two hosts, as if each host were a machine. Both hosts get the same one if there is only one.
///
/// # Errors
/// The system call failed.
pub(crate) fn of_two_hosts() -> anyhow::Result<[usize; 2]> {
    let all = allowed()?;
    let first = *all.first().context("no processor")?;
    Ok([first, all.get(1).copied().unwrap_or(first)])
}

/// Runs `work` on a thread that stays on one processor. Threads and programs that `work` starts stay there, too.
///
/// # Errors
/// The thread could not be started, there is no such processor, or `work` failed.
pub(crate) fn on_processor<T: Send>(
    processor: usize,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let pinned = || {
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).context("one processor")?;
        work()
    };
    std::thread::scope(|scope| join(scope.spawn(pinned).join()))
}

/// Keeps waiting processors out of deep sleep while the value lives. A measurement after a pause then includes no
/// wake-up time of the machine or its hypervisor, and caches stay warm.
#[derive(Debug)]
pub(crate) struct Awake {
    /// The kernel keeps the request while the file is open.
    _latency: File,
}

impl Awake {
    /// Asks the kernel for zero wake-up latency. `None` if the kernel has no such file, or the process is not root.
    #[must_use]
    pub(crate) fn keep() -> Option<Self> {
        let mut latency = File::options().write(true).open(LATENCY).ok()?;
        latency.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Self { _latency: latency })
    }
}

/// The set with this one processor, in the format of `/sys`: words of 32 bits, the highest first.
pub(crate) fn mask(processor: usize) -> String {
    let lower = ",00000000".repeat(processor / 32);
    format!("{:x}{lower}", 1_u32 << (processor % 32))
}

/// The numbers of the processors that this program may use, in order.
fn allowed() -> anyhow::Result<Vec<usize>> {
    let all = sched_getaffinity(None).context("processors")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&number| all.is_set(number)).collect())
}

/// PM QoS file: microseconds that a wake-up may take, for all processors.
const LATENCY: &str = "/dev/cpu_dma_latency";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_one_bit() {
        assert_eq!(
            [0, 1, 31, 33, 64].map(mask),
            ["1", "2", "80000000", "2,00000000", "1,00000000,00000000"]
        );
    }

    #[test]
    fn two_hosts_have_different_processors_and_stay_there() {
        let ([a, b], all) = (of_two_hosts().unwrap(), allowed().unwrap());
        assert_eq!(a < b, all.len() > 1);
        assert_eq!(on_processor(b, allowed).unwrap(), [b]);
    }
}
