//! Ways to break a network, and to mend it.

use std::net::Ipv6Addr;
use std::time::Instant;

use anyhow::Context as _;

use crate::lab::{Lab, Place};
use crate::netns::{Namespace, Waiting};
use crate::topology::End;

/// Something that breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A router drops all that it should forward, and says nothing: no ICMP, no link event.
    Silent {
        /// Which router.
        router: String,
    },
    /// A router silently drops what comes in on one interface; the other direction works.
    OneWay {
        /// Which router.
        router: String,
        /// Where the packets come in.
        from: String,
    },
    /// A link loses its carrier, seen from a node: the other end is switched off.
    CarrierDown {
        /// The node that sees the carrier go.
        node: String,
        /// Its interface.
        interface: String,
    },
    /// A host loses an address, as when a prefix is withdrawn.
    AddressRemoved {
        /// The host.
        node: String,
        /// Its interface.
        interface: String,
        /// The address and its prefix length.
        address: Ipv6Addr,
    },
}

/// A failure that is in force.
#[derive(Debug)]
#[must_use = "a failure stays until it is healed"]
pub struct Fault {
    failure: Failure,
    /// Just before it began: what is measured from here is never flattered.
    pub at: Instant,
}

/// A failure that happens as soon as it is told to: its commands run already and wait for their input, so
/// that a busy machine starts no program between the decision and the failure.
#[derive(Debug)]
pub struct Armed {
    failure: Failure,
    commands: Vec<(Waiting, String)>,
}

impl Armed {
    /// Lets it happen.
    ///
    /// # Errors
    /// It is broken already.
    pub fn strike(self) -> anyhow::Result<Fault> {
        let Self { failure, commands } = self;
        let at = Instant::now();
        for (command, script) in commands {
            command.feed(&script).with_context(|| format!("bring about {failure:?}"))?;
        }
        Ok(Fault { failure, at })
    }
}

impl Lab {
    /// Breaks something.
    ///
    /// # Errors
    /// There is no such node or interface, or it is broken already.
    pub fn fail(&self, failure: Failure) -> anyhow::Result<Fault> {
        self.arm(failure)?.strike()
    }

    /// Prepares to break something.
    ///
    /// # Errors
    /// There is no such node or interface.
    pub fn arm(&self, failure: Failure) -> anyhow::Result<Armed> {
        let wait = |step: Step| Ok(((step.tool)(&step.namespace)?, step.breaks));
        let commands = self.steps(&failure).and_then(|steps| steps.into_iter().map(wait).collect());
        let commands = commands.with_context(|| format!("prepare {failure:?}"))?;
        Ok(Armed { failure, commands })
    }

    /// Mends what broke.
    ///
    /// # Errors
    /// What was broken is gone.
    pub fn heal(&self, fault: Fault) -> anyhow::Result<()> {
        let Fault { failure, .. } = fault;
        self.revert(&failure).with_context(|| format!("heal {failure:?}"))
    }

    fn steps(&self, failure: &Failure) -> anyhow::Result<Vec<Step>> {
        let drop_at = |router: &str, table: &str, condition: &str| -> anyhow::Result<_> {
            let (namespace, tool) = (self.namespace(router)?.clone(), Namespace::waiting_nft);
            let mends = format!("delete table ip6 {table}\n");
            Ok(vec![Step { namespace, tool, breaks: drop_rule(table, condition), mends }])
        };
        let tool = Namespace::waiting_ip;
        match failure {
            Failure::Silent { router } => drop_at(router, "cut", ""),
            // A table of its own for each failure, so that several can be in force in one router.
            Failure::OneWay { router, from } => {
                drop_at(router, &format!("cut_from_{from}"), &format!("iifname \"{from}\" "))
            }
            Failure::CarrierDown { node, interface } => {
                let end = |(interface, namespace): Place| {
                    let [breaks, mends] =
                        ["down", "up"].map(|state| format!("link set dev {interface} {state}\n"));
                    Step { namespace, tool, breaks, mends }
                };
                Ok(self.ends_seen_from(node, interface)?.into_iter().map(end).collect())
            }
            Failure::AddressRemoved { node, interface, address } => {
                let namespace = self.namespace(node)?.clone();
                let breaks = format!("addr del {address}/64 dev {interface}\n");
                let mends = format!("addr add {address}/64 dev {interface} nodad\n");
                Ok(vec![Step { namespace, tool, breaks, mends }])
            }
        }
    }

    fn revert(&self, failure: &Failure) -> anyhow::Result<()> {
        for step in self.steps(failure)? {
            (step.tool)(&step.namespace)?.feed(&step.mends)?;
        }
        match failure {
            Failure::Silent { .. } | Failure::OneWay { .. } => Ok(()),
            Failure::CarrierDown { node, interface } => {
                self.restore_routes(&self.link_at(node, interface)?.2.node)?;
                self.restore_routes(node)
            }
            Failure::AddressRemoved { node, .. } => self.restore_routes(node),
        }
    }

    /// What has to go down for a node to lose its carrier: the far end of the cable and, as a wire does
    /// not pass that on, the near end of the wire before it.
    fn ends_seen_from(&self, node: &str, interface: &str) -> anyhow::Result<Vec<Place>> {
        let (number, near, far) = self.link_at(node, interface)?;
        let is_left = self.topology().links[number].ends[0] == *near;
        let wire = self.wires().ends_of(number);
        let near = wire.map(|[left, right]| if is_left { left } else { right });
        let far = (far.interface.clone(), self.namespace(&far.node)?.clone());
        Ok(near.into_iter().chain([far]).collect())
    }

    fn link_at(&self, node: &str, interface: &str) -> anyhow::Result<(usize, &End, &End)> {
        let ends = self.topology().links.iter().enumerate().flat_map(|(number, link)| {
            let [left, right] = &link.ends;
            [(number, left, right), (number, right, left)]
        });
        let mut ends = ends.filter(|(_, near, _)| near.node == node && near.interface == interface);
        ends.next().with_context(|| format!("node {node} has no interface {interface}"))
    }
}

/// A command that waits, in a namespace, and what it is told to break and to mend.
struct Step {
    namespace: Namespace,
    tool: fn(&Namespace) -> anyhow::Result<Waiting>,
    breaks: String,
    mends: String,
}

fn drop_rule(table: &str, condition: &str) -> String {
    // "create" fails when the table exists: breaking twice is a mistake in a scenario.
    format!(
        "create table ip6 {table}\n\
         add chain ip6 {table} forward {{ type filter hook forward priority -10; }}\n\
         add rule ip6 {table} forward {condition}counter drop\n"
    )
}
