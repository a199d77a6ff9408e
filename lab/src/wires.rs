//! Cables with delay, loss and a rate: threads that carry frames between veth pairs.

use std::collections::BTreeMap;

use anyhow::Context as _;
use moorline_link::{Impairment, Wire};

use crate::lab::Place;
use crate::netns::{Namespace, Worker};
use crate::topology::{Link, Topology};

/// The impaired cables of a network. The cables share a namespace, and each cable has a thread.
#[derive(Debug)]
pub(crate) struct Wires {
    namespace: Namespace,
    /// Impairments, by the index of the link in the topology.
    links: BTreeMap<usize, Impairment>,
    running: Vec<Worker<()>>,
}

impl Wires {
    /// Plans the wires of a topology.
    pub(crate) fn plan(topology: &Topology, namespace: Namespace) -> Self {
        let impaired = |(number, link): (usize, &Link)| Some((number, link.impairment?));
        let links = topology.links.iter().enumerate().filter_map(impaired).collect();
        Self { namespace, links, running: Vec::new() }
    }

    /// The namespace of the wires. `None` if the topology has no impaired cable.
    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        (!self.links.is_empty()).then_some(&self.namespace)
    }

    /// The near ends of the two pairs of a link, if it has a wire.
    pub(crate) fn ends_of(&self, link: usize) -> Option<[Place; 2]> {
        let place = |name| (name, self.namespace.clone());
        self.links.contains_key(&link).then(|| interfaces(link).map(place))
    }

    /// Disables IPv6, so that only the wires read the frames: the kernel makes no address and sends no answer.
    pub(crate) fn set_defaults(&self) -> anyhow::Result<()> {
        let Some(namespace) = self.namespace() else { return Ok(()) };
        namespace.configure_ipv6(&[("disable_ipv6", "1")])
    }

    /// Starts to carry frames. The interfaces must exist.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        for (&link, &impairment) in &self.links {
            let [left, right] = interfaces(link);
            self.namespace.ip_batch(&format!("link set {left} up\nlink set {right} up\n"))?;
            let wire = self.namespace.enter(|| {
                Wire::open([&left, &right], impairment).context("open the ends of a wire")
            })?;
            let run = move |stop: &_| wire.run(stop).context("carry frames");
            self.running.push(self.namespace.work("wire", run)?);
        }
        Ok(())
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        self.running.iter().for_each(Worker::stop);
        for wire in self.running.drain(..) {
            // A test sees a failed wire as missing frames.
            let _ = wire.join();
        }
    }
}

fn interfaces(link: usize) -> [String; 2] {
    ["l", "r"].map(|side| format!("w{link}{side}"))
}
