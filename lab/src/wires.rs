//! Cables with delay, loss and a rate: threads that carry frames from one veth pair to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use moorline_link::{Impairment, Wire};

use crate::lab::Place;
use crate::netns::{Namespace, Task};
use crate::topology::{LinkEmulation, Topology};

/// The impaired cables of a network: a namespace of their own, and a thread for each.
#[derive(Debug)]
pub(crate) struct Wires {
    namespace: Namespace,
    plans: Vec<Plan>,
    running: Vec<Task<()>>,
    stop: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct Plan {
    /// Number of the link in the topology.
    link: usize,
    impairment: Impairment,
}

impl Wires {
    /// Those that a topology has.
    pub(crate) fn plan(topology: &Topology, namespace: Namespace) -> Self {
        let plan = |(link, emulation)| match emulation {
            LinkEmulation::Direct => None,
            LinkEmulation::Impaired(impairment) => Some(Plan { link, impairment }),
        };
        let links = topology.links.iter().map(|link| link.emulation).enumerate();
        let plans = links.filter_map(plan).collect();
        Self { namespace, plans, running: Vec::new(), stop: Arc::default() }
    }

    /// Where they are; none if there are none.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        (!self.plans.is_empty()).then_some(&self.namespace)
    }

    /// The near ends of the two pairs of a link.
    pub(crate) fn ends_of(&self, link: usize) -> Option<[Place; 2]> {
        let plan = self.plans.iter().find(|plan| plan.link == link)?;
        Some(plan.interfaces().map(|name| (name, self.namespace.clone())))
    }

    /// Nobody but the wires is to see what comes: no addresses, no answers.
    pub(crate) fn set_defaults(&self) -> anyhow::Result<()> {
        let Some(namespace) = self.namespace() else { return Ok(()) };
        namespace.configure_ipv6(&[("disable_ipv6", "1")])
    }

    /// Starts to carry; the interfaces must be there.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        for plan in &self.plans {
            let [left, right] = plan.interfaces();
            self.namespace.ip_batch(&format!("link set {left} up\nlink set {right} up\n"))?;
            let (impairment, stop) = (plan.impairment, Arc::clone(&self.stop));
            let wire = self.namespace.enter(|| {
                Wire::open([&left, &right], impairment).context("open the ends of a wire")
            })?;
            let run = move || wire.run(&stop).context("carry frames");
            self.running.push(self.namespace.spawn("wire", run)?);
        }
        Ok(())
    }

    /// Where the cable at an interface of a node enters its wire, if it has one.
    pub(crate) fn near_end(
        &self,
        topology: &Topology,
        node: &str,
        interface: &str,
    ) -> Option<(&Namespace, String)> {
        let ends = self
            .plans
            .iter()
            .flat_map(|plan| topology.links[plan.link].ends.iter().zip(plan.interfaces()));
        let mut ends = ends.filter(|(end, _)| end.node == node && end.interface == interface);
        ends.next().map(|(_, near)| (&self.namespace, near))
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for wire in self.running.drain(..) {
            // What went wrong has been seen as frames that did not come.
            let _ = wire.join();
        }
    }
}

impl Plan {
    fn interfaces(&self) -> [String; 2] {
        ["l", "r"].map(|side| format!("w{}{side}", self.link))
    }
}
