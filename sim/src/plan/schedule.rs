use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::file::{as_text, from_one, is_default};
use super::{Change, Direction, Plan, Port, What};

/// A fault that comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flap {
    /// The fault.
    #[serde(flatten)]
    pub fault: Fault,
    /// Time of the first failure.
    #[serde(with = "as_text")]
    pub from: Duration,
    /// Time from which the fault does not come again; `None` for the end of the run.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub until: Option<Duration>,
    /// Duration of a failure.
    #[serde(with = "as_text")]
    pub down: Duration,
    /// Time between two failures.
    #[serde(with = "as_text")]
    pub up: Duration,
}

/// Kinds of faults that come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// An uplink drops packets silently.
    Silent {
        /// The uplink.
        uplink: Port,
        /// The direction.
        #[serde(default)]
        direction: Direction,
    },
    /// The link of an uplink goes down.
    Carrier {
        /// The uplink.
        uplink: Port,
    },
    /// The addresses of an uplink are gone.
    Address {
        /// The uplink.
        uplink: Port,
    },
    /// An ISP drops every packet.
    Isp {
        /// The ISP.
        #[serde(with = "from_one")]
        isp: usize,
    },
}

impl Plan {
    /// Lets all traffic and all changes begin later.
    pub(crate) fn delayed(mut self, by: Duration) -> Self {
        self.workloads.iter_mut().for_each(|workload| {
            workload.start += by;
            workload.until = workload.until.map(|until| until + by);
        });
        self.changes.iter_mut().for_each(|change| change.at += by);
        self.flaps.iter_mut().for_each(|flap| {
            flap.from += by;
            flap.until = flap.until.map(|until| until + by);
        });
        self.renumberings.iter_mut().for_each(|one| {
            one.at += by;
            one.until = one.until.map(|until| until + by);
        });
        self
    }

    /// Leaves out the changes that cannot happen to host stacks.
    pub(crate) fn without_what_stacks_lack(mut self) -> Self {
        let plan = self.clone();
        self.changes.retain(|change| plan.is_for_its_host(change.what));
        self.flaps.retain(|flap| plan.is_for_its_host(flap.fault.begin()));
        let renumbers = |uplink| plan.is_for_its_host(What::PrefixAdded { uplink });
        self.renumberings.retain(|one| renumbers(one.uplink));
        self
    }
}

impl Fault {
    pub(super) const fn begin(self) -> What {
        match self {
            Self::Silent { uplink, direction } => What::Cut { uplink, direction },
            Self::Carrier { uplink } => What::CarrierDown { uplink },
            Self::Address { uplink } => What::AddressRemoved { uplink },
            Self::Isp { isp } => What::IspDown { isp },
        }
    }

    const fn end(self) -> What {
        match self {
            Self::Silent { uplink, .. } => What::Heal { uplink },
            Self::Carrier { uplink } => What::CarrierUp { uplink },
            Self::Address { uplink } => What::AddressAdded { uplink },
            Self::Isp { isp } => What::IspUp { isp },
        }
    }
}

/// An uplink gets another prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renumbering {
    /// The uplink.
    pub uplink: Port,
    /// Time when the first new prefix comes.
    #[serde(with = "as_text")]
    pub at: Duration,
    /// Time for which the uplink has both prefixes; zero if the old one goes first.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub overlap: Duration,
    /// Interval after which the uplink gets another prefix again; `None` for one renumbering.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub every: Option<Duration>,
    /// Time from which no prefix comes any more; `None` for the end of the run.
    #[serde(with = "as_text", default, skip_serializing_if = "is_default")]
    pub until: Option<Duration>,
}

impl Plan {
    /// All changes in order of time. At equal times [`Plan::changes`] come first, then flaps, then renumberings.
    #[must_use]
    pub fn schedule(&self) -> Vec<Change> {
        let mut schedule = self.changes.clone();
        self.flaps.iter().for_each(|flap| flap.add_to(&mut schedule, self.duration));
        for renumbering in &self.renumberings {
            renumbering.add_to(&mut schedule, self.duration);
        }
        // The sort is stable: of equal times the first entry stays first.
        schedule.sort_by_key(|change| change.at);
        schedule.retain(|change| change.at <= self.duration);
        schedule
    }
}

impl Flap {
    fn add_to(&self, schedule: &mut Vec<Change>, end: Duration) {
        let until = self.until.map_or(end, |until| until.min(end));
        // A loop with a period of zero would not end.
        let period = (self.down + self.up).max(LEAST_PERIOD);
        let mut at = self.from;
        while at < until && schedule.len() < MAX_CHANGES {
            schedule.push(Change { at, what: self.fault.begin() });
            schedule.push(Change { at: at + self.down, what: self.fault.end() });
            at += period;
        }
    }
}

impl Renumbering {
    fn add_to(&self, schedule: &mut Vec<Change>, end: Duration) {
        let until = self.until.map_or(end, |until| until.min(end));
        let mut at = self.at;
        while at < until && schedule.len() < MAX_CHANGES {
            let new = Change { at, what: What::PrefixAdded { uplink: self.uplink } };
            let old = Change {
                at: at + self.overlap,
                what: What::PrefixWithdrawn { uplink: self.uplink },
            };
            schedule.extend(if self.overlap.is_zero() { [old, new] } else { [new, old] });
            let Some(every) = self.every else { return };
            at += every.max(LEAST_PERIOD);
        }
    }
}

/// Shortest period of a flap.
const LEAST_PERIOD: Duration = Duration::from_millis(10);
/// Largest number of changes of a plan: one every second for a day.
pub(super) const MAX_CHANGES: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: Port = Port { host: 0, uplink: 1 };

    fn plan() -> Plan {
        Plan::pair(Duration::from_secs(2))
    }

    fn texts(plan: &Plan) -> Vec<String> {
        let text = |change: &Change| format!("{:?} {}", change.at, change.what);
        plan.schedule().iter().map(text).collect()
    }

    #[test]
    fn a_flap_is_a_change_and_its_end_again_and_again() {
        let seconds = Duration::from_secs;
        let flap = Flap {
            fault: Fault::Carrier { uplink: PORT },
            from: seconds(5),
            until: Some(seconds(12)),
            down: seconds(1),
            up: seconds(3),
        };
        let change = Change { at: seconds(6), what: What::HealAll {} };
        let plan = Plan { flaps: vec![flap], changes: vec![change], ..plan() };
        let expected = [
            "5s carrier of A2 down",
            "6s heal everything",
            "6s carrier of A2 up",
            "9s carrier of A2 down",
            "10s carrier of A2 up",
        ];
        assert_eq!(texts(&plan), expected);
    }

    #[test]
    fn a_renumbering_adds_before_it_takes_away_if_there_is_an_overlap() {
        let seconds = Duration::from_secs;
        let renumbering = Renumbering {
            uplink: PORT,
            at: seconds(5),
            overlap: Duration::ZERO,
            every: Some(seconds(10)),
            until: Some(seconds(16)),
        };
        let (gone, new) = ("oldest prefix of A2 withdrawn", "another prefix on A2");
        let hard = Plan { renumberings: vec![renumbering], ..plan() };
        let expected = [format!("5s {gone}"), format!("5s {new}")];
        assert_eq!(texts(&hard)[..2], expected);
        let soft = Renumbering { overlap: seconds(3), every: None, ..renumbering };
        let soft = Plan { renumberings: vec![soft], ..plan() };
        assert_eq!(texts(&soft), [format!("5s {new}"), format!("8s {gone}")]);
    }
}
