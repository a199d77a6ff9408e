mod world;

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::experiment::options::{as_seconds, span};
use world::World;

/// Time until the contexts of a site have left an ISP that failed, and the probes it took.
///
/// On a virtual clock, so it takes seconds.
// The site has contexts to as many peers, all by one of its two ISPs, and that ISP fails.
#[derive(Clone, Debug, Args, Serialize)]
pub struct IspLoss {
    /// Contexts, each with a peer of its own.
    // Each has one flow: requests of the site, answered at once.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub contexts: u32,
    /// Send Timeout of both sides.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    #[serde(rename = "send_timeout_s", serialize_with = "as_seconds")]
    pub send_timeout: Duration,
    /// Round-trip time.
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = span)]
    #[serde(rename = "round_trip_s", serialize_with = "as_seconds")]
    pub round_trip: Duration,
    /// Between two requests of a flow.
    #[arg(skip = Duration::from_millis(500))]
    #[serde(rename = "period_s", serialize_with = "as_seconds")]
    pub period: Duration,
    /// Whether the site sees its uplink fail; if not, packets are lost without a word.
    #[arg(skip)]
    #[serde(skip)]
    pub is_noticed: bool,
    /// Longest time that is looked at.
    #[arg(skip = Duration::from_secs(120))]
    #[serde(rename = "limit_s", serialize_with = "as_seconds")]
    pub limit: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct IspLossOutcome {
    /// For each context that moved, from the loss to the first answer by the other ISP; ascending.
    pub moved: Vec<Duration>,
    /// When probes left the site after the loss, ascending.
    pub site_probes: Vec<Duration>,
    /// The same of all peers together.
    pub peer_probes: Vec<Duration>,
}

impl IspLossOutcome {
    /// Time until this part of `contexts` had moved.
    #[must_use]
    pub fn moved_by(&self, contexts: u32, per_cent: u32) -> Option<Duration> {
        let needed = (u64::from(contexts) * u64::from(per_cent)).div_ceil(100);
        let index = usize::try_from(needed.saturating_sub(1)).ok()?;
        self.moved.get(index).copied()
    }

    /// Most probes that the site sent in any one second that begins with a probe.
    #[must_use]
    pub fn most_probes_in_a_second(&self) -> usize {
        let second = Duration::from_secs(1);
        let probes = &self.site_probes;
        let in_second = |(from, &at): (usize, &Duration)| {
            probes.partition_point(|&other| other < at + second) - from
        };
        probes.iter().enumerate().map(in_second).max().unwrap_or(0)
    }
}

/// Plays it on a virtual clock: the machines of all hosts, and a network that only takes time.
///
/// # Errors
/// The contexts could not be made, or a signal came.
pub fn isp_loss(plan: &IspLoss) -> anyhow::Result<IspLossOutcome> {
    let mut world = World::new(plan)?;
    world.establish()?;
    world.lose();
    world.run(plan.limit)?;
    Ok(world.into_outcome())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> IspLoss {
        IspLoss {
            contexts: 20,
            send_timeout: Duration::from_secs(1),
            limit: Duration::from_secs(20),
            ..IspLoss::default()
        }
    }

    #[test]
    fn all_move_after_the_send_timeout_and_not_before() {
        let outcome = isp_loss(&plan()).unwrap();
        assert_eq!(outcome.moved.len(), 20);
        assert!(outcome.moved_by(20, 1) > Some(Duration::from_millis(500)), "{outcome:?}");
        assert!(outcome.site_probes.len() >= 20, "{outcome:?}");
        assert!(outcome.most_probes_in_a_second() >= 1);
    }

    #[test]
    fn a_loss_that_is_noticed_takes_no_timeout() {
        let outcome = isp_loss(&IspLoss { is_noticed: true, ..plan() }).unwrap();
        assert_eq!(outcome.moved.len(), 20);
        assert!(outcome.moved_by(20, 50) < Some(Duration::from_secs(1)), "{outcome:?}");
        assert_eq!(outcome.moved_by(20, 100), outcome.moved.last().copied());
    }

    #[test]
    fn contexts_that_have_not_moved_have_no_time() {
        let outcome = isp_loss(&IspLoss { limit: Duration::from_millis(10), ..plan() }).unwrap();
        assert_eq!(outcome.moved_by(20, 50), None);
    }
}
