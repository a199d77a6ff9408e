//! A failure under one system.

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{Case, PeerFlow};
use crate::experiment::pool::Trial;
use crate::experiment::recovery::{Flow, Scene, Silence, await_recovery, segments_sent_again};
use crate::topology::Impairment;
use crate::workload::{Carriage, Direction, Gap};

/// Outcome of a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Time to recover. `None` without a recovery.
    pub(super) recovery: Option<Duration>,
    /// Octets lost. `None` without a recovery.
    pub(super) bytes_lost: Option<u64>,
    /// Datagrams lost, or segments sent again.
    pub(super) packets_lost: u64,
    pub(super) configuration_lines: usize,
    /// Earlier runs of this trial in which traffic had moved before the failure, so that the failure did not affect it.
    pub(super) false_alarms: u64,
}

pub(super) fn run(trial: &Trial<Case>) -> anyhow::Result<Outcome> {
    for false_alarms in 0..ATTEMPTS {
        if let Some(outcome) = attempt(trial)? {
            return Ok(Outcome { false_alarms, ..outcome });
        }
    }
    bail!("{trial:?}: traffic moved before the failure {ATTEMPTS} times");
}

/// Runs a trial once. `None` if a false alarm came before the failure.
fn attempt(trial: &Trial<Case>) -> anyhow::Result<Option<Outcome>> {
    let cables = Impairment { seed: trial.seed, ..Impairment::delay(trial.rtt / 2) };
    let (mut scene, configuration_lines) = trial.system.set_up(cables, trial.send_timeout)?;
    let flow = start(&scene, trial)?;
    scene.settle(&flow, trial.seed)?;
    let sender = scene.ends[0].namespace.clone();
    let before = segments_sent_again(&sender)?;
    let Some(cut) = scene.silence()? else { return Ok(None) };
    let silence = Silence {
        least: LEAST_SILENCE,
        stragglers: trial.rtt / 2 + STRAGGLERS,
        limit: trial.limit,
    };
    let gap = await_recovery(&flow.arrivals(), cut, silence)
        .with_context(|| format!("{trial:?}: {}", scene.logs()))?;
    let recovery = gap.as_ref().map(Gap::length);
    let again = segments_sent_again(&sender)?.saturating_sub(before);
    // A transfer checks that each octet is the next one. So a transfer that recovered has lost nothing.
    let octets = if matches!(flow, Flow::Tcp(_)) { 0 } else { MESSAGE as u64 };
    let packets_lost = match flow.lost(again) {
        // A transfer that did not recover may break.
        Err(_) if recovery.is_none() => again,
        lost => lost?,
    };
    let bytes_lost = recovery.map(|_| octets * packets_lost);
    let outcome =
        Outcome { recovery, bytes_lost, packets_lost, configuration_lines, false_alarms: 0 };
    Ok(Some(outcome))
}

fn start(scene: &Scene, case: &Case) -> anyhow::Result<Flow> {
    let (rate, chunk) = match case.flow {
        PeerFlow::Bulk => (BULK, BULK_CHUNK),
        PeerFlow::Messages => (u64::from(PER_SECOND) * MESSAGE as u64, MESSAGE),
        PeerFlow::Datagrams => {
            return scene.datagrams(Direction::BothWays, PER_SECOND, MESSAGE);
        }
    };
    scene.transfer(rate, Carriage { protocol: case.system.protocol(), chunk })
}

/// Longer than any gap of these flows on a machine with some load, and shorter than a retransmission timeout.
const LEAST_SILENCE: Duration = Duration::from_millis(100);
/// Allowance for a busy machine.
const STRAGGLERS: Duration = Duration::from_millis(20);
/// Rate in octets a second.
const BULK: u64 = 2_000_000;
const BULK_CHUNK: usize = 8 * 1024;
const PER_SECOND: u32 = 50;
/// Most runs of a trial. A run with a false alarm is repeated.
const ATTEMPTS: u64 = 5;
/// Octets of a message or a datagram.
const MESSAGE: usize = 100;
