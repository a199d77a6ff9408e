//! Between the file and the plan, part by part.

use std::time::Duration;

use moorline_contexts::Profile;

use super::shape::{
    AddressesName, AttackPart, ChangePart, File, FlapPart, HostPart, KindName, LinkPart,
    ProfileName, RenumberingPart, Span, Text, TrafficPart, UplinkPart,
};
use super::{PlanError, at};
use crate::plan::{
    Addresses, Attack, Chance, HostPlan, Kind, Link, Pace, Plan, Renumbering, Uplink, Workload,
};

impl File {
    pub(super) fn plan(&self) -> Result<Plan, PlanError> {
        let duration = span(self.duration).unwrap_or(DEFAULT_DURATION);
        Ok(Plan {
            hosts: each("host", &self.host, HostPart::plan)?,
            workloads: each("traffic", &self.traffic, TrafficPart::plan)?,
            changes: each("change", &self.change, ChangePart::plan)?,
            flaps: each("flap", &self.flap, |part| part.plan(duration))?,
            renumberings: each("renumbering", &self.renumbering, |part| Ok(part.plan(duration)))?,
            attack: self.attack.as_ref().map(AttackPart::plan),
            reverts_backoff: self.reverts_backoff,
            kernel_failures: self.kernel_failures.map_or(Chance(0), |Text(chance)| chance),
            kills_amid_effects: self.kills_amid_effects,
            duration,
            is_full_length: self.full_length,
        })
    }

    pub(super) fn of(plan: &Plan) -> Self {
        Self {
            duration: Some(Text(Span(plan.duration))),
            full_length: plan.is_full_length,
            reverts_backoff: plan.reverts_backoff,
            kernel_failures: (plan.kernel_failures.0 > 0).then_some(Text(plan.kernel_failures)),
            kills_amid_effects: plan.kills_amid_effects,
            attack: plan.attack.as_ref().map(AttackPart::of),
            host: plan.hosts.iter().map(HostPart::of).collect(),
            traffic: plan.workloads.iter().map(TrafficPart::of).collect(),
            change: plan.changes.iter().map(ChangePart::of).collect(),
            flap: plan.flaps.iter().map(FlapPart::of).collect(),
            renumbering: plan.renumberings.iter().map(RenumberingPart::of).collect(),
        }
    }
}

/// The problem of a part, in words.
pub(super) type Parsed<T> = Result<T, String>;

fn each<P, T>(
    what: &str,
    parts: &[P],
    plan: impl Fn(&P) -> Parsed<T>,
) -> Result<Vec<T>, PlanError> {
    let numbered = (1..).zip(parts);
    numbered.map(|(number, part)| plan(part).map_err(at(what, number))).collect()
}

impl HostPart {
    fn plan(&self) -> Parsed<HostPlan> {
        let default = HostPlan::default();
        Ok(HostPlan {
            moorline: self.moorline,
            ilnp: self.ilnp,
            initiates: self.initiates,
            addresses: match self.addresses {
                AddressesName::Hba => Addresses::Hba,
                AddressesName::Cga => Addresses::Cga,
                AddressesName::HbaCompatible => Addresses::HbaCompatible,
                AddressesName::Plain => Addresses::Plain,
            },
            send_timeout: span(self.send_timeout).unwrap_or(default.send_timeout),
            profile: match self.profile {
                ProfileName::Default => Profile::default(),
                ProfileName::Rfc => Profile::RFC,
            },
            report_delay: span(self.report_delay).unwrap_or_default(),
            uplinks: self.uplink.iter().map(UplinkPart::plan).collect::<Parsed<_>>()?,
        })
    }

    fn of(host: &HostPlan) -> Self {
        Self {
            moorline: host.moorline,
            ilnp: host.ilnp,
            initiates: host.initiates,
            addresses: match host.addresses {
                Addresses::Hba => AddressesName::Hba,
                Addresses::Cga => AddressesName::Cga,
                Addresses::HbaCompatible => AddressesName::HbaCompatible,
                Addresses::Plain => AddressesName::Plain,
            },
            send_timeout: Some(Text(Span(host.send_timeout))),
            profile: if host.profile == Profile::RFC {
                ProfileName::Rfc
            } else {
                ProfileName::Default
            },
            report_delay: text_unless_zero(host.report_delay),
            uplink: host.uplinks.iter().map(UplinkPart::of).collect(),
        }
    }
}

impl UplinkPart {
    fn plan(&self) -> Parsed<Uplink> {
        let both = LinkPart {
            delay: self.delay,
            jitter: self.jitter,
            rate: self.rate,
            queue: self.queue,
            loss: self.loss,
            duplication: self.duplication,
            reordering: self.reordering,
            replay: self.replay,
        };
        let link = |own: &Option<LinkPart>| both.overridden(own.as_ref()).plan();
        let isp = self.isp.checked_sub(1).ok_or("ISPs are numbered from 1 on")?;
        Ok(Uplink { isp, out: link(&self.out), inbound: link(&self.inbound) })
    }

    fn of(uplink: &Uplink) -> Self {
        let is_symmetric = uplink.out == uplink.inbound;
        let both = if is_symmetric { LinkPart::of(&uplink.out) } else { LinkPart::default() };
        let own = |link| (!is_symmetric).then(|| LinkPart::of(link));
        Self {
            isp: uplink.isp + 1,
            delay: both.delay,
            jitter: both.jitter,
            rate: both.rate,
            queue: both.queue,
            loss: both.loss,
            duplication: both.duplication,
            reordering: both.reordering,
            replay: both.replay,
            out: own(&uplink.out),
            inbound: own(&uplink.inbound),
        }
    }
}

