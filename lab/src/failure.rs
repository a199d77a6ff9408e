//! Ways to break a network, and to mend it.

use std::time::Instant;

use anyhow::Context as _;

use crate::lab::{Lab, Place};
use crate::netns::Waiting;
use crate::topology::{End, Prefix};

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
        address: Prefix,
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
        let commands = self.prepare(&failure).with_context(|| format!("prepare {failure:?}"))?;
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

    fn prepare(&self, failure: &Failure) -> anyhow::Result<Vec<(Waiting, String)>> {
        let drop_at = |router: &String, condition: &str| -> anyhow::Result<_> {
            Ok(vec![(self.namespace(router)?.waiting_nft()?, drop_rule(failure, condition))])
        };
        match failure {
            Failure::Silent { router } => drop_at(router, ""),
            Failure::OneWay { router, from } => drop_at(router, &format!("iifname \"{from}\" ")),
            Failure::CarrierDown { node, interface } => {
                let down = |(interface, namespace): Place| {
                    Ok((namespace.waiting_ip()?, format!("link set dev {interface} down\n")))
                };
                self.ends_seen_from(node, interface)?.into_iter().map(down).collect()
            }
            Failure::AddressRemoved { node, interface, address } => {
                let script = format!("addr del {address} dev {interface}\n");
                Ok(vec![(self.namespace(node)?.waiting_ip()?, script)])
            }
        }
    }

    fn revert(&self, failure: &Failure) -> anyhow::Result<()> {
        match failure {
            Failure::Silent { router } | Failure::OneWay { router, .. } => {
                self.namespace(router)?.nft(&format!("delete table ip6 {}\n", table_name(failure)))
            }
            Failure::CarrierDown { node, interface } => {
                for (interface, namespace) in self.ends_seen_from(node, interface)? {
                    namespace.ip(&["link", "set", "dev", &interface, "up"])?;
                }
                self.restore_routes(&self.link_at(node, interface)?.2.node)?;
                self.restore_routes(node)
            }
            Failure::AddressRemoved { node, interface, address } => {
                let address = address.to_string();
                self.namespace(node)?.ip(&["addr", "add", &address, "dev", interface, "nodad"])?;
                self.restore_routes(node)
            }
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

/// A table of its own for each failure, so that several can be in force in one router.
fn drop_rule(failure: &Failure, condition: &str) -> String {
    let table = table_name(failure);
    // "create" fails when the table exists: breaking twice is a mistake in a scenario.
    format!(
        "create table ip6 {table}\n\
         add chain ip6 {table} forward {{ type filter hook forward priority -10; }}\n\
         add rule ip6 {table} forward {condition}counter drop\n"
    )
}

fn table_name(failure: &Failure) -> String {
    match failure {
        Failure::OneWay { from, .. } => format!("cut_from_{from}"),
        Failure::Silent { .. } | Failure::CarrierDown { .. } | Failure::AddressRemoved { .. } => {
            "cut".into()
        }
    }
}
