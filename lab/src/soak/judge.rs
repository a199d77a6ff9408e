//! Judge of a soak: the daemon and the honest connection have promises to keep meanwhile.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Report;
use super::speaker::Tally;
use crate::Failure;
use crate::daemon::Daemon;
use crate::experiment::recovery::{Flow, Scene};
use crate::experiment::usage::resident;
use crate::topology::{HOSTS, ISPS, host_address, prefix_of};
use crate::workload::Carriage;

/// Figures of the daemon, and its broken promises.
#[derive(Debug)]
pub(super) struct Judge {
    report: Report,
    process: u32,
}

impl Judge {
    pub(super) fn start(daemon: &Daemon, mut report: Report) -> anyhow::Result<Self> {
        let process = daemon.id();
        report.memory_before_octets = resident(process)?;
        // The daemon is of the same build.
        report.is_debug_build = cfg!(debug_assertions);
        Ok(Self { report, process })
    }

    pub(super) const fn report(&self) -> &Report {
        &self.report
    }

    pub(super) fn into_report(self) -> Report {
        self.report
    }

    /// Looks at the daemon after `elapsed` of the soak.
    ///
    /// # Errors
    /// The daemon does not answer any more.
    pub(super) fn look(
        &mut self,
        daemon: &Daemon,
        elapsed: Duration,
        tally: &Tally,
    ) -> anyhow::Result<()> {
        let asked = Instant::now();
        let status = daemon.status();
        let status =
            status.with_context(|| format!("seed {}: {}", self.report.seed, daemon.tail()))?;
        let answered = asked.elapsed();
        let report = &mut self.report;
        report.seconds = elapsed.as_secs();
        report.packets = tally.packets;
        report.unproved = tally.unproved;
        report.elsewhere = tally.elsewhere;
        report.heard.clone_from(&tally.heard);
        let counts = status.contexts;
        report.most_contexts = report.most_contexts.max(counts.establishing + counts.established);
        let sessions = status.ilnp.map_or(0, |ilnp| ilnp.correspondents);
        report.most_sessions = report.most_sessions.max(sessions);
        for broken in &tally.broken {
            note(&mut report.broken, broken.clone());
        }
        self.judge_memory(elapsed)?;
        self.judge_times(Duration::from_micros(status.longest_turn_us), answered);
        Ok(())
    }

    /// Memory stays below a bound at all times, and hardly grows after the warm-up.
    fn judge_memory(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        let report = &mut self.report;
        let memory = resident(self.process)?;
        report.memory_most_octets = report.memory_most_octets.max(memory);
        let bound = report.memory_before_octets + ROOM_OF_TABLES;
        if memory > bound {
            note(&mut report.broken, format!("memory above {} MiB", bound >> 20));
        }
        if elapsed < WARM_UP {
            return Ok(());
        }
        let warm = *report.memory_warm_octets.get_or_insert(report.memory_most_octets);
        if memory > warm + GROWTH {
            let text =
                format!("memory more than {} MiB above that after the warm-up", GROWTH >> 20);
            note(&mut report.broken, text);
        }
        Ok(())
    }

    /// A debug build is several times slower, so only a release build has limits.
    fn judge_times(&mut self, turn: Duration, answered: Duration) {
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let report = &mut self.report;
        let (at, longest_before) = (report.seconds, report.longest_turn_ms);
        let is_debug_build = report.is_debug_build;
        let mut slow = |text: String| {
            if !is_debug_build && report.slow.len() < MOST_SLOW {
                report.slow.push(format!("{text}, after {at} s"));
            }
        };
        if turn > LONGEST_TURN && millis(turn) > longest_before {
            slow(format!("a turn of the event loop took {:.0} ms", millis(turn)));
        }
        if answered > LONGEST_TURN {
            slow(format!("the status came after {:.0} ms", millis(answered)));
        }
        report.longest_turn_ms = report.longest_turn_ms.max(millis(turn));
        report.longest_status_ms = report.longest_status_ms.max(millis(answered));
    }
}

/// A connection between the two hosts, and the failures that it has to survive.
pub(super) struct Honest {
    flow: Flow,
    is_ilnp: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The next cut comes at this time.
    Whole(Instant),
    /// The ISP of this name has failed at this time.
    Cut(&'static str, Instant),
}

impl Honest {
    /// Starts the connection and waits until it is protected.
    pub(super) fn start(scene: &mut Scene, is_ilnp: bool) -> anyhow::Result<Self> {
        let flow = scene.transfer(RATE, Carriage { chunk: CHUNK, ..Carriage::default() })?;
        scene.settle(&flow, 0)?;
        Ok(Self { flow, is_ilnp, phase: Phase::Whole(Instant::now() + FIRST_CUT) })
    }

    pub(super) const fn is_cut(&self) -> bool {
        matches!(self.phase, Phase::Cut(..))
    }

