//! A running topology.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, process};

use anyhow::Context as _;

use crate::interrupt;
use crate::netns::{Namespace, SEGMENTATION, chain, feed};
use crate::sweep::{self, Guardian};
use crate::topology::{End, IngressFilter, Link, Node, Prefix, Role, Route, Topology};
use crate::wires::Wires;

/// A running network. Dropping a `Lab` removes the network.
#[derive(Debug)]
pub struct Lab {
    name: String,
    directory: PathBuf,
    topology: Topology,
    namespaces: BTreeMap<String, Namespace>,
    wires: Wires,
    _guardian: Guardian,
}

impl Lab {
    /// Builds a topology, after it has removed the remains of dead labs.
    ///
    /// # Errors
    /// The process is not root, a tool is missing, or the topology is inconsistent.
    pub fn build(topology: Topology) -> anyhow::Result<Self> {
        sweep::clean()?;
        let name = sweep::next_name();
        let directory = sweep::directory(&name);
        let namespaces: BTreeMap<_, _> = topology
            .nodes
            .iter()
            .map(|node| (node.name.clone(), Namespace::named(format!("{name}-{}", node.name))))
            .collect();
        let wires = Wires::plan(&topology, Namespace::named(format!("{name}-wires")));
        let all = namespaces.values().chain(wires.namespace());
        let names: Vec<_> = all.map(|namespace| namespace.name().to_owned()).collect();
        let guardian = Guardian::start(&directory, &names)?;
        let mut lab = Self { name, directory, topology, namespaces, wires, _guardian: guardian };
        lab.populate()
            .with_context(|| format!("build the network of process {}", process::id()))?;
        Ok(lab)
    }

    /// The name of the lab: the prefix of the names of its namespaces.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The topology that the lab was built from.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The namespace of a node.
    ///
    /// # Errors
    /// No node has this name.
    pub fn namespace(&self, node: &str) -> anyhow::Result<&Namespace> {
        self.namespaces.get(node).with_context(|| format!("no node {node}"))
    }

    /// A directory for the files of a node. The directory goes with the lab.
    ///
    /// # Errors
    /// The directory could not be made.
    pub fn directory(&self, node: &str) -> anyhow::Result<PathBuf> {
        let path = self.directory.join(node);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// The lab's directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.directory
    }

    /// The wires of the lab: threads that carry the impaired cables.
    pub(crate) fn wires(&self) -> &Wires {
        &self.wires
    }

    fn populate(&mut self) -> anyhow::Result<()> {
        let all = self.namespaces.values().chain(self.wires.namespace());
        self.run_ip(all.map(|namespace| Ok(format!("netns add {}\n", namespace.name()))))?;
        for node in &self.topology.nodes {
            self.set_defaults(node)?;
        }
        self.wires.set_defaults()?;
        let links = self.topology.links.iter().enumerate();
        self.run_ip(links.map(|(number, link)| self.link_line(number, link)))?;
        self.wires.start()?;
        for node in &self.topology.nodes {
            self.configure(node).with_context(|| format!("configure node {}", node.name))?;
        }
        self.await_links()
    }

    /// Waits until all links are up. The kernel takes up to a second to notice that the far end of a cable is up, and
    /// drops packets until then.
    fn await_links(&self) -> anyhow::Result<()> {
        for node in &self.topology.nodes {
            let namespace = self.namespace(&node.name)?;
            let ends = self.topology.links.iter().flat_map(|link| &link.ends);
            let count = ends.filter(|end| end.node == node.name).count();
            interrupt::wait_for("links", LINK_LIMIT, || {
                let links = namespace.ip(&["-o", "link", "show", "up"])?;
                Ok((links.matches(" state UP ").count() == count).then_some(()))
            })?;
        }
        Ok(())
    }

    fn run_ip(&self, lines: impl Iterator<Item = anyhow::Result<String>>) -> anyhow::Result<()> {
        let lines: String = lines.collect::<anyhow::Result<_>>()?;
        feed(Command::new("ip").args(["-batch", "-"]), &lines)
    }