impl LinkPart {
    fn overridden(&self, own: Option<&Self>) -> Self {
        let Some(own) = own else { return self.clone() };
        Self {
            delay: own.delay.or(self.delay),
            jitter: own.jitter.or(self.jitter),
            rate: own.rate.or(self.rate),
            queue: own.queue.or(self.queue),
            loss: own.loss.or(self.loss),
            duplication: own.duplication.or(self.duplication),
            reordering: own.reordering.or(self.reordering),
            replay: own.replay.or(self.replay),
        }
    }

    fn plan(&self) -> Link {
        let chance = |chance: Option<Text<Chance>>| chance.map_or(Chance(0), |Text(chance)| chance);
        Link {
            delay: span(self.delay).unwrap_or(DEFAULT_DELAY),
            jitter: span(self.jitter).unwrap_or_default(),
            rate: self.rate.unwrap_or(0),
            queue: span(self.queue).unwrap_or_default(),
            loss: chance(self.loss),
            duplication: chance(self.duplication),
            reordering: chance(self.reordering),
            replay: chance(self.replay),
        }
    }

    fn of(link: &Link) -> Self {
        let text = |chance: Chance| (chance.0 > 0).then_some(Text(chance));
        Self {
            delay: Some(Text(Span(link.delay))),
            jitter: text_unless_zero(link.jitter),
            rate: (link.rate > 0).then_some(link.rate),
            queue: text_unless_zero(link.queue),
            loss: text(link.loss),
            duplication: text(link.duplication),
            reordering: text(link.reordering),
            replay: text(link.replay),
        }
    }
}

impl TrafficPart {
    fn plan(&self) -> Parsed<Workload> {
        let pace = match (self.octets, self.interval) {
            (Some(octets), Some(Text(Span(interval)))) => Some(Pace { octets, interval }),
            (None, None) => None,
            _ => return Err("`octets` and `interval` go together".into()),
        };
        let needed = || pace.ok_or("needs `octets` and `interval`");
        let kind = match self.kind {
            KindName::Stream => Kind::Stream { bytes: self.bytes.unwrap_or(u64::MAX), pace },
            KindName::Requests => Kind::Requests { pace: needed()? },
            KindName::Datagrams => {
                Kind::Datagrams { pace: needed()?, both_ways: self.both_ways.unwrap_or(false) }
            }
        };
        if self.bytes.is_some() && self.kind != KindName::Stream {
            return Err("`bytes` is for streams".into());
        }
        if self.both_ways.is_some() && self.kind != KindName::Datagrams {
            return Err("`both-ways` is for datagrams".into());
        }
        Ok(Workload {
            from: self.from.0,
            to: self.to.0,
            start: span(self.start).unwrap_or_default(),
            until: span(self.until),
            kind,
        })
    }

    fn of(workload: &Workload) -> Self {
        let (kind, bytes, pace, both_ways) = match workload.kind {
            Kind::Stream { bytes: u64::MAX, pace } => (KindName::Stream, None, pace, None),
            Kind::Stream { bytes, pace } => (KindName::Stream, Some(bytes), pace, None),
            Kind::Requests { pace } => (KindName::Requests, None, Some(pace), None),
            Kind::Datagrams { pace, both_ways } => {
                (KindName::Datagrams, None, Some(pace), Some(both_ways))
            }
        };
        Self {
            from: Text(workload.from),
            to: Text(workload.to),
            kind,
            start: text_unless_zero(workload.start),
            until: workload.until.map(|until| Text(Span(until))),
            bytes,
            octets: pace.map(|pace| pace.octets),
            interval: pace.map(|pace| Text(Span(pace.interval))),
            both_ways,
        }
    }
}

impl RenumberingPart {
    fn plan(&self, end: Duration) -> Renumbering {
        Renumbering {
            port: self.uplink.0,
            at: self.at.0.0,
            overlap: span(self.overlap).unwrap_or_default(),
            every: span(self.every),
            until: span(self.until).unwrap_or(end),
        }
    }

    fn of(renumbering: &Renumbering) -> Self {
        Self {
            uplink: Text(renumbering.port),
            at: Text(Span(renumbering.at)),
            overlap: text_unless_zero(renumbering.overlap),
            every: renumbering.every.map(|every| Text(Span(every))),
            until: Some(Text(Span(renumbering.until))),
        }
    }
}

impl AttackPart {
    fn plan(&self) -> Attack {
        Attack { interval: self.interval.0.0, overhears: self.overhears }
    }

    fn of(attack: &Attack) -> Self {
        Self { interval: Text(Span(attack.interval)), overhears: attack.overhears }
    }
}

pub(super) fn span(text: Option<Text<Span>>) -> Option<Duration> {
    text.map(|Text(Span(span))| span)
}

fn text_unless_zero(span: Duration) -> Option<Text<Span>> {
    (!span.is_zero()).then_some(Text(Span(span)))
}

/// Of a plan that names none.
const DEFAULT_DURATION: Duration = Duration::from_secs(600);
/// Of an uplink that names none.
const DEFAULT_DELAY: Duration = Duration::from_millis(5);