    /// Cuts the path of the connection from time to time, and repairs it after the connection has recovered.
    pub(super) fn look(&mut self, scene: &Scene, judge: &mut Judge) -> anyhow::Result<()> {
        let now = Instant::now();
        match self.phase {
            Phase::Whole(next) if now < next => {
                let last = self.flow.arrivals().iter().filter_map(|one| one.last()).max();
                if last.is_some_and(|last| now.duration_since(last) > STANDSTILL) {
                    note(&mut judge.report.broken, "the honest connection stands still".into());
                }
            }
            Phase::Whole(_) => {
                let isp = self.isp_in_use(scene)?;
                let at = scene.lab.fail(Failure::Silent { router: isp.into() })?;
                self.phase = Phase::Cut(isp, at);
            }
            Phase::Cut(isp, at) => {
                // Packets that were on their way have arrived by then.
                let goes_on = at + Duration::from_secs(1);
                let last = self.flow.arrivals().iter().filter_map(|one| one.last()).max();
                let is_over = last.is_some_and(|last| last > goes_on);
                if !is_over && now.duration_since(at) < STANDSTILL {
                    return Ok(());
                }
                if is_over {
                    judge.report.cuts += 1;
                } else {
                    note(&mut judge.report.broken, format!("a cut of {isp} was not survived"));
                }
                scene.lab.namespace(isp)?.nft("delete table ip6 cut\n")?;
                self.phase = Phase::Whole(now + NEXT_CUT);
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, judge: &mut Judge) -> anyhow::Result<()> {
        let gaps = self.flow.arrivals().into_iter();
        let gaps = gaps.filter_map(|one| one.longest_gap_after(Instant::now() - LONGEST_SOAK));
        let longest = gaps.map(|gap| gap.length().as_secs_f64()).fold(0.0, f64::max);
        judge.report.longest_gap_s = longest;
        self.flow.lost(0).map(drop)
    }

    /// The ISP of the pair that host A uses for the connection.
    fn isp_in_use(&self, scene: &Scene) -> anyhow::Result<&'static str> {
        let [a, b] = [0, 1].map(|end: usize| scene.ends[end].address);
        let daemon = &scene.daemons[0];
        let local = if self.is_ilnp {
            let all = daemon.ilcc()?.correspondents.into_iter();
            let mut of_pair = all.filter(|one| (one.addresses.local, one.addresses.peer) == (a, b));
            of_pair.next().map(|one| one.via.local)
        } else {
            let mut all = daemon.contexts()?.into_iter();
            all.find(|one| (one.ulid_local, one.ulid_peer) == (a, b)).map(|one| one.locator_local)
        };
        let local = local.with_context(|| {
            format!("the honest connection is not protected any more: {}", daemon.tail())
        })?;
        let is_second = prefix_of(local) == prefix_of(host_address(HOSTS[0], 2));
        Ok(ISPS[usize::from(is_second)])
    }
}

fn note(broken: &mut Vec<String>, text: String) {
    if !broken.contains(&text) {
        broken.push(text);
    }
}

/// Octets a second, and octets of a write.
const RATE: u64 = 200_000;
const CHUNK: usize = 4096;
const FIRST_CUT: Duration = Duration::from_secs(5);
const NEXT_CUT: Duration = Duration::from_secs(30);
/// Longest silence of the honest connection, on a busy machine.
const STANDSTILL: Duration = Duration::from_secs(60);
const LONGEST_SOAK: Duration = Duration::from_secs(60 * 60 * 24 * 7);
/// Room for tables at their caps, as set in the daemon's configuration: 2,048 contexts and 1,024 sessions with 32 locators
/// each, 4,096 pairs without context, and limits by source prefix.
const ROOM_OF_TABLES: u64 = 32 << 20;
/// Growth after the warm-up: what the allocator keeps more of at one time than at another.
const GROWTH: u64 = 4 << 20;
/// Longer than entries of strangers are kept.
const WARM_UP: Duration = Duration::from_secs(15 * 60);
const LONGEST_TURN: Duration = Duration::from_millis(50);
/// Slow turns and answers that are told.
const MOST_SLOW: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_told_of_a_release_build_and_measured_of_a_debug_build() {
        for (is_debug_build, told) in [(false, 2), (true, 0)] {
            let report = Report { is_debug_build, ..Report::default() };
            let mut judge = Judge { report, process: 0 };
            judge.judge_times(Duration::from_millis(70), Duration::from_millis(10));
            judge.judge_times(Duration::from_millis(70), Duration::from_millis(60));
            let report = judge.into_report();
            assert_eq!(report.slow.len(), told, "{report:?}");
            assert_eq!((report.longest_turn_ms, report.longest_status_ms), (70.0, 60.0));
        }
    }
}