    /// Sets the defaults that interfaces copy when they appear.
    fn set_defaults(&self, node: &Node) -> anyhow::Result<()> {
        let namespace = self.namespace(&node.name)?;
        let forwarding = match node.role {
            // The defaults of the kernel.
            Role::Untuned => return Ok(()),
            Role::Host => "0",
            Role::Router => "1",
        };
        // Addresses are usable at once, and stay while a link is down.
        namespace.configure_ipv6(&[
            ("accept_dad", "0"),
            ("dad_transmits", "0"),
            ("accept_ra", "0"),
            ("keep_addr_on_down", "1"),
            ("forwarding", forwarding),
        ])
    }

    fn link_line(&self, number: usize, link: &Link) -> anyhow::Result<String> {
        let [left, right] = &link.ends;
        let near = |end: &End| -> anyhow::Result<Place> {
            Ok((end.interface.clone(), self.namespace(&end.node)?.clone()))
        };
        let (left, right) = (near(left)?, near(right)?);
        let pairs = match self.wires.ends_of(number) {
            None => vec![(left, right)],
            Some([one, other]) => vec![(left, one), (right, other)],
        };
        // If both ends have the same index, the kernel reports a cut late: up to a second after the cut, if other links
        // of the machine have changed recently.
        let mut index = FIRST_INDEX + 4 * number;
        let line = |((left, from), (right, to)): &(Place, Place)| {
            let (from, to) = (from.name(), to.name());
            index += 2;
            let other = index + 1;
            format!(
                "link add name {left} index {index} netns {from} type veth \
                 peer name {right} index {other} netns {to}\n"
            )
        };
        Ok(pairs.iter().map(line).collect())
    }

    fn configure(&self, node: &Node) -> anyhow::Result<()> {
        let namespace = self.namespace(&node.name)?;
        let mut lines = String::from("link set lo up\n");
        let ends = |link: &Link| link.ends.clone().into_iter().filter(|end| end.node == node.name);
        for End { interface, addresses, .. } in self.topology.links.iter().flat_map(ends) {
            for address in addresses {
                writeln!(lines, "addr add {address}/64 dev {interface} nodad")?;
            }
            writeln!(lines, "link set dev {interface} up")?;
        }
        namespace.ip_batch(&lines)?;
        let counting = self.topology.links.iter().filter(|link| link.counts_packets());
        for End { interface, .. } in counting.flat_map(ends) {
            namespace.switch_off(&interface, &SEGMENTATION)?;
        }
        self.restore_routes(&node.name)?;
        let rules: Vec<_> = node.ingress_filters.iter().map(IngressFilter::rule).collect();
        if rules.is_empty() {
            return Ok(());
        }
        namespace.nft(&chain("ip6 bcp38", "filter hook forward priority 0", rules))
    }

    /// Adds the static routes of a node again. The kernel removes the routes of a link that goes down.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn restore_routes(&self, node: &str) -> anyhow::Result<()> {
        let mut lines = String::new();
        for route in self.topology.nodes.iter().filter(|n| n.name == node).flat_map(|n| &n.routes) {
            let Route { destination, via, interface, metric } = route;
            let via = via.map(|via| format!("via {via} ")).unwrap_or_default();
            writeln!(lines, "route replace {destination} {via}dev {interface} metric {metric}")?;
        }
        self.namespace(node)?.ip_batch(&lines)
    }
}

/// An interface and its namespace.
pub(crate) type Place = (String, Namespace);

impl IngressFilter {
    /// The nftables rule that enforces the filter.
    fn rule(&self) -> String {
        let sources = self.sources.iter().map(Prefix::to_string).collect::<Vec<_>>().join(", ");
        format!("iifname \"{}\" ip6 saddr != {{ {sources} }} drop", self.interface)
    }
}

const LINK_LIMIT: Duration = Duration::from_secs(5);
/// First interface index of cables. The kernel gives later interfaces, such as those of Moorline, lower indices.
const FIRST_INDEX: usize = 1000;
